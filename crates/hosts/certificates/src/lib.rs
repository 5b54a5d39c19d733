//! Certificates: the identity that each states, the authorities that are believed, and how both are renewed while a process runs.
//!
//! ```text
//!   files ──load──▶ Trust ──▶ configurations of rustls, for connections that are accepted and those that are made
//!                     │  ▲
//!            a thread watches the files         a peer proves that it has the key of a certificate (TLS 1.3)
//!                                                            │
//!                                                Trust::judge: valid now, of an authority that is believed, not revoked,
//!                                                of this cluster ──▶ Certified: a node with its number, or a user with a name
//! ```
//!
//! A certificate states one [`Identity`], as a URI in its subject alternative names: `quorate://shop/node/3`, `quorate://shop/user/alice`
//! (ADR 0072). The number of a node counts, and not the address at which it is found: a name of a host proves nothing about which replica speaks.
//!
//! The handshake proves that a peer has the key of its certificate, and nothing else. The certificate itself is judged right behind it, before
//! anything that the peer says is looked at: so a refusal is told to the peer in words, over the connection that the handshake has secured, where an
//! alert of TLS would be a number.
//!
//! | file | role |
//! |---|---|
//! | `identity` | the peer that a certificate names |
//! | `certificate` | the facts of a certificate that people and judgement need |
//! | `der`, `date` | the fields of a certificate that no library shows |
//! | `material` | certificates, keys, authorities and revocations, read from files |
//! | `handshake` | the configurations of rustls |
//! | `judgement` | whether a certificate is good, and why not |
//! | `trust` | all of this as a process holds it, and renews it |
//! | `create` | authorities and certificates, made |

mod certificate;
#[cfg(feature = "create")]
pub mod create;
mod date;
mod der;
mod handshake;
mod identity;
mod judgement;
mod material;
mod trust;

#[cfg(test)]
mod tests;

pub use certificate::Certificate;
pub use date::Date;
pub use handshake::explain;
pub use identity::{Identity, IdentityError, Subject};
pub use judgement::{Certified, Refusal, Side};
pub use material::{Files, Purpose, TrustError, read_certificates};
pub use trust::{Renewal, Trust};
