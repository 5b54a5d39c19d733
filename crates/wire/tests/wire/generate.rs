//! Strategies that reach every variant of every message and record.

pub(crate) mod baselines;
pub(crate) mod configuration;
pub(crate) mod granola;
pub(crate) mod qwstore;
pub(crate) mod verify;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use quorate_core::command::Outcome;
use quorate_core::comparison::{Comparison, Rival};
use quorate_core::lives::{Incarnation, Life, Remembered};
use quorate_core::topology::{Durability, Isolation, Keyspace, Node, Shard, Topology};
use quorate_core::transaction::KeyVersion;
use quorate_core::{
    Address, Ballot, ClientId, ClockTime, Epoch, GroupSize, Groups, Key, KeyRange, KeyspaceId, Members,
    NodeId, ReadVersion, ReplicaId, ReplicaIndex, ShardId, SiteId, Succession, Tenure, Timestamp,
    Transaction, TransactionId, View, Write,
};
use quorate_ir::{
    ConsensusEntry, Cursor, InconsistentEntry, Message as Ir, OperationEntries, OperationId, Part, PartRange,
    RecordPage, State,
};
use quorate_tapir::message::{
    Decision, FoundKey, FoundPage, FoundVersion, Prepare, Promise, RecordedVote, SnapshotVersion, StatePage,
    Supplement, ValidatedVersion, Vote,
};
use quorate_tapir::{Message, Record, Tapir};
use quorate_wire::catalogue::{Deployment, DropStage, Dropped, Stage, deployment_key};
use quorate_wire::{
    Directory, Envelope, Hello, KnownLife, Packet, Peer, ProtocolMessage, ReplicaReport, Setting, Welcome,
};

/// Numbers of every length, with the edges.
fn number() -> BoxedStrategy<u64> {
    prop_oneof![Just(0), Just(1), Just(127), Just(128), Just(u64::MAX), any::<u64>(), 0..1000u64].boxed()
}

fn small() -> BoxedStrategy<u32> {
    prop_oneof![Just(0), Just(u32::MAX), any::<u32>(), 0..300u32].boxed()
}

fn key() -> BoxedStrategy<Key> {
    vec(any::<u8>(), 1..40).prop_map(Key::from).boxed()
}

fn bound() -> BoxedStrategy<Key> {
    vec(any::<u8>(), 0..40).prop_map(Key::from).boxed()
}

fn value() -> BoxedStrategy<Option<Bytes>> {
    of(vec(any::<u8>(), 0..200).prop_map(Bytes::from)).boxed()
}

fn client() -> BoxedStrategy<ClientId> {
    number().prop_map(ClientId).boxed()
}

fn view() -> BoxedStrategy<View> {
    number().prop_map(View).boxed()
}

fn ballot() -> BoxedStrategy<Ballot> {
    small().prop_map(Ballot).boxed()
}

fn transaction_id() -> BoxedStrategy<TransactionId> {
    (client(), number(), small())
        .prop_map(|(client, sequence, attempt)| TransactionId { client, sequence, attempt })
        .boxed()
}

fn timestamp() -> BoxedStrategy<Timestamp> {
    (number(), client()).prop_map(|(micros, client)| Timestamp { micros, client }).boxed()
}

fn clock_time() -> BoxedStrategy<ClockTime> {
    number().prop_map(ClockTime::from_micros).boxed()
}

fn range() -> BoxedStrategy<KeyRange> {
    (bound(), of(bound())).prop_map(|(from, to)| KeyRange { from, to }).boxed()
}

fn participants() -> BoxedStrategy<Vec<ShardId>> {
    btree_set(small().prop_map(ShardId), 0..4).prop_map(|shards| shards.into_iter().collect()).boxed()
}

