//! A replica: what it holds, what it is given, and what it needs of the machine that it is a part of.
//!
//! | file | role |
//! |---|---|
//! | `normal` | appending in a view: the leader's side and the backups' |
//! | `view_change` | going on to the next view: who wants to, what they hold, who has most |
//! | `joining` | taking part in a view that has begun: fetching what is lacking, and changing over |
//! | [`snapshot`] | shortening the log, and what to do if it has been shortened too far |
//! | [`lease`] | how long nobody else can lead |
//! | `clocks` | what the group takes for the time, and leaders whose clocks are off |
//! | `hand_back` | how the first member comes to lead again |
//! | [`recovery`] | coming back without a disk |
//! | [`epochs`] | going on with other replicas |

mod clocks;
pub mod epochs;
mod hand_back;
pub mod invariants;
mod joining;
pub mod lease;
mod normal;
pub mod recovery;
pub mod snapshot;
mod view_change;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use quorate_core::bound::reasons;
use quorate_core::hosted::Status;
use quorate_core::log::Position;
use quorate_core::{ClockTime, Epoch, Instant, ReplicaIndex, View};

use crate::clocks::Clocks;
use crate::entries::{Entries, Entry, Shape};
use crate::{Membership, Message, Payload, Plant, Rules};
use hand_back::HandBack;
use joining::Joining;
use lease::{Lease, Promise};
use normal::Leading;
use recovery::Recovery;
use snapshot::Snapshots;
use view_change::Changing;

/// With what a replica begins that has no facts of earlier lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boot {
    /// The group is new.
    Initialise,
    /// The group is not, so what this replica knew is lost.
    Recover,
    /// The group is not, but this replica is: it waits until the group goes on with it.
    Join,
}

/// With what an epoch begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beginning {
    /// Its replicas.
    pub membership: Membership,
    /// The last entry of the epochs before; the start, if there are none.
    pub base: Position,
    /// In which view that was appended.
    pub view: View,
}

/// A fact that a replica keeps across a crash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact<P: Payload> {
    /// These were appended to the log.
    Appended(Vec<Entry<P>>),
    /// The replica has left all earlier views.
    ViewEntered(View),
    /// Messages of a replica in lives before this one count no more.
    LifeNoted {
        /// Which replica.
        replica: ReplicaIndex,
        /// Its life, counted from zero.
        life: u64,
    },
    /// Entries with which a view begins, where the log of this replica differs.
    ViewPage {
        /// The view.
        view: View,
        /// They follow this position.
        after: Position,
        /// The entries.
        entries: Vec<Entry<P>>,
    },
    /// The replica takes part in a view: its log is cut off after one position, and goes on with pages up to another.
    ViewInstalled {
        /// The view.
        view: View,
        /// The last position of what was kept.
        kept: Position,
        /// The last position of the log now.
        last: Position,
        /// If what was kept is not the entries, but the pages of a state that have come: in which view the last entry before
        /// was appended.
        from_state: Option<View>,
        /// The epoch of the view.
        beginning: Beginning,
        /// The latest lives of replicas that have lost their disks.
        lives: BTreeMap<ReplicaIndex, u64>,
    },
    /// This replica is new, and waits until its group goes on with it.
    Awaiting,
    /// A page of the state with which a view begins here.
    ViewState {
        /// The view.
        view: View,
        /// The number of the page, from zero.
        page: u64,
        /// The page.
        state: P::Page,
    },
    /// Here begins what a restart needs.
    SnapshotBegun {
        /// The pages hold what the entries up to here have led to.
        base: Position,
        /// In which view the entry there was appended.
        base_view: View,
        /// The view of the replica.
        view: View,
        /// The last view in which it took part.
        last_normal: View,
        /// True if it has left that view.
        changing: bool,
        /// The latest lives of replicas that have lost their disks.
        lives: BTreeMap<ReplicaIndex, u64>,
        /// The epoch.
        beginning: Beginning,
    },
    /// Entries of the log from before, but after the base.
    SnapshotEntries(Vec<Entry<P>>),
    /// A page of the state.
    SnapshotPage(P::Page),
    /// There are no more pages: this snapshot counts.
    SnapshotEnded,
}

