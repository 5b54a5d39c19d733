//! The meaning of the replies to a quorum read. Pure decisions; why they are right stands with the replica, in `snapshots`.

use std::collections::BTreeSet;

use quorate_core::{Key, Timestamp};

use super::reading::Snapshot;
use crate::message::{FoundPage, FoundVersion, SnapshotVersion};
use crate::rules::{Plant, Rules};

/// The meaning of the replies of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// This is what the keys hold.
    Read(Vec<FoundVersion>),
    /// A version lies above the timestamp: the newest must be read at a greater one than this.
    Above(Timestamp),
    /// More replies may tell.
    Wait {
        /// True if those that were there did not agree, or a write is pending.
        obstructed: bool,
    },
}

/// Which keys of a range are read, and how far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Covered {
    /// The keys that some replica listed, ascending; all others up to `next` are absent.
    pub(super) keys: Vec<Key>,
    /// The first key that is not covered; none if the whole range is.
    pub(super) next: Option<Key>,
}

/// The meaning of replies of one view about the same keys, if so many are needed.
pub(super) fn of_versions(
    replies: &[&[SnapshotVersion]],
    quorum: usize,
    snapshot: Snapshot,
    rules: Rules,
) -> Progress {
    assert!(quorum > 0, "nobody is asked, and {snapshot:?} is taken for read");
    let wait = Progress::Wait { obstructed: replies.len() >= quorum };
    let settled = |is_settled: &dyn Fn(&SnapshotVersion) -> bool| -> Vec<&[SnapshotVersion]> {
        replies.iter().copied().filter(|found| found.iter().all(is_settled)).collect()
    };
    match snapshot {
        Snapshot::At(timestamp) | Snapshot::Now(timestamp) => {
            let settled = settled(&|version| version.pending.is_none_or(|pending| pending > timestamp));
            if settled.len() >= quorum { Progress::Read(newest_of(&settled)) } else { wait }
        }
        Snapshot::Newest(timestamp) => {
            let newest = replies.iter().copied().flatten().map(|version| version.newest).max();
            if let Some(newest) = newest.filter(|newest| *newest > timestamp) {
                return Progress::Above(newest);
            }
            let overlooks = rules.has(Plant::PendingWriteOverlooked);
            let settled = settled(&|version| version.pending.is_none() || overlooks);
            let is_agreed = |one: &&&[SnapshotVersion]| {
                settled.iter().filter(|other| agree(one, other)).count() >= quorum
            };
            match settled.iter().find(is_agreed) {
                Some(one) => Progress::Read(one.iter().map(|version| version.found.clone()).collect()),
                None => wait,
            }
        }
        Snapshot::Validated { .. } => Progress::Wait { obstructed: false },
    }
}

/// The same where reads of the newest versions take turns: a write that is pending above the timestamp will have ended
/// before a later turn.
pub(super) fn of_versions_in_turn(
    replies: &[&[SnapshotVersion]],
    quorum: usize,
    timestamp: Timestamp,
    rules: Rules,
) -> Progress {
    let known = |version: &SnapshotVersion| version.pending.max(Some(version.newest));
    let newest = replies.iter().copied().flatten().filter_map(known).max();
    match newest.filter(|newest| *newest > timestamp && !rules.has(Plant::PendingWriteOverlooked)) {
        Some(newest) => Progress::Above(newest),
        None => of_versions(replies, quorum, Snapshot::Newest(timestamp), rules),
    }
}

/// The same of pages of one view: as much of the range counts as enough of them cover, and no more than that is read.
pub(super) fn of_pages(
    pages: &[&FoundPage],
    quorum: usize,
    snapshot: Snapshot,
    rules: Rules,
) -> (Progress, Covered) {
    // The farthest first; the end of the range is farther than any key.
    let mut ends: Vec<&Option<Key>> = pages.iter().map(|page| &page.next).collect();
    ends.sort_unstable_by_key(|end| (end.is_some(), std::cmp::Reverse(*end)));
    ends.dedup();
    let mut outcome = (Progress::Wait { obstructed: false }, Covered::default());
    for end in ends {
        let (keys, aligned) = up_to(end.as_ref(), pages);
        let aligned: Vec<&[SnapshotVersion]> = aligned.iter().map(Vec::as_slice).collect();
        let progress = of_versions(&aligned, quorum, snapshot, rules);
        let is_wait = matches!(progress, Progress::Wait { .. });
        outcome = (progress, Covered { keys, next: end.clone() });
        if !is_wait {
            break;
        }
    }
    outcome
}

