//! The replicas of a keyspace under one epoch.

use std::collections::BTreeMap;

use quorate_core::topology::Change;
use quorate_core::{Epoch, GroupSize, Groups, Members, NodeId, ReplicaIndex, ShardId, Succession, Tenure};

use crate::error::Fault;
use crate::field::{Map, Nested, Optional, Packed, Repeated, Varint};
use crate::table::Through;

/// A [`Tenure`] before its members were counted.
struct Since {
    since: Epoch,
    members: Vec<ReplicaIndex>,
}

/// The [`Succession`] of one group.
struct Changed {
    shard: ShardId,
    previous: Option<Tenure>,
    present: Tenure,
}

/// [`Groups`] as a list.
struct Listed {
    epoch: Epoch,
    size: u32,
    apart: BTreeMap<ShardId, u32>,
    changed: Vec<Changed>,
}

/// A [`Change`] of a shard, of which the group before is always there.
struct Changes {
    previous: Tenure,
    nodes: Vec<NodeId>,
    present: Tenure,
    next: u32,
}

message!(Since, "Tenure", {
    1 since: Varint,
    2 members: Packed,
});

message!(Changed, "ChangedGroup", {
    1 shard: Varint,
    2 previous: Optional<Nested>,
    3 present: Nested,
});

message!(Listed, "Groups", {
    1 epoch: Varint,
    2 size: Varint,
    3 changed: Repeated<Nested>,
    4 apart: Map<Apart>,
});

pair!(Apart: (ShardId, u32), "Groups.Apart", 1 shard: Varint, 2 size: Varint);

message!(Changes, "Change", {
    1 previous: Nested,
    2 nodes: Packed,
    3 present: Nested,
    4 next: Varint,
});

through!(Tenure, Since);
through!(Change, Changes);
through!(Groups, Listed);

impl Through<Tenure> for Since {
    fn of(tenure: &Tenure) -> Self {
        Since { since: tenure.since, members: tenure.members.as_slice().to_vec() }
    }

    fn restore(self) -> Result<Tenure, Fault> {
        let members = Members::new(self.members);
        let members = members.map_err(|_| Fault::Meaningless("no group has such members"))?;
        Ok(Tenure { since: self.since, members })
    }
}

impl Through<Change> for Changes {
    fn of(change: &Change) -> Self {
        let Succession { previous, present } = change.succession;
        Changes {
            previous: previous.unwrap_or(present),
            nodes: change.previous.clone(),
            present,
            next: change.next.into(),
        }
    }

    fn restore(self) -> Result<Change, Fault> {
        let Changes { previous, nodes, present, next } = self;
        if nodes.len() != previous.members.size().replicas() || previous.since >= present.since {
            return Err(Fault::Meaningless("a group had as many nodes as replicas, and was there before"));
        }
        let given =
            previous.members.iter().chain(present.members.iter()).map(|index| u16::from(index.0)).max();
        match u16::try_from(next) {
            Ok(next) if next <= 256 && given < Some(next) => {
                let succession = Succession { previous: Some(previous), present };
                Ok(Change { succession, previous: nodes, next })
            }
            _ => Err(Fault::Meaningless("an index is given away once, and there are 256")),
        }
    }
}

impl Through<Groups> for Listed {
    fn of(groups: &Groups) -> Self {
        let changed = groups.changed.iter().map(|(shard, Succession { previous, present })| Changed {
            shard: *shard,
            previous: *previous,
            present: *present,
        });
        let apart = groups.apart.iter().map(|(shard, size)| (*shard, size.replicas() as u32)).collect();
        Listed { epoch: groups.epoch, size: groups.size.replicas() as u32, apart, changed: changed.collect() }
    }

    fn restore(self) -> Result<Groups, Fault> {
        let size_of = |size: u32| {
            GroupSize::on_log(size as usize).map_err(|_| Fault::Meaningless("no group has such a size"))
        };
        let size = size_of(self.size)?;
        let apart = self.apart.into_iter().map(|(shard, size)| Ok((shard, size_of(size)?)));
        let apart = apart.collect::<Result<BTreeMap<_, _>, Fault>>()?;
        let mut changed = BTreeMap::new();
        for Changed { shard, previous, present } in self.changed {
            if changed.insert(shard, Succession { previous, present }).is_some() {
                return Err(Fault::Meaningless("a group is listed once"));
            }
        }
        Ok(Groups { epoch: self.epoch, size, apart, changed })
    }
}
