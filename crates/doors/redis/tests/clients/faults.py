"""redis-py, unmodified, at doors whose nodes are killed, paused and started again.

Takes a seed, for how many seconds to go on, the file to write the history to, and the ports of the doors. What the clients saw becomes a history for
`quorate check`; increments, which a history has no word for, are counted here. It ends with an error if a write that was acknowledged is lost, or an
increment was carried out twice.
"""

import itertools
import json
import random
import sys
import threading
import time

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

SEED, SECONDS, HISTORY = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
PORTS = [int(port) for port in sys.argv[4:]]
CLIENTS = 6
LISTS = [f"list:{number}" for number in range(6)]
TALLY, COUNT, COUNTER = "tally", "tally:count", "counter"
REPLY_TIMEOUT = 5
FINAL_TIMEOUT = 30
SCRIPT = """
local read = redis.call('lrange', KEYS[1], 0, -1)
redis.call('rpush', KEYS[2], ARGV[1])
return read
"""

end = time.monotonic() + SECONDS


class Refused(Exception):
    """Surely nothing was done."""


class Unknown(Exception):
    """Something may have been done."""


class Recorder:
    """Writes events in the order in which they happen."""

    def __init__(self):
        self.lock, self.file = threading.Lock(), open(HISTORY, "w")
        self.index, self.start = 0, time.monotonic_ns()
        self.processes = itertools.count()

    def event(self, kind, process, value):
        with self.lock:
            line = {"index": self.index, "type": kind, "process": process, "f": "txn"}
            line |= {"time": time.monotonic_ns() - self.start, "value": value}
            self.file.write(json.dumps(line) + "\n")
            self.index += 1


class Ledger:
    """Counts increments."""

    def __init__(self):
        self.lock, self.begun, self.told = threading.Lock(), 0, set()

    def begin(self):
        with self.lock:
            self.begun += 1

    def fail(self):
        with self.lock:
            self.begun -= 1

    def acknowledge(self, count):
        with self.lock:
            assert count not in self.told, f"two increments have told {count}"
            self.told.add(count)


recorder, ledger, trouble = Recorder(), Ledger(), []


def carried_out(do):
    """Carries something out, or says whether it may have been."""
    try:
        return do()
    except redis.exceptions.WatchError as error:
        raise Refused from error
    except (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError) as error:
        raise Unknown from error
    except redis.exceptions.ResponseError as error:
        surely_not = (redis.exceptions.TryAgainError, redis.exceptions.ExecAbortError)
        text = str(error)
        if isinstance(error, surely_not) or text.startswith("OVERLOADED") or "nothing was done" in text:
            raise Refused from error
        if text.startswith("UNKNOWN"):
            raise Unknown from error
        raise