impl<P: Payload> Fact<P> {
    /// The facts of a replica that was created with its group, whose replicas these are, and has slept since, and that goes
    /// on in no view up to the given one, in a life that the others do not know yet. For an operator who accepts the loss of
    /// everything that only others knew, with whom the replica would else make no majority.
    ///
    /// It has taken part in the first view, when nothing was appended, so any offer of a survivor is later than its own. If no
    /// replica has been in a later view than the given one, its offers in an earlier life count nowhere. None if no view follows
    /// that.
    pub fn asleep_since_creation(
        membership: Membership,
        me: ReplicaIndex,
        (view, life): (View, u64),
    ) -> Option<Vec<Self>> {
        let (first, start) = (membership.first_view(), Position::START);
        let beginning = Beginning { membership, base: start, view: first };
        let lives = BTreeMap::from([(me, life)]);
        let installed =
            Fact::ViewInstalled { view: first, kept: start, last: start, from_state: None, beginning, lives };
        Some(vec![installed, Fact::ViewEntered(view.next()?)])
    }
}

/// A timer of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// The leader says that it is alive, and what has not been acknowledged is sent again.
    Beat,
    /// The leader has been silent for long, or a view change has not ended.
    Silence,
    /// The next page of a snapshot may be written.
    Snapshot,
    /// Perhaps nobody asks for a state any more that is kept to be sent.
    Transfer,
    /// The epoch has ended, or some members of the next have not answered.
    Epoch,
    /// A comparison of the member's state is walking on. The replica itself has nothing to do with that.
    Verification,
}

/// The times that a group goes by. The same at all its replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How often a leader says that it is alive.
    pub beat: Duration,
    /// After so long without a word the leader is taken to be gone; and for so long a step of a view change may take.
    pub silence: Duration,
    /// How long nobody takes part in a view change after the leader has spoken.
    pub lease: Duration,
    /// By how many millionths time may pass faster or slower at one replica than at another.
    pub rate_error_ppm: u32,
    /// A clock that is further than this from those of a majority is off, or further than two silences if those are longer: a reading
    /// is as old as its message.
    pub clock_error_max: Duration,
    /// A leader hands back to the first member of its group once that has kept up for so long.
    pub hand_back: Duration,
}

impl Timing {
    /// A clock that is further than this from those of a majority is off.
    pub fn clock_bound(&self) -> Duration {
        self.clock_error_max.max(2 * self.silence)
    }

    /// The timing of servers.
    pub const DEFAULT: Timing = Timing {
        beat: Duration::from_millis(100),
        silence: Duration::from_millis(1_000),
        lease: Duration::from_millis(800),
        rate_error_ppm: 1_000,
        clock_error_max: Duration::from_secs(5),
        hand_back: Duration::from_secs(10),
    };
}

/// How much of what a replica takes upon itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// So many bytes of entries go into one message, or one entry if that is larger.
    pub message_bytes: usize,
    /// So many messages may be on their way to a backup before entries are held back, to go together; and so many questions
    /// whether this replica leads. Over a wide-area network as many entries are appended within a round trip, and none of them is to wait for
    /// an earlier one to come back.
    pub in_flight: usize,
    /// Nor may more bytes of entries be on their way to a backup, if they are those of more than one message: sent entries are in memory once more.
    pub in_flight_bytes: usize,
    /// So many entries from before a snapshot stay in memory, for backups that are a little behind.
    pub kept: u64,
}

impl Limits {
    /// The limits of servers.
    pub const DEFAULT: Limits = Limits {
        message_bytes: 1024 * 1024,
        in_flight: 4_096,
        in_flight_bytes: 16 * 1024 * 1024,
        kept: 4_096,
    };
}

/// Some of a log has become durable here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Durable {
    /// In this view,
    pub view: View,
    /// up to here.
    pub upto: Position,
}

/// The needs of a replica from the machine that it is a part of.
pub trait Host<P: Payload> {
    /// The monotonic instant.
    fn now(&self) -> Instant;

    /// The reading of this replica's clock.
    fn clock(&self) -> ClockTime;

    /// Sends a message to another replica of the group once everything persisted before is durable.
    fn send(&mut self, to: ReplicaIndex, message: Message<P>);

