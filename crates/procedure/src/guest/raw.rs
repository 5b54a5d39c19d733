//! The imported functions and the memory, behind safe functions: all unsafe code of a guest.
#![expect(unsafe_code, reason = "imports of WebAssembly take addresses, and an allocator gives them")]

use alloc::vec::Vec;
use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use core::ptr;

mod imports {
    #[link(wasm_import_module = "quorate_1")]
    unsafe extern "C" {
        pub(super) fn arguments(buffer: *mut u8);
        pub(super) fn get(key: *const u8, key_length: usize, buffer: *mut u8, capacity: usize) -> i32;
        pub(super) fn put(key: *const u8, key_length: usize, value: *const u8, value_length: usize);
        pub(super) fn delete(key: *const u8, key_length: usize);
        pub(super) fn scan(
            from: *const u8,
            from_length: usize,
            to: *const u8,
            to_length: usize,
            limit: u32,
            descending: u32,
            buffer: *mut u8,
            capacity: usize,
        ) -> usize;
        pub(super) fn fetch(buffer: *mut u8);
        pub(super) fn answer(bytes: *const u8, length: usize);
        pub(super) fn fail(text: *const u8, length: usize) -> !;
        pub(super) fn footprint_key(key: *const u8, key_length: usize);
        pub(super) fn footprint_range(from: *const u8, from_length: usize, to: *const u8, to_length: usize);
    }
}

/// The arguments of the call, which are this long.
pub(super) fn arguments(length: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length);
    // SAFETY: the host writes exactly `length` bytes, and there is room for them.
    unsafe {
        imports::arguments(bytes.as_mut_ptr());
        bytes.set_len(length);
    }
    bytes
}

/// The value of a key.
pub(super) fn get(key: &[u8], expected: usize) -> Option<Vec<u8>> {
    let mut value = Vec::with_capacity(expected);
    // SAFETY: the host reads the key and writes at most `capacity` bytes.
    let length = unsafe { imports::get(key.as_ptr(), key.len(), value.as_mut_ptr(), value.capacity()) };
    let length = usize::try_from(length).ok()?;
    Some(complete(value, length))
}

/// The answer to a scan, still encoded.
pub(super) fn scan(from: &[u8], to: &[u8], limit: usize, descending: bool, expected: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(expected);
    let limit = u32::try_from(limit).unwrap_or(u32::MAX);
    // SAFETY: the host reads both keys and writes at most `capacity` bytes.
    let length = unsafe {
        imports::scan(
            from.as_ptr(),
            from.len(),
            to.as_ptr(),
            to.len(),
            limit,
            u32::from(descending),
            bytes.as_mut_ptr(),
            bytes.capacity(),
        )
    };
    complete(bytes, length)
}

/// What the host has written into the buffer, or fetches if it is longer than that.
fn complete(mut buffer: Vec<u8>, length: usize) -> Vec<u8> {
    if length > buffer.capacity() {
        buffer = Vec::with_capacity(length);
        // SAFETY: the host writes the `length` bytes that it has announced.
        unsafe { imports::fetch(buffer.as_mut_ptr()) }
    }
    // SAFETY: the host has written this many bytes, here or before.
    unsafe { buffer.set_len(length) };
    buffer
}

/// Sets the value of a key.
pub(super) fn put(key: &[u8], value: &[u8]) {
    // SAFETY: the host only reads.
    unsafe { imports::put(key.as_ptr(), key.len(), value.as_ptr(), value.len()) }
}

/// Removes a key.
pub(super) fn delete(key: &[u8]) {
    // SAFETY: the host only reads.
    unsafe { imports::delete(key.as_ptr(), key.len()) }
}

/// Gives the bytes of the answer.
pub(super) fn answer(bytes: &[u8]) {
    // SAFETY: the host only reads.
    unsafe { imports::answer(bytes.as_ptr(), bytes.len()) }
}

/// Ends the call, for this reason.
pub(super) fn fail(text: &[u8]) -> ! {
    // SAFETY: the host only reads, and does not come back.
    unsafe { imports::fail(text.as_ptr(), text.len()) }
}

/// Names a key of the footprint.
pub(super) fn footprint_key(key: &[u8]) {
    // SAFETY: the host only reads.
    unsafe { imports::footprint_key(key.as_ptr(), key.len()) }
}

/// Names a range of the footprint.
pub(super) fn footprint_range(from: &[u8], to: &[u8]) {
    // SAFETY: the host only reads.
    unsafe { imports::footprint_range(from.as_ptr(), from.len(), to.as_ptr(), to.len()) }
}

/// The arena that the allocator gives away first. More is asked of the host only once it is used up: memory
/// that has grown costs a new instance.
const ARENA_BYTES: usize = 64 * 1024;

const PAGE_BYTES: usize = 64 * 1024;

/// An allocator for calls that begin with fresh memory: it goes upwards, and takes back only what it has
/// given last.
pub struct Bump {
    arena: Cell<[u64; ARENA_BYTES / 8]>,
    /// The first address that is free; zero before the first allocation.
    next: Cell<usize>,
    /// The first address that is not there.
    end: Cell<usize>,
}

// SAFETY: a guest has one thread.
unsafe impl Sync for Bump {}

impl Default for Bump {
    fn default() -> Self {
        Bump::new()
    }
}

impl Bump {
    /// An allocator that has given nothing away.
    pub const fn new() -> Self {
        Bump { arena: Cell::new([0; ARENA_BYTES / 8]), next: Cell::new(0), end: Cell::new(0) }
    }

    /// Makes room up to this address.
    fn reach(&self, end: usize) -> bool {
        if end <= self.end.get() {
            return true;
        }
        let pages = (end - self.end.get()).div_ceil(PAGE_BYTES);
        let before = core::arch::wasm32::memory_grow(0, pages);
        if before == usize::MAX {
            return false;
        }
        // The first growth leaves the arena behind: what follows it is somebody else's, up to the end of the
        // memory.
        self.end.set((before + pages) * PAGE_BYTES);
        true
    }
}

// SAFETY: addresses ascend, and stay below what is there.
unsafe impl GlobalAlloc for Bump {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if self.next.get() == 0 {
            let arena = self.arena.as_ptr() as usize;
            self.next.set(arena);
            self.end.set(arena + ARENA_BYTES);
        }
        let begin = self.next.get().next_multiple_of(layout.align());
        let Some(end) = begin.checked_add(layout.size()) else { return ptr::null_mut() };
        if end <= self.end.get() {
            self.next.set(end);
            return begin as *mut u8;
        }
        self.alloc_grown(layout)
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if pointer as usize + layout.size() == self.next.get() {
            self.next.set(pointer as usize);
        }
    }
}

impl Bump {
    /// Gives memory at the end of what there is, where it is contiguous with what the host adds.
    #[cold]
    fn alloc_grown(&self, layout: Layout) -> *mut u8 {
        let memory_end = core::arch::wasm32::memory_size(0) * PAGE_BYTES;
        if self.end.get() != memory_end {
            self.next.set(memory_end);
            self.end.set(memory_end);
        }
        let begin = self.next.get().next_multiple_of(layout.align());
        match begin.checked_add(layout.size()) {
            Some(end) if self.reach(end) => {
                self.next.set(end);
                begin as *mut u8
            }
            _ => ptr::null_mut(),
        }
    }
}
