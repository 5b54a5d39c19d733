"""The blocking interface: calls wait for their answers, and let other threads run meanwhile."""

from __future__ import annotations

import functools
import inspect

from quorate import _native
from quorate._base import (
    ChangesBase,
    ContainerBase,
    DatabaseBase,
    ElementsBase,
    KeyspaceBase,
    ScanBase,
    TransactionBase,
    certificates,
    choices,
    create_keyspace,
    element_of_member,
    element_of_pair,
    login,
)
from quorate.errors import Error


def connect(
    addresses,
    *,
    site=None,
    connect_timeout=None,
    deadline=None,
    open_transactions_max=None,
    commits_in_flight_max=None,
    outcome_retention=None,
    delays=None,
    ca=None,
    certificate=None,
    key=None,
    user=None,
    password=None,
    token=None,
):
    """Connects to the cluster that any of these addresses belongs to: ``host:port``, several with commas between them, or a list.

    With the certificates of authorities, the certificate of a user and its key, each a path to a file in PEM, the connection is secured by TLS.
    It logs in as the user of the certificate, or as ``user`` with ``password``, or by a ``token``.
    """
    chosen = choices(
        site, connect_timeout, deadline, open_transactions_max, commits_in_flight_max, outcome_retention, delays
    )
    chosen.update(certificates(ca, certificate, key))
    chosen.update(login(user, password, token))
    return Database(_native.connect(addresses, chosen, None))


class Database(DatabaseBase):
    __doc__ = DatabaseBase.__doc__
    __slots__ = ()

    def keyspace(self, name):
        """A handle on a keyspace."""
        return Keyspace(self._native.keyspace(name))

    def create_keyspace(self, name, isolation="strict", *, if_absent=False, patience=None, **options):
        """Creates a keyspace, and waits until it can be used. With ``if_absent``, one of this name and these options will do that is there."""
        wanted = create_keyspace(isolation, **options)
        return Keyspace(self._native.create_keyspace(name, wanted, if_absent, patience))

    def close(self):
        """Closes the connection once the replicas have been told every outcome, or a second has passed. To close it again does no harm."""
        if not self._is_closed:
            self._is_closed = True
            self._native.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Keyspace(KeyspaceBase):
    __doc__ = KeyspaceBase.__doc__
    __slots__ = ()

    def get_many(self, keys):
        """Reads keys at once, in one round trip, as a transaction would; the values are in their order."""
        return self._native.read_only(keys).values

    def scan(self, start=b"", end=b"", *, prefix=None, limit=None, page=1_000):
        """The entries from ``start`` (included) to ``end`` (excluded), strictly. In ``strict`` keyspaces all pages are one serializable snapshot."""
        return Scan(self._pages(), start, end, prefix, limit, page)

    def scan_at(self, timestamp, start=b"", end=b"", *, prefix=None, limit=None, page=1_000):
        """The entries of a range as they are at a timestamp."""
        return Scan(self._pages_from(None), start, end, prefix, limit, page, timestamp)

    def scan_stale(self, staleness, start=b"", end=b"", *, prefix=None, limit=None, page=1_000):
        """The entries of a range as they were so long ago."""
        pages = self._pages_from(functools.partial(self._native.page_stale, staleness))
        return Scan(pages, start, end, prefix, limit, page)

    def scan_now(self, start=b"", end=b"", *, prefix=None, limit=None, page=1_000):
        """The entries of a range as they are by the clock."""
        return Scan(self._pages_from(self._native.page_now), start, end, prefix, limit, page)

    def begin(self):
        """Begins a transaction that is not run again by itself."""
        return Transaction(self._native.begin())

    def begin_after(self, earlier):
        """Begins a transaction that comes after one whose commit is under way, or was shown."""
        return Transaction(self._native.begin_after(earlier))

    def transaction(self, *, after=None):
        """Begins a transaction for a ``with`` block, which commits it at its end, and aborts it if it is left by an exception."""
        return self.begin() if after is None else self.begin_after(after)

    def transact(self, function, /, *arguments, **named):
        """Runs ``function(txn, …)`` and commits; again if another transaction was in the way, until the deadline. Gives the result of the function.

        The next attempt begins only once the previous one has surely not committed. As a decorator it runs the function at once, and its name stands for
        the result.
        """
        return self.transact_with_receipt(function, *arguments, **named)[0]

    def transact_with_receipt(self, function, /, *arguments, **named):
        """As ``transact``, and gives the receipt as well."""
        attempts = self._native.attempts()
        attempt = attempts.begin()
        while True:
            try:
                result = function(Transaction(attempt, is_managed=True), *arguments, **named)
                if inspect.iscoroutine(result):
                    result.close()
                    raise TypeError("an async function cannot be run here: use quorate.aio")
            except Exception as raised:
                attempt = attempts.give_up(raised)
                if attempt is None:
                    raise
            except BaseException:
                attempts.abandon()
                raise
            else:
                attempt = attempts.commit()
                if attempt is None:
                    return result, attempts.receipt()

    def indexes(self):
        """The indexes of the keyspace, in the order of their creation."""
        return self._native.indexes()

    def create_index(self, name, on, *, unique=False, unparsable="refuse"):
        """Creates an index (``strict`` and ``snapshot``), and waits until it is ready: ``on`` is ``json:/city`` or ``bytes:0..8``.

        A value that does not parse is refused, or has no entry with ``unparsable="leave-out"``. A creation that was interrupted goes on if it is asked for again.
        """
        return self._native.create_index(name, on, unique, unparsable)

    def drop_index(self, name):
        """Drops an index, and waits until its entries are deleted."""
        return self._native.drop_index(name)

    def find(self, index, value, *, limit=1_000, after=None):
        """The keys that an index finds by a value, with what they hold, in a transaction of its own. Go on after a page with ``after=page.next``."""
        return self._native.find(index, value, limit, after)

    def find_range(self, index, start=None, end=None, *, limit=1_000, after=None):
        """As ``find``, by values from one to another one, which is not wanted itself; without an end all."""
        return self._native.find_range(index, start, end, limit, after)

    def transact_once(self, marker, function, /, *arguments, **named):
        """Runs a transaction as ``transact`` does, unless one with this marker has committed: then its answer is given again, and nothing is done.

        The function gives the answer, as bytes or text, and may be repeated after any error, by this program or another one, until there is one.
        """

        def run(txn):
            answer = _native.remembered(marker, txn.get(marker.key))
            if answer is not None:
                return answer, True
            value, answer = _native.remembering(marker, function(txn, *arguments, **named))
            txn.put(marker.key, value)
            return answer, False

        (answer, is_repeat), receipt = self.transact_with_receipt(run)
        return _native.Once(answer, is_repeat, None if is_repeat else receipt)

    def sweep_markers(self, start=b"", end=b""):
        """Deletes the markers of a page of a range whose time is over. Gives how many these were, and the key to go on from, ``None`` at the end."""
        return self._native.sweep_markers(start, end)

    def transactional(self, function):
        """Decorator: each call of the function is a transaction, which it is given as its first argument."""

        @functools.wraps(function)
        def run(*arguments, **named):
            return self.transact(function, *arguments, **named)

        return run

    def changes(self, cursor=None):
        """Every committed write from a cursor on; without one all that commits after this call, and perhaps some of shortly before."""
        return Changes(self._native.changes(cursor))

    def watch(self, key, cursor=None):
        """As ``changes``, of one key."""
        return Changes(self._native.watch(key, cursor))

    def watch_prefix(self, prefix, cursor=None):
        """As ``changes``, of the keys that begin with these bytes."""
        return Changes(self._native.watch_prefix(prefix, cursor))

    def container(self, tag):
        """The container of the objects that have this tag in braces in their keys."""
        return Container(self._native.container(tag))


