"""Functions that are run as transactions, and again after conflicts."""

import pytest
import quorate


def test_a_function_is_run_again_after_a_conflict(strict, key):
    strict.put(key, "1")
    runs = []

    @strict.transact
    def number(txn):
        runs.append(txn)
        found = int(txn.get(key))
        if len(runs) == 1:
            strict.put(key, "10")
        txn.put(key, str(found + 1))
        return found

    assert number == 10
    assert len(runs) == 2
    assert strict.get(key) == b"11"


def test_a_conflict_that_a_function_raises_runs_it_again(strict, key):
    runs = []

    def twice(txn):
        runs.append(txn)
        txn.put(key, str(len(runs)))
        if len(runs) == 1:
            raise quorate.Conflict("somebody was in the way")

    _, receipt = strict.transact_with_receipt(twice)
    assert receipt.attempts == 2
    assert strict.get(key) == b"2"


def test_an_exception_of_a_function_aborts_and_passes_through(strict, key):
    class Mine(Exception):
        pass

    mine = Mine()

    def give_up(txn):
        txn.put(key, "1")
        raise mine

    with pytest.raises(Mine) as raised:
        strict.transact(give_up)
    assert raised.value is mine
    assert strict.get(key) is None
    with pytest.raises(KeyboardInterrupt):

        @strict.transact
        def interrupted(txn):
            txn.put(key, "1")
            raise KeyboardInterrupt

    assert strict.get(key) is None


def test_conflicts_end_at_the_deadline(strict, key):
    runs = []

    def always_in_the_way(txn):
        runs.append(txn)
        raise quorate.Conflict("again")

    with pytest.raises(quorate.Conflict):
        strict.with_deadline(1).transact(always_in_the_way)
    assert len(runs) > 1


def test_a_decorated_function_is_a_transaction_each_time(strict, key):
    @strict.transactional
    def move(txn, source, target, amount=1):
        """Moves an amount."""
        left = int(txn.get(source)) - amount
        if left < 0:
            raise ValueError("not enough")
        txn.put(source, str(left))
        txn.put(target, str(int(txn.get(target) or 0) + amount))
        return left

    assert move.__doc__ == "Moves an amount."
    bob = f"{key}/bob"
    strict.put(key, "5")
    assert move(key, bob, amount=3) == 2
    assert move(key, bob) == 1
    with pytest.raises(ValueError, match="not enough"):
        move(key, bob, 2)
    assert strict.get_many([key, bob]) == [b"1", b"4"]


def test_a_function_neither_commits_nor_aborts_by_itself(strict, key):
    def commits(txn):
        txn.put(key, "1")
        txn.commit()

    with pytest.raises(RuntimeError, match="transact commits"):
        strict.transact(commits)
    assert strict.get(key) is None


def test_a_transaction_that_was_kept_can_do_nothing(strict, key):
    kept = strict.transact(lambda txn: txn)
    with pytest.raises(quorate.TransactionOver):
        kept.put(key, "1")
    with pytest.raises(quorate.TransactionOver):
        kept.get(key)


def test_an_async_function_is_refused(strict):
    async def body(txn):
        pass

    with pytest.raises(TypeError, match="quorate.aio"):
        strict.transact(body)


def test_a_transaction_with_a_marker_commits_once(keyspaces, key):
    for keyspace in keyspaces.values():
        marker = quorate.Marker(f"{{{key}}}/paid", request="order 1007")
        runs = []

        def pay(txn, amount, runs=runs):
            runs.append(amount)
            left = int(txn.get(f"{{{key}}}/balance") or b"100") - amount
            txn.put(f"{{{key}}}/balance", str(left))
            return str(left)

        paid = keyspace.transact_once(marker, pay, 30)
        assert (paid.answer, paid.is_repeat, paid.receipt.attempts) == (b"70", False, 1)
        again = keyspace.transact_once(marker, pay, 30)
        assert (again.answer, again.is_repeat, again.receipt) == (b"70", True, None)
        assert runs == [30]
        assert "a repeat" in repr(again)
        with pytest.raises(quorate.Invalid):
            keyspace.transact_once(quorate.Marker(marker.key, request="order 1008"), pay, 30)
        with pytest.raises(quorate.Invalid):
            keyspace.transact_once(quorate.Marker(f"{{{key}}}/balance"), pay, 30)
        assert keyspace.get(f"{{{key}}}/balance") == b"70"


def test_a_marker_is_forgotten_after_its_time_and_swept(strict, key):
    marker = quorate.Marker(f"{key}/paid", retention=0)
    for _ in range(2):
        assert not strict.transact_once(marker, lambda txn: b"done").is_repeat
    assert strict.sweep_markers(f"{key}/", f"{key}0") == (1, None)
    assert strict.get(marker.key) is None


def test_a_function_that_fails_leaves_no_answer(strict, key):
    marker = quorate.Marker(f"{key}/paid")

    def fail(txn):
        raise LookupError("nobody is there")

    with pytest.raises(LookupError):
        strict.transact_once(marker, fail)
    with pytest.raises(TypeError):
        strict.transact_once(marker, lambda txn: 7)
    assert strict.get(marker.key) is None
    assert not strict.transact_once(marker, lambda txn: "done").is_repeat
