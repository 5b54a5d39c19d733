//! Bytes that nobody meant to send: decoding never panics, and never takes memory out of proportion.

use std::collections::BTreeMap;

use bytes::Bytes;
use quorate_baselines::Replica;
use quorate_baselines::entry::Page;
use quorate_baselines::message::Wanted;
use quorate_core::log::Position;
use quorate_core::topology::Keyspace;
use quorate_core::transaction::{
    KEY_BYTES_MAX, LimitExceeded, TRANSACTION_BYTES_MAX, TRANSACTION_ENTRIES_MAX, VALUE_BYTES_MAX,
};
use quorate_core::{
    ClientId, ClockTime, Epoch, Key, Random, ReadVersion, ReplicaIndex, ShardId, Timestamp, Transaction,
    TransactionId, View, Write,
};
use quorate_log::member::Item;
use quorate_log::message::Offer;
use quorate_log::{Membership, Run, Shape};
use quorate_serializable_shard::{Answer, Declared, Found, Operation, Refusal, Shard, code_of, read_answer};
use quorate_tapir::Message;
use quorate_wire::{
    DecodeError, EachProtocol, Fault, FrameReader, Packet, Wire, decode, decode_record, each_protocol, encode,
};

use crate::allocation::peak_of;
use crate::roots::{self, Root};
use crate::{cases, generate};

/// The records that the log of a comparison system writes.
type Fact = quorate_log::Fact<Item<Replica>>;

/// Decoding may take so many times the length of its input. The worst is a list of the shortest entries that there can
/// be, while it grows.
const AMPLIFICATION_MAX: usize = 64;

/// The bytes that an error and the smallest containers take in any case.
const OVERHEAD_BYTES: usize = 4 * 1024;

/// Decodes bytes as messages and as records of each protocol.
struct Decodes<'a>(&'a [u8]);

impl EachProtocol for Decodes<'_> {
    fn message<M: Wire>(&mut self) {
        drop(decode::<M>(self.0));
    }

    fn record<R: Wire>(&mut self) {
        drop(decode_record::<R>(self.0));
    }
}

fn decode_everything(bytes: &[u8]) {
    let ((), peak) = peak_of(|| {
        drop(decode::<Packet>(bytes));
        each_protocol(&mut Decodes(bytes));
        drop(decode::<Keyspace>(bytes));
        drop(decode::<Transaction>(bytes));
        drop(decode::<Operation>(bytes));
        drop(decode::<Answer>(bytes));
        drop(decode::<Refusal>(bytes));
    });
    let allowed = OVERHEAD_BYTES + AMPLIFICATION_MAX * bytes.len();
    assert!(peak <= allowed, "{peak} bytes were allocated for {} bytes of input", bytes.len());
}

/// Changes, inserts, removes or doubles some bytes, or cuts the rest off.
fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..random.between(1, 4) {
        if bytes.is_empty() {
            return;
        }
        let (at, byte) = (random.index(bytes.len()), random.next_u64() as u8);
        match random.below(6) {
            0 => bytes[at] = byte,
            1 => bytes[at] ^= 1 << (byte % 8),
            2 => bytes.insert(at, byte),
            3 => drop(bytes.remove(at)),
            4 => {
                let end = (at + usize::from(byte)).min(bytes.len());
                bytes.extend_from_within(at..end);
            }
            _ => bytes.truncate(at),
        }
    }
}

fn mutants_are_harmless(roots: &[Root]) {
    cases(3_000, |random| {
        for root in roots {
            let mut bytes = generate::write(&root.name, &generate::message(&root.name, random));
            mutate(&mut bytes, random);
            decode_everything(&bytes);
        }
    });
}

#[test]
fn mutated_messages_are_harmless() {
    mutants_are_harmless(&roots::messages());
}

#[test]
fn mutated_records_are_harmless() {
    mutants_are_harmless(&roots::records());
}

#[test]
fn mutated_values_of_the_catalogue_are_harmless() {
    mutants_are_harmless(&roots::values());
}

