//! A degree that was settled on: its windows are watched, and now and then another degree is probed.

use std::collections::VecDeque;

use super::config::TunerConfig;
use super::degree::Degree;
use super::search::{Samples, Search};
use super::statistics::{Comparison, Cusum, Sample, variance};

/// Probes are compared with the latest windows: so many.
const RECENT_MAX: usize = 64;

/// The evidence of a probe counts this much less with each later one of the same degree.
const FORGETTING: f64 = 0.75;

/// Probes are repeated without end, so that what they say must exceed its standard error once more than elsewhere.
const CAUTION: f64 = 1.0;

/// The results of the probes of one degree: differences weighted by the inverse of their variance.
#[derive(Clone, Copy, Debug, Default)]
struct Evidence {
    weight: f64,
    sum: f64,
}

/// A probe under way.
#[derive(Clone, Debug)]
struct Probe {
    target: Degree,
    sample: Sample,
}

/// The next step after a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Watch {
    /// Another window at this degree: the one that was settled on, or that of a probe.
    Stay(Degree),
    /// The load has changed.
    LoadChanged,
    /// The throughput has changed, and the load has not.
    ThroughputChanged,
    /// Probes have shown that this degree is better.
    Better(Degree),
}

/// The state after a search.
#[derive(Clone, Debug)]
pub(super) struct Settled {
    pub(super) degree: Degree,
    arrivals: Cusum,
    commits: Cusum,
    recent: VecDeque<(f64, u64)>,
    /// The rates of degrees, as last measured.
    known: Samples,
    evidence: [Evidence; Degree::COUNT],
    probe: Option<Probe>,
    /// How many probes have begun.
    pub(super) probes: u64,
    /// Windows since the last probe.
    since: u32,
    /// Final commits that probes may cost by now.
    credit: f64,
    /// Final commits that probes have cost.
    pub(super) cost: f64,
}

impl Settled {
    /// A search has found this degree.
    pub(super) fn new(degree: Degree, search: &Search, config: &TunerConfig) -> Self {
        let mut known = search.samples;
        known[Degree::NONE.index()] = search.measured(Degree::NONE);
        known[degree.index()] = search.measured(degree);
        Settled {
            degree,
            arrivals: Cusum::new(config.load_shift, search.arrivals[degree.index()]),
            commits: Cusum::new(config.load_shift, known[degree.index()]),
            recent: VecDeque::new(),
            known,
            evidence: [Evidence::default(); Degree::COUNT],
            probe: None,
            probes: 0,
            since: 0,
            credit: 0.0,
            cost: 0.0,
        }
    }

    pub(super) fn is_probing(&self) -> bool {
        self.probe.is_some()
    }

    /// The measurements of a degree: of that which was settled on, the latest windows.
    pub(super) fn known(&self, degree: Degree) -> Sample {
        let recent = self.recent();
        if degree == self.degree && recent.windows > 0 { recent } else { self.known[degree.index()] }
    }

    fn recent(&self) -> Sample {
        let mut sample = Sample::default();
        self.recent.iter().for_each(|&(rate, events)| sample.add(rate, events));
        sample
    }

    /// A window has passed in which chains drained, beside a probe: what it fell short is a cost of the probe.
    pub(super) fn on_skipped(&mut self, commits: u64, seconds: f64) {
        if self.recent.is_empty() {
            return;
        }
        let short = (self.recent().mean * seconds - commits as f64).max(0.0);
        self.cost += short;
        self.credit -= short;
    }

