//! The field numbers of what consumers of changes ask, and of the answers.

use quorate_core::changes::{Addition, Answer, Change, PAGE_WRITES, Page, Position, Request};
use quorate_core::transaction::TRANSACTION_ENTRIES_MAX;
use quorate_core::{ClientId, Timestamp};

use crate::error::{DecodeError, Fault};
use crate::field::{Fixed64, KeyBytes, Nested, Optional, Packed, Repeated, Text, Varint};
use crate::schema::Kind;
use crate::{Schema, Wire, Writer};

message!(Request<Position>, "changes.Request", {
    1 from: Optional<Nested>,
    2 keys: Nested,
    3 bytes_max: Varint,
});

alternatives!(Answer<Position>, "changes.Answer",
    messages {
        2 TooOld { 1 retained_from: Nested }
        3 Unable { 1 reason: Text }
    },
    fields {
        1 Page: Nested,
    }
);

message!(Page<Position>, "changes.Page", {
    1 from: Nested,
    2 to: Nested,
    3 changes: Repeated<Nested, PAGE_WRITES>,
    4 is_last: Varint,
});

message!(Change, "changes.Change", {
    1 timestamp: Nested,
    2 writes: Repeated<Nested, TRANSACTION_ENTRIES_MAX>,
    3 additions: Repeated<Nested, TRANSACTION_ENTRIES_MAX>,
});

message!(Addition, "changes.Addition", {
    1 object: KeyBytes,
    2 element: Optional<KeyBytes>,
    3 by: Varint,
});

/// A [`Position`]: a timestamp, as earlier programs write it, or beside a timestamp of zero what these pass over.
struct Written {
    micros: u64,
    client: ClientId,
    sites: Option<Sites>,
}

/// [`Position::Sites`].
struct Sites {
    numbers: Vec<u64>,
}

message!(Written, "changes.Position", {
    1 micros: Fixed64,
    2 client: Fixed64,
    3 sites: Optional<Nested>,
});

message!(Sites, "changes.Position.Sites", { 1 numbers: Packed });

impl From<&Position> for Written {
    fn from(position: &Position) -> Self {
        match position {
            Position::Timestamp(Timestamp { micros, client }) => {
                Written { micros: *micros, client: *client, sites: None }
            }
            Position::Sites(numbers) => {
                let sites = Some(Sites { numbers: numbers.clone() });
                Written { micros: 0, client: ClientId(0), sites }
            }
        }
    }
}

impl Wire for Position {
    fn encoded_len(&self) -> usize {
        Written::from(self).encoded_len()
    }

    fn write(&self, writer: &mut Writer<'_>) {
        Written::from(self).write(writer);
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let Written { micros, client, sites } = Written::decode(bytes)?;
        let timestamp = Timestamp { micros, client };
        match sites {
            Some(Sites { numbers }) if timestamp == Timestamp::ZERO => Ok(Position::of_sites(numbers)),
            Some(_) => {
                let fault = Fault::Meaningless("a timestamp and what sites have numbered are two positions");
                Err(DecodeError::new("changes.Position", "sites", fault))
            }
            None => Ok(Position::Timestamp(timestamp)),
        }
    }

    fn name() -> String {
        Written::name()
    }

    fn describe(schema: &mut Schema) -> Kind {
        Written::describe(schema)
    }
}
