//! Snapshots are taken and read at a site.

use quorate_core::command::End;

use super::*;

fn new(numbers: &[u64]) -> Snapshot {
    Snapshot::New(v(numbers))
}

fn taken(numbers: &[u64]) -> Snapshot {
    Snapshot::Taken(v(numbers))
}

#[test]
fn a_new_snapshot_is_told_once_it_is_sure_that_its_leader_leads() {
    let mut site = site();
    site.commits(1, vec![write("oak", "x")]);
    let reply = |sequence: u64| format!("c1 ← c1.{sequence} reads x@s0.1 at ⟨1⟩, period 1");
    let read = |sequence: u64, snapshot: Snapshot| read_at(1, sequence, snapshot, vec![register("oak")]);
    assert_eq!(site.hears("c1", read(2, new(&[]))), [reply(2)], "nobody else can lead meanwhile");
    site.log.lease_until = Some(site.now);
    for sequence in [3, 4, 5] {
        assert_eq!(site.hears("c1", read(sequence, new(&[]))), NOTHING, "the lease is over");
    }
    assert_eq!(site.progresses(), NOTHING);
    site.log.confirmed = 2;
    assert_eq!(site.progresses(), [reply(3), reply(4)], "each answer leaves with its own confirmation");
    site.log.confirmed = 3;
    assert_eq!(site.progresses(), [reply(5)]);
    assert_eq!(site.progresses(), NOTHING);
    assert_eq!(site.hears("c1", read(6, taken(&[1]))), [reply(6)], "a snapshot does not change");
    // The log knows already that another one leads.
    site.log.leads = None;
    assert_eq!(site.hears("c1", read(7, new(&[]))), ["✗ this replica does not lead"]);
}

#[test]
fn a_snapshot_is_read_as_it_was() {
    let mut site = site();
    site.commits(1, vec![write("oak", "x"), add("elm", "a", 2), write("iris", "i")]);
    site.commits(2, vec![write("oak", "y"), add("elm", "a", -2), add("elm", "b", 1)]);
    let elements = |from, limit| Wanted::Elements { set: Key::from("elm"), range: all(), from, limit };
    let count = |element: &str| Wanted::Count { set: Key::from("elm"), element: Key::from(element) };
    for (wanted, first, second) in [
        (vec![register("oak"), register("ash")], "x@s0.1 nothing", "y@s0.2 nothing"),
        (vec![count("a"), count("b")], "+2 +0", "+0 +1"),
        (vec![elements(End::Least, 9)], "[a+2]", "[b+1]"),
        (vec![Wanted::Range(all(), 9)], "[iris=i@s0.1 oak=x@s0.1]", "[iris=i@s0.1 oak=y@s0.2]"),
        (vec![Wanted::Range(all(), 1)], "[iris=i@s0.1 … oak]", "[iris=i@s0.1 … oak]"),
        (vec![elements(End::Least, 1)], "[a+2]", "[b+1]"),
    ] {
        for (snapshot, expected) in [(1, first), (2, second)] {
            let told = site.hears("c1", read_at(1, 9, taken(&[snapshot]), wanted.clone()));
            assert_eq!(told, [format!("c1 ← c1.9 reads {expected} at ⟨{snapshot}⟩, period 1")]);
        }
    }
}

/// A client may ask for more than fits into a page.
#[test]
fn a_page_has_no_more_than_a_site_lets_it_have() {
    let mut site = leader(|config| config.scan_page_max = 2);
    let updates = ["a", "b", "c"].map(|element| add("elm", element, 1)).to_vec();
    site.commits(1, updates);
    site.commits(2, vec![write("oak", "o"), write("iris", "i"), write("elm", "e")]);
    let elements =
        |limit| Wanted::Elements { set: Key::from("elm"), range: all(), from: End::Greatest, limit };
    let members = Wanted::Members { set: Key::from("elm"), range: all(), from: End::Least, limit: 5 };
    for (wanted, expected) in [
        (Wanted::Range(all(), 5), "[elm=e@s0.2 iris=i@s0.2 … oak]"),
        (Wanted::Range(all(), 1), "[elm=e@s0.2 … iris]"),
        (elements(5), "[c+1 b+1 …]"),
        (elements(1), "[c+1 …]"),
        (members, "[a+1=nothing b+1=nothing …]"),
    ] {
        let told = site.hears("c1", read_at(1, 9, taken(&[2]), vec![wanted]));
        assert_eq!(told, [format!("c1 ← c1.9 reads {expected} at ⟨2⟩, period 1")]);
    }
}

