//! The journal of a data directory: starts that are interrupted, files that are put back, and what operators are told.

use std::fs;
use std::path::Path;

use quorate_core::NodeId;

use super::{DataDirectory, DataError, Initialise};

const CLUSTER: u64 = 7;
const NODE: NodeId = NodeId(1);

fn open(path: &Path, initialise: Initialise, incarnation: u64) -> Result<DataDirectory, DataError> {
    DataDirectory::open(path, CLUSTER, NODE, initialise, incarnation)
}

#[test]
fn an_identity_that_cannot_be_written_for_some_starts_does_no_harm() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("node");
    drop(open(&path, Initialise::New, 99).unwrap().open_journal().unwrap());
    // Stands for a full disk, or for a power cut at that moment.
    fs::create_dir(path.join("identity.new")).unwrap();
    for _ in 0..2 {
        let error = open(&path, Initialise::No, 99).unwrap().open_journal().unwrap_err();
        assert!(matches!(error, DataError::Io { .. }), "{error}");
    }
    fs::remove_dir(path.join("identity.new")).unwrap();
    let opened = open(&path, Initialise::No, 99).unwrap().open_journal();
    assert!(opened.is_ok(), "{}", opened.unwrap_err());
}
