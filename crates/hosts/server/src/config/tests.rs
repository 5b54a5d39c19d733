//! The example can be read, its defaults are the real ones, and mistakes are named with their line.

use std::path::PathBuf;
use std::time::Duration;

use quorate_core::topology::Durability;
use quorate_core::{NodeId, SiteId};
use quorate_wire::Window;

use super::{
    Config, ContainerOptions, Doors, EventLoops, Limits, LogFormat, LogOptions, Logging, print_config,
};

#[test]
fn the_example_parses_back() {
    let config = Config::parse(print_config()).unwrap();
    assert_eq!(config.cluster, 4242);
    assert_eq!(config.node, NodeId(0));
    assert_eq!(config.own_site(), "us");
    assert_eq!(config.own_node().address, "127.0.0.1:7400");
    assert_eq!(config.topology.sites, ["us", "europe", "asia"]);
    assert_eq!(config.topology.nodes[2].site, SiteId(2));
    assert_eq!(config.system.shards[0].replicas, [NodeId(0), NodeId(1), NodeId(2)]);
    assert_eq!(config.system.durability, Durability::Sync);
    assert_eq!(config.http.as_deref(), Some("127.0.0.1:7500"));
    assert_eq!(config.wan, None);
}

#[test]
fn the_limits_in_the_example_are_the_defaults_and_may_be_left_out() {
    let with = Config::parse(print_config()).unwrap();
    assert_eq!(with.limits, Limits::default());
    let (without, _) = print_config().split_once("[limits]").unwrap();
    assert_eq!(Config::parse(without).unwrap().limits, Limits::default());
}

#[test]
fn the_options_of_containers_in_the_example_are_the_defaults_and_may_be_left_out() {
    assert_eq!(Config::parse(print_config()).unwrap().containers, ContainerOptions::default());
    let (without, _) = print_config().split_once("[containers]").unwrap();
    assert_eq!(Config::parse(without).unwrap().containers, ContainerOptions::default());
    let options = "[containers]\nmove_window_ms = 0\nmove_writes_min = 3\n";
    let ContainerOptions { move_window, move_writes_min } =
        Config::parse(&format!("{without}{options}")).unwrap().containers;
    assert_eq!((move_window.is_zero(), move_writes_min), (true, 3));
}

#[test]
fn the_doors_in_the_example_are_closed_and_may_be_left_out() {
    assert_eq!(Config::parse(print_config()).unwrap().doors, Doors::default());
    let (without, _) = print_config().split_once("[doors]").unwrap();
    assert_eq!(Config::parse(without).unwrap().doors, Doors::default());
    let told = "[doors]\nthreads = 2\n[doors.redis]\nlisten = \"127.0.0.1:6379\"\ndatabases = [\"a\", \"\", \"b\"]\n\
                scripts_at_shards = false\n\
                [doors.http]\nlisten = \"127.0.0.1:7480\"\n";
    let doors = Config::parse(&format!("{without}{told}")).unwrap().doors;
    assert_eq!((doors.threads, doors.redis.as_deref()), (2, Some("127.0.0.1:6379")));
    assert_eq!(
        (doors.redis_databases, doors.redis_scripts_at_shards),
        (["a", "", "b"].map(str::to_owned).to_vec(), false)
    );
    assert_eq!(doors.http.as_deref(), Some("127.0.0.1:7480"));
    let wrong = Config::parse(&format!("{without}[doors.redis]\nlisten = \"6379\"\n")).unwrap_err();
    assert!(wrong.to_string().contains("host:port"), "{wrong}");
}