/// The next one would be the first that has more bytes than a page.
#[test]
fn a_page_of_members_ends_once_its_values_have_a_mebibyte() {
    let mut site = site();
    let names = ["elm", "iris", "oak"];
    site.commits(1, names.map(|element| add("sage", element, 1)).to_vec());
    let half = "x".repeat(600 * 1024);
    for (sequence, name) in (2..).zip(names) {
        site.commits(sequence, vec![write(name, &half)]);
    }
    let members = Wanted::Members { set: Key::from("sage"), range: all(), from: End::Least, limit: 9 };
    site.hears("c1", read_at(1, 9, taken(&[4]), vec![members]));
    let [Message::ReadReply { found, .. }] = &site.said[..] else { panic!("{}", site.said.len()) };
    let [quorate_walter::message::Found::Members { members, is_cut }] = &found[..] else {
        panic!("{found:?}")
    };
    let elements: Vec<String> =
        members.iter().map(|one| String::from_utf8_lossy(&one.element).into_owned()).collect();
    assert_eq!((elements, is_cut), (vec!["elm".to_owned(), "iris".to_owned()], &true));
}

#[test]
fn a_request_waits_for_what_its_client_has_seen_elsewhere() {
    let mut site = site();
    assert_eq!(site.hears("c1", read_at(1, 1, new(&[0, 1]), vec![register("apple")])), NOTHING);
    assert_eq!(site.is_asked(2, new(&[0, 1]), vec![write("oak", "x")]), NOTHING);
    let first = foreign(1, 1, &[], vec![write("apple", "a")]);
    assert_eq!(site.is_sent("2/r0", vec![first], 0), ["appends RECEIVED s1.1 c101.1 at ⟨⟩ apple=a"]);
    assert_eq!(site.logs(), NOTHING, "it is not known to be durable");
    assert_eq!(site.is_sent("2/r0", vec![], 1), ["appends ADVANCE ⟨0 1⟩"]);
    let told = site.logs();
    let expected = ["appends COMMIT s0.1 c1.2 at ⟨0 1⟩ oak=x", "c1 ← c1.1 reads a@s1.1 at ⟨0 1⟩, period 1"];
    assert_eq!(told, expected, "in the order in which they came");
    assert_eq!(site.machine.waiting(), 1, "one commits");
}

/// Its client asks again, or has asked elsewhere.
#[test]
fn a_request_that_has_waited_for_long_is_forgotten() {
    let mut site = leader(|config| config.wait_timeout = Duration::from_secs(2));
    site.waits(100);
    site.hears("c1", read_at(1, 1, new(&[0, 1]), vec![register("apple")]));
    site.waits(1_900);
    assert_eq!(site.machine.waiting(), 1, "it waits since 1,900 ms");
    site.waits(500);
    assert_eq!(site.machine.waiting(), 0);
}

#[test]
fn no_client_and_no_crowd_lets_more_requests_wait_than_a_site_has_room_for() {
    let mut site = site();
    let read = |client: u64, sequence| read_at(client, sequence, new(&[0, 1]), vec![]);
    for sequence in 1..=1_000 {
        assert_eq!(site.hears("c1", read(1, sequence)), NOTHING);
    }
    assert_eq!(site.hears("c1", read(1, 1_001)), ["✗ too many requests wait"], "of one client");
    for client in 2..=10 {
        for sequence in 1..=1_000 {
            site.hears(&format!("c{client}"), read(client, sequence));
        }
    }
    assert_eq!(site.machine.waiting(), 10_000);
    assert_eq!(site.hears("c11", read(11, 1)), ["✗ too many requests wait"]);
}

