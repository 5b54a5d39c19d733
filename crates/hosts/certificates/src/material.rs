//! Certificates, keys, authorities and revocations, as files have them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quorate_core::NodeId;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, TrustAnchor};
use rustls::sign::CertifiedKey;

use crate::certificate::{Certificate, normalized};
use crate::date::Date;
use crate::identity::{Identity, Subject};
use crate::judgement::{Refusal, Side};

/// The files of a process, each in PEM but for the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The certificates of the authorities that are believed.
    pub ca: PathBuf,
    /// The certificate of this process; those between it and the authority follow.
    pub certificate: PathBuf,
    /// The key of that certificate.
    pub key: PathBuf,
    /// The serial numbers of certificates that are not believed any more, one on each line, in hexadecimal digits; `#` begins a comment.
    pub revoked: Option<PathBuf>,
}

/// The purpose for which a process uses its certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// It is a node.
    Node {
        /// The name of its cluster.
        cluster: String,
        /// Its number; none if it joins a cluster and is to be told.
        node: Option<NodeId>,
    },
    /// It is a client of nodes, in the name of a user.
    User,
    /// It is a door: its clients look at names of hosts, so any authority may have signed its certificate.
    Door {
        /// The name of its cluster, of which certificates of clients must be.
        cluster: String,
    },
}

/// Why files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// A file cannot be read.
    #[error("{path} cannot be read: {source}", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// A file has no certificate, or something that is none.
    #[error("{path} holds {reason}: a certificate in PEM begins with -----BEGIN CERTIFICATE-----", path = path.display())]
    NoCertificate {
        /// The file.
        path: PathBuf,
        /// Its content.
        reason: String,
    },
    /// A file has no key.
    #[error("{path} holds {reason}: a key in PEM begins with -----BEGIN PRIVATE KEY-----", path = path.display())]
    NoKey {
        /// The file.
        path: PathBuf,
        /// Its content.
        reason: String,
    },
    /// The key is that of another certificate.
    #[error("the key in {key} does not match the certificate in {certificate}: both must come from one run of `quorate certificates`", key = key.display(), certificate = certificate.display())]
    OtherKey {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
    },
    /// Peers would refuse the certificate.
    #[error("{path}: {refusal}", path = path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// The reason.
        refusal: Refusal,
    },
    /// The certificate is that of another node, or of a user where a node is needed, or the other way round.
    #[error("{path} is the certificate of {found}, and this is {expected}", path = path.display())]
    OtherIdentity {
        /// The file.
        path: PathBuf,
        /// The identity that it states.
        found: Identity,
        /// The identity that is needed.
        expected: String,
    },
    /// A line of the revocations is no serial number.
    #[error("{path}, line {line}: \"{text}\" is no serial number: write its hexadecimal digits, as `quorate certificates show` does", path = path.display())]
    Revocation {
        /// The file.
        path: PathBuf,
        /// The line, from one.
        line: usize,
        /// The text of that line.
        text: String,
    },
    /// The library for TLS refuses what the files have.
    #[error("{path}: {reason}", path = path.display())]
    Unusable {
        /// The file of the certificate.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
}

/// The bytes of the files, by which changes are noticed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Contents {
    ca: Vec<u8>,
    certificate: Vec<u8>,
    key: Vec<u8>,
    revoked: Vec<u8>,
}

impl Contents {
    pub(crate) fn read(files: &Files) -> Result<Self, TrustError> {
        let read = |path: &Path| {
            std::fs::read(path).map_err(|source| TrustError::Unreadable { path: path.to_owned(), source })
        };
        Ok(Contents {
            ca: read(&files.ca)?,
            certificate: read(&files.certificate)?,
            key: read(&files.key)?,
            revoked: files.revoked.as_deref().map(read).transpose()?.unwrap_or_default(),
        })
    }
}

/// The contents of the files.
pub(crate) struct Material {
    pub(crate) authorities: Vec<TrustAnchor<'static>>,
    /// The common names of the authorities.
    pub(crate) names: Vec<String>,
    pub(crate) revoked: BTreeSet<String>,
    /// The certificate of this process, with its key.
    pub(crate) own: Arc<CertifiedKey>,
    /// Its facts.
    pub(crate) certificate: Certificate,
    /// The cluster that peers must be of: that of the own certificate, or of the door.
    pub(crate) cluster: Option<String>,
}

