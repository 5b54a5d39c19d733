//! The first question to a cluster: who are you all?

use std::time::Duration;

use quorate_core::ClientId;
use quorate_runtime::conversation::{Conversation, Trouble};
use quorate_runtime::secure::Tls;
use quorate_wire::{Credential, Directory, Hello, Packet, Peer};

use crate::error::Error;

/// The answer of a node about its cluster.
#[derive(Clone, Debug)]
pub(crate) struct Discovered {
    /// The cluster, which all nodes must belong to.
    pub(crate) cluster: u64,
    /// Sites, nodes and the catalogue.
    pub(crate) directory: Directory,
}

/// A client, the name of its site, and by what it says as which user it comes.
pub(crate) type Who<'a> = (ClientId, &'a str, Option<&'a Credential>);

/// Asks the addresses one after the other until one answers.
///
/// # Errors
/// [`Error::Handshake`] if one answers, but not as a server of this version; [`Error::Connect`] with what happened at
/// each address if none answers.
pub(crate) async fn discover(
    addresses: &[String],
    who: Who<'_>,
    timeout: Duration,
    tls: Option<&Tls>,
) -> Result<Discovered, Error> {
    let mut tried = Vec::with_capacity(addresses.len());
    for address in addresses {
        match tokio::time::timeout(timeout, ask(address, who, tls)).await {
            Ok(Ok(discovered)) => return Ok(discovered),
            Ok(Err(Trouble::Refused(reason))) => {
                return Err(Error::Handshake { address: address.clone(), reason });
            }
            Ok(Err(Trouble::Unreachable(reason))) => tried.push((address.clone(), reason)),
            Err(_) => tried.push((address.clone(), format!("no answer within {timeout:?}"))),
        }
    }
    Err(Error::Connect { tried })
}

async fn ask(
    address: &str,
    (client, site, credential): Who<'_>,
    tls: Option<&Tls>,
) -> Result<Discovered, Trouble> {
    let (site, credential) = (site.to_owned(), credential.cloned());
    let hello = Hello { cluster: 0, peer: Peer::Client(client), site, credential, event_loop: 0 };
    let (mut node, welcome) = Conversation::begin(address, hello, tls).await?;
    node.say(&Packet::DirectoryRequest).await?;
    loop {
        if let Packet::Directory(directory) = node.hear().await? {
            return Ok(Discovered { cluster: welcome.cluster, directory });
        }
    }
}

#[cfg(test)]
mod tests {
    use quorate_wire::FrameWriter;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    async fn answering(bytes: Vec<u8>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            let _ = socket.write_all(&bytes).await;
            let _ = socket.read_to_end(&mut Vec::new()).await;
        });
        address
    }

    async fn tried(addresses: &[String]) -> Error {
        discover(addresses, (ClientId(1), "", None), Duration::from_millis(500), None).await.unwrap_err()
    }

    #[tokio::test]
    async fn whoever_is_not_a_server_is_told_apart_from_nobody() {
        let http = answering(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()).await;
        assert!(matches!(tried(&[http]).await, Error::Handshake { .. }));
        let silent = answering(Vec::new()).await;
        let nobody = {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            listener.local_addr().unwrap().to_string()
        };
        let error = tried(&[silent.clone(), nobody.clone()]).await;
        let message = error.to_string();
        assert!(matches!(error, Error::Connect { .. }), "{message}");
        assert!(message.contains(&silent) && message.contains("no answer"), "{message}");
        assert!(message.contains(&nobody) && message.contains("refused"), "{message}");
    }

    #[tokio::test]
    async fn a_goodbye_is_told_as_the_reason() {
        let mut writer = FrameWriter::new();
        writer.push(&Packet::Goodbye { reason: "too many connections".to_owned() }).unwrap();
        let full = answering(writer.take().to_vec()).await;
        let error = tried(&[full]).await;
        assert!(error.to_string().contains("too many connections"), "{error}");
    }
}