#[test]
fn a_snapshot_that_others_have_forgotten_is_too_old() {
    let mut site = leader(|config| config.floor_lag = Duration::from_secs(1));
    site.commits(1, vec![write("oak", "x")]);
    for from in ["2/r0", "3/r0"] {
        site.is_told(from, 1, &[1], &[1]);
    }
    for _ in 0..2 {
        site.waits(1_000);
        site.logs();
    }
    let told = site.hears("c1", read_at(1, 2, taken(&[]), vec![register("oak")]));
    assert_eq!(told, ["c1 ← c1.2 TOO-OLD, ⟨1⟩ has committed, period 3"]);
    let told = site.hears("c1", read_at(1, 2, taken(&[1]), vec![register("oak")]));
    assert_eq!(told, ["c1 ← c1.2 reads x@s0.1 at ⟨1⟩, period 3"]);
}

/// Section 4.1: users may be shown it as in flight.
#[test]
fn a_version_is_in_flight_until_every_site_has_committed_it() {
    let mut site = site();
    site.commits(1, vec![write("oak", "x")]);
    let read = || read_at(1, 2, taken(&[1]), vec![Wanted::InFlight(Key::from("oak"))]);
    let told = |how: &str| vec![format!("c1 ← c1.2 reads {how} at ⟨1⟩, period 1")];
    assert_eq!(site.hears("c1", read()), told("in flight"));
    site.is_told("2/r0", 1, &[1], &[]);
    assert_eq!(site.hears("c1", read()), told("in flight"));
    site.is_told("3/r0", 1, &[0], &[]);
    assert_eq!(site.hears("c1", read()), told("in flight"), "it was received there, and has not committed");
    site.is_told("3/r0", 1, &[1], &[]);
    assert_eq!(site.hears("c1", read()), told("everywhere"));
    let unwritten = read_at(1, 2, taken(&[1]), vec![Wanted::InFlight(Key::from("elm"))]);
    assert_eq!(site.hears("c1", unwritten), told("everywhere"), "nobody has written it");
}

/// A client of another site reads what its own has not got, once everything is here that its snapshot includes of other sites.
#[test]
fn a_site_reads_for_another_one_what_it_has_received() {
    let mut site = site();
    site.commits(1, vec![write("oak", "x"), add("elm", "a", 1)]);
    let copy = |snapshot: &[u64], home: u16, wanted: Wanted| Message::ReadCopy {
        transaction: txn(1, 2),
        request: 1,
        snapshot: v(snapshot),
        home: LocalSite(home),
        wanted: vec![wanted],
    };
    let told = site.hears("c1", copy(&[1], 1, register("oak")));
    assert_eq!(told, ["c1 ← c1.2 reads the copy x@s0.1, with 0"]);
    let told = site.hears("c1", copy(&[1, 7], 1, register("oak")));
    assert_eq!(
        told,
        ["c1 ← c1.2 reads the copy x@s0.1, with 0"],
        "its own site has said what that has written"
    );
    assert_eq!(site.machine.copies_read(), 2);
    assert_eq!(
        site.hears("c1", copy(&[1, 0, 1], 1, register("oak"))),
        NOTHING,
        "it waits for the third site"
    );
    assert_eq!(
        site.hears("c1", copy(&[1, 1], 1, Wanted::Range(all(), 9))),
        NOTHING,
        "a page is of all of it"
    );
    let third = foreign(2, 1, &[], vec![write("pear", "p")]);
    site.is_sent("3/r0", vec![third], 0);
    let told = site.logs();
    assert_eq!(told, ["c1 ← c1.2 reads the copy x@s0.1, with 0"], "it need not have committed");
    let second = foreign(1, 1, &[], vec![write("apple", "a")]);
    site.is_sent("2/r0", vec![second], 0);
    let told = site.logs();
    assert_eq!(told, ["c1 ← c1.2 reads the copy [], with 1"], "what both sites hold its own has told");
    let denied = site.hears("c1", copy(&[2], 1, register("oak")));
    assert_eq!(denied, ["c1 ← c1.2 NEVER-COMMITTED, nothing after s0.1"]);
    let container = site.hears("c1", copy(&[1], 1, Wanted::Container(Key::from("oak"))));
    assert_eq!(container, ["✗ no replica of it is here"], "each site knows that of itself");
}
