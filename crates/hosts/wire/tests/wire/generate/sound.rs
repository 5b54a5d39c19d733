//! The checks of messages that their tables do not tell: a drawn message is made to pass them.
//!
//! Without a repair here a message is refused now and then, and the test that reads it fails.

use std::collections::BTreeSet;

use quorate_core::Random;
use quorate_core::verify::{BUCKETS, LISTED_MAX, PATH_MAX};

use super::{Message, Value, message, text, value};
use quorate_codec::schema::Kind;

/// Makes a message of this name sound.
pub(super) fn repair(name: &str, message: &mut Message, random: &mut Random) {
    match name {
        "Transaction" => {
            for list in [1, 2] {
                let mut entries = message.all(list).to_vec();
                ascend(&mut entries, 1);
                message.set(list, entries);
            }
            ascending_numbers(message, 4);
        }
        "Tenure" | "log.Membership" => {
            let size = group_size(random);
            set_members(message, size, random);
        }
        "Groups" => {
            let size = group_size(random);
            message.set(2, vec![Value::Varint(size as u64)]);
            let mut changed = message.all(3).to_vec();
            ascend(&mut changed, 1);
            message.set(3, changed);
            let mut apart = message.all(4).to_vec();
            ascend(&mut apart, 1);
            message.set(4, apart);
        }
        "Groups.Apart" => message.set(2, vec![Value::Varint(group_size(random) as u64)]),
        "Shard" => shard(message, random),
        "Change" => change(message, random),
        "Comparison" => {
            let has_service = [2, 5].contains(&message.number(1));
            let service = has_service.then(|| Value::Message(self::message("Shard", random)));
            message.set(2, service.into_iter().collect());
        }
        "Speculation" => {
            // Of the variants, str-external has chains.
            let chain = (message.number(1) == 4 && random.chance(0.5)).then(|| random.below(9));
            message.set(3, chain.map(Value::Varint).into_iter().collect());
        }
        "Retention" => {
            const BOUNDS: [(u32, u64); 2] = [(1, 24 * 60 * 60 * 1_000_000), (2, 1 << 30)];
            for (number, max) in BOUNDS {
                message.set(number, nonzero([0, max, random.below(max)][random.index(3)]));
            }
        }
        "changes.Position" => position(message),
        "changes.Position.Sites" => {
            // Zeros at the end stand for sites that have numbered nothing, and are left out.
            let mut numbers = message.all(1).to_vec();
            while numbers.pop_if(|number| *number == Value::Varint(0)).is_some() {}
            message.set(1, numbers);
        }
        "Keyspace" => keyspace(message, random),
        "Dropped" => dropped(message, random),
        "verify.Request" => shorten(message, 3, PATH_MAX),
        "verify.Digest" => {
            shorten(message, 1, PATH_MAX);
            let mut buckets = message.all(2).to_vec();
            buckets.resize_with(BUCKETS, || value(&Kind::Message("verify.Checksum".to_owned()), random));
            message.set(2, buckets);
            assert!(message.all(5).len() <= LISTED_MAX);
        }
        "ir.Part" => {
            let index = message.number(2).min(u64::from(u32::MAX) - 1);
            let count = message.number(3).max(index + 1);
            message.set(2, vec![Value::Varint(index)]);
            message.set(3, vec![Value::Varint(count)]);
        }
        "ir.PartRange" => {
            let (one, other) = (message.number(1), message.number(2));
            message.set(1, vec![Value::Varint(one.min(other))]);
            message.set(2, vec![Value::Varint(one.max(other))]);
        }
        // One place is a part of a record, too.
        "ir.CursorRange" => message.set(1, message.all(2).to_vec()),
        // A condition or step about a range has no key.
        "procedures.Condition" if !message.all(6).is_empty() => message.set(1, Vec::new()),
        "procedures.Step" if !message.all(7).is_empty() => message.set(1, Vec::new()),
        "log.Shape" => shape(message, random),
        "ir.OperationEntries" => shared_by_entries(message, random),
        "tapir.CoordinatorChangeReply" => shared_by_votes(message, random),
        _ => {}
    }
}

/// Sorts messages by one of their fields, and leaves out those that have the same.
pub(super) fn ascend(entries: &mut Vec<Value>, field: u32) {
    let key = |entry: &Value| match entry {
        Value::Message(message) => match message.all(field) {
            [Value::Bytes(bytes)] => (0, bytes.clone()),
            _ => (message.number(field), Vec::new()),
        },
        other => panic!("{other:?} is no message"),
    };
    entries.sort_by_key(key);
    entries.dedup_by_key(|entry| key(entry));
}

