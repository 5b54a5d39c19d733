//! `quorate keyspace`: creates, lists, shows, resizes and drops keyspaces, and brings them back.

use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use quorate::topology::{
    Decisions, Grants, Keyspace as Definition, SerialOrder, Shard, Speculation, SpeculationVariant,
    Timestamping,
};
use quorate::{
    Database, Durability, Ensured, Isolation, Key, KeyspaceOptions, ReplicaChange, Retention, Rival,
    ServingProgress, end_of_prefix,
};
use serde_json::json;

use super::Common;
use super::cluster::replicas::{self, Patience};
use super::drops::{self, DropArguments, ForgetArguments, UndropArguments};
use super::index::IndexAction;
use crate::exit::{Failure, Outcome, Verdict};
use crate::output::{Align, Progress, Table, print_json};
use crate::parse;
use crate::runtime::block_on;

/// Create, list, show, resize and drop keyspaces, and bring them back.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quorate keyspace create accounts --isolation strict
  quorate keyspace create accounts --isolation strict --if-absent
  quorate keyspace create shop --isolation snapshot --variant str-internal
  quorate keyspace create counts --isolation strict --order timestamps --retry-ahead-ms 2
  quorate keyspace create bank --isolation serializable --application bank
  quorate keyspace create feed --isolation strict --shards 8 --sites us,europe,asia
  quorate keyspace list --json
  quorate keyspace show accounts
  quorate keyspace resize accounts 5 --sites us,europe,asia
  quorate keyspace drop accounts --connect 10.0.0.1:7400
  quorate keyspace drop scratch --delete-after 0s
  quorate keyspace list --dropped
  quorate keyspace undrop accounts --as accounts-of-yesterday
  quorate keyspace index create users by-city --on json:/city
  quorate keyspace sweep shop --prefix request/")]
pub(crate) struct KeyspaceArguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Create a keyspace.
    Create {
        #[command(flatten)]
        create: CreateArguments,
        /// How many seconds to wait until all shards serve, once it is created; by default 30, and a tenth for each shard.
        #[arg(long, value_name = "SECONDS")]
        patience: Option<u64>,
        #[command(flatten)]
        common: Common,
    },
    /// Wait until all shards of a keyspace serve.
    Wait {
        /// Its name.
        #[arg(value_name = "KEYSPACE")]
        name: String,
        /// How many seconds to wait; by default 30, and a tenth for each shard.
        #[arg(long, value_name = "SECONDS")]
        patience: Option<u64>,
        #[command(flatten)]
        common: Common,
    },
    /// List the keyspaces.
    List {
        /// List those that were dropped and can be brought back.
        #[arg(long)]
        dropped: bool,
        #[command(flatten)]
        common: Common,
    },
    /// Show where the shards of a keyspace are.
    Show {
        /// Its name.
        #[arg(value_name = "KEYSPACE")]
        name: String,
        #[command(flatten)]
        common: Common,
    },
    /// Give every shard of a keyspace so many replicas, while it is used: further ones first in sites that have none, and away from
    /// those that have most.
    Resize {
        /// Its name.
        #[arg(value_name = "KEYSPACE")]
        name: String,
        /// How many, an odd number.
        replicas: usize,
        /// The sites where further ones may be, with commas between them; by default all.
        #[arg(long, value_delimiter = ',')]
        sites: Vec<String>,
        /// Do it although shards will survive the loss of no node.
        #[arg(long)]
        confirm: bool,
        #[command(flatten)]
        patience: Patience,
        #[command(flatten)]
        common: Common,
    },
    /// Drop a keyspace and everything in it. It serves nobody from then on; its data is deleted after a delay.
    Drop {
        #[command(flatten)]
        drop: DropArguments,
        #[command(flatten)]
        common: Common,
    },
    /// Bring back a keyspace that was dropped, with everything in it.
    Undrop {
        #[command(flatten)]
        undrop: UndropArguments,
        #[command(flatten)]
        common: Common,
    },
    /// Record that a keyspace was dropped of which nodes hold replicas and that the catalogue does not know, so that they are deleted.
    Forget {
        #[command(flatten)]
        forget: ForgetArguments,
        #[command(flatten)]
        common: Common,
    },
    /// Create, list and drop indexes, by which keys are found by a part of their values.
    Index {
        #[command(subcommand)]
        action: IndexAction,
        #[command(flatten)]
        common: Common,
    },
    /// Delete the markers of transactions that commit once whose time is over, from the keys with a prefix. Other keys stay as they are.
    Sweep {
        /// The name of the keyspace.
        #[arg(value_name = "KEYSPACE")]
        name: String,
        /// The first bytes of the markers' keys, as text.
        #[arg(long)]
        prefix: String,
        #[command(flatten)]
        common: Common,
    },
}

