//! Strategies for Granola. Of what every machine on a log says only what holds entries and pages.

use std::sync::Arc;

use bytes::Bytes;
use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;
use quorate_core::log::Position;
use quorate_core::{Key, ShardId, TransactionId};
use quorate_granola::application::Answer;
use quorate_granola::entry::{
    Body, Ended, Ending, Entry, Final, Outcome, Page, Pending, Refusal, Vote, Voted,
};
use quorate_granola::message::{Begin, Message, Reply, Request};
use quorate_granola::{Class, Place};
use quorate_log::member::MessageOf;
use quorate_procedures::Version;
use quorate_wire::packet::Serializable;

use super::{clock_time, key, number, participants, replica_index, transaction_id, view};

/// An entry of the log.
pub(crate) type Item = quorate_log::member::Item<Serializable>;

/// What the log writes to its records.
pub(crate) type Fact = quorate_log::Fact<Item>;

type LogMessage = quorate_log::Message<Item>;

fn bytes() -> BoxedStrategy<Bytes> {
    vec(any::<u8>(), 0..40).prop_map(Bytes::from).boxed()
}

fn class() -> BoxedStrategy<Class> {
    select(vec![Class::ReadOnly, Class::Independent, Class::Coordinated]).boxed()
}

fn shard() -> BoxedStrategy<ShardId> {
    any::<u32>().prop_map(ShardId).boxed()
}

fn position() -> BoxedStrategy<Position> {
    number().prop_map(Position).boxed()
}

fn answer() -> BoxedStrategy<Answer> {
    prop_oneof![bytes().prop_map(Answer::Done), bytes().prop_map(Answer::Refused)].boxed()
}

fn refusal() -> BoxedStrategy<Refusal> {
    (shard(), bytes()).prop_map(|(shard, reason)| Refusal { shard, reason }).boxed()
}

fn vote() -> BoxedStrategy<Vote> {
    prop_oneof![Just(Vote::Commit), bytes().prop_map(Vote::Abort), Just(Vote::Conflict)].boxed()
}

fn ending() -> BoxedStrategy<Ending> {
    prop_oneof![
        clock_time().prop_map(Ending::Commit),
        refusal().prop_map(Ending::Abort),
        Just(Ending::Conflict),
    ]
    .boxed()
}

fn outcome() -> BoxedStrategy<Outcome> {
    prop_oneof![
        (clock_time(), answer()).prop_map(|(timestamp, answer)| Outcome::Committed { timestamp, answer }),
        refusal().prop_map(Outcome::Aborted),
        Just(Outcome::Conflict),
    ]
    .boxed()
}

fn reply() -> BoxedStrategy<Reply> {
    prop_oneof![
        4 => outcome().prop_map(Reply::Ended),
        1 => clock_time().prop_map(|clock| Reply::Forgotten { clock }),
        1 => clock_time().prop_map(|clock| Reply::TooOld { clock }),
        1 => shard().prop_map(|shard| Reply::Lost { shard }),
        1 => clock_time().prop_map(|clock| Reply::ClockAhead { clock }),
    ]
    .boxed()
}

fn request() -> BoxedStrategy<Request> {
    (transaction_id(), participants(), bytes(), class(), clock_time(), clock_time())
        .prop_map(|(transaction, participants, operation, class, high, first)| Request {
            transaction,
            participants,
            operation,
            class,
            high,
            first,
        })
        .boxed()
}

