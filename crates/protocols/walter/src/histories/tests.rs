//! Histories step by step, and against a model that keeps everything.

mod model;

use proptest::prelude::*;

use super::*;
use crate::vector::LocalSite;

const ALL: (Bound<&Key>, Bound<&Key>) = (Bound::Unbounded, Bound::Unbounded);

fn version(site: u16, seqno: u64) -> VersionNumber {
    VersionNumber { site: LocalSite(site), seqno }
}

fn vector(numbers: &[u64]) -> Vector {
    Vector::new(numbers.to_vec())
}

fn write(key: &str, value: &str) -> Update {
    let value = (!value.is_empty()).then(|| Value::copy_from_slice(value.as_bytes()));
    Update::Write { key: Key::from(key), value }
}

fn add(set: &str, element: &str, by: i32) -> Update {
    Update::Add { set: Key::from(set), element: Key::from(element), by }
}

fn text(histories: &Histories, key: &str, snapshot: &[u64]) -> Option<String> {
    let found = histories.read(key.as_bytes(), &vector(snapshot)).unwrap()?;
    found.value.as_ref().map(|value| String::from_utf8_lossy(value).into_owned())
}

fn counts(histories: &Histories, set: &str, snapshot: &[u64]) -> Vec<(Key, i64)> {
    let counts = histories.elements(&Key::from(set), ALL, End::Least, 100, &vector(snapshot)).unwrap().counts;
    counts.into_iter().map(|count| (count.element, count.count)).collect()
}

#[test]
fn a_register_and_a_set_of_one_key_are_two_objects() {
    let mut histories = Histories::default();
    histories.apply(version(0, 1), &[write("a", "1"), add("a", "x", 1)]);
    assert_eq!(text(&histories, "a", &[1]).as_deref(), Some("1"));
    assert_eq!(counts(&histories, "a", &[1]), [(Key::from("x"), 1)]);
    assert!(text(&histories, "b", &[1]).is_none() && counts(&histories, "b", &[1]).is_empty());
}

#[test]
fn a_write_is_let_in_by_whether_the_newest_version_was_seen() {
    let mut histories = Histories::default();
    assert!(histories.is_unmodified(b"a", &vector(&[])));
    histories.apply(version(1, 1), &[write("a", "1")]);
    assert!(!histories.is_unmodified(b"a", &vector(&[7])) && histories.is_unmodified(b"a", &vector(&[0, 1])));
}

#[test]
fn a_scan_shows_the_registers_that_a_snapshot_has() {
    let mut histories = Histories::default();
    histories.apply(version(0, 1), &[write("{u}/a", "1"), write("{u}/b", "2"), write("{v}/c", "3")]);
    histories.apply(version(0, 2), &[write("{u}/a", ""), write("{u}/d", "4")]);
    let range = KeyRange { from: Key::from("{u}/"), to: Some(Key::from("{u}0")) };
    let keys = |snapshot: &[u64], limit| {
        let (found, next) = histories.scan(&range, limit, &vector(snapshot), |_| true).unwrap();
        (found.into_iter().map(|read| read.key).collect::<Vec<_>>(), next)
    };
    assert_eq!(keys(&[1], 9), (vec![Key::from("{u}/a"), Key::from("{u}/b")], None));
    assert_eq!(keys(&[2], 1), (vec![Key::from("{u}/b")], Some(Key::from("{u}/d"))));
}

#[test]
fn a_page_of_a_set_says_whether_more_is_left() {
    let mut histories = Histories::default();
    histories.apply(version(0, 1), &[add("s", "a", 1), add("s", "b", 1), add("s", "c", 1)]);
    let page = |limit| histories.elements(&Key::from("s"), ALL, End::Greatest, limit, &vector(&[1])).unwrap();
    assert_eq!((page(2).counts.len(), page(2).is_cut, page(3).is_cut), (2, true, false));
    let (b, a) = (Key::from("b"), Key::from("a"));
    let turned = (Bound::Included(&b), Bound::Excluded(&a));
    let nothing = histories.elements(&Key::from("s"), turned, End::Least, 9, &vector(&[1])).unwrap();
    assert_eq!(nothing, Elements::default());
}

#[test]
fn a_snapshot_that_does_not_include_the_floor_is_too_old() {
    let mut histories = Histories::default();
    histories.apply(version(0, 1), &[write("a", "1")]);
    histories.apply(version(0, 2), &[write("a", "2")]);
    histories.raise_floor(&vector(&[2]));
    let error = histories.read(b"a", &vector(&[1, 5])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the snapshot ⟨1 5⟩ does not include ⟨2⟩, below which versions are not kept"
    );
    assert_eq!(text(&histories, "a", &[2]).as_deref(), Some("2"));
}

