"""Reading only: snapshots now and in the past, of keys and of ranges."""

import pytest
import quorate


def test_snapshots_of_keys(strict, key):
    first = strict.put(key, "1")
    strict.put(key, "2")
    now = strict.read_only([key])
    assert (now.values, now.attempts >= 1) == ([b"2"], True)
    assert strict.read_at(first.timestamp, [key, f"{key}/absent"]) == [b"1", None]
    assert strict.read_stale(5, [key]).values[0] in (None, b"1", b"2")
    assert strict.read_stale(0, [key]).values == [b"2"]
    assert "Snapshot" in repr(now)


def test_snapshots_of_ranges(strict, key):
    def fill(txn):
        for number in range(6):
            txn.put(f"{key}/{number}", "1")

    _, receipt = strict.transact_with_receipt(fill)
    scan = strict.scan(prefix=f"{key}/", page=2)
    entries = iter(scan)
    found = [next(entries)]
    # Writes from here on are in none of the pages.
    strict.put(f"{key}/0", "2")
    strict.put(f"{key}/7", "2")
    found += list(entries)
    assert [value for _, value in found] == [b"1"] * 6
    assert scan.timestamp >= receipt.timestamp
    assert len(list(strict.scan_at(receipt.timestamp, prefix=f"{key}/", page=4))) == 6
    assert len(list(strict.scan_at(receipt.timestamp, prefix=f"{key}/", page=4, limit=5))) == 5
    stale = strict.scan_stale(0, prefix=f"{key}/", page=3)
    assert len(list(stale)) == 7 and stale.timestamp is not None


def test_reading_by_the_clock_needs_a_bound(db, strict, key):
    with pytest.raises(quorate.Invalid, match="states no bound of clocks"):
        strict.read_now([key])
    bounded = db.create_keyspace("bounded", clock_bound=0.005, durability="memory")
    bounded.put(key, "1")
    assert bounded.read_now([key]).values == [b"1"]
    assert list(bounded.scan_now()) == [(key.encode(), b"1")]


def test_other_isolations_refuse_snapshots_of_the_past(serializable, key):
    receipt = serializable.put(key, "1")
    with pytest.raises((quorate.Invalid, quorate.SnapshotTooOld)):
        serializable.read_at(receipt.timestamp, [key])
    assert serializable.read_only([key]).values == [b"1"]


def test_a_session_goes_on_at_another_client(cluster, db, serializable, key):
    serializable.put(key, "1")
    with quorate.connect(cluster.address, site="site2") as other:
        assert other.sites() == ["site1", "site2", "site3"]
        other.observe(db.seen())
        assert other.keyspace("of-serializable").get(key) == b"1"
    with pytest.raises(quorate.Invalid, match="site1"):
        quorate.connect(cluster.address, site="nowhere")
