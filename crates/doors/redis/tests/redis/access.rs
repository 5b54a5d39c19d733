//! Users of a cluster at the door: who logs in, what each may touch, and what happens to open connections when that changes.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use quorate::credentials::Password;
use quorate::rights::{Role, User, UserLimits};
use quorate::{Database, Isolation, UserChange};
use quorate_cluster::ThreeNodes;
use quorate_gateway::{Audit, Gateway, Options};
use quorate_redis::Redis;

use crate::wire::{Client, Value};

const NOAUTH: &str = "NOAUTH Authentication required.";
const WRONGPASS: &str = "WRONGPASS invalid username-password pair or user is disabled.";
const NO_KEY: &str = "NOPERM this user has no permissions to access one of the keys used as arguments";
const NO_CHANNEL: &str =
    "NOPERM this user has no permissions to access one of the channels used as arguments";
const SECRET: &str = "correct horse";

/// A change of users is in force within this time.
const IN_FORCE: Duration = Duration::from_secs(1);

/// It is waited for longer, on a machine that is busy with other tests,
const PATIENCE: Duration = Duration::from_secs(10);

/// and looked at so often: seldom enough that a login which is not known yet is not taken for a guess.
const POLL: Duration = Duration::from_millis(300);

fn no_command(name: &str) -> Value {
    Value::Error(format!("NOPERM this user has no permissions to run the '{name}' command"))
}

fn error(text: &str) -> Value {
    Value::Error(text.to_owned())
}

fn ok() -> Value {
    Value::Simple("OK".to_owned())
}

fn bulk(text: &str) -> Value {
    Value::Bulk(text.as_bytes().to_vec())
}

/// A cluster with a door and an administration of its users.
struct World {
    // Before the nodes: it is a client of them.
    _gateway: Gateway,
    runtime: tokio::runtime::Runtime,
    database: Database,
    _nodes: ThreeNodes,
    door: SocketAddr,
    audit: std::path::PathBuf,
    _directory: tempfile::TempDir,
}

impl World {
    fn start() -> World {
        let nodes = ThreeNodes::start().unwrap();
        nodes.create(&[("redis", Isolation::Serializable, 2), ("strict", Isolation::Strict, 1)]).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let audit = directory.path().join("audit.jsonl");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let door = listener.local_addr().unwrap();
        let databases = ["redis", "strict"].map(|name| Some(name.to_owned())).to_vec();
        let redis: std::sync::Arc<dyn quorate_gateway::Door> = std::sync::Arc::new(Redis::new(databases));
        let options = Options {
            threads: 2,
            audit: Some(std::sync::Arc::new(Audit::open(&audit).unwrap())),
            client: nodes.client().unwrap(),
            ..Options::new(nodes.addresses())
        };
        let gateway = Gateway::start(options, vec![(listener, redis)]).unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let operator = nodes.client().unwrap();
        let database =
            runtime.block_on(quorate::connect_with(nodes.addresses().as_slice(), operator)).unwrap();
        World { _gateway: gateway, runtime, database, _nodes: nodes, door, audit, _directory: directory }
    }

    fn create(&self, name: &str, grants: &[&str]) {
        let user = User {
            password: Some(Password::told(SECRET).hash().unwrap()),
            grants: grants.iter().map(|grant| grant.parse().unwrap()).collect(),
            ..User::new(name)
        };
        self.runtime.block_on(self.database.create_user(&user)).unwrap();
    }

    fn change(&self, name: &str, changes: &[UserChange]) {
        self.runtime.block_on(self.database.change_user(name, changes)).unwrap();
    }

    fn client(&self) -> Client {
        Client::connect(self.door)
    }

    /// A client that has logged in.
    fn client_of(&self, name: &str) -> Client {
        let mut client = self.client();
        let words: Vec<Vec<u8>> = ["auth", name, SECRET].map(|word| word.as_bytes().to_vec()).to_vec();
        let until = Instant::now() + PATIENCE;
        loop {
            match client.pipeline(std::slice::from_ref(&words)).remove(0) {
                reply if reply == ok() => return client,
                reply => assert!(Instant::now() < until, "{name} logs in: {reply}"),
            }
            std::thread::sleep(POLL);
        }
    }
}

