//! Commits at the site of their client: fast ones, and slow ones as the site that coordinates them.

use quorate_core::ReplicaIndex;

use super::*;

fn new() -> Snapshot {
    Snapshot::New(v(&[]))
}

fn taken(numbers: &[u64]) -> Snapshot {
    Snapshot::Taken(v(numbers))
}

fn vote(sequence: u64, keys: &[&str], agrees: bool) -> Message {
    let keys = keys.iter().map(|key| Key::from(*key)).collect();
    Message::Vote { transaction: txn(1, sequence), keys, agrees }
}

fn asks(sequence: u64, period: u64) -> Message {
    Message::AskOutcome { transaction: txn(1, sequence), period: Period(period), committed: 0 }
}

#[test]
fn a_fast_commit_is_told_once_it_is_stable() {
    let mut site = site();
    let told = site.is_asked(1, new(), vec![write("oak", "x"), add("apple", "a", 1)]);
    assert_eq!(told, ["appends COMMIT s0.1 c1.1 at ⟨⟩ oak=x apple[a]+1"], "sets are updated anywhere");
    assert_eq!(site.is_asked(1, new(), vec![write("oak", "x")]), ["✗ under way already"]);
    assert_eq!(site.hears("c1", asks(1, 1)), ["✗ under way already"]);
    assert_eq!((site.machine.load(None), site.machine.load(Some(ClientId(1)))), (1, 1));
    assert_eq!(site.machine.load(Some(ClientId(2))), 0);
    assert_eq!(site.logs(), ["c1 ← c1.1 committed as s0.1 at ⟨⟩"]);
    assert_eq!((site.machine.load(None), site.machine.waiting(), site.machine.decided()), (0, 0, (1, 0)));
    let again = ["c1 ← c1.1 committed as s0.1 at ⟨⟩"];
    assert_eq!(site.is_asked(1, new(), vec![write("oak", "x")]), again, "an answer may be lost");
    assert_eq!(site.hears("c1", asks(1, 1)), again);
    assert_eq!(site.hears("2/r0", asks(1, 1)), ["✗ known already"], "it comes as every transaction does");
    let told = only(site.waits(10), "PROPAGATE");
    let propagated =
        |to: &str| format!("5 ms: {to} ← PROPAGATE s0.1 c1.1 at ⟨⟩ oak=x apple[a]+1, durable to 0");
    assert_eq!(told, [propagated("2/r0"), propagated("3/r0")]);
}

/// It has read nothing, so it may come after all that is about to commit: of other sites, too, or the snapshots of the site would not include each other.
#[test]
fn a_transaction_that_only_writes_comes_after_all_that_is_appended() {
    let mut site = site();
    site.is_asked(1, new(), vec![write("oak", "x")]);
    let told = site.is_asked(2, new(), vec![write("oak", "y")]);
    assert_eq!(told, ["appends COMMIT s0.2 c1.2 at ⟨1⟩ oak=y"]);
    site.is_sent("2/r0", vec![foreign(1, 1, &[], vec![write("apple", "a")])], 1);
    // Of what was received nothing is about to commit before its ADVANCE is appended.
    let told = site.is_asked(3, new(), vec![write("elm", "e")]);
    assert_eq!(told, ["appends COMMIT s0.3 c1.3 at ⟨2⟩ elm=e"]);
    let told = site.logs();
    assert!(
        told.contains(&"appends ADVANCE ⟨2 1⟩".to_owned())
            || told.contains(&"appends ADVANCE ⟨3 1⟩".to_owned()),
        "{told:?}"
    );
    let told = site.is_asked(4, new(), vec![write("iris", "i")]);
    assert_eq!(told, ["appends COMMIT s0.4 c1.4 at ⟨3 1⟩ iris=i"], "that is about to commit");
    // A slow one tells other sites its snapshot, and they must never hear of what is not stable.
    let told = site.is_asked(5, new(), vec![write("apple", "z")]);
    assert_eq!(told, ["2/r0 ← PREPARE c1.5 apple at ⟨3⟩"]);
}

