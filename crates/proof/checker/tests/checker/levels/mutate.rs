//! Bends a history a little, so that it is about as likely to be wrong as to be right.

use quorate_checker::{Key, MicroOp, Observed};

use super::random::Random;
use super::store::{LISTS, SETS};
use super::tape::{End, Tape};

pub(crate) fn mutate(tape: &mut Tape, random: &mut Random) {
    let at = random.below(tape.entries.len());
    match random.below(14) {
        0..5 => bend_read(tape, at, random),
        5..7 => move_event(tape, at, random),
        7 => tape.entries[at].site = Some(random.below(3)),
        8 => tape.entries[at].session = random.below(4),
        9 => {
            let lost = End::Lost(tape.entries[at].ended_at + random.below(30));
            let ends = [End::Ok, End::Ok, End::Fail, End::FailObserved, End::Info, End::Open, lost];
            tape.entries[at].end = random.pick(&ends);
        }
        10 => {
            let entry = &mut tape.entries[at];
            let shown = random.pick(&[entry.invoked_at + 1, entry.ended_at.saturating_sub(1)]);
            let is_inside = entry.invoked_at < shown && shown < entry.ended_at;
            entry.spec = is_inside.then(|| (shown, entry.ops.clone()));
        }
        _ => {
            let entry = &mut tape.entries[at];
            if !entry.ops.is_empty() {
                let op = random.below(entry.ops.len());
                entry.ops.remove(op);
                entry.spec.iter_mut().for_each(|(_, ops)| drop(ops.remove(op)));
            }
        }
    }
}

fn bend_read(tape: &mut Tape, at: usize, random: &mut Random) {
    let values: Vec<i64> = tape.entries.iter().flat_map(|entry| &entry.ops).filter_map(value).collect();
    let value = if values.is_empty() { 1 } else { random.pick(&values) };
    let entry = &mut tape.entries[at];
    let in_spec = entry.spec.is_some() && random.percent(30);
    let ops = match &mut entry.spec {
        Some((_, ops)) if in_spec => ops,
        _ => &mut entry.ops,
    };
    let Some((key, observed)) = ops.iter_mut().find_map(|op| match op {
        MicroOp::Read(Key::Int(key), observed) => Some((*key, observed)),
        _ => None,
    }) else {
        return;
    };
    let bent = match (observed.clone(), key) {
        (Observed::List(mut list), _) => {
            match random.below(5) {
                0 => drop(list.pop()),
                1 => list.push(value),
                2 => drop(list.remove(0)),
                3 => list.insert(random.below(list.len() + 1), value),
                _ => {
                    let (one, other) = (random.below(list.len()), random.below(list.len()));
                    list.swap(one, other);
                }
            }
            if list.is_empty() { Observed::Null } else { Observed::List(list) }
        }
        (Observed::Set(mut set), _) => {
            let count = set.entry(random.below(2) as i64).or_insert(0);
            *count += random.pick(&[-1, 1]);
            set.retain(|_, count| *count != 0);
            if set.is_empty() { Observed::Null } else { Observed::Set(set) }
        }
        (Observed::Null, key) if LISTS.contains(&key) => Observed::List(vec![value]),
        (Observed::Null, key) if SETS.contains(&key) => Observed::Set([(0, random.pick(&[-1, 1]))].into()),
        (Observed::Null, _) => Observed::Register(value),
        (Observed::Register(_), _) => {
            random.pick(&[Some(value), None]).map_or(Observed::Null, Observed::Register)
        }
    };
    *observed = bent;
    // A read that was shown before stays the one that is reported, unless only that was to change.
    if let (false, Some((_, ops))) = (in_spec, &mut entry.spec)
        && random.percent(70)
    {
        ops.clone_from(&entry.ops);
    }
}

fn value(op: &MicroOp) -> Option<i64> {
    match op {
        MicroOp::Append(_, value) | MicroOp::Write(_, value) => Some(*value),
        _ => None,
    }
}

/// Moves the beginning or the end of a transaction to another moment.
fn move_event(tape: &mut Tape, at: usize, random: &mut Random) {
    let last = tape.entries.iter().map(|entry| entry.ended_at).max().unwrap_or(0);
    let moment = random.below(last / 10 + 1) * 10 + 5;
    let entry = &mut tape.entries[at];
    if random.percent(50) {
        let length = entry.ended_at - entry.invoked_at;
        entry.invoked_at = moment;
        entry.ended_at = moment + if random.percent(50) { length } else { 1 + random.below(3) };
    } else {
        entry.ended_at = entry.invoked_at.max(moment) + 1;
    }
    if let Some((shown, _)) = &mut entry.spec {
        *shown = entry.invoked_at + (entry.ended_at - entry.invoked_at) / 2;
        if *shown == entry.invoked_at {
            entry.spec = None;
        }
    }
    if let End::Lost(moment) = &mut entry.end {
        *moment = (*moment).max(entry.ended_at);
    }
}
