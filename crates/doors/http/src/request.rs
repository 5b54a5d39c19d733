//! A request, from what has arrived to what it asks for.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::HeaderMap;
use hyper::body::{Body, Incoming};
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderName};
use quorate::Timestamp;
use quorate_gateway::{Account, Ended};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};

use crate::answer::JSON;
use crate::problem::{Kind, Problem};
use crate::routes::{BodyKind, Found, Route};
use crate::text::percent_decode;

/// The header that says how long a request may take, in milliseconds.
pub(crate) const DEADLINE: HeaderName = HeaderName::from_static("quorate-deadline-ms");

/// The header that names a request, so that it can be repeated.
pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The longest body of JSON, in bytes: a transaction of the greatest size in base64, and room for names.
pub(crate) const JSON_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The memory that a body of JSON may take beside itself while it is read, as a multiple of its bytes.
const READ_FACTOR: usize = 3;

/// A request that is whole.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) route: &'static Route,
    captured: Vec<Vec<u8>>,
    /// The parameters of the address, each once.
    parameters: Vec<(String, Vec<u8>)>,
    pub(crate) headers: HeaderMap,
    /// The address as it came, without the host.
    pub(crate) address: String,
    pub(crate) body: Bytes,
    pub(crate) deadline: Instant,
}

impl Request {
    /// Reads the head of a request.
    ///
    /// # Errors
    /// Something in it makes no sense.
    pub(crate) fn new(
        found: Found,
        uri: &hyper::Uri,
        headers: HeaderMap,
        patience_max: Duration,
    ) -> Result<Self, Problem> {
        let Found { route, captured } = found;
        let patience = deadline(&headers, patience_max)?;
        let request = Request {
            route,
            captured,
            parameters: parameters(route, uri.query().unwrap_or_default())?,
            headers,
            address: uri.path_and_query().map_or("", |address| address.as_str()).to_owned(),
            body: Bytes::new(),
            deadline: Instant::now() + patience,
        };
        request.validate_content_type()?;
        Ok(request)
    }

    /// A name in the address, which is text.
    pub(crate) fn name(&self, at: usize) -> Result<&str, Problem> {
        let bytes = self.captured.get(at).map_or(&[][..], Vec::as_slice);
        std::str::from_utf8(bytes)
            .map_err(|_| Problem::new(Kind::BadRequest, "a name in the address is not UTF-8"))
    }

    /// A key in the address.
    pub(crate) fn key(&self, at: usize) -> &[u8] {
        self.captured.get(at).map_or(&[], Vec::as_slice)
    }

