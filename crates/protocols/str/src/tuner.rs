//! The self-tuner: which degree of speculation brings the most final commits (paper, section 6.7).
//!
//! The tuner knows nothing of transactions. Its host tells it of arrivals and of final outcomes and wakes it at the end of each window;
//! the tuner answers with the degree that is to be used from then on. It has no clock and no randomness: the same calls give the same
//! decisions.
//!
//! ```text
//!             load or throughput changed, probe better
//!           +------------------------------------------+
//!           v                                          |
//!   search: none, start, up.. | down.., trial ----> settled <---> probe: none, a neighbour
//!           ^       |
//!           +-------+ void: none is not what it was
//! ```
//!
//! *Windows.* Final commits are counted in windows of several median final latencies, so that what was begun in a window mostly ends in it.
//! The window after each change counts nowhere, because chains of the former degree drain in it. A lesser degree is reached step by step,
//! each a fraction of a window long, so that never more than one link of every chain has to become final at once.
//!
//! *Search.* Hill climbing over the ladder of [`Degree`]s, beginning with none, which is the measure of all others. A step up is followed
//! by another unless it was clearly worse than the best so far; if none was clearly better than the start, the steps go downward. Steps that
//! differ by less than the noise are no local maximum: of a slope of one percent each, the tuner finds the end. Of degrees that are alike
//! the lowest wins. The winner is tried against none once more, with windows of its own, because the best of several samples
//! flatters.
//!
//! *Noise.* All samples of a search together say how far windows differ at one degree: `s`, as a share of the mean. Two degrees with `n`
//! windows each are known to `e = s * sqrt(2 / n)`. A difference counts beyond `significance * e`, three by default. A sample ends once
//! its degree is clearly better or worse than the best other, known to the `tolerance`, or has had `windows_max` windows. So a search takes
//! from `degrees * (1 + windows_min)` to about `degrees * (1 + windows_max)` windows, the latter only where degrees are alike, and then
//! they cost nothing.
//!
//! *Bounds,* while the load stays as it is, and throughput has one maximum over the degrees:
//! - A degree is kept only if it is better than none in the trial by `significance * e` (less `loss_allowed`). That one which is worse by `x` is
//!   kept has the odds of noise of `3 e + x`: at three, less than one in 700.
//! - Probes lose at most `probe_share` of the final commits. Each settled window saves that share of its commits up, a probe starts once what
//!   it is expected to lose is saved, and what it did lose is paid, the windows around it included.
//! - Together: not more than one percent below none with the defaults, where three are promised.
//! - The winner is less than `tolerance + 3 e` from the best, and if none is kept, the best is less than `3 e` above it, with twice as
//!   many windows: with noise of 5% and the defaults 4.8% and 2.6%. Windows that are noisier need more of them.
//! - Whatever changes the throughput and not the load is noticed as well; what is too slow for that, the probes find.
//!
//! While it searches, nothing is promised; but a degree that halves the throughput is left after a window or two.
//!
//! Deviations: the paper restarts when the load has changed and knows no probes, no trial, and no bound. Searches that restart begin at the
//! degree that was settled on, beside none. Where clients wait for results before they go on, the degree itself changes the load, so
//! arrivals are compared only among windows of one degree.

mod config;
mod degree;
mod search;
mod settled;
mod statistics;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod traces;
#[cfg(test)]
mod windows;

use std::collections::VecDeque;
use std::time::Duration;

use quorate_core::Instant;
use quorate_core::hosted::{Tuning, TuningDecision};

pub use config::{InvalidTuner, Setting, TunerConfig};
pub use degree::Degree;
use search::{Search, Step};
use settled::{Settled, Watch};
use statistics::{Latencies, Sample};

/// So many decisions are kept until they are taken; older ones are dropped.
const DECISIONS_MAX: usize = 256;

/// A step toward a lesser degree lasts such a part of a window.
const LOWERING_PARTS: u32 = 8;

/// There is a load once a window has had such a part of the commits that are wanted in each.
const LOAD_PARTS: u32 = 8;

