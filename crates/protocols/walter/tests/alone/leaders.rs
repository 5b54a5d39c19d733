//! A replica follows, leads and is deposed: what is left, and what begins anew.

use quorate_core::ReplicaIndex;
use quorate_core::command::Milestone;
use quorate_walter::Entry;

use super::*;

fn new() -> Snapshot {
    Snapshot::New(v(&[]))
}

/// A stable entry counts at each replica, whichever has appended it; and a backup says nothing.
#[test]
fn a_backup_follows_all_that_its_leader_has_appended() {
    let mut follower = backup(|_| {});
    let mut entries: Vec<Entry> = Vec::new();
    let own = |seqno, snapshot: &[u64], updates: Vec<Update>| {
        let mut commit = (*foreign(0, seqno, snapshot, updates)).clone();
        commit.transaction = txn(1, seqno);
        Entry::Commit(std::sync::Arc::new(commit))
    };
    entries.push(own(1, &[], vec![write("oak", "x"), add("elm", "a", 1)]));
    entries.push(Entry::Refused(txn(1, 9)));
    entries.push(Entry::Received(vec![foreign(1, 1, &[1], vec![write("apple", "a")])]));
    let (transaction, origin) = (txn(101, 2), LocalSite(1));
    entries.push(Entry::Locked { transaction, origin, keys: vec![Key::from("iris")] });
    entries.push(Entry::Advance(v(&[0, 1])));
    entries.push(Entry::Floor { floor: v(&[1]), forgotten: Period(0) });
    entries.push(Entry::Released(transaction));
    entries.push(own(2, &[1, 1], vec![write("iris", "i")]));
    for entry in &entries {
        assert_eq!(follower.follows(entry), NOTHING, "{entry:?}");
        let mut copy = backup(|_| {});
        copy.machine.replace_state(quorate_core::log::Position(9), follower.pages());
        assert_eq!(copy.pages(), follower.pages(), "{entry:?}");
        assert_eq!(copy.machine.endings(), follower.machine.endings(), "{entry:?}");
    }
    assert_eq!(follower.machine.committed(), &v(&[2, 1]));
    assert_eq!(
        (follower.machine.load(None), follower.machine.waiting(), follower.machine.behind()),
        (0, 0, 0)
    );
    assert_eq!(follower.machine.decided(), (2, 1));
    follower.log.lease_until = Some(follower.now + Duration::from_secs(100));
    assert_eq!(follower.leads(1), ["leads v1"]);
    assert_eq!(follower.machine.behind(), 2, "nobody has said so to this leader");
    let told = follower.is_asked(3, new(), vec![write("oak", "y")]);
    assert_eq!(told, ["appends COMMIT s0.3 c1.3 at ⟨2 1⟩ oak=y"]);
    let told = only(follower.waits(5), "PROPAGATE");
    let sent = |to: &str| format!("5 ms: {to} ← PROPAGATE s0.2 c1.2 at ⟨1 1⟩ iris=i, durable to 1");
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(
        told[0].contains("s0.2 c1.2") && !told[0].contains("s0.1"),
        "below the floor all have it: {told:?}"
    );
    assert_eq!(told[0].split(',').next(), sent("2/r0").split(',').next());
}

/// Another site may have more than this leader knows of, and says so.
#[test]
fn a_later_leader_sends_what_others_have_not_confirmed_to_it() {
    let mut site = site();
    for sequence in 1..=3 {
        site.commits(sequence, vec![write("oak", &sequence.to_string())]);
    }
    site.waits(5);
    site.is_told("2/r0", 3, &[3], &[]);
    site.is_deposed();
    site.leads(1);
    let sent = |told: Vec<String>| only(told, "PROPAGATE");
    assert_eq!(sent(site.waits(5)).len(), 2, "to each all of it");
    site.is_told("2/r0", 3, &[3], &[]);
    let told = sent(site.waits(5));
    assert_eq!(told, ["5 ms: 2/r0 ← PROPAGATE durable to 3", "5 ms: 3/r0 ← PROPAGATE durable to 3"]);
    let ask = Message::AskMilestone {
        transaction: txn(1, 3),
        version: version(0, 3),
        milestone: Milestone::Durable,
    };
    assert_eq!(site.hears("c1", ask), ["c1 ← c1.3 is durable"]);
}