    /// Takes in a window: the rates and numbers of final commits and of arrivals.
    pub(super) fn on_window(
        &mut self,
        commits: (f64, u64),
        arrivals: (f64, u64),
        seconds: f64,
        config: &TunerConfig,
    ) -> Watch {
        if let Some(mut probe) = self.probe.take() {
            self.on_skipped(commits.1, seconds);
            probe.sample.add(commits.0, commits.1);
            return self.judge(probe, config);
        }
        self.recent.push_back(commits);
        if self.recent.len() > RECENT_MAX {
            self.recent.pop_front();
        }
        self.since = self.since.saturating_add(1);
        let load_changed = self.arrivals.observe(arrivals.0, arrivals.1);
        let throughput_changed = self.commits.observe(commits.0, commits.1);
        if load_changed {
            return Watch::LoadChanged;
        }
        if throughput_changed {
            return Watch::ThroughputChanged;
        }
        // Not much more is saved up than a probe without any commit costs, or many could follow one another.
        let window = self.recent().mean * seconds;
        let saved_max = 1.5 * window * probe_length(config);
        self.credit = (self.credit + config.probe_share * commits.1 as f64).min(saved_max);
        assert!(
            self.credit <= saved_max && self.cost >= 0.0,
            "probes may cost {} of {saved_max}, and have cost {}",
            self.credit,
            self.cost
        );
        match self.due(window, config) {
            Some(target) => {
                assert!(target != self.degree, "{target} is probed beside itself");
                self.since = 0;
                self.probes += 1;
                self.probe = Some(Probe { target, sample: Sample::default() });
                Watch::Stay(target)
            }
            None => Watch::Stay(self.degree),
        }
    }

    /// The degree that is to be probed now, where so many commits are expected in a window.
    fn due(&self, window: f64, config: &TunerConfig) -> Option<Degree> {
        if self.since < config.probe_gap_windows || config.probe_share <= 0.0 {
            return None;
        }
        let highest = config.highest();
        let higher = self.degree.higher().filter(|higher| *higher <= highest);
        let none = (self.degree != Degree::NONE).then_some(Degree::NONE);
        // No speculation takes every second turn; on the others it is the neighbours.
        let turns = [none, higher, none, self.degree.lower().filter(|lower| *lower > Degree::NONE)];
        let at = (self.probes % 4) as usize;
        let target = (0..4).find_map(|next| turns[(at + next) % 4])?;
        let recent = self.recent();
        let known = &self.known[target.index()];
        let lost = match known.windows {
            0 => 1.0,
            _ if recent.mean > 0.0 => (1.0 - known.mean / recent.mean).clamp(0.0, 1.0),
            _ => 0.0,
        };
        (self.credit >= lost * probe_length(config) * window).then_some(target)
    }

    /// A window of a probe is over.
    fn judge(&mut self, probe: Probe, config: &TunerConfig) -> Watch {
        let recent = self.recent();
        let variance = variance([&recent, &probe.sample].into_iter(), config.noise_expected);
        let compared = Comparison::of(&probe.sample, &recent, variance);
        let weight = 1.0 / (compared.error * compared.error);
        assert!(
            weight.is_finite() && weight > 0.0,
            "{} windows of {} and {} others say {weight} of it",
            probe.sample.windows,
            probe.target,
            recent.windows
        );
        let sum = weight * compared.difference;
        let before = self.evidence[probe.target.index()];
        let now =
            Evidence { weight: before.weight * FORGETTING + weight, sum: before.sum * FORGETTING + sum };
        let least = if probe.target == Degree::NONE { config.loss_allowed } else { config.tolerance };
        let is_enough = probe.sample.windows >= config.probe_windows;
        let doubt = (config.significance + CAUTION) / now.weight.sqrt();
        if is_enough && now.sum / now.weight > least + doubt {
            return Watch::Better(probe.target);
        }
        // A degree that looks better costs nothing while it does.
        let goes_on = !is_enough || compared.difference > 0.0 && probe.sample.windows < config.windows_max;
        if goes_on {
            let target = probe.target;
            self.probe = Some(probe);
            return Watch::Stay(target);
        }
        self.evidence[probe.target.index()] = now;
        self.known[probe.target.index()] = probe.sample;
        Watch::Stay(self.degree)
    }
}

