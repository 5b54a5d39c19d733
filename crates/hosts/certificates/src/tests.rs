//! Certificates that are made, judged, renewed and refused.

use std::path::{Path, PathBuf};

use quorate_core::NodeId;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::create::{Authority, Made, Validity};
use crate::{Certificate, Date, Files, Identity, Purpose, Refusal, Renewal, Side, Trust, TrustError};

const DAY: i64 = 86_400;

struct Folder {
    directory: tempfile::TempDir,
    authority: Authority,
}

impl Folder {
    fn new() -> Folder {
        let directory = tempfile::tempdir().unwrap();
        let (authority, made) = Authority::make("tests", days(-1, 10)).unwrap();
        made.write(directory.path(), "ca", false).unwrap();
        Folder { directory, authority }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn write(&self, stem: &str, made: &Made) {
        made.write(self.path(), stem, true).unwrap();
    }

    fn files(&self, stem: &str) -> Files {
        let file = |name: String| self.path().join(name);
        Files {
            ca: file("ca.crt".to_owned()),
            certificate: file(format!("{stem}.crt")),
            key: file(format!("{stem}.key")),
            revoked: None,
        }
    }

    /// A node that judges others.
    fn node(&self) -> Files {
        self.write("node-0", &self.authority.node("shop", NodeId(0), &[], days(-1, 5)).unwrap());
        let revoked = self.path().join("revoked.txt");
        if !revoked.exists() {
            std::fs::write(&revoked, "# nobody\n").unwrap();
        }
        Files { revoked: Some(revoked), ..self.files("node-0") }
    }

    fn load(&self) -> std::sync::Arc<Trust> {
        Trust::load(self.node(), node_of_shop()).unwrap()
    }
}

fn node_of_shop() -> Purpose {
    Purpose::Node { cluster: "shop".to_owned(), node: Some(NodeId(0)) }
}

/// From so many days from now to so many.
fn days(from: i64, to: i64) -> Validity {
    let now = Date::now().0;
    Validity::between(Date(now + from * DAY), Date(now + to * DAY)).unwrap()
}

fn shown(made: &Made) -> Vec<CertificateDer<'static>> {
    vec![CertificateDer::from_pem_slice(made.certificate.as_bytes()).unwrap()]
}

#[test]
fn a_certificate_states_the_identity_that_it_was_made_for() {
    let folder = Folder::new();
    let trust = folder.load();
    let node =
        folder.authority.node("shop", NodeId(3), &["db3.example.com".to_owned()], days(-1, 5)).unwrap();
    let certificate = Certificate::read(&shown(&node)[0]).unwrap();
    assert_eq!(certificate.identity, Some(Identity::node("shop", NodeId(3)).unwrap()));
    assert_eq!(certificate.hosts, ["localhost", "db3.example.com"]);
    assert_eq!((certificate.subject.as_str(), certificate.issuer.as_str()), ("node3", "tests"));
    assert!((certificate.not_after.0 - Date::now().0 - 5 * DAY).abs() < 60, "{}", certificate.not_after);
    for side in [Side::Accepts, Side::Connects] {
        let certified = trust.judge(Some(&shown(&node)), side).unwrap();
        assert_eq!(certified.identity, Identity::node("shop", NodeId(3)).unwrap());
        assert_eq!(
            (certified.serial, certified.not_after),
            (certificate.serial.clone(), certificate.not_after)
        );
    }
    let user = folder.authority.user("shop", "alice", days(-1, 5)).unwrap();
    let certified = trust.judge(Some(&shown(&user)), Side::Connects).unwrap();
    assert_eq!(certified.identity, Identity::user("shop", "alice").unwrap());
}

#[test]
fn certificates_that_are_not_good_are_refused_for_the_right_reason() {
    let folder = Folder::new();
    let trust = folder.load();
    let judge = |made: &Made, side| trust.judge(Some(&shown(made)), side).unwrap_err();
    let user = |validity| folder.authority.user("shop", "alice", validity).unwrap();
    assert_eq!(trust.judge(None, Side::Connects), Err(Refusal::Missing));
    assert_eq!(trust.judge(Some(&[]), Side::Connects), Err(Refusal::Missing));
    let garbage = [CertificateDer::from(vec![0x30, 3, 2, 1, 1])];
    assert_eq!(trust.judge(Some(&garbage), Side::Connects), Err(Refusal::Malformed));

    let expired = judge(&user(days(-3, -2)), Side::Connects);
    assert!(
        matches!(&expired, Refusal::Expired { since, .. } if (Date::now().0 - since.0 - 2 * DAY).abs() < 60),
        "{expired}"
    );
    assert!(expired.to_string().contains("user alice of cluster \"shop\""), "{expired}");
    let early = judge(&user(days(2, 3)), Side::Connects);
    assert!(matches!(early, Refusal::NotYetValid { .. }), "{early}");

    // An authority of the same name is another one.
    let (other, _) = Authority::make("tests", days(-1, 10)).unwrap();
    let foreign = judge(&other.user("shop", "alice", days(-1, 5)).unwrap(), Side::Connects);
    assert!(matches!(foreign, Refusal::Foreign { .. }), "{foreign}");
    let (stranger, _) = Authority::make("strangers", days(-1, 10)).unwrap();
    let foreign = judge(&stranger.user("shop", "alice", days(-1, 5)).unwrap(), Side::Connects).to_string();
    assert!(foreign.contains("\"strangers\"") && foreign.contains("believed: \"tests\""), "{foreign}");

    let elsewhere = judge(&folder.authority.user("bank", "alice", days(-1, 5)).unwrap(), Side::Connects);
    assert!(matches!(elsewhere, Refusal::OtherCluster { .. }), "{elsewhere}");
    let used = judge(&user(days(-1, 5)), Side::Accepts);
    assert!(matches!(used, Refusal::Use { .. }), "a user is no node: {used}");
}

