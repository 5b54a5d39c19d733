//! Appending in a view.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use quorate_core::bound::reasons;
use quorate_core::log::Position;
use quorate_core::{ClockTime, Instant, ReplicaIndex, View};

use super::{Durable, Fact, Host, Limits, Replica, Status, Timer};
use crate::entries::Entry;
use crate::{Membership, Message, Payload, Plant};

/// The other replicas, as a leader knows them.
#[derive(Debug)]
pub(super) struct Leading {
    /// When its view began.
    pub(super) since: Instant,
    /// With what the view began: once that is stable, the leader knows all that is.
    begun_with: Position,
    /// Up to where its own log has been given to the disk, and up to where it is durable.
    written: Position,
    durable: Position,
    /// Since when the disk has made nothing durable of what it was given, and up to where it was durable then.
    waiting_for_disk: Option<(Instant, Position)>,
    peers: BTreeMap<ReplicaIndex, Peer>,
    /// The last position that was stable when the last beat began.
    stable_at_beat: Position,
    /// Since when the first member has kept up at every beat.
    kept_up_since: Option<Instant>,
    /// At how many beats in a row its clock was off.
    pub(super) beats_off: u32,
}

impl Leading {
    /// A leader at whose disk nothing has been durable so far.
    pub(super) fn new(since: Instant, last: Position, peers: BTreeMap<ReplicaIndex, Peer>) -> Self {
        let (durable, waiting_for_disk) = (Position::START, None);
        let stable_at_beat = Position(u64::MAX);
        Leading {
            since,
            begun_with: last,
            written: last,
            durable,
            waiting_for_disk,
            peers,
            stable_at_beat,
            kept_up_since: None,
            beats_off: 0,
        }
    }

    /// Notes at a beat whether a backup keeps up: it answers, and holds what was stable a beat ago. Gives since when it does without a gap.
    pub(super) fn keeps_up(
        &mut self,
        backup: ReplicaIndex,
        now: Instant,
        patience: Duration,
        stable: Position,
    ) -> Option<Instant> {
        let stable_then = std::mem::replace(&mut self.stable_at_beat, stable);
        let answers = |peer: &&Peer| peer.answered_at.is_some_and(|at| now - at < patience);
        let keeps_up =
            self.peers.get(&backup).filter(answers).is_some_and(|peer| peer.matched >= stable_then);
        self.kept_up_since = keeps_up.then(|| self.kept_up_since.unwrap_or(now));
        self.kept_up_since
    }

    /// Notes how far the disk has come; true if it has made nothing durable since `then` of what it was given.
    fn is_disk_silent(&mut self, now: Instant, patience: Duration) -> bool {
        assert!(self.durable <= self.written, "{:?} is durable, of {:?}", self.durable, self.written);
        if self.durable >= self.written {
            self.waiting_for_disk = None;
            return false;
        }
        let (since, durable) = self.waiting_for_disk.unwrap_or((now, self.durable));
        let since = if durable == self.durable { since } else { now };
        self.waiting_for_disk = Some((since, self.durable));
        now - since >= patience
    }

    /// The backups that have answered a beat of this view within this time: they take part, and can lead.
    pub(super) fn answering(&self, now: Instant, patience: Duration) -> Vec<ReplicaIndex> {
        let answers = |peer: &Peer| peer.answered_at.is_some_and(|at| now - at < patience);
        self.peers.iter().filter(|(_, peer)| answers(peer)).map(|(backup, _)| *backup).collect()
    }

    /// True if for so long fewer than this many backups have said anything as such.
    fn is_unheard(&self, now: Instant, patience: Duration, backups: usize) -> bool {
        let heard = self.peers.values().filter(|peer| now - peer.heard_at < patience);
        heard.count() < backups
    }
}

/// A message with entries, on its way to a backup.
#[derive(Clone, Copy, Debug)]
struct Sent {
    /// The last of its entries.
    upto: Position,
    /// Bytes of its entries.
    bytes: usize,
}

/// A backup, as the leader knows it.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    /// When it said something as one that takes part in the view, or wants to.
    heard_at: Instant,
    /// When it answered a beat last.
    answered_at: Option<Instant>,
    /// The backup holds the log up to here.
    matched: Position,
    /// It was sent everything up to here.
    sent: Position,
    /// Messages with entries that the backup has not acknowledged.
    in_flight: VecDeque<Sent>,
    /// Bytes of the entries in these messages.
    in_flight_bytes: usize,
    /// The last positions that had matched, and that had been sent, when the last beat began.
    at_beat: (Position, Position),
}

