//! The decisions of a tuner in systems without noise, one by one: when it has seen enough of a degree, where it goes from there, and why.
//!
//! A line is a decision: how many windows have ended by then, how many of them were measured, the degree before and after, and the cause.

use super::*;

/// Final latencies are such that windows last 400 ms.
const LATENCY: Duration = Duration::from_millis(50);

/// A system whose throughput is a known function of the degree.
struct Quiet {
    tuner: Tuner,
    now: Instant,
    ended: u64,
    /// Final commits per second at each degree.
    curve: [f64; Degree::COUNT],
    /// Arrivals per second.
    arrivals: f64,
}

impl Quiet {
    fn new(setting: Setting, curve: [f64; Degree::COUNT]) -> Self {
        let tuner = Tuner::new(TunerConfig::new(setting), Instant::START).unwrap();
        Quiet { tuner, now: Instant::START, ended: 0, curve, arrivals: 1_000.0 }
    }

    /// Lets windows end, and tells what was decided.
    fn windows(&mut self, count: u64) -> Vec<String> {
        let mut told = Vec::new();
        for _ in 0..count {
            let ends = self.tuner.next_tick();
            let seconds = (ends - self.now).as_secs_f64();
            let commits = (self.curve[self.tuner.degree().index()] * seconds).round() as u64;
            (0..(self.arrivals * seconds).round() as u64).for_each(|_| self.tuner.on_arrival());
            (0..commits).for_each(|_| self.tuner.on_ended(Ended::Final(LATENCY)));
            (self.now, self.ended) = (ends, self.ended + 1);
            self.tuner.on_tick(ends);
            let (ended, measured) = (self.ended, self.tuner.state().windows);
            told.extend(self.tuner.take_decisions().map(|Decision { cause, from, to, .. }| {
                format!("{ended} ended, {measured} measured: {from} → {to}, {}", cause.name())
            }));
        }
        told
    }
}

/// So much at the first degrees, and always less beyond.
fn curve(first: &[f64]) -> [f64; Degree::COUNT] {
    std::array::from_fn(|place| first.get(place).copied().unwrap_or(100.0 - place as f64))
}

const EXTERNAL: Setting = Setting::External { chain_max: Degree::CHAIN_MAX };

/// No speculation is measured first, in a quarter of the windows that a degree may have, and each of the others until it is clearly another. The step beyond the best
/// shows that it is. Then windows of its own compare what was found with none once more.
#[test]
fn a_search_climbs_to_the_best_degree_and_tries_it_against_none() {
    let mut system = Quiet::new(EXTERNAL, curve(&[500.0, 700.0, 900.0, 800.0]));
    let expected = [
        "9 ended, 8 measured: none → reads, search",
        "12 ended, 10 measured: reads → chains-1, search",
        "15 ended, 12 measured: chains-1 → chains-2, search",
        "19 ended, 15 measured: chains-2 → chains-1, search",
        "20 ended, 15 measured: chains-1 → reads, lower",
        "21 ended, 15 measured: reads → none, lower",
        "30 ended, 23 measured: none → chains-1, search",
        "33 ended, 25 measured: chains-1 → chains-1, settle",
    ];
    assert_eq!(system.windows(60), expected);
    let state = system.tuner.state();
    assert_eq!(
        (state.phase, state.degree, state.settled),
        (Phase::Settled, system.tuner.degree(), Degree::chains(1))
    );
    assert_eq!((state.windows, state.searches, state.probes), (52, 1, 0));
    let known: Vec<(u8, f64, u32)> = state
        .throughput
        .iter()
        .map(|known| (known.degree.rung(), (known.commits_per_second / 100.0).round(), known.windows))
        .collect();
    assert_eq!(
        known,
        [(0, 5.0, 16), (1, 7.0, 2), (2, 9.0, 27), (3, 8.0, 3)],
        "of what is in use the latest windows"
    );
}

#[test]
fn a_search_leaves_what_is_worse_than_none_after_two_windows() {
    let mut system = Quiet::new(EXTERNAL, curve(&[500.0, 400.0, 300.0]));
    let expected =
        ["9 ended, 8 measured: none → reads, search", "12 ended, 10 measured: reads → none, settle"];
    assert_eq!(system.windows(60), expected);
}

/// Steps that differ by less than the noise are no maximum, so all are climbed; and where degrees are alike the lowest is taken, step by step.
#[test]
fn of_degrees_that_are_alike_the_lowest_is_settled_on() {
    let mut system = Quiet::new(EXTERNAL, [500.0; Degree::COUNT]);
    let expected = [
        "9 ended, 8 measured: none → reads, search",
        "42 ended, 40 measured: reads → chains-1, search",
        "74 ended, 71 measured: chains-1 → chains-2, search",
        "91 ended, 87 measured: chains-2 → chains-3, search",
        "104 ended, 99 measured: chains-3 → chains-4, search",
        "115 ended, 109 measured: chains-4 → chains-5, search",
        "124 ended, 117 measured: chains-5 → chains-6, search",
        "133 ended, 125 measured: chains-6 → chains-7, search",
        "141 ended, 132 measured: chains-7 → chains-8, search",
        "148 ended, 138 measured: chains-8 → chains-7, settle",
        "149 ended, 138 measured: chains-7 → chains-6, lower",
        "150 ended, 138 measured: chains-6 → chains-5, lower",
        "151 ended, 138 measured: chains-5 → chains-4, lower",
        "152 ended, 138 measured: chains-4 → chains-3, lower",
        "153 ended, 138 measured: chains-3 → chains-2, lower",
        "154 ended, 138 measured: chains-2 → chains-1, lower",
        "155 ended, 138 measured: chains-1 → reads, lower",
        "156 ended, 138 measured: reads → none, lower",
        // A probe of what costs nothing follows after each gap.
        "189 ended, 170 measured: none → reads, probe",
        "192 ended, 172 measured: reads → none, return",
        "225 ended, 204 measured: none → reads, probe",
        "228 ended, 206 measured: reads → none, return",
    ];
    assert_eq!(system.windows(230), expected);
}

