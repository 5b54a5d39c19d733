//! Users, roles and tokens as entries of the configuration service's map.
//!
//! | key | value |
//! |---|---|
//! | `user/<name>` | the [`User`], encoded |
//! | `role/<name>` | the [`Role`], encoded |
//! | `token/<id>` | the [`Token`], encoded, under the first bytes of its hash in hexadecimal digits |

use std::collections::BTreeSet;
use std::fmt;

use quorate_codec::field::{Nested, Optional, Repeated, Text, ValueBytes, Varint};
use quorate_codec::{DecodeError, Wire, decode, message};
use quorate_core::{ClockTime, Key, KeyRange, Value};

use crate::right::{Grant, InvalidGrant};

/// The longest name of a user, a role or a certificate, in bytes.
pub const NAME_BYTES_MAX: usize = 128;

/// The length of the salt of a password, in bytes,
pub const SALT_BYTES: usize = 16;

/// and that of every hash.
const HASH_BYTES: usize = 32;

/// The most memory that a password may ask a door for, in kibibytes, and the most passes and lanes: a careless entry must not stop a door.
const MEMORY_KIB_MAX: u32 = 1024 * 1024;
const PASSES_MAX: u32 = 64;
const LANES_MAX: u32 = 16;

/// The most grants of a user or a role, and the most roles or certificates of a user.
const LIST_MAX: usize = 256;

/// The longest note of a token, in bytes.
const NOTE_BYTES_MAX: usize = 256;

const USER: &str = "user/";
const ROLE: &str = "role/";
const TOKEN: &str = "token/";

/// The bounds of the keys of users, of roles and of tokens: '0' follows '/'.
pub const USER_RANGE: (&str, &str) = (USER, "user0");
/// Those of roles.
pub const ROLE_RANGE: (&str, &str) = (ROLE, "role0");
/// Those of tokens.
pub const TOKEN_RANGE: (&str, &str) = (TOKEN, "token0");

/// The range of keys between these bounds.
pub(crate) fn range((from, to): (&str, &str)) -> KeyRange {
    KeyRange { from: Key::from(from), to: Some(Key::from(to)) }
}

/// The range of the keys of all users.
pub fn user_range() -> KeyRange {
    range(USER_RANGE)
}

/// A password, as Argon2id (RFC 9106, version 1.3) has hashed it.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash {
    /// The memory that it takes, in kibibytes.
    pub memory_kib: u32,
    /// How often it goes over that.
    pub passes: u32,
    /// How many lanes it has.
    pub lanes: u32,
    /// The salt: [`SALT_BYTES`] random bytes.
    pub salt: Value,
    /// The hash.
    pub hash: Value,
}

message!(PasswordHash, "access.PasswordHash", {
    1 memory_kib: Varint,
    2 passes: Varint,
    3 lanes: Varint,
    4 salt: ValueBytes,
    5 hash: ValueBytes,
});

/// A hash is no secret of the first rank, and has nothing to do in a log either.
impl fmt::Debug for PasswordHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PasswordHash").finish_non_exhaustive()
    }
}

/// The bounds of one user at each door; none where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserLimits {
    /// Requests in a second.
    pub requests_per_second: Option<u32>,
    /// Bytes of requests in a second.
    pub bytes_per_second: Option<u64>,
    /// Transactions that are open at a time.
    pub open_transactions: Option<u32>,
    /// Connections at a time.
    pub connections: Option<u32>,
}

message!(UserLimits, "access.UserLimits", {
    1 requests_per_second: Optional<Varint>,
    2 bytes_per_second: Optional<Varint>,
    3 open_transactions: Optional<Varint>,
    4 connections: Optional<Varint>,
});

/// A user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Its name, as its key has it.
    pub name: String,
    /// Its password, if it has one.
    pub password: Option<PasswordHash>,
    /// The names of the certificates that it may come with.
    pub certificates: Vec<String>,
    /// Its roles, by name. One that is not there gives nothing.
    pub roles: Vec<String>,
    /// Its own grants, beside those of its roles.
    pub grants: Vec<Grant>,
    /// Its limits.
    pub limits: UserLimits,
    /// It may not do anything for now.
    pub is_disabled: bool,
}

message!(User, "access.User", {
    1 name: Text,
    2 password: Optional<Nested>,
    3 certificates: Repeated<Text>,
    4 roles: Repeated<Text>,
    5 grants: Repeated<Nested>,
    6 limits: Nested,
    7 is_disabled: Varint,
});

