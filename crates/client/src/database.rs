//! A database: a client's connection to a cluster.

use crate::directory::Directory;
use crate::options::Options;
use crate::session::Session;

/// What all handles of one connection share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) session: Session,
    pub(crate) options: Options,
    pub(crate) directory: Directory,
}
