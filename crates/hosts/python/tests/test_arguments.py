"""Arguments that no call can take."""

import datetime
import pickle

import pytest
import quorate


@pytest.mark.parametrize("wrong", [1, None, 1.5, bytearray(b"a"), memoryview(b"a"), ["a"], object()])
def test_keys_and_values_are_bytes_or_text(strict, wrong):
    for use in (
        lambda: strict.get(wrong),
        lambda: strict.put("a", wrong),
        lambda: strict.get_many([wrong]),
        lambda: quorate.Batch().put(wrong, "a"),
    ):
        with pytest.raises(TypeError, match="bytes, or str, which is encoded as UTF-8"):
            use()
    with strict.transaction() as txn:
        with pytest.raises(TypeError, match="bytes, or str"):
            txn.put(wrong, "a")


def test_text_that_is_no_utf_8_is_refused(strict):
    with pytest.raises(UnicodeEncodeError):
        strict.get("\ud800")


def test_one_key_is_not_several(strict):
    for one in ("abc", b"abc"):
        with pytest.raises(TypeError, match="several keys"):
            strict.get_many(one)
    with pytest.raises(TypeError):
        strict.get_many(7)


def test_keys_without_end_are_refused(strict):
    def endless():
        while True:
            yield "a"

    with pytest.raises(ValueError, match="at most 100000 keys"):
        strict.get_many(endless())


def test_limits_are_named(strict):
    for use in (
        lambda: strict.get(b""),
        lambda: strict.get("x" * (quorate.KEY_BYTES_MAX + 1)),
        lambda: strict.put("a", bytes(quorate.VALUE_BYTES_MAX + 1)),
    ):
        with pytest.raises(quorate.Invalid) as raised:
            use()
        assert not raised.value.may_have_happened


def test_bytes_of_any_kind_make_the_round_trip(strict, key):
    every = bytes(range(256))
    strict.put(key.encode() + every, every)
    assert strict.get(key.encode() + every) == every
    assert list(strict.scan(prefix=key.encode() + b"\0")) == [(key.encode() + every, every)]
    strict.put(key, "")
    assert strict.get(key) == b""
    strict.put(key, "Grüße")
    assert strict.get(key).decode() == "Grüße"


@pytest.mark.parametrize("wrong", [-1, float("nan"), float("inf"), 1e300, datetime.timedelta(days=-1)])
def test_times_are_within_a_year(strict, wrong):
    with pytest.raises(ValueError, match="a time is"):
        strict.with_deadline(wrong)


def test_times_are_seconds_or_deltas(strict, key):
    strict.put(key, "1")
    assert strict.with_deadline(datetime.timedelta(seconds=5)).get(key) == b"1"
    with pytest.raises(TypeError, match="datetime.timedelta"):
        strict.with_deadline("soon")

    class Lies:
        def total_seconds(self):
            return "long"

    with pytest.raises(TypeError):
        strict.with_deadline(Lies())


def test_ranges_are_told_once(strict):
    with pytest.raises(TypeError, match="not by both"):
        strict.scan("a", prefix="b")
    for wrong in ({"limit": -1}, {"page": 0}, {"page": 10_001}):
        with pytest.raises(ValueError):
            strict.scan(**wrong)


def test_a_batch_is_no_list(strict):
    with pytest.raises(TypeError):
        strict.apply([])
    assert strict.apply(quorate.Batch()).answers == []
    with pytest.raises(OverflowError):
        quorate.Batch().increment("a", 2**63)


def test_timestamps_are_values():
    one, other = quorate.Timestamp("5@a"), quorate.Timestamp("17@2")
    assert one < other and one == quorate.Timestamp("5@A") and hash(one) == hash(quorate.Timestamp("5@a"))
    assert pickle.loads(pickle.dumps(one)) == one
    assert (str(one), repr(one), one.micros) == ("5@a", "Timestamp('5@a')", 5)
    for wrong in ("", "5", "@", "5@", "x@1", "-1@1", "99999999999999999999@1"):
        with pytest.raises(quorate.Invalid, match="no timestamp"):
            quorate.Timestamp(wrong)


def test_options_are_of_their_types(db, cluster):
    for wrong in ({"deadline": "soon"}, {"site": 5}, {"open_transactions_max": "many"}):
        with pytest.raises(TypeError, match=f"argument '{next(iter(wrong))}'"):
            quorate.connect(cluster.address, **wrong)
    with pytest.raises(ValueError, match="a time is"):
        quorate.connect(cluster.address, deadline=-1)
    with pytest.raises(TypeError, match="addresses are"):
        quorate.connect(7400)
    with pytest.raises(TypeError, match="argument 'sites'"):
        db.create_keyspace("wrong", sites="site1")
    with pytest.raises(TypeError):
        db.keyspace(b"bytes")


def test_a_token_of_a_session_is_text(db):
    seen = db.seen()
    db.observe(seen)
    for wrong in ("", "what~ever", "9" * 10_000):
        with pytest.raises(quorate.Invalid):
            db.observe(wrong)
