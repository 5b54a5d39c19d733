//! The peer that a certificate names: a node with its number, or a user, of one cluster.
//!
//! The form is a URI among the subject alternative names, which every tool for certificates can write: `quorate://CLUSTER/node/NUMBER` or
//! `quorate://CLUSTER/user/NAME`. Characters of names that a URI cannot have are written as `%` and two hexadecimal digits.

use std::fmt;
use std::str::FromStr;

use quorate_core::NodeId;

/// The scheme of identities.
pub(crate) const SCHEME: &str = "quorate://";

/// The longest name of a user, in bytes.
const USER_BYTES_MAX: usize = 64;

/// The identity that a certificate states.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// The name of the cluster.
    pub cluster: String,
    /// The node or user of that cluster.
    pub subject: Subject,
}

/// A node or a user.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// The node of this number.
    Node(NodeId),
    /// The user of this name.
    User(String),
}

/// Why a text is no identity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// It has another form.
    #[error("\"{0}\" is no identity: write quorate://CLUSTER/node/NUMBER or quorate://CLUSTER/user/NAME")]
    Form(String),
    /// No user can be called so.
    #[error(
        "\"{0}\" is no name of a user: 1 to {USER_BYTES_MAX} letters, digits and characters of \"._@-\" are"
    )]
    User(String),
    /// No cluster can be called so.
    #[error("the name of the cluster is empty")]
    Cluster,
}

impl Identity {
    /// The identity of a node.
    ///
    /// # Errors
    /// The name of the cluster is none.
    pub fn node(cluster: &str, node: NodeId) -> Result<Self, IdentityError> {
        Identity { cluster: cluster.to_owned(), subject: Subject::Node(node) }.validated()
    }

    /// The identity of a user.
    ///
    /// # Errors
    /// The name of the cluster or that of the user is none.
    pub fn user(cluster: &str, name: &str) -> Result<Self, IdentityError> {
        Identity { cluster: cluster.to_owned(), subject: Subject::User(name.to_owned()) }.validated()
    }

    fn validated(self) -> Result<Self, IdentityError> {
        if self.cluster.is_empty() {
            return Err(IdentityError::Cluster);
        }
        if let Subject::User(name) = &self.subject {
            let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._@-".contains(&byte);
            if !(1..=USER_BYTES_MAX).contains(&name.len()) || !name.bytes().all(is_allowed) {
                return Err(IdentityError::User(name.clone()));
            }
        }
        Ok(self)
    }

    /// The identity as a URI.
    pub fn to_uri(&self) -> String {
        let cluster = escape(&self.cluster);
        match &self.subject {
            Subject::Node(node) => format!("{SCHEME}{cluster}/node/{}", node.0),
            Subject::User(name) => format!("{SCHEME}{cluster}/user/{}", escape(name)),
        }
    }
}

impl FromStr for Identity {
    type Err = IdentityError;

    fn from_str(uri: &str) -> Result<Self, IdentityError> {
        let form = || IdentityError::Form(uri.to_owned());
        let parts: Vec<&str> = uri.strip_prefix(SCHEME).ok_or_else(form)?.split('/').collect();
        let [cluster, kind, name] = parts[..] else { return Err(form()) };
        let cluster = unescape(cluster).ok_or_else(form)?;
        let identity = match kind {
            "node" => Identity::node(&cluster, NodeId(name.parse().map_err(|_| form())?))?,
            "user" => Identity::user(&cluster, &unescape(name).ok_or_else(form)?)?,
            _ => return Err(form()),
        };
        // One identity has one spelling: `node/03` and `%61lice` would be others for what logs and lists call by one name.
        if identity.to_uri() == uri { Ok(identity) } else { Err(form()) }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} of cluster \"{}\"", self.subject, self.cluster)
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Node(node) => write!(formatter, "{node}"),
            Subject::User(name) => write!(formatter, "user {name}"),
        }
    }
}

fn escape(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'~' | b'-' | b'@' => {
                escaped.push(char::from(byte))
            }
            other => escaped.push_str(&format!("%{other:02X}")),
        }
    }
    escaped
}

fn unescape(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut name = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        name.push(match byte {
            b'%' => u8::try_from(digit(bytes.next())? * 16 + digit(bytes.next())?).ok()?,
            other => other,
        });
    }
    String::from_utf8(name).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_and_their_uris_are_one_to_one() {
        let table = [
            (Identity::node("shop", NodeId(3)), "quorate://shop/node/3"),
            (Identity::user("shop", "alice@example.com"), "quorate://shop/user/alice@example.com"),
            (Identity::user("größer als/alle", "bob"), "quorate://gr%C3%B6%C3%9Fer%20als%2Falle/user/bob"),
        ];
        for (identity, uri) in table {
            let identity = identity.unwrap();
            assert_eq!(identity.to_uri(), uri);
            assert_eq!(uri.parse(), Ok(identity));
        }
    }

    #[test]
    fn a_text_of_another_form_is_no_identity() {
        for uri in [
            "",
            "https://shop/node/3",
            "quorate://shop/node",
            "quorate://shop/node/3/4",
            "quorate://shop/node/03",
            "quorate://shop/node/-1",
            "quorate://shop/node/65536",
            "quorate:///node/3",
            "quorate://shop/user/",
            "quorate://shop/user/%61lice",
            "quorate://shop/user/a b",
            "quorate://shop/user/a%20b",
            "quorate://sh%6/node/3",
            "quorate://sh%ff/node/3",
            "quorate://shop/replica/3",
        ] {
            assert!(uri.parse::<Identity>().is_err(), "{uri}");
        }
        let long = "a".repeat(65);
        assert_eq!(Identity::user("shop", &long), Err(IdentityError::User(long)));
        assert_eq!(Identity::node("", NodeId(0)), Err(IdentityError::Cluster));
    }
}
