//! Facts of the servers about transactions, in histories: the place of each among those of the local sites.

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_checker::RecordedTxn;
use quorate_checker::history::RecordedFacts;
use quorate_core::command::AtSite;
use quorate_core::{Instant, TransactionId};

use super::Clients;
use crate::cluster::Cluster;
use crate::system::{Facts, System};

impl Clients {
    /// A client was told where its transaction stands.
    pub(super) fn record_place<S: System>(
        &mut self,
        session: usize,
        at_site: Option<&AtSite>,
        cluster: &Cluster<S>,
    ) {
        let Some(attempt) = self.sessions[session].attempt.as_ref().filter(|_| S::FACTS == Facts::Vectors)
        else {
            return;
        };
        let (id, recorded, home) = (attempt.id, attempt.recorded, attempt.site.clone());
        let Some(at_site) = at_site else {
            return self.nonsense.push(format!("{id} committed, and its client does not know its snapshot"));
        };
        let is_elsewhere = |site: u16| cluster.local_site(usize::from(site)) != home;
        if let Some(version) = at_site.version.filter(|version| is_elsewhere(version.site)) {
            self.nonsense.push(format!("{id} of a client at {home} committed as {version:?}"));
        }
        self.recorder.facts(recorded, facts(at_site, cluster));
        self.judge_pipeline(id, at_site);
        if let Some(attempt) = &mut self.sessions[session].attempt {
            attempt.place = Some(at_site.clone());
        }
    }

    /// Nobody knows any more what became of a transaction: which makes no sense where nothing is forgotten. Of other systems than
    /// Granola that is not promised: where a server gives timestamps, who asks cannot say since when a transaction may be known, and is told
    /// so as soon as a leader has looked for its first floor.
    pub(super) fn note_forgotten<S: System>(&mut self, transaction: TransactionId, cluster: &Cluster<S>) {
        /// A system that collects nothing at first begins after a minute.
        const NOTHING_BEFORE: Duration = Duration::from_secs(60);
        let is_early = cluster.world.now() - Instant::START < NOTHING_BEFORE;
        if S::RUNS_ONE_ROUND && is_early && !S::collects(&cluster.scenario.settings) {
            self.nonsense.push(format!("{transaction} was forgotten, and nothing is forgotten here"));
        }
    }

    /// The end of an attempt was not told with its place, or is not known yet.
    pub(super) fn note_unplaced<S: System>(&mut self, id: TransactionId, recorded: RecordedTxn) {
        if S::FACTS == Facts::Vectors {
            self.unplaced.push((id, recorded));
        }
    }

    /// Records the places of transactions whose clients were not told of them, as the inspector of the system has seen them.
    pub fn record_late_places<S: System>(&mut self, inspector: &S::Inspector, cluster: &Cluster<S>) {
        for (id, recorded) in std::mem::take(&mut self.unplaced) {
            let place = S::place_of(inspector, id).filter(|place| !is_abandoned(place, cluster));
            let Some(at_site) = place else { continue };
            let undecided = self.undecided.iter_mut().find(|undecided| undecided.attempt.id == id);
            if let Some(undecided) = undecided.filter(|undecided| !undecided.is_in_history) {
                // A fact needs a line of its transaction after that which invoked it.
                undecided.is_in_history = true;
                let time = self.time(cluster.world.now());
                self.recorder.info(recorded, time);
            }
            self.recorder.facts(recorded, facts(&at_site, cluster));
        }
    }
}

/// True if the transaction that had this place was abandoned with its site: it never committed anywhere else.
fn is_abandoned<S: System>(place: &AtSite, cluster: &Cluster<S>) -> bool {
    place.version.is_some_and(|version| {
        let shard = cluster.shards()[usize::from(version.site)];
        let removal = cluster.losses.changes().removal(shard);
        let end = removal.and_then(|removal| removal.settled.as_ref());
        end.is_some_and(|end| version.seqno > end.last)
    })
}

/// A place, as histories say it.
pub(super) fn facts<S: System>(at_site: &AtSite, cluster: &Cluster<S>) -> RecordedFacts {
    let seen = at_site.snapshot.iter().enumerate();
    let vts: BTreeMap<String, u64> = seen.map(|(site, seen)| (cluster.local_site(site), *seen)).collect();
    RecordedFacts {
        vts: Some(vts),
        site_seq: at_site.version.map(|version| version.seqno),
        ..RecordedFacts::default()
    }
}
