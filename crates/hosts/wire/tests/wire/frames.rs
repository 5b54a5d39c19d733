//! Frames: cut anywhere, joined anyhow, damaged in every way.

use quorate_wire::frame::{FRAME_VERSION, PacketTooLarge};
use quorate_wire::{FRAME_BYTES_MAX, FrameError, FrameReader, FrameWriter, Packet};

use crate::{cases, generate};

fn goodbye(bytes: usize) -> Packet {
    Packet::Goodbye { reason: "x".repeat(bytes) }
}

/// Everything that can be read, until more bytes are needed.
fn read_all(reader: &mut FrameReader) -> Vec<Packet> {
    let mut packets = Vec::new();
    while let Some(frame) = reader.next_frame().unwrap() {
        packets.extend(frame.map(Result::unwrap));
    }
    packets
}

/// A frame around any body.
fn frame(body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32).to_le_bytes();
    let crc = crc32fast::hash(body).to_le_bytes();
    [&length[..], &crc, body].concat()
}

#[test]
fn a_stream_may_be_cut_anywhere() {
    cases(200, |random| {
        let mut writer = FrameWriter::new();
        let mut sent = Vec::new();
        for _ in 0..random.between(1, 7) {
            let packet = generate::packet(random);
            writer.push(&packet).unwrap();
            sent.push(packet);
            if random.chance(0.5) {
                writer.close();
            }
        }
        let bytes = writer.take();
        let mut reader = FrameReader::new();
        let mut read = Vec::new();
        for piece in bytes.chunks(random.between(1, 49) as usize) {
            reader.feed(piece);
            read.extend(read_all(&mut reader));
        }
        assert_eq!(read, sent);
        assert_eq!(reader.buffered(), 0);
    });
}

#[test]
fn a_flipped_bit_is_noticed() {
    cases(200, |random| {
        let mut writer = FrameWriter::new();
        writer.push(&generate::packet(random)).unwrap();
        let mut bytes = writer.take();
        let at = random.index(bytes.len());
        bytes[at] ^= 1 << random.below(8);
        let mut reader = FrameReader::new();
        reader.feed(&bytes);
        // A flip in the length may ask for more bytes; everything else is an error.
        match reader.next_frame() {
            Ok(None) => assert!(at < 4),
            Ok(Some(_)) => panic!("the damage went unnoticed"),
            Err(_) => {}
        }
    });
}

#[test]
fn what_is_not_closed_is_not_sent() {
    let mut writer = FrameWriter::new();
    assert!(writer.is_empty());
    writer.push(&Packet::StatusRequest).unwrap();
    assert_eq!(writer.ready(), b"");
    assert!(!writer.is_empty());
    writer.close();
    assert_eq!(writer.ready().len(), 13);
    writer.push(&Packet::StatusRequest).unwrap();
    assert_eq!((writer.ready().len(), writer.len()), (13, 26));
}

/// A socket takes what it can; packets arrive meanwhile.
#[test]
fn sending_in_pieces_while_packets_are_pushed() {
    let mut writer = FrameWriter::new();
    let mut reader = FrameReader::new();
    let mut read = Vec::new();
    for round in 0..50 {
        writer.push(&goodbye(round)).unwrap();
        if round % 3 == 0 {
            writer.close();
        }
        let taken = writer.ready().len().min(7 + round);
        reader.feed(&writer.ready()[..taken]);
        writer.advance(taken);
        read.extend(read_all(&mut reader));
    }
    reader.feed(&writer.take());
    read.extend(read_all(&mut reader));
    assert_eq!(read, (0..50).map(goodbye).collect::<Vec<_>>());
    assert!(writer.is_empty());
}

#[test]
#[should_panic(expected = "only closed frames")]
fn an_open_frame_cannot_have_been_sent() {
    let mut writer = FrameWriter::new();
    writer.push(&Packet::StatusRequest).unwrap();
    writer.advance(1);
}

#[test]
fn clearing_forgets_the_open_frame() {
    let mut writer = FrameWriter::new();
    writer.push(&Packet::StatusRequest).unwrap();
    writer.clear();
    writer.push(&Packet::DirectoryRequest).unwrap();
    let mut reader = FrameReader::new();
    reader.feed(&writer.take());
    assert_eq!(read_all(&mut reader), [Packet::DirectoryRequest]);
}

