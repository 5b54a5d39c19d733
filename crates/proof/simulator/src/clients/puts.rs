//! The values that were put, of a system that promises histories nothing: then it is judged by its puts.

use std::collections::{BTreeMap, BTreeSet};

use quorate_core::{Key, Timestamp, TransactionId, Value};

use crate::invariants::AcknowledgedPut;

/// The values that were put.
#[derive(Debug)]
pub struct Puts {
    /// True if it is kept.
    are_kept: bool,
    /// Every value that was ever asked to be put to a key, acknowledged or not.
    asked: BTreeMap<Key, BTreeSet<Value>>,
    /// The puts that clients were told are complete.
    pub acknowledged: Vec<AcknowledgedPut>,
}

impl Puts {
    pub(super) fn new(are_kept: bool) -> Self {
        Puts { are_kept, asked: BTreeMap::new(), acknowledged: Vec::new() }
    }

    /// An attempt puts something.
    pub(super) fn note(
        &mut self,
        key: &Key,
        value: Option<&Value>,
        of_attempt: &mut BTreeMap<Key, Option<Value>>,
    ) {
        if self.are_kept {
            self.asked.entry(key.clone()).or_default().extend(value.cloned());
            of_attempt.insert(key.clone(), value.cloned());
        }
    }

    /// An attempt was told that its puts are complete, none with a version earlier than this.
    pub(super) fn acknowledge(&mut self, puts: &BTreeMap<Key, Option<Value>>, not_before: Timestamp) {
        let kept = puts.iter().filter_map(|(key, value)| Some((key.clone(), value.clone()?)));
        self.acknowledged.extend(kept.map(|(key, value)| AcknowledgedPut { key, value, not_before }));
    }

    /// The error in a value that was read, in words: that nobody has put it.
    pub(super) fn nonsense(
        &self,
        transaction: TransactionId,
        key: &Key,
        value: Option<&Value>,
    ) -> Option<String> {
        let value = value.filter(|_| self.are_kept)?;
        let was_put = self.asked.get(key).is_some_and(|values| values.contains(value));
        (!was_put).then(|| format!("{transaction} read {} bytes of {key:?} that nobody has put", value.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_has_put_makes_no_sense() {
        let (key, transaction) = (Key::from("k"), TransactionId::default());
        let value = |text: &'static str| Value::from_static(text.as_bytes());
        let mut of_attempt = BTreeMap::new();
        let mut puts = Puts::new(true);
        puts.note(&key, Some(&value("one")), &mut of_attempt);
        puts.note(&key, Some(&value("two")), &mut of_attempt);
        assert!(puts.nonsense(transaction, &key, Some(&value("one"))).is_none());
        assert!(puts.nonsense(transaction, &key, None).is_none());
        assert!(puts.nonsense(transaction, &key, Some(&value("six"))).is_some());
        assert!(puts.nonsense(transaction, &Key::from("j"), Some(&value("one"))).is_some());
        puts.acknowledge(&of_attempt, Timestamp::ZERO);
        assert_eq!(puts.acknowledged.len(), 1, "what was put last counts");
        assert_eq!(puts.acknowledged[0].value, value("two"));
        assert!(Puts::new(false).nonsense(transaction, &key, Some(&value("six"))).is_none());
    }
}
