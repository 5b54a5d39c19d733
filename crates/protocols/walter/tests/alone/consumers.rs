//! Consumers of changes: what a site tells, in which order, and from when on.

use quorate_core::changes::{Answer, Page, Position, Request, Retention};
use quorate_core::hosted::HostedOnLog;
use quorate_core::{KeyRange, Timestamp, counter};
use quorate_walter::{Container, End, Entry, Plant, Removal, ReplicaCommand, Replicas, Rules};

use super::*;

fn request(from: &[u64]) -> Request<Position> {
    Request::all(Some(Position::of_sites(from.to_vec())))
}

fn page_of(site: &Site, request: &Request<Position>) -> Page<Position> {
    match site.machine.changes(request) {
        Answer::Page(page) => page,
        other => panic!("{other:?}"),
    }
}

/// The changes from a vector on, as text, and the vector behind them.
fn told(site: &Site, from: &[u64]) -> (Vec<String>, String) {
    let page = page_of(site, &request(from));
    (page.changes.iter().map(text).collect(), page.to.to_string())
}

fn text(change: &quorate_core::changes::Change) -> String {
    let word = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let name = VersionNumber::from_timestamp(change.timestamp).unwrap();
    let mut text = name.to_string();
    for write in &change.writes {
        text += &format!(" {}={}", word(&write.key), write.value.as_deref().map_or_else(String::new, word));
    }
    for added in &change.additions {
        let element =
            added.element.as_ref().map_or_else(String::new, |element| format!("[{}]", word(element)));
        text += &format!(" {}{element}{:+}", word(&added.object), added.by);
    }
    text
}

fn unable(site: &Site, from: &[u64]) -> String {
    match site.machine.changes(&request(from)) {
        Answer::Unable { reason } => reason,
        other => panic!("{other:?}"),
    }
}

/// A transaction of the site, as it stands in the log.
fn own(seqno: u64, updates: Vec<Update>) -> Entry {
    let mut commit = (*foreign(0, seqno, &[], updates)).clone();
    commit.transaction = txn(1, seqno);
    Entry::Commit(std::sync::Arc::new(commit))
}

/// Other sites have received what this one has committed.
fn is_copied(site: &mut Site, seqno: u64) {
    for from in ["2/r0", "3/r0"] {
        site.is_told(from, seqno, &[], &[]);
    }
}

#[test]
fn a_site_tells_its_own_transactions_once_they_survive_its_loss() {
    let mut site = site();
    site.commits(1, vec![write("oak", "x")]);
    assert_eq!(told(&site, &[]), (vec![], "⟨⟩".to_owned()), "nobody else has it");
    site.is_told("2/r0", 1, &[], &[]);
    assert_eq!(told(&site, &[]), (vec!["s0.1 oak=x".to_owned()], "⟨1⟩".to_owned()));
    site.commits(2, vec![write("oak", "y")]);
    assert_eq!(told(&site, &[1]), (vec![], "⟨1⟩".to_owned()));
    is_copied(&mut site, 2);
    assert_eq!(told(&site, &[1]).0, ["s0.2 oak=y"]);
    assert_eq!(told(&site, &[2, 7]), (vec![], "⟨2 7⟩".to_owned()), "another site is further");
    let endless = [u64::MAX, u64::MAX];
    assert_eq!(told(&site, &endless).0, Vec::<String>::new(), "nothing follows the greatest number");
    let begins = page_of(&site, &Request::all(None));
    assert_eq!((begins.from, begins.changes.len()), (Position::of_sites(vec![2]), 0));
    let uncertain = leader(|config| config.rules = Rules::planted(Plant::UncertainTold));
    let mut uncertain = uncertain;
    uncertain.commits(1, vec![write("oak", "x")]);
    assert_eq!(told(&uncertain, &[]).0, ["s0.1 oak=x"], "W37");
}

/// It would be told half a second later, when the leader looks after what is old.
#[test]
fn a_site_without_others_counts_its_copies_when_a_consumer_asks() {
    let mut site = leader(|config| config.sites_lost_max = 0);
    site.commits(1, vec![write("oak", "x")]);
    assert_eq!(told(&site, &[]).0, NOTHING);
    site.does(<Replica as HostedOnLog>::follow().unwrap());
    assert_eq!(told(&site, &[]).0, ["s0.1 oak=x"]);
    let mut follower = backup(|_| {});
    assert_eq!(follower.does(ReplicaCommand::Follow), NOTHING, "only a leader can");
}

