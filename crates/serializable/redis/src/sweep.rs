//! Collects what nobody sees any more: keys that are expired, and elements of large collections that were dropped.
//!
//! A door looks through the keys a page at a time, and asks for a sweep only where there is something: an idle database is not written to.

use quorate_procedure::Direction;

use crate::database::Database;
use crate::layout::{Header, behind, elements_prefix_in, key_of_header, kind, slot_in};
use crate::parse::integer;
use crate::reply::{Fail, Replied, Reply};
use crate::scan::{PAGE, Position};

/// So many records of dropped collections are deleted in one go.
const DELETED_MAX: usize = 1_000;

/// So many dropped collections are looked at in one go.
const DROPPED_MAX: usize = 16;

/// The records of a page that can be swept.
struct Due {
    /// Where the next page begins; none at the end.
    next: Option<Position>,
    expired: Vec<(Vec<u8>, Header)>,
    dropped: Vec<Vec<u8>>,
}

fn look(database: &mut Database<'_>, arguments: &[&[u8]]) -> Result<Due, Fail> {
    let cursor = integer(arguments[1]).unwrap_or(0).max(0) as u64;
    let end = behind(&[kind::HEADER, b'{']);
    let records = database.records(&Position::of_cursor(cursor).record(), &end, PAGE)?;
    let next = match records.last() {
        // The keys at the last position may be looked at again.
        Some((record, _)) if records.len() == PAGE => key_of_header(record)?.0.next(),
        _ => None,
    };
    let mut expired = Vec::new();
    for (record, value) in &records {
        let header = Header::decode(value)?;
        if database.is_expired(&header) {
            expired.push((key_of_header(record)?.1.to_vec(), header));
        }
    }
    let (from, to) = ([kind::DROPPED, b'{'], behind(&[kind::DROPPED, b'{']));
    let dropped = database.records(&from, &to, DROPPED_MAX)?.into_iter().map(|(record, _)| record).collect();
    Ok(Due { next, expired, dropped })
}

/// The cursor of the next page, and how much there is to sweep in this one.
fn tell(due: &Due) -> Reply {
    let next = due.next.map_or(0, Position::cursor).to_string();
    Reply::Array(vec![Reply::bulk(next), Reply::count(due.expired.len() + due.dropped.len())])
}

/// Tells what there is to sweep in a page, and where the next one begins.
pub(crate) fn due(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    Ok(tell(&look(database, arguments)?))
}

/// Sweeps a page.
pub(crate) fn sweep(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let due = look(database, arguments)?;
    for (key, header) in &due.expired {
        database.remove(key, header)?;
    }
    let mut room = DELETED_MAX;
    for dropped in &due.dropped {
        let generation: [u8; 8] =
            dropped.get(6..).and_then(|rest| rest.try_into().ok()).ok_or(crate::Malformed)?;
        let prefix = elements_prefix_in(slot_in(dropped)?, u64::from_be_bytes(generation));
        // The value of a record is read with it, and may be long.
        while room > 0 {
            let limit = room.min(8);
            let elements = database.store.scan(&prefix, &behind(&prefix), limit, Direction::Ascending)?;
            room -= elements.len();
            for (element, _) in &elements {
                database.store.delete(element)?;
            }
            if elements.len() < limit {
                database.store.delete(dropped)?;
                break;
            }
        }
    }
    Ok(tell(&due))
}