/// The keys before `end` in the pages that cover all of them, and for each page what it says of each key.
fn up_to(end: Option<&Key>, pages: &[&FoundPage]) -> (Vec<Key>, Vec<Vec<SnapshotVersion>>) {
    let is_before = |key: &Key| end.is_none_or(|end| key < end);
    let covers = |page: &&&FoundPage| match (&page.next, end) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(next), Some(end)) => next >= end,
    };
    let covering: Vec<&FoundPage> = pages.iter().filter(covers).copied().collect();
    let listed = covering.iter().flat_map(|page| &page.keys).map(|found| &found.key);
    let keys: BTreeSet<&Key> = listed.filter(|key| is_before(key)).collect();
    let said = |page: &&FoundPage| {
        let absent = SnapshotVersion {
            found: FoundVersion { version: Timestamp::ZERO, value: None, absent_below: page.absent_below },
            newest: Timestamp::ZERO,
            pending: None,
        };
        let of_key = |key: &&Key| {
            let at = page.keys.binary_search_by(|found| found.key.cmp(key));
            at.map_or_else(|_| absent.clone(), |at| page.keys[at].version.clone())
        };
        keys.iter().map(of_key).collect()
    };
    let aligned = covering.iter().map(said).collect();
    (keys.into_iter().cloned().collect(), aligned)
}

fn newest_of(replies: &[&[SnapshotVersion]]) -> Vec<FoundVersion> {
    let keys = replies[0].len();
    assert!(
        replies.iter().all(|found| found.len() == keys),
        "of {keys} keys the replies tell {:?}",
        replies.iter().map(|found| found.len()).collect::<Vec<_>>()
    );
    let newest = |at: usize| {
        let versions = replies.iter().map(|found| &found[at].found);
        let newest = versions.reduce(|one, other| if other.supersedes(one) { other } else { one });
        newest.expect("a quorum is not empty").clone()
    };
    (0..keys).map(newest).collect()
}

fn agree(one: &[SnapshotVersion], other: &[SnapshotVersion]) -> bool {
    one.iter().zip(other).all(|(one, other)| one.newest == other.newest)
}

#[cfg(test)]
mod tests {
    use quorate_core::ClientId;

    use super::*;
    use crate::message::FoundKey;

    fn at(micros: u64) -> Timestamp {
        Timestamp { micros, client: ClientId(1) }
    }

    /// The version that a replica has of a key which is read at 10: with `!` where a write is pending at 9, with `?` where
    /// one is at 12, and with `+` where a version above 10 is known; `<` before a floor below which there is no version.
    fn version(word: &str) -> SnapshotVersion {
        let number = word.trim_start_matches('<').trim_end_matches(['!', '?', '+']).parse().unwrap();
        let version = if number == 0 { Timestamp::ZERO } else { at(number) };
        let newest = if word.ends_with('+') { at(11) } else { version };
        let pending = if word.ends_with('!') { Some(at(9)) } else { word.ends_with('?').then(|| at(12)) };
        let absent_below = word.starts_with('<').then_some(version);
        let version = if absent_below.is_some() { Timestamp::ZERO } else { version };
        let newest = if absent_below.is_some() { version } else { newest };
        SnapshotVersion { found: FoundVersion { version, value: None, absent_below }, newest, pending }
    }

