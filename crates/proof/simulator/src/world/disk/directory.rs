//! A directory on a simulated disk, byte by byte.
//!
//! ```text
//!    log ── write ──▶ cache ── sync, or luck in a crash ──▶ platter
//!     ▲                 │                                      │
//!     └──── read ───────┘ ◀─────── after a loss of power ──────┘
//! ```
//!
//! A process that dies leaves the cache as it is; when power is lost, any of the sectors that were not synced may have
//! reached the platter, each for itself, and of the changes of names some first ones. A sector is written whole or not at
//! all. A sync that fails writes some of the sectors and forgets that the others were changed, as operating systems do.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use quorate_core::Random;
use quorate_storage::{Directory, LogFile};

/// The unit in which a disk writes or does not.
pub const SECTOR_BYTES: usize = 512;

/// The behaviour of a disk when it is asked for something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// It works.
    #[default]
    Works,
    /// It has no room: files cannot grow.
    Full,
    /// Nothing can be read or written.
    Fails,
    /// The next sync fails; then it works again.
    FailsToSync,
}

/// A directory. Clones are the same one.
#[derive(Clone, Debug)]
pub struct SimulatedDirectory {
    path: PathBuf,
    disk: Rc<RefCell<Disk>>,
}

#[derive(Debug)]
struct Disk {
    condition: Condition,
    names: BTreeMap<String, Rc<RefCell<Contents>>>,
    /// The names that a loss of power leaves, before `renamed`.
    durable_names: BTreeMap<String, Rc<RefCell<Contents>>>,
    /// The changes of names since the directory was synced.
    renamed: Vec<Renaming>,
    random: Random,
}

#[derive(Clone, Debug)]
enum Renaming {
    Create(String, Rc<RefCell<Contents>>),
    Rename { from: String, to: String, file: Rc<RefCell<Contents>> },
    Remove(String),
}

#[derive(Clone, Debug, Default)]
struct Contents {
    cache: Vec<u8>,
    platter: Vec<u8>,
    /// The sectors that differ, as far as the operating system knows.
    dirty: BTreeSet<usize>,
}

/// A file of a simulated directory.
#[derive(Clone, Debug)]
pub struct SimulatedFile {
    contents: Rc<RefCell<Contents>>,
    disk: Rc<RefCell<Disk>>,
}

impl SimulatedDirectory {
    /// An empty directory on a disk of its own.
    pub fn new(path: PathBuf, random: Random) -> Self {
        let disk = Disk {
            condition: Condition::Works,
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            renamed: Vec::new(),
            random,
        };
        SimulatedDirectory { path, disk: Rc::new(RefCell::new(disk)) }
    }

    /// Sets the condition of the disk from now on.
    pub fn set_condition(&self, condition: Condition) {
        self.disk.borrow_mut().condition = condition;
    }

    /// True if a loss of power could lose something that was written.
    pub fn is_dirty(&self) -> bool {
        self.disk.borrow().names.values().any(|file| !file.borrow().dirty.is_empty())
    }

    /// The same bytes on a disk of its own, which works.
    pub fn copy(&self) -> SimulatedDirectory {
        let mut disk = self.disk.borrow_mut();
        let copy = SimulatedDirectory::new(self.path.clone(), disk.random.fork());
        let files = disk.names.iter().map(|(name, file)| {
            let bytes = file.borrow().cache.clone();
            let contents = Contents { cache: bytes.clone(), platter: bytes, dirty: BTreeSet::new() };
            (name.clone(), Rc::new(RefCell::new(contents)))
        });
        let names: BTreeMap<_, _> = files.collect();
        copy.disk.borrow_mut().durable_names = names.clone();
        copy.disk.borrow_mut().names = names;
        drop(disk);
        copy
    }

