//! Carries statements out.

use std::fmt::Write;
use std::time::Duration;

use quorate::{
    Batch, Database, Error, Keyspace, Outcome, Page, RangeSnapshot, Snapshot, StepAnswer, Token, Transaction,
    Value,
};

use super::statement::{KeyspaceAction, Range, Statement};
use crate::command::definition_lines;

/// How long a transaction may stay open between two statements of a person.
const IDLE_MAX: Duration = Duration::from_secs(3600);

/// What is left to do after a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// Show this, and go on.
    Text(String),
    /// Leave.
    Exit,
}

/// The state of one shell: the keyspace in use and the open transaction.
pub(crate) struct Session {
    db: Database,
    keyspace: Option<Keyspace>,
    transaction: Option<Transaction>,
    last: Option<Token>,
}

impl Session {
    /// A session without a keyspace: if there is exactly one, it is used.
    pub(crate) fn new(db: Database) -> Self {
        Session { db, keyspace: None, transaction: None, last: None }
    }

    /// Chooses the keyspace by name.
    pub(crate) async fn choose(&mut self, name: &str) -> Result<(), Error> {
        self.keyspace = Some(self.db.keyspace(name).await?);
        Ok(())
    }

    /// What stands before the cursor: the keyspace, with a star while a transaction is open.
    pub(crate) fn prompt(&self) -> String {
        let name = self.keyspace.as_ref().map_or("quorate", Keyspace::name);
        let open = if self.transaction.is_some() { "*" } else { "" };
        format!("{name}{open}")
    }

    /// Drops what is open and closes the connection.
    pub(crate) async fn close(mut self) {
        if let Some(mut txn) = self.transaction.take() {
            // The connection is closed next, which ends the transaction as well.
            let _ = txn.abort().await;
        }
        self.db.close().await;
    }

    /// Carries out one statement.
    pub(crate) async fn execute(&mut self, statement: Statement) -> Result<Reply, Error> {
        let text = match statement {
            Statement::Get { keys } => match keys.as_slice() {
                [key] => show_value(self.get(key).await?.as_ref()),
                keys => show_values(keys, &self.get_many(keys).await?),
            },
            Statement::Read { keys } => {
                self.refuse_inside_transaction()?;
                show_values(&keys, &self.in_use().await?.read_only(&keys).await?)
            }
            Statement::ReadAt { timestamp, keys } => {
                self.refuse_inside_transaction()?;
                show_values(&keys, &self.in_use().await?.read_at(timestamp, &keys).await?)
            }
            Statement::ReadStale { milliseconds, keys } => {
                self.refuse_inside_transaction()?;
                let staleness = Duration::from_millis(milliseconds);
                show_snapshot(&keys, &self.in_use().await?.read_stale(staleness, &keys).await?)
            }
            Statement::ReadNow { keys } => {
                self.refuse_inside_transaction()?;
                show_snapshot(&keys, &self.in_use().await?.read_now(&keys).await?)
            }
            Statement::Put { key, value } => self.put(&key, &value).await?,
            Statement::Delete { key } => self.delete(&key).await?,
            Statement::Increment { key, by } => self.apply(Batch::new().increment(key, by)).await?,
            Statement::Append { key, value } => self.apply(Batch::new().append(key, value)).await?,
            Statement::Scan { range } => show_page(&self.scan(&range).await?),
            Statement::ScanAt { timestamp, range: Range { from, to, limit } } => {
                self.refuse_inside_transaction()?;
                show_page(&self.in_use().await?.scan_at(timestamp, from, to, limit).await?)
            }
            Statement::ScanStale { milliseconds, range: Range { from, to, limit } } => {
                self.refuse_inside_transaction()?;
                let staleness = Duration::from_millis(milliseconds);
                show_range(&self.in_use().await?.scan_stale(staleness, from, to, limit).await?)
            }
            Statement::ScanNow { range: Range { from, to, limit } } => {
                self.refuse_inside_transaction()?;
                show_range(&self.in_use().await?.scan_now(from, to, limit).await?)
            }
            Statement::Begin => self.begin().await?,
            Statement::Commit => self.commit().await?,
            Statement::Abort => self.abort().await?,
            Statement::Token => match self.transaction.as_ref().map(Transaction::token).or(self.last.clone())
            {
                Some(token) => token.to_string(),
                None => return Err(Error::application("there was no transaction yet")),
            },
            Statement::Outcome { token } => match self.db.outcome(&token).await? {
                Outcome::Committed(timestamp) => format!("committed at {timestamp}"),
                Outcome::Aborted => "aborted".to_owned(),
            },
            Statement::Use { name } => {
                self.refuse_inside_transaction()?;
                self.choose(&name).await?;
                format!("using {name}")
            }
            Statement::Keyspace { action } => self.keyspace(action).await?,
            Statement::Exit => return Ok(Reply::Exit),
        };
        Ok(Reply::Text(text))
    }

