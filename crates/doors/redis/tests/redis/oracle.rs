//! A real Redis.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A Redis server of this test, killed when it is dropped.
pub(crate) struct Oracle {
    process: Child,
    pub(crate) address: SocketAddr,
    _directory: tempfile::TempDir,
}

impl Oracle {
    /// Starts it; none if there is no Redis on this machine, and none was named. Then nothing can be compared, of which `cargo xtask check` tells
    /// people beforehand.
    pub(crate) fn start() -> Option<Oracle> {
        let named = std::env::var("QUORATE_REDIS_SERVER").ok();
        let is_named = named.is_some();
        let binary = named.unwrap_or_else(|| "redis-server".to_owned());
        let directory = tempfile::tempdir().unwrap();
        // The port is free now, and nobody else is likely to take it in the next moment.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let started = Command::new(&binary)
            .args([
                "--port",
                &address.port().to_string(),
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--appendonly",
                "no",
            ])
            .args(["--proto-max-bulk-len", "4mb"])
            // `SORT` compares bytes as its locale says.
            .env("LC_ALL", "C")
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let process = match started {
            Ok(process) => process,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !is_named => {
                eprintln!("nothing is compared with Redis: {binary} is not installed");
                return None;
            }
            Err(error) => panic!("{binary:?} cannot be started: {error}"),
        };
        let oracle = Oracle { process, address, _directory: directory };
        let deadline = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(address).is_err() {
            assert!(Instant::now() < deadline, "redis-server does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(oracle)
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}
