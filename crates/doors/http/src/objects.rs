//! Counters and counting sets of `parallel-snapshot` keyspaces, and changes of them in one transaction with writes of keys. The names of changes are
//! those of the methods of `quorate::Transaction`.

use hyper::StatusCode;
use quorate::{Key, Keyspace, Receipt, Timestamp, Transaction};
use quorate_gateway::{Scope, Session};
use serde::{Deserialize, Serialize};

use crate::answer::Answer;
use crate::batch::{KeyAlone, KeyValue};
use crate::keys::{limit, next_address};
use crate::keyspaces::{Access, in_keyspace, require};
use crate::problem::Problem;
use crate::request::Request;
use crate::text::Octets;

/// Changes that are made in one transaction.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChangesBody {
    changes: Vec<Change>,
}

/// A change. None of them depends on what there is, so that no site has to ask another for more than the preferred site of a key.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Change {
    CounterAdd(CounterBy),
    SetAdd(SetElement),
    SetRemove(SetElement),
    Put(KeyValue),
    Delete(KeyAlone),
}

/// A counter and what is added to it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CounterBy {
    key: Octets,
    by: i32,
}

/// A set and an element of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SetElement {
    key: Octets,
    element: Octets,
}

/// A committed transaction.
#[derive(Debug, Serialize)]
struct CommittedBody {
    token: String,
    timestamp: String,
}

/// The value of a counter.
#[derive(Debug, Serialize)]
struct CounterBody {
    value: i64,
}

/// The count of an element.
#[derive(Debug, Serialize)]
struct CountBody {
    count: i64,
}

/// A page of the elements of a set.
#[derive(Debug, Serialize)]
struct ElementsBody {
    elements: Vec<ElementBody>,
    /// The address of the next page; none if the set ends here.
    next: Option<String>,
}

/// An element and its count.
#[derive(Debug, Serialize)]
struct ElementBody {
    element: Octets,
    count: i64,
}

impl Change {
    fn key(&self) -> &[u8] {
        match self {
            Change::CounterAdd(CounterBy { key, .. })
            | Change::SetAdd(SetElement { key, .. })
            | Change::SetRemove(SetElement { key, .. })
            | Change::Put(KeyValue { key, .. })
            | Change::Delete(KeyAlone { key }) => &key.0,
        }
    }

    fn make(&self, txn: &Transaction) -> quorate::Result<()> {
        match self {
            Change::CounterAdd(CounterBy { key, by }) => txn.counter_add(&key.0, *by),
            Change::SetAdd(SetElement { key, element }) => txn.set_add(&key.0, &element.0),
            Change::SetRemove(SetElement { key, element }) => txn.set_remove(&key.0, &element.0),
            Change::Put(KeyValue { key, value }) => txn.put(&key.0, &value.0),
            Change::Delete(KeyAlone { key }) => txn.delete(&key.0),
        }
    }
}

/// Makes all changes of a request, or none.
pub(crate) async fn change(session: &Session, request: &Request) -> Result<Answer, Problem> {
    let body: ChangesBody = request.json()?;
    for change in &body.changes {
        require(session, request.name(0)?, Access::Write(Scope::Key(change.key())))?;
    }
    let run = async |keyspace: Keyspace| {
        let make = async |txn: Transaction| body.changes.iter().try_for_each(|change| change.make(&txn));
        Ok(keyspace.transact_with_receipt(make).await?.1)
    };
    let Receipt { token, timestamp, .. } =
        in_keyspace(session, request, Access::Write(Scope::Part), run).await?;
    Ok(committed(&token.to_string(), timestamp))
}

/// The answer to changes that have committed.
pub(crate) fn committed(token: &str, timestamp: Timestamp) -> Answer {
    let told = CommittedBody { token: token.to_owned(), timestamp: timestamp.to_string() };
    Answer::json(StatusCode::OK, &told).token(token).timestamp(timestamp)
}

/// Tells the value of a counter.
pub(crate) async fn counter(session: &Session, request: &Request) -> Result<Answer, Problem> {
    let key = request.key(1);
    let read = async |txn: Transaction| txn.counter_get(key).await;
    let value = in_snapshot(session, request, read).await?;
    Ok(Answer::json(StatusCode::OK, &CounterBody { value }))
}

/// Tells the count of an element of a set.
pub(crate) async fn count(session: &Session, request: &Request) -> Result<Answer, Problem> {
    let (set, element) = (request.key(1), request.key(2));
    let read = async |txn: Transaction| txn.set_count(set, element).await;
    let count = in_snapshot(session, request, read).await?;
    Ok(Answer::json(StatusCode::OK, &CountBody { count }))
}

/// Tells the elements of a set whose count is not zero, a page at a time.
pub(crate) async fn elements(session: &Session, request: &Request) -> Result<Answer, Problem> {
    let (set, limit) = (request.key(1), limit(request)?);
    let from = request.parameter("from").unwrap_or_default();
    // One more tells where the next page begins.
    let read = async |txn: Transaction| {
        txn.set_iter(set).between(from, "").limit(limit as usize + 1).collect().await
    };
    let mut found = in_snapshot(session, request, read).await?;
    let path = request.address.split('?').next().unwrap_or_default();
    let rest = found.split_off(found.len().min(limit as usize));
    let next = rest.first().map(|(element, _)| next_address(path, element, b"", limit, None));
    let element =
        |(element, count): &(Key, i64)| ElementBody { element: Octets::from(element), count: *count };
    let elements = found.iter().map(element).collect();
    Ok(Answer::json(StatusCode::OK, &ElementsBody { elements, next }))
}

/// Reads something in a transaction of its own.
async fn in_snapshot<T>(
    session: &Session,
    request: &Request,
    read: impl AsyncFn(Transaction) -> quorate::Result<T>,
) -> Result<T, Problem> {
    let read = &read;
    let run = async |keyspace: Keyspace| Ok(keyspace.transact(move |txn| read(txn)).await?);
    in_keyspace(session, request, Access::Read(Scope::Key(request.key(1))), run).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_that_make_no_sense_are_refused() {
        for (text, what) in [
            (r#"{}"#, "missing field `changes`"),
            (r#"{"changes": [{"counter_add": {"key": "a", "by": 2147483648}}]}"#, "i32"),
            (r#"{"changes": [{"counter_add": {"key": "a"}}]}"#, "missing field `by`"),
            (r#"{"changes": [{"set_insert": {"key": "a", "element": "b"}}]}"#, "unknown variant"),
        ] {
            let error = serde_json::from_str::<ChangesBody>(text).unwrap_err().to_string();
            assert!(error.contains(what), "{text}: {error}");
        }
        let text = r#"{"changes": [{"set_add": {"key": "s", "element": {"base64": "/w=="}}}, {"delete": {"key": "k"}}]}"#;
        assert_eq!(serde_json::from_str::<ChangesBody>(text).unwrap().changes.len(), 2);
    }
}
