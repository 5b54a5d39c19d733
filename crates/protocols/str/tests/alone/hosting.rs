//! The reports of a machine to a host, an operator and a judge.

use quorate_core::Groups;
use quorate_core::hosted::{Admission, Boot, Seat, Urgency};
use quorate_core::log::{FrozenAt, LogMachine};
use quorate_core::verify::Digester;
use quorate_str::Page;

use super::*;

fn leader() -> Alone {
    let mut shard = machine("1/r0", |_| {});
    shard.starts();
    shard.leads(0);
    shard
}

fn prepare(sequence: u64, words: &str) -> Message {
    let (transaction, writes) = (txn(1, sequence), writes(words));
    Message::Prepare {
        knows_indexes: false,
        transaction,
        life: LIFE,
        snapshot: at(500),
        writes,
        after: Vec::new(),
        is_local: false,
    }
}

#[test]
fn a_judge_sees_what_a_shard_holds() {
    let mut shard = leader();
    assert!(shard.machine.is_idle(true));
    for (sequence, words) in [(1, "oak=x"), (2, "elm=x"), (3, "iris=x")] {
        shard.hears("4/r0", prepare(sequence, words));
    }
    shard.logs();
    assert_eq!([true, false].map(|leads| shard.machine.is_idle(leads)), [false, true]);
    let held = shard.machine.held();
    assert_eq!(held.iter().map(|held| held.id).collect::<Vec<_>>(), [txn(1, 1), txn(1, 2), txn(1, 3)]);
    assert_eq!((held[0].participants.clone(), held[0].timestamp.micros), (vec![ShardId(4)], 500));
    for (sequence, outcome) in [(1, committed(900)), (2, Outcome::Aborted)] {
        let transaction = txn(1, sequence);
        shard.hears(
            "4/r0",
            Message::Decide { transaction, outcome, readers: Vec::new(), is_forgotten: false },
        );
    }
    shard.logs();
    let outcomes = [(txn(1, 1), committed(900)), (txn(1, 2), Outcome::Aborted)];
    assert_eq!(shard.machine.outcomes(), outcomes);
    assert_eq!(
        (shard.machine.recorded(), shard.machine.version_count(), shard.machine.versions().len()),
        (2, 1, 1)
    );
    assert!(shard.machine.left().is_empty() && !shard.machine.settles());
    assert!(
        shard.machine.counts().is_none()
            && shard.machine.tuner().is_none()
            && shard.machine.speculating().is_none()
    );
    assert!(!shard.machine.is_committing(txn(1, 3)));
    shard.waits(3_000);
    assert!(shard.machine.settles());
}

#[test]
fn a_judge_sees_what_a_home_holds() {
    let mut home = machine("3/r0", |_| {});
    home.starts();
    let life = life_of(&home);
    home.hears("1/r0", Message::Time { life, clock: at(1_000) });
    assert!(home.machine.is_idle(true) && home.machine.left().is_empty());
    let read = Message::Read {
        transaction: txn(2, 1),
        session: Session::default(),
        snapshot: None,
        request: 1,
        wanted: vec![key("apple")],
    };
    home.hears("c2", read);
    assert_eq!(home.machine.left(), [("transactions", 1)]);
    assert_eq!(
        [true, false].map(|leads| home.machine.is_idle(leads)),
        [false; 2],
        "its log may be led elsewhere"
    );
    assert_eq!((home.machine.prepared(), home.machine.is_committing(txn(2, 1))), (0, false), "it reads");
    let commit = Message::Commit {
        knows_indexes: false,
        transaction: txn(1, 1),
        session: Session::default(),
        snapshot: None,
        period: Period { life, number: 1 },
        begun: at(900),
        writes: writes("apple=x"),
        shows: false,
    };
    home.hears("c1", commit);
    assert_eq!((home.machine.prepared(), home.machine.is_committing(txn(1, 1))), (1, true));
    let held = home.machine.held();
    assert_eq!(
        (held[0].id, held[0].participants.clone(), held[0].timestamp.micros),
        (txn(1, 1), vec![ShardId(2)], 1_001)
    );
    home.leads(0);
    home.hears(
        "2/r0",
        Message::Prepared { transaction: txn(1, 1), view: View(0), proposal: at(1_500), holders: vec![] },
    );
    home.logs();
    assert_eq!((home.machine.outcomes(), home.machine.recorded()), (vec![(txn(1, 1), committed(1_500))], 1));
    assert_eq!(home.machine.outcome(txn(1, 1)), Some(committed(1_500)));
    assert_eq!(
        (home.machine.waiting(), home.machine.is_idle(true), home.machine.settles()),
        (1, false, false)
    );
    assert_eq!(
        (home.machine.versions().len(), home.machine.version_count(), home.machine.gave_way()),
        (0, 0, 0)
    );
    let speculating = home.machine.speculating().unwrap();
    assert_eq!((speculating.finals, speculating.aborts, speculating.shown), (1, 0, 0));
    assert!(speculating.tuning.is_none());
}

