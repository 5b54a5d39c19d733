//! The load of `retwis-psi` on a Redis, as the Twitter clone for which that was written does it.
//!
//! | transaction | commands, one line for each round trip |
//! |---|---|
//! | `status` | `LRANGE timeline:U 0 9` |
//! | | `MGET post:P …` |
//! | `post` | `INCR posts`, `SMEMBERS followers:U` |
//! | | `SET post:P value`, `LPUSH posts:U P`, `LPUSH timeline:F P` for each follower |
//! | `follow` | `SADD following:U V`, `SADD followers:V U` |
//!
//! The commands of a line are sent together, with those of other clients of the connection. Nothing makes the commands of a
//! transaction one: a Redis of one node is faster without, and the application does not ask for it.

mod connection;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use quorate_core::Random;
use quorate_workloads::retwis_psi::{Action, FIRST_FOLLOWERS, shares};
use quorate_workloads::social::draw_of;
use quorate_workloads::waltsocial::SHOWN;
use redis_protocol::resp2::types::BytesFrame;
use tokio::task::{JoinHandle, JoinSet};

use crate::Tally;
use connection::Connection;

pub use connection::RedisError;
pub(crate) use connection::{Words, encode, read, words};

/// The first data of so many users is sent together.
const USERS_AT_ONCE: usize = 32;

/// The load that is to be run.
#[derive(Clone, Debug)]
pub struct RedisLoad {
    /// The mix, as `retwis-psi` calls it.
    pub mix: &'static str,
    /// How many users there are.
    pub users: u64,
    /// Posts have so many bytes.
    pub value_bytes: usize,
    /// How many transactions are in flight.
    pub clients: u64,
    /// Over how many connections.
    pub connections: usize,
    /// The seed of what is drawn.
    pub seed: u64,
}

/// A Redis that is measured.
pub struct Redis {
    connections: Vec<Connection>,
}

/// A load that runs.
pub struct RunningRedis {
    shared: Arc<Shared>,
    clients: Vec<JoinHandle<()>>,
}

struct Shared {
    load: RedisLoad,
    stop: AtomicBool,
    tally: Mutex<Tally>,
}

impl Shared {
    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Redis {
    /// Connects.
    ///
    /// # Errors
    /// [`RedisError::Unreachable`] if no Redis answers.
    pub async fn connect(address: &str, connections: usize) -> Result<Redis, RedisError> {
        let mut opened = Vec::new();
        for _ in 0..connections.max(1) {
            opened.push(Connection::open(address).await?);
        }
        Ok(Redis { connections: opened })
    }

    /// True if it holds nothing in the database that is used.
    ///
    /// # Errors
    /// It does not say so.
    pub async fn is_empty(&self) -> Result<bool, RedisError> {
        Ok(integer(&self.ask_one(words(["DBSIZE"])).await?)? == 0)
    }

    /// Removes everything from the database that is used.
    ///
    /// # Errors
    /// It refuses that.
    pub async fn clear(&self) -> Result<(), RedisError> {
        self.ask_one(words(["FLUSHDB"])).await.map(drop)
    }

    /// The processor time that the server has used, in microseconds.
    ///
    /// # Errors
    /// It does not say so.
    pub async fn cpu_us(&self) -> Result<f64, RedisError> {
        let answer = self.ask_one(words(["INFO", "cpu"])).await?;
        let BytesFrame::BulkString(text) = &answer else { return Err(unexpected(&answer)) };
        let text = String::from_utf8_lossy(text);
        let seconds = ["used_cpu_sys:", "used_cpu_user:"]
            .map(|name| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok()));
        match seconds {
            [Some(system), Some(user)] => Ok((system + user) * 1e6),
            _ => Err(unexpected(&answer)),
        }
    }

