//! The rights of a login.

use std::collections::BTreeMap;
use std::fmt;

use quorate_core::{ClockTime, Key, Value};

use crate::administrators::is_administrator;
use crate::entry::{Entry, InvalidEntry, PasswordHash, Role, Token, TokenId, User};
use crate::right::{Grant, Right};

/// The credential that a login was made with: it ends with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// A password that fits this hash.
    Password(PasswordHash),
    /// A token with this hash.
    Token(Value),
    /// A certificate of this name, which the connection has shown.
    Certificate(String),
}

/// A user that has shown who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// Its name.
    pub user: String,
    /// How it has shown that.
    pub proof: Proof,
}

/// The part of a keyspace that something is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope<'a> {
    /// Any part: the right is needed somewhere, and asked for again once the keys are known.
    Part,
    /// A key.
    Key(&'a [u8]),
    /// The keys from one up to and without another; without a bound if there is none.
    Range(&'a [u8], Option<&'a [u8]>),
    /// All keys that begin like this.
    Prefix(&'a [u8]),
    /// All keys.
    Whole,
}

/// The first key behind all that begin like this; none if there is none.
fn end_of(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

impl Scope<'_> {
    /// True if all of it begins with a prefix.
    fn lies_in(self, prefix: &[u8]) -> bool {
        if prefix.is_empty() {
            return true;
        }
        match self {
            Scope::Part => true,
            Scope::Key(key) | Scope::Prefix(key) => key.starts_with(prefix),
            Scope::Range(from, to) => {
                from >= prefix
                    && match (end_of(prefix), to) {
                        (None, _) => true,
                        (Some(end), Some(to)) => to <= end.as_slice(),
                        (Some(_), None) => false,
                    }
            }
            Scope::Whole => false,
        }
    }
}

/// Why something is not allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Nobody has logged in.
    NotLoggedIn,
    /// The user is gone or disabled, or its credential has changed, is revoked or has expired.
    LoggedOut {
        /// The user.
        user: String,
    },
    /// The user has not the right.
    Denied {
        /// The user.
        user: String,
        /// The right.
        right: Right,
        /// The keyspace; none for all of them.
        keyspace: Option<String>,
        /// True if the user has the right for other keys of the keyspace.
        is_elsewhere: bool,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NotLoggedIn => formatter.write_str("this needs a user to be logged in"),
            Refusal::LoggedOut { user } => write!(
                formatter,
                "the login of user {user:?} has ended: its password has changed, its token is revoked or has expired, or the user is gone or disabled"
            ),
            Refusal::Denied { user, right, keyspace, is_elsewhere } => {
                write!(formatter, "user {user:?} has no right to {right} ")?;
                match keyspace {
                    Some(name) if *is_elsewhere => write!(formatter, "these keys of {name:?}"),
                    Some(name) => write!(formatter, "{name:?}"),
                    None => formatter.write_str("the cluster"),
                }
            }
        }
    }
}

impl std::error::Error for Refusal {}

/// A user with all that it is given.
#[derive(Clone, Debug)]
struct Known {
    user: User,
    /// Its own grants and those of its roles.
    grants: Vec<Grant>,
}

/// A copy of all users, roles and tokens, from which is decided.
#[derive(Clone, Debug, Default)]
pub struct Access {
    users: BTreeMap<String, Known>,
    roles: BTreeMap<String, Role>,
    tokens: BTreeMap<TokenId, Token>,
}