#[test]
fn a_replica_that_follows_tells_what_other_sites_have_seen() {
    let mut follower = backup(|_| {});
    let received = |seqno, snapshot: &[u64]| {
        Entry::Received(vec![foreign(1, seqno, snapshot, vec![write("apple", "a")])])
    };
    let own = |seqno| own(seqno, vec![write("oak", "x")]);
    for entry in [own(1), own(2), received(1, &[1])] {
        follower.follows(&entry);
    }
    assert_eq!(told(&follower, &[]).0, NOTHING, "what has come has not committed here");
    follower.follows(&Entry::Advance(v(&[0, 1])));
    let all = (vec!["s0.1 oak=x".to_owned(), "s1.1 apple=a".to_owned()], "⟨1 1⟩".to_owned());
    assert_eq!(told(&follower, &[]), all, "the other site has seen the first, so that was durable");
    let mut copy = backup(|_| {});
    copy.machine.replace_state(quorate_core::log::Position(9), follower.pages());
    assert_eq!(told(&copy, &[]), all, "and so it is to a replica that is given the state");
    follower.follows(&Entry::Floor { floor: v(&[2, 1]), forgotten: Period(0) });
    assert_eq!(told(&follower, &[2, 1]).1, "⟨2 1⟩");
}

#[test]
fn causes_are_told_before_effects_and_pages_end_between_transactions() {
    let run = |rules: Rules| {
        let mut site = leader(|config| config.rules = rules);
        site.takes("2/r0", foreign(1, 1, &[], vec![write("apple", "a")]));
        site.commits(1, vec![write("oak", "x")]);
        site.takes("3/r0", foreign(2, 1, &[0, 1], vec![write("pear", "p")]));
        is_copied(&mut site, 1);
        site
    };
    let site = run(Rules::SOUND);
    assert_eq!(site.machine.committed(), &v(&[1, 1, 1]));
    assert_eq!(
        told(&site, &[]).0,
        ["s1.1 apple=a", "s2.1 pear=p", "s0.1 oak=x"],
        "the last has seen the first"
    );
    let one_by_one = Request { bytes_max: 1, ..request(&[]) };
    let first = page_of(&site, &one_by_one);
    assert_eq!((first.changes.len(), first.is_last, first.to.to_string()), (1, false, "⟨0 1⟩".to_owned()));
    let second = page_of(&site, &Request { from: Some(first.to), ..one_by_one });
    assert_eq!(second.changes.iter().map(text).collect::<Vec<_>>(), ["s0.1 oak=x"]);
    let planted = run(Rules::planted(Plant::EffectsToldFirst));
    assert_eq!(told(&planted, &[]).0[0], "s0.1 oak=x", "W38");
}

#[test]
fn only_what_is_wanted_is_told_and_of_each_object_once() {
    let mut site = backup(|_| {});
    let stock = counter::set_of(b"elm");
    let share = |share: &str, by| Update::Add { set: stock.clone(), element: Key::from(share), by };
    let updates = vec![
        write("oak", "x"),
        write("iris", "i"),
        write("oak", "y"),
        add("elm", "b", 1),
        add("elm", "a", 2),
        add("elm", "b", -3),
        add("elm", "c", 1),
        add("elm", "c", -1),
        share("s0", 5),
    ];
    site.follows(&own(1, updates));
    site.follows(&own(2, vec![share("s0", -2), share("s1", 2)]));
    site.follows(&Entry::Received(vec![foreign(1, 1, &[2], vec![write("xenia", "a")])]));
    site.follows(&Entry::Advance(v(&[0, 1])));
    let all = ["s0.1 iris=i oak=y elm+5 elm[a]+2 elm[b]-2", "s1.1 xenia=a"];
    assert_eq!(told(&site, &[]).0, all, "a share that moves adds up to nothing");
    let keys = KeyRange { from: Key::from("elm"), to: Some(Key::from("elm\0")) };
    let watched = page_of(&site, &Request { keys, ..request(&[]) });
    assert_eq!(watched.changes.iter().map(text).collect::<Vec<_>>(), ["s0.1 elm+5 elm[a]+2 elm[b]-2"]);
    let keys = KeyRange { from: Key::from("y"), to: None };
    let nothing = page_of(&site, &Request { keys, ..request(&[]) });
    assert_eq!((nothing.changes.len(), nothing.to.to_string()), (0, "⟨2 1⟩".to_owned()));
}

/// The floor includes so many transactions of the first site.
fn raise(site: &mut Site, seqno: u64) {
    site.follows(&Entry::Floor { floor: v(&[seqno]), forgotten: Period(0) });
}

