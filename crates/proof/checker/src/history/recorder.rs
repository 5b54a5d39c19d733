//! Recording a history while a workload runs: in memory, then judged directly or written as JSON lines.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::builder::Builder;
use super::draft::{Batch, Content, Draft, DraftAction, DraftOp, EventType, position};
use super::element::Spelled;
use super::intern::NameTable;
use super::{Facts, History, Key, ReadError, Site, Timestamp, VALUE_BOUND, Value};
use super::{Malformed, ReadError::Malformed as MalformedLine};

/// A micro-operation as a workload records it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MicroOp {
    /// Appends a value to a list.
    Append(Key, Value),
    /// Overwrites a register.
    Write(Key, Value),
    /// Adds one to the count of an element of a counting set.
    Add(Key, Value),
    /// Takes one from the count of an element of a counting set.
    Remove(Key, Value),
    /// Reads a key.
    Read(Key, Observed),
}

/// The result of a read as a workload records it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observed {
    /// Nothing was found, or the result is not known yet.
    Null,
    /// The value of a register.
    Register(Value),
    /// The elements of a list.
    List(Vec<Value>),
    /// The elements of a counting set with their counts.
    Set(BTreeMap<Value, i64>),
}

/// Names a transaction of one recorder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordedTxn(usize);

#[derive(Debug, Clone, Default)]
struct Recording {
    process: u64,
    session: Option<String>,
    site: Option<String>,
    ops: Vec<MicroOp>,
    speculated: Option<Vec<MicroOp>>,
    observed: bool,
    elsewhere: bool,
    ts: Option<Timestamp>,
    facts: Option<RecordedFacts>,
}

/// The facts that servers told of a transaction, as a workload records them; see [`Facts`] for the meaning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordedFacts {
    /// The read snapshot.
    pub rs: Option<Timestamp>,
    /// The local commit.
    pub lc: Option<Timestamp>,
    /// The final commit.
    pub fc: Option<Timestamp>,
    /// The snapshot as a vector: how many commits of each site it holds.
    pub vts: Option<BTreeMap<String, u64>>,
    /// The place among the commits of the transaction's site.
    pub site_seq: Option<u64>,
}

impl MicroOp {
    /// The key.
    pub fn key(&self) -> &Key {
        match self {
            MicroOp::Append(key, _)
            | MicroOp::Write(key, _)
            | MicroOp::Add(key, _)
            | MicroOp::Remove(key, _)
            | MicroOp::Read(key, _) => key,
        }
    }
}

impl RecordedFacts {
    fn draft(&self, content: &mut Content) -> Facts {
        let vts = self.vts.as_ref().map(|vts| {
            vts.iter().map(|(site, &commits)| (Site(content.names.sites.intern(site)), commits)).collect()
        });
        Facts { rs: self.rs, lc: self.lc, fc: self.fc, vts, site_seq: self.site_seq }
    }

    fn write_json(&self, out: &mut impl Write) -> io::Result<()> {
        for (field, ts) in [("rs", self.rs), ("lc", self.lc), ("fc", self.fc)] {
            if let Some(ts) = ts {
                write!(out, ",\"{field}\":[{},{}]", ts.time, ts.client)?;
            }
        }
        if let Some(vts) = &self.vts {
            write!(out, ",\"vts\":{}", serde_json::to_string(vts)?)?;
        }
        if let Some(site_seq) = self.site_seq {
            write!(out, ",\"site_seq\":{site_seq}")?;
        }
        Ok(())
    }
}

