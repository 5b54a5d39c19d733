//! `XCLAIM` and `XAUTOCLAIM`: what is pending for one consumer becomes pending for another.

use quorate_procedure::Direction;

use super::ids::interval_start;
use super::{Entry, Id, Opened, Pending, Work, named, show};
use crate::database::Database;
use crate::parse::{integer, is_word};
use crate::reply::{Fail, Replied, Reply, fail, text};

/// A number that an argument has to be, or else this error.
fn number(word: &[u8], error: impl Fn() -> String) -> Result<i64, Fail> {
    integer(word).map_or_else(|| fail(error()), Ok)
}

/// How long an entry has to be pending before it is claimed, in milliseconds.
fn idle_argument(word: &[u8], command: &str) -> Result<i64, Fail> {
    let error = || format!("ERR Invalid min-idle-time argument for {command}");
    Ok(number(word, error)?.max(0))
}

/// The options of `XCLAIM`.
#[derive(Debug, Default)]
struct Options {
    /// An entry that is not pending is made so.
    forces: bool,
    tells_ids: bool,
    /// When it is to have been delivered, in milliseconds since the Unix epoch.
    since: Option<i64>,
    deliveries: Option<u64>,
    last: Id,
}

impl Options {
    fn parse(words: &[&[u8]], now: i64) -> Result<Self, Fail> {
        let (mut options, mut rest) = (Options::default(), words);
        while let [word, behind @ ..] = rest {
            rest = behind;
            if is_word(word, "FORCE") {
                options.forces = true;
                continue;
            }
            if is_word(word, "JUSTID") {
                options.tells_ids = true;
                continue;
            }
            let unknown = || fail(format!("ERR Unrecognized XCLAIM option '{}'", named(word)));
            let [value, behind @ ..] = behind else { return unknown() };
            let invalid =
                |name: &'static str| move || format!("ERR Invalid {name} option argument for XCLAIM");
            if is_word(word, "IDLE") {
                options.since = Some(now.wrapping_sub(number(value, invalid("IDLE"))?));
            } else if is_word(word, "TIME") {
                options.since = Some(number(value, invalid("TIME"))?);
            } else if is_word(word, "RETRYCOUNT") {
                options.deliveries = u64::try_from(number(value, invalid("RETRYCOUNT"))?).ok();
            } else if is_word(word, "LASTID") {
                options.last = Id::argument(value)?;
            } else {
                return unknown();
            }
            rest = behind;
        }
        // A time that makes no sense is that of now: a clock may be off.
        options.since = options.since.filter(|since| (0..=now).contains(since));
        Ok(options)
    }
}

/// Has an entry pending for a consumer from now on.
fn claim(
    database: &mut Database<'_>,
    work: &mut Work,
    name: &[u8],
    (id, before): (Id, Option<&Pending>),
    (since, deliveries): (u64, u64),
) -> Result<(), Fail> {
    let now = database.now();
    work.see(database, name, now)?;
    work.assign(database, id, before, &Pending { consumer: name.to_vec(), since, deliveries })
}

fn tell(entry: &Entry, tells_ids: bool) -> Result<Reply, Fail> {
    if tells_ids { Ok(entry.0.reply()) } else { show(entry) }
}