#[test]
fn what_is_destroyed_takes_no_room() {
    let mut histories = Histories::default();
    histories.apply(version(0, 1), &[write("a", "1"), add("s", "x", 1)]);
    histories.apply(version(0, 2), &[write("a", ""), add("s", "x", -1)]);
    histories.raise_floor(&vector(&[2]));
    assert!(histories.fold(1), "more is left");
    assert!(!histories.fold(9));
    assert!(histories.registers.is_empty() && histories.ordered.is_empty() && histories.sets.is_empty());
    assert!(histories.foldable.is_empty());
}

#[test]
fn abandoned_transactions_leave_nothing_behind() {
    let mut histories = Histories::default();
    histories.apply(version(0, 1), &[write("a", "1"), add("s", "x", 1)]);
    histories.apply(version(1, 1), &[write("b", "1")]);
    histories.apply(version(1, 2), &[write("a", "2"), write("c", "2"), add("s", "x", 1), add("t", "y", 1)]);
    histories.abandon_above(version(1, 1));
    assert_eq!(histories.received(), &vector(&[1, 1]));
    assert_eq!(text(&histories, "a", &[9, 9]).as_deref(), Some("1"));
    assert_eq!(counts(&histories, "s", &[9, 9]), [(Key::from("x"), 1)]);
    assert!(text(&histories, "c", &[9, 9]).is_none() && !histories.ordered.contains(&Key::from("c")));
    histories.apply(version(1, 2), &[write("c", "again")]);
}

#[test]
fn an_object_that_was_abandoned_waits_once_to_be_folded_when_it_is_there_again() {
    let mut histories = Histories::default();
    histories.apply(version(1, 1), &[add("t", "y", 1)]);
    histories.apply(version(0, 1), &[add("s", "x", 1)]);
    histories.raise_floor(&vector(&[1]));
    assert_eq!((histories.foldable.len(), histories.superfluous()), (2, 2));
    histories.abandon_above(version(1, 0));
    assert_eq!((histories.foldable.len(), histories.superfluous()), (1, 1));
    histories.apply(version(1, 1), &[add("t", "y", 1), write("a", ""), write("b", "")]);
    assert_eq!((histories.foldable.len(), histories.superfluous()), (4, 1));
    assert!(!histories.fold(9));
    histories.abandon_above(version(1, 0));
    assert!(histories.foldable.is_empty(), "{:?}", histories.foldable);
}

#[test]
#[should_panic(expected = "has committed everywhere")]
fn what_has_committed_everywhere_is_not_abandoned() {
    let mut histories = Histories::default();
    histories.apply(version(1, 1), &[]);
    histories.raise_floor(&vector(&[0, 1]));
    histories.abandon_above(version(1, 0));
}

#[test]
#[should_panic(expected = "s0.3 takes effect, and number 2 is the next of its site")]
fn no_number_is_left_out() {
    let mut histories = Histories::default();
    histories.apply(version(0, 1), &[]);
    histories.apply(version(0, 3), &[]);
}

/// A transaction of the model: its site, its cause at the other site, and its updates. Registers belong to sites, as their preferred site does.
#[derive(Clone, Debug)]
struct Committed {
    site: u16,
    sees: u64,
    updates: Vec<Update>,
}

fn committed() -> impl Strategy<Value = Committed> {
    let update = (0u16..2, 0u8..3, -1i32..=1).prop_map(|(kind, name, by)| (kind, name, by));
    (0u16..2, 0u64..4, prop::collection::vec(update, 0..4)).prop_map(|(site, sees, updates)| {
        let updates = updates.into_iter().map(|(kind, name, by)| match (kind, by) {
            (0, 0) => write(&format!("r{site}{name}"), ""),
            (0, _) => write(&format!("r{site}{name}"), &format!("{by}")),
            _ => add(&format!("s{}", name % 2), &format!("e{name}"), by),
        });
        Committed { site, sees, updates: updates.collect() }
    })
}

