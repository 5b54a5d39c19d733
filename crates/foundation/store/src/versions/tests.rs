//! What a key space holds, against what lists would hold, wherever its values are.

use bytes::Bytes;
use proptest::prelude::*;
use quorate_core::ClientId;
use quorate_core::attic::{AtticPlace, Guarded};

use super::*;

fn at(micros: u64) -> Timestamp {
    Timestamp { micros, client: ClientId(1) }
}

fn key(name: &'static str) -> Key {
    Key::from(name.as_bytes())
}

#[test]
fn versions_installed_out_of_order_are_read_in_order() {
    let mut versions = Versions::new();
    for micros in [20, 10, 30, 20] {
        versions.install(&key("k"), at(micros), Some(Bytes::from(micros.to_string())));
    }
    assert_eq!(versions.newest_timestamp(b"k"), at(30));
    assert!(versions.at(b"k", at(9)).is_none());
    assert_eq!(versions.at(b"k", at(10)).unwrap().timestamp, at(10));
    assert_eq!(versions.at(b"k", at(29)).unwrap().timestamp, at(20));
    assert_eq!(versions.iter().count(), 3);
}

#[test]
fn a_version_is_never_overwritten() {
    let mut versions = Versions::new();
    versions.install(&key("k"), at(10), Some(Bytes::from("first")));
    versions.install(&key("k"), at(10), Some(Bytes::from("second")));
    assert_eq!(versions.held(b"k"), (at(10), Some(Bytes::from("first"))));
}

#[test]
fn a_scan_sees_deletions_and_respects_its_bounds() {
    let mut versions = Versions::new();
    for name in ["a", "b", "c", "d"] {
        versions.install(&key(name), at(1), Some(Bytes::from("x")));
    }
    versions.install(&key("c"), at(2), None);
    let range = KeyRange { from: key("b"), to: Some(key("d")) };
    let found: Vec<_> =
        versions.range(&range).map(|(key, version)| (key.clone(), !version.is_deletion())).collect();
    assert_eq!(found, [(key("b"), true), (key("c"), false)]);
    let backwards = KeyRange { from: key("d"), to: Some(key("b")) };
    assert_eq!(versions.range(&backwards).count(), 0);
    assert_eq!(versions.range(&KeyRange { from: key("c"), to: None }).count(), 2);
}

#[test]
fn collecting_keeps_what_can_still_be_asked_for() {
    let table = [
        // versions, a deletion marked with -; floor; what stays
        (vec![10, 20, 30], 5, vec![10, 20, 30]),
        (vec![10, 20, 30], 20, vec![10, 20, 30]),
        (vec![10, 20, 30], 21, vec![20, 30]),
        (vec![10, 20, 30], 40, vec![30]),
        (vec![10, -20, 30], 25, vec![30]),
        (vec![10, -20], 15, vec![10, -20]),
        (vec![10, -20], 25, vec![]),
        (vec![-10], 11, vec![]),
        (vec![-10, 20], 15, vec![20]),
    ];
    for (written, floor, expected) in table {
        let mut versions = Versions::new();
        for micros in &written {
            let value = (*micros > 0).then(|| Bytes::from("x"));
            versions.install(&key("k"), at(i64::unsigned_abs(*micros)), value);
        }
        let surplus = written.len() - expected.len();
        assert_eq!(versions.superfluous(at(floor)), surplus, "{written:?} below {floor}");
        while versions.collect(at(floor), 1) {}
        assert_eq!(versions.superfluous(at(floor)), 0);
        let left: Vec<i64> = versions
            .iter()
            .map(|(_, version)| {
                let micros = version.timestamp.micros as i64;
                if version.is_deletion() { -micros } else { micros }
            })
            .collect();
        assert_eq!(left, expected, "{written:?} below {floor}");
        assert_eq!(versions.count(), expected.len(), "{written:?} below {floor}");
    }
}

#[test]
fn collecting_leaves_nothing_behind_that_would_have_to_be_looked_for() {
    let mut versions = Versions::new();
    for micros in 1..100 {
        versions.install(&key("k"), at(micros), Some(Bytes::from("x")));
        versions.install(&key("gone"), at(micros), None);
    }
    assert!(versions.collect(at(1_000), 3), "it stops where it was told to");
    while versions.collect(at(1_000), 3) {}
    assert_eq!((versions.len(), versions.count()), (1, 1));
    assert!(versions.collectable.is_empty());
}