    /// Sends a message at once: it stays safe if this replica forgets what it reveals.
    fn send_unordered(&mut self, to: ReplicaIndex, message: Message<P>);

    /// Makes a fact durable.
    fn persist(&mut self, fact: Fact<P>);

    /// Marks the place of the next fact: a restart may come to begin there.
    fn anchor(&mut self);

    /// The facts from the mark on suffice, once they are durable.
    fn truncate(&mut self);

    /// Makes a fact durable and asks to be told, by [`Replica::on_durable`].
    fn persist_and_notify(&mut self, fact: Fact<P>, durable: Durable);

    /// Sets or moves a timer.
    fn set_timer(&mut self, timer: Timer, after: Duration);

    /// Forgets a timer.
    fn cancel_timer(&mut self, timer: Timer);

    /// An entry is stable. Called once in a life of the replica for each, in order; but see [`Host::replace_state`].
    fn on_stable(&mut self, position: Position, payload: &P);

    /// The state that the entries given by [`Host::on_stable`] have led to, as it is now.
    fn freeze(&mut self) -> P::Frozen;

    /// The next page of such a state; none once it has given all. The same pages however often a state is read, by
    /// whichever replica.
    fn next_page(&mut self, state: &mut P::Frozen) -> Option<P::Page>;

    /// These pages are what all entries up to a position have led to. The next that is given is the one after it.
    fn replace_state(&mut self, base: Position, pages: Vec<P::Page>);

    /// A number that no earlier life of this replica has used.
    fn nonce(&mut self) -> u64;

    /// Why a message is dropped.
    fn ignored(&mut self, reason: &'static str);

    /// The replica leads a view, whose log is what it holds.
    fn on_leading(&mut self, view: View);

    /// The replica leads no longer. Entries that it has appended and that are not stable may or may not become so.
    fn on_deposed(&mut self);

    /// The group has gone on without this replica, and needs it no longer.
    fn on_handed_over(&mut self);
}

/// One replica's part in the log.
#[derive(Debug)]
pub struct Replica<P: Payload> {
    /// The present epoch.
    beginning: Beginning,
    /// The members of which it is known that they have gone on to it.
    started: BTreeSet<ReplicaIndex>,
    /// The latest that the host knows of.
    wanted: Option<Membership>,
    me: ReplicaIndex,
    timing: Timing,
    limits: Limits,
    rules: Rules,
    status: Status,
    view: View,
    /// The last view in which the replica took part.
    last_normal: View,
    entries: Entries<P>,
    /// Everything up to here is stable, and has been given to the host.
    stable: Position,
    leading: Option<Leading>,
    /// Entries from the leader of the view that have overtaken those before them, by the position that they follow.
    early: BTreeMap<Position, Vec<Entry<P>>>,
    changing: Changing,
    joining: Option<Joining<P>>,
    snapshots: Snapshots<P>,
    promise: Promise,
    lease: Lease,
    clocks: Clocks,
    hand_back: HandBack,
    /// As [`Replica::clock_error_micros`].
    clock_error: Option<i64>,
    /// True if a crash would not make this a replica of a new group any more.
    is_known_to_disk: bool,
    /// True if there was an earlier life.
    restored: bool,
    /// True if it has taken part in a view: its records on disk count.
    is_member: bool,
    /// True if it waits for its group to go on with it.
    is_awaiting: bool,
    /// True if it has lost its disk and has not come back.
    is_lost: bool,
    recovery: Option<Recovery>,
    /// Others that have lost their disks, as far as one is told that has lost its own.
    others_lost: BTreeSet<ReplicaIndex>,
    /// The latest lives of replicas that have lost their disks.
    lives: BTreeMap<ReplicaIndex, u64>,
}

/// While a replica is rebuilt: the part of a view that has come and is not installed yet.
struct Arrived<P: Payload> {
    entries: BTreeMap<(View, Position), Entry<P>>,
    state: Vec<P::Page>,
}

impl<P: Payload> Replica<P> {
    /// A replica of a group that begins with an empty log. Give it the facts of earlier lives, in order, with
    /// [`Replica::restore`], and then [`Replica::start`].
    pub fn new(membership: Membership, me: ReplicaIndex, timing: Timing, limits: Limits) -> Self {
        Replica {
            snapshots: Snapshots::default(),
            view: membership.first_view(),
            last_normal: membership.first_view(),
            wanted: Some(membership.clone()),
            beginning: Beginning { membership, base: Position::START, view: View(0) },
            started: BTreeSet::new(),
            me,
            timing,
            limits,
            rules: Rules::SOUND,
            status: Status::Normal,
            entries: Entries::default(),
            stable: Position::START,
            leading: None,
            early: BTreeMap::new(),
            changing: Changing::default(),
            joining: None,
            promise: Promise::default(),
            lease: Lease::default(),
            clocks: Clocks::default(),
            hand_back: HandBack::default(),
            clock_error: None,
            is_known_to_disk: false,
            restored: false,
            is_member: false,
            is_awaiting: false,
            is_lost: false,
            recovery: None,
            others_lost: BTreeSet::new(),
            lives: BTreeMap::new(),
        }
    }

