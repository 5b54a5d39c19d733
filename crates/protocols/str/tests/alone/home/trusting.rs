//! Section 6.2: what a transaction may read beside a local commit that others may contradict.

use super::*;

/// A further read of the second client's transaction.
fn also_reads(home: &mut Home, snapshot: u64, request: u32, word: &str) {
    let message = Message::Read {
        transaction: txn(2, 1),
        session: Session::default(),
        snapshot: Some(at(snapshot)),
        request,
        wanted: vec![key(word)],
    };
    let told = home.hears("c2", message);
    assert_eq!(told, [format!("1/r0 ← READ-AT @{snapshot} {word}, number {}", home.requests())]);
}

impl Home {
    /// The number of the last question to a replica.
    fn requests(&self) -> u64 {
        let number = |message: &Message| match message {
            Message::ReadAt { request, .. } => Some(*request),
            _ => None,
        };
        self.alone.said.iter().filter_map(number).next_back().expect("a replica was asked")
    }

    fn mixed(&self) -> u64 {
        self.alone.machine.counts().expect("it is the machine of a node").mixed
    }
}

/// A replica on the node has noted it, and serves nothing that conflicts with it up to its grant.
#[test]
fn a_local_commit_is_safe_up_to_the_bound_of_the_replica_that_has_noted_it() {
    let mut home = Home::uncompared(|_| {});
    let bound = |until| Message::Bound { until: at(until), clock: at(1_000) };
    home.hears("1/r0", bound(2_500));
    home.commits_locally(1, 1, "oak=x", 2_000);
    home.reads_after(2, 1, seen(3_000), vec![key("oak")]);
    let told = home.is_told("1/r0", 1, vec![version("oak", "", 0)]);
    assert_eq!(told, ["c2 ← c2.1 reads oak=x@2000 in @3001"]);
    also_reads(&mut home, 3_001, 2, "elm");
    let told = home.is_told("1/r0", 2, vec![version("elm", "e", 2_500)]);
    assert_eq!(told, ["c2 ← c2.1 reads elm=e@2500 in @3001"]);
    also_reads(&mut home, 3_001, 3, "iris");
    assert_eq!(home.is_told("1/r0", 3, vec![version("iris", "i", 2_501)]), NOTHING);
    assert_eq!(home.mixed(), 1);
    assert_eq!(home.hears("1/r0", bound(2_400)), NOTHING, "a late one");
    assert_eq!(home.hears("1/r0", bound(2_501)), ["c2 ← c2.1 reads iris=i@2501 in @3001"]);
}

/// A transaction that has read a local commit is no safer than that.
#[test]
fn the_oldest_unsafe_local_commit_goes_along_with_what_is_read() {
    let mut home = Home::new();
    // Its second shard has no replica here, so it is unsafe from its snapshot on, which is 1,001.
    home.commits_locally(1, 1, "apple=a oak=x", 2_000);
    home.reads(3, 1, vec![key("oak")]);
    home.is_told("1/r0", 1, vec![version("oak", "", 0)]);
    home.commits_locally(3, 1, "iris=i", 2_100);
    home.reads(2, 1, vec![key("iris")]);
    let told = home.is_told("1/r0", 2, vec![version("iris", "", 0)]);
    assert_eq!(told, ["c2 ← c2.1 reads iris=i@2100 in @2101"]);
    also_reads(&mut home, 2_101, 2, "elm");
    let told = home.is_told("1/r0", 3, vec![version("elm", "e", 1_001)]);
    assert_eq!(told, ["c2 ← c2.1 reads elm=e@1001 in @2101"]);
    also_reads(&mut home, 2_101, 3, "moss");
    assert_eq!(home.is_told("1/r0", 4, vec![version("moss", "m", 1_002)]), NOTHING);
    assert_eq!(home.mixed(), 1);
}

#[test]
fn the_freshest_final_commit_goes_along_with_what_is_read() {
    for (version_of_elm, waits) in [(1_001, false), (1_500, true)] {
        let mut home = Home::new();
        home.commits_locally(1, 1, "apple=a oak=x", 2_000);
        home.reads(3, 1, vec![key("elm")]);
        home.is_told("1/r0", 1, vec![version("elm", "e", version_of_elm)]);
        home.commits_locally(3, 1, "iris=i", 2_100);
        home.reads(2, 1, vec![key("oak")]);
        let told = home.is_told("1/r0", 2, vec![version("oak", "", 0)]);
        assert_eq!(told, ["c2 ← c2.1 reads oak=x@2000 in @2101"]);
        also_reads(&mut home, 2_101, 2, "iris");
        let told = home.is_told("1/r0", 3, vec![version("iris", "", 0)]);
        let expected = if waits { vec![] } else { vec!["c2 ← c2.1 reads iris=i@2100 in @2101"] };
        assert_eq!(told, expected, "{version_of_elm}");
        assert_eq!(home.mixed(), u64::from(waits));
    }
}

/// It is the freshest final commit then.
#[test]
fn what_a_reader_has_read_and_becomes_final_counts_against_what_is_unsafe() {
    let mut home = Home::new();
    home.commits_locally(1, 1, "apple=a oak=x", 2_000);
    home.commits_locally(3, 1, "iris=i", 2_100);
    home.reads(2, 1, vec![key("oak"), key("iris")]);
    let told = home.is_told("1/r0", 1, vec![version("oak", "", 0), version("iris", "", 0)]);
    assert_eq!(told, ["c2 ← c2.1 reads oak=x@2000 iris=i@2100 in @2101"]);
    also_reads(&mut home, 2_101, 2, "moss");
    assert_eq!(home.is_told("1/r0", 2, vec![version("moss", "", 0)]).len(), 1, "nothing final is beside it");
    home.is_prepared("1/r0", 3, 1, 2_100, vec![]);
    home.is_recorded(3, 1, 2_100);
    also_reads(&mut home, 2_101, 3, "elm");
    assert_eq!(home.is_told("1/r0", 3, vec![version("elm", "", 0)]), NOTHING);
    assert_eq!(home.mixed(), 1);
    // Once the unsafe one is final as well there is nothing to wait for.
    home.is_prepared("1/r0", 1, 1, 2_000, vec![]);
    home.is_prepared("2/r0", 1, 1, 2_000, vec![]);
    let told = home.is_recorded(1, 1, 2_000);
    assert_eq!(told.last().unwrap(), "c2 ← c2.1 reads elm=nothing in @2101", "{told:?}");
}
