//! The reports of a site to a host, an operator and a judge.

use quorate_core::command::Outcome;
use quorate_core::hosted::{Admission, Boot, HandedOver, Holdings, HostedOnLog, Seat, Urgency};
use quorate_core::log::Position;
use quorate_core::topology::SiteChanges;
use quorate_core::verify::Digester;
use quorate_core::{ClockTime, Epoch, Groups, Timestamp};
use quorate_walter::{Page, Read, ReplicaCommand};

use super::*;

#[test]
fn a_site_is_idle_once_nothing_is_locked_and_nobody_waits() {
    let mut site = site();
    let load = |site: &Site| (HostedOnLog::load(&site.machine, None), site.machine.is_idle(true));
    assert_eq!(load(&site), (0, true));
    site.is_asked(1, Snapshot::New(v(&[])), vec![write("oak", "x")]);
    assert_eq!(load(&site), (1, false));
    assert_eq!(HostedOnLog::load(&site.machine, Some(ClientId(2))), 0);
    site.logs();
    assert_eq!(load(&site), (0, true));
    site.hears(
        "2/r0",
        Message::Prepare { transaction: txn(9, 1), keys: vec![Key::from("elm")], snapshot: v(&[]) },
    );
    site.logs();
    assert_eq!((load(&site), site.machine.prepared()), ((0, false), 1));
    assert!(site.machine.is_idle(false), "a lock is settled by the leader");
    let held = site.machine.held();
    assert_eq!((held.len(), held[0].id, held[0].participants.clone()), (1, txn(9, 1), vec![ShardId(2)]));
    assert!(!site.machine.settles());
    site.waits(2_500);
    assert!(site.machine.settles());
    assert_eq!(HostedOnLog::recoveries(&site.machine), 1);
    assert_eq!(Holdings::waiting(&site.machine), 2, "two sites have not committed what has committed here");
    let handed = HandedOver { containers: 0, shares: 0 };
    assert_eq!(site.machine.handed_over(), Some(handed));
}

#[test]
fn a_judge_sees_the_outcomes_and_versions_of_a_site() {
    let mut site = site();
    site.commits(1, vec![write("oak", "x"), add("elm", "a", 1)]);
    site.commits(2, vec![write("oak", "y"), write("iris", "i")]);
    site.is_asked(3, Snapshot::Taken(v(&[])), vec![write("oak", "z")]);
    site.logs();
    let committed = |seqno| Outcome::Committed(version(0, seqno).timestamp());
    let outcomes = [(txn(1, 1), committed(1)), (txn(1, 2), committed(2)), (txn(1, 3), Outcome::Aborted)];
    assert_eq!(Holdings::outcomes(&site.machine), outcomes);
    assert_eq!(Holdings::outcome(&site.machine, txn(1, 2)), Some(committed(2)));
    assert_eq!(Holdings::outcome(&site.machine, txn(1, 4)), None);
    assert_eq!(HostedOnLog::decided(&site.machine), (2, 1));
    assert_eq!((HostedOnLog::record_len(&site.machine), site.machine.recorded()), (3, 3));
    let versions = Holdings::versions(&site.machine);
    let told: Vec<String> = versions
        .iter()
        .map(|(key, at, value)| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            format!("{}={}@{}", text(key), value.as_deref().map_or(String::new(), text), at.micros)
        })
        .collect();
    assert_eq!(told, ["iris=i@2", "oak=x@1", "oak=y@2"]);
    assert_eq!(site.machine.version_count(), 4, "a change of a set is one as well");
    assert!(site.machine.state_bytes() > 0);
    assert_eq!(Holdings::floor(&site.machine), Timestamp::ZERO);
    assert!(!site.machine.has_collected(ClockTime::default()), "the floor does not include it");
    assert!(super::site().machine.has_collected(ClockTime::default()));
    assert!(site.machine.left().is_empty());
    site.takes("2/r0", foreign(1, 1, &[], vec![write("plum", "p")]));
    assert_eq!(Holdings::versions(&site.machine).len(), 4);
}

