//! The clients of a door: what others are told of each, and how one of them ends, wakes or holds up others.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// The longest pause that a client may ask for: it holds up all others.
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(60);

/// A client, as others see it.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) id: u64,
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
    pub(crate) since: Instant,
    state: Mutex<PeerState>,
    is_killed: AtomicBool,
    bell: Notify,
}

/// The part of what is known of a client that changes.
#[derive(Debug, Default)]
struct PeerState {
    told: Told,
    /// Whether it waits for a key, and how that wait is to end, if another client has said so.
    waits: Option<Option<Unblocked>>,
}

/// The names of a command and of its subcommand.
pub(crate) type Named = (&'static str, Option<&'static str>);

/// A client as it was when it was last idle.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) name: Vec<u8>,
    /// Its user, if it has logged in.
    pub(crate) user: Option<String>,
    pub(crate) number: usize,
    pub(crate) version: i64,
    /// Its last command, and the subcommand of that,
    pub(crate) command: Named,
    /// and when that came.
    pub(crate) at: Instant,
    /// How many channels, patterns and shard channels it subscribes to.
    pub(crate) subscriptions: [usize; 3],
    /// How many commands of a transaction it has queued, and how many bytes these have; none outside of one.
    pub(crate) queued: Option<(usize, usize)>,
    /// How many keys it watches.
    pub(crate) watched: usize,
    /// How many bytes it holds.
    pub(crate) bytes: usize,
}

impl Default for Told {
    fn default() -> Self {
        Told {
            name: Vec::new(),
            user: None,
            number: 0,
            version: 2,
            command: ("NULL", None),
            at: Instant::now(),
            subscriptions: [0; 3],
            queued: None,
            watched: 0,
            bytes: 0,
        }
    }
}

/// How a wait ends that another client ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unblocked {
    /// As if its time were up.
    Timeout,
    /// With an error.
    Error,
}

impl Peer {
    fn lock(&self) -> MutexGuard<'_, PeerState> {
        // Nothing panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The description that other clients are told.
    pub(crate) fn told(&self) -> Told {
        self.lock().told.clone()
    }

    /// Changes what others are told of it.
    pub(crate) fn tell(&self, change: impl FnOnce(&mut Told)) {
        change(&mut self.lock().told);
    }

    /// True if it waits for a key.
    pub(crate) fn waits(&self) -> bool {
        self.lock().waits.is_some()
    }

    /// Has its connection ended.
    pub(crate) fn kill(&self) {
        self.is_killed.store(true, Ordering::Relaxed);
        self.bell.notify_one();
    }

    /// Ends its wait for a key; false if it does not wait.
    pub(crate) fn unblock(&self, how: Unblocked) -> bool {
        let mut state = self.lock();
        let Some(waits) = &mut state.waits else { return false };
        waits.get_or_insert(how);
        drop(state);
        self.bell.notify_one();
        true
    }

    /// It waits for a key from now on, until the result is dropped.
    pub(crate) fn begin_to_wait(self: &Arc<Self>) -> Waiting {
        self.lock().waits = Some(None);
        Waiting(Arc::clone(self))
    }

    /// Ends when its connection has to.
    pub(crate) async fn killed(&self) {
        loop {
            if self.is_killed() {
                return;
            }
            self.bell.notified().await;
        }
    }

    /// True if its connection has to end.
    pub(crate) fn is_killed(&self) -> bool {
        self.is_killed.load(Ordering::Relaxed)
    }
}

/// A client that waits for a key.
#[derive(Debug)]
pub(crate) struct Waiting(Arc<Peer>);

impl Waiting {
    /// Ends when another client ends the wait, or the connection; none for that.
    pub(crate) async fn ended(&self) -> Option<Unblocked> {
        loop {
            if self.0.is_killed() {
                return None;
            }
            let waits = self.0.lock().waits;
            if let Some(Some(how)) = waits {
                return Some(how);
            }
            self.0.bell.notified().await;
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.lock().waits = None;
    }
}

/// The clients of a door.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    last_id: AtomicU64,
    peers: Mutex<BTreeMap<u64, Arc<Peer>>>,
    pause: Mutex<Pause>,
    /// True if there may be a pause, so that commands do not look for one in vain.
    may_pause: AtomicBool,
    /// Woken when a pause ends before its time.
    resumed: Notify,
}

/// A pause of the door.
#[derive(Clone, Copy, Debug, Default)]
struct Pause {
    until: Option<Instant>,
    /// True if only commands that may write wait for its end.
    writes_only: bool,
}

