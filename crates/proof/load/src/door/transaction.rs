//! One transaction as a client of Redis carries it out: what it asks for, and what the replies say.

use quorate_checker::{MicroOp, Observed};
use quorate_core::{Key, Random};
use quorate_workloads::key::{in_history, slotted};
use quorate_workloads::{Operation, Plan, UniqueValues};
use redis_protocol::resp2::types::BytesFrame;

use crate::redis::{Words, words};

/// The kinds of keys: a key begins with its kind. Registers are those of the workload, whose other keys are lists.
const REGISTER: u8 = b'r';
const TALLY: u8 = b't';
const TALLY_COUNT: u8 = b'c';
const COUNTER: u8 = b'n';

/// So many tallies, and counters, has a generation.
const TALLIES: u64 = 2;

/// How often a transaction that writes also adds to a tally.
const TALLY_PROBABILITY: f64 = 0.3;

/// How often a transaction reads a tally and its count instead of what was drawn.
const LOOK_PROBABILITY: f64 = 0.06;

/// How often a transaction is an increment and nothing else.
const COUNT_PROBABILITY: f64 = 0.15;

/// Carries out the commands of its arguments, each told as the number of its words and these.
const SCRIPT: &str = "local replies, at = {}, 1
while at <= #ARGV do
  local words = tonumber(ARGV[at])
  replies[#replies + 1] = redis.call(unpack(ARGV, at + 1, at + words))
  at = at + words + 1
end
return replies";

/// How the commands of a transaction become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// There is one command.
    Alone,
    /// `MULTI` … `EXEC`, sent together.
    Multi,
    /// `WATCH` and the reads; then, once these are known, `MULTI`, the writes and `EXEC`.
    Watch,
    /// A script.
    Script,
}

/// One thing that a transaction does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// Reads a list: `LRANGE`.
    List(Key),
    /// Reads a register: `GET`.
    Register(Key),
    /// Appends to a list: `RPUSH`.
    Append(Key, i64),
    /// Writes a register: `SET`.
    Write(Key, i64),
    /// Writes a register, and reads what it held before: `SET … GET`.
    Update(Key, i64),
    /// Adds one to a counter: `INCR`.
    Count(Key),
    /// Reads a counter: `GET`.
    Counter(Key),
    /// Appends to a list, and adds one to the counter of its elements, in another slot.
    Tally(Tally, i64),
    /// Reads both.
    Tallied(Tally),
}

/// A list, and a counter that every transaction increments which appends to it: so it holds the length of the list, unless a transaction was torn or
/// carried out twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) list: Key,
    pub(super) count: Key,
}

/// A transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Transaction {
    pub(super) form: Form,
    pub(super) asks: Vec<Ask>,
}

/// The meaning of the replies to a transaction.
#[derive(Debug, Default)]
pub(super) struct Understood {
    /// As a history records it.
    pub(super) ops: Vec<MicroOp>,
    /// The elements that were read of each list.
    pub(super) lists: Vec<(Key, Vec<i64>)>,
    /// The result of each increment, and of each read of a counter.
    pub(super) counts: Vec<(Key, i64)>,
    /// Promises that the replies break, in words.
    pub(super) breaches: Vec<String>,
}

impl Transaction {
    /// Draws a transaction: mostly what the plan says, with fresh values.
    pub(super) fn draw(plan: &Plan, generation: u64, unique: &mut UniqueValues, random: &mut Random) -> Self {
        let slot = random.below(TALLIES);
        if random.chance(COUNT_PROBABILITY) {
            return Transaction {
                form: Form::Alone,
                asks: vec![Ask::Count(slotted(COUNTER, generation, slot))],
            };
        }
        let tally =
            Tally { list: slotted(TALLY, generation, slot), count: slotted(TALLY_COUNT, generation, slot) };
        let mut asks: Vec<Ask> = match random.chance(LOOK_PROBABILITY) {
            true => vec![Ask::Tallied(tally.clone())],
            false => plan.operations.iter().flat_map(|operation| asks_of(operation, unique)).collect(),
        };
        if asks.iter().any(Ask::writes) && random.chance(TALLY_PROBABILITY) {
            asks.push(Ask::Tally(tally, unique.draw()));
        }
        let is_one = asks.iter().map(|ask| ask.commands().len()).sum::<usize>() == 1;
        let form = match random.below(4) {
            _ if is_one => Form::Alone,
            0 => Form::Script,
            1 if asks.iter().any(Ask::writes) && !asks.iter().all(Ask::writes) => Form::Watch,
            _ => Form::Multi,
        };
        if form == Form::Watch {
            // All reads come before anything is written.
            asks.sort_by_key(Ask::writes);
        }
        Transaction { form, asks }
    }

