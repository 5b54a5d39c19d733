//! Long forks: two transactions, each of which has seen something that the other has not. Parallel snapshot isolation permits them, and a
//! serial order or a snapshot isolation does not (W16).
//!
//! Of two snapshots that do not include each other, one includes a transaction of some site that the other lacks, and the other way round.
//! Neither of these two transactions has seen the other, because snapshots include causes. So snapshots are all that has to be looked at. Those of one site
//! include one another, so one search in each other site finds whether there is one that forks.

use std::collections::BTreeMap;

use quorate_walter::{LocalSite, Vector};

/// The snapshots that were seen.
#[derive(Debug, Default)]
pub(super) struct Forks {
    /// Of each site, by how many transactions they include.
    chains: BTreeMap<LocalSite, BTreeMap<u64, Vector>>,
    seen: u64,
}

impl Forks {
    /// A transaction of a site has this snapshot.
    pub(super) fn note(&mut self, site: LocalSite, snapshot: &Vector) {
        let others = self.chains.iter().filter(|(other, _)| **other != site);
        self.seen += others.filter(|(_, chain)| forks(chain, snapshot)).count() as u64;
        self.chains.entry(site).or_default().entry(size(snapshot)).or_insert_with(|| snapshot.clone());
    }

    /// How many transactions forked from one of another site that was seen before, once for each such site.
    pub(super) fn seen(&self) -> u64 {
        self.seen
    }
}

/// True if a snapshot of a chain and this one lack something of each other. A snapshot that includes this one is at least as large, and one
/// that this one includes at most, so the ones next to it in size fork if any does.
fn forks(chain: &BTreeMap<u64, Vector>, snapshot: &Vector) -> bool {
    let size = size(snapshot);
    let smaller = chain.range(..=size).next_back().map(|(_, smaller)| smaller);
    let larger = chain.range(size..).next().map(|(_, larger)| larger);
    smaller.is_some_and(|smaller| !snapshot.includes_all(smaller))
        || larger.is_some_and(|larger| !larger.includes_all(snapshot))
}

fn size(snapshot: &Vector) -> u64 {
    snapshot.numbers().iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_fork_if_neither_includes_the_other() {
        let mut forks = Forks::default();
        for (site, numbers, seen) in [
            (0, [1, 0], 0),
            (0, [3, 0], 0),
            // It includes the first, and forks from the second.
            (1, [1, 1], 1),
            (1, [3, 1], 1),
            (0, [4, 1], 1),
            (1, [0, 0], 1),
            (1, [4, 9], 1),
            (0, [9, 2], 2),
        ] {
            forks.note(LocalSite(site), &Vector::new(numbers.to_vec()));
            assert_eq!(forks.seen(), seen, "{numbers:?}");
        }
    }
}
