//! The replica that a node takes for the leader of a shard, and the messages that only that one gets.

use super::*;

/// The machine of a node that has the second replica of the first shard.
fn beside_the_second(change: impl FnOnce(&mut ReplicaConfig)) -> Home {
    let mut alone = machine("3/r0", change);
    alone.starts();
    let life = life_of(&alone);
    alone.does(ReplicaCommand::Meet(vec![replica("1/r1")]));
    let mut home = Home { alone, life };
    home.hears("1/r1", Message::Hello { life: NEIGHBOUR, wants: false });
    home.hears("2/r0", Message::Time { life, clock: at(1_000) });
    home
}

const BOUND: Message =
    Message::Bound { until: ClockTime::from_micros(9_000_000), clock: ClockTime::from_micros(1_000) };

fn local_vote(sequence: u64, proposal: u64, leads: bool) -> Message {
    let (transaction, proposal) = (txn(1, sequence), at(proposal));
    Message::LocalVote { transaction, life: NEIGHBOUR, proposal, leads }
}

/// It has appended the transaction, and nobody else need be asked.
#[test]
fn a_replica_of_the_node_that_leads_is_asked_once() {
    for leads in [false, true] {
        let mut home = beside_the_second(|_| {});
        home.hears("1/r1", BOUND);
        assert_eq!(home.commits(1, 1, "oak=x"), ["1/r1 ← PREPARE here c1.1 oak=x in @1001"]);
        let told = only(home.hears("1/r1", local_vote(1, 2_000, leads)), "PREPARE");
        let asked = if leads { vec![] } else { vec!["1/r0 ← PREPARE c1.1 oak=x in @1001"] };
        assert_eq!(told, asked);
        // And it is taken for the leader by later ones.
        home.is_prepared(if leads { "1/r1" } else { "1/r0" }, 1, 1, 2_000, vec![]);
        let told = home.is_recorded(1, 1, 2_000);
        let decides = only(told, "DECIDE").len();
        assert_eq!(decides, if leads { 1 } else { 2 }, "the leader, and the replica of the node");
    }
}

/// A replica that answers as a leader does is one.
#[test]
fn a_node_turns_to_the_replica_that_has_answered_as_the_leader() {
    let asked = |home: &mut Home, sequence| {
        let told = home.commits(1, sequence, "apple=x");
        only(told, "PREPARE")[0].split(' ').next().unwrap().to_owned()
    };
    let mut home = beside_the_second(|_| {});
    assert_eq!(asked(&mut home, 1), "2/r0");
    home.is_prepared("2/r2", 1, 1, 2_000, vec![holder(1, 9_000)]);
    home.hears("2/r2", Message::Refused { transaction: txn(1, 1), refusal: Refusal::Conflict });
    assert_eq!(asked(&mut home, 2), "2/r2");
    home.hears("2/r1", Message::Applied { transaction: txn(9, 9) });
    home.hears("2/r2", Message::Refused { transaction: txn(1, 2), refusal: Refusal::Conflict });
    assert_eq!(asked(&mut home, 3), "2/r1");
    let life = home.life;
    home.hears("2/r0", Message::Time { life, clock: at(1_000) });
    home.hears("2/r2", Message::Refused { transaction: txn(1, 3), refusal: Refusal::Conflict });
    assert_eq!(asked(&mut home, 4), "2/r0");
    // A name is a hint as well.
    let named = Message::NotLeading { transaction: None, leader: ReplicaIndex(2) };
    home.hears("2/r0", named);
    home.hears("2/r2", Message::Refused { transaction: txn(1, 4), refusal: Refusal::Conflict });
    assert_eq!(asked(&mut home, 5), "2/r2");
}