    /// The transaction that reads all that there is of a generation, as far as the workload names it (`universe`).
    pub(super) fn of_everything(universe: &[Key], generation: u64) -> Self {
        let mut asks: Vec<Ask> = universe.iter().map(read).collect();
        for slot in 0..TALLIES {
            let list = slotted(TALLY, generation, slot);
            asks.push(Ask::Tallied(Tally { list, count: slotted(TALLY_COUNT, generation, slot) }));
            asks.push(Ask::Counter(slotted(COUNTER, generation, slot)));
        }
        Transaction { form: Form::Multi, asks }
    }

    /// The commands of those that write, or of those that do not.
    pub(super) fn commands(&self, writes: bool) -> Vec<Words> {
        self.asks.iter().filter(|ask| ask.writes() == writes).flat_map(Ask::commands).collect()
    }

    /// All its commands.
    pub(super) fn all_commands(&self) -> Vec<Words> {
        self.asks.iter().flat_map(Ask::commands).collect()
    }

    /// The keys that those read which do not write.
    pub(super) fn keys_read(&self) -> Words {
        let reads = self.asks.iter().filter(|ask| !ask.writes());
        reads.flat_map(Ask::commands).filter_map(|command| command.into_iter().nth(1)).collect()
    }

    /// The script that carries it out.
    pub(super) fn script(&self) -> Words {
        let mut eval = words(["EVAL", SCRIPT, "0"]);
        for command in self.all_commands() {
            eval.push(command.len().to_string().into_bytes());
            eval.extend(command);
        }
        eval
    }

    /// The micro-operations before anything is known of what they read.
    pub(super) fn announced(&self) -> Vec<MicroOp> {
        let mut announced = Vec::new();
        for ask in &self.asks {
            match ask {
                Ask::List(key) | Ask::Register(key) | Ask::Tallied(Tally { list: key, .. }) => {
                    announced.push(MicroOp::Read(in_history(key), Observed::Null));
                }
                Ask::Append(key, value) | Ask::Tally(Tally { list: key, .. }, value) => {
                    announced.push(MicroOp::Append(in_history(key), *value));
                }
                Ask::Write(key, value) => announced.push(MicroOp::Write(in_history(key), *value)),
                Ask::Update(key, value) => {
                    announced.push(MicroOp::Read(in_history(key), Observed::Null));
                    announced.push(MicroOp::Write(in_history(key), *value));
                }
                Ask::Count(_) | Ask::Counter(_) => {}
            }
        }
        announced
    }

    /// The meaning of the replies to all commands, in their order; in words, which reply has none.
    pub(super) fn understand(&self, replies: Vec<BytesFrame>) -> Result<Understood, String> {
        let (mut understood, mut replies) = (Understood::default(), replies.into_iter());
        for ask in &self.asks {
            ask.understand(&mut replies, &mut understood)?;
        }
        match replies.next() {
            Some(reply) => Err(format!("a reply to nothing: {reply:?}")),
            None => Ok(understood),
        }
    }
}

/// The questions to a Redis for an operation of the workload.
fn asks_of(operation: &Operation, unique: &mut UniqueValues) -> Vec<Ask> {
    match operation {
        Operation::Get(key) => vec![read(key)],
        Operation::Put(key) => vec![Ask::Write(key.clone(), unique.draw())],
        Operation::Update(key) => vec![Ask::Update(key.clone(), unique.draw())],
        Operation::Append(key) => vec![Ask::Append(key.clone(), unique.draw())],
        // There is no order of keys: what lies in the range is named.
        Operation::Scan(scan) => scan.universe.iter().map(read).collect(),
        // Other workloads than lists have these, and no door is asked for them.
        Operation::Increment(_)
        | Operation::Delete(_)
        | Operation::Create { .. }
        | Operation::Change { .. }
        | Operation::Elements(_)
        | Operation::Spread(_) => Vec::new(),
    }
}