impl Access {
    /// The copy that these entries are.
    ///
    /// # Errors
    /// One of them makes no sense to this version: nothing is decided without it, because it might forbid something.
    pub fn read<'a>(entries: impl IntoIterator<Item = (&'a Key, &'a Value)>) -> Result<Access, InvalidEntry> {
        let mut access = Access::default();
        let mut users = Vec::new();
        for (key, value) in entries {
            match Entry::read(key, value)? {
                Entry::User(user) => users.push(user),
                Entry::Role(role) => drop(access.roles.insert(role.name.clone(), role)),
                Entry::Token(token) => {
                    if let Some(id) = token.id() {
                        access.tokens.insert(id, token);
                    }
                }
            }
        }
        for user in users {
            let roles = user.roles.iter().filter_map(|role| access.roles.get(role));
            let grants = user.grants.iter().chain(roles.flat_map(|role| &role.grants)).cloned().collect();
            access.users.insert(user.name.clone(), Known { user, grants });
        }
        Ok(access)
    }

    /// True once there is a user: from then on nothing is allowed that no grant gives.
    pub fn is_in_force(&self) -> bool {
        !self.users.is_empty()
    }

    /// A user by its name.
    pub fn user(&self, name: &str) -> Option<&User> {
        self.users.get(name).map(|known| &known.user)
    }

    /// All users, by name.
    pub fn users(&self) -> impl Iterator<Item = &User> {
        self.users.values().map(|known| &known.user)
    }

    /// All roles, by name.
    pub fn roles(&self) -> impl Iterator<Item = &Role> {
        self.roles.values()
    }

    /// All tokens, by id.
    pub fn tokens(&self) -> impl Iterator<Item = (TokenId, &Token)> {
        self.tokens.iter().map(|(id, token)| (*id, token))
    }

    /// The grants of a user, its own and those of its roles.
    pub fn grants_of(&self, user: &str) -> &[Grant] {
        self.users.get(user).map_or(&[], |known| &known.grants)
    }

    /// The users that may administer the cluster.
    pub fn administrators(&self) -> impl Iterator<Item = &User> {
        let role = |name: &str| self.roles.get(name).map(|role| role.grants.clone());
        self.users().filter(move |user| is_administrator(user, role))
    }

    /// The login of a certificate that a connection has shown; none if it belongs to no user, or to several.
    pub fn login_by_certificate(&self, name: &str) -> Option<Login> {
        let has = |user: &&User| !user.is_disabled && user.certificates.iter().any(|known| known == name);
        let mut users = self.users().filter(has);
        let user = users.next()?.name.clone();
        match users.next() {
            None => Some(Login { user, proof: Proof::Certificate(name.to_owned()) }),
            Some(_) => None,
        }
    }

    /// The token that this is the hash of. The hash is that of 32 random bytes, so that how long it takes to find it tells nothing.
    pub fn token(&self, hash: &[u8; 32]) -> Option<&Token> {
        self.tokens.get(&TokenId::of(hash)).filter(|token| token.hash.as_ref() == hash)
    }

    /// The login of a token that was shown at this time.
    pub fn login_by_token(&self, hash: &[u8; 32], now: ClockTime) -> Option<Login> {
        let token = self.token(hash)?;
        let login = Login { user: token.user.clone(), proof: Proof::Token(token.hash.clone()) };
        self.holds(&login, now).then_some(login)
    }

    /// True if a login still stands.
    pub fn holds(&self, login: &Login, now: ClockTime) -> bool {
        let Some(Known { user, .. }) = self.users.get(&login.user) else { return false };
        !user.is_disabled
            && match &login.proof {
                Proof::Password(hash) => user.password.as_ref() == Some(hash),
                Proof::Certificate(name) => user.certificates.contains(name),
                Proof::Token(hash) => {
                    let hash: Option<&[u8; 32]> = hash.as_ref().try_into().ok();
                    hash.and_then(|hash| self.token(hash)).is_some_and(|token| {
                        token.user == login.user && token.expires_at.is_none_or(|end| now < end)
                    })
                }
            }
    }

    /// The one decision: may this login do that, at this time? `keyspace` is none for what concerns the cluster as a whole.
    ///
    /// # Errors
    /// It may not; says why.
    pub fn allow(
        &self,
        login: Option<&Login>,
        right: Right,
        keyspace: Option<&str>,
        scope: Scope<'_>,
        now: ClockTime,
    ) -> Result<(), Refusal> {
        if !self.is_in_force() {
            return Ok(());
        }
        let login = login.ok_or(Refusal::NotLoggedIn)?;
        if !self.holds(login, now) {
            return Err(Refusal::LoggedOut { user: login.user.clone() });
        }
        let is_about = |grant: &&Grant| match keyspace {
            Some(name) => grant.is_about(name),
            None => grant.keyspace.is_none(),
        };
        let grants = self.grants_of(&login.user);
        let mut given = grants.iter().filter(|grant| grant.gives(right)).filter(is_about);
        if given.any(|grant| scope.lies_in(&grant.prefix)) {
            return Ok(());
        }
        let is_elsewhere = grants.iter().filter(|grant| grant.gives(right)).any(|grant| is_about(&grant));
        let (user, keyspace) = (login.user.clone(), keyspace.map(str::to_owned));
        Err(Refusal::Denied { user, right, keyspace, is_elsewhere })
    }
}

impl Access {
    /// May this login do something that any user may?
    ///
    /// # Errors
    /// It is none, or has ended.
    pub fn known(&self, login: Option<&Login>, now: ClockTime) -> Result<(), Refusal> {
        match login {
            _ if !self.is_in_force() => Ok(()),
            None => Err(Refusal::NotLoggedIn),
            Some(login) if self.holds(login, now) => Ok(()),
            Some(login) => Err(Refusal::LoggedOut { user: login.user.clone() }),
        }
    }

