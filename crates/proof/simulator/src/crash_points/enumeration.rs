//! Every case of a configuration.

use quorate_tapir::Plant;

use super::case::{Aftermath, Case, CrashPoint};
use super::configuration::Configuration;
use super::execution::execute;
use super::report::{CrashPointReport, TaskReport};
use crate::world::steps::{Moment, Party, Step};
use crate::world::trace::TraceText;

/// Some cases of a configuration: those that begin with the same crash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// The one with no other crash.
    pub case: Case,
    /// The step of that crash.
    pub step: Step,
    /// True if each backup coordinator that it calls for is to crash as well, at each of its steps.
    pub then_backups: bool,
}

/// Every first crash of a configuration.
pub fn tasks(configuration: Configuration, plant: Option<Plant>) -> Vec<Task> {
    let calm = Case { configuration, plant, crashes: Vec::new() };
    let mut tasks = Vec::new();
    for step in distinct(execute(&calm, true, None).steps) {
        let aftermaths: &[Aftermath] = match step.party {
            Party::Client(_) => &[Aftermath::Stays, Aftermath::Returns],
            // One node less is all that a group of three survives.
            Party::Server(_) if configuration.lacks_node => &[],
            Party::Server(_) => &[Aftermath::Restarts, Aftermath::LosesPower],
        };
        for &aftermath in aftermaths {
            // A read leaves nothing to settle, and neither does a message that has not been sent.
            let leaves_work = step.coordinates && step.moment == Moment::AfterSend;
            let then_backups = aftermath == Aftermath::Stays && leaves_work;
            let crashes = vec![CrashPoint { step: step.number, aftermath }];
            let case = Case { crashes, ..calm.clone() };
            tasks.push(Task { case, step: step.clone(), then_backups });
        }
    }
    tasks
}

/// The steps at which a crash makes a difference.
fn distinct(steps: Vec<Step>) -> Vec<Step> {
    let mut distinct: Vec<Step> = Vec::with_capacity(steps.len());
    let mut last: Option<Step> = None;
    for step in steps {
        if last.as_ref().is_none_or(|last| !step.repeats(last)) {
            distinct.push(step.clone());
        }
        last = Some(step);
    }
    distinct
}

/// Executes the cases of a task.
pub fn run_task(task: &Task) -> TaskReport {
    let first = execute(&task.case, task.then_backups, None);
    let mut report = TaskReport::new(task);
    report.add(&task.case, &[&task.step], &first);
    let says_as_backup = |step: &Step| {
        matches!(step.party, Party::Server(_)) && step.coordinates && step.number > task.step.number
    };
    // With a node less, nobody can go on before this one is back, so it comes back soon.
    let aftermaths: &[Aftermath] = match task.case.configuration.lacks_node {
        true => &[Aftermath::Restarts],
        false => &[Aftermath::Restarts, Aftermath::LosesPower],
    };
    for step in distinct(first.steps).into_iter().filter(says_as_backup) {
        for &aftermath in aftermaths {
            let mut case = task.case.clone();
            case.crashes.push(CrashPoint { step: step.number, aftermath });
            let executed = execute(&case, false, None);
            report.add(&case, &[&task.step, &step], &executed);
        }
    }
    report
}

/// Executes one case and reports on it alone.
pub fn run_case(case: &Case, trace: Option<TraceText>) -> CrashPointReport {
    let mut report = CrashPointReport::default();
    let executed = execute(case, false, trace);
    let mut task = TaskReport::default();
    task.add(case, &[], &executed);
    report.add(case.configuration, task);
    report
}
