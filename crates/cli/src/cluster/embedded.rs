//! Server processes on loopback for one measurement.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use quorate::{Database, Durability, Options};

use super::{Layout, Processes};
use crate::exit::Failure;

/// How long servers that were just started may take until they answer.
const START_TIMEOUT: Duration = Duration::from_secs(15);

/// Server processes in a temporary directory.
pub(crate) struct Embedded {
    pub(crate) processes: Processes,
    pub(crate) layout: Layout,
    /// Removed when this is dropped.
    _directory: tempfile::TempDir,
}

impl Embedded {
    /// Starts a server for each replica. `log` says how replicated logs go by, where that is not as usual.
    pub(crate) fn start(
        replicas: usize,
        durability: Durability,
        log: BTreeMap<String, u64>,
    ) -> Result<Embedded, Failure> {
        quorate_core::GroupSize::new(replicas).map_err(Failure::usage)?;
        let directory = tempfile::tempdir().map_err(Failure::failed)?;
        let sites: Vec<String> = (1..=replicas).map(|number| format!("site{number}")).collect();
        let mut layout = Layout {
            cluster: u64::from(std::process::id()),
            nodes: sites.iter().map(|site| (site.clone(), String::new())).collect(),
            listen: Vec::new(),
            http: Vec::new(),
            sites,
            directory: directory.path().to_owned(),
            wan: None,
            durability,
            log,
            limits: BTreeMap::new(),
        };
        let processes = Processes::start(&mut layout)?;
        Ok(Embedded { processes, layout, _directory: directory })
    }

    /// Connects as soon as every server answers.
    pub(crate) async fn connect(&mut self, options: Options) -> Result<Database, Failure> {
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
        Ok(quorate::connect_with(self.layout.addresses(), options).await?)
    }
}
