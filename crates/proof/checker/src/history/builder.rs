//! The rules of the format, applied event by event, whether the events come from a file or from a recorder.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use super::draft::{Batch, Content, Draft, DraftAction, DraftOp, EventType};
use super::facts::Facts;
use super::intern::KeyType;
use super::{
    Action, History, KeyId, Malformed, NO_FACTS, Op, Outcome, Seen, Session, SetRef, Site, Speculation, Txn,
    TxnId,
};
use super::{ListRef, Value};

/// A duplicate write is only found once all writes are known, so the error carries the event that it belongs
/// to.
#[derive(Debug)]
pub(crate) struct MalformedAt {
    /// The index of the event.
    pub(crate) event: u64,
    pub(crate) reason: Malformed,
}

#[derive(Debug, Default)]
struct Process {
    open: Option<TxnId>,
    last: Option<TxnId>,
    /// It ended a transaction with an unknown outcome and must stay silent from then on.
    retired: bool,
}

/// Builds a history from drafts.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    history: History,
    renumbering: Renumbering,
    processes: HashMap<u64, Process, FixedState>,
    time: Option<i64>,
}

/// The number in the history of each name of a batch.
#[derive(Debug, Default)]
struct Renumbering {
    keys: Vec<KeyId>,
    sessions: Vec<u32>,
    sites: Vec<u32>,
}

impl Renumbering {
    fn clear(&mut self) {
        self.keys.clear();
        self.sessions.clear();
        self.sites.clear();
    }
}

impl Builder {
    /// Takes the next events; or says how many it took and which rule the one after them breaks.
    pub(crate) fn batch(&mut self, batch: &mut Batch) -> Result<(), (usize, Malformed)> {
        self.renumber(&mut batch.content);
        for (at, draft) in batch.drafts.iter().enumerate() {
            self.event(draft, &batch.content).map_err(|reason| (at, reason))?;
        }
        Ok(())
    }

    /// Gives the names of a batch their numbers in the history, in the order of their first appearance.
    fn renumber(&mut self, content: &mut Content) {
        let names = &content.names;
        let new = &mut self.renumbering;
        new.clear();
        new.keys.extend(names.keys.iter().map(|key| self.history.keys.intern(key)));
        new.sessions.extend(names.sessions.iter().map(|name| self.history.sessions.intern(name)));
        new.sites.extend(names.sites.iter().map(|name| self.history.sites.intern(name)));
        let elements = &mut self.history.elements;
        for op in &mut content.ops {
            op.key = new.keys[op.key.index()];
            if let DraftAction::Add(element) | DraftAction::Remove(element) = &mut op.action {
                *element = elements.element_of(&names.elements, *element);
            }
        }
        for (element, _) in &mut content.counts {
            *element = elements.element_of(&names.elements, *element);
        }
    }

    fn event(&mut self, draft: &Draft, content: &Content) -> Result<(), Malformed> {
        let index = self.history.events;
        if draft.index != i64::from(index) {
            return Err(Malformed::IndexNotContiguous { expected: index.into(), found: draft.index });
        }
        if self.history.ops.len() + draft.ops.len() >= u32::MAX as usize || index == u32::MAX - 1 {
            return Err(Malformed::TooLong);
        }
        if let Some(before) = self.time.filter(|&before| draft.time < before) {
            return Err(Malformed::TimeGoesBack { before, now: draft.time });
        }
        let process = u64::try_from(draft.process).map_err(|_| Malformed::NegativeProcess(draft.process))?;
        self.require_types(content.ops(draft))?;
        match draft.event {
            EventType::Invoke => self.invoke(process, draft, content)?,
            EventType::Ok | EventType::Fail | EventType::Info => self.complete(process, draft, content)?,
            EventType::Spec => self.speculate(process, draft, content)?,
            EventType::Lost => self.lose(process, draft, content)?,
        }
        self.time = Some(draft.time);
        self.history.events = index + 1;
        Ok(())
    }

    fn session(&self, draft: &Draft) -> Option<Session> {
        draft.session.map(|local| Session::Named(self.renumbering.sessions[local as usize]))
    }

    fn site(&self, draft: &Draft) -> Option<Site> {
        draft.site.map(|local| Site(self.renumbering.sites[local.0 as usize]))
    }

    /// The finished history. Values written twice to one key are found here.
    pub(crate) fn finish(self) -> Result<History, MalformedAt> {
        if self.history.events == 0 {
            return Err(MalformedAt { event: 0, reason: Malformed::Empty });
        }
        self.refuse_duplicate_writes()?;
        Ok(self.history)
    }

    fn require_types(&mut self, ops: &[DraftOp]) -> Result<(), Malformed> {
        for op in ops {
            let key_type = match op.action {
                DraftAction::Append(_) | DraftAction::ReadList { .. } => KeyType::List,
                DraftAction::Write(_) | DraftAction::ReadRegister(_) => KeyType::Register,
                DraftAction::Add(_) | DraftAction::Remove(_) | DraftAction::ReadSet { .. } => {
                    KeyType::CountingSet
                }
                DraftAction::ReadNull => continue,
            };
            self.history.keys.require_type(op.key, key_type)?;
        }
        Ok(())
    }

