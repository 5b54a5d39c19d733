//! The data directories of nodes: how they are filled, damaged, taken away and brought back.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use quorate_cluster::Failure;

use super::Cluster;

/// The file that fills a disk.
const BALLAST: &str = "ballast";

/// The content of a damaged file.
const DAMAGE: &str = "format = 2\nthis is not what it was";

/// A copy of what the disk of a node holds.
pub(in super::super) struct Copy(PathBuf);

/// Something that was taken away, and where it had been.
pub(in super::super) struct Taken {
    kept: PathBuf,
    place: PathBuf,
}

/// A small disk, unmounted when this is dropped.
pub(super) struct Mount(PathBuf);

impl Drop for Mount {
    fn drop(&mut self) {
        // If it is not mounted any more that is as well; what still uses it keeps it until it ends.
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).stderr(Stdio::null()).status();
    }
}

impl Cluster {
    /// Gives every node a disk of its own that is so small, before it is started for the first time. False if that is not allowed
    /// here.
    pub(in super::super) fn mount_small_disks(&mut self, mebibytes: u64) -> Result<bool, Failure> {
        for node in 0..self.setup.nodes {
            let data = self.data(node);
            fs::create_dir_all(&data).map_err(|error| failed(&data, &error))?;
            let mut mount = Command::new("mount");
            mount.args(["-t", "tmpfs", "-o", &format!("size={mebibytes}m"), "tmpfs"]).arg(&data);
            if !mount.stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
                return Ok(false);
            }
            self.mounts.push(Mount(data));
        }
        Ok(true)
    }

    /// Fills the disk of a node.
    pub(in super::super) fn fill(&mut self, node: usize) -> Result<(), Failure> {
        self.note(format!("fill the disk of {node}"));
        let path = self.data(node).join(BALLAST);
        let mut ballast = fs::File::create(&path).map_err(|error| failed(&path, &error))?;
        // Smaller and smaller pieces, until not even a page fits.
        for size in [1 << 20, 4096] {
            let piece = vec![0; size];
            while ballast.write_all(&piece).is_ok() {}
        }
        Ok(())
    }

    /// Makes room on the disk of a node again.
    pub(in super::super) fn make_room(&mut self, node: usize) -> Result<(), Failure> {
        self.note(format!("make room on the disk of {node}"));
        let path = self.data(node).join(BALLAST);
        fs::remove_file(&path).map_err(|error| failed(&path, &error))
    }

    /// The data directory of a node.
    pub(in super::super) fn data(&self, node: usize) -> PathBuf {
        self.layout.data_directory(node)
    }

    /// Copies what the disk of a node holds, which does not run.
    pub(in super::super) fn copy(&mut self, node: usize) -> Result<Copy, Failure> {
        self.note(format!("copy the disk of {node}"));
        let copy = self.aside("copy");
        copy_all(&self.data(node), &copy).map_err(|error| failed(&copy, &error))?;
        Ok(Copy(copy))
    }

    /// The disk of a node, which does not run, holds what the copy does.
    pub(in super::super) fn roll_back(&mut self, node: usize, copy: &Copy) -> Result<(), Failure> {
        self.note(format!("roll back the disk of {node}"));
        let data = self.data(node);
        fs::remove_dir_all(&data)
            .and_then(|()| copy_all(&copy.0, &data))
            .map_err(|error| failed(&data, &error))
    }

    /// Removes everything from the disk of a node, which does not run.
    pub(in super::super) fn empty(&mut self, node: usize) -> Result<(), Failure> {
        self.note(format!("empty the disk of {node}"));
        let data = self.data(node);
        fs::remove_dir_all(&data).map_err(|error| failed(&data, &error))
    }

    /// Takes something away that is below the data directory of a node, which does not run.
    pub(in super::super) fn take(&mut self, node: usize, what: impl AsRef<Path>) -> Result<Taken, Failure> {
        let place = self.data(node).join(what);
        self.note(format!("take {} away", place.display()));
        let kept = self.aside("taken");
        fs::rename(&place, &kept).map_err(|error| failed(&place, &error))?;
        Ok(Taken { kept, place })
    }

    /// Damages a file below the data directory of a node, which does not run. Gives the sound one.
    pub(in super::super) fn damage(&mut self, node: usize, file: impl AsRef<Path>) -> Result<Taken, Failure> {
        let sound = self.take(node, file)?;
        fs::write(&sound.place, DAMAGE).map_err(|error| failed(&sound.place, &error))?;
        Ok(sound)
    }

    /// Puts it back, in place of what has come there meanwhile.
    pub(in super::super) fn put_back(&mut self, taken: &Taken) -> Result<(), Failure> {
        let Taken { kept, place } = taken;
        self.note(format!("put {} back", place.display()));
        // A file is replaced as it is, a directory has to be empty.
        if place.is_dir() {
            fs::remove_dir_all(place).map_err(|error| failed(place, &error))?;
        }
        fs::rename(kept, place).map_err(|error| failed(place, &error))
    }

    /// Exchanges something that is below the data directories of two nodes, which do not run.
    pub(in super::super) fn swap(&mut self, nodes: [usize; 2], what: &str) -> Result<(), Failure> {
        let [first, second] = nodes;
        let (taken, other) = (self.take(first, what)?, self.data(second).join(what));
        fs::rename(&other, &taken.place)
            .and_then(|()| fs::rename(&taken.kept, &other))
            .map_err(|error| failed(&other, &error))
    }

    /// Where a node keeps its replica of the first shard of a keyspace, below its data directory.
    pub(in super::super) fn replica(&self, node: usize, keyspace: &str) -> Result<PathBuf, Failure> {
        let wanted = format!("keyspace_name = \"{keyspace}\"");
        for replica in self.replicas_of(node)? {
            let mark = self.data(node).join(&replica).join("replica.toml");
            if fs::read_to_string(mark).is_ok_and(|mark| mark.contains(&wanted)) {
                return Ok(replica);
            }
        }
        Err(Failure::failed(format!("node {node} has no replica of {keyspace}")))
    }

    /// The shard, and the index in its group, of the replica that a node has of the first shard of a keyspace.
    pub(in super::super) fn replica_id(&self, node: usize, keyspace: &str) -> Result<[u64; 2], Failure> {
        let replica = self.replica(node, keyspace)?;
        let name = replica.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let parts = name.strip_prefix("shard-").and_then(|name| name.split_once("-r"));
        let parse = |(shard, index): (&str, &str)| Some([shard.parse().ok()?, index.parse().ok()?]);
        let id = parts.and_then(parse);
        id.ok_or_else(|| {
            Failure::failed(format!("{} is no name of a replica's directory", replica.display()))
        })
    }

    /// Where a node keeps its replicas, below its data directory.
    pub(in super::super) fn replicas_of(&self, node: usize) -> Result<Vec<PathBuf>, Failure> {
        let replicas = self.data(node).join("replicas");
        let entries = fs::read_dir(&replicas).map_err(|error| failed(&replicas, &error))?;
        let below = |entry: io::Result<fs::DirEntry>| Ok(Path::new("replicas").join(entry?.file_name()));
        let mut found =
            entries.map(below).collect::<io::Result<Vec<_>>>().map_err(|error| failed(&replicas, &error))?;
        found.sort_unstable();
        Ok(found)
    }

    /// A path beside the data directories that nothing has.
    fn aside(&mut self, what: &str) -> PathBuf {
        self.layout.directory.join(format!("{what}-{}", self.steps.len()))
    }
}

fn copy_all(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_all(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("{}: {error}", path.display()))
}
