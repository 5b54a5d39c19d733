//! Tuners of systems whose throughput is a known function of the degree, with seeded noise.

use quorate_core::Random;

use super::statistics::{Comparison, Cusum, variance};
use super::*;

const LATENCY: Duration = Duration::from_millis(50);

/// The ladder of STR-External.
const EXTERNAL: Setting = Setting::External { chain_max: Degree::CHAIN_MAX };

fn degrees() -> impl Iterator<Item = Degree> {
    Degree::HIGHEST.up_to()
}

/// A system, as its tuner sees it.
struct System {
    tuner: Tuner,
    now: Instant,
    random: Random,
    /// Final commits per second at each degree.
    curve: [f64; Degree::COUNT],
    /// Arrivals per second; none if every client waits for its last result.
    arrivals: Option<f64>,
    /// The standard deviation of windows, as a share of the mean.
    noise: f64,
    latency: Duration,
    /// The window after a change shows so many times what it should.
    drain: f64,
    has_changed: bool,
    /// Final commits that were to be expected since they were last cleared: at the degrees that were in use, without speculation, and
    /// at the best degree.
    used: f64,
    none: f64,
    best: f64,
    changes: Vec<Change>,
    decisions: Vec<Decision>,
}

impl System {
    fn new(seed: u64, noise: f64, config: TunerConfig, curve: impl Fn(usize) -> f64) -> Self {
        let tuner = Tuner::new(config, Instant::START).unwrap();
        System {
            tuner,
            now: Instant::START,
            random: Random::stream(seed, "tuner"),
            curve: std::array::from_fn(curve),
            arrivals: Some(1_000.0),
            noise,
            latency: LATENCY,
            drain: 1.0,
            has_changed: false,
            used: 0.0,
            none: 0.0,
            best: 0.0,
            changes: Vec::new(),
            decisions: Vec::new(),
        }
    }

    fn external(seed: u64, noise: f64, curve: impl Fn(usize) -> f64) -> Self {
        Self::new(seed, noise, TunerConfig::new(EXTERNAL), curve)
    }

    /// A draw that is about normal, of mean zero and deviation one.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.random.unit()).sum::<f64>() - 6.0
    }

    fn count(&mut self, rate: f64, seconds: f64) -> u64 {
        let noise = 1.0 + self.noise * self.normal();
        (rate * seconds * noise).max(0.0).round() as u64
    }

    fn rate(&self, degree: Degree) -> f64 {
        self.curve[degree.index()]
    }

    fn best_rate(&self) -> f64 {
        self.curve.iter().copied().fold(0.0, f64::max)
    }

    /// Lets one window pass.
    fn window(&mut self) {
        let ends = self.tuner.next_tick();
        let seconds = (ends - self.now).as_secs_f64();
        let rate = self.rate(self.tuner.degree());
        self.used += rate * seconds;
        self.none += self.rate(Degree::NONE) * seconds;
        self.best += self.best_rate() * seconds;
        let shown = if self.has_changed { rate * self.drain } else { rate };
        let commits = self.count(shown, seconds);
        let arrivals = self.arrivals.map_or(commits, |arrivals| self.count(arrivals, seconds));
        (0..arrivals).for_each(|_| self.tuner.on_arrival());
        (0..commits).for_each(|_| self.tuner.on_ended(Ended::Final(self.latency)));
        self.now = ends;
        let change = self.tuner.on_tick(ends);
        self.has_changed = change.is_some();
        self.changes.extend(change);
        self.decisions.extend(self.tuner.take_decisions());
    }

    fn windows(&mut self, count: usize) {
        (0..count).for_each(|_| self.window());
    }

    /// Lets windows pass until a degree is settled on.
    fn settle(&mut self) -> Degree {
        for _ in 0..2_000 {
            self.window();
            if let (Phase::Settled, Some(degree)) = (self.tuner.state().phase, self.tuner.state().settled) {
                (self.used, self.none, self.best) = (0.0, 0.0, 0.0);
                return degree;
            }
        }
        panic!("it does not settle: {:?}", self.tuner.state());
    }

    fn searches(&self) -> u64 {
        self.tuner.state().searches
    }

    fn causes(&self) -> Vec<Cause> {
        let restarts =
            [Cause::LoadChanged, Cause::ThroughputChanged, Cause::ProbeWasBetter, Cause::SearchWasVoid];
        self.decisions
            .iter()
            .map(|decision| decision.cause)
            .filter(|cause| restarts.contains(cause))
            .collect()
    }
}