pub(crate) fn transaction() -> BoxedStrategy<Arc<Transaction>> {
    let reads = btree_map(key(), timestamp(), 0..4);
    let writes = btree_map(key(), value(), 0..4);
    (reads, writes, vec(range(), 0..3), participants(), any::<bool>())
        .prop_map(|(reads, writes, ranges, participants, reads_when_prepared)| {
            let reads = reads.into_iter().map(|(key, version)| ReadVersion { key, version }).collect();
            let writes = writes.into_iter().map(|(key, value)| Write { key, value }).collect();
            Arc::new(Transaction { reads, writes, ranges, participants, reads_when_prepared })
        })
        .boxed()
}

fn prepare() -> BoxedStrategy<Prepare> {
    (transaction(), timestamp(), of(timestamp()))
        .prop_map(|(transaction, timestamp, first)| Prepare { transaction, timestamp, first })
        .boxed()
}

fn vote() -> BoxedStrategy<Vote> {
    prop_oneof![Just(Vote::Ok), Just(Vote::Abstain), Just(Vote::Abort), timestamp().prop_map(Vote::Retry)]
        .boxed()
}

fn decision() -> BoxedStrategy<Decision> {
    let commit = (transaction(), timestamp(), timestamp())
        .prop_map(|(transaction, timestamp, last)| Decision::Commit { transaction, timestamp, last });
    prop_oneof![3 => commit, 1 => timestamp().prop_map(|last| Decision::Abort { last })].boxed()
}

fn outcome() -> BoxedStrategy<Outcome> {
    prop_oneof![timestamp().prop_map(Outcome::Committed), Just(Outcome::Aborted)].boxed()
}

fn promise() -> BoxedStrategy<Promise> {
    (ballot(), of((ballot(), outcome()))).prop_map(|(ballot, accepted)| Promise { ballot, accepted }).boxed()
}

fn supplement() -> BoxedStrategy<Supplement> {
    (vec((transaction_id(), promise()), 0..3), timestamp(), timestamp(), timestamp())
        .prop_map(|(promises, read_floor, refusal, complete)| Supplement {
            promises,
            read_floor,
            refusal,
            complete,
        })
        .boxed()
}

fn scanned() -> BoxedStrategy<KeyVersion> {
    (key(), timestamp(), value()).prop_map(|(key, version, value)| KeyVersion { key, version, value }).boxed()
}

fn state_page() -> BoxedStrategy<StatePage> {
    vec(scanned(), 0..4).prop_map(|versions| StatePage { versions }).boxed()
}

fn cursor() -> BoxedStrategy<Cursor> {
    (timestamp(), transaction_id()).boxed()
}

fn operation_id() -> BoxedStrategy<OperationId> {
    (transaction_id(), small()).prop_map(|(transaction, number)| OperationId { transaction, number }).boxed()
}

/// Entries whose prepares and decision share transactions, or do not.
fn entries() -> BoxedStrategy<OperationEntries<Tapir>> {
    let state = prop_oneof![Just(State::Tentative), ballot().prop_map(State::Finalized)];
    let one = (small(), any::<prop::sample::Index>(), timestamp(), vote(), state);
    (vec(transaction(), 1..3), of((any::<prop::sample::Index>(), decision(), any::<bool>())), vec(one, 0..4))
        .prop_map(|(transactions, inconsistent, consensus)| OperationEntries {
            inconsistent: inconsistent.map(|(index, operation, executed)| InconsistentEntry {
                operation: match operation {
                    Decision::Commit { timestamp, last, .. } => {
                        Decision::Commit { transaction: index.get(&transactions).clone(), timestamp, last }
                    }
                    abort => abort,
                },
                executed,
            }),
            consensus: consensus
                .into_iter()
                .map(|(number, index, timestamp, verdict, state)| ConsensusEntry {
                    number,
                    operation: Prepare {
                        transaction: index.get(&transactions).clone(),
                        timestamp,
                        first: (number > 1).then_some(timestamp),
                    },
                    verdict,
                    state,
                })
                .collect(),
        })
        .boxed()
}

fn page() -> BoxedStrategy<RecordPage<Tapir>> {
    vec((transaction_id(), entries()), 0..3).prop_map(|entries| RecordPage { entries }).boxed()
}

