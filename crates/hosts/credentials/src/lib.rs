//! Credentials: passwords and bearer tokens, from what a person types to what the configuration keeps.
//!
//! A password is hashed with Argon2id (RFC 9106), with the parameters that OWASP names as the least: 19 MiB, two passes, one lane. That takes tens of milliseconds of
//! a processor, so it has no place on an event loop. A token is 32 random bytes; it needs no slow hash, because nobody can try all of them.
//!
//! Neither is ever printed: [`Password`] and [`Secret`] show nothing of themselves.

use std::fmt;

use argon2::{Algorithm, Argon2, Params, Version};
use quorate_access::{PasswordHash, SALT_BYTES};
use quorate_core::Value;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The memory of a password's hash, in kibibytes, its passes and its lanes.
const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;
const LANES: u32 = 1;

/// The length of a hash, in bytes.
const HASH_BYTES: usize = 32;

/// The shortest password that is taken for a user, in bytes,
pub const PASSWORD_BYTES_MIN: usize = 8;

/// and the longest.
pub const PASSWORD_BYTES_MAX: usize = 1024;

/// The beginning of every token, by which scanners of source code find one that was lost.
pub const TOKEN_PREFIX: &str = "quorate_";

/// The random bytes of a token.
const TOKEN_BYTES: usize = 32;

/// The length of a token as text.
const TOKEN_TEXT_BYTES: usize = TOKEN_PREFIX.len() + 2 * TOKEN_BYTES;

/// Why a credential could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialError {
    /// It is too short.
    #[error("a password has at least {PASSWORD_BYTES_MIN} bytes: choose a longer one")]
    TooShort,
    /// It is too long.
    #[error("a password has at most {PASSWORD_BYTES_MAX} bytes: choose a shorter one")]
    TooLong,
    /// The operating system gives no random bytes.
    #[error("the operating system gives no random bytes: look at its log")]
    NoRandomness,
    /// There is no memory to hash it.
    #[error("there is no memory to hash a password: it takes 19 MiB")]
    NoMemory,
}

/// A password as somebody has told it.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(Vec<u8>);

impl fmt::Debug for Password {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Password(…)")
    }
}

impl Password {
    /// A password that was told to log in, whatever it is.
    pub fn told(password: impl Into<Vec<u8>>) -> Self {
        Password(password.into())
    }

    /// Its bytes, for the one place where they are compared.
    pub fn reveal(&self) -> &[u8] {
        &self.0
    }

    /// A hash of it, with a salt of its own.
    ///
    /// # Errors
    /// It is too short or too long for a user, or the machine cannot do it.
    pub fn hash(&self) -> Result<PasswordHash, CredentialError> {
        if self.0.len() < PASSWORD_BYTES_MIN {
            return Err(CredentialError::TooShort);
        }
        if self.0.len() > PASSWORD_BYTES_MAX {
            return Err(CredentialError::TooLong);
        }
        let mut salt = [0; SALT_BYTES];
        getrandom::fill(&mut salt).map_err(|_| CredentialError::NoRandomness)?;
        let hash = hashed(&self.0, &salt, (MEMORY_KIB, PASSES, LANES)).ok_or(CredentialError::NoMemory)?;
        Ok(PasswordHash {
            memory_kib: MEMORY_KIB,
            passes: PASSES,
            lanes: LANES,
            salt: Value::copy_from_slice(&salt),
            hash: Value::copy_from_slice(&hash),
        })
    }

    /// True if it is the one that was hashed; without a hash it takes as long, so that the time does not tell whether there is such a user.
    pub fn fits(&self, hash: Option<&PasswordHash>) -> bool {
        /// The hash of no password that anybody knows.
        const NOBODY: ([u8; SALT_BYTES], [u8; HASH_BYTES]) = ([0x51; SALT_BYTES], [0; HASH_BYTES]);
        let told = if self.0.len() > PASSWORD_BYTES_MAX { &[][..] } else { &self.0 };
        let Some(known) = hash.filter(|hash| hash.validate().is_ok()) else {
            let (salt, nothing) = NOBODY;
            let found = hashed(told, &salt, (MEMORY_KIB, PASSES, LANES));
            // It is calculated for its time alone.
            return found.is_some_and(|found| bool::from(found.ct_eq(&nothing))) && hash.is_some();
        };
        let parameters = (known.memory_kib, known.passes, known.lanes);
        let found = hashed(told, &known.salt, parameters);
        found.is_some_and(|found| bool::from(found.as_slice().ct_eq(&known.hash)))
    }
}