/// Asks until this is the reply, as long as a change may take to be in force.
fn eventually(client: &mut Client, line: &str, expected: &Value) {
    let until = Instant::now() + PATIENCE;
    loop {
        let reply = client.ask(line);
        if reply == *expected {
            return;
        }
        assert!(Instant::now() < until, "{line}: {reply}");
        std::thread::sleep(POLL);
    }
}

#[test]
fn users_of_the_cluster_are_users_of_the_door() {
    let world = World::start();
    everything_is_open_until_there_is_a_user(&world);
    strangers_may_do_nothing(&world);
    users_log_in_as_those_of_redis_do(&world);
    rights_are_those_of_keyspaces(&world);
    prefixes_limit_every_key(&world);
    scripts_touch_what_their_client_may(&world);
    channels_are_granted_by_name(&world);
    clients_do_nothing_to_each_other_without_the_right(&world);
    a_right_that_is_taken_away_ends_what_is_open(&world);
    a_login_ends_with_its_credential(&world);
    limits_are_kept(&world);
    guessing_is_slowed(&world);
    the_audit_log_holds_what_happened_and_no_secret(&world);
}

fn everything_is_open_until_there_is_a_user(world: &World) {
    let mut client = world.client();
    assert_eq!(client.ask("set a 1"), ok());
    assert_eq!(client.ask("acl whoami"), bulk("default"));
    let first = world.runtime.block_on(world.database.create_user(&User::new("ada")));
    assert!(first.unwrap_err().to_string().contains("the first user is an administrator"));
    world.create("root", &["administer:*", "read:*"]);
    eventually(&mut client, "get a", &error(NOAUTH));
}

fn strangers_may_do_nothing(world: &World) {
    let mut client = world.client();
    for line in [
        "ping",
        "get a",
        "set a 2",
        "multi",
        "exec",
        "eval return 0",
        "subscribe x",
        "info",
        "client list",
        "nonsense",
    ] {
        assert_eq!(client.ask(line), error(NOAUTH), "{line}");
    }
    let Value::Error(text) = client.ask("hello 3") else { panic!("it needs a user") };
    assert!(text.starts_with("NOAUTH HELLO must be called"), "{text}");
    assert_eq!(client.ask("reset"), Value::Simple("RESET".to_owned()));
    assert_eq!(client.ask("quit"), ok());
}

fn users_log_in_as_those_of_redis_do(world: &World) {
    world.create("default", &["read:redis"]);
    world.create("ada", &["read,write:redis"]);
    let mut client = world.client_of("ada");
    assert_eq!((client.ask("acl whoami"), client.ask("get a")), (bulk("ada"), bulk("1")));
    let auth = |client: &mut Client, words: &[&str]| {
        let words = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        client.pipeline(&[words]).remove(0)
    };
    assert_eq!(auth(&mut client, &["auth", "ada", "wrong horse"]), error(WRONGPASS));
    assert_eq!(client.ask("acl whoami"), bulk("ada"), "a failure changes nothing");
    assert_eq!(auth(&mut client, &["auth", "nobody", SECRET]), error(WRONGPASS));
    assert_eq!(auth(&mut client, &["auth", SECRET]), ok());
    assert_eq!(client.ask("acl whoami"), bulk("default"));
    assert_eq!(auth(&mut client, &["hello", "3", "auth", "ada", "wrong"]), error(WRONGPASS));
    let Value::Map(_) = auth(&mut client, &["hello", "3", "auth", "ada", SECRET]) else {
        panic!("it is right")
    };
    assert_eq!(client.ask("acl whoami"), bulk("ada"));
    assert_eq!(client.ask("reset"), Value::Simple("RESET".to_owned()));
    assert_eq!(client.ask("get a"), error(NOAUTH));
    // A pipeline logs in for what stands behind it.
    let commands = [vec!["get", "a"], vec!["auth", "ada", SECRET], vec!["get", "a"]];
    let commands = commands.map(|words| words.iter().map(|word| word.as_bytes().to_vec()).collect());
    assert_eq!(world.client().pipeline(&commands), [error(NOAUTH), ok(), bulk("1")]);
}

