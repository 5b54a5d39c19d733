//! A site is lost and the others go on without it; another one joins.

use quorate_core::topology::SiteChanges;
use quorate_walter::{Page, ReplicaCommand, removal::Frozen};

use super::*;

fn new() -> Snapshot {
    Snapshot::New(v(&[]))
}

/// The leader of the first site, which asks the configuration service, and that.
pub(super) struct Asking {
    pub(super) site: Site,
    pub(super) changes: SiteChanges,
    shards: Vec<ShardId>,
}

impl Asking {
    pub(super) fn new(change: impl FnOnce(&mut ReplicaConfig)) -> Self {
        Asking::of(3, change)
    }

    /// The first of so many sites.
    pub(super) fn of(sites: u32, change: impl FnOnce(&mut ReplicaConfig)) -> Self {
        let site = leader(|config| {
            config.shards.count = sites;
            config.lease = Some(Duration::from_secs(4));
            config.lease_wait = Duration::from_secs(5);
            change(config);
        });
        let mut asking =
            Asking { site, changes: SiteChanges::default(), shards: (1..=sites).map(ShardId).collect() };
        asking.is_answered();
        asking
    }

    pub(super) fn is_answered(&mut self) -> Vec<String> {
        let (asked, changes) = (self.site.now, self.changes.clone());
        self.site.does(ReplicaCommand::Answer { asked, changes })
    }

    pub(super) fn removes(&mut self, shard: u32) {
        self.changes.remove(ShardId(shard), &self.shards).expect("it can be removed");
    }

    /// Time passes, and the service answers every second.
    pub(super) fn waits(&mut self, seconds: u64) -> Vec<String> {
        let mut told = Vec::new();
        for _ in 0..seconds {
            told.extend(but_for_progress(self.site.waits(1_000)));
            self.site.is_told("2/r0", 0, &[], &[]);
            told.extend(self.is_answered());
        }
        told.retain(|line| !line.ends_with("asks"));
        told
    }
}

pub(super) fn frozen(received: &[u64], committed: &[u64], seqno: u64, now: &[u64]) -> Message {
    let frozen = Frozen { removals: 1, received: v(received), committed: v(committed), seqno };
    Message::Frozen { frozen, received: v(now) }
}

fn of_third(number: u64) -> std::sync::Arc<Commit> {
    foreign(2, number, &[], vec![write("pear", &number.to_string())])
}

#[test]
fn a_lost_site_is_waited_for_until_its_lease_has_ended() {
    let mut asking = Asking::new(|_| {});
    asking.site.is_sent("3/r0", vec![of_third(1)], 0);
    asking.site.logs();
    asking.removes(3);
    assert_eq!(asking.is_answered(), NOTHING);
    assert_eq!(asking.waits(4), NOTHING);
    assert_eq!(asking.waits(1), ["1000 ms: appends FREEZE without s2 to s0"]);
    assert_eq!(asking.site.machine.lags(asking.site.now).len(), 1, "nobody waits for it any more");
    assert_eq!(asking.site.is_asked(9, new(), vec![write("pear", "x")]), NOTHING, "no consent is asked for");
    // From here on nothing is taken from it, and nobody waits for its consent.
    assert_eq!(asking.site.is_sent("3/r0", vec![of_third(2)], 2), ["✗ the sender is no other local site"]);
    let told = asking.site.logs();
    assert_eq!(told, ["2/r0 ← FROZEN without 1, had received ⟨0 0 1⟩ and committed 0, has received ⟨0 0 1⟩"]);
    let told = asking.waits(1);
    assert!(
        told.len() == 3 && told.iter().all(|line| line.contains("FROZEN")),
        "and every now and then: {told:?}"
    );
    assert_eq!(asking.site.is_asked(1, new(), vec![write("pear", "x")]), NOTHING, "it waits for the end");
    assert_eq!(asking.site.is_asked(2, new(), vec![write("oak", "x")]).len(), 1, "all else goes on");
    asking.site.logs();
    // The other site had received less, and has all by now.
    let told = asking.site.hears("2/r0", frozen(&[], &[], 4, &[]));
    assert_eq!(told, ["2/r0 ← RELAY s2.1 c102.1 at ⟨⟩ pear=1"]);
    let told = asking.site.hears("2/r0", frozen(&[], &[], 4, &[0, 0, 1]));
    assert_eq!(told, ["proposes that shard3 ends at 1, with the barrier [0, 4]"]);
    assert_eq!(asking.site.hears("2/r0", frozen(&[], &[], 4, &[0, 0, 1])), NOTHING, "it has said so");
}

