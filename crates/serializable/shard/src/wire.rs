//! The field numbers of the state of a shard.

use quorate_codec::field::{KeyBytes, Nested, Repeated, ValueBytes};
use quorate_codec::{alternatives, list, message, pair};
use quorate_core::Key;

use crate::shard::{Page, Version};

message!(Version, "procedures.Version", {
    1 place: Nested,
    2 value: ValueBytes,
});

pair!(KeyVersion: (Key, Version), "procedures.Page.Key", 1 key: KeyBytes, 2 version: Nested);

list!(KeyVersions: Vec<(Key, Version)>, "procedures.Page.Keys", Repeated<KeyVersion>);

alternatives!(Page, "procedures.Page", fields {
    1 Keys: KeyVersions,
    2 Procedures: KeyVersions,
});
