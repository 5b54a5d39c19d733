//! `quorate role`: grants that users share.

use clap::{Args, Subcommand};
use quorate::rights::{Grant, Role};
use quorate::{Database, RoleChange};
use serde_json::json;

use super::{list, parse_grant};
use crate::command::Common;
use crate::exit::{Outcome, Verdict};
use crate::output::{Align, Table, print_json};
use crate::runtime::block_on;

/// Create, change, list and drop roles: grants that users share.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quorate role create readers read:accounts read:prices
  quorate user grant shop --role readers
  quorate role grant readers read:orders                 all users of the role may read it from now on
  quorate role revoke readers read:prices
  quorate role list --json
  quorate role drop readers")]
pub(crate) struct RoleArguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Create a role.
    Create(Changed),
    /// Let it give more.
    Grant(Changed),
    /// Let it give less.
    Revoke(Changed),
    /// Drop a role: its users have its grants no longer.
    Drop {
        /// Its name.
        name: String,
        #[command(flatten)]
        common: Common,
    },
    /// List the roles with their grants.
    List {
        #[command(flatten)]
        common: Common,
    },
}

#[derive(Args, Clone, Debug)]
struct Changed {
    /// Its name.
    name: String,
    /// A grant of the role, as in read,write:accounts.
    #[arg(value_name = "GRANT", value_parser = parse_grant, required = true)]
    grants: Vec<Grant>,
    #[command(flatten)]
    common: Common,
}

impl RoleArguments {
    pub(crate) fn run(self) -> Outcome {
        let common = match &self.action {
            Action::Create(changed) | Action::Grant(changed) | Action::Revoke(changed) => {
                changed.common.clone()
            }
            Action::Drop { common, .. } | Action::List { common } => common.clone(),
        };
        block_on(async { common.connected(async |db| self.action.act(db, common.json).await).await })
    }
}

impl Action {
    async fn act(self, db: &Database, json: bool) -> Outcome {
        let (name, done) = match self {
            Action::Create(Changed { name, grants, .. }) => {
                db.create_role(&Role { name: name.clone(), grants }).await?;
                (name, "is created")
            }
            Action::Grant(Changed { name, grants, .. }) => {
                let changes: Vec<_> = grants.into_iter().map(RoleChange::Grant).collect();
                db.change_role(&name, &changes).await?;
                (name, "is changed")
            }
            Action::Revoke(Changed { name, grants, .. }) => {
                let changes: Vec<_> = grants.into_iter().map(RoleChange::Revoke).collect();
                db.change_role(&name, &changes).await?;
                (name, "is changed")
            }
            Action::Drop { name, .. } => {
                db.drop_role(&name).await?;
                (name, "is dropped")
            }
            Action::List { .. } => {
                let access = db.access().await?;
                if json {
                    let grants = |role: &Role| role.grants.iter().map(Grant::to_string).collect::<Vec<_>>();
                    let roles: Vec<_> = access
                        .roles()
                        .map(|role| json!({ "name": role.name, "grants": grants(role) }))
                        .collect();
                    print_json(&json!({ "roles": roles }))?;
                } else {
                    let mut table = Table::new(&[("role", Align::Left), ("grants", Align::Left)]);
                    access.roles().for_each(|role| table.row([role.name.clone(), list(&role.grants)]));
                    outln!("{table}");
                }
                return Ok(Verdict::Good);
            }
        };
        if json {
            print_json(&json!({ "role": name, "done": done }))?;
        } else {
            outln!("role {name} {done}");
        }
        Ok(Verdict::Good)
    }
}
