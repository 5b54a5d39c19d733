//! Authorities and certificates, made for those that have no tools of their own for it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use quorate_core::NodeId;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use time::OffsetDateTime;
use webpki::{EndEntityCert, KeyUsage};

use crate::certificate::Certificate;
use crate::date::Date;
use crate::identity::{Identity, IdentityError, Subject};

/// A certificate is valid from a little before it was made, for machines whose clocks stand behind.
const BEFORE: Duration = Duration::from_secs(3_600);

/// The names of hosts that a node has on the machine where it runs.
const LOCAL: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// Why a certificate cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// No node or user can have this identity.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// No host has this name.
    #[error("\"{0}\" is no name or address of a host")]
    Host(String),
    /// The files of the authority are not those of one.
    #[error("{path} cannot be used as an authority: {reason}", path = path.display())]
    Authority {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A certificate would end before it begins, or beyond what a calendar has.
    #[error("{0} days are no time for which a certificate can be valid: choose 1 to 36500")]
    Days(u32),
    /// The authority does not sign what it made itself.
    #[error(
        "the certificate that was made is not valid ({0}): the key is not that of the authority, or the authority was made by another tool and has a \
             longer name than a common name; use that tool, with the identity as a URI among the subject alternative names"
    )]
    NotSigned(String),
    /// The library refuses.
    #[error("the certificate cannot be made: {0}")]
    Library(#[from] rcgen::Error),
}

/// Why a certificate cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// There is a file of this name.
    #[error("{path} exists, and may be in use: choose another directory, or say --force to replace it", path = path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The system refuses.
    #[error("{path} cannot be written: {source}", path = path.display())]
    Failed {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
}

/// The files of a certificate and its key in a directory, by their common name.
pub fn paths(directory: &Path, stem: &str) -> (PathBuf, PathBuf) {
    (directory.join(format!("{stem}.crt")), directory.join(format!("{stem}.key")))
}

/// A certificate that was made, with its key.
pub struct Made {
    /// The certificate, in PEM.
    pub certificate: String,
    /// Its key, in PEM: a secret.
    pub key: String,
}

impl std::fmt::Debug for Made {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Made").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

impl Made {
    /// Writes both to a directory, which is created if it is missing. The key can be read by its owner alone, from its first byte on. Files are replaced as a
    /// whole, so that a process which watches them never reads half of one.
    ///
    /// # Errors
    /// There are files of this name and none is to be replaced, or the system refuses.
    pub fn write(
        &self,
        directory: &Path,
        stem: &str,
        replace: bool,
    ) -> Result<(PathBuf, PathBuf), WriteError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            |source| WriteError::Failed { path, source }
        };
        std::fs::create_dir_all(directory).map_err(failed(directory))?;
        let (certificate, key) = paths(directory, stem);
        for path in [&certificate, &key] {
            if !replace && path.exists() {
                return Err(WriteError::Exists { path: path.clone() });
            }
        }
        for (path, text, mode) in [(&key, &self.key, 0o600), (&certificate, &self.certificate, 0o644)] {
            let beside = path.with_extension("new");
            write_file(&beside, text, mode).map_err(failed(&beside))?;
            std::fs::rename(&beside, path).map_err(failed(path))?;
        }
        Ok((certificate, key))
    }
}

/// Writes a new file that has this mode before it has content.
fn write_file(path: &Path, text: &str, mode: u32) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = std::fs::File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
    #[cfg(not(unix))]
    let _ = mode;
    let mut file = options.open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// An authority: it signs the certificates of nodes and users.
pub struct Authority {
    certificate: CertificateDer<'static>,
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Authority").field("certificate", &self.pem).finish_non_exhaustive()
    }
}

/// When a certificate is valid.
#[derive(Clone, Copy, Debug)]
pub struct Validity {
    not_before: OffsetDateTime,
    not_after: OffsetDateTime,
}

impl Validity {
    /// From now on, for so many days.
    ///
    /// # Errors
    /// None, or more than a hundred years.
    pub fn days(days: u32) -> Result<Self, CreateError> {
        if !(1..=36_500).contains(&days) {
            return Err(CreateError::Days(days));
        }
        let now = Date::now().0;
        let until = now + i64::from(days) * 86_400;
        Validity::between(Date(now - BEFORE.as_secs() as i64), Date(until)).ok_or(CreateError::Days(days))
    }

    /// Between two moments, for tests of certificates whose time is over or has not begun; none if one is beyond all calendars.
    pub fn between(not_before: Date, not_after: Date) -> Option<Self> {
        Some(Validity {
            not_before: OffsetDateTime::from_unix_timestamp(not_before.0).ok()?,
            not_after: OffsetDateTime::from_unix_timestamp(not_after.0).ok()?,
        })
    }
}

