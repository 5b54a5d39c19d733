//! Users of a cluster over HTTP: basic authentication, bearer tokens, and what each may touch.

use std::time::{Duration, Instant};

use quorate::credentials::Password;
use quorate::rights::User;
use quorate::{Database, UserChange};
use quorate_gateway::Limits;
use serde_json::json;

use crate::support::Cluster;
use crate::wire::{Answer, Client};

const SECRET: &str = "correct horse";

/// A change of users is in force within a second; on a machine that is busy with other tests within this time.
const IN_FORCE: Duration = Duration::from_secs(10);

/// How often it is looked at: seldom enough that a login which is not known yet is not taken for a guess.
const POLL: Duration = Duration::from_millis(300);

struct World {
    runtime: tokio::runtime::Runtime,
    database: Database,
    cluster: Cluster,
}

impl World {
    fn start() -> World {
        let limits = Limits { deadline: Duration::from_secs(60), ..Limits::default() };
        let cluster = Cluster::start(limits);
        let keyspaces =
            [("shop", quorate::Isolation::Serializable, 2), ("other", quorate::Isolation::Strict, 1)];
        cluster.nodes.create(&keyspaces).unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (addresses, operator) = (cluster.nodes.addresses(), cluster.nodes.client().unwrap());
        let database = runtime.block_on(quorate::connect_with(addresses.as_slice(), operator)).unwrap();
        World { runtime, database, cluster }
    }

    fn create(&self, name: &str, grants: &[&str]) {
        let user = User {
            password: Some(Password::told(SECRET).hash().unwrap()),
            grants: grants.iter().map(|grant| grant.parse().unwrap()).collect(),
            ..User::new(name)
        };
        self.runtime.block_on(self.database.create_user(&user)).unwrap();
    }

    /// A token for a user.
    fn token(&self, user: &str, lifetime: Option<Duration>) -> (quorate::rights::TokenId, String) {
        let (id, secret) = self.runtime.block_on(self.database.create_token(user, lifetime, "")).unwrap();
        (id, format!("Bearer {}", secret.reveal()))
    }

    fn client(&self) -> Client {
        Client::connect(self.cluster.door)
    }
}

/// The header of basic authentication, with base64 that these tests make themselves.
fn basic(user: &str, password: &str) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let text = format!("{user}:{password}");
    let mut encoded = String::from("Basic ");
    for chunk in text.as_bytes().chunks(3) {
        let bits =
            chunk.iter().chain([0, 0].iter()).take(3).fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        for at in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * at) & 63) as usize] as char;
            encoded.push(if at <= chunk.len() { digit } else { '=' });
        }
    }
    encoded
}

fn ask(client: &mut Client, user: &str, method: &str, address: &str, body: &[u8]) -> Answer {
    let mut headers = vec![("authorization", user)];
    if body.first() == Some(&b'{') {
        headers.push(("content-type", "application/json"));
    }
    client.ask(method, address, &headers, body)
}

fn eventually(client: &mut Client, user: &str, address: &str, status: u16) {
    let until = Instant::now() + IN_FORCE;
    loop {
        let answer = ask(client, user, "GET", address, b"");
        if answer.status == status {
            return;
        }
        assert!(Instant::now() < until, "{answer:?}");
        std::thread::sleep(POLL);
    }
}

#[test]
fn users_of_the_cluster_are_users_of_the_door() {
    let world = World::start();
    strangers_are_told_how_to_log_in(&world);
    rights_are_those_of_keyspaces(&world);
    prefixes_limit_keys_pages_and_batches(&world);
    tokens_are_good_until_they_end(&world);
    a_right_is_gone_within_a_second(&world);
    answers_are_repeated_to_their_user_alone(&world);
    forged_credentials_are_refused(&world);
}

