//! Calls of procedures.

use std::collections::BTreeMap;

use quorate_core::topology::Keyspace as Definition;
use quorate_core::transaction::TRANSACTION_BYTES_MAX;
use quorate_core::{Key, KeyRange, ShardId, Value};
use quorate_granola::Class;
use quorate_serializable_shard::{Answer, Declared, Infer, Inferred, Malformed, Operation, Refusal};
use tokio::time::Instant;

use crate::error::{Error, Result};
use crate::keyspace::Keyspace;
use crate::one_round::Ended;
use crate::receipt::Receipt;
use crate::transaction::key_range;

use super::{InvalidProcedure, refused};

/// A call of a procedure, at every shard that holds one of its keys.
///
/// ```no_run
/// # async fn example(accounts: quorate::Keyspace) -> quorate::Result<()> {
/// use quorate::Call;
///
/// let arguments = [b"\x03ada\x03bob".as_slice(), &30u64.to_le_bytes()].concat();
/// let transfer = Call::new("transfer").arguments(arguments).keys(["ada", "bob"]);
/// let answers = accounts.call(transfer).await?;
/// # drop(answers);
/// # Ok(())
/// # }
/// ```
///
/// Each shard runs the procedure for itself, and sees its own keys alone: what it is to do follows from its arguments and from what it
/// finds. The result of a call of several shards is decided together (all carry it out, or none) and each has an answer of its own.
///
/// A call that says nothing of keys is called at the only shard. If there are several, one of them is asked first what the procedure
/// says that it touches with these arguments; then the call declares that. A caller that knows it saves that round trip.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    name: String,
    version: u32,
    arguments: Value,
    declared: Vec<Named>,
    routes: Vec<(Key, Option<Value>)>,
    agreement: Agreement,
    /// True if what is declared is all that it touches, even if that is nothing.
    is_inferred: bool,
}

/// Something that a call declares that it touches.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Named {
    Key(Key),
    Range(KeyRange),
}

/// How the shards of a call come to the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Agreement {
    /// They lock, and ask each other.
    #[default]
    Asked,
    /// The caller vouches for it.
    Vouched,
    /// Nothing is written.
    ReadsOnly,
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answers {
    /// The answer of each shard, in the order in which the call names their keys.
    pub answers: Vec<Value>,
    /// The committed transaction.
    pub receipt: Receipt,
}

impl Answers {
    /// The answer of the first shard: of the only one, if the call concerns one.
    pub fn first(&self) -> &[u8] {
        self.answers.first().map_or(&[], |answer| answer)
    }
}

impl Call {
    /// A call of the greatest version of a procedure, or of one that is linked with the servers.
    pub fn new(name: impl Into<String>) -> Self {
        Call { name: name.into(), ..Self::default() }
    }

    /// Calls this version.
    #[must_use]
    pub fn version(mut self, version: u32) -> Self {
        self.version = version;
        self
    }

    /// Sets its arguments.
    #[must_use]
    pub fn arguments(mut self, arguments: impl AsRef<[u8]>) -> Self {
        self.arguments = Value::copy_from_slice(arguments.as_ref());
        self
    }

