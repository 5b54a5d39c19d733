//! The client's side of HTTP/1.1, written for these tests alone.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// An answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The status, the end of the type and `committed` of a problem.
    pub(crate) fn problem(&self) -> (u16, String, String) {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let body = self.json();
        let member = |name: &str| body[name].as_str().unwrap_or_else(|| panic!("{name}: {body}")).to_owned();
        assert_eq!(body["status"], self.status);
        assert!(!member("title").is_empty() && !member("detail").is_empty());
        let kind = member("type").strip_prefix("urn:quorate:problem:").unwrap().to_owned();
        (self.status, kind, member("committed"))
    }
}

/// A client.
pub(crate) struct Client {
    pub(crate) stream: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream: BufReader::new(stream) }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    /// Sends a request and gives its answer.
    pub(crate) fn ask(
        &mut self,
        method: &str,
        address: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let mut bytes = format!("{method} {address} HTTP/1.1\r\nhost: localhost\r\n").into_bytes();
        for (name, value) in headers {
            bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        if !body.is_empty() {
            bytes.extend_from_slice(format!("content-length: {}\r\n", body.len()).as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(body);
        self.send(&bytes);
        self.receive(method == "HEAD").expect("there is an answer")
    }

    pub(crate) fn get(&mut self, address: &str) -> Answer {
        self.ask("GET", address, &[], b"")
    }

    /// Sends JSON.
    pub(crate) fn post(&mut self, address: &str, body: &Value) -> Answer {
        self.ask("POST", address, &[("content-type", "application/json")], body.to_string().as_bytes())
    }

    /// The next answer; none if the door has closed the connection.
    pub(crate) fn receive(&mut self, is_head_alone: bool) -> Option<Answer> {
        let mut line = || {
            let mut line = String::new();
            match self.stream.read_line(&mut line) {
                Ok(0) | Err(_) => None,
                Ok(_) => Some(line.trim_end().to_owned()),
            }
        };
        let status = line()?.split(' ').nth(1)?.parse().unwrap();
        let mut headers = Vec::new();
        loop {
            let line = line()?;
            let Some((name, value)) = line.split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let length = headers.iter().find(|(name, _)| name == "content-length");
        let length = length.map_or(0, |(_, length)| length.parse().unwrap());
        let mut body = vec![0; if is_head_alone { 0 } else { length }];
        self.stream.read_exact(&mut body).ok()?;
        Some(Answer { status, headers, body })
    }

    /// True once the door has closed the connection.
    pub(crate) fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Ok(_) => true,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}
