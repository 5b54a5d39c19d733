//! Attempts, step by step.

use super::*;
use bytes::Bytes;

fn execution(operations: Vec<Operation>) -> Execution {
    Execution::new(Arc::new(Plan { kind: "test", operations }), &mut UniqueValues::new(1), 0)
}

fn key(name: &'static str) -> Key {
    Key::from(name)
}

const FIRST: i64 = (1 << 16) + 1;
const SECOND: i64 = (2 << 16) + 1;

#[test]
fn an_append_reads_before_it_writes() {
    let mut execution = execution(vec![Operation::Append(key("l"))]);
    assert_eq!(execution.next_step(), Step::Get(key("l")));
    assert_eq!(execution.next_step(), Step::Get(key("l")), "a read is repeated until it is answered");
    assert!(!execution.has_begun());
    execution.got(Some(Content::List(vec![7]).encode(0))).unwrap();
    let expected = Content::List(vec![7, FIRST]).encode(0);
    assert_eq!(execution.next_step(), Step::Put(key("l"), Some(expected)));
    assert_eq!(execution.next_step(), Step::Commit);
    assert_eq!(execution.next_step(), Step::Commit);
    assert!(execution.has_begun());
    let l = || quorate_checker::Key::from("l");
    let ops = vec![MicroOp::Read(l(), Observed::List(vec![7])), MicroOp::Append(l(), FIRST)];
    assert_eq!(execution.observed(), Ok(ops));
    let announced = vec![MicroOp::Read(l(), Observed::Null), MicroOp::Append(l(), FIRST)];
    assert_eq!(execution.announced(), announced);
}

#[test]
fn writes_are_fresh_and_blind_ones_do_not_read() {
    let mut execution = execution(vec![Operation::Put(key("a")), Operation::Update(key("b"))]);
    let first = Content::Register(FIRST).encode(0);
    assert_eq!(execution.next_step(), Step::Put(key("a"), Some(first)));
    assert_eq!(execution.next_step(), Step::Get(key("b")));
    execution.got(None).unwrap();
    let second = Content::Register(SECOND).encode(0);
    assert_eq!(execution.next_step(), Step::Put(key("b"), Some(second)));
    let expected = vec![
        MicroOp::Write("a".into(), FIRST),
        MicroOp::Read("b".into(), Observed::Null),
        MicroOp::Write("b".into(), SECOND),
    ];
    assert_eq!(execution.observed(), Ok(expected));
}

#[test]
fn what_is_read_at_once_is_recorded_alike() {
    let mut execution = execution(vec![Operation::Get(key("a")), Operation::Get(key("b"))]);
    let keys = execution.plan().keys_read().unwrap();
    assert_eq!(keys, [key("a"), key("b")]);
    let mut values = BTreeMap::from([(key("b"), Some(Content::Register(7).encode(0)))]);
    assert_eq!(execution.got_all(&values), Err(Unread { key: "\"a\"".to_owned() }));
    values.insert(key("a"), None);
    assert_eq!(execution.got_all(&values), Ok(()));
    assert_eq!(execution.next_step(), Step::Commit);
    let expected =
        vec![MicroOp::Read("a".into(), Observed::Null), MicroOp::Read("b".into(), Observed::Register(7))];
    assert_eq!(execution.observed(), Ok(expected));
}

#[test]
fn what_is_done_at_once_is_recorded_alike() {
    let mut execution = execution(vec![Operation::Append(key("l")), Operation::Put(key("r"))]);
    let fresh: Vec<i64> = execution.all_at_once().map(|(_, fresh)| fresh).collect();
    assert_eq!(fresh, [FIRST, SECOND]);
    let read = SeenAtOnce::Value(Some(Content::appended(7)));
    execution.done_at_once(vec![read, SeenAtOnce::Nothing]);
    assert_eq!(execution.next_step(), Step::Commit);
    let expected = vec![
        MicroOp::Read("l".into(), Observed::List(vec![7])),
        MicroOp::Append("l".into(), FIRST),
        MicroOp::Write("r".into(), SECOND),
    ];
    assert_eq!(execution.observed(), Ok(expected));
}