impl Authority {
    /// Makes an authority of this name, and gives its certificate and key.
    ///
    /// # Errors
    /// The library refuses, as where the system has no randomness.
    pub fn make(name: &str, validity: Validity) -> Result<(Authority, Made), CreateError> {
        let key = KeyPair::generate()?;
        let mut params = authority_params(name);
        (params.not_before, params.not_after) = (validity.not_before, validity.not_after);
        let certificate = params.self_signed(&key)?;
        let made = Made { certificate: certificate.pem(), key: key.serialize_pem() };
        let authority = Authority {
            certificate: certificate.der().clone(),
            pem: made.certificate.clone(),
            issuer: Issuer::new(params, key),
        };
        Ok((authority, made))
    }

    /// Reads an authority from the files of its certificate and its key.
    ///
    /// # Errors
    /// They cannot be read, or are no certificate and no key.
    pub fn read(certificate: &Path, key: &Path) -> Result<Authority, CreateError> {
        let failed = |path: &Path, reason: String| CreateError::Authority { path: path.to_owned(), reason };
        let text =
            |path: &Path| std::fs::read_to_string(path).map_err(|error| failed(path, error.to_string()));
        let (pem, secret) = (text(certificate)?, text(key)?);
        let der = CertificateDer::from_pem_slice(pem.as_bytes())
            .map_err(|error| failed(certificate, format!("it holds no certificate in PEM ({error})")))?;
        let facts = Certificate::read(&der)
            .ok_or_else(|| failed(certificate, "it holds no certificate that can be read".to_owned()))?;
        // The text of the library says nothing of the secret.
        let pair = KeyPair::from_pem(&secret)
            .map_err(|error| failed(key, format!("it holds no key in PEM that can be used ({error})")))?;
        let issuer = Issuer::new(authority_params(&facts.subject), pair);
        Ok(Authority { certificate: der, pem, issuer })
    }

    /// The certificate of the authority, in PEM.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Makes the certificate of a node, which is also valid for names and addresses of the host that it runs on: clients of its doors look at those.
    ///
    /// # Errors
    /// No node can be called so, or the authority is none.
    pub fn node(
        &self,
        cluster: &str,
        node: NodeId,
        hosts: &[String],
        validity: Validity,
    ) -> Result<Made, CreateError> {
        let hosts = LOCAL.iter().map(|host| (*host).to_owned()).chain(hosts.iter().cloned());
        self.certify(&Identity::node(cluster, node)?, hosts.collect(), validity)
    }

    /// Makes the certificate of a user.
    ///
    /// # Errors
    /// No user can be called so, or the authority is none.
    pub fn user(&self, cluster: &str, name: &str, validity: Validity) -> Result<Made, CreateError> {
        self.certify(&Identity::user(cluster, name)?, Vec::new(), validity)
    }

    fn certify(
        &self,
        identity: &Identity,
        hosts: Vec<String>,
        validity: Validity,
    ) -> Result<Made, CreateError> {
        let mut params = CertificateParams::default();
        params.distinguished_name = common_name(&identity.subject.to_string());
        (params.not_before, params.not_after) = (validity.not_before, validity.not_after);
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        if let Subject::Node(_) = identity.subject {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        }
        params.use_authority_key_identifier_extension = true;
        params.subject_alt_names = vec![SanType::URI(identity.to_uri().try_into()?)];
        for host in hosts {
            let name = match host.parse() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) => SanType::DnsName(validate_host(&host)?.to_owned().try_into()?),
            };
            if !params.subject_alt_names.contains(&name) {
                params.subject_alt_names.push(name);
            }
        }
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        self.validate(certificate.der(), validity)?;
        Ok(Made { certificate: certificate.pem(), key: key.serialize_pem() })
    }

    /// Looks whether the authority stands behind what was signed with its key.
    fn validate(&self, certificate: &CertificateDer<'_>, validity: Validity) -> Result<(), CreateError> {
        let now = u64::try_from(validity.not_before.unix_timestamp()).unwrap_or(0);
        let now = UnixTime::since_unix_epoch(Duration::from_secs(now));
        let verify = || {
            let anchors = [webpki::anchor_from_trusted_cert(&self.certificate)?];
            let algorithms = crate::handshake::algorithms().all;
            EndEntityCert::try_from(certificate)?
                .verify_for_usage(algorithms, &anchors, &[], now, KeyUsage::client_auth(), None, None)
                .map(|_| ())
        };
        verify().map_err(|error: webpki::Error| CreateError::NotSigned(error.to_string()))
    }
}

fn authority_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = common_name(name);
    // It signs nodes and users, and no further authorities.
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn common_name(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

fn validate_host(host: &str) -> Result<&str, CreateError> {
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    // A first label may stand for all.
    let rest = host.strip_prefix("*.").unwrap_or(host);
    if host.len() <= 253 && rest.split('.').all(is_label) {
        Ok(host)
    } else {
        Err(CreateError::Host(host.to_owned()))
    }
}
