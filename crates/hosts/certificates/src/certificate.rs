//! The facts of a certificate that people and judgement need.

use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

use crate::date::Date;
use crate::der::{self, Fields};
use crate::identity::{Identity, SCHEME};

/// A certificate, as far as messages, lists and judgement are concerned. Reading one does not say that it is good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The identity that it states; none if it states none, several, or one that is no identity.
    pub identity: Option<Identity>,
    /// The common name of its subject.
    pub subject: String,
    /// The common name of the authority that signed it.
    pub issuer: String,
    /// Its serial number, in hexadecimal digits, as revocations name it.
    pub serial: String,
    /// The moment from which it is valid.
    pub not_before: Date,
    /// The moment up to which it is valid.
    pub not_after: Date,
    /// The names of hosts that it is valid for, for programs that look at them.
    pub hosts: Vec<String>,
}

impl Certificate {
    /// Reads a certificate; none if it is not one.
    pub fn read(certificate: &CertificateDer<'_>) -> Option<Certificate> {
        let parsed = EndEntityCert::try_from(certificate).ok()?;
        let Fields { issuer, subject, not_before, not_after } = der::fields(certificate)?;
        let mut identities = parsed.valid_uri_names().filter(|uri| uri.starts_with(SCHEME));
        let identity = match (identities.next(), identities.next()) {
            (Some(uri), None) => uri.parse().ok(),
            // Which of several is meant could be seen differently by two readers.
            _ => None,
        };
        let hosts = parsed.valid_dns_names().map(str::to_owned).collect();
        Some(Certificate {
            identity,
            subject,
            issuer,
            serial: hexadecimal(parsed.serial()),
            not_before,
            not_after,
            hosts,
        })
    }

    /// The certificate in a few words: its identity, or its subject if it states none, and its serial number.
    pub fn describe(&self) -> String {
        match &self.identity {
            Some(identity) => format!("the certificate of {identity} (serial {})", self.serial),
            None => format!("the certificate \"{}\" (serial {})", self.subject, self.serial),
        }
    }
}

/// A serial number as revocations have it: hexadecimal digits in lower case, without zeros in front.
fn hexadecimal(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    normalized(&digits)
}

/// Digits without the zeros in front.
pub(crate) fn normalized(digits: &str) -> String {
    let trimmed = digits.trim_start_matches('0');
    if trimmed.is_empty() { "0".to_owned() } else { trimmed.to_ascii_lowercase() }
}