#[test]
fn the_options_of_logs_in_the_example_are_the_defaults_and_may_be_left_out() {
    assert_eq!(Config::parse(print_config()).unwrap().log, LogOptions::default());
    let (without, _) = print_config().split_once("[log]").unwrap();
    assert_eq!(Config::parse(without).unwrap().log, LogOptions::default());
    let options = "[log]\nbeat_ms = 1\nsilence_ms = 2\nlease_ms = 3\nclock_error_max_ms = 8\nhand_back_ms = 10\nmessage_bytes_max = 4\nin_flight_max = 5\n\
                   in_flight_bytes_max = 9\nkept_entries = 6\nsnapshot_bytes = 7\n";
    let LogOptions { timing, limits, snapshot_bytes } =
        Config::parse(&format!("{without}{options}")).unwrap().log;
    let times = [timing.beat, timing.silence, timing.lease, timing.clock_error_max, timing.hand_back];
    assert_eq!(times.map(|time| time.as_millis()), [1, 2, 3, 8, 10]);
    assert_eq!((limits.message_bytes, limits.in_flight, limits.in_flight_bytes), (4, 5, 9));
    assert_eq!((limits.kept, snapshot_bytes), (6, 7));
}

#[test]
fn the_log_of_the_example_is_as_usual_and_may_be_left_out() {
    assert_eq!(Config::parse(print_config()).unwrap().logging, Logging::default());
    let (without, _) = print_config().split_once("[logging]").unwrap();
    assert_eq!(Config::parse(without).unwrap().logging, Logging::default());
    let told = |text: &str| Config::parse(&format!("{without}[logging]\n{text}\n"));
    let logging = told("format = \"json\"\nlevel = \"warn\"").unwrap().logging;
    assert_eq!((logging.format, logging.level.as_str()), (LogFormat::Json, "warn"));
    let wrong = told("format = \"xml\"").unwrap_err().to_string();
    assert!(wrong.starts_with("line ") && wrong.contains("\"text\" or \"json\""), "{wrong}");
}

#[test]
fn a_node_has_as_many_event_loops_as_its_file_says() {
    let told = |text: &str| Config::parse(&print_config().replace("# threads = \"auto\"", text));
    assert_eq!(Config::parse(print_config()).unwrap().threads, EventLoops::Exactly(1));
    assert_eq!(told("threads = \"auto\"").unwrap().threads, EventLoops::Auto);
    assert_eq!(told("threads = 3").unwrap().threads, EventLoops::Exactly(3));
    for wrong in ["0", "-2", "257", "\"many\""] {
        let error = told(&format!("threads = {wrong}")).unwrap_err().to_string();
        assert!(error.starts_with("line ") && error.contains("write \"auto\", or 1 to 256"), "{error}");
    }
}

#[test]
fn a_cluster_begins_with_a_protocol_version_that_the_program_knows() {
    let begins = |version: u32| {
        let line = format!("protocol_version = {version}");
        Config::parse(&print_config().replace("# protocol_version = 1", &line))
    };
    assert_eq!(Config::parse(print_config()).unwrap().first_version, Window::OWN.newest);
    assert_eq!(begins(1).unwrap().first_version, Window::OWN.oldest);
    for unknown in [0, Window::OWN.newest.0 + 1] {
        let error = begins(unknown).unwrap_err().to_string();
        assert!(error.starts_with("line ") && error.contains("this program knows protocol"), "{error}");
    }
}

#[test]
fn what_is_commented_out_in_the_example_can_be_used() {
    let text = print_config().replace("# [wan]", "[wan]").replace("# matrix =", "matrix =");
    let wan = Config::parse(&text).unwrap().wan.unwrap();
    assert_eq!(wan.one_way("us", "europe"), Some(Duration::from_micros(55_500)));
    let text = print_config()
        .replace("# listen = \"127.0.0.1:7400\"", "listen = \"0.0.0.0:7400\"")
        .replace("# insecure", "insecure");
    assert_eq!(Config::parse(&text).unwrap().listen_address(), "0.0.0.0:7400");
    assert_eq!(Config::parse(print_config()).unwrap().listen_address(), "127.0.0.1:7400");
}

