//! Consumer groups: how far each has read, who its consumers are, and what is pending.

use std::collections::BTreeMap;

use quorate_procedure::Direction;

use super::{Id, Opened, kind, named, scan};
use crate::bytes::Reader;
use crate::database::Database;
use crate::hashes::check_field;
use crate::layout::{KEY_BYTES_MAX, behind};
use crate::reply::{Fail, fail};
use crate::{Malformed, layout};

/// A consumer group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// Names it in the records of its consumers and of what is pending.
    number: u64,
    /// The last id that was delivered.
    pub(crate) last: Id,
    /// How many entries were read, if that is known.
    pub(crate) read: Option<u64>,
    /// How many entries are pending.
    pub(crate) pending: u64,
    /// How many consumers there are.
    pub(crate) consumers: u64,
    /// The number that was given to a consumer last.
    last_consumer: u64,
}

impl Group {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = self.number.to_be_bytes().to_vec();
        bytes.extend_from_slice(&self.last.to_bytes());
        bytes.push(u8::from(self.read.is_some()));
        for number in [self.read.unwrap_or(0), self.pending, self.consumers, self.last_consumer] {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let (number, last) = (reader.u64()?, Id::of_bytes(reader.take(16)?)?);
        let (is_known, read) = (reader.byte()? == 1, reader.u64()?);
        let (pending, consumers, last_consumer) = (reader.u64()?, reader.u64()?, reader.u64()?);
        Ok(Group { number, last, read: is_known.then_some(read), pending, consumers, last_consumer })
    }
}

/// A consumer of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Consumer {
    number: u64,
    /// When it last read or claimed, in milliseconds since the Unix epoch.
    pub(crate) seen: u64,
    /// How many entries are pending.
    pub(crate) pending: u64,
}

impl Consumer {
    fn encode(&self) -> Vec<u8> {
        [self.number, self.seen, self.pending].into_iter().flat_map(u64::to_be_bytes).collect()
    }

    fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        Ok(Consumer { number: reader.u64()?, seen: reader.u64()?, pending: reader.u64()? })
    }
}

/// An entry that was delivered, and is not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pending {
    /// The name of its consumer.
    pub(crate) consumer: Vec<u8>,
    /// When it was delivered, in milliseconds since the Unix epoch.
    pub(crate) since: u64,
    /// How often it was delivered.
    pub(crate) deliveries: u64,
}

impl Pending {
    fn encode(&self) -> Vec<u8> {
        [&self.since.to_be_bytes(), &self.deliveries.to_be_bytes(), self.consumer.as_slice()].concat()
    }

    fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let (since, deliveries) = (reader.u64()?, reader.u64()?);
        Ok(Pending { consumer: reader.rest().to_vec(), since, deliveries })
    }

    /// How long ago it was delivered, in milliseconds; negative if that lies ahead.
    pub(crate) fn idle(&self, now: u64) -> i64 {
        (now as i64).wrapping_sub(self.since as i64)
    }
}

impl<'k> Opened<'k> {
    fn group_record(&self, name: &[u8]) -> Vec<u8> {
        [self.prefix(kind::GROUP).as_slice(), name].concat()
    }

    /// A group of this stream.
    pub(crate) fn group(&self, database: &mut Database<'_>, name: &[u8]) -> Result<Option<Group>, Fail> {
        if self.facts.groups == 0 || name.len() > KEY_BYTES_MAX {
            return Ok(None);
        }
        let record = database.store.get(&self.group_record(name))?;
        Ok(record.map(|record| Group::decode(&record)).transpose()?)
    }

    /// All groups with their names, in the order of these.
    pub(crate) fn groups(&self, database: &mut Database<'_>) -> Result<Vec<(Vec<u8>, Group)>, Fail> {
        let named = by_name(database, &self.prefix(kind::GROUP))?.into_iter();
        named.map(|(name, record)| Ok((name, Group::decode(&record)?))).collect()
    }

