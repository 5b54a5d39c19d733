//! The certificates of a process, as it holds them and renews them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, ServerConfig};

use crate::certificate::Certificate;
use crate::date::Date;
use crate::judgement::{Certified, Refusal, Side};
use crate::material::{Contents, Files, Material, Purpose, TrustError};

/// How often files are looked at.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// The certificates of a process: its own, and the authorities by which it judges those of others.
///
/// Renewed files count for every handshake that begins behind the renewal; connections that are there stay, unless their certificate was revoked.
pub struct Trust {
    files: Files,
    purpose: Purpose,
    current: RwLock<Arc<Current>>,
    renewing: Mutex<Renewing>,
}

impl std::fmt::Debug for Trust {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Trust").field("files", &self.files).finish_non_exhaustive()
    }
}

/// The material that is in use.
struct Current {
    material: Material,
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
}

/// How renewal goes.
struct Renewing {
    /// The files as they were when they were used, or refused, last.
    looked_at: Option<Contents>,
    /// Why the files as they are now are not used.
    problem: Option<String>,
}

/// The result of looking at the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// They are as they were.
    Unchanged,
    /// They have changed, and are in use.
    Renewed,
    /// They cannot be used, for this reason: what was in use before still is.
    Kept(String),
}

impl Trust {
    /// Reads the files.
    ///
    /// # Errors
    /// A file cannot be used, or peers would refuse the certificate.
    pub fn load(files: Files, purpose: Purpose) -> Result<Arc<Trust>, TrustError> {
        let contents = Contents::read(&files)?;
        let current = Current::parse(&files, &contents, &purpose)?;
        Ok(Arc::new(Trust {
            files,
            purpose,
            current: RwLock::new(Arc::new(current)),
            renewing: Mutex::new(Renewing { looked_at: Some(contents), problem: None }),
        }))
    }

    /// Reads the files, and again whenever they change, as long as this is in use anywhere.
    ///
    /// # Errors
    /// As [`Trust::load`]; and the operating system may refuse a thread.
    pub fn watched(files: Files, purpose: Purpose) -> Result<Arc<Trust>, TrustError> {
        let path = files.certificate.clone();
        let trust = Trust::load(files, purpose)?;
        let watched = Arc::downgrade(&trust);
        std::thread::Builder::new()
            .name("certificates".to_owned())
            .spawn(move || watch(&watched))
            .map_err(|source| TrustError::Unreadable { path, source })?;
        Ok(trust)
    }

    /// The certificate of this process.
    pub fn own(&self) -> Certificate {
        self.current().material.certificate.clone()
    }

    /// The files that are read.
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// The configuration for a connection that is accepted.
    pub fn server_config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current().server)
    }

    /// The configuration for a connection that is made.
    pub fn client_config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.current().client)
    }

    /// Judges the certificates that a peer has shown in a handshake, its own first.
    ///
    /// # Errors
    /// They are not good, for the reason that the refusal states.
    pub fn judge(&self, shown: Option<&[CertificateDer<'_>]>, side: Side) -> Result<Certified, Refusal> {
        let material = &self.current().material;
        material.judge(shown, side, material.cluster.as_deref(), Date::now())
    }

    /// Judges the certificate of a connection again that was good when the connection began.
    ///
    /// # Errors
    /// It has expired since, or was revoked.
    pub fn judge_again(&self, certified: &Certified) -> Result<(), Refusal> {
        self.current().material.judge_again(certified, Date::now())
    }

    /// Why the files as they are now are not in use, if they are not.
    pub fn problem(&self) -> Option<String> {
        self.renewing().problem.clone()
    }

    /// Looks at the files, and uses them from here on if they have changed and are good.
    pub fn renew(&self) -> Renewal {
        let mut renewing = self.renewing();
        let contents = match Contents::read(&self.files) {
            Ok(contents) => contents,
            Err(error) => return renewing.keep(None, error.to_string()),
        };
        if renewing.looked_at.as_ref() == Some(&contents) {
            return renewing.problem.clone().map_or(Renewal::Unchanged, Renewal::Kept);
        }
        match Current::parse(&self.files, &contents, &self.purpose) {
            Ok(current) => {
                let certificate = current.material.certificate.describe();
                tracing::info!(certificate, until = %current.material.certificate.not_after, "certificates are renewed");
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(current);
                *renewing = Renewing { looked_at: Some(contents), problem: None };
                Renewal::Renewed
            }
            Err(error) => renewing.keep(Some(contents), error.to_string()),
        }
    }

    fn current(&self) -> Arc<Current> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn renewing(&self) -> MutexGuard<'_, Renewing> {
        self.renewing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Renewing {
    /// Goes on with what was in use before, and says so once.
    fn keep(&mut self, looked_at: Option<Contents>, reason: String) -> Renewal {
        self.looked_at = looked_at;
        if self.problem.as_ref() != Some(&reason) {
            tracing::error!(reason, "renewed certificates cannot be used: those before stay in use");
            self.problem = Some(reason.clone());
        }
        Renewal::Kept(reason)
    }
}

impl Current {
    fn parse(files: &Files, contents: &Contents, purpose: &Purpose) -> Result<Self, TrustError> {
        let material = Material::parse(files, contents, purpose, Date::now())?;
        let unusable = |error: rustls::Error| TrustError::Unusable {
            path: files.certificate.clone(),
            reason: error.to_string(),
        };
        Ok(Current {
            server: Arc::new(crate::handshake::server_config(&material.own).map_err(unusable)?),
            client: Arc::new(crate::handshake::client_config(&material.own).map_err(unusable)?),
            material,
        })
    }
}

/// Looks at the files until nobody uses what was read of them.
fn watch(watched: &Weak<Trust>) {
    let mut last: Option<Contents> = None;
    loop {
        std::thread::sleep(WATCH_INTERVAL);
        let Some(trust) = watched.upgrade() else { return };
        let found = Contents::read(&trust.files).ok();
        // A certificate and its key are written one after the other: they count once they have been the same twice.
        if found == last {
            trust.renew();
        }
        last = found;
    }
}
