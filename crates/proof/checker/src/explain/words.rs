//! Anomalies in words. A transaction is named by the index of its `invoke` line: T12.

use std::fmt::Write;

use crate::dependencies::{Edge, EdgeKind};
use crate::history::{Action, History, KeyId, KeyType, Seen, TxnId, Value};

/// Lists in explanations are cut to this many elements.
const LIST_ELEMENTS_MAX: usize = 12;

/// Forms sentences about the transactions of one history.
#[derive(Clone, Copy)]
pub(crate) struct Words<'a> {
    history: &'a History,
}

impl<'a> Words<'a> {
    pub(crate) fn new(history: &'a History) -> Self {
        Words { history }
    }

    /// The name of a transaction.
    pub(crate) fn txn(&self, txn: TxnId) -> String {
        format!("T{}", self.history.txn(txn).invoke)
    }

    fn value(value: Option<Value>) -> String {
        value.map_or_else(|| "the initial value".to_string(), |value| value.to_string())
    }

    /// A list, shortened in its middle if it is long.
    pub(crate) fn list(values: &[Value]) -> String {
        let join = |values: &[Value]| values.iter().map(Value::to_string).collect::<Vec<_>>().join(", ");
        if values.len() <= LIST_ELEMENTS_MAX {
            return format!("[{}]", join(values));
        }
        let half = LIST_ELEMENTS_MAX / 2;
        format!(
            "[{}, .., {}] ({} elements)",
            join(&values[..half]),
            join(&values[values.len() - half..]),
            values.len()
        )
    }

    pub(crate) fn own_appends_missing(&self, txn: TxnId, key: KeyId, values: &[Value]) -> String {
        let (txn, key) = (self.txn(txn), self.history.key(key));
        format!("{txn} read {} of {key}, which does not end with its own appends.", Self::list(values))
    }

    pub(crate) fn list_changed(&self, txn: TxnId, key: KeyId, first: &[Value], then: &[Value]) -> String {
        let (txn, key) = (self.txn(txn), self.history.key(key));
        let (first, then) = (Self::list(first), Self::list(then));
        format!("{txn} read {first} of {key} and later {then}, which its own appends do not explain.")
    }

    pub(crate) fn register_changed(
        &self,
        txn: TxnId,
        key: KeyId,
        expected: Option<Value>,
        value: Option<Value>,
        own: bool,
    ) -> String {
        let (txn, key) = (self.txn(txn), self.history.key(key));
        let (expected, value) = (Self::value(expected), Self::value(value));
        let verb = if own { "wrote" } else { "read" };
        format!("{txn} {verb} {expected} at {key} and then read {value}, without writing in between.")
    }

    pub(crate) fn unwritten(&self, txn: TxnId, key: KeyId, value: Value) -> String {
        format!("{} read {value} of {}, which nobody wrote.", self.txn(txn), self.history.key(key))
    }

    pub(crate) fn own_future_write(&self, txn: TxnId, key: KeyId, value: Value) -> String {
        let (txn, key) = (self.txn(txn), self.history.key(key));
        format!("{txn} read {value} of {key} before it wrote that value itself.")
    }

    pub(crate) fn aborted_read(&self, reader: TxnId, writer: TxnId, key: KeyId, value: Value) -> String {
        let how = if self.history.txn(writer).lost { "was lost" } else { "aborted" };
        let (reader, writer, key) = (self.txn(reader), self.txn(writer), self.history.key(key));
        format!("{reader} read {value} of {key}, which {writer} wrote, but {writer} {how}.")
    }

    pub(crate) fn intermediate_read(&self, reader: TxnId, writer: TxnId, key: KeyId, value: Value) -> String {
        let (reader, writer, key) = (self.txn(reader), self.txn(writer), self.history.key(key));
        format!("{reader} read {value} of {key}, but {writer}, which wrote it, wrote {key} again afterwards.")
    }

    pub(crate) fn duplicate(&self, reader: TxnId, key: KeyId, value: Value, list: &[Value]) -> String {
        let (reader, key) = (self.txn(reader), self.history.key(key));
        format!("{reader} read {} of {key}, which holds {value} twice.", Self::list(list))
    }

    pub(crate) fn appends_reordered(
        &self,
        reader: TxnId,
        writer: TxnId,
        key: KeyId,
        first: Value,
        then: Value,
    ) -> String {
        let (reader, writer, key) = (self.txn(reader), self.txn(writer), self.history.key(key));
        format!(
            "{writer} appended {first} and then {then} to {key}, but {reader} read {then} without {first} before it."
        )
    }

    pub(crate) fn incompatible(
        &self,
        key: KeyId,
        one: (TxnId, &[Value]),
        other: (TxnId, &[Value]),
    ) -> String {
        format!(
            "{} read {} of {key} and {} read {}, neither of which is a prefix of the other.",
            self.txn(one.0),
            Self::list(one.1),
            self.txn(other.0),
            Self::list(other.1),
            key = self.history.key(key),
        )
    }

