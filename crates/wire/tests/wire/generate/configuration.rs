//! Strategies for the configuration service. The log's own messages are those of every machine on a log: only what holds
//! entries and pages is generated here.

use std::sync::Arc;
use std::time::Duration;

use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;
use quorate_configuration::{
    Change, Compare, ConditionalWrite, Consistency, Done, Entry, KeyState, LeaseId, Message, Page, Put,
    Refusal, Replica, Revision, Stored, WriteResult,
};
use quorate_core::log::Position;
use quorate_core::{ClientId, ReplicaIndex};
use quorate_log::member::MessageOf;
use quorate_store::client_table::{Remembered, TablePage};

use super::{bound, key, number, range, small, transaction_id, value, view};

/// An entry of the log.
pub(crate) type Item = quorate_log::member::Item<Replica>;

/// What the log writes to its records.
pub(crate) type Fact = quorate_log::Fact<Item>;

type LogMessage = quorate_log::Message<Item>;

fn revision() -> BoxedStrategy<Revision> {
    number().prop_map(Revision).boxed()
}

fn position() -> BoxedStrategy<Position> {
    number().prop_map(Position).boxed()
}

fn duration() -> BoxedStrategy<Duration> {
    number().prop_map(Duration::from_micros).boxed()
}

fn lease() -> BoxedStrategy<LeaseId> {
    (number(), number()).prop_map(|(client, number)| LeaseId { client: ClientId(client), number }).boxed()
}

fn stored() -> BoxedStrategy<Stored> {
    (value(), revision(), revision(), of(lease()))
        .prop_map(|(value, created, changed, lease)| Stored {
            value: value.unwrap_or_default(),
            created,
            changed,
            lease,
        })
        .boxed()
}

fn key_state() -> BoxedStrategy<KeyState> {
    (key(), of(stored())).prop_map(|(key, stored)| KeyState { key, stored }).boxed()
}

fn change() -> BoxedStrategy<Arc<Change>> {
    (revision(), vec(key_state(), 0..3))
        .prop_map(|(revision, keys)| Arc::new(Change { revision, keys }))
        .boxed()
}

fn compare() -> BoxedStrategy<Compare> {
    prop_oneof![
        (key(), of(revision())).prop_map(|(key, changed)| Compare::Key { key, changed }),
        (range(), revision(), number()).prop_map(|(range, after, keys)| Compare::Range {
            range,
            after,
            keys
        }),
    ]
    .boxed()
}

fn write() -> BoxedStrategy<Arc<ConditionalWrite>> {
    let put = (key(), value(), of(lease())).prop_map(|(key, value, lease)| Put { key, value, lease }).boxed();
    (vec(compare(), 0..3), vec(put, 0..3))
        .prop_map(|(compares, puts)| Arc::new(ConditionalWrite { compares, puts }))
        .boxed()
}

fn result() -> BoxedStrategy<WriteResult> {
    prop_oneof![
        revision().prop_map(|revision| WriteResult::Written { revision }),
        (revision(), small()).prop_map(|(revision, compare)| WriteResult::NotHeld { revision, compare }),
        lease().prop_map(|lease| WriteResult::NoSuchLease { lease }),
        Just(WriteResult::Full),
        Just(WriteResult::Settled),
    ]
    .boxed()
}

pub(crate) fn entry() -> BoxedStrategy<Entry> {
    prop_oneof![
        (transaction_id(), position(), write()).prop_map(|(transaction, since, write)| Entry::Write {
            transaction,
            since,
            write
        }),
        (transaction_id(), position()).prop_map(|(transaction, since)| Entry::Settle { transaction, since }),
        (lease(), duration()).prop_map(|(lease, duration)| Entry::Grant { lease, duration }),
        lease().prop_map(|lease| Entry::End { lease }),
    ]
    .boxed()
}

pub(crate) fn page() -> BoxedStrategy<Page> {
    let done = (small(), result()).prop_map(|(attempt, result)| Done { attempt, result });
    let client = (number(), position(), position(), number(), btree_map(number(), done, 0..3)).prop_map(
        |(client, used, since, last, results)| Remembered {
            client: ClientId(client),
            used,
            since,
            last,
            results,
        },
    );
    prop_oneof![
        (revision(), revision()).prop_map(|(revision, forgotten)| Page::Revisions { revision, forgotten }),
        vec((key(), stored()), 0..3).prop_map(Page::Keys),
        vec(change(), 0..3).prop_map(Page::Changes),
        vec((lease(), duration()), 0..3).prop_map(Page::Leases),
        (position(), vec(client, 0..3))
            .prop_map(|(forgotten_until, clients)| { Page::Clients(TablePage { forgotten_until, clients }) }),
    ]
    .boxed()
}

