//! Opens the doors of a node: they are threads of its process, and clients of its cluster as any other.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use quorate::Certificates;
use quorate_certificates::{Purpose, Trust};
use quorate_gateway::{Audit, Door, Gateway, Limits, Options};
use quorate_http::Http;
use quorate_redis::Redis;
use quorate_server::{Config, Doors};

use crate::exit::Failure;

/// Where clients of Redis are served unless told otherwise.
pub(crate) const REDIS_ADDRESS: &str = "127.0.0.1:6379";

/// Opens the doors that are to be open, of a cluster whose nodes are found at these addresses; none if all are closed. `pages` is where the
/// node itself serves HTTP, if its pages are to be had at the door for HTTP, too, and `audit` the log of the node.
pub(crate) fn open(
    doors: &Doors,
    addresses: Vec<String>,
    client: quorate::Options,
    trust: Option<Arc<Trust>>,
    (pages, audit): (Option<SocketAddr>, Option<Arc<Audit>>),
) -> Result<Option<Gateway>, Failure> {
    let mut open = Vec::new();
    if let Some(redis) = &doors.redis {
        let databases =
            doors.redis_databases.iter().map(|name| Some(name.clone()).filter(|name| !name.is_empty()));
        let door = Redis::new(databases.collect());
        let door: Arc<dyn Door> = Arc::new(match doors.redis_scripts_at_shards {
            true => door,
            false => door.with_scripts_at_the_door(),
        });
        open.push((listen("Redis", redis, trust.is_some())?, door));
    }
    if let Some(http) = &doors.http {
        let token = match &client.credential {
            Some(quorate::Credential::Token { token }) => Some(String::from_utf8_lossy(token).into_owned()),
            Some(quorate::Credential::Password { .. }) | None => None,
        };
        let door = Http::new();
        let door: Arc<dyn Door> = Arc::new(match pages {
            Some(pages) => door.with_pages(pages, token),
            None => door,
        });
        open.push((listen("HTTP", http, trust.is_some())?, door));
    }
    if open.is_empty() {
        return Ok(None);
    }
    let limits = Limits {
        connections_max: doors.connections_max,
        connection_bytes_max: doors.connection_bytes_max,
        bytes_max: doors.bytes_max,
        deadline: doors.deadline,
        stall_timeout: doors.stall_timeout,
    };
    let layered = match doors.redis {
        Some(_) => doors.redis_databases.iter().filter(|name| !name.is_empty()).cloned().collect(),
        None => Arc::default(),
    };
    let options =
        Options { client, trust, threads: doors.threads, limits, layered, audit, ..Options::new(addresses) };
    Gateway::start(options, open).map(Some).map_err(Failure::failed)
}

/// The certificates of the doors of a node: those that they show to their clients, and those of the user as which they work with the cluster. None if the
/// node has none, or no door.
pub(crate) fn certificates(config: &Config) -> Result<(Option<Arc<Trust>>, Option<Certificates>), Failure> {
    let (Some(tls), Some(user)) = (&config.tls, &config.doors.user) else { return Ok((None, None)) };
    let files = config.doors.tls.as_ref().map_or_else(|| tls.files(), |pair| tls.files_of(pair));
    let trust = Trust::watched(files, Purpose::Door { cluster: config.cluster_name.clone() });
    let certificates = Certificates::from_files(tls.files_of(user)).map_err(Failure::usage)?;
    Ok((Some(trust.map_err(Failure::usage)?), Some(certificates)))
}

/// The listener of a door.
fn listen(language: &str, address: &str, is_secured: bool) -> Result<TcpListener, Failure> {
    let listener = TcpListener::bind(address).map_err(|error| {
        let advice = "choose another address, or stop what uses it";
        Failure::failed(format!("the door for {language} cannot listen on {address}: {error}; {advice}"))
    })?;
    let address = listener.local_addr().map_err(Failure::failed)?;
    if !address.ip().is_loopback() {
        let how = if is_secured {
            ""
        } else {
            ", and nothing is encrypted: passwords and data can be read on the way"
        };
        errln!(
            "warning: {address} is no address of this machine alone{how}. Until there is an administrator (`quorate user create NAME --administrator`), \
             any client that reaches it may read and write"
        );
    }
    Ok(listener)
}

/// The line to paste for clients of Redis.
pub(crate) fn redis_line(address: SocketAddr) -> String {
    let host = if address.ip().is_loopback() || address.ip().is_unspecified() {
        String::new()
    } else {
        format!(" -h {}", address.ip())
    };
    format!("redis-cli{host} -p {}", address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_to_paste_names_what_is_not_usual() {
        let line = |address: &str| redis_line(address.parse().unwrap());
        assert_eq!(line("127.0.0.1:6379"), "redis-cli -p 6379");
        assert_eq!(line("10.0.0.1:7000"), "redis-cli -h 10.0.0.1 -p 7000");
    }
}
