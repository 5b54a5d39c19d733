//! Sessions that go on at another node, by the token that a client carries.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use quorate::wan::Matrix;
use quorate_gateway::{Gateway, Limits, Options};
use quorate_http::Http;
use serde_json::json;

use crate::support::Cluster;
use crate::wire::{Answer, Client};

/// Sites are 100 ms apart, there and back.
const MATRIX: &str = "uniform-100ms";

/// A door in a site of the cluster.
fn door_in(cluster: &Cluster, site: &str) -> (Gateway, SocketAddr) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let door = listener.local_addr().unwrap();
    let delays = Matrix::builtin(MATRIX);
    let client = quorate::Options { site: Some(site.to_owned()), delays, ..quorate::Options::default() };
    let limits = Limits { deadline: Duration::from_secs(60), ..Limits::default() };
    let options = Options { client, limits, ..Options::new(cluster.nodes.addresses()) };
    let http: Arc<dyn quorate_gateway::Door> = Arc::new(Http::new());
    (Gateway::start(options, vec![(listener, http)]).unwrap(), door)
}

fn in_session(client: &mut Client, method: &str, address: &str, seen: &str, body: &[u8]) -> Answer {
    client.ask(method, address, &[("quorate-session", seen)], body)
}

#[test]
fn a_client_reads_at_another_node_what_it_has_written_at_the_first() {
    let limits = Limits { deadline: Duration::from_secs(60), ..Limits::default() };
    let cluster = Cluster::start_in(limits, ["north", "east", "west"], Some(MATRIX));
    let (_west, west) = door_in(&cluster, "west");
    let (_east, east) = door_in(&cluster, "east");
    let (mut here, mut there) = (Client::connect(west), Client::connect(east));
    let json = [("content-type", "application/json")];
    for isolation in ["parallel-snapshot", "snapshot", "serializable", "strict"] {
        let body = json!({ "isolation": isolation }).to_string();
        let created = here.ask("PUT", &format!("/v1/keyspaces/{isolation}"), &json, body.as_bytes());
        assert_eq!(created.status, 201, "{created:?}");
        let key = format!("/v1/keyspaces/{isolation}/keys/%7Bbob%7Dnote");
        let mut seen = String::new();
        for number in 0..10 {
            let note = format!("note {number}");
            let written = in_session(&mut here, "PUT", &key, &seen, note.as_bytes());
            assert_eq!(written.status, 204, "{isolation}: {written:?}");
            seen = written.header("quorate-session").unwrap().to_owned();
            let read = in_session(&mut there, "GET", &key, &seen, b"");
            assert_eq!(String::from_utf8_lossy(&read.body), note, "{isolation}: {read:?}");
            seen = read.header("quorate-session").unwrap().to_owned();
        }
        let without = there.get(&key);
        assert!(without.header("quorate-session").is_none(), "nobody has asked for it");
        let foreign = "0~4000000000.1.1";
        let kept = in_session(&mut here, "GET", &key, foreign, b"");
        let told = kept.header("quorate-session").unwrap();
        assert!(told.contains("~4000000000.1.1"), "parts of others are handed back: {told}");
        let absent = in_session(&mut here, "GET", &format!("{key}%2Fnone"), "", b"");
        assert!(absent.status == 404 && absent.header("quorate-session").is_some(), "{absent:?}");
    }
    tokens_that_are_none_hold_up_nobody(&mut here, &mut there);
}

/// A token that lies far ahead of the clock is refused or waited for, by its own request alone.
fn tokens_that_are_none_hold_up_nobody(one: &mut Client, other: &mut Client) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let far = (now + Duration::from_secs(3_600)).as_micros().to_string();
    for isolation in ["snapshot", "serializable", "strict", "parallel-snapshot"] {
        let key = format!("/v1/keyspaces/{isolation}/keys/k");
        let refused = in_session(one, "PUT", &key, &far, b"v").problem();
        assert_eq!(refused, (503, "unavailable".to_owned(), "no".to_owned()), "{isolation}");
        for wrong in ["soon", "1~2", &"9".repeat(9_000)] {
            assert_eq!(in_session(one, "PUT", &key, wrong, b"v").problem().0, 400, "{wrong}");
        }
        let begin = Instant::now();
        for client in [&mut *one, &mut *other] {
            assert_eq!(client.ask("PUT", &key, &[], b"v").status, 204, "{isolation}");
        }
        assert!(begin.elapsed() < Duration::from_secs(30), "{isolation}: {:?}", begin.elapsed());
    }
    let never = in_session(one, "GET", "/v1/keyspaces/parallel-snapshot/keys/k", "0~1.99.7.7.7", b"");
    assert_eq!(never.problem().0, 422, "a part of another keyspace of this number");
}