#[test]
fn what_is_kept_of_a_lost_site_commits_and_its_successor_goes_on() {
    let mut asking = Asking::new(|_| {});
    asking.site.is_sent("3/r0", vec![of_third(1)], 0);
    asking.site.logs();
    asking.site.hears(
        "3/r0",
        Message::Prepare { transaction: txn(102, 7), keys: vec![Key::from("oak")], snapshot: v(&[]) },
    );
    asking.site.logs();
    asking.removes(3);
    asking.waits(6);
    asking.site.logs();
    assert_eq!(
        asking.site.is_asked(1, new(), vec![write("oak", "x")]),
        ["appends REFUSED c1.1"],
        "it is locked"
    );
    asking.site.logs();
    asking.site.is_asked(2, new(), vec![write("pear", "x")]);
    // The other site has received one more, which this one lacks.
    asking.site.hears("2/r0", frozen(&[0, 0, 2], &[], 0, &[0, 0, 2]));
    let none = vec![of_third(3)];
    let told = asking.site.hears("2/r0", Message::Relay { commits: none });
    assert_eq!(told, ["✗ no site has said that there is so much"]);
    let told = asking.site.hears("2/r0", Message::Relay { commits: vec![of_third(2)] });
    assert_eq!(told, ["appends RECEIVED s2.2 c102.2 at ⟨⟩ pear=2"]);
    asking.site.logs();
    let told = asking.waits(1);
    let proposed = only(told, "proposes");
    assert_eq!(proposed, ["1000 ms: proposes that shard3 ends at 2, with the barrier []"]);
    let settlement = quorate_core::topology::Settlement {
        removals: 1,
        ends: vec![(ShardId(3), quorate_core::topology::Settled { last: 2, barrier: vec![0, 0] })],
        ready: None,
    };
    assert!(asking.changes.settle(&settlement));
    let told = asking.is_answered();
    assert_eq!(told[0], "appends REMOVED s2 after 2", "{told:?}");
    let told = asking.site.logs();
    let appended = ["appends ADVANCE ⟨0 0 2⟩", "appends COMMIT s0.1 c1.2 at ⟨0 0 2⟩ pear=x"];
    assert_eq!(only(told, "appends"), appended, "this site lets in what that let in");
    assert_eq!(asking.site.machine.locks(), 0, "what it coordinated never commits");
    asking.site.logs();
    // A client that has seen an abandoned transaction is told once.
    let told = asking.site.hears("c1", read_at(1, 5, Snapshot::New(v(&[0, 0, 3])), vec![]));
    assert_eq!(told, ["c1 ← c1.5 ABANDONED, all after s2.2"]);
    let told = asking.site.hears("c1", read_at(1, 5, Snapshot::New(v(&[0, 0, 2])), vec![]));
    assert_eq!(told, ["c1 ← c1.5 reads  at ⟨1 0 2⟩, period 1"]);
    let told = asking.waits(2);
    assert!(
        told.iter().all(|line| line.contains("2/r0 ← PROPAGATE")),
        "nothing of it is left to say: {told:?}"
    );
}