#[test]
fn a_host_knows_which_messages_may_wait() {
    let read = read_at(1, 1, Snapshot::New(v(&[])), vec![]);
    let commit = commit_at(1, 1, Snapshot::New(v(&[])), vec![]);
    let copy = Message::ReadCopy {
        transaction: txn(1, 1),
        request: 1,
        snapshot: v(&[]),
        home: LocalSite(1),
        wanted: vec![],
    };
    let destroys = Update::Write { key: Key::from("oak"), value: None };
    for (updates, adds) in [
        (vec![], false),
        (vec![destroys.clone()], false),
        (vec![destroys.clone(), write("oak", "x")], true),
        (vec![Update::Add { set: Key::from("elm"), element: Key::from("a"), by: -1 }], true),
    ] {
        let message = commit_at(1, 1, Snapshot::New(v(&[])), updates.clone());
        assert_eq!(<Replica as HostedOnLog>::adds(&message), adds, "{updates:?}");
    }
    for (message, urgency) in [
        (read, Urgency::Early),
        (copy, Urgency::Early),
        (commit, Urgency::Prepare),
        (Message::Release { transaction: txn(1, 1) }, Urgency::Always),
    ] {
        assert_eq!(<Replica as HostedOnLog>::admission(&message), Admission::of(urgency), "{message:?}");
    }
    let question = quorate_core::hosted::Consultation { asked: Instant::START, settlement: None };
    let consults = ReplicaEvent::Consults(question.clone());
    assert_eq!(Replica::consultation(&consults), Some(&question));
    assert_eq!(Replica::consultation(&ReplicaEvent::Deposed), None);
    let changes = SiteChanges::default();
    let answer = ReplicaCommand::Answer { asked: Instant::START, changes: changes.clone() };
    assert_eq!(Replica::answer(Instant::START, &changes), Some(answer));
    let groups = Groups::new(GroupSize::new(5).unwrap());
    assert_eq!(Replica::change_groups(&groups), Some(ReplicaCommand::ChangeGroups(groups)));
}

#[test]
fn a_replica_is_built_for_its_seat() {
    let shards = Shards { first: ShardId(4), count: 2 };
    let initial = ReplicaConfig::new(replica("1/r0"), GroupSize::new(3).unwrap(), shards);
    let groups = Groups::new(GroupSize::new(5).unwrap());
    let (shards, joined) = (Some(Shards { first: ShardId(1), count: 3 }), vec![ShardId(7)]);
    let seat = Seat {
        replica: replica("7/r2"),
        groups: groups.clone(),
        shards,
        joined: joined.clone(),
        boot: Boot::Initialise,
        attic: None,
    };
    let config = Replica::seated(initial, &seat);
    assert_eq!(
        (config.replica, config.groups.clone(), config.joined.clone()),
        (replica("7/r2"), groups, joined)
    );
    assert_eq!(Some(config.shards), shards);
    assert_eq!(Replica::new(config).site(), LocalSite(3));
}

/// The members that a group has in an earlier epoch are passed over.
#[test]
fn a_site_follows_the_groups_of_others() {
    let mut site = site();
    let members = |indices: &[u8]| {
        quorate_core::Members::new(indices.iter().copied().map(quorate_core::ReplicaIndex)).unwrap()
    };
    let first = Groups::new(GroupSize::new(3).unwrap());
    let second = first.next([(ShardId(2), members(&[4, 5, 6]))]);
    assert!(second.epoch > Epoch::FIRST);
    assert_eq!(site.does(ReplicaCommand::ChangeGroups(second)), NOTHING);
    site.does(ReplicaCommand::ChangeGroups(first));
    // The one that was taken for the leader is silent, and the next member is asked.
    let told = only(site.waits(2_000), "2/r4 ← PROGRESS");
    assert_eq!(told.len(), 1, "{told:?}");
}

