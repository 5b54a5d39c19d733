//! The log of one replica.

use std::collections::VecDeque;

use quorate_core::View;
use quorate_core::log::Position;

use crate::Payload;

/// An entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<P> {
    /// In which view it was appended. Of one view and position there is one entry, because a view has one leader.
    pub view: View,
    /// Its content.
    pub payload: P,
}

/// Entries one after the other that were appended in one view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The view.
    pub view: View,
    /// The position of the first.
    pub first: Position,
}

/// In which views the entries of a log were appended; ascending.
///
/// A leader begins with the entries of earlier views and appends its own, so a log that holds an entry of a view holds
/// what that view's leader had before it. Hence two logs are alike up to the greatest position at which their shapes
/// agree, and differ from there on.
///
/// A log may have forgotten how it began. The forgotten entries were stable, and the entry at its *base*, of which the view
/// is still known, stands for all of them: a log that has the same entry there has the same entries before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Up to here the entries are forgotten.
    pub base: Position,
    /// The runs. If there is a base, the first begins there.
    pub runs: Vec<Run>,
    /// The position of the last entry.
    pub last: Position,
}

impl Shape {
    /// The view in which the entry at a position was appended; none if there is no such entry.
    pub fn view_at(&self, position: Position) -> Option<View> {
        if position == Position::START || position < self.base || position > self.last {
            return None;
        }
        let later = self.runs.partition_point(|run| run.first <= position);
        later.checked_sub(1).map(|at| self.runs[at].view)
    }

    /// The last position up to which both logs are alike; none if one of them has forgotten too much to tell.
    pub fn common(&self, other: &Shape) -> Option<Position> {
        let base = self.base.max(other.base);
        if base > Position::START
            && (self.view_at(base).is_none() || self.view_at(base) != other.view_at(base))
        {
            return None;
        }
        let mut end = base;
        for (mine, theirs) in self.runs_from(base).zip(other.runs_from(base)) {
            if mine != theirs {
                break;
            }
            end = self.end_of(mine).min(other.end_of(theirs));
        }
        Some(end)
    }

    /// The runs from a position on, the first cut off there.
    fn runs_from(&self, base: Position) -> impl Iterator<Item = Run> {
        let from = self.runs.partition_point(|run| run.first <= base).saturating_sub(1);
        self.runs[from..].iter().map(move |run| Run { first: run.first.max(base), ..*run })
    }

    /// The last position before one from which nothing is known.
    fn forget_until(&mut self, base: Position) {
        self.runs = self.runs_from(base).collect();
        self.base = base;
    }

    /// A log of which nothing is left but the view of its last entry.
    pub fn forgotten(base: Position, view: View) -> Self {
        Shape { base, runs: vec![Run { view, first: base }], last: base }
    }

    /// The position of the last entry of a run.
    fn end_of(&self, run: Run) -> Position {
        let next = self.runs.iter().find(|later| later.first > run.first);
        next.map_or(self.last, |next| Position(next.first.0 - 1))
    }

    /// One more entry, appended in `view`.
    fn push(&mut self, view: View) {
        self.last = self.last.next();
        if self.runs.last().is_none_or(|run| run.view != view) {
            self.runs.push(Run { view, first: self.last });
        }
    }

    pub(crate) fn truncate(&mut self, last: Position) {
        self.last = self.last.min(last);
        while self.runs.last().is_some_and(|run| run.first > last) {
            self.runs.pop();
        }
    }

    /// False if runs overlap, are empty, or views go backwards, or there are more entries than there can be: no log looks like
    /// this.
    pub fn is_sound(&self) -> bool {
        let ascending = |two: &[Run]| {
            two[0].view < two[1].view && two[0].first < two[1].first && two[1].first <= self.last
        };
        let begins = match self.runs.first() {
            Some(run) => run.first == self.base.max(Position::START.next()),
            None => self.last == Position::START && self.base == Position::START,
        };
        let holds = self.runs.first().is_none_or(|run| run.first <= self.last);
        begins && holds && self.last.is_believable() && self.runs.windows(2).all(ascending)
    }
}

/// The entries that a replica holds.
#[derive(Debug)]
pub struct Entries<P> {
    shape: Shape,
    /// Those after the base.
    entries: VecDeque<Entry<P>>,
}

