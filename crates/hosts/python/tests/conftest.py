"""A development cluster for all tests, and its keyspaces.

``QUORATE`` names the binary. A run that takes longer than ``QUORATE_TEST_SECONDS``, by default ten minutes, is ended, and says where it stood.
"""

import faulthandler
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import pytest
import quorate
import quorate.aio

ISOLATIONS = ["strict", "serializable", "snapshot", "parallel-snapshot"]
SITES = 3
SECONDS_MAX = float(os.environ.get("QUORATE_TEST_SECONDS", "600"))


started = []
"""The processes of clusters that are running."""


def give_up():
    """Ends a run that hangs: no exception would reach a thread that waits for ever."""
    faulthandler.dump_traceback(file=sys.__stderr__)
    for process in started:
        process.kill()
    os._exit(1)


def pytest_configure(config):
    config.patience = threading.Timer(SECONDS_MAX, give_up)
    config.patience.daemon = True
    config.patience.start()


def pytest_unconfigure(config):
    config.patience.cancel()


def free_ports(count):
    """The first of so many ports in a row that nobody listens on."""
    for _ in range(100):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            first = probe.getsockname()[1]
        listeners = []
        try:
            for port in range(first, first + count):
                listener = socket.socket()
                listeners.append(listener)
                listener.bind(("127.0.0.1", port))
            return first
        except (OSError, OverflowError):
            continue
        finally:
            for listener in listeners:
                listener.close()
    raise RuntimeError(f"there are no {count} free ports in a row")


class Cluster:
    """A process of ``quorate dev``."""

    def __init__(self, folder, *arguments):
        first = free_ports(SITES)
        self.address = f"127.0.0.1:{first}"
        command = [os.environ["QUORATE"], "dev", "--dir", str(folder), "--listen", self.address, *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        started.append(self.process)
        self.welcome = ""
        for line in self.process.stdout:
            self.welcome += line
            if "Ctrl-C" in line:
                return
        raise RuntimeError(f"the cluster did not start (exit code {self.process.wait()}): {self.welcome}")

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        started.remove(self.process)


@pytest.fixture(scope="session")
def cluster():
    with tempfile.TemporaryDirectory() as folder:
        started = Cluster(pathlib.Path(folder) / "data")
        try:
            yield started
        finally:
            started.stop()


@pytest.fixture(scope="session")
def db(cluster):
    with quorate.connect(cluster.address) as connected:
        yield connected


@pytest.fixture(scope="session")
def keyspaces(db):
    """A keyspace of each isolation, by the name of that."""
    return {
        isolation: db.create_keyspace(f"of-{isolation}", isolation, durability="memory") for isolation in ISOLATIONS
    }


@pytest.fixture(params=ISOLATIONS)
def keyspace(request, keyspaces):
    return keyspaces[request.param]


@pytest.fixture
def strict(keyspaces):
    return keyspaces["strict"]


@pytest.fixture
def serializable(keyspaces):
    return keyspaces["serializable"]


@pytest.fixture
def snapshot(keyspaces):
    return keyspaces["snapshot"]


@pytest.fixture
def parallel_snapshot(keyspaces):
    return keyspaces["parallel-snapshot"]


@pytest.fixture
def silent():
    """The address of a listener that accepts and never answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(8)
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def undisturbed(attempt):
    """The result of an attempt that no other transaction was in the way of. A busy machine takes back results that were shown early."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return attempt()
        except (quorate.Conflict, quorate.ApologyOwed):
            assert time.monotonic() < deadline


_names = iter(range(1_000_000))


@pytest.fixture
def key():
    """A key that no other test uses."""
    return f"key-{next(_names)}"