    fn outcome(progress: &Progress) -> String {
        match progress {
            Progress::Read(found) => {
                let versions: Vec<String> =
                    found.iter().map(|found| found.version.micros.to_string()).collect();
                versions.join(" ")
            }
            Progress::Above(newest) => format!("above {}", newest.micros),
            Progress::Wait { obstructed: true } => "obstructed".to_owned(),
            Progress::Wait { obstructed: false } => "wait".to_owned(),
        }
    }

    /// Replies about two keys, one a replica.
    fn two_keys(replies: &[&str]) -> Vec<Vec<SnapshotVersion>> {
        replies.iter().map(|text| text.split(' ').map(version).collect()).collect()
    }

    fn of_two_keys(quorum: usize, replies: &[&str], snapshot: Snapshot, rules: Rules) -> String {
        let replies = two_keys(replies);
        let replies: Vec<&[SnapshotVersion]> = replies.iter().map(Vec::as_slice).collect();
        outcome(&of_versions(&replies, quorum, snapshot, rules))
    }

    fn of_two_keys_in_turn(quorum: usize, replies: &[&str], rules: Rules) -> String {
        let replies = two_keys(replies);
        let replies: Vec<&[SnapshotVersion]> = replies.iter().map(Vec::as_slice).collect();
        outcome(&of_versions_in_turn(&replies, quorum, at(10), rules))
    }

    #[test]
    fn replies_about_keys_as_a_table() {
        let table: &[(usize, &[&str], &str, &str)] = &[
            // quorum, replies, strict (in turn, if that differs), at 10
            (1, &["5 0"], "5 0", "5 0"),
            (2, &["5 0"], "wait", "wait"),
            (2, &["5 0?"], "wait (above 12)", "wait"),
            (2, &["5+ 0?"], "above 11 (above 12)", "wait"),
            (2, &["5 0", "5 0"], "5 0", "5 0"),
            (2, &["5 0!", "5 0"], "obstructed", "obstructed"),
            (2, &["5 0?", "5 0"], "obstructed (above 12)", "5 0"),
            (2, &["5 0", "5 0+"], "above 11", "5 0"),
            // The newest of each key would be a state that never was, if 7 was written after 6, which nobody here has.
            (2, &["5 0", "5 7"], "obstructed", "5 7"),
            (2, &["5 0", "5 7", "5 7"], "5 7", "5 7"),
            (2, &["5 7", "6 0", "5 0!"], "obstructed", "6 7"),
            // A version of which another has collected the deletion counts no more; one at its floor or above does.
            (2, &["5 3", "<6 <3"], "obstructed", "0 3"),
            (2, &["<4 <4", "<6 <3"], "0 0", "0 0"),
            // A version at the very timestamp is found; it is no reason to go above it.
            (2, &["10 0", "10 0"], "10 0", "10 0"),
            (2, &["10 0", "5 0"], "obstructed", "10 0"),
            (4, &["5 0", "5 0", "5 0"], "wait", "wait"),
            (4, &["5 0", "5 0", "5 0", "5 0"], "5 0", "5 0"),
        ];
        for (quorum, replies, strict, past) in table {
            let progress = |snapshot| of_two_keys(*quorum, replies, snapshot, Rules::EXCLUSIVE);
            let (strict, in_turn) = strict.trim_end_matches(')').split_once(" (").unwrap_or((strict, strict));
            assert_eq!(progress(Snapshot::Newest(at(10))), strict, "{replies:?}, strict");
            let waited = of_two_keys_in_turn(*quorum, replies, Rules::EXCLUSIVE);
            assert_eq!(waited, in_turn, "{replies:?}, in turn");
            assert_eq!(progress(Snapshot::At(at(10))), *past, "{replies:?}, at 10");
        }
    }

    #[test]
    fn a_pending_write_is_overlooked_only_by_the_plant() {
        let planted = Rules::planted(Plant::PendingWriteOverlooked);
        assert_eq!(of_two_keys(2, &["5 0!", "5 0!"], Snapshot::Newest(at(10)), planted), "5 0");
        assert_eq!(of_two_keys_in_turn(2, &["5 0?", "5 0?"], planted), "5 0");
    }

