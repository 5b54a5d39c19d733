"""Secondary indexes."""

import asyncio
import json

import pytest
import quorate
import quorate.aio


@pytest.fixture(params=["strict", "snapshot"])
def users(request, db, key):
    created = db.create_keyspace(f"users-{request.param}-{key}", request.param, shards=2, durability="memory")
    yield created
    db.drop_keyspace(created.name, delete_after=0)


def living(city, age):
    return json.dumps({"city": city, "age": age})


def keys(page):
    return [found.key for found in page.entries]


def test_keys_are_found_by_a_part_of_their_values(users):
    users.put("ada", living("London", 36))
    users.create_index("by-city", "json:/city")
    users.create_index("by-age", "json:/age")
    users.put("bob", living("Paris", 7.5))
    users.put("eve", living("London", 50))
    assert keys(users.find("by-city", "London")) == [b"ada", b"eve"]
    [found] = users.find("by-age", 36).entries
    assert (found.by, found.key, json.loads(found.value)["city"]) == (36.0, b"ada", "London")
    assert keys(users.find_range("by-age", None, 50)) == [b"bob", b"ada"]
    assert keys(users.find_range("by-age", 36)) == [b"ada", b"eve"]
    first = users.find("by-city", "London", limit=1)
    assert keys(first) == [b"ada"]
    rest = users.find("by-city", "London", after=first.next)
    assert (keys(rest), rest.next) == ([b"eve"], None)
    with users.transaction() as txn:
        txn.put("fay", living("Paris", 1))
        assert keys(txn.find("by-city", "Paris")) == [b"bob", b"fay"]
        assert keys(txn.find_range("by-city", "M", "Z")) == [b"bob", b"fay"]
    told = [(index.name, index.on, index.unique, index.unparsable, index.stage) for index in users.indexes()]
    assert told == [(f"by-{name}", f"json:/{name}", False, "refuse", "ready") for name in ["city", "age"]]
    users.drop_index("by-age")
    assert [index.name for index in users.indexes()] == ["by-city"]
    with pytest.raises(quorate.Invalid):
        users.find("by-age", 36)


def test_a_value_of_a_unique_index_belongs_to_one_key(users):
    users.create_index("by-mail", "json:/mail", unique=True, unparsable="leave-out")
    users.put("ada", json.dumps({"mail": "ada@example.org"}))
    users.put("raw", "no JSON")
    with pytest.raises(quorate.Invalid):
        users.put("eve", json.dumps({"mail": "ada@example.org"}))
    assert keys(users.find("by-mail", "ada@example.org")) == [b"ada"]


def test_what_cannot_be_an_index_is_refused(users, parallel_snapshot):
    with pytest.raises(quorate.Invalid, match="refuse or leave-out"):
        users.create_index("by-city", "json:/city", unparsable="shrug")
    with pytest.raises(quorate.Invalid):
        users.create_index("by-city", "xml:/city")
    with pytest.raises(quorate.Invalid):
        parallel_snapshot.create_index("by-city", "json:/city")
    with pytest.raises(quorate.Invalid):
        users.drop_index("by-city")
    with pytest.raises(TypeError):
        users.find("by-city", ["London"])


def test_asyncio_finds_as_well(cluster, users):
    async def find():
        async with quorate.aio.connect(cluster.address) as db:
            keyspace = await db.keyspace(users.name)
            await keyspace.create_index("by-city", "json:/city")
            await keyspace.put("ada", living("London", 36))
            async with keyspace.transaction() as txn:
                inside = await txn.find("by-city", "London")
            outside = await keyspace.find_range("by-city", "A", "Z")
            names = [index.name for index in await keyspace.indexes()]
            await keyspace.drop_index("by-city")
            return keys(inside), keys(outside), names, await keyspace.indexes()

    assert asyncio.run(find()) == ([b"ada"], [b"ada"], ["by-city"], [])