fn rights_are_those_of_keyspaces(world: &World) {
    world.create("reader", &["read:redis"]);
    let mut client = world.client_of("reader");
    assert_eq!((client.ask("get a"), client.ask("set a 3")), (bulk("1"), no_command("set")));
    assert_eq!(client.ask("blpop a 1"), no_command("lmpop"));
    assert_eq!(client.ask("flushall"), no_command("flushall"));
    assert_eq!(client.ask("eval return 0"), no_command("eval"), "a script may write");
    assert_eq!((client.ask("select 1"), client.ask("get a")), (ok(), no_command("get")));
    // A command that is refused as it is queued aborts its transaction.
    assert_eq!((client.ask("select 0"), client.ask("multi")), (ok(), ok()));
    assert_eq!(client.ask("set a 3"), no_command("set"));
    let aborted = error("EXECABORT Transaction discarded because of previous errors.");
    assert_eq!((client.ask("get a"), client.ask("exec")), (Value::Simple("QUEUED".to_owned()), aborted));
    // Before it in a pipeline everything is carried out, and behind it.
    let lines = ["get a", "set a 3", "get a"];
    let commands = lines.map(|line| line.split(' ').map(|word| word.as_bytes().to_vec()).collect());
    assert_eq!(client.pipeline(&commands), [bulk("1"), no_command("set"), bulk("1")]);
    let mut root = world.client_of("root");
    assert_eq!(
        (root.ask("get a"), root.ask("set a 4")),
        (bulk("1"), no_command("set")),
        "no right is implied"
    );
}

fn prefixes_limit_every_key(world: &World) {
    world.create("app", &["read,write:redis:app:", "read:redis:shared:"]);
    let mut client = world.client_of("app");
    for (line, reply) in [
        ("set app:1 x", ok()),
        ("mset app:1 x app:2 y", ok()),
        ("get shared:1", Value::Null),
        ("set shared:1 x", error(NO_KEY)),
        ("get a", error(NO_KEY)),
        ("mget app:1 a", error(NO_KEY)),
        ("mset app:3 x a y", error(NO_KEY)),
        ("rename app:1 a", error(NO_KEY)),
        ("copy a app:9", error(NO_KEY)),
        ("sunionstore app:9 app:1 a", error(NO_KEY)),
        ("watch a", error(NO_KEY)),
        ("object encoding a", error(NO_KEY)),
        ("sort app:list by a* get b*", error(NO_KEY)),
        ("zunionstore app:z 1 a", error(NO_KEY)),
        ("xread streams a 0", error(NO_KEY)),
        ("blpop a 1", error(NO_KEY)),
        ("geoadd a 1 1 m", error(NO_KEY)),
        ("keys *", error(NO_KEY)),
        ("keys ap*", error(NO_KEY)),
        ("scan 0", error(NO_KEY)),
        ("scan 0 match a*", error(NO_KEY)),
        ("dbsize", error(NO_KEY)),
        ("randomkey", error(NO_KEY)),
        ("flushdb", error(NO_KEY)),
        ("function list", no_command("function")),
        ("function flush", no_command("function")),
        ("exists app:3", Value::Integer(0)),
    ] {
        assert_eq!(client.ask(line), reply, "{line}");
    }
    let Value::Array(mut keys) = client.ask("keys app:*") else { panic!("its own keys may be listed") };
    keys.sort();
    assert_eq!(keys, [bulk("app:1"), bulk("app:2")]);
    assert_eq!(world.client_of("ada").ask("get a"), bulk("1"), "nothing was done");
}

fn scripts_touch_what_their_client_may(world: &World) {
    let mut client = world.client_of("app");
    let script = |client: &mut Client, text: &str, keys: &[&str]| {
        let count = keys.len().to_string();
        let words = ["eval", text, &count].into_iter().chain(keys.iter().copied());
        client.pipeline(&[words.map(|word| word.as_bytes().to_vec()).collect()]).remove(0)
    };
    let get = "return redis.call('get', KEYS[1])";
    assert_eq!(script(&mut client, get, &["app:1"]), bulk("x"));
    assert_eq!(script(&mut client, get, &["a"]), error(NO_KEY));
    // A key that is not declared is looked at when it is used.
    let Value::Error(text) = script(&mut client, "return redis.call('get', 'a')", &["app:1"]) else {
        panic!("it reads what it may not")
    };
    assert!(text.contains("NOPERM"), "{text}");
    let caught = "local r = redis.pcall('set', 'a', '9') return r.err or r.ok";
    let Value::Bulk(text) = script(&mut client, caught, &["app:1"]) else { panic!("it may catch the error") };
    assert!(String::from_utf8_lossy(&text).contains("NOPERM"));
    let mut ada = world.client_of("ada");
    assert_eq!(ada.ask("get a"), bulk("1"));
    assert_eq!(script(&mut ada, get, &["a"]), bulk("1"), "who may touch everything has it run at the shard");
}

