"""The examples of ``docs/python.md``.

The code between ``# Page: NAME`` and ``# Page ends.`` is shown there, and ``cargo xtask check tidy`` compares the two.
"""

import pytest
import quorate
import quorate.aio
from conftest import undisturbed


@pytest.fixture
def address(cluster):
    return cluster.address


@pytest.fixture
def accounts(db):
    created = db.create_keyspace("accounts", if_absent=True)
    created.transact(lambda txn: [txn.put(name, "100") for name in ("alice", "bob")])
    return created


def test_the_first_transaction(address, accounts):
    # Page: first
    import quorate

    db = quorate.connect(address)
    accounts = db.create_keyspace("accounts", if_absent=True)
    with accounts.transaction() as txn:
        txn.put("alice", "100")
    # Page ends.
    assert accounts.get("alice") == b"100"
    db.close()


class Index:
    """A consumer that keeps what it is told, and its cursor."""

    def __init__(self):
        self.held, self.cursor = {}, None

    def apply(self, timestamp, key, value):
        self.held[key] = value

    def keep(self, cursor):
        self.cursor = cursor


def test_a_consumer_of_changes(db, accounts):
    orders, index = db.create_keyspace("orders", "serializable", if_absent=True, durability="memory"), Index()
    kept = orders.changes().cursor
    orders.put("order/1", "one book")
    until = orders.put("order/2", "two books").timestamp
    # Page: follow
    for page in orders.changes(kept):  # or orders.watch("key", kept), orders.watch_prefix("user/", kept)
        for change in page.changes:
            for key, value in change.writes:  # None for a key that was deleted
                index.apply(change.timestamp, key, value)
        index.keep(page.cursor)  # with what was applied, in one transaction if that can be
        if page.has_passed(until):
            break
    # Page ends.
    assert index.held == {b"order/1": b"one book", b"order/2": b"two books"}
    assert index.cursor != kept


def test_a_transaction_that_commits_once(accounts):
    accounts.put("{alice}/balance", "100")

    def pay(txn, amount):
        left = int(txn.get("{alice}/balance")) - amount
        txn.put("{alice}/balance", str(left))
        return str(left)

    # Page: once
    marker = quorate.Marker("paid/{alice}/1007", request="30")
    paid = accounts.transact_once(marker, pay, 30)  # the function gives the answer, bytes or text
    print(paid.answer, paid.is_repeat)
    # Page ends.
    assert (paid.answer, paid.is_repeat) == (b"70", False)
    again = accounts.transact_once(marker, pay, 30)
    assert (again.answer, again.is_repeat, accounts.get("{alice}/balance")) == (b"70", True, b"70")


def test_an_index(db):
    users = db.create_keyspace("users", if_absent=True, durability="memory")
    # Page: index
    users.create_index("by-city", "json:/city")  # unique=True, unparsable="leave-out"
    users.put("ada", '{"city":"London"}')
    for found in users.find("by-city", "London").entries:  # also of a transaction, and find_range
        print(found.key, found.value)
    # Page ends.
    assert [found.key for found in users.find("by-city", "London").entries] == [b"ada"]


def test_a_development_cluster_prints_the_line_to_paste(cluster):
    lines = [line.split("Python: ")[1] for line in cluster.welcome.splitlines() if "Python: " in line]
    assert lines == [f'quorate.connect("{cluster.address}")']
    with eval(lines[0]) as db:
        assert db.sites() == ["site1", "site2", "site3"]


def test_ways_to_run_a_transaction(db, accounts):
    # Page: block
    with accounts.transaction() as txn:
        left = int(txn.get("alice")) - 40
        txn.put("alice", str(left))
    print(txn.receipt.token, txn.receipt.timestamp)

    # Page ends.
    assert left == 60

    # Page: transact
    @accounts.transact
    def left(txn):
        alice = int(txn.get("alice"))
        txn.put("alice", str(alice - 40))
        return alice - 40

    # Page ends.
    assert left == 20

    # Page: transactional
    @accounts.transactional
    def transfer(txn, source, target, amount):
        left = int(txn.get(source)) - amount
        if left < 0:
            raise ValueError("not enough")  # nothing is committed
        txn.put(source, str(left))
        txn.put(target, str(int(txn.get(target) or 0) + amount))

    transfer("bob", "alice", 30)
    # Page ends.
    assert accounts.get_many(["alice", "bob"]) == [b"50", b"70"]
    # Page: batch
    transfer = quorate.Batch().expect_at_least("alice", 10).increment("alice", -10).increment("bob", 10)
    if accounts.apply(transfer):
        print("done")
    # Page ends.
    assert accounts.get_many(["alice", "bob"]) == [b"40", b"80"]