#[test]
fn a_home_tells_its_host_of_commits_where_a_journal_is_wanted() {
    for journals in [false, true] {
        let mut home = machine("3/r0", |config| config.journals = journals);
        home.starts();
        let life = life_of(&home);
        home.hears("1/r0", Message::Time { life, clock: at(1_000) });
        home.leads(0);
        let commit = Message::Commit {
            knows_indexes: false,
            transaction: txn(1, 1),
            session: Session::default(),
            snapshot: None,
            period: Period { life, number: 1 },
            begun: at(900),
            writes: writes("apple=x"),
            shows: false,
        };
        let told = home.hears("c1", commit);
        assert_eq!(only(told, "has committed c1.1 locally @1002").len(), usize::from(journals));
        home.hears(
            "2/r0",
            Message::Prepared { transaction: txn(1, 1), view: View(0), proposal: at(1_500), holders: vec![] },
        );
        assert_eq!(only(home.logs(), "has c1.1 final @1500").len(), usize::from(journals));
    }
}

#[test]
fn a_host_knows_which_messages_may_wait() {
    let read = Message::Read {
        transaction: txn(2, 1),
        session: Session::default(),
        snapshot: None,
        request: 1,
        wanted: vec![],
    };
    let commit = Message::Commit {
        knows_indexes: false,
        transaction: txn(2, 1),
        session: Session::default(),
        snapshot: None,
        period: Period::default(),
        begun: at(900),
        writes: vec![],
        shows: false,
    };
    assert_eq!(Replica::admission(&read), Admission::of(Urgency::Early));
    let commits = |values: &[Option<&str>]| {
        let write =
            |value: &Option<&str>| Write { key: Key::from("a"), value: value.map(|it| it.to_owned().into()) };
        let mut message = commit.clone();
        if let Message::Commit { writes, .. } = &mut message {
            *writes = values.iter().map(write).collect();
        }
        Replica::adds(&message)
    };
    let adding = [commits(&[]), commits(&[None]), commits(&[None, Some("x")])];
    assert_eq!(adding, [false, false, true], "a deletion needs no room");
    assert!(Replica::adds(&read));
    let prepares = Admission { prepares_for: Some(ClientId(2)), ..Admission::of(Urgency::Prepare) };
    assert_eq!(Replica::admission(&commit), prepares);
    assert_eq!(
        Replica::admission(&Message::Abort { transaction: txn(2, 1) }),
        Admission::of(Urgency::Always)
    );
    let groups = Groups::new(GroupSize::new(5).unwrap());
    assert_eq!(Replica::change_groups(&groups), Some(ReplicaCommand::ChangeGroups(groups)));
    assert_eq!(Replica::meet(&[replica("1/r0")]), Some(ReplicaCommand::Meet(vec![replica("1/r0")])));
}