impl Peer {
    /// A backup that is taken to have been heard now, and to hold nothing.
    fn new(now: Instant, sent: Position) -> Self {
        Peer {
            heard_at: now,
            answered_at: None,
            matched: Position::START,
            sent,
            in_flight: VecDeque::new(),
            in_flight_bytes: 0,
            at_beat: Default::default(),
        }
    }

    /// The backup holds everything up to here.
    fn note_matched(&mut self, upto: Position) {
        self.matched = self.matched.max(upto);
        self.sent = self.sent.max(self.matched);
        while let Some(sent) = self.in_flight.pop_front_if(|sent| sent.upto <= self.matched) {
            assert!(
                self.in_flight_bytes >= sent.bytes,
                "{} bytes have arrived, and {} were on their way",
                sent.bytes,
                self.in_flight_bytes
            );
            self.in_flight_bytes -= sent.bytes;
        }
        assert!(!self.in_flight.is_empty() || self.in_flight_bytes == 0, "bytes of nothing are on their way");
    }

    /// True if the leader may send more before the backup acknowledges something.
    fn has_room(&self, limits: &Limits) -> bool {
        self.in_flight.len() < limits.in_flight && self.in_flight_bytes < limits.in_flight_bytes
    }

    /// Entries up to here, of so many bytes, are on their way.
    fn note_sent(&mut self, upto: Position, bytes: usize) {
        assert!(upto > self.sent, "entries up to {upto:?} are sent, after those up to {:?}", self.sent);
        self.sent = upto;
        self.in_flight.push_back(Sent { upto, bytes });
        self.in_flight_bytes += bytes;
    }

    /// Takes what has been sent for a beat, and of which nothing has been acknowledged since, for lost.
    fn note_beat(&mut self) {
        let (matched, sent) = self.at_beat;
        if self.matched == matched && self.matched < sent {
            self.sent = self.matched;
            self.in_flight.clear();
            self.in_flight_bytes = 0;
        }
        self.at_beat = (self.matched, self.sent);
        assert!(self.matched <= self.sent, "{:?} has arrived, and {:?} was sent", self.matched, self.sent);
    }
}

impl<P: Payload> Replica<P> {
    /// Appends an entry and gives its position. It is stable once [`Host::on_stable`] says so for that position, unless
    /// [`Host::on_deposed`] comes before; none if this replica does not lead. Entries that are appended before a
    /// [`Replica::flush`] go together. An entry that ends the epoch is the last of it.
    pub fn append(&mut self, payload: P) -> Option<Position> {
        self.leading.as_ref()?;
        let comes_too_late = payload.next_group().is_some_and(|next| !self.membership().precedes(next));
        if comes_too_late || self.is_ending() {
            return None;
        }
        assert!(self.status == Status::Normal, "an entry is appended while {:?}", self.status);
        Some(self.entries.push(Entry { view: self.view, payload }))
    }

    /// Writes down and sends what was appended, and asks what was to be asked. To be called after each step of the host.
    pub fn flush<H: Host<P>>(&mut self, host: &mut H) {
        if self.leading.is_none() {
            return;
        }
        if self.write_appended(host) {
            self.send_more_to_all(host);
        }
        let unanswered = self.lease.beat - self.lease.heard_by(self.membership().group().others());
        if self.lease.is_wanted && unanswered < self.limits.in_flight as u64 {
            self.beat(host);
        }
    }

    /// Makes durable what was appended. False if there is nothing.
    fn write_appended<H: Host<P>>(&mut self, host: &mut H) -> bool {
        let last = self.entries.last();
        let Some(leading) = self.leading.as_mut().filter(|leading| leading.written < last) else {
            return false;
        };
        let entries = self.entries.between(leading.written, last, usize::MAX);
        assert!(
            entries.len() as u64 == last.0 - leading.written.0,
            "{} entries are written down, of those after {:?} and up to {last:?}",
            entries.len(),
            leading.written
        );
        leading.written = last;
        for entry in &entries {
            self.snapshots.note_bytes(entry.payload.bytes());
        }
        host.persist_and_notify(Fact::Appended(entries), Durable { view: self.view, upto: last });
        true
    }

    fn send_more_to_all<H: Host<P>>(&mut self, host: &mut H) {
        let others: Vec<ReplicaIndex> = self.others().collect();
        for other in others {
            self.send_more(other, host);
        }
    }

