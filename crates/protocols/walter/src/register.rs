//! The history of a register (Walter, section 5.2), and of whatever else is written one version after the other.

use quorate_core::Value;

use crate::vector::{Vector, VersionNumber};

/// A version of a register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written<T = Value> {
    /// The transaction that wrote it.
    pub version: VersionNumber,
    /// The value; none destroys the register.
    pub value: Option<T>,
    /// True if this site does not know the value: the register's container has no replica here.
    pub is_elsewhere: bool,
}

/// The versions of a register.
///
/// No two of them are concurrent somewhere, and every site receives causes before effects. So their order, oldest first, is the same at all
/// sites, and the newest version that a snapshot includes is the last one of the list that it includes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Register<T = Value> {
    versions: Vec<Written<T>>,
    /// The bytes of their values.
    bytes: usize,
}

/// A content of registers.
pub(crate) trait Content {
    /// How many bytes it has.
    fn bytes(&self) -> usize;
}

impl Content for Value {
    fn bytes(&self) -> usize {
        self.len()
    }
}

fn bytes_of<T: Content>(written: &Written<T>) -> usize {
    written.value.as_ref().map_or(0, Content::bytes)
}

impl<T> Default for Register<T> {
    fn default() -> Self {
        Register { versions: Vec::new(), bytes: 0 }
    }
}

impl<T: Content> Register<T> {
    /// Appends a version. A transaction that writes the register several times has written what it wrote last.
    pub(crate) fn write(&mut self, version: VersionNumber, value: Option<T>) {
        let written = Written { version, value, is_elsewhere: false };
        self.bytes += bytes_of(&written);
        match self.versions.last_mut().filter(|last| last.version == version) {
            Some(last) => {
                self.bytes -= bytes_of(last);
                last.value = written.value;
            }
            None => self.versions.push(written),
        }
    }

    /// Appends a version whose value is at other sites.
    pub(crate) fn note(&mut self, version: VersionNumber) {
        self.versions.push(Written { version, value: None, is_elsewhere: true });
    }

    /// The newest version that a snapshot includes.
    pub(crate) fn at(&self, snapshot: &Vector) -> Option<&Written<T>> {
        self.versions.iter().rev().find(|known| snapshot.includes(known.version))
    }

    /// The newest version of all, which a snapshot must include whose transaction is to overwrite it.
    pub(crate) fn last(&self) -> Option<&Written<T>> {
        self.versions.last()
    }

    /// All versions, oldest first.
    pub(crate) fn versions(&self) -> impl Iterator<Item = &Written<T>> {
        self.versions.iter()
    }

    /// Drops the versions that no snapshot reads which includes the floor: those before the newest one that the floor includes, and that one
    /// if it destroys the register. Gives how many were dropped.
    pub(crate) fn fold(&mut self, floor: &Vector) -> usize {
        let Some(newest) = self.versions.iter().rposition(|known| floor.includes(known.version)) else {
            return 0;
        };
        let destroys = self.versions[newest].value.is_none() && !self.versions[newest].is_elsewhere;
        let superfluous = if destroys { newest + 1 } else { newest };
        self.bytes -= self.versions.drain(..superfluous).map(|dropped| bytes_of(&dropped)).sum::<usize>();
        superfluous
    }

    /// Drops the versions that the floor includes: the site gives its copy up, or never had one. No snapshot that can be read lacks them, so nothing that
    /// is written is concurrent with them.
    pub(crate) fn give_up(&mut self, floor: &Vector) {
        self.discard(|version| floor.includes(version));
    }

    /// Drops the versions of transactions that were abandoned. Gives how many there were.
    pub(crate) fn discard(&mut self, is_abandoned: impl Fn(VersionNumber) -> bool) -> usize {
        let dropped = self.versions.extract_if(.., |known| is_abandoned(known.version));
        let (number, bytes) =
            dropped.fold((0, 0), |(number, bytes), dropped| (number + 1, bytes + bytes_of(&dropped)));
        self.bytes -= bytes;
        number
    }

    /// True if nothing is known of it, as of one that was never written.
    pub(crate) fn is_empty(&self) -> bool {
        self.versions.is_empty()
    }

