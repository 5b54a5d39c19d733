//! `quorate dev`: a development cluster that stays up.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use quorate::wan::Matrix;
use quorate::{Certificates, Durability, Isolation, KeyspaceOptions};
use quorate_certificates::{Files, Purpose, Trust};
use quorate_cluster::{
    CLUSTER_NAME, Layout, Threads, client_files, door_files, make_certificates, node_files,
};
use quorate_gateway::Gateway;
use quorate_server::{Doors, EventLoops, SweptHere};
use serde::{Deserialize, Serialize};

use super::sweeping::sweep;
use super::{DEFAULT_ADDRESS, doors};
use crate::exit::{Failure, Outcome, Verdict};
use crate::output::{Align, Table};
use crate::parse;
use crate::runtime::{block_on, log_to_file, stop_signal};

/// Run a development cluster that stays up: several sites in one process.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quorate dev                              three sites on 127.0.0.1:7400 and the ports after it
  quorate dev --dir ./data                 keeps its data there, and goes on with it at the next start
  quorate dev --wan tapir                  with the delays between the US, Europe and Asia
  quorate dev --sites 5 --listen 127.0.0.1:9000 --http 127.0.0.1:9100
  quorate dev --http 127.0.0.1:7480        curl http://127.0.0.1:7480/v1/keyspaces, and the console at http://127.0.0.1:7480/
  quorate dev --tls certificates           with certificates, made there if they are missing, and TLS everywhere
  quorate dev --redis 6390 --http 7480     doors at these ports of this machine
  quorate dev --redis                      any Redis client at 127.0.0.1:6379; SELECT 0 is the keyspace redis

Ctrl-C stops it in good order.")]
pub(crate) struct DevArguments {
    /// How many sites, one node each; by default three, or as many as DIR was created with.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=64))]
    sites: Option<u16>,
    /// Where the data is kept and found again.
    #[arg(long, default_value = "quorate-dev")]
    dir: PathBuf,
    /// Emulate the delays of a matrix: `tapir`, `walter`, `uniform-100ms` or a file.
    #[arg(long, value_name = "MATRIX|none", default_value = "none")]
    wan: String,
    /// Where the first node listens; the others take the ports after it.
    #[arg(long, value_name = "ADDR", default_value = DEFAULT_ADDRESS, value_parser = parse::address)]
    listen: SocketAddr,
    /// Where the first node serves HTTP and JSON at /v1, the console at /, and its /metrics, /health and /status; the other nodes take the ports after it for
    /// these, and the first one the port after theirs.
    #[arg(long, value_name = "ADDR", value_parser = parse::address)]
    http: Option<SocketAddr>,
    /// Where the first node serves clients of Redis, by default 127.0.0.1:6379: creates the serializable keyspace `redis`, which is database 0.
    #[arg(long, value_name = "ADDR", num_args = 0..=1, default_missing_value = doors::REDIS_ADDRESS, value_parser = parse::address)]
    redis: Option<SocketAddr>,
    /// Over how many event loops each node spreads its replicas: `auto`, or a number.
    #[arg(long, value_name = "N", default_value_t)]
    threads: EventLoops,
    /// Secure every connection by TLS, with the certificates of this directory: what is missing is made there.
    #[arg(long, value_name = "DIR")]
    tls: Option<PathBuf>,
}

/// The file of its log, in the directory of its data.
const LOG: &str = "log.txt";

/// The memory that a development cluster has of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Memory {
    cluster: u64,
    sites: Vec<String>,
}

impl DevArguments {
    pub(crate) fn run(self) -> Outcome {
        let matrix = match self.wan.as_str() {
            "none" => None,
            name => Some(Matrix::load(name).map_err(Failure::usage)?),
        };
        let memory = remember(&self.dir, self.sites, matrix.as_ref())?;
        let log = self.dir.join(LOG);
        log_to_file(&log)?;
        let layout = Layout {
            cluster: memory.cluster,
            nodes: memory.sites.iter().cloned().zip(ports(self.listen, memory.sites.len())?).collect(),
            listen: Vec::new(),
            http: match self.http {
                Some(first) => pages(first, memory.sites.len())?,
                None => Vec::new(),
            },
            sites: memory.sites,
            directory: self.dir.clone(),
            wan: matrix.is_some().then_some(self.wan.clone()),
            durability: Durability::Sync,
            log: BTreeMap::new(),
            limits: BTreeMap::new(),
            redis: None,
            tls: self.tls.clone(),
            protocol_version: None,
            threads: self.threads,
        };
        if let Some(certificates) = &self.tls {
            make_certificates(certificates, layout.nodes.len())?;
        }
        let threads = Threads::start(&layout)?;
        let gateway = self.open_doors(&layout, matrix)?;
        outln!("{}", welcome(&layout, self.http, self.redis));
        block_on(async {
            // One node stands for all of them.
            let first = &threads.servers()[0];
            let addresses = layout.nodes.iter().map(|(_, address)| address.clone()).collect();
            let here =
                || first.swept_here().into_iter().map(|swept| SweptHere { rank: 0, ..swept }).collect();
            let sweeping = sweep(addresses, layout.client()?, here, |status| first.set_sweeping(status));
            tokio::select! {
                signal = stop_signal() => signal,
                never = sweeping => match never {},
                () = threads.failed() => Err(Failure::failed(format!("a node has failed; {} says why", log.display()))),
            }?;
            Ok(Verdict::Good)
        })?;
        errln!("stopping; the data stays in {}", self.dir.display());
        drop(gateway);
        threads.shutdown()?;
        Ok(Verdict::Good)
    }
}

