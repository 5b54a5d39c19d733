//! The replicas of keyspaces, as a node knew them last: `keyspaces/keyspace-7.toml`.
//!
//! Written before replicas are told, so that what their logs say is never later than what the file says; and only once the replicas of
//! a keyspace have changed, because the markers say how it was created. A replica with records knows from these how far it
//! has come, and is told what has happened since; one without is given what the file says.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{MutexGuard, PoisonError};

use quorate_core::topology::{Change, Keyspace, Shard};
use quorate_core::{
    Epoch, GroupSize, Groups, KeyspaceId, Members, NodeId, ReplicaIndex, ShardId, Succession, Tenure,
};
use serde::{Deserialize, Serialize};

use super::{DataDirectory, DataError, FORMAT, create_all, exists, read, write_durably};

/// The replicas of a keyspace, and the nodes of those whose groups have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) memberships: Groups,
    pub(crate) changed: BTreeMap<ShardId, Shard>,
}

impl Known {
    /// As a definition says.
    pub(crate) fn of(keyspace: &Keyspace) -> Self {
        let changed = keyspace.groups().filter(|group| group.change.is_some());
        Known {
            memberships: keyspace.memberships(),
            changed: changed.map(|group| (group.id, group.clone())).collect(),
        }
    }
}

impl Known {
    /// Takes over into a definition what is known to be later.
    pub(crate) fn overlay(&self, keyspace: &mut Keyspace) {
        if self.memberships.epoch <= keyspace.epoch {
            return;
        }
        keyspace.epoch = self.memberships.epoch;
        for shard in keyspace.groups_mut() {
            if let Some(changed) = self.changed.get(&shard.id) {
                shard.clone_from(changed);
            }
        }
    }
}

#[derive(Serialize, Deserialize)]
struct KeyspaceFile {
    format: u32,
    epoch: u32,
    /// How many replicas those groups have that are not listed.
    size: usize,
    /// Groups that have another size and have never changed, each with that size. Earlier versions have none such.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    apart: Vec<[u32; 2]>,
    #[serde(default)]
    groups: Vec<GroupFile>,
}

/// A group that has changed. Its replicas are told as index and node.
#[derive(Serialize, Deserialize)]
struct GroupFile {
    shard: u32,
    since: u32,
    members: Vec<(u8, u16)>,
    previous_since: u32,
    previous: Vec<(u8, u16)>,
    next: u16,
}

impl KeyspaceFile {
    fn new(known: &Known) -> Self {
        let Groups { epoch, size, apart, .. } = &known.memberships;
        let groups = known.changed.values().filter_map(GroupFile::new).collect();
        let apart = apart.iter().map(|(shard, size)| [shard.0, size.replicas() as u32]).collect();
        KeyspaceFile { format: FORMAT, epoch: epoch.0, size: size.replicas(), apart, groups }
    }

    fn restore(self) -> Result<Known, String> {
        let size_of = |size: usize| GroupSize::on_log(size).map_err(|error| error.to_string());
        let mut memberships = Groups { epoch: Epoch(self.epoch), ..Groups::new(size_of(self.size)?) };
        for [shard, size] in self.apart {
            memberships.apart.insert(ShardId(shard), size_of(size as usize)?);
        }
        let mut known = Known { memberships, changed: BTreeMap::new() };
        for file in self.groups {
            let (shard, change) = file.restore()?;
            known.memberships.changed.insert(shard.id, change.succession);
            known.changed.insert(shard.id, Shard { change: Some(change), ..shard });
        }
        Ok(known)
    }
}

impl GroupFile {
    fn new(shard: &Shard) -> Option<Self> {
        let Change { succession, next, .. } = shard.change.as_ref()?;
        let seats = |seats: &mut dyn Iterator<Item = (ReplicaIndex, NodeId)>| {
            seats.map(|(index, node)| (index.0, node.0)).collect()
        };
        Some(GroupFile {
            shard: shard.id.0,
            since: succession.present.since.0,
            members: seats(&mut shard.members()),
            previous_since: succession.previous?.since.0,
            previous: seats(&mut shard.previous()),
            next: *next,
        })
    }