fn ascending_numbers(message: &mut Message, field: u32) {
    let numbers: BTreeSet<u64> = message.all(field).iter().map(as_number).collect();
    message.set(field, numbers.into_iter().map(Value::Varint).collect());
}

fn as_number(value: &Value) -> u64 {
    match value {
        Value::Varint(number) | Value::Fixed64(number) => *number,
        other => panic!("{other:?} is no number"),
    }
}

fn shorten(message: &mut Message, field: u32, max: usize) {
    if let Some([Value::Bytes(bytes)]) = message.0.get_mut(&field).map(Vec::as_mut_slice) {
        bytes.truncate(max);
    }
}

/// How many replicas a group may have.
fn group_size(random: &mut Random) -> usize {
    [1, 3, 5, 7, 9][random.index(5)]
}

/// Indices below a bound, all different.
fn indices(count: usize, bound: u64, random: &mut Random) -> Vec<Value> {
    let mut indices = BTreeSet::new();
    while indices.len() < count {
        indices.insert(random.below(bound));
    }
    indices.into_iter().map(Value::Varint).collect()
}

fn set_members(message: &mut Message, size: usize, random: &mut Random) {
    message.set(2, indices(size, 256, random));
}

/// As many nodes as replicas, and as many replicas after a change as before any.
fn shard(message: &mut Message, random: &mut Random) {
    let size = group_size(random);
    message.set(2, (0..size).map(|_| Value::Varint(random.below(1 << 16))).collect());
    if let Some(change) = message.inner(3) {
        let present = change.inner(3).expect("it is always there");
        set_members(present, size, random);
        settle_change(change, random);
    }
}

fn change(message: &mut Message, random: &mut Random) {
    settle_change(message, random);
}

/// The group before had as many nodes as replicas and is older, and the next index is beyond all that were given away.
fn settle_change(change: &mut Message, random: &mut Random) {
    let mut greatest = 0;
    let mut sizes = Vec::new();
    for tenure in [1, 3] {
        let tenure = change.inner(tenure).expect("it is always there");
        greatest = greatest.max(tenure.all(2).iter().map(as_number).max().expect("a group has members"));
        sizes.push(tenure.all(2).len());
    }
    let since = random.between(1, u64::from(u32::MAX));
    let before = if random.chance(0.5) { random.below(since) } else { since - 1 };
    change.inner(1).expect("it is always there").set(1, nonzero(before));
    change.inner(3).expect("it is always there").set(1, nonzero(since));
    change.set(2, (0..sizes[0]).map(|_| Value::Varint(random.below(1 << 16))).collect());
    change.set(4, vec![Value::Varint(random.between(greatest + 1, 256))]);
}

fn nonzero(number: u64) -> Vec<Value> {
    if number == 0 { Vec::new() } else { vec![Value::Varint(number)] }
}

fn short_name(random: &mut Random) -> Value {
    let mut name = String::from("k");
    for character in text(random).chars() {
        if name.len() + character.len_utf8() > 64 {
            break;
        }
        name.push(character);
    }
    Value::Text(name)
}

fn keyspace(keyspace: &mut Message, random: &mut Random) {
    keyspace.set(2, vec![short_name(random)]);
    if keyspace.all(5).is_empty() {
        keyspace.set(5, vec![Value::Message(message("Shard", random))]);
    }
    if !keyspace.all(7).is_empty() {
        keyspace.set(7, vec![Value::Varint([0, 1, 1_000_000, random.below(1_000_000)][random.index(4)])]);
    }
    let mut groups: Vec<Message> = keyspace.all(5).iter().map(as_message).collect();
    groups.extend(keyspace.all(11).iter().map(as_message));
    groups.extend(keyspace.inner(8).and_then(|comparison| comparison.inner(2).cloned()));
    let since =
        |shard: &mut Message| shard.inner(3).map(|change| change.inner(3).expect("it is there").number(1));
    let latest = groups.iter_mut().filter_map(since).max().unwrap_or(0);
    let epoch = keyspace.number(6).max(latest);
    keyspace.set(6, vec![Value::Varint(epoch)]);
    remove_sites(keyspace);
    join_sites(keyspace);
    homes(keyspace, random);
    timestamping(keyspace, random);
    application(keyspace, random);
    retention(keyspace);
    expiring(keyspace);
}

