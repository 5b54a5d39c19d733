//! Procedures: calls of them, as `quorate::Call`; deploying, removing and listing them.

use hyper::StatusCode;
use quorate::{Answers, Call, Keyspace, ProcedureVersion, Receipt};
use quorate_gateway::{Scope, Session};
use serde::{Deserialize, Serialize};

use crate::answer::Answer;
use crate::keyspaces::{Access, in_keyspace, in_time};
use crate::problem::{Committed, Kind, Problem};
use crate::request::Request;
use crate::text::Octets;

/// A call.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct CallBody {
    arguments: Octets,
    version: Option<u32>,
    /// The keys that it touches, and with the ranges nothing else.
    keys: Vec<Octets>,
    ranges: Vec<RangeBody>,
    /// Keys of the shards at which it is called, without declaring anything.
    at: Vec<Octets>,
    read_only: bool,
}

/// A range of keys.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RangeBody {
    #[serde(default)]
    from: Octets,
    #[serde(default)]
    to: Octets,
}

/// The answer of each shard.
#[derive(Debug, Serialize)]
struct AnswersBody {
    answers: Vec<Octets>,
    token: String,
    timestamp: String,
}

impl CallBody {
    pub(crate) fn call(&self, procedure: &str) -> Call {
        let bytes = |octets: &Vec<Octets>| octets.iter().map(|octets| octets.0.clone()).collect::<Vec<_>>();
        let ranges = self.ranges.iter().map(|range| (range.from.0.clone(), range.to.0.clone()));
        let call = Call::new(procedure)
            .arguments(&self.arguments.0)
            .keys(bytes(&self.keys))
            .ranges(ranges)
            .at(bytes(&self.at));
        let call = if self.read_only { call.read_only() } else { call };
        match self.version {
            Some(version) => call.version(version),
            None => call,
        }
    }
}

/// Calls a procedure.
pub(crate) async fn call(session: &Session, request: &Request) -> Result<Answer, Problem> {
    let body: CallBody = request.json()?;
    let (call, read_only) = (body.call(request.name(1)?), body.read_only);
    drop(body);
    // A procedure finds out itself what it touches.
    let access = if read_only { Access::Read(Scope::Whole) } else { Access::Write(Scope::Whole) };
    let run = async |keyspace: Keyspace| Ok(keyspace.call(call.clone()).await?);
    let Answers { answers, receipt } = in_keyspace(session, request, access, run).await?;
    let Receipt { token, timestamp, .. } = &receipt;
    let answers = answers.into_iter().map(Octets).collect();
    let body = AnswersBody { answers, token: token.to_string(), timestamp: timestamp.to_string() };
    Ok(Answer::json(StatusCode::OK, &body).receipt(&receipt))
}

/// A version of a procedure.
#[derive(Debug, Serialize)]
struct ProcedureBody {
    name: String,
    version: u32,
    /// Only what is deployed can surely be called.
    stage: &'static str,
    bytes: u64,
    /// Of its code, in hexadecimal digits.
    crc32: String,
    deployed_at_us: u64,
}

impl From<&ProcedureVersion> for ProcedureBody {
    fn from(known: &ProcedureVersion) -> Self {
        ProcedureBody {
            name: known.name.clone(),
            version: known.version,
            stage: known.stage.name(),
            bytes: known.bytes,
            crc32: format!("{:08x}", known.crc32),
            deployed_at_us: known.deployed_at.as_micros(),
        }
    }
}

/// Deploys a procedure. After an unknown outcome it is deployed again.
pub(crate) async fn deploy(session: &Session, request: &Request) -> Result<Answer, Problem> {
    let (name, version) = (request.name(1)?, version(request)?);
    let run = async |keyspace: Keyspace| {
        in_time(request, keyspace.deploy(name, version, &request.body), Committed::Unknown).await
    };
    let deployed = in_keyspace(session, request, Access::Deploy, run).await?;
    session.record_administration("deploy procedure", name);
    Ok(Answer::json(StatusCode::OK, &ProcedureBody::from(&deployed)))
}

/// Removes a version of a procedure.
pub(crate) async fn remove(session: &Session, request: &Request) -> Result<Answer, Problem> {
    let (name, version) = (request.name(1)?, version(request)?);
    let Some(version) = version else {
        return Err(Problem::new(
            Kind::BadRequest,
            "the parameter version is missing: it says what to remove",
        ));
    };
    let run =
        async |keyspace: Keyspace| in_time(request, keyspace.remove(name, version), Committed::Unknown).await;
    in_keyspace(session, request, Access::Deploy, run).await?;
    session.record_administration("remove procedure", name);
    Ok(Answer::empty())
}

/// Lists the versions that the keyspace has or had.
pub(crate) async fn list(session: &Session, request: &Request) -> Result<Answer, Problem> {
    /// All of them.
    #[derive(Serialize)]
    struct Listed {
        procedures: Vec<ProcedureBody>,
    }
    let run = async |keyspace: Keyspace| in_time(request, keyspace.procedures(), Committed::No).await;
    let versions = in_keyspace(session, request, Access::Read(Scope::Part), run).await?;
    let listed = Listed { procedures: versions.iter().map(ProcedureBody::from).collect() };
    Ok(Answer::json(StatusCode::OK, &listed))
}

/// The version that a request names.
fn version(request: &Request) -> Result<Option<u32>, Problem> {
    let parse = |text: &str| text.parse().ok().filter(|version| *version > 0);
    request.parsed("version", parse, "a number from 1 on")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_from_json() {
        let text = r#"{"arguments": {"base64": "AQI="}, "version": 3, "keys": ["a"], "ranges": [{"from": "x"}], "at": ["b"], "read_only": true}"#;
        let body: CallBody = serde_json::from_str(text).unwrap();
        let call =
            Call::new("p").arguments([1, 2]).keys(["a"]).ranges([("x", "")]).at(["b"]).read_only().version(3);
        assert_eq!(body.call("p"), call);
        assert_eq!(serde_json::from_str::<CallBody>("{}").unwrap().call("p"), Call::new("p"));
        assert!(serde_json::from_str::<CallBody>(r#"{"argument": ""}"#).is_err());
    }
}
