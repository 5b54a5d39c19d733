//! A client reads, at its own site and at others.

use super::*;

#[test]
fn the_first_read_takes_the_snapshot_and_the_others_wait_for_it() {
    let mut client = Client::new();
    assert_eq!(client.begins(), NOTHING);
    assert_eq!(client.gets(&["oak", "elm"]), ["1/r0 ← READ c1.1 oak elm after ⟨⟩"]);
    assert_eq!(client.gets(&["iris"]), NOTHING);
    assert_eq!(client.gets(&["sage"]), NOTHING);
    assert_eq!(client.is_told(1, &[3, 1], vec![found("x", 2)]), ["✗ no coordinator sends this"]);
    let told = client.is_told(1, &[3, 1], vec![found("x", 2), absent()]);
    let expected = [
        "c1.1 got oak = x",
        "c1.1 got elm = nothing",
        "1/r0 ← READ c1.1 sage at ⟨3 1⟩",
        "1/r0 ← READ c1.1 iris at ⟨3 1⟩",
    ];
    assert_eq!(told, expected);
    assert_eq!(client.is_told(1, &[3, 1], vec![found("x", 2), absent()]), ["✗ known already"]);
    assert_eq!(client.is_told(2, &[3, 2], vec![absent()]), ["✗ known already"], "of another snapshot");
    assert_eq!(client.is_told_by("2/r0", 2, &[3, 1], vec![absent()]), ["✗ nothing waits under this name"]);
    assert_eq!(client.is_told(3, &[3, 1], vec![absent()]), ["c1.1 got sage = nothing"], "in any order");
    assert_eq!(client.is_told(2, &[3, 1], vec![found("i", 1)]), ["c1.1 got iris = i"]);
    assert_eq!(
        client.gets(&["oak", "iris"]),
        ["c1.1 got oak = x", "c1.1 got iris = i"],
        "nobody is asked again"
    );
    assert_eq!(client.puts("oak", "y"), NOTHING);
    assert_eq!(client.gets(&["oak"]), ["c1.1 got oak = y"]);
    assert_eq!(client.commits(), ["1/r0 ← COMMIT c1.1 oak=y at ⟨3 1⟩, period 1"]);
    assert_eq!(client.commits(), [told_not_open(1)]);
    assert_eq!(client.ends(committed(4, &[3, 1], false)), ["c1.1 COMMITTED as 4@1"]);
    assert_eq!(client.ends(committed(4, &[3, 1], false)), ["✗ nothing waits under this name"]);
    assert_eq!(client.seen(), [4, 1], "every later snapshot includes it");
    client.begins();
    assert_eq!(client.gets(&["oak"]), ["1/r0 ← READ c1.2 oak after ⟨4 1⟩"]);
}

