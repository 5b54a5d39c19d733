//! A history in a form that is easy to change: one entry per transaction, and moments instead of lines.

use quorate_checker::{History, MicroOp, ReadError, Recorder};

/// How a transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Ok,
    Fail,
    /// An abort whose reads are reported.
    FailObserved,
    Info,
    /// No line at all.
    Open,
    /// Acknowledged, and abandoned at a later moment.
    Lost(usize),
}

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) ops: Vec<MicroOp>,
    /// A speculative commit: when it was shown, and the operations with what it read.
    pub(crate) spec: Option<(usize, Vec<MicroOp>)>,
    pub(crate) site: Option<usize>,
    pub(crate) session: usize,
    pub(crate) end: End,
    pub(crate) invoked_at: usize,
    pub(crate) ended_at: usize,
}

impl Entry {
    pub(crate) fn has_failed(&self) -> bool {
        matches!(self.end, End::Fail | End::FailObserved)
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Tape {
    pub(crate) entries: Vec<Entry>,
    /// Sessions are told by process numbers, as far as no two transactions of one overlap.
    pub(crate) by_process: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Invoke,
    Spec,
    End,
    Lose,
}

impl Tape {
    pub(crate) fn record(&self) -> Recorder {
        let mut events = Vec::new();
        for (at, entry) in self.entries.iter().enumerate() {
            events.push((entry.invoked_at, Event::Invoke, at));
            events.extend(entry.spec.iter().map(|(moment, _)| (*moment, Event::Spec, at)));
            if entry.end != End::Open {
                events.push((entry.ended_at, Event::End, at));
            }
            if let End::Lost(moment) = entry.end {
                events.push((moment, Event::Lose, at));
            }
        }
        events.sort_unstable();
        let by_process = self.by_process && self.sessions_are_serial();
        let mut recorder = Recorder::new();
        let mut handles = vec![None; self.entries.len()];
        for (time, (_, event, at)) in (0..).zip(events) {
            let entry = &self.entries[at];
            if event == Event::Invoke {
                let process = if by_process { entry.session } else { at };
                let handle = recorder.invoke(process as u64, time);
                entry.ops.iter().for_each(|op| recorder.attempt(handle, op.clone()));
                entry.site.iter().for_each(|site| recorder.site(handle, format!("s{site}")));
                if !by_process {
                    recorder.session(handle, format!("c{}", entry.session));
                }
                handles[at] = Some(handle);
                continue;
            }
            let handle = handles[at].expect("a transaction is invoked first");
            match (event, entry.end) {
                (Event::Spec, _) => {
                    let ops = entry.spec.as_ref().map(|(_, ops)| ops.clone());
                    recorder.speculate(handle, time, ops.unwrap_or_default());
                }
                (Event::Lose, _) => recorder.lost(handle, time),
                (_, End::Ok | End::Lost(_)) => recorder.ok(handle, time, entry.ops.clone()),
                (_, End::Fail) => recorder.fail(handle, time),
                (_, End::FailObserved) => recorder.fail_observed(handle, time, entry.ops.clone()),
                (_, End::Info | End::Open) => recorder.info(handle, time),
            }
        }
        recorder
    }

    /// No two transactions of a session overlap, and one of unknown outcome is its last.
    fn sessions_are_serial(&self) -> bool {
        let mut entries: Vec<&Entry> = self.entries.iter().collect();
        entries.sort_by_key(|entry| (entry.session, entry.invoked_at));
        entries.windows(2).all(|pair| {
            let is_settled = !matches!(pair[0].end, End::Info | End::Open | End::Lost(_));
            pair[0].session != pair[1].session || is_settled && pair[0].ended_at < pair[1].invoked_at
        })
    }

    pub(crate) fn history(&self) -> Result<History, ReadError> {
        self.record().to_history()
    }

    pub(crate) fn json(&self) -> String {
        let mut json = Vec::new();
        self.record().write_json(&mut json).expect("memory does not fail");
        String::from_utf8(json).expect("JSON is UTF-8")
    }

    /// The smallest tape for which `fails` still holds, by leaving out one thing after another.
    pub(crate) fn shrink(mut self, fails: impl Fn(&Tape) -> bool) -> Tape {
        while let Some(smaller) = self.smaller().into_iter().find(|smaller| fails(smaller)) {
            self = smaller;
        }
        self
    }

    fn smaller(&self) -> Vec<Tape> {
        let mut smaller = Vec::new();
        let mut add = |change: &dyn Fn(&mut Tape)| {
            let mut tape = self.clone();
            change(&mut tape);
            smaller.push(tape);
        };
        for at in 0..self.entries.len() {
            add(&|tape| drop(tape.entries.remove(at)));
        }
        for (at, entry) in self.entries.iter().enumerate() {
            for op in 0..entry.ops.len() {
                add(&|tape| {
                    tape.entries[at].ops.remove(op);
                    tape.entries[at].spec.iter_mut().for_each(|(_, ops)| drop(ops.remove(op)));
                });
            }
            if entry.spec.is_some() {
                add(&|tape| tape.entries[at].spec = None);
            }
            if !matches!(entry.end, End::Ok | End::Open) {
                add(&|tape| tape.entries[at].end = End::Ok);
            }
            if entry.site.is_some_and(|site| site > 0) {
                add(&|tape| tape.entries[at].site = Some(0));
            }
        }
        smaller
    }
}
