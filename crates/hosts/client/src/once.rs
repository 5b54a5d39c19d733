//! Transactions that commit once, however often, from wherever and with whatever outcome in between they are asked for.
//!
//! A *marker* is a key of the same keyspace that the application chooses. The transaction reads the marker first, and writes its answer there together with
//! everything else. So the marker is there exactly if the transaction has committed: a repeat finds the answer, at any node, after any restart, in a restored
//! keyspace, and two repeats at one time conflict as any two transactions do. A marker costs a read and a write at its shard; with the tag in braces of the other
//! keys of its transaction it adds no shard to them.
//!
//! ```text
//!   marker  QRM1 | until, microseconds since 1970, 8 bytes | length of the request, 2 bytes | the request | the answer
//! ```

use std::future::Future;
use std::time::Duration;

use quorate_core::transaction::readable;
use quorate_core::{ClockTime, Key, Value};

use crate::error::{Invalid, Result};
use crate::keyspace::Keyspace;
use crate::receipt::Receipt;
use crate::transaction::{Page, Transaction, clock_now};

/// The first bytes of a marker, which no value of an application begins with by accident.
const MAGIC: &[u8] = b"QRM1";

/// The bytes before the request.
const HEAD_BYTES: usize = MAGIC.len() + 8 + 2;

/// The longest name of a request, in bytes.
const REQUEST_BYTES_MAX: usize = 1_024;

/// For so long an answer is remembered unless the marker says something else.
const RETENTION: Duration = Duration::from_secs(24 * 60 * 60);

/// The number of keys that one transaction of a sweep looks at.
const SWEEP_PAGE: u32 = 100;

/// Where a transaction that commits once leaves its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    key: Key,
    request: Value,
    retention: Duration,
}

impl Marker {
    /// A marker at this key of the keyspace, which belongs to one request of the application. The answer is remembered for 24 hours.
    pub fn new(key: impl AsRef<[u8]>) -> Self {
        Marker { key: Key::copy_from_slice(key.as_ref()), request: Value::new(), retention: RETENTION }
    }

    /// Says which request it is, as with a digest: another request with the same marker is refused. At most 1,024 bytes.
    #[must_use]
    pub fn of_request(self, request: impl AsRef<[u8]>) -> Self {
        Marker { request: Value::copy_from_slice(request.as_ref()), ..self }
    }

    /// Remembers the answer for so long, by the clock of the client that commits. After that a repeat is a new request.
    #[must_use]
    pub fn retained_for(self, retention: Duration) -> Self {
        Marker { retention, ..self }
    }

    /// Its key.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The answer that is remembered at its key, which a transaction has found to hold this; none if there is none any more. For programs that run attempts by themselves, as
    /// [`Keyspace::transact_once`] does.
    ///
    /// # Errors
    /// As [`Keyspace::transact_once`].
    pub fn remembered(&self, held: Option<&Value>) -> Result<Option<Value>> {
        self.validate()?;
        self.answer_in(held, clock_now())
    }

    /// The value that the same transaction writes to the key together with everything else.
    pub fn remembering(&self, answer: &[u8]) -> Value {
        self.value(answer, clock_now())
    }

    fn validate(&self) -> Result<()> {
        if self.request.len() > REQUEST_BYTES_MAX {
            return Err(Invalid::MarkerRequest { max: REQUEST_BYTES_MAX }.into());
        }
        Ok(())
    }

    /// The answer that is remembered, if it is that of this request; none if there is none any more.
    fn answer_in(&self, held: Option<&Value>, now: ClockTime) -> Result<Option<Value>> {
        let Some(held) = held else { return Ok(None) };
        let Some(known) = Kept::read(held) else {
            return Err(Invalid::NotAMarker { key: readable(&self.key) }.into());
        };
        if known.is_over(now) {
            return Ok(None);
        }
        if known.request != self.request {
            return Err(Invalid::OtherRequest { key: readable(&self.key) }.into());
        }
        Ok(Some(known.answer))
    }

    fn value(&self, answer: &[u8], now: ClockTime) -> Value {
        let retention = u64::try_from(self.retention.as_micros()).unwrap_or(u64::MAX);
        let until = now.as_micros().saturating_add(retention).to_be_bytes();
        // It is not longer than REQUEST_BYTES_MAX.
        let length = u16::try_from(self.request.len()).unwrap_or(u16::MAX).to_be_bytes();
        Value::from([MAGIC, &until, &length, &self.request, answer].concat())
    }
}

/// The contents of a marker.
#[derive(Debug, PartialEq, Eq)]
struct Kept {
    until: ClockTime,
    request: Value,
    answer: Value,
}

impl Kept {
    /// Reads it; none if it is no marker.
    fn read(value: &Value) -> Option<Self> {
        let (head, rest) = value.split_at_checked(HEAD_BYTES)?;
        let (magic, head) = head.split_at_checked(MAGIC.len())?;
        let (until, length) = head.split_first_chunk::<8>()?;
        let length = u16::from_be_bytes(length.try_into().ok()?);
        let (request, _) = rest.split_at_checked(usize::from(length))?;
        let answer_at = HEAD_BYTES + request.len();
        (magic == MAGIC).then(|| Kept {
            until: ClockTime::from_micros(u64::from_be_bytes(*until)),
            request: value.slice(HEAD_BYTES..answer_at),
            answer: value.slice(answer_at..),
        })
    }

    fn is_over(&self, now: ClockTime) -> bool {
        self.until <= now
    }
}

/// A transaction that has committed once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Once {
    /// The answer that it gave when it committed.
    pub answer: Value,
    /// True if it had committed before this call.
    pub is_repeat: bool,
    /// The transaction that has committed; none if that was before.
    pub receipt: Option<Receipt>,
}

