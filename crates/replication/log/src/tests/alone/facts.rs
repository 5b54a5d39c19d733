//! The facts that a replica writes down, and the state that a restart makes of them.

use std::collections::BTreeMap;

use super::*;
use crate::Status;
use crate::message::Offer;

fn installed(view: u64, kept: u64, last: u64) -> Fact<Word> {
    Fact::ViewInstalled {
        view: View(view),
        kept: Position(kept),
        last: Position(last),
        from_state: None,
        beginning: beginning(5),
        lives: BTreeMap::new(),
    }
}

fn page(view: u64, after: u64, words: impl IntoIterator<Item = u64>) -> Fact<Word> {
    Fact::ViewPage { view: View(view), after: Position(after), entries: entries(view, words) }
}

fn state(view: u64, page: u64, words: &[u64]) -> Fact<Word> {
    Fact::ViewState { view: View(view), page, state: words.to_vec() }
}

/// A backup of five, the last, from these facts.
fn restored(disk: Vec<Fact<Word>>) -> (Alone, Vec<Act>) {
    let mut alone = Alone::built(4, first(5), disk);
    let acts = alone.starts(Boot::Initialise);
    (alone, acts)
}

fn words(words: impl IntoIterator<Item = u64>) -> Vec<Word> {
    words.into_iter().map(Word::Own).collect()
}

/// The offer of a replica to the leader of the view that it changes to.
fn offer(acts: &[Act]) -> Option<Offer> {
    said(acts).into_iter().find_map(|(_, message)| match message {
        Message::DoViewChange { offer, .. } => Some(offer),
        _ => None,
    })
}

#[test]
fn a_restart_takes_the_entries_of_a_view_that_was_installed_and_no_others() {
    let log = || vec![installed(0, 0, 0), Fact::Appended(entries(0, 1..=3))];
    let after = |facts: Vec<Fact<Word>>| log().into_iter().chain(facts).collect::<Vec<_>>();
    let changing = |view| Fact::ViewEntered(View(view));
    let table = [
        ("what was appended stands", after(vec![]), 0, Status::Normal, words(1..=3)),
        (
            "who has left its view keeps its log",
            after(vec![changing(1)]),
            1,
            Status::ViewChanging,
            words(1..=3),
        ),
        (
            "entries of a view that was never installed do not count",
            after(vec![changing(1), page(1, 1, [8, 9])]),
            1,
            Status::ViewChanging,
            words(1..=3),
        ),
        (
            "what differs is cut off, and what has come follows",
            after(vec![changing(1), page(1, 1, [8, 9]), installed(1, 1, 3)]),
            1,
            Status::Normal,
            words([1, 8, 9]),
        ),
        (
            "nothing follows if nothing has come",
            after(vec![changing(1), installed(1, 2, 2)]),
            1,
            Status::Normal,
            words([1, 2]),
        ),
        (
            "a life may end before it has written all, and the next begins anew",
            after(vec![changing(1), page(1, 1, [8]), page(1, 1, [8, 9]), installed(1, 1, 3)]),
            1,
            Status::Normal,
            words([1, 8, 9]),
        ),
        (
            "an earlier life may have kept less, and fetched more",
            after(vec![changing(1), page(1, 0, [7, 8, 9]), installed(1, 1, 3)]),
            1,
            Status::Normal,
            words([1, 8, 9]),
        ),
        (
            "of entries that an earlier life fetched those beyond the view's last do not count",
            after(vec![changing(1), page(1, 1, [8, 9, 10]), installed(1, 1, 2)]),
            1,
            Status::Normal,
            words([1, 8]),
        ),
        (
            "entries of another view do not count",
            after(vec![changing(1), page(1, 1, [8, 9]), changing(2), page(2, 2, [6]), installed(2, 2, 3)]),
            2,
            Status::Normal,
            words([1, 2, 6]),
        ),
        (
            "nor does what a view began with count for the next",
            after(vec![
                changing(1),
                page(1, 3, [8]),
                installed(1, 3, 4),
                changing(2),
                page(2, 1, [5]),
                installed(2, 1, 2),
            ]),
            2,
            Status::Normal,
            words([1, 5]),
        ),
    ];
    for (rule, facts, view, status, log) in table {
        let (alone, _) = restored(facts);
        assert_eq!((alone.replica.view(), alone.replica.status()), (View(view), status), "{rule}");
        assert_eq!(alone.log(), (1, log), "{rule}");
    }
}

