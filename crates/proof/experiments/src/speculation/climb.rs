//! Systems with more and more clients, each until its own peak has passed.

use super::{SEEDS, System};
use crate::catalogue::Settings;
use crate::load::Measured;
use crate::report::{Row, Runs};

/// Further clients bring little where throughput rises by less than this.
const LITTLE: f64 = 1.05;

/// A point is well below the peak where it has less than this share of it. Medians over three seeds do not differ by so much.
const WELL_BELOW: f64 = 0.8;

/// A system, with more and more clients.
#[derive(Clone, Debug, Default)]
pub(super) struct Climb {
    /// Clients of each node, and the median throughput.
    points: Vec<(usize, f64)>,
}

impl Climb {
    /// The greatest throughput.
    pub(super) fn peak(&self) -> f64 {
        greatest(&self.points)
    }

    /// Clients of each node at the peak.
    fn clients(&self) -> usize {
        let peak = self.points.iter().max_by(|one, other| one.1.total_cmp(&other.1));
        peak.map_or(0, |(sessions, _)| *sessions)
    }

    /// True if there are lower points with fewer clients and with more.
    fn is_bracketed(&self) -> bool {
        let ends = [self.points.first(), self.points.last()];
        ends.into_iter().all(|end| end.is_some_and(|(_, throughput)| *throughput < self.peak()))
    }

    /// True once two further points have brought little more, or the last one is well below the peak. One point that brings little is not enough: it may be noise.
    fn has_peaked(&self) -> bool {
        let Some((last, _)) = self.points.split_last() else { return false };
        let before = &self.points[..self.points.len().saturating_sub(2)];
        let brings_little = !before.is_empty() && self.peak() < LITTLE * greatest(before);
        brings_little || last.1 < WELL_BELOW * self.peak()
    }
}

fn greatest(points: &[(usize, f64)]) -> f64 {
    points.iter().map(|(_, throughput)| *throughput).fold(0.0, f64::max)
}

/// Systems with more and more clients.
#[derive(Debug, Default)]
pub(super) struct Climbs([Climb; System::ALL.len()]);

impl Climbs {
    /// Measures these systems with so many clients of each node, one number after the other. Each system has a list of numbers, and leaves once it has peaked.
    /// The rows of the figure are added.
    pub(super) fn measure(
        name: &str,
        lists: &[(System, &[usize])],
        rows: &mut Vec<Row>,
        settings: &mut Settings<'_>,
        run: impl Fn(System, usize, u64) -> Measured + Sync,
    ) -> Self {
        let mut climbs = Climbs::default();
        for at in 0.. {
            let next = |(system, list): &(System, &[usize])| {
                let sessions = list.get(at).filter(|_| !climbs.of(*system).has_peaked());
                sessions.map(|sessions| (*system, *sessions))
            };
            let points: Vec<(System, usize)> = lists.iter().filter_map(next).collect();
            if points.is_empty() {
                break;
            }
            let told = |(system, sessions): &(System, usize)| format!("{name}, {sessions} clients, {system}");
            let all = settings
                .measure_all(SEEDS, &points, told, |(system, sessions), seed| run(*system, *sessions, seed));
            for ((system, sessions), runs) in points.into_iter().zip(all) {
                rows.extend(rows_of(name, system, sessions, &runs));
                climbs.0[system as usize].points.push((sessions, runs.median(Measured::throughput)));
            }
        }
        climbs
    }