fn part() -> BoxedStrategy<Part> {
    let index_and_count = (0..u32::MAX).prop_flat_map(|index| (Just(index), index + 1..=u32::MAX));
    (number(), index_and_count).prop_map(|(series, (index, count))| Part { series, index, count }).boxed()
}

fn part_range() -> BoxedStrategy<PartRange> {
    (0..=u32::MAX)
        .prop_flat_map(|first| (Just(first), first..=u32::MAX))
        .prop_map(|(first, last)| PartRange { first, last })
        .boxed()
}

fn lineage() -> BoxedStrategy<Vec<View>> {
    vec(view(), 0..4).boxed()
}

fn ir() -> BoxedStrategy<Ir<Tapir>> {
    let everyday = prop_oneof![
        (operation_id(), decision()).prop_map(|(id, operation)| Ir::ProposeInconsistent { id, operation }),
        (operation_id(), prepare()).prop_map(|(id, operation)| Ir::ProposeConsensus { id, operation }),
        (operation_id(), view()).prop_map(|(id, view)| Ir::InconsistentReply { id, view }),
        (operation_id(), view(), vote(), any::<bool>())
            .prop_map(|(id, view, verdict, finalized)| Ir::ConsensusReply { id, view, verdict, finalized }),
        operation_id().prop_map(|id| Ir::FinalizeInconsistent { id }),
        (operation_id(), vote(), view(), ballot())
            .prop_map(|(id, verdict, view, ballot)| Ir::FinalizeConsensus { id, verdict, view, ballot }),
        (operation_id(), view(), of(vote()), any::<bool>())
            .prop_map(|(id, view, verdict, finalized)| Ir::Confirm { id, view, verdict, finalized }),
    ];
    let views = prop_oneof![
        view().prop_map(|view| Ir::HigherView { view }),
        view().prop_map(|view| Ir::StartViewChange { view }),
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
        (view(), of(view()), part(), page(), supplement(), of(timestamp()), of(state_page()))
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
        (view(), number(), vec(part_range(), 0..4)).prop_map(|(view, series, missing)| Ir::PartsMissing {
            view,
            series,
            missing
        }),
        Just(Ir::Arrived),
        (number(), number()).prop_map(|(nonce, life)| Ir::ViewQuery { nonce, life }),
        (number(), view(), any::<bool>(), number())
            .prop_map(|(nonce, view, lost, life)| Ir::ViewQueryReply { nonce, view, lost, life }),
    ];
    prop_oneof![everyday.boxed(), views.boxed()].boxed()
}

fn recorded_vote(transactions: Vec<Arc<Transaction>>) -> BoxedStrategy<RecordedVote> {
    (small(), prop::sample::select(transactions), timestamp(), vote(), of(ballot()), any::<bool>())
        .prop_map(|(number, transaction, timestamp, vote, finalized, held)| RecordedVote {
            number,
            prepare: Prepare { transaction, timestamp, first: held.then_some(timestamp) },
            vote,
            finalized,
            held,
        })
        .boxed()
}

fn coordinator_change_reply() -> BoxedStrategy<Message> {
    vec(transaction(), 1..3)
        .prop_flat_map(|transactions| {
            let committed = of(prop::sample::select(transactions.clone()));
            let votes = vec(recorded_vote(transactions), 0..3);
            let accepted = of((ballot(), outcome()));
            let settled = any::<bool>();
            (transaction_id(), ballot(), view(), of(outcome()), committed, votes, accepted, settled).prop_map(
                |(transaction, ballot, view, outcome, committed, votes, accepted, settled)| {
                    Message::CoordinatorChangeReply {
                        transaction,
                        ballot,
                        view,
                        outcome,
                        committed,
                        votes,
                        accepted,
                        settled,
                    }
                },
            )
        })
        .boxed()
}

fn found_version() -> BoxedStrategy<FoundVersion> {
    (timestamp(), value(), of(timestamp()))
        .prop_map(|(version, value, absent_below)| FoundVersion { version, value, absent_below })
        .boxed()
}