#[test]
fn mutated_operations_and_answers_are_harmless() {
    mutants_are_harmless(&roots::operations());
}

/// A shard answers all requests, and refuses as malformed those that are no operation.
#[test]
fn a_shard_that_is_asked_mutants_is_unharmed() {
    use quorate_granola::{Application, Place};
    let place = |sequence| Place {
        timestamp: ClockTime::from_micros(sequence),
        transaction: TransactionId { client: ClientId(1), sequence, attempt: 0 },
    };
    let name = roots::operations().remove(0).name;
    cases(3_000, |random| {
        let mut bytes = generate::write(&name, &generate::message(&name, random));
        if random.chance(0.7) {
            mutate(&mut bytes, random);
        }
        let bytes = Bytes::from(bytes);
        let operation = Operation::decode(&bytes);
        let code = match &operation {
            Ok(Operation::Deploy(deploy)) if bytes[0] == 0x1a => Some(deploy.code.clone()),
            _ => None,
        };
        assert_eq!(code_of(&bytes), code);
        let mut shard = Shard::default();
        let answer = shard.run(place(1), &bytes).expect("nothing is locked");
        let answer = read_answer(&answer).expect("what it answers can be read");
        assert_eq!(operation.is_err(), matches!(answer, Err(Refusal::Malformed { .. })), "{operation:?}");
        shard.prepare(place(2).transaction, &bytes);
        shard.force_prepare(place(3).transaction, &bytes);
        shard.read(place(9), &bytes);
        shard.abort(place(3).transaction);
        shard.commit(place(2));
        // A message that was read can be read again: unknown fields are left out.
        if let Ok(operation) = operation {
            assert_eq!(Operation::decode(&operation.encode()), Ok(operation));
        }
    });
}

#[test]
fn random_bytes_are_harmless() {
    cases(3_000, |random| {
        let length = random.index(300);
        decode_everything(&generate::bytes(length, random));
    });
}

/// Low bytes are tags and lengths that fit, so such noise gets deep.
#[test]
fn plausible_noise_is_harmless() {
    cases(3_000, |random| {
        let mut bytes = generate::bytes(random.index(300), random);
        bytes.iter_mut().filter(|_| random.chance(0.5)).for_each(|byte| *byte %= 40);
        decode_everything(&bytes);
    });
}

#[test]
fn a_stream_of_noise_is_harmless() {
    cases(3_000, |random| {
        let mut reader = FrameReader::new();
        for _ in 0..random.below(8) {
            let mut chunk = generate::bytes(random.index(40), random);
            chunk.iter_mut().filter(|_| random.chance(0.5)).for_each(|byte| *byte = 0);
            reader.feed(&chunk);
            while let Ok(Some(packets)) = reader.next_frame() {
                packets.for_each(drop);
            }
        }
    });
}

fn pieces_are_harmless(root: &Root) {
    cases(60, |random| {
        let bytes = generate::write(&root.name, &generate::message(&root.name, random));
        for length in 0..bytes.len() {
            decode_everything(&bytes[..length]);
        }
    });
}

#[test]
fn packets_cut_anywhere_are_harmless() {
    pieces_are_harmless(&roots::messages()[0]);
}

#[test]
fn records_cut_anywhere_are_harmless() {
    roots::records().iter().for_each(pieces_are_harmless);
}

/// An entry cannot be divided, so what it holds has to fit.
#[test]
fn an_operation_that_no_entry_could_hold_is_refused() {
    let request = |bytes| quorate_granola::message::Request {
        transaction: TransactionId::default(),
        participants: vec![ShardId(1)],
        operation: Bytes::from(vec![0; bytes]),
        class: quorate_granola::Class::Independent,
        high: Default::default(),
        first: Default::default(),
    };
    let largest = request(TRANSACTION_BYTES_MAX);
    assert_eq!(decode::<quorate_granola::message::Request>(&encode(&largest)), Ok(largest));
    let error = decode::<quorate_granola::message::Request>(&encode(&request(TRANSACTION_BYTES_MAX + 1)));
    let error = error.expect_err("one byte more than that");
    assert_eq!(
        (error.field, &error.fault),
        ("operation", &Fault::Operation { bytes: TRANSACTION_BYTES_MAX + 1 })
    );
}

