"""A lock with a lease: it comes free if its holder dies, and a holder that only slept can do no harm.

    quorate dev
    python locks.py

Isolation: ``strict``. Of all clients that want a lease one takes it, and each lease has a greater *fencing token* than those before it. When a lease has
expired is told by the timestamps of transactions. They come from the clocks of clients, and a wrong clock may end a lease early: so what the lock
protects refuses tokens that are less than one it has seen.
"""

import json
import secrets
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import quorate

LEASE_MICROS = 400_000
RENEWALS = 4
CROWD = 5
"""How many clients want the lock at once in the end."""
TRIES_MAX = 10
PATIENCE_SECONDS = 30


class Lock:
    """A lock, as one client sees it."""

    def __init__(self, db: quorate.Database, name: str, client: str) -> None:
        self.db, self.locks, self.name, self.client = db, db.keyspace("locks"), name, client

    def swap(self, found: bytes | None, holder: str, token: int, expires: int) -> bool:
        """Writes a lease if the one that was found is still there."""
        batch = quorate.Batch().put(self.name, json.dumps([holder, token, expires]))
        batch = batch.expect_absent(self.name) if found is None else batch.expect(self.name, found)
        try:
            return bool(self.locks.apply(batch))
        except quorate.Unknown as error:
            return self.db.outcome(error.token or "") is not None  # settles it: committed, or never

    def acquire(self) -> int | None:
        """Takes the lock, or renews the lease. Gives its fencing token; ``None`` if another client has the lock."""
        for _ in range(TRIES_MAX):
            try:
                # Page: acquire
                seen = self.locks.read_only([self.name])
                found, now = seen.values[0], seen.timestamp.micros
                holder, token, expires = json.loads(found or '["nobody", 0, 0]')
                if now >= expires:
                    token += 1  # a new lease
                elif holder != self.client:
                    return None
                is_taken = self.swap(found, self.client, token, now + LEASE_MICROS)
                return token if is_taken else None
                # Page ends.
            except quorate.Error as error:
                if not error.retry:
                    raise
                time.sleep(error.retry_after if isinstance(error, quorate.Overloaded) else 0.02)
        return None

    def release(self, token: int) -> None:
        """Lets the next client have the lock at once. If this fails, it has it when the lease has expired."""
        found = self.locks.get(self.name)
        if found is not None and json.loads(found)[:2] == [self.client, token]:
            self.swap(found, self.client, token, 0)

    def wait(self) -> int:
        """Waits for the lock, and gives the token."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (token := self.acquire()) is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name} has been locked for {PATIENCE_SECONDS} s")
            time.sleep(0.02)
        return token


class Printer:
    """Something outside of the database that one client may use at a time. All that it has to remember is a number."""

    def __init__(self) -> None:
        self.mutex, self.greatest, self.pages = threading.Lock(), 0, list[tuple[int, str]]()

    def print(self, token: int, client: str) -> bool:
        """Prints a page. False, and no page, if a later lease was used before."""
        with self.mutex:
            # Page: fence
            if token < self.greatest:
                return False
            self.greatest = token
            # Page ends.
            self.pages.append((token, client))
            return True


def sleeper(lock: Lock, printer: Printer, has_lock: threading.Event, is_over: threading.Event) -> tuple[int, bool]:
    """Takes the lock, renews it for a while, and then does not know that time has passed. Gives the token, and whether a late page was printed."""
    token = lock.wait()
    has_lock.set()
    for _ in range(RENEWALS):
        if lock.acquire() != token:
            break  # it was too late: another lease has begun
        printer.print(token, lock.client)
        time.sleep(LEASE_MICROS / 4e6)
    is_over.wait(PATIENCE_SECONDS)  # a collection of garbage, or a laptop that is closed
    return token, printer.print(token, lock.client)


def take_turn(lock: Lock, printer: Printer) -> int:
    """Takes the lock, prints a page, and lets go of it. Gives the token."""
    while not printer.print(token := lock.wait(), lock.client):
        pass  # the lease was over before the page came
    lock.release(token)
    return token


def main(address: str) -> None:
    with quorate.connect(address) as db, ThreadPoolExecutor(CROWD) as pool:
        db.create_keyspace("locks", "strict", if_absent=True)
        name, printer = f"printer-{secrets.token_hex(4)}", Printer()
        has_lock, is_over = threading.Event(), threading.Event()
        anna = pool.submit(sleeper, Lock(db, name, "anna"), printer, has_lock, is_over)
        has_lock.wait(PATIENCE_SECONDS)
        begun = time.monotonic()
        later = take_turn(Lock(db, name, "ben"), printer)
        waited = time.monotonic() - begun
        print(f"Anna renewed her lease and fell asleep. Ben waited for {waited:.1f} s, and printed with lease {later}.")
        is_over.set()
        early, was_late_page_printed = anna.result()
        assert early < later and not was_late_page_printed, "two clients have used the printer at once"
        print(f"Anna woke up and printed with lease {early}: the printer has refused it.")

        crowd = [Lock(db, name, f"client{number}") for number in range(CROWD)]
        tokens = list(pool.map(lambda lock: take_turn(lock, printer), crowd))
        assert len({later, *tokens}) == CROWD + 1, "two clients had one lease"
        used = [token for token, _ in printer.pages]
        assert used == sorted(used), "a lease was used after a later one"
        assert len(set(printer.pages)) == len(set(used)), "two clients used one lease"
        print(f"{CROWD} clients wanted it at once, and had it in turn: leases {min(tokens)} to {max(tokens)}.")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:7400")