#[test]
fn versions_below_a_floor_make_room_for_those_of_another_replica() {
    let mut versions = Versions::new();
    versions.install(&key("a"), at(10), Some(Bytes::from("x")));
    versions.install(&key("b"), at(10), None);
    versions.install(&key("b"), at(30), Some(Bytes::from("y")));
    versions.forget_below(at(20));
    assert_eq!(
        versions.iter().map(|(key, v)| (key.clone(), v.timestamp)).collect::<Vec<_>>(),
        [(key("b"), at(30))]
    );
    let after: Vec<_> = versions.after(Some(&key("a"))).map(|(key, _)| key.clone()).collect();
    assert_eq!(after, [key("b")]);
    assert_eq!(versions.after(Some(&key("b"))).count(), 0);
}

/// The digest of the versions below a timestamp, a few keys at a time.
fn digest_below(versions: &Versions, below: Timestamp, keys: usize) -> quorate_core::verify::Digest {
    let (mut digester, mut after) = (Digester::new(&[]), None);
    while let Some(last) = versions.digest_below(below, after.as_ref(), keys, &mut digester) {
        after = Some(last);
    }
    digester.finish()
}

#[test]
fn a_digest_below_a_timestamp_sees_every_kind_of_difference() {
    let base = [
        ("a", 10, Some("x")),
        ("b", 10, Some("x")),
        ("b", 20, Some("y")),
        ("c", 5, Some("x")),
        ("c", 9, None),
    ];
    let of = |writes: &[(&'static str, u64, Option<&'static str>)]| {
        let mut versions = Versions::new();
        for (name, micros, value) in writes {
            versions.install(&key(name), at(*micros), value.map(Bytes::from));
        }
        digest_below(&versions, at(30), 2)
    };
    let (whole, with) = (of(&base), |at: usize, other| {
        let mut writes = base;
        writes[at] = other;
        of(&writes)
    });
    assert!(!whole.agrees_with(&of(&base[1..])), "a key is missing");
    assert!(!whole.agrees_with(&of(&[base[0], base[1], base[3], base[4]])), "an older version");
    assert!(!whole.agrees_with(&with(2, ("b", 20, Some("z")))), "another value");
    assert!(!whole.agrees_with(&with(2, ("b", 21, Some("y")))), "another timestamp");
    assert!(!whole.agrees_with(&of(&base[..4])), "a deletion that was missed");
    assert!(
        whole.agrees_with(&with(1, ("b", 11, Some("w")))),
        "what was overwritten may be collected or not"
    );
    assert!(whole.agrees_with(&with(3, ("c", 30, Some("w")))), "what lies above the point is not compared");
    assert_eq!(whole.items, 2);
}

proptest! {
    /// Replicas install in any order, and collect below any floor that is no later than the point.
    #[test]
    fn equal_histories_have_equal_digests_in_whatever_order_they_came(
        writes in proptest::collection::vec((0u8..6, 1u64..30, any::<bool>()), 0..40),
        floors in proptest::collection::vec(1u64..20, 0..4),
        seed in any::<u64>(),
    ) {
        // One transaction installs one value.
        let writes: std::collections::BTreeMap<_, _> =
            writes.into_iter().map(|(name, micros, lives)| ((name, micros), lives)).collect();
        let install = |versions: &mut Versions, ((name, micros), lives): (&(u8, u64), &bool)| {
            let value = lives.then(|| Bytes::from(format!("{name}-{micros}")));
            versions.install(&Key::copy_from_slice(&[*name]), at(*micros), value);
        };
        let (mut one, mut other) = (Versions::new(), Versions::new());
        writes.iter().for_each(|write| install(&mut one, write));
        let mut shuffled: Vec<_> = writes.iter().collect();
        shuffled.sort_by_key(|((name, micros), _)| (u64::from(*name) * 31 + micros).wrapping_mul(seed | 1));
        shuffled.into_iter().for_each(|write| install(&mut other, write));
        for floor in floors {
            while other.collect(at(floor), 2) {}
        }
        prop_assert!(digest_below(&one, at(20), 3).agrees_with(&digest_below(&other, at(20), 100)));
    }

    #[test]
    fn collecting_changes_no_read_at_or_above_the_floor(
        writes in proptest::collection::vec((1u64..30, any::<bool>()), 0..20),
        floor in 1u64..35,
    ) {
        let mut versions = Versions::new();
        for (micros, lives) in &writes {
            versions.install(&key("k"), at(*micros), lives.then(|| Bytes::from(micros.to_string())));
        }
        let read = |versions: &Versions, micros| {
            versions.at(b"k", at(micros)).and_then(|version| version.value())
        };
        let before: Vec<_> = (floor..40).map(|micros| read(&versions, micros)).collect();
        while versions.collect(at(floor), 2) {}
        let after: Vec<_> = (floor..40).map(|micros| read(&versions, micros)).collect();
        prop_assert_eq!(before, after);
        prop_assert_eq!(versions.count(), versions.iter().count());
        let below = versions.iter().filter(|(_, version)| version.timestamp < at(floor)).count();
        prop_assert!(below <= 1, "only the newest below the floor stays");
    }

    #[test]
    fn installs_commute(mut micros in proptest::collection::vec(1u64..50, 1..20), seed in any::<u64>()) {
        let mut one = Versions::new();
        for m in &micros {
            one.install(&key("k"), at(*m), Some(Bytes::from(m.to_string())));
        }
        quorate_core::Random::new(seed).shuffle(&mut micros);
        let mut other = Versions::new();
        for m in &micros {
            other.install(&key("k"), at(*m), Some(Bytes::from(m.to_string())));
        }
        prop_assert_eq!(one.stored(), other.stored());
    }
}

