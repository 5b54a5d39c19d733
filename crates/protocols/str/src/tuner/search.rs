//! The search for the best degree: hill climbing over measured samples.

use super::config::TunerConfig;
use super::degree::Degree;
use super::statistics::{Comparison, Sample, variance};

/// So many searches in a row may be void; what the next one finds is taken as it is.
const VOIDS_MAX: u32 = 2;

/// The samples of each degree, by its place on the ladder.
pub(super) type Samples = [Sample; Degree::COUNT];

/// How far a search has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// No speculation: the others are compared with it.
    Reference,
    /// The degree at which the search starts, if that is another.
    Start,
    /// Upward.
    Up(Degree),
    /// Downward.
    Down(Degree),
    /// This one again: it may be the best, and has had less windows than others.
    Refine(Degree),
    /// No speculation once more, before the degree that was found.
    TrialOfNone(Degree),
    /// The degree that was found, once more.
    Trial(Degree),
}

/// How a search goes on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Step {
    /// With another window at this degree.
    Measure(Degree),
    /// It has found this degree.
    Found(Degree),
    /// The load changed meanwhile: what was measured says nothing.
    Void,
}

/// A search under way.
#[derive(Clone, Debug)]
pub(super) struct Search {
    start: Degree,
    stage: Stage,
    pub(super) samples: Samples,
    /// The windows of the trial: no speculation, and the degree that was found.
    trial: [Sample; 2],
    /// The arrivals in the windows of each degree.
    pub(super) arrivals: Samples,
    /// So many searches in a row were void before this one.
    voids: u32,
}

impl Search {
    /// A search that starts at this degree.
    pub(super) fn new(start: Degree) -> Self {
        let (samples, arrivals, trial) = Default::default();
        Search { start, stage: Stage::Reference, samples, trial, arrivals, voids: 0 }
    }

    /// The search that takes the place of one that is void.
    pub(super) fn again(&self) -> Self {
        Search { voids: self.voids + 1, ..Search::new(self.start) }
    }

    /// The degree that is measured now.
    pub(super) fn degree(&self) -> Degree {
        match self.stage {
            Stage::Reference | Stage::TrialOfNone(_) => Degree::NONE,
            Stage::Start => self.start,
            Stage::Up(degree) | Stage::Down(degree) | Stage::Refine(degree) | Stage::Trial(degree) => degree,
        }
    }

    /// The measurements of a degree.
    pub(super) fn measured(&self, degree: Degree) -> Sample {
        match self.stage {
            _ if degree == Degree::NONE => self.none(),
            // The first windows were those of a winner, and flatter it.
            Stage::TrialOfNone(tried) | Stage::Trial(tried)
                if degree == tried && self.trial[1].windows > 0 =>
            {
                self.trial[1]
            }
            _ => self.samples[degree.index()],
        }
    }

    /// Takes in a window of the degree that is measured now.
    pub(super) fn on_window(
        &mut self,
        commits: (f64, u64),
        arrivals: (f64, u64),
        config: &TunerConfig,
    ) -> Step {
        let degree = self.degree();
        let sample = match self.stage {
            Stage::TrialOfNone(_) => &mut self.trial[0],
            Stage::Trial(_) => &mut self.trial[1],
            _ => &mut self.samples[degree.index()],
        };
        sample.add(commits.0, commits.1);
        assert!(
            sample.windows <= 4 * config.windows_max,
            "{degree} was measured in {} windows, and {} are enough",
            sample.windows,
            config.windows_max
        );
        self.arrivals[degree.index()].add(arrivals.0, arrivals.1);
        if self.is_enough(config) { self.go_on(config) } else { Step::Measure(degree) }
    }

    fn variance(&self, config: &TunerConfig) -> f64 {
        variance(self.samples.iter().chain(&self.trial), config.noise_expected)
    }

    fn compare(&self, one: &Sample, other: &Sample, config: &TunerConfig) -> Comparison {
        Comparison::of(one, other, self.variance(config))
    }

    /// No speculation, in all its windows: they are alike, or the search would be void.
    fn none(&self) -> Sample {
        self.samples[Degree::NONE.index()].with(&self.trial[0])
    }

