//! Tables, which keep what they hold where Lua 5.1 keeps it (its `ltable.c`): an array, and nodes in the order of hashes.
//!
//! So a walk goes in the same order, and the length of a list with gaps is the same. The hashes of strings, numbers and truth values follow from what they are.
//! Those of tables and functions follow from their addresses; so a table that has had one as a key has no order here, and no length.

use std::sync::Arc;

use crate::Halt;
use crate::machine::VALUE_BYTES;
use crate::values::Value;

/// The cost of a node, in bytes, with room to spare.
const NODE_BYTES: usize = 72;

/// So many bits the size of an array has at most.
const ARRAY_BITS: usize = 26;

/// How many elements of an array lie above each power of two, up to and with the next.
type Counts = [usize; ARRAY_BITS + 1];

#[derive(Clone, Debug)]
struct Node {
    /// Nil if it is free.
    key: Value,
    value: Value,
    /// The next one that has collided, counted from one; zero if there is none.
    next: usize,
}

const FREE: Node = Node { key: Value::Nil, value: Value::Nil, next: 0 };

/// A table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    array: Vec<Value>,
    /// None, or a power of two.
    nodes: Vec<Node>,
    /// All nodes from here on have been in use.
    last_free: usize,
    /// True once a table or a function was a key.
    has_addresses: bool,
}

/// The logarithm of a number, rounded up.
fn log2(number: usize) -> usize {
    number.next_power_of_two().trailing_zeros() as usize
}

/// The position in an array that a key stands for, if it can be one.
fn position(key: &Value) -> Option<usize> {
    let Value::Number(number) = key else { return None };
    let is_one = *number >= 1.0 && *number <= (1 << ARRAY_BITS) as f64 && number.trunc() == *number;
    is_one.then_some(*number as usize)
}

fn hash_of_string(string: &[u8]) -> u32 {
    let mut hash = string.len() as u32;
    // A long string is looked at here and there.
    let step = (string.len() >> 5) + 1;
    let mut at = string.len();
    while at >= step {
        hash ^= (hash << 5).wrapping_add(hash >> 2).wrapping_add(u32::from(string[at - 1]));
        at -= step;
    }
    hash
}

/// A size as the bytecode of Lua has it: of larger ones only the first four bits.
fn rounded(size: usize) -> usize {
    let (mut mantissa, mut exponent) = (size, 0);
    while mantissa >= 16 {
        mantissa = mantissa.div_ceil(2);
        exponent += 1;
    }
    mantissa << exponent
}

impl Table {
    /// A table of these values in their order, as native functions make it.
    pub(crate) fn of_list(values: Vec<Value>) -> Self {
        Table { array: values, ..Table::default() }
    }

    /// A table of an expression: its values, of which so many are written one by one, and room for as many fields.
    pub(crate) fn of_expression(values: Vec<Value>, written: usize, fields: usize) -> Self {
        let mut table = Table { array: values, ..Table::default() };
        let size = rounded(written).max(table.array.len());
        table.array.resize(size, Value::Nil);
        table.make_nodes(rounded(fields));
        table
    }

