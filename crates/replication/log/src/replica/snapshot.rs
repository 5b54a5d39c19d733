//! Shortening the log, and coming back when it has been shortened too far.
//!
//! ```text
//!   a snapshot    SNAPSHOT BEGUN (what the log amounts to ends here), entries after it, page, …, page, SNAPSHOT ENDED
//!   a transfer    fetch after x → FROM STATE, page 0     the replica that is asked has forgotten what follows x
//!                 page 1 → page 1 → …                    of the same state, until there are no more
//! ```
//!
//! The host freezes what the stable entries have led to, and gives it page by page while more entries come. A snapshot that
//! has no end is passed over by a restart: the entries that it was to replace are still there. In memory some entries from before a
//! snapshot are kept, so that a backup that is a little behind need not be given everything.

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_core::log::Position;
use quorate_core::replay::SnapshotPart;
use quorate_core::{ReplicaIndex, View};

use super::{Fact, Host, Replica, Status, Timer};
use crate::{Message, Payload, Plant, Rules};

/// Between two pages of a snapshot others may have the disk.
const PAGE_PAUSE: Duration = Duration::from_millis(2);

/// For so many silences what is being transferred is kept for who has not asked again.
const SILENCES_KEPT: u32 = 8;

/// So many entries are kept at most for who is given a state: it may be too slow to be waited for.
const KEPT_FOR_TRANSFERS_MAX: u64 = 1_000_000;

/// A frozen state, and what has been given of it.
#[derive(Debug)]
struct Frozen<P: Payload> {
    /// It is what the entries up to here have led to,
    base: Position,
    /// the last of which was appended in this view.
    view: View,
    state: P::Frozen,
}

/// A state that is on its way to another replica.
#[derive(Debug)]
struct Transfer<P: Payload> {
    frozen: Frozen<P>,
    /// How many pages have been made, and the last of them; none once there are no more.
    made: u64,
    last: Option<P::Page>,
    /// How many silences it has not been asked for.
    silences: u32,
}

impl<P: Payload> Transfer<P> {
    /// The page that was made last, or that there are no more.
    fn last_page(&self, view: View) -> Message<P> {
        assert!(self.made > 0, "a page is sent of a state of which none was made");
        let Frozen { base, view: base_view, .. } = self.frozen;
        Message::FromState { view, base, base_view, page: self.made - 1, state: self.last.clone() }
    }
}

/// The snapshots of a replica, written and on their way.
#[derive(Debug)]
pub(super) struct Snapshots<P: Payload> {
    /// The last: up to here the entries on disk are forgotten.
    pub(super) base: Position,
    /// The one that is being written.
    writing: Option<Frozen<P>>,
    /// How many bytes of entries have come since the last was begun.
    bytes: u64,
    transfers: BTreeMap<ReplicaIndex, Transfer<P>>,
    /// Until the replica starts: the state from which its log goes on.
    pub(super) restored: Vec<P::Page>,
}

impl<P: Payload> Default for Snapshots<P> {
    fn default() -> Self {
        Snapshots {
            base: Position::START,
            writing: None,
            bytes: 0,
            transfers: BTreeMap::new(),
            restored: Vec::new(),
        }
    }
}

impl<P: Payload> Snapshots<P> {
    /// Entries that follow a state on its way are not forgotten before it has come, or its receiver would need another, and
    /// under load always another.
    fn needed_by_transfers(&self, stable: Position) -> Position {
        let bases = self.transfers.values().map(|transfer| transfer.frozen.base);
        let first = Position(stable.0.saturating_sub(KEPT_FOR_TRANSFERS_MAX));
        let needed = bases.min().unwrap_or(stable).max(first);
        assert!(needed <= stable, "a state at {needed:?} is on its way, and {stable:?} is stable");
        needed
    }

    pub(super) fn note_bytes(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }
}