fn strangers_are_told_how_to_log_in(world: &World) {
    let mut client = world.client();
    assert_eq!(client.get("/v1/keyspaces").status, 200, "there is no user yet");
    world.create("root", &["administer:*"]);
    let until = Instant::now() + IN_FORCE;
    while client.get("/v1/keyspaces").status != 401 {
        assert!(Instant::now() < until, "it is not in force");
        std::thread::sleep(POLL);
    }
    let root = basic("root", SECRET);
    eventually(&mut client, &root, "/v1/keyspaces", 200);
    let answer = client.get("/v1/keyspaces/shop/keys/a");
    assert_eq!(answer.problem(), (401, "not-logged-in".to_owned(), "no".to_owned()));
    let challenge = answer.header("www-authenticate").unwrap();
    assert!(challenge.contains("Basic") && challenge.contains("Bearer"), "{challenge}");
    for address in ["/v1/keyspaces", "/", "/console/main.js", "/v1/events", "/v1/outcomes/x"] {
        let status = client.get(address).status;
        assert!(status == 401 || status == 404, "{address}: {status}");
    }
    assert_eq!(client.get("/v1/openapi.json").status, 200, "the description is no secret");
    assert_eq!(ask(&mut client, &basic("root", "wrong horse"), "GET", "/v1/keyspaces", b"").status, 401);
    assert_eq!(ask(&mut client, &root, "GET", "/", b"").status, 200, "the console is for administrators");
}