/// A length that lies allocates nothing.
#[test]
fn a_stated_length_is_not_believed() {
    // Packet.goodbye, with a length of 2^28 - 1 and no content.
    let bytes = [0x52, 0xff, 0xff, 0xff, 0x7f];
    let (result, peak) = peak_of(|| decode::<Packet>(&bytes));
    let error = result.unwrap_err();
    assert_eq!(error.fault, Fault::Truncated);
    assert_eq!(error.to_string(), "malformed Packet, field Goodbye: the bytes end too early");
    assert!(peak <= 256, "only the error was allocated, not {peak} bytes");
}

/// A frame full of the shortest entries of each kind of list is refused before it takes much.
#[test]
fn lists_of_tiny_entries_are_bounded() {
    for tag in [0x0a, 0x12, 0x1a, 0x22] {
        let bytes: Vec<u8> = [tag, 0].repeat(4 * 1024 * 1024);
        let (result, peak) = peak_of(|| decode::<Transaction>(&bytes));
        assert!(result.is_err() || tag == 0x22, "{tag:#x}: the entries are refused, or there are none");
        assert!(peak <= AMPLIFICATION_MAX * 100_000 * 4, "{tag:#x}: {peak}");
    }
    // Transaction.participants as 16 Mi numbers.
    let mut bytes = vec![0x22, 0x80, 0x80, 0x80, 0x08];
    bytes.resize(bytes.len() + 16 * 1024 * 1024, 1);
    let error = decode::<Transaction>(&bytes).unwrap_err();
    assert!(matches!(error.fault, Fault::Entries { .. }), "{error}");
}

/// A list of so many of an entry is refused before it takes much.
fn refuse<T: Wire>(what: &str, entry: &[u8]) {
    refuse_bytes::<T>(what, &entry.repeat((1 << 20) + 1));
}

