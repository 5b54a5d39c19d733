//! The backup coordinator acts as time passes, and listens to some replicas meanwhile and not to others.

use super::*;

/// A quarter of the time after which a transaction is recovered. A phase is repeated after two.
fn quarter() -> Duration {
    ReplicaConfig::new(member(0), GroupSize::new(3).unwrap(), Boot::Initialise).recovery_timeout / 4
}

/// A backup coordinator over one shard of three, on its way to a commit.
fn finalizing() -> Backup {
    let mut backup = Backup::new(3);
    make_final(&mut backup);
    backup
}

/// Two of three have voted for it, and nothing is final yet.
fn make_final(backup: &mut Backup) {
    let ballot = backup.ballot;
    backup.promise(member(1), ballot, 0, Some(Vote::Ok), false);
    assert!(finalizes(&backup.promise(member(2), ballot, 0, Some(Vote::Ok), false)));
}

fn record(backup: &mut Backup) {
    backup.confirm(1, 0);
    assert!(records(&backup.confirm(2, 0)).is_some());
}

fn tell(backup: &mut Backup) {
    let ballot = backup.ballot;
    backup.accept(1, ballot, 0);
    assert!(tells(&backup.accept(2, ballot, 0)).is_some());
}

/// Its behaviour when it looks again and again, until it holds an election above this ballot: how often it has looked without
/// that, and what it has said meanwhile, apart from electing.
fn until_elected(backup: &mut Backup, above: Ballot) -> (usize, Vec<Message>) {
    let mut all = Vec::new();
    for looks in 0..100 {
        let said = backup.looks_after(2 * quarter());
        if let Some(ballot) = said.iter().find_map(elected).filter(|ballot| *ballot > above) {
            backup.ballot = ballot;
            return (looks, all);
        }
        all.extend(said);
    }
    panic!("it does not start over");
}

/// How often something is said.
fn count(said: &[Message], is_it: impl Fn(&[Message]) -> bool) -> usize {
    said.iter().filter(|message| is_it(std::slice::from_ref(*message))).count()
}

#[test]
fn each_phase_is_repeated_before_it_is_given_up() {
    let is_election = |said: &[Message]| said.iter().any(|message| elected(message).is_some());
    // An election three times, and again after each that was held anew.
    let mut backup = Backup::new(3);
    for _ in 0..2 {
        let ballot = backup.ballot;
        let (looks, said) = until_elected(&mut backup, ballot);
        assert_eq!(count(&said, is_election), 3);
        assert!(looks >= 3);
    }
    // Votes that get no confirmation are looked at again soon: they may be of a view that is over.
    let mut backup = Backup::new(3);
    for _ in 0..3 {
        assert!(is_election(&backup.looks_after(2 * quarter())));
    }
    make_final(&mut backup);
    let ballot = backup.ballot;
    let (_, said) = until_elected(&mut backup, ballot);
    assert_eq!(count(&said, finalizes), 1);
    // An outcome is recorded three times more, however long it took to come so far.
    let mut backup = finalizing();
    assert!(finalizes(&backup.looks_after(2 * quarter())));
    record(&mut backup);
    let ballot = backup.ballot;
    let (_, said) = until_elected(&mut backup, ballot);
    assert_eq!(count(&said, |said| records(said).is_some()), 3);
    // A decision is told until it is known.
    let mut backup = finalizing();
    record(&mut backup);
    tell(&mut backup);
    for _ in 0..20 {
        let said = backup.looks_after(2 * quarter());
        assert!(tells(&said).is_some() && !is_election(&said), "{said:?}");
    }
}

/// Coordinators that start over at the same time overtake each other again.
#[test]
fn an_election_is_not_always_held_as_soon_as_it_may() {
    let looks = |seed| {
        let mut backup = Backup::new(3);
        backup.random = Random::new(seed);
        let ballot = backup.ballot;
        until_elected(&mut backup, ballot).0
    };
    let looks: Vec<usize> = (1..=20).map(looks).collect();
    assert!(looks.contains(&3) && looks.iter().any(|looks| *looks > 3), "{looks:?}");
}

