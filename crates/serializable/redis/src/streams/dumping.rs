//! A stream in a dump: parts that begin with a letter, in an order in which they can be restored.

use quorate_procedure::Direction;

use super::{Id, Opened, Pending, Work, check_entry};
use crate::bytes::Reader;
use crate::database::Database;
use crate::hashes::check_field;
use crate::reply::{Fail, fail};

/// The kinds of parts.
mod part {
    /// The facts of the header; the first part.
    pub(super) const STREAM: u8 = b's';
    pub(super) const ENTRY: u8 = b'e';
    /// A group; behind it are its consumers,
    pub(super) const GROUP: u8 = b'g';
    /// and behind each of these
    pub(super) const CONSUMER: u8 = b'c';
    /// what is pending for it.
    pub(super) const PENDING: u8 = b'p';
}

fn numbers(letter: u8, ids: &[Id], numbers: &[u64], rest: &[u8]) -> Vec<u8> {
    let mut bytes = vec![letter];
    ids.iter().for_each(|id| bytes.extend_from_slice(&id.to_bytes()));
    numbers.iter().for_each(|number| bytes.extend_from_slice(&number.to_be_bytes()));
    bytes.extend_from_slice(rest);
    bytes
}

/// The parts of the stream of a key.
pub(crate) fn parts_of(database: &mut Database<'_>, key: &[u8]) -> Result<Vec<Vec<u8>>, Fail> {
    let Some(stream) = Opened::find(database, key)? else { return Ok(Vec::new()) };
    let (facts, all) = (&stream.facts, (Id::LEAST, Id::GREATEST));
    let mut parts = vec![numbers(part::STREAM, &[facts.last, facts.deleted], &[facts.added], b"")];
    for (id, fields) in stream.entries(database, all, usize::MAX, Direction::Ascending)? {
        parts.push(numbers(part::ENTRY, &[id], &[], &fields));
    }
    for (name, group) in stream.groups(database)? {
        // One more than was read, and zero for what is not known.
        let read = group.read.map_or(0, |read| read.wrapping_add(1));
        parts.push(numbers(part::GROUP, &[group.last], &[read], &name));
        let work = Work::of(&stream, &name, group);
        for (name, consumer) in work.all_consumers(database)? {
            parts.push(numbers(part::CONSUMER, &[], &[consumer.seen], &name));
            for id in work.ids_of(database, consumer, all, usize::MAX)? {
                let pending = work.pending(database, id)?.ok_or(crate::Malformed)?;
                parts.push(numbers(part::PENDING, &[id], &[pending.since, pending.deliveries], b""));
            }
        }
    }
    Ok(parts)
}

/// A stream in a dump.
pub(crate) struct Dumped<'a> {
    last: Id,
    deleted: Id,
    added: u64,
    entries: Vec<(Id, &'a [u8])>,
    groups: Vec<Group<'a>>,
}

struct Group<'a> {
    name: &'a [u8],
    last: Id,
    read: Option<u64>,
    consumers: Vec<Consumer<'a>>,
}

struct Consumer<'a> {
    name: &'a [u8],
    seen: u64,
    pending: Vec<(Id, u64, u64)>,
}