#[test]
fn a_restart_goes_on_from_the_state_that_a_view_began_with() {
    let from_state = |kept, last| Fact::ViewInstalled {
        view: View(3),
        kept: Position(kept),
        last: Position(last),
        from_state: Some(View(2)),
        beginning: beginning(5),
        lives: BTreeMap::from([(ReplicaIndex(1), 4)]),
    };
    // An earlier life had begun to write another state.
    let facts = vec![
        installed(0, 0, 0),
        Fact::Appended(entries(0, 1..=3)),
        Fact::ViewEntered(View(3)),
        state(3, 0, &[1, 2]),
        state(3, 1, &[3, 4]),
        state(3, 0, &[10, 20]),
        state(3, 1, &[30]),
        page(3, 3, [40, 50]),
        from_state(3, 5),
        Fact::Appended(entries(3, [60])),
    ];
    let (alone, acts) = restored(facts);
    assert!(
        acts.contains(&Act::ReplaceState(3, vec![vec![10, 20], vec![30]])),
        "the pages of one state: {acts:?}"
    );
    assert_eq!(alone.replica.stable(), Position(3), "nothing behind the state is known as stable");
    assert_eq!(alone.log(), (4, words([40, 50, 60])));
    assert_eq!(alone.replica.shape().view_at(Position(3)), Some(View(2)));
    assert_eq!(alone.state, [10, 20, 30]);
    assert_eq!(alone.replica.bytes_since_snapshot(), 32, "what was appended, before and since");
}

#[test]
fn pages_of_a_state_belong_to_one_view() {
    let from_state = Fact::ViewInstalled {
        view: View(3),
        kept: Position(2),
        last: Position(2),
        from_state: Some(View(2)),
        beginning: beginning(5),
        lives: BTreeMap::new(),
    };
    let (alone, acts) = restored(vec![
        installed(0, 0, 0),
        state(3, 0, &[1, 2]),
        from_state,
        Fact::ViewEntered(View(4)),
        state(4, 0, &[1, 2]),
        state(4, 1, &[3]),
        installed(4, 2, 2),
    ]);
    assert!(acts.contains(&Act::ReplaceState(2, vec![vec![1, 2]])), "view 4 began with no state: {acts:?}");
    assert_eq!(alone.log(), (3, words([])));
}

#[test]
fn a_snapshot_stands_for_all_before_it() {
    let begun = |changing| Fact::SnapshotBegun {
        base: Position(4),
        base_view: View(1),
        view: View(5),
        last_normal: View(2),
        changing,
        lives: BTreeMap::from([(ReplicaIndex(0), 3)]),
        beginning: beginning(5),
    };
    for changing in [false, true] {
        let facts = vec![
            installed(0, 0, 0),
            Fact::Appended(entries(0, 1..=9)),
            Fact::LifeNoted { replica: ReplicaIndex(1), life: 9 },
            begun(changing),
            Fact::SnapshotEntries(entries(1, [50])),
            Fact::SnapshotPage(vec![10, 20]),
            Fact::Appended(entries(2, [60])),
            Fact::SnapshotPage(vec![30, 40]),
            Fact::SnapshotEnded,
            Fact::Appended(entries(2, [70])),
        ];
        let (mut alone, acts) = restored(facts);
        assert!(acts.contains(&Act::ReplaceState(4, vec![vec![10, 20], vec![30, 40]])), "{acts:?}");
        assert_eq!((alone.replica.stable(), alone.log()), (Position(4), (5, words([50, 60, 70]))));
        let status = if changing { Status::ViewChanging } else { Status::Normal };
        assert_eq!((alone.replica.view(), alone.replica.status()), (View(5), status));
        if !changing {
            alone.passes(2 * TIMING.lease);
            alone.hears(1, Message::StartViewChange { view: View(6), entered: true });
            alone.hears(0, Message::StartViewChange { view: View(6), entered: true });
        }
        let offered = offer(&alone.fires(Timer::Silence)).expect("it changes views");
        assert_eq!(offered.last_normal, View(2));
        assert_eq!(
            offered.lives,
            BTreeMap::from([(ReplicaIndex(0), 3)]),
            "what was noted before is in the snapshot"
        );
    }
}

