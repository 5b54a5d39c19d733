//! The rights of a client of the native protocol: what a message claims, and whether a visitor may claim it.
//!
//! The native protocol coordinates: a coordinator that may write at all may write what it likes, whatever its user was granted beyond that. So a right counts here
//! for a whole keyspace, or not at all, and what a message claims is one of few things ([`Claim`]). Which message claims what is a table of the wire format; this is
//! the decision, and a copy of it per connection and keyspace ([`Standing`]) that costs a message two comparisons.

use quorate_core::ClockTime;

use crate::access::{Access, Login, Refusal, Scope};
use crate::right::{CHANNELS, Right};

/// The identity of a client of the native protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visitor<'a> {
    /// It has shown nothing that belongs to a user.
    Nobody,
    /// It has logged in.
    User(&'a Login),
    /// It has shown the token of a node: the doors of that node, which ask for the rights of their own clients, or somebody who can read its data directory.
    OfNode,
}

/// The claim of a message of a client on a keyspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Claim {
    /// To read, or to end a transaction of the client itself that writes nothing.
    Read,
    /// To read, or to administer: replicas are compared, and may be read for that.
    Compare,
    /// To coordinate: the receiver believes what the message says of a transaction, and it writes.
    Coordinate,
    /// To make procedures known or unknown.
    Deploy,
    /// To change the keyspace, or its replicas.
    Administer,
}

impl Claim {
    /// All of them.
    pub const ALL: [Claim; 5] =
        [Claim::Read, Claim::Compare, Claim::Coordinate, Claim::Deploy, Claim::Administer];

    /// The right that a refusal names: the least that would do.
    pub fn right(self) -> Right {
        match self {
            Claim::Read | Claim::Compare => Right::Read,
            Claim::Coordinate => Right::Coordinate,
            Claim::Deploy => Right::Deploy,
            Claim::Administer => Right::Administer,
        }
    }

    /// The rights of which each gives it.
    fn given_by(self) -> &'static [Right] {
        match self {
            // A coordinator reads as it likes.
            Claim::Read => &[Right::Read, Right::Coordinate],
            Claim::Compare => &[Right::Read, Right::Coordinate, Right::Administer],
            Claim::Coordinate => &[Right::Coordinate],
            Claim::Deploy => &[Right::Deploy],
            Claim::Administer => &[Right::Administer],
        }
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// The claims that a visitor may make on a keyspace, as of an instant. By default none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing(u8);

impl Standing {
    /// Everything.
    pub const ALL: Standing = Standing(u8::MAX);

    /// These claims.
    pub fn of(claims: impl IntoIterator<Item = Claim>) -> Self {
        Standing(claims.into_iter().fold(0, |bits, claim| bits | claim.bit()))
    }

