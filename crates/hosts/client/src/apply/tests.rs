//! Batches against a fake coordinator, in one round and by reading.

use std::time::Duration;

use quorate_core::command::{Failure, NotExecuted};
use quorate_core::topology::Isolation;
use quorate_core::transaction::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use quorate_core::{ClientId, Key, ShardId, Timestamp};

use crate::fake::Fake;
use crate::{Applied, Batch, Error, Invalid, Keyspace, Options, StepAnswer, Value};

const BOTH: [Isolation; 2] = [Isolation::Strict, Isolation::Serializable];

fn serializable(fake: &Fake) -> Keyspace {
    fake.keyspace_of(Isolation::Serializable, Options::default())
}

fn unknown() -> NotExecuted {
    NotExecuted::Failed(Failure::Unknown { participants: vec![ShardId(1)] })
}

fn lost() -> NotExecuted {
    NotExecuted::AnswersLost {
        timestamp: Timestamp { micros: 1, client: ClientId(7) },
        missing: vec![ShardId(1)],
    }
}

/// Batches of every kind, one after the other.
fn story() -> Vec<Batch> {
    let long = vec![b'x'; VALUE_BYTES_MAX];
    vec![
        Batch::new(),
        Batch::new().put("a", "1").put("b", "2").put("text", "none"),
        Batch::new().read("a").put("a", "5").read("a").delete("a").read("a").put("a", "9"),
        Batch::new().increment("a", 3).increment("new", -4).increment("a", 1).read("a"),
        Batch::new().append("log", "x;").append("log", "y;").read("log"),
        Batch::new().expect("b", "2").expect_absent("c").expect_exists("a").put("c", "3"),
        Batch::new().expect("b", "3").put("c", "4"),
        Batch::new().expect_absent("c").put("c", "4"),
        Batch::new().expect_exists("d").put("c", "4"),
        Batch::new().expect("d", "").put("c", "4"),
        // Conditions are about what there is before, wherever they stand.
        Batch::new().put("d", "1").expect_absent("d"),
        Batch::new().increment("d", 1).increment("text", 1),
        Batch::new().put("most", i64::MAX.to_string()),
        Batch::new().put("d", "2").increment("most", 1),
        Batch::new().put("long", &long),
        Batch::new().append("long", "").append("d", "3").append("long", "x"),
        Batch::new()
            .delete("long")
            .put("e", "5")
            .scan("a", "e~", 10)
            .scan("b", "", 2)
            .delete("e")
            .scan("e", "", 1),
        Batch::new().scan("z", "a", 3).scan("zz", "", 3),
        Batch::new().put("", "1"),
        Batch::new().read(vec![b'k'; KEY_BYTES_MAX + 1]),
        Batch::new().expect("a", vec![0; VALUE_BYTES_MAX + 1]),
        Batch::new().scan("", "", 0),
        (0..10_001).fold(Batch::new(), |batch, key: u32| batch.read(key.to_be_bytes())),
        Batch::new().scan("", "", 100),
    ]
}

