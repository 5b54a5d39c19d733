//! The parts that social networks over counting sets have in common: users, their objects, and the invariants of these.
//!
//! A user is a number. Everything that belongs to one shares a tag, so that it has one preferred site:
//!
//! | key | what |
//! |---|---|
//! | `{u17}/profile` | a register: name, status and so on |
//! | `{u17}/friends`, `{u17}/messages`, … | counting sets, see [`List`] |
//! | `{u17}/album/2` | a counting set of photos |
//! | `0000000000070001@{u17}` | an object: a message, an event, a photo. It is written once |
//!
//! Sets of users hold their numbers. Sets of objects hold their keys, so that a set and the objects that it names are read at once. A key begins with the
//! number of the object, so sets are ordered by it.
//!
//! Invariants, judged of all that one transaction has read ([`crate::Execution::violations`]):
//!
//! - A user that is a friend has the other as a friend, as often. A user that follows another is a follower of that one.
//! - Every object that a set names is there.

use quorate_core::topology::shard_position;
use quorate_core::{Key, Random, Value};

use crate::key::{self, OWNED, number_of, numbered};
use crate::zipf::Distribution;

/// A counting set that every user has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum List {
    /// Users. Friendship is mutual.
    Friends,
    /// Objects: the messages on the wall of the user.
    Messages,
    /// Objects: what the user has done.
    Events,
    /// The numbers of the albums of the user.
    Albums,
    /// Objects: the photos in an album.
    Album(i64),
    /// Users whose posts the user wants to see.
    Following,
    /// Users that want to see the posts of the user.
    Followers,
    /// Objects: the posts of the user.
    Posts,
    /// Objects: the posts of those whom the user follows.
    Timeline,
}

/// The beginning of the keys of a user.
fn tag(user: u64) -> String {
    format!("{{u{user}}}")
}

/// The profile of a user.
pub fn profile(user: u64) -> Key {
    Key::from(format!("{}/profile", tag(user)))
}

/// A set of a user.
pub fn list(user: u64, list: List) -> Key {
    let name = match list {
        List::Friends => "friends",
        List::Messages => "messages",
        List::Events => "events",
        List::Albums => "albums",
        List::Album(number) => return Key::from(format!("{}/album/{number}", tag(user))),
        List::Following => "following",
        List::Followers => "followers",
        List::Posts => "posts",
        List::Timeline => "timeline",
    };
    Key::from(format!("{}/{name}", tag(user)))
}

/// An object: its key, which is also its name in sets.
pub fn object(owner: u64, number: i64) -> Key {
    Key::from(format!("{number:016x}{OWNED}{}", tag(owner)))
}

/// The name of a user in sets.
pub fn user_name(user: u64) -> Key {
    key::element(user.cast_signed())
}

/// The subject of an element of a set: an object, or the profile of a user.
pub(crate) fn named(element: &Key) -> Option<Key> {
    user(element).map(profile).or_else(|| is_object(element).then(|| element.clone()))
}

/// True if a key is that of an object.
pub(crate) fn is_object(key: &Key) -> bool {
    let is_tag = |owner: &str| owner.starts_with("{u") && owner.ends_with('}');
    let text = std::str::from_utf8(key).ok();
    text.and_then(|text| text.split_once(OWNED)).is_some_and(|(_, owner)| is_tag(owner))
        && number_of(key).is_some()
}

/// The user that an element of a set names; none if it names an object.
pub(crate) fn user(element: &Key) -> Option<u64> {
    let is_user = !element.contains(&(OWNED as u8));
    number_of(element).filter(|_| is_user).map(i64::cast_unsigned)
}

/// True if the elements of a set of a user are keys of objects.
pub(crate) fn names_objects(set: &Key) -> bool {
    let others = ["friends", "albums", "following", "followers"];
    let name = std::str::from_utf8(set).ok().and_then(|set| set.split_once("}/"));
    name.is_some_and(|(_, name)| !others.contains(&name))
}

/// The user whose set of this kind it is; none if it is another one.
fn owner_of(set: &Key, kind: List) -> Option<u64> {
    let user = std::str::from_utf8(set).ok()?.strip_prefix("{u")?.split_once('}')?.0.parse().ok()?;
    (list(user, kind) == *set).then_some(user)
}

/// Where users are at home: at which local site the keys of one may be written without asking another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Homes {
    /// There is one local site, or it does not matter.
    #[default]
    Anywhere,
    /// Where the hash of their tags lies, of so many local sites.
    Hashed(usize),
    /// Dealt out one by one over so many local sites. Their containers have to be created there.
    Dealt(usize),
}

