"""Values that expire: keyspaces are created for it."""

import math
import time

import pytest
import quorate
from conftest import undisturbed


@pytest.fixture(params=["strict", "snapshot"], scope="module")
def sessions(request, db):
    return db.create_keyspace(f"sessions-{request.param}", request.param, expiring=True)


def test_a_key_holds_a_value_for_its_lifetime(sessions, key):
    sessions.put(key, "ada", ttl=3600)
    assert sessions.get(key) == b"ada"
    assert 3000 < sessions.ttl(key) <= 3600
    sessions.put(key, "bob", ttl=0.05)
    time.sleep(0.2)
    assert sessions.get(key) is None and sessions.ttl(key) is None
    assert sessions.read_only([key]).values == [None]

    def renew():
        with sessions.transaction() as txn:
            assert txn.get(key) is None
            txn.put(key, "eve", ttl=60)
            assert txn.ttl(key) <= 60
            txn.put(f"{key}/stays", "1")

    undisturbed(renew)
    assert sessions.get(key) == b"eve"
    assert sessions.ttl(f"{key}/stays") == math.inf


def test_what_cannot_be_is_refused(sessions, strict, key):
    with pytest.raises(quorate.Invalid, match="not possible"):
        sessions.put(key, "1", ttl=0)
    with pytest.raises(quorate.Invalid, match="--expiring"):
        strict.put(key, "1", ttl=60)
