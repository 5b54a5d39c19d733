//! Transactions commit locally, ask their shards, and are recorded.

use super::*;

#[test]
fn a_commit_goes_from_the_node_to_its_shards_and_into_the_log() {
    let mut home = Home::new();
    let told = home.commits(1, 1, "apple=y oak=x");
    assert_eq!(told, ["1/r0 ← PREPARE here c1.1 oak=x in @1001"]);
    assert_eq!((home.alone.machine.load(None), home.alone.machine.load(Some(ClientId(2)))), (1, 0));
    assert_eq!(home.commits(1, 1, "apple=y oak=x"), ["c1 ← c1.1 UNDER-WAY"]);
    assert_eq!(home.reads(1, 1, vec![key("oak")]), ["✗ under way already"]);
    let other_life =
        Message::LocalVote { transaction: txn(1, 1), life: Life(6), proposal: at(2_000), leads: false };
    assert_eq!(home.hears("1/r0", other_life), ["✗ said in another life"]);
    let elsewhere =
        Message::LocalVote { transaction: txn(1, 1), life: NEIGHBOUR, proposal: at(2_000), leads: false };
    assert_eq!(home.hears("1/r1", elsewhere.clone()), ["✗ said in another life"], "it is not on this node");
    let told = home.hears("1/r0", elsewhere);
    let asked = [
        "c1 ← c1.1 SHOWN @2000, 1 in its chain",
        "1/r0 ← PREPARE c1.1 oak=x in @1001",
        "2/r0 ← PREPARE c1.1 apple=y in @1001",
    ];
    assert_eq!(told, asked, "it does not lead");
    assert!(home.alone.machine.is_committing(txn(1, 1)));
    assert_eq!(
        home.commits(1, 1, "apple=y oak=x"),
        ["c1 ← c1.1 SHOWN @2000, 1 in its chain"],
        "that may be lost"
    );
    assert_eq!(home.is_prepared("1/r0", 1, 1, 2_000, vec![]), NOTHING);
    assert_eq!(home.is_prepared("2/r1", 1, 1, 2_500, vec![holder(2, 9_000)]), NOTHING);
    let vote = |from: &str, life, view, proposal| {
        let (transaction, life, view, proposal) = (txn(1, 1), Life(life), View(view), at(proposal));
        (from.to_owned(), Message::Vote { transaction, life, view, proposal })
    };
    for (from, message) in [vote("2/r2", 2, 0, 3_000), vote("2/r2", 3, 1, 3_000), vote("2/r0", 3, 0, 3_000)] {
        assert_eq!(home.hears(&from, message.clone()), NOTHING, "{from}: {message:?}");
    }
    let (from, message) = vote("2/r2", 3, 0, 4_000);
    assert_eq!(home.hears(&from, message), ["3/r1 ← RECORD c1.1 committed @4000"]);
    assert_eq!(
        home.hears("1/r0", Message::GiveWay { transaction: txn(1, 1) }),
        ["✗ its decision is on its way"]
    );
    let refused = Message::Refused { transaction: txn(1, 1), refusal: Refusal::Conflict };
    assert_eq!(home.hears("2/r1", refused), ["✗ its decision is on its way"]);
    let told = home.is_recorded(1, 1, 4_000);
    let expected = [
        "c1 ← c1.1 committed @4000, snapshot @1001",
        "1/r0 ← DECIDE c1.1 committed @4000",
        "2/r1 ← DECIDE c1.1 committed @4000, apple read @",
        "2/r2 ← DECIDE c1.1 committed @4000",
    ];
    let told: Vec<String> =
        told.into_iter().map(|line| line.split(", apple").next().unwrap().to_owned()).collect();
    let expected = expected.map(|line| line.split(", apple").next().unwrap().to_owned());
    assert_eq!(told, expected, "the leader and all who have voted");
    assert_eq!(home.alone.machine.load(None), 0);
    let again = ["c1 ← c1.1 committed @4000, snapshot @1001"];
    assert_eq!(home.commits(1, 1, "apple=y oak=x"), again);
    assert_eq!(
        home.hears(
            "2/r1",
            Message::Vote { transaction: txn(1, 1), life: Life(3), view: View(0), proposal: at(9) }
        ),
        ["✗ nothing waits under this name"]
    );
    assert_eq!(home.is_prepared("2/r1", 1, 1, 2_500, vec![]), ["✗ nothing waits under this name"]);
}

