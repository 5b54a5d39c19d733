//! The key of a backup, and what it is used for.
//!
//! Blocks are sealed with XChaCha20-Poly1305. A nonce is the salt of the segment, 16 random bytes, and the number of the block: no two blocks under
//! one key have the same. The place of a block (backup, shard, segment, number) is authenticated with it, so a block that was moved is no block.
//! Chunks are named, and manifests sealed, with keys that are derived from it by HMAC-SHA-256.

use std::fmt;
use std::path::Path;

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use ring::hmac;

use crate::error::{Error, Result};

/// The name of the algorithm, as manifests have it.
pub const ALGORITHM: &str = "XChaCha20-Poly1305";

/// The bytes of a key.
const KEY_BYTES: usize = 32;

/// The key of a backup.
#[derive(Clone)]
pub struct Cipher {
    aead: XChaCha20Poly1305,
    /// Derives further keys.
    root: hmac::Key,
}

impl fmt::Debug for Cipher {
    /// Nothing of the key.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Cipher")
    }
}

impl Cipher {
    /// The cipher with this key.
    pub fn new(key: [u8; KEY_BYTES]) -> Self {
        let root = hmac::Key::new(hmac::HMAC_SHA256, &key);
        Cipher { aead: XChaCha20Poly1305::new(&Key::from(key)), root }
    }

    /// A key for something else, which tells nothing of this one.
    pub(crate) fn derive(&self, label: &[u8]) -> [u8; KEY_BYTES] {
        let mut context = hmac::Context::with_key(&self.root);
        context.update(b"quorate backup: ");
        context.update(label);
        let mut derived = [0; KEY_BYTES];
        derived.copy_from_slice(context.sign().as_ref());
        derived
    }

    /// A seal over bytes that are not secret: only the key makes it.
    pub(crate) fn seal_of(&self, label: &[u8], bytes: &[u8]) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.derive(label));
        to_hex(hmac::sign(&key, bytes).as_ref())
    }

    /// Reads a key from a file: 64 hexadecimal digits, or the 32 bytes themselves.
    ///
    /// # Errors
    /// The file cannot be read, or holds something else.
    pub fn from_file(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(Error::file("read", path))?;
        let invalid = || Error::InvalidKey {
            path: path.to_owned(),
            reason: format!(
                "a key is 64 hexadecimal digits, or {KEY_BYTES} bytes, and it has {} bytes; `openssl rand -hex 32` makes one",
                bytes.len()
            ),
        };
        if let Ok(key) = <[u8; KEY_BYTES]>::try_from(&bytes[..]) {
            return Ok(Cipher::new(key));
        }
        let text = std::str::from_utf8(&bytes).map_err(|_| invalid())?;
        let digits = from_hex(text.trim()).ok_or_else(invalid)?;
        digits.try_into().map(Cipher::new).map_err(|_| invalid())
    }

    /// Tells keys from each other, and nothing else of them: it stands in the manifest.
    ///
    /// # Errors
    /// The cipher fails, which it does not for so few bytes.
    pub fn check(&self) -> Result<String> {
        // No block has this nonce with other content.
        let sealed = self.seal(&[u8::MAX; 24], b"quorate backup key", b"")?;
        Ok(to_hex(&sealed))
    }

    /// Encrypts bytes, and binds them to others.
    pub(crate) fn seal(&self, nonce: &[u8; 24], bound: &[u8], bytes: &[u8]) -> Result<Vec<u8>> {
        let payload = Payload { msg: bytes, aad: bound };
        self.aead
            .encrypt(XNonce::from_slice(nonce), payload)
            .map_err(|_| Error::Unsuitable("a block is too long to be encrypted".to_owned()))
    }

    /// Decrypts bytes; none if they were not sealed so.
    pub(crate) fn open(&self, nonce: &[u8; 24], bound: &[u8], bytes: &[u8]) -> Option<Vec<u8>> {
        self.aead.decrypt(XNonce::from_slice(nonce), Payload { msg: bytes, aad: bound }).ok()
    }
}

/// Bytes as hexadecimal digits.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Hexadecimal digits as bytes; none if they are something else.
pub(crate) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).map(|digit| digit as u8);
    let digits: Vec<u8> = text.as_bytes().iter().map(digit).collect::<Option<_>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_digits_or_bytes_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let read = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            Cipher::from_file(&path).map(|cipher| cipher.check().unwrap())
        };
        let raw = read(&[0xab; 32]).unwrap();
        assert_eq!(read(format!("{}\n", "ab".repeat(32)).as_bytes()).unwrap(), raw);
        assert_ne!(read(&[0xac; 32]).unwrap(), raw);
        for wrong in [&b""[..], b"secret", &[0xab; 31], &[0xab; 33], "g".repeat(64).as_bytes()] {
            assert!(matches!(read(wrong), Err(Error::InvalidKey { .. })), "{wrong:?}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(Cipher::from_file(&path), Err(Error::File { .. })));
    }

    #[test]
    fn a_sealed_block_opens_only_with_its_key_its_nonce_and_what_it_is_bound_to() {
        let cipher = Cipher::new([1; 32]);
        let sealed = cipher.seal(&[2; 24], b"here", b"secret").unwrap();
        assert!(!sealed.windows(6).any(|window| window == b"secret"));
        assert_eq!(cipher.open(&[2; 24], b"here", &sealed).as_deref(), Some(&b"secret"[..]));
        assert_eq!(cipher.open(&[3; 24], b"here", &sealed), None);
        assert_eq!(cipher.open(&[2; 24], b"there", &sealed), None);
        assert_eq!(Cipher::new([9; 32]).open(&[2; 24], b"here", &sealed), None);
        assert_eq!(format!("{cipher:?}"), "Cipher", "a key is never printed");
    }
}
