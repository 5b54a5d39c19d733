//! `quorate user`: creates, changes, lists and drops users.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use quorate::rights::{Access, Grant, Right, User, UserLimits};
use quorate::{Database, UserChange};
use serde_json::{Value, json};

use super::super::secrets;
use super::{list, parse_grant};
use crate::command::Common;
use crate::exit::{Failure, Outcome, Verdict};
use crate::output::{Align, Table, print_json};
use crate::runtime::block_on;

/// Create, change, list and drop users. The first one is an administrator, and puts access control in force.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quorate user create root --administrator                      asks for a password; from now on others need a user, too
  quorate user create shop --grant read,write:accounts --grant read:prices:eu/
  quorate user create backup --new-password-file /run/secrets/backup --role readers
  quorate user create node-client --certificate-name client.example.com --grant coordinate:accounts
  quorate user grant shop write:_channels:news.                 publish on channels that begin with news.
  quorate user revoke shop write:accounts
  quorate user limit shop --requests-per-second 500 --connections 20
  quorate user password shop --new-password-file -                  reads it from standard input
  quorate user disable shop
  quorate user list --json

A grant is RIGHTS:KEYSPACE or RIGHTS:KEYSPACE:PREFIX, with * for all keyspaces and _channels for channels. Rights are read, write (which
includes read), deploy, coordinate and administer. docs/access.md says what each allows. Changes are in force within a second.")]
pub(crate) struct UserArguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Create a user. Without a certificate a password is asked for.
    Create {
        /// Its name.
        name: String,
        #[command(flatten)]
        new: NewUser,
        #[command(flatten)]
        common: Common,
    },
    /// List the users with their grants, or one of them.
    List {
        /// Only this one.
        name: Option<String>,
        #[command(flatten)]
        common: Common,
    },
    /// Drop a user and its tokens.
    Drop {
        /// Its name.
        name: String,
        #[command(flatten)]
        common: Common,
    },
    /// Give it a new password: connections that have used the old one may do nothing from then on.
    Password {
        /// Its name.
        name: String,
        /// Read the password from the first line of this file, or from standard input with -; by default it is asked for.
        #[arg(long, value_name = "FILE")]
        new_password_file: Option<PathBuf>,
        /// Take its password away.
        #[arg(long, conflicts_with = "new_password_file")]
        none: bool,
        #[command(flatten)]
        common: Common,
    },
    /// Give it rights, or a role.
    Grant {
        /// Its name.
        name: String,
        #[command(flatten)]
        change: Change,
        #[command(flatten)]
        common: Common,
    },
    /// Take rights away, or a role.
    Revoke {
        /// Its name.
        name: String,
        #[command(flatten)]
        change: Change,
        #[command(flatten)]
        common: Common,
    },
    /// Set what it may use at each node; what is left out is not limited.
    Limit {
        /// Its name.
        name: String,
        #[command(flatten)]
        limits: LimitArguments,
        #[command(flatten)]
        common: Common,
    },
    /// Let it do nothing for now.
    Disable {
        /// Its name.
        name: String,
        #[command(flatten)]
        common: Common,
    },
    /// Let it do again what it may.
    Enable {
        /// Its name.
        name: String,
        #[command(flatten)]
        common: Common,
    },
}

#[derive(Args, Clone, Debug)]
struct NewUser {
    /// It may administer all keyspaces, and with them the cluster and its users.
    #[arg(long)]
    administrator: bool,
    /// A grant, as in read,write:accounts; may be given several times.
    #[arg(long, value_name = "GRANT", value_parser = parse_grant)]
    grant: Vec<Grant>,
    /// A role; may be given several times.
    #[arg(long, value_name = "ROLE")]
    role: Vec<String>,
    /// The name of a certificate that it comes with; may be given several times.
    #[arg(long, value_name = "NAME")]
    certificate_name: Vec<String>,
    /// Read its password from the first line of this file, or from standard input with -; by default it is asked for.
    #[arg(long, value_name = "FILE")]
    new_password_file: Option<PathBuf>,
    /// It has no password: it comes with a certificate, or with tokens.
    #[arg(long, conflicts_with = "new_password_file")]
    no_password: bool,
    #[command(flatten)]
    limits: LimitArguments,
}

#[derive(Args, Clone, Debug)]
struct Change {
    /// The grants that are given or taken away, as in read,write:accounts.
    #[arg(value_name = "GRANT", value_parser = parse_grant, required_unless_present_any = ["role", "certificate_name"])]
    grants: Vec<Grant>,
    /// A role; may be given several times.
    #[arg(long, value_name = "ROLE")]
    role: Vec<String>,
    /// The name of a certificate that it comes with; may be given several times.
    #[arg(long, value_name = "NAME")]
    certificate_name: Vec<String>,
}

#[derive(Args, Clone, Copy, Debug)]
struct LimitArguments {
    /// So many requests or commands in a second.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    requests_per_second: Option<u32>,
    /// So many bytes of requests in a second.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    bytes_per_second: Option<u64>,
    /// So many open transactions at a time.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    open_transactions: Option<u32>,
    /// So many connections at a time.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    connections: Option<u32>,
}

impl LimitArguments {
    fn limits(self) -> UserLimits {
        UserLimits {
            requests_per_second: self.requests_per_second,
            bytes_per_second: self.bytes_per_second,
            open_transactions: self.open_transactions,
            connections: self.connections,
        }
    }
}

