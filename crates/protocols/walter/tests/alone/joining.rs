//! A site joins: how it is expected by the others, and how it adopts the state of one of them.

use quorate_core::ReplicaIndex;
use quorate_core::topology::{Settled, Settlement, SiteChanges};
use quorate_walter::{Entry, Page, Read, ReplicaCommand};

use super::removal::{Asking, bounds, frozen, joining};
use super::*;

const OPEN: [&str; 1] = ["✗ nothing waits under this name"];

fn expected(floor: &[u64]) -> Message {
    Message::Expected { floor: v(floor) }
}

fn not_leading(leader: u8) -> Message {
    Message::NotLeading { transaction: None, leader: ReplicaIndex(leader) }
}

fn is_answered(site: &mut Site, changes: &SiteChanges) -> Vec<String> {
    let (asked, changes) = (site.now, changes.clone());
    site.does(ReplicaCommand::Answer { asked, changes })
}

/// The name of the state that was asked for last.
fn state(site: &Site) -> u64 {
    let state = site.said.iter().rev().find_map(|message| match message {
        Message::Fetch { state, .. } => Some(*state),
        _ => None,
    });
    state.expect("a state is fetched")
}

fn page(state: u64, number: u32, is_last: bool, page: Page) -> Message {
    Message::State { state, number, is_last, page }
}

fn registers(words: &[&str]) -> Page {
    let read =
        |word: &&str| Read { key: Key::from(*word), version: version(0, 1), value: Bytes::from_static(b"x") };
    Page::Registers(words.iter().map(read).collect())
}

/// A site that joins, once all three founders expect it, and the name of the state that it fetches from the first.
fn fetching() -> (Site, SiteChanges, u64) {
    let (mut site, changes) = joining();
    is_answered(&mut site, &changes);
    for from in ["1/r0", "2/r0"] {
        assert_eq!(site.hears(from, expected(&[])), NOTHING);
    }
    assert_eq!(site.hears("3/r0", expected(&[])), ["1/r0 ← FETCH page 0"]);
    let state = state(&site);
    (site, changes, state)
}

fn fetches(told: Vec<String>) -> Vec<String> {
    only(told, "FETCH")
}

#[test]
fn a_page_that_cannot_stand_there_ends_a_state() {
    for (number, sent) in [
        (0, registers(&["oak"])),
        (0, Page::Joined(vec![])),
        (0, Page::Locks(vec![])),
        (0, Page::Ended(vec![])),
        (0, Page::Partial {}),
    ] {
        let (mut site, _, state) = fetching();
        let told = site.hears("1/r0", page(state, number, false, sent.clone()));
        assert_eq!(told, ["✗ no coordinator sends this"], "{sent:?}");
        assert_eq!(fetches(site.waits(500)), ["500 ms: 2/r0 ← FETCH page 0"], "{sent:?}");
    }
    for (sent, fits) in [
        (bounds(&[], &[]), false),
        (Page::Locks(vec![]), false),
        (Page::Ended(vec![]), false),
        (Page::Partial {}, false),
        (registers(&["oak"]), true),
        (Page::Counts(vec![]), true),
        (Page::Containers(vec![]), true),
        (Page::journal(vec![]), true),
        (Page::Joined(vec![]), true),
        (Page::Removals { removals: vec![], frozen: None }, true),
    ] {
        let (mut site, _, state) = fetching();
        site.hears("1/r0", page(state, 0, false, bounds(&[], &[])));
        assert_eq!(site.logs(), ["1/r0 ← FETCH page 1"]);
        let told = site.hears("1/r0", page(state, 1, false, sent.clone()));
        assert_eq!(told[0].starts_with("appends ADOPT page 1"), fits, "{sent:?}: {told:?}");
        if !fits {
            assert_eq!(told, ["✗ no coordinator sends this"], "{sent:?}");
            assert_eq!(fetches(site.waits(500)), ["500 ms: 2/r0 ← FETCH page 0"], "{sent:?}");
        }
    }
}

