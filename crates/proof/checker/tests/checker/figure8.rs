//! The Walter paper's Figure 8: which of six anomalies each isolation property allows.
//!
//! The histories follow the examples in the text of the figure, with registers that are null where the paper
//! has 0. Two of them need more readers than the paper names, because a history has only what clients saw:
//! - *conflicting fork*: as printed, its last reader finds a value (3) that "some external logic" made up,
//!   which alone is an anomaly. The second row lets a transaction make it up, and two readers see the fork.
//! - *short fork* and *long fork* are read afterwards, as in the text, once the state has merged.

use quorate_checker::{Level, Verdict, check, oracle};

use crate::corpus::parse;

const LEVELS: [Level; 3] = [Level::Serializable, Level::Si, Level::Psi];

/// The name, then whether serializability, snapshot isolation and parallel snapshot isolation allow it, and
/// the example.
const ROWS: [(&str, [&str; 3], &str); 7] = [
    ("dirty read", ["No", "No", "No"], "begin T1 X: a=1 a=2\nbegin T2 Y: a?1\nok T1\nok T2"),
    ("non-repeatable read", ["No", "No", "No"], "begin T1 X: a=1\nbegin T2 Y: a?- a?1\nok T1\nok T2"),
    ("lost update", ["No", "No", "No"], "begin T1 X: a?- a=1\nbegin T2 Y: a?- a=2\nok T1\nok T2"),
    (
        "short fork",
        ["No", "Yes", "Yes"],
        "begin T1 X: a?- b?- a=1\nbegin T2 Y: a?- b?- b=1\nok T1\nok T2\nT3 X: a?1 b?1",
    ),
    (
        "long fork",
        ["No", "No", "Yes"],
        "begin T1 X: a?- b?- a=1\nbegin T3 Y: a?- b?- b=1\nok T1\nbegin T2 X: a?1 b?-\nok T3\n\
         begin T4 Y: a?- b?1\nok T2\nok T4\nT5 X: a?1 b?1",
    ),
    ("conflicting fork", ["No", "No", "No"], "begin T1 X: a=1\nbegin T2 Y: a=2\nok T1\nok T2\nT3 X: a?3"),
    (
        "conflicting fork, merged by a transaction",
        ["No", "No", "No"],
        "begin T1 X: a=1 b=1\nbegin T2 Y: a=2 c=1\nok T1\nok T2\nT3 X: a?1 b?1 c?-\nT4 Y: a?2 b?- c?1\n\
         T5 X: b?1 c?1 a=3\nT6 X: a?3",
    ),
];

#[test]
fn walter_figure_8_anomalies_by_isolation_property() {
    let mut found = String::new();
    let mut expected = String::new();
    for (name, allowed, example) in ROWS {
        let history = parse(example).to_history().unwrap_or_else(|error| panic!("{name}: {error}"));
        let verdicts = LEVELS.map(|level| match check(&history, level).verdict {
            Verdict::Valid => "Yes",
            Verdict::Invalid => "No",
            Verdict::Unknown => "Unknown",
        });
        found += &format!("{name}: {}\n", verdicts.join(" "));
        expected += &format!("{name}: {}\n", allowed.join(" "));
        for (level, allowed) in LEVELS.into_iter().zip(allowed) {
            assert_eq!(oracle::satisfies(&history, level), Some(allowed == "Yes"), "{name}, {level}");
        }
    }
    assert_eq!(found, expected);
}

/// The column that the paper calls eventual consistency allows everything; causal consistency, which clients
/// of Walter still have, forbids the first two, allows the lost update and all forks, but no merge by a
/// value that nobody wrote.
#[test]
fn causal_consistency_allows_the_forks() {
    let causal = ROWS.map(|(name, _, example)| {
        let history = parse(example).to_history().unwrap_or_else(|error| panic!("{name}: {error}"));
        (check(&history, Level::Causal).verdict, oracle::satisfies(&history, Level::Causal))
    });
    let expected = [false, false, true, true, true, false, true];
    assert_eq!(causal.map(|(_, oracle)| oracle), expected.map(Some));
    let verdicts = expected.map(|valid| if valid { Verdict::Valid } else { Verdict::Invalid });
    assert_eq!(causal.map(|(check, _)| check), verdicts);
}