/// A curve with its maximum at this place that falls by so much with each step away from it.
fn peak(at: usize, step: f64) -> impl Fn(usize) -> f64 {
    move |place| 1_000.0 * (1.0 - step * place.abs_diff(at) as f64).max(0.05)
}

#[test]
fn the_best_degree_is_found_wherever_it_is() {
    for at in 0..Degree::COUNT {
        for seed in 0..10 {
            for (step, noise) in [(0.06, 0.04), (0.15, 0.04), (0.06, 0.01), (0.3, 0.1)] {
                let mut system = System::external(seed, noise, peak(at, step));
                let found = system.settle();
                let share = system.rate(found) / system.best_rate();
                assert!(share >= 0.95, "{at} {step} {noise} {seed}: {found} has {share}");
            }
        }
    }
}

#[test]
fn short_searches_end_within_150_windows() {
    for at in 0..Degree::COUNT {
        for seed in 0..10 {
            for step in [0.001, 0.01, 0.06, 0.2] {
                let mut system = System::new(seed, 0.02, TunerConfig::short(EXTERNAL), peak(at, step));
                let found = system.settle();
                let share = system.rate(found) / system.best_rate();
                assert!(share >= 0.95, "{at} {step} {seed}: {found} has {share}");
                let windows = system.decisions.len() as u64 + system.tuner.state().windows;
                assert!(windows <= 150, "{at} {step} {seed}: {windows}");
            }
        }
    }
}

#[test]
fn slopes_that_are_lost_in_noise_are_climbed_to_their_end() {
    for seed in 0..20 {
        let mut rising = System::external(seed, 0.03, |place| 900.0 + 10.0 * place as f64);
        let found = rising.settle();
        assert!(rising.rate(found) >= 0.95 * rising.best_rate(), "{seed}: {found}");
        let mut steep = System::external(seed, 0.03, |place| 200.0 + 100.0 * place as f64);
        assert_eq!(steep.settle(), Degree::HIGHEST, "{seed}");
    }
}

#[test]
fn nothing_is_speculated_on_where_that_brings_nothing() {
    for seed in 0..20 {
        for noise in [0.01, 0.05, 0.1] {
            let flat = |_| 1_000.0;
            let falling = |place| 1_000.0 - 20.0 * place as f64;
            assert_eq!(System::external(seed, noise, flat).settle(), Degree::NONE, "{seed} {noise}");
            assert_eq!(System::external(seed, noise, falling).settle(), Degree::NONE, "{seed} {noise}");
        }
    }
}

#[test]
fn a_loss_that_is_allowed_buys_perceived_latency() {
    let config = TunerConfig { loss_allowed: 0.02, ..TunerConfig::new(EXTERNAL) };
    for seed in 0..10 {
        let mut flat = System::new(seed, 0.02, config.clone(), |_| 1_000.0);
        let found = flat.settle();
        assert!(found > Degree::READS, "{seed}: {found}");
        let mut falling = System::new(seed, 0.02, config.clone(), |place| 1_000.0 - 50.0 * place as f64);
        assert_eq!(falling.settle(), Degree::NONE, "{seed}");
    }
}

#[test]
fn once_settled_the_loss_against_none_is_below_three_percent_at_all_times() {
    type Curve = fn(usize) -> f64;
    let curves: [(&str, Curve); 5] = [
        ("flat", |_| 1_000.0),
        ("ruinous", |place| if place == 0 { 1_000.0 } else { 20.0 }),
        ("sixfold", |place| if place == 0 { 200.0 } else { 1_200.0 - 10.0 * place.abs_diff(5) as f64 }),
        ("a little better", |place| 1_000.0 * (1.0 + 0.04 * (3.0 - place.abs_diff(3) as f64) / 3.0)),
        ("a cliff behind the best", |place| if place > 4 { 10.0 } else { 1_000.0 + 50.0 * place as f64 }),
    ];
    for (name, curve) in curves {
        for seed in 0..5 {
            let mut system = System::external(seed, 0.05, curve);
            system.settle();
            let mut probes = 0;
            for _ in 0..4_000 {
                system.window();
                let share = system.used / system.none;
                assert!(share >= 0.97, "{name} {seed} at {}: {share}", system.now);
                probes = probes.max(system.tuner.state().probes);
            }
            assert_eq!(system.searches(), 1, "{name} {seed}");
            assert!(probes > 0, "{name} {seed}");
            let share = system.used / system.best;
            assert!(share >= 0.95, "{name} {seed}: {share} of the best");
        }
    }
}