/// The versions of a schedule, each site's in order; what a transaction sees of the other site comes before it.
fn schedule(transactions: &[Committed], first: u16) -> Vec<(VersionNumber, Vec<Update>)> {
    let of = |site: u16| {
        transactions.iter().filter(move |transaction| transaction.site == site).collect::<Vec<_>>()
    };
    let all = [of(0), of(1)];
    let mut done = [0usize, 0];
    let mut order = Vec::new();
    while done[0] < all[0].len() || done[1] < all[1].len() {
        let can = |site: usize| {
            let next = all[site].get(done[site]);
            next.is_some_and(|next| (next.sees as usize).min(all[1 - site].len()) <= done[1 - site])
        };
        let prefers = usize::from(first);
        // Two that see each other's future cannot be: then what is seen is cut short.
        let site = [prefers, 1 - prefers].into_iter().find(|site| can(*site));
        let site = site.unwrap_or_else(|| (0..2).find(|site| done[*site] < all[*site].len()).unwrap());
        let updates = all[site][done[site]].updates.clone();
        done[site] += 1;
        order.push((version(site as u16, done[site] as u64), updates));
    }
    order
}

/// The naive model: every update of every transaction that a snapshot includes, in order.
fn expected_counts(order: &[(VersionNumber, Vec<Update>)], set: &str, snapshot: &Vector) -> Vec<(Key, i64)> {
    let mut counts: BTreeMap<Key, i64> = BTreeMap::new();
    for (_, updates) in order.iter().filter(|(version, _)| snapshot.includes(*version)) {
        for update in updates {
            if let Update::Add { set: of, element, by } = update
                && of.as_slice() == set.as_bytes()
            {
                *counts.entry(element.clone()).or_default() += i64::from(*by);
            }
        }
    }
    counts.into_iter().filter(|(_, count)| *count != 0).collect()
}

fn expected_value(order: &[(VersionNumber, Vec<Update>)], key: &str, snapshot: &Vector) -> Option<Value> {
    let visible = order.iter().filter(|(version, _)| snapshot.includes(*version));
    let written = visible.flat_map(|(_, updates)| updates).filter_map(|update| match update {
        Update::Write { key: of, value } if of.as_slice() == key.as_bytes() => Some(value.clone()),
        _ => None,
    });
    written.last().flatten()
}

proptest! {
    /// Sites that receive transactions in different orders, and fold at different times, read the same.
    #[test]
    fn sites_converge_and_folding_changes_nothing(
        transactions in prop::collection::vec(committed(), 0..12),
        floors in prop::collection::vec((0u64..6, 0u64..6), 0..3),
        snapshots in prop::collection::vec((0u64..7, 0u64..7), 1..6),
        objects_max in 1usize..4,
    ) {
        let orders = [schedule(&transactions, 0), schedule(&transactions, 1)];
        let mut sites = [Histories::default(), Histories::default()];
        for (site, order) in sites.iter_mut().zip(&orders) {
            for (version, updates) in order {
                site.apply(*version, updates);
            }
        }
        prop_assert_eq!(sites[0].received(), sites[1].received());
        // Only the first site folds; a floor is received everywhere.
        for (zero, one) in floors {
            let mut floor = vector(&[zero, one]);
            floor.meet(&sites[0].received().clone());
            sites[0].raise_floor(&floor);
            while sites[0].fold(objects_max) {}
        }
        for (zero, one) in snapshots {
            let mut snapshot = vector(&[zero, one]);
            snapshot.join(&sites[0].floor().clone());
            for site in &sites {
                for set in ["s0", "s1"] {
                    let found = site.elements(&Key::from(set), ALL, End::Least, 100, &snapshot).unwrap().counts;
                    let mut backwards =
                        site.elements(&Key::from(set), ALL, End::Greatest, 100, &snapshot).unwrap().counts;
                    backwards.reverse();
                    prop_assert_eq!(&found, &backwards);
                    let found: Vec<(Key, i64)> =
                        found.into_iter().map(|count| (count.element, count.count)).collect();
                    prop_assert_eq!(found, expected_counts(&orders[0], set, &snapshot));
                }
                for key in ["r00", "r01", "r02", "r10", "r11", "r12"] {
                    let found = site.read(key.as_bytes(), &snapshot).unwrap().and_then(|found| found.value.clone());
                    prop_assert_eq!(found, expected_value(&orders[1], key, &snapshot), "{} at {}", key, snapshot);
                }
            }
        }
    }
}

fn place(name: &str, replicas: &[u16]) -> Update {
    let replicas = Replicas::of(replicas.iter().copied().map(LocalSite));
    Update::Place {
        name: Key::from(name),
        container: Some(Container { preferred: LocalSite(0), replicas, stays: true }),
    }
}

fn noted(object: &str, writes: bool) -> Update {
    Update::Noted { object: Key::from(object), writes }
}