/// Why the tuner decided something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A search measures another degree.
    Search,
    /// A search has found the degree to settle on.
    Settle,
    /// A lesser degree is reached step by step; this is one of the steps.
    Lower,
    /// A degree that was settled on is compared with another one.
    Probe,
    /// A probe is over, and the degree is again the one that was settled on.
    Return,
    /// The arrivals have changed: a new search begins.
    LoadChanged,
    /// The final commits have changed, and the arrivals have not: a new search begins.
    ThroughputChanged,
    /// Probes have shown another degree to be better: a new search begins there.
    ProbeWasBetter,
    /// No speculation was not what it had been when the search began: the search begins anew.
    SearchWasVoid,
}

impl Cause {
    /// Every cause.
    pub const ALL: [Cause; 9] = [
        Cause::Search,
        Cause::Settle,
        Cause::Lower,
        Cause::Probe,
        Cause::Return,
        Cause::LoadChanged,
        Cause::ThroughputChanged,
        Cause::ProbeWasBetter,
        Cause::SearchWasVoid,
    ];

    /// The name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Cause::Search => "search",
            Cause::Settle => "settle",
            Cause::Lower => "lower",
            Cause::Probe => "probe",
            Cause::Return => "return",
            Cause::LoadChanged => "load-changed",
            Cause::ThroughputChanged => "throughput-changed",
            Cause::ProbeWasBetter => "probe-was-better",
            Cause::SearchWasVoid => "search-was-void",
        }
    }
}

/// The degree is another one from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The degree so far.
    pub from: Degree,
    /// The degree from now on.
    pub to: Degree,
    /// Why.
    pub cause: Cause,
}

/// A decision, for metrics: also one that leaves the degree as it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision {
    /// When.
    pub at: Instant,
    /// Why.
    pub cause: Cause,
    /// The degree until then.
    pub from: Degree,
    /// The degree from then on.
    pub to: Degree,
    /// Final commits per second in the window that ended then.
    pub throughput: f64,
}

/// The present activity of the tuner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The degree is a static setting.
    Fixed,
    /// It looks for the best degree.
    Searching,
    /// It has found one, and watches.
    Settled,
    /// It has found one, and compares it with another.
    Probing,
}

impl Phase {
    /// The name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Fixed => "fixed",
            Phase::Searching => "searching",
            Phase::Settled => "settled",
            Phase::Probing => "probing",
        }
    }
}

/// The measurements of a degree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throughput {
    /// The degree.
    pub degree: Degree,
    /// Final commits per second.
    pub commits_per_second: f64,
    /// In how many windows that was measured.
    pub windows: u32,
}

/// The state of a tuner, for metrics and people.
#[derive(Clone, Debug, PartialEq)]
pub struct TunerState {
    /// Its activity.
    pub phase: Phase,
    /// The degree that is in use.
    pub degree: Degree,
    /// The degree that it has settled on, if it has.
    pub settled: Option<Degree>,
    /// How many windows were measured since the start.
    pub windows: u64,
    /// How long a window is now.
    pub window: Duration,
    /// The median final latency, once one is known.
    pub final_latency: Option<Duration>,
    /// The throughput of each degree that was measured since the search began, ascending.
    pub throughput: Vec<Throughput>,
    /// How many searches have begun.
    pub searches: u64,
    /// How many probes have begun since it settled.
    pub probes: u64,
    /// How many final commits these probes have cost.
    pub probe_cost: f64,
}

/// How a transaction ended for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It is final, so long after its first activation.
    Final(Duration),
    /// It is not, and is not tried again.
    GivenUp,
}

/// The purpose of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// To let chains get shorter by one on the way to a lesser degree.
    Lower,
    /// To let everything of the former degree drain.
    Skip,
    /// To count.
    Measure,
}

/// The window that is open.
#[derive(Clone, Copy, Debug)]
struct Window {
    purpose: Purpose,
    began: Instant,
    ends: Instant,
    arrivals: u64,
    ended: u64,
    commits: u64,
}

#[derive(Clone, Debug)]
enum Work {
    Nothing,
    Search(Box<Search>),
    Watch(Box<Settled>),
}