#[test]
fn a_machine_is_built_for_its_seat() {
    let initial = ReplicaConfig::new(
        replica("1/r0"),
        GroupSize::new(3).unwrap(),
        Shards { first: ShardId(8), count: 1 },
    );
    let groups = Groups::new(GroupSize::new(5).unwrap());
    let shards = Some(Shards { first: ShardId(1), count: 2 });
    let seat = |name: &str| Seat {
        replica: replica(name),
        groups: groups.clone(),
        shards,
        joined: Vec::new(),
        boot: Boot::Initialise,
        attic: None,
    };
    let config = Replica::seated(initial.clone(), &seat("2/r1"));
    assert_eq!(
        (config.replica, config.groups.clone(), Some(config.shards)),
        (replica("2/r1"), groups.clone(), shards)
    );
    assert!(matches!(Replica::new(config), Replica::Shard(_)));
    assert!(matches!(Replica::new(Replica::seated(initial, &seat("3/r1"))), Replica::Home(_)));
}

#[test]
fn replicas_that_hold_the_same_have_the_same_digest() {
    use quorate_core::transaction::KeyVersion;
    let digest = |key: &str, micros, client, value: Option<&str>| {
        let mut digester = Digester::new(&[]);
        let version = Timestamp { micros, client: ClientId(client) };
        let value = value.map(|value| Value::from(value.to_owned()));
        let page = Page::Versions(vec![KeyVersion { key: Key::from(key), version, value }]);
        Replica::digest(&page, &mut digester);
        digester.finish()
    };
    let one = digest("oak", 5, 1, Some("x"));
    assert_eq!(one, digest("oak", 5, 1, Some("x")));
    for other in [
        digest("elm", 5, 1, Some("x")),
        digest("oak", 6, 1, Some("x")),
        digest("oak", 5, 2, Some("x")),
        digest("oak", 5, 1, Some("y")),
        digest("oak", 5, 1, None),
    ] {
        assert_ne!(one, other);
    }
}

/// A machine that does not lead any more, and one that has never led, go on from pages.
#[test]
fn a_state_is_whole_in_pages_of_any_size() {
    for bytes in [1, 1_000_000] {
        let mut shard = machine("1/r0", |config| config.page_bytes_max = bytes);
        shard.starts();
        shard.leads(0);
        for (sequence, words) in [(1, "oak=x"), (2, "elm=x"), (3, "iris=x"), (4, "moss=x")] {
            shard.hears("4/r0", prepare(sequence, words));
        }
        shard.logs();
        for (sequence, outcome) in [(1, committed(900)), (2, Outcome::Aborted)] {
            let readers = vec![(Key::from("sage"), at(700))];
            shard.hears(
                "4/r0",
                Message::Decide { transaction: txn(1, sequence), outcome, readers, is_forgotten: false },
            );
        }
        shard.hears("1/r1", Message::AskGrant { life: Life(5), wanted: at(0) });
        shard.logs();
        let pages = shard.pages();
        assert_eq!(pages.len() > 4, bytes == 1, "{pages:?}");
        let mut copy = machine("1/r1", |config| config.page_bytes_max = bytes);
        copy.starts();
        copy.machine.replace_state(quorate_core::log::Position(9), pages.clone());
        assert_eq!(copy.pages(), pages);
        copy.leads(1);
        assert_eq!(copy.hears("4/r0", prepare(1, "oak=x")), ["4/r0 ← APPLIED c1.1"]);
        assert_eq!(copy.hears("4/r0", prepare(3, "iris=x")).len(), 1);
        let told = copy.hears("4/r0", prepare(5, "sage=x"));
        assert!(
            told[0].starts_with("appends PREPARED c1.5 sage=x in @500, @2001001"),
            "its life was granted nothing: {told:?}"
        );
    }
}