/// The list is a message, and a field of another one.
fn refuse_within<T: Wire>(what: &str, field: u8, entry: &[u8]) {
    let list = entry.repeat((1 << 20) + 1);
    let mut bytes = vec![field << 3 | 2];
    let mut length = list.len();
    while length >= 0x80 {
        bytes.push(length as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
    bytes.extend(list);
    refuse_bytes::<T>(what, &bytes);
}

fn refuse_bytes<T: Wire>(what: &str, bytes: &[u8]) {
    let (result, peak) = peak_of(|| decode::<T>(bytes).map(drop));
    let error = result.unwrap_err();
    assert!(matches!(error.fault, Fault::Entries { .. }), "{what}: {error}");
    assert!(peak <= AMPLIFICATION_MAX * bytes.len(), "{what}: {peak} for {}", bytes.len());
}

/// The lists of the log and of what stands on it, full of the shortest entries that there can be.
#[test]
fn lists_of_tiny_entries_on_a_log_are_bounded() {
    // Entry { payload: Item { own: { ceiling: {} } } }
    refuse_within::<Fact>("entries", 1, &[0x0a, 6, 0x12, 4, 0x0a, 2, 0x2a, 0]);
    // Shape.runs
    refuse::<Shape>("runs", &[0x12, 0]);
    refuse_within::<Wanted>("keys", 1, &[0x0a, 1, b'k']);
    // { key: "k", version: { timestamp: {} } }
    refuse_within::<Page>("versions", 1, &[0x0a, 7, 0x0a, 1, b'k', 0x12, 2, 0x0a, 0]);
    // { transaction: {}, part: {}, proposed: {}, timestamp: {}, age: {} }
    refuse_within::<Page>("prepared", 2, &[0x0a, 10, 0x0a, 0, 0x12, 0, 0x1a, 0, 0x22, 0, 0x2a, 0]);
    // { transaction: {}, ended: { outcome: { aborted: {} }, until: {} } }
    refuse_within::<Page>("ended", 3, &[0x0a, 10, 0x0a, 0, 0x12, 6, 0x0a, 2, 0x12, 0, 0x1a, 0]);

    // Offer.lives, of which the last of each replica counts, and Offer.shape.
    let mut bytes = [0x22, 0].repeat(1 << 22);
    bytes.extend([0x22, 2, 0x10, 7, 0x12, 0]);
    let (result, peak) = peak_of(|| decode::<Offer>(&bytes));
    assert_eq!(result.unwrap().lives, BTreeMap::from([(ReplicaIndex(0), 7)]));
    assert!(peak <= OVERHEAD_BYTES, "lives: {peak}");
}

/// The same for what shards of serializable keyspaces are asked and answer.
#[test]
fn lists_of_tiny_entries_in_operations_are_bounded() {
    // { absent: {} } and { get: {} }
    refuse_within::<Operation>("conditions", 1, &[0x0a, 2, 0x12, 0]);
    refuse_within::<Operation>("steps", 1, &[0x12, 2, 0x12, 0]);
    refuse::<Declared>("keys", &[0x0a, 1, b'k']);
    refuse::<Declared>("ranges", &[0x12, 0]);
    // { done: {} }
    refuse_within::<Answer>("found", 1, &[0x0a, 2, 0x1a, 0]);
    // { key: "k", held: {} }
    refuse_within::<Found>("keys", 6, &[0x0a, 5, 0x0a, 1, b'k', 0x12, 0]);
}

/// Rules that replicas rely on when they compare logs and count majorities.
#[test]
fn shapes_and_memberships_that_cannot_be_are_refused() {
    let run = |view, first| Run { view: View(view), first: Position(first) };
    let shape = |base, runs, last| Shape { base: Position(base), runs, last: Position(last) };
    let unsound = [
        shape(0, vec![], 1),
        shape(5, vec![], 5),
        shape(0, vec![run(1, 2)], 2),
        shape(5, vec![run(1, 6)], 6),
        shape(0, vec![run(1, 1), run(1, 2)], 2),
        shape(0, vec![run(2, 1), run(1, 2)], 2),
        shape(0, vec![run(1, 1), run(2, 3)], 2),
        shape(0, vec![run(1, 1), run(2, 1)], 2),
        shape(5, vec![run(1, 5)], 4),
    ];
    for shape in unsound {
        let error = decode::<Shape>(&encode(&shape)).unwrap_err();
        assert_eq!(error.to_string(), "malformed log.Shape: no log has such a shape", "{shape:?}");
    }
    // One member twice; the same of an odd number; none. Groups of even size are sound: homes have them.
    for members in [&[0x12, 2, 1, 1][..], &[0x12, 3, 0, 1, 1], &[]] {
        let error = decode::<Membership>(members).unwrap_err();
        assert!(error.to_string().contains("no group has such members"), "{error}");
    }
}

fn refused(result: Result<Message, DecodeError>) -> (Fault, String) {
    let error = result.unwrap_err();
    let text = error.to_string();
    (error.fault.clone(), text)
}

fn read(key: Vec<u8>) -> Message {
    Message::Read { transaction: TransactionId::default(), key: Key::from(key) }
}

#[test]
fn keys_beyond_the_limit_are_refused() {
    let (fault, text) = refused(decode(&encode(&read(vec![b'k'; KEY_BYTES_MAX + 1]))));
    assert!(matches!(fault, Fault::Limit(LimitExceeded::Key { .. })));
    assert!(
        text.contains("tapir.Message.Read") && text.contains("field key") && text.contains("4097"),
        "{text}"
    );
    let (fault, _) = refused(decode(&encode(&read(Vec::new()))));
    assert_eq!(fault, Fault::Limit(LimitExceeded::EmptyKey));
    assert!(decode::<Message>(&encode(&read(vec![b'k'; KEY_BYTES_MAX]))).is_ok());
}

#[test]
fn values_beyond_the_limit_are_refused() {
    let reply = |bytes| Message::ReadReply {
        transaction: TransactionId::default(),
        key: Key::from(b"k"),
        version: Timestamp::ZERO,
        value: Some(Bytes::from(vec![0; bytes])),
    };
    let (fault, text) = refused(decode(&encode(&reply(VALUE_BYTES_MAX + 1))));
    assert_eq!(fault, Fault::Value { bytes: VALUE_BYTES_MAX + 1 });
    assert!(text.contains("1048577") && text.contains("1048576"), "{text}");
    assert!(decode::<Message>(&encode(&reply(VALUE_BYTES_MAX))).is_ok());
}

#[test]
fn transactions_beyond_the_limits_are_refused() {
    let write = |at: usize, bytes| Write {
        key: Key::from(format!("{at:08}")),
        value: Some(Bytes::from(vec![0; bytes])),
    };
    let large =
        Transaction { writes: (0..10).map(|at| write(at, 1_000_000)).collect(), ..Transaction::default() };
    let error = decode::<Transaction>(&encode(&large)).unwrap_err();
    assert_eq!(
        error.fault,
        LimitExceeded::Transaction { key: "\"00000009\"".to_owned(), bytes: 10_000_080 }.into()
    );
    assert_eq!(large.bytes(), TRANSACTION_BYTES_MAX + 80);

    let read = |at: usize| ReadVersion {
        key: Key::from(format!("{at:08}")),
        version: Timestamp::ZERO,
        deleted: false,
    };
    let many = Transaction {
        reads: (0..TRANSACTION_ENTRIES_MAX).map(read).collect(),
        writes: vec![write(0, 1)],
        ..Transaction::default()
    };
    let error = decode::<Transaction>(&encode(&many)).unwrap_err();
    let entries = TRANSACTION_ENTRIES_MAX + 1;
    assert_eq!(error.fault, LimitExceeded::Entries { key: "\"00000000\"".to_owned(), entries }.into());
}

/// Replicas search transactions by bisection, so the order is checked where they come in.
#[test]
fn entries_that_do_not_ascend_are_refused() {
    let read =
        |key: &'static str| ReadVersion { key: Key::from(key), version: Timestamp::ZERO, deleted: false };
    let write = |key: &'static str| Write { key: Key::from(key), value: None };
    let disordered = [
        Transaction { reads: vec![read("b"), read("a")], ..Transaction::default() },
        Transaction { reads: vec![read("a"), read("a")], ..Transaction::default() },
        Transaction { writes: vec![write("b"), write("a")], ..Transaction::default() },
        Transaction { participants: vec![ShardId(2), ShardId(2)], ..Transaction::default() },
    ];
    for transaction in disordered {
        assert_eq!(decode::<Transaction>(&encode(&transaction)).unwrap_err().fault, Fault::Unsorted);
    }
}

/// Keyspaces at which a client that trusts its directory would panic.
#[test]
fn keyspaces_without_shards_and_shards_without_a_majority_are_refused() {
    use quorate_core::topology::{Durability, Isolation, Shard};
    use quorate_core::{KeyspaceId, NodeId};
    let keyspace = |shards| Keyspace::new(KeyspaceId(1), "k", Isolation::Strict, Durability::Sync, shards);
    let error = decode::<Keyspace>(&encode(&keyspace(Vec::new()))).unwrap_err();
    assert!(error.to_string().contains("must have a shard"), "{error}");
    for (replicas, expected) in
        [(0, "too many replicas, or none"), (2, "an odd number"), (11, "too many replicas")]
    {
        let shard = Shard::new(ShardId(1), vec![NodeId(0); replicas]);
        let error = decode::<Keyspace>(&encode(&keyspace(vec![shard]))).unwrap_err();
        assert!(error.to_string().contains(expected), "{replicas}: {error}");
    }
    // A group may stand on a log and still be of a keyspace whose groups are odd.
    for isolation in [Isolation::Serializable, Isolation::ParallelSnapshot] {
        let shard = Shard::new(ShardId(1), vec![NodeId(0), NodeId(1)]);
        let even = Keyspace { isolation, ..keyspace(vec![shard]) };
        let error = decode::<Keyspace>(&encode(&even)).unwrap_err();
        assert!(error.to_string().contains("an odd number"), "{error}");
    }
}

/// The paper's six replicas: in snapshot keyspaces that are run by their own protocol, and nowhere else.
#[test]
fn groups_of_even_size_are_for_snapshot_keyspaces() {
    use quorate_core::comparison::{Comparison, System};
    use quorate_core::topology::{Durability, Isolation, Shard, Speculation};
    use quorate_core::{GroupSize, KeyspaceId, NodeId};
    let group = |id, nodes: u16| Shard::new(ShardId(id), (0..nodes).map(NodeId).collect());
    let keyspace = |replicas: u16| {
        let shards = vec![group(1, replicas)];
        Keyspace {
            homes: vec![group(2, 1)],
            speculation: Some(Speculation { chain_max: Some(8), ..Speculation::default() }),
            ..Keyspace::new(KeyspaceId(1), "k", Isolation::Snapshot, Durability::Sync, shards)
        }
    };
    for replicas in 1..=GroupSize::MAX as u16 {
        let keyspace = keyspace(replicas);
        assert_eq!(decode::<Keyspace>(&encode(&keyspace)).unwrap(), keyspace);
        let size = keyspace.shards[0].group_size();
        assert_eq!(size.replicas(), usize::from(replicas));
        assert!(2 * size.majority() > size.replicas());
    }
    let compared = Keyspace {
        comparison: Some(Comparison { rival: System::TxnOcc.into(), service: Some(group(3, 3)) }),
        homes: Vec::new(),
        speculation: None,
        ..keyspace(6)
    };
    let error = decode::<Keyspace>(&encode(&compared)).unwrap_err();
    assert!(error.to_string().contains("an odd number"), "{error}");
}

/// A node would not know how to be set up.
#[test]
fn chains_that_cannot_be_are_refused() {
    use quorate_core::topology::{Speculation, SpeculationVariant};
    let told = |variant, chain_max| Speculation { variant, chain_max, ..Speculation::default() };
    for chain_max in [None, Some(0), Some(8)] {
        let speculation = told(SpeculationVariant::StrExternal, chain_max);
        assert_eq!(decode::<Speculation>(&encode(&speculation)).unwrap(), speculation);
    }
    for (variant, length) in [(SpeculationVariant::StrExternal, 9), (SpeculationVariant::Planet, 1)] {
        let error = decode::<Speculation>(&encode(&told(variant, Some(length)))).unwrap_err();
        assert!(error.to_string().contains("chains that are too long"), "{error}");
    }
}

/// Keyspaces of earlier versions say nothing of decisions and grants.
#[test]
fn a_keyspace_of_an_earlier_version_decides_in_a_site_and_reads_anywhere() {
    use quorate_core::topology::{Decisions, Grants, Speculation, SpeculationVariant};
    let read = |bytes: &[u8]| decode::<Speculation>(bytes);
    let earlier = read(&[1 << 3, 2]).unwrap();
    assert_eq!((earlier.variant, earlier.decisions), (SpeculationVariant::Planet, Decisions::Site));
    assert_eq!(earlier.grants, Grants::All);
    assert_eq!(read(&[1 << 3, 2, 6 << 3, 2]).unwrap().grants, Grants::Leader);
    assert!(read(&[1 << 3, 2, 5 << 3, 3]).is_err() && read(&[1 << 3, 2, 6 << 3, 3]).is_err());
}

/// A keyspace that would make a client wait for homes that are not there, or a node run a transaction twice.
/// An isolation, its homes with their nodes, how it speculates, and the complaint.
type Row<'a> = (
    quorate_core::topology::Isolation,
    &'a [(u32, &'a [u16])],
    Option<quorate_core::topology::Speculation>,
    &'a str,
);

