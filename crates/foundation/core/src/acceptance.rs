//! How a group goes on of which more replicas have lost their records than it survives, once an operator has accepted the loss.
//!
//! Replicas that have lost their records count for nothing, so of the 2f + 1 replicas of a shard fewer than f + 1 are left that do. As many of the others as are
//! missing go on as members that have slept since the group was created: with the survivors they make a majority, exactly, so that nothing is
//! decided without every survivor. The rest learns everything from them, as after any loss. Nothing is given up before every replica was heard of.

use crate::id::{ReplicaIndex, View};

/// How far the group goes on above every view that is known: replicas that have lost their records may have been in later ones, but
/// not by so much.
pub const VIEWS_SKIPPED: u64 = 1_000_000;

/// The state of a replica, as an operator is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// It has its records.
    Survives,
    /// It has lost them, and its group is there.
    Lost,
    /// Its node does not answer.
    Silent,
    /// Its node does not run it: its directory is missing, or its log is refused.
    Refused,
    /// It is about to leave its group, and counts for nobody.
    Leaves,
}

/// The way on for a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The replicas that have their records.
    pub survivors: Vec<ReplicaIndex>,
    /// The replicas that have lost them.
    pub lost: Vec<ReplicaIndex>,
    /// Those of them that go on as if they had slept.
    pub sleepers: Vec<ReplicaIndex>,
    /// They go on above this view. The next one is led by a replica that goes on too: where another operator had some go on before, in views that
    /// these have passed by far, they follow that leader at once.
    pub view: View,
}

/// A replica that may know what others have lost, and has to be seen to first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unheard {
    /// The replica.
    pub replica: ReplicaIndex,
    /// True if its node answers, and does not run it.
    pub is_refused: bool,
}

/// Plans what is done to a group, by what is told of each of its members and of the view that it is in; nothing if the group can help itself.
///
/// # Errors
/// A replica may know what others have lost.
pub fn plan(members: &[(ReplicaIndex, Told, View)]) -> Result<Option<Plan>, Unheard> {
    let of = |told: Told| {
        let such = members.iter().filter(move |(_, known, _)| *known == told);
        such.map(|(index, ..)| *index).collect::<Vec<_>>()
    };
    let survives = members.len().saturating_sub(1) / 2;
    let lost = of(Told::Lost);
    if lost.len() <= survives {
        return Ok(None);
    }
    for (told, is_refused) in [(Told::Silent, false), (Told::Refused, true)] {
        if let Some(replica) = of(told).first() {
            return Err(Unheard { replica: *replica, is_refused });
        }
    }
    let survivors = of(Told::Survives);
    let missing = members.len() - survives - survivors.len();
    let sleepers = lost.iter().copied().take(missing).collect();
    let view = members.iter().map(|(.., view)| view.0).max().unwrap_or_default() + VIEWS_SKIPPED;
    let goes_on: Vec<ReplicaIndex> = survivors.iter().chain(&sleepers).copied().collect();
    let view = View(view + turns_until(&goes_on, members, View(view)));
    Ok(Some(Plan { survivors, lost, sleepers, view }))
}

/// So many views after the next is the first that one of these leads: members take turns, in the order of their indices.
fn turns_until(leaders: &[ReplicaIndex], members: &[(ReplicaIndex, Told, View)], view: View) -> u64 {
    let mut turns: Vec<ReplicaIndex> = members.iter().map(|(index, ..)| *index).collect();
    turns.sort_unstable();
    let first = (view.within_epoch() + 1) % turns.len().max(1) as u64;
    let mut in_turn = turns.iter().cycle().skip(first as usize).take(turns.len());
    in_turn.position(|index| leaders.contains(index)).map_or(0, |turns| turns as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quorum::GroupSize;

    const SURVIVES: Told = Told::Survives;
    const LOST: Told = Told::Lost;

    fn planned(told: &[Told]) -> Result<Option<Plan>, Unheard> {
        let members =
            (0u8..).zip(told).map(|(index, told)| (ReplicaIndex(index), *told, View(5 + u64::from(index))));
        plan(&members.collect::<Vec<_>>())
    }

    #[test]
    fn survivors_and_sleepers_make_exactly_a_majority() {
        type Row<'a> = (&'a [Told], Option<(&'a [u8], &'a [u8])>);
        let table: [Row<'_>; 6] = [
            (&[SURVIVES, SURVIVES, LOST], None),
            (&[SURVIVES, LOST, LOST], Some((&[0], &[1]))),
            (&[LOST, LOST, SURVIVES], Some((&[2], &[0]))),
            (&[LOST, LOST, LOST], Some((&[], &[0, 1]))),
            (&[SURVIVES, LOST, SURVIVES, LOST, LOST], Some((&[0, 2], &[1]))),
            (&[LOST, LOST, SURVIVES, LOST, LOST], Some((&[2], &[0, 1]))),
        ];
        let indices = |of: &[u8]| of.iter().copied().map(ReplicaIndex).collect::<Vec<_>>();
        for (told, expected) in table {
            let plan = planned(told).expect("all were heard of");
            let outcome = plan.as_ref().map(|plan| (plan.survivors.clone(), plan.sleepers.clone()));
            assert_eq!(outcome, expected.map(|(one, other)| (indices(one), indices(other))), "{told:?}");
            if let Some(plan) = plan {
                let majority = GroupSize::new(told.len()).expect("it is odd").majority();
                assert_eq!(plan.survivors.len() + plan.sleepers.len(), majority);
            }
        }
        let plan = planned(&[SURVIVES, LOST, LOST]).unwrap().unwrap();
        assert_eq!((plan.view, plan.lost), (View(7 + VIEWS_SKIPPED), indices(&[1, 2])));
    }

    #[test]
    fn the_next_view_is_led_by_one_that_goes_on() {
        for one in 0..5 {
            for other in 0..5 {
                let told: Vec<Told> = (0..5)
                    .map(|index| if index == one || index == other { SURVIVES } else { LOST })
                    .collect();
                let plan = planned(&told).expect("all were heard of").expect("it is lost");
                let leader = ReplicaIndex(u8::try_from((plan.view.0 + 1) % 5).expect("it is small"));
                assert!(
                    plan.survivors.contains(&leader) || plan.sleepers.contains(&leader),
                    "{told:?}: {plan:?}"
                );
                assert!((9 + VIEWS_SKIPPED..9 + VIEWS_SKIPPED + 5).contains(&plan.view.0), "{plan:?}");
            }
        }
    }

    #[test]
    fn nothing_is_given_up_that_may_still_be_known() {
        let refused = |told: &[Told]| planned(told).unwrap_err();
        let unheard = |index, is_refused| Unheard { replica: ReplicaIndex(index), is_refused };
        assert_eq!(refused(&[Told::Silent, LOST, LOST]), unheard(0, false));
        assert_eq!(refused(&[LOST, LOST, Told::Refused]), unheard(2, true));
        assert_eq!(planned(&[Told::Silent, LOST, SURVIVES]), Ok(None), "the group can help itself");
    }
}
