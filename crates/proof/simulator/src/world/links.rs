//! The messages that wait for links, where that is bounded as between servers: a link whose receiver takes nothing fills up, and once too much waits
//! its connection is lost, with all that waits.
//!
//! A message leaves when its predecessors have left and the link is not stalled. A message that has left arrives, whatever becomes of the
//! connection; one that has not is lost with it.

use std::collections::VecDeque;

use quorate_core::Instant;

/// Over which connection a message leaves, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    link: usize,
    connection: usize,
    leaves: Instant,
}

/// The fate of a message that was put at the end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queued {
    /// It leaves.
    Leaves(Departure),
    /// Too much waits: the connection is lost with it.
    Overflows,
}

/// The messages that wait for the links between nodes.
#[derive(Debug)]
pub struct Links {
    nodes: usize,
    /// So many bytes may wait for one link; without bound if not stated.
    bytes_max: Option<usize>,
    /// By sender and receiver.
    links: Vec<Link>,
}

#[derive(Clone, Debug, Default)]
struct Link {
    /// When each message leaves that waits, and its bytes.
    waiting: VecDeque<(Instant, usize)>,
    /// How many bytes these are.
    bytes: usize,
    /// Nothing leaves before.
    stalled_until: Instant,
    /// When each connection was lost, the first first.
    lost_at: Vec<Instant>,
}

impl Link {
    /// Forgets what has left.
    fn depart(&mut self, now: Instant) {
        while let Some((_, bytes)) = self.waiting.pop_front_if(|(leaves, _)| *leaves <= now) {
            self.bytes -= bytes;
        }
    }
}

impl Links {
    /// Links between so many nodes, without bound.
    pub fn new(nodes: usize) -> Self {
        Links { nodes, bytes_max: None, links: vec![Link::default(); nodes * nodes] }
    }

    /// From now on so many bytes may wait for one link. One message always may: servers have bounds that are larger than any frame.
    pub fn set_bytes_max(&mut self, bytes_max: usize) {
        self.bytes_max = Some(bytes_max);
    }

    /// True if what waits is bounded.
    pub fn are_bounded(&self) -> bool {
        self.bytes_max.is_some()
    }

    /// The link takes nothing until then.
    pub fn stall(&mut self, from: usize, to: usize, until: Instant) {
        let link = &mut self.links[from * self.nodes + to];
        link.stalled_until = link.stalled_until.max(until);
    }

    /// When the link takes something that is there at this instant.
    pub fn free_at(&self, from: usize, to: usize, at: Instant) -> Instant {
        at.max(self.links[from * self.nodes + to].stalled_until)
    }

    /// Puts a message of so many bytes at the end of a link, which takes it when it `leaves`. If too much waits already, the
    /// connection is lost.
    pub fn queue(&mut self, from: usize, to: usize, now: Instant, leaves: Instant, bytes: usize) -> Queued {
        let at = from * self.nodes + to;
        let bytes_max = self.bytes_max.unwrap_or(usize::MAX);
        let link = &mut self.links[at];
        link.depart(now);
        if leaves > now {
            if !link.waiting.is_empty() && link.bytes + bytes > bytes_max {
                self.lose(from, to, now);
                return Queued::Overflows;
            }
            link.waiting.push_back((leaves, bytes));
            link.bytes += bytes;
        }
        Queued::Leaves(Departure { link: at, connection: self.links[at].lost_at.len(), leaves })
    }

    /// The connection of a link is lost, and with it what waits. The next one is not stalled.
    pub fn lose(&mut self, from: usize, to: usize, now: Instant) {
        let link = &mut self.links[from * self.nodes + to];
        link.waiting.clear();
        link.bytes = 0;
        link.stalled_until = Instant::START;
        link.lost_at.push(now);
    }

    /// True if a message has left before its connection was lost.
    pub fn has_left(&self, Departure { link, connection, leaves }: Departure) -> bool {
        self.links[link].lost_at.get(connection).is_none_or(|lost_at| leaves <= *lost_at)
    }

    /// How many bytes wait to be sent by a node, over all its links.
    pub fn queued_bytes(&self, node: usize, now: Instant) -> usize {
        let links = &self.links[node * self.nodes..(node + 1) * self.nodes];
        let waiting = links.iter().flat_map(|link| &link.waiting);
        waiting.filter(|(leaves, _)| *leaves > now).map(|(_, bytes)| bytes).sum()
    }

    /// No link is stalled any more. Messages that wait already leave when they were to.
    pub fn heal(&mut self) {
        for link in &mut self.links {
            link.stalled_until = Instant::START;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    /// Puts a message at the end of the link from node 0 to node 1.
    fn queue(links: &mut Links, now: u64, bytes: usize) -> Queued {
        let leaves = links.free_at(0, 1, at(now));
        links.queue(0, 1, at(now), leaves, bytes)
    }

    fn departure(queued: Queued) -> Departure {
        match queued {
            Queued::Leaves(departure) => departure,
            Queued::Overflows => panic!("the connection is lost"),
        }
    }

    fn bounded() -> Links {
        let mut links = Links::new(2);
        links.set_bytes_max(100);
        links
    }

    #[test]
    fn a_link_that_takes_everything_never_fills_up() {
        let mut links = bounded();
        for now in 0..100 {
            let departure = departure(queue(&mut links, now, 80));
            assert!(links.has_left(departure) && links.queued_bytes(0, at(now)) == 0);
        }
    }

    #[test]
    fn a_stalled_link_keeps_what_fits_and_is_lost_with_it_when_more_comes() {
        let mut links = bounded();
        let before = departure(queue(&mut links, 1, 80));
        links.stall(0, 1, at(50));
        let waits = departure(queue(&mut links, 10, 60));
        let waits_too = departure(queue(&mut links, 11, 40));
        assert_eq!((links.queued_bytes(0, at(11)), links.queued_bytes(1, at(11))), (100, 0));
        assert_eq!(queue(&mut links, 12, 1), Queued::Overflows);
        assert!(links.has_left(before), "it had left");
        assert!(!links.has_left(waits) && !links.has_left(waits_too));
        assert_eq!(links.queued_bytes(0, at(12)), 0);
        let next = departure(queue(&mut links, 13, 80));
        assert!(links.has_left(next), "the next connection takes it at once");
    }

    #[test]
    fn a_stall_that_ends_in_time_loses_nothing() {
        let mut links = bounded();
        links.stall(0, 1, at(50));
        let waits = departure(queue(&mut links, 10, 100));
        assert_eq!(links.queued_bytes(0, at(50)), 0, "it has left");
        let next = departure(queue(&mut links, 51, 100));
        assert!(links.has_left(waits) && links.has_left(next));
    }

    #[test]
    fn one_message_always_fits() {
        let mut links = bounded();
        links.stall(0, 1, at(50));
        assert!(matches!(queue(&mut links, 10, 1_000), Queued::Leaves(_)));
        assert_eq!(queue(&mut links, 10, 1), Queued::Overflows);
    }

    #[test]
    fn healing_ends_stalls() {
        let mut links = bounded();
        links.stall(0, 1, at(50));
        links.heal();
        assert_eq!(links.free_at(0, 1, at(10)), at(10));
    }
}
