"""The interface for ``asyncio``: the names of ``quorate``, with ``await``, ``async with`` and ``async for``.

::

    async with quorate.aio.connect("127.0.0.1:7400") as db:
        accounts = await db.keyspace("accounts")
        async with accounts.transaction() as txn:
            txn.put("alice", "100")

A database belongs to the event loop in which it was connected. A call that is cancelled is given up; a commit that is cancelled may have happened, and
``Database.outcome(txn.token)`` tells.
"""

from __future__ import annotations

import asyncio
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

__all__ = ["Changes", "Container", "Database", "Elements", "Keyspace", "Scan", "Transaction", "connect"]


class _Future(asyncio.Future):
    """The answer to a call, which is given up if this is cancelled."""

    __slots__ = ("_number", "_operations")

    def __init__(self, loop, operations, number):
        super().__init__(loop=loop)
        self._operations = operations
        self._number = number

    def cancel(self, msg=None):
        is_cancelled = super().cancel(msg=msg)
        if is_cancelled:
            self._operations.forget(self._number)
        return is_cancelled


def _coroutines(*names):
    """Makes coroutine functions of the methods of these names, which give awaitables: tasks are made of coroutines alone."""

    def coroutine(method):
        @functools.wraps(method)
        async def call(self, *arguments, **named):
            return await method(self, *arguments, **named)

        return call

    def decorate(kind):
        for name in names:
            setattr(kind, name, coroutine(getattr(kind, name)))
        return kind

    return decorate