    /// Pages that list "key=version", then `…` and the first key that is not covered; first `<` and the replica's floor.
    fn of_range(quorum: usize, pages: &[&str], snapshot: Snapshot) -> String {
        let page = |text: &&str| {
            let mut page = FoundPage::default();
            for word in text.split_whitespace() {
                if let Some(next) = word.strip_prefix('…') {
                    page.next = Some(Key::copy_from_slice(next.as_bytes()));
                } else if let Some(floor) = word.strip_prefix('<') {
                    page.absent_below = Some(at(floor.parse().unwrap()));
                } else {
                    let (key, found) = word.split_once('=').unwrap();
                    let (key, version) = (Key::copy_from_slice(key.as_bytes()), version(found));
                    page.keys.push(FoundKey { key, version });
                }
            }
            page
        };
        let pages: Vec<FoundPage> = pages.iter().map(page).collect();
        let pages: Vec<&FoundPage> = pages.iter().collect();
        let (progress, covered) = of_pages(&pages, quorum, snapshot, Rules::EXCLUSIVE);
        let Progress::Read(found) = &progress else { return outcome(&progress) };
        let key = |key: &Key| String::from_utf8_lossy(key).into_owned();
        let read = covered.keys.iter().zip(found);
        let mut words: Vec<String> =
            read.map(|(name, found)| format!("{}={}", key(name), found.version.micros)).collect();
        words.extend(covered.next.as_ref().map(|next| format!("…{}", key(next))));
        words.join(" ")
    }

    #[test]
    fn pages_as_a_table() {
        let table: &[(usize, &[&str], &str, &str)] = &[
            // quorum, pages, strict, at 10
            (2, &["a=5 c=6"], "wait", "wait"),
            (2, &["a=5 c=6", "a=5 c=6"], "a=5 c=6", "a=5 c=6"),
            // A key that one lists and another covers without it is absent there.
            (2, &["a=5 c=6", "a=5"], "obstructed", "a=5 c=6"),
            (2, &["a=5 c=6", "a=5 c=0"], "obstructed", "a=5 c=6"),
            (2, &["a=5", "a=5 c=0"], "a=5 c=0", "a=5 c=0"),
            // It was deleted below the other's floor, or it lies above that floor and the other has missed it.
            (2, &["a=5 c=6", "<7 a=8"], "obstructed", "a=8 c=0"),
            (2, &["c=6", "<6"], "obstructed", "c=6"),
            // A key that is about to be written need not exist.
            (2, &["a=5 b=0!", "a=5"], "obstructed", "obstructed"),
            (2, &["a=5 b=0?", "a=5"], "obstructed", "a=5 b=0"),
            (2, &["a=5 b=0!", "a=5", "a=5"], "a=5 b=0", "a=5 b=0"),
            // Of pages only what enough of them cover.
            (2, &["a=5 …b", "a=5 b=6 …c"], "a=5 …b", "a=5 …b"),
            (2, &["a=5 …b", "a=5 b=6 …c", "a=5 b=6"], "a=5 b=6 …c", "a=5 b=6 …c"),
            (2, &["a=5 …b", "a=5 b=6", "a=5 b=6"], "a=5 b=6", "a=5 b=6"),
            (2, &["…b", "a=5 …b"], "obstructed", "a=5 …b"),
            // Keys behind that are in nobody's way.
            (2, &["a=5 …b", "a=5 b=6! …c"], "a=5 …b", "a=5 …b"),
            (2, &["a=5 …b", "a=5 b=6 …c", "a=5 b=6!"], "a=5 …b", "a=5 …b"),
            (2, &["a=5 …b", "a=5 b=6 …c", "a=5 b=7+"], "above 11", "a=5 b=7 …c"),
        ];
        for (quorum, pages, strict, past) in table {
            assert_eq!(of_range(*quorum, pages, Snapshot::Newest(at(10))), *strict, "{pages:?}, strict");
            assert_eq!(of_range(*quorum, pages, Snapshot::At(at(10))), *past, "{pages:?}, at 10");
        }
    }
}