/// A replica of the node that does not lead is asked for nothing: it serves no snapshots, and so protects none.
#[test]
fn where_leaders_alone_serve_a_node_reads_and_certifies_at_them() {
    let leaders = |config: &mut ReplicaConfig| config.grants = Grants::Leader;
    let mut home = beside_the_second(leaders);
    assert_eq!(home.reads(1, 1, vec![key("oak")]), ["1/r0 ← READ-AT @1001 oak, number 1"]);
    // A silent leader is left for the others, in turn.
    let told = only(home.alone.waits(1_000), "READ-AT");
    assert_eq!(told, ["1000 ms: 1/r1 ← READ-AT @1001 oak, number 1"]);
    let told = only(home.alone.waits(1_000), "READ-AT");
    assert_eq!(told, ["1000 ms: 1/r2 ← READ-AT @1001 oak, number 1"]);
    // The one that answers leads.
    assert_eq!(home.is_told("1/r2", 1, vec![version("oak", "", 0)]).len(), 1);
    let told = home.reads(3, 1, vec![key("oak")]);
    assert!(told[0].starts_with("1/r2 ← READ-AT"), "{told:?}");
    let told = home.commits(2, 1, "elm=x");
    assert!(told[0].contains("SHOWN"), "nobody here certifies it: {told:?}");
    // The replica of the node is granted snapshots: so it leads.
    let mut home = beside_the_second(leaders);
    home.hears("1/r1", BOUND);
    assert_eq!(home.reads(1, 1, vec![key("oak")]), ["1/r1 ← READ-AT @1001 oak, number 1"]);
    assert_eq!(home.commits(2, 1, "elm=x"), ["1/r1 ← PREPARE here c2.1 elm=x in @1001"]);
    // Until another one does.
    home.hears("1/r2", Message::Applied { transaction: txn(9, 9) });
    let told = home.commits(3, 1, "iris=x");
    assert!(told[0].contains("SHOWN"), "{told:?}");
    // Where any replica serves, a bound is no sign.
    let mut home = beside_the_second(|_| {});
    home.hears("1/r1", BOUND);
    home.commits(2, 1, "elm=x");
    let vote =
        Message::LocalVote { transaction: txn(2, 1), life: NEIGHBOUR, proposal: at(2_000), leads: false };
    assert_eq!(only(home.hears("1/r1", vote), "PREPARE"), ["1/r0 ← PREPARE c2.1 elm=x in @1001"]);
}

/// A replica that was let vote here need not be the one that its readers have asked since.
#[test]
fn where_leaders_alone_serve_all_readers_of_the_node_go_along_with_a_decision() {
    for (grants, readers) in [(Grants::All, ""), (Grants::Leader, ", oak read @3001")] {
        let mut home = Home::with(|config| config.grants = grants);
        home.commits_locally(1, 1, "oak=x", 2_000);
        home.reads_after(2, 1, seen(3_000), vec![key("oak")]);
        home.is_prepared("1/r0", 1, 1, 2_000, vec![]);
        let told = home.is_recorded(1, 1, 2_000);
        assert_eq!(
            only(told, "DECIDE"),
            [format!("1/r0 ← DECIDE c1.1 committed @2000{readers}")],
            "{grants:?}"
        );
    }
}

/// In any of the places of a group.
#[test]
fn a_node_listens_to_the_replica_beside_it() {
    let mut home = beside_the_second(|_| {});
    home.hears("1/r1", BOUND);
    home.commits(1, 1, "oak=x");
    let other = ["✗ the sender is on another node"];
    for from in ["1/r0", "1/r2"] {
        assert_eq!(home.hears(from, BOUND), other, "{from}");
        assert_eq!(home.hears(from, Message::Hello { life: Life(9), wants: true }), other, "{from}");
        assert_eq!(home.hears(from, Message::GiveWay { transaction: txn(1, 1) }), other, "{from}");
        assert_eq!(home.hears(from, local_vote(1, 2_000, false)), ["✗ said in another life"], "{from}");
    }
    for life in [Life(4), Life(6)] {
        let vote = Message::LocalVote { transaction: txn(1, 1), life, proposal: at(2_000), leads: false };
        assert_eq!(home.hears("1/r1", vote), ["✗ said in another life"]);
    }
    assert_eq!(home.alone.machine.load(None), 1);
    // It has begun another life, whichever number that has.
    for life in [Life(4), Life(6)] {
        let mut home = beside_the_second(|_| {});
        home.hears("1/r1", BOUND);
        home.commits(1, 1, "oak=x");
        let told = home.hears("1/r1", Message::Hello { life, wants: false });
        assert_eq!(told, ["c1 ← c1.1 aborted: a conflict", "1/r1 ← DECIDE c1.1 aborted"]);
    }
}

/// Machines of other homes run on the node as well.
#[test]
fn a_node_greets_the_replicas_of_shards_that_are_beside_it() {
    let mut home = Home::new();
    let told = home.alone.does(ReplicaCommand::Meet(vec![replica("1/r0"), replica("4/r1"), replica("2/r7")]));
    assert_eq!(told, ["1/r0 ← HELLO"], "the last one is no member");
    // It may have been told of them before its life began.
    let mut home = machine("3/r0", |_| {});
    home.does(ReplicaCommand::Meet(vec![replica("1/r0")]));
    assert_eq!(only(home.starts(), "HELLO"), ["1/r0 ← HELLO, and who are you?"]);
}

