//! A replica of a local site: a machine on a replicated log. The replica that leads the log is the site's server of the paper.
//!
//! | file | role | section |
//! |---|---|---|
//! | `state` | what the entries of the log have led to | 5.2 |
//! | `leader` | what only the leader knows, and loses with its leadership | |
//! | `reads` | snapshots are taken and read | 5.3 |
//! | `claims` | what clients claim to have seen and no site ever had is found out | 5.1 |
//! | `commit` | fast and slow commits of this site's clients | 5.4, 5.5 |
//! | `containers` | which site lets in what is written, and how that passes to another | 4.1 |
//! | `copies` | which sites get the values that a transaction writes, and how many have them | 5.3, 5.6 |
//! | `locking` | locks for slow commits of other sites | 5.5 |
//! | `reservations` | fast commits wait for slow ones that were refused | 5.5 |
//! | `propagation` | transactions reach other sites, become durable and commit there | 5.6 |
//! | `removal` | a site that is lost is taken out, and others go on without it | 5.7 |
//! | `survival` | what is kept of such a site | 5.7 |
//! | `joining` | a site joins the others, among them one that comes back | 5.7 |
//! | `moving` | containers move to the sites that write them | |
//! | `shares` | counters that do not fall below zero | |
//! | `milestones` | clients are told that their transactions are durable, or visible everywhere | 4.1, 5.6 |
//! | `changes` | consumers are told what has committed | |
//! | `retained` | the transactions that are kept for them | |
//! | `lag` | how far other sites are behind, for operators | |
//! | `floor` | what may be forgotten | 6 |
//! | `invariants` | what holds between any two steps | |

mod changes;
mod claims;
mod commit;
mod containers;
mod copies;
mod floor;
mod invariants;
mod joining;
mod lag;
mod leader;
mod locking;
mod milestones;
mod moving;
mod propagation;
mod reads;
mod removal;
mod reservations;
mod retained;
mod shares;
mod state;
mod survival;

use quorate_core::hosted::Consultation;
use quorate_core::log::{Log, LogMachine, LogOutbox, Position};
use quorate_core::topology::{Join, SiteChanges};
use quorate_core::verify::{Digester, Item, position};
use quorate_core::{
    Address, ClientId, Context, Groups, Input, Instant, ReplicaId, ReplicaIndex, ShardId, TransactionId, View,
};

use crate::config::ReplicaConfig;
use crate::entry::{self, Commit, Entry, Lock, Page};
use crate::histories::{Count, Histories, Placed, Read};
use crate::message::{Ending, Message, Period};
use crate::reasons;
use crate::removal::Removal;
use crate::vector::{LocalSite, Vector};
use commit::Request;
use leader::Leader;
pub use state::Frozen;
use state::State;

type Out = LogOutbox<Replica>;

/// So many answers and early transactions may wait; those that come later are sent again. Of requests that wait for others to commit a tenth,
/// and a hundredth of each sender, so that no client takes all the room.
const WAITING_MAX: usize = 100_000;

/// So often what a site was sent follows from one replica to the one that it names, before it waits: while leaders change, replicas may
/// name each other.
const REDIRECTS_MAX: u32 = 4;

/// Pages that are only digested are small, so that no turn takes long.
const DIGESTED_PAGE_BYTES: usize = 16 * 1024;

/// The reason why a replica asks to be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReplicaTimer {
    /// The leader looks after what is old.
    Attention,
    /// The leader tells the other sites what is new.
    Propagate,
    /// A reservation ends that a fast commit waits for.
    Reservations,
}

/// A message of a replica to its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplicaEvent {
    /// It asks the configuration service.
    Consults(Consultation),
    /// It leads, and serves.
    Leading {
        /// In this view.
        view: View,
    },
    /// It leads no longer.
    Deposed,
}

/// A message of a host to a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplicaCommand {
    /// The keyspace is in this epoch. Groups that it names in an earlier one are passed over.
    ChangeGroups(Groups),
    /// The answer of the configuration service.
    Answer {
        /// When it was asked.
        asked: Instant,
        /// How the sites of the keyspace have changed.
        changes: SiteChanges,
    },
    /// A consumer asks for changes.
    Follow,
}

