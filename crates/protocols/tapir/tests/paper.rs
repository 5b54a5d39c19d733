//! The claims of the TAPIR paper, one test each, by section. Where this protocol keeps a claim in another way than the paper
//! does, the test says so; claims that it deliberately does not keep are at the end.

use std::sync::Arc;

use quorate_core::machine::{InputOf, OutboxOf};
use quorate_core::{
    ClientId, ClockTime, Context, Effect, Epoch, GroupSize, Input, Instant, Key, Machine, Outbox, Random,
    ReplicaId, ReplicaIndex, ShardId, Timestamp, Transaction, TransactionId, Write,
};
use quorate_ir::{Message as Ir, OperationId};
use quorate_tapir::message::Prepare;
use quorate_tapir::{Boot, Message, Plant, Record, Replica, ReplicaConfig, Rules};

use crate::scripts::play;

/// How often the client spoke and was answered before it was told how the transaction ended.
fn round_trips(told: &[String], client: &str) -> usize {
    let end = told.iter().position(|line| line.starts_with("  ") && line.contains("COMMITTED"));
    let speaks = format!("{client} → ");
    let before = &told[..end.expect("it committed")];
    let is_speech = |line: &String| line.trim_start_matches("✗ ").starts_with(&speaks);
    let waves = before.iter().zip(std::iter::once(None).chain(before.iter().map(Some)));
    waves.filter(|(line, previous)| is_speech(line) && !previous.is_some_and(is_speech)).count()
}

fn count(told: &[String], part: &str) -> usize {
    told.iter().filter(|line| line.contains(part)).count()
}

fn has(told: &[String], part: &str) -> bool {
    count(told, part) > 0
}

const WRITE: &str = "begin c1 1\n put c1 1 a x\n commit c1 1\n deliver\n";

fn with(setting: &str, commands: &str) -> Vec<String> {
    play(&format!("cluster {setting}\n{commands}"))
}

// 3 Inconsistent replication

/// "A successful operation requires at least a single round-trip to f + 1 replicas", and ⌈3f/2⌉ + 1 matching results.
#[test]
fn section_3_2_1_a_consensus_operation_ends_after_one_round_trip_with_a_fast_quorum() {
    for (replicas, fast_quorum) in [(3, 3), (5, 4)] {
        for silent in 0..2 {
            let cuts: String = (0..silent).map(|at| format!("cut c1 1/r{at}\n")).collect();
            let told = with(&format!("shards=1 replicas={replicas}"), &format!("{cuts}{WRITE}"));
            let fast = replicas - silent >= fast_quorum;
            assert_eq!(
                has(&told, "COMMITTED at 100c1, fast path"),
                fast,
                "{silent} of {replicas} are silent"
            );
        }
    }
}

/// "If there is no fast quorum", the published protocol takes a slow path of one more round trip.
#[test]
fn section_3_2_1_the_slow_path_takes_two_round_trips_and_f_plus_one_replicas() {
    for (replicas, failures) in [(3, 1), (5, 2)] {
        let cuts: String = (0..failures).map(|at| format!("cut c1 1/r{at}\n")).collect();
        let told = with(&format!("shards=1 replicas={replicas}"), &format!("{cuts}{WRITE} advance 600"));
        assert!(has(&told, "COMMITTED at 100c1, slow path"), "{told:#?}");
        assert_eq!(round_trips(&told, "c1"), 2);
    }
}

/// "Due to IR's weak guarantees, replicas do not communicate on each operation."
#[test]
fn section_3_2_1_replicas_do_not_talk_to_each_other_in_normal_operation() {
    let told =
        with("shards=2 replicas=3", "begin c1 1\n put c1 1 a x\n put c1 1 b y\n commit c1 1\n deliver");
    assert!(has(&told, "COMMITTED"));
    let between =
        told.iter().filter(|line| !line.contains("c1 → ") && line.contains("→") && !line.contains("→ c1"));
    assert_eq!(between.count(), 0);
}

