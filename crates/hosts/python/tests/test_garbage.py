"""Handles that nobody keeps."""

import gc
import pathlib
import time
import warnings

import pytest
import quorate


def test_a_transaction_that_is_left_open_is_aborted_with_a_warning(db, strict, key):
    txn = strict.begin()
    txn.get(key)
    txn.put(key, "1")
    token = txn.token
    with pytest.warns(ResourceWarning, match=f"transaction {token} was left open"):
        del txn
        gc.collect()
    assert db.outcome(token) is None
    assert strict.get(key) is None


def test_transactions_that_have_ended_warn_of_nothing(strict, key):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with strict.transaction() as txn:
            txn.put(key, "1")
        strict.begin().abort()
        with pytest.raises(ZeroDivisionError):
            with strict.transaction() as txn:
                1 / 0
        strict.transact(lambda txn: txn.get(key))
        del txn
        gc.collect()


def test_handles_outlive_the_names_of_others(cluster, keyspaces, key):
    keyspace = quorate.connect(cluster.address).keyspace("of-strict")
    gc.collect()
    keyspace.put(key, "1")
    scan = keyspace.scan(prefix=key)
    del keyspace
    gc.collect()
    assert list(scan) == [(key.encode(), b"1")]


TASKS = pathlib.Path("/proc/self/task")


def client_threads():
    """The threads of clients, by number."""
    found = set()
    for task in TASKS.iterdir():
        try:
            if (task / "comm").read_text().strip() == "quorate":
                found.add(task.name)
        except FileNotFoundError:
            # It has just ended.
            continue
    return found


@pytest.mark.skipif(not TASKS.exists(), reason="threads are counted where /proc tells them")
def test_the_thread_of_a_database_that_nobody_keeps_ends(cluster, keyspaces, key):
    before = client_threads()
    keyspace = quorate.connect(cluster.address).keyspace("of-strict")
    keyspace.put(key, "1")
    own = client_threads() - before
    assert len(own) == 1
    del keyspace
    gc.collect()
    deadline = time.monotonic() + 20
    while own & client_threads():
        assert time.monotonic() < deadline
        time.sleep(0.01)