impl User {
    /// A user without a credential and without rights.
    pub fn new(name: &str) -> Self {
        User {
            name: name.to_owned(),
            password: None,
            certificates: Vec::new(),
            roles: Vec::new(),
            grants: Vec::new(),
            limits: UserLimits::default(),
            is_disabled: false,
        }
    }
}

/// A role: grants that users share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// Its name, as its key has it.
    pub name: String,
    /// Its grants.
    pub grants: Vec<Grant>,
}

message!(Role, "access.Role", {
    1 name: Text,
    2 grants: Repeated<Nested>,
});

/// The name of a token: the first bytes of its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenId(pub u64);

impl TokenId {
    /// That of the token with this hash.
    pub fn of(hash: &[u8; HASH_BYTES]) -> Self {
        let [first, ..] = hash.as_chunks::<8>().0 else { return TokenId(0) };
        TokenId(u64::from_be_bytes(*first))
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}

impl std::str::FromStr for TokenId {
    type Err = InvalidEntry;

    fn from_str(text: &str) -> Result<Self, InvalidEntry> {
        let is_sound = text.len() == 16 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        let id = u64::from_str_radix(text, 16).ok().filter(|_| is_sound);
        id.map(TokenId).ok_or_else(|| {
            InvalidEntry(format!("{text:?} is no token's id: 16 hexadecimal digits, as token list shows"))
        })
    }
}

/// A bearer token. A client that shows the token acts as its user.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// Its user, by name.
    pub user: String,
    /// The SHA-256 of the token.
    pub hash: Value,
    /// When it was made, by the clock of the client that made it: for people.
    pub created_at: ClockTime,
    /// From when on it is worth nothing, by the clock of the door that it is shown to; none if it is worth something until it is revoked.
    pub expires_at: Option<ClockTime>,
    /// A note of it, for people.
    pub note: String,
}

message!(Token, "access.Token", {
    1 user: Text,
    2 hash: ValueBytes,
    3 created_at: Varint,
    4 expires_at: Optional<Varint>,
    5 note: Text,
});

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Token")
            .field("user", &self.user)
            .field("note", &self.note)
            .finish_non_exhaustive()
    }
}

impl Token {
    /// Its name; none if its hash is none.
    pub fn id(&self) -> Option<TokenId> {
        Some(TokenId::of(self.hash.as_ref().try_into().ok()?))
    }
}

/// The key of a user.
pub fn user_key(name: &str) -> Key {
    Key::from(format!("{USER}{name}"))
}

/// The key of a role.
pub fn role_key(name: &str) -> Key {
    Key::from(format!("{ROLE}{name}"))
}

/// The key of a token.
pub fn token_key(id: TokenId) -> Key {
    Key::from(format!("{TOKEN}{id}"))
}

/// An entry makes no sense; says what is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidEntry(pub(crate) String);

impl fmt::Display for InvalidEntry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for InvalidEntry {}

impl From<InvalidGrant> for InvalidEntry {
    fn from(error: InvalidGrant) -> Self {
        InvalidEntry(error.to_string())
    }
}

impl From<DecodeError> for InvalidEntry {
    fn from(error: DecodeError) -> Self {
        InvalidEntry(error.to_string())
    }
}

/// Refuses what cannot be the name of a user or a role.
///
/// # Errors
/// It has other characters than letters, digits, `-`, `_`, `.` and `@`, does not begin with a letter or digit, or is too long.
pub fn validate_name(name: &str) -> Result<(), InvalidEntry> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.@".contains(&byte);
    let begins = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    if begins && name.len() <= NAME_BYTES_MAX && name.bytes().all(allowed) {
        return Ok(());
    }
    let shown: String = name.chars().take(NAME_BYTES_MAX).collect();
    Err(InvalidEntry(format!(
        "{shown:?} cannot be the name of a user or a role: it begins with a letter or a digit and goes on with these, -, _, . and @, up to \
         {NAME_BYTES_MAX} bytes"
    )))
}

fn wrong<T>(what: &str) -> Result<T, InvalidEntry> {
    Err(InvalidEntry(what.to_owned()))
}

fn validate_grants(grants: &[Grant]) -> Result<(), InvalidEntry> {
    if grants.len() > LIST_MAX {
        return wrong("there are more than 256 grants");
    }
    Ok(grants.iter().try_for_each(Grant::validate)?)
}