    /// Declares that it touches these keys, and with [`Call::ranges`] nothing else: it fails if it tries. While a shard holds locks, it
    /// is in the way of nothing else.
    #[must_use]
    pub fn keys(mut self, keys: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Self {
        let keys = keys.into_iter().map(|key| Named::Key(Key::copy_from_slice(key.as_ref())));
        self.declared.extend(keys);
        self
    }

    /// Declares that it touches these ranges, from the first key up to, and without, the second; an empty second one means to the end.
    /// A range whose keys share a tag in braces lies at one shard, any other at all of them.
    #[must_use]
    pub fn ranges(mut self, ranges: impl IntoIterator<Item = (impl AsRef<[u8]>, impl AsRef<[u8]>)>) -> Self {
        let ranges = ranges.into_iter().map(|(from, to)| key_range(from.as_ref(), to.as_ref()));
        self.declared.extend(ranges.map(Named::Range));
        self
    }

    /// Calls it at the shards that hold these keys, without declaring anything: there it may touch whatever it wants to.
    #[must_use]
    pub fn at(mut self, keys: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Self {
        self.routes.extend(keys.into_iter().map(|key| (Key::copy_from_slice(key.as_ref()), None)));
        self
    }

    /// The same for one shard, where it is called with other arguments than elsewhere.
    #[must_use]
    pub fn at_with(mut self, key: impl AsRef<[u8]>, arguments: impl AsRef<[u8]>) -> Self {
        let arguments = Value::copy_from_slice(arguments.as_ref());
        self.routes.push((Key::copy_from_slice(key.as_ref()), Some(arguments)));
        self
    }

    /// Vouches for it that all shards carry it out, or all refuse, whatever they hold: then nothing is locked and nobody else can be in
    /// the way. Should one alone refuse, the others have carried it out all the same.
    #[must_use]
    pub fn independent(mut self) -> Self {
        self.agreement = Agreement::Vouched;
        self
    }

    /// Only reads: the call is answered from a snapshot, without an entry in any log. It fails if it tries to write.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.agreement = Agreement::ReadsOnly;
        self
    }

    /// True if it has to be asked what it touches, because nothing says where it is to be called.
    fn needs_inference(&self, keyspace: &Definition) -> bool {
        keyspace.shards.len() > 1 && self.declared.is_empty() && self.routes.is_empty()
    }

    /// The shard that is asked what it touches. All know it.
    fn asked(&self, keyspace: &Definition) -> ShardId {
        keyspace.shard_of(&self.arguments).id
    }

    /// The same call of the version that was asked, which declares what that touches.
    fn declaring(&self, inferred: Inferred) -> Result<Self, InvalidProcedure> {
        let Inferred { version, touches } = inferred;
        let Some(Declared { keys, ranges }) = touches else {
            return Err(InvalidProcedure::WithoutKeys { name: self.name.clone() });
        };
        let declared = keys.into_iter().map(Named::Key).chain(ranges.into_iter().map(Named::Range)).collect();
        Ok(Call { version, declared, is_inferred: true, ..self.clone() })
    }

    /// The part of each shard, which shards those are in the order of the keys, and how they have to agree.
    pub(crate) fn divide(&self, keyspace: &Definition) -> Result<Divided, InvalidProcedure> {
        let mut parts = Parts::default();
        for named in &self.declared {
            match named {
                Named::Key(key) => {
                    parts.at(keyspace.shard_of(key).id).declared.keys.push(key.clone());
                }
                Named::Range(range) => {
                    for shard in keyspace.shards_of_range(range) {
                        parts.at(shard.id).declared.ranges.push(range.clone());
                    }
                }
            }
        }
        for (key, arguments) in &self.routes {
            let shard = keyspace.shard_of(key).id;
            let part = parts.at(shard);
            if let Some(arguments) = arguments
                && part.arguments.replace(arguments).is_some_and(|before| before != arguments)
            {
                return Err(InvalidProcedure::Arguments { shard });
            }
        }
        match &keyspace.shards[..] {
            [only] => drop(parts.at(only.id)),
            _ if parts.order.is_empty() && self.is_inferred => drop(parts.at(self.asked(keyspace))),
            _ if parts.order.is_empty() => {
                return Err(InvalidProcedure::WithoutKeys { name: self.name.clone() });
            }
            _ => {}
        }
        let class = match self.agreement {
            Agreement::ReadsOnly => Class::ReadOnly,
            Agreement::Vouched => Class::Independent,
            Agreement::Asked if parts.order.len() == 1 => Class::Independent,
            Agreement::Asked => Class::Coordinated,
        };
        let mut operations = BTreeMap::new();
        for (shard, part) in parts.of {
            operations.insert(shard, self.operation(part)?);
        }
        Ok(Divided { operations, order: parts.order, class })
    }

    fn operation(&self, part: Part<'_>) -> Result<Value, InvalidProcedure> {
        let operation = Operation::Call(quorate_serializable_shard::Call {
            name: self.name.clone(),
            version: self.version,
            arguments: part.arguments.unwrap_or(&self.arguments).clone(),
            declared: (self.is_inferred || !self.declared.is_empty()).then_some(part.declared),
        });
        encode(&operation)
    }
}

/// The bytes of what a shard is asked, if it would take them.
fn encode(operation: &Operation) -> Result<Value, InvalidProcedure> {
    super::validate(operation)?;
    let encoded = operation.encode();
    match encoded.len() {
        bytes if bytes > TRANSACTION_BYTES_MAX => {
            let reason = format!(
                "a call of {bytes} bytes for one shard, and {TRANSACTION_BYTES_MAX} are allowed: pass less, or store it first"
            );
            Err(InvalidProcedure::Limit { reason })
        }
        _ => Ok(encoded),
    }
}

/// A call in parts.
pub(crate) struct Divided {
    pub(crate) operations: BTreeMap<ShardId, Value>,
    /// The shards, in the order in which they are named.
    pub(crate) order: Vec<ShardId>,
    pub(crate) class: Class,
}

/// The parts of a call, by shard.
#[derive(Default)]
struct Parts<'a> {
    of: BTreeMap<ShardId, Part<'a>>,
    order: Vec<ShardId>,
}