    /// The fact with which this replica takes part in its view. A leader is told when it is durable.
    pub(super) fn install<H: Host<P>>(
        &mut self,
        kept: Position,
        last: Position,
        from_state: Option<View>,
        host: &mut H,
    ) {
        let fact = self.view_installed(kept, last, from_state);
        if self.leader(self.view) == self.me {
            host.persist_and_notify(fact, Durable { view: self.view, upto: last });
        } else {
            host.persist(fact);
        }
    }

    pub(super) fn view_installed(&self, kept: Position, last: Position, from_state: Option<View>) -> Fact<P> {
        let (beginning, lives) = (self.beginning.clone(), self.lives.clone());
        Fact::ViewInstalled { view: self.view, kept, last, from_state, beginning, lives }
    }

    /// True if this replica leads, and knows all that was stable when it began to.
    pub fn knows_all(&self) -> bool {
        let has_all = self.leading.as_ref().is_some_and(|leading| self.stable >= leading.begun_with);
        // Once the epoch has ended, the next may have begun elsewhere.
        has_all && self.next_epoch().is_none()
    }

    /// True if what this replica has of the log is all that is stable anywhere, now and until the instant that is returned:
    /// nobody else can lead before.
    pub fn lease_until(&self) -> Option<Instant> {
        if self.leading.is_some() && self.rules.has(Plant::ReadsBeforeAll) {
            return self.lease.until(0, &self.timing);
        }
        if !self.knows_all() {
            // Entries that an earlier leader made stable may not be known here as such.
            return None;
        }
        self.lease.until(self.membership().group().others(), &self.timing)
    }

    /// Asks the others whether this replica still leads, with the next [`Replica::flush`]: gives a number, which
    /// [`Replica::has_confirmed`] is asked about. A question that gets no answer is repeated with each beat.
    pub fn confirm(&mut self) -> Option<u64> {
        self.leading.as_ref()?;
        self.lease.is_wanted = true;
        Some(self.lease.beat + 1)
    }

    /// All questions up to this number have been answered.
    pub fn confirmed(&self) -> u64 {
        if self.knows_all() { self.lease.heard_by(self.membership().group().others()) } else { 0 }
    }

    /// True if this replica led after the confirmation was asked for, so that everything that was stable then is stable
    /// here.
    pub fn has_confirmed(&self, number: u64) -> bool {
        self.confirmed() >= number
    }

    /// Some of the log has become durable here.
    pub fn on_durable<H: Host<P>>(&mut self, durable: Durable, host: &mut H) {
        self.flush(host);
        if durable.view != self.view {
            return;
        }
        self.is_known_to_disk = true;
        if let Some(leading) = &mut self.leading {
            leading.durable = leading.durable.max(durable.upto);
            assert!(
                leading.durable <= leading.written,
                "{:?} is durable, and {:?} was written",
                leading.durable,
                leading.written
            );
            self.count_acknowledged(host);
        }
    }

    /// Begins to lead the view, whose log this replica holds.
    pub(super) fn lead<H: Host<P>>(&mut self, host: &mut H) {
        assert!(self.leader(self.view) == self.me, "{:?} leads {} out of turn", self.me, self.view);
        assert!(
            self.status == Status::Normal && self.leading.is_none(),
            "{} is led anew while {:?}",
            self.view,
            self.status
        );
        let last = self.entries.last();
        let now = host.now();
        let peers = self.others().map(|other| (other, Peer::new(now, last))).collect();
        self.leading = Some(Leading::new(now, last, peers));
        self.promise.end();
        self.lease.reset();
        host.cancel_timer(Timer::Silence);
        host.on_leading(self.view);
        host.set_timer(Timer::Beat, self.timing.beat);
        self.beat(host);
    }

    /// Begins to listen to the leader of the view.
    pub(super) fn listen<H: Host<P>>(&mut self, host: &mut H) {
        host.set_timer(Timer::Silence, self.timing.silence);
    }

    /// Stops leading, if it does.
    pub(super) fn stop_leading<H: Host<P>>(&mut self, host: &mut H) {
        if self.leading.take().is_some() {
            self.lease.reset();
            host.cancel_timer(Timer::Beat);
            host.on_deposed();
        }
    }

    /// A backup has said something. Its messages about other views, in which it may wait for another replica, do not count.
    pub(super) fn note_heard(&mut self, from: ReplicaIndex, message: &Message<P>, now: Instant) {
        let takes_part = message.view() == Some(self.view) || message.is_of_lives();
        if !takes_part {
            return;
        }
        if let Some(peer) = self.leading.as_mut().and_then(|leading| leading.peers.get_mut(&from)) {
            peer.heard_at = now;
        }
    }

