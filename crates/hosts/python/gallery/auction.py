"""An auction that shows a bid at once, before the other side of the world has agreed, and apologizes for the few that are taken back.

    quorate dev
    python auction.py

Isolation: ``snapshot``, with results that are shown early. A bid commits at the nearest node and is shown then; of two bids that do not know of each other
one becomes final. The hammer cannot be taken back, so it waits until it is final.
"""

import random
import secrets
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import quorate

BIDDERS = 2
"""How many there are at each site."""
OPEN_SECONDS = 0.5
STEP = 10
TRIES_MAX = 10
THINK_SECONDS, PAUSE_SECONDS_MAX = 0.03, 0.5
PROBABLE = 0.3
"""How probably a bid has to become final for it to be shown before."""


@dataclass
class Bidder:
    """A bidder at one site, and the amounts that she was told of."""

    name: str
    site: str
    shown: list[int] = field(default_factory=list)
    confirmed: list[int] = field(default_factory=list)
    sorry: list[int] = field(default_factory=list)


def highest(txn: quorate.Transaction, lot: str) -> tuple[int, str, str]:
    """The highest bid, its bidder, and whether the lot is ``open`` or ``sold``."""
    amount, name, state = (txn.get(f"{{{lot}}}/highest") or b"0 nobody open").decode().split()
    return int(amount), name, state


def bid(db: quorate.Database, lot: str, bidder: Bidder) -> None:
    """Bids a step more than the highest bid, unless that is her own, or the lot is sold."""
    # Page: bid
    with db.keyspace("auctions").transaction() as txn:
        txn.set_kind("bid")
        amount, leader, state = highest(txn, lot)
        if state == "sold" or leader == bidder.name:
            return
        amount += STEP
        txn.put(f"{{{lot}}}/highest", f"{amount} {bidder.name} open")
        txn.put(f"{{{lot}}}/bid/{amount:06}", bidder.name)
        try:
            if txn.info().commit_probability > PROBABLE:
                told = txn.commit_speculatively()
                if told.is_shown:
                    bidder.shown.append(amount)  # "You lead."
                told.receipt()  # waits until it is final
            else:
                txn.commit()  # too many are taken back just now, so nothing is shown before it is final
            bidder.confirmed.append(amount)  # "Your bid is confirmed."
        except quorate.ApologyOwed:
            bidder.sorry.append(amount)  # "We are sorry: somebody else was faster."
        except quorate.Unknown as error:
            if db.outcome(error.token or "") is not None:  # settles it
                bidder.confirmed.append(amount)
            elif amount in bidder.shown:
                bidder.sorry.append(amount)
    # Page ends.


def take_part(address: str, lot: str, bidder: Bidder, end: float) -> None:
    """Bids until the auction ends."""
    pause = THINK_SECONDS
    with quorate.connect(address, site=bidder.site) as db:
        while time.monotonic() < end:
            try:
                bid(db, lot, bidder)
                pause = THINK_SECONDS
            except quorate.Overloaded as error:
                time.sleep(error.retry_after)
            except (quorate.Conflict, quorate.Unavailable):
                pause = min(2 * pause, PAUSE_SECONDS_MAX)  # nothing was shown: let others go first
            time.sleep(random.uniform(0, pause))


def sell(txn: quorate.Transaction, lot: str) -> tuple[int, str]:
    """Sells the lot to the highest bidder. To do it again changes nothing."""
    # Page: sell
    amount, name, _ = highest(txn, lot)
    txn.put(f"{{{lot}}}/highest", f"{amount} {name} sold")  # a bid writes this key, too: no late one slips in
    return amount, name
    # Page ends.


def hammer(db: quorate.Database, lot: str) -> tuple[int, str]:
    """Lets the hammer fall, and returns when that is final."""
    for _ in range(TRIES_MAX):
        try:
            return db.keyspace("auctions").transact(sell, lot)
        except quorate.Unknown as error:
            db.outcome(error.token or "")
        except quorate.Error as error:
            if not error.retry:
                raise
            time.sleep(error.retry_after if isinstance(error, quorate.Overloaded) else 0.1)
    raise RuntimeError("the lot cannot be sold for now")


def main(address: str) -> None:
    with quorate.connect(address) as db:
        auctions = db.create_keyspace("auctions", "snapshot", if_absent=True, tuner=False)  # show whatever can be shown
        lot = f"clock-{secrets.token_hex(4)}"
        bidders = [Bidder(f"bidder{number}@{site}", site) for site in db.sites() for number in range(BIDDERS)]
        with ThreadPoolExecutor(len(bidders)) as pool:
            end = time.monotonic() + OPEN_SECONDS
            for part in [pool.submit(take_part, address, lot, bidder, end) for bidder in bidders]:
                part.result()
        amount, winner = hammer(db, lot)
        told = sum(len(bidder.shown) for bidder in bidders)
        sorry = sum(len(bidder.sorry) for bidder in bidders)
        print(
            f"{len(bidders)} bidders were shown {told} bids before they were final, and {sorry} of these were taken back."
        )
        print(f"{winner} has the lot, for {amount}.")

        confirmed = sorted((amount, bidder.name) for bidder in bidders for amount in bidder.confirmed)
        stands = [(int(key[-6:]), name.decode()) for key, name in auctions.scan(prefix=f"{{{lot}}}/bid/")]
        assert confirmed == stands, "a bid was confirmed that does not stand, or the other way round"
        steps = list(range(STEP, amount + STEP, STEP))
        assert [amount for amount, _ in stands] == steps, "a bid did not know of another one"
        assert stands[-1] == (amount, winner), "somebody has bid more than the winner"
        print(f"All {len(confirmed)} bids that were confirmed stand, each above the one before it.")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:7400")