#[test]
fn replicas_that_hold_the_same_have_the_same_digest() {
    let digest = |page: &Page| {
        let mut digester = Digester::new(&[]);
        Replica::digest(page, &mut digester);
        digester.finish()
    };
    let read = |key: &str, at: u64, value: &'static str| Read {
        key: Key::from(key),
        version: version(0, at),
        value: Bytes::from_static(value.as_bytes()),
    };
    let registers = |read: Read| Page::Registers(vec![read]);
    let one = digest(&registers(read("oak", 1, "x")));
    assert_eq!(one, digest(&registers(read("oak", 1, "x"))));
    for other in [read("elm", 1, "x"), read("oak", 2, "x"), read("oak", 1, "y")] {
        assert_ne!(one, digest(&registers(other.clone())), "{other:?}");
    }
    let count = |set: &str, element: &str, count| {
        Page::Counts(vec![quorate_walter::Count { set: Key::from(set), element: Key::from(element), count }])
    };
    let one = digest(&count("oak", "a", 1));
    for other in [count("elm", "a", 1), count("oak", "b", 1), count("oak", "a", 2)] {
        assert_ne!(one, digest(&other), "{other:?}");
    }
    let placed = |preferred: u16, copies: &[u16], at: u64| {
        let replicas = quorate_walter::Replicas::of(copies.iter().copied().map(LocalSite));
        let container = quorate_walter::Container { preferred: LocalSite(preferred), replicas, stays: true };
        Page::Containers(vec![quorate_walter::Placed {
            name: Key::from("oak"),
            version: version(0, at),
            container,
        }])
    };
    let one = digest(&placed(1, &[1, 2], 1));
    for other in [placed(2, &[1, 2], 1), placed(1, &[1], 1), placed(1, &[], 1), placed(1, &[1, 2], 2)] {
        assert_ne!(one, digest(&other), "{other:?}");
    }
    // The promises of a site to clients and others are its own.
    let empty = digest(&Page::Joined(vec![]));
    assert_eq!(empty, digest(&Page::Joined(vec![ShardId(7)])));
}

/// A restart, or another replica, goes on from the pages of a state.
#[test]
fn a_state_is_whole_in_pages_of_any_size() {
    for bytes in [1, 1_000_000] {
        let mut site = leader(|config| config.page_bytes_max = bytes);
        site.commits(1, vec![write("oak", "x"), write("elm", "e"), add("iris", "a", 1), add("iris", "b", 2)]);
        site.takes("2/r0", foreign(1, 1, &[], vec![write("apple", "a")]));
        site.takes("3/r0", foreign(2, 1, &[1, 1], vec![write("pear", "p")]));
        site.is_asked(2, Snapshot::Taken(v(&[])), vec![write("oak", "z")]);
        for (sequence, key) in [(1, "sage"), (2, "seal")] {
            let keys = vec![Key::from(key)];
            site.hears(
                "2/r0",
                Message::Prepare { transaction: txn(9, sequence), keys, snapshot: v(&[1, 1, 1]) },
            );
        }
        site.logs();
        let pages = site.pages();
        assert_eq!(pages.len() > 6, bytes == 1, "{pages:?}");
        let mut copy = backup(|config| config.page_bytes_max = bytes);
        copy.machine.replace_state(Position(99), pages.clone());
        assert_eq!(copy.pages(), pages);
        copy.leads(3);
        copy.log.lease_until = Some(copy.now + Duration::from_secs(9));
        assert_eq!(copy.machine.locks(), 2);
        assert_eq!(
            copy.is_asked(1, Snapshot::New(v(&[])), vec![write("oak", "x")]),
            ["c1 ← c1.1 committed as s0.1 at ⟨⟩"]
        );
        assert_eq!(copy.is_asked(2, Snapshot::New(v(&[])), vec![write("oak", "x")]), ["c1 ← c1.2 aborted"]);
        assert_eq!(
            copy.is_asked(3, Snapshot::New(v(&[])), vec![write("sage", "x")]),
            ["appends REFUSED c1.3"]
        );
        let told = copy.is_asked(4, Snapshot::New(v(&[])), vec![write("oak", "x")]);
        assert_eq!(told, ["appends COMMIT s0.2 c1.4 at ⟨1 1 1⟩ oak=x"]);
        // Nobody knows there since when locks are held, so they count as old.
        copy.waits(500);
        assert_eq!(
            only(copy.waits(2_000), "ASK-OUTCOME").len() + usize::from(copy.machine.settling() > 0),
            3
        );
    }
}

