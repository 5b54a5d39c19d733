//! Work of which nobody knows how long it takes: silent while it is quick, and talkative once it is not.

use std::io::IsTerminal;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use super::Progress;

/// Work that ends sooner than this says nothing.
const SILENCE: Duration = Duration::from_secs(2);
/// How often a living line is renewed.
const RENEWAL_ON_TERMINAL: Duration = Duration::from_millis(200);
/// How often a line is written where lines stay, as in a log.
const RENEWAL_ELSEWHERE: Duration = Duration::from_secs(10);

/// Does some work; once it has taken two seconds, says on standard error how far it is.
pub(crate) fn say_if_slow<T>(how_far: impl Fn() -> String + Send, work: impl FnOnce() -> T) -> T {
    say_after(SILENCE, how_far, work)
}

fn say_after<T>(silence: Duration, how_far: impl Fn() -> String + Send, work: impl FnOnce() -> T) -> T {
    let (done, ended) = channel();
    std::thread::scope(move |scope| {
        scope.spawn(move || talk(silence, &ended, how_far));
        let result = work();
        drop(done);
        result
    })
}

/// Talks from the end of the silence to the end of the work.
fn talk(silence: Duration, ended: &Receiver<()>, how_far: impl Fn() -> String) {
    let still_at_work = |pause| ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout);
    if !still_at_work(silence) {
        return;
    }
    if std::io::stderr().is_terminal() {
        let progress = Progress::spinner();
        progress.now(how_far());
        while still_at_work(RENEWAL_ON_TERMINAL) {
            progress.now(how_far());
        }
    } else {
        errln!("{}", how_far());
        while still_at_work(RENEWAL_ELSEWHERE) {
            errln!("{}", how_far());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn slow_work_is_told_about_and_quick_work_is_not() {
        for (silence, spoken) in [(Duration::from_millis(1), true), (Duration::from_secs(60), false)] {
            let told = AtomicU64::new(0);
            let how_far = || {
                told.fetch_add(1, Ordering::Relaxed);
                "patience: a test".to_owned()
            };
            let result = say_after(silence, how_far, || {
                for _ in 0..1000 {
                    if spoken && told.load(Ordering::Relaxed) == 0 {
                        std::thread::sleep(Duration::from_millis(5));
                    }
                }
                7
            });
            assert_eq!((result, told.into_inner() > 0), (7, spoken));
        }
    }
}
