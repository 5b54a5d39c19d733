"""Handles that nobody keeps."""

import gc
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
