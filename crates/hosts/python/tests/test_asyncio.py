"""The interface for ``asyncio``."""

import asyncio
import gc
import inspect

import pytest
import quorate
import quorate.aio
from conftest import ISOLATIONS


@pytest.fixture
async def adb(cluster, keyspaces):
    async with quorate.aio.connect(cluster.address) as connected:
        yield connected


@pytest.fixture(params=ISOLATIONS)
async def akeyspace(request, adb):
    return await adb.keyspace(f"of-{request.param}")


@pytest.fixture
async def astrict(adb):
    return await adb.keyspace("of-strict")


async def test_transactions_run(adb, akeyspace, key):
    async with akeyspace.transaction() as txn:
        assert await txn.get(key) is None
        txn.put(key, "1")
    assert await adb.outcome(txn.token) == txn.receipt.timestamp
    with pytest.raises(ZeroDivisionError):
        async with akeyspace.transaction() as txn:
            txn.put(key, "2")
            1 / 0
    assert await akeyspace.get(key) == b"1"
    assert await akeyspace.get_many([key, f"{key}/absent"]) == [b"1", None]
    assert (await akeyspace.apply(quorate.Batch().expect(key, "1").increment(key))).answers == [2]
    await (await akeyspace.put(f"{key}/2", "2")).durable()
    await akeyspace.delete(key)
    assert [entry async for entry in akeyspace.scan(prefix=key)] == [(f"{key}/2".encode(), b"2")]


async def test_tasks_that_count_up_lose_nothing(akeyspace, key):
    async def count(txn, by):
        number = int(await txn.get(key) or b"0") + by
        txn.put(key, str(number))
        return number

    patient = akeyspace.with_deadline(60)
    seen = await asyncio.gather(*(patient.transact(count, 1) for _ in range(12)))
    assert sorted(seen) == list(range(1, 13))
    counted = akeyspace.transactional(count)
    assert await counted(8) == 20


async def test_exceptions_of_a_function_abort_it(astrict, key):
    async def give_up(txn):
        txn.put(key, "1")
        raise LookupError

    with pytest.raises(LookupError):
        await astrict.transact(give_up)
    with pytest.raises(TypeError, match="async function"):
        await astrict.transact(lambda txn: txn.put(key, "1"))
    assert await astrict.get(key) is None


async def test_calls_run_beside_each_other_in_one_transaction(astrict, key):
    async with astrict.transaction() as txn:
        values = await asyncio.gather(*(txn.get(f"{key}/{number}") for number in range(20)))
        txn.put(key, "1")
    assert values == [None] * 20


async def test_a_call_that_is_cancelled_is_given_up(adb, astrict, key):
    task = asyncio.create_task(astrict.get(key))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(astrict.get(key), 0)
    txn = await astrict.begin()
    await txn.get(key)
    txn.put(key, "1")
    commit = asyncio.create_task(txn.commit())
    await asyncio.sleep(0)
    commit.cancel()
    with pytest.raises(asyncio.CancelledError):
        await commit
    committed = await adb.outcome(txn.token)
    assert await astrict.get(key) == (b"1" if committed else None)


async def test_a_task_that_is_cancelled_in_a_block_aborts_it(adb, astrict, key):
    tokens = []

    async def stay():
        async with astrict.transaction() as txn:
            await txn.get(key)
            txn.put(key, "1")
            tokens.append(txn.token)
            await asyncio.sleep(60)

    async def stay_in_transact(txn):
        txn.put(key, "1")
        await asyncio.sleep(60)

    for work in (stay(), astrict.transact(stay_in_transact)):
        task = asyncio.create_task(work)
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert await adb.outcome(tokens[0]) is None
    assert await astrict.get(key) is None


async def test_one_wake_up_brings_many_answers(cluster, keyspaces, key, monkeypatch):
    drains = 0
    native = quorate.aio._native

    class Counted:
        """Operations whose event loop is told to call this in place of theirs."""

        def __new__(cls, loop, future):
            nonlocal drains
            operations = native.Operations(loop, future)
            watch = loop.add_reader

            def counted():
                nonlocal drains
                drains += 1
                operations.drain()

            monkeypatch.setattr(loop, "add_reader", lambda fd, _: watch(fd, counted))
            return operations

    class Native:
        Operations = Counted
        connect = staticmethod(native.connect)

    monkeypatch.setattr(quorate.aio, "_native", Native)
    async with quorate.aio.connect(cluster.address) as adb:
        monkeypatch.undo()
        keyspace = await adb.keyspace("of-strict")
        drains = 0
        for _ in range(4):
            await asyncio.gather(*(keyspace.get(f"{key}/{number}") for number in range(250)))
        assert 0 < drains < 500, f"{drains} wake-ups for 1,000 answers"


