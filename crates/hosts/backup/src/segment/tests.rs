//! Segments that are whole, and every way in which they are not. Those of format 1 are files that an earlier program has written.

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

fn chunk(entries: &[CutEntry]) -> Chunk {
    let (mut plain, mut content) = (Vec::new(), Content::default());
    for entry in entries {
        content = content.plus(encode(entry, &mut plain));
    }
    Chunk { plain, content }
}

/// A segment with these chunks.
fn written(place: Place, chunks: &[Vec<CutEntry>], cipher: Option<&Cipher>) -> Vec<u8> {
    let (mut writer, mut bytes) = SegmentWriter::new(place, [5; 16], cipher.cloned()).unwrap();
    let names = Names::new(cipher);
    for entries in chunks {
        let chunk = chunk(entries);
        bytes.extend(writer.add(names.name(place.shard, &chunk.plain), &chunk).unwrap());
    }
    assert_eq!(writer.size(), (chunks.len() as u64, bytes.len() as u64));
    bytes.extend(writer.finish().unwrap());
    bytes
}

fn read_some(
    bytes: &[u8],
    place: Place,
    used: &str,
    cipher: Option<&Cipher>,
) -> Result<(Vec<CutEntry>, Content)> {
    let mut reader = SegmentReader::of_chunks("the file", bytes, place, Used::parse(used).unwrap(), cipher)?;
    let mut entries = Vec::new();
    while let Some(block) = reader.next_block()? {
        entries.extend(block);
    }
    Ok((entries, reader.content()))
}

fn key() -> Cipher {
    Cipher::new([9; 32])
}

/// Each entry in a chunk of its own.
fn apart() -> Vec<Vec<CutEntry>> {
    each().into_iter().map(|entry| vec![entry]).collect()
}

#[test]
fn the_chunks_that_are_used_are_read_with_a_key_and_without() {
    for cipher in [None, Some(key())] {
        let bytes = written(HERE, &apart(), cipher.as_ref());
        let whole = chunk(&each()).content;
        assert_eq!(read_some(&bytes, HERE, "0-4", cipher.as_ref()).unwrap(), (each(), whole));
        let (some, content) = read_some(&bytes, HERE, "1,3-4", cipher.as_ref()).unwrap();
        assert_eq!(some, [each()[1].clone(), each()[3].clone(), each()[4].clone()]);
        assert_eq!(content, chunk(&some).content);
        let error = read_some(&bytes, HERE, "3-5", cipher.as_ref()).unwrap_err().to_string();
        assert!(error.contains("fewer chunks than the backup uses"), "{error}");
    }
}

#[test]
fn the_largest_value_is_a_chunk() {
    let large = value("large", &vec![b'x'; quorate::VALUE_BYTES_MAX]);
    let bytes = written(HERE, &[vec![large.clone()]], None);
    assert!(bytes.len() < 10_000, "it is compressed: {}", bytes.len());
    assert_eq!(read_some(&bytes, HERE, "0", None).unwrap().0, [large]);
}

#[test]
fn a_segment_that_ends_early_anywhere_is_refused() {
    for cipher in [None, Some(key())] {
        let bytes = written(HERE, &apart(), cipher.as_ref());
        for length in 0..bytes.len() {
            let error = read_some(&bytes[..length], HERE, "0-1", cipher.as_ref()).unwrap_err();
            assert!(
                matches!(&error, Error::Damaged { reason, .. } if reason.contains("it ends within")),
                "{length}: {error}"
            );
        }
    }
}

#[test]
fn a_segment_with_any_bit_turned_over_is_refused_also_where_nothing_is_used() {
    for cipher in [None, Some(key())] {
        let bytes = written(HERE, &apart(), cipher.as_ref());
        for bit in 0..bytes.len() * 8 {
            let mut turned = bytes.clone();
            turned[bit / 8] ^= 1 << (bit % 8);
            let read = read_some(&turned, HERE, "2", cipher.as_ref());
            assert!(read.is_err(), "bit {bit} of {}", bytes.len() * 8);
        }
    }
}

#[test]
fn something_behind_the_end_is_refused() {
    let mut bytes = written(HERE, &apart(), None);
    bytes.push(0);
    let error = read_some(&bytes, HERE, "0", None).unwrap_err().to_string();
    assert!(error.contains("something stands behind its end"), "{error}");
}

