//! The timestamp sweep for serializability: replaying transactions in the order of their commit timestamps
//! must explain every read.
//!
//! A read sees what the transaction with the greatest timestamp below the reader's own installed; own writes
//! excepted.

use crate::explain::Words;
use crate::history::{History, TxnId};
use crate::report::{Anomalies, AnomalyKind, Report};
use crate::whitebox::replay::{Replay, Sight};
use crate::whitebox::{self, spell};

struct BySerialOrder<'a>(&'a History);

impl Sight for BySerialOrder<'_> {
    const KIND: AnomalyKind = AnomalyKind::TimestampViolation;

    fn sees(&self, reader: TxnId, writer: TxnId) -> bool {
        self.0.txn(writer).ts < self.0.txn(reader).ts
    }

    fn snapshot(&self, reader: TxnId) -> String {
        format!("at timestamp {}", self.spell(reader))
    }

    fn commit(&self, writer: TxnId) -> String {
        format!("at the earlier timestamp {}", self.spell(writer))
    }

    fn nothing_else(&self) -> &'static str {
        "nothing else was written at an earlier timestamp"
    }
}

impl BySerialOrder<'_> {
    fn spell(&self, txn: TxnId) -> String {
        self.0.txn(txn).ts.map(spell).unwrap_or_default()
    }
}

/// Checks that the commit timestamps (`ts`) are a serial order that explains every read of a committed
/// transaction.
///
/// The verdict is unknown if a committed transaction has no timestamp.
pub fn check_timestamps(history: &History) -> Report {
    let fates = whitebox::fates(history);
    let mut anomalies = Anomalies::default();
    let mut reason = whitebox::missing_fact(history, &fates, "a commit timestamp", |txn| txn.ts);
    if reason.is_none() {
        let replay = Replay::new(history, &fates, |txn| history.txn(txn).ts);
        let sight = BySerialOrder(history);
        refuse_ties(history, &sight, &replay, &mut anomalies);
        reason = replay.reads(&fates, &sight, &mut anomalies);
    }
    whitebox::report("timestamps", history, &fates, anomalies, reason)
}

/// Two writers of a key at one timestamp have no order.
fn refuse_ties(history: &History, sight: &BySerialOrder<'_>, replay: &Replay<'_>, anomalies: &mut Anomalies) {
    let words = Words::new(history);
    for (key, one, next) in replay.successors() {
        if history.txn(one).ts == history.txn(next).ts {
            anomalies.add(history, AnomalyKind::TimestampViolation, &[one, next], || {
                let (ts, key) = (sight.spell(one), history.key(key));
                format!("{} and {} both wrote {key} at timestamp {ts}.", words.txn(one), words.txn(next))
            });
        }
    }
}
