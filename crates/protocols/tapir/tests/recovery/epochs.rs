//! The fate of recoveries when groups go on with other members.

use quorate_core::{Groups, Members, replay};
use quorate_tapir::{Record, ReplicaCommand};

use super::*;

/// Shard 2 goes on with three others; that of the backup coordinators stays as it is.
fn changed(groups: &Groups) -> Groups {
    groups.next([(ShardId(2), Members::new([3, 4, 5].map(ReplicaIndex).to_vec()).unwrap())])
}

fn change(backup: &mut Backup) -> Vec<Message> {
    let groups = changed(backup.replica.groups());
    backup.epoch = groups.epoch;
    backup.steps(Input::Command(ReplicaCommand::ChangeGroups(groups)))
}

/// The replicas that are asked for a promise when another replica wants the transaction settled.
fn asked(backup: &mut Backup) -> Vec<Address> {
    let message = recover(&[1, 2], TIMESTAMP);
    let sent = backup.sends(Input::Message { from: member(1).into(), epoch: backup.epoch, message });
    let ballot = sent.iter().find_map(|(_, message)| elected(message)).expect("it holds an election");
    backup.ballot = ballot;
    let is_asked = |(to, message): &(Address, Message)| elected(message).is_some().then_some(*to);
    sent.iter().filter_map(is_asked).collect()
}

/// Those that had answered need not be members any more, and know of nothing that is concluded from their answers.
#[test]
fn recoveries_end_with_the_epoch_in_which_they_were_led() {
    let ok = Some(Vote::Ok);
    for phase in 0..3 {
        let mut backup = Backup::over(vec![ShardId(1), ShardId(2)], 3);
        let ballot = backup.ballot;
        let replicas = [member(0), member(1), other(0), other(1)];
        let confirm = |verdict| {
            let id = OperationId { transaction: TRANSACTION, number: 1 };
            Message::Ir(Ir::Confirm { id, view: View(0), verdict: Some(verdict), finalized: true })
        };
        if phase > 0 {
            let said = replicas.map(|from| backup.promise(from, ballot, 0, ok, false));
            assert!(finalizes(&said.concat()));
        }
        if phase > 1 {
            let said = replicas.map(|from| backup.hears(from, confirm(Vote::Ok)));
            assert!(records(&said.concat()).is_some());
        }
        assert_eq!(backup.replica.recoveries(), 1);
        assert!(change(&mut backup).is_empty(), "nobody is told");
        assert_eq!(backup.replica.recoveries(), 0);
        // Nothing that comes late of it leads any further, and nothing of it is repeated.
        let late = [
            backup.promise(member(0), ballot, 0, ok, false),
            backup.hears(member(0), confirm(Vote::Ok)),
            backup.accept(0, ballot, 0),
            backup.accept(1, ballot, 0),
            backup.looks_after(Duration::from_secs(60)),
        ];
        assert!(late.concat().iter().all(|message| elected(message).is_none()), "{late:?}");
        assert!(records(&late.concat()).is_none() && tells(&late.concat()).is_none(), "{late:?}");
    }
}

#[test]
fn a_recovery_that_is_asked_for_again_asks_the_present_members_and_counts_no_others() {
    let mut backup = Backup::over(vec![ShardId(1), ShardId(2)], 3);
    change(&mut backup);
    let members = [0, 1, 2].map(|index| Address::from(member(index)));
    let others = [3, 4, 5].map(|index| Address::from(other(index)));
    assert_eq!(asked(&mut backup), [members, others].concat());
    let (ballot, ok) = (backup.ballot, Some(Vote::Ok));
    for from in [member(0), member(1), other(0), other(1), other(2), other(3)] {
        let said = backup.promise(from, ballot, 0, ok, false);
        assert!(said.is_empty(), "{from} makes no majority of the present members: {said:?}");
    }
    assert!(finalizes(&backup.promise(other(4), ballot, 0, ok, false)));
}