#[derive(Default)]
struct Part<'a> {
    declared: Declared,
    arguments: Option<&'a Value>,
}

impl<'a> Parts<'a> {
    fn at(&mut self, shard: ShardId) -> &mut Part<'a> {
        self.of.entry(shard).or_insert_with(|| {
            self.order.push(shard);
            Part::default()
        })
    }
}

impl Keyspace {
    /// Calls a procedure: one that was deployed with [`Keyspace::deploy`], or one that is linked with the servers. It takes one round,
    /// or two if one of several shards has to be asked first what it touches; it is run again while others are in the way, until the
    /// deadline.
    ///
    /// # Errors
    /// [`Error::Refused`] if a shard refuses its part: the procedure does, with its reason, or it fails, or there is none. Nothing was
    /// changed then. [`InvalidProcedure::NotServed`] where the keyspace is not `serializable`, [`InvalidProcedure::WithoutKeys`] if neither the
    /// call nor the procedure says which of several shards are meant, [`InvalidProcedure::Limit`] if something goes beyond a limit; else as
    /// [`Keyspace::transact`].
    pub async fn call(&self, call: Call) -> Result<Answers> {
        self.require_procedures()?;
        if !call.needs_inference(&self.definition()) {
            return self.call_where_it_says(&call).await;
        }
        let deadline = Instant::now() + self.deadline();
        loop {
            let remaining = deadline.saturating_duration_since(Instant::now());
            let within = self.clone().with_deadline(remaining);
            let declaring = call.declaring(within.infer(&call).await?)?;
            let within = within.with_deadline(deadline.saturating_duration_since(Instant::now()));
            match within.call_where_it_says(&declaring).await {
                // The version was removed since it was asked, and another is the greatest now.
                Err(Error::Refused { refusal, .. })
                    if call.version == 0
                        && matches!(*refusal, Refusal::NoSuchProcedure { .. })
                        && Instant::now() < deadline => {}
                result => return result,
            }
        }
    }

    /// Asks a shard what a call touches.
    async fn infer(&self, call: &Call) -> Result<Inferred> {
        let Call { name, version, arguments, .. } = call;
        let infer = Infer { name: name.clone(), version: *version, arguments: arguments.clone() };
        let shard = call.asked(&self.definition());
        let parts = BTreeMap::from([(shard, encode(&Operation::Infer(infer))?)]);
        let answers = match self.execute(parts, Class::ReadOnly).await? {
            Ended::Done { answers, .. } => answers,
            Ended::AnswersLost { receipt } => return Err(Error::AnswersLost { token: receipt.token }),
            Ended::Refused { shard, reason } => return Err(refused(shard, &reason)),
        };
        let reason = match answers.get(&shard).map(Answer::decode) {
            Some(Ok(Answer::Inferred(inferred))) => return Ok(inferred),
            Some(Ok(_)) | None => "it is no answer to that".to_owned(),
            Some(Err(Malformed(reason))) => reason,
        };
        Err(Error::application(format!(
            "nothing was called, because what {shard} says that {name:?} touches cannot be read ({reason}): is the cluster newer than this \
             client?"
        )))
    }