#[test]
fn the_configuration_service_is_spread_over_the_sites() {
    // The nodes of each site, and those that replicate it.
    let table: [(&[usize], &[u16]); 8] = [
        (&[1], &[0]),
        (&[2], &[0]),
        (&[1, 1], &[0]),
        (&[3], &[0, 1, 2]),
        (&[2, 2], &[0, 2, 1]),
        (&[2, 2, 2], &[0, 2, 4]),
        (&[1, 1, 1, 1], &[0, 1, 2]),
        (&[2, 1, 1, 1, 1, 1], &[0, 2, 3, 4, 5]),
    ];
    for (sites, expected) in table {
        let names: Vec<_> = (0..sites.len()).map(|site| format!("site{site}")).collect();
        let mut text = format!(
            "node = 0\ndata_directory = \"d\"\ninsecure = true\nsites = {names:?}\n[cluster]\nname = \"c\"\nid = 1\n"
        );
        for (name, nodes) in names.iter().zip(sites) {
            text.push_str(&format!("[[nodes]]\nsite = \"{name}\"\naddress = \"a:1\"\n").repeat(*nodes));
        }
        let replicas = &Config::parse(&text).unwrap().system.shards[0].replicas;
        assert_eq!(replicas.iter().map(|node| node.0).collect::<Vec<_>>(), expected, "{sites:?}");
    }
}