def test_reading(accounts):
    at = accounts.put("carol", "1").timestamp
    # Page: read
    alice, bob = accounts.get_many(["alice", "bob"])  # strict
    then = accounts.read_at(at, ["alice", "bob"])  # a snapshot in the past
    recent = accounts.read_stale(5, ["alice"])  # at most five seconds old
    print(recent.values, "as of", recent.timestamp)

    for key, value in accounts.scan(prefix="a", limit=1_000):  # all pages are one snapshot
        print(key, value)
    # Page ends.
    assert [alice, bob] == then


def test_outcomes(db, accounts):
    def notify(text):
        pass

    # Page: outcome
    txn = accounts.begin()
    txn.put("alice", "0")
    try:
        txn.commit()
    except quorate.Unknown as unknown:
        timestamp = db.outcome(unknown.token)  # None: it has not committed, and will not
        notify("done" if timestamp else "run it again")
    # Page ends.
    assert db.outcome(txn.token) == txn.receipt.timestamp


async def test_asyncio(address, accounts):
    # Page: asyncio
    import asyncio

    async def visit(accounts, name):
        async def count(txn):
            visits = int(await txn.get(name) or 0) + 1
            txn.put(name, str(visits))
            return visits

        return await accounts.transact(count)

    async with quorate.aio.connect(address) as db:
        accounts = await db.keyspace("accounts")
        await asyncio.gather(*(visit(accounts, f"visits/{number}") for number in range(100)))
        async for key, value in accounts.scan(prefix="visits/"):
            print(key, value)
        # Page ends.
        assert await accounts.get("visits/99") == b"1"


def test_a_shop_without_conflicts(db):
    # Page: serializable
    shop = db.create_keyspace("bookshop", "serializable", if_absent=True)
    order = (
        quorate.Batch()
        .expect_absent("{alice}/order/1007")
        .put("{alice}/order/1007", "3 pens")
        .increment("{alice}/orders")
    )
    applied = shop.apply(order)
    if applied:
        print("order number", applied.answers[1])
    else:
        print("condition", applied.condition, "does not hold:", applied.found)
    # Page ends.
    assert applied.answers[1] == 1


def test_a_network_of_friends(db):
    # Page: parallel-snapshot
    network = db.create_keyspace("network", "parallel-snapshot", if_absent=True)
    with network.transaction() as txn:
        txn.put("{bob}/profile", "Bob, from the west")
        txn.set_add("{alice}/friends", "bob")  # never conflicts, at whatever site
        txn.counter_add("{bob}/likes", 1)
    txn.receipt.visible()  # every site reads it from here on
    with network.transaction() as txn:
        friends = [friend for friend, count in txn.set_iter("{alice}/friends") if count > 0]
    # Page ends.
    assert friends == [b"bob"]


def test_an_order_that_is_shown_early(db):
    told = []

    def sell(tell):
        # Page: snapshot
        shop = db.create_keyspace("early", "snapshot", if_absent=True)
        with shop.transaction() as order:
            order.put("order/1", "one book")
            told = order.commit_speculatively()
        if told.is_shown:
            tell(f"Thank you! Your order is {told.token}.")
        with shop.transaction(after=told) as mail:
            mail.put("mail/1", "your order")
        try:
            told.receipt()  # waits until it is final
        except quorate.ApologyOwed:
            tell("We are sorry.")
        # Page ends.
        return shop.get("mail/1")

    assert undisturbed(lambda: sell(told.append)) == b"your order"


def test_a_session_of_a_user(address, db, accounts):
    # Page: observe
    cookie = db.seen()  # here
    with quorate.connect(address) as other:  # there, maybe at another site
        other.observe(cookie)
        # Page ends.
        assert other.seen()