/// Chooses the degree of speculation.
#[derive(Clone, Debug)]
pub struct Tuner {
    config: TunerConfig,
    degree: Degree,
    /// Where the degree is on its way to.
    target: Degree,
    window: Window,
    /// How long windows are now.
    length: Duration,
    work: Work,
    latencies: Latencies,
    /// Final commits per second in the last window.
    throughput: f64,
    has_load: bool,
    windows: u64,
    searches: u64,
    decisions: VecDeque<Decision>,
    /// How often something was decided, in the order of [`Cause::ALL`].
    decided: [u64; Cause::ALL.len()],
}

impl Tuner {
    /// A tuner that begins now. The first window counts nowhere.
    ///
    /// # Errors
    /// The settings are out of bounds.
    pub fn new(config: TunerConfig, now: Instant) -> Result<Self, InvalidTuner> {
        config.validate()?;
        let (degree, work, searches) = match config.setting {
            Setting::Fixed(degree) => (degree, Work::Nothing, 0),
            _ if config.highest() == Degree::NONE => (Degree::NONE, Work::Nothing, 0),
            _ => (Degree::NONE, Work::Search(Box::new(Search::new(Degree::NONE))), 1),
        };
        let (arrivals, ended, commits) = (0, 0, 0);
        let ends = now + config.window_min;
        Ok(Tuner {
            degree,
            target: degree,
            window: Window { purpose: Purpose::Skip, began: now, ends, arrivals, ended, commits },
            length: config.window_min,
            work,
            latencies: Latencies::new(),
            throughput: 0.0,
            has_load: false,
            windows: 0,
            searches,
            decisions: VecDeque::new(),
            decided: [0; Cause::ALL.len()],
            config,
        })
    }

    /// The degree that transactions and chains that begin now may go to.
    pub fn degree(&self) -> Degree {
        self.degree
    }

    /// True if so much becomes final that degrees can be told apart. Where there is less to do, speculation costs nothing, and its
    /// host had better allow all of it.
    pub fn has_load(&self) -> bool {
        self.has_load
    }

    /// A window has ended in which so much became final. A single commit in a short window says nothing of the load; windows become longer until it
    /// does.
    fn note_load(&mut self, commits: u64) {
        let least = self.config.commits_per_window_min;
        if self.throughput * self.config.window_max.as_secs_f64() < f64::from(least) {
            self.has_load = false;
        } else if commits >= u64::from(least / LOAD_PARTS) {
            self.has_load = true;
        }
    }

    /// When the host is to call [`Tuner::on_tick`] next.
    pub fn next_tick(&self) -> Instant {
        self.window.ends
    }

    /// A transaction was begun: its first attempt. A later attempt is no arrival.
    pub fn on_arrival(&mut self) {
        self.window.arrivals += 1;
    }

    /// A transaction has ended for good; called once for each arrival.
    pub fn on_ended(&mut self, ended: Ended) {
        self.window.ended += 1;
        if let Ended::Final(latency) = ended {
            self.window.commits += 1;
            self.latencies.add(latency);
        }
    }

    /// Ends the window if it is time, and says whether the degree changes. A host that calls late makes that window longer, and one that calls early
    /// changes nothing.
    pub fn on_tick(&mut self, now: Instant) -> Option<Change> {
        if now < self.window.ends {
            return None;
        }
        let window = self.window;
        assert!(window.commits <= window.ended, "{} of {} commits", window.commits, window.ended);
        let seconds = (now - window.began).as_secs_f64();
        self.throughput = window.commits as f64 / seconds;
        if window.purpose != Purpose::Lower {
            self.note_load(window.commits);
        }
        self.adapt();
        let change = match window.purpose {
            Purpose::Lower => self.lower(now),
            Purpose::Skip => {
                if let Work::Watch(settled) = &mut self.work {
                    settled.on_skipped(window.commits, seconds);
                }
                self.open(Purpose::Measure, now);
                None
            }
            // Nobody wants anything: that says nothing of any degree.
            Purpose::Measure if window.arrivals == 0 && window.ended == 0 => {
                self.open(Purpose::Measure, now);
                None
            }
            Purpose::Measure => {
                self.windows += 1;
                let arrivals = (window.arrivals as f64 / seconds, window.arrivals);
                self.measured((self.throughput, window.commits), arrivals, seconds, now)
            }
        };
        assert!(self.window.ends > now, "a window was opened that had ended");
        change
    }