/// As [`Versions`], but slowly: a list of versions for each key.
#[derive(Default)]
struct Model(std::collections::BTreeMap<Key, std::collections::BTreeMap<Timestamp, Option<Value>>>);

impl Model {
    /// Of each key the versions that can still be asked for at the floor or above.
    fn collect(&mut self, floor: Timestamp) {
        for versions in self.0.values_mut() {
            let last = versions.range(..floor).next_back().map(|(at, value)| (*at, value.is_none()));
            if let Some((last, is_deletion)) = last {
                versions.retain(|at, _| *at > last || *at == last && !is_deletion);
            }
        }
        self.0.retain(|_, versions| !versions.is_empty());
    }

    fn forget_below(&mut self, floor: Timestamp) {
        self.0.values_mut().for_each(|versions| versions.retain(|at, _| *at >= floor));
        self.0.retain(|_, versions| !versions.is_empty());
    }

    fn stored(&self) -> Vec<StoredVersion> {
        let versions =
            self.0.iter().flat_map(|(key, versions)| versions.iter().map(move |found| (key, found)));
        versions.map(|(key, (at, value))| (key.clone(), *at, value.clone())).collect()
    }
}

#[derive(Clone, Debug)]
enum Change {
    /// The length of the value; none deletes the key.
    Install {
        key: Key,
        micros: u64,
        len: Option<usize>,
    },
    Collect {
        floor: u64,
    },
    Forget {
        floor: u64,
    },
}

/// Few keys, of which some are long; few timestamps; values of any kind.
fn change() -> impl Strategy<Value = Change> {
    let key = prop_oneof![(0u8..40).prop_map(|name| vec![name]), (0u8..9).prop_map(|name| vec![name; 30])];
    let len = prop_oneof![Just(0usize), 1usize..40, 1_000usize..1_050];
    let install = (key, 1u64..60, proptest::option::weighted(0.7, len))
        .prop_map(|(key, micros, len)| Change::Install { key: Key::from(key), micros, len });
    prop_oneof![
        20 => install,
        1 => (1u64..60).prop_map(|floor| Change::Collect { floor }),
        1 => (1u64..60).prop_map(|floor| Change::Forget { floor }),
    ]
}

/// An attic in memory. It is full now and then, and no place of it is read or given up that is not taken.
#[derive(Debug)]
struct Shelves {
    memory_bytes: usize,
    /// Every so many values one is not taken.
    refuses_every: u64,
    held: Guarded<(u64, std::collections::BTreeMap<AtticPlace, Value>)>,
}

impl Shelves {
    fn new(memory_bytes: usize, refuses_every: u64) -> Arc<Self> {
        Arc::new(Shelves { memory_bytes, refuses_every, held: Default::default() })
    }

    fn len(&self) -> usize {
        self.held.with(|held| held.1.len())
    }
}

impl Attic for Shelves {
    fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    fn put(&self, value: &[u8]) -> Option<AtticPlace> {
        self.held.with(|(puts, held)| {
            *puts += 1;
            let place = AtticPlace::new(*puts).filter(|_| !puts.is_multiple_of(self.refuses_every))?;
            held.insert(place, Value::copy_from_slice(value));
            Some(place)
        })
    }

    fn value(&self, place: AtticPlace) -> Option<Value> {
        Some(self.held.with(|(_, held)| held[&place].clone()))
    }

