//! Scripts of Redis: Lua 5.1 within limits, over whatever carries out commands.
//!
//! A script runs in a state of its own, which is made for it and dropped with it. So it starts as every other script does, and what it spoils is its own. It
//! calls commands through a [`Host`], which waits for whatever they need: so scripts belong on threads that serve nobody else.
//!
//! | what a script might do | what bounds it |
//! |---|---|
//! | run on | a hook counts instructions and looks at the clock; native code counts its work there too |
//! | fill the memory | the allocator of the state has a limit; what native code builds has the same |
//! | match patterns without end | a matcher of our own, whose steps are counted ([`quorate_redis_evaluator::pattern`]) |
//! | catch the error that ends it | once a script is to end, every further instruction is that error |
//! | nest calls | Lua's own limits, 200 calls of native code in each other, and a thread with a stack for these |
//! | load bytecode, which Lua 5.1 does not check | text alone is loaded |
//! | end in a finalizer, which no hook reaches | there is no `newproxy`, and tables have none in Lua 5.1 |
//!
//! | file | role |
//! |---|---|
//! | `interpreter` | a state, from its making to the reply |
//! | `prelude` (Lua) | globals that cannot be changed, errors as Redis gives them |
//! | `library` | `redis`, `math.random`, `load` |
//! | `bits` | `bit` |
//! | `strings` | what of `string` needs bounds |
//! | `json`, `message_pack`, `structs` | `cjson`, `cmsgpack`, `struct` |
//! | `function` | libraries of functions, and what they register |
//! | `at_shards` | the knowledge of a door of a script that shards run |
//! | `convert` | replies to values of Lua, and back |

mod at_shards;
mod bits;
mod convert;
mod function;
mod interpreter;
mod json;
mod library;
mod message_pack;
mod script;
mod strings;
mod structs;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

pub use at_shards::{AtShards, Place, Telling};
pub use function::{FLAGS, Function, Library};
pub use interpreter::{register, run};
use quorate_redis_commands::Reply;
pub use script::{Script, digest};

/// The size of the stack that a thread needs to run scripts, in bytes.
pub const STACK_BYTES: usize = 16 * 1024 * 1024;

/// Carries out what scripts ask for.
pub trait Host {
    /// Carries out a command; what is wrong with it is its reply.
    ///
    /// # Errors
    /// The transaction is over: the script ends here, and nothing of it counts.
    fn call(&mut self, words: &[Vec<u8>]) -> Result<Reply, Over>;

    /// Publishes a message to the subscribers of a channel, or of a shard channel, if the transaction commits; replies how many would receive it now.
    ///
    /// # Errors
    /// As [`call`](Host::call).
    fn publish(&mut self, channel: &[u8], content: &[u8], is_shard: bool) -> Result<Reply, Over>;

    /// Logs what a script says, at a level from 0, for developers, to 3, for warnings. A script may say much: the host bounds what it keeps.
    fn log(&mut self, level: u8, text: &[u8]);

    /// The time that the script is told, in microseconds since the Unix epoch: it stands still while a script runs.
    fn now(&self) -> u64;
}

/// The transaction of a script is over before the script is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Over;

/// The limits of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Instructions of Lua, and steps of native code.
    pub steps_max: u64,
    /// How many bytes its state may hold, and how many a result of native code may have.
    pub memory_bytes_max: usize,
    /// How long it may run, commands included.
    pub time_max: Duration,
    /// How many bytes its reply may have, with 16 for each element.
    pub reply_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            steps_max: 50_000_000,
            memory_bytes_max: 32 * 1024 * 1024,
            time_max: Duration::from_secs(5),
            reply_bytes_max: 16 * 1024 * 1024,
        }
    }
}

/// The script or function that is run.
#[derive(Clone, Copy, Debug)]
pub enum Program<'a> {
    /// A script.
    Script(&'a Script),
    /// A function of a library, by its name.
    Function(&'a Library, &'a str),
}

/// One run of a script or a function.
#[derive(Debug)]
pub struct Run<'a> {
    /// The script or function that is run.
    pub program: Program<'a>,
    /// The keys that it is called with,
    pub keys: &'a [Vec<u8>],
    /// and its other arguments.
    pub arguments: &'a [Vec<u8>],
    /// True if commands that write are refused.
    pub is_read_only: bool,
    /// Ends the script once it is set.
    pub stop: Arc<AtomicBool>,
}

/// The result of a script.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It makes no sense, for this reason, and has not begun.
    Invalid(Reply),
    /// It has come to its end, with a reply or with an error of its own: what it has written stands, as in Redis.
    Ended(Reply),
    /// It was stopped, for this reason: nothing that it has written may stand.
    Stopped(Reply),
    /// [`Host::call`] has said that the transaction is over.
    Over,
}

/// A host that scripts of one transaction share.
pub type Shared<H> = Rc<RefCell<H>>;
