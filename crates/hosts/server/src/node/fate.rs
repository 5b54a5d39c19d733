//! The fate of a replica that is hosted, by what the catalogue says of its keyspace.
//!
//! | the catalogue lists the keyspace | and has a drop of it | the replica |
//! |---|---|---|
//! | as the replica's mark has it | or not | serves |
//! | as another one | or not | is refused, and kept |
//! | no | waiting | runs, serves no client, and is kept |
//! | no | purged | is deleted |
//! | no | restored, or none | serves, is kept, and is an alarm |
//! | no | of another keyspace | serves, is kept, and is an alarm |
//!
//! So nothing is deleted because the catalogue does not name it: a catalogue that has lost entries, or is older than it was, deletes
//! nothing. If an entry cannot be read nothing is deleted at all.

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_core::topology::Keyspace;
use quorate_core::{KeyspaceId, ReplicaId};
use quorate_runtime::Turn;
use quorate_wire::Packet;
use quorate_wire::catalogue::{DropStage, Dropped};

use super::catalogue::Reading;
use super::hosted::{Hosted, State};
use super::{Node, Placement};

/// How a replica that is kept stands to the catalogue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nothing has been read of the catalogue since the node has started.
    #[default]
    Unheard,
    /// The catalogue lists its keyspace.
    Listed,
    /// Its keyspace was dropped: this is what clients are told.
    Dropped(String),
    /// The catalogue knows nothing of its keyspace.
    Unknown,
}

impl Standing {
    /// Its name.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Standing::Unheard => "unheard",
            Standing::Listed => "listed",
            Standing::Dropped(_) => "dropped",
            Standing::Unknown => "unknown",
        }
    }
}

/// The fate of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It runs on.
    Keep(Standing),
    /// It does not run, because it belongs to another keyspace than the catalogue says; its directory is kept.
    Refuse(String),
    /// It is deleted.
    Delete,
}

/// Decides what becomes of a replica whose mark says this, if the catalogue lists that under the id of its keyspace, and has such a
/// drop of it. `is_complete` says that every entry could be read.
pub(crate) fn decide(
    replica: &Placement,
    listed: Option<&Keyspace>,
    dropped: Option<&Dropped>,
    is_complete: bool,
) -> Fate {
    let dropped = dropped.filter(|dropped| dropped.bears(&replica.keyspace_name));
    if let Some(keyspace) = listed {
        let bears_name = keyspace.name == replica.keyspace_name || dropped.is_some();
        return match difference(replica, keyspace, bears_name) {
            None => Fate::Keep(Standing::Listed),
            Some(difference) => Fate::Refuse(format!(
                "it is a replica of the keyspace {:?}, and the catalogue has another one as number {}: {difference}. \
                 The configuration service has lost entries, and given their numbers again. Nothing is deleted: bring \
                 back its disks from before, or move the directory away and start the node again",
                replica.keyspace_name, keyspace.id.0
            )),
        };
    }
    match dropped.map(|dropped| (dropped, dropped.stage)) {
        Some((_, DropStage::Purged)) if is_complete => Fate::Delete,
        Some((dropped, DropStage::Waiting | DropStage::Purged)) => {
            Fate::Keep(Standing::Dropped(farewell(dropped)))
        }
        Some((_, DropStage::Restored)) | None => Fate::Keep(Standing::Unknown),
    }
}

/// In what a replica differs from its keyspace as the catalogue lists it.
fn difference(replica: &Placement, keyspace: &Keyspace, bears_name: bool) -> Option<String> {
    let rival = keyspace.comparison.as_ref().map(|comparison| comparison.rival);
    if !bears_name {
        Some(format!("it is named {:?}", keyspace.name))
    } else if (keyspace.isolation, rival) != (replica.isolation, replica.comparison) {
        Some(format!("its isolation is {}, or another system runs it", keyspace.isolation))
    } else if keyspace.durability != replica.durability {
        Some(format!("its durability is {}", keyspace.durability))
    } else if keyspace.groups().all(|group| group.id != replica.replica.shard) {
        Some(format!("it has no {}", replica.replica.shard))
    } else {
        None
    }
}

/// The message to clients of a dropped keyspace.
fn farewell(dropped: &Dropped) -> String {
    let Dropped { id, name, definition, .. } = dropped;
    match (dropped.stage, definition) {
        (DropStage::Waiting, Some(_)) => format!(
            "the keyspace {name:?} was dropped; `quorate keyspace undrop {name} --id {}` brings it back, within {} of the drop",
            id.0,
            span(dropped.delete_after)
        ),
        (DropStage::Waiting, None) => format!(
            "the catalogue was told to forget the keyspace {name:?}; `quorate keyspace undrop {name} --id {}` takes that back, within \
             {} of it",
            id.0,
            span(dropped.delete_after)
        ),
        _ => format!("the keyspace {name:?} was dropped"),
    }
}