#[test]
fn a_phase_is_repeated_after_its_own_time_and_not_that_of_the_one_before() {
    let is_quiet = |said: &[Message]| !finalizes(said) && records(said).is_none() && tells(said).is_none();
    let mut backup = Backup::new(3);
    let advance: [fn(&mut Backup); 3] = [make_final, record, tell];
    for advance in advance {
        backup.now = backup.now + quarter();
        advance(&mut backup);
        let said = backup.looks_after(quarter());
        assert!(is_quiet(&said), "{said:?}");
        let said = backup.looks_after(quarter());
        assert!(!is_quiet(&said), "{said:?}");
    }
}

fn superseded(promised: u32) -> Message {
    Message::Superseded { transaction: TRANSACTION, promised: Ballot(promised) }
}

/// It holds the ballot of another until then, which it must not use.
#[test]
fn a_backup_coordinator_that_was_overtaken_tries_again_above_that_after_a_while() {
    for seed in 1..=8 {
        let mut backup = finalizing();
        backup.random = Random::new(seed);
        let promised = backup.ballot.0 + 1_000;
        backup.now = backup.now + quarter();
        backup.hears(member(2), superseded(promised));
        backup.confirm(0, 0);
        let said = backup.confirm(1, 0);
        assert_eq!(records(&said), None, "another may conclude something else");
        let said = backup.looks_after(quarter());
        assert_eq!(said.iter().find_map(elected), None, "it gives the other one time");
        let (_, said) = until_elected(&mut backup, Ballot(promised));
        assert_eq!(said.iter().find_map(elected), None, "that is the ballot of another");
    }
}

#[test]
fn only_members_and_ballots_that_can_be_are_listened_to() {
    for (from, promised) in [
        (member(2), finalizing().ballot.0),
        (member(2), finalizing().ballot.0 - 1),
        // Nobody could outbid it.
        (member(2), u32::MAX),
        (member(7), finalizing().ballot.0 + 1_000),
    ] {
        let mut backup = finalizing();
        backup.hears(from, superseded(promised));
        record(&mut backup);
    }
}

#[test]
fn votes_of_an_earlier_view_are_not_counted_with_those_of_a_later_one() {
    let mut backup = Backup::new(3);
    let (ballot, ok) = (backup.ballot, Some(Vote::Ok));
    assert!(backup.promise(member(1), ballot, 4, ok, false).is_empty());
    assert!(backup.promise(member(2), ballot, 3, None, false).is_empty());
    assert!(finalizes(&backup.promise(member(0), ballot, 4, ok, false)));
}

#[test]
fn every_shard_must_have_made_its_votes_final_and_heard_of_the_outcome() {
    let mut backup = Backup::over(vec![ShardId(1), ShardId(2)], 3);
    let (ballot, ok) = (backup.ballot, Some(Vote::Ok));
    for from in [member(0), member(1), other(0), other(1)] {
        backup.promise(from, ballot, 0, ok, false);
    }
    let id = OperationId { transaction: TRANSACTION, number: 1 };
    let confirm = Message::Ir(Ir::Confirm { id, view: View(0), verdict: Some(Vote::Ok), finalized: true });
    for from in [member(0), member(1), member(2), other(0)] {
        let said = backup.hears(from, confirm.clone());
        assert_eq!(records(&said), None, "{said:?}");
    }
    assert!(records(&backup.hears(other(1), confirm)).is_some());
    tell(&mut backup);
    let id = OperationId { transaction: TRANSACTION, number: OperationId::INCONSISTENT };
    let heard = Message::Ir(Ir::InconsistentReply { id, view: View(0) });
    for from in [member(0), member(1), member(2), other(0)] {
        backup.hears(from, heard.clone());
        assert_eq!(backup.replica.recoveries(), 1);
    }
    backup.hears(other(1), heard);
    assert_eq!(backup.replica.recoveries(), 0);
}

/// Its votes leave the outcome open, and those of the other shard do not.
#[test]
fn only_a_shard_whose_votes_leave_the_outcome_open_is_made_to_change_views() {
    let mut backup = Backup::over(vec![ShardId(1), ShardId(2)], 3);
    let ballot = backup.ballot;
    for (from, vote) in
        [(member(0), Vote::Ok), (member(1), Vote::Ok), (other(0), Vote::Ok), (other(1), Vote::Abort)]
    {
        assert!(backup.promise(from, ballot, 4, Some(vote), false).is_empty());
    }
    backup.now = backup.now + 2 * quarter();
    let sent = backup.sends(Input::Timer(ReplicaTimer::Sweep));
    let moved = |(to, message): &(Address, Message)| match message {
        Message::Ir(Ir::HigherView { view }) => Some((*to, *view)),
        _ => None,
    };
    let expected: Vec<(Address, View)> = (0..3).map(|index| (other(index).into(), View(5))).collect();
    assert_eq!(sent.iter().filter_map(moved).collect::<Vec<_>>(), expected);
}