#[test]
fn probes_cost_no_more_than_their_share() {
    for seed in 0..5 {
        let mut system = System::external(seed, 0.05, |place| {
            if place == 4 { 1_000.0 } else { 10.0 + 240.0 * place.min(4) as f64 }
        });
        system.curve[5] = 20.0;
        let found = system.settle();
        assert_eq!(found, Degree::chains(3).unwrap(), "{seed}");
        system.windows(10_000);
        let state = system.tuner.state();
        let lost = 1.0 - system.used / system.best;
        assert!(state.probes >= 10 && lost < 0.011, "{seed}: {} probes, {lost} lost", state.probes);
        assert!(state.probe_cost >= 0.9 * (system.best - system.used), "{seed}: {}", state.probe_cost);
    }
}

#[test]
fn a_step_of_the_load_begins_a_new_search() {
    for (before, after) in [(1_000.0, 1_500.0), (1_000.0, 500.0), (1_000.0, 1_250.0)] {
        for (seed, settled) in (0..6).zip([0, 1, 5, 20, 100, 500]) {
            // A small step right after the search may be taken for what the load is.
            if after == 1_250.0 && settled < 20 {
                continue;
            }
            let mut system = System::external(seed, 0.05, peak(7, 0.08));
            system.arrivals = Some(before);
            assert!(system.settle() > Degree::NONE);
            system.windows(settled);
            assert_eq!(system.searches(), 1);
            system.arrivals = Some(after);
            let mut passed = 0;
            while system.causes().is_empty() {
                system.window();
                passed += 1;
                assert!(passed <= 40, "{after} after {settled}: the step is not noticed");
            }
            assert_eq!(system.causes(), [Cause::LoadChanged]);
            assert_eq!(system.tuner.state().phase, Phase::Searching);
            system.curve = std::array::from_fn(peak(1, 0.08));
            assert_eq!(system.settle(), Degree::READS, "{after} after {settled}");
            assert_eq!(system.searches(), 2);
        }
    }
}

#[test]
fn a_new_search_finds_what_lies_below_its_start() {
    for seed in 0..5 {
        let with_low_none = |at| move |place: usize| if place == 0 { 300.0 } else { peak(at, 0.08)(place) };
        let mut system = System::external(seed, 0.03, with_low_none(8));
        assert_eq!(system.settle(), Degree::chains(7).unwrap());
        system.arrivals = Some(2_000.0);
        system.curve = std::array::from_fn(with_low_none(3));
        system.windows(10);
        assert_eq!(system.searches(), 2);
        assert_eq!(system.settle(), Degree::chains(2).unwrap(), "{seed}");
    }
}

#[test]
fn a_search_is_void_if_the_load_changed_before_the_trial() {
    let later = |place| 3.0 * peak(7, 0.1)(place);
    for seed in 0..5 {
        let mut system = System::external(seed, 0.03, peak(3, 0.1));
        while system.tuner.degree() < Degree::chains(3).unwrap() {
            system.window();
        }
        while system.tuner.degree() > Degree::NONE {
            system.window();
        }
        system.curve = std::array::from_fn(later);
        assert_eq!(system.settle(), Degree::chains(6).unwrap(), "{seed}");
        assert_eq!(system.causes(), [Cause::SearchWasVoid], "{seed}");
    }
}

#[test]
fn a_load_that_never_rests_is_taken_as_it_is() {
    let mut system = System::external(1, 0.03, peak(3, 0.1));
    let (mut scale, mut windows) = (1.0, 0);
    while system.tuner.state().phase == Phase::Searching {
        let before = system.tuner.degree();
        system.window();
        if system.tuner.degree() == Degree::NONE && before > Degree::NONE {
            scale = 3.0 - scale;
            system.curve = std::array::from_fn(|place| scale * peak(3, 0.1)(place));
        }
        windows += 1;
        assert!(windows < 2_000, "{:?}", system.tuner.state());
    }
    assert_eq!(system.causes(), [Cause::SearchWasVoid; 2]);
    assert_eq!(system.tuner.state().settled, Degree::chains(2));
}

#[test]
fn trials_weigh_none_and_its_rival_alike() {
    let missed = (0..200).filter(|seed| {
        let mut system = System::new(*seed, 0.03, TunerConfig::short(EXTERNAL), peak(1, 0.06));
        system.settle() != Degree::READS
    });
    let missed = missed.count();
    assert!(missed <= 4, "{missed} of 200");
}

