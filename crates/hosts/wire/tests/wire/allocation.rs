//! Counts what a thread has allocated, so that tests can bound what decoding takes.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static LIVE: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

fn grow(bytes: usize) {
    LIVE.with(|live| {
        live.set(live.get().wrapping_add(bytes));
        PEAK.with(|peak| peak.set(peak.get().max(live.get())));
    });
}

fn shrink(bytes: usize) {
    LIVE.with(|live| live.set(live.get().saturating_sub(bytes)));
}

#[expect(
    unsafe_code,
    reason = "an allocator can be observed in no other way; every call goes to the system's"
)]
// SAFETY: each method passes its arguments on to the system allocator and returns what that returns.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        shrink(layout.size());
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Old and new live side by side while the contents are copied.
        grow(size);
        shrink(layout.size());
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most bytes that `action` held at once beyond those that were held before.
pub(crate) fn peak_of<T>(action: impl FnOnce() -> T) -> (T, usize) {
    let before = LIVE.get();
    PEAK.set(before);
    let result = action();
    (result, PEAK.get() - before)
}