/// The part that a fact has in a snapshot.
pub(crate) fn part<P: Payload>(fact: &Fact<P>, rules: Rules) -> Option<SnapshotPart> {
    match fact {
        Fact::SnapshotBegun { .. } => Some(SnapshotPart::Begin),
        Fact::SnapshotEnded => Some(SnapshotPart::End),
        Fact::SnapshotPage(_) if rules.has(Plant::SnapshotWithoutEnd) => Some(SnapshotPart::End),
        Fact::SnapshotEntries(_) | Fact::SnapshotPage(_) => Some(SnapshotPart::Page),
        _ => None,
    }
}

impl<P: Payload> Replica<P> {
    /// How many bytes of entries have come since the last snapshot was begun.
    pub fn bytes_since_snapshot(&self) -> u64 {
        self.snapshots.bytes
    }

    /// Begins to write down what the stable entries have led to, after which they may go. False if that is under way
    /// already, or nothing has become stable since.
    pub fn begin_snapshot<H: Host<P>>(&mut self, host: &mut H) -> bool {
        self.flush(host);
        let is_new = self.stable > self.snapshots.base;
        // A replica that knows that an epoch has begun, and lacks what came before it, is as if it did not know once it
        // restarts; and the entry that ends an epoch stays until the next begins.
        let lacks = self.status == Status::Recovering || self.stable < self.beginning.base;
        if lacks || self.is_ending() {
            return false;
        }
        if !is_new || self.snapshots.writing.is_some() {
            return false;
        }
        let frozen = self.freeze(host);
        assert!(
            frozen.base > self.snapshots.base && frozen.base <= self.stable,
            "a snapshot stands for entries up to {:?}, the last for those up to {:?}, and {:?} is stable",
            frozen.base,
            self.snapshots.base,
            self.stable
        );
        host.anchor();
        host.persist(Fact::SnapshotBegun {
            base: frozen.base,
            base_view: frozen.view,
            view: self.view,
            last_normal: self.last_normal,
            changing: self.status == Status::ViewChanging,
            lives: self.lives.clone(),
            beginning: self.beginning.clone(),
        });
        let (mut after, last) = (frozen.base, self.entries.last());
        while after < last && !self.rules.has(Plant::UnstableTruncated) {
            let entries = self.entries.between(after, last, self.limits.message_bytes);
            assert!(!entries.is_empty(), "entries after {after:?} and up to {last:?} are not there");
            after = Position(after.0 + entries.len() as u64);
            host.persist(Fact::SnapshotEntries(entries));
        }
        self.snapshots.bytes = 0;
        self.snapshots.writing = Some(frozen);
        host.set_timer(Timer::Snapshot, self.timing.beat);
        true
    }

    fn freeze<H: Host<P>>(&self, host: &mut H) -> Frozen<P> {
        let view =
            self.entries.shape().view_at(self.stable).expect("it is kept until a snapshot stands for it");
        Frozen { base: self.stable, view, state: host.freeze() }
    }

    /// Writes one page, or the end.
    pub(super) fn write_snapshot<H: Host<P>>(&mut self, host: &mut H) {
        let Some(frozen) = &mut self.snapshots.writing else { return };
        if let Some(page) = host.next_page(&mut frozen.state) {
            host.persist(Fact::SnapshotPage(page));
            host.set_timer(Timer::Snapshot, PAGE_PAUSE);
            return;
        }
        host.persist(Fact::SnapshotEnded);
        host.truncate();
        self.snapshots.base = frozen.base;
        let kept = Position(frozen.base.0.saturating_sub(self.limits.kept));
        self.snapshots.writing = None;
        self.entries.forget_until(kept.min(self.snapshots.needed_by_transfers(self.stable)));
        assert!(
            self.entries.shape().base <= self.snapshots.base && self.snapshots.base <= self.stable,
            "entries up to {:?} are forgotten, a snapshot stands for those up to {:?}, and {:?} is stable",
            self.entries.shape().base,
            self.snapshots.base,
            self.stable
        );
    }