#[test]
fn what_is_saved_up_is_not_spent_at_once() {
    for seed in 0..5 {
        let mut system = System::external(seed, 0.03, |_| 1_000.0);
        assert_eq!(system.settle(), Degree::NONE);
        let before = system.tuner.state();
        system.windows(10_000);
        let TunerState { windows, probes, .. } = system.tuner.state();
        let gap = u64::from(TunerConfig::new(EXTERNAL).probe_gap_windows);
        assert!(probes > 20 && probes * gap <= windows - before.windows, "{seed}: {probes} in {windows}");
        // From now on every probe stops everything.
        system.curve[1] = 1.0;
        (system.used, system.none) = (0.0, 0.0);
        system.windows(500);
        assert!(system.used >= 0.97 * system.none, "{seed}: {}", system.used / system.none);
        assert_eq!(system.causes(), []);
    }
}

#[test]
fn windows_do_not_grow_where_nothing_gets_done() {
    let mut system = System::external(8, 0.03, |place| if place == 0 { 1_000.0 } else { 2.0 });
    let mut longest = [Duration::ZERO; 2];
    let mut probed = 0;
    for _ in 0..3_000 {
        let (began, degree, phase) = (system.now, system.tuner.degree(), system.tuner.state().phase);
        system.window();
        if degree > Degree::NONE {
            let is_probe = phase == Phase::Probing;
            probed += u64::from(is_probe);
            let longest = &mut longest[usize::from(is_probe)];
            *longest = (*longest).max(system.now - began);
        }
    }
    // Two hundred commits would take it a hundred seconds.
    let usual = system.tuner.state().window;
    assert!(probed > 2 && usual < Duration::from_millis(500), "{usual:?}");
    assert!(longest[0] <= Duration::from_secs(2), "{longest:?}");
    assert!(longest[1] <= usual * 3 / 2, "{longest:?} {usual:?}");
}

#[test]
fn nothing_restarts_while_only_noise_moves() {
    for (seed, noise) in [(1, 0.01), (2, 0.05), (3, 0.1), (4, 0.3)] {
        for arrivals in [Some(1_000.0), None] {
            let mut system = System::external(seed, noise, peak(5, 0.1));
            system.arrivals = arrivals;
            system.settle();
            system.windows(40_000);
            assert_eq!(system.causes(), [], "{noise}");
        }
    }
}

#[test]
fn a_change_of_the_throughput_alone_is_noticed() {
    let mut system = System::external(7, 0.03, peak(6, 0.1));
    assert!(system.settle() >= Degree::chains(4).unwrap());
    system.windows(50);
    // The same load, and much more contention.
    system.curve = std::array::from_fn(|place| 0.6 * peak(0, 0.1)(place));
    system.windows(30);
    assert_eq!(system.causes(), [Cause::ThroughputChanged]);
    assert_eq!(system.settle(), Degree::NONE);
}

#[test]
fn probes_find_what_changes_too_little_to_be_noticed() {
    for (now_best, curve) in [
        (Degree::NONE, [1_000.0, 960.0, 960.0, 960.0]),
        (Degree::chains(2).unwrap(), [900.0, 980.0, 1_000.0, 1_060.0]),
        (Degree::READS, [900.0, 1_060.0, 1_000.0, 980.0]),
    ] {
        let setting = Setting::External { chain_max: 2 };
        let before = [900.0, 980.0, 1_000.0, 980.0];
        let config = TunerConfig { tolerance: 0.005, ..TunerConfig::new(setting) };
        let fill = |curve: [f64; 4]| move |place: usize| curve.get(place).copied().unwrap_or(0.0);
        let mut system = System::new(11, 0.02, config, fill(before));
        assert_eq!(system.settle(), Degree::chains(1).unwrap());
        system.windows(100);
        system.curve = std::array::from_fn(fill(curve));
        let mut passed = 0;
        while system.causes().is_empty() {
            system.window();
            passed += 1;
            assert!(passed < 200, "{now_best} is not found");
        }
        assert_eq!(system.causes(), [Cause::ProbeWasBetter], "{now_best}");
        assert_eq!(system.settle(), now_best);
    }
}

#[test]
fn what_drains_after_a_change_is_not_counted() {
    for drain in [0.0, 10.0] {
        for seed in 0..5 {
            let mut system = System::external(seed, 0.03, peak(4, 0.1));
            system.drain = drain;
            assert_eq!(system.settle(), Degree::chains(3).unwrap(), "{seed}");
            system.drain = 1.0;
            let known = system.tuner.state().throughput;
            for Throughput { degree, commits_per_second, .. } in known {
                let off = commits_per_second / system.rate(degree) - 1.0;
                assert!(off.abs() < 0.1, "{degree} was measured {off} off");
            }
        }
    }
}