/// The client that began it has said so to somebody who tells it now, or there is nothing that could be told.
#[test]
fn a_commit_is_followed_without_contents_only_after_some_elections() {
    let mut backup = Backup::over(vec![ShardId(1), ShardId(2)], 3);
    for elections in 1..100 {
        let ballot = backup.ballot;
        let told = backup.knows(member(0), Outcome::Committed(TIMESTAMP));
        assert_eq!(tells(&told), None, "too few have answered");
        let mut told = Vec::new();
        for from in [member(1), other(0), other(1)] {
            told.extend(backup.promise(from, ballot, 0, None, false));
        }
        if tells(&told).is_some() {
            assert_eq!(elections, 3);
            return;
        }
        until_elected(&mut backup, ballot);
    }
    panic!("the outcome is known, and nobody is told");
}

/// The shards that it names may have no part in the transaction, and then this one's abort is no outcome.
#[test]
fn an_abort_that_somebody_knows_is_followed_once_every_shard_has_answered() {
    let mut backup =
        Backup::asked_by(Address::Client(ClientId(9)), vec![ShardId(1), ShardId(2)], 3, TIMESTAMP);
    let ballot = backup.ballot;
    assert!(backup.knows(other(0), Outcome::Aborted).is_empty());
    for from in [other(1), member(0)] {
        assert!(backup.promise(from, ballot, 0, None, false).is_empty());
    }
    let said = backup.promise(member(1), ballot, 0, None, false);
    assert!(tells(&said).is_some() && records(&said).is_none(), "there is nothing left to decide: {said:?}");
}

#[test]
fn a_transaction_whose_client_contradicts_itself_is_aborted() {
    for participants in [vec![ShardId(1)], vec![ShardId(1), ShardId(3)]] {
        let mut backup = Backup::over(vec![ShardId(1), ShardId(2)], 3);
        backup.participants = participants;
        let (ballot, ok) = (backup.ballot, Some(Vote::Ok));
        let said =
            [member(0), member(1), other(0), other(1)].map(|from| backup.promise(from, ballot, 0, ok, false));
        assert_eq!(records(&said.concat()), Some(Outcome::Aborted));
    }
}

/// Its client lies, and harms nobody else.
#[test]
fn a_transaction_in_which_nobody_takes_part_is_nobodys_to_recover() {
    let mut backup = Backup::asked_by(Address::Client(ClientId(9)), vec![ShardId(1)], 3, TIMESTAMP);
    backup.participants = Vec::new();
    let ballot = backup.ballot;
    assert!(backup.promise(member(1), ballot, 0, Some(Vote::Ok), false).is_empty());
    assert_eq!(backup.replica.recoveries(), 0);
}

#[test]
fn who_asks_is_told_that_everybody_has_forgotten() {
    let mut backup = Backup::new(3);
    let ballot = backup.ballot;
    assert!(backup.promise(member(1), ballot, 0, None, true).is_empty());
    let said = backup.promise(member(2), ballot, 0, None, true);
    assert_eq!(said, [Message::Forgotten { transaction: TRANSACTION }]);
    assert_eq!(backup.replica.recoveries(), 0);
}

// Machines that ask for a recovery

#[test]
fn only_who_knows_better_has_a_recovery_begin_anew() {
    let stranger = Address::Client(ClientId(9));
    let elsewhen = Timestamp { micros: 60, client: ClientId(7) };
    // A client, whatever it says, and a replica that says what is known.
    let mut backup = Backup::asked_by(stranger, vec![ShardId(1)], 3, TIMESTAMP);
    assert!(backup.hears(Address::Client(ClientId(8)), recover(&[1, 2], TIMESTAMP)).is_empty());
    assert!(backup.hears(member(1), recover(&[1], TIMESTAMP)).is_empty());
    // Once a replica has named the participants, others that name more or fewer are too late.
    assert!(backup.hears(member(2), recover(&[1, 2], TIMESTAMP)).is_empty());
    make_final(&mut backup);
    // The timestamp is of use for the outcome, and nobody has to be asked again for it.
    let mut backup = Backup::asked_by(stranger, vec![ShardId(1)], 3, TIMESTAMP);
    make_final(&mut backup);
    assert!(backup.hears(member(1), recover(&[1], elsewhen)).is_empty());
    record(&mut backup);
    // Fewer take part than the client had said.
    let mut backup = Backup::asked_by(stranger, vec![ShardId(1), ShardId(2)], 3, TIMESTAMP);
    let said = backup.hears(member(1), recover(&[1], TIMESTAMP));
    assert!(said.iter().find_map(elected) > Some(backup.ballot), "{said:?}");
}