#[test]
fn a_transaction_conflicts_with_what_its_snapshot_does_not_include() {
    let mut site = site();
    site.commits(1, vec![write("oak", "x")]);
    site.takes("2/r0", foreign(1, 1, &[], vec![write("elm", "e"), add("iris", "a", 1)]));
    site.is_sent("3/r0", vec![foreign(2, 1, &[], vec![write("sage", "s")])], 0);
    site.logs();
    let about_to = site.is_asked(2, new(), vec![write("seal", "w")]);
    assert_eq!(about_to, ["appends COMMIT s0.2 c1.2 at ⟨1 1⟩ seal=w"]);
    for (sequence, snapshot, updates, is_free) in [
        (10, taken(&[]), vec![write("oak", "y")], false),
        (11, taken(&[0, 1]), vec![write("oak", "y")], false),
        (12, taken(&[1]), vec![write("elm", "y")], false),
        (13, taken(&[1, 1]), vec![write("seal", "y")], false),
        (14, taken(&[1, 1]), vec![write("sage", "y")], false),
        (15, taken(&[]), vec![add("oak", "a", 1)], true),
        (16, taken(&[1]), vec![write("iris", "y")], true),
        (17, taken(&[1, 1]), vec![write("oak", "y"), write("elm", "y")], true),
        (18, taken(&[1, 1]), vec![write("oak", "z")], false),
    ] {
        let told = site.is_asked(sequence, snapshot.clone(), updates.clone());
        let expected = if is_free { "appends COMMIT" } else { "appends REFUSED" };
        assert!(told[0].starts_with(expected), "{updates:?} at {snapshot:?}: {told:?}");
    }
}

/// Everybody who waits for it is told once it is stable: until then a later leader may still commit it.
#[test]
fn a_refusal_is_told_once_it_is_stable_to_all_who_have_asked() {
    let mut site = site();
    site.commits(1, vec![write("oak", "x")]);
    let update = || vec![write("oak", "y")];
    assert_eq!(site.is_asked(2, taken(&[]), update()), ["appends REFUSED c1.2"]);
    assert_eq!(site.is_asked(2, taken(&[]), update()), NOTHING, "it will be told");
    assert_eq!(site.hears("c9", asks(2, 1)), NOTHING);
    assert_eq!(site.hears("3/r0", asks(2, 1)), NOTHING);
    assert_eq!(site.machine.waiting(), 1);
    let told = site.logs();
    assert_eq!(told, ["c1 ← c1.2 aborted", "c9 ← c1.2 aborted", "3/r0 ← RELEASE c1.2"]);
    assert_eq!(site.machine.decided(), (1, 1));
    assert_eq!(site.is_asked(2, taken(&[1]), update()), ["c1 ← c1.2 aborted"], "it is final");
    assert_eq!(site.hears("c9", asks(2, 1)), ["c9 ← c1.2 aborted"]);
    assert_eq!(site.hears("3/r0", asks(2, 1)), ["3/r0 ← RELEASE c1.2"]);
    // A question about what nobody has heard of is answered with a refusal, so that the answer is final.
    assert_eq!(site.hears("c1", asks(3, 1)), ["appends REFUSED c1.3"]);
    assert_eq!(site.hears("2/r0", asks(4, 1)), ["appends REFUSED c1.4"]);
    assert_eq!(site.logs(), ["c1 ← c1.3 aborted", "2/r0 ← RELEASE c1.4"]);
    // Another leader may have appended it.
    assert_eq!(site.follows(&quorate_walter::Entry::Refused(txn(1, 5))), NOTHING);
    assert_eq!(site.is_asked(5, new(), update()), ["c1 ← c1.5 aborted"]);
}

#[test]
fn a_slow_commit_is_appended_once_all_preferred_sites_have_agreed() {
    let mut site = site();
    site.commits(1, vec![write("oak", "x")]);
    let updates = vec![write("oak", "y"), write("plum", "p"), write("pear", "q"), write("apple", "r")];
    let told = site.is_asked(2, taken(&[1]), updates);
    let asked = ["2/r0 ← PREPARE c1.2 apple plum at ⟨1⟩", "3/r0 ← PREPARE c1.2 pear at ⟨1⟩"];
    assert_eq!(told, asked, "each its own, in order");
    assert_eq!((site.machine.load(None), site.machine.waiting()), (1, 1));
    assert_eq!(site.is_asked(2, taken(&[1]), vec![write("oak", "y")]), ["✗ under way already"]);
    assert_eq!(site.hears("2/r0", asks(2, 1)), ["✗ under way already"]);
    assert_eq!(site.hears("2/r0", vote(2, &["apple"], true)), ["✗ no vote is waited for"], "not for both");
    assert_eq!(site.hears("2/r0", vote(9, &["apple"], true)), ["✗ no vote is waited for"]);
    assert_eq!(site.hears("2/r1", vote(2, &["apple", "plum"], true)), NOTHING);
    assert_eq!(site.hears("2/r1", vote(2, &["apple", "plum"], true)), ["✗ no vote is waited for"], "twice");
    // No other transaction writes the register that it holds for it.
    assert_eq!(site.is_asked(3, new(), vec![write("oak", "z")]), ["appends REFUSED c1.3"]);
    let told = site.hears("3/r0", vote(2, &["pear"], true));
    assert_eq!(told, ["appends COMMIT s0.2 slow c1.2 at ⟨1⟩ oak=y plum=p pear=q apple=r"]);
    let told = site.logs();
    assert_eq!(told, ["c1 ← c1.3 aborted", "c1 ← c1.2 committed as s0.2 at ⟨1⟩, slow"]);
    let told = site.is_asked(4, new(), vec![write("oak", "z")]);
    assert_eq!(told, ["appends COMMIT s0.3 c1.4 at ⟨2⟩ oak=z"], "nothing is held any more");
}

