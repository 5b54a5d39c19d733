//! Appending in a view.

use std::collections::BTreeMap;

use quorate_core::log::Position;
use quorate_core::{Instant, ReplicaIndex, View};

use super::{Durable, Fact, Host, Replica, Status, Timer};
use crate::entries::Entry;
use crate::{Message, Payload};

/// What a leader knows of the others.
#[derive(Debug, Default)]
pub(super) struct Leading {
    /// With what the view began: once that is stable, the leader knows all that is.
    begun_with: Position,
    /// Up to where its own log is durable.
    durable: Position,
    peers: BTreeMap<ReplicaIndex, Peer>,
}

/// What the leader knows of a backup.
#[derive(Clone, Copy, Debug, Default)]
struct Peer {
    /// The backup holds the log up to here.
    matched: Position,
    /// It was sent everything up to here.
    sent: Position,
    /// What had matched when the last beat began.
    matched_at_beat: Position,
}

impl<P: Payload> Replica<P> {
    /// Appends an entry and gives its position. It is stable once [`Host::on_stable`] says so for that position, unless
    /// [`Host::on_deposed`] comes before; none if this replica does not lead.
    pub fn append<H: Host<P>>(&mut self, payload: P, host: &mut H) -> Option<Position> {
        self.leading.as_ref()?;
        let entry = Entry { view: self.view, payload };
        host.persist(Fact::Appended(vec![entry.clone()]));
        self.snapshots.note_bytes(entry.payload.bytes());
        let position = self.entries.push(entry);
        host.notify_durable(Durable { view: self.view, upto: position });
        for other in self.others() {
            self.send_more(other, host);
        }
        Some(position)
    }

    /// True if what this replica has of the log is all that is stable anywhere, now and until the instant that is returned:
    /// nobody else can lead before.
    pub fn lease_until(&self) -> Option<Instant> {
        let leading = self.leading.as_ref()?;
        if self.stable < leading.begun_with {
            // What an earlier leader made stable may not be known here as such.
            return None;
        }
        self.lease.until(self.group.failures(), &self.timing)
    }

    /// Asks the others whether this replica still leads: gives a number, which [`Replica::has_confirmed`] is asked about.
    pub fn confirm<H: Host<P>>(&mut self, host: &mut H) -> Option<u64> {
        self.leading.as_ref()?;
        self.beat(host);
        Some(self.lease.beat)
    }

    /// True if this replica led after the confirmation was asked for, so that everything that was stable then is stable
    /// here.
    pub fn has_confirmed(&self, number: u64) -> bool {
        let knows_all = self.leading.as_ref().is_some_and(|leading| self.stable >= leading.begun_with);
        knows_all && self.lease.heard_by(self.group.failures()) >= number
    }

    /// Some of the log has become durable here.
    pub fn on_durable<H: Host<P>>(&mut self, durable: Durable, host: &mut H) {
        self.is_known_to_disk = true;
        if durable.view == self.view
            && let Some(leading) = &mut self.leading
        {
            leading.durable = leading.durable.max(durable.upto);
            self.count_acknowledged(host);
        }
    }

