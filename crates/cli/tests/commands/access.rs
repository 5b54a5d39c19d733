//! Users, roles and tokens by command, on server processes.

use serde_json::json;

use crate::servers::Servers;
use crate::{run, run_with_input};

#[test]
fn what_makes_no_sense_is_refused_before_anybody_is_asked() {
    for (arguments, what) in [
        (&["user", "create", "ada", "--grant", "reed:a", "--no-password"][..], "\"reed\" is no right"),
        (&["user", "create", "ada", "--grant", "read", "--no-password"], "names no keyspace"),
        (&["user", "create", "-x", "--no-password"], "unexpected argument"),
        (&["user", "create", "a/b", "--no-password"], "cannot be the name"),
        (&["user", "create", "ada", "--password", "secret"], "unexpected argument"),
        (&["user", "create", "ada", "--new-password-file", "/nowhere"], "cannot read the password"),
        (&["user", "grant", "ada"], "required"),
        (&["token", "revoke", "x"], "16 hexadecimal digits"),
        (&["role", "create", "readers"], "required"),
    ] {
        let run = run(arguments);
        assert!(run.code == 2 && run.err.contains(what), "{arguments:?}: {} {}", run.code, run.err);
    }
    let short = run_with_input(&["user", "create", "ada", "--new-password-file", "-"], "short\n");
    assert!(short.code == 2 && short.err.contains("at least 8 bytes"), "{}", short.err);
    assert!(!short.err.contains("short\""), "a password is not told again");
}

#[test]
fn users_come_and_go_and_an_administrator_stays() {
    let directory = tempfile::tempdir().unwrap();
    let servers = Servers::start(directory.path(), &["a", "b", "c"]);
    let file = directory.path().join("password");
    std::fs::write(&file, "correct horse\n").unwrap();
    let file = file.to_str().unwrap();
    // Once there is a user the token of a node lets its operator in; before, nobody is asked for one.
    let token = directory.path().join("node-0/token");
    let token = token.to_str().unwrap();
    let run = |arguments: &[&str]| servers.run(&[arguments, &["--token-file", token]].concat());
    let good = |arguments: &[&str]| {
        let run = run(arguments);
        assert_eq!(run.code, 0, "{arguments:?}: {}", run.err);
        run
    };
    let refused = |arguments: &[&str], what: &str| {
        let run = run(arguments);
        assert!(run.code != 0 && run.err.contains(what), "{arguments:?}: {} {}", run.code, run.err);
    };
    // Nodes have registered once it serves.
    good(&["keyspace", "create", "accounts", "--isolation", "strict"]);
    assert!(good(&["user", "list"]).out.contains("not in force"));
    assert_eq!(good(&["cluster", "status", "--json"]).json()["access_control"], false);
    refused(&["user", "create", "ada", "--no-password"], "the first user is an administrator");
    refused(
        &["user", "create", "root", "--administrator", "--no-password"],
        "with a password or a certificate",
    );
    good(&["user", "create", "root", "--administrator", "--new-password-file", file]);
    assert_eq!(good(&["cluster", "status", "--json"]).json()["access_control"], true);
    // Nodes are told within a second.
    servers.until("nobody comes in without a user", |servers| {
        let nobody = servers.run(&["user", "list"]);
        nobody.code == 1 && nobody.err.contains("needs a user to be logged in")
    });
    refused(&["user", "create", "root", "--no-password"], "there is a user \"root\" already");
    for arguments in [
        &["user", "drop", "root"][..],
        &["user", "disable", "root"],
        &["user", "password", "root", "--none"],
        &["user", "revoke", "root", "administer:*"],
    ] {
        refused(arguments, "no administrator would be left");
    }
    refused(&["user", "create", "ada", "--no-password", "--role", "readers"], "there is no role \"readers\"");
    good(&["role", "create", "readers", "read:accounts", "read:prices:eu/"]);
    good(&["user", "create", "ada", "--no-password", "--role", "readers", "--grant", "write:accounts:ada/"]);
    good(&["user", "limit", "ada", "--requests-per-second", "5"]);
    let listed = good(&["user", "list", "ada", "--json"]).json();
    assert_eq!(
        listed["users"][0],
        json!({
            "name": "ada", "is_disabled": false, "is_administrator": false, "credentials": [], "certificates": [], "roles": ["readers"],
            "grants": ["write:accounts:ada/"], "all_grants": ["write:accounts:ada/", "read:accounts", "read:prices:eu/"],
            "limits": { "requests_per_second": 5, "bytes_per_second": null, "open_transactions": null, "connections": null },
        })
    );
    let token = good(&["token", "create", "ada", "--days", "1", "--note", "tests", "--json"]).json();
    let secret = token["token"].as_str().unwrap();
    assert!(secret.starts_with("quorate_") && secret.len() == 72);
    let tokens = good(&["token", "list", "--json"]);
    assert!(!tokens.out.contains(secret) && tokens.out.contains("tests"));
    let id = token["id"].as_str().unwrap();
    good(&["token", "revoke", id]);
    refused(&["token", "revoke", id], "there is no token");
    good(&["user", "create", "second", "--administrator", "--certificate-name", "second.example"]);
    good(&["user", "drop", "root"]);
    refused(&["user", "drop", "second"], "no administrator would be left");
    good(&["user", "drop", "ada"]);
    good(&["role", "drop", "readers"]);
    assert_eq!(good(&["user", "list", "--json"]).json()["users"].as_array().unwrap().len(), 1);
}
