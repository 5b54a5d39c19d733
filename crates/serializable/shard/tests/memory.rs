//! The memory that a shard says it takes.

use quorate_core::attic::Memory;
use quorate_core::changes::Retention;
use quorate_granola::Application;
use quorate_serializable_shard::{Call, Condition, Operation, Shard, Step};

use crate::batches::{batch, get, key, place, put, run, value};

fn memory(shard: &Shard) -> Memory {
    shard.memory().expect("a shard counts its memory")
}

/// A shard that retains nothing for consumers of changes.
fn shard() -> Shard {
    let mut shard = Shard::default();
    shard.retain(Retention::NONE);
    shard
}

fn delete(name: &str) -> Step {
    Step::Delete { key: key(name) }
}

#[test]
fn values_count_until_nobody_may_ask_for_them() {
    let mut shard = shard();
    let nothing = memory(&shard);
    assert_eq!((nothing.values, nothing.stowed), (0, 0));
    run(&mut shard, 10, &batch(&[], &[put("a", "seven  "), put("b", "four")])).unwrap();
    run(&mut shard, 20, &batch(&[], &[put("a", "it")])).unwrap();
    assert_eq!(memory(&shard).values, 7 + 4 + 2, "what was overwritten may be put back");
    shard.settle(None);
    assert_eq!(memory(&shard).values, 2 + 4);
    let two_keys = memory(&shard).index;
    run(&mut shard, 30, &batch(&[], &[delete("b")])).unwrap();
    run(&mut shard, 40, &batch(&[], &[put("a", "long, and undone"), put("c", "new")])).unwrap();
    shard.rewind(place(40));
    assert_eq!(memory(&shard).values, 2 + 4, "b may be put back");
    shard.rewind(place(30));
    assert_eq!(memory(&shard), Memory { index: two_keys, values: 2 + 4, stowed: 0 });
    run(&mut shard, 50, &batch(&[], &[delete("a"), delete("b")])).unwrap();
    shard.settle(None);
    assert_eq!(memory(&shard), nothing);
}

#[test]
fn a_copy_of_a_shard_takes_as_much() {
    let mut shard = shard();
    run(&mut shard, 10, &batch(&[], &[put("a", "seven  "), put("b", "four")])).unwrap();
    shard.settle(None);
    let mut frozen = shard.freeze(None);
    let pages = std::iter::from_fn(|| Shard::next_page(&mut frozen, 1)).collect();
    let mut copy = Shard::from_pages(pages);
    copy.retain(Retention::NONE);
    assert_eq!(memory(&copy), memory(&shard));
}

#[test]
fn an_operation_adds_if_it_may_write_a_value() {
    let condition = Condition::Absent { key: key("a") };
    let increments = Step::Increment { key: key("a"), by: -1 };
    let appends = Step::Append { key: key("a"), value: value("x") };
    for (steps, adds) in [
        (vec![get("a")], false),
        (vec![delete("a"), get("b")], false),
        (vec![delete("a"), put("b", "x")], true),
        (vec![increments], true),
        (vec![appends], true),
    ] {
        assert_eq!(Shard::adds(&batch(std::slice::from_ref(&condition), &steps)), adds, "{steps:?}");
    }
    assert!(
        Shard::adds(&Operation::Call(Call { name: "sweep".to_owned(), ..Call::default() }).encode()),
        "nobody knows before it has run"
    );
    assert!(!Shard::adds(&value("no operation")), "it is refused with a reason");
}