/// A replica would follow other rules than were meant, or none that there are.
#[test]
fn options_that_fit_no_keyspace_are_refused() {
    use quorate_core::comparison::{Comparison, System};
    use quorate_core::topology::{Durability, Isolation, SerialOrder, Shard, Timestamping};
    use quorate_core::{KeyspaceId, NodeId};
    use std::time::Duration;
    let of = |isolation| {
        let shards = vec![Shard::new(ShardId(1), vec![NodeId(0)])];
        Keyspace::new(KeyspaceId(1), "k", isolation, Durability::Sync, shards)
    };
    let refused = |keyspace: Keyspace| match decode::<Keyspace>(&encode(&keyspace)) {
        Ok(decoded) => {
            assert_eq!(decoded, keyspace);
            None
        }
        Err(error) => Some(error.to_string()),
    };
    let retry_ahead = Duration::from_secs(1);
    let timestamping = Some(Timestamping { order: SerialOrder::Timestamps, retry_ahead });
    let strict = Keyspace { timestamping, ..of(Isolation::Strict) };
    assert_eq!(refused(strict.clone()), None);
    let comparison = Some(Comparison { rival: System::SpanOcc.into(), service: None });
    let farther = Some(Timestamping { retry_ahead: 2 * retry_ahead, ..Timestamping::default() });
    for keyspace in [
        Keyspace { clock_bound: Some(Duration::from_millis(1)), ..strict.clone() },
        Keyspace { timestamping: farther, ..strict.clone() },
        Keyspace { comparison: comparison.clone(), ..strict },
        Keyspace { timestamping, ..of(Isolation::Serializable) },
    ] {
        let refused = refused(keyspace).expect("it is refused");
        assert!(refused.contains("options of timestamps"), "{refused}");
    }
    let named = |isolation, name: &str| Keyspace { application: Some(name.to_owned()), ..of(isolation) };
    assert_eq!(refused(named(Isolation::Serializable, &"a".repeat(64))), None);
    for keyspace in [
        named(Isolation::Strict, "bank"),
        named(Isolation::Serializable, ""),
        named(Isolation::Serializable, &"a".repeat(65)),
        Keyspace { comparison, ..named(Isolation::Serializable, "bank") },
    ] {
        let refused = refused(keyspace).expect("it is refused");
        assert!(refused.contains("an application"), "{refused}");
    }
}