/// The floor of each of the others is to be in it: what they have forgotten nobody sends any more.
#[test]
fn a_state_has_all_that_any_site_has_forgotten() {
    for (floors, committed, has_all) in [
        ([&[1][..], &[], &[]], &[][..], false),
        ([&[1], &[], &[]], &[1], true),
        ([&[], &[0, 2], &[0, 0, 1]], &[0, 2], false),
        ([&[], &[0, 2], &[0, 0, 1]], &[0, 2, 1], true),
    ] {
        let (mut site, changes) = joining();
        is_answered(&mut site, &changes);
        for (from, floor) in ["1/r0", "2/r0", "3/r0"].into_iter().zip(floors) {
            site.hears(from, expected(floor));
        }
        let state = state(&site);
        let told = site.hears("1/r0", page(state, 0, false, bounds(&[], committed)));
        let is_taken = told[0].starts_with("appends ADOPT page 0");
        assert_eq!(is_taken, has_all, "{floors:?} and {committed:?}: {told:?}");
    }
}

#[test]
fn a_page_that_the_log_does_not_take_is_asked_for_again() {
    let (mut site, _, state) = fetching();
    site.log.leads = None;
    let sent = || page(state, 0, false, bounds(&[], &[]));
    assert_eq!(site.hears("1/r0", sent()), ["✗ the log takes no entry now"]);
    site.log.leads = Some(quorate_core::View(0));
    assert_eq!(fetches(site.waits(500)), ["500 ms: 1/r0 ← FETCH page 0"]);
    assert_eq!(site.hears("1/r0", sent()).len(), 1, "nothing is left of it");
    assert_eq!(site.hears("1/r0", sent()), OPEN, "it is on its way");
}

/// The last one is followed by the first.
#[test]
fn each_site_in_turn_is_asked_for_its_state() {
    let (mut site, _, _) = fetching();
    let asked = |told: Vec<String>| -> Vec<String> {
        let mut asked: Vec<String> =
            fetches(told).iter().map(|line| line.split(' ').nth(2).unwrap().to_owned()).collect();
        asked.dedup();
        asked
    };
    assert_eq!(asked(site.waits(4_999)), ["1/r0"]);
    assert_eq!(asked(site.waits(5_000)), ["2/r0"]);
    assert_eq!(asked(site.waits(5_000)), ["3/r0"]);
    assert_eq!(asked(site.waits(5_000)), ["1/r1"], "another replica of it");
    // A page that comes late is of an earlier state.
    let state = state(&site);
    assert_eq!(site.hears("1/r1", page(state + 1, 0, false, bounds(&[], &[]))), OPEN);
    assert_eq!(site.hears("1/r0", page(state, 0, false, bounds(&[], &[]))).len(), 1);
}

/// The time that the log of this site takes is not the other site's.
#[test]
fn a_site_is_not_left_while_its_page_is_on_its_way_into_the_log() {
    let (mut site, _, state) = fetching();
    site.waits(4_500);
    site.hears("1/r0", page(state, 0, false, bounds(&[], &[])));
    assert_eq!(fetches(site.waits(20_000)), NOTHING);
    assert_eq!(site.logs(), ["1/r0 ← FETCH page 1"]);
    let told = fetches(site.waits(4_999));
    assert!(!told.is_empty() && told.iter().all(|line| line.contains("1/r0 ← FETCH page 1")), "{told:?}");
    assert_eq!(fetches(site.waits(1)), ["1 ms: 2/r0 ← FETCH page 0"]);
}