/// The header, each block, and what stands behind the end.
fn blocks(bytes: &[u8]) -> Vec<&[u8]> {
    let (header, mut rest) = bytes.split_at(HEADER_BYTES);
    let mut blocks = vec![header];
    while rest.len() > TRAILER_BYTES {
        let stored = u32::from_le_bytes(rest[5..9].try_into().unwrap()) as usize;
        let (block, left) = rest.split_at(BLOCK_HEADER_BYTES + stored);
        blocks.push(block);
        rest = left;
    }
    blocks.push(rest);
    blocks
}

#[test]
fn chunks_that_were_moved_repeated_left_out_or_are_of_another_segment_are_refused() {
    let chunks = &apart()[..3];
    let bytes = written(HERE, chunks, None);
    let parts = blocks(&bytes);
    assert_eq!(parts.len(), 6, "a header, three chunks, the end, and where it is");
    let refused = |order: &[&[u8]]| {
        let error = read_some(&order.concat(), HERE, "0-2", None).unwrap_err().to_string();
        assert!(error.contains("does not fit") || error.contains("ends within"), "{error}");
    };
    refused(&[parts[0], parts[2], parts[1], parts[3], parts[4], parts[5]]);
    refused(&[parts[0], parts[1], parts[1], parts[2], parts[3], parts[4], parts[5]]);
    refused(&[parts[0], parts[1], parts[3], parts[4], parts[5]]);
    refused(&[parts[0], parts[1], parts[2], parts[4], parts[5]]);
    refused(&[parts[0], parts[4], parts[5]]);
    refused(&[parts[0]]);
    let other = written(Place { number: 2, ..HERE }, chunks, None);
    refused(&[parts[0], blocks(&other)[1], parts[2], parts[3], parts[4], parts[5]]);
}

#[test]
fn a_chunk_that_is_not_what_its_name_says_is_refused() {
    let (mut writer, mut bytes) = SegmentWriter::new(HERE, [5; 16], None).unwrap();
    let chunk = chunk(&each());
    bytes.extend(writer.add(Names::new(None).name(HERE.shard + 1, &chunk.plain), &chunk).unwrap());
    bytes.extend(writer.finish().unwrap());
    let error = read_some(&bytes, HERE, "0", None).unwrap_err().to_string();
    assert!(error.contains("names of its chunks"), "{error}");
}

#[test]
fn the_names_of_chunks_are_read_without_the_chunks_and_not_from_damaged_bytes() {
    for cipher in [None, Some(key())] {
        let cipher = cipher.as_ref();
        let bytes = written(HERE, &apart(), cipher);
        let index = |bytes: &[u8]| {
            let (offset, chunks) =
                end_of(bytes, bytes.len() as u64).ok_or_else(|| Error::damaged("the file", "no end"))?;
            let header = bytes[..HEADER_BYTES].try_into().unwrap();
            read_index("the file", header, &bytes[offset as usize..], chunks, HERE, cipher)
        };
        let names = Names::new(cipher);
        let expected: Vec<ChunkName> =
            apart().iter().map(|entries| names.name(HERE.shard, &chunk(entries).plain)).collect();
        let found = index(&bytes).unwrap();
        assert_eq!(found.iter().map(|(name, _)| *name).collect::<Vec<_>>(), expected);
        let stored: usize = found.iter().map(|(_, stored)| *stored as usize).sum();
        assert_eq!(bytes[HEADER_BYTES + stored], END);
        let (end, _) = end_of(&bytes, bytes.len() as u64).unwrap();
        for bit in (0..HEADER_BYTES * 8).chain(end as usize * 8..bytes.len() * 8) {
            let mut turned = bytes.clone();
            turned[bit / 8] ^= 1 << (bit % 8);
            assert!(index(&turned).is_err(), "bit {bit}");
        }
        for length in [0, 10, HEADER_BYTES, bytes.len() - 1] {
            assert!(end_of(&bytes[..length], length as u64).is_none_or(|_| index(&bytes[..length]).is_err()));
        }
    }
}

