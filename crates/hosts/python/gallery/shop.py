"""A shop that sells one article to everybody at once, and never more of it than there is.

    quorate dev
    python shop.py

Isolation: ``serializable``. An order is a batch on the keys of one article, which share a tag and so a shard. That shard carries it out from beginning to
end, in its turn: nothing is locked, and nothing is run again because others order as well.
"""

import contextlib
import secrets
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import quorate

CUSTOMERS = 6
ORDERS = 10
"""How many orders each customer places."""
STOCK, MORE = 50, 20
"""How many packets there are, and how many come later."""
TRIES_MAX = 10

T = TypeVar("T")


def again(db: quorate.Database, attempt: Callable[[], T]) -> T:
    """The result of an attempt. It may be repeated, because it recognises what it has done already."""
    for _ in range(TRIES_MAX):
        try:
            return attempt()
        except quorate.Overloaded as error:
            time.sleep(error.retry_after)
        except quorate.Unknown as error:
            # Asking settles it: it has happened, or it never will. Where nobody can tell, the key of the order still does.
            with contextlib.suppress(quorate.TooOld, quorate.Unavailable, quorate.Unknown):
                db.outcome(error.token or "")
        except quorate.Error as error:
            if not (error.retry or isinstance(error, quorate.AnswersLost)):
                raise
            time.sleep(0.1)
    raise RuntimeError("the shop is closed for now: nothing can be ordered")


def place(shop: quorate.Keyspace, article: str, order: str) -> int | None:
    """How many are left behind this order: it waits for the next delivery if that is less than zero. ``None`` if it was placed before."""
    # Page: order
    applied = shop.apply(
        quorate.Batch()
        .expect_absent(f"{{{article}}}/order/{order}")  # however often the button is pressed
        .put(f"{{{article}}}/order/{order}", "placed")
        .increment(f"{{{article}}}/stock", -1)
    )
    return applied.answers[1] if applied else None
    # Page ends.


def cancel(shop: quorate.Keyspace, article: str, order: str) -> bool:
    """Takes an order back, and gives its place to the next one. False if there is none."""
    batch = quorate.Batch().expect_exists(f"{{{article}}}/order/{order}")
    return bool(shop.apply(batch.delete(f"{{{article}}}/order/{order}").increment(f"{{{article}}}/stock")))


def deliver(shop: quorate.Keyspace, article: str, delivery: str, packets: int) -> bool:
    """Adds a delivery to the stock. False if it was added before."""
    batch = quorate.Batch().expect_absent(f"{{{article}}}/delivery/{delivery}")
    batch.put(f"{{{article}}}/delivery/{delivery}", str(packets)).increment(f"{{{article}}}/stock", packets)
    return bool(shop.apply(batch))


def customer(address: str, seen: str, article: str, name: str, start: threading.Barrier) -> tuple[list[int], str]:
    """Orders with an impatient finger: each order is sent twice. Gives how many were left behind each, and what this session has seen."""
    with quorate.connect(address) as db:
        db.observe(seen)  # this session comes after the one that has filled the shop
        shop = db.keyspace("shop")
        start.wait()
        told = []
        for number in range(ORDERS):
            order = partial(place, shop, article, f"{name}-{number}")
            first, second = again(db, order), again(db, order)
            assert second is None, "an order that was sent twice counted twice"
            if first is not None:  # else its answer was lost on the way
                told.append(first)
        return told, db.seen()


def main(address: str) -> None:
    with quorate.connect(address) as db:
        shop = db.create_keyspace("shop", "serializable", if_absent=True, shards=4)
        article = f"tea-{secrets.token_hex(4)}"
        again(db, partial(deliver, shop, article, "first", STOCK))
        begun, start = time.monotonic(), threading.Barrier(CUSTOMERS, timeout=60)
        with ThreadPoolExecutor(CUSTOMERS) as pool:
            names = [f"customer{number}" for number in range(CUSTOMERS)]
            told = list(pool.map(lambda name: customer(address, db.seen(), article, name, start), names))
        for _, seen in told:
            db.observe(seen)
        left = [number for numbers, _ in told for number in numbers]
        took = time.monotonic() - begun
        at_once = sum(number >= 0 for number in left)
        print(f"{CUSTOMERS} customers placed {len(left)} orders, each of them twice, in {took:.1f} s.")
        print(f"There were {STOCK}: {at_once} leave today, {len(left) - at_once} wait for the next delivery.")

        again(db, partial(cancel, shop, article, "customer0-0"))
        again(db, partial(deliver, shop, article, "second", MORE))
        print(f"One order was cancelled, and a delivery of {MORE} has come.")

        orders = len(list(shop.scan(prefix=f"{{{article}}}/order/")))
        stock = int(shop.get(f"{{{article}}}/stock") or 0)
        assert len(set(left)) == len(left), "two orders were promised the same packet"
        assert at_once <= STOCK, "more was promised than there was"
        assert stock + orders == STOCK + MORE, "something was sold that never came, or came and was never sold"
        print(f"{orders} orders stand, and {stock} are left: nothing is lost, and nothing was sold twice.")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:7400")