    /// The degree whose windows were best so far.
    fn best(&self) -> Degree {
        let measured = Degree::HIGHEST.up_to().filter(|degree| self.samples[degree.index()].windows > 0);
        measured.fold(Degree::NONE, |best, degree| {
            let is_better = self.samples[degree.index()].mean > self.samples[best.index()].mean;
            if is_better { degree } else { best }
        })
    }

    /// The best degree other than this one.
    fn rival(&self, degree: Degree) -> &Sample {
        let others = Degree::HIGHEST.up_to().filter(|other| *other != degree);
        let samples = others.map(|other| &self.samples[other.index()]);
        samples.fold(
            &self.samples[Degree::NONE.index()],
            |best, sample| {
                if sample.mean > best.mean { sample } else { best }
            },
        )
    }

    /// True if the degree that is measured now is known well enough: clearly better or worse than what it competes with, or as precisely
    /// as is asked for, or in as many windows as are granted.
    fn is_enough(&self, config: &TunerConfig) -> bool {
        let reference_min = config.windows_min.max(config.windows_max / 4);
        // The trial decides, so it is finer.
        let is_trial = matches!(self.stage, Stage::TrialOfNone(_) | Stage::Trial(_));
        let resolution = if is_trial { config.tolerance } else { config.resolution };
        let (sample, rival, windows_max) = match self.stage {
            // The trial knows more of it.
            Stage::Reference => return self.samples[Degree::NONE.index()].windows >= reference_min,
            Stage::TrialOfNone(_) if self.trial[0].windows < reference_min => return false,
            Stage::TrialOfNone(found) => (self.trial[0], self.measured(found), 2 * config.windows_max),
            Stage::Trial(_) => (self.trial[1], self.none(), 2 * config.windows_max),
            Stage::Start | Stage::Up(_) | Stage::Down(_) | Stage::Refine(_) => {
                let degree = self.degree();
                (self.samples[degree.index()], *self.rival(degree), config.windows_max)
            }
        };
        let compared = self.compare(&sample, &rival, config);
        let doubt = config.significance * compared.error;
        let is_hopeless = sample.mean < rival.mean / 2.0 && compared.difference < -doubt;
        let is_clear = compared.difference.abs() >= doubt + config.tolerance || doubt <= resolution;
        is_hopeless || sample.windows >= config.windows_min && is_clear || sample.windows >= windows_max
    }

    /// True if one degree is worse than another beyond doubt.
    fn is_below(&self, degree: Degree, other: Degree, config: &TunerConfig) -> bool {
        let compared = self.compare(&self.samples[degree.index()], &self.samples[other.index()], config);
        compared.difference < -config.tolerance - config.significance * compared.error
    }

    /// The degree that is measured now is known.
    fn go_on(&mut self, config: &TunerConfig) -> Step {
        let highest = config.highest();
        match self.stage {
            Stage::Reference if self.start == Degree::NONE => self.climb(highest, config),
            Stage::Reference => self.enter(Stage::Start),
            Stage::Start if self.is_below(self.start, Degree::NONE, config) => {
                // With one maximum, that lies below.
                self.start = Degree::NONE;
                self.climb(highest, config)
            }
            Stage::Start => self.climb(highest, config),
            Stage::Up(degree) => {
                let goes_on = degree < highest && !self.is_below(degree, self.best(), config);
                match degree.higher().filter(|_| goes_on) {
                    Some(higher) => self.enter(Stage::Up(higher)),
                    None => self.turn(config),
                }
            }
            Stage::Down(degree) => self.descend(degree, config),
            Stage::Refine(_) => self.choose(config),
            Stage::TrialOfNone(found) => {
                if self.is_void(config) {
                    if self.voids < VOIDS_MAX {
                        return Step::Void;
                    }
                    // The load does not come to rest: what is compared last is what is closest in time.
                    self.samples[Degree::NONE.index()] = Sample::default();
                }
                self.enter(Stage::Trial(found))
            }
            Stage::Trial(found) => {
                let compared = self.compare(&self.trial[1], &self.none(), config);
                let doubt = config.significance * compared.error;
                let is_open =
                    compared.difference.abs() < doubt + config.tolerance && doubt > config.tolerance;
                match compared.difference - doubt > -config.loss_allowed {
                    true => Step::Found(found),
                    false if is_open && self.trial[0].windows < 2 * config.windows_max => {
                        self.enter(Stage::TrialOfNone(found))
                    }
                    false => Step::Found(Degree::NONE),
                }
            }
        }
    }