impl Homes {
    /// The position of the local site of a user among those of the keyspace.
    pub fn of(self, user: u64) -> usize {
        match self {
            Homes::Anywhere => 0,
            Homes::Hashed(sites) => shard_position(tag(user).as_bytes(), sites),
            Homes::Dealt(sites) => (user % sites.max(1) as u64) as usize,
        }
    }

    /// Over how many positions homes are spread.
    pub(crate) fn count(self) -> usize {
        match self {
            Homes::Anywhere => 1,
            Homes::Hashed(sites) | Homes::Dealt(sites) => sites.max(1),
        }
    }

    /// The position of the local site of a key that belongs to no user.
    fn of_key(self, key: &Key) -> usize {
        match self {
            Homes::Anywhere | Homes::Dealt(_) => 0,
            Homes::Hashed(sites) => shard_position(key, sites),
        }
    }
}

/// Where a client stands, and so which users it serves, and which keys it writes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Place {
    /// Where users and keys are at home.
    pub homes: Homes,
    /// The positions of the local sites whose users and keys it takes; if there are none, it takes all.
    pub here: Vec<usize>,
    /// The share of the transactions that are of users who are at home elsewhere, or here.
    pub away: f64,
}

/// A user or a key at home is looked for so often; where there are few, any will do.
const LOOKS_MAX: u32 = 64;

impl Place {
    /// The user that acts next.
    pub(crate) fn draw_user(&self, users: &Distribution, random: &mut Random) -> u64 {
        self.draw_at_home(users, random, |user| self.homes.of(user))
    }

    /// The next one of keys that belong to no user.
    pub(crate) fn draw_key(&self, keys: &Distribution, random: &mut Random) -> Key {
        numbered(self.draw_at_home(keys, random, |key| self.homes.of_key(&numbered(key))))
    }

    /// The position of the shard at which the next transaction is at home, of so many.
    pub(crate) fn draw_shard(&self, shards: usize, random: &mut Random) -> usize {
        let away = !self.here.is_empty() && random.chance(self.away);
        let here = self.here.iter().copied().filter(|position| *position < shards).collect::<Vec<_>>();
        if away || here.is_empty() { random.index(shards) } else { here[random.index(here.len())] }
    }

    /// A number whose home is here, but for those that are to be away.
    fn draw_at_home(&self, numbers: &Distribution, random: &mut Random, home: impl Fn(u64) -> usize) -> u64 {
        let mut number = numbers.draw(random);
        if self.here.is_empty() || random.chance(self.away) {
            return number;
        }
        for _ in 0..LOOKS_MAX {
            if self.here.contains(&home(number)) {
                break;
            }
            number = numbers.draw(random);
        }
        number
    }

    /// The user that acts next, and so many others, drawn evenly: so that two popular users are not concerned all the time.
    pub(crate) fn draw_users(&self, users: &Distribution, others: usize, random: &mut Random) -> Vec<u64> {
        let mut drawn = vec![self.draw_user(users, random)];
        while drawn.len() <= others {
            let mut other = random.below(users.count());
            while drawn.contains(&other) {
                other = (other + 1) % users.count();
            }
            drawn.push(other);
        }
        drawn
    }
}

/// One of several things, each as often as its share of their sum says.
///
/// # Panics
/// If there are none.
pub fn draw_of<A: Copy>(shares: &[(A, u64)], random: &mut Random) -> A {
    let mut drawn = random.below(shares.iter().map(|(_, share)| share).sum());
    for (action, share) in shares {
        if drawn < *share {
            return *action;
        }
        drawn -= share;
    }
    unreachable!("what is drawn lies below the sum of the shares")
}

/// The elements that a transaction has read of a set: all of them with their counts, and the objects that some of them name.
pub(crate) struct ReadSet<'a> {
    pub(crate) set: &'a Key,
    pub(crate) counts: &'a [(Key, i64)],
    pub(crate) objects: &'a [(Key, Option<Value>)],
    /// False if there may be more elements.
    pub(crate) is_complete: bool,
}