fn channels_are_granted_by_name(world: &World) {
    let mut ada = world.client_of("ada");
    assert_eq!(ada.ask("publish news x"), error(NO_CHANNEL), "a right in a keyspace is none to a channel");
    assert_eq!(ada.ask("subscribe news"), error(NO_CHANNEL));
    assert_eq!(ada.ask("psubscribe *"), error(NO_CHANNEL));
    world.create("press", &["read,write:_channels:news."]);
    let mut press = world.client_of("press");
    assert_eq!(press.ask("publish news.eu x"), Value::Integer(0));
    assert_eq!(
        (press.ask("publish news x"), press.ask("psubscribe n*")),
        (error(NO_CHANNEL), error(NO_CHANNEL))
    );
    assert_eq!(press.ask("pubsub channels"), no_command("pubsub|channels"));
    let mut heard = world.client_of("press");
    assert!(matches!(heard.ask("psubscribe news.*"), Value::Array(_)));
    assert_eq!(press.ask("publish news.eu x"), Value::Integer(1));
    assert_eq!(heard.receive(), Value::Array(["pmessage", "news.*", "news.eu", "x"].map(bulk).to_vec()));
    // It is cut off when the right is taken away, and hears nothing more.
    world.create("herald", &["write:_channels:news."]);
    let mut herald = world.client_of("herald");
    world.change("press", &[UserChange::Revoke("read,write:_channels:news.".parse().unwrap())]);
    std::thread::sleep(IN_FORCE);
    assert_eq!(press.ask("publish news.eu x"), error(NO_CHANNEL));
    assert_eq!(herald.ask("publish news.eu secret"), Value::Integer(1));
    let Value::Error(text) = heard.receive() else { panic!("it hears what it may not") };
    assert!(text.starts_with("NOAUTH"), "{text}");
}

fn clients_do_nothing_to_each_other_without_the_right(world: &World) {
    let mut ada = world.client_of("ada");
    for (line, name) in [
        ("client list", "client|list"),
        ("client kill id 1", "client|kill"),
        ("client pause 10", "client|pause"),
        ("client unblock 1", "client|unblock"),
        ("script flush", "script|flush"),
        ("script kill", "script|kill"),
        ("function stats", "function|stats"),
        ("function kill", "function|kill"),
    ] {
        assert_eq!(ada.ask(line), no_command(name), "{line}");
    }
    assert!(matches!(ada.ask("client id"), Value::Integer(_)));
    let (Value::Verbatim(told) | Value::Bulk(told)) = world.client_of("root").ask("client list") else {
        panic!("an administrator may")
    };
    assert!(String::from_utf8_lossy(&told).contains("user=ada"));
}

fn a_right_that_is_taken_away_ends_what_is_open(world: &World) {
    world.create("bob", &["read,write:redis"]);
    let mut open = world.client_of("bob");
    let mut waiting = world.client_of("bob");
    assert_eq!((open.ask("set b 1"), open.ask("watch b"), open.ask("multi")), (ok(), ok(), ok()));
    assert_eq!(open.ask("set b 2"), Value::Simple("QUEUED".to_owned()));
    waiting.send(b"*3\r\n$5\r\nblpop\r\n$4\r\nlist\r\n$1\r\n2\r\n");
    world.change("bob", &[UserChange::Revoke("write:redis".parse().unwrap())]);
    std::thread::sleep(IN_FORCE);
    assert_eq!(open.ask("exec"), no_command("set"), "an open transaction cannot commit");
    assert_eq!(open.ask("get b"), bulk("1"));
    // A command that waits takes nothing any more.
    assert_eq!(world.client_of("ada").ask("rpush list secret"), Value::Integer(1));
    assert_eq!(waiting.receive(), no_command("lmpop"));
    assert_eq!(world.client_of("ada").ask("lpop list"), bulk("secret"));
    // A role gives it back, to connections that are open, too.
    let role = Role { name: "writers".to_owned(), grants: vec!["write:redis".parse().unwrap()] };
    world.runtime.block_on(world.database.create_role(&role)).unwrap();
    world.change("bob", &[UserChange::AddRole("writers".to_owned())]);
    eventually(&mut open, "set b 3", &ok());
    world.runtime.block_on(world.database.drop_role("writers")).unwrap();
    eventually(&mut open, "set b 4", &no_command("set"));
}

