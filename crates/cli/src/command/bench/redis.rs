//! `quorate bench retwis-psi --redis`: the same load on a Redis, for comparison.

use std::time::{Duration, Instant};

use quorate_load::{Costs, Redis, RedisLoad, cpu_time};
use quorate_workloads::{Parameters, WorkloadKind};

use super::{BenchArguments, Network, Report};
use crate::exit::Failure;
use crate::output::{Progress, thousands};

/// The name of the system in reports.
const REDIS: &str = "redis";

impl BenchArguments {
    /// Populates an empty Redis, runs the load on it, and empties it again.
    pub(super) async fn measure_redis(&self, address: &str, progress: &Progress) -> Result<Report, Failure> {
        const WARM_UP: Duration = Duration::from_secs(1);
        let workload = WorkloadKind::RetwisPsi;
        let parameters = Parameters::new(workload);
        let load = RedisLoad {
            mix: self.social.mix(workload)?,
            users: self.social.users.unwrap_or(parameters.keys),
            value_bytes: self.value_size.unwrap_or(parameters.value_bytes_min),
            clients: self.clients,
            connections: self.social.redis_connections as usize,
            seed: 1,
        };
        let redis = Redis::connect(address, load.connections).await.map_err(Failure::failed)?;
        if !redis.is_empty().await.map_err(Failure::failed)? {
            let told = format!(
                "the Redis at {address} holds data, which this would mix with its own: choose an empty one"
            );
            return Err(Failure::failed(told));
        }
        progress.say(format!("writing what {} users have at first", load.users));
        redis.populate(&load).await.map_err(Failure::failed)?;
        let running = redis.start(load.clone());
        progress.now("warming up");
        tokio::time::sleep(WARM_UP).await;
        let (server, client, began) =
            (redis.cpu_us().await.map_err(Failure::failed)?, cpu_time(), Instant::now());
        drop(running.take_tally());
        for second in 1..=self.seconds {
            tokio::time::sleep(Duration::from_secs(1)).await;
            progress.step_to(second);
            let committed = running.with_tally(|tally| tally.committed);
            progress.now(format!("s, {} transactions/s", thousands(committed / second)));
        }
        let tally = running.take_tally();
        let server_cpu_us = redis.cpu_us().await.map_err(Failure::failed)? - server;
        let costs = Costs {
            seconds: began.elapsed().as_secs_f64(),
            server_cpu_us,
            busiest_server_cpu_us: server_cpu_us,
            client_cpu_us: (cpu_time() - client).as_secs_f64() * 1e6,
            ..Costs::default()
        };
        running.stop().await;
        redis.clear().await.map_err(Failure::failed)?;
        super::say_trouble(&tally, progress);
        let (mix, users) = (load.mix, load.users);
        let network = Network { mix, users, sites: 1, loaded_sites: 1, breaches: 0 };
        let report = self.report(workload, &tally, costs, Some(network));
        Ok(Report {
            isolation: None,
            baseline: Some(REDIS),
            durability: "as it is configured",
            shards: 1,
            replicas: 1,
            ..report
        })
    }
}
