//! The values of versions.
//!
//! A small value is copied into memory of its own, of just its size: it would keep the message alive that it came in, and a shared
//! handle is as large as a third of it. A large one is kept as it came, and is not copied when it is read. Either may be stowed in the
//! [attic](quorate_core::attic) of the replica, if it has one.

use std::borrow::Cow;
use std::sync::Arc;

use quorate_core::Value;
use quorate_core::attic::{Attic, AtticPlace};

/// A value of so many bytes or more is kept as it came.
const LARGE_MIN: usize = 1_024;

/// The content of a version: of the size of a slice, whatever it is.
#[derive(Debug)]
pub(super) struct Content(Repr);

#[derive(Debug)]
enum Repr {
    Small(Box<[u8]>),
    /// One of the constants below, a place in the attic, or the number of a large value.
    Other(u64),
}

const _: () = assert!(size_of::<Content>() == 16, "other contents hide behind the length of a small value");

const DELETED: u64 = u64::MAX;

const VACANT: u64 = u64::MAX - 1;

/// The bit of a place in the attic, below which there is room for its number and one bit more, so that no place is a constant.
const STOWED: u64 = 1 << (AtticPlace::BITS + 1);

const _: () = assert!(AtticPlace::BITS == 62, "a place and the bits beside it are 64 bits");

/// Where a value is.
enum Whereabouts<'a> {
    Nowhere,
    Small(&'a [u8]),
    Large(usize),
    Stowed(AtticPlace),
}

impl Content {
    /// No value: the version deletes its key.
    pub(super) const DELETED: Content = Content(Repr::Other(DELETED));
    /// No version: no key has the slot.
    pub(super) const VACANT: Content = Content(Repr::Other(VACANT));

    pub(super) fn is_deletion(&self) -> bool {
        matches!(self.0, Repr::Other(DELETED))
    }

    pub(super) fn is_vacant(&self) -> bool {
        matches!(self.0, Repr::Other(VACANT))
    }

    fn whereabouts(&self) -> Whereabouts<'_> {
        match &self.0 {
            Repr::Small(bytes) => Whereabouts::Small(bytes),
            Repr::Other(DELETED | VACANT) => Whereabouts::Nowhere,
            Repr::Other(word) if word & STOWED == 0 => Whereabouts::Large(*word as usize),
            Repr::Other(word) => match AtticPlace::new(word & !STOWED) {
                Some(place) => Whereabouts::Stowed(place),
                None => unreachable!("no place in an attic has the number {word:x}"),
            },
        }
    }
}

/// The large values, the attic, and how much memory all values take.
#[derive(Debug, Default)]
pub(super) struct Values {
    large: Vec<Option<Value>>,
    /// Numbers of large values that are gone.
    vacant: Vec<u64>,
    bytes: usize,
    attic: Option<Arc<dyn Attic>>,
    /// How many are in the attic.
    stowed: usize,
}

impl Values {
    pub(super) fn with_attic(attic: Option<Arc<dyn Attic>>) -> Self {
        Values { attic, ..Values::default() }
    }

    pub(super) fn attic(&self) -> Option<&Arc<dyn Attic>> {
        self.attic.as_ref()
    }

    /// Takes a value over; none is a deletion.
    pub(super) fn keep(&mut self, value: Option<Value>) -> Content {
        let Some(value) = value else { return Content::DELETED };
        self.bytes += taken(value.len());
        if value.len() < LARGE_MIN {
            return Content(Repr::Small(Box::from(&value[..])));
        }
        let number = self.vacant.pop().unwrap_or_else(|| {
            self.large.push(None);
            self.large.len() as u64 - 1
        });
        self.large[number as usize] = Some(value);
        Content(Repr::Other(number))
    }

    /// Lets a value go.
    pub(super) fn release(&mut self, content: Content) {
        match content.whereabouts() {
            Whereabouts::Nowhere => {}
            Whereabouts::Small(bytes) => self.bytes -= taken(bytes.len()),
            Whereabouts::Large(number) => {
                let value = self.large[number].take();
                let value = value.expect("a large value is kept until its version goes");
                self.bytes -= taken(value.len());
                self.vacant.push(number as u64);
            }
            Whereabouts::Stowed(place) => {
                self.stowed -= 1;
                self.opened().give_up(place);
            }
        }
    }

    /// Puts a value into the attic, if it is in memory. False if it stays there because the attic does not take it.
    pub(super) fn stow(&mut self, content: &mut Content) -> bool {
        let bytes = match content.whereabouts() {
            Whereabouts::Nowhere | Whereabouts::Stowed(_) => return true,
            Whereabouts::Small(bytes) => bytes,
            Whereabouts::Large(number) => &self.large(number)[..],
        };
        let Some(place) = self.opened().put(bytes) else { return false };
        self.stowed += 1;
        self.release(std::mem::replace(content, Content(Repr::Other(STOWED | place.number()))));
        true
    }

    /// The value of a version; none of a deletion. If the attic has failed it is an empty one, and nothing that follows from that leaves the host.
    pub(super) fn value(&self, content: &Content) -> Option<Value> {
        match content.whereabouts() {
            Whereabouts::Nowhere => None,
            Whereabouts::Small(bytes) => Some(Value::copy_from_slice(bytes)),
            Whereabouts::Large(number) => Some(self.large(number).clone()),
            Whereabouts::Stowed(place) => Some(self.opened().value(place).unwrap_or_default()),
        }
    }

    /// The bytes of the value of a version, which are not copied if they are in memory; none of a deletion.
    pub(super) fn bytes_of<'a>(&'a self, content: &'a Content) -> Option<Cow<'a, [u8]>> {
        match content.whereabouts() {
            Whereabouts::Nowhere => None,
            Whereabouts::Small(bytes) => Some(Cow::Borrowed(bytes)),
            Whereabouts::Large(number) => Some(Cow::Borrowed(self.large(number))),
            Whereabouts::Stowed(_) => Some(Cow::Owned(self.value(content)?.into())),
        }
    }

    /// The bytes of memory that values take.
    pub(super) fn bytes(&self) -> usize {
        let lists =
            self.large.capacity() * size_of::<Option<Value>>() + self.vacant.capacity() * size_of::<u64>();
        self.bytes + lists
    }

    /// How many values are in the attic.
    pub(super) fn stowed(&self) -> usize {
        self.stowed
    }

    /// The same without what they are listed in.
    pub(super) fn kept(&self) -> usize {
        self.bytes
    }

    #[cfg(test)]
    pub(super) fn is_stowed(&self, content: &Content) -> bool {
        matches!(content.whereabouts(), Whereabouts::Stowed(_))
    }

    fn large(&self, number: usize) -> &Value {
        self.large[number].as_ref().expect("a large value is kept until its version goes")
    }

    fn opened(&self) -> &dyn Attic {
        self.attic.as_deref().expect("only what has an attic stows values")
    }
}

/// The bytes that an allocator takes for a value.
fn taken(len: usize) -> usize {
    len.next_multiple_of(16)
}
