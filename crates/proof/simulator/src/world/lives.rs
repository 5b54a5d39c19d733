//! The lives of the nodes that hold replicas, and what each remembers of the others: what decides, as between servers, whether a node
//! takes in what another one says.
//!
//! A message carries the life in which it was said. A message of the present life of its sender passes if the receiver's
//! node believes that life; they hear of each other's lives when the first message passes, as nodes do when a connection comes up.
//! A message of a former life that had forgotten nothing arrives late and passes, which is more than connections allow; of
//! one that had, it does not.

use std::collections::BTreeMap;

use quorate_core::NodeId;
use quorate_core::lives::{Fence, Life, Lives, follow};

/// Which life it is, over all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LifeNumber(usize);

/// Whether a message passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// It does.
    Passes,
    /// It does not: its sender is not believed.
    Stopped,
    /// Nor this one; and the sender, which is still in that life, hears of it.
    Fences(usize),
}

/// A life that some node is or was in.
#[derive(Debug)]
struct Ever {
    node: usize,
    life: Life,
    /// True if the node has forgotten something in it without knowing that.
    is_forgetful: bool,
}

/// The lives of all nodes.
#[derive(Debug, Default)]
pub struct NodeLives {
    ever: Vec<Ever>,
    /// Per node, the life that it is in.
    now: BTreeMap<usize, LifeNumber>,
    /// Per node, what it remembers, durably.
    remembered: BTreeMap<usize, Lives>,
    /// Whether a node believes a life.
    believes: BTreeMap<(usize, LifeNumber), bool>,
    /// A planted bug: nodes do not look at lives.
    pub is_blind: bool,
}

impl NodeLives {
    /// A node begins a life, with what is remembered on its disk.
    pub fn begin(&mut self, node: usize, life: Life, remembered: Lives, is_forgetful: bool) {
        let number = LifeNumber(self.ever.len());
        let mut remembered = remembered;
        // Parts of one disk are of one age.
        let heard = remembered.hear(id(node), &life);
        assert!(heard.is_ok(), "node {node} contradicts itself: {heard:?}");
        self.ever.push(Ever { node, life, is_forgetful });
        // It connects anew, and hears everybody once more.
        self.believes.retain(|(hearer, _), _| *hearer != node);
        self.now.insert(node, number);
        self.remembered.insert(node, remembered);
    }

    /// The life that a node is in; none of one that holds no replicas.
    pub fn now(&self, node: usize) -> Option<LifeNumber> {
        self.now.get(&node).copied()
    }

    /// The lives that a node remembers.
    pub fn remembered(&self, node: usize) -> Lives {
        self.remembered.get(&node).cloned().unwrap_or_default()
    }

    /// True if a node has forgotten something in its present life without knowing that.
    pub fn is_forgetful(&self, node: usize) -> bool {
        self.now(node).is_some_and(|LifeNumber(number)| self.ever[number].is_forgetful)
    }

    /// Why a node would not believe another that were in a life, if it would not.
    pub fn fence(&self, node: usize, other: usize, life: &Life) -> Option<Fence> {
        follow(self.remembered.get(&node)?.of(id(other)), life).err()
    }

    /// Two nodes hear each other's lives, and what each remembers. The one of the two that the other does not believe, if any.
    pub fn meet(&mut self, one: usize, other: usize) -> Option<usize> {
        let believes = self.hears(one, other);
        let is_believed = self.hears(other, one);
        match (believes, is_believed) {
            (false, _) => Some(other),
            (true, false) => Some(one),
            (true, true) => None,
        }
    }

    /// Whether a message that was said in a life passes to a node.
    pub fn passage(&mut self, to: usize, said_in: Option<LifeNumber>) -> Passage {
        let Some(number) = said_in.filter(|_| self.now.contains_key(&to) && !self.is_blind) else {
            return Passage::Passes;
        };
        let Ever { node: from, is_forgetful, .. } = self.ever[number.0];
        if self.now(from) != Some(number) {
            return if is_forgetful { Passage::Stopped } else { Passage::Passes };
        }
        match from == to || self.hears(to, from) {
            true => Passage::Passes,
            false => Passage::Fences(from),
        }
    }

    /// A node hears the life of another one, and what that remembers; true if it believes it.
    fn hears(&mut self, node: usize, other: usize) -> bool {
        let (Some(number), false) = (self.now(other), self.is_blind) else { return true };
        if let Some(believes) = self.believes.get(&(node, number)) {
            return *believes;
        }
        let told = self.remembered(other);
        let lives = self.remembered.entry(node).or_default();
        let believes = lives.hear(id(other), &self.ever[number.0].life).is_ok();
        if believes {
            for (of, remembered) in told.iter().filter(|(of, _)| *of != id(node)) {
                lives.learn(of, remembered);
            }
        }
        self.believes.insert((node, number), believes);
        believes
    }
}

/// The id of a node.
fn id(node: usize) -> NodeId {
    NodeId(node as u16)
}

#[cfg(test)]
mod tests {
    use quorate_core::lives::Incarnation;

    use super::*;

    fn two_nodes() -> NodeLives {
        let mut lives = NodeLives::default();
        for node in 0..2 {
            let life = Life::first(Incarnation(node as u64), false, 1);
            lives.begin(node, life, Lives::default(), false);
        }
        lives
    }

    #[test]
    fn a_message_passes_unless_it_was_said_in_a_life_that_is_not_believed() {
        let mut lives = two_nodes();
        let first = lives.now(0);
        assert_eq!(lives.passage(1, first), Passage::Passes);
        let copy = Life::first(Incarnation(0), false, 1).next(7).unwrap();
        lives.begin(0, Life::first(Incarnation(0), false, 1).next(2).unwrap(), Lives::default(), false);
        assert_eq!(lives.meet(0, 1), None);
        assert_eq!(lives.passage(1, first), Passage::Passes, "late, and nothing was forgotten");
        lives.begin(0, copy, Lives::default(), true);
        let forgetful = lives.now(0);
        assert_eq!(lives.passage(1, forgetful), Passage::Fences(0));
        assert_eq!(lives.meet(1, 0), Some(0));
        assert_eq!(lives.passage(0, lives.now(1)), Passage::Passes);
        lives.begin(0, Life::first(Incarnation(9), true, 1), Lives::default(), false);
        assert_eq!(lives.passage(1, forgetful), Passage::Stopped);
        assert_eq!(lives.passage(1, lives.now(0)), Passage::Passes);
        assert_eq!(lives.passage(1, None), Passage::Passes, "a client");
    }
}