impl DevArguments {
    /// Opens the doors that were asked for, and creates the keyspaces behind them.
    fn open_doors(&self, layout: &Layout, delays: Option<Matrix>) -> Result<Option<Gateway>, Failure> {
        if self.redis.is_none() && self.http.is_none() {
            return Ok(None);
        }
        let addresses: Vec<String> = layout.nodes.iter().map(|(_, address)| address.clone()).collect();
        let client = quorate::Options {
            site: layout.nodes.first().map(|(site, _)| site.clone()),
            delays,
            ..layout.client()?
        };
        if self.redis.is_some() {
            let creating = client.clone();
            block_on(async {
                create_redis(&addresses, creating).await?;
                Ok(Verdict::Good)
            })?;
        }
        let told = Doors {
            redis: self.redis.map(|address| address.to_string()),
            http: self.http.map(|address| address.to_string()),
            ..Doors::default()
        };
        let load = |directory: &PathBuf| {
            let purpose = Purpose::Door { cluster: CLUSTER_NAME.to_owned() };
            Trust::watched(node_files(directory, 0), purpose).map_err(Failure::usage)
        };
        let trust = layout.tls.as_ref().map(load).transpose()?;
        let user =
            |directory: &PathBuf| Certificates::from_files(door_files(directory)).map_err(Failure::usage);
        let certificates = layout.tls.as_ref().map(user).transpose()?;
        let client = quorate::Options { certificates, ..client };
        let pages = layout.http.first().and_then(|address| address.parse().ok());
        doors::open(&told, addresses, client, trust, (pages, None))
    }
}