class Client:
    def __init__(self, number):
        self.number, self.random = number, random.Random(SEED * 1000 + number)
        self.port, self.drawn, self.redis = number, 0, None

    def connect(self):
        """Connects to the next door, without repeating anything: a command that was sent twice may be carried out twice."""
        if self.redis is not None:
            self.redis.close()
        self.port += 1
        port = PORTS[self.port % len(PORTS)]
        retry = Retry(NoBackoff(), 0)
        self.redis = redis.Redis(port=port, retry=retry, socket_timeout=REPLY_TIMEOUT, decode_responses=True)
        self.process = next(recorder.processes)

    def fresh(self):
        self.drawn += 1
        return self.drawn * 1000 + self.number

    def run(self):
        self.connect()
        while time.monotonic() < end:
            do = self.count if self.random.random() < 0.2 else self.transact
            try:
                do()
            except Refused:
                time.sleep(0.02)
            except Unknown:
                time.sleep(0.05)
                self.connect()

    def count(self):
        ledger.begin()
        try:
            ledger.acknowledge(carried_out(lambda: self.redis.incr(COUNTER)))
        except Refused:
            ledger.fail()
            raise

    def transact(self):
        read, written = self.random.sample(LISTS, 2)
        value = self.fresh()
        append, look = ["append", written, value], ["r", read, None]
        kinds = {
            "append": ([append], lambda: self.append(written, value)),
            "read": ([look], lambda: [self.redis.lrange(read, 0, -1)]),
            "multi": ([look, append], lambda: self.multi(read, written, value)),
            "watch": ([look, append], lambda: self.watch(read, written, value)),
            "script": ([look, append], lambda: [self.redis.eval(SCRIPT, 2, read, written, value)]),
            "tally": ([["append", TALLY, value]], lambda: self.tally(value)),
        }
        operations, do = kinds[self.random.choice(list(kinds))]
        recorder.event("invoke", self.process, operations)
        try:
            seen = carried_out(do)
        except Refused:
            recorder.event("fail", self.process, operations)
            raise
        except Unknown:
            recorder.event("info", self.process, operations)
            raise
        recorder.event("ok", self.process, with_reads(operations, seen))

    def append(self, written, value):
        self.redis.rpush(written, value)
        return []

    def multi(self, read, written, value):
        return self.redis.pipeline().lrange(read, 0, -1).rpush(written, value).execute()[:1]

    def watch(self, read, written, value):
        with self.redis.pipeline() as pipe:
            pipe.watch(read)
            seen = pipe.lrange(read, 0, -1)
            pipe.multi()
            pipe.rpush(written, value).execute()
            return [seen]

    def tally(self, value):
        length, count = self.redis.pipeline().rpush(TALLY, value).incr(COUNT).execute()
        assert length == count, f"a transaction was torn: {length} elements, {count} increments"
        return []

    def read_everything(self):
        operations = [["r", name, None] for name in [*LISTS, TALLY]]
        recorder.event("invoke", self.process, operations)
        pipe = self.redis.pipeline()
        for name in [*LISTS, TALLY]:
            pipe.lrange(name, 0, -1)
        try:
            *lists, count, counter = carried_out(lambda: pipe.get(COUNT).get(COUNTER).execute())
        except (Refused, Unknown):
            recorder.event("fail", self.process, operations)
            raise
        recorder.event("ok", self.process, with_reads(operations, lists))
        return lists, int(count or 0), int(counter or 0)


def with_reads(operations, seen):
    reads = iter(seen)
    return [
        ["r", key, [int(element) for element in next(reads)]] if kind == "r" else [kind, key, value]
        for kind, key, value in operations
    ]


def run(client):
    try:
        client.run()
    except BaseException as error:
        trouble.append(error)
        raise


def last_look():
    client, deadline = Client(CLIENTS), time.monotonic() + FINAL_TIMEOUT
    while True:
        client.connect()
        try:
            return client.read_everything()
        except (Refused, Unknown):
            assert time.monotonic() < deadline, "the doors do not serve again"
            time.sleep(0.1)


def acknowledged_appends():
    """What each list has to hold, as the history says."""
    recorder.file.flush()
    appended = {}
    for line in map(json.loads, open(HISTORY)):
        for kind, key, value in line["value"] if line["type"] == "ok" else []:
            if kind == "append":
                appended.setdefault(key, set()).add(value)
    return appended


threads = [threading.Thread(target=run, args=(Client(number),)) for number in range(CLIENTS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
lists, count, counter = last_look()
appended = acknowledged_appends()
for name, elements in zip([*LISTS, TALLY], lists):
    lost = appended.get(name, set()) - {int(element) for element in elements}
    assert not lost, f"acknowledged writes to {name} are lost: {lost}"
assert count == len(lists[-1]), f"{len(lists[-1])} elements, {count} increments"
assert max(ledger.told) <= counter and len(ledger.told) <= counter <= ledger.begun, (ledger.told, counter, ledger.begun)
assert not trouble, trouble
recorder.file.close()
print("redis-py", redis.__version__, "works:", recorder.index, "events,", counter, "increments")
