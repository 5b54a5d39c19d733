//! Users, roles and tokens: changing them, and reading them.
//!
//! Each change is one transaction on the catalogue, which also counts up how often they were changed: a reader that keeps a copy looks at that number, and reads the
//! rest only when it is another one. That an administrator is left is looked at here for a clear error, and by the configuration service for certain.

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_access::{
    Access, Entries, Entry, Grant, InvalidEntry, PasswordHash, ROLE_RANGE, Role, TOKEN_RANGE, Token, TokenId,
    USER_RANGE, User, UserLimits, loses_administrators, role_key, token_key, user_key,
};
use quorate_core::{Key, KeyRange, Value};
use quorate_credentials::{CredentialError, Secret};
use quorate_wire::ProtocolVersion;
use quorate_wire::catalogue::{NEXT_ACCESS_KEY, decode_counter, encode_counter, node_range};
use tokio::time::Instant;

use crate::catalogue::{Found, PAGE, damaged};
use crate::database::Database;
use crate::error::{Invalid, Result};
use crate::transaction::{Transaction, clock_now};
use crate::versions;

/// How long to wait before it is looked again whether the nodes of a new cluster have registered.
const REGISTERED_PAUSE: Duration = Duration::from_millis(20);

/// Why users, roles or tokens were not changed. Nothing was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidAccess {
    /// There is no such user.
    #[error("there is no user {name:?}: `quorate user list` shows them")]
    NoSuchUser {
        /// The name.
        name: String,
    },
    /// There is one already.
    #[error("there is a user {name:?} already: change it, or drop it first")]
    UserExists {
        /// The name.
        name: String,
    },
    /// There is no such role.
    #[error("there is no role {name:?}: `quorate role list` shows them")]
    NoSuchRole {
        /// The name.
        name: String,
    },
    /// There is one already.
    #[error("there is a role {name:?} already: change it, or drop it first")]
    RoleExists {
        /// The name.
        name: String,
    },
    /// There is no such token.
    #[error("there is no token {id}: `quorate token list` shows them")]
    NoSuchToken {
        /// Its id.
        id: TokenId,
    },
    /// Nobody could let others in afterwards.
    #[error(
        "no administrator would be left, and nothing was changed: first let another user administer all keyspaces, with a password or a certificate \
         (`quorate user create NAME --administrator`)"
    )]
    LastAdministrator,
    /// The first user has to be an administrator.
    #[error(
        "the first user is an administrator, with a password or a certificate, and nothing was changed: `quorate user create NAME --administrator`"
    )]
    FirstUser,
    /// A gateway of an earlier program would let everybody in.
    #[error(
        "protocol version {in_force} is in force, in which a node of an earlier program may take part, and such a node asks for no user; nothing was changed: \
         upgrade all nodes, and finish the upgrade first (`quorate cluster upgrade-check`)"
    )]
    UnfinishedUpgrade {
        /// The protocol version in force.
        in_force: ProtocolVersion,
    },
    /// A new cluster has no protocol version before its nodes have registered, which they do as soon as they have started.
    #[error(
        "no node has registered yet, as nodes of a new cluster do at once; nothing was changed: start its nodes, and try again"
    )]
    NoNodes,
    /// A user, role or token makes no sense.
    #[error(transparent)]
    Entry(#[from] InvalidEntry),
    /// A credential cannot be made.
    #[error(transparent)]
    Credential(#[from] CredentialError),
}

/// A change of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UserChange {
    /// It has this password from now on, or none.
    Password(Option<PasswordHash>),
    /// It may come with a certificate of this name.
    AddCertificate(String),
    /// It may not any more.
    RemoveCertificate(String),
    /// It has this role, which is there.
    AddRole(String),
    /// It has it no longer.
    RemoveRole(String),
    /// It is given this.
    Grant(Grant),
    /// The rights of this grant are taken away, where it has them with the same keyspace and prefix.
    Revoke(Grant),
    /// Its limits.
    Limits(UserLimits),
    /// It may do nothing for now, or may again.
    Disable(bool),
}

/// A change of a role.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RoleChange {
    /// It gives this.
    Grant(Grant),
    /// It does not any more.
    Revoke(Grant),
}

/// Adds a grant to others: one for each keyspace and prefix.
fn grant(grants: &mut Vec<Grant>, new: &Grant) {
    let place = |known: &Grant| (known.keyspace == new.keyspace) && known.prefix == new.prefix;
    let known = grants.iter().position(place).map(|at| grants.remove(at).rights).unwrap_or_default();
    let rights = known.into_iter().chain(new.rights.iter().copied());
    grants.push(Grant::new(rights, new.keyspace.as_deref()).with_prefix(&new.prefix));
    grants.sort_unstable();
}