/// "Replicas that receive operations they have already executed" answer as before and do nothing.
#[test]
fn section_3_2_1_repeated_operations_change_nothing() {
    let once = with("shards=1 replicas=3", &format!("{WRITE} show 1/r0"));
    let twice = with("shards=1 replicas=3", &format!("{WRITE} repeat 1/r0\n show 1/r0"));
    assert_eq!(once[once.len() - 2..], twice[twice.len() - 2..]);
}

/// "The replica sets its state to VIEW-CHANGING and stops responding to client requests."
#[test]
fn section_3_2_2_a_replica_that_changes_views_does_not_respond() {
    let alone = "cut 1/r2 1/r0\n cut 1/r2 1/r1\n crash 1/r2\n restart 1/r2\n deliver\n";
    let told = with("shards=1 replicas=3", &format!("{alone}{WRITE} show 1/r2"));
    assert!(has(&told, "1/r2 changing views"));
    assert!(has(&told, "c1 → 1/r2: PREPARE") && !has(&told, "1/r2 → c1"));
}

/// "A failed replica recovers any operation that it may have executed previously and can still succeed."
#[test]
fn section_3_2_2_a_replica_recovers_by_a_view_change() {
    let missed = "crash 1/r2\n begin c1 1\n put c1 1 a x\n commit c1 1\n deliver\n advance 600\n";
    let told = with("shards=1 replicas=3", &format!("{missed} restart 1/r2\n deliver\n show 1/r2"));
    assert!(has(&told, "1/r2 normal in v1") && has(&told, "  a = x @100c1"));
}

/// "IR does not rely on synchronous disk writes": f replicas may come back with nothing.
#[test]
fn section_3_2_2_f_replicas_may_lose_everything() {
    for (replicas, failures) in [(3, 1), (5, 2)] {
        let lose: String = (0..failures).map(|at| format!("lose 1/r{at}\n")).collect();
        let shows: String = (0..replicas).map(|at| format!("show 1/r{at}\n")).collect();
        let setting = format!("shards=1 replicas={replicas}");
        let told = with(&setting, &format!("{WRITE}{lose} deliver\n advance 5000\n{shows}"));
        assert_eq!(count(&told, "  a = x @100c1"), replicas, "{told:#?}");
    }
}

/// "If clients receive responses with different view numbers, they send back the largest view number received."
#[test]
fn section_3_2_2_clients_tell_laggards_of_greater_views() {
    let split = "cut 1/r1 1/r0\n cut 1/r2 1/r0\n crash 1/r2\n restart 1/r2\n deliver\n";
    let told = with("shards=1 replicas=3", &format!("{split}{WRITE}"));
    assert!(has(&told, "c1 → 1/r0: higher view v1"));
}

/// P2: "finalized consensus operation results are always in the records of a majority out of any f + 1 replicas", so
/// whichever replica is missing, a view change keeps them.
#[test]
fn section_3_3_a_fast_result_survives_with_any_f_plus_one_replicas() {
    for missing in 0..3 {
        let (one, other) = ((missing + 1) % 3, (missing + 2) % 3);
        let vanish = "hold c1\n begin c1 1\n put c1 1 a x\n commit c1 1\n deliver\n crash c1\n drop c1\n";
        let change = format!(
            "crash 1/r{missing}\n crash 1/r{one}\n restart 1/r{one}\n advance 1900\n show 1/r{other}"
        );
        let told = with("shards=1 replicas=3", &format!("{vanish}{change}"));
        assert!(has(&told, "  prepared c1.1 at 100c1"), "without r{missing}: {told:#?}");
    }
}

// 4 TAPIR overview

/// "Reads go to the closest replica", which is the first in the routes.
#[test]
fn section_4_2_reads_go_to_one_replica_the_closest() {
    let told = with("shards=1 replicas=3", "begin c1 1\n get c1 1 a\n deliver");
    assert_eq!((count(&told, "READ"), count(&told, "c1 → 1/r0: READ")), (1, 1));
}

/// "TAPIR commits most transactions in a single round-trip", also over shards.
#[test]
fn section_4_2_a_transaction_over_shards_commits_in_one_round_trip() {
    let told =
        with("shards=2 replicas=3", "begin c1 1\n put c1 1 a x\n put c1 1 b y\n commit c1 1\n deliver");
    assert_eq!(round_trips(&told, "c1"), 1);
}

