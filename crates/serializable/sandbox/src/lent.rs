//! The store of a call, within reach of the imported functions.
#![expect(
    unsafe_code,
    reason = "the interpreter keeps its state beyond a call, so the type of that state cannot have the lifetime of a call"
)]

use std::mem;
use std::ptr::NonNull;

use quorate_procedure::Store;

/// A store while it is lent; nothing otherwise.
pub(crate) struct Lent(Option<NonNull<dyn Store>>);

// SAFETY: a store stands here only while `lending` runs, which has borrowed the holder and does not send it
// anywhere.
unsafe impl Send for Lent {}

impl Lent {
    /// Nothing is lent.
    pub(crate) const fn nothing() -> Self {
        Lent(None)
    }

    /// The store that is lent.
    pub(crate) fn store(&mut self) -> Option<&mut dyn Store> {
        // SAFETY: `lending` has borrowed the store for as long as this stands here, and `self` is borrowed
        // for as long as the result is used: nobody else has it.
        self.0.map(|mut store| unsafe { store.as_mut() })
    }
}

/// Runs something while a store is lent to a part of the holder.
pub(crate) fn lending<H, R>(
    holder: &mut H,
    part: fn(&mut H) -> &mut Lent,
    store: &mut dyn Store,
    run: impl FnOnce(&mut H) -> R,
) -> R {
    // SAFETY: only the lifetime is another; the guard takes the pointer away before the borrow of the store
    // ends, however `run` ends.
    let store =
        unsafe { mem::transmute::<NonNull<dyn Store + '_>, NonNull<dyn Store>>(NonNull::from(store)) };
    part(holder).0 = Some(store);
    let guard = Guard { holder, part };
    run(guard.holder)
}

/// Takes back what was lent.
struct Guard<'a, H> {
    holder: &'a mut H,
    part: fn(&mut H) -> &mut Lent,
}

impl<H> Drop for Guard<'_, H> {
    fn drop(&mut self) {
        (self.part)(self.holder).0 = None;
    }
}
