//! The types that are numbers on the wire.

use std::time::Duration;

use quorate_core::command::{Class, End, Milestone};
use quorate_core::comparison::{Rival, System};
use quorate_core::lives::Incarnation;
use quorate_core::log::Position;
use quorate_core::topology::{Decisions, Durability, Grants, Isolation, SerialOrder, SpeculationVariant};
use quorate_core::{
    Ballot, ClientId, ClockTime, Epoch, KeyspaceId, NodeId, ReplicaIndex, ShardId, SiteId, View,
};

use crate::schema::Number;

/// Something that is a number on the wire. Zero is its default.
pub trait Scalar: Sized {
    /// The meaning of the numbers.
    const NUMBER: Number;

    /// The number.
    fn to_u64(&self) -> u64;
    /// None if the number means nothing here.
    fn from_u64(number: u64) -> Option<Self>;
}

macro_rules! scalar {
    ($($integer:ty),*; $($id:ident($inner:ty)),*) => {
        $(impl Scalar for $integer {
            const NUMBER: Number = Number::up_to(<$integer>::MAX as u64);

            #[inline]
            fn to_u64(&self) -> u64 {
                u64::from(*self)
            }

            #[inline]
            fn from_u64(number: u64) -> Option<Self> {
                <$integer>::try_from(number).ok()
            }
        })*
        $(impl Scalar for $id {
            const NUMBER: Number = Number::up_to(<$inner>::MAX as u64);

            #[inline]
            fn to_u64(&self) -> u64 {
                u64::from(self.0)
            }

            #[inline]
            fn from_u64(number: u64) -> Option<Self> {
                <$inner>::try_from(number).ok().map($id)
            }
        })*
    };
}

scalar!(u8, u16, u32, u64;
    SiteId(u16), NodeId(u16), KeyspaceId(u32), ShardId(u32), ReplicaIndex(u8), View(u64), Ballot(u32), Epoch(u32), ClientId(u64), Position(u64),
    Incarnation(u64));

/// The sign is the lowest bit, so that numbers near zero are short.
impl Scalar for i64 {
    const NUMBER: Number = Number { proto: "sint64", ..Number::up_to(u64::MAX) };

    fn to_u64(&self) -> u64 {
        ((self << 1) ^ (self >> 63)) as u64
    }

    fn from_u64(number: u64) -> Option<Self> {
        Some((number >> 1) as i64 ^ -((number & 1) as i64))
    }
}

/// As [`i64`].
impl Scalar for i32 {
    const NUMBER: Number = Number { proto: "sint32", ..Number::up_to(u32::MAX as u64) };

    fn to_u64(&self) -> u64 {
        i64::from(*self).to_u64()
    }

    fn from_u64(number: u64) -> Option<Self> {
        i64::from_u64(number).and_then(|number| i32::try_from(number).ok())
    }
}

impl Scalar for bool {
    const NUMBER: Number = Number { proto: "bool", ..Number::up_to(1) };

    fn to_u64(&self) -> u64 {
        u64::from(*self)
    }

    fn from_u64(number: u64) -> Option<Self> {
        Some(number != 0)
    }
}

/// Microseconds since the Unix epoch.
impl Scalar for ClockTime {
    const NUMBER: Number = Number::in_unit("microseconds since 1970");

    fn to_u64(&self) -> u64 {
        self.as_micros()
    }

    fn from_u64(number: u64) -> Option<Self> {
        Some(ClockTime::from_micros(number))
    }
}

/// Microseconds.
impl Scalar for Duration {
    const NUMBER: Number = Number::in_unit("microseconds");

    fn to_u64(&self) -> u64 {
        u64::try_from(self.as_micros()).unwrap_or(u64::MAX)
    }

    fn from_u64(number: u64) -> Option<Self> {
        Some(Duration::from_micros(number))
    }
}

/// An enum whose values are numbers from one: `choices!(Type { 1 "name" [Type::Value], … })`. Zero is not used, so that a
/// value that is missing is refused; or it is taken for the one behind `else`, where earlier versions had none to write.
#[macro_export]
macro_rules! choices {
    ($type:ty { $($number:literal $name:literal [$($value:tt)*]),* $(,)? } $(else $missing:expr)?) => {
        impl $crate::scalar::Scalar for $type {
            const NUMBER: $crate::schema::Number = $crate::schema::Number::choice(&[$($name),*]);

            fn to_u64(&self) -> u64 {
                match self {
                    $($($value)* => $number,)*
                }
            }

            fn from_u64(number: u64) -> Option<Self> {
                match number {
                    $($number => Some($($value)*),)*
                    $(0 => Some($missing),)?
                    _ => None,
                }
            }
        }
    };
}

choices!(Isolation {
    1 "strict" [Isolation::Strict],
    2 "serializable" [Isolation::Serializable],
    3 "parallel-snapshot" [Isolation::ParallelSnapshot],
    4 "snapshot" [Isolation::Snapshot],
});

choices!(Decisions {
    1 "site" [Decisions::Site],
    2 "across-sites" [Decisions::AcrossSites],
} else Decisions::Site);

choices!(Grants {
    1 "all" [Grants::All],
    2 "leader" [Grants::Leader],
} else Grants::All);

choices!(SerialOrder {
    1 "real-time" [SerialOrder::RealTime],
    2 "timestamps" [SerialOrder::Timestamps],
});

choices!(SpeculationVariant {
    1 "clock-si" [SpeculationVariant::ClockSi],
    2 "planet" [SpeculationVariant::Planet],
    3 "str-internal" [SpeculationVariant::StrInternal],
    4 "str-external" [SpeculationVariant::StrExternal],
});

choices!(Class {
    1 "read-only" [Class::ReadOnly],
    2 "independent" [Class::Independent],
    3 "coordinated" [Class::Coordinated],
});

choices!(End {
    1 "least" [End::Least],
    2 "greatest" [End::Greatest],
});

choices!(Milestone {
    1 "durable" [Milestone::Durable],
    2 "visible" [Milestone::Visible],
});

choices!(Durability {
    1 "sync" [Durability::Sync],
    2 "memory" [Durability::Memory],
});

choices!(Rival {
    1 "txn-lock" [Rival::OnLog(System::TxnLock)],
    2 "txn-occ" [Rival::OnLog(System::TxnOcc)],
    3 "span-lock" [Rival::OnLog(System::SpanLock)],
    4 "span-occ" [Rival::OnLog(System::SpanOcc)],
    5 "sinfonia" [Rival::OnLog(System::Sinfonia)],
    6 "qwstore" [Rival::QwStore],
});
