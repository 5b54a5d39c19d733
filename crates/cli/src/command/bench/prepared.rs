//! The workload that is measured, with everything that its options say of it; and the keyspaces of workloads that run procedures.

use quorate::{Database, Isolation, Keyspace, KeyspaceOptions};
use quorate_workloads::WorkloadKind;

use super::{BenchArguments, Measured, procedural, rubis, tpcc};
use crate::exit::Failure;
use crate::output::Progress;

/// A workload, with everything that its options say of it.
pub(super) enum Prepared {
    Workload(WorkloadKind),
    Tpcc(tpcc::Tpcc),
    Rubis(rubis::Rubis),
}

impl BenchArguments {
    /// Says what is asked for that means nothing with a workload of procedures, or only with one.
    ///
    /// # Errors
    /// Something does.
    pub(super) fn validate_procedures(&self, workload: Measured) -> Result<(), Failure> {
        let name = workload.name();
        if matches!(workload, Measured::Workload(_)) {
            if self.think > 0 {
                return Err(Failure::usage("--think is an option of tpcc and rubis"));
            }
        } else if self.baseline.is_some() {
            let told = format!("{name} runs in keyspaces that have an isolation: leave out --baseline");
            return Err(Failure::usage(told));
        } else if self.history.is_some() || self.samples.is_some() {
            let told =
                format!("{name} is judged by its consistency conditions: leave out --history and --samples");
            return Err(Failure::usage(told));
        } else if self.social.away > 0 {
            let told = format!("a transaction of {name} begins at home: leave out --away");
            return Err(Failure::usage(told));
        }
        if workload != Measured::Tpcc && (self.procedures.is_some() || self.full_size) {
            return Err(Failure::usage("--procedures and --full-size are options of tpcc"));
        }
        if self.procedures.is_some() && self.isolation(workload) != Isolation::Serializable {
            return Err(Failure::usage(
                "modules are deployed to serializable keyspaces only: leave out --isolation, or --procedures",
            ));
        }
        if workload == Measured::Rubis && self.social.mix.is_some() {
            return Err(Failure::usage("rubis has one mix alone, of which --updates says how much updates"));
        }
        if workload != Measured::Rubis && self.rubis.is_given() {
            return Err(Failure::usage(
                "--markets, --market-users, --market-items and --updates are options of rubis",
            ));
        }
        Ok(())
    }

    /// A workload, as it is asked for.
    pub(super) fn prepare(&self, workload: Measured) -> Result<Prepared, Failure> {
        Ok(match workload {
            Measured::Workload(workload) => Prepared::Workload(workload),
            Measured::Tpcc => Prepared::Tpcc(self.tpcc()?),
            Measured::Rubis => Prepared::Rubis(self.rubis.prepare(self.hotspot.remote, self.seating())),
        })
    }

    /// TPC-C, as it is asked for.
    fn tpcc(&self) -> Result<tpcc::Tpcc, Failure> {
        let full = quorate_tpcc::Scale { warehouses: self.warehouses, ..Default::default() };
        let scale = match self.full_size {
            true => full,
            false => quorate_tpcc::Scale { customers: full.customers / 10, items: full.items / 10, ..full },
        };
        let module = self.procedures.as_deref().map(tpcc::read_module).transpose()?;
        Ok(tpcc::Tpcc { scale, mix: tpcc::mix(self.social.mix.as_deref())?, seating: self.seating(), module })
    }

    /// The clients of a workload that runs procedures.
    fn seating(&self) -> procedural::Seating {
        procedural::Seating {
            clients: self.clients,
            loaded: self.social.loaded.map(|loaded| loaded as usize),
            think_percent: self.think,
            seconds: self.seconds,
            replicas: self.replicas,
        }
    }

    /// Runs a workload of procedures in a keyspace of its own.
    pub(super) async fn in_keyspace<T>(
        &self,
        workload: Measured,
        db: &Database,
        progress: &Progress,
        run: impl AsyncFnOnce(Keyspace) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let name = format!("bench-{}-{:x}", workload.name(), db.client().0);
        let options = KeyspaceOptions {
            durability: self.durability,
            shards: self.shards,
            replicas: Some(self.replicas),
            speculation: self.speculation.options(),
            timestamping: self.timestamping.options(),
            ..KeyspaceOptions::new(self.isolation(workload))
        };
        progress.say(format!("creating keyspace {name}"));
        let report = run(db.create_keyspace(&name, options).await?).await;
        self.clear(db, &name).await?;
        report
    }
}