#[test]
fn a_replica_that_does_not_lead_names_the_one_that_is_asked_for_the_state() {
    let (mut site, changes) = joining();
    is_answered(&mut site, &changes);
    assert_eq!(site.hears("1/r0", not_leading(2)), ["1/r2 ← JOIN"]);
    site.hears("1/r2", expected(&[]));
    site.hears("3/r0", expected(&[]));
    assert_eq!(site.hears("1/r2", not_leading(1)), NOTHING, "it has answered");
    for (from, next) in [(0, 1), (1, 2), (2, 0), (0, 1)] {
        let told = site.hears(&format!("2/r{from}"), not_leading(next));
        assert_eq!(told, [format!("2/r{next} ← JOIN")]);
    }
    assert_eq!(site.hears("2/r1", not_leading(2)), NOTHING, "replicas may name each other");
    assert_eq!(only(site.waits(500), "JOIN"), ["500 ms: 2/r2 ← JOIN"]);
    assert_eq!(site.hears("2/r2", not_leading(0)), ["2/r0 ← JOIN"], "then it begins anew");
    assert_eq!(site.hears("2/r0", expected(&[])), ["1/r1 ← FETCH page 0"]);
    assert_eq!(site.hears("1/r1", not_leading(0)), ["1/r0 ← FETCH page 0"]);
    assert_eq!(site.hears("3/r0", not_leading(1)), NOTHING, "its state is not fetched");
    // Its answer counts from here on.
    assert_eq!(fetches(site.waits(4_500)).len(), 9);
    assert_eq!(site.hears("1/r0", not_leading(2)), ["1/r2 ← FETCH page 0"]);
    let told = fetches(site.waits(4_500));
    assert!(told.iter().all(|line| line.ends_with("1/r2 ← FETCH page 0")), "{told:?}");
}

/// Each of the replicas of a silent site may lead it.
#[test]
fn another_replica_is_asked_to_expect_a_site_that_joins() {
    let (mut site, changes) = joining();
    site.waits(100);
    is_answered(&mut site, &changes);
    let joins = |told: Vec<String>| -> Vec<String> {
        only(told, "JOIN").iter().map(|line| line.split(' ').nth(2).unwrap().to_owned()).collect()
    };
    site.hears("1/r0", expected(&[]));
    assert_eq!(joins(site.waits(400)), ["2/r0", "3/r0"]);
    assert_eq!(joins(site.waits(500)), ["2/r1", "3/r1"], "a second is a silence");
    assert_eq!(joins(site.waits(500)), ["2/r1", "3/r1"]);
    assert_eq!(joins(site.waits(500)), ["2/r2", "3/r2"]);
}

/// A later leader begins anew, and so does the state that it adopts.
#[test]
fn a_leader_that_is_deposed_while_its_site_joins_leaves_a_part_of_a_state() {
    let (mut site, changes, first) = fetching();
    site.hears("1/r0", page(first, 0, false, bounds(&[], &[1])));
    site.logs();
    site.hears("1/r0", page(first, 1, false, registers(&["oak"])));
    site.logs();
    assert_eq!(site.pages().len(), 3, "a part, and two pages");
    site.is_deposed();
    let mut other = backup(|config| {
        config.replica = replica("7/r1");
        config.joined = vec![ShardId(7)];
    });
    other.machine.replace_state(quorate_core::log::Position(9), site.pages());
    assert_eq!(other.pages(), site.pages());
    assert_eq!(
        other.is_asked(1, Snapshot::New(v(&[])), vec![write("oak", "x")]),
        ["✗ this site still joins"]
    );
    assert_eq!(site.leads(2), ["leads v2", "asks"]);
    assert_eq!(is_answered(&mut site, &changes), ["1/r0 ← JOIN", "2/r0 ← JOIN", "3/r0 ← JOIN"]);
    for from in ["1/r0", "2/r0", "3/r0"] {
        site.hears(from, expected(&[]));
    }
    let second = state(&site);
    assert_ne!(first, second);
    assert_eq!(site.hears("1/r0", page(second, 0, false, bounds(&[], &[2]))).len(), 1);
    assert_eq!(site.logs(), ["1/r0 ← FETCH page 1"]);
    assert_eq!(site.pages().len(), 2, "the pages of the first one are gone");
}

/// It is a page of this site's log all the same, but not of the state that its leader fetches.
#[test]
fn a_page_that_another_leader_has_appended_does_not_count_as_fetched() {
    let (mut site, _, _) = fetching();
    let adopted = Entry::Adopt { number: 0, is_last: false, page: bounds(&[], &[]) };
    assert_eq!(site.follows(&adopted), ["1/r0 ← FETCH page 1"], "its first page is the first of any");
    let again = Entry::Adopt { number: 0, is_last: false, page: bounds(&[], &[]) };
    assert_eq!(site.follows(&again), NOTHING);
    assert_eq!(fetches(site.waits(500)), ["500 ms: 2/r0 ← FETCH page 0"], "another state is fetched");
}

