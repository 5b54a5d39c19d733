//! How a tuner is set up.

use std::time::Duration;

use thiserror::Error;

use super::degree::Degree;

/// The degrees between which a tuner may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Always this one: a static setting.
    Fixed(Degree),
    /// None or speculative reads: users see final results only (STR-Internal).
    Internal,
    /// None, speculative reads, and chains of at most 1 to so many (STR-External).
    External {
        /// From 0 to [`Degree::CHAIN_MAX`].
        chain_max: u8,
    },
}

/// How a tuner is set up. Shares and noise are fractions of one.
#[derive(Clone, Debug, PartialEq)]
pub struct TunerConfig {
    /// The degrees between which it may choose.
    pub setting: Setting,
    /// No window is shorter,
    pub window_min: Duration,
    /// and none longer.
    pub window_max: Duration,
    /// A window lasts so many median final latencies,
    pub latencies_per_window: u32,
    /// and so long that this many final commits are expected in it.
    pub commits_per_window_min: u32,
    /// A degree is measured in at least so many windows,
    pub windows_min: u32,
    /// and in at most so many; in the trial, which decides, twice as many.
    pub windows_max: u32,
    /// Differences count that exceed their standard error so many times.
    pub significance: f64,
    /// Degrees whose throughput differs by less than this are alike.
    pub tolerance: f64,
    /// Differences below this need not be told apart: a degree is known once the doubt about it is less.
    pub resolution: f64,
    /// How far the throughput of a window is from the mean, before anything was measured.
    pub noise_expected: f64,
    /// A degree may be so far below no speculation, with significance, and is kept for the sake of the latency that users perceive. With
    /// zero only a degree that is better than none is ever kept.
    pub loss_allowed: f64,
    /// Probes of other degrees cost at most this share of the final commits.
    pub probe_share: f64,
    /// A probe measures so many windows, unless the other degree looks better.
    pub probe_windows: u32,
    /// Between probes lie at least so many windows.
    pub probe_gap_windows: u32,
    /// A change of the load by this share is to be noticed.
    pub load_shift: f64,
}

impl TunerConfig {
    /// For servers: a search ends within 480 windows, and within 30 to 300 where degrees differ.
    pub const fn new(setting: Setting) -> Self {
        TunerConfig {
            setting,
            window_min: Duration::from_millis(200),
            window_max: Duration::from_secs(60),
            latencies_per_window: 8,
            commits_per_window_min: 200,
            windows_min: 2,
            windows_max: 32,
            significance: 3.0,
            tolerance: 0.01,
            resolution: 0.02,
            noise_expected: 0.03,
            loss_allowed: 0.0,
            probe_share: 0.01,
            probe_windows: 2,
            probe_gap_windows: 32,
            load_shift: 0.2,
        }
    }

    /// For runs that last minutes: a search ends within 150 windows, each half as long. Noise of 2% is what it can
    /// bear; with more it may miss the best by more than 5%, and keeps nothing that is worse than none.
    pub const fn short(setting: Setting) -> Self {
        TunerConfig { latencies_per_window: 4, windows_max: 8, ..Self::new(setting) }
    }

    /// Checks that a tuner can work like this.
    ///
    /// # Errors
    /// The first setting that is out of bounds.
    pub fn validate(&self) -> Result<(), InvalidTuner> {
        if let Setting::External { chain_max } = self.setting
            && chain_max > Degree::CHAIN_MAX
        {
            return Err(InvalidTuner::ChainMax(chain_max));
        }
        let is_share = |share: f64, least: f64| (least..1.0).contains(&share);
        let bounds = [
            ("window_min", !self.window_min.is_zero() && self.window_min <= self.window_max),
            ("latencies_per_window", self.latencies_per_window >= 1),
            ("windows_min", 1 <= self.windows_min && self.windows_min <= self.windows_max),
            ("windows_max", self.windows_max <= 1 << 20),
            ("significance", (1.0..=100.0).contains(&self.significance)),
            ("tolerance", is_share(self.tolerance, 1e-6)),
            ("resolution", is_share(self.resolution, 1e-6)),
            ("noise_expected", is_share(self.noise_expected, 1e-6)),
            ("loss_allowed", is_share(self.loss_allowed, 0.0)),
            ("probe_share", is_share(self.probe_share, 0.0)),
            ("probe_windows", 1 <= self.probe_windows && self.probe_windows <= self.windows_max),
            ("load_shift", is_share(self.load_shift, 1e-3)),
        ];
        match bounds.into_iter().find(|(_, holds)| !holds) {
            Some((name, _)) => Err(InvalidTuner::OutOfBounds(name)),
            None => Ok(()),
        }
    }

    /// The greatest degree that it may choose.
    pub(super) fn highest(&self) -> Degree {
        match self.setting {
            Setting::Fixed(degree) => degree,
            Setting::Internal => Degree::READS,
            Setting::External { chain_max } => Degree::chains(chain_max).unwrap_or(Degree::HIGHEST),
        }
    }
}

/// A tuner cannot work like this.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidTuner {
    /// No chain is allowed to be so long.
    #[error("chains of speculative commits are at most {max} long, and {0} was asked for", max = Degree::CHAIN_MAX)]
    ChainMax(u8),
    /// This setting is out of bounds.
    #[error("the tuner's {0} is out of bounds")]
    OutOfBounds(&'static str),
}