/// A replica of one local site.
#[derive(Debug)]
pub struct Replica {
    config: ReplicaConfig,
    site: LocalSite,
    state: State,
    leader: Option<Leader>,
    /// The sites that were taken out, as this replica has heard.
    known: Vec<Removal>,
    /// When it heard of the last one that was new to it.
    learned: Instant,
    /// The sites that have joined, as this replica has heard.
    joins: Vec<Join>,
    /// How far the changes had come that it has heard of.
    changed: [usize; 4],
    /// Until then it is sure that this site was not taken out.
    leased_until: Instant,
    /// How many answers it has given to clients of other sites.
    copies_read: u64,
    /// The containers that were moved.
    moved: u64,
    /// The shares of counters that were given to other sites.
    shares_given: u64,
}

impl Replica {
    /// Its local site.
    pub fn site(&self) -> LocalSite {
        self.site
    }

    /// All objects.
    pub fn histories(&self) -> &Histories {
        &self.state.histories
    }

    /// The transactions that have committed at its site: the paper's *CommittedVTS*.
    pub fn committed(&self) -> &Vector {
        &self.state.committed
    }

    /// How often it has read for clients whose own sites lack the objects, since it began.
    pub fn copies_read(&self) -> u64 {
        self.copies_read
    }

    /// How many transactions of other sites have locked something here.
    pub fn locks(&self) -> usize {
        self.state.locks.len()
    }

    /// The transactions that have locked something here, each with the shard of the site that coordinates it.
    pub fn locked_for(&self) -> Vec<(TransactionId, ShardId)> {
        let shard = |lock: &Lock| self.config.shard_of(lock.origin);
        self.state.locks.iter().map(|(id, (lock, _))| (*id, shard(lock))).collect()
    }

    /// How many transactions hold something here, or are about to commit; those of one client only, if one is named.
    pub fn load(&self, client: Option<ClientId>) -> usize {
        self.leader.as_ref().map_or(0, |leader| leader.load(client))
    }

    /// How many transactions of silent sites it is settling.
    pub fn settling(&self) -> usize {
        self.leader.as_ref().map_or(0, |leader| leader.settling.len())
    }

    /// How many requests wait at this leader.
    pub fn waiting(&self) -> usize {
        self.leader.as_ref().map_or(0, Leader::waiting)
    }

    /// How many other sites have not committed everything that has committed here, as far as this leader knows.
    pub fn behind(&self) -> usize {
        let last = self.state.committed.of(self.site);
        let is_behind = |peer: &&leader::Peer| peer.committed.of(self.site) < last;
        self.leader.as_ref().map_or(0, |leader| leader.peers.values().filter(is_behind).count())
    }

    /// The transactions that the floor does not include.
    pub fn journal(&self) -> impl Iterator<Item = &Commit> {
        self.state.journals.values().flatten().map(AsRef::as_ref)
    }

    /// How many transactions of this site have committed and been refused since this replica began.
    pub fn decided(&self) -> (u64, u64) {
        self.state.decided
    }

    /// How the transactions of this site have ended that it remembers, ascending.
    pub fn endings(&self) -> Vec<(TransactionId, Ending)> {
        let mut endings: Vec<_> = self.state.endings().map(|(id, ending)| (id, ending.clone())).collect();
        endings.sort_unstable_by_key(|(id, _)| *id);
        endings
    }

    /// How many endings it remembers.
    pub fn ended_len(&self) -> usize {
        self.state.ended_len()
    }

    /// How a transaction of this site has ended, if it remembers.
    pub fn ending(&self, id: TransactionId) -> Option<&Ending> {
        self.state.ending(id)
    }

    /// How many endings are remembered although nothing can depend on them.
    pub fn overdue(&self) -> usize {
        self.state.overdue()
    }