/// A probe waits until what it is expected to lose is saved up, a hundredth of all that commits.
#[test]
fn probes_of_what_is_worse_are_as_rare_as_they_are_expensive() {
    let mut system = Quiet::new(Setting::Internal, curve(&[500.0, 700.0]));
    let expected = [
        "9 ended, 8 measured: none → reads, search",
        "12 ended, 10 measured: reads → none, search",
        "21 ended, 18 measured: none → reads, search",
        "24 ended, 20 measured: reads → reads, settle",
        "138 ended, 134 measured: reads → none, probe",
        "141 ended, 136 measured: none → reads, return",
        "227 ended, 221 measured: reads → none, probe",
        "230 ended, 223 measured: none → reads, return",
    ];
    assert_eq!(system.windows(300), expected);
    let state = system.tuner.state();
    assert_eq!((state.probes, state.searches), (2, 1));
    assert!(
        (450.0..490.0).contains(&state.probe_cost),
        "three windows of 200 a second each: {}",
        state.probe_cost
    );
}

#[test]
fn a_change_of_the_load_or_of_the_throughput_begins_a_search_at_the_degree_in_use() {
    let mut system = Quiet::new(Setting::Internal, curve(&[500.0, 700.0]));
    system.windows(100);
    system.arrivals *= 2.0;
    let expected = [
        "101 ended, 97 measured: reads → none, load-changed",
        "110 ended, 105 measured: none → reads, search",
        "113 ended, 107 measured: reads → none, search",
        "122 ended, 115 measured: none → reads, search",
        "125 ended, 117 measured: reads → reads, settle",
    ];
    assert_eq!(system.windows(60), expected);
    system.curve[1] = 400.0;
    let expected = [
        "161 ended, 153 measured: reads → none, throughput-changed",
        "170 ended, 161 measured: none → reads, search",
        "174 ended, 164 measured: reads → none, settle",
    ];
    assert_eq!(system.windows(60), expected);
    assert_eq!(system.tuner.state().searches, 3);
}

/// The measure that it is compared with is of another time.
#[test]
fn a_search_is_void_if_none_is_not_what_it_was() {
    let mut system = Quiet::new(Setting::Internal, curve(&[500.0, 700.0]));
    system.windows(12);
    system.curve[0] = 300.0;
    let expected = [
        "21 ended, 18 measured: none → none, search-was-void",
        "29 ended, 26 measured: none → reads, search",
        "32 ended, 28 measured: reads → none, search",
        "41 ended, 36 measured: none → reads, search",
        "44 ended, 38 measured: reads → reads, settle",
    ];
    assert_eq!(system.windows(60), expected);
}

#[test]
fn a_neighbour_that_has_become_better_is_found_by_probes() {
    let mut system = Quiet::new(EXTERNAL, curve(&[500.0, 700.0, 900.0, 800.0]));
    system.windows(60);
    system.curve[3] = 1_000.0;
    let expected = [
        "211 ended, 203 measured: chains-1 → reads, probe",
        "212 ended, 203 measured: reads → none, lower",
        "215 ended, 205 measured: none → chains-1, return",
        "248 ended, 237 measured: chains-1 → chains-2, probe",
        "251 ended, 239 measured: chains-2 → chains-1, probe-was-better",
        "252 ended, 239 measured: chains-1 → reads, lower",
        "253 ended, 239 measured: reads → none, lower",
        "262 ended, 247 measured: none → chains-2, search",
        "265 ended, 249 measured: chains-2 → chains-3, search",
        "267 ended, 250 measured: chains-3 → chains-2, search",
        "268 ended, 250 measured: chains-2 → chains-1, lower",
        "274 ended, 255 measured: chains-1 → reads, search",
        "275 ended, 255 measured: reads → none, lower",
        "284 ended, 263 measured: none → chains-2, search",
        "287 ended, 265 measured: chains-2 → chains-2, settle",
    ];
    assert_eq!(system.windows(400), expected, "the search begins there");
}

#[test]
fn a_static_setting_is_never_left() {
    for setting in [Setting::Fixed(Degree::READS), Setting::External { chain_max: 0 }] {
        let mut system = Quiet::new(setting, curve(&[500.0, 700.0, 900.0]));
        let told = system.windows(60);
        let is_fixed = matches!(setting, Setting::Fixed(_));
        assert_eq!(told.is_empty(), is_fixed, "{setting:?}: {told:?}");
        let state = system.tuner.state();
        assert_eq!(state.phase == Phase::Fixed, is_fixed, "{setting:?}");
        assert_eq!(state.degree, Degree::READS);
    }
}