    /// Power is lost: what was not synced is there, or not.
    pub fn lose_power(&self) {
        let mut disk = self.disk.borrow_mut();
        let Disk { names, durable_names, renamed, random, .. } = &mut *disk;
        let lucky = random.index(renamed.len() + 1);
        for renaming in renamed.drain(..).take(lucky) {
            renaming.apply(durable_names);
        }
        names.clone_from(durable_names);
        // Either nothing made it, or nearly everything, or anything.
        let survival = [0.0, 0.5, 0.9, 1.0][random.index(4)];
        for file in names.values() {
            file.borrow_mut().lose_power(|| random.chance(survival));
        }
    }

    /// Every file is gone.
    pub fn wipe(&self) {
        let mut disk = self.disk.borrow_mut();
        disk.names.clear();
        disk.durable_names.clear();
        disk.renamed.clear();
    }

    /// The sectors that have reached the platter, by file and number.
    pub fn sectors(&self) -> Vec<(String, usize)> {
        let disk = self.disk.borrow();
        let files = disk.durable_names.iter();
        files
            .flat_map(|(name, file)| {
                let sectors = file.borrow().platter.len() / SECTOR_BYTES;
                (0..sectors).map(|sector| (name.clone(), sector))
            })
            .collect()
    }

    /// Changes one bit of a sector that was synced.
    pub fn rot(&self, (name, sector): &(String, usize), random: &mut Random) {
        self.change(name, *sector, |bytes| {
            bytes[random.index(SECTOR_BYTES)] ^= 1 << random.below(8);
        });
    }

    /// Overwrites a sector that was synced by a copy of another one.
    pub fn misdirect(&self, (name, sector): &(String, usize), from: &(String, usize)) {
        let source = {
            let disk = self.disk.borrow();
            let contents = disk.durable_names[&from.0].borrow();
            contents.platter[from.1 * SECTOR_BYTES..][..SECTOR_BYTES].to_vec()
        };
        self.change(name, *sector, |bytes| bytes.copy_from_slice(&source));
    }

    fn change(&self, name: &str, sector: usize, change: impl FnOnce(&mut [u8])) {
        let disk = self.disk.borrow();
        let mut contents = disk.durable_names[name].borrow_mut();
        let Contents { cache, platter, .. } = &mut *contents;
        let bytes = sector * SECTOR_BYTES..(sector + 1) * SECTOR_BYTES;
        change(&mut platter[bytes.clone()]);
        // The cache has dropped it long ago.
        cache[bytes.clone()].copy_from_slice(&platter[bytes]);
    }

    /// Refuses if nothing can be read or written, or if a file would have to grow and cannot.
    fn check(&self, grows: bool) -> io::Result<()> {
        self.disk.borrow().check(grows)
    }

    fn rename_with(&self, renaming: Renaming) {
        let mut disk = self.disk.borrow_mut();
        renaming.clone().apply(&mut disk.names);
        disk.renamed.push(renaming);
    }
}

impl Disk {
    fn check(&self, grows: bool) -> io::Result<()> {
        match self.condition {
            Condition::Fails => Err(io::Error::other("the disk does not answer")),
            Condition::Full if grows => Err(ErrorKind::StorageFull.into()),
            _ => Ok(()),
        }
    }
}

impl Renaming {
    fn apply(self, names: &mut BTreeMap<String, Rc<RefCell<Contents>>>) {
        match self {
            Renaming::Create(name, file) => drop(names.insert(name, file)),
            Renaming::Rename { from, to, file } => {
                names.remove(&from);
                names.insert(to, file);
            }
            Renaming::Remove(name) => drop(names.remove(&name)),
        }
    }
}

impl Contents {
    /// The sectors that lie at least in part between two offsets.
    fn sectors_of(from: usize, to: usize) -> std::ops::Range<usize> {
        from / SECTOR_BYTES..to.div_ceil(SECTOR_BYTES)
    }

    fn write(&mut self, bytes: &[u8], offset: usize) {
        let end = offset + bytes.len();
        if self.cache.len() < end {
            self.cache.resize(end, 0);
        }
        self.cache[offset..end].copy_from_slice(bytes);
        self.dirty.extend(Self::sectors_of(offset, end));
    }