#[test]
fn a_slow_commit_is_refused_by_one_site_and_all_release_it() {
    let mut site = site();
    site.is_asked(1, new(), vec![write("apple", "r"), write("pear", "q"), write("oak", "y")]);
    assert_eq!(site.hears("3/r0", vote(1, &["pear"], false)), ["appends REFUSED c1.1"]);
    assert_eq!(site.hears("2/r0", vote(1, &["apple"], true)), ["✗ no vote is waited for"]);
    let told = site.logs();
    assert_eq!(told, ["c1 ← c1.1 aborted", "2/r0 ← RELEASE c1.1", "3/r0 ← RELEASE c1.1"]);
    assert_eq!(site.machine.load(None), 0);
    assert_eq!(site.is_asked(2, new(), vec![write("oak", "z")]).len(), 1, "nothing is held any more");
}

/// Preferred sites are asked again after a while, perhaps another replica, and given up after a longer one.
#[test]
fn preferred_sites_are_asked_again_and_given_up() {
    let mut site = site();
    site.waits(250);
    site.is_asked(1, new(), vec![write("apple", "r"), write("pear", "q")]);
    site.hears("3/r0", vote(1, &["pear"], true));
    let asked = |told| only(told, "PREPARE");
    assert_eq!(asked(site.waits(999)), NOTHING);
    // The leader looks after it at 1,500 ms.
    assert_eq!(asked(site.waits(251)), ["251 ms: 2/r1 ← PREPARE c1.1 apple at ⟨⟩"], "only the silent one");
    assert_eq!(asked(site.waits(999)), NOTHING);
    let told = site.waits(1);
    assert_eq!(only(told.clone(), "REFUSED"), ["1 ms: appends REFUSED c1.1"], "{told:?}");
    let told = site.logs();
    assert_eq!(told[0], "c1 ← c1.1 aborted, 2 is silent", "{told:?}");
    assert_eq!(told.len(), 3, "both sites may have locked something: {told:?}");
    assert_eq!(site.machine.load(None), 0);
}

/// Minutes later nobody knows how what was sent then has ended.
#[test]
fn a_message_that_names_a_period_that_is_over_for_long_is_refused() {
    let mut site = leader(|config| config.floor_lag = Duration::from_secs(1));
    let old = |sequence| Message::Commit {
        transaction: txn(1, sequence),
        snapshot: new(),
        period: Period(0),
        updates: vec![write("oak", "x")],
    };
    assert_eq!(site.hears("c1", old(1)), ["c1 ← c1.1 TOO-OLD, ⟨⟩ has committed, period 1"]);
    assert_eq!(site.hears("c1", asks(1, 0)), ["c1 ← c1.1 FORGOTTEN"]);
    assert_eq!(site.hears("2/r0", asks(2, 0)), ["appends REFUSED c1.2"], "a site names none");
    site.logs();
    site.commits(3, vec![write("oak", "y")]);
    for _ in 0..3 {
        site.waits(1_000);
        site.logs();
        site.is_told("2/r0", 1, &[1], &[1]);
        site.is_told("3/r0", 1, &[1], &[1]);
    }
    let told = site.is_asked(4, new(), vec![write("oak", "x")]);
    assert!(told[0].starts_with("c1 ← c1.4 TOO-OLD, ⟨1⟩ has committed, period "), "{told:?}");
    assert_eq!(site.hears("c1", asks(3, 1)), ["c1 ← c1.3 FORGOTTEN"], "the floor includes it");
    assert_eq!(site.machine.ended_len(), 0);
    let late = Message::AskOutcome { transaction: txn(1, 3), period: Period(0), committed: 0 };
    assert_eq!(site.hears("2/r0", late), ["✗ known already"], "it has committed everywhere since");
    let present = Message::AskOutcome { transaction: txn(1, 8), period: Period(0), committed: 1 };
    assert_eq!(site.hears("2/r0", present), ["appends REFUSED c1.8"]);
}