/// A log bounds what it sends and keeps by these.
#[test]
fn an_entry_has_about_as_many_bytes_as_it_takes() {
    use quorate_str::Entry;
    use quorate_str::entry::{Decided, Decision, Granted, Prepared};
    use std::sync::Arc;
    let holders = |count: usize| vec![Holder { replica: ReplicaIndex(0), life: LIFE, until: at(5) }; count];
    let readers = vec![(Key::from("oak"), at(5)), (Key::from("iris"), at(5))];
    let prepared = |words: &str, count| {
        Entry::Prepared(Arc::new(Prepared {
            transaction: txn(1, 1),
            home: replica("4/r0"),
            life: LIFE,
            snapshot: at(5),
            proposal: at(6),
            writes: writes(words),
            view: View(0),
            holders: holders(count),
        }))
    };
    let decided = Decided { transaction: txn(1, 1), outcome: Outcome::Aborted, readers: readers.clone() };
    let decision = Decision {
        transaction: txn(1, 1),
        by: ReplicaIndex(0),
        snapshot: at(5),
        begun: at(4),
        participants: vec![ShardId(1), ShardId(2)],
        outcome: Outcome::Aborted,
        readers,
    };
    let table = [
        (Entry::Floor(at(5)), 96),
        (Entry::Forgotten(at(5)), 96),
        (prepared("oak=xy iris=", 0), 96 + (24 + 5) + (24 + 4)),
        (prepared("oak=xy", 2), 96 + (24 + 5) + 2 * 24),
        (Entry::Decided(Arc::new(decided)), 96 + (24 + 3) + (24 + 4)),
        (Entry::Granted(Granted { view: View(0), clock: at(5), holders: holders(3) }), 96 + 3 * 24),
        (Entry::Recorded(Arc::new(decision)), 96 + (24 + 3) + (24 + 4) + 2 * 4),
        (Entry::Settled(vec![txn(1, 1), txn(1, 2)]), 96 + 2 * 24),
    ];
    for (entry, bytes) in table {
        assert_eq!(Replica::bytes(&entry), bytes, "{entry:?}");
    }
}

/// The pages of a home: 96 bytes for a decision beside the keys of its readers.
#[test]
fn decisions_have_their_bytes_in_pages() {
    use quorate_str::Entry;
    use quorate_str::entry::Decision;
    use std::sync::Arc;
    let sizes = |bytes: usize| {
        let mut home = machine("3/r0", |config| config.page_bytes_max = bytes);
        home.starts();
        for (sequence, keys) in [(1, vec!["oak"]), (2, vec![]), (3, vec!["elm", "iris"])] {
            let decision = Decision {
                transaction: txn(1, sequence),
                by: ReplicaIndex(1),
                snapshot: at(500),
                begun: at(400),
                participants: vec![ShardId(1)],
                outcome: committed(900),
                readers: keys.into_iter().map(|key| (Key::from(key), at(450))).collect(),
            };
            home.follows(&Entry::Recorded(Arc::new(decision)));
        }
        let size = |page: &Page| match page {
            Page::Decisions(all) => all.len(),
            _ => 0,
        };
        home.pages().iter().map(size).collect::<Vec<_>>()
    };
    // The first one is as large as two without readers and three bytes more.
    assert_eq!(sizes(2 * 96 + 3), [1, 2, 0]);
    assert_eq!(sizes(2 * 96 + 4), [2, 1, 0]);
    assert_eq!(sizes(96), [1, 1, 1, 0]);
}

/// The keys and values that an operator reads below a timestamp; none as long as something may commit there, an error if that is not known.
fn read_below(shard: &mut Alone, micros: u64) -> Result<Option<Vec<String>>, ()> {
    let below = Timestamp { micros, client: Default::default() };
    let mut frozen = match shard.machine.freeze_at(below) {
        FrozenAt::NotYet => return Ok(None),
        FrozenAt::Passed => return Err(()),
        FrozenAt::Frozen(frozen) => frozen,
    };
    let mut digester = Digester::reading();
    while let Some(page) = Replica::next_page(&mut frozen) {
        Replica::digest(&page, &mut digester);
    }
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let item = |item: quorate_core::verify::Stored| {
        format!("{}={}", text(&item.key), text(&item.value.unwrap_or_default()))
    };
    Ok(Some(digester.take().into_iter().map(item).collect()))
}