#[test]
fn a_slow_commit_that_has_the_consent_of_a_lost_site_is_refused() {
    let mut asking = Asking::new(|config| config.vote_timeout = Duration::from_secs(60));
    asking.site.is_asked(1, new(), vec![write("pear", "x"), write("apple", "a")]);
    asking.site.is_asked(2, new(), vec![write("plum", "a")]);
    asking
        .site
        .hears("3/r0", Message::Vote { transaction: txn(1, 1), keys: vec![Key::from("pear")], agrees: true });
    asking.removes(3);
    asking.is_answered();
    let told = asking.waits(5);
    let appended = only(told, "appends");
    assert_eq!(appended, ["1000 ms: appends FREEZE without s2 to s0", "1000 ms: appends REFUSED c1.1"]);
    let told = asking.site.logs();
    assert!(told.contains(&"c1 ← c1.1 aborted, 3 is silent".to_owned()), "{told:?}");
    assert_eq!(asking.site.machine.load(None), 1, "the other one goes on");
}

/// A transaction that a lost site coordinated commits if it is kept, and only then are its locks released.
#[test]
fn what_is_kept_of_a_lost_site_keeps_its_locks_until_it_commits() {
    let mut asking = Asking::new(|_| {});
    let keys = vec![Key::from("oak")];
    asking.site.hears("3/r0", Message::Prepare { transaction: txn(102, 1), keys, snapshot: v(&[]) });
    asking.site.logs();
    let kept = foreign(2, 1, &[], vec![write("pear", "p"), write("oak", "o")]);
    asking.site.is_sent("3/r0", vec![kept], 0);
    asking.site.logs();
    asking.removes(3);
    asking.waits(6);
    asking.site.logs();
    let settlement = quorate_core::topology::Settlement {
        removals: 1,
        ends: vec![(ShardId(3), quorate_core::topology::Settled { last: 1, barrier: vec![0, 0] })],
        ready: None,
    };
    assert!(asking.changes.settle(&settlement));
    assert_eq!(asking.is_answered()[0], "appends REMOVED s2 after 1");
    assert_eq!(only(asking.site.logs(), "appends"), ["appends ADVANCE ⟨0 0 1⟩"]);
    assert_eq!(asking.site.machine.locks(), 1);
    asking.site.logs();
    assert_eq!(asking.site.machine.locks(), 0);
    assert_eq!(asking.site.machine.committed(), &v(&[0, 0, 1]));
}

/// A site that was taken out can have nothing.
#[test]
fn no_container_moves_to_a_lost_site() {
    for is_lost in [false, true] {
        let mut asking = Asking::new(|config| {
            config.moves = Some(quorate_walter::Moves { window: Duration::from_secs(1), writes_min: 3 });
            config.vote_timeout = Duration::from_secs(60);
            config.floor_lag = Duration::from_secs(100);
        });
        let keys = || vec![Key::from("oak")];
        for number in 1..=5 {
            let snapshot = asking.site.machine.committed().clone();
            let transaction = txn(102, number);
            asking
                .site
                .hears("3/r0", Message::Prepare { transaction, keys: keys(), snapshot: snapshot.clone() });
            asking.site.logs();
            asking.site.takes("3/r0", foreign(2, number, snapshot.numbers(), vec![write("oak", "x")]));
        }
        asking.site.waits(900);
        let snapshot = asking.site.machine.committed().clone();
        asking.site.hears("2/r0", Message::Prepare { transaction: txn(9, 1), keys: keys(), snapshot });
        asking.site.logs();
        if is_lost {
            asking.removes(3);
        }
        asking.is_answered();
        assert_eq!(only(asking.waits(6), "oak to"), NOTHING, "it is locked");
        let stable = asking.site.logs();
        assert_eq!(only(stable, "FROZEN").len(), usize::from(is_lost));
        asking.site.hears("2/r0", Message::Release { transaction: txn(9, 1) });
        assert_eq!(only(asking.site.logs(), "oak to s2").len(), usize::from(!is_lost));
    }
}

/// It says nothing any more to anybody.
#[test]
fn a_site_that_was_taken_out_is_silent() {
    let mut asking = Asking::new(|_| {});
    asking.removes(1);
    asking.is_answered();
    let removed = ["✗ this site was removed"];
    assert_eq!(asking.site.is_asked(1, new(), vec![write("oak", "x")]), removed);
    assert_eq!(asking.site.is_sent("2/r0", vec![], 0), removed);
    // The changes that it was told earlier are no news.
    let early = SiteChanges::default();
    let asked = asking.site.now;
    assert_eq!(asking.site.does(ReplicaCommand::Answer { asked, changes: early }), ["✗ known already"]);
    assert_eq!(asking.site.is_asked(1, new(), vec![write("oak", "x")]), removed);
}

