//! The commands, one per file.

mod access;
mod backup;
mod bench;
mod certificates;
mod changes;
mod check;
mod cluster;
mod demo;
mod dev;
mod doors;
mod drops;
mod experiment;
mod index;
mod keyspace;
mod manual;
mod procedure;
mod report;
mod secrets;
mod server;
mod shell;
mod sim;
mod sweeping;
mod torture;
mod trace;
mod transfer;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use quorate::{Certificates, Credential, Database};

use crate::exit::{Failure, Outcome};

pub(crate) use drops::{DropArguments, UndropArguments};
pub(crate) use index::{Acted, IndexAction, lines as index_lines, to_json as index_json};
pub(crate) use keyspace::{CreateArguments, created_json, created_lines, definition_lines, to_json};

/// Where servers listen unless told otherwise.
pub(crate) const DEFAULT_ADDRESS: &str = "127.0.0.1:7400";

/// The commands of `quorate`.
#[derive(Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "there is one in the life of a process")]
pub(crate) enum Command {
    Demo(demo::DemoArguments),
    Dev(dev::DevArguments),
    Server(server::ServerArguments),
    Shell(shell::ShellArguments),
    Trace(trace::TraceArguments),
    Keyspace(keyspace::KeyspaceArguments),
    Procedure(procedure::ProcedureArguments),
    Cluster(cluster::ClusterArguments),
    Certificates(certificates::CertificatesArguments),
    Changes(changes::ChangesArguments),
    Backup(backup::BackupArguments),
    Restore(backup::RestoreArguments),
    Export(transfer::ExportArguments),
    Import(transfer::ImportArguments),
    User(access::UserArguments),
    Role(access::RoleArguments),
    Token(access::TokenArguments),
    Bench(bench::BenchArguments),
    Sim(sim::SimArguments),
    Check(check::CheckArguments),
    Torture(torture::TortureArguments),
    Experiment(experiment::ExperimentArguments),
    Report(report::ReportArguments),
    Completions(manual::CompletionsArguments),
    Man(manual::ManArguments),
}

impl Command {
    pub(crate) fn run(self) -> Outcome {
        match self {
            Command::Demo(arguments) => arguments.run(),
            Command::Dev(arguments) => arguments.run(),
            Command::Server(arguments) => arguments.run(),
            Command::Shell(arguments) => arguments.run(),
            Command::Trace(arguments) => arguments.run(),
            Command::Keyspace(arguments) => arguments.run(),
            Command::Procedure(arguments) => arguments.run(),
            Command::Cluster(arguments) => arguments.run(),
            Command::Certificates(arguments) => arguments.run(),
            Command::Changes(arguments) => arguments.run(),
            Command::Backup(arguments) => arguments.run(),
            Command::Restore(arguments) => arguments.run(),
            Command::Export(arguments) => arguments.run(),
            Command::Import(arguments) => arguments.run(),
            Command::User(arguments) => arguments.run(),
            Command::Role(arguments) => arguments.run(),
            Command::Token(arguments) => arguments.run(),
            Command::Bench(arguments) => arguments.run(),
            Command::Sim(arguments) => arguments.run(),
            Command::Check(arguments) => arguments.run(),
            Command::Torture(arguments) => arguments.run(),
            Command::Experiment(arguments) => arguments.run(),
            Command::Report(arguments) => arguments.run(),
            Command::Completions(arguments) => arguments.run(),
            Command::Man(arguments) => arguments.run(),
        }
    }
}

/// How to reach a cluster.
#[derive(Args, Clone, Debug)]
pub(crate) struct ConnectArguments {
    /// The address of any node, or several with commas between them; the port is 7400 if none is named.
    #[arg(long, value_name = "ADDR", default_value = DEFAULT_ADDRESS)]
    pub(crate) connect: String,
    #[command(flatten)]
    pub(crate) tls: TlsArguments,
    #[command(flatten)]
    pub(crate) login: LoginArguments,
}

impl ConnectArguments {
    /// The options with which to connect.
    pub(crate) fn options(&self) -> Result<quorate::Options, Failure> {
        let (certificates, credential) = (self.tls.certificates()?, self.login.credential()?);
        Ok(quorate::Options { certificates, credential, ..quorate::Options::default() })
    }

    /// Connects.
    pub(crate) async fn open(&self) -> Result<Database, Failure> {
        let options = self.options()?;
        Ok(quorate::connect_with(self.connect.as_str(), options).await?)
    }
}

/// The certificates for a cluster whose nodes have certificates.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct TlsArguments {
    /// The authorities that are believed, in PEM: connect by TLS.
    #[arg(long, value_name = "FILE", requires_all = ["certificate", "certificate_key"])]
    pub(crate) ca: Option<PathBuf>,
    /// The certificate of the user as which to connect.
    #[arg(long, value_name = "FILE", requires = "ca")]
    pub(crate) certificate: Option<PathBuf>,
    /// The key of that certificate.
    #[arg(long, value_name = "FILE", requires = "ca")]
    pub(crate) certificate_key: Option<PathBuf>,
}

impl TlsArguments {
    /// Reads them; none if none are named.
    pub(crate) fn certificates(&self) -> Result<Option<Certificates>, Failure> {
        match (&self.ca, &self.certificate, &self.certificate_key) {
            (Some(ca), Some(certificate), Some(key)) => {
                Certificates::load(ca, certificate, key).map(Some).map_err(Failure::usage)
            }
            _ => Ok(None),
        }
    }
}

/// As which user to connect, where a certificate does not say so.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct LoginArguments {
    /// Log in as this user, by its password; without a file it is asked for.
    #[arg(long, value_name = "NAME", conflicts_with = "token_file")]
    pub(crate) user: Option<String>,
    /// Read that password from the first line of this file, or from standard input with -.
    #[arg(long, value_name = "FILE", requires = "user")]
    pub(crate) password_file: Option<PathBuf>,
    /// Log in by the token in the first line of this file. The file `token` in the data directory of a node lets its operator do everything.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}

impl LoginArguments {
    /// Reads the credential; none if none is named.
    pub(crate) fn credential(&self) -> Result<Option<Credential>, Failure> {
        if let Some(path) = &self.token_file {
            return Ok(Some(Credential::token(secrets::from_file("token", path)?)));
        }
        let Some(user) = &self.user else { return Ok(None) };
        let password = secrets::read_known(user, self.password_file.as_deref())?;
        Ok(Some(Credential::password(user, password)))
    }
}

/// How to reach a cluster, and what to print.
#[derive(Args, Clone, Debug)]
pub(crate) struct Common {
    #[command(flatten)]
    connect: ConnectArguments,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

impl Common {
    /// Connects, does something, and closes the connection.
    pub(crate) async fn connected(&self, act: impl AsyncFnOnce(&Database) -> Outcome) -> Outcome {
        let db = self.connect.open().await?;
        let outcome = act(&db).await;
        db.close().await;
        outcome
    }
}