    /// Makes a group, which is not there.
    pub(crate) fn create_group(&mut self, name: &[u8], last: Id, read: Option<u64>) -> Result<Work, Fail> {
        check_field(name, b"")?;
        self.facts.groups += 1;
        self.facts.last_group += 1;
        let number = self.facts.last_group;
        let group = Group { number, last, read, pending: 0, consumers: 0, last_consumer: 0 };
        Ok(Work::of(self, name, group))
    }

    /// Removes a group with all that belongs to it, or as much as fits into one transaction: then it is false, and there is more.
    pub(crate) fn remove_group(
        &mut self,
        database: &mut Database<'_>,
        name: &[u8],
        group: Group,
    ) -> Result<bool, Fail> {
        /// So many pending entries, and so many consumers, are removed at once.
        const REMOVED_MAX: usize = 10_000;
        let mut work = Work::of(self, name, group);
        let all = (Id::LEAST, Id::GREATEST);
        let pending = work.all_pending(database, all, REMOVED_MAX, Direction::Ascending)?;
        for (id, pending) in &pending {
            work.release(database, *id, pending)?;
        }
        // Records decide what is left, and not counters: so this ends.
        if pending.len() < REMOVED_MAX {
            work.remove_consumers(database, REMOVED_MAX)?;
        }
        if work.group.consumers > 0 {
            work.save(database)?;
            return Ok(false);
        }
        database.store.delete(&self.group_record(name))?;
        self.facts.groups = self.facts.groups.saturating_sub(1);
        Ok(true)
    }
}

/// The records that begin like this, by what is behind it.
fn by_name(database: &mut Database<'_>, prefix: &[u8]) -> Result<Vec<crate::bytes::Pair>, Fail> {
    const READ_AT_ONCE: usize = 256;
    let (mut at, end, mut found) = (prefix.to_vec(), behind(prefix), Vec::new());
    loop {
        let records = database.records(&at, &end, READ_AT_ONCE)?;
        let count = records.len();
        for (record, value) in records {
            found.push((record.get(prefix.len()..).ok_or(Malformed)?.to_vec(), value));
            at = [record.as_slice(), b"\0"].concat();
        }
        if count < READ_AT_ONCE {
            return Ok(found);
        }
    }
}

/// A group while a command works on it. [`save`](Self::save) writes it and its consumers; pending entries are written at once.
pub(crate) struct Work {
    pub(crate) group: Group,
    /// The records of the group, of its consumers and of what is pending begin so.
    prefixes: Prefixes,
    /// The consumers that were looked at; none for one that is not there any more.
    consumers: BTreeMap<Vec<u8>, Option<Consumer>>,
}

struct Prefixes {
    group: Vec<u8>,
    consumer: Vec<u8>,
    pending: Vec<u8>,
    pending_of: Vec<u8>,
}

impl Work {
    pub(crate) fn of(stream: &Opened<'_>, name: &[u8], group: Group) -> Self {
        let prefix = |letter| [stream.prefix(letter).as_slice(), &group.number.to_be_bytes()].concat();
        let prefixes = Prefixes {
            group: stream.group_record(name),
            consumer: prefix(kind::CONSUMER),
            pending: prefix(kind::PENDING),
            pending_of: prefix(kind::PENDING_OF),
        };
        Work { group, prefixes, consumers: BTreeMap::new() }
    }

    /// The group of a stream, which has to be there.
    pub(crate) fn find(
        database: &mut Database<'_>,
        stream: Option<&Opened<'_>>,
        (key, name): (&[u8], &[u8]),
        where_asked: &str,
    ) -> Result<Self, Fail> {
        if let Some(stream) = stream
            && let Some(group) = stream.group(database, name)?
        {
            return Ok(Work::of(stream, name, group));
        }
        let (key, name) = (named(key), named(name));
        fail(format!("NOGROUP No such key '{key}' or consumer group '{name}'{where_asked}"))
    }

    fn consumer_record(&self, name: &[u8]) -> Vec<u8> {
        [self.prefixes.consumer.as_slice(), name].concat()
    }