/// The properties of a new keyspace; also a statement of the shell.
#[derive(Args, Clone, Debug)]
pub(crate) struct CreateArguments {
    /// Its name: letters, digits, `-`, `_` and `.`, beginning with a letter.
    pub(crate) name: String,
    #[arg(long, default_value_t = Isolation::Strict, help = format!("What its transactions are promised. {}", Isolation::described()), hide_possible_values = true,
        value_parser = parse::one_of::<Isolation>(Isolation::ALL.map(Isolation::name)))]
    isolation: Isolation,
    /// Into how many shards its keys are divided.
    #[arg(long, default_value_t = 1)]
    shards: usize,
    /// How many replicas each shard has, an odd number, or any for `snapshot`; by default one in each site.
    #[arg(long)]
    replicas: Option<usize>,
    /// The sites that hold it, with commas between them; by default all.
    #[arg(long, value_delimiter = ',')]
    sites: Vec<String>,
    /// The failures that acknowledged writes survive: `sync`, the loss of power everywhere; `memory`, that of a minority.
    #[arg(long, default_value_t = Durability::Sync, hide_possible_values = true,
        value_parser = parse::one_of::<Durability>(Durability::ALL.map(Durability::name)))]
    durability: Durability,
    /// How many milliseconds the clocks of all clients are apart at most. Commits take as long at least, and snapshots can
    /// be read by the clock.
    #[arg(long, value_name = "MILLISECONDS")]
    clock_bound_ms: Option<u64>,
    /// Let this comparison system run it. Hidden: `quorate bench --baseline` measures one, and nothing else needs it.
    #[arg(long, hide = true, value_name = "SYSTEM")]
    baseline: Option<Rival>,
    #[command(flatten)]
    speculation: SpeculationArguments,
    #[command(flatten)]
    timestamping: TimestampingArguments,
    /// The application whose native procedures the shards of a serializable keyspace can call, as `NAME/procedure`. All nodes of its sites are linked with it.
    #[arg(long, value_name = "NAME")]
    application: Option<String>,
    #[command(flatten)]
    retention: RetentionArguments,
    /// Let values of a strict or snapshot keyspace have lifetimes: `put KEY VALUE --ttl 30m`. It cannot be changed later.
    #[arg(long)]
    expiring: bool,
    /// Create it unless there is one of this name with these options, which will do as well; one with other options is an error that names them.
    #[arg(long)]
    if_absent: bool,
}

/// How much replicas retain for consumers of changes.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct RetentionArguments {
    /// For how many seconds replicas retain what has committed, for consumers of changes; by default 300, at most a day.
    #[arg(long, value_name = "SECONDS")]
    retain_s: Option<u64>,
    /// How many mebibytes of that each replica retains at most; by default 64, at most 1024.
    #[arg(long, value_name = "MEBIBYTES")]
    retain_mib: Option<u32>,
}

impl RetentionArguments {
    /// As the client library takes them; none if nothing was said.
    pub(crate) fn options(self) -> Option<Retention> {
        let RetentionArguments { retain_s, retain_mib } = self;
        let usual = Retention::default();
        (retain_s.is_some() || retain_mib.is_some()).then(|| Retention {
            time: retain_s.map_or(usual.time, Duration::from_secs),
            bytes: retain_mib.map_or(usual.bytes, |mebibytes| u64::from(mebibytes) << 20),
        })
    }
}