fn snapshot_version() -> BoxedStrategy<SnapshotVersion> {
    (found_version(), timestamp(), of(timestamp()))
        .prop_map(|(found, newest, pending)| SnapshotVersion { found, newest, pending })
        .boxed()
}

fn snapshot_page() -> BoxedStrategy<FoundPage> {
    let found = (key(), snapshot_version()).prop_map(|(key, version)| FoundKey { key, version });
    (vec(found, 0..4), of(key()), of(timestamp()))
        .prop_map(|(keys, next, absent_below)| FoundPage { keys, next, absent_below })
        .boxed()
}

/// What read-only transactions say and hear.
fn snapshots() -> BoxedStrategy<Message> {
    let at_timestamp = snapshot_version();
    let validated =
        (found_version(), timestamp()).prop_map(|(found, until)| ValidatedVersion { found, until });
    let read = (key(), timestamp()).prop_map(|(key, version)| ReadVersion { key, version });
    let quorum = prop_oneof![
        (operation_id(), view(), vote(), any::<bool>(), vec(found_version(), 0..4)).prop_map(
            |(id, view, vote, finalized, found)| Message::HeldReads { id, view, vote, finalized, found }
        ),
        (transaction_id(), small(), timestamp(), vec(key(), 0..4), any::<bool>()).prop_map(
            |(transaction, round, timestamp, keys, in_turn)| Message::QuorumRead {
                transaction,
                round,
                timestamp,
                keys,
                in_turn
            }
        ),
        (transaction_id(), small(), view(), vec(at_timestamp, 0..4)).prop_map(
            |(transaction, round, view, found)| Message::QuorumReadReply { transaction, round, view, found }
        ),
        (transaction_id(), timestamp())
            .prop_map(|(transaction, oldest)| Message::SnapshotTooOld { transaction, oldest }),
    ];
    let scans = prop_oneof![
        (transaction_id(), small(), timestamp(), range(), small()).prop_map(
            |(transaction, round, timestamp, range, limit)| Message::QuorumScan {
                transaction,
                round,
                timestamp,
                range,
                limit
            }
        ),
        (transaction_id(), small(), view(), snapshot_page()).prop_map(|(transaction, round, view, page)| {
            Message::QuorumScanReply { transaction, round, view, page }
        }),
    ];
    let validated = prop_oneof![
        (transaction_id(), vec(key(), 0..4))
            .prop_map(|(transaction, keys)| Message::ReadValidated { transaction, keys }),
        (transaction_id(), vec(validated, 0..4))
            .prop_map(|(transaction, found)| Message::ReadValidatedReply { transaction, found }),
        (timestamp(), vec(read, 0..4)).prop_map(|(timestamp, reads)| Message::Validated { timestamp, reads }),
    ];
    prop_oneof![quorum.boxed(), scans.boxed(), validated.boxed()].boxed()
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
        (transaction_id(), small(), vec(scanned(), 0..4), of(bound())).prop_map(
            |(transaction, request, keys, next)| Message::ScanReply { transaction, request, keys, next }
        ),
    ];
    let recovery = prop_oneof![
        (transaction_id(), participants(), timestamp()).prop_map(|(transaction, participants, timestamp)| {
            Message::Recover { transaction, participants, timestamp }
        }),
        (transaction_id(), ballot(), timestamp()).prop_map(|(transaction, ballot, timestamp)| {
            Message::CoordinatorChange { transaction, ballot, timestamp }
        }),
        coordinator_change_reply(),
        (transaction_id(), ballot(), outcome()).prop_map(|(transaction, ballot, outcome)| {
            Message::RecordOutcome { transaction, ballot, outcome }
        }),
        (transaction_id(), ballot(), view()).prop_map(|(transaction, ballot, view)| {
            Message::RecordOutcomeReply { transaction, ballot, view }
        }),
        (transaction_id(), ballot())
            .prop_map(|(transaction, promised)| Message::Superseded { transaction, promised }),
        (transaction_id(), outcome())
            .prop_map(|(transaction, outcome)| Message::RecoverReply { transaction, outcome }),
        (transaction_id(), number(), number()).prop_map(|(transaction, ahead_micros, ahead_max_micros)| {
            Message::ClockAhead { transaction, ahead_micros, ahead_max_micros }
        }),
        (operation_id(), timestamp()).prop_map(|(id, timestamp)| Message::CommitPrepared { id, timestamp }),
        (transaction_id(), key()).prop_map(|(transaction, key)| Message::ReadInTurn { transaction, key }),
        (transaction_id(), key()).prop_map(|(transaction, key)| Message::ReadWaits { transaction, key }),
        (clock_time(), any::<bool>()).prop_map(|(sent, deadlines)| Message::ClockProbe { sent, deadlines }),
        (clock_time(), clock_time()).prop_map(|(sent, arrived)| Message::ClockProbeReply { sent, arrived }),
        Just(Message::Outdated),
    ];
    prop_oneof![
        1 => reads.boxed(),
        1 => snapshots(),
        3 => ir().prop_map(Message::Ir),
        2 => recovery.boxed(),
        2 => checkpoint(),
    ]
    .boxed()
}

