//! The handles against a fake coordinator: retries, limits, what is told to whom.

use std::cell::Cell;
use std::time::Duration;

use quorate_core::command::{Failure, Outcome};
use quorate_core::topology::Isolation;
use quorate_core::transaction::{KEY_BYTES_MAX, LimitExceeded, VALUE_BYTES_MAX};
use quorate_core::{ClientId, Key, ReplicaId, ReplicaIndex, ShardId, Timestamp};
use tokio::time::Instant;

use crate::fake::{End, Fake};
use crate::{Batch, Error, Invalid, ObjectKind, Options, Value};

fn conflict() -> End {
    End::Fail(Failure::Conflict)
}

fn unknown() -> End {
    End::Fail(Failure::Unknown { participants: vec![ShardId(1)] })
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_tried_again_under_the_next_attempt_number() {
    let fake = Fake::default();
    let accounts = fake.keyspace(Options::default());
    // After a conflict the client looks whether there is an index list, once a second.
    fake.next_ends([conflict(), End::Commit, conflict()]);
    let runs = Cell::new(0);
    let (value, receipt) = accounts
        .transact_with_receipt(async |txn| {
            runs.set(runs.get() + 1);
            txn.put("alice", runs.get().to_string())?;
            Ok(runs.get())
        })
        .await
        .unwrap();
    assert_eq!((value, receipt.attempts), (3, 3));
    assert_eq!(receipt.token.transaction.attempt, 2);
    assert_eq!(fake.value("alice"), Some(Value::from("3")));
    let expected =
        ["begin c7.0.0", "commit c7.0.0", "begin c7.0.1", "commit c7.0.1", "begin c7.0.2", "commit c7.0.2"];
    assert_eq!(fake.heard(), expected);
    assert_eq!(fake.open_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn conflicts_are_not_tried_for_ever() {
    let fake = Fake::default();
    let accounts = fake.keyspace(Options::default()).with_deadline(Duration::from_secs(4));
    fake.next_ends(std::iter::repeat_n(conflict(), 1_000_000));
    let before = tokio::time::Instant::now();
    let result = accounts.put("alice", "1").await;
    assert!(matches!(result, Err(Error::Conflict)), "{result:?}");
    assert!(before.elapsed() <= Duration::from_secs(4));
}

#[tokio::test(start_paused = true)]
async fn only_conflicts_and_short_outages_are_tried_again() {
    let fake = Fake::default();
    let accounts = fake.keyspace(Options::default());
    let gone = || End::Fail(Failure::Unavailable { missing: Vec::new() });
    fake.next_ends([gone(), gone()]);
    accounts.put("a", "1").await.unwrap();
    assert_eq!(fake.heard().len(), 6, "a begin and a commit each");
    let before = tokio::time::Instant::now();
    fake.next_ends(std::iter::repeat_with(gone).take(1_000));
    assert!(matches!(accounts.put("a", "1").await, Err(Error::Unavailable { .. })));
    assert!(before.elapsed() <= Options::default().deadline / 4, "{:?}", before.elapsed());
    let heard = fake.heard().len();
    let result: crate::Result<()> =
        accounts.transact(async |_| Err(Error::application("not enough money"))).await;
    assert_eq!(result.unwrap_err().to_string(), "not enough money");
    assert_eq!(fake.heard().len(), heard, "it was not begun, and not again");
}

#[tokio::test(start_paused = true)]
async fn what_a_closure_has_read_is_confirmed_before_it_gives_up() {
    let fake = Fake::default();
    let accounts = fake.keyspace(Options::default());
    accounts.put("alice", "1").await.unwrap();
    let heard = fake.heard().len();
    // The reads of the first attempt have changed when they are confirmed; the second attempt is cut off.
    fake.next_ends([conflict(), unknown(), End::Commit]);
    let runs = Cell::new(0);
    let result: crate::Result<()> = accounts
        .transact(async |txn| {
            runs.set(runs.get() + 1);
            txn.put("bob", "9")?;
            assert_eq!(txn.get("bob").await?, Some(Value::from("9")));
            let found = txn.get("alice").await?;
            Err(Error::application(format!("{found:?} is not enough in attempt {}", runs.get())))
        })
        .await;
    assert_eq!(result.unwrap_err().to_string(), r#"Some(b"1") is not enough in attempt 3"#);
    assert_eq!(fake.value("bob"), None, "its writes do not count");
    let attempts =
        ["begin c7.1.0", "commit c7.1.0", "begin c7.1.1", "commit c7.1.1", "begin c7.1.2", "commit c7.1.2"];
    assert_eq!(fake.heard()[heard..], attempts);
    assert_eq!(fake.open_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_closure_does_not_give_up_on_what_cannot_be_confirmed() {
    let fake = Fake::default();
    let accounts = fake.keyspace(Options::default());
    let give_up = || {
        accounts.transact(async |txn| {
            txn.get("alice").await?;
            Err::<(), _>(Error::application("not enough"))
        })
    };
    let gone = || End::Fail(Failure::Unavailable { missing: Vec::new() });
    fake.next_ends([gone(), End::Commit]);
    assert!(matches!(give_up().await, Err(Error::Application(_))), "a short outage is waited for");
    fake.next_ends(std::iter::repeat_with(gone).take(1_000));
    assert!(matches!(give_up().await, Err(Error::Unavailable { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_closure_that_gives_up_after_a_scan_saw_its_writes_is_aborted() {
    let fake = Fake::default();
    let accounts = fake.keyspace(Options::default());
    let result: crate::Result<()> = accounts
        .transact(async |txn| {
            txn.put("bob", "9")?;
            assert_eq!(txn.scan("a", "z", 10).await?.entries.len(), 1);
            Err(Error::application("too many"))
        })
        .await;
    assert_eq!(result.unwrap_err().to_string(), "too many");
    assert_eq!(fake.heard(), ["begin c7.0.0", "abort c7.0.0"]);
    assert_eq!(fake.value("bob"), None);
}

#[tokio::test(start_paused = true)]
async fn another_site_that_restarts_is_waited_for_and_named_if_it_stays_away() {
    let fake = Fake::default();
    let posts = fake.keyspace_of(Isolation::ParallelSnapshot, Options::default());
    let other = ReplicaId { shard: ShardId(2), index: ReplicaIndex(0) };
    let gone = || End::Fail(Failure::Unavailable { missing: vec![other] });
    fake.next_ends([gone(), gone()]);
    posts.put("a", "1").await.unwrap();
    let before = Instant::now();
    fake.next_ends(std::iter::repeat_with(gone).take(1_000));
    let error = posts.put("a", "1").await.unwrap_err().to_string();
    assert!(before.elapsed() > Duration::from_millis(500), "{:?}", before.elapsed());
    assert!(
        error.contains("again when they are back") && error.contains("remove-site here --abandon"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_under_way_when_its_keyspace_was_lost_tells_why() {
    let fake = Fake::default();
    let accounts = fake.keyspace(Options::default()).with_deadline(Duration::from_secs(60));
    fake.lose("the keyspace was dropped");
    let error = accounts.get("alice").await.unwrap_err().to_string();
    assert!(error.contains("an operator has to act: the keyspace was dropped"), "{error}");
    assert_ne!(
        error.contains("shard1/"),
        error.contains("shard2/"),
        "only the shard that was asked: {error}"
    );
    let before = Instant::now();
    let error = accounts.get("alice").await.unwrap_err().to_string();
    assert!(error.contains("an operator has to act: the keyspace was dropped"), "{error}");
    assert_eq!(before.elapsed(), Duration::ZERO, "the next one does not wait");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_attempt_is_settled_before_the_next_one_begins() {
    let fake = Fake::default();
    let accounts = fake.keyspace(Options::default());
    fake.next_ends([unknown()]);
    fake.next_outcomes([Some(Outcome::Aborted)]);
    accounts.put("alice", "1").await.unwrap();
    let expected = ["begin c7.0.0", "commit c7.0.0", "resolve c7.0.0", "begin c7.0.1", "commit c7.0.1"];
    assert_eq!(fake.heard(), expected);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_attempt_that_turns_out_committed_is_not_run_again() {
    let fake = Fake::default();
    let accounts = fake.keyspace(Options::default());
    let timestamp = Timestamp { micros: 5, client: ClientId(7) };
    fake.next_ends([unknown()]);
    fake.next_outcomes([Some(Outcome::Committed(timestamp))]);
    let (_, receipt) = accounts.transact_with_receipt(async |txn| txn.put("alice", "1")).await.unwrap();
    assert_eq!((receipt.timestamp, receipt.attempts), (timestamp, 1));
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_cannot_be_settled_is_told_with_its_token() {
    let fake = Fake::default();
    let accounts = fake.keyspace(Options::default());
    fake.next_ends([unknown()]);
    fake.next_outcomes([None]);
    let Err(Error::Unknown { token }) = accounts.put("alice", "1").await else { panic!("it is unknown") };
    assert_eq!(token.participants, [ShardId(1)]);
    assert_eq!(fake.heard(), ["begin c7.0.0", "commit c7.0.0", "resolve c7.0.0"]);
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_ever_for_what_became_of_an_attempt() {
    let fake = Fake::default();
    let accounts = fake.keyspace(Options::default());
    fake.next_ends([unknown()]);
    fake.forget_who_asks();
    let before = Instant::now();
    let outcome = accounts.put("alice", "1").await;
    assert!(matches!(outcome, Err(Error::Unknown { .. })), "{outcome:?}");
    let deadline = Options::default().deadline;
    assert!(before.elapsed() < deadline + Duration::from_secs(1), "{:?}", before.elapsed());
}

#[tokio::test]
async fn limits_are_raised_at_the_call_and_nothing_is_sent() {
    let fake = Fake::default();
    let accounts = fake.keyspace(Options { open_transactions_max: 2, ..Options::default() });
    let txn = accounts.begin().await.unwrap();
    let limit = |result: crate::Result<()>| match result {
        Err(Error::Invalid(Invalid::Limit(limit))) => limit,
        other => panic!("{other:?}"),
    };
    assert_eq!(limit(txn.put("", "x")), LimitExceeded::EmptyKey);
    assert!(matches!(limit(txn.put(vec![b'k'; KEY_BYTES_MAX + 1], "x")), LimitExceeded::Key { .. }));
    assert!(matches!(limit(txn.put("photo", vec![0; VALUE_BYTES_MAX + 1])), LimitExceeded::Value { .. }));
    assert_eq!(limit(txn.get("").await.map(|_| ())), LimitExceeded::EmptyKey);
    assert_eq!(fake.heard(), [""; 0]);
    for key in 0..9 {
        txn.put([key], vec![0; VALUE_BYTES_MAX]).unwrap();
    }
    assert!(matches!(limit(txn.put("last", vec![0; VALUE_BYTES_MAX])), LimitExceeded::Transaction { .. }));
    let _second = accounts.begin().await.unwrap();
    let error = accounts.begin().await.unwrap_err();
    assert!(matches!(error, Error::Invalid(Invalid::OpenTransactions { max: 2 })), "{error}");
    drop(txn);
    accounts.begin().await.unwrap();
}

#[tokio::test]
async fn dropping_a_transaction_aborts_it() {
    let fake = Fake::default();
    let accounts = fake.keyspace(Options::default());
    let txn = accounts.begin().await.unwrap();
    txn.put("alice", "1").unwrap();
    txn.get("bob").await.unwrap();
    drop(txn);
    drop(accounts.begin().await.unwrap());
    let mut txn = accounts.begin().await.unwrap();
    txn.get("alice").await.unwrap();
    txn.abort().await.unwrap();
    assert_eq!(fake.heard(), ["begin c7.0.0", "abort c7.0.0", "begin c7.2.0", "abort c7.2.0"]);
    assert_eq!((fake.open_count(), fake.value("alice")), (0, None));
}

#[tokio::test]
async fn a_commit_whose_caller_went_away_is_left_to_end_by_itself() {
    let fake = Fake::default();
    let accounts = fake.keyspace(Options::default());
    fake.next_ends([End::Never]);
    let mut txn = accounts.begin().await.unwrap();
    txn.put("alice", "1").unwrap();
    let commit = tokio::time::timeout(Duration::from_millis(5), txn.commit()).await;
    assert!(commit.is_err());
    assert_eq!(fake.heard(), ["begin c7.0.0", "commit c7.0.0"], "an abort must not follow a commit");
    drop(txn);
    assert_eq!(fake.open_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_busy_cluster_is_left_alone_until_it_is_not() {
    let fake = Fake::default();
    let accounts = fake.keyspace(Options::default());
    fake.busy_for(Duration::from_millis(30));
    let Err(Error::Overloaded { retry_after }) = accounts.put("a", "1").await else { panic!("it is busy") };
    assert_eq!(retry_after, Duration::from_millis(30));
    assert_eq!(fake.heard(), [""; 0]);
    tokio::time::advance(retry_after).await;
    accounts.put("a", "1").await.unwrap();
}

#[tokio::test]
async fn ranges_are_read_in_pages() {
    let fake = Fake::default();
    let accounts = fake.keyspace(Options::default());
    for key in ["a", "b", "c"] {
        accounts.put(key, key).await.unwrap();
    }
    let page = accounts.scan("a", "c", 10).await.unwrap();
    assert_eq!((page.entries.len(), page.next), (2, None));
    let page = accounts.scan("", "", 2).await.unwrap();
    assert_eq!(page.next, Some(Key::from("c")));
    assert_eq!(accounts.scan("c", "a", 2).await.unwrap(), crate::Page::default());
}

/// A client that settles it asks all of them; the coordinator counts on the same.
#[tokio::test]
async fn a_token_names_the_shards_of_a_scan() {
    let accounts = Fake::default().keyspace(Options::default());
    let txn = accounts.begin().await.unwrap();
    txn.scan("{a}", "{a~", 10).await.unwrap();
    assert_eq!(txn.token().participants, [accounts.definition().shard_of(b"{a}1").id]);
    txn.scan("{a}", "{b}", 10).await.unwrap();
    assert_eq!(txn.token().participants.len(), 2);
}

#[tokio::test]
async fn transactions_can_run_in_spawned_tasks() {
    let fake = Fake::default();
    let accounts = fake.keyspace(Options::default());
    let task = tokio::spawn(async move {
        accounts
            .transact(async |txn| {
                let before = txn.get(b"alice").await?;
                txn.put(b"alice", b"1")?;
                Ok(before)
            })
            .await
    });
    assert_eq!(task.await.unwrap().unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_call_of_a_long_transaction_has_a_bound_of_its_own() {
    let fake = Fake::default();
    let accounts = fake.keyspace(Options::default()).with_deadline(Duration::from_secs(3600));
    fake.next_ends([End::Never]);
    let mut txn = accounts.begin().await.unwrap();
    txn.put("alice", "1").unwrap();
    let result = txn.commit().await;
    assert!(matches!(result, Err(Error::Unknown { .. })), "{result:?}");
}

#[tokio::test]
async fn the_window_of_commits_in_flight_is_bounded() {
    let fake = Fake::default();
    let accounts = fake.keyspace(Options {
        commits_in_flight_max: 1,
        deadline: Duration::from_millis(50),
        ..Options::default()
    });
    fake.next_ends([End::Never]);
    let mut stuck = accounts.begin().await.unwrap();
    stuck.put("a", "1").unwrap();
    let stuck = tokio::spawn(async move { stuck.commit().await });
    tokio::task::yield_now().await;
    let mut next = accounts.begin().await.unwrap();
    next.put("b", "1").unwrap();
    let result = next.commit().await;
    assert!(matches!(result, Err(Error::Overloaded { .. })), "{result:?}");
    stuck.abort();
    let _ = stuck.await;
    accounts.put("b", "2").await.unwrap();
}

#[tokio::test]
async fn every_call_can_run_in_a_spawned_task() {
    let fake = Fake::default();
    let accounts = fake.keyspace(Options::default());
    let key = String::from("alice");
    let task = tokio::spawn(async move {
        accounts.put(&key, "1").await?;
        accounts.get(&key).await?;
        accounts.scan(&key, "", 10).await?;
        accounts.apply(Batch::new().expect(&key, "1").put(&key, "2")).await?;
        accounts.delete(&key).await?;
        accounts
            .transact(async |txn| {
                txn.put(&key, "3")?;
                txn.get(&key).await
            })
            .await
    });
    assert_eq!(task.await.unwrap().unwrap(), Some(Value::from("3")));
}

#[tokio::test]
async fn a_handle_that_outlives_its_closure_can_do_nothing() {
    let fake = Fake::default();
    let accounts = fake.keyspace(Options::default());
    let kept = Cell::new(None);
    accounts
        .transact(async |txn| {
            txn.put("alice", "1")?;
            kept.set(Some(txn));
            Ok(())
        })
        .await
        .unwrap();
    let mut kept = kept.take().unwrap();
    assert!(matches!(kept.put("alice", "2"), Err(Error::Invalid(Invalid::TransactionOver))));
    assert!(matches!(kept.get("alice").await, Err(Error::Invalid(Invalid::TransactionOver))));
    assert!(matches!(kept.commit().await, Err(Error::Invalid(Invalid::TransactionOver))));
    assert_eq!(fake.value("alice"), Some(Value::from("1")));
}

#[tokio::test]
async fn writes_wait_in_the_handle_for_the_next_read_or_the_commit() {
    let fake = Fake::default();
    let accounts = fake.keyspace(Options::default());
    let mut txn = accounts.begin().await.unwrap();
    let begun = fake.visits();
    txn.put("alice", "1").unwrap();
    txn.put("bob", "2").unwrap();
    txn.delete("bob").unwrap();
    assert_eq!(txn.get("alice").await.unwrap(), Some(Value::from("1")));
    assert_eq!(txn.get("bob").await.unwrap(), None);
    assert_eq!(fake.visits(), begun, "nobody was asked for what the transaction has written itself");
    assert!(fake.heard().is_empty());
    let page = txn.scan("a", "", 10).await.unwrap();
    assert_eq!(page.entries, [(Key::from("alice"), Value::from("1"))], "a scan sees what was written before");
    txn.put("carol", "3").unwrap();
    assert_eq!(txn.get("dave").await.unwrap(), None);
    assert_eq!(fake.visits(), begun + 2, "one visit for each read");
    txn.put("erin", "5").unwrap();
    txn.commit().await.unwrap();
    assert_eq!(fake.visits(), begun + 3, "and one for the commit");
    assert_eq!(["alice", "carol", "erin"].map(|key| fake.value(key).is_some()), [true; 3]);
    assert_eq!(fake.value("bob"), None);
}

#[tokio::test]
async fn a_transaction_that_is_dropped_before_it_reads_is_told_to_nobody() {
    let fake = Fake::default();
    let accounts = fake.keyspace(Options::default());
    let txn = accounts.begin().await.unwrap();
    txn.put("alice", "1").unwrap();
    drop(txn);
    assert!(fake.heard().is_empty());
    assert_eq!((fake.open_count(), fake.value("alice")), (0, None));
}

#[tokio::test]
async fn ids_of_a_client_ascend_whatever_its_clock_does() {
    let fake = Fake::default();
    let container = fake.keyspace(Options::default()).container("alice");
    let ids: Vec<Key> = (0..1_000).map(|_| container.new_id(ObjectKind::Register).unwrap()).collect();
    assert!(ids.is_sorted_by(|one, other| one < other), "each is another one, and they ascend");
    assert!(fake.heard().is_empty(), "nobody is asked");
}

#[test]
fn times_of_ids_go_on_where_a_clock_goes_back() {
    let fake = Fake::default();
    let keyspace = fake.keyspace(Options::default());
    let at = |micros| keyspace.session().next_id(quorate_core::ClockTime::from_micros(micros));
    assert_eq!([at(10), at(10), at(3), at(20)], [10, 11, 12, 20]);
}

#[test]
fn prefixes_end_before_the_next_one() {
    for (prefix, end) in [
        (&b"a"[..], &b"b"[..]),
        (b"a\xff", b"b"),
        (b"\xff\xff", b""),
        (b"", b""),
        (b"a\xffb", b"a\xffc"),
        (b"\0", b"\x01"),
    ] {
        assert_eq!(crate::end_of_prefix(prefix), end, "{prefix:?}");
    }
}