/// Records events in the order in which they happen.
///
/// The order of the calls is the order of the history, and times must not go back; two events of one instant
/// are recorded invocations first where that is possible. Operations need not be known at the invocation:
/// those that are given with the outcome stand, and a transaction that stays open keeps those that
/// [`Recorder::attempt`] announced. Announce a write before it is sent, or a reader of it will seem to have
/// read a value that nobody wrote.
///
/// ```
/// use quorate_checker::{Level, MicroOp, Observed, Recorder, Verdict, check};
///
/// let mut recorder = Recorder::new();
/// let writer = recorder.invoke(0, 1_000);
/// recorder.attempt(writer, MicroOp::Append("x".into(), 1));
/// let reader = recorder.invoke(1, 2_000);
/// recorder.ok(reader, 3_000, vec![MicroOp::Read("x".into(), Observed::List(vec![1]))]);
/// let history = recorder.into_history()?;
/// assert_eq!(check(&history, Level::StrictSerializable).verdict, Verdict::Valid);
/// # Ok::<(), quorate_checker::ReadError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Recorder {
    txns: Vec<Recording>,
    events: Vec<(EventType, RecordedTxn, i64)>,
    elements: NameTable,
}

impl Recorder {
    /// An empty recorder.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty recorder to which the elements of a history mean the same.
    pub(crate) fn spelling_like(history: &History) -> Self {
        Recorder { elements: history.elements.clone(), ..Self::default() }
    }

    /// The element of counting sets that is spelled so, for operations on them. Text that spells a number is that number.
    pub fn element(&mut self, spelling: &str) -> Value {
        self.elements.element(spelling)
    }

    /// The number of events so far.
    pub fn event_count(&self) -> usize {
        self.events.len()
    }

    /// The transactions so far, in the order of their invocations.
    pub fn txns(&self) -> impl Iterator<Item = RecordedTxn> + use<> {
        (0..self.txns.len()).map(RecordedTxn)
    }

    /// A process begins a transaction at `time`, in nanoseconds.
    pub fn invoke(&mut self, process: u64, time: i64) -> RecordedTxn {
        let txn = RecordedTxn(self.txns.len());
        self.txns.push(Recording { process, ..Recording::default() });
        self.events.push((EventType::Invoke, txn, time));
        txn
    }

    /// Names the session of a transaction, which otherwise is its process.
    pub fn session(&mut self, txn: RecordedTxn, session: impl Into<String>) {
        self.txns[txn.0].session = Some(session.into());
    }

    /// Names the site where a transaction originates.
    pub fn site(&mut self, txn: RecordedTxn, site: impl Into<String>) {
        self.txns[txn.0].site = Some(site.into());
    }

    /// The servers gave this commit timestamp to the transaction.
    pub fn timestamp(&mut self, txn: RecordedTxn, ts: Timestamp) {
        self.txns[txn.0].ts = Some(ts);
    }

    /// The servers said this about the transaction. Their earlier word stands where they say nothing now: a snapshot and a local commit are
    /// told with a speculative result, a final commit later.
    pub fn facts(&mut self, txn: RecordedTxn, facts: RecordedFacts) {
        let RecordedFacts { rs, lc, fc, vts, site_seq } = facts;
        let known = self.txns[txn.0].facts.get_or_insert_default();
        known.rs = rs.or(known.rs);
        known.lc = lc.or(known.lc);
        known.fc = fc.or(known.fc);
        known.vts = vts.or(known.vts.take());
        known.site_seq = site_seq.or(known.site_seq);
    }

    /// Announces an operation that the transaction is about to perform.
    pub fn attempt(&mut self, txn: RecordedTxn, op: MicroOp) {
        self.txns[txn.0].ops.push(op);
    }

    /// The transaction committed; these are all its operations in program order.
    pub fn ok(&mut self, txn: RecordedTxn, time: i64, ops: Vec<MicroOp>) {
        self.txns[txn.0].ops = ops;
        self.events.push((EventType::Ok, txn, time));
    }

    /// The transaction surely aborted, and what it read is not recorded.
    pub fn fail(&mut self, txn: RecordedTxn, time: i64) {
        self.events.push((EventType::Fail, txn, time));
    }

    /// The transaction surely aborted, and its reads are what it really saw.
    pub fn fail_observed(&mut self, txn: RecordedTxn, time: i64, ops: Vec<MicroOp>) {
        self.txns[txn.0].ops = ops;
        self.txns[txn.0].observed = true;
        self.events.push((EventType::Fail, txn, time));
    }