    fn invoke(&mut self, process_number: u64, draft: &Draft, content: &Content) -> Result<(), Malformed> {
        let session = self.session(draft).unwrap_or(Session::Process(process_number));
        let site = self.site(draft);
        let process = self.processes.entry(process_number).or_default();
        if process.retired {
            return Err(Malformed::ProcessReused(process_number));
        }
        if process.open.is_some() {
            return Err(Malformed::TwoOpenTransactions(process_number));
        }
        let txn = TxnId(self.history.txns.len() as u32);
        let previous_of_process = process.last.replace(txn);
        process.open = Some(txn);
        let ops_start = self.history.ops.len() as u32;
        for op in content.ops(draft) {
            let action = match op.action {
                DraftAction::ReadNull => Action::Read(Seen::Nothing),
                ref action => written_action(action).ok_or(Malformed::ReadInInvocation)?,
            };
            self.history.ops.push(Op { key: op.key, action });
        }
        self.history.txns.push(Txn {
            invoke: self.history.events,
            completion: None,
            invoked_at: draft.time,
            completed_at: draft.time,
            process: process_number,
            session,
            site,
            outcome: Outcome::Unknown,
            observed: false,
            elsewhere: false,
            lost: false,
            speculation: None,
            ts: draft.ts,
            facts: NO_FACTS,
            ops_start,
            ops_end: self.history.ops.len() as u32,
            previous_of_process,
        });
        self.add_facts(txn, draft)
    }

    fn complete(&mut self, process_number: u64, draft: &Draft, content: &Content) -> Result<(), Malformed> {
        let id = self.open_transaction(process_number, draft, content)?;
        let outcome = match draft.event {
            EventType::Ok => Outcome::Committed,
            EventType::Fail => Outcome::Aborted,
            _ => Outcome::Unknown,
        };
        let observed = outcome == Outcome::Aborted && draft.observed;
        let start = self.history.txns[id.index()].ops_start as usize;
        if outcome == Outcome::Committed || observed {
            for (at, op) in content.ops(draft).iter().enumerate() {
                if let Some(seen) = self.seen(op, content, outcome == Outcome::Committed)? {
                    self.history.ops[start + at].action = Action::Read(seen);
                }
            }
        }
        let txn = &mut self.history.txns[id.index()];
        txn.completion = Some(self.history.events);
        txn.completed_at = draft.time;
        txn.outcome = outcome;
        txn.observed = observed;
        txn.elsewhere = outcome == Outcome::Aborted && draft.elsewhere;
        txn.ts = draft.ts.or(txn.ts);
        let process = self.processes.entry(process_number).or_default();
        process.open = None;
        process.retired = outcome == Outcome::Unknown;
        self.add_facts(id, draft)
    }

    fn speculate(&mut self, process_number: u64, draft: &Draft, content: &Content) -> Result<(), Malformed> {
        let id = self.open_transaction(process_number, draft, content)?;
        if self.history.txns[id.index()].speculation.is_some() {
            return Err(Malformed::SecondSpeculation(process_number));
        }
        let ops_start = self.history.ops.len() as u32;
        for op in content.ops(draft) {
            let action = match self.seen(op, content, false)? {
                Some(seen) => Action::Read(seen),
                None => written_action(&op.action).unwrap_or(Action::Read(Seen::Nothing)),
            };
            self.history.ops.push(Op { key: op.key, action });
        }
        let ops_end = self.history.ops.len() as u32;
        let index = self.history.events;
        self.history.txns[id.index()].speculation = Some(Speculation { index, ops_start, ops_end });
        self.add_facts(id, draft)
    }

    /// The facts of servers on this line.
    fn facts_of(&self, draft: &Draft) -> Option<Facts> {
        let mut facts = draft.facts.as_deref().cloned()?;
        if let Some(vts) = &mut facts.vts {
            for (site, _) in &mut *vts {
                *site = Site(self.renumbering.sites[site.0 as usize]);
            }
            vts.retain(|&(_, commits)| commits > 0);
            vts.sort_unstable();
        }
        Some(facts)
    }

    /// Keeps what the servers said on this line about a transaction.
    fn add_facts(&mut self, id: TxnId, draft: &Draft) -> Result<(), Malformed> {
        let Some(facts) = self.facts_of(draft) else { return Ok(()) };
        let txn = &mut self.history.txns[id.index()];
        match self.history.facts.get_mut(txn.facts as usize) {
            Some(known) => known.merge(facts),
            None => {
                txn.facts = self.history.facts.len() as u32;
                self.history.facts.push(facts);
                Ok(())
            }
        }
    }

