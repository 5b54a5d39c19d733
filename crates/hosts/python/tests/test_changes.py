"""Change feeds."""

import asyncio

import pytest
import quorate
import quorate.aio

WITH_FEEDS = ["strict", "serializable", "snapshot", "parallel-snapshot"]


@pytest.fixture(params=WITH_FEEDS)
def followed(request, keyspaces):
    return keyspaces[request.param]


def told_until(changes, timestamp):
    """The writes that are told, up to a timestamp and with it."""
    writes = []
    while not changes.has_passed(timestamp):
        page = next(changes)
        for change in page.changes:
            assert page.has_passed(change.timestamp)
            writes += [(change.timestamp, *write) for write in change.writes]
    return writes


def test_each_write_is_told_once_and_a_cursor_goes_on(followed, key):
    changes = followed.changes()
    first = followed.put(key, "1").timestamp
    told = told_until(changes, first)
    assert [(key_told, value) for _, key_told, value in told if key_told == key.encode()] == [(key.encode(), b"1")]
    kept = changes.cursor
    second = followed.delete(key).timestamp
    again = followed.changes(kept)
    assert again.cursor == kept
    told = told_until(again, second)
    assert (second, key.encode(), None) in told
    assert first not in [timestamp for timestamp, *_ in told]
    assert "resolved" in repr(again)


def test_a_key_and_a_prefix_are_watched(followed, key):
    one, several = followed.watch(key), followed.watch_prefix(key)
    last = None
    for name in [f"{key}/a", key, f"{key}/b"]:
        last = followed.put(name, "x").timestamp
    assert {name for _, name, _ in told_until(one, last)} == {key.encode()}
    assert {name for _, name, _ in told_until(several, last)} == {f"{key}{end}".encode() for end in ["", "/a", "/b"]}


def test_what_is_no_cursor_is_refused(followed):
    with pytest.raises(quorate.Invalid, match="is no cursor"):
        followed.changes("yesterday")


def test_sets_and_counters_are_told_as_what_was_added(parallel_snapshot, key):
    changes = parallel_snapshot.watch_prefix(key)
    with parallel_snapshot.transaction() as txn:
        txn.put(f"{key}/post", "1")
        txn.set_add(f"{key}/likes", "ada")
        txn.counter_add(f"{key}/stock", 7)
    told = []
    while not changes.has_passed(txn.receipt.timestamp):
        page = next(changes)
        assert page.shard is None
        told += page.changes
    [change] = told
    assert change.writes == [(f"{key}/post".encode(), b"1")]
    assert change.additions == [(f"{key}/likes".encode(), b"ada", 1), (f"{key}/stock".encode(), None, 7)]
    assert isinstance(changes.resolved, tuple) and f"{key}/stock" in repr(change)


def test_asyncio_follows_as_well(cluster, followed, key):
    async def follow():
        async with quorate.aio.connect(cluster.address) as db:
            keyspace = await db.keyspace(followed.name)
            changes = await keyspace.watch(key)
            receipt = await keyspace.put(key, "1")
            async for page in changes:
                if page.changes:
                    assert page.cursor == changes.cursor
                    assert [change.timestamp for change in page.changes] == [receipt.timestamp]
                    return page.changes[0].writes
        return None

    assert asyncio.run(follow()) == [(key.encode(), b"1")]


def test_a_page_that_was_given_up_is_given_again(cluster, followed, key):
    async def follow():
        async with quorate.aio.connect(cluster.address) as db:
            keyspace = await db.keyspace(followed.name)
            changes = await keyspace.watch(key)
            receipt = await keyspace.put(key, "1")
            found = []
            while not found:
                asked = asyncio.ensure_future(changes.__anext__())
                await asyncio.sleep(0.001)
                if asked.cancel():
                    asked = asyncio.ensure_future(changes.__anext__())
                found = (await asked).changes
            return [change.timestamp for change in found] == [receipt.timestamp]

    assert asyncio.run(follow())


def test_so_much_is_retained_as_was_asked_for(db):
    options = {"retain": 60, "retain_bytes": 1 << 20, "durability": "memory"}
    retaining = db.create_keyspace("retaining", "serializable", **options)
    changes = retaining.changes()
    timestamp = retaining.put("a", "1").timestamp
    assert [write for _, *write in told_until(changes, timestamp)] == [[b"a", b"1"]]
    for wrong in [{"retain": 90_000}, {"retain_bytes": 1 << 40}]:
        with pytest.raises(quorate.Invalid, match="retain changes for 24 hours"):
            db.create_keyspace("too-much", **wrong)
    assert db.create_keyspace("retaining-too", "parallel-snapshot", retain=60).changes().cursor
