//! `waltsocial`: a social network whose users have profiles, friends, walls, events and albums (Walter paper, sections 7 and 8.6).
//!
//! Everything of a user shares a tag, and the user is served where that tag prefers to be. Registers are written by their owner alone, so all
//! commits there are fast; what others add to are counting sets. Figure 21 gives the numbers of objects and sets that are read,
//! registers that are written, and sets that are changed:
//!
//! | transaction | figure 21 | operations |
//! |---|---|---|
//! | `read-info` | 3 / 0 / 0 | read the profile, the newest friends and the newest events of a user |
//! | `befriend` | 2 / 0 / 2 | read two profiles; add each user to the friends of the other (figure 15) |
//! | `status-update` | 1 / 2 / 2 | read and write the profile, write the status; add it to the own events and wall |
//! | `post-message` | 2 / 2 / 2 | read two profiles, write the message and an event; add them to the wall of the one and the events of the other |
//! | `unfriend` | – | as `befriend`, and takes each out |
//! | `read-friends` | – | read the newest friends of a user and their profiles |
//! | `read-messages` | – | read the newest messages on a wall, with their contents |
//! | `add-photo` | – | write a photo; add it to an album, and that to the albums |
//! | `read-album` | – | read the albums of a user, and the photos of one |
//! | `compare-friends` | – | read the friends of two users, to see that friendship is mutual |
//!
//! The figure's mixes average 0.5 and 0.7 registers written, which no mix of these transactions with 90% and 80% of `read-info` does; here the
//! updates are a third each.

use quorate_core::command::End;
use quorate_core::{Key, Random};

use crate::operation::{Element, Elements, Operation, Plan};
use crate::social::{self, List, Place, list, profile};
use crate::zipf::Distribution;

/// The fewest users that a transaction needs to tell apart.
pub const USERS_MIN: u64 = 2;

/// So many elements are shown of what is shown newest first.
pub const SHOWN: u32 = 10;

/// How many albums a user has.
const ALBUMS: u64 = 2;

/// So many statuses and as many messages of others there are of each user at first (section 8.6).
pub const FIRST_POSTS: u64 = 10;

/// A transaction of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// See the table of [the module](self), as the others.
    ReadInfo,
    /// Two users become friends.
    Befriend,
    /// A user says what is new.
    StatusUpdate,
    /// A user writes on the wall of another.
    PostMessage,
    /// Two users are friends once less.
    Unfriend,
    /// A user looks at all friends.
    ReadFriends,
    /// A user looks at a wall.
    ReadMessages,
    /// A user adds a photo to an album.
    AddPhoto,
    /// A user looks at an album.
    ReadAlbum,
    /// Somebody looks whether friendship is mutual.
    CompareFriends,
}

impl Action {
    /// Every transaction.
    pub const ALL: [Action; 10] = [
        Action::ReadInfo,
        Action::Befriend,
        Action::StatusUpdate,
        Action::PostMessage,
        Action::Unfriend,
        Action::ReadFriends,
        Action::ReadMessages,
        Action::AddPhoto,
        Action::ReadAlbum,
        Action::CompareFriends,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Action::ReadInfo => "read-info",
            Action::Befriend => "befriend",
            Action::StatusUpdate => "status-update",
            Action::PostMessage => "post-message",
            Action::Unfriend => "unfriend",
            Action::ReadFriends => "read-friends",
            Action::ReadMessages => "read-messages",
            Action::AddPhoto => "add-photo",
            Action::ReadAlbum => "read-album",
            Action::CompareFriends => "compare-friends",
        }
    }
}