#[test]
fn another_site_joins_and_nothing_is_forgotten_that_it_may_lack() {
    let mut asking = Asking::new(|_| {});
    asking.site.commits(1, vec![write("oak", "x")]);
    assert_eq!(asking.site.hears("7/r0", Message::Join {}), ["✗ the sender is no other local site"]);
    asking.changes.join(ShardId(7), None).expect("it can join");
    asking.is_answered();
    assert_eq!(
        asking.site.hears("2/r0", Message::Join {}),
        ["✗ the sender cannot know that"],
        "it was founded with it"
    );
    let fetch = |state, number| Message::Fetch { state, number };
    assert_eq!(
        asking.site.hears("7/r0", fetch(5, 0)),
        ["✗ the sender cannot know that"],
        "it is not expected"
    );
    assert_eq!(asking.site.hears("7/r0", Message::Join {}).len(), 1);
    assert_eq!(asking.site.hears("7/r0", Message::Join {}), ["✗ under way already"]);
    assert_eq!(asking.site.logs(), ["7/r0 ← EXPECTED, floor ⟨⟩"]);
    assert_eq!(asking.site.hears("7/r1", Message::Join {}), ["7/r1 ← EXPECTED, floor ⟨⟩"]);
    assert_eq!(
        asking.site.hears("7/r1", fetch(5, 1)),
        ["✗ nothing waits under this name"],
        "pages have an order"
    );
    let told = asking.site.hears("7/r1", fetch(5, 0));
    assert_eq!(told, ["7/r1 ← STATE page 0: ⟨1⟩ has committed, floor ⟨⟩"]);
    assert_eq!(asking.site.hears("7/r1", fetch(5, 0)), told, "it may be lost");
    assert_eq!(asking.site.hears("7/r1", fetch(5, 2)), ["✗ the sender cannot know that"]);
    assert_eq!(asking.site.hears("7/r1", fetch(6, 1)), ["✗ nothing waits under this name"], "another state");
    let told = asking.site.hears("7/r1", fetch(5, 1));
    assert!(
        told[0].contains("STATE page 1: [ShardId(7)] have joined")
            || told[0].contains("page 1: [shard7] have joined"),
        "{told:?}"
    );
    let told = asking.site.hears("7/r1", fetch(5, 2));
    assert_eq!(told, ["7/r1 ← STATE page 2, the last: s0.1 c1.1 at ⟨⟩ oak=x"]);
    assert_eq!(asking.site.hears("7/r1", fetch(5, 3)), ["✗ the sender cannot know that"]);
    // Nothing is sent to it before it has said that it has adopted that.
    assert_eq!(only(asking.site.waits(2_000), "7/r1 ← PROPAGATE"), NOTHING);
    asking.site.is_told("7/r1", 1, &[1], &[]);
    asking.is_answered();
    asking.site.commits(2, vec![write("oak", "y")]);
    assert_eq!(only(asking.site.waits(5), "7/r1 ← PROPAGATE").len(), 1);
    // Its copies do not count before it is ready.
    asking.site.is_told("7/r1", 2, &[1], &[]);
    let ask = Message::AskMilestone {
        transaction: txn(1, 2),
        version: version(0, 2),
        milestone: quorate_core::command::Milestone::Durable,
    };
    let told = asking.site.hears("c1", ask.clone());
    assert!(told[0].starts_with("c1 ← c1.2 is not durable, missing shard2 shard3"), "{told:?}");
    let ready = quorate_core::topology::Settlement { removals: 0, ends: vec![], ready: Some(ShardId(7)) };
    assert!(asking.changes.settle(&ready));
    asking.is_answered();
    assert_eq!(asking.site.hears("c1", ask), ["c1 ← c1.2 is durable"; 2], "it has waited, and asks again");
    assert_eq!(asking.site.hears("7/r1", fetch(8, 0)), ["✗ the sender cannot know that"], "it has all");
}

