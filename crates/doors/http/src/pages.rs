//! The pages of a node for operators, which a development cluster has at the address of the door, too.

use std::net::SocketAddr;
use std::time::Duration;

use hyper::http::request::Parts;
use hyper::{Method, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::answer::Answer;
use crate::problem::{Kind, Problem};

const PAGES: [&str; 5] = ["/metrics", "/health", "/ready", "/live", "/status"];

/// The longest page, in bytes.
const PAGE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Where a node serves its pages, and the token by which the door has them.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) node: SocketAddr,
    pub(crate) token: Option<String>,
}

/// True if a request is for a page of the node.
pub(crate) fn is_one(head: &Parts) -> bool {
    matches!(head.method, Method::GET | Method::HEAD) && PAGES.contains(&head.uri.path())
}

/// True if a page says whether the node is well and nothing else: those that watch it need no user.
pub(crate) fn is_open(head: &Parts) -> bool {
    ["/health", "/ready", "/live"].contains(&head.uri.path())
}

/// Has the node answer.
pub(crate) async fn pass_on(
    Source { node, token }: &Source,
    head: &Parts,
    patience: Duration,
) -> Result<Answer, Problem> {
    let unavailable =
        |why: String| Problem::new(Kind::Unavailable, format!("the page of the node at {node}: {why}"));
    let asked = async {
        let mut stream = TcpStream::connect(node).await?;
        let path = head.uri.path();
        // The door has asked for the right of its client.
        let login =
            token.as_ref().map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
        let request = format!("GET {path} HTTP/1.0\r\nhost: {node}\r\n{login}connection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut page = Vec::new();
        stream.take(PAGE_BYTES_MAX).read_to_end(&mut page).await?;
        Ok::<_, std::io::Error>(page)
    };
    let page = timeout(patience, asked).await.map_err(|_| unavailable("it does not answer".to_owned()))?;
    let page = page.map_err(|error| unavailable(error.to_string()))?;
    parse(&page).ok_or_else(|| unavailable("its answer makes no sense".to_owned()))
}

/// The status, type and body of an answer to a request of HTTP/1.0.
fn parse(page: &[u8]) -> Option<Answer> {
    let end = page.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&page[..end]).ok()?;
    let mut lines = head.split("\r\n");
    let status: u16 = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let content_type = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-type").then(|| value.trim())
    });
    let body = page[end + 4..].to_vec().into();
    let answer = Answer::new(StatusCode::from_u16(status).ok()?, body);
    Some(match content_type {
        Some(content_type) => answer.header(hyper::header::CONTENT_TYPE, content_type),
        None => answer,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_nodes_are_read() {
        let page =
            b"HTTP/1.0 503 Service Unavailable\r\nContent-Type: text/plain\r\ncontent-length: 2\r\n\r\nno";
        let answer = parse(page).unwrap();
        assert_eq!((answer.status.as_u16(), answer.body.as_ref()), (503, &b"no"[..]));
        assert_eq!(answer.headers_of(hyper::header::CONTENT_TYPE), ["text/plain"]);
        assert_eq!(parse(b"HTTP/1.0 200 OK\r\n"), None);
        assert_eq!(parse(b"\r\n\r\n"), None);
    }
}