impl PasswordHash {
    /// Refuses what no door could or would compare a password with.
    ///
    /// # Errors
    /// It would take too much memory or time, or salt or hash have another length.
    pub fn validate(&self) -> Result<(), InvalidEntry> {
        let lengths = (self.salt.len(), self.hash.len());
        let is_bounded = (self.lanes.saturating_mul(8)..=MEMORY_KIB_MAX).contains(&self.memory_kib)
            && (1..=PASSES_MAX).contains(&self.passes)
            && (1..=LANES_MAX).contains(&self.lanes);
        match is_bounded && lengths == (SALT_BYTES, HASH_BYTES) {
            true => Ok(()),
            false => wrong("the password is hashed with parameters that no door takes"),
        }
    }
}

impl User {
    /// Refuses a user that makes no sense.
    ///
    /// # Errors
    /// A name, a grant or the password is none, or there are too many.
    pub fn validate(&self) -> Result<(), InvalidEntry> {
        validate_name(&self.name)?;
        if let Some(password) = &self.password {
            password.validate()?;
        }
        if self.roles.len().max(self.certificates.len()) > LIST_MAX {
            return wrong("a user has at most 256 roles and 256 certificates");
        }
        self.roles.iter().try_for_each(|role| validate_name(role))?;
        let is_certificate = |name: &String| (1..=NAME_BYTES_MAX).contains(&name.len());
        if !self.certificates.iter().all(is_certificate) {
            return wrong("the name of a certificate is empty or longer than 128 bytes");
        }
        let names: BTreeSet<_> = self.certificates.iter().collect();
        if names.len() < self.certificates.len()
            || self.roles.iter().collect::<BTreeSet<_>>().len() < self.roles.len()
        {
            return wrong("a role or a certificate is named twice");
        }
        validate_grants(&self.grants)
    }
}

impl Role {
    /// Refuses a role that makes no sense.
    ///
    /// # Errors
    /// Its name or a grant is none, or there are too many.
    pub fn validate(&self) -> Result<(), InvalidEntry> {
        validate_name(&self.name)?;
        validate_grants(&self.grants)
    }
}

impl Token {
    /// Refuses a token that makes no sense.
    ///
    /// # Errors
    /// The name of its user is none, its hash has another length, or its note is too long.
    pub fn validate(&self) -> Result<(), InvalidEntry> {
        validate_name(&self.user)?;
        if self.hash.len() != HASH_BYTES {
            return wrong("the hash of a token has 32 bytes");
        }
        if self.note.len() > NOTE_BYTES_MAX {
            return wrong("the note of a token has at most 256 bytes");
        }
        Ok(())
    }
}

/// An entry of access control.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A user.
    User(User),
    /// A role.
    Role(Role),
    /// A token.
    Token(Token),
}

impl Entry {
    /// True if a key is that of an entry of access control, sound or not.
    pub fn is_key(key: &[u8]) -> bool {
        [USER, ROLE, TOKEN].iter().any(|prefix| key.starts_with(prefix.as_bytes()))
    }

    /// The fault of a key of access control, whatever it holds.
    ///
    /// # Errors
    /// The text behind the kind is no name or id.
    pub fn validate_key(key: &Key) -> Result<(), InvalidEntry> {
        let text = std::str::from_utf8(key.as_slice()).unwrap_or_default();
        match text.split_once('/') {
            Some(("user" | "role", name)) => validate_name(name),
            Some(("token", id)) if token_key(id.parse()?) == *key => Ok(()),
            _ => wrong("it is no key of a user, a role or a token"),
        }
    }