    fn enter(&mut self, stage: Stage) -> Step {
        if let Stage::TrialOfNone(found) | Stage::Trial(found) = stage {
            assert!(found > Degree::NONE, "{found} is compared with itself");
        }
        self.stage = stage;
        Step::Measure(self.degree())
    }

    /// The first step upward from the start.
    fn climb(&mut self, highest: Degree, config: &TunerConfig) -> Step {
        match self.start.higher().filter(|higher| *higher <= highest) {
            Some(higher) => self.enter(Stage::Up(higher)),
            None => self.turn(config),
        }
    }

    /// Upward it does not get better. It may downward, unless upward was better than the start.
    fn turn(&mut self, config: &TunerConfig) -> Step {
        let improved = self.best() > self.start && self.is_below(self.start, self.best(), config);
        if improved { self.choose(config) } else { self.descend(self.start, config) }
    }

    /// The next step downward, unless this degree was clearly worse than the best.
    fn descend(&mut self, from: Degree, config: &TunerConfig) -> Step {
        let goes_on = from == self.start || !self.is_below(from, self.best(), config);
        match from.lower().filter(|lower| goes_on && *lower > Degree::NONE) {
            Some(lower) => self.enter(Stage::Down(lower)),
            None => self.choose(config),
        }
    }

    /// A local maximum is known. Of degrees that are alike the lowest is chosen, or the highest if losses are allowed for it.
    fn choose(&mut self, config: &TunerConfig) -> Step {
        if let Some(doubtful) = self.doubtful(config) {
            return self.enter(Stage::Refine(doubtful));
        }
        let best = self.samples[self.best().index()].mean;
        let is_alike = |degree: &Degree| {
            let sample = &self.samples[degree.index()];
            sample.windows > 0 && sample.mean >= best * (1.0 - config.tolerance)
        };
        let mut alike = Degree::HIGHEST.up_to().filter(is_alike);
        let chosen = if config.loss_allowed > 0.0 { alike.next_back() } else { alike.next() };
        match chosen {
            None | Some(Degree::NONE) => Step::Found(Degree::NONE),
            Some(found) => self.enter(Stage::TrialOfNone(found)),
        }
    }

    /// Of the degrees that may be the best one that has had the fewest windows, if that is for want of windows. A degree that seems better than
    /// none has the trial before it.
    fn doubtful(&self, config: &TunerConfig) -> Option<Degree> {
        let best = self.best();
        let may_be_best = |degree: &Degree| {
            let sample = &self.samples[degree.index()];
            let compared = self.compare(sample, &self.samples[best.index()], config);
            let doubt = config.significance * compared.error;
            let is_clear = compared.difference < -doubt - config.tolerance || doubt <= config.resolution;
            sample.windows > 0 && *degree != best && *degree != Degree::NONE && !is_clear
        };
        let rivals: Vec<Degree> = Degree::HIGHEST.up_to().filter(may_be_best).collect();
        let has_rivals = !rivals.is_empty();
        let candidates = rivals.into_iter().chain(has_rivals.then_some(best));
        let windows = |degree: &Degree| self.samples[degree.index()].windows;
        candidates.filter(|degree| windows(degree) < config.windows_max).min_by_key(windows)
    }

    /// True if no speculation is not what it was when the search began.
    fn is_void(&self, config: &TunerConfig) -> bool {
        let compared = self.compare(&self.trial[0], &self.samples[Degree::NONE.index()], config);
        compared.difference.abs() > config.load_shift / 2.0 + config.significance * compared.error
    }
}

#[cfg(test)]
mod tests;
