"""A bank with a branch in each of three regions, whose books balance at every instant.

    quorate dev
    python bank.py

Isolation: ``strict``. A transfer that one branch has confirmed is in the books of all branches, and an audit sees every transfer wholly or not at all,
wherever it reads. Each transfer has a number, under which it is carried out once, however often it is sent.
"""

import contextlib
import random
import secrets
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import quorate

CLIENTS = ["anna", "ben", "carla", "dora", "emil", "frida"]
DEPOSIT = 100
TRANSFERS = 8
"""How many transfers each branch makes."""
TRIES_MAX = 10


def open_accounts(txn: quorate.Transaction, bank: str) -> None:
    """Opens an account for each client."""
    for client in CLIENTS:
        txn.put(f"{bank}/account/{client}", str(DEPOSIT))


def move(txn: quorate.Transaction, bank: str, number: str, source: str, target: str, amount: int) -> str:
    """Moves money, or refuses to. A number has one answer: if it is sent again, that is given once more, and nothing is moved."""
    # Page: move
    entry, payer, payee = f"{bank}/transfer/{number}", f"{bank}/account/{source}", f"{bank}/account/{target}"
    answered, left, had = txn.get_many([entry, payer, payee])
    if answered:
        return answered.decode()
    answer = "made" if int(left or 0) >= amount else "refused"
    if answer == "made":
        txn.put(payer, str(int(left or 0) - amount))
        txn.put(payee, str(int(had or 0) + amount))
    txn.put(entry, answer)
    return answer
    # Page ends.


def transfer(db: quorate.Database, bank: str, number: str, source: str, target: str, amount: int) -> str:
    """Carries a transfer out once, whatever happens, and gives its answer."""
    # Page: transfer
    accounts = db.keyspace("bank")
    for _ in range(TRIES_MAX):
        try:
            return accounts.transact(move, bank, number, source, target, amount)
        except quorate.Unknown as error:
            # Asking settles it: it has committed, or it never will. Where nobody can tell, the number still does.
            with contextlib.suppress(quorate.TooOld, quorate.Unavailable, quorate.Unknown):
                db.outcome(error.token or "")
        except quorate.Overloaded as error:
            time.sleep(error.retry_after)
        except (quorate.Conflict, quorate.Unavailable):
            time.sleep(random.uniform(0.05, 0.2))
    raise RuntimeError(f"it is not known whether transfer {number} was made: send it again, under this number")
    # Page ends.


def branch(address: str, bank: str, site: str, start: threading.Barrier) -> list[str]:
    """Makes transfers from one region, each of them sent twice, and gives their answers."""
    answers, dice = [], random.Random(site)
    with quorate.connect(address, site=site) as db:
        start.wait()
        for number in range(TRANSFERS):
            source, target = dice.sample(CLIENTS, 2)
            amount = dice.randrange(20, 80)
            first, second = (transfer(db, bank, f"{site}-{number}", source, target, amount) for _ in range(2))
            assert first == second, "one number had two answers"
            answers.append(first)
    return answers


def audit(accounts: quorate.Keyspace, bank: str) -> int:
    """All money there is: one snapshot, of all accounts."""
    return sum(int(left) for _, left in accounts.scan(prefix=f"{bank}/account/"))


def audits(address: str, bank: str, site: str, is_over: threading.Event) -> int:
    """Audits while others transfer. Tells how often."""
    count = 0
    with quorate.connect(address, site=site) as db:
        while count == 0 or not is_over.is_set():
            assert audit(db.keyspace("bank"), bank) == DEPOSIT * len(CLIENTS), f"the books of {site} do not balance"
            count += 1
            time.sleep(0.02)
    return count


def main(address: str) -> None:
    with quorate.connect(address) as db:
        accounts = db.create_keyspace("bank", "strict", if_absent=True, shards=4)
        bank, sites, is_over = secrets.token_hex(4), db.sites(), threading.Event()
        accounts.transact(open_accounts, bank)
        start = threading.Barrier(len(sites), timeout=60)
        with ThreadPoolExecutor(2 * len(sites)) as pool:
            auditors = [pool.submit(audits, address, bank, site, is_over) for site in sites]
            try:
                answers = sum(pool.map(lambda site: branch(address, bank, site, start), sites), [])
            finally:
                is_over.set()
            audited = sum(auditor.result() for auditor in auditors)
        made, refused = answers.count("made"), answers.count("refused")
        print(f"{len(sites)} branches sent {len(answers)} transfers, each twice: {made} made, {refused} refused.")
        print(f"{audited} audits ran meanwhile, and each found {DEPOSIT * len(CLIENTS)}.")

        with quorate.connect(address, site=sites[-1]) as far:
            transfer(db, bank, "last", "anna", "ben", 0)
            seen = far.keyspace("bank").get(f"{bank}/transfer/last")
        assert seen == b"made", f"{sites[-1]} does not see what was confirmed elsewhere"
        entries = [answer for _, answer in accounts.scan(prefix=f"{bank}/transfer/")]
        assert entries.count(b"made") == made + 1, "a transfer was made twice, or never"
        assert audit(accounts, bank) == DEPOSIT * len(CLIENTS), "money was made, or lost"
        print("Each transfer stands in the books once, and the books balance.")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:7400")