#[test]
fn a_lesser_degree_is_reached_in_steps_and_a_greater_one_at_once() {
    let mut system = System::external(3, 0.02, |place| 200.0 + 100.0 * place as f64);
    assert_eq!(system.settle(), Degree::HIGHEST);
    system.windows(2_000);
    let lowered: Vec<&Change> = system.changes.iter().filter(|change| change.to < change.from).collect();
    assert!(lowered.len() > 20);
    assert!(lowered.iter().all(|change| Some(change.to) == change.from.lower()));
    let raised =
        system.changes.iter().any(|change| change.from == Degree::NONE && change.to == Degree::HIGHEST);
    assert!(raised, "a probe of none comes back at once");
    // Steps are a fraction of a window apart, and a whole window passes after the last one.
    let at: Vec<Instant> =
        system.decisions.iter().filter(|one| one.cause == Cause::Lower).map(|one| one.at).collect();
    let window = system.tuner.state().window;
    assert!(at.windows(2).any(|pair| pair[1] - pair[0] <= window / 4));
}

#[test]
fn windows_follow_final_latency_within_bounds() {
    let mut system = System::external(5, 0.02, |_| 1_000.0);
    let config = system.tuner.config.clone();
    for (latency, low, high) in [(50, 380, 450), (400, 3_000, 3_600), (1, 190, 210), (60_000, 60_000, 60_000)]
    {
        system.latency = Duration::from_millis(latency);
        system.windows(16);
        let TunerState { window, final_latency, .. } = system.tuner.state();
        assert!((low..=high).contains(&window.as_millis()), "{latency}: {window:?} {final_latency:?}");
        assert!(window >= config.window_min && window <= config.window_max);
    }
    // Few commits need longer windows.
    let mut slow = System::external(5, 0.02, |_| 20.0);
    slow.windows(12);
    assert!(slow.tuner.state().window >= Duration::from_secs(8), "{:?}", slow.tuner.state());
}

#[test]
fn clients_that_wait_for_results_do_not_restart_the_search() {
    for seed in 0..5 {
        let mut system = System::external(seed, 0.04, |place| if place == 0 { 100.0 } else { 700.0 });
        system.arrivals = None;
        let found = system.settle();
        assert!(found >= Degree::READS);
        system.windows(3_000);
        assert_eq!(system.causes(), [], "{seed}");
    }
}

#[test]
fn idle_windows_say_nothing() {
    let mut system = System::external(9, 0.02, peak(3, 0.1));
    system.windows(4);
    let before = system.tuner.state();
    let curve = std::mem::replace(&mut system.curve, [0.0; Degree::COUNT]);
    let arrivals = system.arrivals.replace(0.0);
    system.windows(500);
    assert_eq!(system.tuner.state().windows, before.windows);
    assert_eq!(system.tuner.degree(), before.degree);
    (system.curve, system.arrivals) = (curve, arrivals);
    assert_eq!(system.settle(), Degree::chains(2).unwrap());
}

#[test]
fn a_degree_that_stops_everything_is_left_at_once() {
    let mut system =
        System::external(2, 0.03, |place| if place == 2 { 0.0 } else { 1_000.0 - 200.0 * place as f64 });
    system.curve[1] = 1_100.0;
    assert_eq!(system.settle(), Degree::READS);
    let stopped =
        system.tuner.state().throughput.into_iter().find(|known| known.degree == Degree::chains(1).unwrap());
    assert!(stopped.is_some_and(|known| known.windows == 1), "{stopped:?}");
}

#[test]
fn settings_bound_the_degrees() {
    for fixed in degrees() {
        let mut system =
            System::new(1, 0.1, TunerConfig::new(Setting::Fixed(fixed)), |place| 100.0 * place as f64);
        assert_eq!(system.tuner.state().phase, Phase::Fixed);
        system.windows(200);
        assert_eq!((system.tuner.degree(), system.changes.len()), (fixed, 0));
    }
    let seen = |setting| {
        let mut system =
            System::new(1, 0.02, TunerConfig::new(setting), |place| 1_000.0 + 200.0 * place as f64);
        let found = system.settle();
        system.windows(500);
        let highest = system.changes.iter().map(|change| change.to).max();
        assert_eq!(highest, (found > Degree::NONE).then_some(found));
        found
    };
    assert_eq!(seen(Setting::Internal), Degree::READS);
    assert_eq!(seen(Setting::External { chain_max: 0 }), Degree::READS);
    assert_eq!(seen(Setting::External { chain_max: 3 }), Degree::chains(3).unwrap());
    assert_eq!(seen(EXTERNAL), Degree::HIGHEST);
    let none = Tuner::new(TunerConfig::new(Setting::Fixed(Degree::NONE)), Instant::START).unwrap();
    assert_eq!(none.state().settled, Some(Degree::NONE));
}

