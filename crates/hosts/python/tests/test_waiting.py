"""Calls that wait: other threads run, and Ctrl-C is heard."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest
import quorate


def test_other_threads_run_while_a_call_waits(silent):
    counted = 0
    is_over = threading.Event()

    def count():
        nonlocal counted
        while not is_over.is_set():
            counted += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    with pytest.raises(quorate.Error):
        quorate.connect(silent, connect_timeout=0.5)
    is_over.set()
    thread.join()
    assert counted > 50


def test_a_call_is_interrupted_within_a_tenth_of_a_second(silent):
    program = """
        import os, signal, threading, time, quorate

        def interrupt():
            time.sleep(0.3)
            global sent
            sent = time.monotonic()
            os.kill(os.getpid(), signal.SIGINT)

        # A program that was started in the background ignores it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        threading.Thread(target=interrupt).start()
        try:
            quorate.connect("SILENT", connect_timeout=30)
        except KeyboardInterrupt:
            print(time.monotonic() - sent)
    """.replace("SILENT", silent)
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=20)
    assert ran.returncode == 0, ran.stderr
    took = float(ran.stdout)
    # A machine that is busy may be late by itself.
    assert took < 0.1 * max(1, os.getloadavg()[0] / 2), f"{took} s"


def test_a_commit_that_is_interrupted_can_be_asked_for(db, strict, key):
    def interrupt(signum, frame):
        raise InterruptedError

    before = signal.signal(signal.SIGALRM, interrupt)
    txn = strict.begin()
    txn.get(key)
    txn.put(key, "1")
    try:
        with pytest.raises(InterruptedError):
            signal.setitimer(signal.ITIMER_REAL, 0.000_5)
            # The signal may be heard before the commit begins, while it waits, or after it.
            txn.commit()
            time.sleep(1)
    finally:
        signal.signal(signal.SIGALRM, before)
    if not txn._is_over:
        txn.abort()
    committed = db.outcome(txn.token)
    assert strict.get(key) == (b"1" if committed else None)


def test_a_thread_that_waits_is_told_when_the_database_is_closed(cluster, keyspaces):
    db = quorate.connect(cluster.address)
    # The transaction waits for the end of its function, and this for the transaction.
    attempts = db.keyspace("of-strict")._native.attempts()
    attempts.begin()
    told = []

    def wait():
        try:
            attempts.begin()
        except quorate.Closed as closed:
            told.append(closed)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.1)
    db.close()
    thread.join(20)
    assert len(told) == 1


def test_a_program_that_just_ends_leaves_nothing_behind(cluster, keyspaces, key):
    program = f"""
        import quorate
        db = quorate.connect("{cluster.address}")
        keyspace = db.keyspace("of-strict")
        keyspace.put("{key}", "1")
        txn = keyspace.begin()
        txn.put("{key}", "2")
    """
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=20
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert keyspaces["strict"].get(key) == b"1"