    /// The same with other rules. For tests and the simulator.
    pub fn with_rules(mut self, rules: Rules) -> Self {
        self.rules = rules;
        self
    }

    /// Takes in the facts that earlier lives had made durable and that count ([`quorate_core::replay::Extent`]), in order.
    pub fn restore(&mut self, facts: impl IntoIterator<Item = Fact<P>>) {
        let mut arrived = Arrived { entries: BTreeMap::new(), state: Vec::new() };
        for fact in facts {
            self.restored = true;
            self.take_in(fact, &mut arrived);
        }
        self.is_known_to_disk = self.restored;
        self.snapshots.base = self.entries.shape().base;
        self.stable = self.snapshots.base;
        assert!(
            self.last_normal <= self.view,
            "the replica took part in {}, and was never in a later view than {}",
            self.last_normal,
            self.view
        );
    }

    fn take_in(&mut self, fact: Fact<P>, arrived: &mut Arrived<P>) {
        match fact {
            Fact::Appended(entries) | Fact::SnapshotEntries(entries) => {
                for entry in entries {
                    self.snapshots.note_bytes(entry.payload.bytes());
                    self.entries.push(entry);
                }
            }
            Fact::ViewEntered(view) => {
                self.view = view;
                self.status = Status::ViewChanging;
            }
            Fact::LifeNoted { replica, life } => {
                self.lives.insert(replica, life);
            }
            Fact::ViewPage { view, after, entries } => {
                // The life that wrote them may have ended before it had all, so the next wrote some again.
                let positions = (after.0 + 1..).map(Position);
                arrived
                    .entries
                    .extend(positions.zip(entries).map(|(position, entry)| ((view, position), entry)));
            }
            Fact::ViewState { page, state, .. } => {
                if page == 0 {
                    arrived.state.clear();
                }
                arrived.state.push(state);
            }
            Fact::Awaiting => self.is_awaiting = true,
            Fact::SnapshotBegun { base, base_view, view, last_normal, changing, lives, beginning } => {
                self.beginning = beginning;
                self.entries = Entries::forgotten(base, base_view);
                (self.view, self.last_normal, self.lives) = (view, last_normal, lives);
                self.status = if changing { Status::ViewChanging } else { Status::Normal };
                self.is_member = true;
            }
            Fact::SnapshotPage(page) => self.snapshots.restored.push(page),
            Fact::SnapshotEnded => {}
            Fact::ViewInstalled { view, kept, last, from_state, beginning, lives } => {
                (self.beginning, self.lives) = (beginning, lives);
                let state = std::mem::take(&mut arrived.state);
                if let Some(base_view) = from_state {
                    self.entries = Entries::forgotten(kept, base_view);
                    self.snapshots.restored = state;
                } else {
                    self.entries.truncate(kept);
                }
                let pages = std::mem::take(&mut arrived.entries);
                for (_, entry) in
                    pages.into_iter().filter(|((of, at), _)| *of == view && *at > kept && *at <= last)
                {
                    self.entries.push(entry);
                }
                assert!(
                    self.entries.last() == last,
                    "{view} was begun with the log up to {last:?}, of which {:?} is on disk",
                    self.entries.last()
                );
                (self.view, self.last_normal, self.status) = (view, view, Status::Normal);
                self.is_member = true;
            }
        }
    }

