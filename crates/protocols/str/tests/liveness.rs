//! The four ways to wait: a reader for a pending version, a transaction for one that holds its keys, a reader for an unsafe local commit in its
//! snapshot, and a transaction for what it depends on. Each wait ends, however that which is waited for ends.

use quorate_str::Rules;

use crate::scripts::world::World;

/// A story, and what was told so far.
struct Story {
    world: World,
    told: Vec<String>,
}

impl Story {
    fn new(lines: &[&str]) -> Self {
        let mut story = Story { world: World::new(Rules::SOUND), told: Vec::new() };
        story.go_on(lines);
        story
    }

    fn go_on(&mut self, lines: &[&str]) {
        for line in lines {
            self.told.extend(self.world.command(line));
        }
    }

    #[track_caller]
    fn assert_told(&self, beginning: &str) {
        let is_told = self.told.iter().any(|line| line.starts_with(beginning));
        assert!(is_told, "{beginning}: {:#?}", self.told);
    }

    #[track_caller]
    fn assert_untold(&self, beginning: &str) {
        let is_told = self.told.iter().any(|line| line.starts_with(beginning));
        assert!(!is_told, "{beginning}: {:#?}", self.told);
    }

    /// Nothing is left at any replica of these.
    #[track_caller]
    fn assert_nothing_held(&mut self, replicas: &[&str]) {
        for replica in replicas {
            let shown = self.world.command(&format!("show {replica}"));
            let holds = |line: &&String| line.contains("holds keys") || line.contains(" wait at ");
            assert_eq!(shown.iter().find(holds), None, "{:#?}", self.told);
        }
    }
}

/// The machine of the first node has local-committed `c1.1`, which is prepared at `A` of the second node, and on its way to `B` of the third.
const UNDECIDED: [&str; 8] = [
    "cluster A=2 B=3 C=1,2,3 home=shared",
    "hold N1/r0 B/r0",
    "begin c1 1",
    "put c1 1 a x",
    "put c1 1 b x",
    "commit c1 1",
    "deliver",
    "clock N1/r2 2000",
];

/// The ways in which `c1.1` ends.
const ENDS: [(&str, &[&str]); 3] = [
    ("commits", &["release N1/r0 B/r0", "deliver"]),
    (
        "is refused",
        &["begin c3 9", "put c3 9 b first", "commit c3 9", "deliver", "release N1/r0 B/r0", "deliver"],
    ),
    ("loses its node", &["drop B/r0", "fail 1", "lead N1/r1", "advance 10000"]),
];

#[test]
fn a_reader_waits_for_a_pending_version() {
    for (how, end) in ENDS {
        let mut story = Story::new(&UNDECIDED);
        story.go_on(&["begin c31 1", "get c31 1 a", "deliver"]);
        story.assert_untold("  c31.1 got");
        story.go_on(end);
        let value = if how == "commits" { "x" } else { "nothing" };
        story.assert_told(&format!("  c31.1 got a = {value}"));
        story.assert_nothing_held(&["A/r0", "B/r0"]);
    }
}

#[test]
fn a_transaction_waits_for_one_that_holds_its_keys() {
    for (how, end) in ENDS {
        let mut story = Story::new(&UNDECIDED);
        story.go_on(&["begin c31 1", "put c31 1 a y", "commit c31 1", "deliver"]);
        assert!(story.world.command("show A/r0").contains(&"  1 wait at A/r0".to_owned()), "{how}");
        story.assert_untold("  c31.1 COMMITTED");
        story.go_on(end);
        story.assert_told("  c31.1 COMMITTED");
        story.assert_nothing_held(&["A/r0", "B/r0"]);
    }
}

/// `T1` and `T3` of the paper's figure 2, with and without `T2`. `T4` has read from `T1`, and wants to read from `T3`.
fn mixed(conflict: &[&str]) -> Story {
    let mut story = Story::new(&[
        "cluster A=1 B=1 C=2 D=2 E=3 F=3",
        "clock N3/r0 1100",
        "hold N1/r0 C/r0",
        "begin c1 1",
        "put c1 1 a A1",
        "put c1 1 c C1",
        "commit c1 1",
        "deliver",
    ]);
    story.go_on(conflict);
    story.go_on(&[
        "begin c3 1",
        "put c3 1 b B3",
        "commit c3 1",
        "deliver",
        "clock N1/r0 1200",
        "begin c11 1",
        "get c11 1 a",
        "deliver",
        "get c11 1 b",
        "deliver",
    ]);
    story.assert_told("  c11.1 got a = A1");
    story.assert_untold("  c11.1 got b");
    story
}