fn checkpoint() -> BoxedStrategy<Message> {
    prop_oneof![
        (view(), timestamp(), timestamp(), cursor()).prop_map(|(view, floor, below, from)| Message::Gather {
            view,
            floor,
            below,
            from
        }),
        (view(), timestamp(), cursor(), vec(cursor(), 0..3), vec(cursor(), 0..3), of(cursor()))
            .prop_map(|(view, below, from, executed, open, next)| Message::GatherReply {
                view,
                below,
                from,
                executed,
                open,
                next
            })
            .boxed(),
        vec(transaction_id(), 0..3).prop_map(|transactions| Message::FetchDecisions { transactions }),
        vec((transaction_id(), decision()), 0..3).prop_map(|decisions| Message::Decisions { decisions }),
        (number(), vec(cursor(), 0..3))
            .prop_map(|(nonce, transactions)| Message::AreDecided { nonce, transactions }),
        (number(), view(), vec(transaction_id(), 0..3))
            .prop_map(|(nonce, view, missing)| Message::AreDecidedReply { nonce, view, missing }),
        (view(), timestamp()).prop_map(|(view, below)| Message::Complete { view, below }),
        (view(), timestamp()).prop_map(|(view, below)| Message::CompleteReply { view, below }),
        timestamp().prop_map(|floor| Message::RaiseFloor { floor }),
        transaction_id().prop_map(|transaction| Message::Forgotten { transaction }),
    ]
    .boxed()
}

fn tenure() -> BoxedStrategy<Tenure> {
    let members = (0..5_usize).prop_flat_map(|failures| btree_set(any::<u8>(), 2 * failures + 1));
    let members =
        members.prop_map(|members| Members::new(members.into_iter().map(ReplicaIndex)).expect("it is odd"));
    (any::<u32>(), members).prop_map(|(since, members)| Tenure { since: Epoch(since), members }).boxed()
}

fn groups() -> BoxedStrategy<Groups> {
    let succession =
        (of(tenure()), tenure()).prop_map(|(previous, present)| Succession { previous, present });
    let changed = btree_map(small().prop_map(ShardId), succession, 0..3);
    (any::<u32>(), 0..5_usize, changed)
        .prop_map(|(epoch, failures, changed)| {
            let size = GroupSize::new(2 * failures + 1).expect("it is odd");
            Groups { epoch: Epoch(epoch), size, changed }
        })
        .boxed()
}

