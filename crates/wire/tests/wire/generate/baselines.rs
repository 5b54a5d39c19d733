//! Strategies for the replicated log and the comparison systems that stand on it.

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::subsequence;
use quorate_baselines::entry::{Ended, Prepared};
use quorate_baselines::message::{Age, Standing, Wanted};
use quorate_baselines::{Entry, Message, Page, Replica};
use quorate_core::log::Position;
use quorate_core::transaction::KeyVersion;
use quorate_core::{Key, ReplicaIndex, TransactionId, View};
use quorate_log::member::MessageOf;
use quorate_log::message::Offer;
use quorate_log::{Beginning, Membership, Run, Shape};
use quorate_store::Version;

use super::{
    bound, clock_time, epoch, key, lives, number, outcome, participants, range, replica_index, small,
    timestamp, transaction, transaction_id, value, view,
};

/// An entry of the log.
pub(crate) type Item = quorate_log::member::Item<Replica>;

/// What the log writes to its records.
pub(crate) type Fact = quorate_log::Fact<Item>;

type LogMessage = quorate_log::Message<Item>;

fn position() -> BoxedStrategy<Position> {
    number().prop_map(Position).boxed()
}

/// Shapes of logs that there can be: empty ones, and such that begin at the start or at a base.
fn shape() -> BoxedStrategy<Shape> {
    let base = prop_oneof![Just(0), 1..1000u64, 0..1u64 << 59];
    let run = (1..1u64 << 40, 1..1u64 << 40);
    let some = (base, 0..1u64 << 62, vec(run, 1..4)).prop_map(|(base, view, lengths)| {
        let mut shape = Shape { base: Position(base), runs: Vec::new(), last: Position(base.max(1) - 1) };
        let mut view = view;
        for (later, length) in lengths {
            shape.runs.push(Run { view: View(view), first: shape.last.next() });
            view += later;
            shape.last.0 += length;
        }
        shape
    });
    prop_oneof![1 => Just(Shape::default()), 4 => some].boxed()
}

fn membership() -> BoxedStrategy<Membership> {
    let members = prop_oneof![Just(1usize), Just(3), Just(5)]
        .prop_flat_map(|members| subsequence((0..=u8::MAX).map(ReplicaIndex).collect::<Vec<_>>(), members));
    (epoch(), members)
        .prop_map(|(epoch, members)| Membership::new(epoch, members).expect("an odd number, all different"))
        .boxed()
}

fn beginning() -> BoxedStrategy<Beginning> {
    (membership(), position(), view())
        .prop_map(|(membership, base, view)| Beginning { membership, base, view })
        .boxed()
}

fn offer() -> BoxedStrategy<Offer> {
    (view(), shape(), position(), lives())
        .prop_map(|(last_normal, shape, stable, lives)| Offer { last_normal, shape, stable, lives })
        .boxed()
}

fn prepared() -> BoxedStrategy<Prepared> {
    (transaction_id(), transaction(), timestamp(), timestamp(), timestamp())
        .prop_map(|(transaction, part, proposed, age, timestamp)| Prepared {
            transaction,
            part,
            proposed,
            age,
            timestamp,
        })
        .boxed()
}

pub(crate) fn item() -> BoxedStrategy<Item> {
    let own = prop_oneof![
        prepared().prop_map(Entry::Prepared),
        (transaction_id(), participants(), timestamp()).prop_map(|(transaction, participants, until)| {
            Entry::Refused { transaction, participants, until }
        }),
        (transaction_id(), outcome())
            .prop_map(|(transaction, outcome)| Entry::Decided { transaction, outcome }),
        (timestamp(), timestamp()).prop_map(|(floor, forgotten)| Entry::Floor { floor, forgotten }),
        timestamp().prop_map(Entry::Ceiling),
    ];
    prop_oneof![5 => own.prop_map(Item::Own), 1 => membership().prop_map(Item::NextGroup)].boxed()
}

fn entries() -> BoxedStrategy<Vec<quorate_log::Entry<Item>>> {
    vec((view(), item()).prop_map(|(view, payload)| quorate_log::Entry { view, payload }), 0..4).boxed()
}

pub(crate) fn page() -> BoxedStrategy<Page> {
    let version = (key(), timestamp(), value())
        .prop_map(|(key, timestamp, value)| -> (Key, Version) { (key, Version { timestamp, value }) });
    let ended = (transaction_id(), outcome(), participants(), timestamp()).prop_map(
        |(transaction, outcome, participants, until)| -> (TransactionId, Ended) {
            (transaction, Ended { outcome, participants, until })
        },
    );
    prop_oneof![
        vec(version, 0..4).prop_map(Page::Versions),
        vec(prepared(), 0..4).prop_map(Page::Prepared),
        vec(ended, 0..4).prop_map(Page::Ended),
        (timestamp(), timestamp(), timestamp()).prop_map(|(floor, forgotten, last)| Page::Bounds {
            floor,
            forgotten,
            last
        }),
    ]
    .boxed()
}

