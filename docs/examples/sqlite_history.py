#!/usr/bin/env python3
"""Runs transactions on lists against SQLite and prints what they saw, for `quorate check`.

    python3 sqlite_history.py --transactions none | quorate check - --level serializable
    python3 sqlite_history.py --transactions immediate | quorate check - --level strict-serializable

A list is a text of numbers in one row. Several clients, each with a connection of its own, take turns at random, one
statement at a time; the same --seed takes the same turns. `--transactions` says how their statements are held together:

    none       not at all: each statement is a transaction of its own
    deferred   BEGIN, which takes locks when they are needed and fails if they are taken
    immediate  BEGIN IMMEDIATE, which waits for the only write lock
"""

import argparse
import json
import os
import random
import sqlite3
import sys
import tempfile
import time

KEYS = ["a", "b", "c", "d"]


class Recorder:
    """Prints one JSON line per event. There is one of it, so that the order of the lines is the order in time."""

    def __init__(self):
        self.index = 0
        self.start = time.monotonic_ns()

    def event(self, kind, process, ops):
        line = {
            "index": self.index,
            "type": kind,
            "process": process,
            "f": "txn",
            "time": time.monotonic_ns() - self.start,
            "value": ops,
        }
        print(json.dumps(line))
        self.index += 1


class Client:
    """One process: it runs one transaction at a time, statement by statement."""

    def __init__(self, process, path, begin, recorder):
        self.process = process
        self.begin = begin
        self.recorder = recorder
        # Autocommit, so that transactions are only what we begin; no waiting for locks, since we take turns.
        self.db = sqlite3.connect(path, isolation_level=None, timeout=0)
        self.ops = None

    def invoke(self, ops):
        self.ops = ops
        self.done = []
        self.statements = ([self.begin] if self.begin else []) + ops + (["COMMIT"] if self.begin else [])
        # Record the invocation before anything is sent.
        self.recorder.event("invoke", self.process, ops)

    def step(self):
        """Runs the next statement."""
        statement = self.statements[0]
        try:
            if isinstance(statement, str):
                self.db.execute(statement)
            else:
                self.done.append(self.run(*statement))
        except sqlite3.OperationalError:
            # The lock is taken. What only waits to begin, or to run a statement by itself, tries again at its next turn.
            if statement == "BEGIN IMMEDIATE" or not self.begin:
                return
            self.db.execute("ROLLBACK")
            self.finish("fail", self.ops)
            return
        self.statements.pop(0)
        if not self.statements:
            self.finish("ok", self.done)

    def run(self, kind, key, value):
        if kind == "append":
            self.db.execute("UPDATE lists SET list = list || ' ' || ? WHERE key = ?", (value, key))
            return ["append", key, value]
        (text,) = self.db.execute("SELECT list FROM lists WHERE key = ?", (key,)).fetchone()
        return ["r", key, [int(element) for element in text.split()]]

    def finish(self, kind, ops):
        self.recorder.event(kind, self.process, ops)
        self.ops = None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--transactions", choices=["none", "deferred", "immediate"], default="none")
    parser.add_argument("--count", type=int, default=300, help="how many transactions")
    parser.add_argument("--clients", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    begin = {"none": None, "deferred": "BEGIN", "immediate": "BEGIN IMMEDIATE"}[arguments.transactions]
    chance = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "lists.db")
        db = sqlite3.connect(path, isolation_level=None)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = OFF")
        db.execute("CREATE TABLE lists (key TEXT PRIMARY KEY, list TEXT NOT NULL)")
        db.executemany("INSERT INTO lists VALUES (?, '')", [(key,) for key in KEYS])
        recorder = Recorder()
        clients = [Client(process, path, begin, recorder) for process in range(arguments.clients)]
        value = 0
        left = arguments.count
        while left > 0 or any(client.ops for client in clients):
            client = chance.choice(clients)
            if client.ops:
                client.step()
            elif left > 0:
                left -= 1
                ops = []
                for key in chance.sample(KEYS, 3):
                    if chance.random() < 0.5:
                        ops.append(["r", key, None])
                    else:
                        value += 1
                        ops.append(["append", key, value])
                client.invoke(ops)
        # One last transaction reads every list, so that the order of all appends is known.
        last = Client(arguments.clients, path, begin, recorder)
        last.invoke([["r", key, None] for key in KEYS])
        while last.ops:
            last.step()
    sys.stdout.flush()


if __name__ == "__main__":
    main()