    /// The log begins with another state than the one that was being written down.
    pub(super) fn begin_anew_from<H: Host<P>>(&mut self, base: Position, pages: Vec<P::Page>, host: &mut H) {
        assert!(base >= self.stable, "the state at {base:?} takes the place of that at {:?}", self.stable);
        self.snapshots.writing = None;
        self.snapshots.base = base;
        self.stable = base;
        host.replace_state(base, pages);
    }

    /// Somebody lacks what is forgotten here: it is given the state instead, from the first page on.
    pub(super) fn begin_transfer<H: Host<P>>(&mut self, to: ReplicaIndex, view: View, host: &mut H) {
        let known = self.snapshots.transfers.get(&to);
        if known.is_some_and(|transfer| transfer.silences == 0 && transfer.made > 1) {
            // It is being given one. A question that comes late or twice must not make it begin anew, again and again.
            return;
        }
        let frozen = self.freeze(host);
        let transfer = Transfer { frozen, made: 0, last: None, silences: 0 };
        self.snapshots.transfers.insert(to, transfer);
        host.set_timer(Timer::Transfer, self.timing.silence);
        self.send_page(to, view, 0, host);
    }

    /// The next page of what has been frozen for a replica is asked for, or the last once more.
    pub(super) fn on_fetch_state<H: Host<P>>(
        &mut self,
        from: ReplicaIndex,
        view: View,
        base: Position,
        page: u64,
        host: &mut H,
    ) {
        if view != self.view && view != self.membership().first_view() {
            return;
        }
        let known = self.snapshots.transfers.get(&from);
        let Some(transfer) = known.filter(|transfer| transfer.frozen.base >= base) else {
            // Entries that have led to the state that is known here may not be known as stable yet, after a restart.
            if self.stable > Position::START {
                self.begin_transfer(from, view, host);
            }
            return;
        };
        let is_next_or_last = page <= transfer.made && page + 1 >= transfer.made;
        if transfer.frozen.base > base {
            // It asks for more of what it was given before, late or because this one's first page was lost. If each such
            // request began anew, two of them that are under way would do so for ever, each with the answer to the other.
            // That counts as silence: a transfer that is of no use to it is dropped some time.
            if transfer.made == 1 {
                host.send(from, transfer.last_page(view));
            }
        } else if is_next_or_last {
            self.send_page(from, view, page, host);
        }
    }

    /// Sends the next page, or the last once more.
    fn send_page<H: Host<P>>(&mut self, to: ReplicaIndex, view: View, page: u64, host: &mut H) {
        let Some(transfer) = self.snapshots.transfers.get_mut(&to) else { return };
        transfer.silences = 0;
        assert!(page <= transfer.made, "page {page} is sent of a state of which {} were made", transfer.made);
        if page == transfer.made {
            transfer.last = host.next_page(&mut transfer.frozen.state);
            transfer.made += 1;
        }
        host.send(to, transfer.last_page(view));
    }

    /// Drops what nobody has asked for any more.
    pub(super) fn forget_transfers<H: Host<P>>(&mut self, host: &mut H) {
        self.snapshots.transfers.retain(|_, transfer| {
            transfer.silences += 1;
            transfer.silences <= SILENCES_KEPT
        });
        if !self.snapshots.transfers.is_empty() {
            host.set_timer(Timer::Transfer, self.timing.silence);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_wait_for_transfers_but_not_for_ever() {
        let mut snapshots = Snapshots::<u64>::default();
        assert_eq!(snapshots.needed_by_transfers(Position(50)), Position(50), "nobody is given anything");
        for (receiver, base) in [(1, 30), (2, 10)] {
            let frozen = Frozen { base: Position(base), view: View(0), state: (Vec::new(), 0) };
            let transfer = Transfer { frozen, made: 0, last: None, silences: 0 };
            snapshots.transfers.insert(ReplicaIndex(receiver), transfer);
        }
        assert_eq!(snapshots.needed_by_transfers(Position(50)), Position(10));
        let most = Position(KEPT_FOR_TRANSFERS_MAX + 20);
        assert_eq!(snapshots.needed_by_transfers(most), Position(20), "it is too slow");
    }
}
