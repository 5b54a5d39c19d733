//! A transaction of a node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use quorate_core::{
    ClientId, ClockTime, Instant, ReplicaId, ReplicaIndex, ShardId, TransactionId, View, Write,
};

use crate::entry::Decision;
use crate::message::{Found, Holder, Life, Period, Wanted};

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It reads.
    Executing,
    /// Its local certification is under way.
    Certifying,
    /// It has committed locally, at this timestamp.
    Local(ClockTime),
    /// It is decided at the second timestamp, and the home's log is to say so; it had committed locally at the first.
    Deciding(ClockTime, ClockTime),
    /// It has written nothing, and waits until it is known what it has read.
    ReadOnly,
}

/// A read that is gathered from the cache and from replicas.
#[derive(Debug)]
pub(super) struct Gathering {
    pub(super) wanted: Vec<Wanted>,
    /// The answers of replicas to each wish; several for a range over several shards.
    pub(super) found: Vec<Vec<Found>>,
    /// The floors of the shards that have answered: the cache says nothing of what lies below.
    pub(super) floors: BTreeMap<ShardId, ClockTime>,
    /// How many replicas have not answered.
    pub(super) missing: usize,
}

/// A commit that waits until everything is read.
#[derive(Debug)]
pub(super) struct CommitWanted {
    pub(super) writes: Vec<Write>,
    pub(super) shows: bool,
    /// True if it keeps the indexes of its snapshot.
    pub(super) knows_indexes: bool,
    pub(super) period: Period,
    pub(super) begun: ClockTime,
}

/// A replica that was asked, mostly as the leader of its shard, and when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) replica: ReplicaId,
    pub(super) at: Instant,
    /// True if the one that was asked before had named it as the leader.
    is_named: bool,
    /// True if it is about to lead, and is asked again once it has had a moment.
    pub(super) leads_soon: bool,
}

/// The next step if a replica that was asked does not lead.
#[derive(Clone, Copy, Debug)]
pub(super) enum Redirected {
    /// Another one is asked.
    To(Asked),
    /// The same is asked again soon, as this says.
    Soon(Asked),
    /// Nothing: it was not asked.
    Nowhere,
}

impl Asked {
    pub(super) fn new(replica: ReplicaId, at: Instant) -> Self {
        Asked { replica, at, is_named: false, leads_soon: false }
    }

    /// A replica that was asked does not lead, and names another: that one is asked next, unless this one had been named itself. Two that name each other
    /// would be asked without end; one of them, or one that names itself, is about to lead.
    pub(super) fn named(&self, from: ReplicaId, leader: ReplicaIndex, now: Instant) -> Redirected {
        let named = ReplicaId { shard: from.shard, index: leader };
        if self.replica != from {
            Redirected::Nowhere
        } else if named == from || self.is_named {
            Redirected::Soon(Asked { at: now, leads_soon: true, ..*self })
        } else {
            Redirected::To(Asked { replica: named, at: now, is_named: true, leads_soon: false })
        }
    }

    /// True if it was to have answered by now, or is about to lead: that is looked at when it has had a moment.
    pub(super) fn is_late(&self, now: Instant, timeout: Duration) -> bool {
        self.leads_soon || now - self.at >= timeout
    }
}

/// The part of a transaction at one shard.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) writes: Vec<Write>,
    /// The replica on this node that certifies it, in which life.
    pub(super) local: Option<(ReplicaIndex, Life)>,
    /// The timestamp that it proposes.
    pub(super) local_vote: Option<ClockTime>,
    /// The leader that was asked to let it in, once one was.
    pub(super) asked: Option<Asked>,
    /// How the shard has let it in.
    pub(super) prepared: Option<LetIn>,
    pub(super) prepared_at: Instant,
    /// The votes of replicas, in which life and under which view.
    pub(super) votes: BTreeMap<(ReplicaIndex, Life, View), ClockTime>,
}