#[test]
fn homes_that_cannot_be_are_refused() {
    use quorate_core::topology::{Durability, Isolation, Shard, Speculation};
    use quorate_core::{KeyspaceId, NodeId};
    let group = |id, nodes: &[u16]| Shard::new(ShardId(id), nodes.iter().copied().map(NodeId).collect());
    let refused = |isolation, homes: &[(u32, &[u16])], speculation| {
        let keyspace = Keyspace {
            id: KeyspaceId(1),
            name: "k".to_owned(),
            isolation,
            durability: Durability::Sync,
            shards: vec![group(1, &[0, 1, 2])],
            epoch: Epoch::FIRST,
            clock_bound: None,
            comparison: None,
            removals: Vec::new(),
            joins: Vec::new(),
            homes: homes.iter().map(|(id, nodes)| group(*id, nodes)).collect(),
            speculation,
            timestamping: None,
            application: None,
            retention: None,
            expiring: false,
        };
        match decode::<Keyspace>(&encode(&keyspace)) {
            Ok(decoded) => {
                assert_eq!(decoded, keyspace);
                None
            }
            Err(error) => Some(error.to_string()),
        }
    };
    let (snapshot, told) = (Isolation::Snapshot, Some(Speculation::default()));
    assert_eq!(refused(snapshot, &[(2, &[0, 1, 2])], told), None);
    assert_eq!(refused(snapshot, &[(2, &[0]), (3, &[1]), (4, &[2])], None), None);
    let table: [Row<'_>; 6] = [
        (snapshot, &[], told, "no homes"),
        (Isolation::Strict, &[(2, &[0])], None, "homes where no transaction runs"),
        (Isolation::Serializable, &[], told, "homes where no transaction runs"),
        (snapshot, &[(1, &[0, 1, 2])], told, "a home that is a shard"),
        (snapshot, &[(2, &[0]), (2, &[1])], told, "or two"),
        (snapshot, &[(2, &[0]), (3, &[0])], told, "a node with more than one machine"),
    ];
    for (isolation, homes, speculation, expected) in table {
        let refused = refused(isolation, homes, speculation).expect(expected);
        assert!(refused.contains(expected), "{refused}: {expected}");
    }
}