#[test]
fn a_segment_of_another_backup_shard_or_number_is_told() {
    let bytes = written(HERE, &apart(), None);
    let error = |place| read_some(&bytes, place, "0", None).unwrap_err().to_string();
    assert!(error(Place { backup: [8; 16], ..HERE }).contains("another backup"));
    assert!(error(Place { shard: 4, ..HERE }).contains("segment 1 of shard 3"));
    assert!(error(Place { number: 0, ..HERE }).contains("in the place of segment 0 of shard 3"));
}

#[test]
fn a_segment_of_another_format_says_so() {
    let mut bytes = written(HERE, &apart(), None);
    let blocks = SegmentReader::of_blocks("the file", &bytes[..], HERE, None).unwrap_err().to_string();
    assert!(blocks.contains("it has format 2, and its backup has format 1"), "{blocks}");
    bytes[16] = 3;
    assert!(matches!(read_some(&bytes, HERE, "0", None), Err(Error::NewerFormat { found: 3, known: 2 })));
    let other = b"something else, as long as a header of a segment, sixty-four byte";
    assert!(matches!(read_some(other, HERE, "0", None), Err(Error::Damaged { .. })));
}

#[test]
fn an_encrypted_segment_wants_its_key_and_shows_nothing() {
    let secret = value("secret key", b"secret value");
    let bytes = written(HERE, &[vec![secret.clone()]], Some(&key()));
    assert!(!bytes.windows(6).any(|window| window == b"secret"));
    assert!(matches!(read_some(&bytes, HERE, "0", None), Err(Error::KeyNeeded)));
    assert!(matches!(read_some(&bytes, HERE, "0", Some(&Cipher::new([8; 32]))), Err(Error::WrongKey)));
    assert_eq!(read_some(&bytes, HERE, "0", Some(&key())).unwrap().0, std::slice::from_ref(&secret));
    // One that anybody can write does not pass for one of an encrypted backup.
    let plain = written(HERE, &[vec![secret]], None);
    let refused = read_some(&plain, HERE, "0", Some(&key())).unwrap_err().to_string();
    assert!(refused.contains("it is not encrypted, and its backup is"), "{refused}");
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

#[test]
fn positions_are_written_as_stretches_and_read_again() {
    for (positions, text) in [(vec![3], "3"), (vec![2, 0, 1, 7], "0-2,7"), (vec![0, 2, 4, 5], "0,2,4-5")] {
        let used = Used::of(positions.clone());
        assert_eq!(used.to_string(), text);
        assert_eq!(Used::parse(text), Some(used.clone()));
        for position in 0..10 {
            assert_eq!(used.has(position), positions.contains(&(position as u32)), "{text} {position}");
        }
    }
}

/// A segment of an encrypted backup, and of one that is not, by a program that knew format 1 alone.
fn old() -> [(&'static [u8], Place, Option<Cipher>); 2] {
    let place = |id: [u8; 16]| Place { backup: id, shard: 1, number: 0 };
    let plain =
        include_bytes!("../../tests/format-1/plain/accounts-20261130T084931Z-ec371f/shard-1-00000.segment");
    let sealed =
        include_bytes!("../../tests/format-1/sealed/accounts-20261130T084931Z-3220db/shard-1-00000.segment");
    let id = |bytes: &[u8]| bytes[24..40].try_into().unwrap();
    [(plain, place(id(plain)), None), (sealed, place(id(sealed)), Some(Cipher::new([0x0f; 32])))]
}

fn read_old(bytes: &[u8], place: Place, cipher: Option<&Cipher>) -> Result<usize> {
    let mut reader = SegmentReader::of_blocks("the file", bytes, place, cipher)?;
    let mut entries = 0;
    while let Some(block) = reader.next_block()? {
        entries += block.len();
    }
    Ok(entries)
}

#[test]
fn a_segment_of_format_1_is_read_and_refused_if_any_bit_of_it_is_another_or_missing() {
    for (bytes, place, cipher) in old() {
        let cipher = cipher.as_ref();
        assert!(read_old(bytes, place, cipher).unwrap() > 0);
        for length in 0..bytes.len() {
            assert!(read_old(&bytes[..length], place, cipher).is_err(), "{length}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut turned = bytes.to_vec();
            turned[bit / 8] ^= 1 << (bit % 8);
            assert!(read_old(&turned, place, cipher).is_err(), "bit {bit}");
        }
    }
}