#[test]
fn a_transaction_that_comes_after_another_waits_until_its_ending_is_known() {
    let mut site = site();
    let after =
        |earlier, period| Snapshot::After { seen: v(&[]), earlier: txn(1, earlier), period: Period(period) };
    assert_eq!(site.hears("c1", read_at(1, 2, after(1, 1), vec![register("oak")])), NOTHING);
    assert_eq!(site.is_asked(3, after(1, 1), vec![write("elm", "e")]), NOTHING);
    assert_eq!(site.is_asked(1, new(), vec![write("oak", "x")]).len(), 1);
    // Behind it in the log comes what only writes here.
    let told = site.is_asked(4, after(1, 1), vec![write("iris", "i")]);
    assert_eq!(told, ["appends COMMIT s0.2 c1.4 at ⟨1⟩ iris=i"]);
    let told = site.logs();
    let expected = [
        "appends COMMIT s0.3 c1.3 at ⟨2⟩ elm=e",
        "c1 ← c1.1 committed as s0.1 at ⟨⟩",
        "c1 ← c1.2 reads x@s0.1 at ⟨1⟩, period 1",
        "c1 ← c1.4 committed as s0.2 at ⟨1⟩",
    ];
    assert_eq!(told, expected);
    let told = site.hears("c1", read_at(1, 5, after(9, 0), vec![]));
    assert_eq!(told, ["c1 ← c1.5 TOO-OLD, ⟨2⟩ has committed, period 1"], "that is forgotten");
    let told = site.is_asked(5, after(9, 0), vec![write("oak", "x")]);
    assert_eq!(told, ["✗ the transaction that it comes after is forgotten"]);
    // One that asks other sites waits for the ending: its votes may fail.
    site.is_asked(6, new(), vec![write("oak", "y")]);
    assert_eq!(site.is_asked(7, after(6, 1), vec![write("apple", "a")]), NOTHING);
    let told = site.logs();
    assert!(told.contains(&"2/r0 ← PREPARE c1.7 apple at ⟨4⟩".to_owned()), "{told:?}");
}

#[test]
fn a_commit_is_told_only_while_it_is_sure_that_the_site_was_not_taken_out() {
    let mut site = leader(|config| config.lease = Some(Duration::from_secs(4)));
    let changes = quorate_core::topology::SiteChanges::default;
    let answer = |asked, changes| quorate_walter::ReplicaCommand::Answer { asked, changes };
    assert_eq!(site.is_asked(1, new(), vec![write("oak", "x")]), NOTHING, "it is not sure yet");
    assert_eq!(site.machine.waiting(), 1);
    let asked = site.now;
    let told = site.does(answer(asked, changes()));
    assert_eq!(told, ["appends COMMIT s0.1 c1.1 at ⟨⟩ oak=x"]);
    site.waits(3_999);
    assert_eq!(site.logs(), ["c1 ← c1.1 committed as s0.1 at ⟨⟩"]);
    site.is_asked(2, new(), vec![write("oak", "y")]);
    site.waits(1);
    assert_eq!(site.logs(), NOTHING, "the lease lasts as long as it is counted from the question");
    assert_eq!(site.hears("c1", asks(1, 1)), NOTHING);
    // A refusal is told at any time.
    site.hears("c1", asks(3, 1));
    assert_eq!(site.logs(), ["c1 ← c1.3 aborted"]);
    let told = site.does(answer(site.now, changes()));
    let expected = ["c1 ← c1.2 committed as s0.2 at ⟨1⟩", "c1 ← c1.1 committed as s0.1 at ⟨⟩"];
    assert_eq!(told, expected);
    // A request that waits for a lease for long is forgotten.
    site.waits(4_000);
    site.hears("c1", asks(1, 1));
    assert_eq!(site.machine.waiting(), 1);
    site.waits(4_500);
    assert_eq!(site.machine.waiting(), 1);
    site.waits(1_000);
    assert_eq!(site.machine.waiting(), 0);
    // The leader looks after it twice a second.
    site.hears("c1", asks(1, 1));
    site.waits(5_000);
    assert_eq!(site.machine.waiting(), 0, "five seconds are long");
}

