//! The state that only the leader has, and loses with its leadership: none of it is needed to tell what has been promised.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use quorate_core::hash::FixedMap;
use quorate_core::log::Confirmation;
use quorate_core::{Address, ClientId, Instant, Key, ReplicaIndex, TransactionId};

use super::joining::{Joining, Lent, Returning};
use super::lag::Marks;
use super::milestones::Awaited;
use super::moving::Writers;
use super::reservations::Reservations;
use super::shares::Shares;
use super::state::State;
use crate::entry::{Commit, registers};
use crate::histories::Update;
use crate::message::{Message, Period};
use crate::removal::Frozen;
use crate::vector::{LocalSite, Vector};

/// The volatile state of a leader.
#[derive(Debug)]
pub(super) struct Leader {
    /// The number of the last transaction that was appended.
    pub(super) appended: u64,
    /// COMMIT is appended and not yet stable; the address that waits for that, if one does.
    pub(super) committing: BTreeMap<TransactionId, Option<Address>>,
    /// The registers that these write, each with the number of the last one.
    writing: FixedMap<Key, u64>,
    /// REFUSED is appended and not yet stable.
    pub(super) refusing: BTreeMap<TransactionId, Refusing>,
    /// LOCKED is appended and not yet stable.
    pub(super) locking: BTreeSet<TransactionId>,
    /// RELEASED is appended and not yet stable.
    pub(super) releasing: BTreeSet<TransactionId>,
    /// Transactions of other sites whose locks are old, and whose ending was asked for.
    pub(super) settling: BTreeSet<TransactionId>,
    /// Slow commits that this site coordinates.
    pub(super) slow: BTreeMap<TransactionId, Slow>,
    /// Registers that are held for a slow commit of this site, or while LOCKED is not yet stable.
    holds: FixedMap<Key, TransactionId>,
    /// Containers that a transaction hands over whose COMMIT is appended and not yet stable.
    leaving: BTreeSet<Key>,
    /// Requests that wait until this has committed here.
    pub(super) waiting: Vec<Waiting>,
    /// The last question to other sites; none if none was asked.
    pub(super) question: Option<u64>,
    /// Registers that slow commits were refused for.
    pub(super) reservations: Reservations,
    /// Shares of counters that are on their way.
    pub(super) shares: Shares,
    /// Which sites write which containers.
    pub(super) writers: Writers,
    /// Reads that wait until it is sure that this replica leads.
    pub(super) unconfirmed: VecDeque<(Confirmation, Address, Message)>,
    /// The other sites.
    pub(super) peers: BTreeMap<LocalSite, Peer>,
    /// Transactions of other sites whose RECEIVED is appended.
    pub(super) receiving: Vector,
    /// Transactions of other sites that have come before their causes.
    pub(super) early: BTreeMap<(LocalSite, u64), Arc<Commit>>,
    /// The vector of committed transactions once every ADVANCE is stable that is appended.
    pub(super) advancing: Vector,
    /// Transactions of this site that are disaster-safe durable.
    pub(super) durable: u64,
    /// True while a batch waits for its time.
    pub(super) propagates: bool,
    /// The transactions that had committed at some instants, and in which period, oldest first.
    pub(super) samples: VecDeque<(Instant, Vector, Period)>,
    /// FLOOR is appended and not yet stable.
    pub(super) raising: bool,
    /// Clients that wait for milestones of their transactions.
    pub(super) awaited: Awaited,
    /// The transactions that had committed here at some instants.
    pub(super) marks: Marks,
    /// When it was asked last which sites were taken out.
    pub(super) consulted: Option<Instant>,
    /// Clients that wait until it is sure that this site was not taken out.
    pub(super) unleased: VecDeque<Leasing>,
    /// The sites of the FREEZE that was appended last.
    pub(super) freezing: Vec<LocalSite>,
    /// REMOVED is appended and not yet stable.
    pub(super) removing: BTreeSet<LocalSite>,
    /// How far other sites had come when they went on without those whose end is open, and what they have received of these by now.
    pub(super) frozen: BTreeMap<LocalSite, (Frozen, Vector)>,
    /// How far this site is with joining the others.
    pub(super) joining: Joining,
    /// How many sites have joined by the JOIN that was appended last.
    pub(super) expecting: usize,
    /// The state that a site fetches which joins.
    pub(super) lent: Option<Lent>,
    /// The role that is about to be handed over.
    pub(super) returning: Option<Returning>,
    /// When that was tried last.
    pub(super) returned: Option<Instant>,
}