/// A host shuts down, or moves a replica, once nobody waits.
#[test]
fn everything_that_waits_is_counted() {
    let long = Duration::from_secs(60);
    let mut site = leader(|config| {
        (config.lease, config.vote_timeout, config.wait_timeout) = (Some(Duration::from_secs(4)), long, long);
    });
    let asked = site.now;
    site.does(ReplicaCommand::Answer { asked, changes: SiteChanges::default() });
    let new = || Snapshot::New(v(&[]));
    site.is_asked(1, new(), vec![write("oak", "x")]);
    assert_eq!(site.machine.waiting(), 1, "a commit");
    site.is_asked(2, Snapshot::Taken(v(&[])), vec![write("oak", "y")]);
    assert_eq!(site.machine.waiting(), 2, "a refusal");
    site.is_asked(3, new(), vec![write("apple", "x")]);
    assert_eq!(site.machine.waiting(), 3, "a slow commit");
    site.hears("c1", read_at(1, 4, Snapshot::New(v(&[0, 1])), vec![]));
    assert_eq!(site.machine.waiting(), 4, "a read of what has not come");
    site.log.lease_until = None;
    site.hears("c1", read_at(1, 5, new(), vec![]));
    assert_eq!(site.machine.waiting(), 5, "an answer that is not confirmed");
    site.waits(4_000);
    site.is_asked(6, new(), vec![write("elm", "x")]);
    assert_eq!(site.machine.waiting(), 6, "a request that waits for the lease");
    assert_eq!(Holdings::waiting(&site.machine), 6);
    assert_eq!((site.machine.load(None), site.machine.load(Some(ClientId(1)))), (2, 2));
    site.is_deposed();
    assert_eq!((site.machine.waiting(), site.machine.load(None), site.machine.behind()), (0, 0, 0));
}

#[test]
fn a_host_follows_a_transaction_by_its_messages() {
    use quorate_core::landmark::{End, Landmark};
    let transaction = txn(1, 1);
    let new = || Snapshot::New(v(&[]));
    let received = |message: &Message| <Replica as HostedOnLog>::landmark_received(message, ShardId(1));
    let commit = commit_at(1, 1, new(), vec![write("oak", "x"), add("elm", "a", 1)]);
    assert_eq!(received(&commit), Some(Landmark::Asked(transaction)));
    assert_eq!(received(&commit_at(1, 1, new(), vec![])), None);
    assert_eq!(received(&read_at(1, 1, new(), vec![])), None);
    let sent = |message: &Message| <Replica as HostedOnLog>::landmark_sent(message);
    let reply = |ending| Message::CommitReply { transaction, ending, silent: vec![], is_short: false };
    let committed = |is_slow| Ending::Committed { version: version(0, 1), snapshot: v(&[]), is_slow };
    let not_leading =
        |transaction| Message::NotLeading { transaction, leader: quorate_core::ReplicaIndex(1) };
    let too_old = Message::TooOld { transaction, refused: None, committed: v(&[]), period: Period(1) };
    for (message, expected) in [
        (reply(committed(false)), Some(Landmark::Ended(transaction, End::Committed))),
        (reply(committed(true)), Some(Landmark::Ended(transaction, End::CommittedSlowly))),
        (reply(Ending::Aborted), Some(Landmark::Ended(transaction, End::Aborted))),
        (not_leading(Some(transaction)), Some(Landmark::Passed(transaction))),
        (not_leading(None), None),
        (too_old, Some(Landmark::Passed(transaction))),
        (Message::Release { transaction }, None),
    ] {
        assert_eq!(sent(&message), expected, "{message:?}");
    }
    let written = <Replica as HostedOnLog>::keys_written(&commit);
    let keys = [Key::from("oak"), Key::from("elm")];
    assert_eq!(written, quorate_core::landmark::few(keys.iter()));
    let none = <Replica as HostedOnLog>::keys_written(&Message::Release { transaction });
    assert_eq!(none, quorate_core::landmark::FewKeys::default());
}