#[test]
fn an_increment_counts_and_a_delete_deletes() {
    let mut execution = execution(vec![Operation::Increment(key("n")), Operation::Delete(key("d"))]);
    assert!(!execution.plan().is_judgeable());
    assert_eq!(execution.next_step(), Step::Get(key("n")));
    execution.got(Some(Content::Register(41).encode(0))).unwrap();
    assert_eq!(execution.next_step(), Step::Put(key("n"), Some(Content::Register(42).encode(0))));
    assert_eq!(execution.next_step(), Step::Put(key("d"), None));
    assert_eq!(execution.next_step(), Step::Commit);
}

#[test]
fn a_foreign_value_ends_the_attempt() {
    let mut execution = execution(vec![Operation::Append(key("l"))]);
    assert!(execution.got(Some(Bytes::from_static(b"hello"))).is_err());
    assert!(execution.got(Some(Content::Register(1).encode(0))).is_err());
}

#[test]
fn a_set_is_read_page_by_page_and_recorded_once() {
    let set = || key("s");
    let add = |element, by| Operation::Change { set: set(), element, by };
    let elements = Operation::Elements(Elements::all(set(), End::Greatest, 1));
    let mut execution = execution(vec![add(Element::Fresh, 1), add(Element::Numbered(7), -2), elements]);
    assert!(!execution.plan().is_read_only());
    let change = |number, by| Step::Change { set: set(), element: key::element(number), by };
    assert_eq!(execution.next_step(), change(FIRST, 1));
    assert_eq!(execution.next_step(), change(7, -2));
    let asked = |range| Step::Elements { set: set(), range, from: End::Greatest, limit: 1, enough: None };
    assert_eq!(execution.next_step(), asked(KeyRange { from: Key::default(), to: None }));
    let rest = KeyRange { from: Key::default(), to: Some(key::element(FIRST)) };
    execution.counted(vec![(key::element(FIRST), 1)], Some(rest.clone()));
    assert_eq!(execution.next_step(), asked(rest));
    execution.counted(vec![(key::element(7), -2)], None);
    assert_eq!(execution.next_step(), Step::Commit);
    let s = || quorate_checker::Key::from("s");
    let seen = Observed::Set(BTreeMap::from([(7, -2), (FIRST, 1)]));
    let changes = [MicroOp::Add(s(), FIRST), MicroOp::Remove(s(), 7), MicroOp::Remove(s(), 7)];
    let expected = [&changes[..], &[MicroOp::Read(s(), seen)]].concat();
    assert_eq!(execution.observed(), Ok(expected));
}

#[test]
fn the_newest_elements_lead_to_their_objects() {
    let set = || social::list(3, social::List::Messages);
    let all = Elements::all(set(), End::Greatest, 9);
    let elements = Elements { limit: Some(2), objects: 2, ..all };
    let mut execution = execution(vec![Operation::Elements(elements)]);
    assert!(!execution.plan().is_judgeable());
    let asked = |execution: &mut Execution| match execution.next_step() {
        Step::Elements { limit, enough, .. } => (limit, enough),
        other => panic!("{other:?}"),
    };
    assert_eq!(asked(&mut execution), (2, Some(2)));
    let rest = || Some(KeyRange { from: Key::default(), to: Some(key("x")) });
    execution.counted(vec![(social::object(5, 9), 1)], rest());
    assert_eq!(asked(&mut execution), (1, Some(1)));
    execution.counted(vec![(social::object(5, 8), 0)], rest());
    let object = social::object(5, 9);
    assert_eq!(execution.next_step(), Step::GetMany(vec![object.clone()]), "no count, no object");
    assert!(execution.reads_many() && execution.got_one(object, None) && !execution.reads_many());
    assert_eq!((execution.next_step(), execution.violations().len()), (Step::Commit, 1));
}