#[test]
fn large_batches_become_several_frames() {
    let mut writer = FrameWriter::new();
    let packets: Vec<Packet> = (0..10).map(|_| goodbye(100_000)).collect();
    for packet in &packets {
        writer.push(packet).unwrap();
    }
    assert!(!writer.ready().is_empty(), "full frames are ready before the last is closed");
    let bytes = writer.take();
    let mut reader = FrameReader::with_limit(300_000);
    reader.feed(&bytes);
    assert_eq!(read_all(&mut reader), packets);
}

#[test]
fn the_largest_packet_fits_and_a_larger_one_is_refused() {
    let mut writer = FrameWriter::new();
    // Version byte, two tags and two lengths around the content, and those of the reason itself.
    let largest = FRAME_BYTES_MAX - 1 - 3 * 5;
    writer.push(&goodbye(largest)).unwrap();
    let bytes = writer.take();
    assert_eq!(bytes.len(), FRAME_BYTES_MAX + 8);
    let mut reader = FrameReader::new();
    reader.feed(&bytes);
    assert_eq!(read_all(&mut reader), [goodbye(largest)]);
    let error = writer.push(&goodbye(largest + 1)).unwrap_err();
    assert_eq!(error, PacketTooLarge { bytes: FRAME_BYTES_MAX - 5 });
    assert!(writer.is_empty(), "nothing of it was written");
}

#[test]
fn errors_say_what_is_wrong() {
    let error_of = |limit: usize, bytes: &[u8]| {
        let mut reader = FrameReader::with_limit(limit);
        reader.feed(bytes);
        reader.next_frame().map(|_| ()).unwrap_err()
    };
    let error = error_of(FRAME_BYTES_MAX, b"GET / HTTP/1.1\r\n\r\n");
    assert!(matches!(error, FrameError::TooLarge { .. }));
    assert!(error.to_string().contains("does not speak the protocol of Quorate"), "{error}");
    let over = [&((FRAME_BYTES_MAX + 1) as u32).to_le_bytes()[..], &[0; 4]].concat();
    let error = error_of(usize::MAX, &over);
    assert_eq!(error, FrameError::TooLarge { bytes: FRAME_BYTES_MAX + 1, max: FRAME_BYTES_MAX });
    let error = error_of(10, &frame(&[FRAME_VERSION; 11]));
    assert_eq!(error, FrameError::TooLarge { bytes: 11, max: 10 });
    let mut damaged = frame(&[FRAME_VERSION, 0x0a, 0]);
    damaged[10] ^= 1;
    let error = error_of(100, &damaged);
    assert!(matches!(error, FrameError::Crc { .. }) && error.to_string().contains("damaged"), "{error}");
    let error = error_of(100, &frame(&[2]));
    assert_eq!(error, FrameError::Version { found: 2 });
    assert!(
        error.to_string().contains("speaks version 2") && error.to_string().contains("version 1"),
        "{error}"
    );
    assert_eq!(error_of(100, &frame(&[])), FrameError::Empty);
}

#[test]
fn a_limit_can_be_raised_once_the_peer_is_known() {
    let mut reader = FrameReader::with_limit(10);
    let mut writer = FrameWriter::new();
    writer.push(&goodbye(100)).unwrap();
    reader.set_limit(FRAME_BYTES_MAX);
    reader.feed(&writer.take());
    assert_eq!(read_all(&mut reader), [goodbye(100)]);
}

#[test]
fn after_an_error_in_a_packet_the_frame_ends() {
    let broken = [0x0a, 2, 0x10, 1];
    let body = [&[FRAME_VERSION][..], &broken, &[0x0a, 2, 0x42, 0]].concat();
    let mut reader = FrameReader::new();
    reader.feed(&frame(&body));
    let packets: Vec<_> = reader.next_frame().unwrap().unwrap().collect();
    assert_eq!(packets.len(), 1);
    assert!(packets[0].is_err());
}