    /// Calls a procedure where the call says.
    async fn call_where_it_says(&self, call: &Call) -> Result<Answers> {
        let Divided { operations, order, class } = call.divide(&self.definition())?;
        let (answers, receipt) = match self.execute(operations, class).await? {
            Ended::Done { answers, receipt } => (answers, receipt),
            Ended::AnswersLost { receipt } => return Err(Error::AnswersLost { token: receipt.token }),
            Ended::Refused { shard, reason } => return Err(refused(shard, &reason)),
        };
        let answer = |shard: &ShardId| match answers.get(shard).map(Answer::decode) {
            Some(Ok(Answer::Call(answer))) => Ok(answer),
            Some(Ok(_)) | None => Err(unintelligible(*shard, "it is no answer to a call")),
            Some(Err(Malformed(reason))) => Err(unintelligible(*shard, &reason)),
        };
        let answers = order.iter().map(answer).collect::<Result<_>>()?;
        Ok(Answers { answers, receipt })
    }
}

/// The call was carried out, but what it has come to is lost on this client.
fn unintelligible(shard: ShardId, reason: &str) -> Error {
    Error::application(format!(
        "the call was carried out, and the answer of {shard} cannot be read ({reason}): is the cluster newer than this client?"
    ))
}

#[cfg(test)]
mod tests {
    use quorate_core::topology::{Durability, Isolation, Shard};
    use quorate_core::{KeyspaceId, NodeId};

    use super::*;

    fn keyspace(shards: u32) -> Definition {
        Definition::new(
            KeyspaceId(1),
            "accounts",
            Isolation::Serializable,
            Durability::Sync,
            (1..=shards).map(|id| Shard::new(ShardId(id), vec![NodeId(0)])).collect(),
        )
    }

    /// A key of each shard.
    fn keys(keyspace: &Definition) -> Vec<String> {
        let of = |shard: &Shard| {
            let key = (0..)
                .map(|number| format!("key{number}"))
                .find(|key| keyspace.shard_of(key.as_bytes()).id == shard.id);
            key.expect("some key lies there")
        };
        keyspace.shards.iter().map(of).collect()
    }

    fn part(divided: &Divided, shard: u32) -> quorate_serializable_shard::Call {
        match Operation::decode(&divided.operations[&ShardId(shard)]) {
            Ok(Operation::Call(call)) => call,
            other => panic!("{other:?} is no call"),
        }
    }

    #[test]
    fn keys_say_where_it_is_called_and_what_it_touches() {
        let keyspace = keyspace(3);
        let keys = keys(&keyspace);
        let divided =
            Call::new("p").version(2).arguments("x").keys([&keys[2], &keys[0]]).divide(&keyspace).unwrap();
        assert_eq!(
            (divided.order.as_slice(), divided.class),
            (&[ShardId(3), ShardId(1)][..], Class::Coordinated)
        );
        for (shard, key) in [(1, &keys[0]), (3, &keys[2])] {
            let declared = Declared { keys: vec![Key::from(key.as_bytes())], ranges: Vec::new() };
            let name = "p".to_owned();
            let arguments = Value::from_static(b"x");
            let expected =
                quorate_serializable_shard::Call { name, version: 2, arguments, declared: Some(declared) };
            assert_eq!(part(&divided, shard), expected);
        }
        assert_eq!(divided.operations.len(), 2);
    }

    #[test]
    fn the_class_as_a_table() {
        let keyspace = keyspace(3);
        let keys = keys(&keyspace);
        let class = |call: Call| call.divide(&keyspace).unwrap().class;
        let (one, two) = (Call::new("p").keys(&keys[..1]), Call::new("p").keys(&keys[..2]));
        assert_eq!(class(one.clone()), Class::Independent);
        assert_eq!(class(one.read_only()), Class::ReadOnly);
        assert_eq!(class(two.clone()), Class::Coordinated);
        assert_eq!(class(two.clone().independent()), Class::Independent);
        assert_eq!(class(two.read_only()), Class::ReadOnly);
        assert_eq!(class(Call::new("p").ranges([("{a}", "{a}~")])), Class::Independent);
        assert_eq!(class(Call::new("p").ranges([("a", "")])), Class::Coordinated);
    }

