//! Which mutant of this copy is switched on. Written by `cargo xtask mutants`; there is nothing like it in the repository.

#![allow(missing_docs)]

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// No site has so large a number: none of its mutants is chosen.
const NONE: u32 = u32::MAX - 2;
/// None is chosen, and it is noted which sites are reached.
const NOTES: u32 = u32::MAX - 1;
/// The environment has not been asked.
const UNREAD: u32 = u32::MAX;

/// Mutants are numbered from zero.
const MUTANTS: usize = 0; // The generator writes the number here.

static CHOSEN: AtomicU32 = AtomicU32::new(UNREAD);
static REACHED: [AtomicU32; MUTANTS / 32 + 1] = [const { AtomicU32::new(0) }; MUTANTS / 32 + 1];
static NOTEBOOK: Mutex<Option<File>> = Mutex::new(None);

/// Which of its mutants a site is to execute, counted from the first one's number; anything beyond them means none.
#[inline(always)]
pub fn at(first: u32) -> u32 {
    let chosen = CHOSEN.load(Relaxed);
    if chosen >= NOTES { look(first) } else { chosen.wrapping_sub(first) }
}

#[cold]
fn look(first: u32) -> u32 {
    if CHOSEN.load(Relaxed) == UNREAD {
        let chosen = std::env::var("QUORATE_MUTANT").unwrap_or_default();
        if let Some(path) = chosen.strip_prefix("reached:") {
            let mut notebook = NOTEBOOK.lock().unwrap_or_else(PoisonError::into_inner);
            *notebook = OpenOptions::new().create(true).append(true).open(path).ok();
            CHOSEN.store(NOTES, Relaxed);
        } else {
            CHOSEN.store(chosen.parse().unwrap_or(NONE), Relaxed);
        }
        return at(first);
    }
    let (word, bit) = (first as usize / 32, 1 << (first % 32));
    if REACHED[word].fetch_or(bit, Relaxed) & bit == 0 {
        let mut notebook = NOTEBOOK.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(notebook) = notebook.as_mut() {
            let _ = writeln!(notebook, "{first}");
        }
    }
    u32::MAX - 1
}

/// Notes from now on which sites are reached, instead of executing any mutant.
pub fn note_reached() {
    CHOSEN.store(NOTES, Relaxed);
}

/// The sites that were reached since this was asked last, by the numbers of their first mutants.
pub fn take_reached() -> Vec<u32> {
    let mut reached = Vec::new();
    for (word, bits) in REACHED.iter().enumerate() {
        let bits = bits.swap(0, Relaxed);
        reached.extend((0..32).filter(|bit| bits & (1 << bit) != 0).map(|bit| word as u32 * 32 + bit));
    }
    reached
}