/// The options of timestamps are those of strict keyspaces, and a bound of clocks is for the order of real time.
fn timestamping(keyspace: &mut Message, random: &mut Random) {
    const STRICT: u64 = 1;
    const REAL_TIME: u64 = 1;
    const RETRY_AHEAD_MAX: u64 = 1_000_000;
    if keyspace.number(3) != STRICT || !keyspace.all(8).is_empty() {
        return keyspace.set(13, Vec::new());
    }
    let has_bound = !keyspace.all(7).is_empty();
    if let Some(options) = keyspace.inner(13) {
        options.set(2, nonzero([0, RETRY_AHEAD_MAX, random.below(RETRY_AHEAD_MAX)][random.index(3)]));
        if has_bound {
            options.set(1, vec![Value::Varint(REAL_TIME)]);
        }
    }
}

/// Shards of serializable keyspaces call applications.
fn application(keyspace: &mut Message, random: &mut Random) {
    const SERIALIZABLE: u64 = 2;
    let may_be = keyspace.number(3) == SERIALIZABLE && keyspace.all(8).is_empty();
    let name = (may_be && random.chance(0.5)).then(|| short_name(random));
    keyspace.set(14, name.into_iter().collect());
}

/// Values expire where the keyspace keeps an index on that.
fn expiring(keyspace: &mut Message) {
    const STRICT: u64 = 1;
    const SNAPSHOT: u64 = 4;
    if ![STRICT, SNAPSHOT].contains(&keyspace.number(3)) || !keyspace.all(8).is_empty() {
        keyspace.set(16, Vec::new());
    }
}

/// A position of sites stands beside a timestamp of zero.
fn position(position: &mut Message) {
    if !position.all(3).is_empty() {
        position.set(1, Vec::new());
        position.set(2, Vec::new());
    }
}

/// Changes are retained where some are told.
fn retention(keyspace: &mut Message) {
    const PARALLEL_SNAPSHOT: u64 = 3;
    if keyspace.number(3) == PARALLEL_SNAPSHOT || !keyspace.all(8).is_empty() {
        keyspace.set(15, Vec::new());
    }
}

/// Homes are there where transactions run at nodes, and each node has one machine of them.
fn homes(keyspace: &mut Message, random: &mut Random) {
    const SNAPSHOT: u64 = 4;
    if keyspace.number(3) != SNAPSHOT || !keyspace.all(8).is_empty() {
        keyspace.set(11, Vec::new());
        keyspace.set(12, Vec::new());
        return;
    }
    let mut ids: BTreeSet<u64> = keyspace.all(5).iter().map(|shard| as_message(shard).number(1)).collect();
    let mut homes: Vec<Message> = keyspace.all(11).iter().map(as_message).collect();
    if homes.is_empty() {
        homes.push(message("Shard", random));
    }
    let mut node = 0;
    for home in &mut homes {
        let id = (0..).find(|id| ids.insert(*id)).expect("there are many");
        home.set(1, nonzero(id));
        let nodes = home.all(2).len() as u64;
        home.set(2, (node..node + nodes).map(Value::Varint).collect());
        home.set(3, Vec::new());
        node += nodes;
    }
    keyspace.set(11, homes.into_iter().map(Value::Message).collect());
}

/// Each removal is that of a shard, in order, and the last shard succeeds them all.
fn remove_sites(keyspace: &mut Message) {
    let mut shards: Vec<u64> = keyspace.all(5).iter().map(|shard| as_message(shard).number(1)).collect();
    shards.sort_unstable();
    shards.dedup();
    let last = shards.pop().expect("a keyspace has a shard");
    let removals = keyspace.all(9).iter().map(as_message).zip(shards);
    let removals = removals.map(|(mut removal, shard)| {
        removal.set(1, nonzero(shard));
        removal.set(2, nonzero(last));
        Value::Message(removal)
    });
    let removals = removals.collect();
    keyspace.set(9, removals);
}