    /// A cycle, one sentence per edge. Where the search has found that there is none of which it could tell, the
    /// cycle is empty.
    pub(crate) fn cycle(&self, cycle: &[Edge]) -> String {
        if cycle.is_empty() {
            return "This contradicts what else is known.".to_string();
        }
        let names: Vec<String> = cycle.iter().map(|edge| self.txn(TxnId(edge.from))).collect();
        let mut text = match &names[..] {
            [one, other] => format!("{one} and {other} must each come before the other: "),
            _ => format!("{} and {} again form a cycle: ", names.join(", "), names[0]),
        };
        for (at, edge) in cycle.iter().enumerate() {
            let separator = if at == 0 { "" } else { " " };
            let _ = write!(text, "{separator}{}", self.edge(edge));
        }
        text
    }

    fn edge(&self, edge: &Edge) -> String {
        let (from, to) = (TxnId(edge.from), TxnId(edge.to));
        let (a, b, key) = (self.txn(from), self.txn(to), edge.key);
        match edge.kind {
            EdgeKind::ReadsFrom => self.reads_from(from, to, key),
            EdgeKind::WriteOrder => {
                let (one, other) = (self.writes_of(from, key), self.writes_of(to, key));
                let key = self.history.key(key);
                format!("{a} wrote {one} to {key} before {b} wrote {other} to it, so {a} comes before {b}.")
            }
            EdgeKind::AntiDependency => {
                let (seen, effect) = (self.read_of(from, key), self.effect_of(to, key));
                let key = self.history.key(key);
                format!("{a} read {seen} of {key} and did not see {effect}, so {a} comes before {b}.")
            }
            EdgeKind::SessionOrder => {
                let session = self.history.session_name(self.history.txn(from).session);
                format!("In session {session}, {a} completed before {b} was invoked.")
            }
            EdgeKind::SiteOrder => format!("At one site, {a} had committed before {b} was invoked."),
            EdgeKind::Shown => {
                let key = self.history.key(key);
                format!(
                    "At one site, {a} had been shown before {b} was invoked, and {b} touches {key}, which {a} wrote."
                )
            }
            EdgeKind::Snapshot => format!("At the site of both, {b} saw all that {a} had seen."),
            EdgeKind::LocalCommit => {
                format!(
                    "{b} saw what {a} had committed at its site, maybe only locally, and so all that {a} saw."
                )
            }
            EdgeKind::Ended => {
                let key = self.history.key(key);
                format!(
                    "{a} read {key}, which {b} writes, and ended before {b} was invoked, so it did not see {b}."
                )
            }
            EdgeKind::RealTime | EdgeKind::Onward => format!("{a} completed before {b} was invoked."),
        }
    }

    fn reads_from(&self, from: TxnId, to: TxnId, key: KeyId) -> String {
        let (a, b) = (self.txn(from), self.txn(to));
        let (seen, effect) = (self.read_of(to, key), self.effect_of(from, key));
        let key = self.history.key(key);
        format!("{b} read {seen} of {key} and so saw {effect}; {a} comes before {b}.")
    }

    /// The writes of a transaction to a key: one value, or several.
    fn writes_of(&self, txn: TxnId, key: KeyId) -> String {
        let ops = self.history.ops(self.history.txn(txn)).iter();
        let values: Vec<Value> =
            ops.filter(|op| op.key == key).filter_map(|op| op.action.written()).collect();
        match (&values[..], self.history.key_type(key)) {
            ([.., last], Some(KeyType::Register)) => last.to_string(),
            ([one], _) => one.to_string(),
            _ => Self::list(&values),
        }
    }

    /// The effect of a transaction on a key, as far as others could see it.
    fn effect_of(&self, txn: TxnId, key: KeyId) -> String {
        let name = self.txn(txn);
        if self.history.key_type(key) != Some(KeyType::CountingSet) {
            return format!("{}, which {name} wrote", self.writes_of(txn, key));
        }
        let ops = self.history.ops(self.history.txn(txn)).iter().filter(|op| op.key == key);
        let updates: Vec<String> = ops
            .filter_map(|op| match op.action {
                Action::Add(element) => Some(format!("added {}", self.history.element(element))),
                Action::Remove(element) => Some(format!("removed {}", self.history.element(element))),
                _ => None,
            })
            .collect();
        if updates.len() > LIST_ELEMENTS_MAX {
            return format!("that {name} made {} updates", updates.len());
        }
        format!("that {name} {}", updates.join(" and "))
    }

    /// The first read of a key by a transaction.
    fn read_of(&self, txn: TxnId, key: KeyId) -> String {
        let ops = self.history.ops(self.history.txn(txn)).iter();
        let seen = ops.filter(|op| op.key == key).find_map(|op| match op.action {
            Action::Read(seen) => Some(seen),
            _ => None,
        });
        match seen {
            Some(Seen::Register(value)) => value.to_string(),
            Some(Seen::List(list)) => Self::list(self.history.list(key, list)),
            Some(Seen::Set(set)) => {
                let counts =
                    self.history.set(set).iter().map(|(element, count)| format!("{element}: {count}"));
                format!("{{{}}}", counts.collect::<Vec<_>>().join(", "))
            }
            _ => match self.history.key_type(key) {
                Some(KeyType::List) => "[]".to_string(),
                Some(KeyType::CountingSet) => "{}".to_string(),
                _ => "the initial value".to_string(),
            },
        }
    }
}