    /// The first data of every user, as in `retwis-psi`.
    ///
    /// # Errors
    /// A command is refused, or the connection ends.
    pub async fn populate(&self, load: &RedisLoad) -> Result<(), RedisError> {
        let mut tasks = JoinSet::new();
        let lanes = self.connections.len() as u64;
        for (lane, connection) in self.connections.iter().cloned().enumerate() {
            let load = load.clone();
            tasks.spawn(async move {
                let users: Vec<u64> = (lane as u64..load.users).step_by(lanes as usize).collect();
                for users in users.chunks(USERS_AT_ONCE) {
                    let commands = users.iter().flat_map(|user| first_commands(*user, &load));
                    connection.ask(commands.collect()).await?;
                }
                Ok(())
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended.map_err(|error| RedisError::Unexpected(error.to_string()))??;
        }
        Ok(())
    }

    /// Starts the clients, as tasks on this runtime.
    pub fn start(&self, load: RedisLoad) -> RunningRedis {
        let clients = load.clients;
        let shared = Arc::new(Shared { load, stop: AtomicBool::new(false), tally: Mutex::default() });
        let client = |number: u64| {
            let connection = self.connections[number as usize % self.connections.len()].clone();
            tokio::spawn(run(Arc::clone(&shared), connection, number))
        };
        let clients = (0..clients).map(client).collect();
        RunningRedis { shared, clients }
    }

    async fn ask_one(&self, command: Words) -> Result<BytesFrame, RedisError> {
        let mut answers = self.connections[0].ask(vec![command]).await?;
        answers.pop().ok_or(RedisError::Closed)
    }
}

impl RunningRedis {
    /// The counts since the start or the last call; counting begins anew.
    pub fn take_tally(&self) -> Tally {
        std::mem::take(&mut self.shared.tally())
    }

    /// Looks at the counts.
    pub fn with_tally<R>(&self, look: impl FnOnce(&Tally) -> R) -> R {
        look(&self.shared.tally())
    }

    /// Lets every client end its transaction and waits for that.
    pub async fn stop(self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for client in self.clients {
            // A client that panicked has said so already.
            let _ = client.await;
        }
    }
}

async fn run(shared: Arc<Shared>, connection: Connection, number: u64) {
    let load = &shared.load;
    let mut random = Random::new(load.seed.wrapping_add(number)).fork();
    let shares = shares(load.mix).unwrap_or_default();
    if shares.is_empty() {
        shared.tally().trouble = Some(format!("there is no mix {}", load.mix));
        return;
    }
    while !shared.stop.load(Ordering::Relaxed) {
        let action = draw_of(&shares, &mut random);
        let user = random.below(load.users);
        let other = (user + 1 + random.below(load.users.max(2) - 1)) % load.users;
        let began = Instant::now();
        let result = carry_out(action, user, other, load, &connection).await;
        let took = began.elapsed();
        let mut tally = shared.tally();
        match result {
            Ok(()) => tally.on_commit(took, took, None, true),
            Err(error) => {
                tally.refused += 1;
                tally.trouble = Some(error.to_string());
                if error == RedisError::Closed {
                    return;
                }
            }
        }
    }
}

async fn carry_out(
    action: Action,
    user: u64,
    other: u64,
    load: &RedisLoad,
    connection: &Connection,
) -> Result<(), RedisError> {
    match action {
        Action::Status => {
            let newest = (SHOWN - 1).to_string();
            let range = words(["LRANGE", &format!("timeline:{user}"), "0", &newest]);
            let answers = connection.ask(vec![range]).await?;
            let posts = texts(&answers)?;
            if !posts.is_empty() {
                let keys = posts.iter().map(|post| [b"post:", post.as_slice()].concat());
                let get = std::iter::once(b"MGET".to_vec()).chain(keys).collect();
                connection.ask(vec![get]).await?;
            }
        }
        Action::Post => {
            let ask = vec![words(["INCR", "posts"]), words(["SMEMBERS", &format!("followers:{user}")])];
            let answers = connection.ask(ask).await?;
            let post = integer(answers.first().unwrap_or(&BytesFrame::Null))?.to_string();
            let followers = texts(answers.get(1..).unwrap_or_default())?;
            let mut commands = vec![
                vec![b"SET".to_vec(), format!("post:{post}").into_bytes(), vec![b'x'; load.value_bytes]],
                words(["LPUSH", &format!("posts:{user}"), &post]),
            ];
            commands.extend(followers.iter().map(|follower| {
                let timeline = [b"timeline:", follower.as_slice()].concat();
                vec![b"LPUSH".to_vec(), timeline, post.clone().into_bytes()]
            }));
            connection.ask(commands).await?;
        }
        Action::Follow | Action::Unfollow => {
            let word = if action == Action::Follow { "SADD" } else { "SREM" };
            connection.ask(follow(word, user, other)).await?;
        }
        Action::CompareFollows => {
            let sets = [format!("following:{user}"), format!("followers:{other}")];
            connection.ask(sets.map(|set| words(["SMEMBERS", &set])).to_vec()).await?;
        }
    }
    Ok(())
}

fn follow(word: &str, user: u64, other: u64) -> Vec<Words> {
    let (user_name, other_name) = (user.to_string(), other.to_string());
    vec![
        words([word, &format!("following:{user}"), &other_name]),
        words([word, &format!("followers:{other}"), &user_name]),
    ]
}

/// The first data of a user.
fn first_commands(user: u64, load: &RedisLoad) -> Vec<Words> {
    let mut commands = Vec::new();
    for number in 0..FIRST_FOLLOWERS.min(load.users - 1) {
        let follower = (user + number + 1) % load.users;
        commands.extend(follow("SADD", follower, user));
        let post = format!("first:{user}:{number}");
        commands.push(vec![
            b"SET".to_vec(),
            format!("post:{post}").into_bytes(),
            vec![b'x'; load.value_bytes],
        ]);
        commands.push(words(["LPUSH", &format!("timeline:{user}"), &post]));
    }
    commands
}

fn integer(answer: &BytesFrame) -> Result<i64, RedisError> {
    match answer {
        BytesFrame::Integer(number) => Ok(*number),
        other => Err(unexpected(other)),
    }
}

/// The texts of an answer that is a list of them.
fn texts(answers: &[BytesFrame]) -> Result<Vec<Vec<u8>>, RedisError> {
    let [BytesFrame::Array(texts)] = answers else {
        return Err(unexpected(answers.first().unwrap_or(&BytesFrame::Null)));
    };
    let text = |answer: &BytesFrame| match answer {
        BytesFrame::BulkString(text) => Ok(text.to_vec()),
        other => Err(unexpected(other)),
    };
    texts.iter().map(text).collect()
}

fn unexpected(answer: &BytesFrame) -> RedisError {
    RedisError::Unexpected(format!("{answer:?}").chars().take(100).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_understood_or_refused() {
        let text = |text: &'static str| BytesFrame::BulkString(text.into());
        assert_eq!(
            texts(&[BytesFrame::Array(vec![text("a"), text("b")])]),
            Ok(vec![b"a".to_vec(), b"b".to_vec()])
        );
        assert!(texts(&[BytesFrame::Null]).is_err() && texts(&[]).is_err());
        assert_eq!(integer(&BytesFrame::Integer(3)), Ok(3));
        assert!(integer(&text("3")).is_err());
    }

    #[test]
    fn every_user_has_as_many_followers_at_first() {
        let load = RedisLoad { mix: "mixed", users: 3, value_bytes: 1, clients: 1, connections: 1, seed: 1 };
        let commands = first_commands(0, &load);
        let followers = commands.iter().filter(|command| command[1] == b"followers:0").count();
        assert_eq!((commands.len(), followers), (8, 2));
    }
}