    /// Another node than its own has told of the abort of the transaction, and its own may not have heard.
    pub fn elsewhere(&mut self, txn: RecordedTxn) {
        self.txns[txn.0].elsewhere = true;
    }

    /// The outcome is unknown. The process must not be used again.
    pub fn info(&mut self, txn: RecordedTxn, time: i64) {
        self.events.push((EventType::Info, txn, time));
    }

    /// A speculative commit was shown, with these operations; the outcome is still to come.
    pub fn speculate(&mut self, txn: RecordedTxn, time: i64, ops: Vec<MicroOp>) {
        self.txns[txn.0].ops.clone_from(&ops);
        self.txns[txn.0].speculated = Some(ops);
        self.events.push((EventType::Spec, txn, time));
    }

    /// The acknowledged transaction was abandoned by an aggressive site removal.
    pub fn lost(&mut self, txn: RecordedTxn, time: i64) {
        self.events.push((EventType::Lost, txn, time));
    }

    /// The history, for judging without a detour through a file.
    ///
    /// # Errors
    ///
    /// The same as [`History::read`] of what [`Recorder::write_json`] writes.
    pub fn into_history(self) -> Result<History, ReadError> {
        self.to_history()
    }

    /// A copy of this recorder without some transactions.
    #[must_use]
    pub fn without(&self, is_left_out: impl Fn(RecordedTxn) -> bool) -> Recorder {
        let events = self.events.iter().filter(|(_, txn, _)| !is_left_out(*txn)).cloned().collect();
        Recorder { txns: self.txns.clone(), events, elements: self.elements.clone() }
    }

    /// A copy of this recorder as it was at `time`: every transaction that was open then has no outcome.
    #[must_use]
    pub fn until(&self, time: i64) -> Recorder {
        let events = self.events.iter().filter(|(_, _, at)| *at <= time).cloned().collect();
        Recorder { txns: self.txns.clone(), events, elements: self.elements.clone() }
    }

    /// A copy of this recorder as if nothing had been done with other keys than these, and as if the outcomes of some acknowledged transactions were
    /// not known. Such a transaction belongs to no session.
    #[must_use]
    pub fn about(
        &self,
        is_meant: impl Fn(&Key) -> bool,
        is_unknown: impl Fn(RecordedTxn) -> bool,
    ) -> Recorder {
        let mut txns = self.txns.clone();
        let free = txns.iter().map(|recording| recording.process).max().map_or(0, |last| last + 1);
        for (number, recording) in (0..).zip(&mut txns) {
            let ops = [Some(&mut recording.ops), recording.speculated.as_mut()];
            ops.into_iter().flatten().for_each(|ops| ops.retain(|op| is_meant(op.key())));
            if is_unknown(RecordedTxn(number)) {
                // A process ends with a transaction of which it does not know the outcome.
                (recording.process, recording.session) = (free + number as u64, None);
            }
        }
        let event = |(event, txn, time): &(EventType, RecordedTxn, i64)| match event {
            EventType::Ok if is_unknown(*txn) => (EventType::Info, *txn, *time),
            other => (*other, *txn, *time),
        };
        Recorder { txns, events: self.events.iter().map(event).collect(), elements: self.elements.clone() }
    }

    /// The content that this recorder would have if each write of some transactions had been asked for by itself, as a transaction of unknown outcome that
    /// belongs to no session. The reads of these transactions are left out.
    #[must_use]
    pub fn in_pieces(&self, is_broken: impl Fn(RecordedTxn) -> bool) -> Recorder {
        let mut pieces =
            Recorder { txns: self.txns.clone(), events: Vec::new(), elements: self.elements.clone() };
        let mut process =
            self.txns.iter().map(|recording| recording.process).max().map_or(0, |last| last + 1);
        for (event, txn, time) in &self.events {
            if !is_broken(*txn) {
                pieces.events.push((*event, *txn, *time));
            } else if *event == EventType::Invoke {
                let writes = self.txns[txn.0].ops.iter().filter(|op| !matches!(op, MicroOp::Read(..)));
                for op in writes {
                    let piece = pieces.invoke(process, *time);
                    pieces.attempt(piece, op.clone());
                    process += 1;
                }
            }
        }
        pieces
    }