    async fn get(&mut self, key: &str) -> Result<Option<Value>, Error> {
        match &self.transaction {
            Some(txn) => txn.get(key).await,
            None => self.in_use().await?.get(key).await,
        }
    }

    async fn get_many(&mut self, keys: &[String]) -> Result<Vec<Option<Value>>, Error> {
        match &self.transaction {
            Some(txn) => txn.get_many(keys).await,
            None => self.in_use().await?.read_only(keys).await,
        }
    }

    async fn put(&mut self, key: &str, value: &str) -> Result<String, Error> {
        match &self.transaction {
            Some(txn) => txn.put(key, value)?,
            None => {
                let (_, receipt) =
                    self.in_use().await?.transact_with_receipt(async |txn| txn.put(key, value)).await?;
                self.last = Some(receipt.token);
            }
        }
        Ok("ok".to_owned())
    }

    async fn delete(&mut self, key: &str) -> Result<String, Error> {
        match &self.transaction {
            Some(txn) => txn.delete(key)?,
            None => {
                let (_, receipt) =
                    self.in_use().await?.transact_with_receipt(async |txn| txn.delete(key)).await?;
                self.last = Some(receipt.token);
            }
        }
        Ok("ok".to_owned())
    }

    /// Carries out a batch of one step, and shows what that has come to.
    async fn apply(&mut self, batch: Batch) -> Result<String, Error> {
        self.refuse_inside_transaction()?;
        let applied = self.in_use().await?.apply(batch).await?;
        self.last = applied.receipt().map(|receipt| receipt.token.clone());
        Ok(applied.answers().iter().map(show_answer).collect::<Vec<_>>().join("\n"))
    }

    async fn scan(&mut self, Range { from, to, limit }: &Range) -> Result<Page, Error> {
        match &self.transaction {
            Some(txn) => txn.scan(from, to, *limit).await,
            None => self.in_use().await?.scan(from, to, *limit).await,
        }
    }

    async fn begin(&mut self) -> Result<String, Error> {
        self.refuse_inside_transaction()?;
        let txn = self.in_use().await?.with_deadline(IDLE_MAX).begin().await?;
        self.transaction = Some(txn);
        Ok("begun".to_owned())
    }

    async fn commit(&mut self) -> Result<String, Error> {
        let mut txn = self.take_transaction()?;
        self.last = Some(txn.token());
        let receipt = txn.commit().await?;
        Ok(format!("committed at {}, token {}", receipt.timestamp, receipt.token))
    }

    async fn abort(&mut self) -> Result<String, Error> {
        let mut txn = self.take_transaction()?;
        self.last = Some(txn.token());
        txn.abort().await?;
        Ok("aborted".to_owned())
    }

    async fn keyspace(&mut self, action: KeyspaceAction) -> Result<String, Error> {
        match action {
            KeyspaceAction::Create(create) => {
                self.refuse_inside_transaction()?;
                let keyspace = self.db.create_keyspace(&create.name, create.options()).await?;
                let text = definition_lines(&self.db, &keyspace.definition());
                self.keyspace = Some(keyspace);
                Ok(text)
            }
            KeyspaceAction::List => {
                let names: Vec<String> = self
                    .db
                    .list()
                    .await?
                    .into_iter()
                    .map(|definition| format!("{} ({})", definition.name, definition.isolation))
                    .collect();
                Ok(if names.is_empty() { "there is no keyspace yet".to_owned() } else { names.join("\n") })
            }
            KeyspaceAction::Show { name } => {
                Ok(definition_lines(&self.db, &self.db.keyspace(&name).await?.definition()))
            }
            KeyspaceAction::Drop(drop) => {
                self.refuse_inside_transaction()?;
                let text = drop.run(&self.db).await?;
                if self.keyspace.as_ref().is_some_and(|keyspace| keyspace.name() == drop.name) {
                    self.keyspace = None;
                }
                Ok(text)
            }
            KeyspaceAction::Undrop(undrop) => {
                self.refuse_inside_transaction()?;
                undrop.run(&self.db).await
            }
        }
    }

