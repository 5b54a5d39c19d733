//! Where the entries of a record come from: from the base of a view, or from the tail.
//!
//! A view change makes all of a tail part of a base, or what was a base part of the tail again. An entry has an [`Origin`], and what that stands for
//! is told in one place: so a view change looks at no entry that has ended.

use std::collections::BTreeSet;

use quorate_core::View;

/// The base or tail that an entry has come with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Origin(u32);

impl Origin {
    /// No origin is less.
    pub(super) const FIRST: Origin = Origin(0);
    /// No origin is greater.
    pub(super) const LAST: Origin = Origin(u32::MAX);
}

/// The meaning of origins.
#[derive(Debug)]
pub(super) struct Origins {
    /// By the number of the origin: the view with whose base its entries came; none if they belong to the tail.
    views: Vec<Option<View>>,
    /// The origin of what is recorded from now on.
    tail: Origin,
}

impl Default for Origins {
    fn default() -> Self {
        Origins { views: vec![None], tail: Origin(0) }
    }
}

impl Origins {
    /// The origin of what is recorded now.
    pub(super) fn tail(&self) -> Origin {
        self.tail
    }

    /// The view with whose base these entries came; none if they belong to the tail.
    pub(super) fn base(&self, origin: Origin) -> Option<View> {
        self.views[origin.0 as usize]
    }

    /// The origin of entries that come with the base of a view.
    pub(super) fn of(&mut self, view: View) -> Origin {
        let known = self.views.iter().rposition(|known| *known == Some(view));
        let place = known.unwrap_or_else(|| {
            self.views.push(Some(view));
            self.views.len() - 1
        });
        Origin(place as u32)
    }

    /// All of the tail belongs to the base of this view from now on, and the tail is empty. Gives the origins that were those of the tail.
    pub(super) fn settle_tail(&mut self, view: View) -> BTreeSet<Origin> {
        let mut settled = BTreeSet::new();
        for (place, base) in self.views.iter_mut().enumerate().filter(|(_, base)| base.is_none()) {
            *base = Some(view);
            settled.insert(Origin(place as u32));
        }
        self.tail = Origin(self.views.len() as u32);
        self.views.push(None);
        assert!(
            !settled.contains(&self.tail),
            "what is recorded from now on is taken for a part of {view:?}"
        );
        assert!(self.base(self.tail).is_none(), "what is recorded from now on is no part of the tail");
        settled
    }

    /// Entries that came with the bases of later views than `since` belong to the tail from now on.
    pub(super) fn forget_beyond(&mut self, since: Option<View>) {
        for base in self.views.iter_mut().filter(|base| **base > since) {
            *base = None;
        }
    }
}