    fn pending_record(&self, id: Id) -> Vec<u8> {
        [self.prefixes.pending.as_slice(), &id.to_bytes()].concat()
    }

    fn pending_of_prefix(&self, consumer: Consumer) -> Vec<u8> {
        [self.prefixes.pending_of.as_slice(), &consumer.number.to_be_bytes()].concat()
    }

    /// A consumer of this group.
    pub(crate) fn consumer(
        &mut self,
        database: &mut Database<'_>,
        name: &[u8],
    ) -> Result<Option<Consumer>, Fail> {
        if let Some(known) = self.consumers.get(name) {
            return Ok(*known);
        }
        if name.len() > KEY_BYTES_MAX {
            return Ok(None);
        }
        let record = database.store.get(&self.consumer_record(name))?;
        let consumer = record.map(|record| Consumer::decode(&record)).transpose()?;
        self.consumers.insert(name.to_vec(), consumer);
        Ok(consumer)
    }

    /// All consumers with their names, in the order of these.
    pub(crate) fn all_consumers(
        &self,
        database: &mut Database<'_>,
    ) -> Result<Vec<(Vec<u8>, Consumer)>, Fail> {
        let named = by_name(database, &self.prefixes.consumer)?.into_iter();
        named.map(|(name, record)| Ok((name, Consumer::decode(&record)?))).collect()
    }

    /// Makes a consumer if it is not there, and notes that it was seen now; true if it is new.
    pub(crate) fn see(&mut self, database: &mut Database<'_>, name: &[u8], now: u64) -> Result<bool, Fail> {
        check_field(name, b"")?;
        let found = self.consumer(database, name)?;
        let consumer = match found {
            Some(consumer) => Consumer { seen: now, ..consumer },
            None => {
                self.group.consumers += 1;
                self.group.last_consumer += 1;
                Consumer { number: self.group.last_consumer, seen: now, pending: 0 }
            }
        };
        self.consumers.insert(name.to_vec(), Some(consumer));
        Ok(found.is_none())
    }

    /// The pending entry of an id.
    pub(crate) fn pending(&self, database: &mut Database<'_>, id: Id) -> Result<Option<Pending>, Fail> {
        if self.group.pending == 0 {
            return Ok(None);
        }
        let record = database.store.get(&self.pending_record(id))?;
        Ok(record.map(|record| Pending::decode(&record)).transpose()?)
    }

    /// The pending entries from one id up to, and with, another: at most so many, from one end.
    pub(crate) fn all_pending(
        &self,
        database: &mut Database<'_>,
        ids: (Id, Id),
        limit: usize,
        direction: Direction,
    ) -> Result<Vec<(Id, Pending)>, Fail> {
        let found = scan(database, &self.prefixes.pending, ids, limit, direction)?;
        found.into_iter().map(|(id, record)| Ok((id, Pending::decode(&record)?))).collect()
    }

    /// The ids that are pending for a consumer, from one up to, and with, another: at most so many.
    pub(crate) fn ids_of(
        &self,
        database: &mut Database<'_>,
        consumer: Consumer,
        ids: (Id, Id),
        limit: usize,
    ) -> Result<Vec<Id>, Fail> {
        let prefix = self.pending_of_prefix(consumer);
        let found = scan(database, &prefix, ids, limit, Direction::Ascending)?;
        Ok(found.into_iter().map(|(id, _)| id).collect())
    }

    /// Has an entry pending for a consumer that is there, and no more for the one before.
    pub(crate) fn assign(
        &mut self,
        database: &mut Database<'_>,
        id: Id,
        before: Option<&Pending>,
        pending: &Pending,
    ) -> Result<(), Fail> {
        if before.is_none_or(|before| before.consumer != pending.consumer) {
            if let Some(before) = before {
                self.release(database, id, before)?;
            }
            let mut consumer = self.consumer(database, &pending.consumer)?.ok_or(Malformed)?;
            let record = [self.pending_of_prefix(consumer).as_slice(), &id.to_bytes()].concat();
            database.store.put(&record, b"")?;
            consumer.pending += 1;
            self.group.pending += 1;
            self.consumers.insert(pending.consumer.clone(), Some(consumer));
        }
        Ok(database.store.put(&self.pending_record(id), &pending.encode())?)
    }