#[test]
fn what_the_floor_includes_is_retained_up_to_a_bound_and_goes_with_the_state() {
    let mut one = leader(|config| config.retention = Retention::default());
    one.commits(1, vec![write("oak", "x")]);
    raise(&mut one, 1);
    let bytes = HostedOnLog::retained(&one.machine).bytes;
    assert!(bytes > 0);
    // Those that follow have seen it, and so have a number in their snapshots.
    let retention = Retention { time: Duration::from_secs(100), bytes: 2 * bytes + 16 };
    let retaining = |config: &mut ReplicaConfig| config.retention = retention;
    let mut site = leader(retaining);
    for seqno in 1..=4 {
        site.commits(seqno, vec![write("oak", "x")]);
        is_copied(&mut site, seqno);
        raise(&mut site, seqno);
    }
    assert_eq!(told(&site, &[2]).0, ["s0.3 oak=x", "s0.4 oak=x"]);
    let too_old = Answer::TooOld { retained_from: Position::of_sites(vec![2]) };
    assert_eq!(site.machine.changes(&request(&[1])), too_old);
    assert_eq!(HostedOnLog::retained(&site.machine).bytes, 2 * bytes + 16);
    let mut copy = backup(retaining);
    copy.machine.replace_state(quorate_core::log::Position(9), site.pages());
    assert_eq!(told(&copy, &[2]), told(&site, &[2]));
    assert_eq!(copy.machine.changes(&request(&[1])), too_old);
    assert_eq!(copy.pages(), site.pages());
    let mut other = leader(|_| {});
    other.commits(1, vec![write("oak", "x")]);
    raise(&mut other, 1);
    assert_eq!(
        other.machine.changes(&request(&[])),
        Answer::TooOld { retained_from: Position::of_sites(vec![1]) }
    );
}

#[test]
fn a_consumer_that_was_told_what_is_given_up_begins_anew() {
    let mut follower = backup(|_| {});
    follower.follows(&Entry::Received(vec![
        foreign(2, 1, &[], vec![write("pear", "p")]),
        foreign(2, 2, &[], vec![write("pear", "q")]),
    ]));
    let removal = |end| Removal { site: LocalSite(2), successor: LocalSite(0), end };
    follower.follows(&Entry::Freeze(vec![removal(None)]));
    assert_eq!(told(&follower, &[0, 0, 2]).1, "⟨0 0 2⟩", "the end is open");
    follower.follows(&Entry::Removed { site: LocalSite(2), end: End { last: 1, barrier: v(&[]) } });
    let too_old = Answer::TooOld { retained_from: Position::of_sites(vec![]) };
    assert_eq!(follower.machine.changes(&request(&[0, 0, 2])), too_old);
    assert_eq!(told(&follower, &[0, 0, 1]).1, "⟨0 0 1⟩");
}

fn at_others(rules: Rules) -> Site {
    let mut site = leader(|config| config.rules = rules);
    let container = Container {
        preferred: LocalSite(1),
        replicas: Replicas::of([LocalSite(1), LocalSite(2)]),
        stays: true,
    };
    let place = Update::Place { name: Key::from("apple"), container: Some(container) };
    site.takes("2/r0", foreign(1, 1, &[], vec![place]));
    let noted = Update::Noted { object: Key::from("apple"), writes: true };
    site.takes("2/r0", foreign(1, 2, &[0, 1], vec![write("plum", "p"), noted]));
    site.commits(1, vec![write("oak", "x")]);
    is_copied(&mut site, 1);
    site
}

#[test]
fn what_a_site_has_no_copy_of_another_one_tells() {
    let site = at_others(Rules::SOUND);
    let page = page_of(&site, &request(&[]));
    assert_eq!((page.changes.len(), page.to.to_string()), (0, "⟨0 1⟩".to_owned()), "it ends before that");
    assert!(!page.is_last, "the next question is refused at once");
    let reason = unable(&site, &[0, 1]);
    assert!(reason.contains("no copy of the container \"apple\", to which s1.2 has written"), "{reason}");
    assert_eq!(told(&site, &[0, 2]).0, ["s0.1 oak=x"], "another site has told it");
    let keys = KeyRange { from: Key::from("oak"), to: None };
    let watched = page_of(&site, &Request { keys, ..request(&[]) });
    let others = (vec!["s1.2 plum=p".to_owned(), "s0.1 oak=x".to_owned()], "⟨1 2⟩".to_owned());
    assert_eq!((watched.changes.iter().map(text).collect::<Vec<_>>(), watched.to.to_string()), others);
    let planted = at_others(Rules::planted(Plant::LackingPassedOver));
    assert_eq!(told(&planted, &[]), (vec!["s0.1 oak=x".to_owned()], "⟨1 2⟩".to_owned()), "W39");
}

#[test]
fn a_site_that_joins_and_positions_of_others_are_no_answer() {
    let (joining, _) = super::removal::joining();
    assert!(unable(&joining, &[]).contains("joins"));
    let of_time = Request::all(Some(Position::Timestamp(Timestamp::ZERO)));
    assert!(matches!(site().machine.changes(&of_time), Answer::Unable { .. }));
}