class _Connecting:
    """A connection that is awaited, or used in ``async with``, which closes it."""

    __slots__ = ("_addresses", "_choices", "_database")

    def __init__(self, addresses, choices):
        self._addresses = addresses
        self._choices = choices
        self._database = None

    async def _connect(self):
        loop = asyncio.get_running_loop()
        operations = _native.Operations(loop, _Future)
        loop.add_reader(operations.fileno(), operations.drain)
        try:
            return Database(await _native.connect(self._addresses, self._choices, operations))
        except BaseException:
            loop.remove_reader(operations.fileno())
            raise

    def __await__(self):
        return self._connect().__await__()

    async def __aenter__(self):
        self._database = await self._connect()
        return self._database

    async def __aexit__(self, *_):
        await self._database.close()


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

    ``await`` it, or use it in ``async with``. With the certificates of authorities, the certificate of a user and its key, each a path to a file in PEM,
    the connection is secured by TLS. It logs in as the user of the certificate, or as ``user`` with ``password``, or by a ``token``.
    """
    chosen = choices(
        site, connect_timeout, deadline, open_transactions_max, commits_in_flight_max, outcome_retention, delays
    )
    chosen.update(certificates(ca, certificate, key))
    chosen.update(login(user, password, token))
    return _Connecting(addresses, chosen)


@_coroutines("list", "drop_keyspace", "undrop_keyspace", "dropped_keyspaces", "outcome", "observe")
class Database(DatabaseBase):
    __doc__ = DatabaseBase.__doc__
    __slots__ = ()

    async def keyspace(self, name):
        """A handle on a keyspace."""
        return Keyspace(await self._native.keyspace(name))

    async def create_keyspace(self, name, isolation="strict", *, if_absent=False, patience=None, **options):
        """Creates a keyspace, and waits until it can be used. With ``if_absent``, one of this name and these options will do that is there."""
        wanted = create_keyspace(isolation, **options)
        return Keyspace(await self._native.create_keyspace(name, wanted, if_absent, patience))

    async def close(self):
        """Closes the connection once the replicas have been told every outcome, or a second has passed. To close it again does no harm."""
        if not self._is_closed:
            self._is_closed = True
            await self._native.close()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.close()


@_coroutines(
    "get",
    "put",
    "ttl",
    "delete",
    "read_only",
    "read_at",
    "read_stale",
    "read_now",
    "apply",
    "call",
    "deploy",
    "procedures",
    "remove",
)
class Keyspace(KeyspaceBase):
    __doc__ = KeyspaceBase.__doc__
    __slots__ = ()

    async def get_many(self, keys):
        """Reads keys at once, in one round trip, as a transaction would; the values are in their order."""
        return (await self._native.read_only(keys)).values

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

    async def begin(self):
        """Begins a transaction that is not run again by itself."""
        return Transaction(await self._native.begin())

    async def begin_after(self, earlier):
        """Begins a transaction that comes after one whose commit is under way, or was shown."""
        return Transaction(await self._native.begin_after(earlier))

    def transaction(self, *, after=None):
        """A transaction for an ``async with`` block, which commits it at its end, and aborts it if it is left by an exception."""
        return _Opening(self, after)

    async def transact(self, function, /, *arguments, **named):
        """Runs ``await function(txn, …)`` and commits; again if another transaction was in the way, until the deadline. Gives the result of the function.

        The next attempt begins only once the previous one has surely not committed.
        """
        return (await self.transact_with_receipt(function, *arguments, **named))[0]

    async def transact_with_receipt(self, function, /, *arguments, **named):
        """As ``transact``, and gives the receipt as well."""
        attempts = self._native.attempts()
        attempt = await attempts.begin()
        while True:
            try:
                result = function(Transaction(attempt, is_managed=True), *arguments, **named)
                if not inspect.isawaitable(result):
                    raise TypeError(
                        "an async function is wanted here, and this one has returned at once: see quorate.connect"
                    )
                result = await result
            except Exception as raised:
                attempt = await attempts.give_up(raised)
                if attempt is None:
                    raise
            except BaseException:
                attempts.abandon()
                raise
            else:
                attempt = await attempts.commit()
                if attempt is None:
                    return result, attempts.receipt()

    async def indexes(self):
        """The indexes of the keyspace, in the order of their creation."""
        return await self._native.indexes()

    async def create_index(self, name, on, *, unique=False, unparsable="refuse"):
        """Creates an index (``strict`` and ``snapshot``), and waits until it is ready: ``on`` is ``json:/city`` or ``bytes:0..8``.

        A value that does not parse is refused, or has no entry with ``unparsable="leave-out"``. A creation that was interrupted goes on if it is asked for again.
        """
        return await self._native.create_index(name, on, unique, unparsable)

    async def drop_index(self, name):
        """Drops an index, and waits until its entries are deleted."""
        return await self._native.drop_index(name)

    async def find(self, index, value, *, limit=1_000, after=None):
        """The keys that an index finds by a value, with what they hold, in a transaction of its own. Go on after a page with ``after=page.next``."""
        return await self._native.find(index, value, limit, after)

    async def find_range(self, index, start=None, end=None, *, limit=1_000, after=None):
        """As ``find``, by values from one to another one, which is not wanted itself; without an end all."""
        return await self._native.find_range(index, start, end, limit, after)

    async def transact_once(self, marker, function, /, *arguments, **named):
        """Runs a transaction as ``transact`` does, unless one with this marker has committed: then its answer is given again, and nothing is done.

        The function gives the answer, as bytes or text, and may be repeated after any error, by this program or another one, until there is one.
        """

        async def run(txn):
            answer = _native.remembered(marker, await txn.get(marker.key))
            if answer is not None:
                return answer, True
            value, answer = _native.remembering(marker, await function(txn, *arguments, **named))
            txn.put(marker.key, value)
            return answer, False

        (answer, is_repeat), receipt = await self.transact_with_receipt(run)
        return _native.Once(answer, is_repeat, None if is_repeat else receipt)

    async def sweep_markers(self, start=b"", end=b""):
        """Deletes the markers of a page of a range whose time is over. Gives how many these were, and the key to go on from, ``None`` at the end."""
        return await self._native.sweep_markers(start, end)

    def transactional(self, function):
        """Decorator: each call of the function is a transaction, which it is given as its first argument."""

        @functools.wraps(function)
        async def run(*arguments, **named):
            return await self.transact(function, *arguments, **named)

        return run

    async def changes(self, cursor=None):
        """Every committed write from a cursor on; without one all that commits after this call, and perhaps some of shortly before."""
        return Changes(await self._native.changes(cursor))

    async def watch(self, key, cursor=None):
        """As ``changes``, of one key."""
        return Changes(await self._native.watch(key, cursor))

    async def watch_prefix(self, prefix, cursor=None):
        """As ``changes``, of the keys that begin with these bytes."""
        return Changes(await self._native.watch_prefix(prefix, cursor))

    def container(self, tag):
        """The container of the objects that have this tag in braces in their keys."""
        return Container(self._native.container(tag))


@_coroutines("preferred_site", "replica_sites", "place_at", "destroy")
class Container(ContainerBase):
    __doc__ = ContainerBase.__doc__
    __slots__ = ()


class Changes(ChangesBase):
    __doc__ = ChangesBase.__doc__
    __slots__ = ()

    def __aiter__(self):
        return self

    async def __anext__(self):
        return self._take(await self._native.next(self._taken))


class _Opening:
    """A transaction that begins with an ``async with`` block."""

    __slots__ = ("_after", "_keyspace", "_transaction")

    def __init__(self, keyspace, after):
        self._keyspace = keyspace
        self._after = after
        self._transaction = None

    async def __aenter__(self):
        if self._after is None:
            self._transaction = await self._keyspace.begin()
        else:
            self._transaction = await self._keyspace.begin_after(self._after)
        return self._transaction

    async def __aexit__(self, *left):
        await self._transaction.__aexit__(*left)


@_coroutines(
    "get",
    "ttl",
    "find",
    "find_range",
    "get_marked",
    "get_many",
    "set_count",
    "set_contains",
    "set_insert",
    "set_discard",
    "counter_get",
)
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

    async def commit(self):
        """Commits: all writes at once, or nothing. The transaction is over then, whatever comes of it."""
        self._end()
        self._receipt = await self._native.commit()
        return self._receipt

    async def commit_soon(self):
        """Asks for the commit, and does not wait for it."""
        self._end()
        return await self._native.commit_soon()

    async def commit_speculatively(self):
        """Commits, and returns once the result may be shown, before it is final (``snapshot``)."""
        self._end()
        return await self._native.commit_speculatively()

    async def abort(self):
        """Drops the transaction. Nothing of it was ever visible."""
        self._end()
        await self._native.abort()

    async def __aenter__(self):
        return self

    async def __aexit__(self, kind, raised, _):
        if self._is_over:
            return
        if kind is None:
            await self.commit()
        else:
            # Nothing waits for an abort, so a task that is cancelled ends at once.
            self._end()
            self._native.abandon()


class Scan(ScanBase):
    __doc__ = ScanBase.__doc__
    __slots__ = ()

    async def __aiter__(self):
        while not self._is_done():
            for entry in self._turn(await self._ask()):
                yield entry


class Elements(ElementsBase):
    __doc__ = ElementsBase.__doc__
    __slots__ = ()

    async def __aiter__(self):
        while not self._is_done():
            for element in self._turn(await self._ask()):
                yield element
