//! Carries statements out.

use std::time::Duration;

use quorate::index::IndexValue;
use quorate::{
    Applied, Batch, Database, Ensured, Error, Keyspace, Page, RangeSnapshot, Snapshot, Token, Transaction,
    Value,
};

use super::answer::{Answer, keyspace_fields};
use super::completion::Vocabulary;
use super::statement::{KeyspaceAction, Range, Statement, Text};
use crate::command::{
    Acted, created_json, created_lines, definition_lines, index_json, index_lines, to_json,
};
use crate::output::Progress;

/// How long a transaction may stay open between two statements of a person.
const IDLE_MAX: Duration = Duration::from_secs(3600);

/// The next step after a statement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reply {
    /// Show this, and go on.
    Answer(Answer),
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

    /// The words before the cursor: the keyspace, with a star while a transaction is open.
    pub(crate) fn prompt(&self) -> String {
        let name = self.keyspace.as_ref().map_or("quorate", Keyspace::name);
        let open = if self.transaction.is_some() { "*" } else { "" };
        format!("{name}{open}")
    }

    /// The names of keyspaces and keys, as far as they can be asked for now.
    pub(crate) fn vocabulary(&self) -> Vocabulary {
        Vocabulary::new(self.db.clone(), self.keyspace.clone())
    }

    /// Drops what is open and closes the connection. True if a transaction was open.
    pub(crate) async fn close(mut self) -> bool {
        let open = self.transaction.take();
        let was_open = open.is_some();
        if let Some(mut txn) = open {
            // The connection is closed next, which ends the transaction as well.
            let _ = txn.abort().await;
        }
        self.db.close().await;
        was_open
    }

    /// A statement was stopped: says what may have become of it.
    pub(crate) fn interrupted(&self, statement: &str) -> String {
        let ask = self.last.as_ref().map(|token| format!(": `outcome {token}` asks"));
        match statement {
            "commit" => format!(
                "interrupted; the transaction may or may not have committed{}",
                ask.unwrap_or_default()
            ),
            "put" | "delete" | "increment" | "decrement" | "append" if self.transaction.is_none() => {
                "interrupted; it may or may not have been committed: read before you repeat it".to_owned()
            }
            "keyspace" => "interrupted; what was begun may still be done: `keyspace list` tells".to_owned(),
            _ => "interrupted".to_owned(),
        }
    }

    /// Carries out one statement.
    pub(crate) async fn execute(&mut self, statement: Statement) -> Result<Reply, Error> {
        let answer = match statement {
            Statement::Get { keys } => match keys.as_slice() {
                [key] => Answer::Value(self.get(key).await?),
                keys => values(keys, self.get_many(keys).await?),
            },
            Statement::Read { keys } => match &self.transaction {
                Some(_) => values(&keys, self.get_many(&keys).await?),
                None => values(&keys, self.in_use().await?.read_only(&keys).await?),
            },
            Statement::ReadAt { timestamp, keys } => {
                values(&keys, self.in_use().await?.read_at(timestamp, &keys).await?)
            }
            Statement::ReadStale { staleness, keys } => {
                snapshot(&keys, self.in_use().await?.read_stale(staleness, &keys).await?)
            }
            Statement::ReadNow { keys } => snapshot(&keys, self.in_use().await?.read_now(&keys).await?),
            Statement::Put { key, value, ttl } => self.put(key, value, ttl).await?,
            Statement::Ttl { key } => self.ttl(&key).await?,
            Statement::Delete { key } => self.delete(key).await?,
            Statement::Increment { key, by, at_least } => self.increment(key, by, at_least).await?,
            Statement::Decrement { key, by, at_least } => {
                let by = by
                    .checked_neg()
                    .ok_or_else(|| Error::application("the number does not fit into 64 bits"))?;
                self.increment(key, by, at_least).await?
            }
            Statement::Append { key, value } => self.append(key, value).await?,
            Statement::Scan { range } => Answer::Page { page: self.scan(range).await?, at: None },
            Statement::ScanAt { timestamp, range: Range { from, to, limit } } => {
                let page = self.in_use().await?.scan_at(timestamp, from, to, limit).await?;
                Answer::Page { page, at: None }
            }
            Statement::ScanStale { staleness, range: Range { from, to, limit } } => {
                range_snapshot(self.in_use().await?.scan_stale(staleness, from, to, limit).await?)
            }
            Statement::ScanNow { range: Range { from, to, limit } } => {
                range_snapshot(self.in_use().await?.scan_now(from, to, limit).await?)
            }
            Statement::Find { index, value, from, to, limit } => {
                self.find(&index, value, (from, to), limit).await?
            }
            Statement::Begin => self.begin().await?,
            Statement::Commit => self.commit().await?,
            Statement::Abort => self.abort().await?,
            Statement::Token => match self.transaction.as_ref().map(Transaction::token).or(self.last.clone())
            {
                Some(token) => Answer::Token(token),
                None => return Err(Error::application("there was no transaction yet")),
            },
            Statement::Outcome { token } => Answer::Outcome(self.db.outcome(&token).await?),
            Statement::Use { name } => {
                self.refuse_to_leave(&name)?;
                self.choose(&name).await?;
                Answer::Text(format!("using {name}"))
            }
            Statement::Keyspace { action } => self.keyspace(action).await?,
            Statement::Timing { .. } | Statement::Json { .. } | Statement::Watch { .. } => {
                return Err(Error::application("this is for the shell at a terminal alone"));
            }
            Statement::Exit => return Ok(Reply::Exit),
        };
        Ok(Reply::Answer(answer))
    }

    async fn get(&mut self, key: &Text) -> Result<Option<Value>, Error> {
        match &self.transaction {
            Some(txn) => txn.get(key).await,
            None => self.in_use().await?.get(key).await,
        }
    }

    async fn get_many(&mut self, keys: &[Text]) -> Result<Vec<Option<Value>>, Error> {
        match &self.transaction {
            Some(txn) => txn.get_many(keys).await,
            None => self.in_use().await?.read_only(keys).await,
        }
    }

    async fn ttl(&mut self, key: &Text) -> Result<Answer, Error> {
        let held = match &self.transaction {
            Some(txn) => txn.get_with_expiry(key).await?,
            None => self.in_use().await?.get_with_expiry(key).await?,
        };
        Ok(Answer::Ttl(held.map(|held| held.remaining())))
    }

    async fn put(&mut self, key: Text, value: Text, ttl: Option<Duration>) -> Result<Answer, Error> {
        let put = |txn: &Transaction| match ttl {
            Some(lifetime) => txn.put_for(&key, &value, lifetime),
            None => txn.put(&key, &value),
        };
        match &self.transaction {
            Some(txn) => put(txn)?,
            None => {
                let keyspace = self.in_use().await?;
                let (_, receipt) = keyspace.transact_with_receipt(async |txn| put(&txn)).await?;
                self.last = Some(receipt.token);
            }
        }
        Ok(Answer::Done)
    }

    async fn delete(&mut self, key: Text) -> Result<Answer, Error> {
        match &self.transaction {
            Some(txn) => txn.delete(key)?,
            None => {
                let keyspace = self.in_use().await?;
                let (_, receipt) = keyspace.transact_with_receipt(async |txn| txn.delete(&key)).await?;
                self.last = Some(receipt.token);
            }
        }
        Ok(Answer::Done)
    }

    /// Within a transaction the number is read and written, else it is one step of a batch.
    async fn increment(&mut self, key: Text, by: i64, at_least: Option<i64>) -> Result<Answer, Error> {
        let Some(txn) = &self.transaction else {
            let batch = Batch::new().increment(&key, by);
            let least = |least| batch.clone().expect_at_least(&key, least);
            return self.apply(at_least.map_or_else(|| batch.clone(), least), at_least).await;
        };
        let found = txn.get(&key).await?;
        let number = match &found {
            None => 0,
            Some(value) => {
                let digits = std::str::from_utf8(value).ok().and_then(|digits| digits.parse::<i64>().ok());
                digits.ok_or_else(|| Error::application("the key holds no number in decimal digits"))?
            }
        };
        if let Some(least) = at_least.filter(|least| number < *least) {
            return Err(too_little(found, least));
        }
        let sum =
            number.checked_add(by).ok_or_else(|| Error::application("the sum does not fit into 64 bits"))?;
        txn.put(key, sum.to_string())?;
        Ok(Answer::Number(sum))
    }

    /// The same for text.
    async fn append(&mut self, key: Text, added: Text) -> Result<Answer, Error> {
        let Some(txn) = &self.transaction else {
            return self.apply(Batch::new().append(key, added), None).await;
        };
        let mut value = txn.get(&key).await?.map(|value| value.to_vec()).unwrap_or_default();
        value.extend_from_slice(added.as_ref());
        let length = value.len() as u64;
        txn.put(key, value)?;
        Ok(Answer::Length(length))
    }

    /// Carries out a batch of one step, with no condition but that its key holds at least so much.
    async fn apply(&mut self, batch: Batch, at_least: Option<i64>) -> Result<Answer, Error> {
        let applied = self.in_use().await?.apply(batch).await?;
        self.last = applied.receipt().map(|receipt| receipt.token.clone());
        if let (Applied::Unmet { found, .. }, Some(least)) = (&applied, at_least) {
            return Err(too_little(found.clone(), least));
        }
        Ok(applied.answers().first().map_or(Answer::Done, Answer::from))
    }

    async fn scan(&mut self, Range { from, to, limit }: Range) -> Result<Page, Error> {
        match &self.transaction {
            Some(txn) => txn.scan(from, to, limit).await,
            None => self.in_use().await?.scan(from, to, limit).await,
        }
    }

    async fn find(
        &mut self,
        index: &str,
        value: Option<String>,
        (from, to): (Option<String>, Option<String>),
        limit: u32,
    ) -> Result<Answer, Error> {
        let read = |text: Option<String>| text.map(|text| IndexValue::read(&text));
        let (value, from, to) = (read(value), read(from), read(to));
        let found = match (&self.transaction, value) {
            (Some(txn), Some(value)) => txn.index(index).get(value, limit).await?,
            (Some(txn), None) => txn.index(index).range(from, to, limit).await?,
            (None, Some(value)) => self.in_use().await?.find(index, value, limit).await?,
            (None, None) => self.in_use().await?.find_range(index, from, to, limit).await?,
        };
        // Where the next page begins is a key of the index, which means nothing to people.
        let is_more = found.next.is_some();
        let entries = found.entries.into_iter().map(|found| (found.key, found.value)).collect();
        Ok(Answer::Found { entries, is_more })
    }

    async fn begin(&mut self) -> Result<Answer, Error> {
        if self.transaction.is_some() {
            return Err(Error::application("a transaction is open: `commit` or `abort` it first"));
        }
        let txn = self.in_use().await?.with_deadline(IDLE_MAX).begin().await?;
        self.transaction = Some(txn);
        Ok(Answer::Text("begun".to_owned()))
    }

    async fn commit(&mut self) -> Result<Answer, Error> {
        let mut txn = self.take_transaction()?;
        self.last = Some(txn.token());
        let receipt = txn.commit().await?;
        Ok(Answer::Committed { timestamp: receipt.timestamp, token: receipt.token })
    }

    async fn abort(&mut self) -> Result<Answer, Error> {
        let mut txn = self.take_transaction()?;
        self.last = Some(txn.token());
        txn.abort().await?;
        Ok(Answer::Text("aborted".to_owned()))
    }

    /// Carries out an action on keyspaces. None is part of a transaction: within an open one it is carried out beside it.
    async fn keyspace(&mut self, action: KeyspaceAction) -> Result<Answer, Error> {
        Ok(match action {
            KeyspaceAction::Create(create) => {
                let Ensured { keyspace, is_new } = create.run(&self.db, None, |_| {}).await?;
                let definition = keyspace.definition();
                let lines = created_lines(&self.db, &definition, is_new);
                let fields = keyspace_fields(created_json(&self.db, &definition, is_new));
                let answer = self.beside(Answer::Described { lines, fields });
                if self.transaction.is_none() {
                    self.keyspace = Some(keyspace);
                }
                answer
            }
            KeyspaceAction::List => {
                let keyspaces = self.db.list().await?.into_iter();
                let keyspaces = keyspaces.map(|definition| (definition.name.clone(), definition.isolation));
                Answer::Keyspaces(keyspaces.collect())
            }
            KeyspaceAction::Show { name } => {
                let definition = self.db.keyspace(&name).await?.definition();
                Answer::Described {
                    lines: definition_lines(&self.db, &definition),
                    fields: keyspace_fields(to_json(&self.db, &definition)),
                }
            }
            KeyspaceAction::Drop(drop) => {
                self.refuse_within(&drop.name, "before you drop the keyspace")?;
                let text = drop.run(&self.db).await?;
                if self.keyspace.as_ref().is_some_and(|keyspace| keyspace.name() == drop.name) {
                    self.keyspace = None;
                }
                self.beside(Answer::Text(text))
            }
            KeyspaceAction::Index { action } => {
                // Every transaction that writes and does not know the indexes as they are is refused.
                let changed = action.changes().unwrap_or_default();
                self.refuse_within(changed, "first, because it could not commit once indexes change")?;
                match action.run(&self.db, &Progress::spinner()).await? {
                    Acted::Done { text, json } => {
                        self.beside(Answer::Described { lines: text, fields: keyspace_fields(json) })
                    }
                    Acted::Listed(indexes) => Answer::Described {
                        lines: index_lines(&indexes),
                        fields: keyspace_fields(index_json(&indexes)),
                    },
                }
            }
            KeyspaceAction::Undrop(undrop) => self.beside(Answer::Text(undrop.run(&self.db).await?)),
        })
    }

    /// The answer of a change of keyspaces, with a line that says so if a transaction is open.
    fn beside(&self, mut answer: Answer) -> Answer {
        let Some(keyspace) = self.of_transaction() else { return answer };
        let note = format!(
            "\nthis is done, and no part of the open transaction of {}: `abort` does not undo it",
            keyspace.name()
        );
        match &mut answer {
            Answer::Described { lines, fields } => {
                lines.push_str(&note);
                fields.insert("beside_transaction".to_owned(), true.into());
            }
            Answer::Text(text) => text.push_str(&note),
            _ => {}
        }
        answer
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

    /// The keyspace of the open transaction, which is in use until it ends.
    fn of_transaction(&self) -> Option<&Keyspace> {
        self.transaction.as_ref().and(self.keyspace.as_ref())
    }

    /// Refuses a change of the keyspace of the open transaction.
    fn refuse_within(&self, name: &str, when: &str) -> Result<(), Error> {
        match self.of_transaction().filter(|keyspace| keyspace.name() == name) {
            Some(_) => Err(still_open(name, when)),
            None => Ok(()),
        }
    }

    /// A transaction is one of one keyspace: refuses to use another one while it is open.
    fn refuse_to_leave(&self, name: &str) -> Result<(), Error> {
        match self.of_transaction().filter(|keyspace| keyspace.name() != name) {
            Some(keyspace) => Err(still_open(keyspace.name(), &format!("before you use {name}"))),
            None => Ok(()),
        }
    }
}