    /// Lets a sector of the cache reach the platter.
    fn flush(&mut self, sector: usize) {
        let from = sector * SECTOR_BYTES;
        let to = (from + SECTOR_BYTES).min(self.cache.len());
        if self.platter.len() < to {
            self.platter.resize(to, 0);
        }
        self.platter[from..to].copy_from_slice(&self.cache[from..to]);
    }

    fn lose_power(&mut self, mut survives: impl FnMut() -> bool) {
        for sector in std::mem::take(&mut self.dirty) {
            if survives() {
                self.flush(sector);
            }
        }
        self.cache.clone_from(&self.platter);
    }
}

impl Directory for SimulatedDirectory {
    type File = SimulatedFile;
    type Lock = ();

    fn path(&self) -> &Path {
        &self.path
    }

    fn create(&self) -> io::Result<()> {
        self.check(false)
    }

    fn lock(&self) -> io::Result<Option<()>> {
        self.check(false).map(Some)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.check(false)?;
        Ok(self.disk.borrow().names.keys().cloned().collect())
    }

    fn create_file(&self, name: &str) -> io::Result<SimulatedFile> {
        self.check(true)?;
        let contents = Rc::<RefCell<Contents>>::default();
        self.rename_with(Renaming::Create(name.to_owned(), Rc::clone(&contents)));
        Ok(SimulatedFile { contents, disk: Rc::clone(&self.disk) })
    }

    fn open_file(&self, name: &str) -> io::Result<SimulatedFile> {
        self.check(false)?;
        let contents = self.disk.borrow().names.get(name).cloned().ok_or(ErrorKind::NotFound)?;
        Ok(SimulatedFile { contents, disk: Rc::clone(&self.disk) })
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.check(false)?;
        let file = self.disk.borrow().names.get(from).cloned().ok_or(ErrorKind::NotFound)?;
        self.rename_with(Renaming::Rename { from: from.to_owned(), to: to.to_owned(), file });
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.check(false)?;
        self.rename_with(Renaming::Remove(name.to_owned()));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut disk = self.disk.borrow_mut();
        disk.check(false)?;
        let Disk { durable_names, renamed, .. } = &mut *disk;
        renamed.drain(..).for_each(|renaming| renaming.apply(durable_names));
        Ok(())
    }
}

impl LogFile for SimulatedFile {
    fn length(&self) -> io::Result<u64> {
        self.disk.borrow().check(false)?;
        Ok(self.contents.borrow().cache.len() as u64)
    }

    fn read_at(&self, offset: u64, bytes_max: u64) -> io::Result<Vec<u8>> {
        self.disk.borrow().check(false)?;
        let contents = self.contents.borrow();
        let bytes = contents.cache.iter().skip(offset as usize);
        Ok(bytes.take(bytes_max.try_into().unwrap_or(usize::MAX)).copied().collect())
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let offset = offset as usize;
        let mut contents = self.contents.borrow_mut();
        let mut disk = self.disk.borrow_mut();
        let grows = offset + bytes.len() > contents.cache.len();
        let result = disk.check(grows);
        let written = match &result {
            Ok(()) => bytes.len(),
            Err(_) if grows => 0,
            // Bytes that cannot be written whole may be written in part.
            Err(_) => disk.random.index(bytes.len() + 1),
        };
        contents.write(&bytes[..written], offset);
        result
    }

    fn sync(&self) -> io::Result<()> {
        let mut contents = self.contents.borrow_mut();
        let mut disk = self.disk.borrow_mut();
        disk.check(false)?;
        let dirty = std::mem::take(&mut contents.dirty);
        if disk.condition != Condition::FailsToSync {
            dirty.into_iter().for_each(|sector| contents.flush(sector));
            return Ok(());
        }
        disk.condition = Condition::Works;
        for sector in dirty {
            if disk.random.chance(0.5) {
                contents.flush(sector);
            }
        }
        Err(io::Error::other("a sector could not be written"))
    }
}