fn a_login_ends_with_its_credential(world: &World) {
    for end in ["password", "disabled", "dropped"] {
        world.create("carl", &["read:redis"]);
        let mut client = world.client_of("carl");
        assert_eq!(client.ask("get a"), bulk("1"));
        match end {
            "password" => {
                let new = Password::told("another horse").hash().unwrap();
                world.change("carl", &[UserChange::Password(Some(new))]);
            }
            "disabled" => world.change("carl", &[UserChange::Disable(true)]),
            _ => world.runtime.block_on(world.database.drop_user("carl")).unwrap(),
        }
        eventually(&mut client, "get a", &error(NOAUTH));
        if end != "dropped" {
            world.runtime.block_on(world.database.drop_user("carl")).unwrap();
        }
    }
    // The last administrator stays.
    let drop = world.runtime.block_on(world.database.drop_user("root"));
    assert!(drop.unwrap_err().to_string().contains("no administrator would be left"));
}

fn limits_are_kept(world: &World) {
    world.create("slow", &["read:redis"]);
    let limits = UserLimits {
        requests_per_second: Some(5),
        connections: Some(2),
        open_transactions: Some(1),
        ..UserLimits::default()
    };
    world.change("slow", &[UserChange::Limits(limits)]);
    std::thread::sleep(IN_FORCE);
    let (mut one, mut two) = (world.client_of("slow"), world.client_of("slow"));
    assert_eq!((one.ask("multi"), two.ask("ping")), (ok(), Value::Simple("PONG".to_owned())));
    let Value::Error(text) = two.ask("multi") else { panic!("one transaction is open already") };
    assert!(text.starts_with("OVERLOADED") && text.contains("transactions open"), "{text}");
    let refused = (0..20).map(|_| two.ask("ping")).find(|reply| matches!(reply, Value::Error(_)));
    let Some(Value::Error(text)) = refused else { panic!("it has five commands in a second") };
    assert!(text.starts_with("OVERLOADED") && text.contains("requests per second"), "{text}");
    let mut three = world.client();
    let words: Vec<Vec<u8>> = ["auth", "slow", SECRET].map(|word| word.as_bytes().to_vec()).to_vec();
    let Value::Error(text) = three.pipeline(std::slice::from_ref(&words)).remove(0) else {
        panic!("it has two connections already")
    };
    assert!(text.contains("as many connections"), "{text}");
    drop((one, two));
    let until = Instant::now() + PATIENCE;
    while three.pipeline(std::slice::from_ref(&words)).remove(0) != ok() {
        assert!(Instant::now() < until, "the places of clients that have gone are given back");
    }
}

fn guessing_is_slowed(world: &World) {
    let mut client = world.client();
    let words: Vec<Vec<u8>> = ["auth", "ada", "a guess"].map(|word| word.as_bytes().to_vec()).to_vec();
    let replies: Vec<_> = (0..6).map(|_| client.pipeline(std::slice::from_ref(&words)).remove(0)).collect();
    assert_eq!(replies[0], error(WRONGPASS));
    let is_slowed = |reply: &Value| matches!(reply, Value::Error(text) if text.starts_with("OVERLOADED there were too many"));
    assert!(replies.iter().any(is_slowed), "{replies:?}");
}

fn the_audit_log_holds_what_happened_and_no_secret(world: &World) {
    std::thread::sleep(Duration::from_millis(200));
    let log = std::fs::read_to_string(&world.audit).unwrap();
    for part in [
        r#""event":"login","door":"redis","user":"ada","peer":"127.0.0.1:"#,
        r#""event":"login-failed","door":"redis","user":"nobody""#,
        r#""event":"refused","door":"redis","user":"reader""#,
    ] {
        assert!(log.contains(part), "{part} in {log}");
    }
    assert!(!log.contains("horse") && !log.contains("a guess"), "{log}");
}