#[test]
fn bytes_on_disk_count_for_the_next_snapshot() {
    let (alone, _) = restored(vec![
        Fact::SnapshotBegun {
            base: Position(2),
            base_view: View(0),
            view: View(0),
            last_normal: View(0),
            changing: false,
            lives: BTreeMap::new(),
            beginning: beginning(5),
        },
        Fact::SnapshotEntries(entries(0, [3])),
        Fact::SnapshotPage(vec![1, 2]),
        Fact::SnapshotEnded,
        Fact::Appended(entries(0, [4, 5])),
    ]);
    assert_eq!(alone.replica.bytes_since_snapshot(), 24);
}

#[test]
fn a_new_replica_is_a_member_only_once_that_is_on_disk() {
    let mut alone = Alone::built(1, first(5), Vec::new());
    let acts = alone.starts(Boot::Initialise);
    assert_eq!(facts(&acts), [installed(0, 0, 0)]);
    let (again, acts) = alone.restarted();
    assert_eq!((again.replica.status(), again.replica.view()), (Status::Normal, View(0)));
    assert_eq!(facts(&acts), [], "it is written down once");
    // A disk that holds something else is that of a replica that was about to come back, or to be let in.
    for (fact, expected) in [
        (Fact::LifeNoted { replica: ReplicaIndex(1), life: 1 }, Message::WhichLife { nonce: 1 }),
        (Fact::Awaiting, Message::Join { view: View(0) }),
    ] {
        let mut alone = Alone::built(1, first(5), vec![fact]);
        let acts = alone.starts(Boot::Initialise);
        assert_eq!(alone.replica.status(), Status::Recovering);
        assert_eq!(said(&acts), [0, 2, 3, 4].map(|to| (to, expected.clone())));
        assert_eq!(facts(&acts), []);
    }
}

#[test]
fn a_leader_that_restarts_leads_the_next_view_of_its_own() {
    let mut leader = Alone::new(0, 3);
    leader.appends([1, 2]);
    let (again, acts) = leader.restarted();
    assert_eq!((again.replica.view(), again.replica.status()), (View(3), Status::ViewChanging));
    assert_eq!(facts(&acts), [Fact::ViewEntered(View(3))]);
    assert_eq!(again.log(), (1, words([1, 2])));
    // A backup goes on where it was, and binds itself as if it had heard the leader just now.
    let backup = Alone::new(1, 3);
    let (mut again, acts) = backup.restarted();
    assert_eq!((facts(&acts), timer(&acts, Timer::Silence)), (vec![], Some(TIMING.silence)));
    again.passes(TIMING.silence);
    let acts = again.fires(Timer::Silence);
    assert!(said(&acts).is_empty(), "its earlier life may have promised: {acts:?}");
    again.passes(TIMING.lease);
    let acts = again.fires(Timer::Silence);
    let wish = Message::StartViewChange { view: View(1), entered: false };
    assert_eq!(said(&acts), [(0, wish.clone()), (2, wish)]);
}