    /// True if this replica leads in vain: it does not hear enough of the others, or its disk stands still. The others hear it
    /// all the same, and would wait for it for ever.
    fn leads_in_vain(&mut self, now: Instant) -> bool {
        // Before its lease has ended nobody else can lead.
        let patience = self.timing.lease + self.timing.silence;
        let others = self.membership().group().others();
        let Some(leading) = &mut self.leading else { return false };
        leading.is_disk_silent(now, patience) || leading.is_unheard(now, patience, others)
    }

    pub(super) fn on_beat<H: Host<P>>(&mut self, host: &mut H) {
        if self.leads_in_vain(host.now()) {
            self.stop_leading(host);
            return self.wish_for_next(host);
        }
        if let Some(view) = self.next_with_sound_clock(host) {
            return self.enter(view, host);
        }
        if let Some(view) = self.next_led_by_first(host) {
            return self.enter(view, host);
        }
        let Some(leading) = &mut self.leading else { return };
        leading.peers.values_mut().for_each(Peer::note_beat);
        // Other beats, which are questions, do not put this off.
        host.set_timer(Timer::Beat, self.timing.beat);
        self.beat(host);
        let forgotten = self.entries.shape().base;
        let peers = self.leading.iter().flat_map(|leading| &leading.peers);
        for (peer, _) in peers.filter(|(_, peer)| peer.matched < forgotten) {
            // Entries that it lacks cannot be sent any more, unless it holds more than it has said.
            host.send(*peer, self.start_view());
        }
    }

    /// Says that this replica leads, and sends what has not been sent.
    fn beat<H: Host<P>>(&mut self, host: &mut H) {
        self.write_appended(host);
        self.lease.speak(host.now(), &self.timing);
        let clock = self.clock_to_tell(host);
        let others: Vec<ReplicaIndex> = self.others().collect();
        for other in others {
            self.send_prepare(other, clock, host);
        }
    }

    /// Sends what has not been sent to a backup, unless much is on its way. Then the rest goes together once something of
    /// that has arrived: the more there is to do, the more goes into a message.
    fn send_more<H: Host<P>>(&mut self, to: ReplicaIndex, host: &mut H) {
        while let Some(peer) = self.leading.as_ref().and_then(|leading| leading.peers.get(&to))
            && peer.sent < self.entries.last()
            && peer.sent >= self.entries.shape().base
            && peer.has_room(&self.limits)
        {
            self.send_prepare(to, None, host);
        }
    }