#[test]
fn an_authority_is_no_peer() {
    let folder = Folder::new();
    let text = std::fs::read(folder.path().join("ca.crt")).unwrap();
    let shown = [CertificateDer::from_pem_slice(&text).unwrap()];
    let refused = folder.load().judge(Some(&shown), Side::Connects).unwrap_err();
    assert!(matches!(refused, Refusal::Invalid { .. }), "{refused}");
}

#[test]
fn what_is_revoked_is_refused_and_so_are_connections_that_it_has() {
    let folder = Folder::new();
    let trust = folder.load();
    let user = folder.authority.user("shop", "alice", days(-1, 5)).unwrap();
    let certified = trust.judge(Some(&shown(&user)), Side::Connects).unwrap();
    assert_eq!(trust.judge_again(&certified), Ok(()));
    // As other tools write it.
    let digits = certified.serial.to_ascii_uppercase();
    let pairs: Vec<String> = format!("{digits:0>40}")
        .as_bytes()
        .chunks(2)
        .map(|pair| String::from_utf8_lossy(pair).into_owned())
        .collect();
    std::fs::write(folder.path().join("revoked.txt"), format!("# lost\n{} # alice\n", pairs.join(":")))
        .unwrap();
    assert_eq!(trust.renew(), Renewal::Renewed);
    let refused = trust.judge(Some(&shown(&user)), Side::Connects).unwrap_err();
    assert!(matches!(refused, Refusal::Revoked { .. }), "{refused}");
    assert!(matches!(trust.judge_again(&certified), Err(Refusal::Revoked { .. })));
    let past = crate::Certified { not_after: Date(Date::now().0 - 1), serial: "0".to_owned(), ..certified };
    assert!(matches!(trust.judge_again(&past), Err(Refusal::Expired { .. })));
}

#[test]
fn files_that_cannot_be_used_are_named_with_the_reason() {
    let folder = Folder::new();
    let good = folder.node();
    folder.write("user", &folder.authority.user("shop", "alice", days(-1, 5)).unwrap());
    folder.write("old", &folder.authority.node("shop", NodeId(0), &[], days(-3, -2)).unwrap());
    folder.write("other", &folder.authority.node("shop", NodeId(4), &[], days(-1, 5)).unwrap());
    let (stranger, _) = Authority::make("strangers", days(-1, 10)).unwrap();
    folder.write("foreign", &stranger.node("shop", NodeId(0), &[], days(-1, 5)).unwrap());
    std::fs::write(folder.path().join("empty.crt"), "").unwrap();
    std::fs::write(
        folder.path().join("broken.crt"),
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    )
    .unwrap();
    std::fs::write(folder.path().join("bad.txt"), "12\nalice\n").unwrap();
    let file = |name: &str| folder.path().join(name);
    let table: [(Files, &str, &str); 11] = [
        (Files { certificate: file("absent.crt"), ..good.clone() }, "absent.crt", "cannot be read"),
        (Files { certificate: file("empty.crt"), ..good.clone() }, "empty.crt", "no certificate"),
        (
            Files { certificate: file("broken.crt"), ..good.clone() },
            "broken.crt",
            "no certificate that can be read",
        ),
        (Files { ca: file("node-0.key"), ..good.clone() }, "node-0.key", "no certificate"),
        (Files { key: file("node-0.crt"), ..good.clone() }, "node-0.crt", "no key"),
        (Files { key: file("user.key"), ..good.clone() }, "user.key", "does not match"),
        (folder.files("old"), "old.crt", "expired at"),
        (folder.files("foreign"), "foreign.crt", "another authority"),
        (folder.files("other"), "other.crt", "certificate of node4"),
        (folder.files("user"), "user.crt", "not made for a node"),
        (
            Files { revoked: Some(file("bad.txt")), ..good.clone() },
            "bad.txt, line 2",
            "\"alice\" is no serial number",
        ),
    ];
    for (files, named, reason) in table {
        let error = Trust::load(files, node_of_shop()).unwrap_err().to_string();
        assert!(error.contains(named) && error.contains(reason), "{named}: {error}");
    }
    let refused = Trust::load(good.clone(), Purpose::User).unwrap_err();
    assert!(matches!(refused, TrustError::OtherIdentity { .. }), "{refused}");
    let bank = Purpose::Node { cluster: "bank".to_owned(), node: None };
    assert!(Trust::load(good, bank).unwrap_err().to_string().contains("cluster \"bank\""));
}

