//! Places between the changes of a keyspace.

use std::fmt;

use crate::timestamp::Timestamp;

/// A place between the changes of a shard, or of a keyspace whose sites have all of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Position {
    /// Behind all that lies below a timestamp.
    Timestamp(Timestamp),
    /// Behind so many transactions of each local site, by its place; later sites have none. Without zeros at the end.
    Sites(Vec<u64>),
}

impl From<Timestamp> for Position {
    fn from(timestamp: Timestamp) -> Self {
        Position::Timestamp(timestamp)
    }
}

impl Position {
    /// Behind so many transactions of each local site.
    pub fn of_sites(mut numbers: Vec<u64>) -> Self {
        let length = numbers.iter().rposition(|number| *number > 0).map_or(0, |last| last + 1);
        numbers.truncate(length);
        Position::Sites(numbers)
    }

    /// True if all that lies before another position lies before this one. Positions of different kinds have nothing to do with each other.
    pub fn includes(&self, other: &Position) -> bool {
        match (self, other) {
            (Position::Timestamp(own), Position::Timestamp(other)) => own >= other,
            (Position::Sites(own), Position::Sites(other)) => {
                (0..other.len()).all(|at| number(own, at) >= other[at])
            }
            (Position::Timestamp(_), Position::Sites(_)) | (Position::Sites(_), Position::Timestamp(_)) => {
                false
            }
        }
    }

    /// True if the transaction of this name lies before it: a consumer that has come so far was told it.
    pub fn has_passed(&self, name: Timestamp) -> bool {
        match self {
            Position::Timestamp(own) => name < *own,
            Position::Sites(own) => site_of(name).is_some_and(|at| name.micros <= number(own, at)),
        }
    }

    /// The position before which everything lies that lies before both.
    #[must_use]
    pub fn meet(self, other: &Position) -> Position {
        match (self, other) {
            (Position::Timestamp(own), Position::Timestamp(other)) => Position::Timestamp(own.min(*other)),
            (Position::Sites(own), Position::Sites(other)) => {
                Position::of_sites(own.iter().zip(other).map(|(own, other)| *own.min(other)).collect())
            }
            (own, _) => own,
        }
    }
}

fn number(numbers: &[u64], at: usize) -> u64 {
    numbers.get(at).copied().unwrap_or(0)
}

/// The place of the local site at which a transaction has committed that has this name; none if it is no such name.
pub(super) fn site_of(name: Timestamp) -> Option<usize> {
    usize::try_from(name.client.0.checked_sub(1)?).ok()
}

impl fmt::Display for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Position::Timestamp(timestamp) => timestamp.fmt(formatter),
            Position::Sites(numbers) => {
                let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
                write!(formatter, "⟨{}⟩", numbers.join(" "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::ClientId;

    fn sites(numbers: &[u64]) -> Position {
        Position::of_sites(numbers.to_vec())
    }

    fn name(site: u64, seqno: u64) -> Timestamp {
        Timestamp { micros: seqno, client: ClientId(site + 1) }
    }

    #[test]
    fn a_position_of_sites_lies_behind_the_first_transactions_of_each() {
        let position = sites(&[2, 0, 5, 0]);
        assert_eq!((position.to_string(), &position), ("⟨2 0 5⟩".to_owned(), &sites(&[2, 0, 5])));
        for (site, seqno, expected) in
            [(0, 2, true), (0, 3, false), (1, 1, false), (2, 5, true), (7, 1, false)]
        {
            assert_eq!(position.has_passed(name(site, seqno)), expected, "{site} {seqno}");
        }
        assert!(!position.has_passed(Timestamp { micros: 1, client: ClientId(0) }));
        for (other, expected) in [
            (&[][..], true),
            (&[2, 0, 5], true),
            (&[1, 0, 4], true),
            (&[2, 1], false),
            (&[0, 0, 0, 1], false),
        ] {
            assert_eq!(position.includes(&sites(other)), expected, "{other:?}");
        }
        assert_eq!(position.meet(&sites(&[3, 4, 1, 9])), sites(&[2, 0, 1]));
    }

    #[test]
    fn positions_of_different_kinds_include_nothing_of_each_other() {
        let at = |micros| Position::from(Timestamp { micros, client: ClientId(0) });
        assert!(at(3).includes(&at(3)) && !at(3).includes(&at(4)) && at(5).meet(&at(4)) == at(4));
        assert!(!at(9).includes(&sites(&[])) && !sites(&[9]).includes(&at(0)));
    }
}