/// Takes rights away.
fn revoke(grants: &mut Vec<Grant>, gone: &Grant) {
    for known in grants.iter_mut() {
        if known.keyspace == gone.keyspace && known.prefix == gone.prefix {
            known.rights.retain(|right| !gone.rights.contains(right));
        }
    }
    grants.retain(|known| !known.rights.is_empty());
}

fn change_user(user: &mut User, change: &UserChange) {
    fn add(list: &mut Vec<String>, name: &str) {
        if !list.iter().any(|known| known == name) {
            list.push(name.to_owned());
        }
    }
    match change {
        UserChange::Password(password) => user.password.clone_from(password),
        UserChange::AddCertificate(name) => add(&mut user.certificates, name),
        UserChange::RemoveCertificate(name) => user.certificates.retain(|known| known != name),
        UserChange::AddRole(name) => add(&mut user.roles, name),
        UserChange::RemoveRole(name) => user.roles.retain(|known| known != name),
        UserChange::Grant(new) => grant(&mut user.grants, new),
        UserChange::Revoke(gone) => revoke(&mut user.grants, gone),
        UserChange::Limits(limits) => user.limits = *limits,
        UserChange::Disable(is_disabled) => user.is_disabled = *is_disabled,
    }
}

/// All entries of access control, as one transaction has read them.
type Known = BTreeMap<Key, Value>;

async fn read_range(txn: &Transaction, (from, to): (&str, &str), known: &mut Known) -> Result<()> {
    let mut from = Some(Key::from(from));
    while let Some(start) = from {
        let page = txn.scan(start, to, PAGE).await?;
        known.extend(page.entries);
        from = page.next;
    }
    Ok(())
}

async fn read_all(txn: &Transaction) -> Result<Known> {
    let mut known = Known::new();
    for range in [USER_RANGE, ROLE_RANGE, TOKEN_RANGE] {
        read_range(txn, range, &mut known).await?;
    }
    Ok(known)
}

async fn version(txn: &Transaction) -> Result<u32> {
    match txn.get(NEXT_ACCESS_KEY).await? {
        Some(value) => decode_counter(&value).map_err(|error| damaged(&error)),
        None => Ok(0),
    }
}

/// True if a node has registered.
pub(crate) async fn has_nodes(txn: &Transaction) -> Result<bool> {
    let KeyRange { from, to } = node_range();
    Ok(!txn.scan(from, to.unwrap_or_default(), 1).await?.entries.is_empty())
}

/// Writes entries, if an administrator is left, and counts the change.
async fn write(txn: &Transaction, known: &Known, puts: &[(Key, Option<Value>)]) -> Result<Found<()>> {
    if loses_administrators(known, puts) {
        let is_first = known.users().next().is_none();
        let why = if is_first { InvalidAccess::FirstUser } else { InvalidAccess::LastAdministrator };
        return Ok(Err(why.into()));
    }
    let is_of_user = |(key, _): &(Key, Option<Value>)| key.as_slice().starts_with(USER_RANGE.0.as_bytes());
    if known.users().next().is_none() && puts.iter().any(is_of_user) {
        let in_force = versions::in_force(txn).await?;
        if in_force < ProtocolVersion::ACCESS_CONTROL {
            let why = match has_nodes(txn).await? {
                true => InvalidAccess::UnfinishedUpgrade { in_force },
                false => InvalidAccess::NoNodes,
            };
            return Ok(Err(why.into()));
        }
    }
    for (key, value) in puts {
        match value {
            Some(value) => txn.put(key, value.clone())?,
            None => txn.delete(key)?,
        }
    }
    txn.put(NEXT_ACCESS_KEY, encode_counter(version(txn).await?.wrapping_add(1)))?;
    Ok(Ok(()))
}

fn find_user(known: &Known, name: &str) -> Found<User> {
    let key = user_key(name);
    match known.get(&key).map(|value| Entry::read(&key, value)) {
        Some(Ok(Entry::User(user))) => Ok(user),
        Some(Err(error)) => Err(InvalidAccess::from(error).into()),
        _ => Err(InvalidAccess::NoSuchUser { name: name.to_owned() }.into()),
    }
}

fn find_role(known: &Known, name: &str) -> Found<Role> {
    let key = role_key(name);
    match known.get(&key).map(|value| Entry::read(&key, value)) {
        Some(Ok(Entry::Role(role))) => Ok(role),
        Some(Err(error)) => Err(InvalidAccess::from(error).into()),
        _ => Err(InvalidAccess::NoSuchRole { name: name.to_owned() }.into()),
    }
}