/// A wait for the lease of this site.
#[derive(Debug)]
pub(super) struct Leasing {
    pub(super) from: Address,
    pub(super) since: Instant,
    pub(super) waits: Unleased,
}

/// The subject of such a wait.
#[derive(Debug)]
pub(super) enum Unleased {
    /// A request.
    Request(Message),
    /// The ending of a transaction that has committed.
    Ending(TransactionId),
}

/// The clients and sites that wait until a refusal is stable.
#[derive(Debug, Default)]
pub(super) struct Refusing {
    /// Clients.
    pub(super) clients: BTreeSet<Address>,
    /// Sites that may have locked something.
    pub(super) sites: BTreeSet<LocalSite>,
    /// The sites for want of which it is refused, as clients are told.
    pub(super) silent: BTreeSet<LocalSite>,
    /// True if it is refused since it would take a counter below zero.
    pub(super) is_short: bool,
}

impl Refusing {
    /// This client waits.
    pub(super) fn told(client: Address) -> Self {
        Refusing { clients: BTreeSet::from([client]), ..Refusing::default() }
    }
}

/// A slow commit.
#[derive(Debug)]
pub(super) struct Slow {
    /// The address that waits for its ending.
    pub(super) asker: Address,
    pub(super) snapshot: Vector,
    pub(super) updates: Vec<Update>,
    /// The registers of each preferred site that has not voted yet.
    pub(super) silent: BTreeMap<LocalSite, Vec<Key>>,
    /// The preferred sites beside this one.
    pub(super) participants: BTreeSet<LocalSite>,
    pub(super) began: Instant,
    pub(super) asked: Instant,
    /// Its number, where a planted bug takes one before the votes.
    pub(super) number: Option<u64>,
}

/// A request that waits for what its snapshot has to include.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) from: Address,
    pub(super) message: Message,
    pub(super) awaits: Awaits,
    pub(super) needs: Vector,
    pub(super) since: Instant,
    /// It waits until then, or is woken sooner, because of a reservation.
    pub(super) until: Option<Instant>,
    /// The first question to other sites that was asked since it waits.
    pub(super) question: Option<u64>,
}

/// The state that transactions have to reach here before a request goes on that waits for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Awaits {
    /// They have committed.
    Committed,
    /// They were received, durably.
    Received,
    /// They have committed, and it is known how this transaction has ended.
    Ending(TransactionId),
    /// They have committed, and a share of a counter has come since there were so many.
    Share(u64),
    /// They have committed, and the end of every site that was taken out is settled here.
    Ends,
}

/// Another local site, as far as this leader knows.
#[derive(Debug)]
pub(super) struct Peer {
    /// The replica that is taken for its leader.
    pub(super) leader: ReplicaIndex,
    /// How many of this site's transactions were sent to it.
    pub(super) sent: u64,
    /// The last number of each batch that it has not confirmed.
    pub(super) batches: VecDeque<u64>,
    /// How many of them it has received.
    pub(super) received: u64,
    /// The transactions that have committed at it.
    pub(super) committed: Vector,
    /// The oldest snapshot that may be read at it; none if it has not said so to this leader.
    pub(super) oldest: Option<Vector>,
    /// Up to where its own transactions are durable.
    pub(super) durable: u64,
    /// The durable number that it was told last.
    pub(super) told_durable: u64,
    /// When its leader was heard last.
    pub(super) heard: Instant,
    /// When it was sent again what it has not confirmed, or has confirmed something.
    pub(super) confirmed: Instant,
    /// True if it is to be told how far this site is.
    pub(super) is_owed: bool,
    /// True if the replica that is taken for its leader does not lead yet, so that all it was asked for is lost.
    pub(super) has_lost: bool,
    /// How often it was sent something anew since the last attention, because a replica of it did not lead.
    pub(super) redirects: u32,
}

