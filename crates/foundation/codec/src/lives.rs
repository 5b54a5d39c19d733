//! The field numbers of the lives of nodes.

use quorate_core::lives::{FORMER_MAX, Life, Remembered, TAGS_MAX};

use crate::field::{Fixed64, Repeated, Varint};

message!(Life, "Life", {
    1 incarnation: Fixed64,
    2 replaces: Varint,
    3 number: Varint,
    4 tags: Repeated<Fixed64, TAGS_MAX>,
});

message!(Remembered, "Remembered", {
    1 incarnation: Fixed64,
    2 number: Varint,
    3 tag: Fixed64,
    4 former: Repeated<Fixed64, FORMER_MAX>,
});