#[test]
fn a_leader_says_nothing_before_its_disk_knows_that_it_takes_part() {
    let mut alone = Alone::built(0, first(3), Vec::new());
    let began = alone.starts(Boot::Initialise);
    assert!(!began.iter().any(|act| matches!(act, Act::SendAtOnce(..))), "{began:?}");
    let appended = alone.appends([1]);
    assert!(!appended.iter().any(|act| matches!(act, Act::SendAtOnce(..))), "{appended:?}");
    let durable = began.iter().find_map(|act| match act {
        Act::PersistAndNotify(Fact::ViewInstalled { .. }, durable) => Some(*durable),
        _ => None,
    });
    assert_eq!(durable, Some(Durable { view: View(0), upto: Position(0) }));
    alone.syncs(&began);
    let appended = alone.appends([2]);
    assert!(appended.iter().any(|act| matches!(act, Act::SendAtOnce(..))), "{appended:?}");
    assert!(
        !appended.iter().any(|act| matches!(act, Act::Send(..))),
        "backups may have it before it has: {appended:?}"
    );
}

#[test]
fn what_is_appended_together_is_written_once_and_counts_once_it_is_durable() {
    let mut alone = Alone::new(0, 1);
    let acts = alone.appends([1, 2, 3]);
    let durable = Durable { view: View(0), upto: Position(3) };
    assert!(acts.contains(&Act::PersistAndNotify(Fact::Appended(entries(0, 1..=3)), durable)), "{acts:?}");
    assert_eq!((alone.replica.stable(), alone.replica.bytes_since_snapshot()), (Position(0), 24));
    assert_eq!(facts(&alone.steps(|_, _| ())), [], "it is written once");
    alone.steps(|replica, hands| replica.on_durable(Durable { view: View(1), upto: Position(3) }, hands));
    assert_eq!(alone.replica.stable(), Position(0), "that was of another view");
    alone.syncs(&acts);
    assert_eq!((alone.replica.stable(), alone.state.as_slice()), (Position(3), [1, 2, 3].as_slice()));
}

#[test]
fn a_backup_writes_down_what_it_lacks_and_says_so_afterwards() {
    let mut alone = Alone::new(1, 3);
    let prepare = |after, words: &[u64], stable| Message::Prepare {
        view: View(0),
        after: Position(after),
        entries: entries(0, words.iter().copied()),
        stable: Position(stable),
        beat: 1,
        clock: None,
    };
    let takes = |alone: &mut Alone, after, words: &[u64], stable| {
        let acts = alone.hears(0, prepare(after, words, stable));
        let upto = acts.iter().find_map(|act| match act {
            Act::Send(0, Message::PrepareOk { upto, .. }) => Some(upto.0),
            _ => None,
        });
        (facts(&acts), upto)
    };
    let appended = |words: &[u64]| vec![Fact::Appended(entries(0, words.iter().copied()))];
    assert_eq!(takes(&mut alone, 0, &[1, 2], 0), (appended(&[1, 2]), Some(2)));
    assert_eq!(takes(&mut alone, 0, &[1, 2], 0), (vec![], Some(2)), "it has them");
    assert_eq!(takes(&mut alone, 1, &[2, 3], 1), (appended(&[3]), Some(3)), "it lacks one");
    assert_eq!(takes(&mut alone, 5, &[6], 3), (vec![], Some(3)), "it lacks what comes before");
    assert_eq!(takes(&mut alone, 4, &[5], 3), (vec![], Some(3)));
    let (written, upto) = takes(&mut alone, 3, &[4], 9);
    assert_eq!(written, [appended(&[4]), appended(&[5]), appended(&[6])].concat(), "what was early follows");
    assert_eq!((upto, alone.replica.stable()), (Some(6), Position(6)));
    assert_eq!(alone.replica.bytes_since_snapshot(), 48);
    let (again, _) = alone.restarted();
    assert_eq!(again.log(), (1, words(1..=6)));
}
