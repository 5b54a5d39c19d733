//! The questions that counting sets leave open, once the order in time has answered some of them.

use crate::dependencies::{CountChoices, NoChoices, OpenCounts};
use crate::history::{History, TxnId};
use crate::level::Precedence;
use crate::report::Anomalies;

/// The pairs of reader and updater of which the level does not know already whether the one saw the other.
///
/// # Errors
///
/// If there is nothing to search: the reason why the question stays open, or none if a count is impossible,
/// which is then among the anomalies.
pub(crate) fn open_choices(
    history: &History,
    counts: &OpenCounts,
    precedence: Precedence,
    anomalies: &mut Anomalies,
) -> Result<CountChoices, Option<String>> {
    if counts.is_empty() {
        return Ok(CountChoices::default());
    }
    let is_before = |one: TxnId, other: TxnId| {
        let (one, other) = (history.txn(one), history.txn(other));
        let in_time = one.known_completion().is_some_and(|completion| completion < other.invoke);
        match precedence {
            Precedence::None => false,
            Precedence::Session => in_time && one.session == other.session,
            Precedence::RealTime => in_time,
        }
    };
    let decided = |reader, updater| {
        if is_before(updater, reader) { Some(true) } else { is_before(reader, updater).then_some(false) }
    };
    counts.choices(history, decided).map_err(|none| match none {
        NoChoices::TooMany(reason) => Some(reason),
        NoChoices::Contradiction(sum) => {
            sum.describe(history, anomalies);
            None
        }
    })
}
