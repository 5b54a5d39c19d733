//! The configurations of rustls: TLS 1.3, a certificate on both sides, nothing that outlives a connection.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConfig, Resumption};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoServerSessionStorage, ServerConfig};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    AlertDescription, DigitallySignedStruct, DistinguishedName, Error, InvalidMessage, PeerIncompatible,
    SignatureScheme,
};

/// The algorithms of TLS, the cheapest cipher first: 128 bits of AES are out of reach, and the processor does them fastest.
pub(crate) fn provider() -> CryptoProvider {
    CryptoProvider {
        cipher_suites: vec![
            ring::cipher_suite::TLS13_AES_128_GCM_SHA256,
            ring::cipher_suite::TLS13_AES_256_GCM_SHA384,
            ring::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        ],
        ..ring::default_provider()
    }
}

/// The algorithms by which certificates are signed.
pub(crate) fn algorithms() -> WebPkiSupportedAlgorithms {
    ring::default_provider().signature_verification_algorithms
}

/// The configuration for connections that are accepted.
pub(crate) fn server_config(own: &Arc<CertifiedKey>) -> Result<ServerConfig, Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(Arc::new(Possession))
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(CertifiedKey::clone(own))));
    // A session that is resumed would be one whose certificate was judged when it was good.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// The configuration for connections that are made.
pub(crate) fn client_config(own: &Arc<CertifiedKey>) -> Result<ClientConfig, Error> {
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Possession))
        .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(CertifiedKey::clone(own))));
    config.resumption = Resumption::disabled();
    // A node is known by the identity of its certificate: where it is found says nothing, and is nothing to tell others on the way.
    config.enable_sni = false;
    Ok(config)
}

/// Verifies that a peer has the key of the certificate that it shows. Whether the certificate is good is judged right behind the handshake
/// ([`Trust::judge`](crate::Trust::judge)), before anything else of the connection is read, so that a refusal can be told in words.
#[derive(Debug)]
struct Possession;

impl Possession {
    fn signature(
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &algorithms())
    }

    /// TLS 1.2 is not offered, so it is never asked for.
    fn no_earlier_version() -> Result<HandshakeSignatureValid, Error> {
        Err(Error::PeerIncompatible(PeerIncompatible::Tls12NotOffered))
    }
}

impl ServerCertVerifier for Possession {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Possession::no_earlier_version()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Possession::signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        algorithms().supported_schemes()
    }
}

impl ClientCertVerifier for Possession {
    /// A peer without a certificate is refused in words as well.
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Possession::no_earlier_version()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Possession::signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        algorithms().supported_schemes()
    }
}

/// Why a handshake has failed, in words for an operator.
pub fn explain(error: &std::io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    match inner {
        Some(Error::InvalidMessage(
            InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
        )) => "the other side does not speak TLS: it is a node without [tls], or no node at all".to_owned(),
        Some(Error::AlertReceived(alert)) => {
            format!("the other side refuses the handshake of TLS: {}", told(*alert))
        }
        Some(Error::PeerIncompatible(reason)) => {
            format!(
                "the other side does not speak TLS 1.3, or shares no algorithm with this one ({reason:?})"
            )
        }
        Some(other) => format!("the handshake of TLS has failed: {other}"),
        None if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            "the other side closed the connection during the handshake of TLS".to_owned()
        }
        None => error.to_string(),
    }
}

/// An alert in words.
fn told(alert: AlertDescription) -> String {
    let words = match alert {
        AlertDescription::CertificateRequired => "it wants a certificate",
        AlertDescription::BadCertificate | AlertDescription::CertificateUnknown => {
            "it does not accept the certificate"
        }
        AlertDescription::CertificateExpired => "the certificate has expired",
        AlertDescription::CertificateRevoked => "the certificate was revoked",
        AlertDescription::UnknownCA => "another authority has signed the certificate",
        AlertDescription::DecryptError => "the key does not belong to the certificate",
        AlertDescription::ProtocolVersion => "it wants another version of TLS",
        AlertDescription::HandshakeFailure => "no algorithm is shared",
        other => return format!("{other:?}"),
    };
    words.to_owned()
}
