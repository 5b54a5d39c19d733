//! Calls of procedures, as `quorate::Call`.

use hyper::StatusCode;
use quorate::{Answers, Call, Keyspace, Receipt};
use quorate_gateway::Session;
use serde::{Deserialize, Serialize};

use crate::answer::Answer;
use crate::keyspaces::{Access, in_keyspace};
use crate::problem::Problem;
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
    let access = if read_only { Access::Read } else { Access::Write };
    let run = async |keyspace: Keyspace| Ok(keyspace.call(call.clone()).await?);
    let Answers { answers, receipt } = in_keyspace(session, request, access, run).await?;
    let Receipt { token, timestamp, .. } = &receipt;
    let answers = answers.into_iter().map(Octets).collect();
    let body = AnswersBody { answers, token: token.to_string(), timestamp: timestamp.to_string() };
    Ok(Answer::json(StatusCode::OK, &body).receipt(&receipt))
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
