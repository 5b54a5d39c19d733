//! The watches, which are told of changes. Any replica serves watches, from what it has applied.
//!
//! A message says after which revision and up to which one it holds all changes of the range, so its receiver knows whether it
//! has missed one, and asks again from where it is. Nothing here is needed to be right: a watch that is lost with its replica
//! goes on at another, from where its client has come to.

use std::collections::BTreeMap;
use std::sync::Arc;

use quorate_core::transaction::KEY_BYTES_MAX;
use quorate_core::{ClientId, Context, Instant, KeyRange};

use super::leader::Asker;
use super::{Out, Replica, ReplicaTimer};
use crate::entry::{Change, Revision};
use crate::message::{Message, Refusal};
use crate::rules::Plant;

/// The watches that a replica serves.
#[derive(Debug, Default)]
pub(super) struct Watches {
    watches: BTreeMap<Asker, Watch>,
    of_client: BTreeMap<ClientId, usize>,
}

#[derive(Debug)]
struct Watch {
    range: KeyRange,
    /// Everything up to this revision was sent.
    sent: Revision,
    /// True if there is more after that than was sent: the client asks for it.
    is_behind: bool,
    until: Instant,
}

impl Watches {
    pub(super) fn len(&self) -> usize {
        self.watches.len()
    }

    pub(super) fn remove(&mut self, client: ClientId, request: u64) {
        if self.watches.remove(&(client, request)).is_some()
            && let Some(count) = self.of_client.get_mut(&client)
        {
            assert!(*count > 0, "{client:?} gives up a watch and has none");
            *count -= 1;
            if *count == 0 {
                self.of_client.remove(&client);
            }
        }
        let (clients, watches) = (self.of_client.len(), self.watches.len());
        assert!(clients <= watches, "{clients} clients have {watches} watches");
    }

    /// The state has jumped: nobody is told anything before it asks.
    pub(super) fn fall_behind(&mut self) {
        self.watches.values_mut().for_each(|watch| watch.is_behind = true);
    }
}

impl Replica {
    pub(super) fn on_watch(
        &mut self,
        from: ClientId,
        request: u64,
        range: KeyRange,
        after: Revision,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let to = range.to.as_ref().map_or(0, |to| to.len());
        if range.from.len() > KEY_BYTES_MAX + 1 || to > KEY_BYTES_MAX + 1 {
            return Self::refuse(from, request, Refusal::TooLarge, outbox);
        }
        let asker = (from, request);
        if !self.watches.watches.contains_key(&asker) {
            let of_client = self.watches.of_client.get(&from).copied().unwrap_or_default();
            if of_client >= self.config.watches_of_client_max || self.watches.len() >= self.config.watches_max
            {
                return Self::refuse(from, request, Refusal::TooMany, outbox);
            }
            if self.watches.len() == 0 {
                outbox.set_timer(ReplicaTimer::Watches, self.config.watch_timeout);
            }
            *self.watches.of_client.entry(from).or_default() += 1;
        }
        let until = context.now + self.config.watch_timeout;
        let watch = match self.page(&range, after) {
            None => {
                let forgotten = self.state.history.forgotten();
                outbox.send(from, Message::Forgotten { request, forgotten });
                // It is kept: the client reads the range, and watches on from there.
                Watch { range, sent: after, is_behind: true, until }
            }
            Some(page) => {
                let Page { until: sent, changes, has_more } = page;
                outbox.send(from, Message::Changes { request, after, until: sent, changes, has_more });
                Watch { range, sent, is_behind: has_more, until }
            }
        };
        self.watches.watches.insert(asker, watch);
        let watches = self.watches.len();
        assert!(watches <= self.config.watches_max, "{watches} watches are served");
        assert!(self.watches.of_client.contains_key(&from), "a watch of {from:?} is counted for nobody");
    }

    /// The changes of a range after a revision, as many as go into one message; none if some of them are forgotten.
    fn page(&self, range: &KeyRange, after: Revision) -> Option<Page> {
        let history = &self.state.history;
        if after < history.forgotten() && !self.config.rules.has(Plant::WatchGap) {
            return None;
        }
        let mut page = Page { until: after, changes: Vec::new(), has_more: false };
        let mut bytes = 0;
        for change in history.since(after) {
            if bytes >= self.config.page_bytes_max {
                page.has_more = true;
                break;
            }
            page.until = change.revision;
            if let Some(change) = part_in(change, range) {
                bytes += change.bytes();
                page.changes.push(change);
            }
        }
        assert!(page.until >= after, "changes after {after:?} are told up to {:?}", page.until);
        assert!(
            page.has_more || page.until >= self.state.revision.min(self.last_change()),
            "all changes are told up to {:?}, and the last is {:?}",
            page.until,
            self.state.revision
        );
        Some(page)
    }

    /// The revision of the last change that is not forgotten.
    fn last_change(&self) -> Revision {
        self.state.history.last().map_or(Revision::START, |last| last.revision)
    }

    /// Tells of the last change.
    pub(super) fn send_change(&mut self, outbox: &mut Out) {
        let Some(change) = self.state.history.last() else { return };
        let until = change.revision;
        assert!(
            until == self.state.revision,
            "the last change is {until:?}, and the map is at {:?}",
            self.state.revision
        );
        for ((to, request), watch) in &mut self.watches.watches {
            // A watch that says it has come further than this replica is told nothing until this has come as far.
            if watch.is_behind || watch.sent >= until {
                continue;
            }
            if let Some(change) = part_in(change, &watch.range) {
                let (request, after, changes) = (*request, watch.sent, vec![change]);
                outbox.send(*to, Message::Changes { request, after, until, changes, has_more: false });
                watch.sent = until;
            }
        }
    }

    pub(super) fn on_watches_timeout(&mut self, context: &Context<'_>, outbox: &mut Out) {
        let over = self.watches.watches.iter().filter(|(_, watch)| watch.until <= context.now);
        let over: Vec<Asker> = over.map(|(asker, _)| *asker).collect();
        for (client, request) in over {
            self.watches.remove(client, request);
        }
        if self.watches.len() > 0 {
            outbox.set_timer(ReplicaTimer::Watches, self.config.watch_timeout);
        }
    }
}

struct Page {
    until: Revision,
    changes: Vec<Arc<Change>>,
    has_more: bool,
}

/// The part of a change that lies in a range; none if nothing does.
fn part_in(change: &Arc<Change>, range: &KeyRange) -> Option<Arc<Change>> {
    let inside = change.keys.iter().filter(|change| range.contains(&change.key)).count();
    if inside == 0 {
        return None;
    }
    if inside == change.keys.len() {
        return Some(Arc::clone(change));
    }
    let keys = change.keys.iter().filter(|change| range.contains(&change.key)).cloned().collect();
    Some(Arc::new(Change { revision: change.revision, keys }))
}