impl<P> Default for Entries<P> {
    fn default() -> Self {
        Entries { shape: Shape::default(), entries: VecDeque::new() }
    }
}

impl<P: Payload> Entries<P> {
    /// The shape of the log.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The position of the last entry.
    pub fn last(&self) -> Position {
        self.shape.last
    }

    /// The entry at a position.
    pub fn get(&self, position: Position) -> Option<&Entry<P>> {
        self.entries.get(usize::try_from(position.0.checked_sub(self.shape.base.0 + 1)?).ok()?)
    }

    /// Appends an entry.
    ///
    /// # Panics
    /// If the last entry is of a later view: a leader has entered a view that is later than all before.
    pub fn push(&mut self, entry: Entry<P>) -> Position {
        let earlier = self.shape.view_at(self.shape.last);
        assert!(
            earlier.is_none_or(|earlier| earlier <= entry.view),
            "an entry of {} after {earlier:?}",
            entry.view
        );
        self.shape.push(entry.view);
        self.entries.push_back(entry);
        self.assert_shaped();
        self.shape.last
    }

    /// There are as many entries as the shape of the log has beyond its base.
    fn assert_shaped(&self) {
        let (entries, shape) = (self.entries.len() as u64, &self.shape);
        assert!(
            shape.base.0 + entries == shape.last.0,
            "{entries} entries follow {:?}, and the last is {:?}",
            shape.base,
            shape.last
        );
    }

    /// Drops the entries after a position.
    pub fn truncate(&mut self, last: Position) {
        let kept = last.0.checked_sub(self.shape.base.0).expect("what is forgotten is stable");
        self.shape.truncate(last);
        self.entries.truncate(usize::try_from(kept).unwrap_or(usize::MAX));
        self.assert_shaped();
    }

    /// Forgets the entries up to a position.
    pub fn forget_until(&mut self, base: Position) {
        let base = base.min(self.last());
        if base > self.shape.base {
            self.entries.drain(..(base.0 - self.shape.base.0) as usize);
            self.shape.forget_until(base);
        }
        self.assert_shaped();
    }

    /// Nothing is left of a log but the view of its last entry.
    pub fn forgotten(base: Position, view: View) -> Self {
        Entries { shape: Shape::forgotten(base, view), entries: VecDeque::new() }
    }