#[test]
fn a_replica_that_does_not_vote_in_time_is_passed_above_its_grant() {
    let mut home = Home::new();
    home.commits(1, 1, "oak=x");
    home.is_voted_here(1, 1, 2_000);
    assert_eq!(home.is_prepared("1/r0", 1, 1, 2_000, vec![holder(1, 8_000), holder(2, 9_000)]), NOTHING);
    let vote = Message::Vote { transaction: txn(1, 1), life: Life(3), view: View(0), proposal: at(3_000) };
    assert_eq!(home.hears("1/r2", vote.clone()), NOTHING);
    assert_eq!(home.alone.waits(499), NOTHING);
    assert_eq!(home.hears("1/r2", vote), NOTHING, "half a second is not over");
    assert_eq!(home.alone.waits(1), ["1 ms: 3/r1 ← RECORD c1.1 committed @8001"]);
    assert_eq!(home.alone.machine.counts().unwrap().passed, 1);
    // The vote of the replica on this node stands as its note does, under every view.
    let mut home = Home::new();
    home.commits(1, 1, "oak=x");
    home.is_voted_here(1, 1, 2_000);
    let own = Holder { replica: ReplicaIndex(0), life: NEIGHBOUR, until: at(8_000) };
    assert_eq!(home.is_prepared("1/r1", 1, 1, 1_500, vec![own]), ["3/r1 ← RECORD c1.1 committed @2000"]);
}

#[test]
fn a_leader_that_does_not_answer_is_asked_again_or_another() {
    let mut home = Home::new();
    home.commits(1, 1, "apple=x");
    assert_eq!(home.alone.machine.load(None), 1);
    let asked = |told| only(told, "PREPARE");
    assert_eq!(asked(home.alone.waits(999)), NOTHING);
    assert_eq!(asked(home.alone.waits(1)), ["1 ms: 2/r1 ← PREPARE c1.1 apple=x in @1001"]);
    let named = |leader| Message::NotLeading { transaction: Some(txn(1, 1)), leader: ReplicaIndex(leader) };
    assert_eq!(home.hears("2/r0", named(2)), ["✗ this is known"], "it was not asked last");
    assert_eq!(home.hears("2/r1", named(0)), ["2/r0 ← PREPARE c1.1 apple=x in @1001"]);
    assert_eq!(home.hears("2/r0", named(2)), NOTHING, "a name is followed once");
    let told = asked(home.alone.waits(100));
    assert_eq!(told, ["100 ms: 2/r2 ← PREPARE c1.1 apple=x in @1001"], "the latest name, a moment later");
    assert_eq!(home.hears("2/r2", named(2)), NOTHING);
    let told = asked(home.alone.waits(100));
    assert_eq!(told, ["100 ms: 2/r2 ← PREPARE c1.1 apple=x in @1001"], "it names itself, and is not silent");
    let told = home.alone.waits(8_800);
    assert_eq!(told.iter().filter(|line| line.contains("PREPARE")).count(), 8, "{told:?}");
    let ends = ["c1 ← c1.1 aborted: shard 2 is silent"];
    assert!(told.contains(&format!("8800 ms: {}", ends[0])), "{told:?}");
    assert_eq!(home.alone.machine.load(None), 0);
    assert_eq!(home.commits(1, 1, "apple=x"), ends, "it is remembered");
}

