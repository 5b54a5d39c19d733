//! `retwis-psi`: a Twitter clone over counting sets, as Walter's authors have ported it from Redis (Walter paper, sections 7 and 8.7).
//!
//! | transaction | share of `mixed` | operations |
//! |---|---|---|
//! | `status` | 85% | read the ten newest posts of the own timeline, with their contents |
//! | `post` | 7.5% | write the post under an id of its own; add it to the own posts, and to the timeline of each follower |
//! | `follow` | 7.5% | add one user to those whom the other follows, and the other to the followers of the one |
//! | `unfollow` | – | takes both out |
//! | `compare-follows` | – | read whom a user follows, and the followers of another, to see that they agree |
//!
//! A post is an object of its author, so to write it is a fast commit where the author is at home.

use quorate_core::Random;
use quorate_core::command::End;

use crate::operation::{Element, Elements, Operation, Plan, Spread};
use crate::social::{List, Place, list, profile};
use crate::waltsocial::{SHOWN, add, newest};
use crate::zipf::Distribution;

/// The fewest users that a transaction needs to tell apart.
pub const USERS_MIN: u64 = 2;

/// So many followers a user has at first. The paper does not say how many there are.
pub const FIRST_FOLLOWERS: u64 = 10;

/// So many followers are asked for at a time.
const PAGE: u32 = 1_000;

/// A transaction of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// See the table of [the module](self), as the others.
    Status,
    /// A user posts something.
    Post,
    /// A user follows another.
    Follow,
    /// A user follows another once less.
    Unfollow,
    /// Somebody looks whether whom users follow agrees with who follows them.
    CompareFollows,
}

impl Action {
    /// Every transaction.
    pub const ALL: [Action; 5] =
        [Action::Status, Action::Post, Action::Follow, Action::Unfollow, Action::CompareFollows];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Action::Status => "status",
            Action::Post => "post",
            Action::Follow => "follow",
            Action::Unfollow => "unfollow",
            Action::CompareFollows => "compare-follows",
        }
    }
}

/// How often there is which transaction of a mix, in shares of a sum; none if there is no such mix.
pub fn shares(mix: &str) -> Option<Vec<(Action, u64)>> {
    match mix {
        "mixed" => Some(vec![(Action::Status, 850), (Action::Post, 75), (Action::Follow, 75)]),
        "everything" => Some(Action::ALL.into_iter().zip([34, 44, 5, 1, 16]).collect()),
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
    let operations = match action {
        Action::Status => {
            vec![newest(list(place.draw_user(users, random), List::Timeline), SHOWN, judged)]
        }
        Action::Post => post(place.draw_user(users, random)),
        Action::Follow => follow(&place.draw_users(users, 1, random), 1),
        Action::Unfollow => follow(&place.draw_users(users, 1, random), -1),
        Action::CompareFollows => {
            let drawn = place.draw_users(users, 1, random);
            [(drawn[0], List::Following), (drawn[1], List::Followers)]
                .map(|(user, kind)| newest(list(user, kind), 0, judged))
                .to_vec()
        }
    };
    Plan { kind: action.name(), operations }
}

fn post(author: u64) -> Vec<Operation> {
    let users = Elements::all(list(author, List::Followers), End::Least, PAGE);
    vec![
        Operation::Create { owner: author },
        add(list(author, List::Posts), 0),
        Operation::Spread(Spread { users, object: 0, list: List::Timeline }),
    ]
}

fn follow(users: &[u64], by: i32) -> Vec<Operation> {
    let change = |user, kind, other: u64| Operation::Change {
        set: list(user, kind),
        element: Element::Numbered(other.cast_signed()),
        by,
    };
    vec![change(users[0], List::Following, users[1]), change(users[1], List::Followers, users[0])]
}

/// Everything that a user has at first: a profile, followers, and a post of each of those in the timeline. For a user at home.
pub fn population(user: u64, users: u64) -> Plan {
    let mut operations = vec![Operation::Put(profile(user))];
    for number in 0..FIRST_FOLLOWERS.min(users - 1) {
        let other = (user + number + 1) % users;
        operations.extend(follow(&[other, user], 1));
        // The post of another one, which lies with its reader here so that no other site is asked.
        operations.push(Operation::Create { owner: user });
        operations.push(add(list(user, List::Timeline), operations.len() - 1));
    }
    Plan { kind: "population", operations }
}

/// Every set that a user has.
pub(crate) fn sets_of(user: u64) -> Vec<quorate_core::Key> {
    [List::Following, List::Followers, List::Posts, List::Timeline].map(|kind| list(user, kind)).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zipf::Popularity;

    #[test]
    fn the_mix_is_that_of_the_paper() {
        let shares = shares("mixed").unwrap();
        assert_eq!(shares.iter().map(|(_, share)| share).sum::<u64>(), 1_000);
        assert!(super::shares("mix1").is_none() && super::shares("post").is_some());
    }

    #[test]
    fn a_status_shows_ten_posts_and_a_post_reaches_all_followers() {
        let users = Distribution::new(USERS_MIN, Popularity::Uniform);
        let mut random = Random::new(4);
        let place = Place::default();
        for action in Action::ALL {
            let mut plan = |judged| draw(action, &users, &place, judged, &mut random);
            assert!(plan(true).is_judgeable());
            assert_eq!(
                plan(false).is_judgeable(),
                !matches!(action, Action::Status | Action::CompareFollows)
            );
            assert_eq!(plan(true).is_read_only(), matches!(action, Action::Status | Action::CompareFollows));
        }
        let plan = draw(Action::Status, &users, &place, false, &mut random);
        let [Operation::Elements(shown)] = &plan.operations[..] else { panic!("{plan:?}") };
        assert_eq!((shown.limit, shown.objects), (Some(10), 10));
    }
}