    #[test]
    fn shards_are_named_without_declaring_anything() {
        let keyspace = keyspace(3);
        let keys = keys(&keyspace);
        let call = Call::new("p").arguments("x").at(&keys[1..2]).at_with(&keys[0], "y");
        let divided = call.clone().divide(&keyspace).unwrap();
        assert_eq!(divided.order, [ShardId(2), ShardId(1)]);
        let told = [1, 2].map(|shard| (part(&divided, shard).arguments, part(&divided, shard).declared));
        assert_eq!(told, [(Value::from_static(b"y"), None), (Value::from_static(b"x"), None)]);
        let same = call.clone().at_with(&keys[0], "y").divide(&keyspace);
        assert!(same.is_ok());
        let other = call.at_with(&keys[0], "z").divide(&keyspace).map(|_| ());
        assert_eq!(other, Err(InvalidProcedure::Arguments { shard: ShardId(1) }));
    }

    #[test]
    fn without_keys_only_where_there_is_one_shard() {
        assert!(!Call::new("p").needs_inference(&keyspace(1)));
        assert!(Call::new("p").needs_inference(&keyspace(2)));
        for told in
            [Call::new("p").keys(["a"]), Call::new("p").ranges([("a", "b")]), Call::new("p").at(["a"])]
        {
            assert!(!told.needs_inference(&keyspace(2)), "{told:?}");
        }
        let divided = Call::new("p").divide(&keyspace(1)).unwrap();
        assert_eq!((part(&divided, 1).declared, divided.order.len()), (None, 1));
        let refused = Call::new("p").divide(&keyspace(2)).map(|_| ());
        assert_eq!(refused, Err(InvalidProcedure::WithoutKeys { name: "p".to_owned() }));
    }

    #[test]
    fn what_a_procedure_says_that_it_touches_is_declared() {
        let keyspace = keyspace(3);
        let keys: Vec<Key> = keys(&keyspace).into_iter().map(Key::from).collect();
        let range = KeyRange { from: Key::from("{a}"), to: Some(Key::from("{a}~")) };
        let call = Call::new("p").arguments("x");
        let inferred = |version, touches| Inferred { version, touches };
        let touches = Declared { keys: vec![keys[2].clone(), keys[0].clone()], ranges: vec![range.clone()] };
        let declaring = call.declaring(inferred(4, Some(touches))).unwrap();
        let of_range = keyspace.shards_of_range(&range)[0].id;
        let divided = declaring.divide(&keyspace).unwrap();
        assert_eq!(divided.order[..2], [ShardId(3), ShardId(1)]);
        for (shard, key) in [(1, &keys[0]), (3, &keys[2])] {
            let call = part(&divided, shard);
            let declared = call.declared.unwrap();
            assert_eq!((call.version, &declared.keys), (4, &vec![key.clone()]));
            assert_eq!(declared.ranges.len(), usize::from(of_range == ShardId(shard)));
        }
        // Nothing is as good anywhere.
        let declaring = call.declaring(inferred(0, Some(Declared::default()))).unwrap();
        let divided = declaring.divide(&keyspace).unwrap();
        let [shard] = divided.order[..] else { panic!("{:?} take part", divided.order) };
        assert_eq!((shard, divided.class), (call.asked(&keyspace), Class::Independent));
        assert_eq!(part(&divided, shard.0).declared, Some(Declared::default()));
        let refused = call.declaring(inferred(1, None));
        assert_eq!(refused, Err(InvalidProcedure::WithoutKeys { name: "p".to_owned() }));
    }

    #[test]
    fn what_no_shard_would_take_is_not_sent() {
        let calls = [
            Call::new(""),
            Call::new("x".repeat(201)),
            Call::new("p").keys([""]),
            Call::new("p").arguments(vec![0; TRANSACTION_BYTES_MAX]),
        ];
        for call in calls {
            let refused = call.divide(&keyspace(1)).map(|_| ());
            assert!(matches!(refused, Err(InvalidProcedure::Limit { .. })), "{refused:?}");
        }
    }
}