    /// Has this login a right anywhere?
    ///
    /// # Errors
    /// It has not.
    pub fn allow_somewhere(
        &self,
        login: Option<&Login>,
        right: Right,
        now: ClockTime,
    ) -> Result<(), Refusal> {
        self.known(login, now)?;
        let Some(Login { user, .. }) = login.filter(|_| self.is_in_force()) else { return Ok(()) };
        let is_given = self.grants_of(user).iter().any(|grant| grant.gives(right));
        let denied = || Refusal::Denied { user: user.clone(), right, keyspace: None, is_elsewhere: false };
        if is_given { Ok(()) } else { Err(denied()) }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;
    use quorate_codec::encode;

    use super::*;
    use crate::entry::tests::{password, token};
    use crate::entry::{role_key, token_key, user_key};
    use crate::right::CHANNELS;

    const NOW: ClockTime = ClockTime::from_micros(1_000);

    pub(crate) fn access(users: &[User], roles: &[Role], tokens: &[Token]) -> Access {
        let users = users.iter().map(|user| (user_key(&user.name), encode(user)));
        let roles = roles.iter().map(|role| (role_key(&role.name), encode(role)));
        let tokens = tokens.iter().map(|token| (token_key(token.id().unwrap()), encode(token)));
        let entries: Vec<_> = users.chain(roles).chain(tokens).collect();
        Access::read(entries.iter().map(|(key, value)| (key, value))).unwrap()
    }

    pub(crate) fn user(name: &str, grants: &[&str]) -> User {
        let grants = grants.iter().map(|text| text.parse().unwrap()).collect();
        User { password: Some(password(1)), grants, ..User::new(name) }
    }

    fn login(name: &str) -> Login {
        Login { user: name.to_owned(), proof: Proof::Password(password(1)) }
    }

    #[test]
    fn everything_is_allowed_before_there_is_a_user_and_nothing_to_strangers_afterwards() {
        let nobody = Access::default();
        let somebody = access(&[user("root", &["administer:*"])], &[], &[]);
        assert!(!nobody.is_in_force() && somebody.is_in_force());
        for right in Right::ALL {
            for keyspace in [None, Some("a"), Some(CHANNELS)] {
                assert_eq!(nobody.allow(None, right, keyspace, Scope::Whole, NOW), Ok(()));
                let refused = somebody.allow(None, right, keyspace, Scope::Part, NOW);
                assert_eq!(refused, Err(Refusal::NotLoggedIn));
                let unknown = somebody.allow(Some(&login("eve")), right, keyspace, Scope::Part, NOW);
                assert_eq!(unknown, Err(Refusal::LoggedOut { user: "eve".to_owned() }));
            }
        }
    }

    /// Every right, given and asked for, in one keyspace, another, all, and the cluster: by the rule as a sentence, not by the code.
    #[test]
    fn every_grant_gives_what_it_says_and_nothing_else() {
        for given in Right::ALL {
            for place in ["*", "a"] {
                let access = access(&[user("ada", &[&format!("{given}:{place}")])], &[], &[]);
                for asked in Right::ALL {
                    for keyspace in [None, Some("a"), Some("b")] {
                        let fits = given == asked || (given, asked) == (Right::Write, Right::Read);
                        let is_there = place == "*" || keyspace == Some("a");
                        for scope in [Scope::Part, Scope::Key(b"k"), Scope::Range(b"a", None), Scope::Whole] {
                            let found = access.allow(Some(&login("ada")), asked, keyspace, scope, NOW);
                            assert_eq!(
                                found.is_ok(),
                                fits && is_there,
                                "{given}:{place} {asked} {keyspace:?} {scope:?}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_prefix_limits_keys_and_ranges() {
        let access = access(&[user("ada", &["read:a:app/", "read:a:\\xff"])], &[], &[]);
        let table: [(Scope<'_>, bool); 17] = [
            (Scope::Part, true),
            (Scope::Whole, false),
            (Scope::Key(b"app/1"), true),
            (Scope::Key(b"app/"), true),
            (Scope::Key(b"app"), false),
            (Scope::Key(b"ap"), false),
            (Scope::Key(b""), false),
            (Scope::Key(b"b"), false),
            (Scope::Prefix(b"app/x"), true),
            (Scope::Prefix(b"app"), false),
            (Scope::Range(b"app/", Some(b"app0")), true),
            (Scope::Range(b"app/3", Some(b"app/4")), true),
            (Scope::Range(b"app/", Some(b"app0\0")), false),
            (Scope::Range(b"app", Some(b"app/9")), false),
            (Scope::Range(b"app/", None), false),
            (Scope::Range(b"", None), false),
            (Scope::Range(b"\xff", None), true),
        ];
        for (scope, is_allowed) in table {
            let found = access.allow(Some(&login("ada")), Right::Read, Some("a"), scope, NOW);
            assert_eq!(found.is_ok(), is_allowed, "{scope:?}");
        }
        let refused = access.allow(Some(&login("ada")), Right::Read, Some("a"), Scope::Whole, NOW);
        assert!(refused.unwrap_err().to_string().contains("these keys"));
    }

    #[test]
    fn roles_give_their_grants_and_one_that_is_gone_gives_nothing() {
        let role = Role { name: "readers".to_owned(), grants: vec!["read:a".parse().unwrap()] };
        let ada = User { roles: vec!["readers".to_owned()], ..user("ada", &[]) };
        let may = |access: &Access| {
            access.allow(Some(&login("ada")), Right::Read, Some("a"), Scope::Whole, NOW).is_ok()
        };
        assert!(may(&access(std::slice::from_ref(&ada), &[role], &[])));
        assert!(!may(&access(&[ada], &[], &[])));
    }

    #[test]
    fn a_login_ends_with_its_credential() {
        let holds =
            |users: &[User], tokens: &[Token], login: &Login| access(users, &[], tokens).holds(login, NOW);
        let ada = || user("ada", &[]);
        assert!(holds(&[ada()], &[], &login("ada")));
        assert!(
            !holds(&[User { password: Some(password(2)), ..ada() }], &[], &login("ada")),
            "a new password"
        );
        assert!(!holds(&[User { password: None, ..ada() }], &[], &login("ada")));
        assert!(!holds(&[User { is_disabled: true, ..ada() }], &[], &login("ada")));
        assert!(!holds(&[user("bob", &[])], &[], &login("ada")));

        let shown = token("ada", 3);
        let by_token = Login { user: "ada".to_owned(), proof: Proof::Token(shown.hash.clone()) };
        assert!(holds(&[ada()], std::slice::from_ref(&shown), &by_token));
        assert!(!holds(&[ada()], &[], &by_token), "it is revoked");
        assert!(!holds(&[ada(), user("bob", &[])], &[token("bob", 3)], &by_token), "it is another's");
        for (end, is_good) in [(999, false), (1_000, false), (1_001, true)] {
            let shown = Token { expires_at: Some(ClockTime::from_micros(end)), ..shown.clone() };
            assert_eq!(holds(&[ada()], &[shown], &by_token), is_good, "{end}");
        }

        let certified = |names: &[&str]| User {
            certificates: names.iter().map(|name| (*name).to_owned()).collect(),
            ..ada()
        };
        let by_certificate = Login { user: "ada".to_owned(), proof: Proof::Certificate("c".to_owned()) };
        assert!(
            holds(&[certified(&["b", "c"])], &[], &by_certificate)
                && !holds(&[certified(&["b"])], &[], &by_certificate)
        );
    }

    #[test]
    fn a_token_or_a_certificate_names_its_user() {
        let bob = User { certificates: vec!["c".to_owned()], ..user("bob", &[]) };
        let known = access(&[user("ada", &[]), bob.clone()], &[], &[token("ada", 3), token("gone", 4)]);
        assert_eq!(known.login_by_token(&[3; 32], NOW).map(|login| login.user).as_deref(), Some("ada"));
        assert_eq!(known.login_by_token(&[4; 32], NOW), None, "its user is gone");
        let mut forged = [3; 32];
        forged[31] = 4;
        assert_eq!(known.login_by_token(&forged, NOW), None, "it has the id of another token");
        assert_eq!(known.login_by_certificate("c").map(|login| login.user).as_deref(), Some("bob"));
        assert_eq!(known.login_by_certificate("d"), None);
        let both = access(&[User { certificates: vec!["c".to_owned()], ..user("ada", &[]) }, bob], &[], &[]);
        assert_eq!(both.login_by_certificate("c"), None, "two users claim it");
    }

    proptest! {
        /// A range is allowed only if every key in it is.
        #[test]
        fn a_range_is_allowed_only_if_each_key_is(
            prefix in proptest::collection::vec(0u8..3, 0..3),
            from in proptest::collection::vec(0u8..3, 0..4),
            to in proptest::option::of(proptest::collection::vec(0u8..3, 0..4)),
            key in proptest::collection::vec(0u8..3, 0..5),
        ) {
            let is_within = key >= from && to.as_ref().is_none_or(|to| key < *to);
            let is_allowed = Scope::Range(&from, to.as_deref()).lies_in(&prefix);
            if is_allowed && is_within {
                prop_assert!(key.starts_with(&prefix), "{prefix:?} {from:?} {to:?} {key:?}");
            }
        }
    }
}