/// A span of time for people.
fn span(duration: Duration) -> String {
    match duration.as_secs() {
        seconds if seconds >= 3600 && seconds.is_multiple_of(3600) => format!("{} h", seconds / 3600),
        seconds if seconds >= 60 && seconds.is_multiple_of(60) => format!("{} min", seconds / 60),
        _ => format!("{duration:?}"),
    }
}

impl Node {
    /// Lets become of these replicas what the catalogue says, as it was read last.
    pub(super) fn judge(&mut self, replicas: &[ReplicaId], turn: &mut Turn<'_>) {
        let Some(reading) = self.reading.take() else { return };
        let mut has_changed = false;
        for id in replicas {
            has_changed |= self.judge_one(*id, &reading);
        }
        self.reading = Some(reading);
        if has_changed {
            self.service_changed = true;
            self.tell_clients(Packet::CatalogueChanged, turn);
        }
    }

    /// True if that was not so before.
    fn judge_one(&mut self, id: ReplicaId, reading: &Reading) -> bool {
        let Some(hosted) = self.replicas.get_mut(&id) else { return false };
        let placement = &mut hosted.placement;
        if placement.keyspace == self.config.system.id {
            return std::mem::replace(&mut hosted.standing, Standing::Listed) != Standing::Listed;
        }
        let (listed, dropped) = (reading.listed(placement.keyspace), reading.drops.get(&placement.keyspace));
        match decide(placement, listed, dropped, reading.complete) {
            Fate::Keep(standing) => {
                if let Some(keyspace) = listed {
                    // It may have been brought back under another name.
                    placement.keyspace_name.clone_from(&keyspace.name);
                }
                let before = std::mem::replace(&mut hosted.standing, standing);
                if before != hosted.standing
                    && (&before, &hosted.standing) != (&Standing::Unheard, &Standing::Listed)
                {
                    let (standing, keyspace) = (hosted.standing.name(), &hosted.placement.keyspace_name);
                    tracing::info!(replica = %id, %keyspace, standing, "what the catalogue says of the keyspace has changed");
                }
                // That it is listed, as it was to be expected, changes nothing for clients.
                before != hosted.standing
                    && (before, &hosted.standing) != (Standing::Unheard, &Standing::Listed)
            }
            Fate::Refuse(reason) => self.stop_foreign(id, reason),
            Fate::Delete => {
                self.delete_purged(id);
                true
            }
        }
    }

    /// A replica belongs to another keyspace than messages to it do. It is stopped, and stays where it is.
    fn stop_foreign(&mut self, id: ReplicaId, reason: String) -> bool {
        let Some(hosted) = self.replicas.get_mut(&id) else { return false };
        if matches!(hosted.state, State::Refused(_)) {
            return false;
        }
        tracing::error!(replica = %id, reason, "a replica is not served any more");
        if let State::Running(running) = std::mem::replace(&mut hosted.state, State::Refused(reason))
            && let Err(error) = running.close()
        {
            tracing::error!(replica = %id, %error, "the log of a replica could not be closed");
        }
        self.note_neighbour(id);
        true
    }

    /// The catalogue records that the data of a keyspace may go.
    fn delete_purged(&mut self, id: ReplicaId) {
        self.note_neighbour(id);
        let Some(Hosted { placement, state, .. }) = self.replicas.remove(&id) else { return };
        tracing::info!(replica = %id, keyspace = placement.keyspace_name, "deleting a replica of a keyspace that was dropped");
        if let State::Running(running) = state
            && let Err(error) = running.close()
        {
            // It is removed.
            tracing::warn!(replica = %id, %error, "the log of a replica of a dropped keyspace could not be closed");
        }
        self.routes.forget_shard(id.shard);
        if let Err(error) = self.data.remove_replica(id) {
            tracing::error!(replica = %id, %error, "what is left of a dropped keyspace cannot be removed");
        }
        self.forget_memberships(placement.keyspace);
    }

    /// True if clients are told that the keyspace of this replica was dropped.
    pub(super) fn is_dropped(&self, id: ReplicaId) -> bool {
        self.replicas.get(&id).is_some_and(|hosted| matches!(hosted.standing, Standing::Dropped(_)))
    }

