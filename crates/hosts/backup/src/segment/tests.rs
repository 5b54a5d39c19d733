//! Segments that are whole, and every way in which they are not.

use super::*;

const HERE: Place = Place { backup: [7; 16], shard: 3, number: 1 };

fn value(key: &str, value: &[u8]) -> CutEntry {
    CutEntry::Value { key: Key::from(key), value: Value::copy_from_slice(value) }
}

/// An entry of each kind.
fn each() -> Vec<CutEntry> {
    let key = |text: &str| Key::from(text);
    vec![
        value("a", b""),
        value("b", b"some text that is not very long"),
        CutEntry::Count { set: key("s"), element: key("e"), count: -3 },
        CutEntry::Counter { counter: key("c"), value: i64::MAX },
        CutEntry::Procedure { name: "p".to_owned(), version: 300, code: Value::from_static(b"\0asm") },
    ]
}

fn written(place: Place, entries: &[CutEntry], cipher: Option<&Cipher>) -> (Vec<u8>, Content) {
    let (mut writer, mut bytes) = SegmentWriter::new(place, [5; 16], cipher.cloned());
    for entry in entries {
        bytes.extend(writer.add(entry).unwrap().unwrap_or_default());
    }
    let (end, content) = writer.finish().unwrap();
    bytes.extend(end);
    (bytes, content)
}

fn read_all(bytes: &[u8], place: Place, cipher: Option<&Cipher>) -> Result<(Vec<CutEntry>, Content)> {
    let mut reader = SegmentReader::new("the file", bytes, place, cipher)?;
    let mut entries = Vec::new();
    while let Some(block) = reader.next_block()? {
        entries.extend(block);
    }
    Ok((entries, reader.content()))
}

fn key() -> Cipher {
    Cipher::new([9; 32])
}

#[test]
fn what_was_written_is_read_with_a_key_and_without() {
    for cipher in [None, Some(key())] {
        for entries in [Vec::new(), each()] {
            let (bytes, content) = written(HERE, &entries, cipher.as_ref());
            assert_eq!(read_all(&bytes, HERE, cipher.as_ref()).unwrap(), (entries.clone(), content));
            assert_eq!(content.entries, entries.len() as u64);
        }
    }
}

#[test]
fn many_entries_lie_in_many_blocks_and_the_largest_value_in_one() {
    let large = value("large", &vec![b'x'; quorate::VALUE_BYTES_MAX]);
    let entries: Vec<CutEntry> =
        (0..5_000).map(|number| value(&format!("{number:04}"), &[b'v'; 1_000])).chain([large]).collect();
    let (bytes, content) = written(HERE, &entries, None);
    assert!(bytes.len() < 1_000_000, "it is compressed: {}", bytes.len());
    assert_eq!(read_all(&bytes, HERE, None).unwrap(), (entries, content));
}

#[test]
fn a_segment_that_ends_early_anywhere_is_refused() {
    for cipher in [None, Some(key())] {
        let (bytes, _) = written(HERE, &each(), cipher.as_ref());
        for length in 0..bytes.len() {
            let error = read_all(&bytes[..length], HERE, cipher.as_ref()).unwrap_err();
            assert!(
                matches!(&error, Error::Damaged { reason, .. } if reason.contains("it ends within")),
                "{length}: {error}"
            );
        }
    }
}

#[test]
fn a_segment_with_any_bit_turned_over_is_refused() {
    for cipher in [None, Some(key())] {
        let (bytes, _) = written(HERE, &each(), cipher.as_ref());
        for bit in 0..bytes.len() * 8 {
            let mut turned = bytes.clone();
            turned[bit / 8] ^= 1 << (bit % 8);
            let read = read_all(&turned, HERE, cipher.as_ref());
            assert!(read.is_err(), "bit {bit} of {}", bytes.len() * 8);
        }
    }
}

#[test]
fn something_behind_the_end_is_refused() {
    let (mut bytes, _) = written(HERE, &each(), None);
    bytes.push(0);
    let error = read_all(&bytes, HERE, None).unwrap_err().to_string();
    assert!(error.contains("something stands behind its end"), "{error}");
}