/// The hash of a password; none if there is no memory for it.
fn hashed(
    password: &[u8],
    salt: &[u8],
    (memory, passes, lanes): (u32, u32, u32),
) -> Option<[u8; HASH_BYTES]> {
    let parameters = Params::new(memory, passes, lanes, Some(HASH_BYTES)).ok()?;
    let mut hash = [0; HASH_BYTES];
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, parameters);
    argon2.hash_password_into(password, salt, &mut hash).ok()?;
    Some(hash)
}

/// A new token as text: it is shown once, and kept nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(…)")
    }
}

impl Secret {
    /// A new one.
    ///
    /// # Errors
    /// The operating system gives no random bytes.
    pub fn new() -> Result<Self, CredentialError> {
        let mut bytes = [0; TOKEN_BYTES];
        getrandom::fill(&mut bytes).map_err(|_| CredentialError::NoRandomness)?;
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Secret(format!("{TOKEN_PREFIX}{digits}")))
    }

    /// The text, for the one time that it is shown.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Its hash, under which it is kept.
    pub fn hash(&self) -> [u8; HASH_BYTES] {
        digest(self.0.as_bytes())
    }
}

/// The SHA-256 of bytes, to tell them from others without keeping them.
pub fn digest(bytes: &[u8]) -> [u8; HASH_BYTES] {
    Sha256::digest(bytes).into()
}

/// The hash of a token that was shown; none if the bytes have not the form of a token, which spares asking anybody.
pub fn token_hash(shown: &[u8]) -> Option<[u8; HASH_BYTES]> {
    let digits = shown.strip_prefix(TOKEN_PREFIX.as_bytes())?;
    let is_digit = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    let has_form = shown.len() == TOKEN_TEXT_BYTES && digits.iter().all(is_digit);
    has_form.then(|| digest(shown))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_password_fits_its_hash_and_no_other() {
        let password = Password::told("correct horse");
        let (one, other) = (password.hash().unwrap(), password.hash().unwrap());
        assert!(one != other, "each has a salt of its own");
        assert!(one.validate().is_ok() && (one.memory_kib, one.passes, one.lanes) == (19_456, 2, 1));
        assert!(password.fits(Some(&one)) && password.fits(Some(&other)));
        assert!(!Password::told("correct horsf").fits(Some(&one)));
        assert!(!Password::told("").fits(Some(&one)) && !password.fits(None));
        let hostile = PasswordHash { memory_kib: u32::MAX, ..one.clone() };
        assert!(!password.fits(Some(&hostile)), "what takes too much is not tried");
        let long = Password::told(vec![b'x'; PASSWORD_BYTES_MAX + 1]);
        assert!(!long.fits(Some(&one)));
    }

    #[test]
    fn passwords_have_bounds() {
        assert_eq!(Password::told("1234567").hash(), Err(CredentialError::TooShort));
        assert_eq!(Password::told(vec![b'x'; PASSWORD_BYTES_MAX + 1]).hash(), Err(CredentialError::TooLong));
    }

    /// The vector of RFC 9106 for Argon2id has a secret and data, which this has not: so the vector is one of the reference implementation's tests.
    #[test]
    fn the_hash_is_that_of_the_reference_implementation() {
        let found = hashed(b"password", b"somesalt", (65_536, 2, 1)).unwrap();
        let digits: String = found.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(digits, "09316115d5cf24ed5a15a31a3ba326e5cf32edc24702987c02b6566f61913cf7");
    }

    #[test]
    fn tokens_are_found_by_their_hash() {
        let (one, other) = (Secret::new().unwrap(), Secret::new().unwrap());
        assert!(one != other && one.reveal().starts_with("quorate_") && one.reveal().len() == 72);
        assert_eq!(token_hash(one.reveal().as_bytes()), Some(one.hash()));
        assert_ne!(one.hash(), other.hash());
        let text = one.reveal();
        for wrong in ["", "quorate_", &text[..71], &text[8..], &format!("{text}0"), &text.to_uppercase()] {
            assert_eq!(token_hash(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn nothing_is_told() {
        let told = format!("{:?} {:?}", Password::told("correct horse"), Secret::new().unwrap());
        assert_eq!(told, "Password(…) Secret(…)");
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_token_or_not(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(token_hash(&bytes), None, "nobody guesses one");
        }
    }
}