#[test]
fn renewed_files_are_used_and_broken_ones_are_not() {
    let folder = Folder::new();
    let trust = folder.load();
    let serial = || trust.own().serial;
    let first = serial();
    assert_eq!(trust.renew(), Renewal::Unchanged);
    folder.node();
    assert_eq!(trust.renew(), Renewal::Renewed);
    let second = serial();
    assert_ne!(first, second);
    let (certificate, key): (PathBuf, PathBuf) =
        (folder.path().join("node-0.crt"), folder.path().join("node-0.key"));
    let good = (std::fs::read(&certificate).unwrap(), std::fs::read(&key).unwrap());
    for broken in [&b"half of a file"[..], b""] {
        std::fs::write(&certificate, broken).unwrap();
        let kept = trust.renew();
        assert!(matches!(&kept, Renewal::Kept(reason) if reason.contains("node-0.crt")), "{kept:?}");
        assert_eq!(trust.renew(), kept, "it is said as long as it is so");
        assert_eq!(serial(), second);
        assert!(trust.problem().is_some_and(|problem| problem.contains("node-0.crt")));
    }
    std::fs::remove_file(&key).unwrap();
    assert!(matches!(trust.renew(), Renewal::Kept(reason) if reason.contains("node-0.key")));
    std::fs::write(&certificate, &good.0).unwrap();
    std::fs::write(&key, &good.1).unwrap();
    assert_eq!(trust.renew(), Renewal::Renewed);
    assert_eq!((trust.problem(), serial()), (None, second));
}

#[test]
fn files_are_watched_as_long_as_they_are_in_use() {
    let folder = Folder::new();
    let trust = Trust::watched(folder.node(), node_of_shop()).unwrap();
    let first = trust.own().serial;
    folder.node();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while trust.own().serial == first {
        assert!(std::time::Instant::now() < deadline, "nobody looks");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[cfg(unix)]
#[test]
fn keys_are_for_their_owner_alone_and_nothing_is_replaced_unasked() {
    use std::os::unix::fs::PermissionsExt;

    let folder = Folder::new();
    let made = folder.authority.user("shop", "alice", days(-1, 5)).unwrap();
    let (certificate, key) = made.write(folder.path(), "user-alice", false).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&key), mode(&certificate)), (0o600, 0o644));
    let refused = made.write(folder.path(), "user-alice", false).unwrap_err().to_string();
    assert!(refused.contains("user-alice") && refused.contains("--force"), "{refused}");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    made.write(folder.path(), "user-alice", true).unwrap();
    assert_eq!(mode(&key), 0o600, "whatever it was before");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 4, "nothing is left beside");
}

#[test]
fn what_cannot_be_made_is_refused() {
    let folder = Folder::new();
    let authority = &folder.authority;
    for days in [0, 36_501] {
        assert!(Validity::days(days).is_err(), "{days}");
    }
    assert!(
        authority.user("shop", "a b", days(-1, 5)).unwrap_err().to_string().contains("no name of a user")
    );
    let host = |name: &str| authority.node("shop", NodeId(0), &[name.to_owned()], days(-1, 5)).map(|_| ());
    for name in ["", "a b", "-a", "a..b", "http://a"] {
        assert!(host(name).unwrap_err().to_string().contains("no name or address of a host"), "{name}");
    }
    for name in ["db-1.example.com", "*.example.com", "10.0.0.1", "fd00::1"] {
        host(name).unwrap();
    }
    // The key of one authority and the certificate of another.
    let (_, other) = Authority::make("others", days(-1, 10)).unwrap();
    other.write(folder.path(), "other", false).unwrap();
    let mixed = Authority::read(&folder.path().join("ca.crt"), &folder.path().join("other.key")).unwrap();
    let refused = mixed.user("shop", "alice", days(-1, 5)).unwrap_err().to_string();
    assert!(refused.contains("key is not that of the authority"), "{refused}");
    let read = Authority::read(&folder.path().join("ca.key"), &folder.path().join("ca.key")).unwrap_err();
    assert!(read.to_string().contains("ca.key"), "{read}");
    let again = Authority::read(&folder.path().join("ca.crt"), &folder.path().join("ca.key")).unwrap();
    let made = again.user("shop", "alice", days(-1, 5)).unwrap();
    assert!(folder.load().judge(Some(&shown(&made)), Side::Connects).is_ok());
}