    fn on_message(
        &mut self,
        from: Address,
        message: Message,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        if self.is_removed() {
            return outbox.ignored(reasons::REMOVED);
        }
        let is_told =
            matches!(message, Message::Expected { .. } | Message::State { .. } | Message::NotLeading { .. });
        let is_ready = match from {
            Address::Client(_) => self.serves(),
            Address::Replica(_) => self.state.is_whole() || is_told,
        };
        if !is_ready {
            return outbox.ignored(reasons::JOINING);
        }
        match (message, from) {
            (Message::Read { transaction, request, snapshot, wanted }, _) => {
                self.on_read(from, transaction, request, snapshot, wanted, context, log, outbox);
            }
            (Message::ReadCopy { transaction, request, snapshot, home, wanted }, _) => {
                self.on_read_copy(from, transaction, request, snapshot, home, wanted, context, log, outbox);
            }
            (Message::Commit { transaction: id, snapshot, period, updates }, _) => {
                let request = Request { id, snapshot, period, updates };
                self.on_commit(from, request, context, log, outbox);
            }
            (Message::AskOutcome { transaction, period, committed }, _) => {
                self.on_ask_outcome(from, transaction, (period, committed), context.now, log, outbox);
            }
            (Message::AskMilestone { transaction, version, milestone }, _) => {
                self.on_ask_milestone(from, transaction, version, milestone, context, log, outbox);
            }
            (Message::Prepare { transaction, keys, snapshot }, Address::Replica(from)) => {
                self.on_prepare(from, transaction, keys, snapshot, context, log, outbox);
            }
            (Message::Vote { transaction, keys, agrees }, Address::Replica(from)) => {
                self.on_vote(from, transaction, (&keys, agrees), context, log, outbox);
            }
            (Message::Release { transaction }, Address::Replica(from)) => {
                self.on_release(from, transaction, log, outbox);
            }
            (Message::Propagate { commits, durable }, Address::Replica(from)) => {
                self.on_propagate(from, commits, durable, context, log, outbox);
            }
            (Message::Progress { received, committed, oldest }, Address::Replica(from)) => {
                self.on_progress_of(from, received, &committed, &oldest, context, log, outbox);
            }
            (Message::AskLast { question }, Address::Replica(from)) => {
                self.on_ask_last(from, question, context, log, outbox);
            }
            (Message::Last { question, seqno }, Address::Replica(from)) => {
                self.on_last(from, question, seqno, context.now, outbox);
            }
            (Message::AskShare { counter, wanted }, Address::Replica(from)) => {
                self.on_ask_share(from, &counter, wanted, context, log, outbox);
            }
            (Message::Frozen { frozen, received }, Address::Replica(from)) => {
                self.on_frozen(from, frozen, received, context, outbox);
            }
            (Message::Relay { commits }, Address::Replica(from)) => {
                self.on_relay(from, commits, log, outbox);
            }
            (Message::Join {}, Address::Replica(from)) => self.on_join(from, context, log, outbox),
            (Message::Expected { floor }, Address::Replica(from)) => {
                self.on_expected(from, floor, context, outbox);
            }
            (Message::Fetch { state, number }, Address::Replica(from)) => {
                self.on_fetch(from, state, number, context, log, outbox);
            }
            (Message::State { state, number, is_last, page }, Address::Replica(from)) => {
                self.on_state(from, (state, number), is_last, page, context, log, outbox);
            }
            (Message::NotLeading { leader, .. }, Address::Replica(from)) => {
                self.on_not_leading(from, leader, context, outbox);
            }
            (
                Message::Prepare { .. }
                | Message::Vote { .. }
                | Message::Release { .. }
                | Message::Propagate { .. }
                | Message::Progress { .. }
                | Message::AskLast { .. }
                | Message::AskShare { .. }
                | Message::Last { .. }
                | Message::Frozen { .. }
                | Message::Relay { .. }
                | Message::Join {}
                | Message::Expected { .. }
                | Message::Fetch { .. }
                | Message::State { .. }
                | Message::NotLeading { .. },
                Address::Client(_),
            ) => outbox.ignored(reasons::CLIENT),
            (
                Message::ReadReply { .. }
                | Message::CopyReply { .. }
                | Message::CommitReply { .. }
                | Message::TooOld { .. }
                | Message::Abandoned { .. }
                | Message::NeverCommitted { .. }
                | Message::Forgotten { .. }
                | Message::MilestoneReply { .. },
                _,
            ) => outbox.ignored(reasons::CLIENTS_ONLY),
        }
    }