/// How timestamps of a strict keyspace are chosen, and what they mean.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct TimestampingArguments {
    /// The serial order of a strict keyspace: `real-time`, which is strict serializability; or `timestamps`, which is serializability alone, and lets in reads of what
    /// was overwritten later and writes below newer versions. By default `real-time`.
    #[arg(long, value_name = "ORDER", hide_possible_values = true,
        value_parser = parse::one_of::<SerialOrder>(SerialOrder::ALL.map(SerialOrder::name)))]
    order: Option<SerialOrder>,
    /// How many milliseconds above what a replica asks for a transaction of a strict keyspace is proposed again the first time, and twice as many each further time; up
    /// to 1000, by default none.
    #[arg(long, value_name = "MILLISECONDS")]
    retry_ahead_ms: Option<u64>,
}

impl TimestampingArguments {
    /// As the client library takes them; none if nothing was said.
    pub(crate) fn options(self) -> Option<Timestamping> {
        let TimestampingArguments { order, retry_ahead_ms } = self;
        (order.is_some() || retry_ahead_ms.is_some()).then(|| Timestamping {
            order: order.unwrap_or_default(),
            retry_ahead: Duration::from_millis(retry_ahead_ms.unwrap_or_default()),
        })
    }
}

/// How transactions of a snapshot keyspace speculate.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct SpeculationArguments {
    /// How much transactions of a snapshot keyspace speculate: `clock-si`, not at all; `planet`, one result is shown before it is final;
    /// `str-internal`, transactions read from others of their node that are not final; `str-external`, and chains of results are shown.
    #[arg(long, value_name = "VARIANT", hide_possible_values = true,
        value_parser = parse::one_of::<SpeculationVariant>(SpeculationVariant::ALL.map(SpeculationVariant::name)))]
    variant: Option<SpeculationVariant>,
    /// Abort a transaction of a snapshot keyspace if an earlier one of its client becomes final above its snapshot.
    #[arg(long)]
    orders_sessions: bool,
    /// How many transactions of one session may be shown and not final in a snapshot keyspace of the variant `str-external`, from 0 to 8; by default 8.
    #[arg(long, value_name = "LENGTH")]
    chain: Option<u8>,
    /// Speculate in a snapshot keyspace always as much as the variant and the chains allow; by default each node has a tuner, which chooses how much of that brings
    /// the most final commits.
    #[arg(long)]
    no_tuner: bool,
    /// Where the decisions of a snapshot keyspace stand: `site`, at three nodes of one, which wait for no other site; or `across-sites`, at nodes of three, which wait for
    /// another site and survive the loss of one. By default `site`.
    #[arg(long, value_name = "PLACE", hide_possible_values = true,
        value_parser = parse::one_of::<Decisions>(Decisions::ALL.map(Decisions::name)))]
    decisions: Option<Decisions>,
    /// Which replicas of a shard of a snapshot keyspace serve reads: `all`, which is where a node is near one, and commits wait for the vote of each; or `leader`, to which
    /// reads go from everywhere, and commits wait for a majority. By default `all`.
    #[arg(long, value_name = "REPLICAS", hide_possible_values = true,
        value_parser = parse::one_of::<Grants>(Grants::ALL.map(Grants::name)))]
    grants: Option<Grants>,
}

impl SpeculationArguments {
    /// As the client library takes them; none if nothing was said.
    pub(crate) fn options(self) -> Option<Speculation> {
        let SpeculationArguments { variant, orders_sessions, chain, no_tuner, decisions, grants } = self;
        let is_told = variant.is_some()
            || orders_sessions
            || chain.is_some()
            || no_tuner
            || decisions.is_some()
            || grants.is_some();
        is_told.then_some(Speculation {
            variant: variant.unwrap_or_default(),
            orders_sessions,
            chain_max: chain,
            untuned: no_tuner,
            decisions: decisions.unwrap_or_default(),
            grants: grants.unwrap_or_default(),
        })
    }
}

impl CreateArguments {
    /// Creates it, or finds one that will do.
    pub(crate) async fn run(
        &self,
        db: &Database,
        patience: Option<Duration>,
        progress: impl FnMut(ServingProgress),
    ) -> Result<Ensured, quorate::Error> {
        let (name, options) = (&self.name, self.options());
        if self.if_absent {
            return db.create_keyspace_if_absent_with(name, options, patience, progress).await;
        }
        let keyspace = db.create_keyspace_with(name, options, patience, progress).await?;
        Ok(Ensured { keyspace, is_new: true })
    }

