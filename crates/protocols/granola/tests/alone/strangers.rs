//! Votes on what nobody has asked the shard for: of how many they are kept, for how long, and what becomes of them.

use super::*;

impl Alone {
    fn vote(&mut self, from: &str, transaction: TransactionId, class: Class, vote: Vote) -> Vec<String> {
        let (participants, first, proposed) = (shards(&[1, 2, 4]), at(1_000), at(2_000));
        let message = Message::Vote { transaction, participants, first, vote, proposed, class, wants: false };
        self.hears(from, message)
    }

    fn is_asked(&mut self, transaction: TransactionId, class: Class, operation: &str) -> Vec<String> {
        let client = format!("c{}", transaction.client.0);
        let (participants, operation) = (shards(&[1, 2, 4]), Value::from(operation.to_owned()));
        let (high, first) = (at(0), at(1_000));
        let request = Request { transaction, participants, operation, class, high, first };
        self.hears(&client, Message::Request(request))
    }
}

#[test]
fn votes_are_kept_on_so_many_transactions_and_of_those_all() {
    let mut shard = Alone::leading(1, |config| config.strangers_max = 2);
    for sequence in 1..=2 {
        assert_eq!(shard.vote("2/r0", txn(1, sequence), Class::Independent, Vote::Commit), NOTHING);
    }
    let too_many = ["✗ too many votes on what nobody has asked for"];
    assert_eq!(shard.vote("2/r0", txn(1, 3), Class::Independent, Vote::Commit), too_many);
    assert_eq!(shard.vote("4/r0", txn(1, 2), Class::Independent, Vote::Commit), NOTHING);
    // The one has the votes of all, the other lacks one, and of the third nothing is known.
    shard.is_asked(txn(1, 2), Class::Independent, "put a x");
    let told = shard.logs();
    assert!(told.contains(&"c1 ← REPLY c1.2 committed at 2000: nothing".to_owned()), "{told:?}");
    shard.is_asked(txn(1, 1), Class::Independent, "put a y");
    assert!(shard.logs().iter().all(|line| !line.contains("REPLY")));
    assert_eq!(
        shard.vote("2/r0", txn(1, 3), Class::Independent, Vote::Commit),
        NOTHING,
        "there is room again"
    );
}

/// The others cannot know that nobody will ask.
#[test]
fn a_vote_that_is_old_is_answered_with_one_against_it() {
    let mut shard = Alone::leading(1, |_| {});
    shard.vote("2/r0", txn(1, 1), Class::Independent, Vote::Commit);
    assert_eq!(shard.attends(1_000), NOTHING);
    shard.vote("4/r0", txn(1, 1), Class::Independent, Vote::Commit);
    assert_eq!(shard.attends(999), NOTHING);
    let appended = shard.attends(1);
    assert_eq!(appended.len(), 1, "{appended:?}");
    assert!(appended[0].starts_with("appends VOTED c1.1 CONFLICT at "), "{appended:?}");
    let under_way = ["✗ under way already"];
    assert_eq!(shard.vote("2/r0", txn(1, 1), Class::Independent, Vote::Commit), under_way);
    assert_eq!(shard.attends(60_000), NOTHING, "once is enough");
    let told =
        ["2/r0 ← VOTE c1.1 CONFLICT at 0", "4/r0 ← VOTE c1.1 CONFLICT at 0", "c1 ← REPLY c1.1 conflict"];
    assert_eq!(shard.logs(), told);
}

/// It leaves nothing behind: two shards would tell each other for ever.
#[test]
fn a_vote_against_what_only_reads_is_forgotten() {
    let mut shard = Alone::leading(1, |_| {});
    shard.vote("2/r0", txn(1, 1), Class::ReadOnly, Vote::Commit);
    shard.vote("2/r0", txn(1, 2), Class::ReadOnly, Vote::Conflict);
    shard.vote("2/r0", txn(1, 3), Class::ReadOnly, Vote::Commit);
    shard.vote("4/r0", txn(1, 3), Class::ReadOnly, Vote::Conflict);
    let mut told = shard.attends(2_000);
    told.extend(shard.logs());
    assert!(told.iter().any(|line| line.contains("c1.1")), "{told:?}");
    assert!(told.iter().all(|line| !line.contains("c1.2") && !line.contains("c1.3")), "{told:?}");
}

/// The client hears the reason of the shard that has refused it.
#[test]
fn a_request_for_what_others_vote_against_is_refused() {
    for vote in [Vote::Conflict, Vote::Abort(Value::from("no"))] {
        let mut shard = Alone::leading(1, |_| {});
        shard.vote("4/r0", txn(1, 1), Class::Coordinated, Vote::Commit);
        shard.vote("2/r0", txn(1, 1), Class::Coordinated, vote);
        let appended = shard.is_asked(txn(1, 1), Class::Coordinated, "put a x");
        assert_eq!(appended, ["appends VOTED c1.1 CONFLICT at 0, ceiling 500000"]);
        let told =
            ["2/r0 ← VOTE c1.1 CONFLICT at 0", "4/r0 ← VOTE c1.1 CONFLICT at 0", "c1 ← REPLY c1.1 conflict"];
        assert_eq!(shard.logs(), told);
    }
}

/// The others hold a place for it meanwhile: a host that refused it because of its load would keep theirs as high.
#[test]
fn a_request_on_which_other_participants_have_voted_is_awaited_until_it_is_taken_in() {
    let mut shard = Alone::leading(1, |_| {});
    let is_awaited = |shard: &Alone, sequence| {
        let request = Request {
            transaction: txn(1, sequence),
            participants: shards(&[1, 2, 4]),
            operation: Value::from("put a x"),
            class: Class::Independent,
            high: at(0),
            first: at(1_000),
        };
        quorate_core::hosted::HostedOnLog::is_awaited(&shard.replica, &Message::Request(request))
    };
    assert!(!is_awaited(&shard, 1), "nobody else has it");
    shard.vote("2/r0", txn(1, 1), Class::Independent, Vote::Commit);
    assert!(is_awaited(&shard, 1) && !is_awaited(&shard, 2));
    shard.is_asked(txn(1, 1), Class::Independent, "put a x");
    assert!(!is_awaited(&shard, 1), "it is taken in");
}