/// The result of a batch, but for the name and the timestamp of the transaction.
fn told(result: crate::Result<Applied>) -> String {
    match result {
        Ok(Applied::Done { mut answers, .. }) => {
            // Where to go on may be any key above the last one, up to the next.
            for answer in &mut answers {
                if let StepAnswer::Page(page) = answer {
                    page.next = page.next.take().map(|_| Key::default());
                }
            }
            format!("{answers:?}")
        }
        Ok(unmet) => format!("{unmet:?}"),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn a_batch_means_the_same_whatever_runs_the_keyspace() {
    let (strict, one_round) = (Fake::default(), Fake::default());
    let (by_reading, in_one_round) = (strict.keyspace(Options::default()), serializable(&one_round));
    for (at, batch) in story().into_iter().enumerate() {
        let expected = told(by_reading.apply(batch.clone()).await);
        assert_eq!(told(in_one_round.apply(batch).await), expected, "batch {at}");
    }
    let all = StepAnswer::Page(crate::Page {
        entries: [
            ("a", "13"),
            ("b", "2"),
            ("c", "3"),
            ("d", "1"),
            ("log", "x;y;"),
            ("most", "9223372036854775807"),
            ("new", "-4"),
            ("text", "none"),
        ]
        .map(|(key, value)| (Key::from(key), Value::from(value)))
        .to_vec(),
        next: None,
    });
    assert_eq!(in_one_round.apply(Batch::new().scan("", "", 100)).await.unwrap().answers(), [all]);
    assert_eq!((strict.open_count(), one_round.open_count()), (0, 0));
}

#[tokio::test]
async fn a_batch_says_what_each_step_has_come_to_and_what_did_not_hold() {
    for isolation in BOTH {
        let accounts = Fake::default().keyspace_of(isolation, Options::default());
        let first = Batch::new().increment("count", 2).append("log", "ab").put("text", "x").read("count");
        let applied = accounts.apply(first).await.unwrap();
        let value = |value| StepAnswer::Value(Some(Value::from_static(value)));
        let expected = [StepAnswer::Number(2), StepAnswer::Length(2), StepAnswer::Done, value(b"2")];
        assert_eq!(applied.answers(), expected, "{isolation:?}");
        assert_eq!(applied.answers()[0].number(), Some(2));
        assert_eq!(applied.answers()[3].value(), Some(&Value::from("2")));
        let attempts = applied.receipt().map(|receipt| receipt.attempts);
        assert_eq!((applied.is_done(), attempts), (true, Some(1)));

        let second = Batch::new().expect_exists("count").expect("text", "y").put("text", "z");
        let unmet = accounts.apply(second).await.unwrap();
        assert_eq!(unmet, Applied::Unmet { condition: 1, found: Some(Value::from("x")) });
        assert_eq!((unmet.is_done(), unmet.receipt(), unmet.answers().len()), (false, None, 0));

        let error = accounts.apply(Batch::new().put("a", "1").increment("text", 1)).await.unwrap_err();
        let expected = "nothing was done, because step 1 of the batch, at key \"text\", cannot be taken: the value is no number";
        assert_eq!(error.to_string(), expected);
        assert!(matches!(error, Error::Step { step: 1, .. }) && !error.is_retryable());
        assert_eq!(
            accounts.apply(Batch::new().read("a")).await.unwrap().answers(),
            [StepAnswer::Value(None)]
        );
    }
}

#[tokio::test]
async fn one_round_is_one_message_of_the_cheapest_class() {
    let fake = Fake::default();
    let accounts = serializable(&fake);
    let keys = ["a", "b", "c", "d", "e", "f"];
    accounts.apply(Batch::new().increment("a", 1).expect_absent("a")).await.unwrap();
    accounts.apply(keys.iter().fold(Batch::new(), |batch, key| batch.put(key, "1"))).await.unwrap();
    accounts.apply(keys.iter().fold(Batch::new(), |batch, key| batch.increment(key, 1))).await.unwrap();
    accounts.apply(keys.iter().fold(Batch::new(), |batch, key| batch.read(key))).await.unwrap();
    let expected = ["Independent", "Independent", "Coordinated", "ReadOnly"];
    let expected: Vec<String> =
        expected.iter().enumerate().map(|(at, class)| format!("execute c7.{at}.0 {class}")).collect();
    assert_eq!(fake.heard(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_tried_again_under_the_next_attempt_number() {
    let fake = Fake::default();
    let accounts = serializable(&fake);
    fake.next_one_rounds([Failure::Conflict.into(), Failure::Conflict.into()]);
    let applied = accounts.apply(Batch::new().increment("a", 1)).await.unwrap();
    let receipt = applied.receipt().unwrap();
    assert_eq!(
        (receipt.attempts, receipt.token.transaction.attempt, applied.answers()),
        (3, 2, &[StepAnswer::Number(1)][..])
    );
    assert_eq!(fake.heard().len(), 3);
    let limited = accounts.with_deadline(Duration::from_secs(4));
    fake.next_one_rounds(std::iter::repeat_n(Failure::Conflict.into(), 1_000_000));
    let error = limited.apply(Batch::new().increment("a", 1)).await.unwrap_err();
    assert!(matches!(error, Error::Conflict), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_lost_is_recalled_and_nothing_is_done_twice() {
    let fake = Fake::default();
    let accounts = serializable(&fake);
    fake.next_one_rounds([unknown()]);
    let applied = accounts.apply(Batch::new().increment("a", 1)).await.unwrap();
    assert_eq!(applied.answers(), [StepAnswer::Number(1)]);
    assert_eq!(fake.heard(), ["execute c7.0.0 Independent", "recall c7.0.0"]);
    // It was not executed, as it turns out.
    fake.next_one_rounds([unknown(), Failure::Conflict.into()]);
    let applied = accounts.apply(Batch::new().put("b", "1")).await.unwrap();
    assert_eq!(applied.receipt().map(|receipt| receipt.attempts), Some(2));
    // A refusal is recalled with what was found.
    fake.next_one_rounds([unknown()]);
    let applied = accounts.apply(Batch::new().expect("a", "0").put("a", "9")).await.unwrap();
    assert_eq!(applied, Applied::Unmet { condition: 0, found: Some(Value::from("1")) });
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_recalled_is_told_as_it_is() {
    let fake = Fake::default();
    let accounts = serializable(&fake);
    for never_known in [unknown(), NotExecuted::Forgotten] {
        fake.next_one_rounds([unknown(), never_known]);
        let error = accounts.apply(Batch::new().increment("a", 1)).await.unwrap_err();
        let Error::Unknown { token } = error else { panic!("{error}") };
        assert_eq!(token.participants.len(), 1);
    }
    fake.next_one_rounds([unknown(), lost()]);
    let error = accounts.apply(Batch::new().increment("a", 1)).await.unwrap_err();
    assert!(matches!(error, Error::AnswersLost { .. }) && !error.is_retryable(), "{error}");
    // There is only one answer to what writes without looking.
    fake.next_one_rounds([unknown(), lost()]);
    let applied = accounts.apply(Batch::new().expect_exists("a").put("b", "1").delete("c")).await.unwrap();
    assert_eq!(applied.answers(), [StepAnswer::Done, StepAnswer::Done]);
    let shard = ShardId(2);
    fake.next_one_rounds([Failure::Invalid(quorate_core::command::Invalid::ShardLost(shard)).into()]);
    let error = accounts.apply(Batch::new().put("b", "1")).await.unwrap_err();
    assert!(matches!(error, Error::Invalid(Invalid::ShardLost { .. })), "{error}");
}

#[tokio::test(start_paused = true)]
async fn what_was_seen_in_a_refusal_comes_before_what_is_done_next() {
    let fake = Fake::default();
    let accounts = serializable(&fake);
    accounts.apply(Batch::new().put("a", "1")).await.unwrap();
    accounts.apply(Batch::new().expect_absent("a").put("a", "2")).await.unwrap();
    assert_eq!(fake.heard().pop(), Some("observe 1".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn one_rounds_keep_the_limits_of_their_client() {
    let fake = Fake::default();
    let options = Options { open_transactions_max: 1, ..Options::default() };
    let accounts = fake.keyspace_of(Isolation::Serializable, options);
    fake.busy_for(Duration::from_millis(30));
    let put = || Batch::new().put("a", "1");
    assert!(matches!(accounts.apply(put()).await, Err(Error::Overloaded { .. })));
    tokio::time::advance(Duration::from_millis(30)).await;
    let open = accounts.begin().await.unwrap();
    let error = accounts.apply(put()).await.unwrap_err();
    assert!(matches!(error, Error::Invalid(Invalid::OpenTransactions { max: 1 })), "{error}");
    drop(open);
    accounts.apply(put()).await.unwrap();
    assert_eq!(fake.heard(), ["execute c7.3.0 Independent"]);
}

#[tokio::test]
async fn batches_can_run_in_spawned_tasks() {
    for isolation in BOTH {
        let accounts = Fake::default().keyspace_of(isolation, Options::default());
        let task = tokio::spawn(async move { accounts.apply(Batch::new().increment("a", 1)).await });
        assert_eq!(task.await.unwrap().unwrap().answers(), [StepAnswer::Number(1)]);
    }
}
