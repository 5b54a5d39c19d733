//! Ports of this machine on which the nodes of a cluster can listen that is started for a while: in tests, benchmarks and demos.
//!
//! A node that restarts wants its port again. So nodes get none of those that this system gives to connections: any connection could take the port of a
//! node that is down. And a process that gives ports to nodes holds a claim to each for as long as it lives, so that another process gives away others.

use std::collections::BTreeMap;
use std::io;
use std::net::TcpListener;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use claim::Claim;

/// Where ports are looked for: below those that most systems give to connections.
const PORTS: Range<u16> = 10_000..32_000;

/// The ports that this process has given away: a node that is down finds its own free when it comes back.
static GIVEN: Mutex<BTreeMap<u16, Claim>> = Mutex::new(BTreeMap::new());

/// Listeners on so many neighbouring ports of 127.0.0.1, none of which was given before, by no process that still runs. Once a listener is dropped, its
/// port stays claimed by this process.
///
/// # Errors
/// If there are not so many, or the system gives no random number to begin with.
pub fn free_listeners(count: u16) -> io::Result<Vec<TcpListener>> {
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    let ports = apart_from(PORTS, connections());
    let (first, many) = (ports.start, ports.len());
    let start = first + (getrandom::u64().map_err(io::Error::other)? % many as u64) as u16;
    let mut found: Vec<(u16, Claim, TcpListener)> = Vec::new();
    let wanted = usize::from(count);
    // Nothing is bound if there are surely too few.
    for port in (start..ports.end).chain(first..start).filter(|_| wanted <= many) {
        if wanted == found.len() {
            break;
        }
        if found.last().is_some_and(|(last, _, _)| last + 1 != port) {
            found.clear();
        }
        let claim = if given.contains_key(&port) { None } else { Claim::of(port) };
        let bound = claim.and_then(|claim| Some((port, claim, TcpListener::bind(("127.0.0.1", port)).ok()?)));
        match bound {
            Some(bound) => found.push(bound),
            None => found.clear(),
        }
    }
    if found.len() < wanted {
        let reason = format!("there are no {count} free neighbouring ports on 127.0.0.1 among {ports:?}");
        return Err(io::Error::new(io::ErrorKind::AddrInUse, reason));
    }
    let mut listeners = Vec::new();
    for (port, claim, listener) in found {
        given.insert(port, claim);
        listeners.push(listener);
    }
    Ok(listeners)
}

/// The larger part of these ports that is not among `others`; all of them if nothing is.
fn apart_from(ports: Range<u16>, others: Option<Range<u16>>) -> Range<u16> {
    let Some(others) = others else { return ports };
    let below = ports.start..ports.end.min(others.start);
    let above = ports.start.max(others.end)..ports.end;
    let larger = if below.len() >= above.len() { below } else { above };
    if larger.is_empty() { ports } else { larger }
}

/// The ports that this system gives to connections, if it tells.
fn connections() -> Option<Range<u16>> {
    let told = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut words = told.split_whitespace().map(|word| word.parse().ok());
    let (first, last): (u16, u16) = (words.next()??, words.next()??);
    Some(first..last.saturating_add(1))
}

/// Claims that every process of this machine sees, and that end with the process.
#[cfg(target_os = "linux")]
mod claim {
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::{SocketAddr, UnixDatagram};

    /// A socket of a name that stands for the port. Such names live where the ports do: in a network namespace.
    pub(super) struct Claim {
        _held: UnixDatagram,
    }

    impl Claim {
        pub(super) fn of(port: u16) -> Option<Claim> {
            let name = SocketAddr::from_abstract_name(format!("quorate-port-{port}")).ok()?;
            Some(Claim { _held: UnixDatagram::bind_addr(&name).ok()? })
        }
    }
}

/// Without names for claims, other processes could be given the port of a node that is down; seldom, as they begin anywhere.
#[cfg(not(target_os = "linux"))]
mod claim {
    pub(super) struct Claim;

    impl Claim {
        pub(super) fn of(_port: u16) -> Option<Claim> {
            Some(Claim)
        }
    }
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
    fn the_port_of_a_node_that_is_down_stays_claimed() {
        let port = free_listeners(1).unwrap()[0].local_addr().unwrap().port();
        assert!(TcpListener::bind(("127.0.0.1", port)).is_ok(), "no listener is left");
        assert_eq!(Claim::of(port).is_none(), cfg!(target_os = "linux"), "another process is refused");
    }

    #[test]
    fn ports_of_connections_are_left_out_as_far_as_others_are_left() {
        assert_eq!(apart_from(100..200, None), 100..200);
        assert_eq!(apart_from(100..200, Some(300..400)), 100..200);
        assert_eq!(apart_from(100..200, Some(160..400)), 100..160);
        assert_eq!(apart_from(100..200, Some(0..150)), 150..200);
        assert_eq!(apart_from(100..200, Some(110..150)), 150..200);
        assert_eq!(apart_from(100..200, Some(0..400)), 100..200);
    }

    #[test]
    fn too_many_free_ports_are_an_error() {
        let error = free_listeners(u16::MAX).unwrap_err();
        assert!(error.to_string().contains("no 65535 free neighbouring ports"), "{error}");
    }
}
