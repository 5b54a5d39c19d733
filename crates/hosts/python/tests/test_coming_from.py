"""What ``docs/from-redis.md``, ``docs/from-etcd.md`` and ``docs/from-cockroachdb.md`` show: first steps of a migration."""

import base64
import csv
import io
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

import pytest
import quorate
from conftest import Cluster, free_ports


# Page: copy from redis
def copy(source, target):
    """Copies all keys, each in one transaction. May be run again. Gives the keys of streams, which it leaves out."""
    left = []
    for key in source.scan_iter(count=1_000):
        kind, milliseconds = source.type(key).decode(), source.pttl(key)
        pipe = target.pipeline()
        pipe.delete(key)
        if kind == "string":
            pipe.set(key, source.get(key))
        elif kind == "hash":
            pipe.hset(key, mapping=source.hgetall(key))
        elif kind == "list":
            pipe.rpush(key, *source.lrange(key, 0, -1))
        elif kind == "set":
            pipe.sadd(key, *source.smembers(key))
        elif kind == "zset":
            pipe.zadd(key, dict(source.zrange(key, 0, -1, withscores=True)))
        else:
            left.append((key, kind))
            continue
        if milliseconds > 0:
            pipe.pexpire(key, milliseconds)
        pipe.execute()
    return left
    # Page ends.


@pytest.fixture
def redis_server():
    """The port of a Redis, which ``.ci/run`` installs."""
    binary = shutil.which(os.environ.get("QUORATE_REDIS_SERVER", "redis-server"))
    if binary is None:
        pytest.skip("there is no redis-server to copy from")
    port = free_ports(1)
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    process = subprocess.Popen([binary, *options], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    yield port
    process.terminate()
    process.wait(20)


def wait_for(client, refused):
    """Waits until the server of a client of Redis answers."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return client.ping()
        except refused as error:
            assert time.monotonic() < deadline, error
            time.sleep(0.05)


def test_a_redis_is_copied_through_the_door(redis_server):
    redis = pytest.importorskip("redis", reason="redis-py is not in target/clients/python")
    door = f"127.0.0.1:{free_ports(1)}"
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(pathlib.Path(folder) / "data", "--redis", door)
        host, _, port = door.partition(":")
        try:
            with redis.Redis(port=redis_server) as source, redis.Redis(host=host, port=int(port)) as target:
                wait_for(source, redis.ConnectionError)
                wait_for(target, redis.ConnectionError)
                source.set("greeting", "hello", px=600_000)
                source.hset("user:7", mapping={"name": "Anna", "city": "Graz"})
                source.rpush("queue", "a", "b", "a")
                source.sadd("tags", "new", "hot")
                source.zadd("scores", {"anna": 7.5, "ben": 3})
                source.xadd("events", {"kind": "login"})
                for _ in range(2):
                    assert copy(source, target) == [(b"events", "stream")]
                assert target.get("greeting") == b"hello" and 0 < target.pttl("greeting") <= 600_000
                assert target.hgetall("user:7") == {b"name": b"Anna", b"city": b"Graz"}
                assert target.lrange("queue", 0, -1) == [b"a", b"b", b"a"]
                assert target.smembers("tags") == {b"new", b"hot"} and target.pttl("tags") == -1
                assert target.zrange("scores", 0, -1, withscores=True) == [(b"ben", 3.0), (b"anna", 7.5)]
                assert target.dbsize() == 5
        finally:
            cluster.stop()


# Page: load from etcd
def load(keyspace, dump):
    """Writes all keys, 500 in a transaction. May be run again. Gives the keys that had a lease, which are left out."""

    def write(txn, pairs):
        for pair in pairs:
            txn.put(base64.b64decode(pair["key"]), base64.b64decode(pair.get("value", "")))

    pairs = json.load(dump).get("kvs", [])
    lasting = [pair for pair in pairs if not pair.get("lease")]
    for at in range(0, len(lasting), 500):
        keyspace.transact(write, lasting[at : at + 500])
    return [base64.b64decode(pair["key"]) for pair in pairs if pair.get("lease")]
    # Page ends.


def etcd_pair(key, value, **more):
    """A key as ``etcdctl get --write-out=json`` prints it: it leaves out what is empty."""
    pair = {"key": base64.b64encode(key).decode(), "create_revision": 2, "mod_revision": 5, "version": 1, **more}
    return pair | ({"value": base64.b64encode(value).decode()} if value else {})


def test_an_etcd_is_loaded(strict, key):
    prefix = f"{key}/".encode()
    pairs = [etcd_pair(prefix + f"{number:04}".encode(), f"value {number}".encode()) for number in range(1_001)]
    pairs += [etcd_pair(prefix + b"empty", b""), etcd_pair(prefix + b"leased", b"1", lease=7587862072907233807)]
    dump = json.dumps({"header": {"revision": 6}, "kvs": pairs, "count": len(pairs)})
    for _ in range(2):
        assert load(strict, io.StringIO(dump)) == [prefix + b"leased"]
    entries = dict(strict.scan(prefix=prefix))
    assert len(entries) == 1_002
    assert entries[prefix + b"0000"] == b"value 0" and entries[prefix + b"1000"] == b"value 1000"
    assert entries[prefix + b"empty"] == b""
    assert load(strict, io.StringIO('{"header": {"revision": 1}}')) == []


def test_a_value_is_replaced_if_it_is_the_one_that_was_read(strict, key):
    leader = f"{key}/leader"
    strict.put(leader, "node-1")
    # Page: compare and swap
    swapped = strict.apply(quorate.Batch().expect(leader, "node-1").put(leader, "node-2"))
    if not swapped:
        print("the leader is", swapped.found)
    # Page ends.
    assert swapped and strict.get(leader) == b"node-2"
    again = strict.apply(quorate.Batch().expect(leader, "node-1").put(leader, "node-3"))
    assert not again and again.found == b"node-2"


# Page: insert a row
def insert(txn, row):
    """Writes a row and its entry in a unique index. May be run again."""
    holder = txn.get(f"users/by-email/{row['email']}")
    if holder not in (None, row["id"].encode()):
        raise ValueError(f"{row['email']} belongs to user {holder.decode()}")
    before = txn.get(f"users/{row['id']}")
    if before is not None:
        txn.delete(f"users/by-email/{json.loads(before)['email']}")
    txn.put(f"users/{row['id']}", json.dumps(row))
    txn.put(f"users/by-email/{row['email']}", row["id"])
    # Page ends.


def test_a_table_with_a_unique_index_is_loaded(db, strict):
    rows = "id,email,name\n1,anna@example.org,Anna\n2,ben@example.org,Ben\n"
    for file in (io.StringIO(rows), io.StringIO(rows)):
        # Page: load rows
        for row in csv.DictReader(file):
            strict.transact(insert, row)
        # Page ends.
    # Page: find a row
    with strict.transaction() as txn:
        found = txn.get("users/by-email/ben@example.org")
        user = txn.get(f"users/{found.decode()}") if found else None
    # Page ends.
    assert json.loads(user)["name"] == "Ben"
    with pytest.raises(ValueError, match="belongs to user 1"):
        strict.transact(insert, {"id": "3", "email": "anna@example.org", "name": "Another"})
    strict.transact(insert, {"id": "1", "email": "anna@example.com", "name": "Anna"})
    index = [key.removeprefix(b"users/by-email/") for key, _ in strict.scan(prefix="users/by-email/")]
    assert index == [b"anna@example.com", b"ben@example.org"]