/// A page of markers that was swept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Swept {
    /// The number of markers that were deleted, because their time was over.
    pub deleted: usize,
    /// Where the next page begins; none if this was the last.
    pub next: Option<Key>,
}

/// The end of an attempt at a transaction that commits once.
enum Ended {
    Now(Value),
    Before(Value),
}

impl Keyspace {
    /// Runs a transaction as [`Keyspace::transact`] does, unless one with this marker has committed: then its answer is given again, and nothing is done. To be repeated
    /// after any error, also [`Unknown`](crate::Error::Unknown), by this program or another one, until there is an answer.
    ///
    /// ```no_run
    /// # async fn example(accounts: quorate::Keyspace) -> quorate::Result<()> {
    /// use quorate::Marker;
    ///
    /// let paid = accounts
    ///     .transact_once(&Marker::new("paid/{alice}/order-1007"), async |txn| {
    ///         txn.put("{alice}/balance", "70")?;
    ///         Ok("thank you".into())
    ///     })
    ///     .await?;
    /// assert_eq!(paid.answer, "thank you");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Invalid::OtherRequest`] if another request has left its answer there, [`Invalid::NotAMarker`] if the key holds something else; else as
    /// [`Keyspace::transact`]. Nothing is remembered of a transaction that has not committed.
    pub async fn transact_once<F>(&self, marker: &Marker, body: impl Fn(Transaction) -> F) -> Result<Once>
    where
        F: Future<Output = Result<Value>>,
    {
        marker.validate()?;
        let body = &body;
        let (ended, receipt) = self
            .transact_with_receipt(|txn: Transaction| async move {
                let held = txn.get(&marker.key).await?;
                let now = clock_now();
                if let Some(answer) = marker.answer_in(held.as_ref(), now)? {
                    return Ok(Ended::Before(answer));
                }
                let answer = body(txn.share()).await?;
                txn.put(&marker.key, marker.value(&answer, now))?;
                Ok(Ended::Now(answer))
            })
            .await?;
        Ok(match ended {
            Ended::Now(answer) => Once { answer, is_repeat: false, receipt: Some(receipt) },
            Ended::Before(answer) => Once { answer, is_repeat: true, receipt: None },
        })
    }

    /// Deletes the markers of a page of a range whose time is over, from a key (included) to another one (excluded, or to the end if it is empty), and tells where the next
    /// page begins. Other keys stay as they are.
    ///
    /// # Errors
    /// As [`Keyspace::transact`].
    pub async fn sweep_markers(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<Swept> {
        let (from, to) = (from.as_ref(), to.as_ref());
        let Page { entries, next } = self.scan(from, to, SWEEP_PAGE).await?;
        let now = clock_now();
        let is_over = |value: &Value| Kept::read(value).is_some_and(|known| known.is_over(now));
        let over: Vec<Key> =
            entries.into_iter().filter(|(_, value)| is_over(value)).map(|(key, _)| key).collect();
        let mut deleted = 0;
        for key in over {
            // Each by itself, so that a sweep is in the way of one request at a time; and a request may have left its answer there since.
            let delete = async |txn: Transaction| {
                let is_gone = txn.get(&key).await?.as_ref().is_some_and(is_over);
                if is_gone {
                    txn.delete(&key)?;
                }
                Ok(is_gone)
            };
            deleted += usize::from(self.transact(delete).await?);
        }
        Ok(Swept { deleted, next })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    fn at(micros: u64) -> ClockTime {
        ClockTime::from_micros(micros)
    }

    fn answered(marker: &Marker, held: &Value, now: u64) -> std::result::Result<Option<Value>, String> {
        marker.answer_in(Some(held), at(now)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_marker_holds_the_answer_of_its_request_for_its_time() {
        let marker = Marker::new("m").of_request("pay 3").retained_for(Duration::from_micros(10));
        let held = marker.value(b"paid", at(5));
        assert_eq!(answered(&marker, &held, 14), Ok(Some(Value::from_static(b"paid"))));
        assert_eq!(answered(&marker, &held, 15), Ok(None));
        assert_eq!(marker.answer_in(None, at(5)).unwrap(), None);
        let other = Marker::new("m").of_request("pay 4");
        let refused = answered(&other, &held, 14).unwrap_err();
        assert!(refused.contains("another request") && refused.contains("\"m\""), "{refused}");
        assert_eq!(answered(&other, &held, 15), Ok(None), "its time is over");
        let forever = Marker::new("m").retained_for(Duration::MAX);
        assert_eq!(answered(&forever, &forever.value(b"", at(5)), u64::MAX - 1), Ok(Some(Value::new())));
    }

    #[test]
    fn other_values_are_no_markers_and_are_not_written_over() {
        let marker = Marker::new("m").of_request("pay");
        let whole = marker.value(b"", at(5));
        for length in 0..whole.len() {
            let cut = whole.slice(..length);
            assert!(answered(&marker, &cut, 0).unwrap_err().contains("no marker"), "{length}");
        }
        let foreign = Value::from([b"QRM2", &whole[4..]].concat());
        assert!(answered(&marker, &foreign, 0).unwrap_err().contains("no marker"));
    }

    #[test]
    fn the_name_of_a_request_is_bounded() {
        let named = |bytes: usize| Marker::new("m").of_request(vec![0; bytes]).validate();
        assert!(named(REQUEST_BYTES_MAX).is_ok());
        assert!(matches!(named(REQUEST_BYTES_MAX + 1), Err(Error::Invalid(Invalid::MarkerRequest { .. }))));
    }
}