/// How often there is which transaction, in hundredths or in shares of a sum.
pub(crate) fn shares(mix: &str) -> Option<Vec<(Action, u64)>> {
    let with_updates = |reads: u64, update: u64| {
        let updates = [Action::Befriend, Action::StatusUpdate, Action::PostMessage];
        std::iter::once((Action::ReadInfo, reads)).chain(updates.map(|action| (action, update))).collect()
    };
    match mix {
        "mix1" => Some(with_updates(27, 1)),
        "mix2" => Some(with_updates(12, 1)),
        "everything" => {
            let shares = [16, 8, 22, 20, 3, 8, 8, 3, 3, 9];
            Some(Action::ALL.into_iter().zip(shares).collect())
        }
        name => Action::ALL.into_iter().find(|action| action.name() == name).map(|action| vec![(action, 1)]),
    }
}

/// The next transaction. Where the history is judged, sets are read as a whole.
pub(crate) fn draw(
    action: Action,
    users: &Distribution,
    place: &Place,
    judged: bool,
    random: &mut Random,
) -> Plan {
    let shown = |user, kind, objects| newest(list(user, kind), objects, judged);
    let operations = match action {
        Action::ReadInfo => {
            let user = place.draw_user(users, random);
            vec![Operation::Get(profile(user)), shown(user, List::Friends, 0), shown(user, List::Events, 0)]
        }
        Action::Befriend => friendship(&place.draw_users(users, 1, random), 1),
        Action::Unfriend => friendship(&place.draw_users(users, 1, random), -1),
        Action::StatusUpdate => {
            let user = place.draw_user(users, random);
            let mut operations = vec![Operation::Update(profile(user)), Operation::Create { owner: user }];
            operations.extend([List::Events, List::Messages].map(|kind| add(list(user, kind), 1)));
            operations
        }
        Action::PostMessage => {
            let drawn = place.draw_users(users, 1, random);
            let (author, reader) = (drawn[0], drawn[1]);
            vec![
                Operation::Get(profile(author)),
                Operation::Get(profile(reader)),
                Operation::Create { owner: author },
                Operation::Create { owner: author },
                add(list(reader, List::Messages), 2),
                add(list(author, List::Events), 3),
            ]
        }
        Action::ReadFriends => vec![shown(place.draw_user(users, random), List::Friends, SHOWN)],
        Action::ReadMessages => vec![shown(place.draw_user(users, random), List::Messages, SHOWN)],
        Action::AddPhoto => {
            let user = place.draw_user(users, random);
            let album = random.between(1, ALBUMS) as i64;
            let element = Element::Numbered(album);
            vec![
                Operation::Create { owner: user },
                add(list(user, List::Album(album)), 0),
                Operation::Change { set: list(user, List::Albums), element, by: 1 },
            ]
        }
        Action::ReadAlbum => {
            let user = place.draw_user(users, random);
            let album = random.between(1, ALBUMS) as i64;
            vec![shown(user, List::Albums, 0), shown(user, List::Album(album), SHOWN)]
        }
        Action::CompareFriends => {
            let drawn = place.draw_users(users, 1, random);
            drawn.into_iter().map(|user| shown(user, List::Friends, 0)).collect()
        }
    };
    Plan { kind: action.name(), operations }
}

/// The newest elements of a set, and as many of the objects that they name; or all elements.
pub(crate) fn newest(set: Key, objects: u32, judged: bool) -> Operation {
    let limit = (!judged).then_some(SHOWN);
    let names_objects = social::names_objects(&set);
    Operation::Elements(Elements { set, from: End::Greatest, page: 1_000, limit, objects, names_objects })
}

/// Adds the object that the operation at this place creates.
pub(crate) fn add(set: Key, object: usize) -> Operation {
    Operation::Change { set, element: Element::Created(object), by: 1 }
}

fn friendship(users: &[u64], by: i32) -> Vec<Operation> {
    let profiles = users.iter().map(|user| Operation::Get(profile(*user)));
    let pairs = [(users[0], users[1]), (users[1], users[0])];
    let changes = pairs.into_iter().map(|(user, friend)| Operation::Change {
        set: list(user, List::Friends),
        element: Element::Numbered(friend.cast_signed()),
        by,
    });
    profiles.chain(changes).collect()
}