#[test]
fn settings_out_of_bounds_are_refused() {
    let refused = |config: TunerConfig| Tuner::new(config, Instant::START).err();
    assert_eq!(refused(TunerConfig::new(EXTERNAL)), None);
    let long = TunerConfig::new(Setting::External { chain_max: 9 });
    let told = refused(long).unwrap();
    assert_eq!(told, InvalidTuner::ChainMax(9));
    assert_eq!(told.to_string(), "chains of speculative commits are at most 8 long, and 9 was asked for");
    let fill = || TunerConfig::new(EXTERNAL);
    let broken = [
        ("window_min", TunerConfig { window_min: Duration::ZERO, ..fill() }),
        ("window_min", TunerConfig { window_max: Duration::from_millis(1), ..fill() }),
        ("latencies_per_window", TunerConfig { latencies_per_window: 0, ..fill() }),
        ("windows_min", TunerConfig { windows_min: 0, ..fill() }),
        ("windows_min", TunerConfig { windows_min: 33, ..fill() }),
        ("windows_max", TunerConfig { windows_max: u32::MAX, ..fill() }),
        ("windows_max", TunerConfig { windows_max: (1 << 20) + 1, ..fill() }),
        ("significance", TunerConfig { significance: f64::NAN, ..fill() }),
        ("tolerance", TunerConfig { tolerance: 0.0, ..fill() }),
        ("resolution", TunerConfig { resolution: 0.0, ..fill() }),
        ("noise_expected", TunerConfig { noise_expected: 1.0, ..fill() }),
        ("loss_allowed", TunerConfig { loss_allowed: -0.1, ..fill() }),
        ("probe_share", TunerConfig { probe_share: 1.0, ..fill() }),
        ("probe_windows", TunerConfig { probe_windows: 33, ..fill() }),
        ("probe_windows", TunerConfig { probe_windows: 0, ..fill() }),
        ("load_shift", TunerConfig { load_shift: 0.0, ..fill() }),
    ];
    for (name, config) in broken {
        assert_eq!(refused(config), Some(InvalidTuner::OutOfBounds(name)));
    }
}

#[test]
fn settings_at_their_bounds_are_taken() {
    let fill = || TunerConfig::new(EXTERNAL);
    let second = Duration::from_secs(1);
    let taken = [
        TunerConfig { window_min: second, window_max: second, ..fill() },
        TunerConfig { latencies_per_window: 1, ..fill() },
        TunerConfig { windows_min: 1, ..fill() },
        TunerConfig { windows_min: 32, ..fill() },
        TunerConfig { windows_max: 1 << 20, ..fill() },
        TunerConfig { significance: 1.0, ..fill() },
        TunerConfig { significance: 100.0, ..fill() },
        TunerConfig { tolerance: 1e-6, resolution: 1e-6, noise_expected: 1e-6, ..fill() },
        TunerConfig { loss_allowed: 0.99, probe_share: 0.99, load_shift: 0.99, ..fill() },
        TunerConfig { loss_allowed: 0.0, probe_share: 0.0, load_shift: 1e-3, ..fill() },
        TunerConfig { probe_windows: 1, ..fill() },
        TunerConfig { probe_windows: 32, ..fill() },
    ];
    for config in taken {
        assert_eq!(config.validate(), Ok(()), "{config:?}");
    }
}

#[test]
fn the_same_calls_lead_to_the_same_decisions() {
    let run = |seed| {
        let mut system = System::external(seed, 0.05, peak(5, 0.07));
        system.windows(1_000);
        (system.decisions, system.tuner.state())
    };
    assert_eq!(run(4), run(4));
    assert_ne!(run(4).0, run(5).0);
}