    /// True if a higher floor makes something superfluous.
    pub(crate) fn is_foldable(&self) -> bool {
        self.versions.len() > 1 || self.versions.iter().any(|known| known.value.is_none())
    }
}

impl<T> Register<T> {
    /// How many versions there are, and how many bytes their values have.
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.versions.len(), self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vector::LocalSite;

    fn version(site: u16, seqno: u64) -> VersionNumber {
        VersionNumber { site: LocalSite(site), seqno }
    }

    fn register(versions: &[(u16, u64, &'static str)]) -> Register {
        let mut register = Register::default();
        for (site, seqno, value) in versions {
            let value = (!value.is_empty()).then(|| Value::from_static(value.as_bytes()));
            register.write(version(*site, *seqno), value);
        }
        register
    }

    fn read(register: &Register, snapshot: &[u64]) -> Option<String> {
        let found = register.at(&Vector::new(snapshot.to_vec()))?;
        found.value.as_ref().map(|value| String::from_utf8_lossy(value).into_owned())
    }

    #[test]
    fn a_snapshot_reads_the_newest_version_that_it_includes() {
        let register = register(&[(0, 1, "a"), (1, 1, "b"), (0, 4, "c")]);
        for (snapshot, expected) in [
            (&[][..], None),
            (&[1], Some("a")),
            (&[3, 1], Some("b")),
            (&[9], Some("c")),
            (&[0, 1], Some("b")),
        ] {
            assert_eq!(read(&register, snapshot).as_deref(), expected, "{snapshot:?}");
        }
        assert_eq!(register.last().map(|known| known.version), Some(version(0, 4)));
    }

    #[test]
    fn folding_keeps_all_that_a_snapshot_above_the_floor_reads() {
        let mut folded = register(&[(0, 1, "a"), (0, 2, "b"), (1, 1, "c")]);
        assert_eq!(folded.fold(&Vector::new(vec![2])), 1);
        assert_eq!(read(&folded, &[2]).as_deref(), Some("b"));
        assert_eq!(read(&folded, &[2, 1]).as_deref(), Some("c"));
        assert!(folded.is_foldable());
        assert_eq!(folded.fold(&Vector::new(vec![2, 1])), 1);
        assert!(!folded.is_foldable() && folded.last().map(|known| known.version) == Some(version(1, 1)));
    }

    #[test]
    fn a_register_that_was_destroyed_is_forgotten_below_the_floor() {
        let mut destroyed = register(&[(0, 1, "a"), (0, 2, "")]);
        assert_eq!(destroyed.fold(&Vector::new(vec![1])), 0);
        assert_eq!(read(&destroyed, &[1]).as_deref(), Some("a"));
        assert_eq!(destroyed.fold(&Vector::new(vec![2])), 2);
        assert!(destroyed.is_empty() && destroyed.last().is_none());
    }

    #[test]
    fn a_register_that_was_given_up_keeps_what_may_be_concurrent() {
        let mut given_up = register(&[(0, 1, "a"), (1, 2, "b")]);
        given_up.note(version(2, 3));
        given_up.give_up(&Vector::new(vec![1, 1]));
        assert_eq!(
            given_up.versions().map(|known| known.version).collect::<Vec<_>>(),
            [version(1, 2), version(2, 3)]
        );
        assert!(given_up.last().is_some_and(|last| last.is_elsewhere));
        given_up.give_up(&Vector::new(vec![1, 2, 3]));
        assert!(given_up.is_empty());
    }

    #[test]
    fn versions_of_abandoned_transactions_go() {
        let mut register = register(&[(0, 1, "a"), (1, 7, "b"), (1, 8, "c")]);
        assert_eq!(register.discard(|known| known.site == LocalSite(1) && known.seqno > 7), 1);
        assert_eq!(read(&register, &[9, 9]).as_deref(), Some("b"));
    }

    #[test]
    fn of_what_a_transaction_has_written_the_last_counts() {
        let register = register(&[(0, 1, "a"), (0, 1, "b")]);
        assert_eq!(read(&register, &[1]).as_deref(), Some("b"));
        assert!(!register.is_foldable());
    }
}
