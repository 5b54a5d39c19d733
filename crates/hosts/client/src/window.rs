//! How many transactions of a keyspace run at once.
//!
//! A transaction that reads before it writes commits only if nobody else has written in between. The more of them run at once on the same
//! keys, the longer each takes and the fewer commit; with a few thousands on twenty keys next to none does. So those that are run again
//! after a conflict go through a window. It shrinks with each attempt that meets a conflict, or takes so long that it has waited in a queue,
//! and grows with each that commits; and where no attempt is in vain and transactions wait all the same, it grows without that: what they
//! do may take seconds. It settles where half of the attempts are in vain, and does not bind where fewer are. A lower share would bind too
//! early: where 64 clients write twenty keys, 45 of 100 attempts are in vain. Of a thousand clients a higher one lets so many run that
//! two thirds as many commit. A transaction keeps its place
//! while it pauses between two attempts: that, too, keeps others from its keys. Transactions beyond the window have not begun: they wait
//! their turn for a while, and are then told that there is too much to do. A transaction before which more wait than get their turn in that
//! while, at the pace of the last ones, is told so at once: the work of those that wait in vain is lost to those that run.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

/// So many run at once before anything is known, or what comes all at once would run before the first conflict is known. A window in which
/// fewer run shrinks from here on: those that do not run cannot be what is too much.
const SIZE_FEW: usize = 256;

/// After so long without an attempt in vain the window of a transaction that waits is twice as wide.
const PROBE: Duration = Duration::from_millis(50);

/// At least so many run at once, whatever comes of them.
const SIZE_MIN: usize = 32;

/// It grows by so much with each attempt that commits while it is full.
const GROWTH: usize = 1;

/// It shrinks by so much with each attempt that is in vain.
const SHRINKAGE: usize = 1;

/// A commit that takes longer has waited in a queue, and not for the speed of light.
const COMMIT_MAX: Duration = Duration::from_secs(1);

/// If nothing has ended for so long, what runs may wait for what does not.
const STANDSTILL: Duration = Duration::from_secs(1);

/// After so many that have ended it is known how soon those that wait get their turn.
const PACE_SAMPLE: u32 = 64;

/// A window.
#[derive(Debug)]
pub(crate) struct Window {
    waiting_max: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    size: usize,
    running: usize,
    /// Transactions that wait for a place, the first first.
    waiting: VecDeque<oneshot::Sender<Place>>,
    pace: Pace,
    /// When a place was given back last.
    ended: Instant,
    /// When an attempt was last in vain, or the window was widened because none was.
    judged: Instant,
}

/// How many places are given back while transactions wait.
#[derive(Debug)]
struct Pace {
    /// Since when they are counted, and how many there have been.
    since: Instant,
    ended: u32,
    per_second: Option<f64>,
}

/// A place in a window, for as long as a transaction runs.
#[derive(Debug)]
pub(crate) struct Place {
    window: Arc<Window>,
    is_held: bool,
}

/// How an attempt has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// It has committed, and its commit took so long.
    Committed(Duration),
    /// It has not: another transaction was in its way.
    InVain,
}

impl Pace {
    fn new() -> Self {
        Pace { since: Instant::now(), ended: 0, per_second: None }
    }

    fn note_ended(&mut self) {
        self.ended += 1;
        if self.ended == PACE_SAMPLE {
            let per_second = f64::from(PACE_SAMPLE) / self.since.elapsed().as_secs_f64();
            *self = Pace { per_second: Some(per_second), ..Pace::new() };
        }
    }

    /// True if a transaction before which so many wait would wait in vain, as far as is known.
    fn is_in_vain(&self, waiting: usize, patience: Duration) -> bool {
        self.per_second.is_some_and(|per_second| waiting as f64 > per_second * patience.as_secs_f64())
    }
}

impl State {
    /// True if a transaction may run at once.
    fn is_free(&self) -> bool {
        self.waiting.is_empty() && self.running < self.size
    }
}

