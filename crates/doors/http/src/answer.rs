//! Answers: a status, headers and a body, which are whole before any of it is sent.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use quorate::Timestamp;
use serde::Serialize;

use crate::problem::{Kind, Problem};

/// The header that names the committed transaction.
pub(crate) const TOKEN: HeaderName = HeaderName::from_static("quorate-token");

/// The header that tells the timestamp of what was committed or read.
pub(crate) const TIMESTAMP: HeaderName = HeaderName::from_static("quorate-timestamp");

/// The header that says that an answer is one that was given before.
pub(crate) const REPEATED: HeaderName = HeaderName::from_static("quorate-repeated");

/// JSON as a type of bodies.
pub(crate) const JSON: &str = "application/json";

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn new(status: StatusCode, body: Bytes) -> Self {
        Answer { status, headers: Vec::new(), body }
    }

    /// Nothing to say.
    pub(crate) fn empty() -> Self {
        Answer::new(StatusCode::NO_CONTENT, Bytes::new())
    }

    /// A body that is not JSON.
    pub(crate) fn of(content_type: &'static str, body: impl Into<Bytes>) -> Self {
        let content_type = HeaderValue::from_static(content_type);
        Answer::new(StatusCode::OK, body.into()).header(CONTENT_TYPE, content_type)
    }

    /// JSON, on one line.
    pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Self {
        match serde_json::to_vec(value) {
            Ok(mut text) => {
                text.push(b'\n');
                Answer { status, ..Answer::of(JSON, text) }
            }
            Err(error) => {
                Problem::new(Kind::Internal, format!("the answer cannot be written: {error}")).into_answer()
            }
        }
    }

    /// Adds a header; a value that cannot be one is left out.
    pub(crate) fn header(mut self, name: HeaderName, value: impl TryInto<HeaderValue>) -> Self {
        if let Ok(value) = value.try_into() {
            self.headers.push((name, value));
        }
        self
    }

    pub(crate) fn token(self, token: &str) -> Self {
        self.header(TOKEN, token)
    }

    pub(crate) fn timestamp(self, timestamp: Timestamp) -> Self {
        self.header(TIMESTAMP, timestamp.to_string())
    }

    /// Names a committed transaction.
    pub(crate) fn receipt(self, receipt: &quorate::Receipt) -> Self {
        self.token(&receipt.token.to_string()).timestamp(receipt.timestamp)
    }

    /// The committed transaction that it names.
    pub(crate) fn token_of(&self) -> Option<&str> {
        let token = self.headers.iter().find(|(name, _)| *name == TOKEN);
        token.and_then(|(_, value)| value.to_str().ok())
    }

    /// Its memory, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        const HEADER_BYTES: usize = 64;
        let headers = self.headers.iter().map(|(_, value)| value.len() + HEADER_BYTES).sum::<usize>();
        self.body.len() + headers
    }

    pub(crate) fn into_response(self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(self.body));
        *response.status_mut() = self.status;
        // Browsers are not to guess that bytes are a page.
        let nosniff =
            (HeaderName::from_static("x-content-type-options"), HeaderValue::from_static("nosniff"));
        for (name, value) in self.headers.into_iter().chain([nosniff]) {
            response.headers_mut().insert(name, value);
        }
        response
    }

    #[cfg(test)]
    pub(crate) fn headers_of(&self, name: HeaderName) -> Vec<&str> {
        let of_name = self.headers.iter().filter(|(known, _)| *known == name);
        of_name.map(|(_, value)| value.to_str().unwrap()).collect()
    }
}