    /// Does nothing about a message but say who may.
    fn send_not_leading(
        &self,
        to: Address,
        transaction: Option<TransactionId>,
        log: &impl Log<Entry>,
        outbox: &mut Out,
    ) {
        outbox.send(to, Message::NotLeading { transaction, leader: log.leader() });
    }

    /// Tells a client how far its site is, so that it can begin again.
    fn send_too_old(
        &self,
        to: Address,
        transaction: TransactionId,
        refused: Option<Period>,
        outbox: &mut Out,
    ) {
        let (committed, period) = (self.state.committed.clone(), self.state.period);
        outbox.send(to, Message::TooOld { transaction, refused, committed, period });
    }

    /// The replica of another site that is taken for its leader.
    fn leader_of(&self, site: LocalSite) -> ReplicaId {
        let shard = self.config.shard_of(site);
        let peer = self.leader.as_ref().and_then(|leader| leader.peers.get(&site));
        let first = self.config.groups.members(shard).at(0);
        ReplicaId { shard, index: peer.map_or(first, |peer| peer.leader) }
    }

    /// A replica has spoken as leaders do.
    fn note_leader(&mut self, site: LocalSite, index: ReplicaIndex, now: Instant, outbox: &mut Out) {
        let Some(peer) = self.leader.as_mut().and_then(|leader| leader.peers.get_mut(&site)) else { return };
        peer.heard = now;
        self.turn_to(site, index, outbox);
    }

    /// Takes a replica for the leader of a site. Questions that another one has not answered may be lost with its leadership.
    fn turn_to(&mut self, site: LocalSite, index: ReplicaIndex, outbox: &mut Out) {
        assert!(site != self.site, "{site} takes {index:?} for the leader of another site");
        let Some(peer) = self.leader.as_mut().and_then(|leader| leader.peers.get_mut(&site)) else { return };
        let has_lost = std::mem::take(&mut peer.has_lost);
        if std::mem::replace(&mut peer.leader, index) != index || has_lost {
            self.send_prepares_to(site, outbox);
            self.ask_for_shares_again(site, outbox);
        }
    }

    /// The replica that was taken for the leader of a site is silent: the next one may know more.
    fn suspect(&mut self, site: LocalSite) {
        let members = self.config.groups.members(self.config.shard_of(site));
        if let Some(peer) = self.leader.as_mut().and_then(|leader| leader.peers.get_mut(&site)) {
            peer.leader = members.after(peer.leader);
        }
    }

    /// A replica of another site does not lead, and says who does.
    fn on_not_leading(
        &mut self,
        from: ReplicaId,
        leads: ReplicaIndex,
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) {
        let Some(site) = self.other_site(from.shard) else { return outbox.ignored(reasons::NO_SITE) };
        let Some(leader) = &mut self.leader else { return outbox.ignored(reasons::NOT_LEADING) };
        let Some(peer) = leader.peers.get_mut(&site) else { return };
        let is_asked = peer.leader == from.index;
        // All that was sent to this replica is lost. If the site has it all the same, it says so.
        peer.sent = peer.received;
        peer.batches.clear();
        peer.told_durable = 0;
        peer.is_owed = true;
        peer.redirects += 1;
        peer.has_lost |= is_asked;
        if peer.redirects > REDIRECTS_MAX {
            peer.leader = if is_asked { leads } else { peer.leader };
            return;
        }
        // One that names itself is about to lead, and says so once it does.
        if is_asked && leads != from.index {
            self.turn_to(site, leads, outbox);
        }
        match self.state.is_whole() {
            true => self.propagate_soon(outbox),
            false => self.ask_again(site, context, outbox),
        }
    }