#[test]
fn a_set_and_the_objects_that_it_names_are_read_together() {
    let set = || social::list(3, social::List::Messages);
    let all = Elements::all(set(), End::Greatest, 9);
    let elements = Elements { objects: 2, names_objects: true, ..all };
    let mut execution = execution(vec![Operation::Elements(elements)]);
    let apart = execution.clone().reading_apart().next_step();
    assert!(matches!(apart, Step::Elements { .. }), "{apart:?}");
    let range = KeyRange { from: Key::default(), to: None };
    let members = Step::Members { set: set(), range, from: End::Greatest, limit: 2 };
    assert_eq!(execution.next_step(), members);
    let value = Some(Content::Register(9).encode(0));
    let member = |number, count, value| Member { element: social::object(5, number), count, value };
    let rest = KeyRange { from: Key::default(), to: Some(social::object(5, 8)) };
    execution.counted_with_objects(vec![member(9, 1, value), member(8, -1, None)], Some(rest.clone()));
    // The rest of the set comes without objects, but for those that are wanted in place of what is not in the set.
    let Step::Elements { range, .. } = execution.next_step() else { panic!("the rest is read") };
    assert_eq!(range, rest);
    execution.counted(vec![(social::object(5, 7), 1), (social::object(5, 6), 1)], None);
    assert_eq!(execution.next_step(), Step::GetMany(vec![social::object(5, 7)]));
    assert!(execution.got_one(social::object(5, 7), Some(Content::Register(7).encode(0))));
    assert_eq!((execution.next_step(), execution.violations().len()), (Step::Commit, 0));
    let reads = |number| MicroOp::Read(in_history(&social::object(5, number)), Observed::Register(number));
    assert_eq!(execution.observed().unwrap()[1..], [reads(9), reads(7)]);
}

#[test]
fn a_post_is_added_to_the_timelines_of_those_who_follow() {
    let users = Elements::all(social::list(3, social::List::Followers), End::Least, 9);
    let spread = Spread { users, object: 0, list: social::List::Timeline };
    let mut execution = execution(vec![Operation::Create { owner: 3 }, Operation::Spread(spread)]);
    let Step::Put(object, Some(_)) = execution.next_step() else { panic!() };
    assert_eq!(object, social::object(3, FIRST));
    assert_eq!(execution.announced().len(), 2, "whose timelines these are is not known yet");
    assert!(matches!(execution.next_step(), Step::Elements { .. }));
    let counts = [(4, 1), (5, 0), (6, 2)].map(|(user, count)| (social::user_name(user), count));
    execution.counted(counts.to_vec(), None);
    let timelines = [4, 6].map(|user| social::list(user, social::List::Timeline));
    let adds: Vec<MicroOp> = timelines.iter().map(|set| MicroOp::Add(in_history(set), FIRST)).collect();
    assert_eq!(execution.discovered(), adds);
    assert!(execution.discovered().is_empty());
    for set in timelines {
        let element = social::object(3, FIRST);
        assert_eq!(execution.next_step(), Step::Change { set, element, by: 1 });
    }
    assert_eq!(execution.next_step(), Step::Commit);
    assert!(execution.observed().unwrap().ends_with(&adds));
}

fn scan(page: u32, pages_max: u32) -> Operation {
    let range = KeyRange { from: key("a"), to: Some(key("e")) };
    let universe = ["a", "b", "c", "d"].map(key).to_vec();
    Operation::Scan(Scan { range, universe, page, pages_max })
}

#[test]
fn a_scan_goes_on_where_the_page_ended_and_records_absent_keys() {
    let mut execution = execution(vec![scan(1, 9), scan(9, 9)]);
    let rest = |from| Step::Scan { range: KeyRange { from: key(from), to: Some(key("e")) }, limit: 1 };
    assert_eq!(execution.next_step(), rest("a"));
    execution.scanned(vec![(key("b"), Content::Register(5).encode(0))], Some(key("c")));
    assert_eq!(execution.next_step(), rest("c"));
    execution.scanned(vec![], None);
    assert!(matches!(execution.next_step(), Step::Scan { limit: 9, .. }));
    execution.scanned(vec![], None);
    assert_eq!(execution.next_step(), Step::Commit);
    let reads = execution.observed().unwrap();
    assert_eq!(reads[0], MicroOp::Read("b".into(), Observed::Register(5)));
    assert_eq!(reads.len(), 8, "each scan reads each of the four keys: {reads:?}");
}

#[test]
fn a_scan_that_has_seen_enough_records_only_what_it_covered() {
    let mut execution = execution(vec![scan(1, 1)]);
    execution.scanned(vec![(key("a"), Content::Register(5).encode(0))], Some(key("c")));
    assert_eq!(execution.next_step(), Step::Commit);
    let expected =
        vec![MicroOp::Read("a".into(), Observed::Register(5)), MicroOp::Read("b".into(), Observed::Null)];
    assert_eq!(execution.observed(), Ok(expected));
}