    /// Its cost, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.array.len() * VALUE_BYTES + self.nodes.len() * NODE_BYTES
    }

    fn make_nodes(&mut self, size: usize) {
        let size = if size == 0 { 0 } else { 1 << log2(size) };
        self.nodes = vec![FREE; size];
        self.last_free = size;
    }

    fn place_of_string(&self, string: &[u8]) -> usize {
        hash_of_string(string) as usize & (self.nodes.len() - 1)
    }

    /// The node at which a key lies, if nothing collides; there is one at least.
    fn main_position(&self, key: &Value) -> usize {
        let count = self.nodes.len();
        // The remainder by an odd number spreads what a mask would not.
        let by_remainder = |hash: u32| hash as usize % ((count - 1) | 1);
        match key {
            Value::String(string) => self.place_of_string(string),
            Value::Boolean(flag) => usize::from(*flag) & (count - 1),
            Value::Number(0.0) => 0,
            Value::Number(number) => {
                let bits = number.to_bits();
                by_remainder((bits as u32).wrapping_add((bits >> 32) as u32))
            }
            Value::Table(number) | Value::Function(number) => by_remainder(*number as u32),
            _ => 0,
        }
    }

    /// The node of a key.
    fn node(&self, key: &Value) -> Option<usize> {
        if self.nodes.is_empty() {
            return None;
        }
        let mut at = self.main_position(key);
        loop {
            let node = &self.nodes[at];
            if node.key.equals(key) {
                return Some(at);
            }
            at = node.next.checked_sub(1)?;
        }
    }

    pub(crate) fn get(&self, key: &Value) -> Value {
        match position(key) {
            Some(at) if at <= self.array.len() => self.array[at - 1].clone(),
            _ if key.is_nil() => Value::Nil,
            _ => self.node(key).map_or(Value::Nil, |at| self.nodes[at].value.clone()),
        }
    }

    /// The element at a position.
    pub(crate) fn at(&self, position: usize) -> Value {
        self.get(&Value::Number(position as f64))
    }

    pub(crate) fn named(&self, name: &[u8]) -> Value {
        let mut next = if self.nodes.is_empty() { 0 } else { 1 + self.place_of_string(name) };
        while let Some(at) = next.checked_sub(1) {
            let node = &self.nodes[at];
            if matches!(&node.key, Value::String(key) if **key == *name) {
                return node.value.clone();
            }
            next = node.next;
        }
        Value::Nil
    }

    /// Sets a field; nil removes it. Gives by how many bytes the table has grown.
    ///
    /// # Errors
    /// This cannot be a key.
    pub(crate) fn set(&mut self, key: &Value, value: Value) -> Result<usize, Halt> {
        match key {
            Value::Number(number) if number.is_nan() => {
                return Err(Halt::Unfit("a table is indexed with what is no number"));
            }
            Value::Table(_) | Value::Function(_) => self.has_addresses = true,
            Value::Number(_) | Value::String(_) | Value::Boolean(_) => {}
            _ => return Err(Halt::Unfit("a table is indexed with nil, or with what shards do not know")),
        }
        let before = self.bytes();
        self.put(key, value);
        Ok(self.bytes().saturating_sub(before))
    }

    fn put(&mut self, key: &Value, value: Value) {
        match position(key) {
            Some(at) if at <= self.array.len() => self.array[at - 1] = value,
            _ => match self.node(key) {
                Some(at) => self.nodes[at].value = value,
                None => self.insert(key, value),
            },
        }
    }

    /// Puts a key that has no node: at its main position, from which one that belongs elsewhere has to go.
    fn insert(&mut self, key: &Value, value: Value) {
        let mut at = if self.nodes.is_empty() { None } else { Some(self.main_position(key)) };
        if let Some(main) = at.filter(|main| !self.nodes[*main].value.is_nil()) {
            at = self.take_free().map(|free| {
                let other = self.main_position(&self.nodes[main].key);
                if other == main {
                    self.nodes[free].next = self.nodes[main].next;
                    self.nodes[main].next = free + 1;
                    return free;
                }
                let mut before = other;
                while self.nodes[before].next != main + 1
                    && let Some(next) = self.nodes[before].next.checked_sub(1)
                {
                    before = next;
                }
                self.nodes[before].next = free + 1;
                self.nodes[free] = std::mem::replace(&mut self.nodes[main], FREE);
                main
            });
        }
        match at {
            Some(at) => {
                self.nodes[at].key = key.clone();
                self.nodes[at].value = value;
            }
            None => {
                self.rehash(key);
                self.put(key, value);
            }
        }
    }

    fn take_free(&mut self) -> Option<usize> {
        while self.last_free > 0 {
            self.last_free -= 1;
            if self.nodes[self.last_free].key.is_nil() {
                return Some(self.last_free);
            }
        }
        None
    }

    /// Divides what there is anew between array and nodes, with room for one more key.
    fn rehash(&mut self, key: &Value) {
        let mut counts: Counts = [0; ARRAY_BITS + 1];
        let mut count = |at: usize| counts[log2(at)] += 1;
        let (mut integers, mut all) = (0, 1);
        for (at, value) in self.array.iter().enumerate() {
            if !value.is_nil() {
                count(at + 1);
                integers += 1;
                all += 1;
            }
        }
        let keys = self.nodes.iter().filter(|node| !node.value.is_nil()).map(|node| &node.key);
        for key in keys.chain([key]) {
            if let Some(at) = position(key) {
                count(at);
                integers += 1;
            }
        }
        all += self.nodes.iter().filter(|node| !node.value.is_nil()).count();
        let (size, in_array) = array_size(&counts, integers);
        self.resize(size, all - in_array);
    }

    fn resize(&mut self, size: usize, nodes: usize) {
        let old = std::mem::take(&mut self.nodes);
        self.make_nodes(nodes);
        let mut rest = Vec::new();
        if size < self.array.len() {
            rest = self.array.split_off(size);
        } else {
            self.array.resize(size, Value::Nil);
        }
        for (behind, value) in rest.into_iter().enumerate().filter(|(_, value)| !value.is_nil()) {
            self.put(&Value::Number((size + behind + 1) as f64), value);
        }
        for node in old.into_iter().rev().filter(|node| !node.value.is_nil()) {
            self.put(&node.key, node.value);
        }
    }

    fn check_order(&self) -> Result<(), Halt> {
        if self.has_addresses {
            Err(Halt::Unfit("the order of a table depends on addresses"))
        } else {
            Ok(())
        }
    }

    /// The length of the list, or one of its lengths if it has gaps.
    ///
    /// # Errors
    /// It depends on addresses.
    pub(crate) fn length(&self) -> Result<usize, Halt> {
        self.check_order()?;
        let (mut low, mut high) = (0, self.array.len());
        if high == 0 || !self.array[high - 1].is_nil() {
            if self.nodes.is_empty() {
                return Ok(high);
            }
            (low, high) = (high, high + 1);
            while !self.at(high).is_nil() {
                (low, high) = (high, high * 2);
            }
        }
        while high - low > 1 {
            let middle = (low + high) / 2;
            if self.at(middle).is_nil() {
                high = middle;
            } else {
                low = middle;
            }
        }
        Ok(low)
    }

    /// The key and the value behind a key, where nil is before the first; none behind the last.
    ///
    /// # Errors
    /// The order depends on addresses, or there is no such key.
    pub(crate) fn next(&self, key: &Value) -> Result<Option<(Value, Value)>, Halt> {
        self.check_order()?;
        let from = match position(key) {
            _ if key.is_nil() => 0,
            Some(at) if at <= self.array.len() => at,
            _ => self.array.len() + 1 + self.node(key).ok_or(Halt::Unfit("a table has no such key"))?,
        };
        for (at, value) in self.array.iter().enumerate().skip(from) {
            if !value.is_nil() {
                return Ok(Some((Value::Number((at + 1) as f64), value.clone())));
            }
        }
        let nodes = self.nodes.iter().skip(from.saturating_sub(self.array.len()));
        let found = nodes.into_iter().find(|node| !node.value.is_nil());
        Ok(found.map(|node| (node.key.clone(), node.value.clone())))
    }
}

/// The size of an array of which more than half is in use, the greatest such; and how many elements lie in it.
fn array_size(counts: &Counts, integers: usize) -> (usize, usize) {
    let (mut size, mut in_array, mut below) = (0, 0, 0);
    for (bits, count) in counts.iter().enumerate() {
        let limit = 1 << bits;
        if limit / 2 >= integers {
            break;
        }
        below += count;
        if *count > 0 && below > limit / 2 {
            (size, in_array) = (limit, below);
        }
        if below == integers {
            break;
        }
    }
    (size, in_array)
}

/// A name as a key.
pub(crate) fn name(name: &str) -> Value {
    Value::String(Arc::from(name.as_bytes()))
}
