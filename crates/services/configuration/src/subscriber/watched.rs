//! A copy of a range, and how it is kept.
//!
//! The range is read page by page, each page at some revision, and watched from the lowest of these. Changes that a page holds
//! already are passed over, key by key; once the highest of these revisions is reached, the copy is of one revision, and
//! stays so.
//!
//! Which replica is asked changes when it does not answer, and now and then if it does: one that is cut off from its group
//! answers too, and has nothing new to tell.

use std::collections::BTreeMap;
use std::sync::Arc;

use quorate_core::{Context, Instant, Key, KeyRange, ReplicaIndex};

use super::{About, Out, Subscriber, SubscriberEvent};
use crate::entry::{Change, KeyState, Revision, Stored};
use crate::message::{Consistency, Message};
use crate::pauses::Pauses;

/// After so many renewals another replica is asked.
const RENEWALS_MAX: u32 = 8;

/// A copy of a range.
#[derive(Debug)]
pub struct Watched {
    range: KeyRange,
    /// The name of the watch towards replicas.
    request: u64,
    keys: BTreeMap<Key, Stored>,
    /// Everything up to this revision is known.
    revision: Revision,
    /// The copy was whole at this revision, and never goes back.
    told: Revision,
    /// From this revision on the copy is whole.
    whole_from: Revision,
    is_whole: bool,
    loading: Option<Loading>,
    replica: ReplicaIndex,
    ask_at: Instant,
    is_waiting: bool,
    /// Between questions that nobody answers.
    pauses: Pauses,
    renewals: u32,
}

/// The range is being read.
#[derive(Debug)]
struct Loading {
    request: u64,
    next: Key,
    keys: BTreeMap<Key, Stored>,
    /// The lowest and the highest revision of a page.
    revisions: Option<(Revision, Revision)>,
}

impl Watched {
    /// The keys, ascending, as they were at [`Watched::revision`]; none as long as the copy is not whole.
    pub fn keys(&self) -> Option<&BTreeMap<Key, Stored>> {
        self.is_whole.then_some(&self.keys)
    }

    /// The revision that the copy is of.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The range.
    pub fn range(&self) -> &KeyRange {
        &self.range
    }

    pub(super) fn request(&self) -> u64 {
        self.request
    }

    pub(super) fn replica(&self) -> ReplicaIndex {
        self.replica
    }

    pub(super) fn wakes_at(&self) -> Instant {
        self.ask_at
    }

    /// Takes in a change. A key that a page held already may be later than it.
    fn take_in(&mut self, change: &Change) {
        for KeyState { key, stored } in &change.keys {
            if self.keys.get(key).is_some_and(|known| known.changed > change.revision) {
                continue;
            }
            match stored {
                Some(stored) => self.keys.insert(key.clone(), stored.clone()),
                None => self.keys.remove(key),
            };
        }
    }
}

impl Subscriber {
    pub(super) fn begin_watch(
        &mut self,
        watch: u64,
        range: KeyRange,
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) {
        let request = self.next_request(None);
        let watched = Watched {
            range,
            request,
            keys: BTreeMap::new(),
            revision: Revision::START,
            told: Revision::START,
            whole_from: Revision::START,
            is_whole: false,
            loading: None,
            replica: self.members.at((self.config.client.0 % self.members.replicas() as u64) as usize),
            ask_at: context.now,
            is_waiting: false,
            pauses: Pauses::default(),
            renewals: 0,
        };
        self.watched.insert(watch, watched);
        self.begin_load(watch, context, outbox);
    }

    fn begin_load(&mut self, watch: u64, context: &mut Context<'_>, outbox: &mut Out) {
        let Some(watched) = self.watched.get_mut(&watch) else { return };
        let next = watched.range.from.clone();
        watched.is_whole = false;
        watched.told = watched.told.max(watched.revision);
        watched.loading = Some(Loading { request: 0, next, keys: BTreeMap::new(), revisions: None });
        self.ask_watched(watch, context, outbox);
    }

    /// Asks for the next page, or renews the watch.
    fn ask_watched(&mut self, watch: u64, context: &mut Context<'_>, outbox: &mut Out) {
        let request = self.next_request(Some(About::Load(watch)));
        let (timeout, limit) = (self.config.resend_timeout, self.config.scan_page_max);
        let Some(watched) = self.watched.get_mut(&watch) else { return };
        watched.ask_at = context.now + watched.pauses.draw(timeout, context.random);
        watched.is_waiting = true;
        let before = match &mut watched.loading {
            Some(loading) => std::mem::replace(&mut loading.request, request),
            // A watch has one name for as long as it lasts.
            None => request,
        };
        let message = match &watched.loading {
            Some(loading) => {
                let range = KeyRange { from: loading.next.clone(), to: watched.range.to.clone() };
                Message::Scan { request, range, limit, consistency: Consistency::Stale }
            }
            None => {
                let (range, after) = (watched.range.clone(), watched.revision);
                Message::Watch { request: watched.request, range, after }
            }
        };
        let to = watched.replica;
        self.questions.remove(&before);
        outbox.send(self.replica(to), message);
    }