    /// The options as the client library takes them.
    pub(crate) fn options(&self) -> KeyspaceOptions {
        KeyspaceOptions {
            isolation: self.isolation,
            durability: self.durability,
            shards: self.shards,
            replicas: self.replicas,
            sites: self.sites.clone(),
            clock_bound: self.clock_bound_ms.map(Duration::from_millis),
            comparison: self.baseline,
            speculation: self.speculation.options(),
            timestamping: self.timestamping.options(),
            application: self.application.clone(),
            retention: self.retention.options(),
            expiring: self.expiring,
        }
    }
}

impl KeyspaceArguments {
    pub(crate) fn run(self) -> Outcome {
        block_on(async {
            let common = match &self.action {
                Action::Create { common, .. }
                | Action::Wait { common, .. }
                | Action::List { common, .. }
                | Action::Show { common, .. }
                | Action::Resize { common, .. }
                | Action::Drop { common, .. }
                | Action::Undrop { common, .. }
                | Action::Forget { common, .. }
                | Action::Index { common, .. }
                | Action::Sweep { common, .. } => common.clone(),
            };
            common.connected(async |db| act(&self.action, db, common.json).await).await
        })
    }
}

async fn act(action: &Action, db: &Database, json: bool) -> Outcome {
    match action {
        Action::Create { create, patience, .. } => {
            let patience = patience.map(Duration::from_secs);
            let Ensured { keyspace, is_new } = create.run(db, patience, tell(&create.name)).await?;
            if json {
                print_json(&created_json(db, &keyspace.definition(), is_new))?;
            } else {
                outln!("{}", created_lines(db, &keyspace.definition(), is_new));
            }
        }
        Action::Wait { name, patience, .. } => {
            let patience = patience.map(Duration::from_secs);
            let keyspace = db.await_keyspace(name, patience, tell(name)).await?;
            show(db, &keyspace.definition(), json)?;
        }
        Action::List { dropped: true, .. } => drops::list(db, json).await?,
        Action::List { .. } => {
            let definitions = db.list().await?;
            if json {
                let all: Vec<_> = definitions.iter().map(|definition| to_json(db, definition)).collect();
                print_json(&json!({ "keyspaces": all }))?;
            } else {
                outln!("{}", table(&definitions));
            }
        }
        Action::Show { name, .. } => {
            let keyspace = db.keyspace(name).await?;
            show(db, &keyspace.definition(), json)?;
        }
        Action::Resize { name, replicas, sites, confirm, patience, .. } => {
            if *replicas == 1 && !confirm {
                refuse_to_give_up_safety(&db.keyspace(name).await?.definition())?;
            }
            let change = ReplicaChange::Resize { replicas: *replicas, sites: sites.clone() };
            return replicas::run(db, std::slice::from_ref(name), &change, patience, json).await;
        }
        Action::Drop { drop, .. } => {
            let text = drop.run(db).await?;
            if json {
                print_json(&drop.to_json())?;
            } else {
                outln!("{text}");
            }
        }
        Action::Undrop { undrop, .. } if json => undrop.run_json(db).await?,
        Action::Undrop { undrop, .. } => outln!("{}", undrop.run(db).await?),
        Action::Forget { forget, .. } => forget.run(db, json).await?,
        Action::Index { action, .. } => action.command(db, json).await?,
        Action::Sweep { name, prefix, .. } => sweep(db, name, prefix, json).await?,
    }
    Ok(Verdict::Good)
}

/// Sweeps all pages of the markers with a prefix.
async fn sweep(db: &Database, name: &str, prefix: &str, json: bool) -> Result<(), Failure> {
    let keyspace = db.keyspace(name).await?;
    let (progress, to) = (Progress::spinner(), end_of_prefix(prefix.as_bytes()));
    let (mut from, mut deleted) = (Some(Key::copy_from_slice(prefix.as_bytes())), 0);
    while let Some(page) = from {
        let swept = keyspace.sweep_markers(&page, &to).await?;
        (from, deleted) = (swept.next, deleted + swept.deleted);
        progress.now(format!("{deleted} markers are deleted"));
    }
    if json {
        return print_json(&json!({ "keyspace": name, "prefix": prefix, "deleted": deleted }));
    }
    outln!("{deleted} markers of {name} are deleted, whose time was over");
    Ok(())
}