fn put_user(known: &Known, user: &User) -> Found<(Key, Option<Value>)> {
    user.validate().map_err(InvalidAccess::from)?;
    for role in &user.roles {
        find_role(known, role)?;
    }
    Ok((user_key(&user.name), Some(quorate_wire::encode(user))))
}

impl Database {
    /// All users, roles and tokens, as hashes: what may be done is decided from them.
    ///
    /// # Errors
    /// Any error that a transaction may end with, or an entry that this version cannot read.
    pub async fn access(&self) -> Result<Access> {
        let known = self.system().transact(async |txn: Transaction| read_all(&txn).await).await?;
        Ok(Access::read(&known).map_err(InvalidAccess::from).map_err(Invalid::from)?)
    }

    /// A number that changes whenever users, roles or tokens are changed, with [`Database::access`] if it is not this one.
    ///
    /// # Errors
    /// As [`Database::access`].
    pub async fn access_since(&self, seen: Option<u32>) -> Result<(u32, Option<Access>)> {
        let read = async |txn: Transaction| {
            let version = version(&txn).await?;
            let known = if seen == Some(version) { None } else { Some(read_all(&txn).await?) };
            Ok((version, known))
        };
        let (version, known) = self.system().transact(read).await?;
        let access = known.map(|known| Access::read(&known)).transpose();
        Ok((version, access.map_err(InvalidAccess::from).map_err(Invalid::from)?))
    }

    /// Changes entries in one transaction: `plan` says how, from all that are there.
    async fn change_access(&self, plan: impl Fn(&Known) -> Found<Vec<(Key, Option<Value>)>>) -> Result<()> {
        let plan = &plan;
        let change = async |txn: Transaction| {
            let known = read_all(&txn).await?;
            match plan(&known) {
                Ok(puts) => write(&txn, &known, &puts).await,
                Err(why) => Ok(Err(why)),
            }
        };
        let until = Instant::now() + self.shared().options.deadline;
        loop {
            match self.system().transact(change).await? {
                Err(Invalid::Access(InvalidAccess::NoNodes)) if Instant::now() < until => {
                    tokio::time::sleep(REGISTERED_PAUSE).await;
                }
                changed => return Ok(changed?),
            }
        }
    }

    /// Creates a user. The first one is an administrator, and with it access control is in force in the whole cluster.
    ///
    /// # Errors
    /// [`Invalid::Access`] if it makes no sense, is there already or has a role that is not, or whatever a transaction may end with.
    pub async fn create_user(&self, user: &User) -> Result<()> {
        self.change_access(|known| match known.contains_key(&user_key(&user.name)) {
            true => Err(InvalidAccess::UserExists { name: user.name.clone() }.into()),
            false => Ok(vec![put_user(known, user)?]),
        })
        .await
    }

    /// Changes a user: all of this, or nothing.
    ///
    /// # Errors
    /// [`Invalid::Access`] if there is no such user or role, or no administrator would be left; or whatever a transaction may end with.
    pub async fn change_user(&self, name: &str, changes: &[UserChange]) -> Result<()> {
        self.change_access(|known| {
            let mut user = find_user(known, name)?;
            changes.iter().for_each(|change| change_user(&mut user, change));
            // A role that is gone may stay in the list: it gives nothing, and must not keep the user from being changed.
            let mut checked = user.clone();
            let added = |role: &String| changes.contains(&UserChange::AddRole(role.clone()));
            checked.roles.retain(added);
            let (key, _) = put_user(known, &checked)?;
            user.validate().map_err(InvalidAccess::from)?;
            Ok(vec![(key, Some(quorate_wire::encode(&user)))])
        })
        .await
    }

    /// Drops a user with its tokens. Its connections may do nothing from then on.
    ///
    /// # Errors
    /// [`Invalid::Access`] if there is no such user, or no administrator would be left; or whatever a transaction may end with.
    pub async fn drop_user(&self, name: &str) -> Result<()> {
        self.change_access(|known| {
            if !known.contains_key(&user_key(name)) {
                return Err(InvalidAccess::NoSuchUser { name: name.to_owned() }.into());
            }
            let is_own = |(key, value): &(&Key, &Value)| match Entry::read(key, value) {
                Ok(Entry::Token(token)) => token.user == name,
                _ => false,
            };
            let tokens = known.iter().filter(is_own).map(|(key, _)| (key.clone(), None));
            Ok(tokens.chain([(user_key(name), None)]).collect())
        })
        .await
    }