impl Material {
    /// Takes the files apart, and looks whether peers will take the certificate.
    pub(crate) fn parse(
        files: &Files,
        contents: &Contents,
        purpose: &Purpose,
        now: Date,
    ) -> Result<Self, TrustError> {
        let anchors = certificates(&files.ca, &contents.ca)?;
        let authorities = anchors
            .iter()
            .map(|authority| Ok(webpki::anchor_from_trusted_cert(authority)?.to_owned()))
            .collect::<Result<_, webpki::Error>>()
            .map_err(|error| {
                no_certificate(&files.ca, format!("what is no certificate of an authority ({error})"))
            })?;
        let named = |authority| Certificate::read(authority).map(|read| format!("\"{}\"", read.subject));
        let chain = certificates(&files.certificate, &contents.certificate)?;
        let certificate = Certificate::read(&chain[0]).ok_or_else(|| {
            no_certificate(&files.certificate, "what is no certificate that can be read".to_owned())
        })?;
        let cluster = certificate.identity.as_ref().map(|identity| identity.cluster.clone());
        let material = Material {
            authorities,
            names: anchors.iter().filter_map(named).collect(),
            revoked: revocations(files.revoked.as_deref(), &contents.revoked)?,
            own: Arc::new(certified_key(files, contents, chain)?),
            certificate,
            cluster,
        };
        match purpose {
            Purpose::Door { cluster } => Ok(Material { cluster: Some(cluster.clone()), ..material }),
            purpose => material.checked(files, purpose, now),
        }
    }

    /// Judges the own certificate as peers will.
    fn checked(self, files: &Files, purpose: &Purpose, now: Date) -> Result<Self, TrustError> {
        let path = || files.certificate.clone();
        let sides: &[Side] = match purpose {
            Purpose::Node { .. } => &[Side::Accepts, Side::Connects],
            Purpose::User | Purpose::Door { .. } => &[Side::Connects],
        };
        for side in sides {
            self.judge(Some(&self.own.cert), *side, None, now)
                .map_err(|refusal| TrustError::Refused { path: path(), refusal })?;
        }
        let Some(found) = self.certificate.identity.clone() else { return Ok(self) };
        let expected = match (purpose, &found.subject) {
            (Purpose::Node { cluster, node: Some(node) }, subject)
                if *cluster != found.cluster || *subject != Subject::Node(*node) =>
            {
                format!("{node} of cluster \"{cluster}\"")
            }
            (Purpose::Node { cluster, node: None }, subject)
                if *cluster != found.cluster || !matches!(subject, Subject::Node(_)) =>
            {
                format!("a node of cluster \"{cluster}\"")
            }
            (Purpose::User, Subject::Node(_)) => "a client, which needs the certificate of a user".to_owned(),
            _ => return Ok(self),
        };
        Err(TrustError::OtherIdentity { path: path(), found, expected })
    }
}

/// The certificates of a file, as they are.
///
/// # Errors
/// The file cannot be read, or holds none.
pub fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TrustError> {
    let text =
        std::fs::read(path).map_err(|source| TrustError::Unreadable { path: path.to_owned(), source })?;
    certificates(path, &text)
}

/// The certificates of a file: one at least.
fn certificates(path: &Path, text: &[u8]) -> Result<Vec<CertificateDer<'static>>, TrustError> {
    let found: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(text).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(no_certificate(path, "no certificate".to_owned())),
        Err(error) => Err(no_certificate(path, format!("what is no certificate ({error})"))),
    }
}

fn no_certificate(path: &Path, reason: String) -> TrustError {
    TrustError::NoCertificate { path: path.to_owned(), reason }
}

fn certified_key(
    files: &Files,
    contents: &Contents,
    chain: Vec<CertificateDer<'static>>,
) -> Result<CertifiedKey, TrustError> {
    let key = PrivateKeyDer::from_pem_slice(&contents.key).map_err(|error| {
        let reason = match error {
            pem::Error::NoItemsFound => "no key".to_owned(),
            error => format!("what is no key ({error})"),
        };
        TrustError::NoKey { path: files.key.clone(), reason }
    })?;
    CertifiedKey::from_der(chain, key, &crate::handshake::provider()).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            TrustError::OtherKey { certificate: files.certificate.clone(), key: files.key.clone() }
        }
        // The text of the library tells the form of a key, and nothing of its secret.
        error => TrustError::NoKey {
            path: files.key.clone(),
            reason: format!("a key that cannot be used ({error})"),
        },
    })
}

/// The serial numbers that a file revokes.
fn revocations(path: Option<&Path>, text: &[u8]) -> Result<BTreeSet<String>, TrustError> {
    let Some(path) = path else { return Ok(BTreeSet::new()) };
    let mut revoked = BTreeSet::new();
    for (line, number) in String::from_utf8_lossy(text).lines().zip(1..) {
        let written = line.split('#').next().unwrap_or_default().trim();
        // Tools write serial numbers with colons between their bytes.
        let digits: String = written.chars().filter(|letter| *letter != ':').collect();
        if digits.is_empty() {
            continue;
        }
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            let (path, text) = (path.to_owned(), written.chars().take(64).collect());
            return Err(TrustError::Revocation { path, line: number, text });
        }
        revoked.insert(normalized(&digits));
    }
    Ok(revoked)
}