pub(crate) fn log_message() -> BoxedStrategy<LogMessage> {
    let normal = prop_oneof![
        (view(), position(), entries(), position(), number(), of(clock_time())).prop_map(
            |(view, after, entries, stable, beat, clock)| LogMessage::Prepare {
                view,
                after,
                entries,
                stable,
                beat,
                clock
            }
        ),
        (view(), position(), number(), of(clock_time()))
            .prop_map(|(view, upto, beat, clock)| { LogMessage::PrepareOk { view, upto, beat, clock } }),
        (view(), position(), position()).prop_map(|(view, after, upto)| LogMessage::Fetch {
            view,
            after,
            upto
        }),
        (view(), position(), entries()).prop_map(|(view, after, entries)| LogMessage::Fetched {
            view,
            after,
            entries
        }),
        (view(), position(), view(), number(), of(page())).prop_map(
            |(view, base, base_view, page, state)| LogMessage::FromState {
                view,
                base,
                base_view,
                page,
                state
            }
        ),
        (view(), position(), number()).prop_map(|(view, base, page)| LogMessage::FetchState {
            view,
            base,
            page
        }),
    ];
    let views = prop_oneof![
        (view(), any::<bool>()).prop_map(|(view, entered)| LogMessage::StartViewChange { view, entered }),
        (view(), offer(), of(clock_time())).prop_map(|(view, offer, clock)| LogMessage::DoViewChange {
            view,
            offer,
            clock
        }),
        (view(), shape(), position(), beginning()).prop_map(|(view, shape, stable, beginning)| {
            LogMessage::StartView { view, shape, stable, beginning }
        }),
        view().prop_map(|view| LogMessage::Join { view }),
    ];
    let lives_and_epochs = prop_oneof![
        number().prop_map(|nonce| LogMessage::WhichLife { nonce }),
        (number(), number()).prop_map(|(nonce, life)| LogMessage::KnownLife { nonce, life }),
        number().prop_map(|life| LogMessage::NewLife { life }),
        (number(), view()).prop_map(|(life, view)| LogMessage::LifeNoted { life, view }),
        (membership(), shape()).prop_map(|(membership, shape)| LogMessage::EpochBegun { membership, shape }),
        Just(LogMessage::EpochStarted),
    ];
    prop_oneof![normal.boxed(), views.boxed(), lives_and_epochs.boxed()].boxed()
}

fn found_key() -> BoxedStrategy<KeyVersion> {
    (key(), timestamp(), value()).prop_map(|(key, version, value)| KeyVersion { key, version, value }).boxed()
}

fn standing() -> BoxedStrategy<Standing> {
    prop_oneof![
        timestamp().prop_map(Standing::Prepared),
        outcome().prop_map(Standing::Ended),
        clock_time().prop_map(|clock| Standing::TooOld { clock }),
        clock_time().prop_map(|clock| Standing::Forgotten { clock }),
    ]
    .boxed()
}

fn age() -> BoxedStrategy<Age> {
    prop_oneof![timestamp().prop_map(Age::Proposed), timestamp().prop_map(Age::NotBefore)].boxed()
}

fn wanted() -> BoxedStrategy<Wanted> {
    prop_oneof![
        vec(key(), 0..4).prop_map(Wanted::Keys),
        (range(), small()).prop_map(|(range, limit)| Wanted::Range(range, limit)),
    ]
    .boxed()
}

/// What is read, whether it is locked for that, and what gives the locks up.
fn reads() -> BoxedStrategy<Message> {
    let locking = prop_oneof![
        (transaction_id(), key(), of(timestamp())).prop_map(|(transaction, key, lock)| Message::Read {
            transaction,
            key,
            lock
        }),
        (transaction_id(), key(), timestamp(), value(), of(view())).prop_map(
            |(transaction, key, version, value, locked_in)| Message::ReadReply {
                transaction,
                key,
                version,
                value,
                locked_in
            }
        ),
        (transaction_id(), small(), range(), small(), of(timestamp())).prop_map(
            |(transaction, request, range, limit, lock)| Message::Scan {
                transaction,
                request,
                range,
                limit,
                lock
            }
        ),
        (transaction_id(), small(), vec(found_key(), 0..4), of(bound()), of(view())).prop_map(
            |(transaction, request, keys, next, locked_in)| Message::ScanReply {
                transaction,
                request,
                keys,
                next,
                locked_in
            }
        ),
        transaction_id().prop_map(|transaction| Message::Release { transaction }),
        transaction_id().prop_map(|transaction| Message::Wounded { transaction }),
    ];
    let read_only = prop_oneof![
        (transaction_id(), vec(key(), 0..4))
            .prop_map(|(transaction, keys)| Message::ReadCurrent { transaction, keys }),
        (transaction_id(), vec(found_key(), 0..4), timestamp()).prop_map(
            |(transaction, found, timestamp)| Message::ReadCurrentReply { transaction, found, timestamp }
        ),
        (transaction_id(), wanted(), timestamp()).prop_map(|(transaction, wanted, at)| Message::ReadAt {
            transaction,
            wanted,
            at
        }),
        (transaction_id(), vec(found_key(), 0..4), of(bound()))
            .prop_map(|(transaction, found, next)| Message::ReadAtReply { transaction, found, next }),
        (transaction_id(), timestamp())
            .prop_map(|(transaction, oldest)| Message::SnapshotTooOld { transaction, oldest }),
    ];
    prop_oneof![locking.boxed(), read_only.boxed()].boxed()
}