impl<'a> Dumped<'a> {
    /// Reads these parts; none if they are none of a stream.
    pub(crate) fn read(parts: &[&'a [u8]]) -> Option<Self> {
        let (first, rest) = parts.split_first()?;
        let mut reader = Reader::new(first);
        if reader.byte().ok()? != part::STREAM {
            return None;
        }
        let id = |reader: &mut Reader<'_>| Id::of_bytes(reader.take(16).ok()?).ok();
        let (last, deleted) = (id(&mut reader)?, id(&mut reader)?);
        let added = reader.u64().ok()?;
        let mut dumped = Dumped { last, deleted, added, entries: Vec::new(), groups: Vec::new() };
        for bytes in rest {
            let mut reader = Reader::new(bytes);
            match reader.byte().ok()? {
                part::ENTRY => dumped.entries.push((id(&mut reader)?, reader.rest())),
                part::GROUP => {
                    let (last, read) = (id(&mut reader)?, reader.u64().ok()?.checked_sub(1));
                    dumped.groups.push(Group { name: reader.rest(), last, read, consumers: Vec::new() });
                }
                part::CONSUMER => {
                    let seen = reader.u64().ok()?;
                    let consumer = Consumer { name: reader.rest(), seen, pending: Vec::new() };
                    dumped.groups.last_mut()?.consumers.push(consumer);
                }
                part::PENDING => {
                    let pending = (id(&mut reader)?, reader.u64().ok()?, reader.u64().ok()?);
                    dumped.groups.last_mut()?.consumers.last_mut()?.pending.push(pending);
                }
                _ => return None,
            }
        }
        Some(dumped)
    }

    /// Refuses what is no stream: it could not have been dumped here.
    pub(crate) fn check(&self) -> Result<(), Fail> {
        const BAD: &str = "ERR Bad data format";
        let ids = self.entries.iter().map(|(id, _)| *id);
        let is_ordered = ids.is_sorted_by(|one, other| one < other);
        let ends = self.entries.first().is_none_or(|(id, _)| *id > Id::LEAST)
            && self.entries.last().is_none_or(|(id, _)| *id <= self.last);
        let names = |names: Vec<&[u8]>| names.is_sorted_by(|one, other| one < other);
        let is_named = names(self.groups.iter().map(|group| group.name).collect())
            && self.groups.iter().all(|group| names(group.consumers.iter().map(|one| one.name).collect()));
        if !is_ordered || !ends || !is_named || self.added < self.entries.len() as u64 {
            return fail(BAD);
        }
        for (_, fields) in &self.entries {
            // Bytes of a client are no record, and no reason to stop.
            if check_entry(fields).is_err() {
                return fail(BAD);
            }
        }
        for group in &self.groups {
            check_field(group.name, b"")?;
            group.consumers.iter().try_for_each(|consumer| check_field(consumer.name, b""))?;
        }
        Ok(())
    }

    /// Writes it to a key that is not there.
    pub(crate) fn write(
        self,
        database: &mut Database<'_>,
        key: &[u8],
        expiry: Option<u64>,
    ) -> Result<(), Fail> {
        let mut stream = Opened::create(database, key)?;
        for (id, fields) in self.entries {
            stream.append(database, id, fields)?;
        }
        (stream.facts.last, stream.facts.deleted, stream.facts.added) = (self.last, self.deleted, self.added);
        for group in self.groups {
            let mut work = stream.create_group(group.name, group.last, group.read)?;
            for consumer in group.consumers {
                work.see(database, consumer.name, consumer.seen)?;
                for (id, since, deliveries) in consumer.pending {
                    let before = work.pending(database, id)?;
                    let pending = Pending { consumer: consumer.name.to_vec(), since, deliveries };
                    work.assign(database, id, before.as_ref(), &pending)?;
                }
            }
            work.save(database)?;
        }
        stream.expire(expiry);
        stream.save(database)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(time: u64) -> Id {
        Id { time, number: 0 }
    }

    fn entry(time: u64) -> Vec<u8> {
        numbers(part::ENTRY, &[id(time)], &[], &super::super::encode_fields(&[b"f", b"v"]).unwrap())
    }

    #[test]
    fn parts_that_are_no_stream_are_refused() {
        let stream = |last: u64, added: u64| numbers(part::STREAM, &[id(last), Id::LEAST], &[added], b"");
        let group = |name: &[u8]| numbers(part::GROUP, &[id(1)], &[1], name);
        let consumer = |name: &[u8]| numbers(part::CONSUMER, &[], &[5], name);
        let pending = || numbers(part::PENDING, &[id(1)], &[5, 1], b"");
        let is_read = |parts: &[Vec<u8>]| {
            let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            Dumped::read(&parts).map(|dumped| dumped.check().is_ok())
        };
        let whole = [stream(2, 2), entry(1), entry(2), group(b"g"), consumer(b"a"), pending(), group(b"h")];
        assert_eq!(is_read(&whole), Some(true));
        for (parts, expected) in [
            (vec![entry(1)], None),
            (vec![stream(2, 2), pending()], None),
            (vec![stream(2, 2), group(b"g"), pending()], None),
            (vec![stream(2, 2), consumer(b"a")], None),
            (vec![stream(2, 2), vec![b'?']], None),
            (vec![stream(2, 2), vec![]], None),
            (vec![stream(2, 2), entry(2), entry(1)], Some(false)),
            (vec![stream(2, 2), entry(1), entry(1)], Some(false)),
            (vec![stream(1, 2), entry(2)], Some(false)),
            (vec![stream(2, 0), entry(1)], Some(false)),
            (vec![stream(2, 2), entry(0)], Some(false)),
            (vec![stream(2, 2), numbers(part::ENTRY, &[id(1)], &[], b"\x01f")], Some(false)),
            (vec![stream(2, 2), numbers(part::ENTRY, &[id(1)], &[], b"\xff")], Some(false)),
            (vec![stream(2, 2), group(b"g"), group(b"g")], Some(false)),
            (vec![stream(2, 2), group(b"g"), consumer(b"a"), consumer(b"a")], Some(false)),
            (vec![stream(2, 2), group(&[b'g'; 5_000])], Some(false)),
        ] {
            assert_eq!(is_read(&parts), expected, "{parts:?}");
        }
    }
}
