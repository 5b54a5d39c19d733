//! The user that a request is from: HTTP basic authentication (RFC 7617), or a bearer token (RFC 6750).
//!
//! Each request says so itself. A password takes its time to be compared, so a connection remembers the last header that was right, as a digest, and for itself alone; the
//! login that it stands for ends as any other when the password changes.

use std::cell::RefCell;

use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use quorate::credentials::digest;
use quorate_gateway::{LoginError, Password, Session};

use crate::problem::{Kind, Problem};
use crate::text::from_base64;

/// The longest header that is read, in bytes.
const HEADER_BYTES_MAX: usize = 4 * 1024;

/// A credential, as a header has it.
#[derive(Debug, PartialEq, Eq)]
enum Credential {
    /// A user and its password.
    Basic(String, Password),
    /// A token.
    Bearer(Password),
}

/// Reads a header.
///
/// # Errors
/// It has another form than both that are known.
fn read(value: &[u8]) -> Result<Credential, Problem> {
    let wrong = |what: &str| {
        let detail = format!(
            "the header authorization: {what}; it is `Basic` with user and password, or `Bearer` with a token"
        );
        Problem::new(Kind::NotLoggedIn, detail)
    };
    if value.len() > HEADER_BYTES_MAX {
        return Err(wrong("it is too long"));
    }
    let text = std::str::from_utf8(value).map_err(|_| wrong("it is no text"))?;
    let (scheme, rest) = text.trim_ascii().split_once(' ').ok_or_else(|| wrong("it has one word"))?;
    let rest = rest.trim_ascii();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Ok(Credential::Bearer(Password::told(rest)));
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return Err(wrong("its scheme is not known"));
    }
    let decoded = from_base64(rest).ok_or_else(|| wrong("it is no padded base64"))?;
    let colon =
        decoded.iter().position(|byte| *byte == b':').ok_or_else(|| wrong("there is no colon in it"))?;
    let user = std::str::from_utf8(&decoded[..colon]).map_err(|_| wrong("the user is no text"))?;
    Ok(Credential::Basic(user.to_owned(), Password::told(&decoded[colon + 1..])))
}

/// The last login of a connection, with the digest of its header.
#[derive(Debug, Default)]
pub(crate) struct Remembered(RefCell<Option<([u8; 32], Session)>>);

impl Remembered {
    /// The session of a request.
    ///
    /// # Errors
    /// Its credential is wrong, or cannot be looked at now. A request without one is nobody's, and may do what nobody needs a right for.
    pub(crate) async fn session_of(
        &self,
        session: &Session,
        headers: &HeaderMap,
    ) -> Result<Session, Problem> {
        session.ready().await;
        let Some(value) = headers.get(AUTHORIZATION).filter(|_| session.is_controlled()) else {
            return Ok(session.clone());
        };
        let told = digest(value.as_bytes());
        if let Some((known, session)) = &*self.0.borrow()
            && *known == told
        {
            return Ok(session.clone());
        }
        let result = match read(value.as_bytes())? {
            Credential::Basic(user, password) => session.log_in(&user, password).await,
            Credential::Bearer(token) => session.log_in_by_token(token.reveal()),
        };
        let logged_in = result.map_err(Problem::from)?;
        *self.0.borrow_mut() = Some((told, logged_in.clone()));
        Ok(logged_in)
    }
}

impl From<LoginError> for Problem {
    fn from(error: LoginError) -> Self {
        let detail = format!("{error}, and nothing was done");
        match error {
            LoginError::Wrong => Problem::new(Kind::NotLoggedIn, detail),
            LoginError::TooMany { retry_after } | LoginError::Busy { retry_after } => {
                Problem::new(Kind::Overloaded, detail).retry_after(retry_after)
            }
            LoginError::Connections => Problem::new(Kind::Overloaded, detail),
            LoginError::Unknown => Problem::new(Kind::Unavailable, detail),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::text::to_base64;

    fn basic(text: &[u8]) -> Result<Credential, Problem> {
        read(format!("Basic {}", to_base64(text)).as_bytes())
    }

    #[test]
    fn credentials_are_read_as_the_rfcs_have_them() {
        let ada = |password: &[u8]| Ok(Credential::Basic("ada".to_owned(), Password::told(password)));
        assert_eq!(basic(b"ada:secret"), ada(b"secret"));
        assert_eq!(basic(b"ada:a:b"), ada(b"a:b"), "a password may have colons");
        assert_eq!(basic(b"ada:"), ada(b""));
        assert_eq!(basic(b"ada:\xff"), ada(b"\xff"));
        assert_eq!(read(b"bEARER  quorate_0 "), Ok(Credential::Bearer(Password::told("quorate_0"))));
        for wrong in [&b""[..], b"Basic", b"Basic !", b"Basic YQ", b"Digest x", b"\xff x", b"Basic  "] {
            assert_eq!(read(wrong).unwrap_err().kind, Kind::NotLoggedIn, "{}", wrong.escape_ascii());
        }
        assert!(basic(b"no colon").is_err() && basic(b"\xff:x").is_err());
        assert!(read(&[b'x'; HEADER_BYTES_MAX + 1]).is_err());
    }

    proptest! {
        #[test]
        fn any_header_is_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = read(&bytes);
            let _ = basic(&bytes);
        }
    }
}