#[test]
fn an_operator_reads_a_shard_at_a_snapshot_once_nothing_may_commit_below_it() {
    let mut shard = leader();
    assert_eq!(shard.hears("4/r0", prepare(1, "elm=x oak=x")).len(), 1);
    shard.logs();
    assert_eq!(shard.machine.prepared(), 1);
    let decide = |sequence, outcome| Message::Decide {
        transaction: txn(1, sequence),
        outcome,
        readers: Vec::new(),
        is_forgotten: false,
    };
    assert_eq!(read_below(&mut shard, 9_000_000), Ok(None), "nobody has granted that");
    shard.hears(
        "3/r0",
        Message::ReadAt { life: LIFE, request: 1, snapshot: at(1_000), wanted: vec![key("fig")] },
    );
    shard.logs();
    assert_eq!(read_below(&mut shard, 1_001), Ok(None), "a transaction is prepared that may commit there");
    shard.hears("4/r0", decide(1, committed(900)));
    shard.logs();
    let expected = Ok(Some(vec!["elm=x".to_owned(), "oak=x".to_owned()]));
    assert_eq!(read_below(&mut shard, 1_001), expected);
    // It was a reader of all keys, also of those that are not there, so whatever commits later commits above.
    for (sequence, words) in [(2, "oak=y"), (3, "new=z")] {
        let (transaction, writes) = (txn(1, sequence), writes(words));
        let (snapshot, after) = (at(950), Vec::new());
        let told = shard.hears(
            "4/r0",
            Message::Prepare {
                knows_indexes: false,
                transaction,
                life: LIFE,
                snapshot,
                writes,
                after,
                is_local: false,
            },
        );
        assert!(told.iter().any(|told| told.contains("@1001")), "{told:?}");
    }
    assert_eq!(read_below(&mut shard, 0), Err(()), "there is nothing below");
}

/// By these a host follows a transaction.
#[test]
fn a_host_hears_of_a_transaction_from_its_first_message_to_its_last() {
    use quorate_core::landmark::{End, Landmark};
    use quorate_str::message::{Ending, Refusal};
    let transaction = txn(2, 1);
    let commit = |words: &str| Message::Commit {
        knows_indexes: false,
        transaction,
        session: Session::default(),
        snapshot: None,
        period: Period::default(),
        begun: at(900),
        writes: writes(words),
        shows: false,
    };
    let received = |message: &Message| Replica::landmark_received(message, ShardId(3));
    assert_eq!(received(&commit("oak=x")), Some(Landmark::Asked(transaction)));
    assert_eq!(received(&commit("")), None, "it has only read");
    assert_eq!(received(&Message::Abort { transaction }), None);
    let timestamp = Timestamp { micros: 900, client: ClientId(2) };
    let ends = |ending| Replica::landmark_sent(&Message::CommitReply { transaction, ending });
    let ended = |end| Some(Landmark::Ended(transaction, end));
    assert_eq!(ends(Ending::Committed { timestamp, snapshot: at(5) }), ended(End::Committed));
    assert_eq!(ends(Ending::Aborted(Refusal::Lost)), ended(End::Aborted));
    let doomed = Message::Doomed { transaction, refusal: Refusal::Lost };
    assert_eq!(Replica::landmark_sent(&doomed), ended(End::Aborted));
    let leader = ReplicaIndex(1);
    for (message, landmark) in [
        (Message::NotLeading { transaction: Some(transaction), leader }, Some(Landmark::Passed(transaction))),
        (Message::NotLeading { transaction: None, leader }, None),
        (
            Message::OtherPeriod { transaction, period: Period::default() },
            Some(Landmark::Passed(transaction)),
        ),
        (Message::UnderWay { transaction }, None),
    ] {
        assert_eq!(Replica::landmark_sent(&message), landmark, "{message:?}");
    }
    let keys =
        |message: &Message| Replica::keys_written(message).iter().flatten().cloned().collect::<Vec<Key>>();
    assert_eq!(keys(&commit("elm=x oak=x")), [Key::from("elm"), Key::from("oak")]);
    assert_eq!(keys(&Message::Abort { transaction }), Vec::<Key>::new());
}