/// Pages that are only digested are small, so that no turn takes long, and have the objects alone.
#[test]
fn what_is_digested_goes_in_small_pages() {
    let mut site = leader(|config| config.floor_lag = Duration::from_secs(1));
    let value = "x".repeat(10 * 1024);
    site.commits(1, ["oak", "elm", "iris"].map(|key| write(key, &value)).to_vec());
    site.commits(2, vec![add("oak", "a", 1)]);
    for from in ["2/r0", "3/r0"] {
        site.is_told(from, 2, &[2], &[2]);
    }
    for _ in 0..3 {
        site.waits(1_000);
        site.logs();
    }
    let mut frozen = site.machine.freeze_data();
    let pages: Vec<Page> = std::iter::from_fn(|| Replica::next_page(&mut frozen)).collect();
    let sizes: Vec<usize> = pages
        .iter()
        .map(|page| match page {
            Page::Registers(registers) => registers.len(),
            Page::Counts(counts) => counts.len(),
            other => panic!("{other:?} is no object"),
        })
        .collect();
    assert_eq!(sizes, [2, 1, 1]);
    assert_eq!(site.pages().len(), 3, "the bounds, and two pages");
}

/// The objects of a frozen state, and of sets their elements.
fn objects(mut frozen: <Replica as LogMachine>::Frozen) -> Vec<String> {
    let pages = std::iter::from_fn(|| Replica::next_page(&mut frozen));
    let text = |key: &Key| String::from_utf8_lossy(key).into_owned();
    pages
        .flat_map(|page| match page {
            Page::Registers(registers) => registers.iter().map(|read| text(&read.key)).collect::<Vec<_>>(),
            Page::Counts(counts) => {
                counts.iter().map(|count| format!("{}[{}]", text(&count.set), text(&count.element))).collect()
            }
            Page::Bounds { committed, .. } => vec![committed.to_string()],
            other => panic!("{other:?} is no object"),
        })
        .collect()
}

/// A transaction that begins there now would read the same.
#[test]
fn an_operator_reads_what_has_committed_at_a_site_whether_or_not_the_floor_includes_it() {
    let mut site = site();
    let read = |site: &Site| site.machine.freeze_to_read().map(objects);
    assert_eq!(read(&site), Some(vec!["⟨⟩".to_owned()]), "a consumer goes on behind it");
    site.commits(1, vec![write("oak", "x"), add("oak", "a", 2)]);
    assert_eq!(read(&site), Some(["⟨1⟩", "oak", "oak[a]"].map(str::to_owned).to_vec()));
    assert_eq!(objects(site.machine.freeze_data()), NOTHING, "the floor includes nothing");
    site.is_sent("2/r0", vec![foreign(1, 1, &[1], vec![write("apple", "y")])], 0);
    site.logs();
    assert_eq!(read(&site).map(|objects| objects.len()), Some(3), "it has come, and is not durable yet");
    site.takes("2/r0", foreign(1, 2, &[1, 1], vec![write("plum", "y")]));
    assert_eq!(read(&site).map(|objects| objects.len()), Some(5));
    let (joining, _) = super::removal::joining();
    assert_eq!(read(&joining), None, "it has no state of its own yet");
}