impl Part {
    /// The vote of a replica that was granted snapshots. A replica on this node holds its note under every view; of another one only a
    /// vote under the view counts whose leader has let the transaction in: earlier ones are forgotten with what was announced under them.
    pub(super) fn vote_of(&self, holder: &Holder, view: View) -> Option<ClockTime> {
        let noted = self.local_vote.filter(|_| self.local == Some((holder.replica, holder.life)));
        let voted = self.votes.get(&(holder.replica, holder.life, view)).copied();
        noted.max(voted)
    }

    /// The same, for the plant that takes every view for the right one.
    pub(super) fn vote_under_any_view(&self, holder: &Holder) -> Option<ClockTime> {
        self.votes.keys().filter_map(|(_, _, view)| self.vote_of(holder, *view)).max()
    }
}

/// A shard has let a transaction in.
#[derive(Debug)]
pub(super) struct LetIn {
    /// Under this view.
    pub(super) view: View,
    /// The leader proposes this timestamp.
    pub(super) proposal: ClockTime,
    /// These have to vote as well.
    pub(super) holders: Vec<Holder>,
}

/// A transaction.
#[derive(Debug)]
pub(super) struct Transaction {
    pub(super) client: ClientId,
    /// Counts the transactions of the node.
    pub(super) began: u64,
    pub(super) snapshot: ClockTime,
    /// The clock of its client when it was begun, once that has asked to commit.
    pub(super) begun: ClockTime,
    /// The time below which outcomes were forgotten then.
    pub(super) forgotten: ClockTime,
    pub(super) phase: Phase,
    pub(super) reads: BTreeMap<u32, Gathering>,
    pub(super) commit: Option<CommitWanted>,
    /// The transactions that it has read from or written over, and that are not final (the paper's *inDD*).
    pub(super) depends_on: BTreeSet<TransactionId>,
    /// Those that have read from it or written over it (*outDD*).
    pub(super) dependents: BTreeSet<TransactionId>,
    /// The one of its client before it, if that is not final (*inFD*).
    pub(super) after: Option<TransactionId>,
    /// Those of its client after it (*outFD*).
    pub(super) followers: BTreeSet<TransactionId>,
    /// The oldest unsafe local commit under each that it depends on (*OLCDict*).
    pub(super) oldest: BTreeMap<TransactionId, ClockTime>,
    /// The freshest final commit in its snapshot (*FFC*).
    pub(super) freshest: ClockTime,
    pub(super) writes: Arc<[Write]>,
    pub(super) parts: BTreeMap<ShardId, Part>,
    /// Those whose writes it overwrites, and that were not final then.
    pub(super) stacks_on: Vec<TransactionId>,
    /// Its decision, once there is one.
    pub(super) decision: Option<Arc<Decision>>,
    pub(super) shows: bool,
    /// True if it keeps the indexes of its snapshot.
    pub(super) knows_indexes: bool,
    /// The local timestamp and the chain's length with which it was shown, if it was.
    pub(super) shown: Option<(ClockTime, u8)>,
    pub(super) began_at: Instant,
    pub(super) touched_at: Instant,
    /// When its decision was sent.
    pub(super) recorded_at: Instant,
    /// Messages about transactions that come after it, until it has a local timestamp.
    pub(super) queued: Vec<(quorate_core::Address, crate::message::Message)>,
}

impl Transaction {
    pub(super) fn new(client: ClientId, began: u64, snapshot: ClockTime, now: Instant) -> Self {
        Transaction {
            client,
            began,
            snapshot,
            begun: ClockTime::default(),
            forgotten: ClockTime::default(),
            phase: Phase::Executing,
            reads: BTreeMap::new(),
            commit: None,
            depends_on: BTreeSet::new(),
            dependents: BTreeSet::new(),
            after: None,
            followers: BTreeSet::new(),
            oldest: BTreeMap::new(),
            freshest: ClockTime::default(),
            writes: Arc::from([]),
            parts: BTreeMap::new(),
            stacks_on: Vec::new(),
            decision: None,
            shows: false,
            knows_indexes: false,
            shown: None,
            began_at: now,
            touched_at: now,
            recorded_at: now,
            queued: Vec::new(),
        }
    }