fn rights_are_those_of_keyspaces(world: &World) {
    world.create("ada", &["write:shop"]);
    world.create("eve", &["read:shop"]);
    let mut client = world.client();
    let (ada, eve, root) = (basic("ada", SECRET), basic("eve", SECRET), basic("root", SECRET));
    eventually(&mut client, &eve, "/v1/keyspaces/shop", 200);
    let key = "/v1/keyspaces/shop/keys/a";
    assert_eq!(ask(&mut client, &ada, "PUT", key, b"1").status, 204);
    assert_eq!(ask(&mut client, &eve, "GET", key, b"").status, 200);
    let refused = ask(&mut client, &eve, "PUT", key, b"2");
    assert_eq!(refused.problem(), (403, "denied".to_owned(), "no".to_owned()));
    assert_eq!(ask(&mut client, &eve, "DELETE", key, b"").status, 403);
    assert_eq!(ask(&mut client, &ada, "GET", "/v1/keyspaces/other/keys/a", b"").status, 403);
    assert_eq!(ask(&mut client, &ada, "GET", "/v1/keyspaces/_system/keys/user%2Froot", b"").status, 403);
    assert_eq!(ask(&mut client, &ada, "DELETE", "/v1/keyspaces/shop", b"").status, 403);
    assert_eq!(ask(&mut client, &ada, "PUT", "/v1/keyspaces/new", br#"{"isolation": "strict"}"#).status, 403);
    assert_eq!(ask(&mut client, &ada, "GET", "/", b"").status, 403);
    assert_eq!(ask(&mut client, &root, "GET", key, b"").status, 403, "no right is implied");
    let module = [("authorization", ada.as_str()), ("content-type", "application/wasm")];
    assert_eq!(client.ask("PUT", "/v1/keyspaces/shop/procedures/p", &module, b"\0asm").status, 403);
    let listed = ask(&mut client, &ada, "GET", "/v1/keyspaces", b"").json();
    assert_eq!(listed["keyspaces"].as_array().unwrap().len(), 1, "others are not told of: {listed}");
    let batch =
        json!({ "steps": [{ "read": { "key": "a" } }, { "put": { "key": "a", "value": "9" } }] }).to_string();
    assert_eq!(ask(&mut client, &eve, "POST", "/v1/keyspaces/shop/batch", batch.as_bytes()).status, 403);
    assert_eq!(ask(&mut client, &ada, "POST", "/v1/keyspaces/shop/batch", batch.as_bytes()).status, 200);
}

fn prefixes_limit_keys_pages_and_batches(world: &World) {
    world.create("app", &["write:shop:app/", "read:shop:shared/"]);
    let mut client = world.client();
    let app = basic("app", SECRET);
    eventually(&mut client, &app, "/v1/keyspaces/shop", 200);
    let mut status = |method: &str, address: &str, body: &str| {
        ask(&mut client, &app, method, &format!("/v1/keyspaces/shop/{address}"), body.as_bytes()).status
    };
    assert_eq!(status("PUT", "keys/app%2F1", "x"), 204);
    assert_eq!((status("PUT", "keys/shared%2F1", "x"), status("GET", "keys/shared%2F1", "")), (403, 404));
    assert_eq!((status("GET", "keys/a", ""), status("GET", "keys/ap", "")), (403, 403));
    assert_eq!(
        (status("GET", "keys?from=app/&to=app0", ""), status("GET", "keys?from=app/3&to=app/4", "")),
        (200, 200)
    );
    for range in
        ["keys", "keys?from=app/", "keys?from=app&to=app0", "keys?from=app/&to=app1", "keys?prefix=a"]
    {
        assert_eq!(status("GET", range, ""), 403, "{range}");
    }
    assert_eq!(status("GET", "keys?prefix=app/", ""), 200);
    for (steps, expected) in [
        (json!([{ "read": { "key": "app/1" } }, { "scan": { "prefix": "app/", "limit": 3 } }]), 200),
        (json!([{ "read": { "key": "app/1" } }, { "read": { "key": "a" } }]), 403),
        (json!([{ "put": { "key": "shared/1", "value": "" } }]), 403),
        (json!([{ "scan": { "prefix": "", "limit": 3 } }]), 403),
        (json!([{ "scan": { "from": "app/", "to": "", "limit": 3 } }]), 403),
        (json!([{ "increment": { "key": "a", "by": 1 } }]), 403),
        (json!([{ "append": { "key": "a", "value": "" } }]), 403),
        (json!([{ "delete": { "key": "a" } }]), 403),
    ] {
        let body = json!({ "steps": steps }).to_string();
        assert_eq!(status("POST", "batch", &body), expected, "{body}");
    }
    let conditions = json!({ "conditions": [{ "expect": { "key": "a", "value": "1" } }], "steps": [{ "read": { "key": "app/1" } }] });
    assert_eq!(status("POST", "batch", &conditions.to_string()), 403, "a condition tells what is there");
    assert_eq!(
        status("POST", "procedures/p/call", r#"{"keys": ["app/1"]}"#),
        403,
        "a procedure touches what it likes"
    );
}

fn tokens_are_good_until_they_end(world: &World) {
    let mut client = world.client();
    let (id, token) = world.token("ada", None);
    let (_, brief) = world.token("ada", Some(Duration::from_millis(2_500)));
    let key = "/v1/keyspaces/shop/keys/a";
    eventually(&mut client, &token, key, 200);
    eventually(&mut client, &brief, key, 200);
    std::thread::sleep(Duration::from_millis(2_500));
    assert_eq!(ask(&mut client, &brief, "GET", key, b"").status, 401, "it has expired");
    world.runtime.block_on(world.database.revoke_token(id)).unwrap();
    eventually(&mut client, &token, key, 401);
}

fn a_right_is_gone_within_a_second(world: &World) {
    let mut client = world.client();
    let ada = basic("ada", SECRET);
    let key = "/v1/keyspaces/shop/keys/a";
    assert_eq!(ask(&mut client, &ada, "GET", key, b"").status, 200);
    let change =
        |change: UserChange| world.runtime.block_on(world.database.change_user("ada", &[change])).unwrap();
    change(UserChange::Revoke("write:shop".parse().unwrap()));
    eventually(&mut client, &ada, key, 403);
    change(UserChange::Grant("write:shop".parse().unwrap()));
    eventually(&mut client, &ada, key, 200);
}

fn answers_are_repeated_to_their_user_alone(world: &World) {
    let mut client = world.client();
    let mut read = |user: &str| {
        let body = json!({ "steps": [{ "read": { "key": "a" } }] }).to_string();
        let headers =
            [("authorization", user), ("content-type", "application/json"), ("idempotency-key", "same")];
        client.ask("POST", "/v1/keyspaces/shop/batch", &headers, body.as_bytes())
    };
    let (ada, app) = (basic("ada", SECRET), basic("app", SECRET));
    assert_eq!(read(&ada).status, 200);
    assert_eq!(read(&ada).header("quorate-repeated"), Some("true"));
    assert_eq!(read(&app).status, 403, "the answer of one user is none for another");
}

fn forged_credentials_are_refused(world: &World) {
    let (_, token) = world.token("ada", None);
    let key = "/v1/keyspaces/shop/keys/a";
    eventually(&mut world.client(), &token, key, 200);
    let mut digits = token.clone().into_bytes();
    let last = digits.len() - 1;
    digits[last] = if digits[last] == b'0' { b'1' } else { b'0' };
    let forged = String::from_utf8(digits).unwrap();
    let long = format!("Bearer {}", "x".repeat(8_000));
    let forgeries: [&str; 8] = [
        &forged,
        &token[..token.len() - 1],
        "Bearer",
        "Bearer ",
        "Basic !!!!",
        "Basic YWRh",
        "Digest x",
        &long,
    ];
    for forgery in forgeries {
        let status = ask(&mut world.client(), forgery, "GET", key, b"").status;
        // A client that guesses too often is slowed.
        assert!(status == 401 || status == 429, "{forgery}: {status}");
    }
}