impl NewUser {
    fn user(self, name: &str) -> Result<User, Failure> {
        let needs_password =
            !self.no_password && (self.certificate_name.is_empty() || self.new_password_file.is_some());
        let password = match needs_password {
            true => Some(secrets::read_new(self.new_password_file.as_deref())?),
            false => None,
        };
        let administrator = self.administrator.then(|| Grant::new([Right::Administer], None));
        let mut grants: Vec<Grant> = self.grant.into_iter().chain(administrator).collect();
        grants.sort_unstable();
        let user = User {
            password,
            certificates: self.certificate_name,
            roles: self.role,
            grants,
            limits: self.limits.limits(),
            ..User::new(name)
        };
        user.validate().map_err(Failure::usage)?;
        Ok(user)
    }
}

impl Change {
    fn changes(
        self,
        grant: fn(Grant) -> UserChange,
        role: fn(String) -> UserChange,
        certificate: fn(String) -> UserChange,
    ) -> Vec<UserChange> {
        let grants = self.grants.into_iter().map(grant);
        let roles = self.role.into_iter().map(role);
        grants.chain(roles).chain(self.certificate_name.into_iter().map(certificate)).collect()
    }
}

/// The request to the cluster, once files and people have been asked.
enum Asked {
    Create(User),
    List(Option<String>),
    Drop(String),
    Change(String, Vec<UserChange>, &'static str),
}

impl UserArguments {
    pub(crate) fn run(self) -> Outcome {
        let (asked, common) = self.action.prepare()?;
        block_on(async { common.connected(async |db| asked.act(db, common.json).await).await })
    }
}

impl Action {
    fn prepare(self) -> Result<(Asked, Common), Failure> {
        Ok(match self {
            Action::Create { name, new, common } => (Asked::Create(new.user(&name)?), common),
            Action::List { name, common } => (Asked::List(name), common),
            Action::Drop { name, common } => (Asked::Drop(name), common),
            Action::Password { name, new_password_file, none, common } => {
                let password =
                    if none { None } else { Some(secrets::read_new(new_password_file.as_deref())?) };
                (Asked::Change(name, vec![UserChange::Password(password)], "has a new password"), common)
            }
            Action::Grant { name, change, common } => {
                let changes =
                    change.changes(UserChange::Grant, UserChange::AddRole, UserChange::AddCertificate);
                (Asked::Change(name, changes, "is changed"), common)
            }
            Action::Revoke { name, change, common } => {
                let changes =
                    change.changes(UserChange::Revoke, UserChange::RemoveRole, UserChange::RemoveCertificate);
                (Asked::Change(name, changes, "is changed"), common)
            }
            Action::Limit { name, limits, common } => {
                (Asked::Change(name, vec![UserChange::Limits(limits.limits())], "is changed"), common)
            }
            Action::Disable { name, common } => {
                (Asked::Change(name, vec![UserChange::Disable(true)], "is disabled"), common)
            }
            Action::Enable { name, common } => {
                (Asked::Change(name, vec![UserChange::Disable(false)], "is enabled"), common)
            }
        })
    }
}

impl Asked {
    async fn act(self, db: &Database, json: bool) -> Outcome {
        let (name, done) = match self {
            Asked::Create(user) => {
                db.create_user(&user).await?;
                (user.name, "is created")
            }
            Asked::Drop(name) => {
                db.drop_user(&name).await?;
                (name, "is dropped")
            }
            Asked::Change(name, changes, done) => {
                db.change_user(&name, &changes).await?;
                (name, done)
            }
            Asked::List(name) => return show(&db.access().await?, name.as_deref(), json),
        };
        if json {
            print_json(&json!({ "user": name, "done": done }))?;
        } else {
            outln!("user {name} {done}");
        }
        Ok(Verdict::Good)
    }
}

fn show(access: &Access, name: Option<&str>, json: bool) -> Outcome {
    if let Some(name) = name.filter(|name| access.user(name).is_none()) {
        return Err(Failure::failed(format!("there is no user {name:?}")));
    }
    let users: Vec<&User> = access.users().filter(|user| name.is_none_or(|name| user.name == name)).collect();
    if json {
        let users: Vec<Value> = users.iter().map(|user| to_json(access, user)).collect();
        print_json(&json!({ "access_control": access.is_in_force(), "users": users }))?;
        return Ok(Verdict::Good);
    }
    if !access.is_in_force() {
        outln!("There are no users: access control is not in force, and every client may do everything.");
        return Ok(Verdict::Good);
    }
    let mut table = Table::new(&[
        ("user", Align::Left),
        ("logs in by", Align::Left),
        ("roles", Align::Left),
        ("grants", Align::Left),
    ]);
    for user in users {
        let name = if user.is_disabled { format!("{} (disabled)", user.name) } else { user.name.clone() };
        table.row([name, credentials(access, user).join(" "), user.roles.join(" "), list(&user.grants)]);
    }
    outln!("{table}");
    Ok(Verdict::Good)
}

/// How a user may show who it is, by kind.
fn credentials(access: &Access, user: &User) -> Vec<&'static str> {
    let tokens = access.tokens().filter(|(_, token)| token.user == user.name).count();
    [
        (user.password.is_some(), "password"),
        (!user.certificates.is_empty(), "certificate"),
        (tokens > 0, "token"),
    ]
    .into_iter()
    .filter_map(|(has, what)| has.then_some(what))
    .collect()
}

fn to_json(access: &Access, user: &User) -> Value {
    json!({
        "name": user.name,
        "is_disabled": user.is_disabled,
        "is_administrator": access.administrators().any(|known| known.name == user.name),
        "credentials": credentials(access, user),
        "certificates": user.certificates,
        "roles": user.roles,
        "grants": user.grants.iter().map(Grant::to_string).collect::<Vec<_>>(),
        "all_grants": access.grants_of(&user.name).iter().map(Grant::to_string).collect::<Vec<_>>(),
        "limits": {
            "requests_per_second": user.limits.requests_per_second,
            "bytes_per_second": user.limits.bytes_per_second,
            "open_transactions": user.limits.open_transactions,
            "connections": user.limits.connections,
        },
    })
}
