//! The debts of a replica to others because of what it has said: it must hand all of it over in a view change, and find all of it
//! again after a restart.

use quorate_core::{Key, Timestamp, TransactionId, View};
use quorate_ir::{OperationEntries, Operations, RecordPage, Upcalls};

use super::Replica;
use crate::message::{Supplement, Tapir};

/// The state that a replica would hand over if its view changed now, and what it holds and stores.
#[derive(Clone, Debug)]
pub struct Handover {
    view: View,
    lineage: Vec<View>,
    tail: RecordPage<Tapir>,
    supplement: Supplement,
    floor: Timestamp,
    complete: Timestamp,
    held: Vec<(TransactionId, Timestamp)>,
    stored: Vec<(Key, Timestamp)>,
}

impl Handover {
    /// The losses in `restarted`, a replica that was built from what this one has written down: in words,
    /// nothing if all is well. That one may know more of what has ended, and promise more.
    pub fn lost_in(&self, restarted: &Handover) -> Vec<String> {
        let mut lost = Vec::new();
        let mut expect = |holds: bool, what: &str| {
            if !holds {
                lost.push(what.to_owned());
            }
        };
        expect(self.view == restarted.view, "its view");
        expect(self.lineage == restarted.lineage, "its lineage");
        expect(self.floor <= restarted.floor, "its floor");
        expect(self.complete <= restarted.complete, "that it was complete");
        let (ours, theirs) = (&self.supplement, &restarted.supplement);
        expect(ours.refusal <= theirs.refusal, "what it refuses");
        expect(ours.complete <= theirs.complete, "that others were complete");
        expect(ours.read_floor <= theirs.read_floor, "what was read");
        let kept = |id: &TransactionId| theirs.promises.iter().find(|(known, _)| known == id);
        for (id, promise) in &ours.promises {
            let is_kept = kept(id)
                .is_some_and(|(_, kept)| kept.ballot >= promise.ballot && kept.accepted >= promise.accepted);
            expect(is_kept, &format!("its promise for {id}"));
        }
        expect(self.held == restarted.held, "what it holds");
        expect(self.stored == restarted.stored, "what it stores");
        let entries = |page: &RecordPage<Tapir>, id| {
            let at = page.entries.binary_search_by_key(&id, |(known, _)| *known);
            at.ok().map(|at| page.entries[at].1.clone())
        };
        for (id, known) in &self.tail.entries {
            let found = entries(&restarted.tail, *id);
            expect(found.as_ref() == Some(known), &format!("what it said of {id}"));
        }
        for (id, found) in &restarted.tail.entries {
            let is_fact = |found: &OperationEntries<Tapir>| {
                found.consensus.is_empty() && found.inconsistent.as_ref().is_some_and(|entry| entry.executed)
            };
            let is_new = is_fact(found) && entries(&self.tail, *id).is_none();
            expect(is_new || entries(&self.tail, *id).is_some(), &format!("that {id} is not in its tail"));
        }
        lost
    }
}

impl Replica {
    /// The state that it would hand over now. Looks at everything that it keeps.
    pub fn handover(&self) -> Handover {
        let (record, floor, participant) = (self.ir.record(), self.ir.floor(), &self.participant);
        let mut tail = record.tail();
        tail.entries.retain(|(id, entries)| {
            let decided = entries.inconsistent.iter().map(|entry| Tapir::last_timestamp(&entry.operation));
            let voted = entries.consensus.iter().map(|entry| entry.operation.timestamp);
            // A transaction that the floor has passed, and that says no more than the floor, may be collected at any time.
            let says_more = record.is_live(*id, floor) && !record.is_executed(*id);
            says_more || decided.chain(voted).any(|timestamp| timestamp >= floor)
        });
        let held = participant.prepared.ids().into_iter();
        let held = held.filter_map(|id| Some((id, participant.prepared.entry(id)?.timestamp))).collect();
        let stored = participant.versions.iter().filter(|(_, version)| version.timestamp >= floor);
        Handover {
            view: self.ir.view(),
            lineage: record.lineage().to_vec(),
            tail,
            supplement: participant.contribution(),
            floor,
            complete: self.ir.complete(),
            held,
            stored: stored.map(|(key, version)| (key.clone(), version.timestamp)).collect(),
        }
    }
}