impl Window {
    /// A window of a client that may have so many transactions open.
    pub(crate) fn new(open_max: usize) -> Self {
        let state = State {
            size: open_max.clamp(1, SIZE_FEW),
            running: 0,
            waiting: VecDeque::new(),
            pace: Pace::new(),
            ended: Instant::now(),
            judged: Instant::now(),
        };
        Window { waiting_max: open_max, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a place, so long at most; none if too many wait, or none was free.
    pub(crate) async fn enter(self: &Arc<Self>, patience: Duration) -> Option<Place> {
        let receiver = {
            let mut state = self.state();
            if state.is_free() {
                state.running += 1;
                return Some(self.place());
            }
            // The callers of those that were given up have gone.
            while state.waiting.front().is_some_and(oneshot::Sender::is_closed) {
                state.waiting.pop_front();
            }
            if state.waiting.is_empty() {
                // As long as none waited, places were given back as they were asked for.
                state.pace = Pace::new();
            }
            let waiting = state.waiting.len();
            if waiting >= self.waiting_max || state.pace.is_in_vain(waiting, patience) {
                return None;
            }
            let (sender, receiver) = oneshot::channel();
            state.waiting.push_back(sender);
            receiver
        };
        self.wait(receiver, patience).await
    }

    async fn wait(self: &Arc<Self>, receiver: oneshot::Receiver<Place>, patience: Duration) -> Option<Place> {
        let (mut receiver, deadline) = (receiver, Instant::now() + patience);
        let mut probe = PROBE;
        while Instant::now() + probe < deadline {
            match tokio::time::timeout(probe, &mut receiver).await {
                Ok(place) => return place.ok(),
                Err(_) => self.widen(),
            }
            probe *= 2;
        }
        match tokio::time::timeout_at(deadline, receiver).await {
            Ok(place) => place.ok(),
            Err(_) => {
                let mut state = self.state();
                // One that runs may be what waits, within another one.
                if state.ended.elapsed() < STANDSTILL {
                    return None;
                }
                // Only one, as it may as well be that nobody answers.
                state.ended = Instant::now();
                state.running += 1;
                Some(self.place())
            }
        }
    }

    /// A transaction has waited for a while. If no attempt was in vain meanwhile, it has waited for nothing.
    fn widen(self: &Arc<Self>) {
        {
            let mut state = self.state();
            if state.judged.elapsed() < PROBE {
                return;
            }
            state.judged = Instant::now();
            state.size = (2 * state.size).min(self.waiting_max.max(1));
            state.pace = Pace::new();
        }
        self.pass_on();
    }

    fn place(self: &Arc<Self>) -> Place {
        Place { window: Arc::clone(self), is_held: true }
    }

    /// Gives free places to those that wait.
    fn pass_on(self: &Arc<Self>) {
        loop {
            let sender = {
                let mut state = self.state();
                if state.running >= state.size {
                    return;
                }
                let Some(sender) = state.waiting.pop_front() else { return };
                state.running += 1;
                sender
            };
            if let Err(mut place) = sender.send(self.place()) {
                // Its caller has gone. Given back here, and not by what drops it, which would come here again.
                place.is_held = false;
                self.state().running -= 1;
            }
        }
    }
}

impl Place {
    /// An attempt of this transaction has ended.
    pub(crate) fn note(&self, attempt: Attempt) {
        {
            let mut state = self.window.state();
            match attempt {
                // It has to be known that more would commit.
                Attempt::Committed(took) if took < COMMIT_MAX => {
                    let is_full = state.running >= state.size;
                    state.size += if is_full { GROWTH } else { 0 };
                }
                Attempt::Committed(_) | Attempt::InVain => {
                    state.judged = Instant::now();
                    let size = state.size.min(state.running.max(SIZE_FEW));
                    state.size = size.saturating_sub(SHRINKAGE).max(SIZE_MIN);
                }
            }
        }
        self.window.pass_on();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.is_held {
            return;
        }
        {
            let mut state = self.window.state();
            assert!(state.running > 0, "a place is given back, and nothing runs");
            state.running -= 1;
            state.ended = Instant::now();
            state.pace.note_ended();
        }
        self.window.pass_on();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const SOON: Attempt = Attempt::Committed(MS);

    fn window() -> Arc<Window> {
        Arc::new(Window::new(SIZE_FEW))
    }

    async fn fill(window: &Arc<Window>, places: usize) -> Vec<Place> {
        let mut filled = Vec::new();
        for _ in 0..places {
            filled.push(window.enter(MS).await.expect("there is room"));
        }
        filled
    }

    fn size(window: &Window) -> usize {
        window.state().size
    }

    #[tokio::test(start_paused = true)]
    async fn a_window_grows_with_commits_while_it_is_full() {
        let window = window();
        let places = fill(&window, SIZE_FEW - 1).await;
        places.iter().for_each(|place| place.note(SOON));
        assert_eq!(size(&window), SIZE_FEW, "more would not run");
        let last = fill(&window, 1).await;
        last[0].note(SOON);
        assert_eq!(size(&window), SIZE_FEW + GROWTH);
        last[0].note(SOON);
        assert_eq!(size(&window), SIZE_FEW + GROWTH, "it is not full any more");
    }

    #[tokio::test(start_paused = true)]
    async fn a_window_shrinks_with_conflicts_and_late_commits_down_to_its_least() {
        let window = window();
        let places = fill(&window, SIZE_FEW).await;
        places[0].note(Attempt::InVain);
        places[0].note(Attempt::Committed(COMMIT_MAX));
        assert_eq!(size(&window), SIZE_FEW - 2 * SHRINKAGE);
        (0..1_000).for_each(|_| places[0].note(Attempt::InVain));
        assert_eq!(size(&window), SIZE_MIN);
        drop(places);
        assert!(window.enter(MS).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn places_are_given_in_the_order_in_which_they_were_waited_for() {
        let window = window();
        let mut places = fill(&window, SIZE_FEW).await;
        let wait = |number: u32| {
            let window = Arc::clone(&window);
            tokio::spawn(async move { window.enter(1_000 * MS).await.map(|place| (number, place)) })
        };
        let (first, gone, third) = (wait(1), wait(2), wait(3));
        tokio::task::yield_now().await;
        gone.abort();
        assert!(gone.await.is_err());
        drop(places.pop());
        let (number, place) = first.await.unwrap().expect("it is the first");
        assert_eq!((number, third.is_finished()), (1, false));
        drop(place);
        assert_eq!(third.await.unwrap().expect("nobody else waits").0, 3);
        drop(places);
        assert_eq!(window.state().running, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn transactions_that_take_long_all_run_soon_where_none_meets_a_conflict() {
        let window = Arc::new(Window::new(1_000));
        let enter = || {
            let window = Arc::clone(&window);
            tokio::spawn(async move { window.enter(1_000 * MS).await })
        };
        let all: Vec<_> = (0..1_000).map(|_| enter()).collect();
        let mut places = Vec::new();
        for waiting in all {
            places.push(waiting.await.unwrap().expect("all run although none ends"));
        }
        assert!(window.enter(10 * PROBE).await.is_none(), "no more may be open");
        drop(places);
    }

    #[tokio::test(start_paused = true)]
    async fn a_window_does_not_grow_by_itself_where_attempts_are_in_vain() {
        let window = Arc::new(Window::new(1_000));
        let places = fill(&window, SIZE_FEW).await;
        let waiting = {
            let window = Arc::clone(&window);
            tokio::spawn(async move { window.enter(900 * MS).await.is_some() })
        };
        for _ in 0..30 {
            tokio::time::sleep(PROBE / 2).await;
            places[0].note(Attempt::InVain);
        }
        assert!(!waiting.await.unwrap());
        drop(places);
    }

    #[tokio::test(start_paused = true)]
    async fn a_transaction_that_waits_too_long_or_behind_too_many_is_turned_away() {
        let window = Arc::new(Window::new(1));
        let places = fill(&window, 1).await;
        let waiting = {
            let window = Arc::clone(&window);
            tokio::spawn(async move { window.enter(100 * MS).await.is_some() })
        };
        tokio::task::yield_now().await;
        assert!(window.enter(100 * MS).await.is_none(), "one waits already");
        assert!(!waiting.await.unwrap(), "nothing has ended in time");
        assert!(
            window.enter(100 * MS).await.is_none(),
            "the one before has gone, and this one waits as long"
        );
        drop(places);
        assert!(window.enter(MS).await.is_some());
    }

    /// Lets so many transactions wait for a place, for a second each.
    fn queue(window: &Arc<Window>, waiting: usize) -> Vec<tokio::task::JoinHandle<Option<Place>>> {
        let enter = |_| {
            let window = Arc::clone(window);
            tokio::spawn(async move { window.enter(1_000 * MS).await })
        };
        (0..waiting).map(enter).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_transaction_that_would_wait_in_vain_is_turned_away_at_once() {
        let window = Arc::new(Window::new(100_000));
        let mut places = fill(&window, SIZE_FEW).await;
        // Attempts are in vain, so the window does not widen.
        let keep = places.pop().expect("it is full");
        let waiting = queue(&window, 1_000);
        for _ in 0..PACE_SAMPLE {
            tokio::time::sleep(2 * MS).await;
            keep.note(Attempt::InVain);
            drop(places.pop());
        }
        // Five hundred a second have ended.
        let began = Instant::now();
        assert!(window.enter(1_000 * MS).await.is_none(), "more wait than get their turn in a second");
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert!(waiting.iter().filter(|waiting| !waiting.is_finished()).count() > 900);
        drop((places, keep));
    }

    #[tokio::test(start_paused = true)]
    async fn how_few_came_before_says_nothing_of_how_soon_those_get_their_turn_that_come_at_once() {
        let window = window();
        for _ in 0..2 * PACE_SAMPLE {
            tokio::time::sleep(100 * MS).await;
            drop(fill(&window, 1).await);
        }
        let places = fill(&window, SIZE_FEW).await;
        let waiting = queue(&window, 200);
        tokio::task::yield_now().await;
        drop(places);
        for waiting in waiting {
            assert!(waiting.await.unwrap().is_some());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn transactions_within_transactions_come_to_no_standstill() {
        let window = window();
        let places = fill(&window, SIZE_FEW).await;
        let (one, other) = tokio::join!(window.enter(STANDSTILL), window.enter(STANDSTILL));
        let entered = one.into_iter().chain(other).count();
        assert_eq!(entered, 1, "nothing else can end, and one is tried at a time");
        drop(places);
    }
}
