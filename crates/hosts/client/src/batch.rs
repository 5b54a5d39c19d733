//! Batches: all that is to be compared, read and written is known beforehand, so no closure is needed.

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_core::expiry::Expiry;
use quorate_core::transaction::{LimitExceeded, readable, validate_key, validate_write};
use quorate_core::{ClockTime, Key, Value};
use quorate_serializable_shard::{Batch as Inner, Condition, Step};

use crate::error::Invalid;
use crate::receipt::Receipt;
use crate::transaction::{Page, user_range};

/// Conditions, and steps that are taken one after the other if all conditions hold: all of them at once, or none.
///
/// Conditions are about what there is before the first step, wherever they are named. Each step sees what the steps before it
/// have written.
///
/// ```no_run
/// # async fn example(accounts: quorate::Keyspace) -> quorate::Result<()> {
/// use quorate::{Applied, Batch};
///
/// let order = Batch::new()
///     .expect("customer/alice", "active")
///     .expect_absent("order/1007")
///     .expect_at_least("stock/pens", 3)
///     .put("order/1007", "3 pens")
///     .increment("stock/pens", -3)
///     .append("log/alice", "1007;");
/// match accounts.apply(order).await? {
///     Applied::Done { answers, .. } => println!("{:?} pens are left", answers[1].number()),
///     Applied::Unmet { condition: 0, found } => println!("alice is {found:?}"),
///     Applied::Unmet { condition: 1, .. } => println!("the order is there already"),
///     Applied::Unmet { found, .. } => println!("there are too few pens: {found:?}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    pub(crate) inner: Inner,
    /// The lifetimes of values that steps put, by the numbers of the steps.
    pub(crate) lifetimes: BTreeMap<usize, Duration>,
}

/// The result of a [`Batch`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    /// Every condition held, and every step was taken.
    Done {
        /// The answer of each step, in their order.
        answers: Vec<StepAnswer>,
        /// The committed transaction.
        receipt: Receipt,
    },
    /// A condition did not hold, so nothing was done.
    Unmet {
        /// Which, counted from zero in the order in which conditions were named. If several did not hold, it is one of them.
        condition: usize,
        /// The value of its key; none if it was absent.
        found: Option<Value>,
    },
}

/// The result of a [`Batch`] within an open transaction, which counts once that has committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Every condition held, and these are the answers of the steps.
    Done(Vec<StepAnswer>),
    /// A condition did not hold, so no step was taken.
    Unmet {
        /// The number of the condition, as [`Applied::Unmet`] has it.
        condition: usize,
        /// The value of its key; none if it was absent.
        found: Option<Value>,
    },
}