/// The sites that joined are the last shards, and at least one was there before. Those that replace another one replace the first that was removed.
fn join_sites(keyspace: &mut Message) {
    let shards: Vec<u64> = keyspace.all(5).iter().map(|shard| as_message(shard).number(1)).collect();
    let count = keyspace.all(10).len().min(shards.len() - 1);
    let last = &shards[shards.len() - count..];
    let removed = keyspace.all(9).first().map(|removal| as_message(removal).number(1));
    let joins = keyspace.all(10).iter().map(as_message).zip(last);
    let joins = joins.map(|(mut join, shard)| {
        join.set(1, nonzero(*shard));
        let replaced = removed.filter(|removed| removed != shard && !join.all(2).is_empty());
        join.set(2, replaced.map(Value::Varint).into_iter().collect());
        Value::Message(join)
    });
    let joins = joins.collect();
    keyspace.set(10, joins);
}

fn as_message(value: &Value) -> Message {
    match value {
        Value::Message(message) => message.clone(),
        other => panic!("{other:?} is no message"),
    }
}

fn dropped(dropped: &mut Message, random: &mut Random) {
    dropped.set(2, vec![short_name(random)]);
    let id = dropped.number(1);
    if let Some(definition) = dropped.inner(7) {
        definition.set(1, nonzero(id));
    }
    let names = dropped.all(8).iter().map(|_| short_name(random)).collect();
    dropped.set(8, names);
    let keys: BTreeSet<Vec<u8>> = dropped
        .all(9)
        .iter()
        .map(|key| match key {
            Value::Bytes(key) => key.clone(),
            other => panic!("{other:?} is no key"),
        })
        .collect();
    dropped.set(9, keys.into_iter().map(Value::Bytes).collect());
}

/// Empty, or runs that begin at the start or at a base.
fn shape(shape: &mut Message, random: &mut Random) {
    *shape = Message::default();
    if random.chance(0.2) {
        return;
    }
    let base = [0, random.between(1, 999), random.below(1 << 59)][random.index(3)];
    let (mut view, mut last) = ([0, 1 << 62][random.index(2)] + random.below(1 << 40), base.max(1) - 1);
    let mut runs = Vec::new();
    for _ in 0..random.between(1, 4) {
        let mut run = Message::default();
        run.set(1, nonzero(view));
        run.set(2, nonzero(last + 1));
        runs.push(Value::Message(run));
        view += random.between(1, 1 << 40);
        last += [1, random.between(1, 1 << 40)][random.index(2)];
    }
    shape.set(1, nonzero(base));
    shape.set(2, runs);
    shape.set(3, nonzero(last));
}

/// Draws which of a list of distinct transactions each of its users names: the list is in the order of their first use, and
/// holds none that is not used.
fn share(users: usize, random: &mut Random) -> (Vec<u64>, Vec<Value>) {
    let (mut positions, mut transactions) = (Vec::new(), Vec::new());
    for _ in 0..users {
        let position = random.index(transactions.len() + 1);
        if position == transactions.len() {
            let mut transaction = message("Transaction", random);
            while transactions.contains(&Value::Message(transaction.clone())) {
                transaction = message("Transaction", random);
            }
            transactions.push(Value::Message(transaction));
        }
        positions.push(position as u64);
    }
    (positions, transactions)
}

fn shared_by_entries(entries: &mut Message, random: &mut Random) {
    // The transaction of InconsistentEntry.decision, if that is a commit.
    fn committed(entries: &mut Message) -> Option<&mut Message> {
        entries.inner(2)?.inner(1)?.inner(1)
    }
    let has_commit = committed(entries).is_some();
    let consensus = entries.all(3).len();
    let (positions, transactions) = share(usize::from(has_commit) + consensus, random);
    let mut positions = positions.into_iter();
    if let Some(commit) = committed(entries) {
        commit.set(1, nonzero(positions.next().expect("one for each")));
    }
    set_positions(entries, 3, 2, positions);
    entries.set(1, transactions);
}

fn shared_by_votes(reply: &mut Message, random: &mut Random) {
    let (has_committed, votes) = (!reply.all(6).is_empty(), reply.all(7).len());
    let (positions, transactions) = share(usize::from(has_committed) + votes, random);
    let mut positions = positions.into_iter();
    if has_committed {
        reply.set(6, vec![Value::Varint(positions.next().expect("one for each"))]);
    }
    set_positions(reply, 7, 2, positions);
    reply.set(5, transactions);
}

/// Each message of a list names the transaction of its position.
fn set_positions(message: &mut Message, list: u32, field: u32, positions: impl Iterator<Item = u64>) {
    for (user, position) in message.0.get_mut(&list).into_iter().flatten().zip(positions) {
        let Value::Message(user) = user else { panic!("{user:?} is no message") };
        user.set(field, nonzero(position));
    }
}
