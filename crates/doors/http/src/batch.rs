//! Batches in JSON, as `quorate::Batch`: the names of conditions and steps are those of its methods.

use std::time::Duration;

use hyper::StatusCode;
use quorate::{Applied, Batch, Keyspace, Receipt, StepAnswer, Value, end_of_prefix};
use quorate_gateway::{Scope, Session};
use serde::{Deserialize, Serialize};

use crate::answer::Answer;
use crate::keys::Entry;
use crate::keyspaces::{Access, in_keyspace, require};
use crate::once::{self, marker_of};
use crate::problem::{Kind, Problem};
use crate::request::Request;
use crate::text::Octets;

/// A batch.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BatchBody {
    #[serde(default)]
    conditions: Vec<Condition>,
    #[serde(default)]
    steps: Vec<Step>,
}

/// A condition.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Condition {
    Expect(KeyValue),
    ExpectAbsent(KeyAlone),
    ExpectExists(KeyAlone),
    ExpectAtLeast(KeyLeast),
}

/// A step.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Step {
    Read(KeyAlone),
    Put(Written),
    Delete(KeyAlone),
    Increment(KeyNumber),
    Append(KeyValue),
    Scan(ScanStep),
}

/// A key.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyAlone {
    pub(crate) key: Octets,
}

/// A key and a value.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyValue {
    pub(crate) key: Octets,
    pub(crate) value: Octets,
}

/// A key, its value, and how long that is to live.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Written {
    pub(crate) key: Octets,
    pub(crate) value: Octets,
    pub(crate) ttl_ms: Option<u64>,
}

/// A key and the least number that it is to hold.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyLeast {
    key: Octets,
    number: i64,
}

/// A key and what is added to its number.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyNumber {
    key: Octets,
    by: i64,
}

/// A range, or a prefix, and how many keys of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScanStep {
    #[serde(default)]
    from: Octets,
    #[serde(default)]
    to: Octets,
    prefix: Option<Octets>,
    limit: u32,
}

/// The result of a batch.
#[derive(Debug, Serialize)]
pub(crate) struct AppliedBody {
    answers: Vec<AnswerBody>,
    token: String,
    timestamp: String,
}

/// The answer of a step.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum AnswerBody {
    Value { value: Option<Octets> },
    Done { done: bool },
    Number { number: i64 },
    Length { length: u64 },
    Page { entries: Vec<Entry>, next: Option<Octets> },
}

impl From<&StepAnswer> for AnswerBody {
    fn from(answer: &StepAnswer) -> Self {
        match answer {
            StepAnswer::Value(value) => AnswerBody::Value { value: value.clone().map(Octets) },
            StepAnswer::Done => AnswerBody::Done { done: true },
            StepAnswer::Number(number) => AnswerBody::Number { number: *number },
            StepAnswer::Length(length) => AnswerBody::Length { length: *length },
            StepAnswer::Page(page) => {
                AnswerBody::Page { entries: Entry::all(page), next: page.next.as_ref().map(Octets::from) }
            }
        }
    }
}

impl AppliedBody {
    /// The result of a batch that has committed.
    pub(crate) fn new(answers: &[StepAnswer], receipt: &Receipt) -> Self {
        let Receipt { token, timestamp, .. } = receipt;
        let answers = answers.iter().map(AnswerBody::from).collect();
        AppliedBody { answers, token: token.to_string(), timestamp: timestamp.to_string() }
    }
}

/// The problem of a batch of which a condition does not hold.
pub(crate) fn unmet(condition: usize, found: Option<Value>) -> Problem {
    // A string is always written.
    let found = serde_json::to_value(found.map(Octets)).unwrap_or_default();
    let detail = format!("condition {condition} does not hold, and nothing was done");
    Problem::new(Kind::Unmet, detail).with("condition", condition).with("found", found)
}

impl BatchBody {
    pub(crate) fn writes(&self) -> bool {
        !self.steps.iter().all(|step| matches!(step, Step::Read(_) | Step::Scan(_)))
    }

    pub(crate) fn batch(&self) -> Result<Batch, Problem> {
        let mut batch = Batch::new();
        for condition in &self.conditions {
            batch = match condition {
                Condition::Expect(KeyValue { key, value }) => batch.expect(&key.0, &value.0),
                Condition::ExpectAbsent(KeyAlone { key }) => batch.expect_absent(&key.0),
                Condition::ExpectExists(KeyAlone { key }) => batch.expect_exists(&key.0),
                Condition::ExpectAtLeast(KeyLeast { key, number }) => batch.expect_at_least(&key.0, *number),
            };
        }
        for (which, step) in self.steps.iter().enumerate() {
            batch = match step {
                Step::Read(KeyAlone { key }) => batch.read(&key.0),
                Step::Put(Written { key, value, ttl_ms: None }) => batch.put(&key.0, &value.0),
                Step::Put(Written { key, value, ttl_ms: Some(ttl_ms) }) => {
                    batch.put_for(&key.0, &value.0, Duration::from_millis(*ttl_ms))
                }
                Step::Delete(KeyAlone { key }) => batch.delete(&key.0),
                Step::Increment(KeyNumber { key, by }) => batch.increment(&key.0, *by),
                Step::Append(KeyValue { key, value }) => batch.append(&key.0, &value.0),
                Step::Scan(ScanStep { from, to, prefix: None, limit }) => batch.scan(&from.0, &to.0, *limit),
                Step::Scan(ScanStep { from, to, prefix: Some(prefix), limit }) => {
                    if !from.0.is_empty() || !to.0.is_empty() {
                        let detail = format!("step {which}: a scan has a prefix, or from and to");
                        return Err(Problem::new(Kind::Refused, detail).with("step", which));
                    }
                    batch.scan(&prefix.0, end_of_prefix(&prefix.0), *limit)
                }
            };
        }
        Ok(batch)
    }
}

