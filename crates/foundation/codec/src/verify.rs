//! The field numbers of what operators ask to compare replicas, and of the answers.

use quorate_core::verify::{
    Answer, BUCKETS, Checksum, Digest, LISTED_MAX, Listed, PAGE_ITEMS_MAX, PATH_MAX, Point, Progress,
    Request, Stored,
};

use crate::error::Fault;
use crate::field::{Fixed64, Nested, Optional, Packed, PlainBytes, Repeated, Text, Varint};

alternatives!(Point, "verify.Point", fields {
    1 Position: Varint,
    2 Below: Nested,
});

message!(Request, "verify.Request", {
    1 operator: Fixed64,
    2 point: Optional<Nested>,
    3 path: PlainBytes,
    4 page: Optional<Varint>,
}, check validate_request);

message!(Answer, "verify.Answer", {
    1 at: Optional<Nested>,
    2 progress: Nested,
});

alternatives!(Progress, "verify.Progress", messages {
    1 Idle {}
    2 Waiting {}
    3 Walking { 1 items: Varint }
    4 Done { 1 digest: Nested }
    5 Passed {}
    6 Busy {}
    7 Unable { 1 reason: Text }
    8 Page { 1 items: Repeated<Nested, PAGE_ITEMS_MAX>, 2 is_last: Varint }
});

message!(Checksum, "verify.Checksum", {
    1 low: Fixed64,
    2 high: Fixed64,
});

message!(Digest, "verify.Digest", {
    1 path: PlainBytes,
    2 buckets: Repeated<Nested, BUCKETS>,
    3 items: Varint,
    4 bytes: Varint,
    5 listed: Repeated<Nested, LISTED_MAX>,
}, check validate_digest);

message!(Stored, "verify.Stored", {
    1 space: Varint,
    2 key: PlainBytes,
    3 stamps: Packed,
    4 value: Optional<PlainBytes>,
});

message!(Listed, "verify.Listed", {
    1 space: Varint,
    2 key: PlainBytes,
    3 stamps: Packed,
    4 is_live: Varint,
    5 checksum: Nested,
});

fn validate_request(request: &Request) -> Result<(), Fault> {
    if request.path.len() > PATH_MAX { Err(Fault::Meaningless("a path is too long")) } else { Ok(()) }
}

fn validate_digest(digest: &Digest) -> Result<(), Fault> {
    if digest.path.len() > PATH_MAX {
        return Err(Fault::Meaningless("a path is too long"));
    }
    if digest.buckets.len() != BUCKETS {
        return Err(Fault::Meaningless("a digest has too few buckets"));
    }
    Ok(())
}