/// Those of the client's own site that the other one had not received count once.
#[test]
fn an_object_that_is_elsewhere_is_read_at_the_nearest_site_that_has_it() {
    let mut client = Client::new();
    client.does(Command::Route(routes(&[0, 2, 1])));
    client.begins();
    client.gets(&["oak", "elm", "pear", "plum"]);
    let elsewhere = |sites: &[u16]| {
        let own = vec![Change { seqno: 3, element: Key::from("e"), by: 1 }];
        Found::Elsewhere { sites: sites.iter().copied().map(LocalSite).collect(), own }
    };
    let told =
        client.is_told(1, &[3], vec![found("x", 1), elsewhere(&[1, 2]), elsewhere(&[1]), elsewhere(&[1, 2])]);
    let asked = ["3/r0 ← READ-COPY c1.1 elm plum at ⟨3⟩ for s0", "2/r0 ← READ-COPY c1.1 pear at ⟨3⟩ for s0"];
    assert_eq!(told, asked, "each question goes to one site");
    assert_eq!(
        client.is_told(1, &[3], vec![found("x", 1), absent(), absent(), absent()]),
        ["✗ known already"]
    );
    assert_eq!(client.is_lent("3/r0", 2, 0, vec![absent()]), ["✗ no coordinator sends this"]);
    assert_eq!(client.is_lent("2/r0", 9, 0, vec![absent()]), ["✗ known already"]);
    assert_eq!(
        client.is_lent("1/r0", 2, 0, vec![absent(), absent()]),
        ["✗ known already"],
        "it was not asked"
    );
    let sets = vec![Found::Count(1), absent()];
    assert_eq!(client.is_lent("3/r0", 2, 0, sets), ["✗ no coordinator sends this"]);
    assert_eq!(client.is_lent("3/r0", 2, 0, vec![found("e", 2), absent()]), NOTHING);
    let told = client.is_lent("2/r0", 3, 0, vec![found("p", 2)]);
    let expected = ["c1.1 got oak = x", "c1.1 got elm = e", "c1.1 got pear = p", "c1.1 got plum = nothing"];
    assert_eq!(told, expected);
    // The count of a set is merged by version.
    let count_of = |client: &mut Client, element: &str| {
        client.of_set(SetCall::Count { set: Key::from("lime"), element: Key::from(element) })
    };
    for (request, included, expected) in [(4, 2, 8), (6, 3, 7)] {
        assert_eq!(count_of(&mut client, "e"), ["1/r0 ← READ c1.1 lime[e] at ⟨3⟩"]);
        client.is_told(request, &[3], vec![elsewhere(&[1])]);
        let told = client.is_lent("2/r0", request + 1, included, vec![Found::Count(7)]);
        assert_eq!(told, [format!("c1.1 counts lime[e] = {expected}")]);
    }
}

#[test]
fn another_site_that_has_the_object_is_asked_if_one_is_silent() {
    let mut client = Client::new();
    client.begins();
    client.gets(&["pear"]);
    let elsewhere = |sites: &[u16]| Found::Elsewhere {
        sites: sites.iter().copied().map(LocalSite).collect(),
        own: vec![],
    };
    client.alone.waits(100);
    assert_eq!(client.is_told(1, &[3], vec![elsewhere(&[1, 2])]).len(), 1);
    assert_eq!(client.alone.waits(499), NOTHING);
    let copy = |at: &str| format!("{at} ← READ-COPY c1.1 pear at ⟨3⟩ for s0");
    assert_eq!(client.alone.waits(1), [format!("1 ms: {}", copy("3/r0"))]);
    assert_eq!(
        client.alone.waits(500),
        [format!("500 ms: {}", copy("2/r1"))],
        "another replica of the first"
    );
    assert_eq!(client.is_redirected("2/r1", 2), [copy("2/r2")]);
    let told = client.alone.waits(60_000);
    assert!(told.last().unwrap().contains("Unavailable"), "{told:?}");
    let lost = |client: &mut Client, sites: &[u16]| {
        client.begins();
        client.gets(&["pear"]);
        client.is_told(1, &[3], vec![elsewhere(sites)])
    };
    assert_eq!(lost(&mut client, &[]), [format!("c1.2 {:?}", lost_all())]);
    let told = lost(&mut client, &[7]);
    let nobody = quorate_core::command::Failure::Unavailable { missing: vec![] };
    assert_eq!(told, [format!("c1.3 {nobody:?}")], "the client knows of no such site");
}

fn lost_all() -> quorate_core::command::Failure {
    use quorate_core::command::{Failure, Invalid, ReplicasError};
    Failure::Invalid(Invalid::Replicas(ReplicasError::Lost))
}