#[test]
fn transactions_of_one_node_that_write_one_key_conflict_or_stand_on_each_other() {
    let mut home = Home::new();
    home.commits(1, 1, "oak=x");
    let told = home.commits(2, 1, "oak=y");
    assert_eq!(told, ["c2 ← c2.1 aborted: a conflict"], "that is being certified");
    home.is_voted_here(1, 1, 2_000);
    home.reads(3, 1, vec![key("elm")]);
    home.is_told("1/r0", 1, vec![version("elm", "", 0)]);
    let told = home.commits(4, 1, "oak=y");
    assert_eq!(told, ["1/r0 ← PREPARE here c4.1 oak=y in @2001 on top of c1.1"]);
    let told = home.commits(3, 1, "oak=z");
    assert_eq!(told, ["c3 ← c3.1 aborted: a conflict"], "that is certified since");
}

#[test]
fn a_commit_of_another_period_is_not_taken() {
    let mut home = Home::with(|config| config.floor_lag = Duration::from_secs(2));
    let commit = |home: &Home, sequence, life, number| {
        let Message::Commit { session, snapshot, begun, writes, shows, .. } =
            home.commit(1, sequence, Session::default(), "apple=x")
        else {
            unreachable!("it is one")
        };
        let period = Period { life, number };
        Message::Commit {
            knows_indexes: false,
            transaction: txn(1, sequence),
            session,
            snapshot,
            period,
            begun,
            writes,
            shows,
        }
    };
    let other = ["c1 ← c1.1 OTHER-PERIOD"];
    for (life, number) in [(Life(0), 0), (Life(9), 1), (Life(u64::MAX), 1)] {
        let message = commit(&home, 1, life, number);
        assert_eq!(home.hears("c1", message), other, "{life:?} {number}");
    }
    let message = commit(&home, 1, home.life, 0);
    let told = home.hears("c1", message);
    assert_eq!(told[0], "c1 ← c1.1 SHOWN @1002, 1 in its chain", "no replica certifies it here: {told:?}");
    home.alone.waits(2_000);
    home.alone.waits(2_000);
    let message = commit(&home, 2, home.life, 1);
    assert_eq!(home.hears("c1", message), ["c1 ← c1.2 OTHER-PERIOD"], "two are over");
    let message = commit(&home, 3, home.life, 2);
    assert!(home.hears("c1", message)[0].contains("SHOWN"));
}

#[test]
fn a_transaction_that_the_node_has_lost_is_doomed() {
    let mut home = Home::new();
    let read = |snapshot| Message::Read {
        transaction: txn(1, 1),
        session: Session::default(),
        snapshot: Some(at(snapshot)),
        request: 2,
        wanted: vec![key("oak")],
    };
    assert_eq!(home.hears("c1", read(500)), ["c1 ← c1.1 DOOMED: it was lost"]);
    let Message::Commit { session, period, begun, writes, shows, .. } =
        home.commit(1, 2, Session::default(), "oak=x")
    else {
        unreachable!("it is one")
    };
    let snapshot = Some(at(500));
    let message = Message::Commit {
        knows_indexes: false,
        transaction: txn(1, 2),
        session,
        snapshot,
        period,
        begun,
        writes,
        shows,
    };
    assert_eq!(home.hears("c1", message.clone()), ["c1 ← c1.2 aborted: it was lost"]);
    // A late copy of its read has begun another one.
    home.reads(1, 3, vec![key("oak")]);
    let Message::Commit { session, snapshot, period, begun, writes, shows, .. } = message else {
        unreachable!("it is one")
    };
    let message = Message::Commit {
        knows_indexes: false,
        transaction: txn(1, 3),
        session,
        snapshot,
        period,
        begun,
        writes,
        shows,
    };
    assert_eq!(home.hears("c1", message), ["✗ it has ended here"]);
}

#[test]
fn a_client_drops_a_transaction_only_while_it_reads() {
    let mut home = Home::new();
    let abort = |sequence| Message::Abort { transaction: txn(1, sequence) };
    assert_eq!(home.hears("c1", abort(1)), ["✗ nothing waits under this name"]);
    home.reads(1, 1, vec![key("oak")]);
    assert_eq!(home.hears("c1", abort(1)), ["c1 ← c1.1 DOOMED: it was lost"]);
    home.commits(1, 2, "oak=x");
    assert_eq!(home.hears("c1", abort(2)), ["✗ under way already"]);
    home.reads(1, 3, vec![key("elm")]);
    home.commits(1, 3, "elm=x");
    assert_eq!(home.hears("c1", abort(3)), ["✗ under way already"], "it is to commit once it has read");
    let told = home.is_told("1/r0", 2, vec![version("elm", "", 0)]);
    let expected = ["c1 ← c1.3 reads elm=nothing in @1001", "1/r0 ← PREPARE here c1.3 elm=x in @1001"];
    assert_eq!(told, expected);
}

