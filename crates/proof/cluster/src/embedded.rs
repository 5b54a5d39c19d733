//! Server processes on loopback for one measurement.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use quorate::{Database, Durability, Options};
use quorate_core::GroupSize;
use quorate_server::EventLoops;

use super::{Layout, Processes, make_certificates};
use crate::Failure;

/// How long servers that were just started may take until they answer.
const START_TIMEOUT: Duration = Duration::from_secs(15);

/// Server processes in a temporary directory.
pub struct Embedded {
    /// The processes.
    pub processes: Processes,
    /// Their configuration.
    pub layout: Layout,
    /// Removed when this is dropped.
    _directory: tempfile::TempDir,
}

/// How servers go by that are started for a while.
#[derive(Clone, Debug, Default)]
pub struct EmbeddedOptions {
    /// The crashes that the catalogue survives.
    pub durability: Durability,
    /// How replicated logs go by, where that is not as usual.
    pub log: BTreeMap<String, u64>,
    /// The delays between sites to emulate: a built-in matrix or a file.
    pub wan: Option<String>,
    /// True if the servers have certificates, made for them.
    pub tls: bool,
    /// Over how many event loops each server spreads its replicas.
    pub threads: EventLoops,
}

impl Embedded {
    /// Starts a server for each replica, by this program. `log` says how replicated logs go by, where that is not as usual.
    ///
    /// # Errors
    /// If there can be no group of so many replicas, or a process cannot be started.
    pub fn start(
        program: &Path,
        replicas: usize,
        durability: Durability,
        log: BTreeMap<String, u64>,
    ) -> Result<Embedded, Failure> {
        let sites = (1..=replicas).map(|number| format!("site{number}")).collect();
        Embedded::start_at(
            program,
            sites,
            1,
            EmbeddedOptions { durability, log, ..EmbeddedOptions::default() },
        )
    }

    /// Starts servers in so many sites, so many in each.
    ///
    /// # Errors
    /// If there can be no group of the servers of a site, or a process cannot be started.
    pub fn start_in(
        program: &Path,
        sites: usize,
        nodes: usize,
        durability: Durability,
        log: BTreeMap<String, u64>,
    ) -> Result<Embedded, Failure> {
        let sites = (1..=sites).map(|number| format!("site{number}")).collect();
        Embedded::start_at(
            program,
            sites,
            nodes,
            EmbeddedOptions { durability, log, ..EmbeddedOptions::default() },
        )
    }

    /// Starts servers in these sites, so many in each.
    ///
    /// # Errors
    /// If there can be no group of a server of each site, or of those of one, or a process cannot be started.
    pub fn start_at(
        program: &Path,
        sites: Vec<String>,
        nodes: usize,
        options: EmbeddedOptions,
    ) -> Result<Embedded, Failure> {
        for size in [sites.len().min(GroupSize::MAX), nodes] {
            GroupSize::on_log(size).map_err(Failure::usage)?;
        }
        let directory = tempfile::tempdir().map_err(Failure::failed)?;
        let mut layout = Layout {
            cluster: u64::from(std::process::id()),
            nodes: sites
                .iter()
                .flat_map(|site| std::iter::repeat_n((site.clone(), String::new()), nodes))
                .collect(),
            listen: Vec::new(),
            http: Vec::new(),
            sites,
            directory: directory.path().to_owned(),
            wan: options.wan,
            durability: options.durability,
            log: options.log,
            limits: BTreeMap::new(),
            redis: None,
            tls: options.tls.then(|| directory.path().join("certificates")),
            protocol_version: None,
            threads: options.threads,
        };
        if let Some(certificates) = &layout.tls {
            make_certificates(certificates, layout.nodes.len())?;
        }
        let processes = Processes::start(program, &mut layout)?;
        Ok(Embedded { processes, layout, _directory: directory })
    }

    /// Connects as soon as every server answers.
    ///
    /// # Errors
    /// If a server ends or does not start in time, or the connection fails.
    pub async fn connect(&mut self, options: Options) -> Result<Database, Failure> {
        let deadline = Instant::now() + START_TIMEOUT;
        for address in self.layout.addresses() {
            while tokio::net::TcpStream::connect(&address).await.is_err() {
                if let Some(trouble) = self.processes.trouble() {
                    return Err(Failure::failed(trouble));
                }
                if Instant::now() >= deadline {
                    return Err(Failure::failed(format!("the server at {address} does not start")));
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        let certificates = self.layout.client()?.certificates;
        Ok(quorate::connect_with(self.layout.addresses(), Options { certificates, ..options }).await?)
    }
}
