//! Many replicas that are created at once, with few syncs.
//!
//! To create one replica durably takes about ten syncs, and a keyspace of thousands of shards tens of thousands. A batch is made durable as a
//! whole: first all logs, then all marks, then all entries of the inventory. A crash in between leaves logs without marks, which are
//! thrown away, or marks whose logs are there: as if each replica had been created by itself.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use quorate_core::ReplicaId;

use super::{DataDirectory, DataError, Placement, io_error, remove_all};

impl DataDirectory {
    /// Creates replicas that begin empty and of which nothing is here, up to their marks: then each is made ready as one that is
    /// found. `create_log` creates an empty log, without making it durable. Replicas that are here already are passed over, and so are those
    /// that keep no log: a mark without records says that such a replica has been here before, and has to learn everything from its group.
    pub(crate) fn stage_replicas<'a, E: From<DataError>>(
        &self,
        placements: impl IntoIterator<Item = &'a Placement>,
        create_log: impl Fn(&Path, ReplicaId) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut staged: Vec<[(PathBuf, String); 2]> = Vec::new();
        for placement in placements {
            let directory = self.replica_directory(placement.replica);
            if !placement.keeps_log() || self.is_known(placement.replica)? {
                continue;
            }
            let log = directory.join("log");
            remove_all(&log)?;
            fs::create_dir_all(&directory).map_err(|source| io_error(&directory, source))?;
            create_log(&log, placement.replica)?;
            staged.push(self.texts_of_new(placement)?);
        }
        if staged.is_empty() {
            return Ok(());
        }
        self.sync_all()?;
        for step in 0..2 {
            for (path, text) in staged.iter().map(|texts| &texts[step]) {
                // Under its name only as a whole.
                let new = path.with_extension("new");
                fs::write(&new, text)
                    .and_then(|()| fs::rename(&new, path))
                    .map_err(|source| io_error(path, source))?;
            }
            self.sync_all()?;
        }
        Ok(())
    }

    /// Makes everything durable that the file system of the data directory holds.
    fn sync_all(&self) -> Result<(), DataError> {
        let path = self.path.join("replicas");
        File::open(&path)
            .and_then(|directory| Ok(rustix::fs::syncfs(&directory)?))
            .map_err(|source| io_error(&path, source))
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::NodeId;
    use quorate_core::topology::Durability;

    use super::*;
    use crate::config::system_keyspace;
    use crate::data::{Boot, Initialise};

    #[test]
    fn staged_replicas_are_found_with_their_logs_and_others_are_passed_over() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("node");
        let data = DataDirectory::open(&path, 7, NodeId(0), Initialise::New, 1).unwrap();
        let placement = |durability| {
            Placement::on_node(&system_keyspace(vec![NodeId(0)], durability), NodeId(0)).remove(0)
        };
        let create = |log: &Path, _: ReplicaId| {
            let written = fs::create_dir_all(log).and_then(|()| fs::write(log.join("segment"), b"new"));
            written.map_err(|source| io_error(log, source))
        };
        // A crash left this log before the mark was there.
        let log = path.join("replicas/shard-0-r0/log");
        fs::create_dir_all(&log).unwrap();
        fs::write(log.join("left"), b"old").unwrap();
        data.stage_replicas([&placement(Durability::Sync)], create).unwrap();
        assert!(!log.join("left").exists());
        let refuse = |log: &Path| -> Result<(), DataError> { panic!("{} is there", log.display()) };
        let prepared = data.prepare_replica(&placement(Durability::Sync), true, refuse).unwrap();
        assert_eq!((prepared.boot, prepared.log.as_ref()), (Boot::Initialise, Some(&log)));
        // It may have records by now.
        fs::write(log.join("segment"), b"records").unwrap();
        data.stage_replicas([&placement(Durability::Sync)], create).unwrap();
        assert_eq!(fs::read(log.join("segment")).unwrap(), b"records");
    }

    #[test]
    fn a_replica_in_memory_is_not_staged_and_begins_empty() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("node");
        let data = DataDirectory::open(&path, 7, NodeId(0), Initialise::New, 1).unwrap();
        let placement =
            Placement::on_node(&system_keyspace(vec![NodeId(0)], Durability::Memory), NodeId(0)).remove(0);
        let refuse = |log: &Path, _: ReplicaId| -> Result<(), DataError> { panic!("{}", log.display()) };
        data.stage_replicas([&placement], refuse).unwrap();
        let refuse = |log: &Path| -> Result<(), DataError> { panic!("{}", log.display()) };
        let prepared = data.prepare_replica(&placement, true, refuse).unwrap();
        assert_eq!((prepared.boot, prepared.log), (Boot::Initialise, None));
    }
}
