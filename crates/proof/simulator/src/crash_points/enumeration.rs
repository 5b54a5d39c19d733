//! Every case of a configuration.

use super::case::{Aftermath, Case, CrashPoint};
use super::configuration::Configuration;
use super::execution::execute;
use super::report::{CrashPointReport, TaskReport};
use crate::system::Planted;
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
pub fn tasks(configuration: Configuration, plant: Option<&Planted>) -> Vec<Task> {
    let calm = Case { configuration, plant: plant.cloned(), crashes: Vec::new() };
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
            let leaves_work =
                configuration.has_backups() && step.coordinates && step.moment == Moment::AfterSend;
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

/// Why a case cannot be executed: a crash of it is at no step of its execution, or has the aftermath of the other kind of machine.
pub fn misplaced(case: &Case) -> Option<String> {
    case.crashes.iter().enumerate().find_map(|(before, point)| {
        let until = Case { crashes: case.crashes[..before].to_vec(), ..case.clone() };
        let steps = execute(&until, true, None).steps;
        let Some(step) = steps.iter().find(|step| step.number == point.step) else {
            return Some(format!(
                "{until} takes no step {}; its last one is {}",
                point.step,
                steps.len().saturating_sub(1)
            ));
        };
        let is_of_client = matches!(point.aftermath, Aftermath::Stays | Aftermath::Returns);
        let (party, is_client) = match step.party {
            Party::Client(client) => (format!("client {client}"), true),
            Party::Server(server) => (format!("server {server}"), false),
        };
        let choices = match is_client {
            true => [Aftermath::Stays, Aftermath::Returns],
            false => [Aftermath::Restarts, Aftermath::LosesPower],
        };
        let choices = choices.map(Aftermath::name).join(" or ");
        (is_client != is_of_client)
            .then(|| format!("{party} takes step {} of {until}: it {choices}", point.step))
    })
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
