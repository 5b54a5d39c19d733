//! The tables as data: messages with the number, name, label and type of each field.
//!
//! [`Wire::describe`] enters a message into a [`Schema`], together with the messages that its fields hold. The text in `proto`,
//! which a client in another language compiles, and the generators of the tests are made from it, so that a table is the
//! only place where a field is declared.

mod proto;

use crate::Wire;

/// The messages that were described, each after those that hold it.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    messages: Vec<Message>,
}

/// A message: its fields, and the alternatives of which exactly one is present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The name: as errors call it, but for the log and for inconsistent replication, whose messages differ from one
    /// protocol to the other and bear the protocol's name in front.
    pub name: String,
    /// The message whose alternative it is, if it has no other use.
    pub parent: Option<String>,
    /// The fields.
    pub fields: Vec<Field>,
    /// The alternatives; none if it is not one of several.
    pub alternatives: Vec<Field>,
}

/// A field of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The number.
    pub number: u32,
    /// The name in the table.
    pub name: &'static str,
    /// When and how often it is present.
    pub label: Label,
    /// The type of one of its values.
    pub kind: Kind,
}

/// When and how often a field is present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label {
    /// Left out if it has its default.
    Plain,
    /// Always.
    Required,
    /// If there is a value, even a default one.
    Optional,
    /// Once for each entry.
    Repeated {
        /// The most entries.
        max: usize,
    },
    /// Once, with all numbers, unless there are none.
    Packed,
    /// Once for each pair; the keys ascend.
    Map,
}

/// The type of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number of variable length.
    Varint(Number),
    /// A number of eight bytes.
    Fixed64(Number),
    /// Bytes.
    Bytes {
        /// The fewest.
        min: usize,
        /// The most; none if only the frame limits them.
        max: Option<usize>,
    },
    /// A text.
    Text,
    /// The message of this name.
    Message(String),
    /// There is no such value: a protocol without such operations.
    Never,
}

/// The meaning of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    /// The type that a number of variable length has in protocol buffers.
    pub proto: &'static str,
    /// The greatest one.
    pub max: u64,
    /// The meanings of the numbers from one; empty if they are numbers and nothing else.
    pub names: &'static [&'static str],
    /// The unit; empty if that is clear from the name.
    pub unit: &'static str,
}

impl Number {
    /// Numbers up to this one, which decides between the types of 32 and 64 bits.
    pub const fn up_to(max: u64) -> Self {
        let proto = if max <= u32::MAX as u64 { "uint32" } else { "uint64" };
        Number { proto, max, names: &[], unit: "" }
    }

    /// Numbers that stand for something.
    pub const fn choice(names: &'static [&'static str]) -> Self {
        Number { names, ..Number::up_to(names.len() as u64) }
    }

    /// Numbers of this unit.
    pub const fn in_unit(unit: &'static str) -> Self {
        Number { unit, ..Number::up_to(u64::MAX) }
    }
}

impl Schema {
    /// A schema without messages.
    pub fn new() -> Self {
        Self::default()
    }

    /// The messages, each before those that were first met in its fields.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The message of this name.
    pub fn message(&self, name: &str) -> Option<&Message> {
        self.messages.iter().find(|message| message.name == name)
    }

    /// Enters a message whose fields a table gives.
    ///
    /// # Panics
    /// If another message has the name.
    pub fn enter(
        &mut self,
        name: String,
        parent: Option<&str>,
        fields: impl FnOnce(&mut Schema) -> Vec<Field>,
        alternatives: impl FnOnce(&mut Schema) -> Vec<Field>,
    ) -> Kind {
        let place = self.reserve(&name);
        let (fields, alternatives) = (fields(self), alternatives(self));
        self.describe(place, Message { name, parent: parent.map(str::to_owned), fields, alternatives })
    }

    /// The place of a message, which may be described already.
    fn reserve(&mut self, name: &str) -> usize {
        let place = self.messages.iter().position(|message| message.name == name);
        place.unwrap_or_else(|| {
            let name = name.to_owned();
            self.messages.push(Message { name, parent: None, fields: vec![], alternatives: vec![] });
            self.messages.len() - 1
        })
    }

    fn describe(&mut self, place: usize, message: Message) -> Kind {
        let (name, known) = (message.name.clone(), &self.messages[place]);
        let is_new = known.fields.is_empty() && known.alternatives.is_empty();
        assert!(is_new || *known == message, "two messages are called {name}: {known:?} and {message:?}");
        self.messages[place] = message;
        Kind::Message(name)
    }

    /// True if there can be no such value, because a part without which it is incomplete can have none.
    pub fn is_never(&self, kind: &Kind) -> bool {
        match kind {
            Kind::Never => true,
            Kind::Message(name) => self.message(name).is_some_and(|message| {
                let fields = &message.fields;
                fields.iter().any(|field| field.label == Label::Required && self.is_never(&field.kind))
            }),
            _ => false,
        }
    }
}

/// The name of a message of the log or of inconsistent replication for one protocol: that of the protocol, as one of its own
/// messages says it, and the name.
pub fn scoped<T: Wire>(name: &str) -> String {
    let own = T::name();
    let scope = own.split('.').next().expect("a name has a first part");
    format!("{scope}.{name}")
}
