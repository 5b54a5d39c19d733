//! Asks the node of a configuration, which runs on this machine, whether it is ready, as health checks of containers and units do, or for another page.

use std::time::Duration;

use quorate_certificates::{Side, Trust, explain};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::Config;
use crate::config::is_loopback;
use crate::server::purpose;

/// How long the node may take to answer.
const TIMEOUT: Duration = Duration::from_secs(4);

/// The name that TLS wants of a peer: nodes are known by their certificates, and it is not sent.
const UNUSED_NAME: &str = "node.quorate.invalid";

/// Why a node is not ready, or does not say that it is.
#[derive(Debug, thiserror::Error)]
pub enum Unready {
    /// Its file says nowhere where it would say so.
    #[error("the configuration serves no pages: name an address with `http`")]
    NoPages,
    /// It does not answer.
    #[error("the node does not answer at {address}: {reason}")]
    Silent {
        /// The address that was asked.
        address: String,
        /// The reason.
        reason: String,
    },
    /// It says that it is not ready.
    #[error("the node is not ready: {0}")]
    Not(String),
}

/// Asks the node of this configuration for `/ready`, through TLS where it serves its pages so.
///
/// # Errors
/// It is not ready, and why; or it does not answer.
pub async fn probe(config: &Config) -> Result<(), Unready> {
    judge(&fetch(config, "/ready", TIMEOUT).await?)
}

/// Asks the node of this configuration for one of its pages, as that node itself, through TLS where it serves its pages so. Gives the whole answer: its head, an
/// empty line, and the page.
///
/// # Errors
/// It serves no pages, or does not answer in time.
pub async fn fetch(config: &Config, page: &str, timeout: Duration) -> Result<String, Unready> {
    let listen = config.http.as_deref().ok_or(Unready::NoPages)?;
    let address = reachable(listen);
    let silent = |reason: String| Unready::Silent { address: address.clone(), reason };
    let asked = async {
        let stream = TcpStream::connect(&address).await.map_err(|error| error.to_string())?;
        match config.tls.as_ref().filter(|_| !is_loopback(listen)) {
            None => get(stream, page).await.map_err(|error| error.to_string()),
            Some(tls) => {
                let node = config.join.is_empty().then_some(config.node);
                let trust =
                    Trust::load(tls.files(), purpose(config, node)).map_err(|error| error.to_string())?;
                let name = ServerName::try_from(UNUSED_NAME).map_err(|error| error.to_string())?;
                let connector = TlsConnector::from(trust.client_config());
                let stream = connector.connect(name, stream).await.map_err(|error| explain(&error))?;
                let shown = stream.get_ref().1.peer_certificates();
                trust.judge(shown, Side::Accepts).map_err(|refusal| refusal.to_string())?;
                get(stream, page).await.map_err(|error| error.to_string())
            }
        }
    };
    let answer = tokio::time::timeout(timeout, asked).await;
    answer.unwrap_or_else(|_| Err(format!("nothing within {timeout:?}"))).map_err(silent)
}

/// Where a listener of this machine is reached: those that listen on all addresses, at the loopback one.
fn reachable(listen: &str) -> String {
    match listen.rsplit_once(':') {
        Some(("0.0.0.0", port)) => format!("127.0.0.1:{port}"),
        Some(("[::]", port)) => format!("[::1]:{port}"),
        _ => listen.to_owned(),
    }
}

async fn get(mut stream: impl AsyncRead + AsyncWrite + Unpin, page: &str) -> std::io::Result<String> {
    let request = format!("GET {page} HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    stream.flush().await?;
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer).await {
        // A peer that ends without the last word of TLS has said everything.
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof && !answer.is_empty() => {}
        read => _ = read?,
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Reads the answer of a node.
fn judge(answer: &str) -> Result<(), Unready> {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
    let status = head.split_whitespace().nth(1).unwrap_or("no status");
    match status {
        "200" => Ok(()),
        _ => Err(Unready::Not(format!("{status}: {}", body.trim()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_ready_if_it_says_so() {
        assert!(judge("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok\n").is_ok());
        let refused = judge("HTTP/1.1 503 Service Unavailable\r\n\r\nthe node is starting\n").unwrap_err();
        assert_eq!(refused.to_string(), "the node is not ready: 503: the node is starting");
        assert!(judge("").is_err());
    }

    #[test]
    fn a_listener_on_all_addresses_is_asked_at_the_loopback_one() {
        assert_eq!(reachable("0.0.0.0:7500"), "127.0.0.1:7500");
        assert_eq!(reachable("[::]:7500"), "[::1]:7500");
        assert_eq!(reachable("10.0.0.1:7500"), "10.0.0.1:7500");
    }
}
