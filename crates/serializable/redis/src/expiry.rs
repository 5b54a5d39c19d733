//! When keys expire: `EXPIRE`, `TTL`, `PERSIST` and their kin. The clock is the timestamp of the transaction.

use crate::database::Database;
use crate::parse::{integer_argument, is_word};
use crate::reply::{Fail, Replied, Reply, fail};
use crate::strings::Unit;

/// When an expiry is set.
#[derive(Debug, Default)]
struct Conditions {
    if_none: bool,
    if_some: bool,
    if_greater: bool,
    if_less: bool,
}

impl Conditions {
    fn parse(arguments: &[&[u8]]) -> Result<Self, Fail> {
        let mut conditions = Conditions::default();
        for word in arguments {
            let condition = [
                ("NX", &mut conditions.if_none),
                ("XX", &mut conditions.if_some),
                ("GT", &mut conditions.if_greater),
                ("LT", &mut conditions.if_less),
            ]
            .into_iter()
            .find(|(name, _)| is_word(word, name));
            match condition {
                Some((_, condition)) => *condition = true,
                None => {
                    return fail(format!(
                        "ERR Unsupported option {}",
                        String::from_utf8_lossy(crate::c_string(word))
                    ));
                }
            }
        }
        let Conditions { if_none, if_some, if_greater, if_less } = conditions;
        if if_none && (if_some || if_greater || if_less) {
            return fail("ERR NX and XX, GT or LT options at the same time are not compatible");
        }
        if if_greater && if_less {
            return fail("ERR GT and LT options at the same time are not compatible");
        }
        Ok(conditions)
    }

    /// True if they hold for this expiry, which none stands for never.
    fn hold(&self, before: Option<u64>, after: i64) -> bool {
        let is_greater = before.is_some_and(|before| after > before as i64);
        let is_less = before.is_none_or(|before| after < before as i64);
        (!self.if_none || before.is_none())
            && (!self.if_some || before.is_some())
            && (!self.if_greater || is_greater)
            && (!self.if_less || is_less)
    }
}

fn expire_with(database: &mut Database<'_>, arguments: &[&[u8]], unit: Unit, command: &str) -> Replied {
    let conditions = Conditions::parse(&arguments[3..])?;
    let time = integer_argument(arguments[2])?;
    let base = if unit.is_relative { database.now() as i64 } else { 0 };
    let at =
        time.checked_mul(if unit.is_seconds { 1_000 } else { 1 }).and_then(|time| time.checked_add(base));
    let Some(at) = at else { return fail(format!("ERR invalid expire time in '{command}' command")) };
    let key = arguments[1];
    let Some(mut header) = database.find_to_write(key)? else { return Ok(Reply::Integer(0)) };
    if !conditions.hold(header.expiry, at) {
        return Ok(Reply::Integer(0));
    }
    if at <= database.now() as i64 {
        database.remove(key, &header)?;
    } else {
        header.expiry = Some(at as u64);
        database.save(key, &mut header)?;
    }
    Ok(Reply::Integer(1))
}

pub(crate) fn expire(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    expire_with(database, arguments, Unit { is_seconds: true, is_relative: true }, "expire")
}

pub(crate) fn pexpire(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    expire_with(database, arguments, Unit { is_seconds: false, is_relative: true }, "pexpire")
}

pub(crate) fn expireat(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    expire_with(database, arguments, Unit { is_seconds: true, is_relative: false }, "expireat")
}

pub(crate) fn pexpireat(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    expire_with(database, arguments, Unit { is_seconds: false, is_relative: false }, "pexpireat")
}

/// No such key, and no expiry, as numbers.
const ABSENT: i64 = -2;
const NEVER: i64 = -1;

fn time_of(database: &mut Database<'_>, key: &[u8], tell: impl Fn(u64, u64) -> u64) -> Replied {
    let now = database.told_micros() / 1_000;
    Ok(Reply::Integer(match database.find(key)? {
        None => ABSENT,
        Some(header) => header.expiry.map_or(NEVER, |at| tell(at, now) as i64),
    }))
}

/// Half a second more or less is the same second, as in Redis.
fn seconds(millis: u64) -> u64 {
    (millis + 500) / 1_000
}

pub(crate) fn ttl(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    time_of(database, arguments[1], |at, now| seconds(at.saturating_sub(now)))
}

pub(crate) fn pttl(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    time_of(database, arguments[1], |at, now| at.saturating_sub(now))
}

pub(crate) fn expiretime(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    time_of(database, arguments[1], |at, _| seconds(at))
}

pub(crate) fn pexpiretime(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    time_of(database, arguments[1], |at, _| at)
}

pub(crate) fn persist(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    match database.find_to_write(arguments[1])? {
        Some(mut header) if header.expiry.is_some() => {
            header.expiry = None;
            database.save(arguments[1], &mut header)?;
            Ok(Reply::Integer(1))
        }
        _ => Ok(Reply::Integer(0)),
    }
}
