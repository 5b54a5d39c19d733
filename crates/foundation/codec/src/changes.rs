//! The field numbers of what consumers of changes ask, and of the answers.

use quorate_core::changes::{Answer, Change, PAGE_WRITES, Page, Request};
use quorate_core::transaction::TRANSACTION_ENTRIES_MAX;

use crate::field::{Nested, Optional, Repeated, Text, Varint};

message!(Request, "changes.Request", {
    1 from: Optional<Nested>,
    2 keys: Nested,
    3 bytes_max: Varint,
});

alternatives!(Answer, "changes.Answer",
    messages {
        2 TooOld { 1 retained_from: Nested }
        3 Unable { 1 reason: Text }
    },
    fields {
        1 Page: Nested,
    }
);

message!(Page, "changes.Page", {
    1 from: Nested,
    2 to: Nested,
    3 changes: Repeated<Nested, PAGE_WRITES>,
    4 is_last: Varint,
});

message!(Change, "changes.Change", {
    1 timestamp: Nested,
    2 writes: Repeated<Nested, TRANSACTION_ENTRIES_MAX>,
});