    /// The history so far; the recorder can go on.
    ///
    /// # Errors
    ///
    /// The same as [`History::read`] of what [`Recorder::write_json`] writes.
    pub fn to_history(&self) -> Result<History, ReadError> {
        let (mut batch, mut builder) = (Batch::default(), Builder::default());
        for at in 0..self.events.len() {
            let line = at as u64 + 1;
            batch.clear();
            self.draft(at, &mut batch).map_err(|reason| MalformedLine { line, reason })?;
            builder.batch(&mut batch).map_err(|(_, reason)| MalformedLine { line, reason })?;
        }
        builder.finish().map_err(|error| MalformedLine { line: error.event + 1, reason: error.reason })
    }

    /// Fills a batch with one event.
    fn draft(&self, at: usize, batch: &mut Batch) -> Result<(), Malformed> {
        let (event, txn, time) = self.events[at];
        let recording = &self.txns[txn.0];
        let names = &mut batch.content.names;
        let mut draft = Draft::new();
        draft.index = at as i64;
        draft.event = event;
        draft.process = i64::try_from(recording.process).map_err(|_| Malformed::TooLong)?;
        draft.time = time;
        draft.session = recording.session.as_deref().map(|name| names.sessions.intern(name));
        draft.site = recording.site.as_deref().map(|name| Site(names.sites.intern(name)));
        draft.observed = recording.observed && event == EventType::Fail;
        draft.elsewhere = recording.elsewhere && event == EventType::Fail;
        draft.ts = recording.ts.filter(|_| event != EventType::Invoke);
        let facts = recording.facts.as_ref().filter(|_| event != EventType::Invoke);
        draft.facts = facts.map(|facts| Box::new(facts.draft(&mut batch.content)));
        draft.has_value = true;
        for op in self.event_ops(event, recording) {
            let op = draft_op(op, event, &self.elements, &mut batch.content)?;
            batch.content.ops.push(op);
        }
        draft.ops = 0..position(batch.content.ops.len())?;
        batch.drafts.push(draft);
        Ok(())
    }

    fn event_ops<'a>(&self, event: EventType, recording: &'a Recording) -> &'a [MicroOp] {
        match (&recording.speculated, event) {
            (Some(ops), EventType::Spec) => ops,
            _ => &recording.ops,
        }
    }

    /// Writes the history as JSON lines.
    ///
    /// # Errors
    ///
    /// Every error of `output`. The rules of the format are not checked here.
    pub fn write_json(&self, output: impl Write) -> io::Result<()> {
        let mut out = io::BufWriter::new(output);
        for (index, &(event, txn, time)) in self.events.iter().enumerate() {
            let recording = &self.txns[txn.0];
            write!(out, "{{\"index\":{index},\"type\":\"{}\",", event.name())?;
            write!(out, "\"process\":{},\"f\":\"txn\",\"time\":{time}", recording.process)?;
            for (field, name) in [("site", &recording.site), ("session", &recording.session)] {
                if let Some(name) = name {
                    write!(out, ",\"{field}\":{}", serde_json::to_string(name)?)?;
                }
            }
            for (field, holds) in [("observed", recording.observed), ("elsewhere", recording.elsewhere)] {
                if holds && event == EventType::Fail {
                    write!(out, ",\"{field}\":true")?;
                }
            }
            if let Some(ts) = recording.ts.filter(|_| event != EventType::Invoke) {
                write!(out, ",\"ts\":[{},{}]", ts.time, ts.client)?;
            }
            if let Some(facts) = recording.facts.as_ref().filter(|_| event != EventType::Invoke) {
                facts.write_json(&mut out)?;
            }
            write!(out, ",\"value\":[")?;
            for (at, op) in self.event_ops(event, recording).iter().enumerate() {
                write!(out, "{}", if at > 0 { "," } else { "" })?;
                write_op(&mut out, op, event == EventType::Invoke, &self.elements)?;
            }
            writeln!(out, "]}}")?;
        }
        out.flush()
    }
}