#[test]
fn a_transaction_whose_client_is_silent_for_long_is_forgotten() {
    // A minute, unless another time is configured.
    let mut home = Home::new();
    home.reads(1, 1, vec![key("oak")]);
    home.is_told("1/r0", 1, vec![version("oak", "", 0)]);
    assert_eq!(only(home.alone.waits(59_999), "DOOMED"), NOTHING);
    assert_eq!(only(home.alone.waits(1), "DOOMED").len(), 1);
    let mut home = Home::with(|config| config.idle_timeout = Duration::from_secs(3));
    home.reads(1, 1, vec![key("oak")]);
    home.is_told("1/r0", 1, vec![version("oak", "", 0)]);
    home.alone.waits(2_000);
    let again = Message::Read {
        transaction: txn(1, 1),
        session: Session::default(),
        snapshot: Some(at(1_001)),
        request: 2,
        wanted: vec![key("elm")],
    };
    home.hears("c1", again);
    assert_eq!(only(home.alone.waits(2_999), "DOOMED"), NOTHING);
    assert_eq!(only(home.alone.waits(1), "DOOMED"), ["1 ms: c1 ← c1.1 DOOMED: it was lost"]);
}

#[test]
fn what_no_client_sends_is_not_committed() {
    let mut home = Home::new();
    let malformed = ["✗ no coordinator sends this"];
    assert_eq!(home.commits(1, 1, "oak=x elm=x"), malformed);
    assert_eq!(home.commits(1, 1, "oak=x oak=y"), malformed);
    let many = |count: usize| (0..count).map(|at| format!("{{oak}}{at:08}=x")).collect::<Vec<_>>().join(" ");
    assert_eq!(home.commits(1, 1, &many(TRANSACTION_ENTRIES_MAX + 1)), malformed);
    let prepares = |told: Vec<String>| only(told, "PREPARE here").len();
    assert_eq!(prepares(home.commits(1, 1, &many(TRANSACTION_ENTRIES_MAX))), 1);
    let long = "x".repeat(quorate_core::transaction::TRANSACTION_BYTES_MAX - 3);
    assert_eq!(home.commits(1, 2, &format!("oak={long}x")), malformed);
    assert_eq!(prepares(home.commits(1, 2, &format!("oak={long}"))), 1);
    for from in ["c1", "2/r0", "3/r1", "4/r0"] {
        let told = home
            .hears(from, Message::Shown { transaction: txn(1, 1), snapshot: at(1), local: at(2), chain: 1 });
        let expected =
            if from == "c1" { "✗ only replicas are told so" } else { "✗ the sender has no say in this" };
        assert_eq!(told, [expected], "{from}");
    }
    // A client whose clock is far ahead would have its outcome remembered for as long.
    let Message::Commit { session, snapshot, period, writes, shows, .. } =
        home.commit(1, 3, Session::default(), "oak=x")
    else {
        unreachable!("it is one")
    };
    let begun = |micros| Message::Commit {
        knows_indexes: false,
        transaction: txn(1, 3),
        session,
        snapshot,
        period,
        begun: at(micros),
        writes: writes.clone(),
        shows,
    };
    assert_eq!(
        home.hears("c1", begun(30_001_005)),
        ["c1 ← c1.3 aborted: the client's clock is ahead by 30000005"]
    );
    let told = home.hears("c1", begun(30_001_000));
    assert!(!told[0].contains("ahead"), "{told:?}");
}