/// The header, and each block.
fn blocks(bytes: &[u8]) -> Vec<&[u8]> {
    let (header, mut rest) = bytes.split_at(HEADER_BYTES);
    let mut blocks = vec![header];
    while !rest.is_empty() {
        let stored = u32::from_le_bytes(rest[5..9].try_into().unwrap()) as usize;
        let (block, left) = rest.split_at(BLOCK_HEADER_BYTES + stored);
        blocks.push(block);
        rest = left;
    }
    blocks
}

#[test]
fn blocks_that_were_moved_repeated_left_out_or_are_of_another_segment_are_refused() {
    let entries: Vec<CutEntry> =
        (0..2_500).map(|number| value(&format!("{number:04}"), &[b'v'; 1_000])).collect();
    let (bytes, _) = written(HERE, &entries, None);
    let parts = blocks(&bytes);
    assert_eq!(parts.len(), 5, "a header, three blocks and the end");
    let refused = |order: &[&[u8]]| {
        let error = read_all(&order.concat(), HERE, None).unwrap_err().to_string();
        assert!(error.contains("does not fit") || error.contains("ends within"), "{error}");
    };
    refused(&[parts[0], parts[2], parts[1], parts[3], parts[4]]);
    refused(&[parts[0], parts[1], parts[1], parts[2], parts[3], parts[4]]);
    refused(&[parts[0], parts[1], parts[3], parts[4]]);
    refused(&[parts[0], parts[1], parts[2], parts[4]]);
    refused(&[parts[0], parts[4]]);
    refused(&[parts[0]]);
    let (other, _) = written(Place { number: 2, ..HERE }, &entries, None);
    refused(&[parts[0], blocks(&other)[1], parts[2], parts[3], parts[4]]);
}

#[test]
fn a_segment_of_another_backup_shard_or_number_is_told() {
    let (bytes, _) = written(HERE, &each(), None);
    let error = |place| read_all(&bytes, place, None).unwrap_err().to_string();
    assert!(error(Place { backup: [8; 16], ..HERE }).contains("another backup"));
    assert!(error(Place { shard: 4, ..HERE }).contains("segment 1 of shard 3"));
    assert!(error(Place { number: 0, ..HERE }).contains("in the place of segment 0 of shard 3"));
}

#[test]
fn a_segment_of_a_later_format_says_so() {
    let (mut bytes, _) = written(HERE, &each(), None);
    bytes[16] = 2;
    assert!(matches!(read_all(&bytes, HERE, None), Err(Error::NewerFormat { found: 2, known: 1 })));
    assert!(matches!(
        read_all(b"something else, as long as a header of a segment, sixty-four byte", HERE, None),
        Err(Error::Damaged { .. })
    ));
}

#[test]
fn an_encrypted_segment_wants_its_key_and_shows_nothing() {
    let secret = value("secret key", b"secret value");
    let (bytes, _) = written(HERE, std::slice::from_ref(&secret), Some(&key()));
    assert!(!bytes.windows(6).any(|window| window == b"secret"));
    assert!(matches!(read_all(&bytes, HERE, None), Err(Error::KeyNeeded)));
    assert!(matches!(read_all(&bytes, HERE, Some(&Cipher::new([8; 32]))), Err(Error::WrongKey)));
    assert_eq!(read_all(&bytes, HERE, Some(&key())).unwrap().0, [secret]);
}

#[test]
fn the_sum_of_a_content_depends_on_every_entry_and_on_no_order() {
    let sum = |entries: &[CutEntry]| {
        let mut content = Content::default();
        entries.iter().for_each(|entry| content.add(entry));
        content
    };
    let (mut entries, all) = (each(), sum(&each()));
    entries.reverse();
    assert_eq!(sum(&entries), all);
    let (one, other) = entries.split_at(2);
    assert_eq!(sum(one).plus(sum(other)), all);
    // Bytes at the end of one part count differently at the beginning of the next.
    assert_ne!(sum(&[value("ab", b"c")]), sum(&[value("a", b"bc")]));
    entries.pop();
    assert_ne!(sum(&entries), all);
}