    /// One alarm for each keyspace that is hosted here and that the catalogue does not know.
    pub(super) fn unknown_keyspaces(&self) -> Vec<String> {
        let mut unknown: BTreeMap<KeyspaceId, (usize, &Placement)> = BTreeMap::new();
        for id in self.replica_ids() {
            let Hosted { placement, standing, .. } = &self.replicas[&id];
            if *standing == Standing::Unknown {
                unknown.entry(placement.keyspace).or_insert((0, placement)).0 += 1;
            }
        }
        let alarm = |(keyspace, (replicas, first)): (KeyspaceId, (usize, &Placement))| {
            let (name, number) = (&first.keyspace_name, keyspace.0);
            let directory = self.data.path().join("replicas");
            let (shard, index) = (first.replica.shard.0, first.replica.index.0);
            format!(
                "the catalogue knows no keyspace {name:?} with number {number}, of which {replicas} replicas are here (from \
                 {}/shard-{shard}-r{index} on): they are kept and run on. The configuration service has lost entries: bring back \
                 its disks from before; or, if an earlier version dropped the keyspace while this node was away, record that with \
                 `quorate keyspace forget {name} --id {number}`, which deletes them after a delay",
                directory.display()
            )
        };
        unknown.into_iter().map(alarm).collect()
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::topology::{Durability, Isolation, Shard};
    use quorate_core::{ClockTime, NodeId, ShardId};
    use quorate_wire::catalogue::DELETE_AFTER;

    use super::*;

    fn keyspace(name: &str) -> Keyspace {
        Keyspace::new(
            KeyspaceId(3),
            name,
            Isolation::Strict,
            Durability::Sync,
            vec![Shard::new(ShardId(7), [0, 1, 2].map(NodeId).to_vec())],
        )
    }

    fn dropped(name: &str, former: &[&str], stage: DropStage) -> Dropped {
        Dropped {
            id: KeyspaceId(3),
            name: name.to_owned(),
            stage,
            dropped_at: ClockTime::from_micros(7),
            delete_after: DELETE_AFTER,
            waited: Duration::ZERO,
            definition: (stage == DropStage::Waiting).then(|| keyspace(name)),
            former_names: former.iter().map(|name| (*name).to_owned()).collect(),
            procedures: Vec::new(),
        }
    }

    #[test]
    fn what_becomes_of_a_replica_as_a_table() {
        use DropStage::{Purged, Restored, Waiting};
        let replica = Placement::on_node(&keyspace("accounts"), NodeId(1)).remove(0);
        let serializable = Keyspace { isolation: Isolation::Serializable, ..keyspace("accounts") };
        let volatile = Keyspace { durability: Durability::Memory, ..keyspace("accounts") };
        let elsewhere =
            Keyspace { shards: vec![Shard::new(ShardId(8), vec![NodeId(0)])], ..keyspace("accounts") };
        let (same, other) = (keyspace("accounts"), keyspace("other"));
        let drop = |stage| Some(dropped("accounts", &[], stage));
        let renamed = |stage| Some(dropped("konten", &["accounts"], stage));
        let foreign = |stage| Some(dropped("other", &[], stage));
        let table: [(Option<&Keyspace>, Option<Dropped>, bool, &str); 20] = [
            (Some(&same), None, true, "listed"),
            (Some(&same), drop(Restored), true, "listed"),
            // A keyspace that is listed is there, also if its drop says otherwise.
            (Some(&same), drop(Purged), true, "listed"),
            (Some(&other), None, true, "refused"),
            (Some(&other), foreign(Restored), true, "refused"),
            (Some(&other), Some(dropped("other", &["accounts"], Restored)), true, "listed"),
            (Some(&serializable), None, true, "refused"),
            (Some(&volatile), None, true, "refused"),
            (Some(&elsewhere), None, true, "refused"),
            // An empty catalogue, or one from before the keyspace was created.
            (None, None, true, "unknown"),
            (None, None, false, "unknown"),
            (None, drop(Waiting), true, "dropped"),
            (None, drop(Purged), true, "deleted"),
            (None, drop(Purged), false, "dropped"),
            (None, drop(Restored), true, "unknown"),
            (None, renamed(Waiting), true, "dropped"),
            (None, renamed(Purged), true, "deleted"),
            // A drop of another keyspace that was given the same number.
            (None, foreign(Waiting), true, "unknown"),
            (None, foreign(Purged), true, "unknown"),
            (None, foreign(Restored), true, "unknown"),
        ];
        for (listed, dropped, is_complete, expected) in table {
            let fate = decide(&replica, listed, dropped.as_ref(), is_complete);
            let found = match &fate {
                Fate::Keep(standing) => standing.name(),
                Fate::Refuse(_) => "refused",
                Fate::Delete => "deleted",
            };
            assert_eq!(found, expected, "{listed:?} {dropped:?}: {fate:?}");
        }
    }

    #[test]
    fn clients_are_told_how_to_bring_a_keyspace_back() {
        let record = dropped("accounts", &[], DropStage::Waiting);
        let told = farewell(&record);
        assert!(
            told.contains("`quorate keyspace undrop accounts --id 3`") && told.contains("24 h"),
            "{told}"
        );
        assert_eq!(span(Duration::from_secs(90)), "90s");
        assert_eq!(span(Duration::from_secs(120)), "2 min");
    }
}