    /// Creates a role.
    ///
    /// # Errors
    /// As [`Database::create_user`].
    pub async fn create_role(&self, role: &Role) -> Result<()> {
        self.change_access(|known| {
            role.validate().map_err(InvalidAccess::from)?;
            match known.contains_key(&role_key(&role.name)) {
                true => Err(InvalidAccess::RoleExists { name: role.name.clone() }.into()),
                false => Ok(vec![(role_key(&role.name), Some(quorate_wire::encode(role)))]),
            }
        })
        .await
    }

    /// Changes a role, and with it what all its users may do.
    ///
    /// # Errors
    /// As [`Database::change_user`].
    pub async fn change_role(&self, name: &str, changes: &[RoleChange]) -> Result<()> {
        self.change_access(|known| {
            let mut role = find_role(known, name)?;
            for change in changes {
                match change {
                    RoleChange::Grant(new) => grant(&mut role.grants, new),
                    RoleChange::Revoke(gone) => revoke(&mut role.grants, gone),
                }
            }
            role.validate().map_err(InvalidAccess::from)?;
            Ok(vec![(role_key(name), Some(quorate_wire::encode(&role)))])
        })
        .await
    }

    /// Drops a role. Its users have its grants no longer.
    ///
    /// # Errors
    /// As [`Database::drop_user`].
    pub async fn drop_role(&self, name: &str) -> Result<()> {
        self.change_access(|known| match known.contains_key(&role_key(name)) {
            true => Ok(vec![(role_key(name), None)]),
            false => Err(InvalidAccess::NoSuchRole { name: name.to_owned() }.into()),
        })
        .await
    }

    /// Makes a token for a user, which is good for so long, or until it is revoked. The secret is told here and nowhere else.
    ///
    /// # Errors
    /// [`Invalid::Access`] if there is no such user or the note is too long, or whatever a transaction may end with.
    pub async fn create_token(
        &self,
        user: &str,
        lifetime: Option<Duration>,
        note: &str,
    ) -> Result<(TokenId, Secret)> {
        let secret = Secret::new().map_err(InvalidAccess::from).map_err(Invalid::from)?;
        let (hash, now) = (secret.hash(), clock_now());
        let token = Token {
            user: user.to_owned(),
            hash: Value::copy_from_slice(&hash),
            created_at: now,
            expires_at: lifetime.map(|lifetime| now.saturating_add(lifetime)),
            note: note.to_owned(),
        };
        let id = TokenId::of(&hash);
        self.change_access(|known| {
            find_user(known, user)?;
            token.validate().map_err(InvalidAccess::from)?;
            Ok(vec![(token_key(id), Some(quorate_wire::encode(&token)))])
        })
        .await?;
        Ok((id, secret))
    }

    /// Revokes a token.
    ///
    /// # Errors
    /// [`Invalid::Access`] if there is no such token, or whatever a transaction may end with.
    pub async fn revoke_token(&self, id: TokenId) -> Result<()> {
        self.change_access(|known| match known.contains_key(&token_key(id)) {
            true => Ok(vec![(token_key(id), None)]),
            false => Err(InvalidAccess::NoSuchToken { id }.into()),
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grants(texts: &[&str]) -> Vec<Grant> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn grants_of_one_place_are_one_grant() {
        let mut known = grants(&["read:a"]);
        for new in grants(&["write:a", "read:a:app/", "read:a", "read:*"]) {
            grant(&mut known, &new);
        }
        let mut expected = grants(&["read,write:a", "read:a:app/", "read:*"]);
        expected.sort_unstable();
        assert_eq!(known, expected);
        for gone in grants(&["read,deploy:a", "read:*", "write:a:app/"]) {
            revoke(&mut known, &gone);
        }
        let mut expected = grants(&["write:a", "read:a:app/"]);
        expected.sort_unstable();
        assert_eq!(known, expected);
    }

    #[test]
    fn changes_of_a_user_are_made_in_their_order() {
        let mut user = User::new("ada");
        let named = |name: &str| name.to_owned();
        for change in [
            UserChange::AddRole(named("a")),
            UserChange::AddRole(named("a")),
            UserChange::AddRole(named("b")),
            UserChange::RemoveRole(named("a")),
            UserChange::AddCertificate(named("c")),
            UserChange::RemoveCertificate(named("d")),
            UserChange::Disable(true),
        ] {
            change_user(&mut user, &change);
        }
        let expected = User {
            roles: vec![named("b")],
            certificates: vec![named("c")],
            is_disabled: true,
            ..User::new("ada")
        };
        assert_eq!(user, expected);
    }
}