impl Clients {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Peer>>> {
        // Nothing panics while it is held.
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client has connected; it is forgotten when the result is dropped.
    pub(crate) fn open(self: &Arc<Self>, peer: SocketAddr, local: SocketAddr) -> Open {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let (state, is_killed) = (Mutex::default(), AtomicBool::new(false));
        let since = Instant::now();
        let peer = Arc::new(Peer { id, peer, local, since, state, is_killed, bell: Notify::new() });
        self.lock().insert(id, Arc::clone(&peer));
        Open { clients: Arc::clone(self), peer }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// How many have ever connected.
    pub(crate) fn opened(&self) -> u64 {
        self.last_id.load(Ordering::Relaxed)
    }

    /// How many wait for a key.
    pub(crate) fn waiting(&self) -> usize {
        self.all().iter().filter(|peer| peer.waits()).count()
    }

    /// One of them.
    pub(crate) fn find(&self, id: u64) -> Option<Arc<Peer>> {
        self.lock().get(&id).cloned()
    }

    /// All of them, in the order in which they have come.
    pub(crate) fn all(&self) -> Vec<Arc<Peer>> {
        self.lock().values().cloned().collect()
    }

    fn lock_pause(&self) -> MutexGuard<'_, Pause> {
        self.pause.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds up the commands of all clients, or those that may write. The later end counts if there is a pause, and so does the wider extent.
    pub(crate) fn pause(&self, duration: Duration, writes_only: bool) {
        let mut pause = self.lock_pause();
        let now = Instant::now();
        let is_under_way = pause.until.is_some_and(|until| until > now);
        pause.writes_only = writes_only && (pause.writes_only || !is_under_way);
        pause.until = Some(pause.until.unwrap_or(now).max(now + duration));
        self.may_pause.store(true, Ordering::Relaxed);
    }

    /// Ends a pause.
    pub(crate) fn resume(&self) {
        *self.lock_pause() = Pause::default();
        self.may_pause.store(false, Ordering::Relaxed);
        self.resumed.notify_waiters();
    }

    /// True if a command has to wait for the end of a pause.
    pub(crate) fn is_paused(&self, writes: impl FnOnce() -> bool) -> bool {
        if !self.may_pause.load(Ordering::Relaxed) {
            return false;
        }
        let pause = *self.lock_pause();
        pause.until.is_some_and(|until| until > Instant::now()) && (!pause.writes_only || writes())
    }

    /// Waits for the end of a pause.
    pub(crate) async fn pause_ended(&self) {
        loop {
            let resumed = self.resumed.notified();
            let until = self.lock_pause().until;
            let Some(until) = until.filter(|until| *until > Instant::now()) else { return };
            tokio::select! {
                () = resumed => {}
                () = tokio::time::sleep_until(until) => {}
            }
        }
    }
}

/// A client that is there.
#[derive(Debug)]
pub(crate) struct Open {
    clients: Arc<Clients>,
    pub(crate) peer: Arc<Peer>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.clients.lock().remove(&self.peer.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clients() -> (Arc<Clients>, Open) {
        let clients = Arc::new(Clients::default());
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let open = clients.open(address, address);
        (clients, open)
    }

    #[test]
    fn a_client_is_known_as_long_as_it_is_there() {
        let (clients, open) = clients();
        let id = open.peer.id;
        assert!(clients.find(id).is_some() && clients.len() == 1);
        drop(open);
        assert!(clients.find(id).is_none() && clients.opened() == 1);
    }

    #[tokio::test]
    async fn only_a_client_that_waits_is_unblocked() {
        let (clients, open) = clients();
        assert!(!open.peer.unblock(Unblocked::Error));
        let waiting = open.peer.begin_to_wait();
        assert_eq!(clients.waiting(), 1);
        assert!(open.peer.unblock(Unblocked::Timeout) && open.peer.unblock(Unblocked::Error));
        assert_eq!(waiting.ended().await, Some(Unblocked::Timeout), "the first word counts");
        drop(waiting);
        assert!(!open.peer.unblock(Unblocked::Timeout));
    }

    #[tokio::test]
    async fn the_later_end_of_a_pause_and_its_wider_extent_count() {
        const PAUSE: Duration = Duration::from_millis(200);
        let (clients, _open) = clients();
        assert!(!clients.is_paused(|| true));
        let begun = Instant::now();
        clients.pause(PAUSE, true);
        assert!(clients.is_paused(|| true) && !clients.is_paused(|| false));
        clients.pause(Duration::ZERO, false);
        assert!(clients.is_paused(|| false));
        clients.pause_ended().await;
        assert!(begun.elapsed() >= PAUSE && !clients.is_paused(|| true));
        clients.pause(PAUSE_MAX, false);
        clients.resume();
        clients.pause_ended().await;
        assert!(!clients.is_paused(|| true));
    }
}