/// A site tells the leader that has sent it transactions which it has received; that may be another one since.
#[test]
fn progress_goes_to_the_replica_that_was_heard_last() {
    let mut site = site();
    site.waits(5);
    site.is_sent("2/r2", vec![foreign(1, 1, &[], vec![write("apple", "a")])], 1);
    site.logs();
    site.logs();
    let told = site.waits(5);
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(told[0], "5 ms: 2/r2 ← PROGRESS received 1, ⟨0 1⟩ committed, ⟨⟩ oldest");
    assert_eq!(told[1], "5 ms: 3/r0 ← PROGRESS received 0, ⟨0 1⟩ committed, ⟨⟩ oldest");
    assert_eq!(site.waits(400), NOTHING, "nothing is new");
    // One that was not taken for the leader, and does not lead, changes nothing of that.
    site.hears("2/r0", Message::NotLeading { transaction: None, leader: ReplicaIndex(1) });
    let told = site.waits(5);
    assert_eq!(told, ["5 ms: 2/r2 ← PROGRESS received 1, ⟨0 1⟩ committed, ⟨⟩ oldest"]);
}

/// A site has received less than its leader is told that it has, or never said so.
#[test]
fn what_a_site_says_again_of_what_it_has_received_takes_nothing_back() {
    let mut site = site();
    site.commits(1, vec![write("oak", "1")]);
    site.commits(2, vec![write("oak", "2")]);
    site.is_told("2/r0", 2, &[1], &[1]);
    site.is_told("2/r0", 1, &[], &[]);
    let lags = site.machine.lags(site.now);
    assert_eq!((lags[0].unreceived, lags[0].uncommitted), (0, 1));
    let ask = |milestone| Message::AskMilestone { transaction: txn(1, 2), version: version(0, 2), milestone };
    assert_eq!(site.hears("c1", ask(Milestone::Durable)), ["c1 ← c1.2 is durable"]);
    assert_eq!(
        site.hears("c1", ask(Milestone::Visible)),
        ["c1 ← c1.2 is not visible, missing shard2 shard3"]
    );
}

/// A request whose locks were asked for by an earlier leader finds them.
#[test]
fn a_slow_commit_begins_anew_under_a_later_leader() {
    let mut site = site();
    site.is_asked(1, new(), vec![write("oak", "x"), write("apple", "a")]);
    site.is_deposed();
    site.leads(1);
    assert_eq!(site.machine.load(None), 0);
    let told = site.is_asked(1, new(), vec![write("oak", "x"), write("apple", "a")]);
    assert_eq!(told, ["2/r0 ← PREPARE c1.1 apple at ⟨⟩"]);
    assert_eq!(
        site.is_asked(2, new(), vec![write("oak", "y")]),
        ["appends REFUSED c1.2"],
        "it is held again"
    );
    let vote = Message::Vote { transaction: txn(1, 1), keys: vec![Key::from("apple")], agrees: true };
    assert_eq!(
        only(site.hears("2/r1", vote), "appends"),
        ["appends COMMIT s0.1 slow c1.1 at ⟨⟩ oak=x apple=a"]
    );
    assert_eq!(only(site.waits(5), "PROPAGATE"), NOTHING, "it is not stable");
    site.logs();
    let told = only(site.waits(5), "PROPAGATE");
    assert!(told[0].starts_with("5 ms: 2/r1"), "the one that has voted leads: {told:?}");
}

/// A client that waits would ask again only when its patience is over.
#[test]
fn clients_that_wait_are_told_when_their_leader_is_deposed() {
    let asks = |site: &mut Site, client: u64, snapshot: Snapshot, updates: Vec<Update>| {
        site.hears(&format!("c{client}"), commit_at(client, 1, snapshot, updates))
    };
    let told = |client| format!("c{client} ← c{client}.1 NOT-LEADING, r0 does");
    let mut site = site();
    assert_eq!(asks(&mut site, 2, new(), vec![write("oak", "x")]).len(), 1, "it is appended");
    assert_eq!(asks(&mut site, 3, new(), vec![write("elm", "x"), write("apple", "a")]).len(), 1);
    assert_eq!(
        asks(&mut site, 4, Snapshot::Taken(v(&[])), vec![write("oak", "y")]),
        ["appends REFUSED c4.1"]
    );
    assert_eq!(asks(&mut site, 5, Snapshot::Taken(v(&[0, 1])), vec![write("iris", "x")]), NOTHING);
    site.log.lease_until = None;
    assert_eq!(
        site.hears("c6", read_at(6, 1, new(), vec![register("iris")])),
        NOTHING,
        "it may lead no more"
    );
    assert_eq!(site.hears("2/r0", Message::AskLast { question: 1 }), NOTHING, "that is another site");
    let all: Vec<String> = [2, 3, 4, 5, 6].map(told).into();
    assert_eq!(site.is_deposed(), [all, vec!["is deposed".to_owned()]].concat());

    let mut site = leader(|config| config.lease = Some(Duration::from_secs(4)));
    assert_eq!(asks(&mut site, 1, new(), vec![write("oak", "x")]), NOTHING, "it waits for the lease");
    assert_eq!(site.is_deposed(), [told(1), "is deposed".to_owned()]);
}
