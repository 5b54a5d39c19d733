//! A degree that was settled on: its windows are watched, and now and then another degree is probed.

use std::collections::VecDeque;

use super::config::TunerConfig;
use super::degree::Degree;
use super::search::{Samples, Search};
use super::statistics::{Comparison, Cusum, Sample, variance};

/// Probes are compared with the latest windows: so many.
const RECENT_MAX: usize = 64;

/// What a probe has said counts this much less with each later one of the same degree.
const FORGETTING: f64 = 0.75;

/// Probes are repeated without end, so that what they say must exceed its standard error once more than elsewhere.
const CAUTION: f64 = 1.0;

/// What probes of one degree have said: differences weighted by the inverse of their variance.
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

/// What comes after a window.
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

    /// What is known of a degree: of that which was settled on, the latest windows.
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
