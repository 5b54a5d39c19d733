//! Typed histories: what clients saw, one record per transaction.
//!
//! A history is kept flat: transactions in the order of their invocations, their operations in one vector,
//! and list reads as lengths of the longest list that was read of their key, so that a million transactions
//! fit into memory. Histories come from a file of JSON lines ([`History::read`]) or from a [`Recorder`]; both
//! pass the same builder and therefore the same rules, and what breaks a rule is refused with its line and
//! the reason.

mod blocks;
mod builder;
mod draft;
mod element;
mod error;
mod facts;
mod intern;
mod line;
mod lists;
mod reader;
mod recorder;
mod reshape;
mod scanner;

pub use element::Spelled;
pub use error::{Malformed, ReadError};
pub use facts::{Facts, SnapshotVector};
pub use intern::{Key, KeyType};
pub use recorder::{MicroOp, Observed, RecordedFacts, RecordedTxn, Recorder};
pub(crate) use reshape::{Reshaped, ReshapedOp};

use intern::{KeyTable, NameTable};
use lists::{ListRead, ListStore};

/// A written value, an element of a list, or an element of a counting set: of these, text has [numbers](History::element) of its own.
pub type Value = i64;

/// Written values lie strictly between minus and plus this bound, so that every JSON tool keeps them exact.
pub const VALUE_BOUND: Value = 1 << 53;

/// A transaction: its position in the order of invocations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxnId(pub u32);

impl TxnId {
    /// The position as an index into [`History::txns`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A key: its position in the order of first appearances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub u32);

impl KeyId {
    /// The position as an index into tables with one entry per key.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The client that sees results: the process, unless the history names a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Session {
    /// No session was named, so the process (by its number) is the session.
    Process(u64),
    /// A named session, numbered in the order of first appearances.
    Named(u32),
}

/// The site where a transaction originated, numbered in the order of first appearances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Site(pub u32);

/// A server-side commit timestamp, ordered by time and then by client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// The time component.
    pub time: i64,
    /// The client that breaks ties, 0 where the history gives a single integer.
    pub client: i64,
}

/// How a transaction ended, as far as its client knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Final commit was acknowledged.
    Committed,
    /// The transaction surely aborted.
    Aborted,
    /// It may have taken effect at any time after its invocation, or never. Open transactions count here too.
    Unknown,
}

/// One transaction of a history.
#[derive(Debug, Clone)]
pub struct Txn {
    /// The index of its `invoke` line; also the name under which reports mention it.
    pub invoke: u32,
    /// The index of its `ok`, `fail` or `info` line, absent while open.
    pub completion: Option<u32>,
    /// The time of the invocation in nanoseconds.
    pub invoked_at: i64,
    /// The time of the completion in nanoseconds; that of the invocation while open.
    pub completed_at: i64,
    /// The process that ran it.
    pub process: u64,
    /// The client that sees its results.
    pub session: Session,
    /// Where it originated, if the history says so.
    pub site: Option<Site>,
    /// How it ended.
    pub outcome: Outcome,
    /// The reads of an aborted transaction are what it really saw.
    pub observed: bool,
    /// Another node than its own has told of its abort, so its own may not have heard.
    pub elsewhere: bool,
    /// It was acknowledged and later abandoned by an aggressive site removal.
    pub lost: bool,
    /// The speculative commit that was shown before the outcome.
    pub speculation: Option<Speculation>,
    /// The commit timestamp that the servers gave it.
    pub ts: Option<Timestamp>,
    /// Where the history keeps what else the servers said; [`NO_FACTS`] if they said nothing.
    facts: u32,
    ops_start: u32,
    ops_end: u32,
    previous_of_process: Option<TxnId>,
}

const NO_FACTS: u32 = u32::MAX;

impl Txn {
    /// The index of the line that ended the transaction for sure. An unknown outcome may take effect after
    /// its line.
    pub fn known_completion(&self) -> Option<u32> {
        self.completion.filter(|_| self.outcome != Outcome::Unknown)
    }
}

/// A speculative commit: a result that was shown before it was final.
#[derive(Debug, Clone, Copy)]
pub struct Speculation {
    /// The index of the `spec` line.
    pub index: u32,
    ops_start: u32,
    ops_end: u32,
}

/// One micro-operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Op {
    /// The key that it touches.
    pub key: KeyId,
    /// Its action there.
    pub action: Action,
}

impl Op {
    /// True if it has touched its key beyond doubt, in a transaction that has committed. A read whose result is not known need not have been carried out: the
    /// end of a transaction may be unknown that has read less than it set out to.
    pub fn is_certain(&self) -> bool {
        self.action != Action::Read(Seen::Nothing)
    }
}