#[test]
fn every_change_is_among_the_decisions_and_early_ticks_do_nothing() {
    let mut system = System::external(6, 0.03, peak(2, 0.1));
    system.windows(600);
    let told: Vec<Change> = system
        .decisions
        .iter()
        .filter(|decision| decision.from != decision.to)
        .map(|decision| Change { from: decision.from, to: decision.to, cause: decision.cause })
        .collect();
    assert_eq!(told, system.changes);
    assert!(system.decisions.iter().any(|decision| decision.cause == Cause::Settle));
    let early = Instant::from_nanos(system.tuner.next_tick().as_nanos() - 1);
    assert_eq!(system.tuner.on_tick(early), None);
    let mut unread = Tuner::new(TunerConfig::new(EXTERNAL), Instant::START).unwrap();
    for _ in 0..10 * DECISIONS_MAX {
        unread.on_arrival();
        unread.on_ended(Ended::GivenUp);
        unread.note(Cause::Probe, Degree::NONE, unread.next_tick());
    }
    assert_eq!(unread.take_decisions().count(), DECISIONS_MAX);
}

#[test]
fn a_commit_in_a_short_window_is_no_load() {
    let config = TunerConfig::new(EXTERNAL);
    let mut tuner = Tuner::new(config.clone(), Instant::START).unwrap();
    let window = |tuner: &mut Tuner, commits: u32| {
        for _ in 0..commits {
            tuner.on_arrival();
            tuner.on_ended(Ended::Final(Duration::from_millis(100)));
        }
        tuner.on_tick(tuner.next_tick());
        tuner.has_load()
    };
    // Five commits a second are a load for windows of a minute, but a few of them are not known to be one.
    assert!(!window(&mut tuner, 1) && !window(&mut tuner, 2) && !window(&mut tuner, 4));
    let seconds = (0..10).find(|_| {
        let length = tuner.state().window.as_secs_f64();
        window(&mut tuner, (5.0 * length) as u32)
    });
    assert!(seconds.is_some(), "windows become longer until it is known");
    // It stays one through a window in which less than usual gets done, and ends with the commits.
    assert!(window(&mut tuner, 200) && !window(&mut tuner, 0));
    let mut busy = Tuner::new(config, Instant::START).unwrap();
    assert!(window(&mut busy, 1_000), "at once where there is much to do");
}

#[test]
fn metrics_of_a_tuner_are_bounded_and_count_every_decision() {
    let mut system = System::external(6, 0.03, peak(2, 0.1));
    system.windows(3_000);
    let told = system.tuner.tuning(system.tuner.degree());
    assert_eq!(told.decided.len(), Cause::ALL.len());
    for ((name, count), cause) in told.decided.iter().zip(Cause::ALL) {
        let decided = system.decisions.iter().filter(|decision| decision.cause == cause).count();
        assert_eq!((*name, *count), (cause.name(), decided as u64));
    }
    assert!(told.latest.len() <= Tuning::LATEST_MAX);
    assert!(told.degree <= Degree::HIGHEST.rung() && told.settled.is_none_or(|degree| degree <= 9));
    let mut unread = Tuner::new(TunerConfig::new(EXTERNAL), Instant::START).unwrap();
    for _ in 0..10 * DECISIONS_MAX {
        unread.note(Cause::Probe, Degree::READS, unread.next_tick());
    }
    let told = unread.tuning(Degree::NONE);
    assert_eq!(told.latest.len(), Tuning::LATEST_MAX);
    let probes = told.decided.iter().find(|(name, _)| *name == "probe");
    assert_eq!(probes, Some(&("probe", 10 * DECISIONS_MAX as u64)));
}

#[test]
fn degrees_are_a_ladder() {
    let names: Vec<String> = degrees().map(|degree| degree.to_string()).collect();
    assert_eq!(names[..4], ["none", "reads", "chains-1", "chains-2"]);
    assert_eq!((names.len(), names[9].as_str()), (Degree::COUNT, "chains-8"));
    assert_eq!(Degree::chains(0), Some(Degree::READS));
    assert_eq!(Degree::chains(8), Some(Degree::HIGHEST));
    assert_eq!(Degree::chains(9), None);
    assert_eq!((Degree::HIGHEST.higher(), Degree::NONE.lower()), (None, None));
    assert!(degrees().zip(degrees().skip(1)).all(|(one, next)| one.higher() == Some(next)));
    assert_eq!(Degree::chains(5).map(Degree::chain_max), Some(5));
    assert_eq!((Degree::NONE.chain_max(), Degree::READS.chain_max()), (0, 0));
    assert!(!Degree::NONE.reads_speculatively() && Degree::READS.reads_speculatively());
}

fn sample(rates: &[f64]) -> Sample {
    let mut sample = Sample::default();
    rates.iter().for_each(|&rate| sample.add(rate, 1_000_000));
    sample
}

