//! Rights, and where a grant gives them.

use std::fmt;
use std::str::FromStr;

use quorate_codec::field::{BoundBytes, Optional, Packed, Text};
use quorate_codec::{choices, message};
use quorate_core::Key;
use quorate_core::topology::KEYSPACE_NAME_BYTES_MAX;
use quorate_core::transaction::KEY_BYTES_MAX;

/// The name that grants of channels have in place of a keyspace's. No keyspace begins with an underscore.
pub const CHANNELS: &str = "_channels";

/// Something that a user may be allowed to do in a keyspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Right {
    /// To read keys.
    Read,
    /// To write keys; and to read them, because what a write is answered tells what was there.
    Write,
    /// To deploy and to remove procedures.
    Deploy,
    /// To coordinate transactions with the native client. A coordinator reads and writes as it likes.
    Coordinate,
    /// To create, change and drop the keyspace. In all keyspaces: to administer the cluster, and users with it.
    Administer,
}

choices!(Right {
    1 "read" [Right::Read],
    2 "write" [Right::Write],
    3 "deploy" [Right::Deploy],
    4 "coordinate" [Right::Coordinate],
    5 "administer" [Right::Administer],
});

impl Right {
    /// All of them.
    pub const ALL: [Right; 5] =
        [Right::Read, Right::Write, Right::Deploy, Right::Coordinate, Right::Administer];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Right::Read => "read",
            Right::Write => "write",
            Right::Deploy => "deploy",
            Right::Coordinate => "coordinate",
            Right::Administer => "administer",
        }
    }

    /// True if a grant of this right also gives that one.
    pub fn includes(self, other: Right) -> bool {
        self == other || (self, other) == (Right::Write, Right::Read)
    }

    /// True if it is about keys, so that a grant may be limited to those with a prefix.
    fn is_about_keys(self) -> bool {
        matches!(self, Right::Read | Right::Write)
    }
}

impl fmt::Display for Right {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// Rights that are given, and where. As text: `read,write:accounts:app/`, with `*` for all keyspaces.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Grant {
    /// The rights, ascending.
    pub rights: Vec<Right>,
    /// The keyspace by its name, or [`CHANNELS`]; none for all of them.
    pub keyspace: Option<String>,
    /// The beginning of the keys that it is about; empty for all.
    pub prefix: Key,
}

message!(Grant, "access.Grant", {
    1 rights: Packed,
    2 keyspace: Optional<Text>,
    3 prefix: BoundBytes,
});

/// A text is no grant, or a grant makes no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidGrant(String);

impl fmt::Display for InvalidGrant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0)
    }
}

impl std::error::Error for InvalidGrant {}

impl Grant {
    /// These rights in a keyspace, or in all of them.
    pub fn new(rights: impl IntoIterator<Item = Right>, keyspace: Option<&str>) -> Self {
        let mut rights: Vec<Right> = rights.into_iter().collect();
        rights.sort_unstable();
        rights.dedup();
        Grant { rights, keyspace: keyspace.map(str::to_owned), prefix: Key::default() }
    }

    /// The same rights for keys that begin like this.
    #[must_use]
    pub fn with_prefix(self, prefix: impl AsRef<[u8]>) -> Self {
        Grant { prefix: Key::copy_from_slice(prefix.as_ref()), ..self }
    }

    /// True if it gives a right, wherever.
    pub(crate) fn gives(&self, right: Right) -> bool {
        self.rights.iter().any(|given| given.includes(right))
    }

    /// True if it is about a keyspace.
    pub(crate) fn is_about(&self, keyspace: &str) -> bool {
        self.keyspace.as_deref().is_none_or(|name| name == keyspace)
    }

    /// Refuses a grant that makes no sense.
    ///
    /// # Errors
    /// It gives nothing, names no keyspace, or has a prefix where none can be.
    pub fn validate(&self) -> Result<(), InvalidGrant> {
        let wrong = |what: &str| Err(InvalidGrant(format!("the grant {self}: {what}")));
        if self.rights.is_empty() {
            return wrong("it gives no right");
        }
        if !self.rights.is_sorted_by(|one, next| one < next) {
            return wrong("its rights are not ascending");
        }
        if self.prefix.len() > KEY_BYTES_MAX {
            return wrong("its prefix is longer than a key");
        }
        if !self.prefix.is_empty() && !self.rights.iter().all(|right| right.is_about_keys()) {
            return wrong("a prefix limits read and write alone: grant the other rights without one");
        }
        let Some(name) = &self.keyspace else { return Ok(()) };
        if name == CHANNELS {
            let is_sound = self.rights.iter().all(|right| right.is_about_keys());
            return if is_sound { Ok(()) } else { wrong("channels are read and written, and nothing else") };
        }
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let begins = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic());
        if !begins || name.len() > KEYSPACE_NAME_BYTES_MAX || !name.bytes().all(allowed) {
            return wrong("this is no name of a keyspace: it is one, * for all, or _channels");
        }
        Ok(())
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, right) in self.rights.iter().enumerate() {
            write!(formatter, "{}{right}", if at == 0 { "" } else { "," })?;
        }
        write!(formatter, ":{}", self.keyspace.as_deref().unwrap_or("*"))?;
        if !self.prefix.is_empty() {
            write!(formatter, ":{}", self.prefix.as_slice().escape_ascii())?;
        }
        Ok(())
    }
}