    fn restore(self) -> Result<(Shard, Change), String> {
        let tenure = |since: u32, seats: &[(u8, u16)]| {
            let members = Members::new(seats.iter().map(|(index, _)| ReplicaIndex(*index)));
            Ok::<_, String>(Tenure {
                since: Epoch(since),
                members: members.map_err(|error| error.to_string())?,
            })
        };
        let nodes = |mut seats: Vec<(u8, u16)>| -> Vec<NodeId> {
            seats.sort_unstable();
            seats.into_iter().map(|(_, node)| NodeId(node)).collect()
        };
        let previous = Some(tenure(self.previous_since, &self.previous)?);
        let succession = Succession { previous, present: tenure(self.since, &self.members)? };
        let change = Change { succession, previous: nodes(self.previous), next: self.next };
        Ok((Shard::new(ShardId(self.shard), nodes(self.members)), change))
    }
}

/// The event loops of a node that rely on what is noted of a keyspace, and what that is.
#[derive(Debug, Default)]
pub(super) struct Reliance {
    epoch: Epoch,
    event_loops: BTreeSet<u16>,
}

impl DataDirectory {
    /// An event loop relies on what is noted of a keyspace, if anything is: so it is not forgotten before that one says so.
    pub(crate) fn rely_on_memberships(
        &self,
        event_loop: u16,
        keyspace: KeyspaceId,
    ) -> Result<Option<Known>, DataError> {
        let mut relied_on = self.lock_memberships();
        let known = self.memberships(keyspace)?;
        if let Some(known) = &known {
            let reliance = relied_on.entry(keyspace).or_default();
            reliance.epoch = known.memberships.epoch;
            reliance.event_loops.insert(event_loop);
        }
        Ok(known)
    }

    /// Notes on behalf of an event loop who the replicas of a keyspace are, unless another one has noted that already, or what is later: event loops hear of
    /// changes one after the other.
    pub(crate) fn note_memberships(
        &self,
        event_loop: u16,
        keyspace: KeyspaceId,
        known: &Known,
    ) -> Result<(), DataError> {
        let mut relied_on = self.lock_memberships();
        let epoch = known.memberships.epoch;
        let noted = relied_on.get(&keyspace).map(|reliance| reliance.epoch);
        if noted.is_none_or(|noted| noted < epoch) {
            self.write_memberships(keyspace, known)?;
        }
        let reliance = relied_on.entry(keyspace).or_default();
        reliance.epoch = reliance.epoch.max(epoch);
        reliance.event_loops.insert(event_loop);
        Ok(())
    }

    fn lock_memberships(&self) -> MutexGuard<'_, BTreeMap<KeyspaceId, Reliance>> {
        self.relied_on.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_memberships(&self, keyspace: KeyspaceId, known: &Known) -> Result<(), DataError> {
        let path = self.keyspace_path(keyspace);
        if let Some(directory) = path.parent().filter(|directory| !directory.is_dir()) {
            create_all(directory)?;
        }
        write_durably(&path, &KeyspaceFile::new(known))
    }

    /// The replicas of a keyspace, if they have ever changed.
    pub(crate) fn memberships(&self, keyspace: KeyspaceId) -> Result<Option<Known>, DataError> {
        let path = self.keyspace_path(keyspace);
        if !exists(&path)? {
            return Ok(None);
        }
        let damaged = |reason| DataError::Damaged { path: path.clone(), reason };
        read::<KeyspaceFile>(&path)?.restore().map(Some).map_err(damaged)
    }

    /// An event loop hosts nothing of a keyspace any more, which is forgotten if no other does.
    pub(crate) fn forget_memberships(&self, event_loop: u16, keyspace: KeyspaceId) -> Result<(), DataError> {
        let mut relied_on = self.lock_memberships();
        if let Some(reliance) = relied_on.get_mut(&keyspace) {
            reliance.event_loops.remove(&event_loop);
            if !reliance.event_loops.is_empty() {
                return Ok(());
            }
        }
        super::remove_file(&self.keyspace_path(keyspace))?;
        relied_on.remove(&keyspace);
        Ok(())
    }

    fn keyspace_path(&self, keyspace: KeyspaceId) -> PathBuf {
        keyspace_path(self.path(), keyspace)
    }
}

fn keyspace_path(data: &Path, keyspace: KeyspaceId) -> PathBuf {
    data.join("keyspaces").join(format!("keyspace-{}.toml", keyspace.0))
}
