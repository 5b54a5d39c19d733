//! Strategies for the quorum store without transactions.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use quorate_core::TransactionId;
use quorate_core::transaction::KeyVersion;
use quorate_ir::{InconsistentEntry, Message as Ir, OperationEntries, RecordPage};
use quorate_qwstore::message::{Put, StatePage, Supplement};
use quorate_qwstore::{Message, QwStore, Record};

use super::{
    bound, clock_time, cursor, key, lineage, lives, number, operation_id, part, part_range, range,
    replica_index, small, timestamp, transaction_id, value, view,
};

fn put() -> BoxedStrategy<Arc<Put>> {
    (key(), value(), timestamp())
        .prop_map(|(key, value, timestamp)| Arc::new(Put { key, value, timestamp }))
        .boxed()
}

fn supplement() -> BoxedStrategy<Supplement> {
    (timestamp(), timestamp()).prop_map(|(refusal, complete)| Supplement { refusal, complete }).boxed()
}

fn version() -> BoxedStrategy<KeyVersion> {
    (key(), timestamp(), value()).prop_map(|(key, version, value)| KeyVersion { key, version, value }).boxed()
}

fn state() -> BoxedStrategy<StatePage> {
    vec(version(), 0..4).prop_map(|versions| StatePage { versions }).boxed()
}

/// What records hold of puts: that they have taken effect.
fn page() -> BoxedStrategy<RecordPage<QwStore>> {
    let entry = |operation| InconsistentEntry { operation, executed: true };
    let entries = of(put())
        .prop_map(move |put| OperationEntries { inconsistent: put.map(entry), consensus: Vec::new() });
    vec((transaction_id(), entries), 0..3).prop_map(|entries| RecordPage { entries }).boxed()
}

fn ir() -> BoxedStrategy<Ir<QwStore>> {
    let everyday = prop_oneof![
        (operation_id(), put()).prop_map(|(id, operation)| Ir::ProposeInconsistent { id, operation }),
        (operation_id(), view()).prop_map(|(id, view)| Ir::InconsistentReply { id, view }),
        operation_id().prop_map(|id| Ir::FinalizeInconsistent { id }),
        (operation_id(), view(), any::<bool>()).prop_map(|(id, view, finalized)| Ir::Confirm {
            id,
            view,
            verdict: None,
            finalized
        }),
        view().prop_map(|view| Ir::HigherView { view }),
        view().prop_map(|view| Ir::StartViewChange { view }),
    ];
    let changes = prop_oneof![
        (view(), of(view()), lineage(), part(), page(), supplement(), (timestamp(), timestamp()), lives())
            .prop_map(|(view, last_normal, lineage, part, page, supplement, (floor, complete), lives)| {
                Ir::DoViewChange {
                    view,
                    last_normal,
                    lineage,
                    part,
                    page,
                    supplement,
                    floor,
                    complete,
                    lives,
                }
            })
            .boxed(),
        (view(), of(view()), part(), page(), supplement(), of(timestamp()), of(state()))
            .prop_map(|(view, since, part, page, supplement, floor, state)| Ir::StartView {
                view,
                since,
                part,
                page,
                supplement,
                floor,
                state
            })
            .boxed(),
        (view(), number(), vec(part_range(), 0..4))
            .prop_map(|(view, series, missing)| Ir::PartsMissing { view, series, missing })
            .boxed(),
        Just(Ir::Arrived).boxed(),
        (number(), number()).prop_map(|(nonce, life)| Ir::ViewQuery { nonce, life }).boxed(),
        (number(), view(), any::<bool>(), number())
            .prop_map(|(nonce, view, lost, life)| Ir::ViewQueryReply { nonce, view, lost, life })
            .boxed(),
    ];
    prop_oneof![everyday.boxed(), changes.boxed()].boxed()
}

pub(crate) fn message() -> BoxedStrategy<Message> {
    let reads = prop_oneof![
        (transaction_id(), key()).prop_map(|(transaction, key)| Message::Read { transaction, key }),
        (transaction_id(), key(), timestamp(), value()).prop_map(|(transaction, key, version, value)| {
            Message::ReadReply { transaction, key, version, value }
        }),
        (transaction_id(), small(), range(), small()).prop_map(|(transaction, request, range, limit)| {
            Message::Scan { transaction, request, range, limit }
        }),
        (transaction_id(), small(), vec(version(), 0..4), of(bound())).prop_map(
            |(transaction, request, keys, next)| Message::ScanReply { transaction, request, keys, next }
        ),
        (transaction_id(), timestamp(), clock_time()).prop_map(|(put, refusal, clock)| Message::Late {
            put,
            refusal,
            clock
        }),
        (transaction_id(), number(), number()).prop_map(|(put, ahead_micros, ahead_max_micros)| {
            Message::ClockAhead { put, ahead_micros, ahead_max_micros }
        }),
        Just(Message::Outdated),
    ];
    let ids = || vec(transaction_id(), 0..4);
    let puts = vec((transaction_id(), put()), 0..4);
    let floors = prop_oneof![
        (view(), timestamp(), timestamp(), cursor())
            .prop_map(|(view, floor, below, from)| Message::Gather { view, floor, below, from })
            .boxed(),
        (view(), timestamp(), cursor(), vec(cursor(), 0..4), of(cursor()))
            .prop_map(|(view, below, from, held, next)| Message::GatherReply {
                view,
                below,
                from,
                held,
                next
            })
            .boxed(),
        ids().prop_map(|puts: Vec<TransactionId>| Message::FetchPuts { puts }).boxed(),
        puts.prop_map(|puts| Message::Puts { puts }).boxed(),
        (view(), timestamp()).prop_map(|(view, below)| Message::Complete { view, below }).boxed(),
        (view(), timestamp()).prop_map(|(view, below)| Message::CompleteReply { view, below }).boxed(),
        timestamp().prop_map(|floor| Message::RaiseFloor { floor }).boxed(),
    ];
    prop_oneof![reads.boxed(), floors.boxed(), ir().prop_map(Message::Ir).boxed()].boxed()
}

pub(crate) fn record() -> BoxedStrategy<Record> {
    prop_oneof![
        Just(Record::Initialised).boxed(),
        view().prop_map(|view| Record::ViewEntered { view }).boxed(),
        (transaction_id(), put()).prop_map(|(put, operation)| Record::PutRecorded { put, operation }).boxed(),
        (view(), page()).prop_map(|(view, page)| Record::ViewPage { view, page }).boxed(),
        (view(), state()).prop_map(|(view, state)| Record::ViewState { view, state }).boxed(),
        (view(), of(view()), supplement(), of(timestamp()))
            .prop_map(|(view, since, supplement, floor)| Record::ViewInstalled {
                view,
                since,
                supplement,
                floor
            })
            .boxed(),
        timestamp().prop_map(|below| Record::Refusing { below }).boxed(),
        timestamp().prop_map(|below| Record::Completed { below }).boxed(),
        timestamp().prop_map(|floor| Record::FloorRaised { floor }).boxed(),
        (view(), lineage(), timestamp(), timestamp(), supplement(), lives())
            .prop_map(|(view, lineage, floor, complete, supplement, lives)| Record::SnapshotBegun {
                view,
                lineage,
                floor,
                complete,
                supplement,
                lives
            })
            .boxed(),
        (replica_index(), number()).prop_map(|(replica, life)| Record::LifeNoted { replica, life }).boxed(),
        state().prop_map(|state| Record::SnapshotPage { state }).boxed(),
        timestamp().prop_map(|floor| Record::SnapshotEnded { floor }).boxed(),
    ]
    .boxed()
}