#[test]
fn a_state_that_nobody_fetches_is_forgotten() {
    let mut asking = Asking::new(|_| {});
    asking.changes.join(ShardId(7), None).expect("it can join");
    asking.is_answered();
    asking.site.hears("7/r0", Message::Join {});
    asking.site.logs();
    let fetch = |number| Message::Fetch { state: 5, number };
    asking.site.hears("7/r0", fetch(0));
    asking.site.waits(4_500);
    assert_eq!(asking.site.hears("7/r0", fetch(1)).len(), 1);
    asking.site.waits(4_900);
    let told = asking.site.hears("7/r0", fetch(1));
    assert!(told[0].contains("STATE page 1"), "{told:?}");
    asking.site.waits(5_500);
    assert_eq!(asking.site.hears("7/r0", fetch(1)), ["✗ nothing waits under this name"]);
}

/// The seventh shard, which joins three sites.
pub(super) fn joining() -> (Site, SiteChanges) {
    let mut changes = SiteChanges::default();
    changes.join(ShardId(7), None).expect("it can join");
    let mut site = backup(|config| {
        config.replica = replica("7/r0");
        config.joined = vec![ShardId(7)];
        config.lease = Some(Duration::from_secs(4));
    });
    assert_eq!(site.leads(0), ["leads v0", "asks"]);
    (site, changes)
}

pub(super) fn bounds(floor: &[u64], committed: &[u64]) -> Page {
    Page::Bounds { floor: v(floor), committed: v(committed), period: Period(9), forgotten: Period(8) }
}

#[test]
fn a_site_that_joins_adopts_the_state_of_another_once_all_expect_it() {
    let (mut site, changes) = joining();
    let answer = |site: &Site, changes: &SiteChanges| ReplicaCommand::Answer {
        asked: site.now,
        changes: changes.clone(),
    };
    assert_eq!(but_for_progress(site.waits(500)), NOTHING, "it does not know that it joins");
    let command = answer(&site, &changes);
    let joins = ["1/r0 ← JOIN", "2/r0 ← JOIN", "3/r0 ← JOIN"];
    assert_eq!(site.does(command), joins);
    assert_eq!(site.is_asked(1, new(), vec![write("oak", "x")]), ["✗ this site still joins"]);
    assert_eq!(site.is_sent("2/r0", vec![], 0), ["✗ this site still joins"]);
    let expected = |floor: &[u64]| Message::Expected { floor: v(floor) };
    assert_eq!(site.hears("1/r0", expected(&[])), NOTHING);
    assert_eq!(site.hears("3/r0", expected(&[2])), NOTHING);
    assert_eq!(only(site.waits(500), "JOIN"), ["500 ms: 2/r1 ← JOIN"], "the others have answered");
    let told = site.hears("2/r1", expected(&[1]));
    assert_eq!(told, ["1/r0 ← FETCH page 0"]);
    assert_eq!(site.hears("2/r1", expected(&[1])), NOTHING, "once");
    let Some(Message::Fetch { state, .. }) = site_said(&mut site, "1/r0") else { panic!("it fetches") };
    let page = |number, is_last, page| Message::State { state, number, is_last, page };
    let open = ["✗ nothing waits under this name"];
    assert_eq!(site.hears("2/r0", page(0, false, bounds(&[2], &[2]))), open, "another one was asked");
    assert_eq!(site.hears("1/r0", page(1, false, bounds(&[2], &[2]))), open);
    let told = site.hears("1/r0", page(0, false, bounds(&[2], &[2])));
    assert_eq!(told, ["appends ADOPT page 0: ⟨2⟩ has committed, floor ⟨2⟩"]);
    assert_eq!(site.hears("1/r0", page(0, false, bounds(&[2], &[2]))), open, "it is on its way into the log");
    assert_eq!(only(site.waits(500), "FETCH"), NOTHING);
    assert_eq!(site.logs(), ["1/r0 ← FETCH page 1"]);
    let registers = Page::Registers(vec![quorate_walter::Read {
        key: Key::from("oak"),
        version: version(0, 2),
        value: Bytes::from_static(b"x"),
    }]);
    let told = site.hears("1/r0", page(1, true, registers));
    assert_eq!(told, ["appends ADOPT page 1, the last: oak=x@s0.2"]);
    let told = site.logs();
    assert_eq!(told, ["proposes that shard7 is ready"], "{told:?}");
    assert_eq!(site.machine.committed(), &v(&[2]));
    assert_eq!(
        site.is_asked(1, new(), vec![write("oak", "x")]),
        ["✗ this site still joins"],
        "that is to be settled"
    );
    let told = only(site.waits(500), "PROGRESS");
    assert_eq!(told.len(), 3, "the rest comes as it comes to every site: {told:?}");
    let mut changes = changes;
    assert!(changes.settle(&quorate_core::topology::Settlement {
        removals: 0,
        ends: vec![],
        ready: Some(ShardId(7))
    }));
    let command = answer(&site, &changes);
    site.does(command);
    let told = site.is_asked(1, new(), vec![add("oak", "a", 1)]);
    assert_eq!(told, ["appends COMMIT s3.1 c1.1 at ⟨2⟩ oak[a]+1"]);
}

