//! The certificates of a cluster on this machine: an authority, its nodes, its doors, and one user.

use std::path::Path;

use quorate_certificates::Files;
use quorate_certificates::create::{Authority, Validity, paths};
use quorate_core::NodeId;

use super::CLUSTER_NAME;
use crate::Failure;

/// The user as which clients of the cluster work.
const USER: &str = "admin";

/// The user as which its doors do.
const DOORS: &str = "doors";

/// For so long the certificates are valid, in days. A cluster that is kept for longer has them made anew.
const DAYS: u32 = 365;

/// Makes what is missing in a directory: `ca`, `node-0` and so on, `user-doors` and `user-admin`, each with `.crt` and `.key`.
///
/// # Errors
/// If a certificate cannot be made or written, or the authority in the directory is none.
pub fn make_certificates(directory: &Path, nodes: usize) -> Result<(), Failure> {
    let validity = Validity::days(DAYS).map_err(Failure::failed)?;
    let (certificate, key) = paths(directory, "ca");
    let authority = match certificate.exists() {
        true => Authority::read(&certificate, &key).map_err(Failure::failed)?,
        false => {
            let (authority, made) =
                Authority::make("Quorate, local cluster", validity).map_err(Failure::failed)?;
            made.write(directory, "ca", false).map_err(Failure::failed)?;
            authority
        }
    };
    let is_missing = |stem: &str| !paths(directory, stem).0.exists();
    for node in 0..u16::try_from(nodes).map_err(Failure::failed)? {
        let stem = node_stem(usize::from(node));
        if is_missing(&stem) {
            let made = authority.node(CLUSTER_NAME, NodeId(node), &[], validity).map_err(Failure::failed)?;
            made.write(directory, &stem, false).map_err(Failure::failed)?;
        }
    }
    for user in [USER, DOORS] {
        let stem = user_stem(user);
        if is_missing(&stem) {
            let made = authority.user(CLUSTER_NAME, user, validity).map_err(Failure::failed)?;
            made.write(directory, &stem, false).map_err(Failure::failed)?;
        }
    }
    Ok(())
}

/// The files with which a client works as the user of these certificates.
pub fn client_files(directory: &Path) -> Files {
    files(directory, &user_stem(USER))
}

/// The files of a node.
pub fn node_files(directory: &Path, node: usize) -> Files {
    files(directory, &node_stem(node))
}

/// The files of the doors.
pub fn door_files(directory: &Path) -> Files {
    files(directory, &user_stem(DOORS))
}

fn files(directory: &Path, stem: &str) -> Files {
    let (certificate, key) = paths(directory, stem);
    Files { ca: paths(directory, "ca").0, certificate, key, revoked: None }
}

fn node_stem(node: usize) -> String {
    format!("node-{node}")
}

fn user_stem(name: &str) -> String {
    format!("user-{name}")
}