impl Peer {
    /// A site of which nothing is known, but that this replica may lead it.
    pub(super) fn new(leader: ReplicaIndex, now: Instant) -> Self {
        Peer {
            leader,
            sent: 0,
            batches: VecDeque::new(),
            received: 0,
            committed: Vector::default(),
            oldest: None,
            durable: 0,
            told_durable: 0,
            heard: now,
            confirmed: now,
            is_owed: true,
            has_lost: false,
            redirects: 0,
        }
    }
}

impl Leader {
    /// A leader that knows only what is durable.
    pub(super) fn new(
        state: &State,
        site: LocalSite,
        sites: impl Iterator<Item = (LocalSite, ReplicaIndex)>,
        now: Instant,
    ) -> Self {
        Leader {
            appended: state.committed.of(site),
            committing: BTreeMap::new(),
            writing: FixedMap::default(),
            refusing: BTreeMap::new(),
            locking: BTreeSet::new(),
            releasing: BTreeSet::new(),
            settling: BTreeSet::new(),
            slow: BTreeMap::new(),
            holds: FixedMap::default(),
            leaving: BTreeSet::new(),
            waiting: Vec::new(),
            question: None,
            reservations: Reservations::default(),
            shares: Shares::default(),
            writers: Writers::new(now),
            unconfirmed: VecDeque::new(),
            peers: sites.map(|(site, leader)| (site, Peer::new(leader, now))).collect(),
            receiving: state.histories.received().clone(),
            early: BTreeMap::new(),
            advancing: state.committed.clone(),
            durable: 0,
            propagates: false,
            samples: VecDeque::from([(now, state.committed.clone(), state.period)]),
            raising: false,
            consulted: None,
            unleased: VecDeque::new(),
            freezing: Vec::new(),
            removing: BTreeSet::new(),
            frozen: BTreeMap::new(),
            joining: Joining::default(),
            expecting: state.joined.len(),
            lent: None,
            returning: None,
            returned: None,
            awaited: Awaited::default(),
            marks: Marks::default(),
        }
    }

    /// The transactions for which clients wait.
    pub(super) fn into_askers(self) -> BTreeSet<(ClientId, TransactionId)> {
        let Leader { committing, refusing, slow, waiting, unconfirmed, unleased, .. } = self;
        let asked = |(from, message): (Address, Message)| Some((from, message.transaction_of_client()?));
        let committing = committing.into_iter().filter_map(|(id, asker)| Some((asker?, id)));
        let refusing =
            refusing.into_iter().flat_map(|(id, told)| told.clients.into_iter().map(move |to| (to, id)));
        let slow = slow.into_iter().map(|(id, slow)| (slow.asker, id));
        let waiting = waiting.into_iter().filter_map(|one| asked((one.from, one.message)));
        let unconfirmed = unconfirmed.into_iter().filter_map(|(_, from, message)| asked((from, message)));
        let unleased = unleased.into_iter().filter_map(|one| match one.waits {
            Unleased::Request(message) => asked((one.from, message)),
            Unleased::Ending(id) => Some((one.from, id)),
        });
        let all = committing.chain(refusing).chain(slow).chain(waiting).chain(unconfirmed).chain(unleased);
        all.filter_map(|(asker, id)| match asker {
            Address::Client(client) => Some((client, id)),
            // Other sites hear of the next leader by themselves.
            Address::Replica(_) => None,
        })
        .collect()
    }

    /// How many requests of clients wait for something.
    pub(super) fn waiting(&self) -> usize {
        self.committing.len()
            + self.refusing.len()
            + self.slow.len()
            + self.waiting.len()
            + self.unleased.len()
            + self.unconfirmed.len()
    }

    /// How many transactions of a client, or of all, hold something here.
    pub(super) fn load(&self, client: Option<ClientId>) -> usize {
        let counts = |id: &&TransactionId| client.is_none_or(|client| id.client == client);
        self.committing.keys().filter(counts).count() + self.slow.keys().filter(counts).count()
    }

    /// Somebody who waits for the ending of a transaction is on its way to hear of it.
    pub(super) fn is_under_way(&self, id: TransactionId) -> bool {
        self.committing.contains_key(&id) || self.slow.contains_key(&id)
    }

