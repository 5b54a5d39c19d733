//! The windows of a tuner: how long they last, what they count, and when they show a load.

use super::*;

const INTERNAL: Setting = Setting::Internal;

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A tuner, and what its host tells it.
struct Host {
    tuner: Tuner,
    now: Instant,
}

impl Host {
    fn new(config: TunerConfig) -> Self {
        Host { tuner: Tuner::new(config, Instant::START).unwrap(), now: Instant::START }
    }

    /// Transactions arrive, and so many become final with this latency.
    fn tells(&mut self, arrivals: u64, commits: u64, latency: Duration) {
        (0..arrivals).for_each(|_| self.tuner.on_arrival());
        (0..commits).for_each(|_| self.tuner.on_ended(Ended::Final(latency)));
    }

    /// The window ends, and a host that is late by so much says so. Gives how long the next one lasts.
    fn ticks(&mut self, late: Duration) -> Duration {
        self.now = self.tuner.next_tick() + late;
        self.tuner.on_tick(self.now);
        self.tuner.next_tick() - self.now
    }

    /// A window in which as many arrive as become final. Gives how long the next one lasts.
    fn window(&mut self, commits: u64, latency: Duration) -> Duration {
        self.tells(commits, commits, latency);
        self.ticks(Duration::ZERO)
    }
}

/// It says nothing of the load to have committed less in a window that was not to last.
#[test]
fn there_is_a_load_with_an_eighth_of_the_commits_that_are_wanted() {
    for (commits, has_load) in [(24, false), (25, true)] {
        let mut host = Host::new(TunerConfig::new(INTERNAL));
        assert!(!host.tuner.has_load());
        host.window(commits, millis(1));
        assert_eq!(host.tuner.has_load(), has_load, "{commits}");
    }
}

/// So much that the longest window has as many as are wanted.
#[test]
fn there_is_no_load_any_more_once_the_longest_window_would_have_too_few_commits() {
    // Two hundred in forty seconds are one in a window of 200 ms.
    for (window_max, has_load) in [(millis(40_000), true), (millis(39_999), false)] {
        let mut host = Host::new(TunerConfig { window_max, ..TunerConfig::new(INTERNAL) });
        assert_eq!(host.window(200, millis(1)), millis(200));
        assert!(host.tuner.has_load());
        host.window(1, millis(1));
        assert_eq!(host.tuner.has_load(), has_load, "{window_max:?}");
    }
}

/// They are too short to have many.
#[test]
fn steps_downward_say_nothing_of_the_load() {
    let mut host = Host::new(TunerConfig::new(Setting::External { chain_max: 8 }));
    // Each degree is better than the one before it, up to the greatest.
    while host.tuner.state().settled.is_none() {
        let commits = 200 + 100 * u64::from(host.tuner.degree().rung());
        let Purpose::Lower = host.tuner.window.purpose else {
            host.window(commits, millis(1));
            continue;
        };
        host.ticks(Duration::ZERO);
        assert!(host.tuner.has_load(), "{:?}", host.tuner.state());
    }
    assert_eq!(host.tuner.degree(), Degree::HIGHEST);
    let lowered = host.tuner.take_decisions().filter(|decision| decision.cause == Cause::Lower).count();
    assert!(lowered >= 8, "to none, for the trial: {lowered}");
}

#[test]
fn a_window_is_as_long_as_eight_latencies_and_at_most_twice_as_long_as_the_last() {
    let mut host = Host::new(TunerConfig::new(INTERNAL));
    // The bucket of the median begins at 393 ms, and eight of those are 3.1 s.
    let lengths: Vec<u128> = (0..6).map(|_| host.window(10_000, millis(400)).as_millis()).collect();
    assert_eq!(lengths, [400, 800, 1_600, 3_145, 3_145, 3_145]);
    assert_eq!(host.window(1_000_000, millis(1)), millis(200), "it need not get shorter by steps");
}

#[test]
fn a_window_is_so_long_that_two_hundred_commits_are_expected() {
    let mut host = Host::new(TunerConfig::new(INTERNAL));
    // Fifty in 200 ms are two hundred in 800, and so on.
    assert_eq!(host.window(50, millis(1)), millis(400), "twice as long");
    assert_eq!(host.window(100, millis(1)), millis(800));
    assert_eq!(host.window(200, millis(1)), millis(800));
    assert_eq!(host.window(1_000, millis(1)), millis(200), "no shorter than it may be");
    // Latencies may ask for more.
    let mut slow = Host::new(TunerConfig::new(INTERNAL));
    assert_eq!(slow.window(150, millis(500)), millis(400));
    assert_eq!(slow.window(300, millis(500)), millis(800));
    let bounded = TunerConfig { window_max: millis(500), ..TunerConfig::new(INTERNAL) };
    let mut bounded = Host::new(bounded);
    assert_eq!(bounded.window(1, millis(1)), millis(400));
    assert_eq!(bounded.window(1, millis(1)), millis(500));
}

