//! Transactions that may only commit within a window, because they have judged values by their expiry.

use quorate_core::command::CommitWindow;

use super::*;

const ALL: &str = "1/r0 1/r1 1/r2";

impl Client {
    /// Begins a transaction that writes a key, and may commit from this time on, and before that.
    fn writes_within(&mut self, from: u64, before: Option<u64>) -> Vec<String> {
        self.begins();
        let transaction = self.transaction;
        self.does(Command::Put { transaction, key: named("a"), value: value(1) });
        let clock = ClockTime::from_micros;
        let window = CommitWindow { from: clock(from), before: before.map(clock) };
        assert!(self.does(Command::Confine { transaction, window }).is_empty());
        self.does(Command::Commit { transaction })
    }
}

#[test]
fn a_transaction_is_proposed_within_its_window_or_not_at_all() {
    let table = [
        (0, Some(1_001), "prepare 1 of  at 1000"),
        (0, Some(1_000), "Conflict"),
        (0, Some(1), "Conflict"),
        (1_000, None, "prepare 1 of  at 1001"),
        (5_000, None, "prepare 1 of  at 5001"),
        (5_000, Some(5_001), "Conflict"),
    ];
    for (from, before, expected) in table {
        let told = Client::new(3).writes_within(from, before);
        assert!(told[0].ends_with(expected), "{from} {before:?}: {told:?}");
        assert_eq!(told.len(), 1);
    }
}

#[test]
fn it_is_not_proposed_again_where_it_may_not_commit() {
    let mut client = Client::new(3);
    client.writes_within(0, Some(3_000));
    client.hears_vote("1/r0", Vote::Retry(at(2_000)));
    client.hears_vote("1/r1", Vote::Retry(at(2_000)));
    let again = client.hears_vote("1/r2", Vote::Retry(at(2_000)));
    assert!(again[0].starts_with(&format!("{ALL} ← prepare 2 of  at 200")), "{again:?}");

    let mut client = Client::new(3);
    client.writes_within(0, Some(3_000));
    client.hears_vote("1/r0", Vote::Retry(at(3_000)));
    client.hears_vote("1/r1", Vote::Retry(at(3_000)));
    let told = client.hears_vote("1/r2", Vote::Retry(at(3_000)));
    assert_eq!(told[0], "Conflict", "{told:?}");
}

#[test]
fn only_an_open_transaction_has_a_window() {
    let mut client = Client::new(3);
    client.writes(&["a"]);
    let (transaction, window) = (client.transaction, CommitWindow::default());
    let told = client.does(Command::Confine { transaction, window });
    assert_eq!(told.len(), 1);
    assert!(told[0].contains("NotOpen") || told[0].contains("not open"), "{told:?}");
}
