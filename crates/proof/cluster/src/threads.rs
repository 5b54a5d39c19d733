//! A cluster of threads of this process.

use std::net::TcpListener;

use quorate_runtime::ports::free_listeners;
use quorate_server::{Initialise, Server, Sockets};

use super::Layout;
use crate::Failure;

/// Servers that run on threads of this process.
#[derive(Debug)]
pub struct Threads {
    servers: Vec<Server>,
}

impl Threads {
    /// The nodes.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// Starts every node of the layout; one that has no data yet is initialised.
    ///
    /// # Errors
    /// If a node cannot be started.
    pub fn start(layout: &Layout) -> Result<Threads, Failure> {
        Self::start_on(layout, (0..layout.nodes.len()).map(|_| None).collect())
    }

    /// Fills in the addresses of the layout with free ports, and starts every node.
    ///
    /// # Errors
    /// If there is no port, or a node cannot be started.
    pub fn start_anywhere(layout: &mut Layout) -> Result<Threads, Failure> {
        let failed = |error| Failure::failed(format!("cannot listen on 127.0.0.1: {error}"));
        let nodes = u16::try_from(layout.nodes.len()).map_err(Failure::failed)?;
        let listeners = free_listeners(nodes).map_err(failed)?;
        for ((_, address), listener) in layout.nodes.iter_mut().zip(&listeners) {
            *address = listener.local_addr().map_err(failed)?.to_string();
        }
        Self::start_on(layout, listeners.into_iter().map(Some).collect())
    }

    fn start_on(layout: &Layout, listeners: Vec<Option<TcpListener>>) -> Result<Threads, Failure> {
        let mut servers = Vec::with_capacity(listeners.len());
        for (node, listener) in listeners.into_iter().enumerate() {
            let is_new = !layout.data_directory(node).join("identity.toml").exists();
            let initialise = if is_new { Initialise::New } else { Initialise::No };
            let sockets = Sockets { node: listener, http: None };
            let server = Server::start_with(layout.config(node)?, initialise, sockets);
            servers.push(server.map_err(Failure::failed)?);
        }
        Ok(Threads { servers })
    }

    /// The servers, in the order of their nodes.
    pub(crate) fn into_servers(self) -> Vec<Server> {
        self.servers
    }

    /// Waits until a node has failed.
    pub async fn failed(&self) {
        let mut stopped: Vec<_> = self.servers.iter().map(|server| Box::pin(server.stopped())).collect();
        std::future::poll_fn(|context| {
            if stopped.iter_mut().any(|stopped| stopped.as_mut().poll(context).is_ready()) {
                std::task::Poll::Ready(())
            } else {
                std::task::Poll::Pending
            }
        })
        .await;
    }

    /// Stops every node in good order, all at the same time.
    ///
    /// # Errors
    /// If a node fails meanwhile.
    pub fn shutdown(self) -> Result<(), Failure> {
        let stopping: Vec<_> =
            self.servers.into_iter().map(|server| std::thread::spawn(|| server.shutdown())).collect();
        for thread in stopping {
            thread
                .join()
                .map_err(|_| Failure::failed("a node failed while it was stopped"))?
                .map_err(Failure::failed)?;
        }
        Ok(())
    }
}