#[test]
fn a_site_that_has_what_is_abandoned_begins_anew() {
    let (mut site, mut changes, state) = fetching();
    site.hears("1/r0", page(state, 0, true, bounds(&[0, 0, 2], &[0, 0, 2])));
    assert_eq!(site.logs(), ["proposes that shard7 is ready"]);
    changes.remove(ShardId(3), &[1, 2, 3, 7].map(ShardId)).expect("it can be removed");
    assert_eq!(but_for_progress(is_answered(&mut site, &changes)), NOTHING, "its end is open");
    let ends = |last| vec![(ShardId(3), Settled { last, barrier: vec![] })];
    let mut kept = changes.clone();
    assert!(kept.settle(&Settlement { removals: 1, ends: ends(2), ready: None }));
    assert!(changes.settle(&Settlement { removals: 1, ends: ends(1), ready: None }));
    let mut other = site_with(&kept);
    assert_eq!(only(is_answered(&mut other, &kept), "ANEW"), NOTHING, "all that it has is kept");
    let mut closed = site_with(&changes);
    closed.log.leads = None;
    assert!(is_answered(&mut closed, &changes).contains(&"✗ the log takes no entry now".to_owned()));
    assert_eq!(is_answered(&mut site, &changes), ["appends ANEW"]);
    assert_eq!(site.logs(), ["1/r0 ← JOIN", "2/r0 ← JOIN"], "the lost one is asked for nothing");
    assert_eq!(site.machine.committed(), &v(&[]));
    site.hears("2/r0", expected(&[]));
    assert_eq!(site.hears("1/r0", expected(&[])), ["1/r0 ← FETCH page 0"]);
}

/// A site that has adopted what the third one had, and knows nothing of these changes yet.
fn site_with(changes: &SiteChanges) -> Site {
    let (mut site, _, state) = fetching();
    site.hears("1/r0", page(state, 0, true, bounds(&[0, 0, 2], &[0, 0, 2])));
    site.logs();
    assert_eq!(changes.removals().len(), 1);
    site
}

/// Backups know of it, too: each of them may lead next.
#[test]
fn a_backup_that_follows_adopts_as_well() {
    let mut site = backup(|config| {
        config.replica = replica("7/r1");
        config.joined = vec![ShardId(7)];
    });
    let pages = [bounds(&[1], &[1]), Page::Joined(vec![ShardId(7), ShardId(8)]), registers(&["oak"])];
    for (number, page) in (0..).zip(pages) {
        assert_eq!(site.follows(&Entry::Adopt { number, is_last: number == 2, page }), NOTHING);
    }
    assert_eq!(site.machine.committed(), &v(&[1]));
    assert_eq!(site.leads(1), ["leads v1"]);
    let told = only(site.waits(5), "PROGRESS");
    let asked: Vec<&str> = told.iter().map(|line| line.split(' ').nth(2).unwrap()).collect();
    assert_eq!(asked, ["1/r0", "2/r0", "3/r0", "8/r0"], "the log knows of more sites than its host does");
}

#[test]
fn a_site_that_is_whole_adopts_nothing_more() {
    let (mut site, _, state) = fetching();
    site.hears("1/r0", page(state, 0, true, bounds(&[1], &[1])));
    site.logs();
    assert_eq!(site.hears("2/r0", expected(&[])), OPEN);
    assert_eq!(site.hears("1/r0", page(state, 1, true, registers(&["oak"]))), OPEN);
    assert_eq!(site.hears("1/r0", not_leading(1)), NOTHING);
    assert_eq!(fetches(site.waits(9_000)), NOTHING);
}