#[test]
fn who_joins_lists_itself_and_some_others() {
    let text = |join: &str, nodes: usize| {
        let node = "[[nodes]]\nsite = \"mars\"\naddress = \"a:1\"\n".repeat(nodes);
        format!(
            "data_directory = \"d\"\nsites = [\"mars\"]\ninsecure = true\n[cluster]\nname = \"c\"\nid = 1\njoin = {join}\n{node}"
        )
    };
    let config = Config::parse(&text("[\"b:1\", \"c:1\"]", 1)).unwrap();
    assert_eq!((&config.join[..], config.own_site()), (&["b:1".to_owned(), "c:1".to_owned()][..], "mars"));
    let table = [
        ("[]", 1, "line 7: `join` must name"),
        ("[\"b\"]", 1, "line 7: \"b\" is not an address"),
        ("[\"b:1\"]", 2, "lists itself alone"),
    ];
    for (join, nodes, expected) in table {
        let error = Config::parse(&text(join, nodes)).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn mistakes_are_named_with_their_line() {
    let table = [
        ("node = 0", "node = 3", "line 4: there is no node 3: 3 [[nodes]] are listed"),
        ("node = 0", "node = \"zero\"", "line 4"),
        ("node = 0", "nodule = 0", "unknown field `nodule`"),
        ("node = 0\n", "", "missing field `node`"),
        ("id = 4242", "id = 0", "must not be 0"),
        ("id = 4242", "id = 4242\njoin = [\"127.0.0.1:7400\"]", "leave out `node`, or `join`"),
        ("http = \"127.0.0.1:7500\"", "http = \"7500\"", "line 16: \"7500\" is not an address"),
        ("# listen = \"127.0.0.1:7400\"", "listen = \"7400\"", "line 12: \"7400\" is not an address"),
        ("site = \"asia\"", "site = \"mars\"", "the site \"mars\" is not one of: us, europe, asia"),
        ("\"asia\"]", "\"us\"]", "line 27: the site \"us\" is listed twice"),
        ("replicas = [0, 1, 2]", "replicas = [0, 1]", "odd number"),
        ("replicas = [0, 1, 2]", "replicas = [0, 1, 9]", "there is no node 9"),
        ("replicas = [0, 1, 2]", "replicas = [0, 1, 1]", "two replicas"),
        ("durability = \"sync\"", "durability = \"tape\"", "choose one of: sync, memory"),
        ("connections_max = 1024", "connections_max = 0", "connections_max must not be 0"),
        ("catalogue_interval_ms = 5000", "catalogue_interval_ms = 10001", "must not be above 10000"),
        ("in_flight_max = 4096", "in_flight_max = 0", "in_flight_max must not be 0"),
        ("in_flight_bytes_max = 16777216", "in_flight_bytes_max = 0", "in_flight_bytes_max must not be 0"),
        ("connections_max = 1024", "conections_max = 1024", "unknown field `conections_max`"),
        ("# [wan]\n# matrix = \"tapir\"", "[wan]\nmatrix = \"walter\"", "does not know the site \"us\""),
        ("# [wan]\n# matrix = \"tapir\"", "[wan]\nmatrix = \"nowhere\"", "no built-in delay matrix"),
    ];
    for (right, wrong, expected) in table {
        assert!(print_config().contains(right), "{right}");
        let error = Config::parse(&print_config().replacen(right, wrong, 1)).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("line"), "{wrong}\n{error}");
    }
}

/// The example with the certificates that are commented out in it.
fn with_certificates() -> String {
    let mut text = print_config().replace("# [tls]", "[tls]");
    for key in ["ca", "certificate", "key", "revoked"] {
        text = text.replace(&format!("# {key} = \"certificates/"), &format!("{key} = \"certificates/"));
    }
    text.replace("# [doors.user]", "[doors.user]")
}

#[test]
fn certificates_of_the_example_can_be_used() {
    let config = Config::parse(&with_certificates()).unwrap();
    let tls = config.tls.clone().unwrap();
    assert_eq!(tls.ca, PathBuf::from("certificates/ca.crt"));
    assert_eq!(tls.certificate, PathBuf::from("certificates/node-0.crt"));
    assert_eq!(tls.key, PathBuf::from("certificates/node-0.key"));
    assert_eq!(tls.revoked, Some(PathBuf::from("certificates/revoked.txt")));
    let user = config.doors.user.clone().unwrap();
    assert_eq!(tls.files_of(&user).certificate, PathBuf::from("certificates/user-doors.crt"));
    assert!(!config.insecure && config.insecure_addresses().is_empty());
}

#[test]
fn plain_text_that_other_machines_reach_has_to_be_asked_for() {
    let open = |listener: &str, with: &str| print_config().replace(listener, with);
    for text in [
        open("# listen = \"127.0.0.1:7400\"", "listen = \"0.0.0.0:7400\""),
        open("http = \"127.0.0.1:7500\"", "http = \"[::]:7500\""),
        open("address = \"127.0.0.1:7400\"", "address = \"db0.example.com:7400\""),
        open("# listen = \"127.0.0.1:6379\"", "listen = \"10.0.0.1:6379\""),
        open("# listen = \"127.0.0.1:7480\"", "listen = \"10.0.0.1:7480\""),
    ] {
        let refused = Config::parse(&text).unwrap_err().to_string();
        assert!(refused.contains("no loopback address") && refused.contains("line "), "{refused}");
        let asked = Config::parse(&text.replace("# insecure = true", "insecure = true")).unwrap();
        assert_eq!(asked.insecure_addresses().len(), 1, "{:?}", asked.insecure_addresses());
    }
    let behind = open("# listen = \"127.0.0.1:7400\"", "listen = \"127.0.0.1:7400\"").replacen(
        "address = \"127.0.0.1:7400\"",
        "address = \"db0.example.com:7400\"",
        1,
    );
    assert!(Config::parse(&behind).is_ok(), "it is found elsewhere and listens here");
}

#[test]
fn certificates_go_together() {
    let with = with_certificates();
    for (text, expected) in [
        (with.replace("# insecure = true", "insecure = true"), "leave out one of them"),
        (
            with.replace("# listen = \"127.0.0.1:6379\"", "listen = \"10.0.0.1:6379\"")
                .replace("[doors.user]\ncertificate", "# [doors.user]\n# certificate")
                .replace("\nkey = \"certificates/user", "\n# key = \"certificates/user"),
            "[doors.user]",
        ),
        (
            print_config().replace(
                "# [doors.user]\n# certificate = \"certificates/user-doors.crt\"\n# key",
                "[doors.user]\ncertificate = \"u.crt\"\nkey",
            ),
            "add [tls]",
        ),
    ] {
        let error = Config::parse(&text).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("line "), "{error}");
    }
}