    /// Marks the latest acknowledged transaction of the process that has these operations, and of which nothing else was said.
    fn lose(&mut self, process_number: u64, draft: &Draft, content: &Content) -> Result<(), Malformed> {
        let mut candidate = self.processes.get(&process_number).and_then(|process| process.last);
        let facts = self.facts_of(draft);
        while let Some(id) = candidate {
            let txn = &self.history.txns[id.index()];
            let acknowledged = txn.outcome == Outcome::Committed && !txn.lost;
            let known = self.history.facts.get(txn.facts as usize);
            let agrees =
                known.zip(facts.clone()).is_none_or(|(known, facts)| known.clone().merge(facts).is_ok());
            if acknowledged
                && agrees
                && (!draft.has_value || self.first_difference(txn, content.ops(draft)).is_none())
            {
                self.history.txns[id.index()].lost = true;
                return self.add_facts(id, draft);
            }
            candidate = txn.previous_of_process;
        }
        Err(Malformed::NothingLost(process_number))
    }

    fn open_transaction(
        &self,
        process_number: u64,
        draft: &Draft,
        content: &Content,
    ) -> Result<TxnId, Malformed> {
        let process = self.processes.get(&process_number);
        if process.is_some_and(|process| process.retired) {
            return Err(Malformed::ProcessReused(process_number));
        }
        let open = process.and_then(|process| process.open);
        let id = open.ok_or(Malformed::NoOpenTransaction(process_number))?;
        let txn = &self.history.txns[id.index()];
        if let Some(position) = self.first_difference(txn, content.ops(draft)) {
            return Err(Malformed::ShapeDiffers { position });
        }
        if self.session(draft).is_some_and(|session| session != txn.session) {
            return Err(Malformed::OriginDiffers("session"));
        }
        if self.site(draft).is_some_and(|site| Some(site) != txn.site) {
            return Err(Malformed::OriginDiffers("site"));
        }
        Ok(id)
    }

    /// The first operation, counted from 1, in which a draft differs from the invoked one, whatever its reads
    /// saw.
    fn first_difference(&self, txn: &Txn, ops: &[DraftOp]) -> Option<usize> {
        let invoked = self.history.ops(txn);
        for (at, (op, draft_op)) in invoked.iter().zip(ops).enumerate() {
            let same_action = match written_action(&draft_op.action) {
                Some(action) => action == op.action,
                None => matches!(op.action, Action::Read(_)),
            };
            if op.key != draft_op.key || !same_action {
                return Some(at + 1);
            }
        }
        (invoked.len() != ops.len()).then(|| invoked.len().min(ops.len()) + 1)
    }

    /// The result of a read of a completion; none for an operation that is not a read.
    fn seen(
        &mut self,
        op: &DraftOp,
        content: &Content,
        acknowledged: bool,
    ) -> Result<Option<Seen>, Malformed> {
        Ok(Some(match op.action {
            DraftAction::ReadNull => Seen::Initial,
            DraftAction::ReadRegister(value) => Seen::Register(value),
            DraftAction::ReadList { start, end } if start == end => Seen::Initial,
            DraftAction::ReadList { start, end } => {
                let list = content.list(start, end);
                Seen::List(ListRef(self.history.lists.add(op.key, list, acknowledged)))
            }
            DraftAction::ReadSet { start, end } if start == end => Seen::Initial,
            DraftAction::ReadSet { start, end } => Seen::Set(self.add_set(content.set(start, end))?),
            _ => return Ok(None),
        }))
    }

    fn add_set(&mut self, counts: &[(Value, i64)]) -> Result<SetRef, Malformed> {
        let start = self.history.sets.len();
        self.history.sets.extend_from_slice(counts);
        let set = &mut self.history.sets[start..];
        set.sort_unstable();
        let repeated = set.windows(2).find(|pair| pair[0].0 == pair[1].0).map(|pair| pair[0]);
        let zero = set.iter().copied().find(|&(_, count)| count == 0);
        if let Some((element, _)) = repeated.or(zero) {
            return Err(Malformed::BadElement(self.history.element(element).to_string()));
        }
        Ok(SetRef { start: start as u32, len: counts.len() as u32 })
    }

    /// Sorts all writes by key and value; the later one of two equal neighbours is the duplicate.
    fn refuse_duplicate_writes(&self) -> Result<(), MalformedAt> {
        let history = &self.history;
        let mut writes: Vec<(KeyId, Value, u32)> = Vec::new();
        for txn in &history.txns {
            for op in history.ops(txn) {
                if let Some(value) = op.action.written() {
                    writes.push((op.key, value, txn.invoke));
                }
            }
        }
        writes.sort_unstable();
        let duplicates = writes.windows(2).filter(|pair| (pair[0].0, pair[0].1) == (pair[1].0, pair[1].1));
        match duplicates.map(|pair| pair[1]).min_by_key(|&(key, value, invoke)| (invoke, key, value)) {
            None => Ok(()),
            Some((key, value, invoke)) => {
                let key = history.key(key).to_string();
                Err(MalformedAt { event: invoke.into(), reason: Malformed::DuplicateWrite { key, value } })
            }
        }
    }
}

fn written_action(action: &DraftAction) -> Option<Action> {
    match *action {
        DraftAction::Append(value) => Some(Action::Append(value)),
        DraftAction::Write(value) => Some(Action::Write(value)),
        DraftAction::Add(value) => Some(Action::Add(value)),
        DraftAction::Remove(value) => Some(Action::Remove(value)),
        _ => None,
    }
}