    /// Begins to take part.
    pub fn start<H: Host<P>>(&mut self, boot: Boot, host: &mut H) {
        if self.snapshots.base > Position::START {
            let pages = std::mem::take(&mut self.snapshots.restored);
            host.replace_state(self.snapshots.base, pages);
        }
        // The promises of an earlier life are not known, only for how long they hold at most.
        if !self.rules.has(Plant::RestartEndsPromise) {
            self.promise.renew(host.now(), &self.timing);
        }
        self.stabilise(self.beginning.base, host);
        if self.beginning.base > Position::START || self.wanted().is_some() {
            host.set_timer(Timer::Epoch, self.timing.silence);
        }
        if !self.is_member && (self.is_awaiting || boot == Boot::Join && !self.restored) {
            return self.await_epoch(host);
        }
        self.is_lost = !self.is_member && (self.restored || boot == Boot::Recover);
        let is_member = self.membership().contains(self.me);
        if !is_member && self.is_lost && !self.rules.has(Plant::WaitsInVain) {
            // Its host says so. Its group may be in an earlier epoch still, or in a later one that needs it.
            return self.wait(host);
        } else if !is_member {
            self.status = Status::Retired;
        } else if self.is_lost {
            return self.recover(host);
        }
        match self.status {
            // Late answers to what an earlier life has said must not count for what this one says.
            Status::Normal if self.restored && self.leader(self.view) == self.me => {
                if self.rules.has(Plant::RestartedLeaderGoesOn) {
                    self.lead(host)
                } else {
                    self.lead_anew(host)
                }
            }
            Status::Normal => {
                if !self.restored {
                    let kept = self.entries.last();
                    self.install(kept, kept, None, host);
                    self.is_member = true;
                }
                if self.leader(self.view) == self.me { self.lead(host) } else { self.listen(host) }
            }
            Status::ViewChanging => self.repeat_view_change(host),
            Status::Recovering => self.repeat_recovery(host),
            Status::Retired => {}
        }
    }

    /// The present work of the replica.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Since when the members were as they were in the latest view in which it took part; none if it has taken part in none, or has lost its records.
    pub fn arrived(&self) -> Option<Epoch> {
        (self.is_member && !self.is_lost).then(|| self.last_normal.epoch())
    }

    /// The view in which it takes part, or into which it is changing.
    pub fn view(&self) -> View {
        self.view
    }

    /// Everything up to here is stable, as far as is known here.
    pub fn stable(&self) -> Position {
        self.stable
    }

    /// The last position of the log.
    pub fn last(&self) -> Position {
        self.entries.last()
    }

    /// The entry at a position.
    pub fn entry(&self, position: Position) -> Option<&Entry<P>> {
        self.entries.get(position)
    }

    /// The shape of the log.
    pub fn shape(&self) -> Shape {
        self.entries.shape().clone()
    }

    /// True if the replica leads its view.
    pub fn is_leading(&self) -> bool {
        self.leading.is_some()
    }

    /// Which replica leads a view: each in turn.
    pub fn leader(&self, view: View) -> ReplicaIndex {
        self.membership().leader(view)
    }

    /// Takes in what another replica says, under its epoch.
    pub fn on_message<H: Host<P>>(
        &mut self,
        from: ReplicaIndex,
        epoch: Epoch,
        message: Message<P>,
        host: &mut H,
    ) {
        self.note_heard(from, &message, host.now());
        self.flush(host);
        if from == self.me {
            return host.ignored("said by this replica itself");
        }
        if message.view().is_some_and(|view| !view.is_of(epoch)) {
            return host.ignored("view of another epoch");
        }
        if let Message::EpochBegun { membership, shape } = message {
            let is_believed = self.membership().epoch().may_go_to(epoch);
            match membership.epoch() == epoch {
                true if is_believed => self.on_epoch_begun(from, membership, shape, host),
                true => host.ignored(reasons::EPOCH),
                false => host.ignored("membership of another epoch"),
            }
        } else if self.is_waiting() {
            // It knows its group by its host only, which may be ahead of what has begun.
        } else if epoch < self.membership().epoch() {
            self.answer_earlier(from, host);
        } else if epoch > self.membership().epoch() {
            // Under the epoch that this replica knows, which is answered by the later one.
            host.send(from, Message::Join { view: self.view });
        } else if self.membership().contains(from) || message.is_given() {
            self.on_message_of_epoch(from, message, host);
        } else if matches!(message, Message::Join { .. }) && !self.rules.has(Plant::WaitsInVain) {
            // It waits for an epoch of which it is a member, and none will come.
            self.answer_earlier(from, host);
        }
    }