    /// Has an entry pending no more.
    pub(crate) fn release(
        &mut self,
        database: &mut Database<'_>,
        id: Id,
        pending: &Pending,
    ) -> Result<(), Fail> {
        let mut consumer = self.consumer(database, &pending.consumer)?.ok_or(Malformed)?;
        database.store.delete(&self.pending_record(id))?;
        let record = [self.pending_of_prefix(consumer).as_slice(), &id.to_bytes()].concat();
        database.store.delete(&record)?;
        consumer.pending = consumer.pending.saturating_sub(1);
        self.group.pending = self.group.pending.saturating_sub(1);
        self.consumers.insert(pending.consumer.clone(), Some(consumer));
        Ok(())
    }

    /// Removes a consumer with what is pending for it, and tells how much that was.
    pub(crate) fn remove_consumer(
        &mut self,
        database: &mut Database<'_>,
        name: &[u8],
    ) -> Result<Option<u64>, Fail> {
        let Some(consumer) = self.consumer(database, name)? else { return Ok(None) };
        let prefix = self.pending_of_prefix(consumer);
        for id in self.ids_of(database, consumer, (Id::LEAST, Id::GREATEST), usize::MAX)? {
            database.store.delete(&self.pending_record(id))?;
            database.store.delete(&[prefix.as_slice(), &id.to_bytes()].concat())?;
        }
        self.group.pending = self.group.pending.saturating_sub(consumer.pending);
        self.group.consumers = self.group.consumers.saturating_sub(1);
        database.store.delete(&self.consumer_record(name))?;
        self.consumers.insert(name.to_vec(), None);
        Ok(Some(consumer.pending))
    }

    /// Removes consumers for which nothing is pending, at most so many.
    fn remove_consumers(&mut self, database: &mut Database<'_>, limit: usize) -> Result<(), Fail> {
        let prefix = &self.prefixes.consumer;
        let records = database.records(prefix, &behind(prefix), limit)?;
        let is_all = records.len() < limit;
        self.group.consumers =
            if is_all { 0 } else { self.group.consumers.saturating_sub(limit as u64).max(1) };
        for (record, _) in records {
            database.store.delete(&record)?;
            // One that was looked at is not written again.
            self.consumers.insert(record.get(prefix.len()..).ok_or(Malformed)?.to_vec(), None);
        }
        Ok(())
    }

    /// Writes the group, and the consumers that were looked at.
    pub(crate) fn save(self, database: &mut Database<'_>) -> Result<(), Fail> {
        for (name, consumer) in &self.consumers {
            if let Some(consumer) = consumer {
                database.store.put(&self.consumer_record(name), &consumer.encode())?;
            }
        }
        Ok(database.store.put(&self.prefixes.group, &self.group.encode())?)
    }
}

// The longest name of a consumer fits into the key of a record.
const _: () = assert!(layout::KEY_BYTES_MAX + 6 + 8 + 1 + 8 <= 4 * 1024);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_consumers_and_what_is_pending_come_back() {
        let last = Id { time: 4, number: 5 };
        for read in [None, Some(0), Some(6)] {
            let group = Group { number: 1, last, read, pending: 2, consumers: 3, last_consumer: 7 };
            assert_eq!(Group::decode(&group.encode()), Ok(group));
        }
        let consumer = Consumer { number: 1, seen: 2, pending: 3 };
        assert_eq!(Consumer::decode(&consumer.encode()), Ok(consumer));
        let pending = Pending { consumer: b"alice".to_vec(), since: 10, deliveries: 2 };
        assert_eq!(Pending::decode(&pending.encode()), Ok(pending.clone()));
        assert_eq!((pending.idle(15), pending.idle(5)), (5, -5));
        assert_eq!(Pending::decode(b"short"), Err(Malformed));
    }
}