/// The first that is asked is the one that everybody asks first.
#[test]
fn what_belongs_to_another_shard_is_passed_on_to_its_first_backup_coordinator() {
    let mut passed_on = 0;
    for sequence in 2..42 {
        let transaction = TransactionId { sequence, ..TRANSACTION };
        let recover = |shards: &[u32]| {
            let participants = shards.iter().copied().map(ShardId).collect();
            Message::Recover { transaction, participants, timestamp: TIMESTAMP }
        };
        let mut backup = Backup::new(3);
        backup.hears(Address::Client(ClientId(9)), recover(&[1]));
        let (from, epoch) = (member(1).into(), Epoch::FIRST);
        let sent = backup.sends(Input::Message { from, epoch, message: recover(&[1, 2]) });
        if backup.replica.recoveries() == 1 {
            passed_on += 1;
            assert_eq!(sent, [(other((sequence % 3) as u8).into(), recover(&[1, 2]))]);
        } else {
            assert!(sent.iter().all(|(_, message)| elected(message).is_some()), "{sent:?}");
        }
    }
    assert!((5..=35).contains(&passed_on), "{passed_on} of 40");
}

#[test]
fn a_recovery_in_vain_ends_only_if_no_shard_knows_anything() {
    for known in [None, Some(1), Some(2)] {
        let stranger = Address::Client(ClientId(9));
        let mut backup = Backup::asked_by(stranger, vec![ShardId(1), ShardId(2)], 3, TIMESTAMP);
        for _ in 0..400 {
            let said = backup.looks_after(quarter());
            if let Some(ballot) = said.iter().filter_map(elected).max() {
                for (shard, from) in [(1, member(1)), (2, other(1))] {
                    let vote = (known == Some(shard)).then_some(Vote::Ok);
                    backup.promise(from, ballot, 0, vote, false);
                }
            }
        }
        assert_eq!(backup.replica.recoveries(), usize::from(known.is_some()), "{known:?}");
    }
}

/// A transaction whose client has shown a timestamp far ahead is remembered for as long beyond that; a stranger's word counts for nothing.
#[test]
fn an_outcome_is_told_with_the_greatest_timestamp_that_may_have_been_proposed() {
    let far = Timestamp { micros: 50_000_000, client: ClientId(7) };
    for (asker, first) in [(member(1).into(), 50_000_000), (Address::Client(ClientId(9)), CLOCK_MICROS)] {
        let mut backup = Backup::asked_by(asker, vec![ShardId(1)], 3, far);
        let ballot = backup.ballot;
        backup.promise(member(1), ballot, 0, Some(Vote::Abort), false);
        let said = backup.promise(member(2), ballot, 0, Some(Vote::Abort), false);
        assert_eq!(records(&said), Some(Outcome::Aborted));
        backup.accept(1, ballot, 0);
        let said = backup.accept(2, ballot, 0);
        let Some(Decision::Abort { last }) = tells(&said) else { panic!("{said:?}") };
        let config = ReplicaConfig::new(member(0), GroupSize::new(3).unwrap(), Boot::Initialise);
        let ahead = (config.timestamp_ahead_max + config.retry_span).as_micros() as u64;
        assert_eq!(last.micros, first + ahead, "{asker}");
    }
}