    /// The number of the last transaction that is appended and not yet stable and writes a register.
    pub(super) fn writer(&self, key: &[u8]) -> Option<u64> {
        self.writing.get(key).copied()
    }

    /// The transaction for which a register is held.
    pub(super) fn holder(&self, key: &[u8]) -> Option<TransactionId> {
        self.holds.get(key).copied()
    }

    /// True if a register is held of which this is true.
    pub(super) fn holds_any(&self, is_meant: impl Fn(&Key) -> bool) -> bool {
        // Any order: whether there is one does not depend on it.
        self.holds.keys().any(is_meant)
    }

    /// True if a container is about to be handed over.
    pub(super) fn is_leaving(&self, name: &[u8]) -> bool {
        self.leaving.contains(name)
    }

    /// Holds registers for a transaction.
    pub(super) fn hold<'a>(&mut self, id: TransactionId, keys: impl IntoIterator<Item = &'a Key>) {
        for key in keys {
            let holder = self.holds.insert(key.clone(), id);
            assert!(holder.is_none_or(|holder| holder == id), "{id} holds what {holder:?} holds");
        }
    }

    /// Holds them no longer.
    pub(super) fn let_go<'a>(&mut self, id: TransactionId, keys: impl IntoIterator<Item = &'a Key>) {
        for key in keys {
            if self.holds.get(key.as_slice()) == Some(&id) {
                self.holds.remove(key.as_slice());
            }
        }
    }

    /// The name of the next transaction of the site itself, under a name that no client has. The number is taken once, so it is new.
    pub(super) fn next_name(&self, client: u64) -> TransactionId {
        TransactionId { client: ClientId(client), sequence: self.appended + 1, attempt: 0 }
    }

    /// COMMIT is appended.
    pub(super) fn note_appended(&mut self, commit: &Commit, asker: Option<Address>) {
        self.appended = commit.version.seqno;
        let before = self.committing.insert(commit.transaction, asker);
        assert!(before.is_none(), "{} is appended twice", commit.transaction);
        self.shares.take(&commit.updates);
        self.shares.add(&commit.updates);
        for key in commit.registers() {
            self.writing.insert(key.clone(), commit.version.seqno);
        }
        self.leaving.extend(placed(&commit.updates).cloned());
    }

    /// COMMIT is stable. Gives who waits for that.
    pub(super) fn note_committed(&mut self, commit: &Commit) -> Option<Address> {
        for key in registers(&commit.updates) {
            if self.writing.get(key.as_slice()) == Some(&commit.version.seqno) {
                self.writing.remove(key.as_slice());
            }
        }
        for name in placed(&commit.updates) {
            self.leaving.remove(name);
        }
        // Another leader may have appended it.
        let asker = self.committing.remove(&commit.transaction)?;
        self.shares.settle(&commit.updates);
        self.shares.added(&commit.updates);
        asker
    }
}

/// The containers that updates hand over.
fn placed(updates: &[Update]) -> impl Iterator<Item = &Key> {
    updates.iter().filter_map(|update| match update {
        Update::Place { name, .. } => Some(name),
        Update::Write { .. } | Update::Add { .. } | Update::Noted { .. } => None,
    })
}

#[cfg(test)]
mod tests {
    use quorate_core::Value;

    use super::*;
    use crate::rules::Rules;
    use crate::vector::VersionNumber;

    const HERE: LocalSite = LocalSite(0);

    fn leader() -> Leader {
        let others = [1, 2].map(|site| (LocalSite(site), ReplicaIndex(0)));
        Leader::new(&State::new(HERE, Rules::SOUND), HERE, others.into_iter(), Instant::START)
    }

    fn id(sequence: u64) -> TransactionId {
        TransactionId { client: ClientId(1), sequence, attempt: 0 }
    }

    fn write(key: &str) -> Update {
        Update::Write { key: Key::from(key), value: Some(Value::from_static(b"x")) }
    }

    fn commit(sequence: u64, updates: Vec<Update>) -> Commit {
        let version = VersionNumber { site: HERE, seqno: sequence };
        Commit { transaction: id(sequence), version, snapshot: Vector::default(), updates, is_slow: false }
    }