    /// True if nothing that it needs is still speculative.
    pub(super) fn is_independent(&self) -> bool {
        self.depends_on.is_empty() && self.after.is_none()
    }

    /// The oldest unsafe local commit in its snapshot; the end of time if there is none.
    pub(super) fn oldest_unsafe(&self) -> ClockTime {
        self.oldest.values().copied().min().unwrap_or(ClockTime::from_micros(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: fn(u64) -> ClockTime = ClockTime::from_micros;

    /// A vote counts for the life that was granted snapshots and under the view that has let the transaction in; a note counts under every view.
    #[test]
    fn votes_name_lives_and_views() {
        let holder = Holder { replica: ReplicaIndex(1), life: Life(5), until: AT(900) };
        let noted = |replica, life| (Some((ReplicaIndex(replica), Life(life))), Some(AT(30)));
        for (replica, life, view, (local, local_vote), counts) in [
            (1, 5, 2, (None, None), Some(20)),
            (0, 5, 2, (None, None), None),
            (1, 4, 2, (None, None), None),
            (1, 5, 1, (None, None), None),
            (1, 5, 3, (None, None), None),
            (1, 5, 1, noted(1, 5), Some(30)),
            (1, 5, 2, noted(1, 5), Some(30)),
            (1, 5, 1, noted(1, 4), None),
            (1, 5, 1, noted(0, 5), None),
            (1, 5, 1, noted(1, 6), None),
            (1, 5, 1, noted(2, 5), None),
            (1, 5, 2, noted(0, 5), Some(20)),
        ] {
            let part = Part {
                writes: Vec::new(),
                local,
                local_vote,
                asked: None,
                prepared: None,
                prepared_at: Instant::START,
                votes: BTreeMap::from([((ReplicaIndex(replica), Life(life), View(view)), AT(20))]),
            };
            let vote = part.vote_of(&holder, View(2));
            assert_eq!(vote, counts.map(AT), "of {replica} in {life} under {view}, noted {local:?}");
        }
    }

    /// Section 6.2: the oldest unsafe local commit in a snapshot is the least of those under everything that it has read from.
    #[test]
    fn the_oldest_unsafe_local_commit_is_the_least() {
        let of = |sequence| TransactionId { client: ClientId(1), sequence, attempt: 0 };
        for (beneath, oldest) in
            [(vec![], u64::MAX), (vec![7], 7), (vec![7, 3, 9], 3), (vec![u64::MAX, 3], 3)]
        {
            let mut transaction = Transaction::new(ClientId(1), 1, AT(10), Instant::START);
            transaction.oldest = (0..).map(of).zip(beneath.iter().copied().map(AT)).collect();
            assert_eq!(transaction.oldest_unsafe(), AT(oldest), "{beneath:?}");
        }
    }

    #[test]
    fn a_name_is_followed_once() {
        let replica = |index| ReplicaId { shard: ShardId(1), index: ReplicaIndex(index) };
        let [begin, later] = [0, 5].map(|millis| Instant::START + Duration::from_millis(millis));
        let asked = Asked::new(replica(0), begin);
        let told = |asked: &Asked, from: u8, leader: u8| match asked.named(
            replica(from),
            ReplicaIndex(leader),
            later,
        ) {
            Redirected::To(next) => format!("asks r{} at {:?}", next.replica.index.0, next.at - begin),
            Redirected::Soon(next) => format!("asks r{} again soon", next.replica.index.0),
            Redirected::Nowhere => "it was not asked".to_owned(),
        };
        assert_eq!(told(&asked, 1, 2), "it was not asked");
        assert_eq!(told(&asked, 0, 0), "asks r0 again soon", "it is about to lead");
        let second = Asked::new(replica(1), begin);
        assert_eq!(told(&second, 0, 2), "it was not asked");
        assert_eq!(told(&second, 1, 0), "asks r0 at 5ms");
        let Redirected::To(named) = asked.named(replica(0), ReplicaIndex(1), later) else {
            panic!("it names another")
        };
        assert_eq!((named.replica, named.at), (replica(1), later));
        assert_eq!(told(&named, 1, 0), "asks r1 again soon", "they name each other");
    }
}
