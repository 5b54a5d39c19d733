//! The files in `packaging` are true: ports, flags and paths are those that the binary and its configuration have.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use quorate_server::Config;
use yaml_rust2::{Yaml, YamlLoader};

use crate::run;

const NODES: [(&str, u16); 3] = [("us", 0), ("europe", 1), ("asia", 2)];

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(name)
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The documents of a file of manifests.
fn manifests(name: &str) -> Vec<Yaml> {
    let path = folder("kubernetes/base").join(name);
    YamlLoader::load_from_str(&read(&path)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn text(yaml: &Yaml) -> &str {
    yaml.as_str().unwrap_or_else(|| panic!("no text: {yaml:?}"))
}

fn list(yaml: &Yaml) -> &[Yaml] {
    yaml.as_vec().unwrap_or_else(|| panic!("no list: {yaml:?}"))
}

/// The configuration of a node of the manifests.
fn config(node: u16) -> Config {
    Config::load(&folder("kubernetes/base").join(format!("node-{node}.toml"))).unwrap()
}

fn port(address: &str) -> i64 {
    address.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or_else(|| panic!("{address}"))
}

/// The ports at which a node listens, by the names that manifests give them.
fn ports(config: &Config) -> BTreeMap<String, i64> {
    let listeners = [
        ("cluster", config.listen.as_ref()),
        ("pages", config.http.as_ref()),
        ("redis", config.doors.redis.as_ref()),
        ("http", config.doors.http.as_ref()),
    ];
    listeners.into_iter().map(|(name, address)| (name.to_owned(), port(address.unwrap()))).collect()
}

/// The flags that `quorate server` has.
fn flags() -> BTreeSet<String> {
    let help = run(&["server", "--help"]).out;
    let words = help.split(|letter: char| !(letter.is_ascii_lowercase() || letter == '-'));
    words.filter(|word| word.starts_with("--")).map(str::to_owned).collect()
}

fn are_flags_of_the_server(words: &[String]) {
    let known = flags();
    assert!(known.contains("--config") && known.len() > 5, "{known:?}");
    for word in words.iter().filter(|word| word.starts_with("--")) {
        let name = word.split_once('=').map_or(word.as_str(), |(name, _)| name);
        assert!(known.contains(name), "{word} is no flag of quorate server");
    }
}

#[test]
fn each_site_has_a_node_whose_ports_probes_and_paths_are_those_of_its_configuration() {
    for (site, node) in NODES {
        let config = config(node);
        let [set] = &manifests(&format!("site-{site}.yaml"))[..] else { panic!("{site}: one manifest") };
        assert_eq!((text(&set["kind"]), set["spec"]["replicas"].as_i64()), ("StatefulSet", Some(1)));
        assert_eq!(text(&set["spec"]["updateStrategy"]["type"]), "OnDelete", "nothing restarts all nodes");
        let pod = &set["spec"]["template"]["spec"];
        let [container] = list(&pod["containers"]) else { panic!("{site}: one container") };
        let named = list(&container["ports"]).iter();
        let named =
            named.map(|port| (text(&port["name"]).to_owned(), port["containerPort"].as_i64().unwrap()));
        assert_eq!(named.collect::<BTreeMap<_, _>>(), ports(&config), "{site}");

        let words: Vec<String> = list(&container["args"]).iter().map(|word| text(word).to_owned()).collect();
        assert_eq!(words[0], "server");
        are_flags_of_the_server(&words[1..]);
        let mounted = |path: &str| {
            let mounts = list(&container["volumeMounts"]).iter();
            mounts.map(|mount| text(&mount["mountPath"])).any(|mount| path.starts_with(&format!("{mount}/")))
        };
        let tls = config.tls.as_ref().unwrap();
        let door = config.doors.user.as_ref().unwrap();
        let paths =
            [&config.data_directory, &tls.ca, &tls.certificate, &tls.key, &door.certificate, &door.key];
        for path in paths.into_iter().chain([&PathBuf::from(&words[2])]) {
            assert!(mounted(path.to_str().unwrap()), "{site}: {} is not mounted", path.display());
        }
        assert_eq!(words[2], format!("/etc/quorate/node-{node}.toml"));

        for (probe, path) in
            [("startupProbe", "/live"), ("readinessProbe", "/ready"), ("livenessProbe", "/live")]
        {
            let get = &container[probe]["httpGet"];
            assert_eq!((text(&get["path"]), text(&get["port"])), (path, "pages"), "{site} {probe}");
            assert_eq!(text(&get["scheme"]), "HTTPS", "with [tls] pages are HTTPS");
        }
        let grace = pod["terminationGracePeriodSeconds"].as_i64().unwrap();
        assert!(
            grace > config.limits.drain_timeout.as_secs() as i64 + 2,
            "a node drains before it is killed"
        );

        // The address by which the others find it is that of its pod.
        let (name, service) = (text(&set["metadata"]["name"]), text(&set["spec"]["serviceName"]));
        let namespace = text(&manifests("namespace.yaml")[0]["metadata"]["name"]).to_owned();
        let expected = format!("{name}-0.{service}.{namespace}.svc:7400");
        assert_eq!((config.own_node().address.as_str(), config.own_site()), (expected.as_str(), site));
        assert_eq!(config.node.0, node);
    }
}

#[test]
fn all_nodes_of_the_manifests_have_one_file_but_for_what_is_their_own() {
    let [first, ..] = NODES.map(|(_, node)| config(node));
    for (_, node) in NODES {
        let config = config(node);
        assert_eq!((&config.topology, &config.system), (&first.topology, &first.system));
        assert_eq!((config.cluster, &config.log, &config.limits), (first.cluster, &first.log, &first.limits));
    }
}

#[test]
fn services_lead_to_ports_of_nodes_and_a_disruption_leaves_a_majority() {
    let known = ports(&config(0));
    let services = manifests("services.yaml");
    assert_eq!(services.len(), 2);
    for service in &services {
        for port in list(&service["spec"]["ports"]) {
            assert_eq!(known.get(text(&port["targetPort"])), port["port"].as_i64().as_ref(), "{port:?}");
        }
    }
    assert_eq!(
        services[0]["spec"]["publishNotReadyAddresses"].as_bool(),
        Some(true),
        "nodes recover together"
    );
    let budget = &manifests("disruption.yaml")[0];
    let away = budget["spec"]["maxUnavailable"].as_i64().unwrap();
    assert!(2 * (NODES.len() as i64 - away) > NODES.len() as i64);
}

#[test]
fn the_manifests_are_all_listed_and_kustomize_puts_the_first_start_together() {
    let kustomization = &manifests("kustomization.yaml")[0];
    let files = list(&kustomization["configMapGenerator"][0]["files"]).iter();
    let listed: BTreeSet<&str> = list(&kustomization["resources"]).iter().chain(files).map(text).collect();
    let found: BTreeSet<String> = std::fs::read_dir(folder("kubernetes/base"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "kustomization.yaml")
        .collect();
    assert_eq!(found.iter().map(String::as_str).collect::<BTreeSet<_>>(), listed);

    let kustomize = Command::new("kubectl").arg("kustomize").arg(folder("kubernetes/first-start")).output();
    let Ok(made) = kustomize else {
        eprintln!("kubectl is not installed, so overlays are not put together");
        return;
    };
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let made = YamlLoader::load_from_str(&String::from_utf8_lossy(&made.stdout)).unwrap();
    let sets: Vec<&Yaml> = made.iter().filter(|one| one["kind"].as_str() == Some("StatefulSet")).collect();
    assert_eq!(sets.len(), NODES.len());
    for set in sets {
        let words = list(&set["spec"]["template"]["spec"]["containers"][0]["args"]);
        let words: Vec<String> = words.iter().map(|word| text(word).to_owned()).collect();
        assert_eq!(words.last().map(String::as_str), Some("--initialise"), "{words:?}");
        are_flags_of_the_server(&words);
    }
}

/// The words of an instruction of the image, written as a list.
fn instruction(file: &str, name: &str) -> Vec<String> {
    let line = file.lines().map(str::trim).find(|line| line.starts_with(name));
    let line = line.unwrap_or_else(|| panic!("there is no {name}"));
    serde_json::from_str(line[name.len()..].trim()).unwrap_or_else(|error| panic!("{line}: {error}"))
}

#[test]
fn the_image_runs_the_server_without_rights_and_is_asked_whether_it_is_ready() {
    let file = read(&folder("container/Containerfile"));
    assert_eq!(instruction(&file, "ENTRYPOINT"), ["quorate"]);
    // In the file the command of the health check stands on a line of its own, before that of the image.
    let (health, rest) = file.split_once("ENTRYPOINT").unwrap();
    for words in [instruction(health, "CMD"), [vec!["quorate".to_owned()], instruction(rest, "CMD")].concat()]
    {
        assert_eq!(words[..2], ["quorate", "server"]);
        are_flags_of_the_server(&words);
    }
    assert!(instruction(health, "CMD").contains(&"--probe".to_owned()));
    let exposed = file.lines().find_map(|line| line.strip_prefix("EXPOSE ")).unwrap();
    let exposed: BTreeSet<i64> = exposed.split(' ').map(|port| port.parse().unwrap()).collect();
    assert_eq!(exposed, ports(&config(0)).into_values().collect());
    let user = file.lines().find_map(|line| line.strip_prefix("USER ")).unwrap();
    assert!(!user.starts_with('0') && !user.contains("root"), "{user}");
    // The manifests run it as the user that the image has.
    let (user, group) = user.split_once(':').unwrap();
    let security = &manifests("site-us.yaml")[0]["spec"]["template"]["spec"]["securityContext"];
    assert_eq!(security["runAsUser"].as_i64(), user.parse().ok());
    assert_eq!(security["fsGroup"].as_i64(), group.parse().ok());
    // The compiler of the image is one that the workspace takes.
    let workspace = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml"));
    let needed = workspace.lines().find_map(|line| line.strip_prefix("rust-version = ")).unwrap();
    assert!(file.contains(&format!("rust:{}-", needed.trim_matches('"'))), "{needed}");
}

#[test]
fn the_unit_starts_the_server_with_flags_that_it_has_and_reloads_it_by_a_hangup() {
    let unit = read(&folder("systemd/quorate.service"));
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let words: Vec<String> = start.split(' ').map(str::to_owned).collect();
    assert_eq!(words[..2], ["/usr/bin/quorate", "server"]);
    are_flags_of_the_server(&words);
    assert!(unit.lines().any(|line| line == "ExecReload=/bin/kill -HUP $MAINPID"), "{unit}");
}