/// "No leader needed": all replicas process the same number of messages.
#[test]
fn section_4_2_all_replicas_do_the_same_work() {
    let told = with("shards=1 replicas=5", WRITE);
    let to = |index| count(&told, &format!("c1 → 1/r{index}:"));
    assert!((1..5).all(|index| to(index) == to(0) && to(index) > 0), "{told:#?}");
}

/// "TAPIR executes Begin operations locally and buffers Write operations at the client until commit."
#[test]
fn section_4_2_begin_and_write_need_no_messages() {
    assert_eq!(
        with("shards=1 replicas=3", "begin c1 1\n put c1 1 a x\n deliver").len(),
        1,
        "but for the cluster"
    );
}

/// The client "is free to abort the transaction" before it commits, and no replica hears of it.
#[test]
fn section_4_1_a_client_may_abort_at_no_cost() {
    let told = with("shards=1 replicas=3", "begin c1 1\n put c1 1 a x\n abort c1 1\n deliver");
    assert!(has(&told, "c1.1 ABORTED") && !has(&told, "→"));
}

/// "TAPIR does not depend on clock synchronization for correctness, only performance."
#[test]
fn section_4_3_1_a_slow_clock_costs_at_most_a_round_trip() {
    let read = "clock c2 90000\n begin c2 1\n put c2 1 a x\n commit c2 1\n deliver\n";
    let late = "clock c1 1\n begin c1 1\n put c1 1 a y\n commit c1 1\n deliver";
    let told = with("shards=1 replicas=3", &format!("{read}{late}"));
    assert!(has(&told, "c1.1 COMMITTED at 90001c1, fast path, 1 retries"), "{told:#?}");
    let own = told.iter().position(|line| line.contains("PREPARE c1.1")).unwrap();
    assert_eq!(round_trips(&told[own..], "c1"), 2, "without running the transaction again");
}

/// "At least one replica will detect any possible OCC conflict between transactions", whichever operations replicas have missed.
#[test]
fn section_4_3_2_a_conflict_is_detected_although_replicas_miss_operations() {
    for missed in 0..3 {
        let first = format!("cut c1 1/r{missed}\n {WRITE} advance 600\n mend c1 1/r{missed}\n");
        let stale = format!("cut 1/r{} c2\n cut 1/r{} c2\n", (missed + 1) % 3, (missed + 2) % 3);
        let read = "begin c2 1\n get c2 1 a\n deliver\n advance 2000\n put c2 1 a y\n";
        let heal = format!("mend 1/r{} c2\n mend 1/r{} c2\n", (missed + 1) % 3, (missed + 2) % 3);
        let told = with(
            "shards=1 replicas=3",
            &format!("{first}{stale}{read}{heal} commit c2 1\n deliver\n advance 600"),
        );
        assert!(has(&told, "c2.1 got a = nothing"), "it reads where the write is missing: {told:#?}");
        assert!(has(&told, "c2.1 CONFLICT"), "{told:#?}");
    }
}

// 5 The protocol

/// "If a read conflict exists with a previously committed transaction ... it sends an ABORT."
#[test]
fn section_5_1_2_a_stale_read_is_aborted() {
    let stale = "begin c2 1\n get c2 1 a\n deliver\n";
    let told = with("shards=1 replicas=3", &format!("{stale}{WRITE} put c2 1 b y\n commit c2 1\n deliver"));
    assert_eq!(count(&told, "→ c2: c2.1#1 ABORT"), 3);
    assert!(has(&told, "c2.1 CONFLICT"));
}

/// "If a conflict exists with a prepared transaction, the participant replica replies ABSTAIN."
#[test]
fn section_5_1_2_a_conflict_with_a_prepared_transaction_is_abstained_on() {
    let pending = "hold c2\n begin c2 1\n put c2 1 a y\n commit c2 1\n deliver\n";
    let told = with("shards=1 replicas=3", &format!("{pending}{WRITE}"));
    assert_eq!(count(&told, "→ c1: c1.1#1 ABSTAIN"), 3);
}

