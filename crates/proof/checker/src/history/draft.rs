//! Events between their source (lines or a recorder) and the builder, in batches whose buffers are used again
//! and again.

use std::ops::Range;

use super::intern::{KeyTable, NameTable};
use super::{Facts, KeyId, Malformed, Site, Timestamp, Value};

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
    pub(crate) elements: NameTable,
}

impl Names {
    fn clear(&mut self) {
        self.keys.clear();
        self.sessions.clear();
        self.sites.clear();
        self.elements.clear();
    }
}

/// A micro-operation of a draft.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DraftOp {
    pub(crate) key: KeyId,
    pub(crate) action: DraftAction,
}

/// The action of a micro-operation of a draft; lists and sets are ranges of the batch's buffers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DraftAction {
    Append(Value),
    Write(Value),
    Add(Value),
    Remove(Value),
    ReadNull,
    ReadRegister(Value),
    ReadList { start: u32, end: u32 },
    ReadSet { start: u32, end: u32 },
}

/// One event as it was read or recorded, not yet checked against the events before it.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) index: i64,
    pub(crate) event: EventType,
    pub(crate) process: i64,
    pub(crate) time: i64,
    pub(crate) session: Option<u32>,
    pub(crate) site: Option<Site>,
    pub(crate) observed: bool,
    pub(crate) elsewhere: bool,
    pub(crate) ts: Option<Timestamp>,
    /// Sites are numbered within the batch here too.
    pub(crate) facts: Option<Box<Facts>>,
    /// A `lost` line may leave its operations out.
    pub(crate) has_value: bool,
    /// Its operations in the batch.
    pub(crate) ops: Range<u32>,
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
            elsewhere: false,
            ts: None,
            facts: None,
            has_value: false,
            ops: 0..0,
        }
    }
}

/// Events in a row.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) drafts: Vec<Draft>,
    pub(crate) content: Content,
}

/// The objects of the drafts of a batch. Keys, sessions, sites and elements that are text are numbered within the batch, so that
/// batches can be filled independently of one another.
#[derive(Debug, Default)]
pub(crate) struct Content {
    pub(crate) names: Names,
    pub(crate) ops: Vec<DraftOp>,
    pub(crate) values: Vec<Value>,
    pub(crate) counts: Vec<(Value, i64)>,
}

impl Batch {
    pub(crate) fn clear(&mut self) {
        self.drafts.clear();
        self.content.names.clear();
        self.content.ops.clear();
        self.content.values.clear();
        self.content.counts.clear();
    }
}

impl Content {
    pub(crate) fn ops(&self, draft: &Draft) -> &[DraftOp] {
        &self.ops[draft.ops.start as usize..draft.ops.end as usize]
    }

    pub(crate) fn list(&self, start: u32, end: u32) -> &[Value] {
        &self.values[start as usize..end as usize]
    }

    pub(crate) fn set(&self, start: u32, end: u32) -> &[(Value, i64)] {
        &self.counts[start as usize..end as usize]
    }
}

/// A position in a buffer of the batch, which a block of lines cannot overflow.
pub(crate) fn position(len: usize) -> Result<u32, Malformed> {
    u32::try_from(len).map_err(|_| Malformed::TooLong)
}