fn draft_op(
    op: &MicroOp,
    event: EventType,
    elements: &NameTable,
    content: &mut Content,
) -> Result<DraftOp, Malformed> {
    let written = match op {
        MicroOp::Append(_, value) | MicroOp::Write(_, value) => Some(value),
        MicroOp::Add(_, value) | MicroOp::Remove(_, value) => {
            Some(value).filter(|value| matches!(elements.spelled(**value), Spelled::Number(_)))
        }
        MicroOp::Read(..) => None,
    };
    if let Some(value) = written
        && value.unsigned_abs() >= VALUE_BOUND.unsigned_abs()
    {
        return Err(Malformed::ValueTooLarge(*value));
    }
    let (key, action) = match op {
        MicroOp::Append(key, value) => (key, DraftAction::Append(*value)),
        MicroOp::Write(key, value) => (key, DraftAction::Write(*value)),
        MicroOp::Add(key, value) => {
            (key, DraftAction::Add(content.names.elements.element_of(elements, *value)))
        }
        MicroOp::Remove(key, value) => {
            (key, DraftAction::Remove(content.names.elements.element_of(elements, *value)))
        }
        MicroOp::Read(key, _) if event == EventType::Invoke => (key, DraftAction::ReadNull),
        MicroOp::Read(key, observed) => (key, draft_read(observed, elements, content)?),
    };
    Ok(DraftOp { key: content.names.keys.intern(key), action })
}

fn draft_read(
    observed: &Observed,
    elements: &NameTable,
    content: &mut Content,
) -> Result<DraftAction, Malformed> {
    Ok(match observed {
        Observed::Null => DraftAction::ReadNull,
        Observed::Register(value) => DraftAction::ReadRegister(*value),
        Observed::List(list) => {
            let start = position(content.values.len())?;
            content.values.extend_from_slice(list);
            DraftAction::ReadList { start, end: position(content.values.len())? }
        }
        Observed::Set(set) => {
            let start = position(content.counts.len())?;
            for (&element, &count) in set {
                content.counts.push((content.names.elements.element_of(elements, element), count));
            }
            DraftAction::ReadSet { start, end: position(content.counts.len())? }
        }
    })
}

fn write_op(out: &mut impl Write, op: &MicroOp, invoked: bool, elements: &NameTable) -> io::Result<()> {
    let (name, key) = match op {
        MicroOp::Append(key, _) => ("append", key),
        MicroOp::Write(key, _) => ("w", key),
        MicroOp::Add(key, _) => ("add", key),
        MicroOp::Remove(key, _) => ("rem", key),
        MicroOp::Read(key, _) => ("r", key),
    };
    match key {
        Key::Int(key) => write!(out, "[\"{name}\",{key},")?,
        Key::Text(key) => write!(out, "[\"{name}\",{},", serde_json::to_string(key)?)?,
    }
    match op {
        MicroOp::Append(_, value) | MicroOp::Write(_, value) => write!(out, "{value}]"),
        MicroOp::Add(_, element) | MicroOp::Remove(_, element) => match elements.spelled(*element) {
            Spelled::Number(number) => write!(out, "{number}]"),
            Spelled::Text(text) => write!(out, "{}]", serde_json::to_string(text)?),
        },
        MicroOp::Read(_, observed) if !invoked => write!(out, "{}]", observed_json(observed, elements)),
        MicroOp::Read(..) => write!(out, "null]"),
    }
}

fn observed_json(observed: &Observed, elements: &NameTable) -> serde_json::Value {
    match observed {
        Observed::Null => serde_json::Value::Null,
        Observed::Register(value) => (*value).into(),
        Observed::List(list) => list.as_slice().into(),
        Observed::Set(set) => {
            let counts =
                set.iter().map(|(&element, &count)| (elements.spelled(element).to_string(), count.into()));
            serde_json::Value::Object(counts.collect())
        }
    }
}
