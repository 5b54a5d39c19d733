"""The applications of ``docs/gallery``: each runs against the cluster, and gets through trouble as the guide advises."""

import importlib.util
import pathlib
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import quorate

GALLERY = pathlib.Path(__file__).parent.parent / "gallery"

CLOSING = {
    "auction": "bids that were confirmed stand, each above the one before it.",
    "bank": "Each transfer stands in the books once, and the books balance.",
    "locks": "clients wanted it at once, and had it in turn",
    "shop": "nothing is lost, and nothing was sold twice.",
    "timeline": "no timeline has shown one without the post that it replies to.",
}
"""How the story of each application ends."""


def load(program):
    """An application, as a module."""
    name = f"gallery_{program}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, GALLERY / f"{program}.py")
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@pytest.mark.parametrize("program", sorted(path.stem for path in GALLERY.glob("*.py")))
def test_two_people_run_an_application_at_once(program, cluster, capsys):
    main = load(program).main
    with ThreadPoolExecutor(2) as pool:
        for run in [pool.submit(main, cluster.address) for _ in range(2)]:
            run.result()
    told = capsys.readouterr().out
    assert told.count(CLOSING[program]) == 2
    assert "were shown 0 bids" not in told, "nothing was shown before it was final"


def trouble(kind, token=None):
    """An error as the client raises it."""
    error = kind("trouble")
    error.token, error.retry = token, kind is not quorate.Unknown
    return error


class Troubled:
    """A keyspace that is overloaded at first, then is in a conflict, and then carries out what it is asked and loses the answer."""

    def __init__(self, keyspace):
        self.keyspace = keyspace
        self.troubles = [quorate.Overloaded, quorate.Conflict, quorate.Unknown]

    def __getattr__(self, name):
        return getattr(self.keyspace, name)

    def meet(self, call, receipt_of):
        kind = self.troubles.pop(0) if self.troubles else None
        if kind in (quorate.Overloaded, quorate.Conflict):
            raise trouble(kind)
        result = call()
        if kind is quorate.Unknown:
            raise trouble(kind, receipt_of(result).token)
        return result

    def apply(self, batch):
        return self.meet(lambda: self.keyspace.apply(batch), lambda applied: applied.receipt)

    def transact_with_receipt(self, function, *arguments):
        return self.meet(lambda: self.keyspace.transact_with_receipt(function, *arguments), lambda result: result[1])

    def transact(self, function, *arguments):
        return self.transact_with_receipt(function, *arguments)[0]


class TroubledDatabase:
    """A database with one keyspace, which is in trouble."""

    def __init__(self, db, keyspace):
        self.troubled = Troubled(keyspace)
        self.outcome = db.outcome

    def keyspace(self, _name):
        return self.troubled


def test_an_order_is_placed_once_although_its_answer_is_lost(db, serializable, key):
    shop, troubled = load("shop"), Troubled(serializable)
    assert shop.again(db, lambda: shop.place(troubled, key, "1")) is None, (
        "the answer was lost, and the order was found"
    )
    assert not troubled.troubles
    assert shop.again(db, lambda: shop.place(troubled, key, "2")) == -2


def test_a_transfer_is_made_once_although_its_answer_is_lost(db, strict, key):
    bank, troubled = load("bank"), TroubledDatabase(db, strict)
    strict.put(f"{key}/account/anna", "100")
    assert bank.transfer(troubled, key, "1", "anna", "ben", 70) == "made"
    assert not troubled.troubled.troubles
    assert bank.transfer(troubled, key, "2", "anna", "ben", 70) == "refused"
    assert bank.transfer(troubled, key, "1", "anna", "ben", 70) == "made"
    assert strict.get_many([f"{key}/account/anna", f"{key}/account/ben"]) == [b"30", b"70"]


def test_a_post_is_published_once_although_its_answer_is_lost(cluster, parallel_snapshot, key):
    timeline = load("timeline")
    with quorate.connect(cluster.address) as db:
        db.create_keyspace("network", "parallel-snapshot", if_absent=True)
    user = timeline.User(cluster.address, "site2", key)
    user.network = Troubled(user.network)
    post = user.network.container(key).new_id()
    user.run(timeline.publish, key, post, "hello")
    assert not user.network.troubles
    with user.network.transaction() as txn:
        assert list(txn.set_iter(f"{{{key}}}/timeline")) == [(post, 1)]
    user.db.close()


def test_a_lot_is_sold_once_although_the_answer_is_lost(db, snapshot, key):
    auction, troubled = load("auction"), TroubledDatabase(db, snapshot)
    snapshot.put(f"{{{key}}}/highest", "70 anna open")
    assert auction.hammer(troubled, key) == (70, "anna")
    assert not troubled.troubled.troubles
    bidder = auction.Bidder("ben", "site1")
    auction.bid(TroubledDatabase(db, snapshot), key, bidder)
    assert snapshot.get(f"{{{key}}}/highest") == b"70 anna sold", "a bid after the hammer counted"
    assert not bidder.shown + bidder.confirmed + bidder.sorry


def test_a_lease_is_taken_once_although_its_answer_is_lost(db, strict, key, monkeypatch):
    locks = load("locks")
    monkeypatch.setattr(locks, "LEASE_MICROS", 60_000_000)
    lock = locks.Lock(TroubledDatabase(db, strict), key, "anna")
    assert lock.acquire() == 1
    assert not lock.locks.troubles
    assert lock.acquire() == 1, "she renews it"
    ben = locks.Lock(TroubledDatabase(db, strict), key, "ben")
    ben.locks.troubles.clear()
    assert ben.acquire() is None
    lock.release(1)
    assert ben.acquire() == 2
