"""Errors: their details, and whether anything can have happened."""

import inspect
import pathlib
import pickle
import re
import signal
import time

import pytest
import quorate
import quorate.errors
from conftest import Cluster


def test_a_conflict_may_be_run_again(strict, key):
    one, other = strict.begin(), strict.begin()
    for txn in (one, other):
        assert txn.get(key) is None
        txn.put(key, "1")
    one.commit()
    with pytest.raises(quorate.Conflict) as raised:
        other.commit()
    assert raised.value.retry and not raised.value.may_have_happened
    assert "run the transaction again" in str(raised.value)
    assert pickle.loads(pickle.dumps(raised.value)).retry


def test_every_error_of_the_guide_has_a_class():
    with open(f"{__file__.rsplit('/', 1)[0]}/../../../../docs/guide.md") as guide:
        table = guide.read().split("## Errors")[1].split("\n\n")[2]
    names = {name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)", row.split("|")[1])}
    names -= {"token", "missing", "name", "reason", "site", "retry_after", "step", "key", "fault", "shard", "refusal"}
    assert len(names) > 15 and "Conflict" in names
    for name in names:
        assert issubclass(getattr(quorate, name), quorate.Error), name
    exported = {name for name in quorate.errors.__all__}
    defined = {name for name, _ in inspect.getmembers(quorate.errors, inspect.isclass) if name[0] != "_"}
    assert exported == defined
    assert all(getattr(quorate, name).__doc__ for name in exported)


def test_no_server_is_an_error_that_names_the_address():
    with pytest.raises(quorate.Connect, match="127.0.0.1:9") as raised:
        quorate.connect("127.0.0.1:9", connect_timeout=1)
    assert raised.value.tried[0][0] == "127.0.0.1:9"
    assert not raised.value.may_have_happened


def test_a_missing_keyspace_names_those_that_are_there(db, keyspaces):
    with pytest.raises(quorate.NoSuchKeyspace, match="of-strict"):
        db.keyspace("nowhere")


def test_a_keyspace_is_created_once(db, keyspaces):
    with pytest.raises(quorate.KeyspaceExists):
        db.create_keyspace("of-strict")
    assert db.create_keyspace("of-strict", durability="memory", if_absent=True).name == "of-strict"
    with pytest.raises(quorate.KeyspaceExists, match="durability memory, not sync"):
        db.create_keyspace("of-strict", if_absent=True)
    with pytest.raises(quorate.KeyspaceExists, match="isolation strict, not serializable"):
        db.create_keyspace("of-strict", "serializable", if_absent=True)


def test_a_keyspace_is_created_dropped_and_brought_back(db):
    db.create_keyspace("short-lived", "serializable", shards=2, durability="memory").put("a", "1")
    listed = {known.name: known for known in db.list()}
    assert (listed["short-lived"].isolation, listed["short-lived"].shards) == ("serializable", 2)
    db.drop_keyspace("short-lived")
    assert "short-lived" not in [known.name for known in db.list()]
    assert "short-lived" in [dropped.name for dropped in db.dropped_keyspaces()]
    db.undrop_keyspace("short-lived", rename="long-lived")
    assert db.keyspace("long-lived").get("a") == b"1"
    db.drop_keyspace("long-lived", delete_after=0)


def test_options_that_do_not_fit_are_refused(db):
    for options, said in [
        ({"isolation": "none"}, "strict"),
        ({"isolation": "strict", "variant": "planet"}, "snapshot"),
        ({"isolation": "snapshot", "variant": "fast"}, "str-external"),
        ({"isolation": "strict", "replicas": 2}, "odd"),
    ]:
        with pytest.raises(quorate.Invalid, match=said):
            db.create_keyspace("refused", **options)
    with pytest.raises(TypeError, match="create_keyspace.*'shard'"):
        db.create_keyspace("refused", shard=3)


def stop(process):
    """Stops a process. The signal comes when it comes: a commit on loopback may be faster."""
    process.send_signal(signal.SIGSTOP)
    threads = pathlib.Path(f"/proc/{process.pid}/task")
    deadline = time.monotonic() + 60
    while any(state(thread) != "T" for thread in threads.iterdir()):
        assert time.monotonic() < deadline, "the process does not stop"
        time.sleep(0.001)


def state(thread):
    """The state of a thread. It stands behind the name, which may hold blanks and brackets."""
    return (thread / "stat").read_text().rpartition(")")[2].split()[0]


def test_a_cluster_that_does_not_answer_leaves_a_commit_unknown(tmp_path):
    stopped = Cluster(tmp_path / "data")
    try:
        with quorate.connect(stopped.address) as db:
            keyspace = db.create_keyspace("a", durability="memory")
            keyspace.put("a", "1")
            hasty = keyspace.with_deadline(1)
            txn = hasty.begin()
            txn.get("a")
            txn.put("a", "2")
            stop(stopped.process)
            with pytest.raises(quorate.Unknown) as raised:
                txn.commit()
            unknown = raised.value
            assert unknown.token == txn.token and unknown.may_have_happened and not unknown.retry
            with pytest.raises(quorate.Unavailable) as raised:
                hasty.get("a")
            assert raised.value.retry and not raised.value.may_have_happened
            assert raised.value.missing and not raised.value.needs_operator
            stopped.process.send_signal(signal.SIGCONT)
            deadline = time.monotonic() + 60
            while True:
                try:
                    outcome = db.outcome(unknown.token)
                    break
                except (quorate.Unknown, quorate.Unavailable):
                    assert time.monotonic() < deadline
            assert keyspace.get("a") == (b"2" if outcome else b"1")
    finally:
        stopped.process.send_signal(signal.SIGCONT)
        stopped.stop()


def test_transactions_that_are_open_are_limited(cluster, keyspaces):
    with quorate.connect(cluster.address, open_transactions_max=2) as db:
        keyspace = db.keyspace("of-strict")
        with keyspace.transaction(), keyspace.transaction():
            with pytest.raises(quorate.Invalid, match="open_transactions_max"):
                keyspace.begin()
        keyspace.begin().abort()


def test_a_closed_database_says_so(cluster, keyspaces):
    db = quorate.connect(cluster.address)
    keyspace = db.keyspace("of-strict")
    txn = keyspace.begin()
    db.close()
    db.close()
    transact = lambda: keyspace.transact(lambda txn: None)  # noqa: E731
    for use in (lambda: keyspace.get("a"), lambda: txn.get("a"), keyspace.begin, transact, db.list, txn.commit):
        with pytest.raises(quorate.Closed):
            use()


def test_a_snapshot_that_is_too_old_names_the_oldest(strict, key):
    strict.put(key, "1")
    with pytest.raises(quorate.SnapshotTooOld) as raised:
        strict.read_at(quorate.Timestamp("1@1"), [key])
    assert raised.value.oldest.micros > 1


def test_an_outcome_that_is_too_old_is_not_known(db):
    with pytest.raises(quorate.TooOld) as raised:
        db.outcome("9f3a61c0.12.0.64a1b.3")
    assert raised.value.token == "9f3a61c0.12.0.64a1b.3"
    assert raised.value.may_have_happened
    with pytest.raises(quorate.Invalid, match="no.* token|not a transaction token"):
        db.outcome("nonsense")