    fn on_attention_timeout(
        &mut self,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let (now, wait_timeout) = (context.now, self.config.wait_timeout);
        let Some(leader) = &mut self.leader else { return };
        leader.waiting.retain(|waiting| now - waiting.since < wait_timeout);
        self.attend_claims(context, outbox);
        self.attend_sites(context, log, outbox);
        if !self.state.is_whole() {
            outbox.set_timer(ReplicaTimer::Attention, self.config.attention_interval);
            return;
        }
        self.attend_slow(context, log, outbox);
        self.attend_locks(context, outbox);
        self.attend_floor(context, log, outbox);
        self.attend_peers(context, outbox);
        self.attend_moves(now, log, outbox);
        self.attend_shares(now, log, outbox);
        self.attend_milestones(context);
        self.attend_marks(context.now);
        outbox.set_timer(ReplicaTimer::Attention, self.config.attention_interval);
    }
}

impl LogMachine for Replica {
    type Entry = Entry;
    type Message = Message;
    type Timer = ReplicaTimer;
    type Command = ReplicaCommand;
    type Event = ReplicaEvent;
    type Config = ReplicaConfig;
    type Page = Page;
    type Frozen = Frozen;
    type Canonical = Self;

    fn new(config: ReplicaConfig) -> Self {
        let site = config.site();
        let state = match config.is_founder(site) {
            true => State::new(site, config.rules),
            false => State::joining(site, config.rules),
        };
        let state = state.retaining(config.retention);
        Replica {
            config,
            site,
            state,
            leader: None,
            known: Vec::new(),
            learned: Instant::START,
            joins: Vec::new(),
            changed: [0; 4],
            leased_until: Instant::START,
            copies_read: 0,
            moved: 0,
            shares_given: 0,
        }
    }

    fn bytes(entry: &Entry) -> usize {
        entry::bytes(entry)
    }

    fn step(
        &mut self,
        context: &mut Context<'_>,
        input: Input<Message, ReplicaTimer, ReplicaCommand>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        match input {
            Input::Start | Input::Persisted(_) => {}
            Input::Message { from, message, .. } => self.on_message(from, message, context, log, outbox),
            Input::Timer(ReplicaTimer::Attention) => self.on_attention_timeout(context, log, outbox),
            Input::Timer(ReplicaTimer::Propagate) => self.on_propagate_timeout(outbox),
            Input::Timer(ReplicaTimer::Reservations) => self.on_reservations_timeout(context, log, outbox),
            Input::Command(ReplicaCommand::ChangeGroups(groups)) => {
                if groups.epoch > self.config.groups.epoch {
                    self.config.groups = groups;
                }
            }
            Input::Command(ReplicaCommand::Answer { asked, changes }) => {
                self.on_answer(asked, &changes, context, log, outbox);
            }
            Input::Command(ReplicaCommand::Follow) => self.on_follow(outbox),
        }
    }

    fn apply(
        &mut self,
        context: &mut Context<'_>,
        _: Position,
        entry: &Entry,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        self.state.retained.note_clock(context.clock);
        self.state.apply(entry, context.now);
        match entry {
            Entry::Commit(commit) => {
                self.on_committed(commit, context.now, outbox);
                self.note_shares();
                self.advance(log, outbox);
                self.wake(context, log, outbox);
            }
            Entry::Refused(id) => {
                self.on_refused(*id, outbox);
                self.wake(context, log, outbox);
            }
            Entry::Received(_) => {
                self.on_received(log, outbox);
                self.wake(context, log, outbox);
            }
            Entry::Advance(_) => {
                self.on_advanced(log, outbox);
                self.note_shares();
                self.go_on_moving(log, outbox);
                self.wake(context, log, outbox);
            }
            Entry::Locked { transaction, origin, keys } => {
                self.on_locked(*transaction, *origin, keys, outbox);
            }
            Entry::Released(id) => {
                self.on_released(*id);
                self.go_on_moving(log, outbox);
            }
            Entry::Join(joined) => self.on_joined(joined, context.now, outbox),
            Entry::Adopt { number, .. } => self.on_adopted(*number, context, log, outbox),
            Entry::Anew {} => self.on_anew(context, outbox),
            Entry::Freeze(_) => self.on_freeze(outbox),
            Entry::Removed { site, end } => {
                self.on_removed(*site, end);
                self.count_copies(outbox);
                self.advance(log, outbox);
                self.wake(context, log, outbox);
            }
            Entry::Floor { .. } => self.on_floor(),
        }
    }