pub(crate) fn xclaim(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let name = arguments[3];
    let stream = Opened::find_to_write(database, arguments[1])?;
    let mut work = Work::find(database, stream.as_ref(), (arguments[1], arguments[2]), "")?;
    let Some(stream) = stream else { return fail(text::NO_SUCH_KEY) };
    let idle = idle_argument(arguments[4], "XCLAIM")?;
    let ids: Vec<Id> = arguments[5..].iter().map_while(|word| Id::argument(word).ok()).collect();
    let now = database.now();
    let options = Options::parse(&arguments[5 + ids.len()..], now as i64)?;
    crate::hashes::check_field(name, b"")?;
    let since = options.since.map_or(now, |since| since as u64);
    let mut has_changed = options.last > work.group.last;
    work.group.last = work.group.last.max(options.last);
    let mut told = Vec::new();
    for id in ids {
        let before = work.pending(database, id)?;
        let Some(entry) = stream.entry(database, id)? else {
            if let Some(before) = before {
                work.release(database, id, &before)?;
                has_changed = true;
            }
            continue;
        };
        let is_wanted = match &before {
            Some(before) => idle == 0 || before.idle(now) >= idle,
            None => options.forces,
        };
        if !is_wanted {
            continue;
        }
        // An entry that is made pending counts as delivered once.
        let deliveries = before.as_ref().map_or(1, |before| before.deliveries);
        let more = u64::from(!options.tells_ids);
        let deliveries = options.deliveries.unwrap_or(deliveries.wrapping_add(more));
        claim(database, &mut work, name, (id, before.as_ref()), (since, deliveries))?;
        told.push(tell(&entry, options.tells_ids)?);
        has_changed = true;
    }
    if has_changed {
        work.save(database)?;
        stream.save(database)?;
    }
    Ok(Reply::Array(told))
}

/// The options of `XAUTOCLAIM`: how many entries to claim, and whether their ids alone are told.
fn count_and_form(words: &[&[u8]]) -> Result<(usize, bool), Fail> {
    /// Redis takes no greater number.
    const COUNT_MAX: i64 = i64::MAX / 16;
    const COUNT: usize = 100;
    let (mut count, mut tells_ids, mut rest) = (COUNT, false, words);
    while let [word, behind @ ..] = rest {
        rest = match behind {
            [value, behind @ ..] if is_word(word, "COUNT") => {
                count = match integer(value) {
                    Some(count @ 1..=COUNT_MAX) => count as usize,
                    _ => return fail("ERR COUNT must be > 0"),
                };
                behind
            }
            _ if is_word(word, "JUSTID") => {
                tells_ids = true;
                behind
            }
            _ => return fail(text::SYNTAX),
        };
    }
    Ok((count, tells_ids))
}

pub(crate) fn xautoclaim(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    /// So many pending entries are looked at for each that is to be claimed.
    const LOOKED_AT: usize = 10;
    /// So many are read together.
    const PAGE: usize = 64;
    let idle = idle_argument(arguments[4], "XAUTOCLAIM")?;
    let start = interval_start(arguments[5])?;
    let (count, tells_ids) = count_and_form(&arguments[6..])?;
    let name = arguments[3];
    let stream = Opened::find_to_write(database, arguments[1])?;
    let mut work = Work::find(database, stream.as_ref(), (arguments[1], arguments[2]), "")?;
    let Some(stream) = stream else { return fail(text::NO_SUCH_KEY) };
    crate::hashes::check_field(name, b"")?;
    let (now, attempts) = (database.now(), count.saturating_mul(LOOKED_AT));
    let (mut told, mut deleted, mut from) = (Vec::new(), Vec::new(), Some(start));
    let (mut page, mut looked_at) = (Vec::new().into_iter(), 0);
    // One more than is looked at tells where to go on.
    let next = loop {
        if page.len() == 0
            && let Some(from) = from
        {
            let ids = (from, Id::GREATEST);
            page = work.all_pending(database, ids, PAGE, Direction::Ascending)?.into_iter();
        }
        let Some((id, before)) = page.next() else { break Id::LEAST };
        if looked_at == attempts || told.len() + deleted.len() == count {
            break id;
        }
        looked_at += 1;
        from = id.next();
        match stream.entry(database, id)? {
            None => {
                work.release(database, id, &before)?;
                deleted.push(id.reply());
            }
            Some(_) if idle > 0 && before.idle(now) < idle => {}
            Some(entry) => {
                let deliveries = before.deliveries.wrapping_add(u64::from(!tells_ids));
                claim(database, &mut work, name, (id, Some(&before)), (now, deliveries))?;
                told.push(tell(&entry, tells_ids)?);
            }
        }
    };
    if !told.is_empty() || !deleted.is_empty() {
        work.save(database)?;
        stream.save(database)?;
    }
    Ok(Reply::Array(vec![next.reply(), Reply::Array(told), Reply::Array(deleted)]))
}