    /// A parameter as bytes.
    pub(crate) fn parameter(&self, name: &str) -> Option<&[u8]> {
        self.parameters.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_slice())
    }

    /// A parameter that is read as text.
    pub(crate) fn parsed<T>(
        &self,
        name: &str,
        parse: impl FnOnce(&str) -> Option<T>,
        what: &str,
    ) -> Result<Option<T>, Problem> {
        let Some(bytes) = self.parameter(name) else { return Ok(None) };
        let parsed = std::str::from_utf8(bytes).ok().and_then(parse);
        parsed.map(Some).ok_or_else(|| {
            Problem::new(Kind::BadRequest, format!("the parameter {name} is not {what}"))
                .with("parameter", name)
        })
    }

    /// The timestamp to read at.
    pub(crate) fn at(&self) -> Result<Option<Timestamp>, Problem> {
        self.parsed("at", parse_timestamp, "a timestamp, which looks like 1800000010743317@d18908")
    }

    /// How much of its time is left.
    pub(crate) fn patience(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// True if the client names this type among those that it accepts.
    pub(crate) fn accepts(&self, content_type: &str) -> bool {
        let types = self.headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        types
            .flat_map(|value| value.split(','))
            .any(|named| essence(named).eq_ignore_ascii_case(content_type))
    }

    /// The type of its body, without parameters.
    pub(crate) fn content_type(&self) -> &str {
        content_type(&self.headers)
    }

    /// Its body, as JSON.
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        serde_json::from_slice(&self.body).map_err(|error| {
            Problem::new(Kind::BadRequest, format!("the body is not what it should be: {error}"))
        })
    }

    /// Refuses bodies of other types than the route takes. Without a type there is none: a page of a browser can send types that it need
    /// not ask for (a form, text, none) to any address, so no POST takes one of them.
    fn validate_content_type(&self) -> Result<(), Problem> {
        let content_type = self.content_type();
        let wrong = |wanted: &str| {
            let given = if content_type.is_empty() { "none" } else { content_type };
            Problem::new(Kind::MediaType, format!("the type of the body is {given}, and {wanted} is taken"))
        };
        match self.route.body {
            BodyKind::None => Ok(()),
            BodyKind::Json(_) if content_type.eq_ignore_ascii_case(JSON) => Ok(()),
            BodyKind::Json(_) => Err(wrong(JSON)),
            BodyKind::Bytes if BYTES_TYPES.iter().any(|known| content_type.eq_ignore_ascii_case(known)) => {
                Ok(())
            }
            BodyKind::Module if MODULE_TYPES.iter().any(|known| content_type.eq_ignore_ascii_case(known)) => {
                Ok(())
            }
            BodyKind::Module => Err(wrong("application/wasm")),
            BodyKind::Bytes => Err(wrong("application/octet-stream, text/plain or application/json")),
        }
    }

    /// The longest body that it may have, in bytes.
    fn body_bytes_max(&self) -> usize {
        match self.route.body {
            BodyKind::None => 0,
            BodyKind::Bytes | BodyKind::Module => quorate::VALUE_BYTES_MAX,
            BodyKind::Json(_) => JSON_BYTES_MAX,
        }
    }

    /// Reads the body.
    ///
    /// # Errors
    /// It is too long, does not arrive in time, or is not taken.
    pub(crate) async fn receive(
        mut self,
        body: Incoming,
        account: &Account,
        stall_timeout: Duration,
    ) -> Result<Self, Problem> {
        let max = self.body_bytes_max();
        let too_large = || match max {
            0 => Problem::new(Kind::BadRequest, "a request of this kind has no body"),
            _ => Problem::new(Kind::TooLarge, format!("the body has more than {max} bytes"))
                .with("bytes_max", max),
        };
        let hint = body.size_hint();
        if hint.lower() > max as u64 {
            return Err(too_large());
        }
        let factor = if matches!(self.route.body, BodyKind::Json(_)) { 1 + READ_FACTOR } else { 1 };
        let hold = |bytes: usize| account.hold(bytes * factor).map_err(|ended| no_room(&ended));
        // A client that has announced a body has the room for it, so that it does not send half of it in vain.
        let announced = hint.exact().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0);
        hold(announced)?;
        let arrives_until = Instant::now() + stall_timeout;
        let mut whole = BytesMut::new();
        let mut body = body;
        loop {
            let frame = timeout_at(arrives_until, body.frame()).await.map_err(|_| {
                Problem::new(Kind::Stalled, format!("the body has not arrived within {stall_timeout:?}"))
            })?;
            match frame {
                None => break,
                Some(Ok(frame)) => {
                    let Ok(bytes) = frame.into_data() else { continue };
                    if whole.len() + bytes.len() > max {
                        return Err(too_large());
                    }
                    hold(announced.max(whole.len() + bytes.len()))?;
                    whole.extend_from_slice(&bytes);
                }
                Some(Err(error)) => {
                    return Err(Problem::new(Kind::BadRequest, format!("the body cannot be read: {error}")));
                }
            }
        }
        self.body = whole.freeze();
        Ok(self)
    }
}

/// The types that the value of a key may be sent as; what curl says of itself is one of them, and none is.
const BYTES_TYPES: [&str; 5] =
    ["", "application/octet-stream", "text/plain", "application/x-www-form-urlencoded", JSON];

/// The types that a module may be sent as.
const MODULE_TYPES: [&str; 4] =
    ["", "application/wasm", "application/octet-stream", "application/x-www-form-urlencoded"];

/// The problem of a request for which there is no memory.
pub(crate) fn no_room(ended: &Ended) -> Problem {
    match ended {
        Ended::TooMuch => Problem::new(Kind::TooLarge, ended.to_string()),
        _ => Problem::new(Kind::Overloaded, format!("{ended}, and nothing was started"))
            .retry_after(Duration::from_secs(1)),
    }
}

fn content_type(headers: &HeaderMap) -> &str {
    headers.get(CONTENT_TYPE).map_or("", |value| essence(value.to_str().unwrap_or("unreadable")))
}