#[test]
fn a_scan_has_what_the_snapshot_and_the_transaction_have() {
    let mut client = Client::with(|config| config.scan_page_max = 5);
    client.begins();
    client.puts("b", "own");
    let scan = |client: &mut Client, from: &str, limit| {
        let range = KeyRange { from: Key::from(from), to: Some(Key::from("m")) };
        client.does(Command::Scan { transaction: txn(1, 1), range, limit })
    };
    assert_eq!(scan(&mut client, "a", 9), [r#"1/r0 ← READ c1.1 5 of ["a", "m") after ⟨⟩"#]);
    let read =
        |key: &str| Read { key: Key::from(key), version: version(0, 1), value: Bytes::from_static(b"v") };
    let page = |keys: &[&str], next: Option<&str>, elsewhere: Vec<Replicas>| Found::Range {
        entries: keys.iter().map(|key| read(key)).collect(),
        next: next.map(Key::from),
        elsewhere,
    };
    let told = client.is_told(1, &[3], vec![page(&["a", "c"], Some("d"), vec![])]);
    assert_eq!(told, ["c1.1 scanned a=v b=own c=v … d"]);
    assert_eq!(scan(&mut client, "x", 9), ["c1.1 scanned "], "an empty range");
    assert_eq!(scan(&mut client, "a", 0), ["c1.1 scanned  … a"]);
    // Other registers of the range are at other sites: as few are asked as have all of it.
    scan(&mut client, "a", 9);
    let sets = [&[1, 2][..], &[2]].map(|sites| Replicas::of(sites.iter().copied().map(LocalSite)));
    let told = client.is_told(2, &[3], vec![page(&["a", "e"], None, sets.to_vec())]);
    assert_eq!(told, [r#"3/r0 ← READ-COPY c1.1 5 of ["a", "m") at ⟨3⟩ for s0"#]);
    let told = client.is_lent("3/r0", 3, 0, vec![page(&["d"], Some("f"), vec![])]);
    assert_eq!(told, ["c1.1 scanned a=v b=own d=v e=v … f"]);
}

#[test]
fn sets_are_seen_with_the_changes_of_the_transaction() {
    let mut client = Client::with(|config| config.scan_page_max = 5);
    client.begins();
    client.adds("oak", "b", 2);
    let elements = |limit, from| SetCall::Elements { set: Key::from("oak"), range: all(), from, limit };
    assert_eq!(
        client.of_set(elements(9, End::Least)),
        [format!("1/r0 ← READ c1.1 5 of oak[{:?}] from the Least after ⟨⟩", all())]
    );
    let told = client.is_told(
        1,
        &[3],
        vec![Found::Elements { counts: vec![count("a", 1), count("b", -2)], is_cut: false }],
    );
    assert_eq!(told, ["c1.1 finds oak: a+1"], "an element without a count is none");
    let nothing = |rest: &str| [format!("c1.1 finds oak: {rest}")];
    assert_eq!(
        client.of_set(elements(0, End::Least)),
        nothing(&format!(" … {:?}", all())),
        "nothing is wanted"
    );
    let empty = || KeyRange { from: Key::from("b"), to: Some(Key::from("b")) };
    let of_nothing = SetCall::Elements { set: Key::from("oak"), range: empty(), from: End::Least, limit: 9 };
    assert_eq!(client.of_set(of_nothing), nothing(""));
    let members = |range, limit| SetCall::Members { set: Key::from("oak"), range, from: End::Least, limit };
    assert_eq!(client.of_set(members(all(), 0)), [format!("c1.1 finds oak with:  … {:?}", all())]);
    assert_eq!(client.of_set(members(empty(), 9)), ["c1.1 finds oak with: "]);
    let count_of = |client: &mut Client, element: &str| {
        client.of_set(SetCall::Count { set: Key::from("oak"), element: Key::from(element) })
    };
    assert_eq!(count_of(&mut client, "b"), ["1/r0 ← READ c1.1 oak[b] at ⟨3⟩"]);
    assert_eq!(client.is_told(2, &[3], vec![Found::Count(5)]), ["c1.1 counts oak[b] = 7"]);
    // The members of a set come with their registers, own ones and missing ones included.
    client.puts("elm", "own");
    client.adds("oak", "elm", 1);
    client.adds("oak", "sage", 1);
    let members = SetCall::Members { set: Key::from("oak"), range: all(), from: End::Least, limit: 9 };
    assert_eq!(client.of_set(members).len(), 1);
    let member = |element: &str, is_elsewhere| Member {
        element: Key::from(element),
        count: 1,
        is_elsewhere,
        version: Some(version(0, 1)),
        value: Some(Bytes::from_static(b"v")),
    };
    let told = client.is_told(
        3,
        &[3],
        vec![Found::Members { members: vec![member("iris", false), member("pear", true)], is_cut: false }],
    );
    assert_eq!(told, ["1/r0 ← READ c1.1 b pear sage at ⟨3⟩"], "at the same snapshot");
    let told = client.is_told(4, &[3], vec![absent(), found("p", 2), absent()]);
    assert_eq!(told, ["c1.1 finds oak with: b+2=nothing elm+1=own iris+1=v pear+1=p sage+1=nothing"]);
}

#[test]
fn a_register_is_marked_as_in_flight_if_its_site_or_the_transaction_says_so() {
    let mut client = Client::new();
    client.begins();
    let mark = |client: &mut Client| {
        client.does(Command::GetMarked { transaction: txn(1, 1), key: Key::from("oak") })
    };
    assert_eq!(mark(&mut client), ["1/r0 ← READ c1.1 oak oak in flight? after ⟨⟩"]);
    let told = client.is_told(1, &[3], vec![found("x", 1), Found::InFlight(false)]);
    assert_eq!(told, ["c1.1 got oak = x, everywhere"]);
    mark(&mut client);
    let told = client.is_told(2, &[3], vec![found("x", 1), Found::InFlight(true)]);
    assert_eq!(told, ["c1.1 got oak = x, in flight"]);
    client.puts("oak", "y");
    mark(&mut client);
    let told = client.is_told(3, &[3], vec![found("x", 1), Found::InFlight(false)]);
    assert_eq!(told, ["c1.1 got oak = y, in flight"], "what it has written itself is");
    mark(&mut client);
    let told = client.is_told(4, &[3], vec![found("x", 1), found("x", 1)]);
    assert_eq!(told, ["✗ no coordinator sends this"]);
}

#[test]
fn what_is_too_large_ends_a_transaction() {
    let long = "x".repeat(quorate_core::transaction::KEY_BYTES_MAX + 1);
    let ends = |act: &dyn Fn(&mut Client) -> Vec<String>| {
        let mut client = Client::new();
        client.begins();
        let told = act(&mut client);
        assert!(told[0].starts_with("c1.1 Invalid(Limit("), "{told:?}");
        assert_eq!(client.commits(), [told_not_open(1)]);
    };
    ends(&|client| client.gets(&["oak", &long]));
    ends(&|client| client.puts(&long, "x"));
    ends(&|client| client.adds("oak", &long, 1));
    ends(&|client| client.adds("\0stock", "s1", 1));
    ends(&|client| client.does(Command::GetMarked { transaction: txn(1, 1), key: Key::from(long.as_str()) }));
    let mut client = Client::new();
    assert!(client.reads(&["oak", &long])[0].starts_with("c1.1 Invalid(Limit("));
    for command in [
        Command::Get { transaction: txn(1, 9), key: Key::from("oak") },
        Command::GetMarked { transaction: txn(1, 9), key: Key::from("oak") },
        Command::Scan { transaction: txn(1, 9), range: all(), limit: 1 },
        Command::Put { transaction: txn(1, 9), key: Key::from("oak"), value: None },
        Command::Commit { transaction: txn(1, 9) },
    ] {
        assert_eq!(client.does(command), [told_not_open(9)]);
    }
    let unsupported = client.does(Command::CommitSpeculatively { transaction: txn(1, 9) });
    assert!(unsupported[0].contains("Unsupported"), "{unsupported:?}");
}

/// The values that are read count as well as those that are written.
#[test]
fn a_transaction_that_has_read_too_much_ends() {
    let mut client = Client::new();
    client.begins();
    client.gets(&["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"]);
    client.gets(&["oak"]);
    let large = "x".repeat(1024 * 1024);
    let told = client.is_told(1, &[3], (0..10).map(|_| found(&large, 1)).collect());
    assert_eq!(told.iter().filter(|line| line.starts_with("c1.1 got")).count(), 9);
    assert!(told.last().unwrap().starts_with("c1.1 Invalid(Limit("), "and nothing else is asked");
    assert_eq!(client.commits(), [told_not_open(1)]);
}