    fn give_up(&self, place: AtticPlace) {
        self.held.with(|(_, held)| held.remove(&place)).expect("a place is given up once");
    }

    fn has_failed(&self) -> bool {
        false
    }
}

/// Everything in memory, nothing, or some.
fn shelves() -> impl Strategy<Value = Option<Arc<Shelves>>> {
    proptest::option::of((prop_oneof![Just(0usize), 0usize..20_000], prop_oneof![Just(u64::MAX), 2u64..5]))
        .prop_map(|drawn| {
            drawn.map(|(memory_bytes, refuses_every)| Shelves::new(memory_bytes, refuses_every))
        })
}

proptest! {
    /// Whatever is installed, collected and forgotten, in any order, and whatever is in memory of it: everything that can be asked is answered as by lists.
    #[test]
    fn it_is_a_list_of_versions_for_each_key(
        changes in proptest::collection::vec(change(), 0..300),
        shelves in shelves(),
    ) {
        let attic = shelves.clone().map(|shelves| shelves as Arc<dyn Attic>);
        let (mut versions, mut model) = (Versions::with_attic(attic), Model::default());
        for (number, change) in changes.into_iter().enumerate() {
            match change {
                Change::Install { key, micros, len } => {
                    let value = len.map(|len| Value::from(vec![number as u8; len]));
                    versions.install(&key, at(micros), value.clone());
                    model.0.entry(key).or_default().entry(at(micros)).or_insert(value);
                }
                Change::Collect { floor } => {
                    while versions.collect(at(floor), 3) {}
                    model.collect(at(floor));
                }
                Change::Forget { floor } => {
                    versions.forget_below(at(floor));
                    model.forget_below(at(floor));
                }
            }
        }
        prop_assert_eq!(versions.memory().stowed, shelves.as_ref().map_or(0, |shelves| shelves.len()));
        prop_assert_eq!(versions.stored(), model.stored());
        prop_assert_eq!((versions.len(), versions.count()), (model.0.len(), model.stored().len()));
        for (key, listed) in &model.0 {
            let newest = listed.last_key_value().map(|(at, value)| (*at, value.clone()));
            prop_assert_eq!(Some(versions.held(key)), newest);
            for micros in 0..62 {
                let found = versions.at(key, at(micros)).map(|found| (found.timestamp, found.value()));
                let expected = listed.range(..=at(micros)).next_back();
                prop_assert_eq!(found, expected.map(|(at, value)| (*at, value.clone())));
            }
            let behind: Vec<&Key> = versions.after(Some(key)).map(|(key, _)| key).collect();
            prop_assert!(behind.iter().all(|other| *other > key));
            prop_assert_eq!(behind.len(), model.stored().iter().filter(|(other, ..)| other > key).count());
            let range = KeyRange { from: key.clone(), to: Some(Key::from(vec![20])) };
            let found: Vec<_> = versions.range(&range).map(|(key, newest)| (key, newest.timestamp)).collect();
            let expected: Vec<_> = model.0.iter().filter(|(key, _)| range.contains(key)).collect();
            let expected: Vec<_> =
                expected.iter().map(|(key, listed)| (*key, *listed.last_key_value().unwrap().0)).collect();
            prop_assert_eq!(found, expected);
        }
        // Whatever is gone takes no memory: what is left, deleted and collected, leaves nothing.
        for (key, ..) in model.stored() {
            versions.install(&key, at(100), None);
        }
        while versions.collect(at(101), 3) {}
        prop_assert_eq!((versions.len(), versions.count()), (0, 0));
        prop_assert_eq!((versions.values.kept(), versions.memory().stowed), (0, 0));
        prop_assert_eq!(shelves.map_or(0, |shelves| shelves.len()), 0);
        prop_assert!(versions.older.is_empty() && versions.collectable.is_empty());
    }
}

#[test]
fn a_long_key_does_not_keep_the_message_alive_that_it_came_in() {
    let message = Bytes::from(vec![b'k'; 1_000]);
    let key = Key::from(message.slice(..100));
    let mut versions = Versions::new();
    versions.install(&key, at(1), Some(message.slice(100..200)));
    versions.install(&key, at(2), Some(message.slice(..200)));
    drop(key);
    assert!(message.is_unique(), "a handle to it is left");
}

