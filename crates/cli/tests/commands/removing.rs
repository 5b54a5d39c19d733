//! A site of a parallel-snapshot keyspace that is lost for good, by the commands of an operator.

use crate::Run;
use crate::servers::Servers;

fn says(run: &Run, code: i32, reason: &str) {
    assert!(run.code == code && run.err.contains(reason), "{}: {}{}", run.code, run.out, run.err);
}

#[test]
fn a_keyspace_goes_on_without_a_site_that_is_removed() {
    let directory = tempfile::tempdir().unwrap();
    let mut servers = Servers::start(directory.path(), &["a", "b", "c", "d", "e"]);
    let created =
        servers.shell("keyspace create posts --isolation parallel-snapshot --replicas 1 --sites a,b,e");
    assert_eq!(created.code, 0, "{}", created.err);
    let put = |servers: &Servers, value: &str| {
        let puts: Vec<String> = (0..12).map(|key| format!("put key{key} {value}")).collect();
        servers.shell(&format!("use posts; {}", puts.join("; ")))
    };
    let before = put(&servers, "1");
    assert_eq!(before.code, 0, "{}", before.err);
    let remove =
        |servers: &Servers, flags: &[&str]| servers.run(&[&["cluster", "remove-site", "e"], flags].concat());
    says(&remove(&servers, &[]), 2, "nothing was done");
    says(&remove(&servers, &["--abandon", "--confirm"]), 1, "replicas of it are up, on nodes 4");
    let unknown = servers.run(&["cluster", "remove-site", "mars", "--abandon"]);
    says(&unknown, 2, "mars");

    servers.kill(4);
    std::fs::remove_dir_all(directory.path().join("node-4")).unwrap();
    says(&remove(&servers, &["--abandon"]), 2, "repeat the command with --confirm");
    let removed = remove(&servers, &["--abandon", "--confirm", "--json"]);
    assert_eq!(removed.code, 0, "{}{}", removed.out, removed.err);
    let told = removed.json();
    assert!(told["ok"] == true && told["keyspaces"][0]["keyspace"] == "posts", "{told}");
    assert!(told["keyspaces"][0]["removed"][0]["kept"].is_u64(), "{told}");

    // Some of these keys prefer the site that is gone.
    let after = put(&servers, "2");
    assert_eq!(after.code, 0, "{}{}", after.out, after.err);
    // Another session may use the other site, where they come a moment later.
    let has = |servers: &Servers, value: &str| {
        let read = servers.shell("use posts; get key0; get key5; get key11");
        read.code == 0 && read.out.ends_with(&format!("{value}\n{value}\n{value}\n"))
    };
    servers.until("the writes are at both sites", |servers| has(servers, "2"));
    says(&remove(&servers, &["--abandon", "--confirm"]), 2, "there is nothing to remove");

    // It comes back with empty disks, and the keyspace is whole again.
    says(&servers.run(&["cluster", "add-site", "c"]), 2, "was removed from no parallel-snapshot keyspace");
    says(&servers.run(&["cluster", "add-site", "a", "--keyspace", "posts"]), 2, "in the site \"a\" already");
    servers.replace(4);
    let added = servers.run(&["cluster", "add-site", "e", "--json"]);
    assert_eq!(added.code, 0, "{}{}", added.out, added.err);
    let told = added.json();
    let joined = &told["keyspaces"][0]["joined"][0];
    assert!(told["ok"] == true && joined["ready"] == true && joined["replaces"].is_u64(), "{told}");
    let again = put(&servers, "3");
    assert_eq!(again.code, 0, "{}{}", again.out, again.err);
    servers.until("the writes are everywhere", |servers| has(servers, "3"));
}