    pub(super) fn on_scan_reply(
        &mut self,
        request: u64,
        revision: Revision,
        found: Vec<(Key, Stored)>,
        next: Option<Key>,
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) {
        let Some(About::Load(watch)) = self.questions.remove(&request) else { return };
        let Some(watched) = self.watched.get_mut(&watch) else { return };
        let Some(loading) = &mut watched.loading else { return };
        if revision < watched.told {
            // It lags behind, and another one may not: that is asked when the time-out is over.
            return;
        }
        let (low, high) = loading.revisions.unwrap_or((revision, revision));
        loading.revisions = Some((low.min(revision), high.max(revision)));
        loading.keys.extend(found);
        watched.pauses = Pauses::default();
        if let Some(next) = next.filter(|next| *next > loading.next) {
            loading.next = next;
        } else if let Some(loading) = watched.loading.take() {
            let (low, high) = loading.revisions.unwrap_or_default();
            assert!(
                watched.told <= low && low <= high,
                "a copy of {low:?} to {high:?} takes the place of one of {:?}",
                watched.told
            );
            (watched.keys, watched.revision, watched.whole_from) = (loading.keys, low, high);
        }
        self.note_whole(watch, outbox);
        self.ask_watched(watch, context, outbox);
    }

    /// The copy may be whole now.
    fn note_whole(&mut self, watch: u64, outbox: &mut Out) {
        let Some(watched) = self.watched.get_mut(&watch) else { return };
        if watched.loading.is_none() && !watched.is_whole && watched.revision >= watched.whole_from {
            watched.is_whole = true;
            assert!(
                watched.revision >= watched.told,
                "a copy of {:?} is whole, and what was told is of {:?}",
                watched.revision,
                watched.told
            );
            outbox.emit(SubscriberEvent::Loaded { watch, revision: watched.revision });
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn on_changes(
        &mut self,
        request: u64,
        after: Revision,
        until: Revision,
        changes: &[Arc<Change>],
        has_more: bool,
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) {
        let found = self.watched.iter_mut().find(|(_, watched)| watched.request == request);
        let Some((watch, watched)) = found.filter(|(_, watched)| watched.loading.is_none()) else { return };
        let watch = *watch;
        let known = watched.revision;
        if after > known {
            // Something was lost on its way. That is asked for once, however much comes behind it.
            if !watched.is_waiting {
                self.ask_watched(watch, context, outbox);
            }
            return;
        }
        if watched.is_waiting {
            (watched.is_waiting, watched.ask_at) = (false, context.now + self.config.watch_interval);
            watched.pauses = Pauses::default();
        }
        for change in changes {
            let Some(watched) = self.watched.get_mut(&watch) else { return };
            if change.revision <= watched.revision {
                continue;
            }
            if change.revision > watched.whole_from && !watched.is_whole {
                watched.revision = watched.whole_from;
                self.note_whole(watch, outbox);
            }
            let Some(watched) = self.watched.get_mut(&watch) else { return };
            watched.revision = change.revision;
            watched.take_in(change);
            if watched.is_whole {
                outbox.emit(SubscriberEvent::Changed { watch, change: Arc::clone(change) });
            }
            self.note_whole(watch, outbox);
        }
        if let Some(watched) = self.watched.get_mut(&watch) {
            watched.revision = watched.revision.max(until);
            assert!(watched.revision >= known, "a copy goes from {known:?} back to {:?}", watched.revision);
        }
        self.note_whole(watch, outbox);
        // A copy of a message asks for nothing: else each copy would lead to others, more and more of them.
        if has_more && until > known {
            self.ask_watched(watch, context, outbox);
        }
    }

    pub(super) fn on_forgotten(
        &mut self,
        request: u64,
        forgotten: Revision,
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) {
        let found = self.watched.iter().find(|(_, watched)| watched.request == request);
        let behind = |watched: &Watched| watched.loading.is_none() && watched.revision < forgotten;
        if let Some((watch, _)) = found.filter(|(_, watched)| behind(watched)) {
            self.begin_load(*watch, context, outbox);
        }
    }

    pub(super) fn attend_watched(&mut self, context: &mut Context<'_>, outbox: &mut Out) {
        let due = self.watched.iter().filter(|(_, watched)| watched.wakes_at() <= context.now);
        let due: Vec<u64> = due.map(|(watch, _)| *watch).collect();
        for watch in due {
            let Some(watched) = self.watched.get_mut(&watch) else { continue };
            watched.renewals += 1;
            if watched.is_waiting {
                watched.pauses.lengthen();
            }
            let (is_waiting, replica, request) = (watched.is_waiting, watched.replica, watched.request);
            if is_waiting || watched.renewals >= RENEWALS_MAX {
                outbox.send(self.replica(replica), Message::Unwatch { request });
                let next = self.members.after(replica);
                if let Some(watched) = self.watched.get_mut(&watch) {
                    (watched.replica, watched.renewals) = (next, 0);
                }
            }
            self.ask_watched(watch, context, outbox);
        }
    }
}
