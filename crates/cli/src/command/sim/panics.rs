//! Panics that are expected: a machine with a planted bug may fail an assertion, which catches the bug. Its message then is
//! in the report of the hunt; a message and a backtrace for each would only bury it.

use std::cell::RefCell;
use std::panic::{self, PanicHookInfo};
use std::sync::Arc;

type Hook = Box<dyn Fn(&PanicHookInfo<'_>) + Send + Sync>;

thread_local! {
    /// The message that was last kept back on this thread, while something runs aside on it.
    static KEPT_BACK: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// As long as it lives, panics of what runs [aside](Hush::aside) are not printed; all others are, as before.
pub(super) struct Hush {
    before: Option<Arc<Hook>>,
}

impl Hush {
    /// There is one at a time: each puts back the hook that it found.
    pub(super) fn new() -> Self {
        let before = Arc::new(panic::take_hook());
        let others = Arc::clone(&before);
        panic::set_hook(Box::new(move |info| {
            let keep_back = |kept_back: &RefCell<Option<String>>| match &mut *kept_back.borrow_mut() {
                Some(text) => {
                    *text = info.to_string();
                    true
                }
                None => false,
            };
            // A thread that has ended, and panics while it is taken down, has nothing to keep anything in.
            if !KEPT_BACK.try_with(keep_back).unwrap_or(false) {
                others(info);
            }
        }));
        Hush { before: Some(before) }
    }

    /// Runs what catches its panics itself. One that it does not catch was not expected, and is printed after all.
    pub(super) fn aside<T>(&self, run: impl FnOnce() -> T) -> T {
        let _aside = Aside::enter();
        run()
    }
}

impl Drop for Hush {
    fn drop(&mut self) {
        // A thread that panics must not touch the hook; the one that is there passes on what is not aside.
        if std::thread::panicking() {
            return;
        }
        // With our hook goes the other owner of the one before.
        drop(panic::take_hook());
        if let Some(before) = self.before.take().and_then(Arc::into_inner) {
            panic::set_hook(before);
        }
    }
}

/// While it lives, what this thread panics with is kept back.
struct Aside;

impl Aside {
    fn enter() -> Self {
        KEPT_BACK.set(Some(String::new()));
        Aside
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        let kept_back = KEPT_BACK.take();
        if std::thread::panicking() {
            errln!("{}", kept_back.unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;
    use std::sync::Mutex;

    use super::*;

    /// The messages that reached the hook that was there before, of this test.
    static PRINTED: Mutex<Vec<String>> = Mutex::new(Vec::new());

    fn panics(message: &'static str) {
        assert!(catch_unwind(|| panic!("of this test: {message}")).is_err());
    }

    #[test]
    fn only_what_runs_aside_may_panic_unseen() {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |info| match info.payload_as_str() {
            Some(text) if text.starts_with("of this test") => {
                PRINTED.lock().expect("no panic while it is held").push(text.to_owned());
            }
            _ => others(info),
        }));
        let hush = Hush::new();
        panics("before");
        hush.aside(|| {
            panics("aside");
            std::thread::scope(|scope| scope.spawn(|| panics("on another thread")).join())
                .expect("it catches it");
        });
        panics("after");
        drop(hush);
        panics("without");
        let printed = PRINTED.lock().expect("no panic while it is held");
        let expected = ["before", "on another thread", "after", "without"];
        assert_eq!(*printed, expected.map(|message| format!("of this test: {message}")));
    }
}