#[test]
fn only_a_replica_of_the_backup_shard_recovers() {
    for participants in [vec![ShardId(1), ShardId(2)], vec![ShardId(0), ShardId(1)]] {
        // Whichever shard it is that a transaction belongs to: this one leads it, or takes no note of it.
        let mut backup = Backup::new(3);
        let before = backup.replica.recoveries();
        let (mut led, mut elections) = (0, 0);
        for sequence in 2..42 {
            let transaction = TransactionId { sequence, ..TRANSACTION };
            let message =
                Message::Recover { transaction, participants: participants.clone(), timestamp: TIMESTAMP };
            let said = backup.hears(member(1), message);
            elections += usize::from(said.iter().any(|message| elected(message).is_some()));
            led = backup.replica.recoveries() - before;
        }
        assert!(led == elections && (5..=35).contains(&led), "{led} of 40, {elections} elections");
    }
    for shard in [0, 2] {
        let mut backup = Backup::new(3);
        let transaction = TransactionId { sequence: 2, ..TRANSACTION };
        let (participants, timestamp) = (vec![ShardId(shard)], TIMESTAMP);
        backup.hears(member(1), Message::Recover { transaction, participants, timestamp });
        assert_eq!(backup.replica.recoveries(), 1, "shard {shard} has its own");
    }
}

/// One shard would have all the work.
#[test]
fn recoveries_are_spread_over_the_shards_that_take_part() {
    let mut backup = Backup::new(3);
    for sequence in 2..102 {
        let transaction = TransactionId { sequence, ..TRANSACTION };
        let (participants, timestamp) = (vec![ShardId(0), ShardId(1)], TIMESTAMP);
        backup.hears(member(1), Message::Recover { transaction, participants, timestamp });
    }
    let led = backup.replica.recoveries() - 1;
    assert!((25..=75).contains(&led), "{led} of 100");
}

#[test]
fn a_list_of_participants_has_a_bound() {
    for (shards, led) in [(4_096, 2), (4_097, 1)] {
        let mut backup = Backup::new(3);
        // The first shard is that of the backup coordinators.
        let transaction = TransactionId { client: ClientId(0), sequence: 0, attempt: 0 };
        let participants = (1..=shards).map(ShardId).collect();
        backup.hears(member(1), Message::Recover { transaction, participants, timestamp: TIMESTAMP });
        assert_eq!(backup.replica.recoveries(), led);
    }
}

#[test]
fn at_most_so_many_are_told_the_outcome() {
    let mut backup = Backup::new(3);
    for client in 100..150 {
        backup.hears(Address::Client(ClientId(client)), recover(&[1], TIMESTAMP));
    }
    make_final(&mut backup);
    record(&mut backup);
    let ballot = backup.ballot;
    backup.accept(1, ballot, 0);
    let reply = Message::RecordOutcomeReply { transaction: TRANSACTION, ballot, view: View(0) };
    let sent = backup.sends(Input::Message { from: member(2).into(), epoch: Epoch::FIRST, message: reply });
    let told = sent.iter().filter(|(_, message)| matches!(message, Message::RecoverReply { .. }));
    assert_eq!(told.count(), 16);
}

/// They have just been asked.
#[test]
fn an_election_that_is_held_because_of_what_was_answered_has_its_own_time() {
    let mut backup = Backup::over(vec![ShardId(1), ShardId(2)], 3);
    let ballot = backup.ballot;
    backup.now = backup.now + quarter();
    let answers = [(member(0), false), (member(1), false), (other(0), true), (other(1), false)];
    let said = answers.map(|(from, settled)| backup.promise(from, ballot, 0, None, settled)).concat();
    assert!(said.iter().find_map(elected) > Some(ballot), "everybody is asked again: {said:?}");
    let said = backup.looks_after(quarter());
    assert_eq!(said.iter().find_map(elected), None, "{said:?}");
    let said = backup.looks_after(quarter());
    assert!(said.iter().find_map(elected).is_some(), "{said:?}");
}

/// A replica that has the outcome makes no vote final any more, and says so: without the others it would be asked for nothing else.
#[test]
fn a_replica_that_answers_late_and_knows_the_outcome_is_followed() {
    for outcome in [Outcome::Committed(TIMESTAMP), Outcome::Aborted] {
        let mut backup = finalizing();
        assert!(tells(&backup.knows(member(0), outcome)).is_some(), "{outcome:?}");
    }
    let mut backup = finalizing();
    let ballot = backup.ballot;
    let said = backup.promise(member(0), ballot, 0, Some(Vote::Abort), false);
    assert!(said.is_empty(), "a vote is concluded from already: {said:?}");
    record(&mut backup);
    let said = backup.knows(member(0), Outcome::Committed(TIMESTAMP));
    assert!(said.is_empty(), "it is being recorded: {said:?}");
}
