//! A node that has a tuner: what that is told, and what transactions may do at the degree that it has chosen.

use quorate_str::tuner::{Degree, Setting, Tuner, TunerConfig};

use super::*;

fn tuned(change: impl FnOnce(&mut ReplicaConfig)) -> Home {
    Home::with(|config| {
        config.tuner = Some(TunerConfig::new(Setting::External { chain_max: Degree::CHAIN_MAX }));
        change(config);
    })
}

impl Home {
    fn tuner(&self) -> &Tuner {
        self.alone.machine.tuner().expect("it has one")
    }

    /// Waits for the end of the window that is open. Gives how many final commits a second were in it, and how many windows were measured.
    fn ends_its_window(&mut self) -> (f64, u64) {
        let left = self.tuner().next_tick() - self.alone.now;
        self.alone.waits(left.as_millis() as u64);
        let tuning = self.alone.machine.speculating().unwrap().tuning.expect("it has a tuner");
        (tuning.commits_per_second, tuning.windows)
    }

    /// A window of 200 ms in which so many transactions begin and commit that have touched nothing. Gives what the last one is told.
    fn is_busy(&mut self, first: u64, commits: u64) -> Vec<String> {
        let mut told = Vec::new();
        for sequence in first..first + commits {
            told = self.commits(7, sequence, "");
        }
        self.ends_its_window();
        told
    }
}

#[test]
fn a_tuner_is_told_when_its_window_ends() {
    let mut home = tuned(|_| {});
    let ends = |home: &Home| (home.tuner().next_tick() - quorate_core::Instant::START).as_millis();
    assert_eq!(ends(&home), 200);
    home.alone.waits(199);
    assert_eq!(ends(&home), 200);
    home.alone.waits(1);
    assert_eq!(ends(&home), 400);
    home.alone.waits(1_000);
    assert_eq!(ends(&home), 1_400);
    assert!(Home::new().alone.machine.tuner().is_none(), "nobody wants one");
}

/// A transaction ends for good once it is final, or its client has dropped it. One that aborts is tried again, and has arrived only once.
#[test]
fn a_tuner_is_told_of_transactions_that_begin_and_end() {
    let mut home = tuned(|_| {});
    assert_eq!(home.ends_its_window(), (0.0, 0), "the first one counts nowhere");
    assert_eq!(home.ends_its_window(), (0.0, 0), "nobody wanted anything");
    let again = TransactionId { client: ClientId(1), sequence: 1, attempt: 1 };
    let read = |transaction| Message::Read {
        transaction,
        session: Session::default(),
        snapshot: None,
        request: 1,
        wanted: vec![key("oak")],
    };
    assert_eq!(home.hears("c1", read(again)).len(), 1);
    assert_eq!(home.ends_its_window(), (0.0, 0), "it had arrived before");
    assert_eq!(home.hears("c1", read(txn(1, 2))).len(), 1);
    assert_eq!(home.ends_its_window(), (0.0, 1), "one has arrived");
    home.hears("c1", Message::Abort { transaction: txn(1, 2) });
    assert_eq!(home.ends_its_window(), (0.0, 2), "and was dropped");
    home.commits(1, 3, "elm=x");
    assert_eq!(home.ends_its_window(), (0.0, 3));
    home.hears("1/r0", Message::GiveWay { transaction: txn(1, 3) });
    assert_eq!(home.ends_its_window(), (0.0, 3), "it will be tried again");
    // A transaction that has written is counted once it is final, one that has only read at once.
    home.commits(1, 4, "elm=x");
    home.is_voted_here(1, 4, 5_000_000);
    assert_eq!(home.ends_its_window(), (0.0, 4));
    home.is_prepared("1/r0", 1, 4, 5_000_000, vec![]);
    home.is_recorded(1, 4, 5_000_000);
    assert_eq!(home.ends_its_window(), (5.0, 5));
    home.commits(1, 5, "");
    assert_eq!(home.ends_its_window().1, 6);
    let speculating = home.alone.machine.speculating().unwrap();
    assert_eq!((speculating.finals, speculating.aborts), (2, 2));
}