/// The answer of a step of a [`Batch`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepAnswer {
    /// Of [`Batch::read`]: what the key holds, if it is there.
    Value(Option<Value>),
    /// Of [`Batch::put`] and [`Batch::delete`].
    Done,
    /// Of [`Batch::increment`]: the number that it has led to.
    Number(i64),
    /// Of [`Batch::append`]: how many bytes the value has now.
    Length(u64),
    /// Of [`Batch::scan`]: what was found, and where to go on.
    Page(Page),
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Condition: this key holds exactly this value.
    #[must_use]
    pub fn expect(self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Self {
        self.require(Condition::Value { key: key_of(key), value: value_of(value) })
    }

    /// Condition: this key is absent.
    #[must_use]
    pub fn expect_absent(self, key: impl AsRef<[u8]>) -> Self {
        self.require(Condition::Absent { key: key_of(key) })
    }

    /// Condition: this key is there, whatever it holds.
    #[must_use]
    pub fn expect_exists(self, key: impl AsRef<[u8]>) -> Self {
        self.require(Condition::Exists { key: key_of(key) })
    }

    /// Condition: this key holds a number in decimal digits, as [`Batch::increment`] leaves one, that is not less than `number`; an absent key counts
    /// as zero. A value that is no number of 64 bits does not meet it.
    #[must_use]
    pub fn expect_at_least(self, key: impl AsRef<[u8]>, number: i64) -> Self {
        self.require(Condition::AtLeast { key: key_of(key), number })
    }

    /// Step: reads this key.
    #[must_use]
    pub fn read(self, key: impl AsRef<[u8]>) -> Self {
        self.step(Step::Get { key: key_of(key) })
    }

    /// Step: writes this key.
    #[must_use]
    pub fn put(self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Self {
        self.step(Step::Put { key: key_of(key), value: value_of(value) })
    }

    /// Step: writes this key for a lifetime, as [`Transaction::put_for`](crate::Transaction::put_for) does.
    #[must_use]
    pub fn put_for(mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, lifetime: Duration) -> Self {
        self.lifetimes.insert(self.inner.steps.len(), lifetime);
        self.put(key, value)
    }

    /// Step: deletes this key. It is no mistake if it is absent.
    #[must_use]
    pub fn delete(self, key: impl AsRef<[u8]>) -> Self {
        self.step(Step::Delete { key: key_of(key) })
    }

    /// Step: adds to the number that this key holds in decimal digits; an absent key counts as zero. A value that holds no number of
    /// 64 bits, and a sum that would be none, make the whole batch fail with [`Error::Step`](crate::Error::Step). The number expires when the one before would have.
    #[must_use]
    pub fn increment(self, key: impl AsRef<[u8]>, by: i64) -> Self {
        self.step(Step::Increment { key: key_of(key), by })
    }

    /// Step: adds bytes at the end of the value of this key; an absent key counts as empty. If the value would be longer than a
    /// mebibyte, the whole batch fails with [`Error::Step`](crate::Error::Step).
    #[must_use]
    pub fn append(self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Self {
        self.step(Step::Append { key: key_of(key), value: value_of(value) })
    }

    /// Step: reads up to `limit` keys, from 1 to 10,000, from `from` (included) to `to` (excluded), in order; an empty `to` means
    /// to the end.
    #[must_use]
    pub fn scan(self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>, limit: u32) -> Self {
        let range = user_range(from.as_ref(), to.as_ref());
        self.step(Step::Scan { range, limit, descending: false })
    }

    fn require(mut self, condition: Condition) -> Self {
        self.inner.conditions.push(condition);
        self
    }

    fn step(mut self, step: Step) -> Self {
        self.inner.steps.push(step);
        self
    }

    /// True if it asks for nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.inner.conditions.is_empty() && self.inner.steps.is_empty()
    }

    /// True if nobody wants to know what its steps come to: they only say that they are done.
    pub(crate) fn writes_blindly(&self) -> bool {
        self.inner.steps.iter().all(|step| matches!(step, Step::Put { .. } | Step::Delete { .. }))
    }

    /// Checks limits, so that they are alike whatever runs the keyspace.
    pub(crate) fn validate(&self) -> Result<(), Invalid> {
        self.inner.conditions.iter().try_for_each(validate_condition)?;
        self.inner.steps.iter().try_for_each(validate_step)?;
        for lifetime in self.lifetimes.values() {
            Expiry::after(ClockTime::default(), *lifetime).map_err(Invalid::Lifetime)?;
        }
        self.inner.validate().map_err(|malformed| Invalid::Batch { reason: malformed.to_string() })
    }

    /// The key of a step, for a message.
    pub(crate) fn key_of_step(&self, step: usize) -> String {
        match self.inner.steps.get(step) {
            Some(
                Step::Get { key }
                | Step::Put { key, .. }
                | Step::Delete { key }
                | Step::Increment { key, .. }
                | Step::Append { key, .. },
            ) => readable(key),
            Some(Step::Scan { range, .. }) => readable(&range.from),
            None => String::new(),
        }
    }
}

impl Applied {
    /// True if every condition held, so that the steps were taken.
    pub fn is_done(&self) -> bool {
        matches!(self, Applied::Done { .. })
    }

    /// The answer of each step, in their order; nothing if they were not taken.
    pub fn answers(&self) -> &[StepAnswer] {
        match self {
            Applied::Done { answers, .. } => answers,
            Applied::Unmet { .. } => &[],
        }
    }

    /// The committed transaction; none if nothing was done.
    pub fn receipt(&self) -> Option<&Receipt> {
        match self {
            Applied::Done { receipt, .. } => Some(receipt),
            Applied::Unmet { .. } => None,
        }
    }
}

impl StepAnswer {
    /// The value that a read has found; none if the key was absent, or if it is the answer of another step.
    pub fn value(&self) -> Option<&Value> {
        match self {
            StepAnswer::Value(value) => value.as_ref(),
            _ => None,
        }
    }

    /// The number that an increment has led to; none if it is the answer of another step.
    pub fn number(&self) -> Option<i64> {
        match self {
            StepAnswer::Number(number) => Some(*number),
            _ => None,
        }
    }
}

/// The key of a condition. Users have no conditions on ranges.
pub(crate) fn key_of_condition(condition: &Condition) -> Option<&Key> {
    match condition {
        Condition::Absent { key }
        | Condition::Exists { key }
        | Condition::Version { key, .. }
        | Condition::Value { key, .. }
        | Condition::AtLeast { key, .. } => Some(key),
        Condition::Unchanged { .. } => None,
    }
}

fn validate_condition(condition: &Condition) -> Result<(), LimitExceeded> {
    match condition {
        Condition::Value { key, value } => validate_write(key, value),
        condition => key_of_condition(condition).map_or(Ok(()), |key| validate_key(key)),
    }
}

fn validate_step(step: &Step) -> Result<(), LimitExceeded> {
    match step {
        Step::Get { key } | Step::Delete { key } | Step::Increment { key, .. } => validate_key(key),
        Step::Put { key, value } | Step::Append { key, value } => validate_write(key, value),
        Step::Scan { range, .. } => {
            let ends = [Some(&range.from), range.to.as_ref()].into_iter().flatten();
            ends.filter(|end| !end.is_empty()).try_for_each(|end| validate_key(end))
        }
    }
}

fn key_of(key: impl AsRef<[u8]>) -> Key {
    Key::copy_from_slice(key.as_ref())
}

fn value_of(value: impl AsRef<[u8]>) -> Value {
    Value::copy_from_slice(value.as_ref())
}
