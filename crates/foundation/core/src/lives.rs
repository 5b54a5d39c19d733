//! Lives of nodes: how peers notice that a node has forgotten something.
//!
//! A replica relies on what others remember of it, and so on what their disks hold. A disk can be rolled back to an older
//! copy, and a data directory can be created anew although the node has been part of the cluster. The node itself cannot
//! tell; its peers can. So
//!
//! - every data directory has an *incarnation*, drawn at random when it was created;
//! - every start of a node on it begins a *life*: the number of the life before plus one, and a tag drawn at random, both durable
//!   before the node says anything;
//! - the first word of a node to each peer is its life, and what it remembers itself of the lives of all nodes;
//! - a peer remembers, durably, the latest life of each node, and passes over everything that a node says in a life
//!   that cannot follow the one it remembers: it *fences* the node. A node that hears of such a life of its own fences itself.
//!
//! | the peer remembers | the node says | |
//! |---|---|---|
//! | nothing | any life | taken |
//! | life 7 of this incarnation | a later life, whose seventh has the same tag | taken |
//! | life 7 of this incarnation | an earlier life, or one whose seventh has another tag | [`Fence::RolledBack`] |
//! | another incarnation | one that was created in place of a lost one | taken; the former counts no more |
//! | that it is a former incarnation | any life | [`Fence::Replaced`] |
//! | another incarnation | any other incarnation | [`Fence::Unannounced`] |
//!
//! Tags are why a copy does not pass after some restarts: it counts up to the remembered number and beyond, but its lives have
//! other tags.
//!
//! *Not noticed*: a copy that was taken within the latest life that any peer in reach remembers, and any copy as long as no
//! peer that remembers more can be reached. Both are documented for operators.

use std::collections::BTreeMap;
use std::fmt;

use crate::id::NodeId;

/// So many tags of earlier lives are kept and told, the present one among them. A peer that was away for more restarts
/// of a node compares numbers alone.
pub const TAGS_MAX: usize = 128;

/// So many former incarnations of one node are remembered, the latest ones: each is a disk that an operator has replaced.
pub const FORMER_MAX: usize = 64;

/// No node gets this far: a thousand starts a second for thirty years. A greater number is a lie, or damage.
pub const LIFE_MAX: u64 = 1 << 40;

/// The random number that tells one data directory from all others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(pub u64);

impl fmt::Display for Incarnation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}

impl fmt::Debug for Incarnation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}

/// A life of a node, as the node itself tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life {
    /// The data directory that it is lived on.
    pub incarnation: Incarnation,
    /// True if that was created in place of one that the node had lost.
    pub replaces: bool,
    /// Which life on it, from one.
    pub number: u64,
    /// The tag of this life and of those before it, the latest first.
    pub tags: Vec<u64>,
}

/// Nothing can follow a life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("life {0} has no number that could follow it: no node is started so often")]
pub struct TooManyLives(pub u64);

impl Life {
    /// The first life on a data directory.
    pub fn first(incarnation: Incarnation, replaces: bool, tag: u64) -> Self {
        Life { incarnation, replaces, number: 1, tags: vec![tag] }
    }

    /// The life that follows.
    ///
    /// # Errors
    /// There is none.
    pub fn next(mut self, tag: u64) -> Result<Self, TooManyLives> {
        if self.number >= LIFE_MAX {
            return Err(TooManyLives(self.number));
        }
        self.number += 1;
        self.tags.insert(0, tag);
        self.tags.truncate(TAGS_MAX);
        Ok(self)
    }

    /// The tag of a life of this incarnation, if it is known.
    fn tag_of(&self, number: u64) -> Option<u64> {
        let back = usize::try_from(self.number.checked_sub(number)?).ok()?;
        self.tags.get(back).copied()
    }

    /// True if it can be the life of a node.
    pub fn is_sound(&self) -> bool {
        (1..=LIFE_MAX).contains(&self.number)
            && (1..=TAGS_MAX).contains(&self.tags.len())
            && self.tags.len() as u64 <= self.number
    }
}

/// The latest life of a node, as it is remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// The data directory.
    pub incarnation: Incarnation,
    /// The number of the life.
    pub number: u64,
    /// Its tag.
    pub tag: u64,
    /// The data directories that were replaced by others, the latest last.
    pub former: Vec<Incarnation>,
}