#[test]
fn a_site_asks_whether_it_was_taken_out_four_times_in_a_lease() {
    let mut site = backup(|config| config.lease = Some(Duration::from_secs(8)));
    assert_eq!(site.leads(0), ["leads v0", "asks"]);
    let asks = |told: Vec<String>| only(told, "asks");
    assert_eq!(asks(site.waits(1_999)), NOTHING);
    assert_eq!(asks(site.waits(1)), ["1 ms: asks"]);
    assert_eq!(asks(site.waits(2_000)), ["2000 ms: asks"]);
    let mut forever = site_of_one(|config| config.lease = Some(Duration::from_secs(8)));
    assert_eq!(
        forever.is_asked(1, new(), vec![write("oak", "x")]).len(),
        1,
        "the only site is never taken out"
    );
}

fn site_of_one(change: impl FnOnce(&mut ReplicaConfig)) -> Site {
    leader(|config| {
        config.shards = Shards { first: ShardId(1), count: 1 };
        change(config);
    })
}

#[test]
fn what_the_log_does_not_take_is_not_done() {
    let mut site = site();
    site.commits(1, vec![write("oak", "x")]);
    site.log.leads = None;
    let closed = ["✗ the log takes no entry now"];
    assert_eq!(site.is_asked(2, new(), vec![write("oak", "y")]), closed);
    assert_eq!(site.is_asked(3, taken(&[]), vec![write("oak", "y")]), closed);
    assert_eq!(site.is_sent("2/r0", vec![foreign(1, 1, &[], vec![write("apple", "a")])], 1), closed);
    let prepare = |sequence| Message::Prepare {
        transaction: txn(9, sequence),
        keys: vec![Key::from("elm")],
        snapshot: v(&[1]),
    };
    assert_eq!(site.hears("2/r0", prepare(1)), closed);
    site.log.leads = Some(quorate_core::View(0));
    let told = site.is_asked(2, new(), vec![write("oak", "y")]);
    assert_eq!(told, ["appends COMMIT s0.2 c1.2 at ⟨1⟩ oak=y"], "nothing is left of it");
    assert_eq!(site.is_asked(3, taken(&[]), vec![write("oak", "y")]), ["appends REFUSED c1.3"]);
    assert_eq!(site.hears("2/r0", prepare(1)).len(), 1);
    site.logs();
    site.log.leads = None;
    assert_eq!(site.hears("2/r0", Message::Release { transaction: txn(9, 1) }), closed);
    site.log.leads = Some(quorate_core::View(0));
    assert_eq!(site.hears("2/r0", Message::Release { transaction: txn(9, 1) }), ["appends RELEASED c9.1"]);
}

#[test]
fn a_leader_that_is_deposed_keeps_what_is_stable_and_forgets_who_waits() {
    let mut site = site();
    site.commits(1, vec![write("oak", "x")]);
    site.is_asked(2, new(), vec![write("elm", "y")]);
    site.is_asked(3, new(), vec![write("apple", "y"), write("iris", "i")]);
    site.hears("c1", read_at(1, 4, Snapshot::New(v(&[0, 1])), vec![]));
    site.is_deposed();
    assert_eq!((site.machine.load(None), site.machine.waiting()), (0, 0));
    assert_eq!(site.machine.committed(), &v(&[1]));
    assert_eq!(site.hears("2/r0", vote(3, &["apple"], true)), ["✗ no vote is waited for"]);
    site.leads(1);
    let told = site.is_asked(5, new(), vec![write("iris", "i")]);
    assert_eq!(told, ["appends COMMIT s0.2 c1.5 at ⟨1⟩ iris=i"], "the number of what was lost is free");
    // Of what it has appended before another leader may have made it stable.
    let told = site.logs();
    assert_eq!(told, ["c1 ← c1.5 committed as s0.2 at ⟨1⟩"]);
    assert_eq!(
        site.hears("2/r0", Message::NotLeading { transaction: None, leader: ReplicaIndex(2) }),
        NOTHING
    );
}

/// A refusal that another site has asked for is told to the client, too, once that asks.
#[test]
fn a_client_that_comes_while_its_transaction_is_refused_is_told() {
    let mut site = site();
    assert_eq!(site.hears("2/r0", asks(1, 0)), ["appends REFUSED c1.1"]);
    assert_eq!(site.is_asked(1, new(), vec![write("oak", "x")]), NOTHING);
    assert_eq!(site.hears("3/r0", asks(1, 0)), NOTHING);
    assert_eq!(site.logs(), ["c1 ← c1.1 aborted", "2/r0 ← RELEASE c1.1", "3/r0 ← RELEASE c1.1"]);
}