/// Changes that would make two replicas one, or ask nobody for the records of a group.
#[test]
fn changes_that_cannot_have_been_are_refused() {
    use quorate_core::topology::{Change, Durability, Isolation, Shard};
    use quorate_core::{KeyspaceId, Members, NodeId, Tenure};
    let nodes = |nodes: &[u16]| nodes.iter().copied().map(NodeId).collect::<Vec<_>>();
    let shard = Shard::new(ShardId(1), nodes(&[0, 1, 2])).moved_to(&nodes(&[0, 1, 3]), Epoch(4)).unwrap();
    type Spoil<'a> = &'a dyn Fn(&mut Shard, &mut Change, &mut Epoch);
    let refused = |spoil: Spoil<'_>| {
        let (mut spoilt, mut epoch) = (shard.clone(), Epoch(4));
        let mut change = spoilt.change.take().unwrap();
        spoil(&mut spoilt, &mut change, &mut epoch);
        let shards = vec![Shard { change: Some(change), ..spoilt }];
        let keyspace = Keyspace {
            epoch,
            ..Keyspace::new(KeyspaceId(1), "k", Isolation::Strict, Durability::Sync, shards)
        };
        decode::<Keyspace>(&encode(&keyspace)).err().map(|error| error.to_string())
    };
    assert_eq!(refused(&|_, _, _| {}), None);
    let table: [(Spoil<'_>, &str); 6] = [
        (&|shard, _, _| shard.replicas = nodes(&[0]), "as many nodes as replicas"),
        (&|_, change, _| change.previous = nodes(&[0, 1]), "as many nodes as replicas"),
        (&|_, change, _| change.next = 3, "given away once"),
        (&|_, change, _| change.next = 257, "there are 256"),
        (&|_, _, epoch| *epoch = Epoch(3), "an epoch to come"),
        (
            &|_, change, _| {
                let members = Members::new([ReplicaIndex(7)]).unwrap();
                change.succession.previous = Some(Tenure { since: Epoch(4), members });
                change.previous = nodes(&[7]);
            },
            "was there before",
        ),
    ];
    for (spoil, expected) in table {
        let refused = refused(spoil).expect(expected);
        assert!(refused.contains(expected), "{refused}: {expected}");
    }
}