/// The replica of the node was asked before it led, or did not.
#[test]
fn a_silent_leader_is_not_left_for_the_replica_of_the_node_where_leaders_alone_serve() {
    let mut home = beside_the_second(|config| config.grants = Grants::Leader);
    home.hears("1/r1", BOUND);
    assert_eq!(home.reads(1, 1, vec![key("oak")]), ["1/r1 ← READ-AT @1001 oak, number 1"]);
    let told = only(home.alone.waits(1_000), "READ-AT");
    assert_eq!(told, ["1000 ms: 1/r2 ← READ-AT @1001 oak, number 1"]);
}

/// Another replica leads than the one that was asked: whatever that one was told or asked for is lost with its leadership.
#[test]
fn a_leader_that_is_news_is_asked_and_told_again() {
    let mut home = Home::new();
    for (sequence, key) in [(1, "apple"), (2, "plum"), (3, "date")] {
        home.commits(1, sequence, &format!("{key}=x"));
    }
    home.is_prepared("2/r0", 1, 1, 2_000, vec![]);
    let told = only(home.is_recorded(1, 1, 2_000), "DECIDE");
    assert_eq!(told, ["2/r0 ← DECIDE c1.1 committed @2000"]);
    home.is_prepared("2/r0", 1, 2, 2_000, vec![holder(1, 9_000)]);
    // It has let in the second one, and the third one waits.
    let life = home.life;
    let told = home.hears("2/r2", Message::Time { life, clock: at(1_000) });
    let again = ["2/r2 ← DECIDE c1.1 committed @2000", "2/r2 ← PREPARE c1.3 date=x in @1003"];
    assert_eq!(told, again);
    assert_eq!(home.hears("2/r2", Message::Time { life, clock: at(1_500) }), NOTHING, "that is no news");
    // One that was named and asked already leads by now.
    let named = Message::NotLeading { transaction: Some(txn(1, 3)), leader: ReplicaIndex(1) };
    assert_eq!(home.hears("2/r2", named), ["2/r1 ← PREPARE c1.3 date=x in @1003"]);
    let soon = Message::NotLeading { transaction: Some(txn(1, 3)), leader: ReplicaIndex(1) };
    assert_eq!(home.hears("2/r1", soon), NOTHING);
    let told = home.hears("2/r1", Message::Applied { transaction: txn(9, 9) });
    let again = ["2/r1 ← DECIDE c1.1 committed @2000", "2/r1 ← PREPARE c1.3 date=x in @1003"];
    assert_eq!(only(told, "← "), again, "it did not lead when it was asked");
}

/// Those that have not said so for long are asked with those that have: the moment does not begin anew with each.
#[test]
fn a_replica_that_is_about_to_lead_is_asked_again_in_a_moment() {
    let mut home = Home::new();
    assert_eq!(only(home.commits(1, 1, "apple=x"), "PREPARE"), ["2/r0 ← PREPARE c1.1 apple=x in @1001"]);
    assert_eq!(only(home.commits(2, 1, "date=x"), "PREPARE"), ["2/r0 ← PREPARE c2.1 date=x in @1003"]);
    let soon = |client| Message::NotLeading { transaction: Some(txn(client, 1)), leader: ReplicaIndex(0) };
    assert_eq!(home.hears("2/r0", soon(1)), NOTHING);
    assert_eq!(home.alone.waits(60), NOTHING);
    assert_eq!(home.hears("2/r0", soon(2)), NOTHING);
    let told = only(home.alone.waits(40), "PREPARE");
    let again = ["40 ms: 2/r0 ← PREPARE c1.1 apple=x in @1001", "40 ms: 2/r0 ← PREPARE c2.1 date=x in @1003"];
    assert_eq!(told, again);
    assert_eq!(only(home.alone.waits(200), "PREPARE"), NOTHING, "it has been asked");
}

/// A node is stopped while transactions are open on it: they go on there, since they are nowhere else.
#[test]
fn a_transaction_is_open_at_the_machine_that_runs_it() {
    use quorate_core::hosted::HostedOnLog;

    let mut home = Home::new();
    let read = |sequence| Message::Read {
        transaction: txn(1, sequence),
        session: Session::default(),
        snapshot: None,
        request: 1,
        wanted: vec![key("oak")],
    };
    let abort = |sequence| Message::Abort { transaction: txn(1, sequence) };
    assert!(!home.alone.machine.has_open(&read(1)), "it would begin");
    home.hears("c1", read(1));
    assert_eq!([1, 2].map(|sequence| home.alone.machine.has_open(&read(sequence))), [true, false]);
    assert!(!home.alone.machine.has_open(&abort(1)), "that is never refused");
    home.hears("c1", abort(1));
    assert!(!home.alone.machine.has_open(&read(1)));
}