/// It tells them what it has as long as they do not say that it is ready.
#[test]
fn a_site_that_has_all_proposes_that_it_is_ready_once_it_knows_of_all_removals() {
    let (mut site, mut changes, state) = fetching();
    changes.remove(ShardId(3), &[1, 2, 3, 7].map(ShardId)).expect("it can be removed");
    site.hears("1/r0", page(state, 0, true, bounds(&[], &[])));
    site.logs();
    is_answered(&mut site, &changes);
    let proposes = |told: Vec<String>| only(told, "proposes");
    assert_eq!(proposes(site.waits(3_000)), NOTHING, "a site was lost, and it has not gone on without that");
    let told = only(site.waits(11_000), "FREEZE");
    assert_eq!(told.len(), 1, "{told:?}");
    site.logs();
    assert_eq!(proposes(site.waits(3_000)), NOTHING, "its end is open");
    let ends = vec![(ShardId(3), Settled { last: 0, barrier: vec![] })];
    assert!(changes.settle(&Settlement { removals: 1, ends, ready: None }));
    assert_eq!(is_answered(&mut site, &changes)[0], "appends REMOVED s2 after 0");
    site.logs();
    assert_eq!(proposes(site.waits(1_000)), ["1000 ms: proposes that shard7 is ready"]);
    assert!(changes.settle(&Settlement { removals: 1, ends: vec![], ready: Some(ShardId(7)) }));
    is_answered(&mut site, &changes);
    assert_eq!(proposes(site.waits(4_000)), NOTHING);
}

/// The first of three sites, which knows that a seventh group joins.
fn elder(change: impl FnOnce(&mut ReplicaConfig)) -> Asking {
    let mut asking = Asking::new(change);
    asking.changes.join(ShardId(7), None).expect("it can join");
    asking.is_answered();
    asking
}

#[test]
fn a_site_that_joins_is_expected_once_that_is_durable() {
    let mut asking = elder(|_| {});
    let site = &mut asking.site;
    site.log.leads = None;
    assert_eq!(site.hears("7/r0", Message::Join {}), ["✗ the log takes no entry now"]);
    site.log.leads = Some(quorate_core::View(0));
    assert_eq!(site.hears("7/r0", Message::Join {}), ["appends JOIN [shard7]"]);
    assert_eq!(site.hears("7/r2", Message::Join {}), ["✗ under way already"]);
    assert_eq!(site.logs(), ["7/r2 ← EXPECTED, floor ⟨⟩"], "to the one that was heard last");
    let mut backup = backup(|config| config.joined = vec![ShardId(7)]);
    assert_eq!(backup.hears("7/r0", Message::Join {}), ["7/r0 ← NOT-LEADING, r1 does"]);
    assert_eq!(backup.follows(&Entry::Join(vec![ShardId(7)])), NOTHING);
    let mut unknown = super::backup(|_| {});
    unknown.follows(&Entry::Join(vec![ShardId(7)]));
    assert_eq!(unknown.leads(1), ["leads v1"]);
    assert_eq!(only(unknown.waits(5), "7/r0 ← PROGRESS").len(), 1, "its log says that there is one");
}

/// The floor that it has to have is to be known, so none is on its way.
#[test]
fn a_site_that_joins_waits_until_no_floor_is_on_its_way() {
    let mut asking = elder(|config| config.floor_lag = Duration::from_secs(1));
    let site = &mut asking.site;
    site.commits(1, vec![write("oak", "x")]);
    for from in ["2/r0", "3/r0"] {
        site.is_told(from, 1, &[1], &[1]);
    }
    assert_eq!(only(site.waits(1_500), "FLOOR").len(), 1);
    site.logs();
    site.waits(500);
    site.logs();
    assert_eq!(site.machine.histories().floor(), &v(&[1]));
    site.commits(2, vec![write("oak", "y")]);
    assert_eq!(only(site.waits(500), "FLOOR").len(), 1);
    assert_eq!(site.hears("7/r0", Message::Join {}), ["✗ under way already"]);
    site.logs();
    assert_eq!(site.hears("7/r0", Message::Join {}).len(), 1);
    let told = site.logs();
    assert_eq!(told, ["7/r0 ← EXPECTED, floor ⟨1⟩"]);
    // From here on the floor waits for it.
    for from in ["2/r0", "3/r0"] {
        site.is_told(from, 2, &[2], &[2]);
    }
    for _ in 0..4 {
        site.waits(1_000);
        site.logs();
    }
    assert_eq!(site.machine.histories().floor(), &v(&[1]));
    site.is_told("7/r0", 2, &[2], &[2]);
    for _ in 0..2 {
        site.waits(1_000);
        site.logs();
    }
    assert_eq!(site.machine.histories().floor(), &v(&[2]));
}