pub(crate) fn own_message() -> BoxedStrategy<Message> {
    let asked = prop_oneof![
        request().prop_map(Message::Request),
        (transaction_id(), participants(), clock_time()).prop_map(
            |(transaction, participants, not_before)| Message::Inquire {
                transaction,
                participants,
                not_before
            }
        ),
        (transaction_id(), reply()).prop_map(|(transaction, reply)| Message::Reply { transaction, reply }),
        (transaction_id(), replica_index())
            .prop_map(|(transaction, leader)| Message::NotLeading { transaction, leader }),
    ];
    let agreed = prop_oneof![
        (transaction_id(), participants(), clock_time(), vote(), clock_time(), class(), any::<bool>())
            .prop_map(|(transaction, participants, first, vote, proposed, class, wants)| Message::Vote {
                transaction,
                participants,
                first,
                vote,
                proposed,
                class,
                wants,
            }),
        (transaction_id(), ending())
            .prop_map(|(transaction, ending)| Message::Resolved { transaction, ending }),
        (transaction_id(), shard()).prop_map(|(transaction, lost)| Message::Abandoned { transaction, lost }),
        Just(Message::AskFloor),
        (clock_time(), clock_time()).prop_map(|(floor, ceiling)| Message::AskFloorReply { floor, ceiling }),
    ];
    let gathered = prop_oneof![
        (transaction_id(), btree_map(shard(), bytes(), 0..4), clock_time(), clock_time()).prop_map(
            |(transaction, parts, high, first)| Message::Begin(Begin { transaction, parts, high, first })
        ),
        (transaction_id(), vote(), clock_time(), of(answer())).prop_map(
            |(transaction, vote, proposed, answer)| Message::Prepared { transaction, vote, proposed, answer }
        ),
        (transaction_id(), clock_time(), btree_map(shard(), answer(), 0..4)).prop_map(
            |(transaction, timestamp, answers)| Message::Gathered { transaction, timestamp, answers }
        ),
    ];
    prop_oneof![2 => asked.boxed(), 2 => agreed.boxed(), 1 => gathered.boxed()].boxed()
}

fn voted() -> BoxedStrategy<Arc<Voted>> {
    (transaction_id(), class(), participants(), of(bytes()), vote(), clock_time(), clock_time())
        .prop_map(|(transaction, class, participants, operation, vote, proposed, first)| {
            Arc::new(Voted { transaction, class, participants, operation, vote, proposed, first })
        })
        .boxed()
}

pub(crate) fn entry() -> BoxedStrategy<Entry> {
    let body = prop_oneof![
        voted().prop_map(Body::Voted),
        (clock_time(), clock_time()).prop_map(|(floor, forgotten)| Body::Floor { floor, forgotten }),
        shard().prop_map(Body::Lost),
        Just(Body::Nothing),
    ];
    let last = (transaction_id(), ending()).prop_map(|(transaction, ending)| Final { transaction, ending });
    (clock_time(), vec(last, 0..3), body)
        .prop_map(|(ceiling, finals, body)| Entry { ceiling, finals, body })
        .boxed()
}

fn place() -> BoxedStrategy<Place> {
    (clock_time(), transaction_id())
        .prop_map(|(timestamp, transaction)| Place { timestamp, transaction })
        .boxed()
}

fn keys() -> BoxedStrategy<Vec<(Key, Version)>> {
    let version = (place(), bytes()).prop_map(|(place, value)| Version { place, value });
    vec((key(), version), 0..4).boxed()
}

pub(crate) fn page() -> BoxedStrategy<Page<quorate_procedures::Page>> {
    let pending = (voted(), place(), any::<bool>()).prop_map(|(voted, place, is_final)| Pending {
        voted,
        place,
        is_final,
    });
    let ended = (transaction_id(), outcome(), participants(), clock_time()).prop_map(
        |(transaction, outcome, participants, first)| -> (TransactionId, Ended) {
            (transaction, Ended { outcome, participants, first })
        },
    );
    prop_oneof![
        keys().prop_map(|keys| Page::Application(quorate_procedures::Page::Keys(keys))),
        keys().prop_map(|keys| Page::Application(quorate_procedures::Page::Procedures(keys))),
        vec(pending, 0..3).prop_map(Page::Pending),
        vec(ended, 0..3).prop_map(Page::Ended),
        (clock_time(), clock_time(), clock_time(), vec(shard(), 0..3))
            .prop_map(|(ceiling, floor, forgotten, lost)| Page::Bounds { ceiling, floor, forgotten, lost }),
    ]
    .boxed()
}

fn entries() -> BoxedStrategy<Vec<quorate_log::Entry<Item>>> {
    let item = entry().prop_map(Item::Own);
    vec((view(), item).prop_map(|(view, payload)| quorate_log::Entry { view, payload }), 0..3).boxed()
}

/// A message of the log or of what stands on it.
pub(crate) fn member_message() -> BoxedStrategy<MessageOf<Serializable>> {
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
    prop_oneof![
        log.prop_map(MessageOf::<Serializable>::Log),
        own_message().prop_map(MessageOf::<Serializable>::Own)
    ]
    .boxed()
}

pub(crate) fn fact() -> BoxedStrategy<Fact> {
    prop_oneof![entries().prop_map(Fact::Appended), page().prop_map(Fact::SnapshotPage)].boxed()
}