class Container(ContainerBase):
    __doc__ = ContainerBase.__doc__
    __slots__ = ()


class Changes(ChangesBase):
    __doc__ = ChangesBase.__doc__
    __slots__ = ()

    def __iter__(self):
        return self

    def __next__(self):
        return self._take(self._native.next(self._taken))


class Transaction(TransactionBase):
    __doc__ = TransactionBase.__doc__
    __slots__ = ()

    def scan(self, start=b"", end=b"", *, prefix=None, limit=None, page=1_000):
        """The entries from ``start`` (included) to ``end`` (excluded). Keys that appear in the range later make the commit fail."""
        return Scan(lambda _, *range: self._native.page(*range), start, end, prefix, limit, page)

    def set_iter(self, set, start=b"", end=b"", *, limit=None, from_greatest=False):
        """The elements of a counting set with their counts, ascending, or from the greatest on."""
        return Elements(self._native.elements, element_of_pair, set, start, end, limit, from_greatest)

    def get_members(self, set, start=b"", end=b"", *, limit=None, from_greatest=False):
        """The elements of a counting set with their counts, and with the values of the keys that they are."""
        return Elements(self._native.members, element_of_member, set, start, end, limit, from_greatest)

    def commit(self):
        """Commits: all writes at once, or nothing. The transaction is over then, whatever comes of it."""
        self._end()
        self._receipt = self._native.commit()
        return self._receipt

    def commit_soon(self):
        """Asks for the commit, and does not wait for it."""
        self._end()
        return self._native.commit_soon()

    def commit_speculatively(self):
        """Commits, and returns once the result may be shown, before it is final (``snapshot``)."""
        self._end()
        return self._native.commit_speculatively()

    def abort(self):
        """Drops the transaction. Nothing of it was ever visible."""
        self._end()
        self._native.abort()

    def __enter__(self):
        return self

    def __exit__(self, kind, raised, _):
        if self._is_over:
            return
        if kind is None:
            self.commit()
        elif issubclass(kind, Exception):
            try:
                self.abort()
            except Error:
                # It is gone in any case, and why the block was left says more.
                pass
        else:
            self._end()
            self._native.abandon()


class Scan(ScanBase):
    __doc__ = ScanBase.__doc__
    __slots__ = ()

    def __iter__(self):
        while not self._is_done():
            yield from self._turn(self._ask())


class Elements(ElementsBase):
    __doc__ = ElementsBase.__doc__
    __slots__ = ()

    def __iter__(self):
        while not self._is_done():
            yield from self._turn(self._ask())