/// "Proposed timestamps must be unique, so clients use a tuple of their local time and their client id."
#[test]
fn section_5_1_2_timestamps_are_unique_also_on_a_clock_that_stands_still() {
    let one = "begin c1 1\n put c1 1 a x\n commit c1 1\n begin c1 2\n put c1 2 b y\n commit c1 2\n";
    let told =
        with("shards=1 replicas=3", &format!("{one} begin c2 1\n put c2 1 c z\n commit c2 1\n deliver"));
    for stamp in ["COMMITTED at 100c1", "COMMITTED at 101c1", "COMMITTED at 100c2"] {
        assert_eq!(count(&told, stamp), 1, "{told:#?}");
    }
}

/// "TAPIR may receive the Commit for a transaction before the Prepare."
#[test]
fn section_5_1_3_operations_may_arrive_in_any_order() {
    let held = "hold 1/r0\n begin c1 1\n put c1 1 a x\n commit c1 1\n deliver\n advance 600\n";
    let told =
        with("shards=1 replicas=3", &format!("{held} reverse 1/r0\n release 1/r0\n deliver\n show 1/r0"));
    let shown = told.iter().position(|line| line.starts_with("1/r0 normal")).unwrap();
    assert_eq!(told[shown + 1..], ["  a = x @100c1"], "and nothing is prepared: {told:#?}");
}

/// "TAPIR supports ... arbitrary client failures": wherever the client vanishes, its transaction ends and holds nothing.
#[test]
fn section_5_2_2_a_client_may_vanish_after_any_message() {
    for messages in 0..16 {
        let vanish = format!(
            "begin c1 1\n put c1 1 a x\n put c1 1 b y\n commit c1 1\n deliver {messages}\n crash c1\n"
        );
        let shows: String = (0..3).map(|at| format!("show 1/r{at}\nshow 2/r{at}\n")).collect();
        let told = with("shards=2 replicas=3", &format!("{vanish} advance 12000\n{shows}"));
        assert!(!has(&told, "  prepared"), "after {messages} messages: {told:#?}");
        let written = |key: &str| count(&told, &format!("  {key}"));
        let (a, b) = (written("a1 = x"), written("b2 = y"));
        assert!(a == b && (a == 0 || a == 3), "after {messages} messages, all or nothing: {a} and {b}");
    }
}

/// "If any replica in any shard has recorded a Commit or Abort, it must be preserved."
#[test]
fn section_5_2_2_a_recorded_outcome_is_preserved() {
    let told_one = "hold c1\n begin c1 1\n put c1 1 a x\n commit c1 1\n deliver\n cut c1 1/r0\n cut c1 1/r2\n release c1\n";
    let told = with(
        "shards=1 replicas=3",
        &format!("{told_one} deliver\n crash c1\n advance 6000\n show 1/r0\n show 1/r2"),
    );
    assert!(has(&told, "promised") && count(&told, "  a = x @100c1") == 2, "{told:#?}");
    assert!(!has(&told, "RECORD c1.1"), "what is known need not be decided again");
}

/// "Replicas agree not to process messages from the previous coordinator."
#[test]
fn section_5_2_2_the_previous_coordinator_is_refused() {
    let taken = "hold c1 1/r0\n hold c1 1/r1\n hold c1 1/r2\n begin c1 1\n put c1 1 a x\n commit c1 1\n resolve c2 c1.1\n";
    let late = "cut 1/r1 1/r2\n deliver 4\n deliver 3\n release c1 1/r2\n deliver";
    let told = with("shards=1 replicas=3", &format!("{taken}{late}"));
    assert!(has(&told, "c1.1 resolved: aborted") && !has(&told, "COMMITTED"), "{told:#?}");
}

/// Durability, 5.3: what was reported committed is there with any f replicas gone for good.
#[test]
fn section_5_3_committed_transactions_stay_committed() {
    for gone in 0..3 {
        let (one, other) = ((gone + 1) % 3, (gone + 2) % 3);
        let rest = format!(
            "crash 1/r{gone}\n crash 1/r{one}\n restart 1/r{one}\n advance 3000\n show 1/r{one}\n show 1/r{other}"
        );
        let told = with("shards=1 replicas=3", &format!("{WRITE}{rest}"));
        assert_eq!(count(&told, "  a = x @100c1"), 2, "without r{gone}");
    }
}

