//! The questions that counting sets leave open, once the order in time has answered some of them.

use crate::dependencies::{CountChoices, NoChoices, OpenCounts};
use crate::history::{History, Txn, TxnId};
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
    let decided = |reader: TxnId, updater: TxnId| {
        let (reader, updater) = (history.txn(reader), history.txn(updater));
        let ended = |one: &Txn, other: &Txn| one.known_completion().is_some_and(|end| end < other.invoke);
        let (is_bound, is_free) = match precedence {
            Precedence::None => (false, false),
            Precedence::Session => (reader.session == updater.session, reader.session == updater.session),
            // Nobody sees what was invoked after it completed, wherever that was.
            Precedence::Site => (reader.site == updater.site, true),
            Precedence::RealTime => (true, true),
        };
        if is_bound && ended(updater, reader) {
            Some(true)
        } else {
            (is_free && ended(reader, updater)).then_some(false)
        }
    };
    counts.choices(history, decided).map_err(|none| match none {
        NoChoices::TooMany(reason) => Some(reason),
        NoChoices::Contradiction(sum) => {
            sum.describe(history, anomalies);
            None
        }
    })
}