    /// The entries after one position and up to another, as many as `bytes_max` allows, but one at least.
    pub fn between(&self, after: Position, upto: Position, bytes_max: usize) -> Vec<Entry<P>> {
        let (mut taken, mut bytes) = (Vec::new(), 0);
        let mut at = after.next();
        while at <= upto
            && let Some(entry) = self.get(at)
        {
            bytes += entry.payload.bytes();
            if bytes > bytes_max && !taken.is_empty() {
                break;
            }
            taken.push(entry.clone());
            at = at.next();
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "1*3 2*2": three entries of view 1, two of view 2.
    pub(crate) fn shape(text: &str) -> Shape {
        let mut shape = Shape::default();
        for word in text.split_whitespace() {
            let (view, count) = word.split_once('*').unwrap();
            for _ in 0..count.parse().unwrap() {
                shape.push(View(view.parse().unwrap()));
            }
        }
        shape
    }

    #[test]
    fn logs_are_alike_as_far_as_their_shapes_are() {
        let table = [
            ("", "", 0),
            ("", "1*3", 0),
            ("1*3", "1*3", 3),
            ("1*3", "1*5", 3),
            ("1*3 2*2", "1*3", 3),
            ("1*3 2*2", "1*5", 3),
            ("1*3 2*2", "1*3 3*2", 3),
            ("1*3 2*2", "1*2 3*2", 2),
            ("1*3 2*2 4*1", "1*3 2*4", 5),
            ("1*3", "2*3", 0),
        ];
        for (one, other, common) in table {
            let (mine, theirs) = (shape(one), shape(other));
            assert!(mine.is_sound() && theirs.is_sound());
            assert_eq!(mine.common(&theirs), Some(Position(common)), "{one} and {other}");
            assert_eq!(theirs.common(&mine), Some(Position(common)), "{other} and {one}");
        }
    }

    #[test]
    fn a_log_that_has_forgotten_how_it_began_is_compared_from_there() {
        let forgets = |text: &str, base| {
            let mut shape = shape(text);
            shape.forget_until(Position(base));
            assert!(shape.is_sound(), "{shape:?}");
            shape
        };
        let table = [
            ("1*3 2*2", 2, "1*3 2*2", 0, Some(5)),
            ("1*3 2*2", 3, "1*3 2*2", 0, Some(5)),
            ("1*3 2*2", 4, "1*3 2*2", 3, Some(5)),
            ("1*3 2*2", 5, "1*3 2*2", 5, Some(5)),
            ("1*3 2*2", 2, "1*3 3*4", 0, Some(3)),
            ("1*3 2*2", 3, "1*5", 0, Some(3)),
            ("1*3 2*2", 4, "1*5", 0, None),
            ("1*3 2*2", 4, "1*3", 0, None),
            ("1*3 2*2", 4, "", 0, None),
            ("1*3 2*2", 4, "1*3 2*9 4*1", 2, Some(5)),
            ("1*3 2*5", 4, "1*3 2*2 4*1", 5, Some(5)),
        ];
        for (one, base, other, its_base, common) in table {
            let (mine, theirs) = (forgets(one, base), forgets(other, its_base));
            let common = common.map(Position);
            assert_eq!(mine.common(&theirs), common, "{one} from {base} and {other} from {its_base}");
            assert_eq!(theirs.common(&mine), common, "{other} from {its_base} and {one} from {base}");
        }
        let shape = forgets("1*3 4*2", 2);
        let views: Vec<Option<u64>> =
            (0..6).map(|at| shape.view_at(Position(at)).map(|view| view.0)).collect();
        assert_eq!(views, [None, None, Some(1), Some(1), Some(4), Some(4)]);
        assert_eq!(Shape::forgotten(Position(5), View(4)), forgets("1*3 4*2", 5));
    }

    #[test]
    fn a_shape_tells_in_which_view_each_entry_was_appended() {
        let shape = shape("1*3 4*1");
        let views: Vec<Option<u64>> =
            (0..6).map(|at| shape.view_at(Position(at)).map(|view| view.0)).collect();
        assert_eq!(views, [None, Some(1), Some(1), Some(1), Some(4), None]);
    }

    #[test]
    fn as_many_entries_are_taken_as_there_is_room_for_and_one_at_least() {
        let mut entries = Entries::<u64>::default();
        for payload in 1..=4 {
            entries.push(Entry { view: View(1), payload });
        }
        let taken = |after, upto, bytes_max| -> Vec<u64> {
            let entries = entries.between(Position(after), Position(upto), bytes_max);
            entries.into_iter().map(|entry| entry.payload).collect()
        };
        assert_eq!(taken(0, 4, 16), [1, 2], "each has eight bytes");
        assert_eq!(taken(0, 4, 15), [1]);
        assert_eq!(taken(1, 4, 1), [2], "one that is larger than that goes alone");
        assert_eq!(taken(1, 3, 100), [2, 3]);
        assert_eq!(taken(2, 9, 100), [3, 4], "there are no more");
        assert!(taken(4, 4, 100).is_empty());
    }

    #[test]
    fn shapes_that_no_log_has_are_noticed() {
        let run = |view, first| Run { view: View(view), first: Position(first) };
        let table: [(u64, &[Run], u64, bool); 16] = [
            (0, &[], 0, true),
            (0, &[], 1, false),
            (0, &[run(1, 1)], 0, false),
            (0, &[run(1, 1)], 3, true),
            (0, &[run(1, 2)], 3, false),
            (0, &[run(1, 1), run(1, 2)], 3, false),
            (0, &[run(1, 1), run(2, 1)], 3, false),
            (0, &[run(1, 1), run(2, 2)], 3, true),
            (0, &[run(1, 1), run(2, 4)], 3, false),
            (2, &[], 3, false),
            (2, &[run(1, 2)], 2, true),
            (2, &[run(1, 2)], 1, false),
            (2, &[run(1, 1)], 3, false),
            (2, &[run(1, 3)], 3, false),
            (0, &[run(1, 1)], 1 << 60, true),
            (0, &[run(1, 1)], u64::MAX, false),
        ];
        for (base, runs, last, sound) in table {
            let shape = Shape { base: Position(base), runs: runs.to_vec(), last: Position(last) };
            assert_eq!(shape.is_sound(), sound, "{shape:?}");
        }
    }
}
