//! Small histories made by hand, each with its verdicts at all eleven levels.
//!
//! A history begins with `=`, its name and its verdicts, in the order of [`Level::ALL`]: `strict session plain`
//! serializable, `strong session plain` si, `plain session walter` psi, `causal`, `spsi`; `v` is valid, `i`
//! invalid and `-` unknown. A line with a colon is a transaction: its name, its site, after a slash its
//! session, and its operations. It runs at once, or after `begin` until the line that ends it (`ok`, `fail`,
//! `fail!` for an observed abort, `info`); `spec` and `lost` are what they are in a history. `spec` may come
//! with operations if other results were shown than the transaction ended with. Operations on
//! lists are `x+1` and `x[1,2]`, on registers `a=1`, `a?1` and `a?-`, on counting sets `s++1`, `s--1` and
//! `s{1:2}`. Other lines are remarks.

use std::collections::BTreeMap;

use quorate_checker::{History, Level, MicroOp, Observed, RecordedTxn, Recorder, Verdict, check, oracle};

const FILES: [&str; 6] = [
    include_str!("time.txt"),
    include_str!("forks.txt"),
    include_str!("values.txt"),
    include_str!("sets.txt"),
    include_str!("outcomes.txt"),
    include_str!("speculation.txt"),
];

/// The corpus holds so many histories at least.
const HISTORIES_MIN: usize = 100;

struct Example {
    name: String,
    verdicts: String,
    history: History,
}

fn examples() -> Vec<Example> {
    let sections = FILES.iter().flat_map(|file| file.split("\n= ").skip(1));
    sections.map(example).collect()
}

fn example(section: &str) -> Example {
    let (head, body) = section.split_once('\n').expect("a history has lines");
    let (name, verdicts) = head.split_once("  ").expect("verdicts follow the name");
    let verdicts: String = verdicts.split_whitespace().collect();
    assert_eq!(verdicts.len(), Level::ALL.len(), "{name}");
    let history = parse(body).to_history().unwrap_or_else(|error| panic!("{name}: {error}"));
    Example { name: name.to_string(), verdicts, history }
}

/// Records the lines of a history.
pub(crate) fn parse(body: &str) -> Recorder {
    let mut recorder = Recorder::new();
    let mut open: BTreeMap<String, (RecordedTxn, Vec<MicroOp>)> = BTreeMap::new();
    for (time, line) in (0..).step_by(10).zip(body.lines()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some((head, ops)) = line.split_once(": ") {
            let mut head = head.split_whitespace().peekable();
            let stays_open = head.next_if_eq(&"begin").is_some();
            let is_shown = head.next_if_eq(&"spec").is_some();
            let Some(name) = head.next().filter(|name| is_name(name)) else { continue };
            let ops: Vec<MicroOp> = ops.split_whitespace().map(op).collect();
            if is_shown {
                let (txn, _) = open.get(name).expect("a transaction begins first");
                recorder.speculate(*txn, time, ops);
                continue;
            }
            let txn = recorder.invoke(open.len() as u64, time);
            ops.iter().for_each(|op| recorder.attempt(txn, op.clone()));
            if let Some(origin) = head.next() {
                let (site, session) = origin.split_once('/').map_or((origin, None), |(s, u)| (s, Some(u)));
                recorder.site(txn, site);
                session.into_iter().for_each(|session| recorder.session(txn, session));
            }
            if !stays_open {
                recorder.ok(txn, time + 5, ops.clone());
            }
            open.insert(name.to_string(), (txn, ops));
        } else if let [event, name] = words[..]
            && is_name(name)
        {
            let (txn, ops) = open.get(name).cloned().expect("a transaction begins first");
            match event {
                "ok" => recorder.ok(txn, time, ops),
                "fail" => recorder.fail(txn, time),
                "fail!" => recorder.fail_observed(txn, time, ops),
                "info" => recorder.info(txn, time),
                "spec" => recorder.speculate(txn, time, ops),
                "lost" => recorder.lost(txn, time),
                _ => panic!("{line}: what is {event}?"),
            }
        }
    }
    recorder
}

/// Transactions are called T1, T2 and so on.
fn is_name(word: &str) -> bool {
    word.strip_prefix('T').is_some_and(|number| number.parse::<u32>().is_ok())
}

fn op(word: &str) -> MicroOp {
    let (key, rest) = word.split_at(1);
    let number = |text: &str| text.parse::<i64>().unwrap_or_else(|_| panic!("{word}"));
    let inner = |open: char, close: char| rest.strip_prefix(open)?.strip_suffix(close);
    if let Some(element) = rest.strip_prefix("++") {
        return MicroOp::Add(key.into(), number(element));
    }
    if let Some(element) = rest.strip_prefix("--") {
        return MicroOp::Remove(key.into(), number(element));
    }
    if let Some(value) = rest.strip_prefix('+') {
        return MicroOp::Append(key.into(), number(value));
    }
    if let Some(value) = rest.strip_prefix('=') {
        return MicroOp::Write(key.into(), number(value));
    }
    let observed = if let Some(list) = inner('[', ']') {
        Observed::List(list.split_terminator(',').map(number).collect())
    } else if let Some(set) = inner('{', '}') {
        let counts = set.split_terminator(',').filter_map(|entry| entry.split_once(':'));
        Observed::Set(counts.map(|(element, count)| (number(element), number(count))).collect())
    } else {
        let value = rest.strip_prefix('?').unwrap_or_else(|| panic!("{word}"));
        if value == "-" { Observed::Null } else { Observed::Register(number(value)) }
    };
    MicroOp::Read(key.into(), observed)
}

fn letter(verdict: Option<Verdict>) -> char {
    match verdict {
        Some(Verdict::Valid) => 'v',
        Some(Verdict::Invalid) => 'i',
        Some(Verdict::Unknown) | None => '-',
    }
}

/// The verdicts that were thought out by hand, against those of a judge.
fn differences(judge: impl Fn(&History, Level) -> Option<Verdict>) -> Vec<String> {
    let mut differences = Vec::new();
    for Example { name, verdicts, history } in examples() {
        let found: String = Level::ALL.into_iter().map(|level| letter(judge(&history, level))).collect();
        if found != verdicts {
            differences.push(format!("{name}\n  expected {verdicts}\n  found    {found}"));
        }
    }
    differences
}

#[test]
fn the_corpus_is_large_and_names_are_unique() {
    let mut names: Vec<String> = examples().into_iter().map(|example| example.name).collect();
    assert!(names.len() >= HISTORIES_MIN, "{}", names.len());
    names.sort();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
}

#[test]
fn the_oracle_confirms_every_verdict() {
    let differences = differences(|history, level| {
        let satisfies = oracle::satisfies(history, level)?;
        Some(if satisfies { Verdict::Valid } else { Verdict::Invalid })
    });
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Where the check and the verdicts differ.
pub(crate) fn wrong_verdicts() -> Vec<String> {
    differences(|history, level| Some(check(history, level).verdict))
}

#[test]
fn the_check_confirms_every_verdict() {
    let differences = wrong_verdicts();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