    fn on_message_of_epoch<H: Host<P>>(&mut self, from: ReplicaIndex, message: Message<P>, host: &mut H) {
        let epoch = self.membership().epoch();
        let is_believed = message.view().is_none_or(|view| self.view.may_go_to(view, epoch));
        if !is_believed && !self.rules.has(Plant::AnyViewBelieved) {
            return host.ignored(reasons::VIEW);
        }
        if !matches!(message, Message::WhichLife { .. }) {
            // It is back, or on its way.
            self.others_lost.remove(&from);
        }
        let asks =
            matches!(message, Message::Fetch { .. } | Message::FetchState { .. } | Message::EpochStarted);
        if self.status == Status::Retired && !asks {
            return;
        }
        match message {
            Message::Prepare { view, after, entries, stable, beat, clock } => {
                self.on_prepare(from, view, after, entries, stable, (beat, clock), host);
            }
            Message::PrepareOk { view, upto, beat, clock } => {
                self.on_prepare_ok(from, view, upto, (beat, clock), host);
            }
            Message::StartViewChange { view, entered } => {
                self.on_start_view_change(from, view, entered, host);
            }
            Message::DoViewChange { view, offer, clock } => {
                self.on_do_view_change(from, view, offer, clock, host);
            }
            Message::StartView { view, shape, stable, beginning } => {
                self.on_start_view(from, view, shape, stable, beginning, host);
            }
            Message::Fetch { view, after, upto } => self.on_fetch(from, view, after, upto, host),
            Message::Fetched { view, after, entries } => self.on_fetched(from, view, after, entries, host),
            Message::FromState { view, base, base_view, page, state } => {
                self.on_from_state(from, view, base, base_view, page, state, host);
            }
            Message::FetchState { view, base, page } => self.on_fetch_state(from, view, base, page, host),
            Message::Join { view } => self.on_join(from, view, host),
            Message::WhichLife { nonce } => self.on_which_life(from, nonce, host),
            Message::KnownLife { nonce, life } => self.on_known_life(from, nonce, life, host),
            Message::NewLife { life } => self.on_new_life(from, life, host),
            Message::LifeNoted { life, view } => self.on_life_noted(from, life, view, host),
            Message::EpochStarted => self.on_epoch_started(from, host),
            Message::EpochBegun { .. } => {}
        }
    }

    /// A timer has fired.
    pub fn on_timer<H: Host<P>>(&mut self, timer: Timer, host: &mut H) {
        self.flush(host);
        match timer {
            Timer::Beat => self.on_beat(host),
            Timer::Silence => self.on_silence(host),
            Timer::Snapshot => self.write_snapshot(host),
            Timer::Transfer => self.forget_transfers(host),
            Timer::Epoch => self.on_epoch_timer(host),
            Timer::Verification => {}
        }
    }

    fn others(&self) -> impl Iterator<Item = ReplicaIndex> + use<'_, P> {
        self.membership().members().iter().copied().filter(|index| *index != self.me)
    }

    fn tell_others<H: Host<P>>(&self, message: &Message<P>, host: &mut H) {
        for other in self.others() {
            host.send(other, message.clone());
        }
    }

    /// Gives the host what has become stable, up to a position, as far as it is there.
    fn stabilise<H: Host<P>>(&mut self, upto: Position, host: &mut H) {
        let upto = upto.min(self.entries.last());
        while self.stable < upto {
            self.stable = self.stable.next();
            let entry = self.entries.get(self.stable).expect("what lies before the last entry is there");
            host.on_stable(self.stable, &entry.payload);
        }
        assert!(
            self.stable <= self.entries.last(),
            "{:?} is stable, and the log ends at {:?}",
            self.stable,
            self.entries.last()
        );
        assert!(
            self.stable >= self.entries.shape().base,
            "{:?} is stable, and more is forgotten: {:?}",
            self.stable,
            self.entries.shape().base
        );
        self.note_end(host);
    }
}
