//! One event between its source (a line or a recorder) and the builder. The buffers are reused from event to
//! event.

use super::intern::{KeyTable, NameTable};
use super::{KeyId, Site, Timestamp, Value};

/// The type of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventType {
    Invoke,
    Ok,
    Fail,
    Info,
    Spec,
    Lost,
}

impl EventType {
    pub(crate) fn name(self) -> &'static str {
        match self {
            EventType::Invoke => "invoke",
            EventType::Ok => "ok",
            EventType::Fail => "fail",
            EventType::Info => "info",
            EventType::Spec => "spec",
            EventType::Lost => "lost",
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        use EventType::*;
        [Invoke, Ok, Fail, Info, Spec, Lost].into_iter().find(|kind| kind.name() == name)
    }
}

/// The names that events mention, numbered.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub(crate) keys: KeyTable,
    pub(crate) sessions: NameTable,
    pub(crate) sites: NameTable,
}

/// A micro-operation of a draft.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DraftOp {
    pub(crate) key: KeyId,
    pub(crate) action: DraftAction,
}

/// What a micro-operation of a draft does; lists and sets are ranges of the draft's buffers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DraftAction {
    Append(Value),
    Write(Value),
    Add(Value),
    Remove(Value),
    ReadNull,
    ReadRegister(Value),
    ReadList { start: usize, end: usize },
    ReadSet { start: usize, end: usize },
}

/// One event as it was read or recorded, not yet checked against the events before it.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) index: i64,
    pub(crate) event: EventType,
    pub(crate) process: i64,
    pub(crate) time: i64,
    pub(crate) session: Option<u32>,
    pub(crate) site: Option<Site>,
    pub(crate) observed: bool,
    pub(crate) ts: Option<Timestamp>,
    /// A `lost` line may leave its operations out.
    pub(crate) has_value: bool,
    pub(crate) ops: Vec<DraftOp>,
    pub(crate) values: Vec<Value>,
    pub(crate) counts: Vec<(Value, i64)>,
}

impl Draft {
    pub(crate) fn new() -> Self {
        Draft {
            index: 0,
            event: EventType::Invoke,
            process: 0,
            time: 0,
            session: None,
            site: None,
            observed: false,
            ts: None,
            has_value: false,
            ops: Vec::new(),
            values: Vec::new(),
            counts: Vec::new(),
        }
    }

    pub(crate) fn clear(&mut self) {
        self.session = None;
        self.site = None;
        self.observed = false;
        self.ts = None;
        self.has_value = false;
        self.ops.clear();
        self.values.clear();
        self.counts.clear();
    }
}