/// The refusal of a statement that the open transaction does not allow for.
fn still_open(keyspace: &str, when: &str) -> Error {
    Error::application(format!("the open transaction is one of {keyspace}: `commit` or `abort` it {when}"))
}

/// The key of an increment holds less than is asked for.
fn too_little(found: Option<Value>, least: i64) -> Error {
    let holds = found.map_or("nothing".to_owned(), |value| String::from_utf8_lossy(&value).into_owned());
    Error::application(format!("the key holds {holds}, which is not at least {least}: nothing was changed"))
}

fn values(keys: &[Text], values: Vec<Option<Value>>) -> Answer {
    Answer::Values { found: found(keys, values), at: None }
}

fn snapshot(keys: &[Text], snapshot: Snapshot) -> Answer {
    Answer::Values { found: found(keys, snapshot.values), at: Some(snapshot.timestamp) }
}

fn range_snapshot(snapshot: RangeSnapshot) -> Answer {
    Answer::Page { page: snapshot.page, at: Some(snapshot.timestamp) }
}

/// Values with their keys, in the order in which they were asked for.
fn found(keys: &[Text], values: Vec<Option<Value>>) -> Vec<(Vec<u8>, Option<Value>)> {
    keys.iter().map(|key| key.0.clone()).zip(values).collect()
}