fn read(key: &Key) -> Ask {
    if key.first() == Some(&REGISTER) { Ask::Register(key.clone()) } else { Ask::List(key.clone()) }
}

fn command<const N: usize>(name: &str, key: &Key, rest: [&str; N]) -> Words {
    let mut command = words([name]);
    command.push(key.to_vec());
    command.extend(rest.map(|word| word.as_bytes().to_vec()));
    command
}

impl Ask {
    pub(super) fn writes(&self) -> bool {
        !matches!(self, Ask::List(_) | Ask::Register(_) | Ask::Counter(_) | Ask::Tallied(_))
    }

    /// Its commands: one, or two for those about tallies.
    fn commands(&self) -> Vec<Words> {
        match self {
            Ask::List(key) => vec![command("LRANGE", key, ["0", "-1"])],
            Ask::Register(key) | Ask::Counter(key) => vec![command("GET", key, [])],
            Ask::Append(key, value) => vec![command("RPUSH", key, [&value.to_string()])],
            Ask::Write(key, value) => vec![command("SET", key, [&value.to_string()])],
            Ask::Update(key, value) => vec![command("SET", key, [&value.to_string(), "GET"])],
            Ask::Count(key) => vec![command("INCR", key, [])],
            Ask::Tally(Tally { list, count }, value) => {
                vec![command("RPUSH", list, [&value.to_string()]), command("INCR", count, [])]
            }
            Ask::Tallied(Tally { list, count }) => {
                vec![command("LRANGE", list, ["0", "-1"]), command("GET", count, [])]
            }
        }
    }

    fn understand(
        &self,
        replies: &mut impl Iterator<Item = BytesFrame>,
        understood: &mut Understood,
    ) -> Result<(), String> {
        let mut next = || replies.next().ok_or_else(|| format!("no reply to {self:?}"));
        match self {
            Ask::List(key) => {
                let list = list(next()?)?;
                understood.ops.push(MicroOp::Read(in_history(key), Observed::List(list.clone())));
                understood.lists.push((key.clone(), list));
            }
            Ask::Register(key) => {
                understood.ops.push(MicroOp::Read(in_history(key), register(next()?)?));
            }
            Ask::Append(key, value) => {
                length(next()?)?;
                understood.ops.push(MicroOp::Append(in_history(key), *value));
            }
            Ask::Write(key, value) => {
                match next()? {
                    BytesFrame::SimpleString(ok) if ok.as_ref() == b"OK" => {}
                    other => return Err(format!("the reply to SET is {other:?}")),
                }
                understood.ops.push(MicroOp::Write(in_history(key), *value));
            }
            Ask::Update(key, value) => {
                understood.ops.push(MicroOp::Read(in_history(key), register(next()?)?));
                understood.ops.push(MicroOp::Write(in_history(key), *value));
            }
            Ask::Count(key) => understood.counts.push((key.clone(), length(next()?)?)),
            Ask::Counter(key) => understood.counts.push((key.clone(), number(next()?)?.unwrap_or(0))),
            Ask::Tally(tally, value) => {
                let (len, count) = (length(next()?)?, length(next()?)?);
                understood.ops.push(MicroOp::Append(in_history(&tally.list), *value));
                understood.breaches.extend(untrue(tally, len, count));
            }
            Ask::Tallied(tally) => {
                let (list, count) = (list(next()?)?, number(next()?)?.unwrap_or(0));
                understood.breaches.extend(untrue(tally, list.len() as i64, count));
                understood.ops.push(MicroOp::Read(in_history(&tally.list), Observed::List(list.clone())));
                understood.lists.push((tally.list.clone(), list));
            }
        }
        Ok(())
    }
}

/// The breach if a tally and its count differ.
fn untrue(tally: &Tally, len: i64, count: i64) -> Option<String> {
    let key = String::from_utf8_lossy(&tally.list);
    (len != count).then(|| format!("{key} has {len} elements and {count} increments, in one transaction"))
}

fn length(reply: BytesFrame) -> Result<i64, String> {
    match reply {
        BytesFrame::Integer(length @ 1..) => Ok(length),
        other => Err(format!("a length or count is {other:?}")),
    }
}