async def test_a_database_belongs_to_its_event_loop(astrict):
    def elsewhere():
        return asyncio.run(astrict.get("a"))

    with pytest.raises(RuntimeError, match="another event loop"):
        await asyncio.to_thread(elsewhere)


async def test_calls_that_are_open_at_the_end_are_told(cluster, keyspaces, silent):
    adb = await quorate.aio.connect(cluster.address)
    keyspace = await adb.keyspace("of-strict")
    # The transaction waits for the end of its function, and this for the transaction.
    attempts = keyspace._native.attempts()
    await attempts.begin()
    waits = attempts.begin()
    await adb.close()
    with pytest.raises(quorate.Closed):
        await waits
    await adb.close()
    with pytest.raises(quorate.Closed):
        await keyspace.get("a")
    with pytest.raises(quorate.Error):
        async with quorate.aio.connect(silent, connect_timeout=0.2):
            pass


async def test_sets_counters_and_containers_work(adb, key):
    keyspace = await adb.keyspace("of-parallel-snapshot")
    container = keyspace.container(key)
    post = container.new_id()
    async with keyspace.transaction() as txn:
        txn.put(post, "hello")
        txn.set_add(f"{{{key}}}/posts", post)
        txn.counter_add(f"{{{key}}}/count", 2)
    async with keyspace.transaction() as txn:
        assert [element async for element in txn.set_iter(f"{{{key}}}/posts")] == [(post, 1)]
        assert [member.value async for member in txn.get_members(f"{{{key}}}/posts")] == [b"hello"]
        assert await txn.counter_get(f"{{{key}}}/count") == 2
    assert await container.preferred_site() in adb.sites()
    soon = await keyspace.begin()
    soon.put(f"{{{key}}}/a", "1")
    soon = await soon.commit_soon()
    async with keyspace.transaction(after=soon) as txn:
        assert await txn.get(f"{{{key}}}/a") == b"1"
    assert (await soon.receipt()).token == soon.token


async def test_results_are_shown_early(adb, key):
    keyspace = await adb.keyspace("of-snapshot")
    for _ in range(100):
        try:
            async with keyspace.transaction() as txn:
                txn.put(key, "1")
                told = await txn.commit_speculatively()
            async with keyspace.transaction(after=told) as later:
                assert await later.get(key) == b"1"
            assert (await told.receipt()).token == told.token == txn.token
            return
        except (quorate.Conflict, quorate.ApologyOwed):
            # A busy machine takes back results that were shown early.
            continue
    raise AssertionError("another transaction was always in the way")


async def test_an_open_transaction_is_warned_of(astrict):
    txn = await astrict.begin()
    with pytest.warns(ResourceWarning, match="left open"):
        del txn
        gc.collect()


def test_both_interfaces_have_the_same_names():
    for name in ("connect", *(name for name in quorate.aio.__all__)):
        assert hasattr(quorate, name), name
    for kind in ("Database", "Keyspace", "Container", "Transaction"):
        blocking, asynchronous = getattr(quorate, kind), getattr(quorate.aio, kind)
        names = {name for name in dir(blocking) if name[0] != "_"}
        assert names == {name for name in dir(asynchronous) if name[0] != "_"}
        for name in names:
            one, other = getattr(blocking, name), getattr(asynchronous, name)
            if callable(one):
                assert inspect.signature(one) == inspect.signature(other), f"{kind}.{name}"
            assert one.__doc__, f"{kind}.{name}"


def test_a_transaction_with_a_marker_commits_once(cluster, strict, key):
    async def pay():
        async with quorate.aio.connect(cluster.address) as db:
            keyspace = await db.keyspace(strict.name)
            marker = quorate.Marker(f"{key}/paid")

            async def body(txn, left):
                txn.put(key, left)
                return left

            first = await keyspace.transact_once(marker, body, "70")
            again = await keyspace.transact_once(marker, body, "40")
            await keyspace.transact_once(quorate.Marker(f"{key}/over", retention=0), body, "70")
            return first, again, await keyspace.sweep_markers(f"{key}/", f"{key}0")

    first, again, swept = asyncio.run(pay())
    assert (first.answer, first.is_repeat, again.answer, again.is_repeat) == (b"70", False, b"70", True)
    assert swept == (1, None)
    assert strict.get(key) == b"70"