// 6 Extensions

/// "Read-only transactions have a single round-trip fast path that sends the Read to only one replica", if that one has a
/// validated version; else a quorum is asked, and then it has.
#[test]
fn section_6_1_a_validated_version_is_read_at_one_replica() {
    let read = "clock c2 500\n read-stale c2 1 5 a\n deliver\n";
    let again = "read-stale c2 2 5 a\n deliver";
    let told = with("shards=1 replicas=3", &format!("{WRITE}{read}{again}"));
    let of = |id: &str| told.iter().filter(|line| line.contains(id) && line.starts_with("c2 → ")).count();
    let asked = (of("c2.1"), count(&told, "QUORUM-READ c2.1"));
    assert_eq!(
        asked,
        (2, 1),
        "nobody has validated it up to 495, and two answer as to a quorum read: {told:#?}"
    );
    assert_eq!((of("c2.2"), count(&told, "c2.2 COMMITTED at 500c2")), (1, 1), "{told:#?}");
}

/// "A QuorumRead updates the read timestamp, ensuring that at least f + 1 replicas do not accept writes that would
/// invalidate the read": none at or below the snapshot's timestamp.
#[test]
fn section_6_1_later_writes_do_not_invalidate_a_quorum_read() {
    for (clock, commits_at) in [(199, "201c1"), (200, "201c1"), (201, "201c1"), (202, "202c1")] {
        let read = "clock c2 400\n read-at c2 1 200 a\n deliver\n";
        let told = with("shards=1 replicas=3", &format!("{read}clock c1 {clock}\n{WRITE}"));
        assert!(has(&told, &format!("c1.1 COMMITTED at {commits_at}")), "proposed at {clock}: {told:#?}");
    }
}

/// "This combination would require waits at the client for the uncertainty bound."
#[test]
fn section_6_1_reads_by_the_clock_wait_out_the_bound() {
    let told =
        with("shards=1 replicas=3 bound=3000", "read-now c1 1 a\n deliver\n clock c1 3100\n advance 1");
    assert!(has(&told, "c1.1 got a") && !has(&told, "COMMITTED"), "{told:#?}");
    let told =
        with("shards=1 replicas=3 bound=3000", "read-now c1 1 a\n deliver\n clock c1 3101\n advance 4");
    assert!(has(&told, "c1.1 COMMITTED at 100c1"), "{told:#?}");
}

/// "Replicas do not accept prepares for any transaction with a timestamp before the sync point", and after it a replica "is
/// guaranteed to have all of the transactions that the group committed" before it.
#[test]
fn section_6_2_a_sync_point_fills_holes_and_refuses_what_comes_before() {
    let missed = "cut c1 1/r2\n";
    let synced = "clock 1/r0 60000000\n clock 1/r1 60000000\n clock 1/r2 60000000\n advance 20000\n";
    let late = "clock c2 200\n begin c2 1\n put c2 1 b y\n commit c2 1\n deliver\n show 1/r2";
    let told = with("shards=1 replicas=3", &format!("{missed}{WRITE}show 1/r2\n{synced}{late}"));
    let shown: Vec<bool> = told
        .iter()
        .enumerate()
        .filter(|(_, line)| line.starts_with("1/r2 normal"))
        .map(|(at, _)| told.get(at + 1).is_some_and(|line| line.contains("a = x @100c1")))
        .collect();
    assert_eq!(shown, [false, true], "{told:#?}");
    assert_eq!(count(&told, "c2.1#1 RETRY above 50000000c0"), 3, "{told:#?}");
}

