//! The certificates of a node, and plain text.

use std::net::IpAddr;
use std::path::PathBuf;

use quorate_certificates::Files;

/// The certificates of a node: every connection of it is secured by TLS. `quorate server --print-config` documents them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsOptions {
    /// The authorities that are believed.
    pub ca: PathBuf,
    /// The certificate of the node.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The serial numbers of certificates that are not believed any more.
    pub revoked: Option<PathBuf>,
}

/// A certificate with its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPair {
    /// The certificate.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

impl TlsOptions {
    /// The files of the node.
    pub fn files(&self) -> Files {
        self.files_of(&KeyPair { certificate: self.certificate.clone(), key: self.key.clone() })
    }

    /// The files of somebody else who believes the same authorities.
    pub fn files_of(&self, pair: &KeyPair) -> Files {
        let KeyPair { certificate, key } = pair.clone();
        Files { ca: self.ca.clone(), certificate, key, revoked: self.revoked.clone() }
    }
}

/// True if only programs of this machine reach a listener at this address, `host:port`.
pub(crate) fn is_loopback(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_told_from_addresses_that_others_reach() {
        for address in ["127.0.0.1:7400", "127.9.9.9:1", "[::1]:7400", "localhost:7400"] {
            assert!(is_loopback(address), "{address}");
        }
        for address in [
            "0.0.0.0:7400",
            "[::]:7400",
            "10.0.0.1:7400",
            "db1:7400",
            "localhost.example.com:1",
            "127.0.0.1.example.com:1",
        ] {
            assert!(!is_loopback(address), "{address}");
        }
    }
}