    /// The decisions since the last call, oldest first; of many the latest.
    pub fn take_decisions(&mut self) -> impl Iterator<Item = Decision> + use<> {
        std::mem::take(&mut self.decisions).into_iter()
    }

    /// Its activity, and its measurements.
    pub fn state(&self) -> TunerState {
        let (phase, settled) = match &self.work {
            Work::Nothing => (Phase::Fixed, Some(self.degree)),
            Work::Search(_) => (Phase::Searching, None),
            Work::Watch(settled) if settled.is_probing() => (Phase::Probing, Some(settled.degree)),
            Work::Watch(settled) => (Phase::Settled, Some(settled.degree)),
        };
        let sample = |degree: Degree| match &self.work {
            Work::Nothing => Sample::default(),
            Work::Search(search) => search.measured(degree),
            Work::Watch(settled) => settled.known(degree),
        };
        let known = |degree| {
            let Sample { windows, mean, .. } = sample(degree);
            (windows > 0).then_some(Throughput { degree, commits_per_second: mean, windows })
        };
        let (probes, probe_cost) = match &self.work {
            Work::Watch(settled) => (settled.probes, settled.cost),
            _ => (0, 0.0),
        };
        TunerState {
            phase,
            degree: self.degree,
            settled,
            windows: self.windows,
            window: self.length,
            final_latency: self.latencies.median(),
            throughput: Degree::HIGHEST.up_to().filter_map(known).collect(),
            searches: self.searches,
            probes,
            probe_cost,
        }
    }

    /// Its activity, for metrics; its host lets transactions go to `degree` now.
    pub fn tuning(&self, degree: Degree) -> Tuning {
        let state = self.state();
        let latest = self.decisions.iter().skip(self.decisions.len().saturating_sub(Tuning::LATEST_MAX));
        let latest = latest.map(|decision| TuningDecision {
            at: decision.at,
            cause: decision.cause.name(),
            from: decision.from.rung(),
            to: decision.to.rung(),
            commits_per_second: decision.throughput,
        });
        Tuning {
            degree: degree.rung(),
            settled: state.settled.map(Degree::rung),
            phase: state.phase.name(),
            commits_per_second: self.throughput,
            window: state.window,
            final_latency: state.final_latency,
            windows: state.windows,
            searches: state.searches,
            probes: state.probes,
            probe_cost: state.probe_cost,
            decided: Cause::ALL.iter().map(|cause| cause.name()).zip(self.decided).collect(),
            latest: latest.collect(),
        }
    }

    /// A window was measured: the search or the watch says what comes next.
    fn measured(
        &mut self,
        commits: (f64, u64),
        arrivals: (f64, u64),
        seconds: f64,
        now: Instant,
    ) -> Option<Change> {
        match &mut self.work {
            Work::Nothing => self.go_to(self.degree, Cause::Settle, now),
            Work::Search(search) => match search.on_window(commits, arrivals, &self.config) {
                Step::Measure(degree) => self.go_to(degree, Cause::Search, now),
                Step::Void => {
                    let again = search.again();
                    self.search(again, Cause::SearchWasVoid, now)
                }
                Step::Found(degree) => {
                    let settled = Settled::new(degree, search, &self.config);
                    self.work = Work::Watch(Box::new(settled));
                    if degree == self.degree {
                        self.note(Cause::Settle, degree, now);
                    }
                    self.go_to(degree, Cause::Settle, now)
                }
            },
            Work::Watch(settled) => {
                let degree = settled.degree;
                match settled.on_window(commits, arrivals, seconds, &self.config) {
                    Watch::Stay(next) if next == degree => self.go_to(degree, Cause::Return, now),
                    Watch::Stay(next) => self.go_to(next, Cause::Probe, now),
                    Watch::LoadChanged => self.search(Search::new(degree), Cause::LoadChanged, now),
                    Watch::ThroughputChanged => {
                        self.search(Search::new(degree), Cause::ThroughputChanged, now)
                    }
                    Watch::Better(better) => self.search(Search::new(better), Cause::ProbeWasBetter, now),
                }
            }
        }
    }

