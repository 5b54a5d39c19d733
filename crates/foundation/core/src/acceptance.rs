//! How a group goes on of which more replicas have lost their records than it survives, once an operator has accepted the loss.
//!
//! Replicas that have lost their records count for nothing, so of the 2f + 1 replicas of a shard fewer than f + 1 are left that do. As many of the others as are
//! missing go on as members that have slept since the group was created: with the survivors they make a majority, exactly, so that nothing is
//! decided without every survivor. The rest learns everything from them, as after any loss. Nothing is given up before every replica was heard of.
//!
//! A replica that goes on asleep says that it has the record with which the epoch of its group begins. So nobody goes on asleep while the members of
//! the group change: a survivor that has not arrived among the members as they are now has its record from the epoch before, and would be
//! overruled; and replicas that are about to leave may be the only ones with the record.

use crate::id::{Epoch, ReplicaIndex, View};

/// How far the group goes on above every view that is known: replicas that have lost their records may have been in later ones, but
/// not by so much.
pub const VIEWS_SKIPPED: u64 = 1_000_000;

/// The state of a replica, as an operator is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// It has its records, and has taken part in a view of the members of its group as they are now.
    Survives,
    /// It has its records, and has not arrived among the members of its group as they are now.
    Arrives,
    /// It has lost them, and its group is there.
    Lost,
    /// Its node does not answer.
    Silent,
    /// Its node does not run it: its directory is missing, or its log is refused.
    Refused,
    /// It is about to leave its group, of which it is no member any more. It may have the record that the members wait for.
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

/// A replica that keeps its group from going on without what others have lost, until it has been seen to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// The replica.
    pub replica: ReplicaIndex,
    /// Its state.
    pub reason: Reason,
}

/// Why a replica keeps its group from going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Its node does not answer. It may know what others have lost.
    Silent,
    /// Its node answers, and does not run it. It may know what others have lost.
    Refused,
    /// The members of the group change: it has not arrived yet, or has not left.
    Changing,
}

/// Plans what is done to a group, by what is told of each of its replicas, those that are about to leave included, and of the view that it is in; nothing
/// if the group can help itself.
///
/// # Errors
/// A replica may know what others have lost, or the members of the group change.
pub fn plan(replicas: &[(ReplicaIndex, Told, View)]) -> Result<Option<Plan>, Obstacle> {
    let of = |told: Told| {
        let such = replicas.iter().filter(move |(_, known, _)| *known == told);
        such.map(|(index, ..)| *index).collect::<Vec<_>>()
    };
    let members: Vec<_> = replicas.iter().copied().filter(|(_, told, _)| *told != Told::Leaves).collect();
    let survives = members.len().saturating_sub(1) / 2;
    let lost = of(Told::Lost);
    if lost.len() <= survives {
        return Ok(None);
    }
    let obstacles = [
        (Told::Silent, Reason::Silent),
        (Told::Refused, Reason::Refused),
        (Told::Arrives, Reason::Changing),
        (Told::Leaves, Reason::Changing),
    ];
    for (told, reason) in obstacles {
        if let Some(replica) = of(told).first() {
            return Err(Obstacle { replica: *replica, reason });
        }
    }
    let survivors = of(Told::Survives);
    let missing = members.len() - survives - survivors.len();
    let sleepers = lost.iter().copied().take(missing).collect();
    let view = members.iter().map(|(.., view)| view.0).max().unwrap_or_default() + VIEWS_SKIPPED;
    let goes_on: Vec<ReplicaIndex> = survivors.iter().chain(&sleepers).copied().collect();
    let view = View(view + turns_until(&goes_on, &members, View(view)));
    Ok(Some(Plan { survivors, lost, sleepers, view }))
}

/// Why a replica does not go on asleep now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It has not heard from all others of its group since it started. That passes.
    Unheard,
    /// The members of its group are not those for which that was planned.
    OtherMembers,
}

/// The life in which a replica goes on asleep, above a view that was planned: by its own `next_life`, and the epoch since which the members of its
/// group are as they are, as far as its node knows.
///
/// # Errors
/// It does not go on asleep now.
pub fn life_asleep(next_life: Option<u64>, since: Epoch, view: View) -> Result<u64, Refusal> {
    if view.epoch() != since {
        return Err(Refusal::OtherMembers);
    }
    next_life.ok_or(Refusal::Unheard)
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

    fn planned(told: &[Told]) -> Result<Option<Plan>, Obstacle> {
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
        let obstacle = |index, reason| Obstacle { replica: ReplicaIndex(index), reason };
        assert_eq!(refused(&[Told::Silent, LOST, LOST]), obstacle(0, Reason::Silent));
        assert_eq!(refused(&[LOST, LOST, Told::Refused]), obstacle(2, Reason::Refused));
        assert_eq!(planned(&[Told::Silent, LOST, SURVIVES]), Ok(None), "the group can help itself");
    }

    #[test]
    fn nobody_goes_on_asleep_while_the_members_change() {
        let changing = |index| Err(Obstacle { replica: ReplicaIndex(index), reason: Reason::Changing });
        assert_eq!(planned(&[LOST, Told::Arrives, LOST]), changing(1), "it would be overruled");
        assert_eq!(
            planned(&[LOST, LOST, LOST, Told::Leaves]),
            changing(3),
            "it may be the only one that knows"
        );
        assert_eq!(planned(&[SURVIVES, Told::Arrives, LOST]), Ok(None), "the group can help itself");
        let left = planned(&[SURVIVES, SURVIVES, LOST, Told::Leaves, Told::Leaves]);
        assert_eq!(left, Ok(None), "of three members one is lost");
        let lost = planned(&[SURVIVES, LOST, LOST, Told::Leaves, Told::Leaves]);
        assert_eq!(lost, changing(3), "of three members two are lost, those that leave do not count");
    }

    #[test]
    fn a_replica_goes_on_asleep_among_the_members_of_the_plan_only() {
        let planned = View(View::first_of(Epoch(2)).0 + VIEWS_SKIPPED);
        assert_eq!(life_asleep(Some(4), Epoch(2), planned), Ok(4));
        assert_eq!(life_asleep(None, Epoch(2), planned), Err(Refusal::Unheard));
        for since in [Epoch(1), Epoch(3)] {
            assert_eq!(life_asleep(Some(4), since, planned), Err(Refusal::OtherMembers));
            assert_eq!(life_asleep(None, since, planned), Err(Refusal::OtherMembers));
        }
    }
}