/// Why a node is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fence {
    /// Its disk holds an older state than it has had.
    RolledBack {
        /// The life that it is in now.
        life: u64,
        /// The life that it was in before.
        remembered: u64,
    },
    /// Its disk was replaced by another one.
    Replaced,
    /// Its data directory was created as that of a new node, and it is not new.
    Unannounced,
    /// A life that no node can be in.
    Impossible,
}

impl fmt::Display for Fence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fence::RolledBack { life, remembered } => write!(
                formatter,
                "its data directory was rolled back to an older copy: it is in life {life}, and was in another life {remembered} before"
            ),
            Fence::Replaced => formatter.write_str(
                "its data directory was replaced by another one since, and holds what the cluster has gone on without",
            ),
            Fence::Unannounced => formatter.write_str(
                "its data directory was created with --initialise, as that of a new node, and the node has been part of the \
                 cluster with another one",
            ),
            Fence::Impossible => formatter.write_str("it names a life that no node can be in"),
        }
    }
}

impl Remembered {
    fn of(life: &Life, former: Vec<Incarnation>) -> Self {
        Remembered { incarnation: life.incarnation, number: life.number, tag: life.tags[0], former }
    }
}

/// The life to remember of a node that says it is in this one.
///
/// # Errors
/// The life cannot follow the one that is remembered.
pub fn follow(remembered: Option<&Remembered>, life: &Life) -> Result<Remembered, Fence> {
    if !life.is_sound() {
        return Err(Fence::Impossible);
    }
    let Some(known) = remembered else { return Ok(Remembered::of(life, Vec::new())) };
    if known.incarnation == life.incarnation {
        let same_life = life.tag_of(known.number).is_none_or(|tag| tag == known.tag);
        return match life.number >= known.number && same_life {
            true => Ok(Remembered::of(life, known.former.clone())),
            false => Err(Fence::RolledBack { life: life.number, remembered: known.number }),
        };
    }
    if known.former.contains(&life.incarnation) {
        return Err(Fence::Replaced);
    }
    if !life.replaces {
        return Err(Fence::Unannounced);
    }
    let mut former = known.former.clone();
    former.push(known.incarnation);
    let surplus = former.len().saturating_sub(FORMER_MAX);
    former.drain(..surplus);
    Ok(Remembered::of(life, former))
}

/// The lives of all nodes, as far as one of them remembers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lives {
    known: BTreeMap<NodeId, Remembered>,
}

impl Lives {
    /// These lives.
    pub fn new(known: impl IntoIterator<Item = (NodeId, Remembered)>) -> Self {
        Lives { known: known.into_iter().collect() }
    }

    /// The life that is remembered of each node, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &Remembered)> {
        self.known.iter().map(|(node, remembered)| (*node, remembered))
    }

    /// The life that is remembered of a node.
    pub fn of(&self, node: NodeId) -> Option<&Remembered> {
        self.known.get(&node)
    }

    /// A node says in which life it is. True if that is news, which has to be durable before anything else that the node
    /// says is taken in.
    ///
    /// # Errors
    /// It is fenced.
    pub fn hear(&mut self, node: NodeId, life: &Life) -> Result<bool, Fence> {
        let remembered = follow(self.known.get(&node), life)?;
        let is_news = self.known.get(&node) != Some(&remembered);
        self.known.insert(node, remembered);
        Ok(is_news)
    }

    /// A peer tells what it remembers of a node. True if that is later than what is remembered here. A contradiction is passed
    /// over: the peer itself may be the one that was rolled back.
    pub fn learn(&mut self, node: NodeId, told: &Remembered) -> bool {
        if told.number > LIFE_MAX || told.former.len() > FORMER_MAX {
            return false;
        }
        let is_later = self.known.get(&node).is_none_or(|known| {
            if known.incarnation == told.incarnation {
                told.number > known.number
            } else {
                told.former.contains(&known.incarnation)
            }
        });
        if is_later {
            self.known.insert(node, told.clone());
        }
        is_later
    }
}

#[cfg(test)]
mod tests;