    /// The last of those that are appended counts, and goes with its own entry alone.
    #[test]
    fn a_register_is_about_to_be_written_until_the_last_of_its_writers_is_stable() {
        let (mut leader, client) = (leader(), Address::Client(ClientId(1)));
        let (first, second) = (commit(1, vec![write("a"), write("b")]), commit(2, vec![write("a")]));
        leader.note_appended(&first, Some(client));
        leader.note_appended(&second, None);
        assert_eq!(leader.appended, 2);
        assert_eq!([leader.writer(b"a"), leader.writer(b"b"), leader.writer(b"c")], [Some(2), Some(1), None]);
        assert!(leader.is_under_way(id(1)) && leader.is_under_way(id(2)) && !leader.is_under_way(id(3)));
        assert_eq!(
            (leader.load(None), leader.load(Some(ClientId(1))), leader.load(Some(ClientId(2)))),
            (2, 2, 0)
        );
        assert_eq!(leader.next_name(9), TransactionId { client: ClientId(9), sequence: 3, attempt: 0 });
        assert_eq!(leader.note_committed(&first), Some(client));
        assert_eq!([leader.writer(b"a"), leader.writer(b"b")], [Some(2), None]);
        assert_eq!(leader.note_committed(&second), None, "nobody has asked for it");
        assert_eq!((leader.writer(b"a"), leader.waiting()), (None, 0));
        assert!(!leader.is_under_way(id(2)));
    }

    #[test]
    fn a_container_leaves_from_when_that_is_appended_until_it_is_stable() {
        let mut leader = leader();
        let place = |name: &str| Update::Place { name: Key::from(name), container: None };
        let commits = [commit(1, vec![place("a")]), commit(2, vec![place("b")])];
        commits.iter().for_each(|commit| leader.note_appended(commit, None));
        assert_eq!([b"a", b"b", b"c"].map(|name| leader.is_leaving(name)), [true, true, false]);
        leader.note_committed(&commits[0]);
        assert_eq!([b"a", b"b"].map(|name| leader.is_leaving(name)), [false, true]);
    }

    #[test]
    fn a_register_is_held_by_one_transaction_and_let_go_by_no_other() {
        let mut leader = leader();
        let keys = |words: &[&str]| words.iter().map(|word| Key::from(*word)).collect::<Vec<_>>();
        leader.hold(id(1), &keys(&["a", "b"]));
        leader.hold(id(1), &keys(&["b"]));
        leader.hold(id(2), &keys(&["c"]));
        assert_eq!(
            ["a", "b", "c", "d"].map(|key| leader.holder(key.as_bytes())),
            [Some(id(1)), Some(id(1)), Some(id(2)), None]
        );
        assert!(
            leader.holds_any(|key| key.as_slice() == b"c") && !leader.holds_any(|key| key.as_slice() == b"d")
        );
        leader.let_go(id(2), &keys(&["a", "c"]));
        assert_eq!(
            ["a", "b", "c"].map(|key| leader.holder(key.as_bytes())),
            [Some(id(1)), Some(id(1)), None]
        );
        leader.let_go(id(1), &keys(&["a", "b"]));
        assert!(!leader.holds_any(|_| true));
    }

    /// A leader knows of the others only that they are there, and has said nothing yet.
    #[test]
    fn a_leader_begins_with_what_is_durable() {
        let leader = leader();
        assert_eq!(leader.peers.keys().copied().collect::<Vec<_>>(), [LocalSite(1), LocalSite(2)]);
        for peer in leader.peers.values() {
            assert_eq!((peer.sent, peer.received, peer.durable, peer.told_durable), (0, 0, 0, 0));
            assert!(peer.is_owed && peer.oldest.is_none() && peer.batches.is_empty() && peer.redirects == 0);
        }
        assert_eq!((leader.appended, leader.durable, leader.expecting, leader.waiting()), (0, 0, 0, 0));
        assert!(!leader.propagates && !leader.raising);
        assert_eq!(leader.samples, [(Instant::START, Vector::default(), Period(1))]);
    }
}