/// The action of a micro-operation on its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Appends a value to a list.
    Append(Value),
    /// Overwrites a register.
    Write(Value),
    /// Adds one to the count of an element of a counting set.
    Add(Value),
    /// Takes one from the count of an element of a counting set.
    Remove(Value),
    /// Reads the key.
    Read(Seen),
}

impl Action {
    /// The value that a list append or register write installs.
    pub fn written(self) -> Option<Value> {
        match self {
            Action::Append(value) | Action::Write(value) => Some(value),
            Action::Add(_) | Action::Remove(_) | Action::Read(_) => None,
        }
    }
}

/// The result of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// The result is not known: the transaction is open, has an unknown outcome, or aborted without
    /// `observed`.
    Nothing,
    /// The initial value: null, the empty list, the empty counting set.
    Initial,
    /// The value of a register.
    Register(Value),
    /// A list that is not empty; [`History::list`] spells it out.
    List(ListRef),
    /// A counting set that is not empty; [`History::set`] spells it out.
    Set(SetRef),
}

/// A list that was read, stored once per key as far as reads agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListRef(pub(crate) ListRead);

impl ListRef {
    /// The first `len` elements of a key's spine.
    pub(crate) fn shared(len: u32) -> Self {
        ListRef(ListRead::Prefix(len))
    }

    /// Whether the list is a prefix of its key's spine. Two shared lists of one key are prefixes of one
    /// another.
    pub(crate) fn is_shared(self) -> bool {
        matches!(self.0, ListRead::Prefix(_))
    }
}

/// A counting set that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetRef {
    start: u32,
    len: u32,
}

/// The invocations and completions that clients saw, in a form that the checks read quickly.
#[derive(Debug, Default)]
pub struct History {
    txns: Vec<Txn>,
    ops: Vec<Op>,
    keys: KeyTable,
    lists: ListStore,
    sets: Vec<(Value, i64)>,
    facts: Vec<Facts>,
    sessions: NameTable,
    sites: NameTable,
    elements: NameTable,
    events: u32,
}

impl History {
    /// The transactions in the order of their invocations.
    pub fn txns(&self) -> &[Txn] {
        &self.txns
    }

    /// One transaction.
    pub fn txn(&self, txn: TxnId) -> &Txn {
        &self.txns[txn.index()]
    }

    /// The micro-operations of a transaction in program order. Reads carry what the outcome line reported.
    pub fn ops(&self, txn: &Txn) -> &[Op] {
        &self.ops[txn.ops_start as usize..txn.ops_end as usize]
    }

    /// The facts that servers told of a transaction beside its commit timestamp, if they told any.
    pub fn facts(&self, txn: &Txn) -> Option<&Facts> {
        self.facts.get(txn.facts as usize)
    }

    /// The number of sites.
    pub fn site_count(&self) -> usize {
        self.sites.len()
    }

    /// The micro-operations as a speculative commit showed them.
    pub fn speculated_ops(&self, speculation: &Speculation) -> &[Op] {
        &self.ops[speculation.ops_start as usize..speculation.ops_end as usize]
    }

    /// The number of transactions, whatever their outcome.
    pub fn txn_count(&self) -> usize {
        self.txns.len()
    }

    /// The number of micro-operations over all transactions.
    pub fn op_count(&self) -> usize {
        self.txns.iter().map(|txn| (txn.ops_end - txn.ops_start) as usize).sum()
    }

    /// The number of events, which is the number of lines of the file.
    pub fn event_count(&self) -> u32 {
        self.events
    }

    /// The number of keys.
    pub fn key_count(&self) -> usize {
        self.keys.len()
    }

    /// The spelling of a key.
    pub fn key(&self, key: KeyId) -> &Key {
        self.keys.name(key)
    }

    /// The type of a key, absent if every operation on it read the initial value.
    pub fn key_type(&self, key: KeyId) -> Option<KeyType> {
        self.keys.key_type(key)
    }

    /// The values of a list that was read of `key`.
    pub fn list(&self, key: KeyId, list: ListRef) -> &[Value] {
        self.lists.values(key, list.0)
    }

    /// The elements of a counting set that was read, with their counts, in the order of the file.
    pub fn set(&self, set: SetRef) -> &[(Value, i64)] {
        &self.sets[set.start as usize..(set.start + set.len) as usize]
    }

    /// An element of a counting set as the history spells it.
    pub fn element(&self, element: Value) -> Spelled<'_> {
        self.elements.spelled(element)
    }

    /// The name of a site.
    pub fn site_name(&self, site: Site) -> &str {
        self.sites.name(site.0)
    }

    /// The name of a session.
    pub fn session_name(&self, session: Session) -> String {
        match session {
            Session::Process(process) => process.to_string(),
            Session::Named(id) => self.sessions.name(id).to_string(),
        }
    }
}