    /// True if it may claim this.
    pub fn allows(self, claim: Claim) -> bool {
        self.0 & claim.bit() != 0
    }
}

/// Something that is asked of the cluster as a whole, or of no keyspace in particular.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish<'a> {
    /// A wish that any user may have: to learn which keyspaces, nodes and sites there are.
    Known,
    /// To do something with a keyspace, by its name.
    In(&'a str, Claim),
    /// A wish that needs a right in any keyspace: numbers for new keyspaces, how much room nodes have.
    Somewhere(Right),
    /// To administer the cluster: users, sites, nodes, and how nodes are.
    Cluster,
    /// To hear what clients announce under a topic.
    Listen(&'a str),
    /// To announce something under a topic.
    Announce(&'a str),
}

impl Access {
    /// The claims that a visitor may make on a keyspace, at this time.
    pub fn standing(&self, visitor: Visitor<'_>, keyspace: &str, now: ClockTime) -> Standing {
        if !self.is_in_force() {
            return Standing::ALL;
        }
        let is_given = |claim: &Claim| self.admit(visitor, Wish::In(keyspace, *claim), now).is_ok();
        Standing::of(Claim::ALL.into_iter().filter(is_given))
    }

    /// The one decision at the native port: may this visitor have that, at this time?
    ///
    /// # Errors
    /// It may not; names the right that is missing.
    pub fn admit(&self, visitor: Visitor<'_>, wish: Wish<'_>, now: ClockTime) -> Result<(), Refusal> {
        let login = match visitor {
            _ if !self.is_in_force() => return Ok(()),
            Visitor::OfNode => return Ok(()),
            Visitor::Nobody => return Err(Refusal::NotLoggedIn),
            Visitor::User(login) => Some(login),
        };
        let allow = |right, keyspace| self.allow(login, right, keyspace, Scope::Whole, now);
        match wish {
            Wish::Known => self.known(login, now),
            Wish::In(keyspace, claim) => {
                let is_given = |right: &Right| allow(*right, Some(keyspace)).is_ok();
                match claim.given_by().iter().any(is_given) {
                    true => Ok(()),
                    false => allow(claim.right(), Some(keyspace)),
                }
            }
            Wish::Somewhere(right) => self.allow_somewhere(login, right, now),
            Wish::Cluster => allow(Right::Administer, None),
            Wish::Listen(topic) => {
                self.allow(login, Right::Read, Some(CHANNELS), Scope::Key(topic.as_bytes()), now)
            }
            Wish::Announce(topic) => {
                self.allow(login, Right::Write, Some(CHANNELS), Scope::Key(topic.as_bytes()), now)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Proof;
    use crate::access::tests::{access, user};
    use crate::entry::tests::password;

    const NOW: ClockTime = ClockTime::from_micros(1_000);

    fn login(name: &str) -> Login {
        Login { user: name.to_owned(), proof: Proof::Password(password(1)) }
    }

    #[test]
    fn before_there_is_a_user_everybody_may_claim_everything() {
        let nobody = Access::default();
        assert_eq!(nobody.standing(Visitor::Nobody, "a", NOW), Standing::ALL);
        for wish in [Wish::Known, Wish::Cluster, Wish::Announce("x"), Wish::In("a", Claim::Coordinate)] {
            assert_eq!(nobody.admit(Visitor::Nobody, wish, NOW), Ok(()));
        }
    }

    #[test]
    fn without_a_login_nothing_may_be_claimed_once_there_is_a_user() {
        let access = access(&[user("root", &["administer:*"])], &[], &[]);
        assert_eq!(access.standing(Visitor::Nobody, "a", NOW), Standing::default());
        assert_eq!(access.standing(Visitor::OfNode, "a", NOW), Standing::of(Claim::ALL));
        let wishes = [
            Wish::Known,
            Wish::Cluster,
            Wish::Somewhere(Right::Administer),
            Wish::Listen("x"),
            Wish::Announce("x"),
        ];
        for wish in wishes.into_iter().chain(Claim::ALL.map(|claim| Wish::In("a", claim))) {
            assert_eq!(access.admit(Visitor::Nobody, wish, NOW), Err(Refusal::NotLoggedIn), "{wish:?}");
            assert_eq!(access.admit(Visitor::OfNode, wish, NOW), Ok(()), "{wish:?}");
            let eve = login("eve");
            assert_eq!(
                access.admit(Visitor::User(&eve), wish, NOW),
                Err(Refusal::LoggedOut { user: "eve".to_owned() }),
                "{wish:?}"
            );
        }
    }

    /// Every right against every claim, in the keyspace and in another: by the rule as a sentence.
    #[test]
    fn a_claim_is_given_by_its_right_and_reading_by_coordinating_too() {
        for right in Right::ALL {
            let access = access(&[user("ada", &[&format!("{right}:a")])], &[], &[]);
            let ada = login("ada");
            for claim in Claim::ALL {
                let reads = matches!(right, Right::Read | Right::Write | Right::Coordinate);
                let expected = match claim {
                    Claim::Read => reads,
                    Claim::Compare => reads || right == Right::Administer,
                    Claim::Coordinate => right == Right::Coordinate,
                    Claim::Deploy => right == Right::Deploy,
                    Claim::Administer => right == Right::Administer,
                };
                let standing = access.standing(Visitor::User(&ada), "a", NOW);
                assert_eq!(standing.allows(claim), expected, "{right} {claim:?}");
                let elsewhere = access.standing(Visitor::User(&ada), "b", NOW);
                assert!(!elsewhere.allows(claim), "{right} {claim:?}");
                let admitted = access.admit(Visitor::User(&ada), Wish::In("a", claim), NOW);
                assert_eq!(admitted.is_ok(), expected);
                if let Err(refusal) = admitted {
                    assert!(refusal.to_string().contains(claim.right().name()), "{refusal}");
                }
            }
            let is_somewhere = access.admit(Visitor::User(&ada), Wish::Somewhere(Right::Administer), NOW);
            assert_eq!(is_somewhere.is_ok(), right == Right::Administer);
            assert!(access.admit(Visitor::User(&ada), Wish::Known, NOW).is_ok());
            assert!(
                access.admit(Visitor::User(&ada), Wish::Cluster, NOW).is_err(),
                "{right} in one keyspace"
            );
        }
    }

    #[test]
    fn a_right_to_some_keys_is_none_to_coordinate_or_to_read_all() {
        let access = access(&[user("ada", &["read,write:a:app/"])], &[], &[]);
        let standing = access.standing(Visitor::User(&login("ada")), "a", NOW);
        assert_eq!(standing, Standing::default());
    }

    #[test]
    fn topics_are_channels() {
        let access = access(&[user("ada", &["read:_channels:news", "write:_channels:news.eu"])], &[], &[]);
        let ada = login("ada");
        let may = |wish| access.admit(Visitor::User(&ada), wish, NOW).is_ok();
        assert!(may(Wish::Listen("news.eu")) && may(Wish::Listen("news")) && !may(Wish::Listen("new")));
        assert!(may(Wish::Announce("news.eu")) && !may(Wish::Announce("news")));
    }

    #[test]
    fn the_cluster_is_administered_by_who_administers_all_keyspaces() {
        let access = access(&[user("root", &["administer:*"]), user("ada", &["administer:a"])], &[], &[]);
        assert!(access.admit(Visitor::User(&login("root")), Wish::Cluster, NOW).is_ok());
        assert!(access.admit(Visitor::User(&login("ada")), Wish::Cluster, NOW).is_err());
    }
}