/// One replica is no mistake where there was one before.
fn refuse_to_give_up_safety(definition: &Definition) -> Result<(), Failure> {
    let most = definition.groups().map(|group| group.replicas.len()).max().unwrap_or_default();
    if most <= 1 {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "nothing was done: with one replica a shard of {} is gone if its node is, where {most} survive the loss of {}; repeat the command \
         with --confirm if you mean it",
        definition.name,
        (most - 1) / 2
    )))
}

/// Says on standard error how far a keyspace is that was created, once that takes long.
fn tell(name: &str) -> impl FnMut(ServingProgress) {
    const SILENCE: Duration = Duration::from_secs(2);
    let (mut last, mut said) = (Instant::now(), None);
    move |progress| {
        let ServingProgress { serving, shards } = progress;
        if last.elapsed() >= SILENCE && said != Some(progress) {
            errln!("{name} is created: {serving} of {shards} shards serve");
            (last, said) = (Instant::now(), Some(progress));
        }
    }
}

fn show(db: &Database, definition: &Definition, json: bool) -> Result<(), Failure> {
    if json {
        return print_json(&to_json(db, definition));
    }
    outln!("{}", definition_lines(db, definition));
    Ok(())
}

/// A keyspace that was to be created, for people.
pub(crate) fn created_lines(db: &Database, definition: &Definition, is_new: bool) -> String {
    let lines = definition_lines(db, definition);
    if is_new { lines } else { format!("{} is there already, with these options\n{lines}", definition.name) }
}

/// A keyspace that was to be created, for programs.
pub(crate) fn created_json(db: &Database, definition: &Definition, is_new: bool) -> serde_json::Value {
    let mut object = to_json(db, definition);
    object["created"] = is_new.into();
    object
}

/// The keyspaces, one per row.
pub(crate) fn table(definitions: &[Definition]) -> Table {
    let mut table = Table::new(&[
        ("keyspace", Align::Left),
        ("isolation", Align::Left),
        ("durability", Align::Left),
        ("shards", Align::Right),
        ("replicas", Align::Right),
        ("epoch", Align::Right),
    ]);
    for definition in definitions {
        let replicas = definition.shards.first().map_or(0, |shard| shard.replicas.len());
        table.row([
            definition.name.clone(),
            isolation(definition),
            definition.durability.to_string(),
            definition.shards.len().to_string(),
            replicas.to_string(),
            definition.epoch.0.to_string(),
        ]);
    }
    table
}

/// A keyspace and where its shards are, for people.
pub(crate) fn definition_lines(db: &Database, definition: &Definition) -> String {
    let mut table = Table::new(&[("shard", Align::Left), ("replicas", Align::Left)]);
    for group in definition.groups() {
        let places: Vec<String> = group.replicas.iter().map(|node| place(db, *node)).collect();
        let is_home = definition.homes.iter().any(|home| home.id == group.id);
        let name = if is_home { format!("home{}", group.id.0) } else { group.id.to_string() };
        table.row([name, places.join(", ")]);
    }
    let Definition { name, durability, clock_bound, .. } = definition;
    let of_application = definition.application.iter().map(|name| format!("application {name}"));
    let options = definition.speculation.map(described).into_iter();
    let of_retention = definition.retention.map(|retention| {
        format!("changes retained for {:?}, {} bytes at most", retention.time, retention.bytes)
    });
    let options: Vec<String> = options
        .chain(definition.timestamping.and_then(described_timestamps))
        .chain(of_application)
        .chain(of_retention)
        .chain(definition.expiring.then(|| "values may expire".to_owned()))
        .collect();
    let isolation = match options.is_empty() {
        false => format!("{} ({})", isolation(definition), options.join(", ")),
        true => isolation(definition),
    };
    let bound = clock_bound.map_or(String::new(), |bound| format!(", clocks within {bound:?}"));
    format!("{name}: isolation {isolation}, durability {durability}{bound}\n{table}")
}