/// Its words from before count no more: it may have to begin anew.
#[test]
fn a_site_that_joins_again_is_told_nothing_before_it_has_a_state_again() {
    let mut asking = elder(|_| {});
    let site = &mut asking.site;
    site.hears("7/r0", Message::Join {});
    site.logs();
    site.is_told("7/r0", 0, &[], &[]);
    site.commits(1, vec![write("oak", "x")]);
    let sent = |told: Vec<String>| only(told, "7/r0 ← PROPAGATE").len();
    assert_eq!(sent(site.waits(5)), 1);
    site.hears("7/r0", Message::Join {});
    site.commits(2, vec![write("oak", "y")]);
    assert_eq!(sent(site.waits(2_000)), 0);
    site.is_told("7/r0", 0, &[], &[]);
    assert!(sent(site.waits(500)) >= 1);
}

#[test]
fn a_site_whose_end_is_settled_is_expected_no_more() {
    let mut asking = Asking::new(|_| {});
    asking.removes(3);
    asking.is_answered();
    asking.waits(5);
    asking.site.logs();
    asking.site.hears("2/r0", frozen(&[], &[], 0, &[]));
    let ends = vec![(ShardId(3), Settled { last: 0, barrier: vec![] })];
    assert!(asking.changes.settle(&Settlement { removals: 1, ends, ready: None }));
    asking.is_answered();
    asking.site.logs();
    let receivers = |told: Vec<String>| -> Vec<String> {
        only(told, "PROGRESS").iter().map(|line| line.split(' ').nth(2).unwrap().to_owned()).collect()
    };
    assert_eq!(receivers(asking.site.waits(500)), ["2/r0"]);
    asking.site.is_deposed();
    asking.site.leads(1);
    assert_eq!(receivers(asking.site.waits(500)), ["2/r0", "2/r0"], "nor by a later leader");
}

/// A site that is taken out while it joins asks nobody any more.
#[test]
fn a_site_that_is_lost_while_it_joins_is_silent() {
    let (mut site, mut changes) = joining();
    changes.remove(ShardId(7), &[1, 2, 3, 7].map(ShardId)).expect("it can be removed");
    assert_eq!(is_answered(&mut site, &changes), NOTHING);
    let told = site.waits(3_000);
    assert!(told.iter().all(|line| line.ends_with("asks")), "{told:?}");
    let (mut site, mut changes, state) = fetching();
    changes.remove(ShardId(7), &[1, 2, 3, 7].map(ShardId)).expect("it can be removed");
    is_answered(&mut site, &changes);
    assert_eq!(site.hears("1/r0", page(state, 0, false, bounds(&[], &[]))), ["✗ this site was removed"]);
    assert_eq!(fetches(site.waits(3_000)), NOTHING);
}

/// The page is of the site, of the state and of the number that were asked for.
#[test]
fn a_page_that_was_not_asked_for_is_passed_over() {
    let (mut site, _, _) = fetching();
    site.waits(5_000);
    let second = state(&site);
    let first_page = || bounds(&[], &[]);
    assert_eq!(site.hears("1/r0", page(second, 0, false, first_page())), OPEN, "the first site is left");
    assert_eq!(site.hears("3/r0", page(second, 0, false, first_page())), OPEN);
    assert_eq!(site.hears("2/r0", page(second - 1, 0, false, first_page())), OPEN);
    assert_eq!(site.hears("2/r0", page(second, 0, false, first_page())).len(), 1);
    site.logs();
    assert_eq!(site.hears("2/r0", page(second, 0, false, first_page())), OPEN, "it has come");
    assert_eq!(site.hears("2/r0", page(second, 2, false, registers(&["oak"]))), OPEN);
    assert_eq!(site.hears("2/r0", page(second, 1, false, registers(&["oak"]))).len(), 1);
}