    pub(super) fn of(&self, system: System) -> &Climb {
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

    /// Where the peaks are, in a sentence, and whether the sweep goes beyond them on both sides.
    pub(super) fn sentence(&self, name: &str) -> String {
        let measured = || System::ALL.into_iter().filter(|system| !self.of(*system).points.is_empty());
        let peak = |system| {
            let climb = self.of(system);
            format!("{system} {:.0}/s with {} clients of each node", climb.peak(), climb.clients())
        };
        let peaks: Vec<String> = measured().map(peak).collect();
        let open = measured().filter(|system| !self.of(*system).is_bracketed());
        let open: Vec<String> = open.map(|system| system.to_string()).collect();
        let rest = match open.is_empty() {
            true => "Each has less with fewer clients, and with more".to_owned(),
            false => format!("The sweep ends before the peak of {}", open.join(" and ")),
        };
        format!("{name}, peaks: {}. {rest}.", peaks.join(", "))
    }
}

/// The points of a system with so many clients.
pub(super) fn rows_of(name: &str, system: System, sessions: usize, runs: &Runs) -> Vec<Row> {
    let row = |unit, of: &dyn Fn(&Measured) -> f64| {
        runs.median_row(system.to_string(), sessions as f64, unit, of).in_panel(name.to_owned())
    };
    let mut rows = vec![
        row("1/s", &Measured::throughput),
        row("% aborted", &|run| 100.0 * run.abort_rate()),
        row("% aborted, of those after ten aborts", &|run| 100.0 * run.starved_rate()),
        row("ms, final latency", &|run| run.latency_ms(0.5)),
        row("% of the time, busiest processor", &|run| 100.0 * run.busiest_server()),
    ];
    if matches!(system, System::Planet | System::External) {
        rows.push(row("ms, perceived latency", &|run| run.perceived_ms(0.5)));
        rows.push(row("% misspeculated, external", &|run| 100.0 * run.misspeculation_rate()));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workers::InOrder;

    fn climb(throughputs: &[f64]) -> Climb {
        Climb { points: (1..).zip(throughputs.iter().copied()).collect() }
    }

    #[test]
    fn a_climb_ends_where_two_further_points_bring_little_or_one_is_well_below() {
        for goes_on in [
            &[][..],
            &[10.0],
            &[10.0, 20.0],
            // Either of these may be noise.
            &[10.0, 20.0, 20.9],
            &[10.0, 20.0, 17.0],
            // After a point that brings little the next one may bring more.
            &[10.0, 20.0, 19.0, 25.0],
            // So may two that bring little each.
            &[10.0, 20.0, 20.8, 21.6],
        ] {
            assert!(!climb(goes_on).has_peaked(), "{goes_on:?}");
        }
        for ends in [
            &[10.0, 20.0, 15.0][..],
            &[10.0, 20.0, 20.9, 20.5],
            &[10.0, 20.0, 18.0, 19.0],
            &[10.0, 20.0, 19.0, 15.0],
        ] {
            assert!(climb(ends).has_peaked(), "{ends:?}");
        }
        let peaked = climb(&[10.0, 20.0, 15.0]);
        assert_eq!((peaked.peak(), peaked.clients()), (20.0, 2));
        assert!(peaked.is_bracketed());
        assert!(!climb(&[10.0, 20.0]).is_bracketed() && !climb(&[20.0, 15.0]).is_bracketed());
    }

    /// The throughput is that of a system which peaks with so many clients.
    fn peaking_at(peak: usize, sessions: usize) -> Measured {
        let committed = if sessions <= peak { sessions } else { peak / 2 };
        Measured { committed: committed as u64, seconds: 1.0, ..Measured::default() }
    }

    #[test]
    fn each_system_leaves_once_it_has_peaked() {
        let mut progress = |_: &str| {};
        let mut settings = Settings { quick: true, progress: &mut progress, workers: &InOrder };
        let list: &[usize] = &[10, 20, 40, 80, 160];
        let mut rows = Vec::new();
        let lists = [(System::ClockSi, list), (System::External, &list[..4]), (System::Planet, list)];
        let climbs = Climbs::measure("n", &lists, &mut rows, &mut settings, |system, sessions, _| {
            peaking_at(if system == System::ClockSi { 20 } else { 80 }, sessions)
        });
        let numbers = |system| climbs.of(system).points.iter().map(|(sessions, _)| *sessions).collect();
        let [plain, external, planet]: [Vec<usize>; 3] =
            [System::ClockSi, System::External, System::Planet].map(numbers);
        assert_eq!((plain, external), (vec![10, 20, 40], vec![10, 20, 40, 80]));
        assert_eq!((&planet[..], climbs.of(System::Planet).clients()), (list, 80));
        assert_eq!((climbs.gain(System::External), climbs.gain(System::ClockSi)), (1.0, 0.25));
        let sentence = climbs.sentence("n");
        assert!(sentence.starts_with("n, peaks: clock-si 20/s with 20 clients of each node"), "{sentence}");
        assert!(sentence.ends_with("The sweep ends before the peak of str-external."), "{sentence}");
    }

    #[test]
    fn a_gain_is_over_the_better_rival() {
        let mut climbs = Climbs::default();
        for (at, throughput) in [10.0, 20.0, 30.0, 50.0].into_iter().enumerate() {
            climbs.0[at] = climb(&[throughput]);
        }
        assert_eq!((climbs.gain(System::Internal), climbs.gain_of_str()), (1.5, 2.5));
    }
}
