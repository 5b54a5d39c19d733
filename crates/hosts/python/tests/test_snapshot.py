"""Results that are shown before they are final: ``snapshot`` keyspaces alone have them."""

import pytest
import quorate
from conftest import undisturbed


def test_a_result_is_shown_and_becomes_final(db, snapshot, key):
    def order():
        with snapshot.transaction() as txn:
            txn.set_kind("order")
            txn.get(key)
            txn.put(key, "one book")
            info = txn.info()
            assert 0 < info.commit_probability <= 1 and info.snapshot.micros > 0
            shown = txn.commit_speculatively()
        assert shown.token == txn.token
        with snapshot.transaction(after=shown) as mail:
            assert mail.get(key) == b"one book"
            mail.put(f"{key}/mail", "your order")
        return shown, shown.receipt()

    order, final = undisturbed(order)
    assert final.token == order.token
    assert order.receipt().timestamp == final.timestamp, "it may be asked for again"
    if order.is_shown:
        assert order.local_timestamp <= final.timestamp and order.chain >= 1
    else:
        assert (order.local_timestamp, order.chain) == (None, 0)
    assert db.outcome(order.token) == final.timestamp
    assert snapshot.get(f"{key}/mail") == b"your order"


def test_other_isolations_show_nothing_early(strict, key):
    txn = strict.begin()
    txn.put(key, "1")
    with pytest.raises(quorate.Invalid, match="not shown before they are final"):
        txn.commit_speculatively()


def test_a_write_skew_is_permitted_and_a_lost_update_is_not(snapshot, key):
    left, right = f"{key}/left", f"{key}/right"

    def skew():
        with snapshot.transaction() as one, snapshot.transaction() as other:
            for txn in (one, other):
                txn.get_many([left, right])
            one.put(left, "1")
            other.put(right, "1")

    undisturbed(skew)

    def lost_update():
        with snapshot.transaction() as one, snapshot.transaction() as other:
            for txn in (one, other):
                txn.get(left)
                txn.put(left, "2")
            one.commit()
            with pytest.raises(quorate.Conflict):
                other.commit()

    undisturbed(lost_update)