/// From its first activation.
#[test]
fn a_tuner_is_told_how_long_it_took_until_a_transaction_was_final() {
    let mut home = tuned(|_| {});
    for sequence in 1..5 {
        home.commits(1, sequence, &format!("key{sequence}=x"));
    }
    home.alone.waits(100);
    for sequence in 1..5 {
        home.is_prepared("1/r0", 1, sequence, 5_000_000, vec![]);
        home.is_prepared("2/r0", 1, sequence, 5_000_000, vec![]);
        home.is_voted_here(1, sequence, 5_000_000);
        home.is_recorded(1, sequence, 5_000_000);
    }
    home.ends_its_window();
    let tuning = home.alone.machine.speculating().unwrap().tuning.unwrap();
    assert_eq!(
        tuning.final_latency,
        Some(Duration::from_micros(98_304)),
        "the bucket of a hundred milliseconds"
    );
}

/// As long as there is little to do all is allowed that the keyspace allows; then it is the tuner that says how much.
#[test]
fn transactions_speculate_as_far_as_the_tuner_has_chosen() {
    let mut home = tuned(|_| {});
    let chosen = |home: &Home| {
        let tuning = home.alone.machine.speculating().unwrap().tuning.unwrap();
        assert_eq!(tuning.degree, home.tuner().degree().rung());
        tuning.degree
    };
    let is_shown = |told: Vec<String>| !only(told, "SHOWN").is_empty();
    assert_eq!(home.alone.machine.speculating().unwrap().tuning.unwrap().degree, 9, "there is no load");
    assert!(is_shown(home.is_busy(1_000, 200)));
    // No speculation is measured first.
    assert!(home.tuner().has_load());
    assert_eq!(chosen(&home), 0);
    home.commits(1, 1, "oak=x");
    assert!(!is_shown(home.is_voted_here(1, 1, 5_000_000)));
    home.reads(2, 1, vec![key("oak")]);
    assert_eq!(home.is_told("1/r0", 1, vec![version("oak", "", 0)]), NOTHING, "it waits for the end");
    for window in 2..10 {
        assert_eq!(chosen(&home), 0, "{window}");
        assert!(!is_shown(home.is_busy(1_000 * window, 200)));
    }
    // Then speculative reads.
    assert_eq!(chosen(&home), 1);
    home.reads(3, 1, vec![key("oak")]);
    let told = home.is_told("1/r0", 2, vec![version("oak", "", 0)]);
    assert!(only(told, "c3.1 reads oak=x@").len() == 1);
    for window in 10..13 {
        assert!(!is_shown(home.is_busy(1_000 * window, 300)));
    }
    // They bring more, so a chain of one comes next.
    assert_eq!(chosen(&home), 2);
    home.commits(4, 1, "elm=x");
    assert!(is_shown(home.is_voted_here(4, 1, 5_000_000)));
    let second = Session { seen: at(0), after: Some(txn(4, 1)) };
    home.commits_after(4, 2, second, "iris=x");
    assert!(!is_shown(home.is_voted_here(4, 2, 5_000_001)), "its chain would be longer");
}

/// There is no load that would say more.
#[test]
fn a_node_without_load_speculates_as_far_as_its_keyspace_allows() {
    let chains = |length| Variant { shows: Shows::Chain(length), ..Variant::EXTERNAL };
    for (variant, degree) in [
        (chains(8), 9),
        (chains(3), 4),
        (chains(0), 1),
        (chains(200), 9),
        (Variant::INTERNAL, 1),
        (Variant::CLOCK_SI, 0),
        (Variant::PLANET, 0),
    ] {
        let home = tuned(|config| config.variant = variant);
        let tuning = home.alone.machine.speculating().unwrap().tuning.unwrap();
        assert_eq!(tuning.degree, degree, "{variant:?}");
    }
}

/// A tuner may choose speculative reads where the keyspace has none.
#[test]
fn a_keyspace_without_speculative_reads_has_none_at_any_degree() {
    let mut home =
        tuned(|config| config.variant = Variant { reads_speculatively: false, ..Variant::EXTERNAL });
    home.commits_locally(1, 1, "oak=x", 2_000);
    home.reads(2, 1, vec![key("oak")]);
    assert_eq!(home.is_told("1/r0", 1, vec![version("oak", "", 0)]), NOTHING);
}
