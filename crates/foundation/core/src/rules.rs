//! The bugs that can be planted into machines, so that tests and the simulator can prove that they would be noticed.

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

/// Declares the bugs that can be planted into the machines of a crate: `Name = "B1", "what goes wrong, in a sentence";`, by ascending ids.
/// There are then a `Plant` and the `Rules` of the crate.
#[macro_export]
macro_rules! plants {
    ($($name:ident = $id:literal, $what:literal;)+) => {
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

            /// The id, as in the protocol note.
            pub const fn id(self) -> &'static str {
                match self {
                    $(Plant::$name => $id,)+
                }
            }

            /// What goes wrong, in a sentence.
            pub const fn what(self) -> &'static str {
                match self {
                    $(Plant::$name => $what,)+
                }
            }
        }

        /// The rules that the machines of this crate follow.
        pub type Rules = $crate::rules::Rules<Plant>;

        #[cfg(test)]
        mod tests {
            use super::Plant;

            #[test]
            fn every_plant_has_an_id_of_its_own_and_they_ascend() {
                let number = |plant: &Plant| plant.id()[1..].parse::<u32>().expect("a letter and a number");
                assert!(Plant::ALL.is_sorted_by(|one, other| number(one) < number(other)));
            }
        }
    };
}