/// "TAPIR can then accept proposed timestamps any time in the past as long as they respect serializable transaction
/// ordering": as a rule set of its own, because it gives up the order of real time.
#[test]
fn section_6_3_the_serializable_variant_accepts_the_past() {
    let read = "clock c2 50\n begin c2 1\n get c2 1 a\n deliver\n";
    let overwritten = "put c2 1 b y\n commit c2 1\n deliver";
    let write = "clock c2 50\n begin c2 1\n put c2 1 a y\n commit c2 1\n deliver";
    for (setting, reads, writes) in [
        ("", "c2.1 CONFLICT", "c2.1 COMMITTED at 101c2"),
        (" serializable", "COMMITTED at 50c2", "COMMITTED at 50c2"),
    ] {
        let setting = format!("shards=1 replicas=3{setting}");
        let told = with(&setting, &format!("{read}{WRITE}{overwritten}"));
        assert!(has(&told, reads), "a read of the past: {told:#?}");
        let told = with(&setting, &format!("{WRITE}{write}"));
        assert!(has(&told, writes), "a write in the past: {told:#?}");
    }
}

/// "Clients can exponentially increase their proposed timestamp on each retry."
#[test]
fn section_6_5_each_retry_goes_further() {
    let behind = "clock c2 50\n hold c2\n begin c2 1\n put c2 1 a y\n commit c2 1\n deliver\n";
    let overtaken =
        "clock c1 1150\n begin c1 2\n put c1 2 a z\n commit c1 2\n deliver\n release c2\n deliver";
    let told = with("shards=1 replicas=3 retry=1000", &format!("{WRITE}{behind}{overtaken}"));
    for proposed in ["c2.1#1 w(a=y) at 50c2", "c2.1#2 w(a=y) at 1101c2", "c2.1#3 w(a=y) at 3151c2"] {
        assert_eq!(count(&told, proposed), 3, "{told:#?}");
    }
    assert!(has(&told, "c2.1 COMMITTED at 3151c2"), "{told:#?}");
}

/// "The participant replica can wait to see if other transactions with smaller timestamps arrive ... and process the
/// transaction in timestamp order": then the later one need not be tried again.
#[test]
fn section_6_6_waits_at_replicas_bring_prepares_into_timestamp_order() {
    let both = "clock c2 101\n begin c1 1\n put c1 1 a x\n begin c2 1\n put c2 1 a y\n hold c1\n commit c1 1\n commit c2 1\n deliver\n release c1\n deliver";
    let told = with("shards=1 replicas=3 wait=1000", both);
    assert!(has(&told, "c2.1 COMMITTED at 101c2, fast path, 0 retries"), "{told:#?}");
    let told = with("shards=1 replicas=3 wait=0", both);
    assert!(has(&told, "c2.1 CONFLICT"), "{told:#?}");
}

fn step<M: Machine>(machine: &mut M, input: InputOf<M>) -> OutboxOf<M> {
    let mut outbox = Outbox::new();
    let clock = ClockTime::from_micros(1_000);
    let mut random = Random::new(1);
    machine.step(&mut Context { now: Instant::START, clock, random: &mut random }, input, &mut outbox);
    outbox
}

const CLIENT: ClientId = ClientId(1);
const PREPARE: OperationId =
    OperationId { transaction: TransactionId { client: CLIENT, sequence: 1, attempt: 0 }, number: 1 };
const AT: Timestamp = Timestamp { micros: 1_000, client: CLIENT };

/// A replica of a new group.
fn replica(rules: Rules) -> Replica {
    let id = ReplicaId { shard: ShardId(1), index: ReplicaIndex(0) };
    let group = GroupSize::new(3).unwrap();
    let config = ReplicaConfig { rules, ..ReplicaConfig::new(id, group, Boot::Initialise) };
    let mut replica = Replica::restore(config, []);
    step(&mut replica, Input::Start);
    replica
}

fn said(message: Message) -> InputOf<Replica> {
    Input::Message { from: CLIENT.into(), epoch: Epoch::FIRST, message }
}

/// The prepare of a transaction that writes one key.
fn propose() -> InputOf<Replica> {
    let transaction = Transaction {
        writes: vec![Write { key: Key::from("a"), value: None }],
        participants: vec![ShardId(1)],
        ..Transaction::default()
    };
    let operation = Prepare { transaction: Arc::new(transaction), timestamp: AT, first: None };
    said(Message::Ir(Ir::ProposeConsensus { id: PREPARE, operation }))
}