#[test]
fn what_a_neighbour_has_forgotten_aborts() {
    let mut home = Home::new();
    home.commits_locally(1, 1, "oak=x", 2_000);
    home.commits(2, 1, "apple=a");
    let told = home.hears("1/r0", Message::Hello { life: NEIGHBOUR, wants: false });
    assert_eq!(told, NOTHING, "it is the same life");
    assert_eq!(home.commits(5, 1, "iris=x"), ["1/r0 ← PREPARE here c5.1 iris=x in @2003"]);
    home.hears("1/r0", Message::GiveWay { transaction: txn(5, 1) });
    let told = home.hears("1/r0", Message::Hello { life: Life(6), wants: false });
    assert_eq!(told[0], "c1 ← c1.1 aborted: a conflict", "{told:?}");
    assert_eq!(home.alone.machine.load(None), 1, "the other one was noted nowhere");
    assert_eq!(
        home.hears("1/r1", Message::Hello { life: Life(6), wants: false }),
        ["✗ the sender is on another node"]
    );
    let bound = Message::Bound { until: at(5), clock: at(5) };
    assert_eq!(home.hears("1/r1", bound), ["✗ the sender is on another node"]);
    // It serves no snapshots in this life yet, so it does not certify either.
    let told = home.commits(3, 1, "elm=x");
    assert!(told[0].contains("SHOWN"), "{told:?}");
}

#[test]
fn decisions_of_a_transaction_that_has_aborted_here_are_told_to_the_shard() {
    let mut home = Home::new();
    home.commits(1, 1, "apple=a");
    home.hears("2/r0", Message::Refused { transaction: txn(1, 1), refusal: Refusal::Conflict });
    let told = home.is_prepared("2/r1", 1, 1, 1_500, vec![]);
    assert_eq!(told, ["2/r1 ← DECIDE c1.1 aborted"]);
}

/// A transaction that has become final is in a snapshot, or is not: then it has overwritten what the snapshot holds.
#[test]
fn a_final_commit_of_the_node_is_in_the_way_of_snapshots_below() {
    for (timestamp, expected) in
        [(2_001, "1/r0 ← PREPARE here c2.1 oak=y in @2001"), (2_002, "c2 ← c2.1 aborted: a conflict")]
    {
        let mut home = Home::new();
        home.commits_locally(1, 1, "oak=x", 2_000);
        home.reads(2, 1, vec![key("elm")]);
        home.is_told("1/r0", 1, vec![version("elm", "", 0)]);
        home.is_prepared("1/r0", 1, 1, timestamp, vec![]);
        home.is_recorded(1, 1, timestamp);
        assert_eq!(home.commits(2, 1, "oak=y"), [expected], "{timestamp}");
    }
}

/// A commit whose client's clock is far ahead, at every stage of its transaction.
#[test]
fn a_client_whose_clock_is_far_ahead_commits_nothing() {
    let far = |home: &Home, sequence| match home.commit(1, sequence, Session::default(), "elm=x") {
        Message::Commit { transaction, session, snapshot, period, writes, shows, .. } => Message::Commit {
            knows_indexes: false,
            transaction,
            session,
            snapshot,
            period,
            begun: at(40_001_000),
            writes,
            shows,
        },
        other => panic!("it is one: {other:?}"),
    };
    let mut home = Home::new();
    let mut earlier = far(&home, 3);
    if let Message::Commit { period, .. } = &mut earlier {
        period.life = Life(period.life.0 + 1);
    }
    let told = home.hears("c1", earlier);
    assert!(
        told[0].contains("c1.3") && !told[0].contains("aborted"),
        "an earlier life may have let it in: {told:?}"
    );
    let refused = |sequence| format!("c1 ← c1.{sequence} aborted: the client's clock is ahead by 40000000");
    let message = far(&home, 1);
    assert_eq!(home.hears("c1", message), [refused(1)]);
    assert_eq!(home.reads(1, 1, vec![key("oak")]).len(), 1, "nothing has begun, so nothing is remembered");
    let message = far(&home, 1);
    assert_eq!(home.hears("c1", message), ["c1 ← c1.1 DOOMED: the client's clock is ahead by 40000000"]);
    home.commits(1, 2, "oak=x");
    let message = far(&home, 2);
    assert_eq!(home.hears("c1", message), ["✗ under way already"], "it was asked to commit before");
}