/// A request that is denied is answered, and neither waits nor is done.
#[test]
fn a_request_that_is_denied_does_not_wait() {
    let mut site = site();
    site.commits(1, vec![write("oak", "x")]);
    for message in [
        commit_at(1, 2, Snapshot::New(v(&[2])), vec![write("oak", "y")]),
        read_at(1, 2, Snapshot::New(v(&[2])), vec![register("oak")]),
        commit_at(1, 2, Snapshot::New(v(&[0, 0, 0, 1])), vec![write("oak", "y")]),
    ] {
        let told = site.hears("c1", message.clone());
        assert!(told.len() == 1 && told[0].contains("NEVER-COMMITTED"), "{message:?}: {told:?}");
        assert_eq!((site.machine.waiting(), site.machine.load(None)), (0, 0), "{message:?}");
    }
}

/// The name of a container is that of all keys which it holds.
#[test]
fn a_part_of_a_key_names_no_container() {
    for name in ["a{b}", "{oak}/x", "b{a}c"] {
        let container = Some(quorate_walter::Container {
            preferred: LocalSite(0),
            replicas: quorate_walter::Replicas::ALL,
            stays: true,
        });
        let place = vec![Update::Place { name: Key::from(name), container }];
        assert_eq!(site().is_asked(1, new(), place), ["✗ no coordinator sends this"], "{name}");
    }
}

/// No client takes all the room, and no crowd of them more than there is.
#[test]
fn so_many_requests_wait_for_the_lease() {
    let mut site = leader(|config| config.lease = Some(Duration::from_secs(4)));
    let ask = |client, sequence| commit_at(client, sequence, new(), vec![write("oak", "x")]);
    for sequence in 1..=1_000 {
        assert_eq!(site.hears("c1", ask(1, sequence)), NOTHING);
    }
    assert_eq!(site.hears("c1", ask(1, 1_001)), ["✗ too many requests wait"], "of one client");
    for client in 2..=10 {
        for sequence in 1..=1_000 {
            site.hears(&format!("c{client}"), ask(client, sequence));
        }
    }
    assert_eq!(site.machine.waiting(), 10_000);
    assert_eq!(site.hears("c11", ask(11, 1)), ["✗ too many requests wait"]);
}

/// Whatever the leader before was asked for is lost with its leadership.
#[test]
fn the_next_leader_of_another_site_is_asked_for_its_vote_at_once() {
    let mut site = site();
    site.is_asked(1, new(), vec![write("apple", "a"), write("pear", "p")]);
    site.is_asked(2, new(), vec![write("plum", "b")]);
    let asked = |told: Vec<String>| only(told, "PREPARE");
    let prepare = |index: u8, sequence, key: &str| format!("2/r{index} ← PREPARE c1.{sequence} {key} at ⟨⟩");
    let both = |index| [prepare(index, 1, "apple"), prepare(index, 2, "plum")];
    let named = |leader| Message::NotLeading { transaction: None, leader: ReplicaIndex(leader) };
    assert_eq!(site.hears("2/r0", named(2)), both(2), "one that is named is asked");
    assert_eq!(site.hears("2/r0", named(1)), NOTHING, "it is not taken for the leader any more");
    // It does not lead yet, and says so once it does.
    assert_eq!(site.hears("2/r2", named(2)), NOTHING);
    assert_eq!(asked(site.is_told("2/r2", 0, &[], &[])), both(2));
    assert_eq!(asked(site.is_told("2/r2", 0, &[], &[])), NOTHING, "that is no news");
    // Its vote is not asked for again, though it comes from another replica.
    assert_eq!(asked(site.hears("2/r1", vote(2, &["plum"], true))), [prepare(1, 1, "apple")]);
    assert_eq!(site.hears("3/r0", vote(1, &["pear"], true)), NOTHING);
    assert_eq!(asked(site.is_told("3/r1", 0, &[], &[])), NOTHING, "that site has voted");
    // Replicas that name each other are asked a few times; then the one that leads says so.
    assert_eq!(site.hears("2/r1", named(0)), [prepare(0, 1, "apple")]);
    assert_eq!(site.hears("2/r0", named(1)), NOTHING);
    assert_eq!(asked(site.is_told("2/r1", 0, &[], &[])), [prepare(1, 1, "apple")]);
}