/// Synchronous log writes: a vote is on disk before it is sent, and so is one that is repeated (T25). The order of the
/// outbox says so; a send that does not wait would be another effect.
#[test]
fn section_6_4_a_vote_is_on_disk_before_it_is_sent_and_before_it_is_repeated() {
    let mut sound = replica(Rules::EXCLUSIVE);
    let first = step(&mut sound, propose());
    let [Effect::Persist { record: Record::Voted { .. }, .. }, Effect::Send { .. }] = first.effects() else {
        panic!("{first:?}")
    };
    let again = step(&mut sound, propose());
    assert!(matches!(again.effects(), [Effect::Send { .. }]), "it waits for the same record: {again:?}");
    let mut hasty = replica(Rules::planted(Plant::VoteBeforeSync));
    step(&mut hasty, propose());
    let again = step(&mut hasty, propose());
    assert!(matches!(again.effects(), [Effect::SendUnordered { .. }]), "{again:?}");
}

/// "We can reduce all consensus and synchronization quorums to f + 1": not here. Say f + 1 votes were final, and f replicas are
/// down, their logs intact. Each replica votes OK on at most one of two transactions that conflict. There are votes of the
/// others such that the first may have had its f + 1, and such that the second may have: a replica that hears them knows no
/// more. With fast quorums of ⌈3f/2⌉ + 1 at most one of two can ever look as if it had succeeded.
#[test]
fn section_6_4_majorities_as_fast_quorums_leave_f_plus_one_replicas_undecided() {
    /// True if votes of so many that are up, for the first and for the second, leave open which of the two has succeeded.
    fn is_undecided(group: GroupSize, fast_quorum: usize, first: usize, second: usize) -> bool {
        let down = group.replicas() - group.majority();
        first + down >= fast_quorum && second + down >= fast_quorum
    }
    for n in (3..=GroupSize::MAX).step_by(2) {
        let group = GroupSize::new(n).unwrap();
        let up = group.majority();
        let votes = || (0..=up).flat_map(|first| (0..=up - first).map(move |second| (first, second)));
        let undecided = |fast| votes().filter(|(one, other)| is_undecided(group, fast, *one, *other)).count();
        assert!(undecided(group.majority()) > 0, "{n} replicas");
        assert_eq!(undecided(group.fast_quorum()), 0, "{n} replicas");
        // One vote hides it, as the smallest case shows: one replica voted for the first, and one for the second.
        assert!(is_undecided(group, group.majority(), 1, 1));
    }
}

/// A COMMIT is self-contained, because a replica may never have seen the prepare. One that leaves the contents out counts only
/// where the prepare is, at the same timestamp, and is as good as lost elsewhere.
#[test]
fn section_5_1_3_a_commit_without_contents_needs_its_prepare() {
    let commit = |timestamp| said(Message::CommitPrepared { id: PREPARE, timestamp, together: false });
    let mut replica = replica(Rules::EXCLUSIVE);
    assert!(step(&mut replica, commit(AT)).is_empty());
    step(&mut replica, propose());
    assert!(step(&mut replica, commit(Timestamp { micros: 2_000, ..AT })).is_empty());
    let effects = step(&mut replica, commit(AT));
    let recorded = |effect: &Effect<_, _, Record, _>| {
        matches!(effect, Effect::Persist { record: Record::CommittedAsPrepared { executed: true, .. }, .. })
    };
    assert!(effects.effects().iter().any(recorded), "{effects:?}");
}

// Claims of the paper that this protocol does not promise, because they are not true under clock skew.

/// Section 5 claims that "if transaction A commits before transaction B, then A will have a lower timestamp than B". Nothing
/// here relies on it: transactions without a conflict may well be numbered the other way round.
#[test]
fn section_5_timestamps_do_not_follow_real_time() {
    let later = "clock c2 1\n begin c2 1\n put c2 1 b y\n commit c2 1\n deliver";
    let told = with("shards=1 replicas=3", &format!("{WRITE}{later}"));
    assert!(has(&told, "c1.1 COMMITTED at 100c1") && has(&told, "c2.1 COMMITTED at 1c2"));
}