    /// Begins to lead the view, whose log this replica holds.
    pub(super) fn lead<H: Host<P>>(&mut self, host: &mut H) {
        let last = self.entries.last();
        let peers = self.others().map(|other| (other, Peer { sent: last, ..Peer::default() })).collect();
        self.leading = Some(Leading { begun_with: last, durable: Position::START, peers });
        self.promise.end();
        self.lease.reset();
        host.cancel_timer(Timer::Silence);
        host.notify_durable(Durable { view: self.view, upto: last });
        host.on_leading(self.view);
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

    pub(super) fn on_beat<H: Host<P>>(&mut self, host: &mut H) {
        let Some(leading) = &mut self.leading else { return };
        for peer in leading.peers.values_mut() {
            if peer.matched == peer.matched_at_beat {
                // Nothing has been acknowledged for a beat: it may be lost.
                peer.sent = peer.matched;
            }
            peer.matched_at_beat = peer.matched;
        }
        self.beat(host);
        let forgotten = self.entries.shape().base;
        let peers = self.leading.iter().flat_map(|leading| &leading.peers);
        for (peer, _) in peers.filter(|(_, peer)| peer.matched < forgotten) {
            // What it lacks cannot be sent any more, unless it holds more than it has said.
            host.send(*peer, self.start_view());
        }
    }

    /// Says that this replica leads, and sends what has not been sent.
    fn beat<H: Host<P>>(&mut self, host: &mut H) {
        self.lease.speak(host.now());
        for other in self.others() {
            self.send_prepare(other, host);
        }
        host.set_timer(Timer::Beat, self.timing.beat);
    }

    /// Sends what has not been sent to a backup, unless much is on its way.
    fn send_more<H: Host<P>>(&mut self, to: ReplicaIndex, host: &mut H) {
        let Some(peer) = self.leading.as_ref().and_then(|leading| leading.peers.get(&to)) else { return };
        let is_there = peer.sent < self.entries.last() && peer.sent >= self.entries.shape().base;
        if is_there && peer.sent.0 - peer.matched.0 < self.limits.in_flight {
            self.send_prepare(to, host);
        }
    }

    fn send_prepare<H: Host<P>>(&mut self, to: ReplicaIndex, host: &mut H) {
        let Some(peer) = self.leading.as_mut().and_then(|leading| leading.peers.get_mut(&to)) else { return };
        let after = peer.sent;
        let entries = self.entries.between(after, self.entries.last(), self.limits.message_bytes);
        peer.sent = Position(after.0 + entries.len() as u64);
        let (view, stable, beat) = (self.view, self.stable, self.lease.beat);
        let message = Message::Prepare { view, after, entries, stable, beat };
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
        beat: u64,
        host: &mut H,
    ) {
        if view < self.view || from != self.leader(view) {
            if self.status == Status::ViewChanging && self.recovery.is_none() {
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
        host.set_timer(Timer::Silence, self.timing.silence);
        self.go_on_catching_up(host);
        let known = self.entries.last();
        if after <= known {
            let news: Vec<Entry<P>> = entries.into_iter().skip((known.0 - after.0) as usize).collect();
            if news.iter().any(|entry| entry.view > view) || !news.is_sorted_by_key(|entry| entry.view) {
                return;
            }
            if !news.is_empty() {
                host.persist(Fact::Appended(news.clone()));
                for entry in news {
                    self.snapshots.note_bytes(entry.payload.bytes());
                    self.entries.push(entry);
                }
            }
        }
        self.stabilise(stable, host);
        host.send(from, Message::PrepareOk { view, upto: self.entries.last(), beat });
    }

    pub(super) fn on_prepare_ok<H: Host<P>>(
        &mut self,
        from: ReplicaIndex,
        view: View,
        upto: Position,
        beat: u64,
        host: &mut H,
    ) {
        if view != self.view || upto > self.entries.last() {
            return;
        }
        let Some(peer) = self.leading.as_mut().and_then(|leading| leading.peers.get_mut(&from)) else {
            return;
        };
        peer.matched = peer.matched.max(upto);
        peer.sent = peer.sent.max(peer.matched);
        self.lease.on_answer(from, beat, self.group.failures());
        self.count_acknowledged(host);
        self.send_more(from, host);
    }

    /// What f + 1 replicas hold durably is stable.
    fn count_acknowledged<H: Host<P>>(&mut self, host: &mut H) {
        let Some(leading) = &self.leading else { return };
        let held = leading.peers.values().map(|peer| peer.matched).chain([leading.durable]);
        let mut held: Vec<Position> = held.collect();
        held.sort_unstable_by(|one, other| other.cmp(one));
        let stable = held[self.group.failures()];
        self.stabilise(stable, host);
    }
}