fn fold(histories: &mut Histories, floor: &[u64]) {
    histories.raise_floor(&vector(floor));
    while histories.fold(1) {}
}

#[test]
fn a_site_has_an_object_in_the_snapshots_that_say_so_and_gives_it_up_with_the_last() {
    let mut histories = Histories::new(LocalSite(2));
    histories.apply(version(0, 1), &[write("{a}/x", "1"), add("{a}/s", "e", 1), write("b", "2")]);
    histories.apply(version(0, 2), &[place("a", &[0, 1])]);
    histories.apply(version(1, 1), &[noted("{a}/x", true), noted("{a}/s", false)]);
    assert!(histories.holds(b"{a}/x", &vector(&[1, 0])) && !histories.holds(b"{a}/x", &vector(&[2, 1])));
    assert_eq!(text(&histories, "{a}/x", &[1]).as_deref(), Some("1"));
    let range = KeyRange { from: Key::default(), to: None };
    let keys = |histories: &Histories, snapshot: &[u64]| {
        histories.scan(&range, 9, &vector(snapshot), |_| true).unwrap().0.len()
    };
    assert_eq!((keys(&histories, &[1]), keys(&histories, &[2, 1])), (2, 1));
    assert!(!histories.is_unmodified(b"{a}/x", &vector(&[2])), "a write is known without its value");
    fold(&mut histories, &[1]);
    assert_eq!(counts(&histories, "{a}/s", &[1]), [(Key::from("e"), 1)]);
    fold(&mut histories, &[2]);
    assert!(text(&histories, "{a}/x", &[2]).is_none() && counts(&histories, "{a}/s", &[2]).is_empty());
    assert!(!histories.is_unmodified(b"{a}/x", &vector(&[2])));
    fold(&mut histories, &[2, 1]);
    assert!(histories.is_unmodified(b"{a}/x", &vector(&[2, 1])));
    assert_eq!(histories.size().0, 2, "a container, and what is everywhere");
}

#[test]
fn of_an_object_that_is_elsewhere_the_own_updates_are_kept_up_to_the_floor() {
    let mut histories = Histories::new(LocalSite(2));
    histories.apply(version(0, 1), &[place("a", &[0, 1])]);
    fold(&mut histories, &[1]);
    histories.apply(version(2, 1), &[add("{a}/s", "e", 1), write("{a}/x", "1")]);
    // It came with its values, from a site that had not heard of the container's version when it sent them.
    histories.apply(version(0, 2), &[add("{a}/s", "e", 5)]);
    let own = |histories: &Histories, snapshot: &[u64]| {
        let own = histories.own_changes(&Key::from("{a}/s"), ALL, &vector(snapshot)).unwrap();
        own.into_iter().map(|change| (change.seqno, change.by)).collect::<Vec<_>>()
    };
    assert_eq!((own(&histories, &[2, 0, 1]), own(&histories, &[2])), (vec![(1, 1)], vec![]));
    assert_eq!(text(&histories, "{a}/x", &[1, 0, 1]).as_deref(), Some("1"));
    let copy = Histories::from_base(histories.base(), LocalSite(2));
    assert!(copy.size() == (1, 1) && copy.limited().count() == 1);
    fold(&mut histories, &[1, 0, 1]);
    assert!(own(&histories, &[2, 0, 1]).is_empty() && histories.size().0 == 1);
}

#[test]
fn an_update_reaches_the_sites_that_its_snapshot_names_and_none_that_need_it_no_more() {
    let mut histories = Histories::new(LocalSite(0));
    histories.apply(version(0, 1), &[place("a", &[0, 1, 2])]);
    histories.apply(version(0, 2), &[place("a", &[0, 1])]);
    let reached = |histories: &Histories, snapshot: &[u64]| {
        histories.reached(b"{a}/x", &vector(snapshot)).among((0..4).map(LocalSite)).len()
    };
    assert_eq!([&[][..], &[1], &[2]].map(|snapshot| reached(&histories, snapshot)), [4, 3, 2]);
    fold(&mut histories, &[2]);
    assert_eq!([&[][..], &[1], &[2]].map(|snapshot| reached(&histories, snapshot)), [2, 2, 2]);
    assert_eq!(histories.limited().count(), 1);
    histories.apply(version(0, 3), &[place("a", &[0])]);
    assert_eq!(
        (histories.limited().count(), reached(&histories, &[2]), reached(&histories, &[3])),
        (2, 2, 1)
    );
    histories.abandon_above(version(0, 2));
    assert_eq!((histories.limited().count(), reached(&histories, &[3])), (1, 2));
}