fn number(reply: BytesFrame) -> Result<Option<i64>, String> {
    match &reply {
        BytesFrame::Null => Ok(None),
        BytesFrame::BulkString(text) => {
            let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
            number.map(Some).ok_or_else(|| format!("no number: {reply:?}"))
        }
        other => Err(format!("no number: {other:?}")),
    }
}

fn register(reply: BytesFrame) -> Result<Observed, String> {
    Ok(number(reply)?.map_or(Observed::Null, Observed::Register))
}

fn list(reply: BytesFrame) -> Result<Vec<i64>, String> {
    let BytesFrame::Array(elements) = reply else { return Err(format!("no list: {reply:?}")) };
    let element = |element| number(element)?.ok_or_else(|| "a list holds nothing at a place".to_owned());
    elements.into_iter().map(element).collect()
}

#[cfg(test)]
mod tests {
    use quorate_workloads::{Parameters, Workload, WorkloadKind};

    use super::*;

    fn bulk(text: &'static str) -> BytesFrame {
        BytesFrame::BulkString(text.into())
    }

    fn drawn(seed: u64) -> Vec<Transaction> {
        let (mut random, mut unique) = (Random::new(seed), UniqueValues::new(3));
        let mut workload = Workload::new(Parameters::new(WorkloadKind::Lists));
        let mut draw = || {
            let plan = workload.draw(&mut random);
            Transaction::draw(&plan, workload.generations() - 2, &mut unique, &mut random)
        };
        (0..500).map(|_| draw()).collect()
    }

    #[test]
    fn the_same_seed_draws_the_same_transactions_of_every_form() {
        let transactions = drawn(7);
        assert_eq!(transactions, drawn(7));
        assert_ne!(transactions, drawn(8));
        for form in [Form::Alone, Form::Multi, Form::Watch, Form::Script] {
            assert!(transactions.iter().any(|transaction| transaction.form == form), "{form:?}");
        }
        for transaction in transactions {
            assert!(!transaction.asks.is_empty());
            let is_one = transaction.all_commands().len() == 1;
            assert_eq!(transaction.form == Form::Alone, is_one, "{transaction:?}");
            if transaction.form == Form::Watch {
                assert!(transaction.asks.is_sorted_by_key(Ask::writes), "{transaction:?}");
                assert!(!transaction.keys_read().is_empty() && !transaction.commands(true).is_empty());
            }
        }
    }

    #[test]
    fn replies_become_micro_operations() {
        let (l, r): (Key, Key) = ("l0".into(), "r0".into());
        let asks = vec![Ask::List(l.clone()), Ask::Update(r.clone(), 9), Ask::Append(l.clone(), 8)];
        let transaction = Transaction { form: Form::Multi, asks };
        let replies = vec![BytesFrame::Array(vec![bulk("5"), bulk("6")]), bulk("4"), BytesFrame::Integer(3)];
        let understood = transaction.understand(replies).unwrap();
        assert_eq!(
            understood.ops,
            [
                MicroOp::Read(in_history(&l), Observed::List(vec![5, 6])),
                MicroOp::Read(in_history(&r), Observed::Register(4)),
                MicroOp::Write(in_history(&r), 9),
                MicroOp::Append(in_history(&l), 8),
            ]
        );
        assert_eq!(understood.ops.len(), transaction.announced().len());
        assert!(transaction.understand(vec![BytesFrame::Null]).is_err());
        assert!(transaction.understand(Vec::new()).is_err());
    }

    #[test]
    fn a_tally_that_was_torn_apart_is_noticed() {
        let tally = Tally { list: "t0".into(), count: "c0".into() };
        let breaches = |ask: Ask, replies| {
            Transaction { form: Form::Multi, asks: vec![ask] }.understand(replies).unwrap().breaches.len()
        };
        for (count, expected) in [(2, 0), (3, 1)] {
            let replies = vec![BytesFrame::Integer(2), BytesFrame::Integer(count)];
            assert_eq!(breaches(Ask::Tally(tally.clone(), 1), replies), expected);
        }
        for (count, expected) in [(bulk("1"), 0), (BytesFrame::Null, 1)] {
            let replies = vec![BytesFrame::Array(vec![bulk("7")]), count];
            assert_eq!(breaches(Ask::Tallied(tally.clone()), replies), expected);
        }
    }
}