    /// Begins a search.
    fn search(&mut self, search: Search, cause: Cause, now: Instant) -> Option<Change> {
        self.searches += 1;
        let degree = search.degree();
        self.work = Work::Search(Box::new(search));
        if degree == self.degree {
            self.note(cause, degree, now);
        }
        self.go_to(degree, cause, now)
    }

    /// Goes to a degree: at once if it is a greater one, step by step if it is a lesser one.
    fn go_to(&mut self, target: Degree, cause: Cause, now: Instant) -> Option<Change> {
        assert!(target <= self.config.highest(), "{target} is not among the degrees that may be chosen");
        self.target = target;
        if target == self.degree {
            self.open(Purpose::Measure, now);
            return None;
        }
        let next = if target > self.degree { Some(target) } else { self.degree.lower() };
        next.map(|next| self.change(next, cause, now))
    }

    /// Takes the next step toward a lesser degree, or lets the last one drain.
    fn lower(&mut self, now: Instant) -> Option<Change> {
        match self.degree.lower().filter(|_| self.degree > self.target) {
            Some(lower) => Some(self.change(lower, Cause::Lower, now)),
            None => {
                self.open(Purpose::Skip, now);
                None
            }
        }
    }

    fn change(&mut self, to: Degree, cause: Cause, now: Instant) -> Change {
        assert!(to != self.degree, "the degree {to} is left for itself");
        assert!(
            to > self.degree || Some(to) == self.degree.lower(),
            "{to} is not the next one below {}",
            self.degree
        );
        let change = Change { from: self.degree, to, cause };
        self.note(cause, to, now);
        self.degree = to;
        self.open(if to > self.target { Purpose::Lower } else { Purpose::Skip }, now);
        change
    }

    fn note(&mut self, cause: Cause, to: Degree, at: Instant) {
        if let Some(place) = Cause::ALL.iter().position(|known| *known == cause) {
            self.decided[place] += 1;
        }
        if self.decisions.len() == DECISIONS_MAX {
            self.decisions.pop_front();
        }
        self.decisions.push_back(Decision { at, cause, from: self.degree, to, throughput: self.throughput });
        assert!(self.decisions.len() <= DECISIONS_MAX, "{} decisions are kept", self.decisions.len());
    }

    fn open(&mut self, purpose: Purpose, now: Instant) {
        let parts = if purpose == Purpose::Lower { LOWERING_PARTS } else { 1 };
        let length = self.length / parts;
        let (arrivals, ended, commits) = (0, 0, 0);
        let ends = now + length.max(Duration::from_nanos(1));
        self.window = Window { purpose, began: now, ends, arrivals, ended, commits };
    }

    /// A window has ended: the next ones are as long as latencies and throughput ask for. They are no more than twice as long as the last one,
    /// and not longer at all beside a probe, because a degree that stops everything is not to be studied for long.
    fn adapt(&mut self) {
        let TunerConfig { window_min, window_max, latencies_per_window, commits_per_window_min, .. } =
            self.config;
        let median = self.latencies.median();
        self.latencies.age();
        if matches!(&self.work, Work::Watch(settled) if settled.is_probing()) {
            return;
        }
        let by_latency = median.map_or(window_min, |median| median.saturating_mul(latencies_per_window));
        let by_commits = match f64::from(commits_per_window_min) / self.throughput {
            seconds if seconds < window_max.as_secs_f64() => Duration::from_secs_f64(seconds),
            // Nothing commits, which longer windows do not change.
            seconds if seconds.is_infinite() || seconds.is_nan() => window_min,
            _ => window_max,
        };
        let wanted = by_latency.max(by_commits).clamp(window_min, window_max);
        self.length = wanted.min(self.length.saturating_mul(2));
        assert!(
            (window_min..=window_max).contains(&self.length),
            "windows last {:?}, and may from {window_min:?} to {window_max:?}",
            self.length
        );
    }
}
