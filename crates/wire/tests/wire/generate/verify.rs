//! What operators ask to compare replicas.

use proptest::collection::vec;
use proptest::prelude::*;
use quorate_core::log::Position;
use quorate_core::verify::{
    Answer, BUCKETS, Checksum, Digest, LISTED_MAX, Listed, PATH_MAX, Point, Progress, Request,
};
use quorate_wire::Packet;

use super::{number, of, replica, small, text, timestamp};

pub(super) fn packet() -> BoxedStrategy<Packet> {
    prop_oneof![
        (replica(), request()).prop_map(|(replica, request)| Packet::Verify { replica, request }),
        (replica(), request(), answer()).prop_map(|(replica, request, answer)| Packet::VerifyReply {
            replica,
            request,
            answer
        }),
    ]
    .boxed()
}

fn point() -> BoxedStrategy<Point> {
    prop_oneof![number().prop_map(|at| Point::Position(Position(at))), timestamp().prop_map(Point::Below)]
        .boxed()
}

fn path() -> BoxedStrategy<bytes::Bytes> {
    vec(any::<u8>(), 0..=PATH_MAX).prop_map(Into::into).boxed()
}

fn request() -> BoxedStrategy<Request> {
    (number(), of(point()), path())
        .prop_map(|(operator, point, path)| Request { operator, point, path })
        .boxed()
}

pub(crate) fn answer() -> BoxedStrategy<Answer> {
    let progress = prop_oneof![
        Just(Progress::Idle),
        Just(Progress::Waiting),
        number().prop_map(|items| Progress::Walking { items }),
        digest().prop_map(|digest| Progress::Done { digest }),
        Just(Progress::Passed),
        Just(Progress::Busy),
        text().prop_map(|reason| Progress::Unable { reason }),
    ];
    (of(point()), progress).prop_map(|(at, progress)| Answer { at, progress }).boxed()
}

fn checksum() -> BoxedStrategy<Checksum> {
    (number(), number()).prop_map(|(low, high)| Checksum { low, high }).boxed()
}

fn digest() -> BoxedStrategy<Digest> {
    let listed = (any::<u8>(), vec(any::<u8>(), 0..9), vec(number(), 0..4), any::<bool>(), checksum())
        .prop_map(|(space, key, stamps, is_live, checksum)| Listed {
            space,
            key: key.into(),
            stamps,
            is_live,
            checksum,
        });
    let few = 0..LISTED_MAX.min(3);
    (path(), checksum(), 0..BUCKETS, number(), small(), vec(listed, few))
        .prop_map(|(path, filled, at, items, bytes, listed)| {
            let mut buckets = vec![Checksum::default(); BUCKETS];
            buckets[at] = filled;
            Digest { path, buckets, items, bytes: bytes.into(), listed }
        })
        .boxed()
}
