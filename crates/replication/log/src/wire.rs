//! The field numbers of the replicated log, whatever stands on it.
//!
//! Entries, pages and messages of a machine on the log are the machine's, which says how they are written.

use quorate_codec::field::{Fixed64, Nested, Optional, Packed, Repeated, Varint};
use quorate_codec::vocabulary::Lives;
use quorate_codec::{Fault, Through, Wire, alternatives, list, message, through};
use quorate_core::log::LogMachine;
use quorate_core::{Epoch, ReplicaIndex};

use crate::member::{Item, Part};
use crate::message::Offer;
use crate::{Beginning, Entry, Fact, Membership, Message, Payload, Run, Shape};

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
    4 lives: Lives,
});

message!(Beginning, "log.Beginning", {
    1 membership: Nested,
    2 base: Varint,
    3 view: Varint,
});

/// [`Membership`] before its members were counted.
struct Members {
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

alternatives!(Item<M> where [M: LogMachine<Entry: Wire>] of M::Entry, "log.Item", fields {
    1 Own: Nested,
    2 NextGroup: Nested,
});

message!(Entry<P> where [P: Wire] of P, "log.Entry", {
    1 view: Varint,
    2 payload: Nested,
});

list!(Entries: Vec<Entry<P>> where [P: Wire] of P, "log.Entries", Repeated<Nested>);

alternatives!(Part<Message<Item<M>>, M::Message> where [M: LogMachine<Entry: Wire, Page: Wire, Message: Wire>] of M::Message, "log.Member", fields {
    1 Log: Nested,
    2 Own: Nested,
});

alternatives!(
    Message<P> where [P: Payload<Page: Wire> + Wire] of P,
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

alternatives!(
    Fact<P> where [P: Payload<Page: Wire> + Wire] of P,
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
            6 lives: Lives,
        }
        6 ViewState { 1 view: Varint, 2 page: Varint, 3 state: Nested }
        7 SnapshotBegun {
            1 base: Varint,
            2 base_view: Varint,
            3 view: Varint,
            4 last_normal: Varint,
            5 changing: Varint,
            6 lives: Lives,
            7 beginning: Nested,
        }
        10 SnapshotEnded {}
        11 Awaiting {}
    },
    fields {
        1 Appended: Entries,
        2 ViewEntered: Varint,
        8 SnapshotEntries: Entries,
        9 SnapshotPage: Nested,
    }
);