    fn on_leading(
        &mut self,
        context: &mut Context<'_>,
        view: View,
        _: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        assert!(self.leader.is_none(), "{view} is led by a replica of {} that led before", self.site);
        self.leader = Some(self.new_leader(context.now));
        outbox.set_timer(ReplicaTimer::Attention, self.config.attention_interval);
        outbox.emit(ReplicaEvent::Leading { view });
        self.consult(context.now, outbox);
        self.propagate_soon(outbox);
    }

    /// Clients that wait are told, and ask again: who leads is known in a moment.
    fn on_deposed(&mut self, _: &mut Context<'_>, outbox: &mut Out) {
        let Some(leader) = self.leader.take() else { return };
        let myself = self.config.replica.index;
        for (client, id) in leader.into_askers() {
            outbox.send(client, Message::NotLeading { transaction: Some(id), leader: myself });
        }
        outbox.cancel_timer(ReplicaTimer::Attention);
        outbox.cancel_timer(ReplicaTimer::Propagate);
        outbox.cancel_timer(ReplicaTimer::Reservations);
        outbox.emit(ReplicaEvent::Deposed);
    }

    fn on_progress(&mut self, _: &mut Context<'_>, log: &mut impl Log<Entry>, outbox: &mut Out) {
        self.send_confirmed(log, outbox);
    }

    fn freeze(&self) -> Frozen {
        self.state.freeze(self.config.page_bytes_max)
    }

    fn freeze_data(&self) -> Frozen {
        self.state.freeze_data(DIGESTED_PAGE_BYTES)
    }

    /// The snapshot that a transaction which begins here now would read. A site that adopts the state of another has none.
    fn freeze_to_read(&self) -> Option<Frozen> {
        self.state.freeze_to_read(DIGESTED_PAGE_BYTES)
    }

    fn digest(page: &Page, digester: &mut Digester) {
        match page {
            Page::Registers(registers) => {
                for Read { key, version, value } in registers {
                    let stamps = [u64::from(version.site.0), version.seqno];
                    digester.add(Item { space: Item::DATA, key, stamps: &stamps, value: Some(value) });
                }
            }
            Page::Counts(counts) => {
                for Count { set, element, count } in counts {
                    let stamps = [count.cast_unsigned()];
                    digester.add(Item { space: Item::DATA, key: set, stamps: &stamps, value: Some(element) });
                }
            }
            Page::Containers(containers) => {
                for Placed { name, version, container } in containers {
                    let stamps = [u64::from(version.site.0), version.seqno, u64::from(container.preferred.0)];
                    let replicas: Vec<u8> =
                        container.replicas.sites.iter().flat_map(|site| site.0.to_be_bytes()).collect();
                    let value = (!replicas.is_empty()).then_some(replicas.as_slice());
                    digester.add(Item { space: Item::DATA, key: name, stamps: &stamps, value });
                }
            }
            // Only what is read has such a page, and nothing that is compared.
            Page::Bounds { committed, .. } => {
                // One that says nothing has an item as well, so that readers know that it does.
                for site in (0..committed.numbers().len().max(1) as u16).map(LocalSite) {
                    let (key, stamps) = (position::KEY, [u64::from(site.0), committed.of(site), 0]);
                    digester.add(Item { space: Item::DATA, key, stamps: &stamps, value: None });
                }
            }
            Page::Removals { .. }
            | Page::Joined(_)
            | Page::Partial {}
            | Page::Journal { .. }
            | Page::Locks(_)
            | Page::Ended(_) => {}
        }
    }

    fn next_page(frozen: &mut Frozen) -> Option<Page> {
        frozen.next_page()
    }

    fn replace_state(&mut self, _: Position, pages: Vec<Page>) {
        self.state = State::from_pages(pages, self.site, self.config.rules, self.config.retention);
        self.note_joined();
    }
}