    /// The keyspace in use; the only one there is, if none was chosen.
    async fn in_use(&mut self) -> Result<Keyspace, Error> {
        if let Some(keyspace) = &self.keyspace {
            return Ok(keyspace.clone());
        }
        let names: Vec<String> =
            self.db.list().await?.into_iter().map(|definition| definition.name).collect();
        match names.as_slice() {
            [only] => {
                let keyspace = self.db.keyspace(only).await?;
                self.keyspace = Some(keyspace.clone());
                Ok(keyspace)
            }
            [] => Err(Error::application(
                "there is no keyspace yet: create one with `keyspace create NAME --isolation strict`",
            )),
            names => Err(Error::application(format!(
                "choose a keyspace with `use NAME`; there are: {}",
                names.join(", ")
            ))),
        }
    }

    fn take_transaction(&mut self) -> Result<Transaction, Error> {
        self.transaction.take().ok_or_else(|| Error::application("no transaction is open: `begin` opens one"))
    }

    fn refuse_inside_transaction(&self) -> Result<(), Error> {
        match self.transaction {
            Some(_) => Err(Error::application("a transaction is open: `commit` or `abort` it first")),
            None => Ok(()),
        }
    }
}

fn show_value(value: Option<&Value>) -> String {
    value.map_or_else(|| "(absent)".to_owned(), |value| readable(value))
}

fn show_answer(answer: &StepAnswer) -> String {
    match answer {
        StepAnswer::Value(value) => show_value(value.as_ref()),
        StepAnswer::Done => "ok".to_owned(),
        StepAnswer::Number(number) => number.to_string(),
        StepAnswer::Length(length) => format!("{length} bytes"),
        StepAnswer::Page(page) => show_page(page),
    }
}

/// One line a key, in the order in which they were asked for.
fn show_values(keys: &[String], values: &[Option<Value>]) -> String {
    let line = |(key, value): (&String, &Option<Value>)| format!("{key}  {}", show_value(value.as_ref()));
    keys.iter().zip(values).map(line).collect::<Vec<_>>().join("\n")
}

fn show_snapshot(keys: &[String], snapshot: &Snapshot) -> String {
    format!("{}\nat {}", show_values(keys, &snapshot.values), snapshot.timestamp)
}

fn show_range(snapshot: &RangeSnapshot) -> String {
    format!("{}\nat {}", show_page(&snapshot.page), snapshot.timestamp)
}

fn show_page(page: &Page) -> String {
    let mut text = String::new();
    for (key, value) in &page.entries {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}  {}", readable(key), readable(value));
    }
    match &page.next {
        Some(next) => {
            let _ = write!(text, "… the limit is reached: go on from {}", readable(next));
        }
        None if page.entries.is_empty() => text.push_str("(nothing)"),
        None => {
            text.pop();
        }
    }
    text
}

/// Text as it is, other bytes escaped.
fn readable(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains(char::is_control) => text.to_owned(),
        _ => bytes.escape_ascii().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use quorate::{ClientId, Key, Timestamp};

    use super::*;

    #[test]
    fn values_are_shown_as_text_where_they_are_text() {
        assert_eq!(show_value(None), "(absent)");
        assert_eq!(show_value(Some(&Value::from("grüße"))), "grüße");
        assert_eq!(show_value(Some(&Value::from_static(b"\x00\xff"))), "\\x00\\xff");
    }

    #[test]
    fn a_snapshot_says_what_each_key_held_and_when() {
        let keys = ["a".to_owned(), "b".to_owned()];
        let timestamp = Timestamp { micros: 7, client: ClientId(255) };
        let values = vec![Some(Value::from("1")), None];
        let snapshot = Snapshot { values, timestamp, attempts: 1 };
        assert_eq!(show_snapshot(&keys, &snapshot), "a  1\nb  (absent)\nat 7@ff");
    }

    #[test]
    fn pages_say_where_to_go_on() {
        let entry = |key: &'static str| (Key::from(key), Value::from("1"));
        let page = Page { entries: vec![entry("a"), entry("b")], next: None };
        assert_eq!(show_page(&page), "a  1\nb  1");
        let page = Page { entries: vec![entry("a")], next: Some(Key::from("b")) };
        assert_eq!(show_page(&page), "a  1\n… the limit is reached: go on from b");
        assert_eq!(show_page(&Page::default()), "(nothing)");
        let timestamp = Timestamp { micros: 7, client: ClientId(255) };
        let snapshot = RangeSnapshot { page: Page::default(), timestamp, attempts: 1 };
        assert_eq!(show_range(&snapshot), "(nothing)\nat 7@ff");
    }
}
