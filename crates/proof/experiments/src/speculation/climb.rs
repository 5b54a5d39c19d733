//! Systems with more and more clients, up to the peak of the fastest.

use super::System;
use crate::catalogue::Settings;
use crate::load::Measured;
use crate::report::{Row, Runs};

/// Further clients bring little where throughput rises by less than this.
const LITTLE: f64 = 1.05;

/// A system, with more and more clients.
#[derive(Default)]
pub(super) struct Climb {
    throughputs: Vec<f64>,
    few: Option<Few>,
}

/// The numbers of a system with the fewest clients.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Few {
    /// The median final latency, in milliseconds.
    pub(super) final_ms: f64,
    /// The median final latency ÷ the median perceived one.
    pub(super) shown_earlier: f64,
}

impl Climb {
    /// The greatest throughput.
    pub(super) fn peak(&self) -> f64 {
        self.throughputs.iter().copied().fold(0.0, f64::max)
    }

    /// True once further clients bring little more.
    fn has_peaked(&self) -> bool {
        let Some((last, before)) = self.throughputs.split_last() else { return false };
        !before.is_empty() && *last < LITTLE * before.iter().copied().fold(0.0, f64::max)
    }

    fn add(&mut self, runs: &Runs) {
        self.throughputs.push(runs.mean(Measured::throughput));
        let measured = || Few {
            final_ms: runs.mean(|run| run.latency_ms(0.5)),
            shown_earlier: runs.mean(|run| run.latency_ms(0.5) / run.perceived_ms(0.5)),
        };
        self.few.get_or_insert_with(measured);
    }
}

/// All four systems, with more and more clients.
#[derive(Default)]
pub(super) struct Climbs([Climb; 4]);

impl Climbs {
    /// Measures all systems with so many clients of each node, one number after the other, until the fastest has peaked. The rows of the figure are added.
    pub(super) fn measure(
        name: &str,
        sessions: &[usize],
        rows: &mut Vec<Row>,
        settings: &mut Settings<'_>,
        mut run: impl FnMut(System, usize, u64) -> Measured,
    ) -> Self {
        let mut climbs = Climbs::default();
        for sessions in sessions.iter().copied() {
            for system in System::ALL {
                settings.say(&format!("{name}, {sessions} clients, {system}"));
                let runs = settings.measure(|seed| run(system, sessions, seed));
                rows.extend(rows_of(name, system, sessions, &runs));
                climbs.0[system as usize].add(&runs);
            }
            if climbs.has_peaked() {
                break;
            }
        }
        climbs
    }

    fn of(&self, system: System) -> &Climb {
        &self.0[system as usize]
    }

    /// The peak of a system ÷ that of the better rival.
    pub(super) fn gain(&self, system: System) -> f64 {
        let rivals = [System::ClockSi, System::Planet].map(|rival| self.of(rival).peak());
        self.of(system).peak() / rivals[0].max(rivals[1])
    }

    /// The peak of the better variant of STR ÷ that of the better rival.
    pub(super) fn gain_of_str(&self) -> f64 {
        self.gain(System::Internal).max(self.gain(System::External))
    }

    /// A system with the fewest clients.
    pub(super) fn few(&self, system: System) -> Few {
        self.of(system).few.unwrap_or_default()
    }

    /// True once further clients bring little more to the fastest.
    fn has_peaked(&self) -> bool {
        let fastest = self.0.iter().max_by(|one, other| one.peak().total_cmp(&other.peak()));
        fastest.is_some_and(Climb::has_peaked)
    }

    /// A sentence about a sweep that ends too early, if it does.
    pub(super) fn unpeaked_sentence(&self, name: &str) -> Option<String> {
        (!self.has_peaked()).then(|| format!("{name}: the sweep ends before the fastest has peaked."))
    }
}

/// The points of a system with so many clients.
pub(super) fn rows_of(name: &str, system: System, sessions: usize, runs: &Runs) -> Vec<Row> {
    let (x, name) = (sessions as f64, format!("{name}, {system}"));
    let mut rows = vec![
        runs.row(format!("{name}, throughput"), x, "1/s", Measured::throughput),
        runs.row(format!("{name}, aborts"), x, "%", |run| 100.0 * run.abort_rate()),
        runs.row(format!("{name}, final latency"), x, "ms", |run| run.latency_ms(0.5)),
    ];
    if matches!(system, System::Planet | System::External) {
        rows.push(runs.row(format!("{name}, perceived latency"), x, "ms", |run| run.perceived_ms(0.5)));
        let shown_in_vain = |run: &Measured| 100.0 * run.misspeculation_rate();
        rows.push(runs.row(format!("{name}, external misspeculation"), x, "%", shown_in_vain));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_climb_ends_where_throughput_rises_no_more() {
        let climb = |throughputs: &[f64]| Climb { throughputs: throughputs.to_vec(), few: None };
        assert!(!climb(&[]).has_peaked() && !climb(&[10.0]).has_peaked());
        assert!(!climb(&[10.0, 20.0]).has_peaked());
        assert!(climb(&[10.0, 20.0, 20.9]).has_peaked() && climb(&[10.0, 20.0, 15.0]).has_peaked());
        assert_eq!(climb(&[10.0, 20.0, 15.0]).peak(), 20.0);
    }

    #[test]
    fn a_gain_is_over_the_better_rival() {
        let mut climbs = Climbs::default();
        for (climb, throughput) in climbs.0.iter_mut().zip([10.0, 20.0, 30.0, 50.0]) {
            climb.throughputs = vec![throughput, throughput];
        }
        assert_eq!((climbs.gain(System::Internal), climbs.gain_of_str()), (1.5, 2.5));
        assert!(climbs.has_peaked());
        climbs.0[3].throughputs.push(60.0);
        assert!(!climbs.has_peaked(), "the fastest still rises");
    }
}
