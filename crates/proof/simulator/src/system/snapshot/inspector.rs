//! How much was speculated, as far as the machines that run now have counted it.

use std::collections::BTreeMap;

use quorate_str::Counts;

use super::Snapshot;
use crate::cluster::Cluster;

/// The greatest counts that were seen of each life of a machine.
#[derive(Debug, Default)]
pub struct Inspector {
    seen: BTreeMap<(usize, u32), Counts>,
    gave_way: BTreeMap<(usize, u32), u64>,
}

impl Inspector {
    pub(super) fn look(&mut self, cluster: &Cluster<Snapshot>) {
        for server in 0..cluster.world.servers() {
            let Some(member) = cluster.world.server(server) else { continue };
            let life = (server, cluster.world.incarnation(server));
            match member.machine().counts() {
                Some(counts) => {
                    self.seen.insert(life, counts);
                }
                None => {
                    self.gave_way.insert(life, member.machine().gave_way());
                }
            }
        }
    }

    /// The counts of things seen, in a few words each.
    pub(super) fn happened(&self) -> Vec<(&'static str, u64)> {
        let sum = |of: fn(&Counts) -> u64| self.seen.values().map(of).sum();
        vec![
            ("transactions read what was not final", sum(|counts| counts.speculative_reads)),
            ("transactions aborted with one that they depended on", sum(|counts| counts.cascades)),
            ("local commits gave way to those of other nodes", self.gave_way.values().sum()),
            ("reads waited because of an unsafe local commit", sum(|counts| counts.mixed)),
            ("commits passed above replicas that did not vote", sum(|counts| counts.passed)),
            ("results were shown", sum(|counts| counts.shown)),
            ("apologies were owed", sum(|counts| counts.apologies)),
        ]
    }
}
