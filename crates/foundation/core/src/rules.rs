//! The bugs that can be planted into machines, so that tests and the simulator can prove that they would be noticed.
//!
//! Each crate lists its own with [`plants!`](crate::plants), and says there how each is hunted.

use std::fmt::Debug;

/// How a planted bug is made to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hunt {
    /// It takes more coincidences than few seeds have. Golden scripts play it, or tests of the rule itself.
    Scripted,
    /// Few seeds of the simulator reach it.
    Seeds {
        /// The system in which they do, by name, where the crate's machines are part of several.
        system: Option<&'static str>,
        /// The faults under which it shows soonest.
        faults: Suited,
    },
}

/// Faults that suit a hunt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suited {
    /// All of them together.
    All,
    /// None.
    None,
    /// These, by the names that the simulator gives them.
    Named(&'static [&'static str]),
}

impl Hunt {
    /// All faults together find it soon enough.
    pub const ALL_FAULTS: Hunt = Hunt::Seeds { system: None, faults: Suited::All };

    /// It shows where nothing else goes wrong.
    pub const NO_FAULTS: Hunt = Hunt::Seeds { system: None, faults: Suited::None };

    /// These faults show it soonest.
    pub const fn under(faults: &'static [&'static str]) -> Hunt {
        Hunt::Seeds { system: None, faults: Suited::Named(faults) }
    }

    /// The same, in this system.
    #[must_use]
    pub const fn of(self, name: &'static str) -> Hunt {
        match self {
            Hunt::Scripted => Hunt::Scripted,
            Hunt::Seeds { faults, .. } => Hunt::Seeds { system: Some(name), faults },
        }
    }
}

/// A known mistake, as it is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bug {
    /// The id, as in the protocol note.
    pub id: &'static str,
    /// The section of the paper that the broken rule comes from, or whose place it takes; empty for a rule of our own.
    pub section: &'static str,
    /// The consequence, in a sentence.
    pub what: &'static str,
    /// How it is made to show.
    pub hunt: Hunt,
}

/// The mistakes of one crate.
pub trait Plants: Copy + PartialEq + Debug + 'static {
    /// Every plant there is.
    const LIST: &'static [Self];

    /// The mistake.
    fn bug(self) -> Bug;

    /// The plant with this id.
    fn with_id(id: &str) -> Option<Self> {
        Self::LIST.iter().copied().find(|plant| plant.bug().id == id)
    }
}

/// The rules that a machine follows: all of them, or all but the one that a planted bug breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules<P> {
    plant: Option<P>,
}

impl<P: Copy + PartialEq> Rules<P> {
    /// The rules that keep the promises.
    pub const SOUND: Rules<P> = Rules { plant: None };

    /// The rules with a bug. For tests and the simulator only.
    pub const fn planted(plant: P) -> Self {
        Rules { plant: Some(plant) }
    }

    /// True if this bug is planted.
    pub fn has(self, plant: P) -> bool {
        self.plant == Some(plant)
    }
}

impl<P: Plants> Rules<P> {
    /// The rules with the bug that has this id, if there is one.
    pub fn with_id(id: Option<&str>) -> Self {
        Rules { plant: id.and_then(P::with_id) }
    }
}

/// Declares the [`Plant`](Plants)s of a crate, by ascending ids:
/// `Name = "B1", "section", hunt, "what goes wrong, in a sentence";`, where `hunt` is a [`Hunt`].
#[macro_export]
macro_rules! plants {
    ($($name:ident = $id:literal, $section:literal, $hunt:expr, $what:literal;)+) => {
        /// A known mistake.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Plant {
            $(
                #[doc = concat!($id, ": ", $what, ".")]
                $name,
            )+
        }

        impl Plant {
            /// Every plant there is.
            pub const ALL: [Plant; [$($id),+].len()] = [$(Plant::$name),+];

            /// The mistake, as it is listed.
            pub const fn bug(self) -> $crate::rules::Bug {
                match self {
                    $(Plant::$name => {
                        $crate::rules::Bug { id: $id, section: $section, what: $what, hunt: $hunt }
                    })+
                }
            }

            /// The id, as in the protocol note.
            pub const fn id(self) -> &'static str {
                self.bug().id
            }
        }

        impl $crate::rules::Plants for Plant {
            const LIST: &'static [Plant] = &Plant::ALL;

            fn bug(self) -> $crate::rules::Bug {
                Plant::bug(self)
            }
        }

        #[cfg(test)]
        mod listed {
            use super::Plant;

            #[test]
            fn every_plant_has_an_id_of_its_own_and_they_ascend() {
                let number = |plant: &Plant| plant.id()[1..].parse::<u32>().expect("a letter and a number");
                assert!(Plant::ALL.is_sorted_by(|one, other| number(one) < number(other)));
            }
        }
    };
}
