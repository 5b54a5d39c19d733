//! What is a number on the wire.

use std::time::Duration;

use quorate_core::comparison::{Rival, System};
use quorate_core::lives::Incarnation;
use quorate_core::log::Position;
use quorate_core::topology::{Durability, Isolation};
use quorate_core::{
    Ballot, ClientId, ClockTime, Epoch, KeyspaceId, NodeId, ReplicaIndex, ShardId, SiteId, View,
};

/// Something that is a number on the wire. Zero is its default.
pub trait Scalar: Sized {
    /// The number.
    fn to_u64(&self) -> u64;
    /// None if the number means nothing here.
    fn from_u64(number: u64) -> Option<Self>;
}

macro_rules! scalar {
    ($($integer:ty),*; $($id:ident($inner:ty)),*) => {
        $(impl Scalar for $integer {
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

impl Scalar for bool {
    fn to_u64(&self) -> u64 {
        u64::from(*self)
    }

    fn from_u64(number: u64) -> Option<Self> {
        Some(number != 0)
    }
}

/// Microseconds since the Unix epoch.
impl Scalar for ClockTime {
    fn to_u64(&self) -> u64 {
        self.as_micros()
    }

    fn from_u64(number: u64) -> Option<Self> {
        Some(ClockTime::from_micros(number))
    }
}

/// Microseconds.
impl Scalar for Duration {
    fn to_u64(&self) -> u64 {
        u64::try_from(self.as_micros()).unwrap_or(u64::MAX)
    }

    fn from_u64(number: u64) -> Option<Self> {
        Some(Duration::from_micros(number))
    }
}

/// Zero is not used: a missing isolation is refused.
impl Scalar for Isolation {
    fn to_u64(&self) -> u64 {
        match self {
            Isolation::Strict => 1,
            Isolation::Serializable => 2,
        }
    }

    fn from_u64(number: u64) -> Option<Self> {
        Isolation::ALL.into_iter().find(|isolation| isolation.to_u64() == number)
    }
}

/// Zero is not used: a missing durability is refused.
impl Scalar for Durability {
    fn to_u64(&self) -> u64 {
        match self {
            Durability::Sync => 1,
            Durability::Memory => 2,
        }
    }

    fn from_u64(number: u64) -> Option<Self> {
        [Durability::Sync, Durability::Memory].into_iter().find(|durability| durability.to_u64() == number)
    }
}

/// Zero is not used: a missing system is refused.
impl Scalar for Rival {
    fn to_u64(&self) -> u64 {
        match self {
            Rival::OnLog(System::TxnLock) => 1,
            Rival::OnLog(System::TxnOcc) => 2,
            Rival::OnLog(System::SpanLock) => 3,
            Rival::OnLog(System::SpanOcc) => 4,
            Rival::OnLog(System::Sinfonia) => 5,
            Rival::QwStore => 6,
        }
    }

    fn from_u64(number: u64) -> Option<Self> {
        Rival::ALL.into_iter().find(|rival| rival.to_u64() == number)
    }
}