impl FromStr for Grant {
    type Err = InvalidGrant;

    fn from_str(text: &str) -> Result<Self, InvalidGrant> {
        const FORM: &str =
            "a grant is RIGHTS:KEYSPACE or RIGHTS:KEYSPACE:PREFIX, as in read,write:accounts or read:*";
        let Some((rights, place)) = text.split_once(':') else {
            return Err(InvalidGrant(format!("{text:?} names no keyspace: {FORM}")));
        };
        let mut given = Vec::new();
        for name in rights.split(',') {
            let Some(right) = Right::ALL.into_iter().find(|right| right.name() == name) else {
                let names = Right::ALL.map(Right::name).join(", ");
                return Err(InvalidGrant(format!("{name:?} is no right; there are {names}. {FORM}")));
            };
            given.push(right);
        }
        let (keyspace, prefix) = place.split_once(':').unwrap_or((place, ""));
        let grant = Grant::new(given, (keyspace != "*").then_some(keyspace)).with_prefix(unescape(prefix)?);
        grant.validate()?;
        Ok(grant)
    }
}

/// The bytes of a prefix, in which `\xNN` stands for a byte, and `\\` for a backslash, as [`Grant`] is printed.
fn unescape(text: &str) -> Result<Vec<u8>, InvalidGrant> {
    let wrong = || {
        InvalidGrant(format!(
            "the prefix {text:?}: a backslash begins \\\\, \\n, \\r, \\t, \\', \\\" or \\x with two hexadecimal digits"
        ))
    };
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, behind @ ..] = rest {
        rest = behind;
        if *byte != b'\\' {
            bytes.push(*byte);
            continue;
        }
        let [kind, behind @ ..] = rest else { return Err(wrong()) };
        rest = behind;
        bytes.push(match kind {
            b'\\' | b'\'' | b'"' => *kind,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'x' => {
                let Some((digits, behind)) = rest.split_at_checked(2) else { return Err(wrong()) };
                rest = behind;
                let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
                let is_sound = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
                u8::from_str_radix(digits, 16).ok().filter(|_| is_sound).ok_or_else(wrong)?
            }
            _ => return Err(wrong()),
        });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn write_includes_read_and_nothing_else_includes_anything() {
        for one in Right::ALL {
            for other in Right::ALL {
                let expected = one == other || one == Right::Write && other == Right::Read;
                assert_eq!(one.includes(other), expected, "{one} {other}");
            }
        }
    }

    #[test]
    fn grants_are_read_as_they_are_printed() {
        for text in [
            "read:accounts",
            "read,write:accounts:app/",
            "administer:*",
            "read,write,deploy,coordinate,administer:*",
            "read:*:a:b",
            "write:_channels:news.",
            r"read:accounts:\x00\xff\\\n",
        ] {
            let grant: Grant = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(grant.to_string(), text);
        }
        let grant: Grant = "write,read,write:*".parse().unwrap();
        assert_eq!(grant, Grant::new([Right::Read, Right::Write], None));
    }

    #[test]
    fn a_text_that_is_no_grant_is_refused_with_its_fault() {
        for (text, what) in [
            ("read", "names no keyspace"),
            ("", "names no keyspace"),
            ("reed:a", "\"reed\" is no right"),
            (":a", "\"\" is no right"),
            ("read,:a", "\"\" is no right"),
            ("read:", "no name of a keyspace"),
            ("read:_system", "no name of a keyspace"),
            ("read:a/b", "no name of a keyspace"),
            ("administer:a:p", "a prefix limits"),
            ("coordinate:_channels", "channels are read and written"),
            (r"read:a:\", "a backslash begins"),
            (r"read:a:\x+f", "a backslash begins"),
            (r"read:a:\x1", "a backslash begins"),
            (r"read:a:\q", "a backslash begins"),
        ] {
            let error = text.parse::<Grant>().unwrap_err().to_string();
            assert!(error.contains(what), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,40}") {
            if let Ok(grant) = text.parse::<Grant>() {
                prop_assert_eq!(grant.to_string().parse::<Grant>(), Ok(grant));
            }
        }

        #[test]
        fn any_prefix_is_read_as_it_is_printed(prefix in proptest::collection::vec(any::<u8>(), 0..20)) {
            let grant = Grant::new([Right::Read], Some("accounts")).with_prefix(prefix);
            prop_assert_eq!(grant.to_string().parse::<Grant>(), Ok(grant));
        }
    }
}