/// The last message that it has sent there.
fn site_said(site: &mut Site, _: &str) -> Option<Message> {
    site.waits(0);
    let again = site.waits(500);
    assert!(again.iter().any(|line| line.contains("FETCH")), "it asks again: {again:?}");
    site.said.iter().find(|message| matches!(message, Message::Fetch { .. })).cloned()
}

#[test]
fn a_state_that_lacks_what_others_have_forgotten_is_not_adopted() {
    let (mut site, changes) = joining();
    let asked = site.now;
    site.does(ReplicaCommand::Answer { asked, changes });
    for (from, floor) in [("1/r0", &[][..]), ("2/r0", &[0, 3]), ("3/r0", &[])] {
        site.hears(from, Message::Expected { floor: v(floor) });
    }
    let Some(Message::Fetch { state, .. }) = site_said(&mut site, "1/r0") else { panic!("it fetches") };
    let page = |number, page| Message::State { state, number, is_last: false, page };
    let told = site.hears("1/r0", page(0, bounds(&[], &[0, 2])));
    assert_eq!(told, ["✗ this state lacks what others keep no more"]);
    let told = site.waits(500);
    assert!(told.iter().any(|line| line.ends_with("2/r0 ← FETCH page 0")), "the next one is asked: {told:?}");
    let Some(Message::Fetch { state, .. }) =
        site.said.iter().find(|one| matches!(one, Message::Fetch { .. })).cloned()
    else {
        panic!("it fetches")
    };
    let page = |number, page| Message::State { state, number, is_last: false, page };
    let told = site.hears("2/r0", page(0, Page::Joined(vec![])));
    assert_eq!(told, ["✗ no coordinator sends this"], "the first page has the bounds");
    let told = site.waits(500);
    assert!(told.iter().any(|line| line.ends_with("3/r0 ← FETCH page 0")), "{told:?}");
}

#[test]
fn a_site_that_is_silent_while_its_state_is_fetched_is_left() {
    let (mut site, changes) = joining();
    let asked = site.now;
    site.does(ReplicaCommand::Answer { asked, changes });
    for from in ["1/r0", "2/r0", "3/r0"] {
        site.hears(from, Message::Expected { floor: v(&[]) });
    }
    let fetches = |told: Vec<String>| only(told, "FETCH");
    let asked = fetches(site.waits(4_999));
    assert!(asked.iter().all(|line| line.ends_with("1/r0 ← FETCH page 0")), "{asked:?}");
    assert_eq!(fetches(site.waits(1)), ["1 ms: 2/r0 ← FETCH page 0"]);
}
