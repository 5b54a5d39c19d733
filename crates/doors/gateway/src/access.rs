//! The copy of users, roles and tokens that rights are decided from, the same for all threads of a gateway.
//!
//! One thread asks the cluster for the number of their last change, some times a second, and reads them when it is another one. So a change is in force within a
//! second, on connections that are open too. While the cluster cannot be asked, the copy stays as it is; before it was read for the first time, nothing is decided.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use quorate::rights::Access;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::session::Shared;

/// How often the cluster is asked,
const PERIOD: Duration = Duration::from_millis(200);

/// and how long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// The copy; none before it was read.
pub(crate) type Known = watch::Receiver<Option<Arc<Access>>>;

/// Keeps the copy for as long as the gateway is open.
pub(crate) async fn keep(shared: Rc<Shared>, told: watch::Sender<Option<Arc<Access>>>) {
    let (mut seen, mut is_behind) = (None, false);
    loop {
        let read = async { shared.database().await?.access_since(seen).await };
        let problem = match timeout(PATIENCE, read).await {
            Ok(Ok((version, access))) => {
                seen = Some(version);
                if let Some(access) = access {
                    log_change(told.borrow().as_deref(), &access);
                    told.send_replace(Some(Arc::new(access)));
                }
                None
            }
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("no answer within {PATIENCE:?}")),
        };
        match problem {
            Some(problem) if !is_behind => {
                tracing::warn!(%problem, "users and roles cannot be read: rights stay as they were known last");
                is_behind = true;
            }
            None if is_behind => {
                tracing::info!("users and roles can be read again");
                is_behind = false;
            }
            _ => {}
        }
        sleep(PERIOD).await;
    }
}

fn log_change(before: Option<&Access>, now: &Access) {
    let users = now.users().count();
    match before {
        None if now.is_in_force() => tracing::info!(users, "access control is in force"),
        None => {
            tracing::warn!(
                "access control is not in force: any client that reaches a door may do everything, until `quorate user create NAME --administrator`"
            );
        }
        Some(before) if before.is_in_force() != now.is_in_force() => {
            tracing::warn!(users, "access control is in force from now on");
        }
        Some(_) => tracing::info!(users, "users, roles or tokens have changed"),
    }
}
