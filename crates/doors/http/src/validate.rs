//! Requests as they are read before a cluster is asked for anything: for tools that try hostile ones.

use std::time::Duration;

use bytes::Bytes;
use hyper::HeaderMap;
use hyper::header::{CONTENT_TYPE, HeaderValue};

use crate::batch::BatchBody;
use crate::feed::cursor;
use crate::indexes;
use crate::keys::{limit, range};
use crate::keyspaces::NewKeyspace;
use crate::problem::{Kind, Problem};
use crate::procedures::CallBody;
use crate::request::Request;
use crate::routes::{Operation, find};

/// The longest time that a request may ask for here.
const PATIENCE_MAX: Duration = Duration::from_secs(10);

/// Reads a request, its body included.
///
/// # Errors
/// Something in it makes no sense: the status of the problem that a client would be told.
pub fn validate(method: &str, address: &str, content_type: &str, body: &[u8]) -> Result<(), u16> {
    read(method, address, content_type, body).map_err(|problem| problem.into_answer().status.as_u16())
}

fn read(method: &str, address: &str, content_type: &str, body: &[u8]) -> Result<(), Problem> {
    let unreadable = |what: &str| Problem::new(Kind::BadRequest, format!("{what} cannot be read"));
    let uri: hyper::Uri = address.parse().map_err(|_| unreadable("the address"))?;
    let content_type = HeaderValue::from_str(content_type).map_err(|_| unreadable("the type"))?;
    let headers = HeaderMap::from_iter([(CONTENT_TYPE, content_type)]);
    let mut request = Request::new(find(method, uri.path())?, &uri, headers, PATIENCE_MAX)?;
    request.body = Bytes::copy_from_slice(body);
    match request.route.operation {
        Operation::ApplyBatch | Operation::TraceBatch => drop(request.json::<BatchBody>()?.batch()?),
        Operation::CallProcedure => drop(request.json::<CallBody>()?.call(request.name(1)?)),
        Operation::CreateKeyspace => drop(request.json::<NewKeyspace>()?.options()?),
        Operation::ScanKeys => {
            limit(&request)?;
            drop(range(&request)?);
        }
        Operation::FindKeys => indexes::validate(&request)?,
        Operation::FollowChanges => drop(cursor(&request)?),
        _ => {}
    }
    request.at().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_without_a_cluster() {
        let batch =
            |body: &str| validate("POST", "/v1/keyspaces/a/batch", "application/json", body.as_bytes());
        assert_eq!(batch(r#"{"steps": [{"read": {"key": "k"}}]}"#), Ok(()));
        assert_eq!(batch(r#"{"steps": [{"steal": {"key": "k"}}]}"#), Err(400));
        assert_eq!(validate("GET", "/v1/keyspaces/a/keys/k?at=x", "", b""), Err(400));
        assert_eq!(validate("GET", "/v1/keyspaces/a/changes?from=1.7", "", b""), Err(400));
        assert_eq!(validate("GET", "/v1/keyspaces/a/indexes/i?value=5&limit=7", "", b""), Ok(()));
        assert_eq!(validate("GET", "/v1/keyspaces/a/indexes/i?value=5&from=4", "", b""), Err(400));
        assert_eq!(validate("GET", "/v1/keyspaces/a/indexes/i?value=%FF", "", b""), Err(400));
        assert_eq!(validate("GET", "no address", "", b""), Err(400));
    }
}