/// A client would wait for ever for timestamps that nobody gives, or for a coordinator that is not there.
#[test]
fn comparison_systems_with_the_wrong_groups_are_refused() {
    use quorate_core::NodeId;
    use quorate_core::comparison::{Comparison, Rival, System};
    use quorate_core::topology::Shard;
    let service = Shard::new(ShardId(1), vec![NodeId(0)]);
    for rival in Rival::ALL {
        let comparison = |service| Comparison { rival, service };
        let with = decode::<Comparison>(&encode(&comparison(Some(service.clone()))));
        let without = decode::<Comparison>(&encode(&comparison(None)));
        assert_eq!(with.is_ok(), rival.has_service(), "{rival}");
        assert_eq!(without.is_ok(), !rival.has_service(), "{rival}");
    }
    let error = decode::<Comparison>(&encode(&Comparison { rival: System::TxnOcc.into(), service: None }));
    assert!(error.unwrap_err().to_string().contains("without one"));
}

/// A message that names a transaction of another position than there are.
#[test]
fn a_dangling_position_is_refused() {
    // OperationEntries { consensus: [ConsensusEntry { transaction: 1, timestamp: {}, verdict: Ok }] }
    let bytes = [0x1a, 8, 0x10, 1, 0x1a, 0, 0x22, 2, 0x0a, 0];
    let error = quorate_ir::OperationEntries::<quorate_tapir::Tapir>::decode(&bytes).unwrap_err();
    assert!(error.to_string().contains("not there"), "{error}");
}