/// A probe lasts so many windows, those included that are skipped on the way there and back.
fn probe_length(config: &TunerConfig) -> f64 {
    f64::from(config.probe_windows + 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tuner::config::Setting;

    const READS: Degree = Degree::READS;
    const NONE: Degree = Degree::NONE;

    fn chains(length: u8) -> Degree {
        Degree::chains(length).expect("chains are as long")
    }

    fn config() -> TunerConfig {
        TunerConfig::new(Setting::External { chain_max: 2 })
    }

    /// A search that has measured eight windows of each of these rates, beginning with none.
    fn search(rates: &[f64]) -> Search {
        let mut search = Search::new(NONE);
        for (place, rate) in rates.iter().enumerate() {
            for _ in 0..8 {
                search.samples[place].add(*rate, 1_000_000);
                search.arrivals[place].add(1_000.0, 1_000_000);
            }
        }
        search
    }

    fn settled(degree: Degree, rates: &[f64]) -> Settled {
        Settled::new(degree, &search(rates), &config())
    }

    /// A window of a second with so many commits.
    fn window(settled: &mut Settled, commits: u64) -> Watch {
        window_of(settled, commits, &config())
    }

    fn window_of(settled: &mut Settled, commits: u64, config: &TunerConfig) -> Watch {
        settled.on_window((commits as f64, commits), (1_000.0, 1_000), 1.0, config)
    }

    /// Windows with the usual commits until something else is measured: how many, and what.
    fn until_probe(settled: &mut Settled, commits: u64, config: &TunerConfig) -> (u32, Degree) {
        for windows in 1..10_000 {
            match window_of(settled, commits, config) {
                Watch::Stay(degree) if degree == settled.degree => {}
                Watch::Stay(degree) => return (windows, degree),
                other => panic!("nothing changes: {other:?}"),
            }
        }
        panic!("nothing is probed")
    }

    #[test]
    fn samples_of_a_search_count_until_there_are_later_ones() {
        let mut settled = settled(READS, &[500.0, 1_000.0, 900.0]);
        let known = |settled: &Settled, degree| (settled.known(degree).windows, settled.known(degree).mean);
        assert_eq!(known(&settled, NONE), (8, 500.0));
        assert_eq!(known(&settled, READS), (8, 1_000.0));
        assert_eq!(known(&settled, chains(1)), (8, 900.0));
        assert_eq!(window(&mut settled, 1_010), Watch::Stay(READS));
        assert_eq!(known(&settled, READS), (1, 1_010.0));
        assert_eq!(known(&settled, NONE), (8, 500.0));
        assert_eq!(known(&settled, chains(1)), (8, 900.0));
    }

    #[test]
    fn the_latest_64_windows_are_compared_with_a_probe() {
        let config = TunerConfig { probe_share: 0.0, ..config() };
        let mut settled = settled(READS, &[500.0, 1_000.0]);
        window_of(&mut settled, 1_064, &config);
        (1..64).for_each(|_| _ = window_of(&mut settled, 1_000, &config));
        assert_eq!((settled.known(READS).windows, settled.known(READS).mean.round()), (64, 1_001.0));
        window_of(&mut settled, 1_000, &config);
        assert_eq!((settled.known(READS).windows, settled.known(READS).mean), (64, 1_000.0));
    }

    /// None takes every second turn, the neighbours share the others. A probe that costs nothing comes once in 32 windows.
    #[test]
    fn probes_take_turns() {
        let alike = [1_000.0; 4];
        for (degree, turns) in [
            (NONE, [READS, READS, READS, READS, READS]),
            (READS, [NONE, chains(1), NONE, NONE, NONE]),
            (chains(1), [NONE, chains(2), NONE, READS, NONE]),
            (chains(2), [NONE, NONE, NONE, chains(1), NONE]),
        ] {
            let mut settled = settled(degree, &alike);
            for (at, turn) in turns.into_iter().enumerate() {
                assert_eq!(until_probe(&mut settled, 1_000, &config()), (32, turn), "{degree}: {at}");
                assert!(settled.is_probing());
                // Two windows are enough.
                assert_eq!(window(&mut settled, 1_000), Watch::Stay(turn));
                assert_eq!(window(&mut settled, 1_000), Watch::Stay(degree));
                assert!(!settled.is_probing());
            }
            assert_eq!((settled.probes, settled.cost), (5, 0.0));
        }
    }

    /// It lasts four windows with those around it, and a hundredth of what commits is saved up.
    #[test]
    fn a_probe_waits_until_what_it_will_lose_is_saved_up() {
        for (none, windows) in [(1_000.0, 32), (950.0, 32), (900.0, 40), (500.0, 200), (0.0, 400)] {
            let mut settled = settled(READS, &[none, 1_000.0]);
            let config = TunerConfig { setting: Setting::Internal, ..config() };
            assert_eq!(until_probe(&mut settled, 1_000, &config), (windows, NONE), "{none}");
        }
        // Of what is unknown it is not known that it loses less than all.
        let mut unknown = settled(NONE, &[1_000.0]);
        assert_eq!(until_probe(&mut unknown, 1_000, &config()), (400, READS));
        // A degree that commits nothing loses nothing.
        let mut idle = settled(NONE, &[0.0, 1_000.0]);
        assert_eq!(until_probe(&mut idle, 0, &config()), (32, READS));
    }

    #[test]
    fn nothing_is_probed_where_that_may_cost_nothing_or_there_is_nothing_else() {
        for config in [
            TunerConfig { probe_share: 0.0, ..config() },
            TunerConfig {
                setting: Setting::External { chain_max: 0 },
                probe_gap_windows: u32::MAX,
                ..config()
            },
        ] {
            let mut settled = settled(NONE, &[1_000.0, 1_000.0]);
            for _ in 0..1_000 {
                assert_eq!(window_of(&mut settled, 1_000, &config), Watch::Stay(NONE));
            }
            assert_eq!(settled.probes, 0);
        }
        let fixed = TunerConfig { setting: Setting::Fixed(NONE), ..config() };
        let mut settled = settled(NONE, &[1_000.0, 1_000.0]);
        for _ in 0..1_000 {
            assert_eq!(window_of(&mut settled, 1_000, &fixed), Watch::Stay(NONE), "there is no other");
        }
    }

    /// Half as much again as a probe costs in which nothing commits: many that follow one another would be felt.
    #[test]
    fn no_more_is_saved_up_than_a_probe_and_a_half() {
        let config = TunerConfig { probe_gap_windows: 5_000, ..config() };
        let mut settled = settled(READS, &[1_000.0; 3]);
        (0..4_999).for_each(|_| _ = window_of(&mut settled, 1_000, &config));
        assert_eq!(settled.credit, 1.5 * 4.0 * 1_000.0);
    }

    /// The windows around it are paid for as well, and what is gained is not given back.
    #[test]
    fn the_commits_that_a_probe_has_lost_are_paid() {
        let mut settled = settled(READS, &[1_000.0; 3]);
        settled.on_skipped(0, 1.0);
        assert_eq!((settled.cost, settled.credit), (0.0, 0.0), "nothing is known of what is usual");
        until_probe(&mut settled, 1_000, &config());
        let before = settled.credit;
        settled.on_skipped(400, 0.5);
        assert_eq!((settled.cost, settled.credit), (100.0, before - 100.0));
        settled.on_skipped(900, 0.5);
        assert_eq!((settled.cost, settled.credit), (100.0, before - 100.0));
        assert_eq!(window(&mut settled, 700), Watch::Stay(NONE));
        assert_eq!((settled.cost, settled.credit), (400.0, before - 400.0));
        assert_eq!(window(&mut settled, 700), Watch::Stay(READS));
        assert_eq!((settled.cost, settled.credit), (700.0, before - 700.0));
        assert_eq!((settled.known(NONE).windows, settled.known(NONE).mean), (2, 700.0));
    }

    /// Four standard errors above: three percent of noise are 1.2 % of two windows and 64.
    #[test]
    fn a_probe_that_is_better_beyond_doubt_begins_a_search() {
        let probe = |degree, commits: [u64; 3], loss_allowed| {
            let config = TunerConfig { loss_allowed, ..config() };
            let mut settled = settled(degree, &[1_000.0; 3]);
            (0..63).for_each(|_| {
                _ = window_of(&mut settled, 1_000, &TunerConfig { probe_share: 0.0, ..config.clone() })
            });
            let (_, probed) = until_probe(&mut settled, 1_000, &config);
            commits.map(|commits| (window_of(&mut settled, commits, &config), probed))
        };
        let [first, second, _] = probe(READS, [1_500, 1_500, 1_000], 0.0);
        assert_eq!(first, (Watch::Stay(NONE), NONE), "one window is not enough");
        assert_eq!(second, (Watch::Better(NONE), NONE));
        // A degree that looks better costs nothing, and is measured for longer.
        let [_, second, third] = probe(READS, [1_010, 1_010, 1_010], 0.0);
        assert_eq!([second, third], [(Watch::Stay(NONE), NONE); 2]);
        let [_, second, _] = probe(READS, [1_000, 1_000, 1_000], 0.0);
        assert_eq!(second, (Watch::Stay(READS), NONE), "it is the same");
        // None has to be better by so much as may be lost; another degree by more than what is alike.
        for (loss_allowed, is_better) in [(0.0, true), (0.3, true), (0.32, false)] {
            let [_, second, _] = probe(READS, [1_500, 1_500, 1_000], loss_allowed);
            assert_eq!(second.0 == Watch::Better(NONE), is_better, "{loss_allowed}");
        }
    }

    /// A degree that looks better is left once it has had as many windows as any.
    #[test]
    fn a_probe_ends_with_the_windows_that_are_granted() {
        let config = TunerConfig { tolerance: 0.5, ..config() };
        let mut settled = settled(NONE, &[1_000.0; 2]);
        until_probe(&mut settled, 1_000, &config);
        for windows in 1..32 {
            assert_eq!(window_of(&mut settled, 1_100, &config), Watch::Stay(READS), "{windows}");
        }
        assert_eq!(window_of(&mut settled, 1_100, &config), Watch::Stay(NONE));
    }

    /// The evidence of an earlier probe counts three quarters of its weight with each later one.
    #[test]
    fn probes_of_one_degree_add_up() {
        let mut settled = settled(NONE, &[1_000.0; 2]);
        let quiet = TunerConfig { probe_share: 0.0, ..config() };
        (0..64).for_each(|_| _ = window_of(&mut settled, 1_000, &quiet));
        let mut weights = Vec::new();
        for _ in 0..3 {
            until_probe(&mut settled, 1_000, &config());
            // A little worse, so that two windows are enough.
            (0..2).for_each(|_| _ = window(&mut settled, 990));
            let Evidence { weight, sum } = settled.evidence[READS.index()];
            assert!((sum / weight + 0.01).abs() < 1e-9, "a hundredth worse: {}", sum / weight);
            weights.push(weight);
        }
        assert!((weights[1] / weights[0] - 1.75).abs() < 1e-9, "{weights:?}");
        assert!((weights[2] / weights[0] - 2.3125).abs() < 1e-9, "{weights:?}");
        assert_eq!(settled.evidence[NONE.index()].weight, 0.0);
    }

    #[test]
    fn a_change_of_the_load_explains_one_of_the_throughput() {
        let mut both = settled(READS, &[1_000.0; 3]);
        assert_eq!(both.on_window((2_000.0, 2_000), (2_000.0, 2_000), 1.0, &config()), Watch::LoadChanged);
        let mut commits = settled(READS, &[1_000.0; 3]);
        let told = commits.on_window((2_000.0, 2_000), (1_000.0, 1_000), 1.0, &config());
        assert_eq!(told, Watch::ThroughputChanged);
        // The commits of a probe say nothing of that.
        let mut probing = settled(READS, &[1_000.0; 3]);
        until_probe(&mut probing, 1_000, &config());
        assert_eq!(probing.on_window((300.0, 300), (3_000.0, 3_000), 1.0, &config()), Watch::Stay(NONE));
    }
}