fn reads() -> BoxedStrategy<Message> {
    let consistency = || prop_oneof![Just(Consistency::Linearizable), Just(Consistency::Stale)];
    prop_oneof![
        (number(), vec(key(), 0..3), consistency()).prop_map(|(request, keys, consistency)| Message::Get {
            request,
            keys,
            consistency
        }),
        (number(), revision(), position(), vec(key_state(), 0..3)).prop_map(
            |(request, revision, position, found)| Message::GetReply { request, revision, position, found }
        ),
        (number(), range(), small(), consistency()).prop_map(|(request, range, limit, consistency)| {
            Message::Scan { request, range, limit, consistency }
        }),
        (number(), revision(), position(), vec((key(), stored()), 0..3), of(bound())).prop_map(
            |(request, revision, position, found, next)| Message::ScanReply {
                request,
                revision,
                position,
                found,
                next
            }
        ),
        (number(), vec(compare(), 0..3)).prop_map(|(request, compares)| Message::Check { request, compares }),
        (number(), revision(), position(), any::<bool>()).prop_map(|(request, revision, position, holds)| {
            Message::CheckReply { request, revision, position, holds }
        }),
    ]
    .boxed()
}

fn writes() -> BoxedStrategy<Message> {
    prop_oneof![
        (number(), transaction_id(), position(), write()).prop_map(|(request, transaction, since, write)| {
            Message::Write { request, transaction, since, write }
        }),
        (number(), transaction_id(), position()).prop_map(|(request, transaction, since)| Message::Settle {
            request,
            transaction,
            since
        }),
        (number(), position(), result()).prop_map(|(request, position, result)| Message::WriteReply {
            request,
            position,
            result
        }),
        (number(), any::<u8>())
            .prop_map(|(request, leader)| Message::NotLeading { request, leader: ReplicaIndex(leader) }),
        (number(), 0..5_usize).prop_map(|(request, which)| {
            use Refusal::{Duration, Malformed, TooLarge, TooMany, TooOld};
            Message::Refused { request, refusal: [Malformed, TooLarge, TooOld, TooMany, Duration][which] }
        }),
    ]
    .boxed()
}

fn leases() -> BoxedStrategy<Message> {
    prop_oneof![
        (number(), lease(), duration()).prop_map(|(request, lease, duration)| Message::Grant {
            request,
            lease,
            duration
        }),
        (number(), lease()).prop_map(|(request, lease)| Message::Renew { request, lease }),
        (number(), lease()).prop_map(|(request, lease)| Message::Renewed { request, lease }),
        (number(), lease()).prop_map(|(request, lease)| Message::Release { request, lease }),
        (number(), lease()).prop_map(|(request, lease)| Message::NoSuchLease { request, lease }),
    ]
    .boxed()
}

fn watches() -> BoxedStrategy<Message> {
    prop_oneof![
        (number(), range(), revision()).prop_map(|(request, range, after)| Message::Watch {
            request,
            range,
            after
        }),
        number().prop_map(|request| Message::Unwatch { request }),
        (number(), revision(), revision(), vec(change(), 0..3), any::<bool>()).prop_map(
            |(request, after, until, changes, has_more)| Message::Changes {
                request,
                after,
                until,
                changes,
                has_more
            }
        ),
        (number(), revision()).prop_map(|(request, forgotten)| Message::Forgotten { request, forgotten }),
    ]
    .boxed()
}

pub(crate) fn own_message() -> BoxedStrategy<Message> {
    prop_oneof![reads(), writes(), leases(), watches()].boxed()
}

fn entries() -> BoxedStrategy<Vec<quorate_log::Entry<Item>>> {
    let item = entry().prop_map(Item::Own);
    vec((view(), item).prop_map(|(view, payload)| quorate_log::Entry { view, payload }), 0..3).boxed()
}

/// A message of the log or of what stands on it.
pub(crate) fn member_message() -> BoxedStrategy<MessageOf<Replica>> {
    let log = prop_oneof![
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
    ];
    prop_oneof![log.prop_map(MessageOf::<Replica>::Log), own_message().prop_map(MessageOf::<Replica>::Own)]
        .boxed()
}

pub(crate) fn fact() -> BoxedStrategy<Fact> {
    prop_oneof![entries().prop_map(Fact::Appended), page().prop_map(Fact::SnapshotPage)].boxed()
}
