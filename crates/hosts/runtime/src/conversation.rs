//! A few questions to one node, over a connection of their own: for programs that have no transport yet.

use std::collections::VecDeque;

use quorate_wire::{FrameReader, FrameWriter, Hello, Packet, Peer, Welcome};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::secure::{self, Secured, Tls, Wire};

/// How much is read at a time, in bytes.
const READ_BYTES: usize = 16 * 1024;

/// Why a node does not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// It could not be reached, or went away.
    #[error("{0}")]
    Unreachable(String),
    /// It answered in a way that will not change by asking again.
    #[error("{0}")]
    Refused(String),
}

/// A connection to a node.
#[derive(Debug)]
pub struct Conversation {
    socket: Wire,
    frames: FrameReader,
    heard: VecDeque<Packet>,
}

impl Conversation {
    /// Connects to a node, `host:port`, and waits until it has said who it is.
    ///
    /// # Errors
    /// It cannot be reached, or it is no server of this version, or does not want to speak with a peer of this hello; or its certificate is refused.
    pub async fn begin(address: &str, hello: Hello, tls: Option<&Tls>) -> Result<(Self, Welcome), Trouble> {
        let stream = TcpStream::connect(address).await.map_err(unreachable)?;
        let (socket, certified, refusal) = match secure::connect(tls, stream).await {
            Secured::Good(wire, certified) => (wire, certified, None),
            Secured::Refused(wire, reason) => (wire, None, Some(reason)),
            Secured::Failed(reason) => return Err(Trouble::Refused(reason)),
        };
        let mut conversation = Conversation { socket, frames: FrameReader::new(), heard: VecDeque::new() };
        if let Some(reason) = refusal {
            // The node hears why, if it still listens; either way this is the end.
            let _ = conversation.say(&Packet::Goodbye { reason: reason.clone() }).await;
            return Err(Trouble::Refused(reason));
        }
        conversation.say(&Packet::Hello(hello)).await?;
        match conversation.hear().await? {
            Packet::Welcome(welcome) => {
                match secure::contradiction(certified.as_ref(), Peer::Node(welcome.node)) {
                    None => Ok((conversation, welcome)),
                    Some(contradiction) => Err(Trouble::Refused(contradiction)),
                }
            }
            _ => Err(Trouble::Refused("it spoke before it said who it is".to_owned())),
        }
    }

    /// Says something to the node.
    ///
    /// # Errors
    /// The connection is broken.
    pub async fn say(&mut self, packet: &Packet) -> Result<(), Trouble> {
        let mut writer = FrameWriter::new();
        writer.push(packet).map_err(refused)?;
        self.socket.write_all(&writer.take()).await.map_err(unreachable)?;
        self.socket.flush().await.map_err(unreachable)
    }

    /// The next packet of the node.
    ///
    /// # Errors
    /// The connection is broken, or the node has said goodbye, or something that is no packet.
    pub async fn hear(&mut self) -> Result<Packet, Trouble> {
        loop {
            match self.heard.pop_front() {
                Some(Packet::Goodbye { reason }) => return Err(Trouble::Refused(reason)),
                Some(packet) => return Ok(packet),
                None => {}
            }
            if let Some(packets) = self.frames.next_frame().map_err(refused)? {
                for packet in packets {
                    self.heard.push_back(packet.map_err(refused)?);
                }
            } else if self.socket.read_buf(self.frames.space(READ_BYTES)).await.map_err(unreachable)? == 0 {
                return Err(Trouble::Unreachable("it closed the connection".to_owned()));
            }
        }
    }
}

fn unreachable(error: std::io::Error) -> Trouble {
    Trouble::Unreachable(error.to_string())
}

fn refused(error: impl std::fmt::Display) -> Trouble {
    Trouble::Refused(error.to_string())
}