/// The leader that was asked has answered, or does not name another.
#[test]
fn a_late_word_that_another_leads_changes_nothing() {
    let mut home = Home::new();
    home.commits(1, 1, "apple=x pear=x");
    let named = |leader| Message::NotLeading { transaction: Some(txn(1, 1)), leader: ReplicaIndex(leader) };
    assert_eq!(home.is_prepared("2/r0", 1, 1, 2_000, vec![holder(1, 8_000)]), NOTHING);
    assert_eq!(home.hears("2/r0", named(1)), ["✗ this is known"], "it has let it in");
    assert_eq!(home.hears("1/r0", named(1)), ["✗ this is known"], "its shard has no part in this");
    let refused = Message::Refused { transaction: txn(1, 1), refusal: Refusal::Conflict };
    assert_eq!(home.hears("1/r0", refused), ["✗ nothing waits under this name"]);
    assert_eq!(home.alone.machine.load(None), 1);
}

/// It has the greatest of the timestamps that were proposed, and is above its snapshot and no earlier than it was shown.
#[test]
fn a_commit_is_final_no_earlier_than_it_has_committed_locally() {
    for (proposal, timestamp) in [(1_002, 2_000), (2_000, 2_000), (2_001, 2_001)] {
        let mut home = Home::new();
        home.commits_locally(1, 1, "oak=x", 2_000);
        let told = home.is_prepared("1/r0", 1, 1, proposal, vec![]);
        assert_eq!(told, [format!("3/r1 ← RECORD c1.1 committed @{timestamp}")]);
    }
}

/// Section 6.3: local timestamps follow the clock, too, where those of shards do.
#[test]
fn a_local_commit_is_no_earlier_than_the_clock_where_timestamps_are_physical() {
    for (variant, local) in [(Variant::CLOCK_SI, 501_000), (Variant::INTERNAL, 1_700)] {
        let mut home = Home::with(|config| (config.variant, config.journals) = (variant, true));
        home.commits(1, 1, "oak=x");
        home.alone.waits(500);
        let told = home.is_voted_here(1, 1, 1_700);
        assert_eq!(told, [format!("has committed c1.1 locally @{local}")]);
    }
}

/// It is under way until the shards have answered, or nobody has heard of it for so long.
#[test]
fn a_commit_is_given_up_so_long_after_it_was_asked_for() {
    let mut home = Home::new();
    home.reads(1, 1, vec![key("oak")]);
    home.is_told("1/r0", 1, vec![version("oak", "", 0)]);
    home.alone.waits(5_000);
    home.commits(1, 1, "oak=x");
    let ends = |told| only(told, "aborted:");
    assert_eq!(ends(home.alone.waits(9_999)), NOTHING);
    assert_eq!(ends(home.alone.waits(1)), ["1 ms: c1 ← c1.1 aborted: shard 1 is silent"]);
}

#[test]
fn a_commit_that_waits_for_reads_is_under_way() {
    let mut home = Home::new();
    home.reads(1, 1, vec![key("oak")]);
    assert_eq!(home.commits(1, 1, "oak=x"), NOTHING);
    assert_eq!(home.commits(1, 1, "oak=x"), ["c1 ← c1.1 UNDER-WAY"]);
    // Its client waits for the answer to that, whatever becomes of the reads.
    let (life, why) = (home.life, Unreadable::TooOld(at(5_000)));
    let cannot = Message::CannotRead { life, request: 1, why };
    assert_eq!(home.hears("1/r0", cannot), ["c1 ← c1.1 aborted: older than @5000"]);
}