    /// Reads what a key holds.
    ///
    /// # Errors
    /// It is none of access control, or the value makes no sense or belongs to another key.
    pub fn read(key: &Key, value: &Value) -> Result<Entry, InvalidEntry> {
        fn sound<T: Wire>(value: &Value) -> Result<T, InvalidEntry> {
            Ok(decode(value)?)
        }
        let (entry, own) = if key.starts_with(USER.as_bytes()) {
            let user: User = sound(value)?;
            user.validate()?;
            let own = user_key(&user.name);
            (Entry::User(user), Some(own))
        } else if key.starts_with(ROLE.as_bytes()) {
            let role: Role = sound(value)?;
            role.validate()?;
            let own = role_key(&role.name);
            (Entry::Role(role), Some(own))
        } else {
            let token: Token = sound(value)?;
            token.validate()?;
            let own = token.id().map(token_key);
            (Entry::Token(token), own)
        };
        match own == Some(key.clone()) {
            true => Ok(entry),
            false => wrong("a user, a role or a token has another name than its key"),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use quorate_codec::encode;

    use super::*;
    use crate::right::Right;

    pub(crate) fn password(salt: u8) -> PasswordHash {
        PasswordHash {
            memory_kib: 19_456,
            passes: 2,
            lanes: 1,
            salt: Value::copy_from_slice(&[salt; SALT_BYTES]),
            hash: Value::copy_from_slice(&[7; HASH_BYTES]),
        }
    }

    pub(crate) fn token(user: &str, number: u8) -> Token {
        Token {
            user: user.to_owned(),
            hash: Value::copy_from_slice(&[number; HASH_BYTES]),
            created_at: ClockTime::from_micros(5),
            expires_at: None,
            note: "for backups".to_owned(),
        }
    }

    #[test]
    fn entries_are_read_back() {
        let user = User {
            password: Some(password(1)),
            certificates: vec!["ada.example".to_owned()],
            roles: vec!["readers".to_owned()],
            grants: vec![Grant::new([Right::Write], Some("accounts")).with_prefix("app/")],
            limits: UserLimits { connections: Some(3), ..UserLimits::default() },
            is_disabled: true,
            ..User::new("ada")
        };
        assert_eq!(Entry::read(&user_key("ada"), &encode(&user)), Ok(Entry::User(user)));
        let role = Role { name: "readers".to_owned(), grants: vec![Grant::new([Right::Read], None)] };
        assert_eq!(Entry::read(&role_key("readers"), &encode(&role)), Ok(Entry::Role(role)));
        let token = token("ada", 1);
        let id = token.id().unwrap();
        assert_eq!(id.to_string(), "0101010101010101");
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(Entry::read(&token_key(id), &encode(&token)), Ok(Entry::Token(token)));
    }

    #[test]
    fn an_entry_that_makes_no_sense_is_refused() {
        let key = user_key("ada");
        let ada = || User::new("ada");
        let weak = |change: fn(&mut PasswordHash)| {
            let mut password = password(1);
            change(&mut password);
            User { password: Some(password), ..ada() }
        };
        let users = [
            User::new("bob"),
            User { roles: vec!["a/b".to_owned()], ..ada() },
            User { roles: vec!["a".to_owned(), "a".to_owned()], ..ada() },
            User { certificates: vec![String::new()], ..ada() },
            User { grants: vec![Grant::new([], None)], ..ada() },
            User { grants: vec![Grant::new([Right::Deploy], None).with_prefix("a")], ..ada() },
            User { grants: vec![Grant::new([Right::Read], None); LIST_MAX + 1], ..ada() },
            weak(|password| password.memory_kib = MEMORY_KIB_MAX + 1),
            weak(|password| password.memory_kib = 7),
            weak(|password| password.passes = 0),
            weak(|password| password.lanes = u32::MAX / 8),
            weak(|password| password.salt = Value::new()),
            weak(|password| password.hash = Value::from_static(b"short")),
        ];
        for user in users {
            assert!(Entry::read(&key, &encode(&user)).is_err(), "{user:?}");
        }
        assert!(Entry::read(&key, &Value::from_static(b"\xff")).is_err());
        let other = token("ada", 1);
        assert!(Entry::read(&token_key(TokenId(1)), &encode(&other)).is_err(), "it has another id");
        let short = Token { hash: Value::from_static(b"short"), ..token("ada", 1) };
        assert!(Entry::read(&token_key(TokenId(1)), &encode(&short)).is_err());
    }

    #[test]
    fn keys_as_a_table() {
        for (key, is_sound) in [
            ("user/ada", true),
            ("user/ada@example.com", true),
            ("role/readers", true),
            ("token/0000000000000001", true),
            ("user/", false),
            ("user/-x", false),
            ("user/a/b", false),
            ("user/ümlaut", false),
            ("token/1", false),
            ("token/000000000000000G", false),
            ("token/00000000000000AB", false),
            ("tokens/0000000000000001", false),
        ] {
            assert_eq!(Entry::validate_key(&Key::from(key)).is_ok(), is_sound, "{key}");
        }
        assert!(Entry::validate_key(&Key::from(&b"user/\xff"[..])).is_err());
        assert!(Entry::is_key(b"user/x") && Entry::is_key(b"token/") && !Entry::is_key(b"users"));
    }

    #[test]
    fn hashes_are_not_told() {
        let told = format!(
            "{:?} {:?}",
            User { password: Some(password(0xab)), ..User::new("ada") },
            token("ada", 0xab)
        );
        assert!(!told.contains("171") && !told.contains("xab") && !told.contains("19456"), "{told}");
    }
}
