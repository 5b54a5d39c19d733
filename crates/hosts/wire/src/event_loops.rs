//! Which event loop of a node a shard belongs to (ADR 0080).
//!
//! Nodes and clients compute it alike, so that a client says a message where its replica is. A client that is wrong is served all the same: the node passes the
//! message on.

use quorate_core::ShardId;

/// The event loop, among so many, that hosts the replica of a shard.
///
/// Multiples of the golden ratio are spread evenly, and so are those of every second, third or further number: shards begin at the nodes in turn, and those
/// that one node leads must not lie on one of its event loops. The shard of the configuration service lies on the first event loop.
pub fn event_loop_of(shard: ShardId, event_loops: u16) -> u16 {
    /// The golden ratio's fraction, in units of 2^-64.
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let fraction = u64::from(shard.0).wrapping_mul(GOLDEN) >> 32;
    // Less than `event_loops`.
    ((fraction * u64::from(event_loops)) >> 32) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::SYSTEM_SHARD;

    #[test]
    fn the_configuration_service_lies_on_the_first_event_loop() {
        for count in 0..9 {
            assert_eq!(event_loop_of(SYSTEM_SHARD, count), 0);
        }
        assert_eq!(event_loop_of(ShardId(u32::MAX), 1), 0);
    }

    #[test]
    fn shards_are_spread_and_so_are_those_that_one_node_leads() {
        for count in 1..9_u16 {
            for nodes in 1..10_u32 {
                for leader in 0..nodes {
                    let each = 60;
                    let mut spread = vec![0_u32; usize::from(count)];
                    for round in 0..each * u32::from(count) {
                        spread[usize::from(event_loop_of(ShardId(leader + round * nodes), count))] += 1;
                    }
                    let is_even = spread.iter().all(|shards| shards.abs_diff(each) <= each / 6);
                    assert!(is_even, "{count} event loops, {nodes} nodes: {spread:?}");
                }
            }
        }
    }

    #[test]
    fn clients_and_nodes_of_all_versions_agree() {
        let places = |count| (0..8).map(|shard| event_loop_of(ShardId(shard), count)).collect::<Vec<_>>();
        assert_eq!(places(2), [0, 1, 0, 1, 0, 0, 1, 0]);
        assert_eq!(places(3), [0, 1, 0, 2, 1, 0, 2, 0]);
    }
}
