//! Tokens: the names under which a client asks for the outcome of a transaction, even from another process.

use std::fmt;
use std::str::FromStr;

use quorate_core::topology::SHARDS_MAX;
use quorate_core::{ClientId, ClockTime, ShardId, TransactionId};

/// Names one attempt at a transaction for [`Database::outcome`](crate::Database::outcome).
///
/// Its text form, from `Display` and back through `FromStr`, is short enough to log or to put into a ticket:
/// `9f3a61c0.12.0.64a1b2c3d4e5f.3+7..9` is the client incarnation, the sequence of the transaction, the attempt, the
/// instant at which it began (microseconds since 1970, hexadecimal) and the shards that took part.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Token {
    /// The attempt, by client incarnation, sequence and number.
    pub transaction: TransactionId,
    /// When the attempt began, by the clock of its client: tells how long its outcome is still known.
    pub began: ClockTime,
    /// Every shard that takes part in it, sorted; where transactions run at nodes, the home that decides it.
    pub participants: Vec<ShardId>,
}

/// A text that is no token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is not a transaction token: {reason}")]
pub struct InvalidToken {
    /// The text that was given, shortened.
    pub text: String,
    /// The error in it.
    pub reason: &'static str,
}

impl fmt::Display for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TransactionId { client, sequence, attempt } = self.transaction;
        write!(formatter, "{:x}.{sequence}.{attempt}.{:x}.", client.0, self.began.as_micros())?;
        let runs = self.participants.chunk_by(|left, right| left.0.checked_add(1) == Some(right.0));
        for (position, run) in runs.enumerate() {
            if position > 0 {
                formatter.write_str("+")?;
            }
            match run {
                [only] => write!(formatter, "{}", only.0)?,
                [first, .., last] => write!(formatter, "{}..{}", first.0, last.0)?,
                [] => {}
            }
        }
        Ok(())
    }
}

impl FromStr for Token {
    type Err = InvalidToken;

    fn from_str(text: &str) -> Result<Self, InvalidToken> {
        parse(text).map_err(|reason| InvalidToken { text: text.chars().take(80).collect(), reason })
    }
}

fn parse(text: &str) -> Result<Token, &'static str> {
    let mut fields = text.trim().splitn(5, '.');
    let mut field = || fields.next().ok_or("it has too few fields");
    let client = u64::from_str_radix(field()?, 16).map_err(|_| "its client is not a hexadecimal number")?;
    if client == 0 {
        return Err("no client is numbered 0");
    }
    let sequence = field()?.parse().map_err(|_| "its sequence is not a number")?;
    let attempt = field()?.parse().map_err(|_| "its attempt is not a number")?;
    let began =
        u64::from_str_radix(field()?, 16).map_err(|_| "its begin time is not a hexadecimal number")?;
    Ok(Token {
        transaction: TransactionId { client: ClientId(client), sequence, attempt },
        began: ClockTime::from_micros(began),
        participants: parse_participants(field()?)?,
    })
}

fn parse_participants(text: &str) -> Result<Vec<ShardId>, &'static str> {
    let number = |text: &str| text.parse::<u32>().map_err(|_| "a shard of it is not a number");
    let mut participants: Vec<ShardId> = Vec::new();
    for run in text.split('+').filter(|run| !run.is_empty()) {
        let (first, last) = match run.split_once("..") {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(run)?, number(run)?),
        };
        if last < first || participants.last().is_some_and(|previous| first <= previous.0) {
            return Err("its shards are not in ascending order");
        }
        if participants.len() + (last - first) as usize >= SHARDS_MAX {
            return Err("it names more shards than a keyspace can have");
        }
        participants.extend((first..=last).map(ShardId));
    }
    Ok(participants)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(shards: &[u32]) -> Token {
        Token {
            transaction: TransactionId { client: ClientId(0x9f3a_61c0), sequence: 12, attempt: 3 },
            began: ClockTime::from_micros(0x64a1),
            participants: shards.iter().copied().map(ShardId).collect(),
        }
    }

    #[test]
    fn tokens_survive_the_way_through_text() {
        let table: [(&[u32], &str); 5] = [
            (&[3], "9f3a61c0.12.3.64a1.3"),
            (&[3, 7, 8, 9], "9f3a61c0.12.3.64a1.3+7..9"),
            (&[0, 1, 5], "9f3a61c0.12.3.64a1.0..1+5"),
            (&[u32::MAX], "9f3a61c0.12.3.64a1.4294967295"),
            (&[], "9f3a61c0.12.3.64a1."),
        ];
        for (shards, text) in table {
            assert_eq!(token(shards).to_string(), text);
            assert_eq!(text.parse::<Token>().unwrap(), token(shards), "{text}");
        }
    }

    #[test]
    fn what_is_no_token_is_refused_with_the_reason() {
        let table = [
            ("", "client"),
            ("xyz", "client"),
            ("0.1.1.1.1", "no client"),
            ("a.1", "too few"),
            ("a.b.1.1.1", "sequence"),
            ("a.1.-1.1.1", "attempt"),
            ("a.1.1.g.1", "begin time"),
            ("a.1.1.1.x", "shard"),
            ("a.1.1.1.3+2", "ascending"),
            ("a.1.1.1.3+3", "ascending"),
            ("a.1.1.1.5..4", "ascending"),
            ("a.1.1.1.0..4294967295", "more shards"),
            ("a.1.1.1.3.4", "shard"),
        ];
        for (text, reason) in table {
            let error = text.parse::<Token>().unwrap_err();
            assert!(error.reason.contains(reason), "{text}: {error}");
        }
        let long = "z".repeat(10_000).parse::<Token>().unwrap_err();
        assert_eq!(long.text.len(), 80);
    }
}