    fn send_prepare<H: Host<P>>(&mut self, to: ReplicaIndex, clock: Option<ClockTime>, host: &mut H) {
        let Some(peer) = self.leading.as_mut().and_then(|leading| leading.peers.get_mut(&to)) else { return };
        let after = peer.sent;
        let entries = if peer.has_room(&self.limits) {
            self.entries.between(after, self.entries.last(), self.limits.message_bytes)
        } else {
            Vec::new()
        };
        if !entries.is_empty() {
            let bytes = entries.iter().map(|entry| entry.payload.bytes()).sum();
            peer.note_sent(Position(after.0 + entries.len() as u64), bytes);
            assert!(
                peer.in_flight.len() <= self.limits.in_flight.max(1),
                "{} messages are on their way to {to:?}",
                peer.in_flight.len()
            );
        }
        let (view, stable, beat) = (self.view, self.stable, self.lease.beat);
        let message = Message::Prepare { view, after, entries, stable, beat, clock };
        if self.is_known_to_disk {
            // Backups may have it on disk before the leader has, which counts itself only once it has. If it crashes before
            // that it never leads this view again, so it appends nothing else in the same place.
            host.send_unordered(to, message);
        } else {
            // It would begin once more as the leader of a new group.
            host.send(to, message);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn on_prepare<H: Host<P>>(
        &mut self,
        from: ReplicaIndex,
        view: View,
        after: Position,
        entries: Vec<Entry<P>>,
        stable: Position,
        (beat, clock): (u64, Option<ClockTime>),
        host: &mut H,
    ) {
        if view < self.view || from != self.leader(view) {
            if self.status == Status::ViewChanging {
                // It does not know that somebody has gone on.
                host.send(from, Message::StartViewChange { view: self.view, entered: true });
            }
            return;
        }
        if view > self.view || self.status != Status::Normal {
            return self.ask_to_join(from, view, host);
        }
        self.promise.renew(host.now(), &self.timing);
        self.changing.forget_wishes();
        self.note_told_clock(clock, host);
        host.set_timer(Timer::Silence, self.timing.silence);
        self.go_on_catching_up(host);
        if !self.take_or_keep(after, entries, host) {
            return;
        }
        self.stop_catching_up();
        self.stabilise(stable, host);
        let message = Message::PrepareOk { view, upto: self.entries.last(), beat, clock: Some(host.clock()) };
        if self.rules.has(Plant::OkBeforeSync) {
            host.send_unordered(from, message);
        } else {
            host.send(from, message);
        }
    }

    /// Forgets entries that came early and are in the log by now.
    pub(super) fn forget_overtaken(&mut self) {
        let last = self.entries.last();
        self.early.retain(|after, entries| after.0 + entries.len() as u64 > last.0);
    }

    /// Takes entries that the leader has sent, or keeps them until those before them have come. False if no leader sends
    /// such.
    fn take_or_keep<H: Host<P>>(&mut self, after: Position, entries: Vec<Entry<P>>, host: &mut H) -> bool {
        if entries.iter().any(|entry| entry.view > self.view) || !entries.is_sorted_by_key(|entry| entry.view)
        {
            host.ignored("entries of views to come");
            return false;
        }
        let epoch = self.membership().epoch();
        let goes_too_far = |next: &Membership| !epoch.may_go_to(next.epoch());
        if entries.iter().any(|entry| entry.payload.next_group().is_some_and(goes_too_far)) {
            host.ignored(reasons::EPOCH);
            return false;
        }
        if !after.is_believable() {
            host.ignored(reasons::POSITION);
            return false;
        }
        if !entries.is_empty() && (after <= self.entries.last() || self.early.len() < self.limits.in_flight) {
            self.early.insert(after, entries);
        }
        while let Some(next) = self.early.first_entry()
            && *next.key() <= self.entries.last()
        {
            let (after, entries) = next.remove_entry();
            let held = (self.entries.last().0 - after.0) as usize;
            let news: Vec<Entry<P>> = entries.into_iter().skip(held).collect();
            let last_view = self.entries.shape().view_at(self.entries.last());
            if news.first().is_none_or(|first| Some(first.view) < last_view) {
                continue;
            }
            host.persist(Fact::Appended(news.clone()));
            for entry in news {
                self.snapshots.note_bytes(entry.payload.bytes());
                self.entries.push(entry);
            }
        }
        assert!(
            self.early.len() <= self.limits.in_flight,
            "{} messages wait for those before them",
            self.early.len()
        );
        true
    }

    pub(super) fn on_prepare_ok<H: Host<P>>(
        &mut self,
        from: ReplicaIndex,
        view: View,
        upto: Position,
        (beat, clock): (u64, Option<ClockTime>),
        host: &mut H,
    ) {
        if view != self.view || upto > self.entries.last() {
            return;
        }
        let Some(peer) = self.leading.as_mut().and_then(|leading| leading.peers.get_mut(&from)) else {
            return;
        };
        peer.note_matched(upto);
        // A replica that has joined says so once, of no beat.
        peer.answered_at = if beat > 0 { Some(host.now()) } else { peer.answered_at };
        self.clocks.note(from, beat, clock, host.now());
        if self.rules.has(Plant::LeaseFromAnswer) {
            self.lease.speak_late(beat, host.now());
        }
        self.lease.on_answer(from, beat, self.membership().group().others());
        self.count_acknowledged(host);
        self.send_more(from, host);
    }

    /// Entries that n - f replicas hold durably are stable.
    fn count_acknowledged<H: Host<P>>(&mut self, host: &mut H) {
        let Some(leading) = &self.leading else { return };
        let held = leading.peers.values().map(|peer| peer.matched).chain([leading.durable]);
        let mut held: Vec<Position> = held.collect();
        let members = self.membership().members().len();
        assert!(held.len() == members, "{} replicas are counted, of {members} members", held.len());
        held.sort_unstable_by(|one, other| other.cmp(one));
        let stable = held[self.membership().group().others()];
        let last = self.entries.last();
        assert!(stable <= last, "a majority holds the log up to {stable:?}, and it ends at {last:?}");
        self.stabilise(stable, host);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKUP: ReplicaIndex = ReplicaIndex(1);
    const PATIENCE: Duration = Duration::from_secs(5);

    fn at(seconds: u64) -> Instant {
        Instant::START + Duration::from_secs(seconds)
    }

    fn leading(change: impl FnOnce(&mut Peer)) -> Leading {
        let mut peer = Peer::new(at(10), Position(3));
        change(&mut peer);
        Leading::new(at(10), Position(3), BTreeMap::from([(BACKUP, peer)]))
    }

    #[test]
    fn a_backup_answers_for_as_long_as_its_last_answer_is_no_older_than_the_patience() {
        assert!(
            leading(|_| {}).answering(at(10), PATIENCE).is_empty(),
            "it was heard, and has answered no beat"
        );
        let answered = leading(|peer| peer.answered_at = Some(at(10)));
        assert_eq!(answered.answering(at(14), PATIENCE), [BACKUP]);
        assert!(answered.answering(at(15), PATIENCE).is_empty());
        assert!(!answered.is_unheard(at(14), PATIENCE, 1) && answered.is_unheard(at(15), PATIENCE, 1));
        assert!(!answered.is_unheard(at(15), PATIENCE, 0) && answered.is_unheard(at(14), PATIENCE, 2));
    }

    #[test]
    fn a_backup_keeps_up_if_it_answers_and_holds_what_was_stable_a_beat_ago() {
        let mut leading = leading(|peer| (peer.answered_at, peer.matched) = (Some(at(10)), Position(3)));
        let mut keeps_up =
            |seconds, stable| leading.keeps_up(BACKUP, at(seconds), PATIENCE, Position(stable));
        assert_eq!(keeps_up(10, 3), None, "nobody knows what was stable a beat ago");
        assert_eq!(keeps_up(11, 9), Some(at(11)));
        assert_eq!(keeps_up(12, 9), None, "it lacks what was");
        assert_eq!(keeps_up(13, 3), None);
        assert_eq!(keeps_up(14, 3), Some(at(14)));
        assert_eq!(keeps_up(14, 3), Some(at(14)), "without a gap");
        assert_eq!(keeps_up(15, 3), None, "it does not answer");
        assert_eq!(leading.keeps_up(ReplicaIndex(2), at(10), PATIENCE, Position(3)), None, "it is not known");
    }

    #[test]
    fn a_disk_is_silent_if_it_has_made_nothing_durable_for_the_patience() {
        let mut leading = leading(|_| {});
        let mut is_silent = |seconds, durable, written| {
            (leading.durable, leading.written) = (Position(durable), Position(written));
            leading.is_disk_silent(at(seconds), PATIENCE)
        };
        assert!(!is_silent(10, 3, 3), "it was given nothing");
        assert!(!is_silent(20, 3, 4) && !is_silent(24, 3, 5) && is_silent(25, 3, 5));
        assert!(!is_silent(26, 4, 5), "it has come further");
        assert!(!is_silent(30, 4, 5) && is_silent(31, 4, 5));
        assert!(!is_silent(32, 5, 5) && !is_silent(40, 5, 6), "it has made everything durable meanwhile");
    }

    /// Sent entries are lost if a backup has acknowledged none of them from one beat to the next.
    #[test]
    fn entries_are_sent_again_if_nothing_of_them_arrives_for_a_beat() {
        let limits = Limits { in_flight: 2, in_flight_bytes: 100, ..Limits::DEFAULT };
        let mut peer = Peer::new(at(10), Position::START);
        peer.note_sent(Position(2), 30);
        assert!(peer.has_room(&limits));
        peer.note_sent(Position(5), 69);
        assert!(!peer.has_room(&limits), "two messages are on their way");
        peer.note_beat();
        assert_eq!((peer.sent, peer.in_flight_bytes), (Position(5), 99), "they were sent in this beat");
        peer.note_matched(Position(2));
        assert_eq!((peer.matched, peer.in_flight_bytes), (Position(2), 69));
        peer.note_beat();
        assert_eq!(peer.sent, Position(5), "one of them has arrived");
        peer.note_beat();
        assert_eq!((peer.sent, peer.in_flight.len(), peer.in_flight_bytes), (Position(2), 0, 0));
        peer.note_sent(Position(9), 100);
        assert!(!peer.has_room(&limits), "as many bytes are on their way as may be");
        peer.note_matched(Position(12));
        assert_eq!((peer.matched, peer.sent), (Position(12), Position(12)), "it holds more than it was sent");
        peer.note_beat();
        peer.note_beat();
        assert_eq!(peer.sent, Position(12), "nothing is on its way");
    }
}
