//! The certificate of a user, by which nodes know a client.

use std::path::PathBuf;
use std::sync::Arc;

use quorate_certificates::{Files, Purpose, Trust};

/// The certificate of a user with its key, and the authorities by which the client judges nodes. Clones share them.
///
/// The certificate names the cluster and the user: the client speaks with nodes of that cluster only, and they know it by that name. Files are watched: what
/// replaces them counts for connections that are made from then on.
#[derive(Clone, Debug)]
pub struct Certificates(Arc<Trust>);

/// Files of certificates cannot be used. The text names the file, and says what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CertificatesError(String);

impl Certificates {
    /// Reads the certificates of the authorities, the certificate of a user, and its key, each in PEM. `quorate certificates` makes them.
    ///
    /// # Errors
    /// A file cannot be read, is not what it should be, or nodes would refuse the certificate.
    pub fn load(
        ca: impl Into<PathBuf>,
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Result<Certificates, CertificatesError> {
        let files = Files { ca: ca.into(), certificate: certificate.into(), key: key.into(), revoked: None };
        Certificates::from_files(files)
    }

    /// Reads these files, which may also name certificates that are not believed any more.
    ///
    /// # Errors
    /// As [`Certificates::load`].
    pub fn from_files(files: Files) -> Result<Certificates, CertificatesError> {
        let loaded = Trust::watched(files, Purpose::User);
        loaded.map(Certificates).map_err(|error| CertificatesError(error.to_string()))
    }

    /// The certificates as connections use them.
    pub(crate) fn shared(&self) -> Arc<Trust> {
        Arc::clone(&self.0)
    }
}