impl BatchBody {
    /// Asks for the rights to all that it touches: to read what it compares and reads, and to write what it changes.
    ///
    /// # Errors
    /// The session lacks one, and nothing was done.
    pub(crate) fn require(&self, session: &Session, keyspace: &str) -> Result<(), Problem> {
        let ask = |access| require(session, keyspace, access);
        for condition in &self.conditions {
            let (Condition::Expect(KeyValue { key, .. })
            | Condition::ExpectAbsent(KeyAlone { key })
            | Condition::ExpectExists(KeyAlone { key })
            | Condition::ExpectAtLeast(KeyLeast { key, .. })) = condition;
            ask(Access::Read(Scope::Key(&key.0)))?;
        }
        for step in &self.steps {
            ask(match step {
                Step::Read(KeyAlone { key }) => Access::Read(Scope::Key(&key.0)),
                Step::Put(Written { key, .. })
                | Step::Delete(KeyAlone { key })
                | Step::Increment(KeyNumber { key, .. })
                | Step::Append(KeyValue { key, .. }) => Access::Write(Scope::Key(&key.0)),
                Step::Scan(ScanStep { prefix: Some(prefix), .. }) => Access::Read(Scope::Prefix(&prefix.0)),
                Step::Scan(ScanStep { from, to, prefix: None, .. }) => {
                    Access::Read(Scope::Range(&from.0, Some(&to.0[..]).filter(|to| !to.is_empty())))
                }
            })?;
        }
        Ok(())
    }
}

/// Carries out a batch.
pub(crate) async fn apply(session: &Session, request: &Request) -> Result<Answer, Problem> {
    let body: BatchBody = request.json()?;
    let (batch, writes) = (body.batch()?, body.writes());
    body.require(session, request.name(0)?)?;
    drop(body);
    let access = if writes { Access::Write(Scope::Part) } else { Access::Read(Scope::Part) };
    if let Some(marker) = marker_of(request)? {
        return once::apply(session, request, &marker, access, &batch, unmet).await;
    }
    let apply = async |keyspace: Keyspace| Ok(keyspace.apply(batch.clone()).await?);
    match in_keyspace(session, request, access, apply).await? {
        Applied::Done { answers, receipt } => {
            Ok(Answer::json(StatusCode::OK, &AppliedBody::new(&answers, &receipt)).receipt(&receipt))
        }
        Applied::Unmet { condition, found } => Err(unmet(condition, found)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Batch, String> {
        let body: BatchBody = serde_json::from_str(text).map_err(|error| error.to_string())?;
        body.batch().map_err(|problem| problem.body().to_string())
    }

    #[test]
    fn batches_are_read_step_by_step() {
        let text = r#"{"conditions": [{"expect": {"key": "a", "value": "1"}}, {"expect_absent": {"key": "b"}}, {"expect_exists": {"key": "c"}}, {"expect_at_least": {"key": "n", "number": 3}}],
            "steps": [{"read": {"key": "a"}}, {"put": {"key": {"base64": "/w=="}, "value": ""}}, {"delete": {"key": "d"}},
                {"increment": {"key": "n", "by": -3}}, {"append": {"key": "l", "value": "x"}},
                {"scan": {"from": "a", "to": "b", "limit": 3}}, {"scan": {"prefix": "p", "limit": 1}}]}"#;
        let batch = Batch::new()
            .expect("a", "1")
            .expect_absent("b")
            .expect_exists("c")
            .expect_at_least("n", 3)
            .read("a")
            .put(b"\xff", "")
            .delete("d")
            .increment("n", -3)
            .append("l", "x")
            .scan("a", "b", 3)
            .scan("p", "q", 1);
        assert_eq!(read(text), Ok(batch));
    }

    #[test]
    fn what_is_no_batch_is_refused_with_what_is_wrong() {
        for (text, what) in [
            (r#"{"step": []}"#, "unknown field `step`"),
            (r#"{"steps": [{"get": {"key": "a"}}]}"#, "unknown variant `get`"),
            (r#"{"steps": [{"put": {"key": "a"}}]}"#, "missing field `value`"),
            (r#"{"steps": [{"read": {"key": 7}}]}"#, "a string, or"),
            (r#"{"steps": [{"increment": {"key": "a", "by": 9223372036854775808}}]}"#, "i64"),
            (r#"{"steps": [{"scan": {"prefix": "a", "from": "b", "limit": 1}}]}"#, "step 0"),
            ("[[[[", "expected value"),
            ("", "EOF"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(what), "{text}: {error}");
        }
        assert!(read(&"[".repeat(100_000)).is_err());
    }
}
