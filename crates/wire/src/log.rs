//! The field numbers of the replicated log, whatever stands on it.
//!
//! Entries, pages and messages of a machine on the log are the machine's: [`on_log!`] declares the log's own types around
//! them, once for each machine.

use quorate_core::{Epoch, ReplicaIndex};
use quorate_log::message::Offer;
use quorate_log::{Beginning, Membership, Run, Shape};

use crate::codec::field::{Map, Nested, Packed, Repeated, Varint};
use crate::codec::table::{Through, message, pair, through};
use crate::error::Fault;

/// A list that is a message of its own.
macro_rules! list {
    ($type:ty, $name:literal) => {
        $crate::log::list!($type, $name, Repeated<Nested>);
    };
    ($type:ty, $name:literal, $kind:ty) => {
        impl $crate::codec::Wire for $type {
            fn encoded_len(&self) -> usize {
                <$kind as $crate::codec::field::Field<_>>::encoded_len(1, self)
            }

            fn write(&self, writer: &mut $crate::codec::Writer<'_>) {
                <$kind as $crate::codec::field::Field<_>>::write(1, self, writer);
            }

            fn decode(bytes: &[u8]) -> Result<Self, $crate::error::DecodeError> {
                $crate::codec::table::take_fields!(bytes, $name, { 1 entries: $kind });
                Ok(entries)
            }
        }
    };
}

message!(Run, "log.Run", {
    1 view: Varint,
    2 first: Varint,
});

message!(Shape, "log.Shape", {
    1 base: Varint,
    2 runs: Repeated<Nested>,
    3 last: Varint,
}, check validate_shape);

fn validate_shape(shape: &Shape) -> Result<(), Fault> {
    if shape.is_sound() { Ok(()) } else { Err(Fault::Meaningless("no log has such a shape")) }
}

message!(Offer, "log.Offer", {
    1 last_normal: Varint,
    2 shape: Nested,
    3 stable: Varint,
    4 lives: Map,
});

message!(Beginning, "log.Beginning", {
    1 membership: Nested,
    2 base: Varint,
    3 view: Varint,
});

/// [`Membership`] before its members were counted.
pub(crate) struct Members {
    epoch: Epoch,
    members: Vec<ReplicaIndex>,
}

message!(Members, "log.Membership", {
    1 epoch: Varint,
    2 members: Packed,
});

through!(Membership, Members);

impl Through<Membership> for Members {
    fn of(membership: &Membership) -> Self {
        Members { epoch: membership.epoch(), members: membership.members().to_vec() }
    }

    fn restore(self) -> Result<Membership, Fault> {
        let membership = Membership::new(self.epoch, self.members);
        membership.map_err(|_| Fault::Meaningless("no group has such members"))
    }
}

pair!((ReplicaIndex, u64), "log.Life", 1 replica: Varint, 2 life: Varint);

/// Declares what stands around the entries, pages and messages of a machine on the log.
macro_rules! on_log {
    ($machine:ty) => {
        $crate::codec::table::alternatives!(quorate_log::member::Item<$machine>, "log.Item", fields {
            1 Own: Nested,
            2 NextGroup: Nested,
        });

        $crate::codec::table::message!(quorate_log::Entry<quorate_log::member::Item<$machine>>, "log.Entry", {
            1 view: Varint,
            2 payload: Nested,
        });

        $crate::log::list!(Vec<quorate_log::Entry<quorate_log::member::Item<$machine>>>, "log.Entries");

        $crate::codec::table::alternatives!(quorate_log::member::Said<$machine>, "log.Member", fields {
            1 Log: Nested,
            2 Own: Nested,
        });

        $crate::codec::table::alternatives!(
            quorate_log::Message<quorate_log::member::Item<$machine>>,
            "log.Message",
            messages {
                1 Prepare {
                    1 view: Varint,
                    2 after: Varint,
                    3 entries: Repeated<Nested>,
                    4 stable: Varint,
                    5 beat: Varint,
                    6 clock: Optional<Fixed64>,
                }
                2 PrepareOk { 1 view: Varint, 2 upto: Varint, 3 beat: Varint, 4 clock: Optional<Fixed64> }
                3 StartViewChange { 1 view: Varint, 2 entered: Varint }
                4 DoViewChange { 1 view: Varint, 2 offer: Nested, 3 clock: Optional<Fixed64> }
                5 StartView { 1 view: Varint, 2 shape: Nested, 3 stable: Varint, 4 beginning: Nested }
                6 Fetch { 1 view: Varint, 2 after: Varint, 3 upto: Varint }
                7 Fetched { 1 view: Varint, 2 after: Varint, 3 entries: Repeated<Nested> }
                8 FromState {
                    1 view: Varint,
                    2 base: Varint,
                    3 base_view: Varint,
                    4 page: Varint,
                    5 state: Optional<Nested>,
                }
                9 FetchState { 1 view: Varint, 2 base: Varint, 3 page: Varint }
                10 WhichLife { 1 nonce: Fixed64 }
                11 KnownLife { 1 nonce: Fixed64, 2 life: Varint }
                12 NewLife { 1 life: Varint }
                13 LifeNoted { 1 life: Varint, 2 view: Varint }
                14 Join { 1 view: Varint }
                15 EpochBegun { 1 membership: Nested, 2 shape: Nested }
                16 EpochStarted {}
            }
        );

        $crate::codec::table::alternatives!(
            quorate_log::Fact<quorate_log::member::Item<$machine>>,
            "log.Fact",
            messages {
                3 LifeNoted { 1 replica: Varint, 2 life: Varint }
                4 ViewPage { 1 view: Varint, 2 after: Varint, 3 entries: Repeated<Nested> }
                5 ViewInstalled {
                    1 view: Varint,
                    2 kept: Varint,
                    3 last: Varint,
                    4 from_state: Optional<Varint>,
                    5 beginning: Nested,
                    6 lives: Map,
                }
                6 ViewState { 1 view: Varint, 2 page: Varint, 3 state: Nested }
                7 SnapshotBegun {
                    1 base: Varint,
                    2 base_view: Varint,
                    3 view: Varint,
                    4 last_normal: Varint,
                    5 changing: Varint,
                    6 lives: Map,
                    7 beginning: Nested,
                }
                10 SnapshotEnded {}
                11 Awaiting {}
            },
            fields {
                1 Appended: Nested,
                2 ViewEntered: Varint,
                8 SnapshotEntries: Nested,
                9 SnapshotPage: Nested,
            }
        );
    };
}

pub(crate) use {list, on_log};