/// The breach that one transaction has read, in words.
pub(crate) fn violations(sets: &[ReadSet<'_>]) -> Vec<String> {
    let mut violations = Vec::new();
    for read in sets {
        let missing = read.objects.iter().filter(|(key, value)| value.is_none() && is_object(key));
        violations
            .extend(missing.map(|(key, _)| format!("{:?} names {key:?}, which is not there", read.set)));
    }
    let count = |read: &ReadSet<'_>, user: u64| {
        let name = user_name(user);
        read.counts.iter().find(|(element, _)| *element == name).map_or(0, |(_, count)| *count)
    };
    for (kind, other_kind) in [(List::Friends, List::Friends), (List::Following, List::Followers)] {
        for one in sets.iter().filter(|read| read.is_complete) {
            let Some(user) = owner_of(one.set, kind) else { continue };
            for other in sets.iter().filter(|read| read.is_complete) {
                let Some(friend) = owner_of(other.set, other_kind) else { continue };
                let (there, back) = (count(one, friend), count(other, user));
                if there != back {
                    let (one, other) = (one.set, other.set);
                    violations.push(format!(
                        "{one:?} has {friend} {there} times, and {other:?} has {user} {back} times"
                    ));
                }
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zipf::Popularity;

    #[test]
    fn names_lead_back_to_what_they_name() {
        assert_eq!(named(&object(17, 7)), Some(object(17, 7)));
        assert_eq!(quorate_core::topology::container_of(&object(17, 7)), b"u17");
        assert_eq!((user(&user_name(17)), named(&user_name(17))), (Some(17), Some(profile(17))));
        assert_eq!((user(&object(17, 7)), named(&"x@y".into())), (None, None));
        assert!(object(99, 7) < object(1, 8), "they are ordered by number");
        assert_eq!(list(3, List::Album(2)), "{u3}/album/2");
        assert_eq!(owner_of(&list(3, List::Friends), List::Friends), Some(3));
        assert_eq!(owner_of(&list(3, List::Events), List::Friends), None);
    }

    #[test]
    fn clients_take_keys_at_home_but_for_those_that_are_away() {
        let keys = Distribution::new(1_000, Popularity::Uniform);
        let mut random = Random::new(1);
        let mut at_home = |here: &[usize], away| {
            let place = Place { homes: Homes::Hashed(2), here: here.to_vec(), away };
            (0..500).filter(|_| shard_position(&place.draw_key(&keys, &mut random), 2) == 1).count()
        };
        assert_eq!((at_home(&[1], 0.0), at_home(&[0], 0.0)), (500, 0));
        assert!((200..300).contains(&at_home(&[1], 1.0)) && (200..300).contains(&at_home(&[], 0.0)));
    }

    #[test]
    fn clients_serve_users_at_home() {
        let users = Distribution::new(100, Popularity::Uniform);
        for homes in [Homes::Hashed(3), Homes::Dealt(3)] {
            let place = Place { homes, here: vec![1], away: 0.0 };
            let mut random = Random::new(1);
            for _ in 0..100 {
                let drawn = place.draw_users(&users, 2, &mut random);
                assert_eq!(homes.of(drawn[0]), 1);
                assert!(drawn[0] != drawn[1] && drawn[1] != drawn[2] && drawn[0] != drawn[2]);
            }
            let homeless = Place { away: 1.0, ..place };
            let away = (0..300).filter(|_| homes.of(homeless.draw_user(&users, &mut random)) != 1).count();
            assert!((150..250).contains(&away), "{away} of 300");
        }
        let nobody = Place { homes: Homes::Dealt(3), here: vec![7], away: 0.0 };
        assert!(nobody.draw_user(&users, &mut Random::new(1)) < 100);
    }

    fn read<'a>(set: &'a Key, counts: &'a [(Key, i64)], objects: &'a [(Key, Option<Value>)]) -> ReadSet<'a> {
        ReadSet { set, counts, objects, is_complete: true }
    }

    #[test]
    fn one_sided_friendships_and_missing_objects_are_found() {
        let sets = [list(1, List::Friends), list(2, List::Friends)];
        let (two, one) = ([(user_name(2), 1)], [(user_name(1), 1)]);
        assert!(violations(&[read(&sets[0], &two, &[]), read(&sets[1], &one, &[])]).is_empty());
        assert_eq!(violations(&[read(&sets[0], &two, &[]), read(&sets[1], &[], &[])]).len(), 2);
        let partly = ReadSet { is_complete: false, ..read(&sets[1], &[], &[]) };
        assert!(violations(&[read(&sets[0], &two, &[]), partly]).is_empty());
        let follows = [list(1, List::Following), list(2, List::Followers)];
        assert!(violations(&[read(&follows[0], &two, &[]), read(&follows[1], &one, &[])]).is_empty());
        assert_eq!(violations(&[read(&follows[0], &two, &[]), read(&follows[1], &[], &[])]).len(), 1);
        let messages = list(1, List::Messages);
        let here = [(object(2, 7), Some(Value::from_static(b"x")))];
        assert!(violations(&[read(&messages, &[], &here)]).is_empty());
        assert_eq!(violations(&[read(&messages, &[], &[(object(2, 7), None)])]).len(), 1);
        assert!(
            violations(&[read(&messages, &[], &[(profile(2), None)])]).is_empty(),
            "not everybody has one"
        );
    }
}