/// Everything that a user has at first, with as many friends: those that come next. For a user at home.
pub fn population(user: u64, users: u64) -> Plan {
    let mut operations = vec![Operation::Put(profile(user))];
    for number in 0..FIRST_POSTS {
        let author = (user + number + 1) % users;
        if author == user {
            break;
        }
        operations.push(Operation::Create { owner: user });
        let status = operations.len() - 1;
        operations.extend([List::Events, List::Messages].map(|kind| add(list(user, kind), status)));
        // The message of another one, which lies with the reader here so that no other site is asked.
        operations.push(Operation::Create { owner: user });
        operations.push(add(list(user, List::Messages), status + 3));
        for (one, other) in [(user, author), (author, user)] {
            operations.push(Operation::Change {
                set: list(one, List::Friends),
                element: Element::Numbered(other.cast_signed()),
                by: 1,
            });
        }
    }
    Plan { kind: "population", operations }
}

/// Every set that a user has.
pub(crate) fn sets_of(user: u64) -> Vec<Key> {
    let albums = (1..=ALBUMS).map(|number| List::Album(number as i64));
    let kinds = [List::Friends, List::Messages, List::Events, List::Albums].into_iter().chain(albums);
    kinds.map(|kind| list(user, kind)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zipf::Popularity;

    /// Objects and sets read, registers written, sets changed.
    fn sizes(plan: &Plan) -> (usize, usize, usize) {
        let count =
            |is: fn(&Operation) -> bool| plan.operations.iter().filter(|operation| is(operation)).count();
        let reads = count(|operation| {
            matches!(operation, Operation::Get(_) | Operation::Update(_) | Operation::Elements(_))
        });
        let written = count(|operation| {
            matches!(operation, Operation::Update(_) | Operation::Create { .. } | Operation::Put(_))
        });
        (reads, written, count(|operation| matches!(operation, Operation::Change { .. })))
    }

    #[test]
    fn transactions_are_as_large_as_in_figure_21() {
        let users = Distribution::new(USERS_MIN, Popularity::Uniform);
        let mut random = Random::new(5);
        let expected = [
            (Action::ReadInfo, (3, 0, 0)),
            (Action::Befriend, (2, 0, 2)),
            (Action::StatusUpdate, (1, 2, 2)),
            (Action::PostMessage, (2, 2, 2)),
        ];
        for (action, expected) in expected {
            let plan = draw(action, &users, &Place::default(), true, &mut random);
            assert_eq!(sizes(&plan), expected, "{action:?}");
        }
        for action in Action::ALL {
            let mut plan = |judged| draw(action, &users, &Place::default(), judged, &mut random);
            assert!(plan(true).is_judgeable(), "{action:?}");
            assert_eq!(
                plan(true).is_read_only(),
                action.name().starts_with("read") || action == Action::CompareFriends
            );
        }
    }

    #[test]
    fn registers_are_written_by_their_owners_alone() {
        let users = Distribution::new(20, Popularity::Uniform);
        let place = Place { homes: crate::social::Homes::Dealt(4), here: vec![2], away: 0.0 };
        let mut random = Random::new(6);
        for _ in 0..200 {
            for action in Action::ALL {
                for operation in draw(action, &users, &place, true, &mut random).operations {
                    match operation {
                        Operation::Create { owner } => assert_eq!(owner % 4, 2),
                        Operation::Update(key) => {
                            assert!((0..20).any(|user| user % 4 == 2 && profile(user) == key));
                        }
                        _ => {}
                    }
                }
            }
        }
    }

    #[test]
    fn mixes_have_nine_and_eight_tenths_of_reads() {
        for (mix, percent) in [("mix1", 90), ("mix2", 80)] {
            let shares = shares(mix).unwrap();
            let sum: u64 = shares.iter().map(|(_, share)| share).sum();
            assert_eq!(shares[0], (Action::ReadInfo, sum * percent / 100), "{mix}");
        }
        assert!(shares("mix3").is_none());
    }
}