/// The promise of ADR 0083, by what the parts know of themselves.
#[test]
fn a_key_takes_no_more_than_ninety_bytes_beside_its_value() {
    for (name, step) in [("ascending", 1), ("in any order", 48_271)] {
        let keys: usize = 300_000;
        let mut versions = Versions::new();
        for number in 0..keys {
            let key = Key::from(format!("key-{:012}", number * step % keys));
            versions.install(&key, at(1), Some(Value::from_static(&[7; 100])));
        }
        let Memory { index, values, .. } = versions.memory();
        assert_eq!(versions.len(), keys);
        assert!((64..=90).contains(&(index / keys)), "{name}: {} bytes a key", index / keys);
        assert_eq!(values / keys, 112, "{name}");
        for number in 0..keys {
            let key = Key::from(format!("key-{number:012}"));
            versions.install(&key, at(2), Some(Value::from_static(&[7; 100])));
        }
        assert!(versions.memory().index > index, "older versions count");
        while versions.collect(at(3), 1_000) {}
        assert_eq!(versions.memory(), Memory { index, values, stowed: 0 }, "{name}: as before");
    }
}

/// A key space with an attic, and this many keys of 100 bytes, each written once.
fn filled(shelves: &Arc<Shelves>, keys: u32) -> Versions {
    let mut versions = Versions::with_attic(Some(Arc::clone(shelves) as Arc<dyn Attic>));
    for number in 0..keys {
        versions.install(
            &Key::from(&number.to_be_bytes()),
            at(1),
            Some(Value::from(vec![number as u8; 100])),
        );
    }
    versions
}

#[test]
fn values_leave_memory_once_there_are_too_many() {
    let keys = 20_000;
    let shelves = Shelves::new(3_000_000, u64::MAX);
    let versions = filled(&shelves, keys);
    let Memory { index, values, stowed } = versions.memory();
    assert!(
        (2_900_000..=3_000_000 + INSTALLED as usize * 400).contains(&(index + values)),
        "{index} and {values}"
    );
    assert_eq!(values / 112 + stowed, keys as usize);
    assert!(!versions.exceeds_memory());
    let read = |number: u32| versions.held(&number.to_be_bytes()).1;
    assert!((0..keys).all(|number| read(number) == Some(Value::from(vec![number as u8; 100]))));
}

#[test]
fn keys_that_are_looked_up_keep_their_values_in_memory() {
    let shelves = Shelves::new(3_000_000, u64::MAX);
    let mut versions = filled(&shelves, 10_000);
    assert_eq!(versions.memory().stowed, 0);
    let is_stowed = |versions: &Versions, number: u32| {
        let slot = versions.find(&number.to_be_bytes()).unwrap();
        let content = &versions.slab.entry(slot).content;
        versions.values.is_stowed(content)
    };
    for number in 10_000..20_000u32 {
        (0..100u32).for_each(|hot| assert!(versions.newest(&hot.to_be_bytes()).is_some()));
        versions.install(&Key::from(&number.to_be_bytes()), at(1), Some(Value::from(vec![7; 100])));
    }
    assert!(versions.memory().stowed > 5_000);
    assert_eq!((0..100).filter(|hot| is_stowed(&versions, *hot)).count(), 0);
}

#[test]
fn overwritten_versions_are_read_wherever_they_are() {
    let shelves = Shelves::new(0, u64::MAX);
    let mut versions = filled(&shelves, 1);
    let key = Key::from(&0u32.to_be_bytes());
    for micros in 2..10 {
        versions.install(&key, at(micros), Some(Value::from(vec![micros as u8; 100])));
    }
    assert_eq!((versions.memory().stowed, shelves.len()), (9, 9));
    for micros in 2..10 {
        assert_eq!(versions.at(&key, at(micros)).unwrap().bytes().unwrap()[0], micros as u8);
    }
    versions.collect(at(10), 1_000);
    assert_eq!((versions.memory().stowed, shelves.len()), (1, 1));
}

#[test]
fn memory_is_exceeded_by_keys_alone_and_by_values_that_are_not_taken() {
    let roomy = filled(&Shelves::new(10_000_000, u64::MAX), 20_000);
    assert!(!roomy.exceeds_memory());
    let keys_alone = filled(&Shelves::new(1_000_000, u64::MAX), 20_000);
    assert!(keys_alone.exceeds_memory());
    let not_taken = filled(&Shelves::new(3_000_000, 1), 20_000);
    assert_eq!(not_taken.memory().stowed, 0);
    assert!(not_taken.exceeds_memory());
    assert!(!filled(&Shelves::new(3_000_000, u64::MAX), 20_000).exceeds_memory());
    assert!(!Versions::new().exceeds_memory());
}
