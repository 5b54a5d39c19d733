"""Transactions, in keyspaces of all four isolations."""

import threading

import pytest
import quorate


def test_a_value_is_written_read_and_deleted(keyspace, key):
    assert keyspace.get(key) is None
    receipt = keyspace.put(key, "hello")
    assert keyspace.get(key) == b"hello"
    assert receipt.attempts >= 1 and receipt.timestamp.micros > 0
    keyspace.delete(key)
    assert keyspace.get(key.encode()) is None


def test_a_block_commits_at_its_end(keyspace, key):
    with keyspace.transaction() as txn:
        assert txn.get(key) is None
        txn.put(key, b"1")
        assert txn.get(key) == b"1"
        assert txn.receipt is None
    assert txn.receipt.token == txn.token
    assert keyspace.get(key) == b"1"


def test_a_block_that_raises_is_aborted(keyspace, key):
    with pytest.raises(ZeroDivisionError):
        with keyspace.transaction() as txn:
            txn.put(key, "1")
            1 / 0
    assert txn.receipt is None
    assert keyspace.get(key) is None


def test_a_transaction_that_is_over_says_so(keyspace, key):
    txn = keyspace.begin()
    txn.put(key, "1")
    txn.commit()
    for use in (txn.commit, txn.abort, lambda: txn.put(key, "2"), lambda: txn.get(key)):
        with pytest.raises(quorate.TransactionOver):
            use()
    with keyspace.transaction() as txn:
        txn.abort()
    assert keyspace.get(key) == b"1"


def test_a_token_tells_the_outcome(db, keyspace, key):
    with keyspace.transaction() as txn:
        txn.put(key, "1")
    assert db.outcome(txn.token) == txn.receipt.timestamp
    txn = keyspace.begin()
    txn.get(key)
    txn.put(key, "2")
    token = txn.token
    txn.abort()
    try:
        assert db.outcome(token) is None
    except quorate.TooOld:
        # A local site has never heard of a transaction that has only read there.
        assert keyspace.isolation == "parallel-snapshot"


def test_many_keys_are_read_in_their_order(keyspace, key):
    keys = [f"{key}/{number}" for number in (3, 1, 2)]
    with keyspace.transaction() as txn:
        for name in keys:
            txn.put(name, name[-1])
        assert txn.get_many([*keys, f"{key}/9"]) == [b"3", b"1", b"2", None]
    assert keyspace.get_many(name for name in keys) == [b"3", b"1", b"2"]
    assert keyspace.get_many([]) == []


def test_a_range_is_iterated_page_by_page(keyspace, key):
    entries = [(f"{{{key}}}/{number:03}".encode(), str(number).encode()) for number in range(25)]
    with keyspace.transaction() as txn:
        for name, value in entries:
            txn.put(name, value)
        assert list(txn.scan(prefix=f"{{{key}}}/", page=7)) == entries
    start, end = entries[0][0], entries[20][0]
    assert list(keyspace.scan(start, end, page=6)) == entries[:20]
    first = keyspace.scan(start, limit=10, page=4)
    assert list(first) == entries[:10]
    assert first.timestamp is not None
    assert list(keyspace.scan(first.next, end)) == entries[10:20]
    assert list(first) == [], "it is gone through once"
    assert list(keyspace.scan(end, start)) == []


def test_threads_that_count_up_lose_nothing(keyspace, key):
    def count(txn):
        number = int(txn.get(key) or b"0") + 1
        txn.put(key, str(number))
        return number

    seen = []

    def run():
        for _ in range(5):
            seen.append(keyspace.with_deadline(60).transact(count))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == list(range(1, 21))
    assert keyspace.get(key) == b"20"


def test_a_batch_is_done_as_a_whole_or_not_at_all(keyspace, key):
    orders, stock, log = f"{{{key}}}/orders", f"{{{key}}}/stock", f"{{{key}}}/log"

    def order():
        batch = quorate.Batch().expect_absent(orders).put(orders, "1").increment(stock, -3)
        return batch.append(log, "sold;").read(orders).scan(f"{{{key}}}/", f"{{{key}}}0")

    done = keyspace.apply(order())
    assert done and done.condition is None
    assert done.answers[:4] == [None, -3, 5, b"1"]
    assert [name for name, _ in done.answers[4]] == [name.encode() for name in (log, orders, stock)]
    assert done.receipt.token
    again = keyspace.apply(order())
    assert not again
    assert (again.condition, again.found, again.answers, again.receipt) == (0, b"1", [], None)
    assert keyspace.get(stock) == b"-3"
    take = quorate.Batch().expect_at_least(stock, 3).increment(stock, -3)
    assert (keyspace.apply(take).condition, keyspace.apply(take).found) == (0, b"-3")
    assert keyspace.apply(quorate.Batch().expect_at_least(stock, -3).increment(stock, 6)).answers == [3]
    assert keyspace.apply(take).answers == [0]


def test_a_step_that_does_not_suit_its_key_is_an_error(keyspace, key):
    keyspace.put(key, "no number")
    with pytest.raises(quorate.Step) as raised:
        keyspace.apply(quorate.Batch().put(f"{key}/other", "1").increment(key))
    assert raised.value.step == 1 and key in raised.value.key
    assert keyspace.get(f"{key}/other") is None


def test_a_handle_tells_its_name_and_promises(keyspace):
    assert keyspace.name == f"of-{keyspace.isolation}"
    assert keyspace.durability == "memory"
    assert keyspace.shards >= 1
    assert keyspace.isolation in repr(keyspace)
    assert type(keyspace.with_deadline(3)) is quorate.Keyspace
