//! A connection that says it is a node, and says anything.
//!
//! Messages are put together from the field numbers of the wire format, so that whatever the types of this program cannot hold can be
//! said as well.

use quorate::NodeId;
use quorate_cluster::Failure;
use quorate_wire::{FrameWriter, Hello, Packet, Peer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::Cluster;

/// How long the connection stays after the last message, so that the node takes all of them.
const LINGER: std::time::Duration = std::time::Duration::from_millis(500);

/// A field that holds a number of variable length.
pub(in super::super) fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

/// A field that holds a number of eight bytes.
pub(in super::super) fn fixed(field: u64, value: u64) -> Vec<u8> {
    [varint((field << 3) | 1), value.to_le_bytes().to_vec()].concat()
}

/// A field that holds a message of these fields.
pub(in super::super) fn nested(field: u64, fields: &[Vec<u8>]) -> Vec<u8> {
    let body = fields.concat();
    [varint((field << 3) | 2), varint(body.len() as u64), body].concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push((value as u8) | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

impl Cluster {
    /// Says these packets to a node, each given by its fields, in the name of another node.
    pub(in super::super) async fn say_as(
        &mut self,
        liar: usize,
        node: usize,
        packets: &[Vec<u8>],
    ) -> Result<(), Failure> {
        self.note(format!("say {} packets to {node} as {liar}", packets.len()));
        let hello = Hello {
            cluster: self.layout.cluster,
            peer: Peer::Node(NodeId(liar as u16)),
            site: self.layout.sites[liar].clone(),
            credential: None,
            event_loop: 0,
        };
        let mut frames = FrameWriter::new();
        frames.push(&Packet::Hello(hello)).map_err(Failure::failed)?;
        for fields in packets {
            let packet = quorate_wire::decode::<Packet>(fields).map_err(|error| {
                Failure::failed(format!("the packet {fields:02x?} cannot be said: {error}"))
            })?;
            frames.push(&packet).map_err(Failure::failed)?;
        }
        let talk = async {
            let mut stream = TcpStream::connect(&self.layout.nodes[node].1).await?;
            stream.write_all(&frames.take()).await?;
            // The answer of the node does not matter, but it must not be kept from answering. It may close the connection.
            let mut answer = [0; 4096];
            let listen = async { while matches!(stream.read(&mut answer).await, Ok(1..)) {} };
            let _ = tokio::time::timeout(LINGER, listen).await;
            Ok::<_, std::io::Error>(())
        };
        talk.await.map_err(|error| Failure::failed(format!("cannot talk to node {node}: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_those_of_protocol_buffers() {
        assert_eq!(number(1, 300), [0x08, 0xac, 0x02]);
        assert_eq!(nested(2, &[number(1, 1)]), [0x12, 2, 8, 1]);
        assert_eq!(fixed(1, 1), [9, 1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(varint(u64::MAX).len(), 10);
    }
}