/// Its log may be without a leader for a while.
#[test]
fn a_decision_is_sent_again_until_it_is_recorded() {
    let mut home = Home::new();
    home.commits_locally(1, 1, "oak=x", 2_000);
    home.is_prepared("1/r0", 1, 1, 2_000, vec![]);
    let records = only(home.alone.waits(3_000), "RECORD");
    let record = |after: u64| format!("{after} ms: 3/r1 ← RECORD c1.1 committed @2000");
    assert_eq!(records, [record(1_000), record(2_000), record(3_000)]);
    // It takes itself for the leader, and does not lead yet.
    home.alone.log.leader = ReplicaIndex(0);
    assert_eq!(only(home.alone.waits(1_000), "not lead"), ["1000 ms: ✗ this replica does not lead"]);
    home.is_recorded(1, 1, 2_000);
    assert_eq!(only(home.alone.waits(5_000), "RECORD"), NOTHING);
}

/// A transaction of the node may stand on one whose decision is on its way.
#[test]
fn a_commit_that_is_being_decided_may_be_overwritten_in_a_later_snapshot() {
    let mut home = Home::new();
    home.commits_locally(1, 1, "oak=x", 2_000);
    home.reads(3, 1, vec![key("elm")]);
    home.is_prepared("1/r0", 1, 1, 2_500, vec![]);
    let told = home.commits(2, 1, "oak=y");
    assert_eq!(told, ["1/r0 ← PREPARE here c2.1 oak=y in @2001 on top of c1.1"]);
    let told = home.is_recorded(1, 1, 2_500);
    let misses = "c2 ← c2.1 aborted: what it depends on has failed it";
    assert!(told.contains(&misses.to_owned()), "it is final above that: {told:?}");
}

/// A clock that was compared with none may be far ahead. All keys count as read for as long as they are remembered: no further than what was final here.
#[test]
fn a_clock_that_was_compared_with_none_leads_no_commits() {
    let mut home = Home::uncompared(|_| {});
    home.alone.clock = 900_000_000;
    home.alone.waits(500);
    let life = home.life;
    home.hears("2/r0", Message::Time { life, clock: at(1_000) });
    let told = home.commits(1, 1, "apple=x");
    assert_eq!(told[0], "c1 ← c1.1 SHOWN @1001002, 1 in its chain", "half a grant ahead: {told:?}");
}

/// It has committed locally after the snapshot was taken.
#[test]
fn a_local_commit_above_a_snapshot_is_in_the_way() {
    let mut home = Home::new();
    home.reads(2, 1, vec![key("elm")]);
    home.is_told("1/r0", 1, vec![version("elm", "", 0)]);
    home.commits_locally(1, 1, "oak=x", 2_000);
    assert_eq!(home.commits(2, 1, "oak=y"), ["c2 ← c2.1 aborted: a conflict"]);
    // Also once it is being decided.
    home.reads_after(3, 1, seen(0), vec![key("iris")]);
    home.is_prepared("1/r0", 1, 1, 2_000, vec![]);
    assert!(home.commits(4, 1, "oak=z")[0].contains("on top of c1.1"));
}

/// The leaders that were told of a commit are silent: others are told.
#[test]
fn a_commit_is_told_to_another_replica_if_the_one_that_was_told_is_silent() {
    let mut home = Home::new();
    home.commits_locally(1, 1, "oak=x", 2_000);
    home.is_prepared("1/r0", 1, 1, 2_000, vec![]);
    assert_eq!(only(home.is_recorded(1, 1, 2_000), "DECIDE"), ["1/r0 ← DECIDE c1.1 committed @2000"]);
    for index in [1, 2, 0] {
        let told = only(home.alone.waits(1_000), "DECIDE");
        assert_eq!(told, [format!("1000 ms: 1/r{index} ← DECIDE c1.1 committed @2000")]);
    }
}

/// Numbers of clients say nothing.
#[test]
fn a_client_speaks_for_itself() {
    let mut home = Home::new();
    home.reads(2, 1, vec![key("oak")]);
    let foreign = ["✗ asked in the name of another client"];
    for from in ["c1", "c3"] {
        assert_eq!(home.hears(from, Message::Abort { transaction: txn(2, 1) }), foreign);
        let commit = home.commit(2, 1, Session::default(), "oak=x");
        assert_eq!(home.hears(from, commit), foreign);
    }
    assert_eq!(home.hears("c2", Message::Abort { transaction: txn(2, 1) }).len(), 1);
}
