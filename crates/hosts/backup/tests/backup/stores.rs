//! Archives in a real object store: gofakes3, a server that speaks like S3.
//!
//! `.ci/run` installs it into `target/clients/bin`. Without it nothing is tried, which is said; where `QUORATE_CLIENTS` names the folder it has to be there.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use quorate_backup::Result;
use quorate_backup::archive::{Archive, Bucket};
use quorate_runtime::ports::free_listeners;

/// A store in a process of its own, with a bucket in the memory of it.
struct Store {
    process: Child,
    endpoint: String,
}

impl Store {
    /// Starts a store; none if it is not installed.
    fn start() -> Option<Store> {
        let named = std::env::var_os("QUORATE_CLIENTS").map(PathBuf::from);
        let usual = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/clients");
        let program = named.clone().unwrap_or_else(usual).join("bin/gofakes3");
        assert!(named.is_none() || program.exists(), "there is no {}", program.display());
        if !program.exists() {
            eprintln!("object stores are not tried: there is no {}", program.display());
            return None;
        }
        let listener = free_listeners(1).unwrap().remove(0);
        let address = listener.local_addr().unwrap().to_string();
        drop(listener);
        let process = Command::new(program)
            .args(["-backend", "memory", "-initialbucket", "bucket", "-quiet", "-host", &address])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let store = Store { process, endpoint: format!("http://{address}") };
        let deadline = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(&address).is_err() {
            assert!(Instant::now() < deadline, "the store does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(store)
    }

    fn archive(&self, path: &str, patience: Duration) -> Bucket {
        let variables = [
            ("AWS_ENDPOINT_URL", self.endpoint.as_str()),
            ("AWS_ACCESS_KEY_ID", "somebody"),
            ("AWS_SECRET_ACCESS_KEY", "a secret"),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Bucket::open_with("s3", path, patience, &variables).unwrap()
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // It is gone already if the test has killed it.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

async fn write(archive: &Bucket, name: &str, parts: &[Bytes]) -> Result<u64> {
    let mut writing = archive.write(name).await?;
    for part in parts {
        writing.write(part.clone()).await?;
    }
    writing.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_small_and_in_parts_are_written_listed_read_and_deleted() {
    let Some(mut store) = Store::start() else { return };
    let archive = store.archive("bucket/some/prefix", Duration::from_secs(60));
    let part =
        |number: u8| Bytes::from((0..1024 * 1024_u32).map(|at| at as u8 ^ number).collect::<Vec<u8>>());
    let parts: Vec<Bytes> = (0..17).map(part).collect();
    assert_eq!(write(&archive, "a/large", &parts).await.unwrap(), 17 * 1024 * 1024);
    assert_eq!(write(&archive, "a/small", &[Bytes::from_static(b"0123456789")]).await.unwrap(), 10);
    assert_eq!(write(&archive, "b/one", &[Bytes::from_static(b"x")]).await.unwrap(), 1);
    archive.write("b/never").await.unwrap().abandon().await.unwrap();
    let mut begun = archive.write("b/never").await.unwrap();
    for part in &parts[..8] {
        begun.write(part.clone()).await.unwrap();
    }
    begun.abandon().await.unwrap();

    assert_eq!(archive.folders().await.unwrap(), ["a", "b"]);
    let listed = archive.list("a").await.unwrap();
    let listed: Vec<_> = listed.iter().map(|object| (object.name.as_str(), object.bytes)).collect();
    assert_eq!(listed, [("large", 17 * 1024 * 1024), ("small", 10)]);
    let listed = archive.list("b").await.unwrap();
    assert!(listed.len() == 1 && listed[0].age < Duration::from_secs(3_600), "{listed:?}");
    assert_eq!(archive.list("nowhere").await.unwrap(), []);
    let whole = archive.read("a/large", 0, u64::MAX / 2).await.unwrap().unwrap();
    assert!(whole == parts.concat(), "{} bytes", whole.len());
    let middle = archive.read("a/large", 5_000_000, 3_000_000).await.unwrap().unwrap();
    assert!(middle == whole[5_000_000..8_000_000]);
    assert_eq!(archive.read("a/small", 8, 100).await.unwrap().unwrap(), &b"89"[..]);
    assert_eq!(archive.read("a/none", 0, 100).await.unwrap(), None);
    for name in ["a/large", "a/small", "a/small"] {
        archive.delete(name).await.unwrap();
    }
    assert_eq!(archive.folders().await.unwrap(), ["b"]);

    let nowhere = store.archive("no-such-bucket/x", Duration::ZERO);
    let error = write(&nowhere, "a/b", &[Bytes::from_static(b"x")]).await.unwrap_err().to_string();
    assert!(error.contains("there is no such bucket"), "{error}");
    store.process.kill().unwrap();
    store.process.wait().unwrap();
    let gone = store.archive("bucket/some/prefix", Duration::from_millis(500));
    let error = gone.folders().await.unwrap_err().to_string();
    assert!(error.contains("cannot be reached"), "{error}");
}