pub(crate) fn record() -> BoxedStrategy<Record> {
    prop_oneof![
        Just(Record::Initialised),
        groups().prop_map(|groups| Record::EpochEntered { groups }),
        view().prop_map(|view| Record::ViewEntered { view }),
        (operation_id(), prepare(), vote()).prop_map(|(id, prepare, vote)| Record::Voted {
            id,
            prepare,
            vote
        }),
        (operation_id(), vote(), ballot()).prop_map(|(id, vote, ballot)| Record::VoteFinalized {
            id,
            vote,
            ballot
        }),
        (transaction_id(), decision(), any::<bool>()).prop_map(|(transaction, decision, executed)| {
            Record::Decided { transaction, decision, executed }
        }),
        transaction_id().prop_map(|transaction| Record::DecisionExecuted { transaction }),
        (transaction_id(), promise())
            .prop_map(|(transaction, promise)| Record::Promised { transaction, promise }),
        (view(), page()).prop_map(|(view, page)| Record::ViewPage { view, page }),
        (view(), of(view()), supplement(), of(timestamp())).prop_map(|(view, since, supplement, floor)| {
            Record::ViewInstalled { view, since, supplement, floor }
        }),
        timestamp().prop_map(|below| Record::Refusing { below }),
        timestamp().prop_map(|below| Record::Completed { below }),
        timestamp().prop_map(|floor| Record::FloorRaised { floor }),
        (view(), state_page()).prop_map(|(view, state)| Record::ViewState { view, state }),
        (view(), lineage(), timestamp(), timestamp(), lives()).prop_map(
            |(view, lineage, floor, complete, lives)| Record::SnapshotBegun {
                view,
                lineage,
                floor,
                complete,
                lives
            }
        ),
        (replica_index(), number()).prop_map(|(replica, life)| Record::LifeNoted { replica, life }),
        (timestamp(), supplement())
            .prop_map(|(read_floor, supplement)| Record::SnapshotBinds { read_floor, supplement }),
        state_page().prop_map(|state| Record::SnapshotPage { state }),
        timestamp().prop_map(|floor| Record::SnapshotEnded { floor }),
        timestamp().prop_map(|until| Record::ReadsPromised { until }),
    ]
    .boxed()
}

fn replica_index() -> BoxedStrategy<ReplicaIndex> {
    any::<u8>().prop_map(ReplicaIndex).boxed()
}

fn lives() -> BoxedStrategy<BTreeMap<ReplicaIndex, u64>> {
    btree_map(replica_index(), number(), 0..4).boxed()
}

fn text() -> BoxedStrategy<String> {
    vec(any::<char>(), 0..8).prop_map(String::from_iter).boxed()
}

/// What the catalogue knows of a version of a procedure.
pub(crate) fn deployment() -> BoxedStrategy<Deployment> {
    let stage = select(vec![Stage::Deploying, Stage::Deployed, Stage::Removing, Stage::Removed]);
    (stage, any::<u64>(), any::<u32>(), any::<u64>())
        .prop_map(|(stage, bytes, crc32, deployed_at)| Deployment {
            stage,
            bytes,
            crc32,
            deployed_at: ClockTime::from_micros(deployed_at),
        })
        .boxed()
}

/// What the catalogue keeps of a keyspace that was dropped.
pub(crate) fn dropped() -> BoxedStrategy<Dropped> {
    let stage = select(vec![DropStage::Waiting, DropStage::Purged, DropStage::Restored]);
    let times = (any::<u64>(), any::<u64>(), any::<u64>());
    (small(), text(), stage, times, of(keyspace()), vec(text(), 0..3), btree_set(small(), 0..3))
        .prop_map(|(id, name, stage, (dropped_at, delete_after, waited), definition, names, versions)| {
            let definition = definition.map(|definition| Keyspace { id: KeyspaceId(id), ..definition });
            Dropped {
                id: KeyspaceId(id),
                name: format!("k{name}"),
                stage,
                dropped_at: ClockTime::from_micros(dropped_at),
                delete_after: Duration::from_micros(delete_after),
                waited: Duration::from_micros(waited),
                definition,
                former_names: names.into_iter().map(|name| format!("k{name}")).collect(),
                procedures: versions
                    .into_iter()
                    .map(|version| deployment_key(KeyspaceId(id), "p", version))
                    .collect(),
            }
        })
        .boxed()
}

