//! The judgement of one transaction on the values that it reads.

use quorate_core::command::CommitWindow;
use quorate_core::expiry::{Envelope, Expiry, NoEnvelope};
use quorate_core::{ClockTime, Timestamp, Value};

use crate::Mistake;

/// The judgement on a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It holds nothing.
    Absent,
    /// It holds this.
    Alive(Envelope),
    /// It is absent to this transaction, which has to delete it.
    Over,
}

/// Judges all that one transaction reads, by one reading of a clock: what it has found over stays so.
#[derive(Clone, Copy, Debug)]
pub struct Judge {
    now: ClockTime,
    window: CommitWindow,
    mistake: Option<Mistake>,
}

impl Judge {
    /// The judge of a transaction that began at this reading of its clock.
    pub fn new(began: ClockTime) -> Self {
        Judge { now: began, window: CommitWindow::default(), mistake: None }
    }

    /// The same with a bug.
    #[must_use]
    pub fn with_mistake(self, mistake: Option<Mistake>) -> Self {
        Judge { mistake, ..self }
    }

    /// Judges the bytes that a key holds.
    ///
    /// # Errors
    /// They are no envelope.
    pub fn judge(&mut self, held: Option<&Value>) -> Result<Verdict, NoEnvelope> {
        let Some(held) = held else { return Ok(Verdict::Absent) };
        let envelope = Envelope::decode(held)?;
        let Some(expiry) = envelope.expiry else { return Ok(Verdict::Alive(envelope)) };
        let at = ClockTime::from_micros(expiry.as_micros());
        if expiry.has_passed_by(self.now) {
            if self.mistake == Some(Mistake::LeavesOver) {
                return Ok(Verdict::Absent);
            }
            self.window.from = self.window.from.max(at);
            return Ok(Verdict::Over);
        }
        self.window.before = Some(self.window.before.map_or(at, |before| before.min(at)));
        Ok(Verdict::Alive(envelope))
    }

    /// The timestamps at which the transaction may commit: nothing that it has found over expires later, and nothing that it has seen alive expires earlier.
    pub fn window(&self) -> CommitWindow {
        let CommitWindow { from, before } = self.window;
        assert!(
            before.is_none_or(|before| from <= self.now && self.now < before),
            "what was over at {:?} is judged to be alive at {before:?}",
            self.now
        );
        self.window
    }

    /// True if the transaction may commit at any timestamp.
    pub fn is_unconfined(&self) -> bool {
        self.window == CommitWindow::default()
    }
}

/// The value that a key holds for a reader at a timestamp; none if it is over there.
///
/// # Errors
/// The bytes are no envelope.
pub fn at_timestamp(timestamp: Timestamp, held: &Value) -> Result<Option<Envelope>, NoEnvelope> {
    let envelope = Envelope::decode(held)?;
    let is_over = envelope.expiry.is_some_and(|expiry: Expiry| expiry.has_passed_at(timestamp));
    Ok((!is_over).then_some(envelope))
}

#[cfg(test)]
mod tests {
    use quorate_core::ClientId;

    use super::*;

    fn clock(micros: u64) -> ClockTime {
        ClockTime::from_micros(micros)
    }

    fn envelope(expiry: Option<u64>) -> Envelope {
        Envelope { value: Value::from_static(b"v"), expiry: expiry.map(Expiry::from_micros) }
    }

    #[test]
    fn verdicts_and_windows_as_a_table() {
        // Expiries of the values that are read, and the timestamps at which a transaction that began at 100 may commit.
        type Row = (&'static [Option<u64>], u64, Option<u64>);
        let table: [Row; 6] = [
            (&[None], 0, None),
            (&[Some(101)], 0, Some(101)),
            (&[Some(100)], 100, None),
            (&[Some(300), Some(200), None], 0, Some(200)),
            (&[Some(40), Some(90), Some(1)], 90, None),
            (&[Some(99), Some(150)], 99, Some(150)),
        ];
        for (expiries, from, before) in table {
            let mut judge = Judge::new(clock(100));
            for expiry in expiries {
                let held = envelope(*expiry);
                let is_over = expiry.is_some_and(|expiry| expiry <= 100);
                let expected = if is_over { Verdict::Over } else { Verdict::Alive(held.clone()) };
                assert_eq!(judge.judge(Some(&held.encode())), Ok(expected));
            }
            let window = CommitWindow { from: clock(from), before: before.map(clock) };
            assert_eq!(judge.window(), window, "{expiries:?}");
            assert_eq!(judge.is_unconfined(), (from, before) == (0, None), "{expiries:?}");
        }
    }

    #[test]
    fn what_is_absent_or_no_envelope_confines_nothing() {
        let mut judge = Judge::new(clock(100));
        assert_eq!(judge.judge(None), Ok(Verdict::Absent));
        assert_eq!(judge.judge(Some(&Value::from_static(b"raw"))), Err(NoEnvelope));
        assert!(judge.is_unconfined());
    }

    #[test]
    fn a_reader_at_a_timestamp_finds_a_value_until_its_expiry() {
        let held = envelope(Some(10));
        let read = |micros| at_timestamp(Timestamp { micros, client: ClientId(0) }, &held.encode());
        assert_eq!(read(9), Ok(Some(held.clone())));
        assert_eq!((read(10), read(11)), (Ok(None), Ok(None)));
        let stays = envelope(None);
        assert_eq!(
            at_timestamp(Timestamp { micros: u64::MAX, client: ClientId(0) }, &stays.encode()),
            Ok(Some(stays))
        );
        assert_eq!(at_timestamp(Timestamp::ZERO, &Value::new()), Err(NoEnvelope));
    }
}
