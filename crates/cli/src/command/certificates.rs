//! `quorate certificates`: makes and shows the certificates of nodes and users.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use quorate_certificates::create::{Authority, Made, Validity, paths};
use quorate_certificates::{Certificate, read_certificates};
use quorate_core::NodeId;
use serde_json::{Value, json};

use crate::exit::{Failure, Outcome, Verdict};
use crate::output::print_json;

/// Make and show the certificates by which nodes and users know each other.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quorate certificates create-ca                               certificates/ca.crt and ca.key: keep the key away from the nodes
  quorate certificates create-node 0 --cluster shop --host db0.example.com --host 10.0.0.1
  quorate certificates create-user alice --cluster shop        certificates/user-alice.crt and user-alice.key
  quorate certificates create-node 0 --cluster shop --force    renew: a node that runs takes the new files up by itself
  quorate certificates show certificates/node-0.crt            whose it is, how long it is valid, and its serial number

The name of the cluster is that of [cluster] in the files of its nodes. Keys can be read by their owner alone. Other tools can make certificates as well, with
the identity as a URI among the subject alternative names: quorate://shop/node/0, quorate://shop/user/alice.")]
pub(crate) struct CertificatesArguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make an authority, which signs certificates.
    CreateCa {
        /// Its name, for people.
        #[arg(long, default_value = "Quorate")]
        name: String,
        /// For how many days it is valid.
        #[arg(long, default_value_t = 3_650)]
        days: u32,
        #[command(flatten)]
        common: Common,
    },
    /// Make the certificate of a node.
    CreateNode {
        /// Its number. A node that joins a cluster gets the next one: `quorate cluster status` shows those that there are.
        node: u16,
        /// The name of its cluster.
        #[arg(long, value_name = "NAME")]
        cluster: String,
        /// A name or an address at which clients of its doors find it; localhost is always among them.
        #[arg(long = "host", value_name = "HOST")]
        hosts: Vec<String>,
        #[command(flatten)]
        signing: Signing,
        #[command(flatten)]
        common: Common,
    },
    /// Make the certificate of a user.
    CreateUser {
        /// Its name.
        name: String,
        /// The name of the cluster.
        #[arg(long, value_name = "NAME")]
        cluster: String,
        #[command(flatten)]
        signing: Signing,
        #[command(flatten)]
        common: Common,
    },
    /// Show the certificates of a file.
    Show {
        /// The file, in PEM.
        file: PathBuf,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Args, Debug)]
struct Common {
    /// Where the files are, and are made.
    #[arg(long, value_name = "DIR", default_value = "certificates")]
    dir: PathBuf,
    /// Replace files that exist.
    #[arg(long)]
    force: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct Signing {
    /// For how many days the certificate is valid.
    #[arg(long, default_value_t = 365)]
    days: u32,
    /// The certificate of the authority, if it is not ca.crt in the directory.
    #[arg(long, value_name = "FILE", requires = "ca_key")]
    ca: Option<PathBuf>,
    /// Its key, if it is not ca.key in the directory.
    #[arg(long, value_name = "FILE", requires = "ca")]
    ca_key: Option<PathBuf>,
}

impl Signing {
    fn authority(&self, directory: &Path) -> Result<Authority, Failure> {
        let (certificate, key) = paths(directory, "ca");
        let (certificate, key) =
            (self.ca.as_ref().unwrap_or(&certificate), self.ca_key.as_ref().unwrap_or(&key));
        Authority::read(certificate, key).map_err(|error| {
            Failure::usage(format!("{error}; `quorate certificates create-ca` makes an authority"))
        })
    }
}

impl CertificatesArguments {
    pub(crate) fn run(self) -> Outcome {
        match self.action {
            Action::CreateCa { name, days, common } => {
                let (_, made) = Authority::make(&name, validity(days)?).map_err(Failure::failed)?;
                common.write(&made, "ca")
            }
            Action::CreateNode { node, cluster, hosts, signing, common } => {
                let authority = signing.authority(&common.dir)?;
                let made = authority.node(&cluster, NodeId(node), &hosts, validity(signing.days)?);
                common.write(&made.map_err(Failure::usage)?, &format!("node-{node}"))
            }
            Action::CreateUser { name, cluster, signing, common } => {
                let authority = signing.authority(&common.dir)?;
                let made = authority.user(&cluster, &name, validity(signing.days)?);
                common.write(&made.map_err(Failure::usage)?, &format!("user-{name}"))
            }
            Action::Show { file, json } => show(&file, json),
        }
    }
}

impl Common {
    /// Writes a certificate with its key, and says where.
    fn write(&self, made: &Made, stem: &str) -> Outcome {
        let (path, key) = made.write(&self.dir, stem, self.force).map_err(Failure::usage)?;
        let certificate = first(&path)?;
        if self.json {
            let mut told = to_json(&certificate);
            told["certificate"] = path.display().to_string().into();
            told["key"] = key.display().to_string().into();
            print_json(&told)?;
        } else {
            outln!("{} is valid until {}", certificate.describe(), certificate.not_after);
            outln!("  certificate  {}\n  key          {} (keep it secret)", path.display(), key.display());
        }
        Ok(Verdict::Good)
    }
}

fn validity(days: u32) -> Result<Validity, Failure> {
    Validity::days(days).map_err(Failure::usage)
}

fn read(path: &Path) -> Result<Vec<Certificate>, Failure> {
    let found = read_certificates(path).map_err(Failure::usage)?;
    let unreadable = || Failure::usage(format!("{} holds a certificate that cannot be read", path.display()));
    found.iter().map(|certificate| Certificate::read(certificate).ok_or_else(unreadable)).collect()
}

fn first(path: &Path) -> Result<Certificate, Failure> {
    let mut found = read(path)?;
    Ok(found.swap_remove(0))
}

fn show(file: &Path, json: bool) -> Outcome {
    let certificates = read(file)?;
    if json {
        let told: Vec<Value> = certificates.iter().map(to_json).collect();
        print_json(&json!({ "certificates": told }))?;
        return Ok(Verdict::Good);
    }
    for certificate in &certificates {
        let row = |name: &str, value: String| outln!("  {name:<12} {value}");
        let identity = certificate.identity.as_ref().map(ToString::to_string);
        row("identity", identity.unwrap_or_else(|| "none".to_owned()));
        row("subject", certificate.subject.clone());
        row("signed by", certificate.issuer.clone());
        row("serial", certificate.serial.clone());
        row("valid from", certificate.not_before.to_string());
        row("valid until", certificate.not_after.to_string());
        row("hosts", certificate.hosts.join(", "));
    }
    Ok(Verdict::Good)
}

fn to_json(certificate: &Certificate) -> Value {
    json!({
        "identity": certificate.identity.as_ref().map(|identity| identity.to_uri()),
        "subject": certificate.subject,
        "issuer": certificate.issuer,
        "serial": certificate.serial,
        "valid_from": certificate.not_before.to_string(),
        "valid_until": certificate.not_after.to_string(),
        "hosts": certificate.hosts,
    })
}