/// Creates the keyspace of database 0, unless it is there. A cluster that has just started may take a while until it can tell.
async fn create_redis(addresses: &[String], client: quorate::Options) -> Result<(), Failure> {
    const NAME: &str = "redis";
    const PATIENCE: Duration = Duration::from_secs(60);
    const PAUSE: Duration = Duration::from_millis(200);
    let deadline = Instant::now() + PATIENCE;
    let db = quorate::connect_with(addresses, client).await?;
    loop {
        let options = KeyspaceOptions::new(Isolation::Serializable);
        match db.create_keyspace(NAME, options).await {
            Ok(_)
            | Err(
                quorate::Error::Invalid(quorate::Invalid::KeyspaceExists { .. })
                | quorate::Error::NotServing { .. },
            ) => break,
            Err(error) if error.is_retryable() && Instant::now() < deadline => {
                tokio::time::sleep(PAUSE).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
    db.close().await;
    Ok(())
}

/// So many consecutive ports.
fn ports(first: SocketAddr, count: usize) -> Result<Vec<String>, Failure> {
    if first.port() == 0 {
        return Err(Failure::usage("choose a port other than 0: the nodes take it and those after it"));
    }
    let ports: Vec<String> = (first.port()..=u16::MAX)
        .take(count)
        .map(|port| SocketAddr::new(first.ip(), port).to_string())
        .collect();
    match ports.len() < count {
        true => Err(Failure::usage(format!(
            "{count} ports are taken, that of {first} and those after it, and there are {} up to {}: choose a lower one",
            ports.len(),
            u16::MAX
        ))),
        false => Ok(ports),
    }
}

/// Where nodes serve their pages if the door for HTTP has the first port: the others after it in their order, and the first node after them.
fn pages(first: SocketAddr, nodes: usize) -> Result<Vec<String>, Failure> {
    let mut pages = ports(first, nodes + 1)?.split_off(1);
    pages.rotate_right(1);
    Ok(pages)
}

/// Reads what the cluster in this directory is, or decides it.
fn remember(directory: &Path, sites: Option<u16>, matrix: Option<&Matrix>) -> Result<Memory, Failure> {
    let file = directory.join("dev.toml");
    let failed = |error: &dyn std::fmt::Display| Failure::failed(format!("{}: {error}", file.display()));
    if file.exists() {
        let text = std::fs::read_to_string(&file).map_err(|error| failed(&error))?;
        let memory: Memory = toml::from_str(&text).map_err(|error| failed(&error))?;
        if let Some(sites) = sites.map(usize::from).filter(|sites| *sites != memory.sites.len()) {
            return Err(Failure::usage(format!(
                "{} holds a cluster of {} sites, not {sites}: leave --sites out, or choose another --dir",
                directory.display(),
                memory.sites.len()
            )));
        }
        return Ok(memory);
    }
    let names = names(usize::from(sites.unwrap_or(3)), matrix)?;
    let drawn = getrandom::u64().map_err(|error| failed(&error))?;
    let memory = Memory { cluster: (drawn >> 1).max(1), sites: names };
    let text = toml::to_string(&memory).map_err(|error| failed(&error))?;
    std::fs::create_dir_all(directory).map_err(|error| failed(&error))?;
    std::fs::write(&file, text).map_err(|error| failed(&error))?;
    Ok(memory)
}

/// The names of the sites: those of the matrix if there is one.
fn names(count: usize, matrix: Option<&Matrix>) -> Result<Vec<String>, Failure> {
    let Some(matrix) = matrix else {
        return Ok((1..=count).map(|number| format!("site{number}")).collect());
    };
    let known = matrix.sites();
    if count > known.len() {
        return Err(Failure::usage(format!(
            "the matrix \"{}\" has {} sites ({}), and {count} were asked for",
            matrix.name(),
            known.len(),
            known.join(", ")
        )));
    }
    Ok(known[..count].to_vec())
}

/// The next steps, for people.
fn welcome(layout: &Layout, http: Option<SocketAddr>, redis: Option<SocketAddr>) -> String {
    let first = layout.nodes.first().map_or("", |(_, address)| address.as_str());
    let connect = if first == DEFAULT_ADDRESS { String::new() } else { format!(" --connect {first}") };
    let files = layout.tls.as_deref().map(client_files);
    let named = |files: &Files| {
        let [ca, certificate, key] = [&files.ca, &files.certificate, &files.key].map(|path| path.display());
        format!(" --ca {ca} --certificate {certificate} --certificate-key {key}")
    };
    let connect = connect + &files.as_ref().map(named).unwrap_or_default();
    let web = if files.is_some() { "https" } else { "http" };
    let mut table = Table::new(&[("site", Align::Left), ("address", Align::Left), ("http", Align::Left)]);
    for (number, (site, address)) in layout.nodes.iter().enumerate() {
        let page = match (number, http) {
            (0, Some(door)) => format!("{web}://{door}/status"),
            _ => layout.http.get(number).map_or_else(String::new, |page| format!("http://{page}/status")),
        };
        table.row([site.clone(), address.clone(), page]);
    }
    // Doors are the first node's alone: any node would do.
    let redis = match redis {
        Some(address) => format!("\n  Redis, at the first node: {}", doors::redis_line(address)),
        None => "\n  Redis: start with --redis, and any Redis client reaches the first node".to_owned(),
    };
    let curl = match http {
        Some(door) => format!(
            "\n  HTTP, at the first node: curl {web}://{door}/v1/keyspaces\n  Console: {web}://{door}/"
        ),
        None => "\n  HTTP: start with --http 127.0.0.1:7480, and curl and the console reach the first node"
            .to_owned(),
    };
    let emulated = layout.wan.as_ref().map(|wan| format!(", delays as in {wan}")).unwrap_or_default();
    format!(
        "A cluster of {} sites is up{emulated}; its data is in {}.\n\n{table}\n\n  \
         quorate keyspace create accounts --isolation strict --if-absent{connect}\n  \
         quorate shell -k accounts{connect} -e 'put alice 100; get alice'\n\n  \
         Rust: quorate::connect(\"{first}\").await?\n  Python: quorate.connect(\"{first}\"){redis}{curl}\n\nCtrl-C stops it. Its log is {}.",
        layout.sites.len(),
        layout.directory.display(),
        layout.directory.join(LOG).display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_take_their_names_from_the_matrix() {
        assert_eq!(names(2, None).unwrap(), ["site1", "site2"]);
        let tapir = Matrix::builtin("tapir").unwrap();
        assert_eq!(names(2, Some(&tapir)).unwrap(), ["us", "europe"]);
        assert!(matches!(names(4, Some(&tapir)), Err(Failure::Usage(message)) if message.contains("asia")));
    }

    #[test]
    fn a_development_cluster_remembers_what_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let first = remember(directory.path(), Some(5), None).unwrap();
        assert_eq!(remember(directory.path(), None, None).unwrap(), first);
        assert_eq!(first.sites.len(), 5);
        assert!(matches!(remember(directory.path(), Some(3), None), Err(Failure::Usage(_))));
    }

    #[test]
    fn nodes_take_consecutive_ports() {
        let first = |port| SocketAddr::from(([127, 0, 0, 1], port));
        assert_eq!(ports(first(7400), 2).unwrap(), ["127.0.0.1:7400", "127.0.0.1:7401"]);
        assert!(matches!(ports(first(0), 1), Err(Failure::Usage(_))));
        assert_eq!(ports(first(65534), 2).unwrap(), ["127.0.0.1:65534", "127.0.0.1:65535"]);
        let beyond = ports(first(65534), 3);
        assert!(matches!(&beyond, Err(Failure::Usage(told)) if told.contains("there are 2")), "{beyond:?}");
        assert_eq!(pages(first(9100), 3).unwrap(), ["127.0.0.1:9103", "127.0.0.1:9101", "127.0.0.1:9102"]);
        assert!(matches!(pages(first(65533), 3), Err(Failure::Usage(_))), "the door has a port, too");
    }
}
