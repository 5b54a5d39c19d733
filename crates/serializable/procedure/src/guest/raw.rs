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

/// The bytes that the host has written into the buffer, or fetches if they are longer than that.
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
    /// The first address that is free, from the arena on.
    next: Cell<usize>,
    /// How much there is beyond the arena. Zero at first, like all else here: so a module need not bring it along.
    beyond: Cell<usize>,
}

// SAFETY: a guest has one thread.
unsafe impl Sync for Bump {}

impl Default for Bump {
    fn default() -> Self {
        Bump::new()
    }
}

// SAFETY: addresses ascend, and stay below what is there.
unsafe impl GlobalAlloc for Bump {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match self.place(layout) {
            Some((begin, end)) if end <= self.end() => {
                self.next.set(end);
                (self.arena() + begin) as *mut u8
            }
            _ => self.alloc_grown(layout),
        }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        let begin = pointer as usize - self.arena();
        if begin + layout.size() == self.next.get() {
            self.next.set(begin);
        }
    }
}

impl Bump {
    /// An allocator that has given nothing away.
    pub const fn new() -> Self {
        Bump { arena: Cell::new([0; ARENA_BYTES / 8]), next: Cell::new(0), beyond: Cell::new(0) }
    }

    fn arena(&self) -> usize {
        self.arena.as_ptr() as usize
    }

    /// The first address that is not there, from the arena on.
    fn end(&self) -> usize {
        ARENA_BYTES + self.beyond.get()
    }

    /// Where the next allocation would begin and end, from the arena on; none beyond all addresses.
    #[inline]
    fn place(&self, layout: Layout) -> Option<(usize, usize)> {
        let aligned =
            (self.arena() + self.next.get()).checked_add(layout.align() - 1)? & !(layout.align() - 1);
        let begin = aligned - self.arena();
        Some((begin, begin.checked_add(layout.size())?))
    }

    /// Gives memory at the end of what there is, where it is contiguous with what the host adds.
    #[cold]
    #[inline(never)]
    fn alloc_grown(&self, layout: Layout) -> *mut u8 {
        let memory_end = core::arch::wasm32::memory_size(0) * PAGE_BYTES - self.arena();
        if self.end() != memory_end {
            // The memory behind the arena is somebody else's, up to its end.
            self.next.set(memory_end);
            self.beyond.set(memory_end - ARENA_BYTES);
        }
        match self.place(layout) {
            Some((begin, end)) if self.reach(end) => {
                self.next.set(end);
                (self.arena() + begin) as *mut u8
            }
            _ => ptr::null_mut(),
        }
    }

    /// Makes room up to this address, from the arena on. The room that was there before ends with the memory.
    fn reach(&self, end: usize) -> bool {
        let Some(lacking) = end.checked_sub(self.end()) else { return true };
        let pages = lacking.div_ceil(PAGE_BYTES);
        if core::arch::wasm32::memory_grow(0, pages) == usize::MAX {
            return false;
        }
        self.beyond.set(self.beyond.get() + pages * PAGE_BYTES);
        true
    }
}
