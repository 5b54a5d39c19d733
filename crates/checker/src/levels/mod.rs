//! One module per family of levels, each a statement about the dependencies between committed transactions.

mod serializable;
mod versions;

use crate::dependencies::Dependencies;
use crate::history::History;
use crate::level::Level;
use crate::report::Anomalies;

/// Looks for violations of a level and adds them to `anomalies`. Returns a reason if the question stays open.
pub(crate) fn judge(
    history: &History,
    dependencies: &Dependencies,
    level: Level,
    anomalies: &mut Anomalies,
) -> Option<String> {
    match level.serializable_with() {
        Some(precedence) => serializable::judge(history, dependencies, precedence, anomalies),
        None => Some(format!("The level {level} is not judged yet.")),
    }
}