/// Its host may know of the epoch later than its disk does.
#[test]
fn a_backup_coordinator_that_restarts_asks_the_members_that_its_disk_knows() {
    let one = GroupSize::new(1).unwrap();
    let three = GroupSize::new(3).unwrap();
    let groups = Groups::new(one).with_apart([(ShardId(2), three)]);
    let config =
        ReplicaConfig { groups: groups.clone(), ..ReplicaConfig::new(member(0), one, Boot::Initialise) };
    let mut records: Vec<Record> = Vec::new();
    let mut replica = Replica::restore(config.clone(), []);
    let mut random = Random::new(1);
    for input in [Input::Start, Input::Command(ReplicaCommand::ChangeGroups(changed(&groups)))] {
        let mut outbox: OutboxOf<Replica> = Outbox::new();
        let clock = ClockTime::from_micros(CLOCK_MICROS);
        replica.step(&mut Context { now: Instant::START, clock, random: &mut random }, input, &mut outbox);
        records.extend(outbox.drain().filter_map(|effect| match effect {
            Effect::Persist { record, .. } => Some(record),
            _ => None,
        }));
    }
    let mut backup = Backup {
        replica: replay::rebuild::<Replica>(config, records),
        ballot: Ballot::ORIGINAL,
        participants: vec![ShardId(1), ShardId(2)],
        now: Instant::START,
        random,
        epoch: Epoch(Epoch::FIRST.0 + 1),
    };
    backup.steps(Input::Start);
    let expected = [member(0), other(3), other(4), other(5)].map(Address::from);
    assert_eq!(asked(&mut backup), expected);
}

/// A host may say twice what it knows, or say late what it knew.
#[test]
fn an_epoch_is_left_for_a_later_one_only() {
    let mut backup = Backup::over(vec![ShardId(1), ShardId(2)], 3);
    let first = backup.replica.groups().clone();
    change(&mut backup);
    let present = backup.replica.groups().clone();
    asked(&mut backup);
    for groups in [present.clone(), first] {
        assert!(backup.steps(Input::Command(ReplicaCommand::ChangeGroups(groups))).is_empty());
        assert_eq!(backup.replica.recoveries(), 1, "what is under way goes on");
        assert_eq!(backup.replica.groups(), &present);
    }
}

/// Replicas that have promised a ballot answer it once more, and what is still under way of the recovery before would be taken for what has
/// come of this one: two outcomes under one ballot.
#[test]
fn a_backup_coordinator_uses_no_ballot_twice_whatever_it_has_heard_of_its_first_election() {
    // In a group of one the replica serves at once, also after a restart.
    let config = ReplicaConfig::new(member(0), GroupSize::ONE, Boot::Initialise);
    let mut records: Vec<Record> = Vec::new();
    let mut random = Random::new(1);
    let mut ballots = Vec::new();
    for restart in 0..3 {
        let mut replica = replay::rebuild::<Replica>(config.clone(), records.clone());
        let recover = Input::Message {
            from: member(1).into(),
            epoch: Epoch::FIRST,
            message: recover(&[1, 2], TIMESTAMP),
        };
        for input in [Input::Start, recover] {
            let mut outbox: OutboxOf<Replica> = Outbox::new();
            let clock = ClockTime::from_micros(CLOCK_MICROS);
            let mut context = Context { now: Instant::START, clock, random: &mut random };
            replica.step(&mut context, input, &mut outbox);
            let mut promised = None;
            for effect in outbox.drain() {
                match effect {
                    Effect::Persist { record, .. } => {
                        if let Record::Promised { promise, .. } = &record {
                            promised = Some(promise.ballot);
                        }
                        records.push(record);
                    }
                    // It leaves once everything before is durable.
                    Effect::Send { message, .. } => {
                        if let Some(ballot) = elected(&message) {
                            assert_eq!(promised, Some(ballot), "restart {restart}");
                            ballots.push(ballot);
                        }
                    }
                    Effect::SendUnordered { message, .. } => assert_eq!(elected(&message), None),
                    _ => {}
                }
            }
        }
    }
    ballots.dedup();
    assert!(ballots.len() == 3 && ballots.is_sorted(), "{ballots:?}");

    // Nor does it in another epoch.
    let mut backup = Backup::over(vec![ShardId(1), ShardId(2)], 3);
    let first = backup.ballot;
    change(&mut backup);
    asked(&mut backup);
    assert!(backup.ballot > first, "{} again", backup.ballot);
    let (second, mut above) = (backup.ballot, backup.ballot);
    while above == second {
        above = backup.looks_after(Duration::from_secs(60)).iter().find_map(elected).unwrap_or(second);
    }
    change_again(&mut backup);
    asked(&mut backup);
    assert!(backup.ballot > above, "nor one that it has taken since");
}

/// Another shard goes on with others.
fn change_again(backup: &mut Backup) {
    let groups = backup.replica.groups();
    let groups = groups.next([(ShardId(3), Members::new([3, 4, 5].map(ReplicaIndex).to_vec()).unwrap())]);
    backup.epoch = groups.epoch;
    backup.steps(Input::Command(ReplicaCommand::ChangeGroups(groups)));
}
