//! Whether the certificate of a peer is good, and why not.

use rustls::pki_types::{CertificateDer, UnixTime};
use webpki::{EndEntityCert, Error, KeyUsage};

use crate::certificate::Certificate;
use crate::date::Date;
use crate::identity::Identity;
use crate::material::Material;

/// The part that a peer takes in a connection: a certificate says for which of them it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The peer has accepted the connection.
    Accepts,
    /// The peer has made the connection.
    Connects,
}

/// A certificate that was found to be good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certified {
    /// The identity that it states.
    pub identity: Identity,
    /// Its serial number.
    pub serial: String,
    /// The moment up to which it is valid.
    pub not_after: Date,
}

/// Why a certificate is refused. The text names it, says what is wrong, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The peer has shown none.
    #[error(
        "no certificate was shown: a certificate and its key are needed, which `quorate certificates create-user` makes"
    )]
    Missing,
    /// It is no certificate.
    #[error("what was shown is no certificate that can be read")]
    Malformed,
    /// Its time is over.
    #[error("{certificate} expired at {since}: make a new one with `quorate certificates`")]
    Expired {
        /// The certificate.
        certificate: String,
        /// The end of its time.
        since: Date,
    },
    /// Its time has not begun.
    #[error("{certificate} is not valid before {from}: check the clocks of both machines")]
    NotYetValid {
        /// The certificate.
        certificate: String,
        /// The beginning of its time.
        from: Date,
    },
    /// Another authority has signed it.
    #[error(
        "{certificate} was signed by another authority than the ones that are believed here (it names \"{issuer}\"; believed: {believed})"
    )]
    Foreign {
        /// The certificate.
        certificate: String,
        /// The authority that it names.
        issuer: String,
        /// The authorities that are believed.
        believed: String,
    },
    /// It was revoked.
    #[error("{certificate} was revoked")]
    Revoked {
        /// The certificate.
        certificate: String,
    },
    /// It states no identity.
    #[error(
        "{certificate} states no identity, or several: one of the form quorate://CLUSTER/node/NUMBER or quorate://CLUSTER/user/NAME is needed"
    )]
    NoIdentity {
        /// The certificate.
        certificate: String,
    },
    /// It is of another cluster.
    #[error("{certificate} is of another cluster than \"{cluster}\"")]
    OtherCluster {
        /// The certificate.
        certificate: String,
        /// The cluster.
        cluster: String,
    },
    /// It is made for the other side of a connection.
    #[error("{certificate} is not made for {side}")]
    Use {
        /// The certificate.
        certificate: String,
        /// The side on which it is used.
        side: &'static str,
    },
    /// Something else is wrong with it.
    #[error("{certificate} is not valid: {reason}")]
    Invalid {
        /// The certificate.
        certificate: String,
        /// The flaw.
        reason: String,
    },
}

impl Material {
    /// Judges the certificates that a peer has shown, its own first.
    ///
    /// # Errors
    /// They are not good, for the reason that the refusal states.
    pub(crate) fn judge(
        &self,
        shown: Option<&[CertificateDer<'_>]>,
        side: Side,
        cluster: Option<&str>,
        now: Date,
    ) -> Result<Certified, Refusal> {
        let Some((own, between)) = shown.and_then(<[_]>::split_first) else { return Err(Refusal::Missing) };
        let certificate = Certificate::read(own).ok_or(Refusal::Malformed)?;
        let described = certificate.describe();
        self.verify_chain(own, between, side, now)
            .map_err(|error| self.refusal(error, &certificate, side))?;
        if self.revoked.contains(&certificate.serial) {
            return Err(Refusal::Revoked { certificate: described });
        }
        let Certificate { identity, serial, not_after, .. } = certificate;
        let Some(identity) = identity else { return Err(Refusal::NoIdentity { certificate: described }) };
        if let Some(cluster) = cluster.filter(|cluster| *cluster != identity.cluster) {
            return Err(Refusal::OtherCluster { certificate: described, cluster: cluster.to_owned() });
        }
        Ok(Certified { identity, serial, not_after })
    }

    /// Judges a certificate again that was good when its connection began.
    ///
    /// # Errors
    /// It has expired since, or was revoked.
    pub(crate) fn judge_again(&self, certified: &Certified, now: Date) -> Result<(), Refusal> {
        let certificate =
            || format!("the certificate of {} (serial {})", certified.identity, certified.serial);
        if self.revoked.contains(&certified.serial) {
            return Err(Refusal::Revoked { certificate: certificate() });
        }
        if certified.not_after < now {
            return Err(Refusal::Expired { certificate: certificate(), since: certified.not_after });
        }
        Ok(())
    }

    fn verify_chain(
        &self,
        own: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        side: Side,
        now: Date,
    ) -> Result<(), Error> {
        let now =
            UnixTime::since_unix_epoch(std::time::Duration::from_secs(u64::try_from(now.0).unwrap_or(0)));
        let usage = match side {
            Side::Accepts => KeyUsage::server_auth(),
            Side::Connects => KeyUsage::client_auth(),
        };
        let algorithms = crate::handshake::algorithms().all;
        EndEntityCert::try_from(own)?
            .verify_for_usage(algorithms, &self.authorities, between, now, usage, None, None)
            .map(|_| ())
    }

    fn refusal(&self, error: Error, certificate: &Certificate, side: Side) -> Refusal {
        let described = certificate.describe();
        match error {
            // Those of the certificate itself: one between it and the authority may be the one that has expired.
            Error::CertExpired { not_after, .. } => {
                Refusal::Expired { certificate: described, since: Date(signed(not_after)) }
            }
            Error::CertNotValidYet { not_before, .. } => {
                Refusal::NotYetValid { certificate: described, from: Date(signed(not_before)) }
            }
            // An authority of the same name with another key is another one.
            Error::UnknownIssuer | Error::InvalidSignatureForPublicKey => Refusal::Foreign {
                certificate: described,
                issuer: certificate.issuer.clone(),
                believed: self.names.join(", "),
            },
            Error::RequiredEkuNotFoundContext(_) => Refusal::Use {
                certificate: described,
                side: match side {
                    Side::Accepts => "a node, which accepts connections",
                    Side::Connects => "making connections",
                },
            },
            other => Refusal::Invalid { certificate: described, reason: other.to_string() },
        }
    }
}

fn signed(time: UnixTime) -> i64 {
    i64::try_from(time.as_secs()).unwrap_or(i64::MAX)
}