#[test]
fn samples_are_compared_by_their_noise() {
    let (low, high) = (sample(&[90.0, 100.0, 110.0]), sample(&[190.0, 200.0, 210.0]));
    let noise = variance([&low, &high].into_iter(), 0.05);
    // Four expected windows of 0.05 squared, and of `high` two more; `low` is below half of it, or just there.
    assert!((noise - (4.0 * 0.0025 + 0.005) / 6.0).abs() < 1e-9, "{noise}");
    let compared = Comparison::of(&low, &high, 0.01);
    assert!((compared.difference + 0.5).abs() < 1e-9);
    assert!((compared.error - (0.02_f64 / 3.0).sqrt()).abs() < 1e-9);
    assert!(Comparison::of(&low, &Sample::default(), 0.01).error.is_infinite());
    let both = low.with(&high);
    assert_eq!((both.windows, both.mean), (6, 150.0));
    let all = sample(&[90.0, 100.0, 110.0, 190.0, 200.0, 210.0]);
    let noise = |sample: &Sample| variance(std::iter::once(sample), 0.01);
    assert!((noise(&both) - noise(&all)).abs() < 1e-9);
}

#[test]
fn few_events_are_noisy_until_they_are_not() {
    let fill = |windows| {
        let mut few = Sample::default();
        (0..windows).for_each(|_| few.add(25.0, 25));
        variance(std::iter::once(&few), 1e-3)
    };
    assert!((fill(1) - 0.04).abs() < 1e-9);
    assert!((fill(5) - 0.02).abs() < 1e-9);
    assert!(fill(100) < 0.002);
}

#[test]
fn medians_are_an_eighth_of_a_power_of_two_off_at_most() {
    let mut latencies = Latencies::new();
    assert_eq!(latencies.median(), None);
    for millis in [1, 10, 100, 400, 1_000_000] {
        latencies.add(Duration::from_millis(millis));
    }
    let median = latencies.median().unwrap();
    assert!(median <= Duration::from_millis(100) && median >= Duration::from_millis(88), "{median:?}");
    let mut extreme = Latencies::new();
    extreme.add(Duration::ZERO);
    extreme.add(Duration::MAX);
    assert!(extreme.median().is_some());
    extreme.age();
    assert_eq!(extreme.median(), None);
}

/// A bucket is told by its lower end, an eighth of a power of two of microseconds.
#[test]
fn a_median_is_that_of_the_latencies_of_which_half_are_less() {
    let median = |micros: &[u64]| {
        let mut latencies = Latencies::new();
        micros.iter().for_each(|micros| latencies.add(Duration::from_micros(*micros)));
        latencies.median().map(|median| median.as_micros() as u64)
    };
    for (micros, expected) in [
        (0, 8),
        (8, 8),
        (9, 9),
        (15, 15),
        (16, 16),
        (17, 16),
        (18, 18),
        (1_000, 960),
        (1_023, 960),
        (1_024, 1_024),
    ] {
        assert_eq!(median(&[micros]), Some(expected), "{micros}");
    }
    assert_eq!(median(&[8, 16]), Some(16));
    assert_eq!(median(&[8, 8, 16]), Some(8));
    assert_eq!(median(&[8, 16, 32, 64, 128]), Some(32));
    let mut latencies = Latencies::new();
    for (micros, count) in [(8, 5), (16, 1), (32, 4)] {
        (0..count).for_each(|_| latencies.add(Duration::from_micros(micros)));
    }
    assert_eq!(latencies.median(), Some(Duration::from_micros(16)), "five of ten are less");
    latencies.age();
    assert_eq!(latencies.median(), Some(Duration::from_micros(32)), "two, none and two are left");
}

#[test]
fn sums_notice_shifts_of_either_sign_and_no_less() {
    let passed = |shift: f64| {
        let mut cusum = Cusum::new(0.2, Sample::default());
        let mut random = Random::new(3);
        let mut draw = |mean: f64| mean * (0.95 + 0.1 * random.unit());
        assert!((0..200).all(|_| !cusum.observe(draw(100.0), 1_000)));
        (1..=200).find(|_| cusum.observe(draw(100.0 * (1.0 + shift)), 1_000))
    };
    assert!(passed(0.25).is_some_and(|windows| windows <= 5));
    assert!(passed(-0.25).is_some_and(|windows| windows <= 5));
    assert!(passed(1.0).is_some_and(|windows| windows <= 1));
    assert_eq!(passed(0.05), None);
    assert_eq!(passed(0.0), None);
}