/// A type without its parameters.
fn essence(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

/// How long the request may take.
fn deadline(headers: &HeaderMap, max: Duration) -> Result<Duration, Problem> {
    let Some(value) = headers.get(DEADLINE) else { return Ok(max) };
    let millis = value.to_str().ok().and_then(|text| text.parse::<u64>().ok());
    let deadline =
        millis.map(Duration::from_millis).filter(|deadline| !deadline.is_zero() && *deadline <= max);
    deadline.ok_or_else(|| {
        let detail = format!("{DEADLINE} is not a number from 1 to {}", max.as_millis());
        Problem::new(Kind::BadRequest, detail)
    })
}

/// The parameters of a query, each of which the route has, and which is there once.
fn parameters(route: &Route, query: &str) -> Result<Vec<(String, Vec<u8>)>, Problem> {
    let mut parameters: Vec<(String, Vec<u8>)> = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let wrong = |what: &str| {
            Problem::new(Kind::BadRequest, format!("the parameter {name:?} {what}")).with("parameter", name)
        };
        let Some(value) = percent_decode(value) else {
            return Err(wrong("has a `%` that is not followed by two hexadecimal digits"));
        };
        if !route.parameters.iter().any(|known| known.name == name) {
            return Err(wrong("means nothing here"));
        }
        if parameters.iter().any(|(known, _)| known == name) {
            return Err(wrong("is there twice"));
        }
        parameters.push((name.to_owned(), value));
    }
    Ok(parameters)
}

/// Reads a timestamp as answers tell it.
fn parse_timestamp(text: &str) -> Option<Timestamp> {
    let (micros, client) = text.split_once('@')?;
    let client = u64::from_str_radix(client, 16).ok()?;
    Some(Timestamp { micros: micros.parse().ok()?, client: quorate::ClientId(client) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::find;

    fn request(method: &str, uri: &str, headers: &[(HeaderName, &'static str)]) -> Result<Request, Problem> {
        let uri: hyper::Uri = uri.parse().unwrap();
        let headers = headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect();
        Request::new(find(method, uri.path())?, &uri, headers, Duration::from_secs(10))
    }

    #[test]
    fn parameters_are_known_and_there_once() {
        let scan = request("GET", "/v1/keyspaces/a/keys?from=%00&to=b%2Fc+&limit=7&at=12@af", &[]).unwrap();
        assert_eq!(scan.parameter("from"), Some(&b"\0"[..]));
        assert_eq!(scan.parameter("to"), Some(&b"b/c+"[..]));
        assert_eq!(scan.at().unwrap(), Some(Timestamp { micros: 12, client: quorate::ClientId(0xaf) }));
        for query in ["form=a", "from=a&from=b", "from=%", "at=%"] {
            let problem = request("GET", &format!("/v1/keyspaces/a/keys?{query}"), &[]).unwrap_err();
            assert_eq!(problem.kind, Kind::BadRequest, "{query}");
        }
        for at in ["", "7", "@", "x@1", "1@x"] {
            let scan = request("GET", &format!("/v1/keyspaces/a/keys?at={at}"), &[]).unwrap();
            assert_eq!(scan.at().unwrap_err().kind, Kind::BadRequest, "{at}");
        }
    }

    #[test]
    fn deadlines_have_bounds() {
        for (text, is_taken) in
            [("1", true), ("10000", true), ("0", false), ("10001", false), ("1.5", false), ("", false)]
        {
            let told = request("GET", "/v1/keyspaces", &[(DEADLINE, text)]);
            assert_eq!(told.is_ok(), is_taken, "{text}");
        }
    }

    #[test]
    fn no_post_takes_what_a_page_of_a_browser_may_send_unasked() {
        for content_type in
            ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=a"]
        {
            let told = request("POST", "/v1/keyspaces/a/batch", &[(CONTENT_TYPE, content_type)]);
            assert_eq!(told.unwrap_err().kind, Kind::MediaType, "{content_type}");
        }
        assert!(
            request("POST", "/v1/keyspaces/a/batch", &[(CONTENT_TYPE, "application/json; charset=utf-8")])
                .is_ok()
        );
        let image = request("PUT", "/v1/keyspaces/a/keys/k", &[(CONTENT_TYPE, "image/png")]);
        assert_eq!(image.unwrap_err().kind, Kind::MediaType);
    }

    #[test]
    fn types_are_accepted_by_name() {
        let accept = [(ACCEPT, "text/html, Application/X-NDJSON;q=0.5")];
        let scan = request("GET", "/v1/keyspaces/a/keys", &accept).unwrap();
        assert!(scan.accepts("application/x-ndjson") && !scan.accepts(JSON));
    }
}
