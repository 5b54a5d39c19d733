//! The rule that an administrator is left.
//!
//! The configuration service asks it for every write that touches a user or a role, when the write is applied: so two clients that each take away one of the last
//! two administrators cannot both succeed. An administrator is a user that is not disabled, may administer all keyspaces, and has a credential that does not expire by
//! itself: a password or a certificate.

use quorate_core::{Key, Value};

use crate::entry::{Entry, User, range, role_key};
use crate::right::{Grant, Right};
use crate::{ROLE_RANGE, USER_RANGE};

/// True if a user is an administrator, where `role` tells the grants of a role.
pub(crate) fn is_administrator(user: &User, role: impl Fn(&str) -> Option<Vec<Grant>>) -> bool {
    let gives = |grants: &[Grant]| {
        grants.iter().any(|grant| grant.keyspace.is_none() && grant.gives(Right::Administer))
    };
    let has_credential = user.password.is_some() || !user.certificates.is_empty();
    !user.is_disabled
        && has_credential
        && (gives(&user.grants)
            || user.roles.iter().filter_map(|name| role(name)).any(|grants| gives(&grants)))
}

/// True if a write to a key may take an administrator away.
pub fn concerns_administrators(key: &Key) -> bool {
    range(USER_RANGE).contains(key) || range(ROLE_RANGE).contains(key)
}

/// The entries of access control in a map.
pub trait Entries {
    /// The value of a key.
    fn entry(&self, key: &Key) -> Option<&Value>;

    /// The keys of all users, with their values.
    fn users(&self) -> impl Iterator<Item = (&Key, &Value)>;
}

fn user(key: &Key, value: &Value) -> Option<User> {
    match Entry::read(key, value) {
        Ok(Entry::User(user)) => Some(user),
        _ => None,
    }
}

fn grants(key: &Key, value: &Value) -> Option<Vec<Grant>> {
    match Entry::read(key, value) {
        Ok(Entry::Role(role)) => Some(role.grants),
        _ => None,
    }
}

/// True if one of the users of a map is an administrator.
pub fn has_administrators(map: &impl Entries) -> bool {
    let role = |name: &str| {
        let key = role_key(name);
        grants(&key, map.entry(&key)?)
    };
    map.users().filter_map(|(key, value)| user(key, value)).any(|user| is_administrator(&user, role))
}

/// True if a write leaves a map without an administrator although there were some, or users are left. `puts` are the keys that are written, each once, with their
/// values, and none for those that are deleted.
pub fn loses_administrators(map: &impl Entries, puts: &[(Key, Option<Value>)]) -> bool {
    let written =
        |key: &Key| puts.iter().find(|(written, _)| written == key).map(|(_, value)| value.as_ref());
    let role = |name: &str| {
        let key = role_key(name);
        let value = written(&key).unwrap_or_else(|| map.entry(&key));
        grants(&key, value?)
    };
    let users = range(USER_RANGE);
    let kept = map.users().filter(|(key, _)| written(key).is_none());
    let put = puts
        .iter()
        .filter(|(key, _)| users.contains(key))
        .filter_map(|(key, value)| Some((key, value.as_ref()?)));
    let mut are_users_left = false;
    for (key, value) in kept.chain(put) {
        are_users_left = true;
        if user(key, value).is_some_and(|user| is_administrator(&user, role)) {
            return false;
        }
    }
    are_users_left || has_administrators(map)
}

impl Entries for std::collections::BTreeMap<Key, Value> {
    fn entry(&self, key: &Key) -> Option<&Value> {
        self.get(key)
    }

    fn users(&self) -> impl Iterator<Item = (&Key, &Value)> {
        let (from, to) = USER_RANGE;
        self.range(Key::from(from)..Key::from(to))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use quorate_codec::encode;

    use super::*;
    use crate::entry::tests::password;
    use crate::entry::{Role, user_key};

    type Map = BTreeMap<Key, Value>;
    type Writes = Vec<(Key, Option<Value>)>;

    fn loses(map: &Map, puts: &[(Key, Option<Value>)]) -> bool {
        loses_administrators(map, puts)
    }

    fn administrator(name: &str) -> User {
        let grants = vec![Grant::new([Right::Administer], None)];
        User { password: Some(password(1)), grants, ..User::new(name) }
    }

    fn put(user: &User) -> (Key, Option<Value>) {
        (user_key(&user.name), Some(encode(user)))
    }

    fn gone(name: &str) -> (Key, Option<Value>) {
        (user_key(name), None)
    }

    fn map(entries: &[(Key, Option<Value>)]) -> Map {
        entries.iter().filter_map(|(key, value)| Some((key.clone(), value.clone()?))).collect()
    }

    #[test]
    fn the_first_user_is_an_administrator() {
        let nothing = Map::new();
        assert!(!loses(&nothing, &[put(&administrator("root"))]));
        assert!(loses(&nothing, &[put(&User::new("ada"))]));
        assert!(!loses(&nothing, &[put(&User::new("ada")), put(&administrator("root"))]), "both at once");
        assert!(!loses(&nothing, &[gone("nobody")]));
    }

    #[test]
    fn the_last_administrator_stays() {
        let (root, ada) = (administrator("root"), User { password: Some(password(2)), ..User::new("ada") });
        let one = map(&[put(&root), put(&ada)]);
        let table: [(&str, Writes, bool); 10] = [
            ("the user is removed", vec![gone("root")], true),
            ("all users are removed", vec![gone("root"), gone("ada")], true),
            ("it is disabled", vec![put(&User { is_disabled: true, ..root.clone() })], true),
            ("it loses its right", vec![put(&User { grants: Vec::new(), ..root.clone() })], true),
            (
                "it administers one keyspace",
                vec![put(&User { grants: vec!["administer:a".parse().unwrap()], ..root.clone() })],
                true,
            ),
            ("it loses its password", vec![put(&User { password: None, ..root.clone() })], true),
            ("its entry is no user", vec![(user_key("root"), Some(Value::from_static(b"\xff")))], true),
            ("another takes over", vec![gone("root"), put(&administrator("bob"))], false),
            ("its password changes", vec![put(&User { password: Some(password(9)), ..root.clone() })], false),
            ("somebody else is removed", vec![gone("ada")], false),
        ];
        for (what, puts, is_lost) in table {
            assert_eq!(loses(&one, &puts), is_lost, "{what}");
        }
        let two = map(&[put(&root), put(&administrator("bob"))]);
        assert!(!loses(&two, &[gone("root")]) && loses(&two, &[gone("root"), gone("bob")]));
    }

    #[test]
    fn a_role_makes_administrators_and_takes_them_away() {
        let role = |right| Role { name: "admins".to_owned(), grants: vec![Grant::new([right], None)] };
        let entry = |role: &Role| (role_key(&role.name), Some(encode(role)));
        let ada = User {
            roles: vec!["admins".to_owned()],
            certificates: vec!["ada".to_owned()],
            ..User::new("ada")
        };
        assert!(loses(&Map::new(), &[put(&ada)]), "there is no such role");
        assert!(!loses(&Map::new(), &[put(&ada), entry(&role(Right::Administer))]));
        let known = map(&[put(&ada), entry(&role(Right::Administer))]);
        assert!(loses(&known, &[(role_key("admins"), None)]));
        assert!(loses(&known, &[entry(&role(Right::Read))]));
        assert!(!loses(&known, &[(role_key("others"), None)]));
    }
}