const CONFLICT: [&str; 4] = ["begin c2 1", "put c2 1 c C2", "commit c2 1", "deliver"];

#[test]
fn a_reader_waits_for_an_unsafe_local_commit_that_commits() {
    let mut story = mixed(&[]);
    story.go_on(&["release N1/r0 C/r0", "deliver", "commit c11 1", "deliver"]);
    story.assert_told("  c1.1 COMMITTED");
    story.assert_told("  c11.1 got b = B3");
    story.assert_told("  c11.1 COMMITTED");
}

#[test]
fn a_reader_waits_for_an_unsafe_local_commit_that_is_refused() {
    let mut story = mixed(&CONFLICT);
    story.go_on(&["release N1/r0 C/r0", "deliver"]);
    story.assert_told("  c1.1 CONFLICT");
    story.assert_told("  c11.1 CONFLICT");
}

#[test]
fn a_reader_waits_for_an_unsafe_local_commit_whose_shard_is_silent() {
    let mut story = mixed(&[]);
    story.go_on(&["advance 11000"]);
    story.assert_told("  c1.1 UNAVAILABLE");
    story.assert_told("  c11.1 CONFLICT");
}

/// A local commit is safe as far as its replica was granted snapshots. It becomes safe further on with the next grant, which comes once somebody
/// reads there.
#[test]
fn a_reader_waits_for_a_grant() {
    let mut story = Story::new(&[
        "cluster A=2,1,3 B=2 C=1",
        "hold A/r2 N1/r0",
        "begin c1 1",
        "put c1 1 a x",
        "put c1 1 c x",
        "commit c1 1",
        "observe c2 2000500",
        "begin c2 1",
        "put c2 1 b y",
        "commit c2 1",
        "deliver",
        // The grants of the replica on the first node end at 2 s.
        "observe c11 2400000",
        "advance 450",
        "begin c11 1",
        "get c11 1 c",
        "deliver",
        "get c11 1 b",
        "deliver",
    ]);
    story.assert_told("  c11.1 got c = x");
    story.assert_untold("  c11.1 got b");
    story.assert_untold("  c1.1 ");
    story.go_on(&["observe c12 2400000", "begin c12 1", "get c12 1 a1", "deliver"]);
    story.assert_told("  c12.1 got a1");
    story.assert_told("  c11.1 got b = y");
    story.assert_untold("  c1.1 ");
}

/// `c1.1` has committed locally, and its prepare at `B` is on its way. Others of its node depend on it.
fn depended_on(dependent: &[&str], name: &str) -> Story {
    let mut story = Story::new(&[
        "cluster A=1 B=2 C=1",
        "hold N1/r0 B/r0",
        "begin c1 1",
        "put c1 1 a x",
        "put c1 1 b x",
        "commit c1 1",
        "deliver",
    ]);
    story.go_on(dependent);
    story.assert_untold(&format!("  {name} COMMITTED"));
    story.assert_untold(&format!("  {name} CONFLICT"));
    story
}

/// Its dependents: one that has read from it, one that has written over it, one that has only read, and one that follows it.
const DEPENDENTS: [(&str, &[&str]); 4] = [
    ("c11.1", &["begin c11 1", "get c11 1 a", "deliver", "put c11 1 c y", "commit c11 1", "deliver"]),
    ("c11.1", &["begin c11 1", "put c11 1 a y", "commit c11 1", "deliver"]),
    ("c11.1", &["read c11 1 a", "deliver"]),
    ("c1.2", &["begin c1 2 after 1", "put c1 2 c y", "commit c1 2", "deliver"]),
];

#[test]
fn a_transaction_waits_for_what_it_depends_on() {
    for (name, dependent) in DEPENDENTS {
        let mut story = depended_on(dependent, name);
        story.go_on(&["release N1/r0 B/r0", "deliver"]);
        story.assert_told("  c1.1 COMMITTED");
        story.assert_told(&format!("  {name} COMMITTED"));

        let mut story = depended_on(dependent, name);
        story.go_on(&["begin c2 1", "put c2 1 b first", "commit c2 1", "deliver"]);
        story.go_on(&["release N1/r0 B/r0", "deliver"]);
        story.assert_told("  c1.1 CONFLICT");
        story.assert_told(&format!("  {name} CONFLICT"));

        let mut story = depended_on(dependent, name);
        story.go_on(&["advance 11000"]);
        story.assert_told("  c1.1 UNAVAILABLE");
        story.assert_told(&format!("  {name} CONFLICT"));
        story.assert_nothing_held(&["A/r0", "C/r0"]);
    }
}