/// How transactions speculate, for people.
fn described(speculation: Speculation) -> String {
    let Speculation { variant, orders_sessions, chain_max, untuned, decisions, grants } = speculation;
    let mut parts = vec![variant.to_string()];
    parts.extend(chain_max.map(|length| format!("chains of {length}")));
    parts.extend((variant.is_tunable() && untuned).then(|| "no tuner".to_owned()));
    parts.extend(orders_sessions.then(|| "sessions in order".to_owned()));
    parts.extend((decisions == Decisions::AcrossSites).then(|| "decisions across sites".to_owned()));
    parts.extend((grants == Grants::Leader).then(|| "reads at leaders".to_owned()));
    parts.join(", ")
}

/// How timestamps are chosen and what they mean, for people; none if as in any strict keyspace.
fn described_timestamps(timestamping: Timestamping) -> Option<String> {
    let Timestamping { order, retry_ahead } = timestamping;
    let of_order = (order == SerialOrder::Timestamps)
        .then(|| "in the order of timestamps: serializable, not strict".to_owned());
    let ahead = (!retry_ahead.is_zero()).then(|| format!("proposed again {retry_ahead:?} ahead"));
    let parts: Vec<String> = of_order.into_iter().chain(ahead).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// The promise of its isolation, and what runs it if that is not the protocol of its isolation.
fn isolation(definition: &Definition) -> String {
    match definition.comparison.as_ref().map(|comparison| comparison.rival) {
        None => definition.isolation.to_string(),
        Some(rival) if rival.is_transactional() => format!("{} ({rival})", definition.isolation),
        Some(rival) => format!("none ({rival})"),
    }
}

fn place(db: &Database, node: quorate::NodeId) -> String {
    let topology = db.topology();
    let Some(known) = topology.nodes.get(usize::from(node.0)) else { return node.to_string() };
    let site = topology.sites.get(usize::from(known.site.0)).map_or("?", String::as_str);
    format!("{} ({site})", known.address)
}

/// A keyspace and where its shards are, for programs.
pub(crate) fn to_json(db: &Database, definition: &Definition) -> serde_json::Value {
    let topology = db.topology();
    let listed = |groups: &[Shard]| -> Vec<serde_json::Value> {
        let one = |group: &Shard| {
            let nodes: Vec<String> = group
                .replicas
                .iter()
                .filter_map(|node| topology.nodes.get(usize::from(node.0)))
                .map(|node| node.address.clone())
                .collect();
            json!({ "id": group.id.0, "replicas": nodes })
        };
        groups.iter().map(one).collect()
    };
    let mut object = json!({
        "name": definition.name,
        "id": definition.id.0,
        "epoch": definition.epoch.0,
        "isolation": definition.isolation.name(),
        "baseline": definition.comparison.as_ref().map(|comparison| comparison.rival.name()),
        "durability": definition.durability.name(),
        "clock_bound_us": definition.clock_bound.map(|bound| bound.as_micros() as u64),
        "shards": listed(&definition.shards),
    });
    if definition.isolation == Isolation::Strict && definition.comparison.is_none() {
        let Timestamping { order, retry_ahead } = definition.timestamping.unwrap_or_default();
        object["order"] = order.name().into();
        object["retry_ahead_us"] = (retry_ahead.as_micros() as u64).into();
    }
    if definition.isolation == Isolation::Serializable {
        object["application"] = definition.application.clone().into();
    }
    if definition.tells_changes() {
        let retention = definition.retention.unwrap_or_default();
        object["retention_us"] = (retention.time.as_micros() as u64).into();
        object["retention_bytes"] = retention.bytes.into();
    }
    if matches!(definition.isolation, Isolation::Strict | Isolation::Snapshot) {
        object["expiring"] = definition.expiring.into();
    }
    if let Some(speculation) = definition.speculation {
        let Speculation { variant, orders_sessions, .. } = speculation;
        object["homes"] = listed(&definition.homes).into();
        object["variant"] = variant.name().into();
        object["orders_sessions"] = orders_sessions.into();
        object["decisions"] = speculation.decisions.name().into();
        object["grants"] = speculation.grants.name().into();
        let chain_max = speculation.chain_max.unwrap_or(Speculation::CHAIN_MAX);
        object["chain_max"] = variant.has_chains().then_some(chain_max).into();
        object["tuned"] = speculation.is_tuned().into();
    }
    object
}
