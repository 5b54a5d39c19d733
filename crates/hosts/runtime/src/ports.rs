//! Ports of this machine on which the nodes of a cluster can listen that is started for a while: in tests, benchmarks and demos.
//!
//! A node that restarts wants its port again. So nodes get none of those that systems give to connections: any connection could take the port of a node
//! that is down.

use std::collections::BTreeSet;
use std::io;
use std::net::TcpListener;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Where ports are looked for: below those that systems give to connections.
const PORTS: Range<u16> = 10_000..32_000;

/// The ports that this process has given away: a node that is down finds its own free when it comes back.
static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// Listeners on so many neighbouring ports of 127.0.0.1, none of which was given before. Once a listener is dropped, another process can take its port
/// if it asks for that very one.
///
/// # Errors
/// If there are not so many, or the system gives no random number to begin with.
pub fn free_listeners(count: u16) -> io::Result<Vec<TcpListener>> {
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    let start = PORTS.start + (getrandom::u64().map_err(io::Error::other)? % PORTS.len() as u64) as u16;
    let mut found: Vec<(u16, TcpListener)> = Vec::new();
    let wanted = usize::from(count);
    // Nothing is bound if there are surely too few.
    let ports = (start..PORTS.end).chain(PORTS.start..start).filter(|_| wanted <= PORTS.len());
    for port in ports {
        if wanted == found.len() {
            break;
        }
        if found.last().is_some_and(|(last, _)| last + 1 != port) {
            found.clear();
        }
        let bound = if given.contains(&port) { None } else { TcpListener::bind(("127.0.0.1", port)).ok() };
        match bound {
            Some(listener) => found.push((port, listener)),
            None => found.clear(),
        }
    }
    if found.len() < wanted {
        let reason = format!("there are no {count} free neighbouring ports on 127.0.0.1 among {PORTS:?}");
        return Err(io::Error::new(io::ErrorKind::AddrInUse, reason));
    }
    given.extend(found.iter().map(|(port, _)| port));
    Ok(found.into_iter().map(|(_, listener)| listener).collect())
}

/// The addresses of so many neighbouring ports, as [`free_listeners`] finds them.
///
/// # Errors
/// Those of [`free_listeners`].
pub fn free_addresses(count: u16) -> io::Result<Vec<String>> {
    free_listeners(count)?.iter().map(|listener| Ok(listener.local_addr()?.to_string())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_ports_are_neighbours_that_no_connection_is_given_and_none_twice() {
        let ports = || -> Vec<u16> {
            let listeners = free_listeners(7).unwrap();
            listeners.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
        };
        let (first, second) = (ports(), ports());
        for ports in [&first, &second] {
            assert!(ports.iter().all(|port| PORTS.contains(port)), "{ports:?}");
            assert!(ports.windows(2).all(|pair| pair[0] + 1 == pair[1]) && ports.len() == 7, "{ports:?}");
        }
        assert!(first.iter().all(|port| !second.contains(port)), "{first:?} {second:?}");
    }

    #[test]
    fn too_many_free_ports_are_an_error() {
        let error = free_listeners(u16::MAX).unwrap_err();
        assert!(error.to_string().contains("no 65535 free neighbouring ports"), "{error}");
    }
}