pub(crate) fn keyspace() -> BoxedStrategy<Keyspace> {
    let replicas = prop_oneof![Just(1usize), Just(3), Just(5)]
        .prop_flat_map(|replicas| vec(any::<u16>().prop_map(NodeId), replicas));
    let new = (small(), replicas).prop_map(|(id, replicas)| Shard::new(ShardId(id), replicas));
    let nodes =
        (0..3_usize).prop_flat_map(|failures| btree_set(any::<u16>().prop_map(NodeId), 2 * failures + 1));
    let shard = (new, of((nodes, 1..9_u32)))
        .prop_map(|(shard, moved)| match moved {
            Some((nodes, since)) => {
                let nodes: Vec<NodeId> = nodes.into_iter().collect();
                shard.moved_to(&nodes, Epoch(since)).expect("they are different")
            }
            None => shard,
        })
        .boxed();
    let comparison = (select(Rival::ALL.to_vec()), shard.clone())
        .prop_map(|(rival, shard)| Comparison { rival, service: rival.has_service().then_some(shard) });
    let durability = prop_oneof![Just(Durability::Sync), Just(Durability::Memory)];
    let clock_bound = of((0..=1_000_000_u64).prop_map(Duration::from_micros));
    (small(), text(), durability, vec(shard, 1..4), epoch(), clock_bound, of(comparison))
        .prop_map(|(id, name, durability, shards, epoch, clock_bound, comparison)| {
            let mut keyspace = Keyspace {
                id: KeyspaceId(id),
                name: format!("k{name}"),
                isolation: Isolation::Strict,
                durability,
                shards,
                epoch,
                clock_bound,
                comparison,
            };
            let since = keyspace.groups().map(|group| group.succession().present.since).max();
            keyspace.epoch = epoch.max(since.unwrap_or(epoch));
            keyspace
        })
        .boxed()
}

fn replica_report() -> BoxedStrategy<ReplicaReport> {
    (replica(), epoch(), of(epoch()), any::<bool>())
        .prop_map(|(replica, epoch, arrived, has_records)| ReplicaReport {
            replica,
            epoch,
            arrived,
            has_records,
        })
        .boxed()
}

pub(crate) fn epoch() -> BoxedStrategy<Epoch> {
    small().prop_map(Epoch).boxed()
}

fn topology() -> BoxedStrategy<Topology> {
    let node = (any::<u16>(), any::<u16>(), text()).prop_map(|(id, site, address)| Node {
        id: NodeId(id),
        site: SiteId(site),
        address,
    });
    (vec(text(), 0..3), vec(node, 0..3)).prop_map(|(sites, nodes)| Topology { sites, nodes }).boxed()
}

fn replica() -> BoxedStrategy<ReplicaId> {
    (small(), any::<u8>())
        .prop_map(|(shard, index)| ReplicaId { shard: ShardId(shard), index: ReplicaIndex(index) })
        .boxed()
}

fn address() -> BoxedStrategy<Address> {
    prop_oneof![replica().prop_map(Address::Replica), client().prop_map(Address::Client)].boxed()
}

