"""redis-py, unmodified, against the door on the port that is the only argument."""

import sys
import threading

import redis

PORT = int(sys.argv[1])


def everyday(protocol):
    r = redis.Redis(port=PORT, protocol=protocol, decode_responses=True)
    r.flushall()
    assert r.ping()
    r.set("a", 1, ex=100)
    assert r.incr("a") == 2 and 0 < r.ttl("a") <= 100
    pipe = r.pipeline(transaction=True)
    pipe.set("x", "1").incr("x").get("x")
    assert pipe.execute() == [True, 2, "2"]
    pipe = r.pipeline(transaction=False)
    for i in range(100):
        pipe.rpush("list", i)
    assert pipe.execute()[-1] == 100

    def add_one(pipe):
        value = int(pipe.get("x"))
        pipe.multi()
        pipe.set("x", value + 1)

    r.transaction(add_one, "x")
    assert r.get("x") == "3"
    r.hset("hash", mapping={"f": "1", "g": "2"})
    assert r.hgetall("hash") == {"f": "1", "g": "2"}
    r.sadd("set", "a", "b")
    assert r.smembers("set") == {"a", "b"}
    r.zadd("sorted", {"m": 1.5, "n": 2})
    assert [tuple(pair) for pair in r.zrange("sorted", 0, -1, withscores=True)] == [("m", 1.5), ("n", 2.0)]
    assert sorted(r.scan_iter("*")) == ["a", "hash", "list", "set", "sorted", "x"]
    assert list(r.blpop("list", 1)) == ["list", "0"]
    assert r.blpop("none", 0.05) is None
    assert r.lmpop(2, "none", "list", direction="LEFT") == ["list", ["1"]]
    assert r.eval("return {KEYS[1], ARGV[1], redis.call('get', 'x')}", 1, "k", "v") == ["k", "v", "3"]
    with r.lock("lock", timeout=5):
        assert r.exists("lock") == 1
    assert r.info()["redis_version"] and r.dbsize() == 6
    assert r.command_count() > 100 and r.client_id() > 0
    try:
        r.lpush("a", "x")
        raise SystemExit("a string is no list")
    except redis.ResponseError as error:
        assert "WRONGTYPE" in repr(error) or "wrong kind" in str(error), error


def of_stream(read, name):
    """The entries of a stream, which the versions of the protocol tell as a list or as a map."""
    if not isinstance(read, dict):
        return dict(read)[name]
    (entries,) = read[name]
    return entries


def streams_and_places(protocol):
    r = redis.Redis(port=PORT, protocol=protocol, decode_responses=True)
    r.flushall()
    first = r.xadd("log", {"f": "1"})
    r.xadd("log", {"f": "2"}, maxlen=1000)
    assert [fields for _, fields in r.xrange("log")] == [{"f": "1"}, {"f": "2"}]
    assert r.xgroup_create("log", "g", id="0")
    read = of_stream(r.xreadgroup("g", "c", {"log": ">"}, count=1), "log")
    assert [tuple(entry) for entry in read] == [(first, {"f": "1"})], read
    assert r.xpending("log", "g")["consumers"] == [{"name": "c", "pending": 1}]
    assert r.xack("log", "g", first) == 1 and r.xpending("log", "g")["pending"] == 0
    assert r.xautoclaim("log", "g", "d", 0)[1] == []
    assert r.xinfo_stream("log")["length"] == 2 and r.xinfo_groups("log")[0]["lag"] == 1
    assert not r.xread({"log": "$"}, block=20)
    assert len(of_stream(r.xread({"log": "0", "none": "0"}), "log")) == 2
    assert r.geoadd("place", (13.361389, 38.115556, "p", 15.087269, 37.502669, "q")) == 2
    assert abs(r.geopos("place", "p")[0][0] - 13.361389) < 1e-5
    assert abs(float(r.geodist("place", "p", "q", unit="km")) - 166.2742) < 1e-9
    found = r.geosearch("place", longitude=15, latitude=37, radius=200, unit="km", withdist=True, sort="ASC")
    assert [name for name, _ in found] == ["q", "p"], found
    assert r.pfadd("seen", "a", "b", "c") == 1 and r.pfcount("seen", "unseen") == 3
    r.rpush("numbers", 3, 1, 2)
    r.mset({"weight_1": 30, "weight_2": 20, "weight_3": 10})
    assert r.sort("numbers", by="weight_*", get="#") == ["3", "2", "1"]


def hot_counter():
    def count():
        client = redis.Redis(port=PORT)
        for _ in range(100):
            client.incr("hot")

    threads = [threading.Thread(target=count) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert redis.Redis(port=PORT).get("hot") == b"800"


def waiting():
    got = []
    waits = threading.Thread(target=lambda: got.append(redis.Redis(port=PORT).blpop("queue", 10)))
    waits.start()
    redis.Redis(port=PORT).rpush("queue", "job")
    waits.join()
    assert [bytes(word) for word in got[0]] == [b"queue", b"job"], got
    waits = threading.Thread(target=lambda: got.append(redis.Redis(port=PORT).xread({"events": "0"}, block=10_000)))
    waits.start()
    redis.Redis(port=PORT).xadd("events", {"f": "v"})
    waits.join()
    assert len(of_stream(got[1], b"events")) == 1, got


def messages(protocol):
    r = redis.Redis(port=PORT, protocol=protocol, decode_responses=True)
    heard = r.pubsub()
    heard.subscribe("news")
    heard.psubscribe("n*")
    kinds = [heard.get_message(timeout=5)["type"] for _ in range(2)]
    assert kinds == ["subscribe", "psubscribe"], kinds
    assert r.pubsub_channels() == ["news"] and r.pubsub_numpat() == 1
    pipe = r.pipeline(transaction=True)
    assert pipe.publish("news", "it rains").set("published", 1).execute() == [2, True]
    got = [heard.get_message(timeout=5) for _ in range(2)]
    assert [(of["type"], of["pattern"], of["data"]) for of in got] == [
        ("message", None, "it rains"),
        ("pmessage", "n*", "it rains"),
    ], got
    assert heard.ping() is None
    heard.unsubscribe()
    heard.punsubscribe()
    while heard.subscribed:
        heard.get_message(timeout=5)
    heard.close()


for protocol in (2, 3):
    everyday(protocol)
    messages(protocol)
    streams_and_places(protocol)
hot_counter()
waiting()
print("redis-py", redis.__version__, "works")