/// Longer ones would not change that.
#[test]
fn windows_in_which_nothing_commits_stay_short() {
    for commits_per_window_min in [200, 0] {
        let mut host = Host::new(TunerConfig { commits_per_window_min, ..TunerConfig::new(INTERNAL) });
        for _ in 0..5 {
            host.tells(10, 0, millis(1));
            assert_eq!(host.ticks(Duration::ZERO), millis(200), "{commits_per_window_min}");
        }
    }
}

#[test]
fn a_late_host_makes_a_window_longer() {
    let mut host = Host::new(TunerConfig::new(Setting::Fixed(Degree::READS)));
    host.window(500, millis(1));
    host.tells(700, 600, millis(1));
    assert_eq!(host.ticks(millis(100)), millis(200));
    let told = host.tuner.tuning(Degree::READS);
    assert_eq!((told.commits_per_second.round(), told.window), (2_000.0, millis(200)));
    assert_eq!((told.windows, told.phase), (1, "fixed"));
}

/// The first one counts nowhere, nor does one in which nobody wants anything and nothing ends.
#[test]
fn windows_are_measured_in_which_something_happens() {
    let mut host = Host::new(TunerConfig::new(INTERNAL));
    let measured = |host: &mut Host, arrivals, ended: &[Ended]| {
        let before = host.tuner.state().windows;
        host.tells(arrivals, 0, millis(1));
        ended.iter().for_each(|ended| host.tuner.on_ended(*ended));
        host.ticks(Duration::ZERO);
        host.tuner.state().windows - before
    };
    assert_eq!(measured(&mut host, 1, &[Ended::Final(millis(1))]), 0);
    assert_eq!(measured(&mut host, 0, &[]), 0);
    assert_eq!(measured(&mut host, 1, &[]), 1);
    assert_eq!(measured(&mut host, 0, &[Ended::GivenUp]), 1);
    assert_eq!(measured(&mut host, 0, &[Ended::Final(millis(1))]), 1);
}

#[test]
fn metrics_have_the_latest_decisions_in_their_order() {
    let mut host = Host::new(TunerConfig::new(INTERNAL));
    let mut decided = Vec::new();
    for commits in [200, 500].into_iter().cycle().take(400) {
        for _ in 0..10 {
            host.window(commits, millis(1));
        }
        decided.extend(host.tuner.decisions.iter().map(|decision| decision.at));
        let known: Vec<Instant> = host.tuner.decisions.iter().map(|decision| decision.at).collect();
        let told = host.tuner.tuning(Degree::NONE);
        let told: Vec<Instant> = told.latest.iter().map(|decision| decision.at).collect();
        assert_eq!(told, known[known.len().saturating_sub(Tuning::LATEST_MAX)..]);
    }
    assert!(decided.len() > Tuning::LATEST_MAX, "{}", decided.len());
    let told = host.tuner.tuning(Degree::HIGHEST);
    let (state, last) = (host.tuner.state(), host.tuner.decisions.back().unwrap());
    let latest = told.latest.last().unwrap();
    assert_eq!((latest.from, latest.to, latest.cause), (last.from.rung(), last.to.rung(), last.cause.name()));
    assert_eq!((told.degree, told.settled), (9, state.settled.map(Degree::rung)));
    assert_eq!((told.windows, told.searches, told.probes), (state.windows, state.searches, state.probes));
}

/// A host that has many timers may be woken for another one.
#[test]
fn a_window_does_not_end_early() {
    let mut host = Host::new(TunerConfig::new(INTERNAL));
    let ends = host.tuner.next_tick();
    host.tells(500, 500, millis(1));
    assert_eq!(host.tuner.on_tick(Instant::from_nanos(ends.as_nanos() - 1)), None);
    assert_eq!((host.tuner.next_tick(), host.tuner.has_load()), (ends, false));
    host.tuner.on_tick(ends);
    assert!(host.tuner.next_tick() > ends && host.tuner.has_load());
}