pub(crate) fn packet() -> BoxedStrategy<Packet> {
    let said = prop_oneof![
        message().prop_map(ProtocolMessage::from),
        baselines::member_message().prop_map(ProtocolMessage::from),
        configuration::member_message().prop_map(ProtocolMessage::from),
        qwstore::message().prop_map(ProtocolMessage::from),
        granola::member_message().prop_map(ProtocolMessage::from),
    ];
    let envelope = (address(), address(), epoch(), said)
        .prop_map(|(from, to, epoch, message)| Packet::Envelope(Envelope { from, to, epoch, message }));
    let peer =
        prop_oneof![any::<u16>().prop_map(|id| Peer::Node(NodeId(id))), client().prop_map(Peer::Client)];
    let others = prop_oneof![
        (number(), peer, text()).prop_map(|(cluster, peer, site)| Packet::Hello(Hello {
            cluster,
            peer,
            site
        })),
        (number(), any::<u16>(), text(), text()).prop_map(|(cluster, node, site, version)| {
            Packet::Welcome(Welcome { cluster, node: NodeId(node), site, version })
        }),
        number().prop_map(|micros| Packet::Busy { retry_after: Duration::from_micros(micros) }),
        Just(Packet::CatalogueChanged),
        Just(Packet::DirectoryRequest),
        (topology(), keyspace())
            .prop_map(|(topology, system)| Packet::Directory(Directory { topology, system })),
        Just(Packet::StatusRequest),
        bound().prop_map(|json| Packet::Status { json: json.into() }),
        text().prop_map(|reason| Packet::Goodbye { reason }),
    ];
    let of_operators = prop_oneof![
        (replica(), of(text())).prop_map(|(replica, problem)| Packet::ReplicaService { replica, problem }),
        (replica(), number()).prop_map(|(replica, view)| Packet::AcceptLoss { replica, view: View(view) }),
        (replica(), of(text())).prop_map(|(replica, refused)| Packet::AcceptLossReply { replica, refused }),
        (replica(), small())
            .prop_map(|(replica, shard)| Packet::DeclareLost { replica, shard: ShardId(shard) }),
        (replica(), of(text())).prop_map(|(replica, refused)| Packet::DeclareLostReply { replica, refused }),
        verify::packet(),
        text().prop_map(|message| Packet::Unsupported { message }),
        of(text()).prop_map(|problem| Packet::Space { problem }),
        (text(), text()).prop_map(|(site, address)| Packet::Join { site, address }),
        (of(any::<u16>()), any::<bool>(), of(text())).prop_map(|(node, is_known, refused)| {
            Packet::JoinReply { node: node.map(NodeId), is_known, refused }
        }),
        Just(Packet::ReplicasRequest),
        (vec(replica_report(), 0..3), of(number()))
            .prop_map(|(replicas, room)| Packet::Replicas { replicas, room }),
        vec((text(), number()).prop_map(|(name, value)| Setting { name, value }), 0..3)
            .prop_map(|settings| Packet::Settings { settings }),
        (life(), vec(known_life(), 0..3)).prop_map(|(own, known)| Packet::Lives { own, known }),
    ];
    prop_oneof![8 => envelope.boxed(), 3 => others.boxed(), 1 => of_operators.boxed()].boxed()
}

fn life() -> BoxedStrategy<Life> {
    (number(), any::<bool>(), number(), vec(number(), 0..4))
        .prop_map(|(incarnation, replaces, number, tags)| Life {
            incarnation: Incarnation(incarnation),
            replaces,
            number,
            tags,
        })
        .boxed()
}

fn known_life() -> BoxedStrategy<KnownLife> {
    (any::<u16>(), number(), number(), number(), vec(number().prop_map(Incarnation), 0..3))
        .prop_map(|(node, incarnation, number, tag, former)| {
            let incarnation = Incarnation(incarnation);
            KnownLife { node: NodeId(node), remembered: Remembered { incarnation, number, tag, former } }
        })
        .boxed()
}

/// The names of the variants that a packet or record is made of, as far as its debug form shows them.
pub(crate) fn words(debug: &str) -> BTreeSet<String> {
    debug
        .split(|character: char| !character.is_alphanumeric())
        .filter(|word| word.starts_with(char::is_uppercase))
        .map(str::to_owned)
        .collect()
}

/// Counts how often each word occurs in the debug forms of generated values.
pub(crate) fn tally<T: std::fmt::Debug>(
    strategy: impl Strategy<Value = T>,
    count: usize,
) -> BTreeMap<String, usize> {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut tally = BTreeMap::new();
    for _ in 0..count {
        let value = strategy.new_tree(&mut runner).expect("no strategy here rejects").current();
        for word in words(&format!("{value:?}")) {
            *tally.entry(word).or_default() += 1;
        }
    }
    tally
}