/// How transactions end.
fn commits() -> BoxedStrategy<Message> {
    let votes = prop_oneof![
        (transaction_id(), timestamp())
            .prop_map(|(transaction, above)| Message::NextTimestamp { transaction, above }),
        (transaction_id(), timestamp())
            .prop_map(|(transaction, timestamp)| Message::NextTimestampReply { transaction, timestamp }),
        (transaction_id(), transaction(), timestamp(), timestamp(), of(view())).prop_map(
            |(transaction, part, proposed, age, locked_in)| Message::Prepare {
                transaction,
                part,
                proposed,
                age,
                locked_in
            }
        ),
        (transaction_id(), standing())
            .prop_map(|(transaction, standing)| Message::PrepareReply { transaction, standing }),
        (transaction_id(), vec(transaction(), 0..4), timestamp())
            .prop_map(|(transaction, parts, proposed)| Message::Coordinate { transaction, parts, proposed }),
        (transaction_id(), standing())
            .prop_map(|(transaction, standing)| Message::CoordinateReply { transaction, standing }),
        (transaction_id(), transaction(), of(view()), of(timestamp())).prop_map(
            |(transaction, part, locked_in, at)| Message::Validate { transaction, part, locked_in, at }
        ),
        (transaction_id(), any::<bool>())
            .prop_map(|(transaction, is_valid)| Message::ValidateReply { transaction, is_valid }),
    ];
    let outcomes = prop_oneof![
        (transaction_id(), outcome())
            .prop_map(|(transaction, outcome)| Message::Decide { transaction, outcome }),
        (transaction_id(), participants(), age()).prop_map(|(transaction, participants, age)| {
            Message::Inquire { transaction, participants, age }
        }),
        (transaction_id(), standing())
            .prop_map(|(transaction, standing)| Message::InquireReply { transaction, standing }),
        (transaction_id(), replica_index())
            .prop_map(|(transaction, leader)| Message::NotLeading { transaction, leader }),
        Just(Message::AskFloor),
        timestamp().prop_map(|floor| Message::AskFloorReply { floor }),
    ];
    prop_oneof![votes.boxed(), outcomes.boxed()].boxed()
}

pub(crate) fn own_message() -> BoxedStrategy<Message> {
    prop_oneof![reads(), commits()].boxed()
}

/// A message of the log or of what stands on it.
pub(crate) fn member_message() -> BoxedStrategy<MessageOf<Replica>> {
    prop_oneof![
        log_message().prop_map(MessageOf::<Replica>::Log),
        own_message().prop_map(MessageOf::<Replica>::Own)
    ]
    .boxed()
}

pub(crate) fn fact() -> BoxedStrategy<Fact> {
    let everyday = prop_oneof![
        entries().prop_map(Fact::Appended),
        view().prop_map(Fact::ViewEntered),
        (replica_index(), number()).prop_map(|(replica, life)| Fact::LifeNoted { replica, life }),
        (view(), position(), entries()).prop_map(|(view, after, entries)| Fact::ViewPage {
            view,
            after,
            entries
        }),
        (view(), position(), position(), of(view()), beginning(), lives()).prop_map(
            |(view, kept, last, from_state, beginning, lives)| Fact::ViewInstalled {
                view,
                kept,
                last,
                from_state,
                beginning,
                lives
            }
        ),
        Just(Fact::Awaiting),
        (view(), number(), page()).prop_map(|(view, page, state)| Fact::ViewState { view, page, state }),
    ];
    let snapshots = prop_oneof![
        (position(), view(), view(), view(), any::<bool>(), lives(), beginning()).prop_map(
            |(base, base_view, view, last_normal, changing, lives, beginning)| Fact::SnapshotBegun {
                base,
                base_view,
                view,
                last_normal,
                changing,
                lives,
                beginning
            }
        ),
        entries().prop_map(Fact::SnapshotEntries),
        page().prop_map(Fact::SnapshotPage),
        Just(Fact::SnapshotEnded),
    ];
    prop_oneof![everyday.boxed(), snapshots.boxed()].boxed()
}
