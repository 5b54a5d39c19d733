"""The common part of the blocking interface and of that for ``asyncio``.

A call of the native module gives its answer, or an awaitable of it, by the handle that it is called on. So a method that only passes an answer on is written
once, here, and the stubs tell its types for each interface.
"""

from __future__ import annotations

import os
import warnings

from quorate import _native
from quorate.errors import Forked, TransactionOver

PAGE = 1_000
"""How many entries are asked for at a time."""

PAGE_MAX = 10_000
"""How many entries can be asked for at a time."""


class DatabaseBase:
    """A connection to a cluster: one link to each node, over which all transactions travel. Several threads may share it."""

    __slots__ = ("__weakref__", "_is_closed", "_native")

    def __init__(self, native):
        self._native = native
        self._is_closed = False

    def list(self):
        """Every keyspace, by name."""
        return self._native.list()

    def drop_keyspace(self, name, *, delete_after=None):
        """Drops a keyspace and all that is in it. It can be brought back for ``delete_after``: a day, unless told otherwise."""
        return self._native.drop_keyspace(name, delete_after)

    def undrop_keyspace(self, name, *, rename=None, id=None):
        """Brings back a keyspace that was dropped: the last of its name, or that with this number; with another name, if it is told one."""
        return self._native.undrop_keyspace(name, rename, id)

    def dropped_keyspaces(self):
        """The keyspaces that can be brought back, the one that was dropped last at the end."""
        return self._native.dropped_keyspaces()

    def outcome(self, token):
        """The outcome of a transaction: its timestamp if it has committed, ``None`` if it did not and will not. The answer never changes."""
        return self._native.outcome(token)

    def seen(self):
        """A token of all that this session has seen, for another session to observe."""
        return self._native.seen()

    def observe(self, seen):
        """Lets whatever begins from here on come after all that another session has seen."""
        return self._native.observe(seen)

    def sites(self):
        """The names of the sites of the cluster."""
        return self._native.sites()


class KeyspaceBase:
    """A keyspace: where transactions happen. Keys and values are ``bytes``; a ``str`` is encoded as UTF-8."""

    __slots__ = ("_native",)

    def __init__(self, native):
        self._native = native

    def __repr__(self):
        return f"<{type(self).__qualname__} {self.name}, {self.isolation}>"

    @property
    def name(self):
        """Its name."""
        return self._native.name

    @property
    def isolation(self):
        """The promise to its transactions: ``strict``, ``serializable``, ``snapshot`` or ``parallel-snapshot``."""
        return self._native.isolation

    @property
    def durability(self):
        """The losses that its acknowledged writes survive: ``sync`` or ``memory``."""
        return self._native.durability

    @property
    def shards(self):
        """Into how many shards its keys are divided."""
        return self._native.shards

    def with_deadline(self, deadline):
        """The same keyspace with another deadline for calls through it."""
        return type(self)(self._native.with_deadline(deadline))

    def get(self, key):
        """Reads a key in a transaction of its own; ``None`` if it is absent."""
        return self._native.get(key)

    def put(self, key, value, ttl=None):
        """Writes a key in a transaction of its own, and gives its receipt. In a keyspace that was created with ``expiring=True`` the key may hold the value for a lifetime alone."""
        return self._native.put(key, value, ttl)

    def ttl(self, key):
        """For how many seconds a key will hold its value: ``None`` if it is absent, and ``math.inf`` if the value stays."""
        return self._native.ttl(key)

    def delete(self, key):
        """Deletes a key in a transaction of its own, and gives its receipt. It is no mistake if the key is absent."""
        return self._native.delete(key)

    def read_only(self, keys):
        """Reads keys at once, in one round trip, as a transaction would."""
        return self._native.read_only(keys)

    def read_at(self, timestamp, keys):
        """Reads keys as they are at a timestamp, in their order: a serializable snapshot over all shards."""
        return self._native.read_at(timestamp, keys)

    def read_stale(self, staleness, keys):
        """Reads keys as they were no longer ago than this, at the nearest replicas alone if they know enough."""
        return self._native.read_stale(staleness, keys)

    def read_now(self, keys):
        """Reads keys as they are by the clock, in a keyspace that states a bound of clocks."""
        return self._native.read_now(keys)

    def apply(self, batch):
        """Carries out a batch: all of its steps if all of its conditions hold, else none."""
        return self._native.apply(batch)

    def call(
        self,
        name,
        arguments=b"",
        *,
        keys=(),
        ranges=(),
        at=(),
        version=None,
        read_only=False,
        independent=False,
    ):
        """Calls a procedure at the shards of a ``serializable`` keyspace.

        ``keys`` and ``ranges`` declare all that it touches; ``at`` names keys of the shards where it is called, without declaring anything, or is a
        dictionary of such keys and the arguments that it has there (``None`` for the common ones).
        """
        if isinstance(at, (str, bytes)):
            raise TypeError("several keys are wanted, as in a list, and this is one: at=[key]")
        places = at.items() if hasattr(at, "items") else [(key, None) for key in at]
        more = {
            "keys": keys,
            "ranges": list(ranges),
            "at": list(places),
            "version": version,
            "read_only": read_only,
            "independent": independent,
        }
        return self._native.call(name, arguments, more)

    def deploy(self, name, code, *, version=None):
        """Deploys a procedure, a WebAssembly module: as the next version unless told otherwise."""
        return self._native.deploy(name, code, version)

    def procedures(self):
        """The versions of procedures that the keyspace has or had."""
        return self._native.procedures()

    def remove(self, name, version):
        """Removes a version of a procedure."""
        return self._native.remove(name, version)

    def _pages(self):
        """Pages of which the first is strict; the others are of the same snapshot, if the keyspace has such."""
        native = self._native
        has_snapshots = native.has_snapshots

        def pages(timestamp, start, end, limit):
            if timestamp is None or not has_snapshots:
                return native.page(start, end, limit)
            return native.page_at(timestamp, start, end, limit)

        return pages

    def _pages_from(self, first):
        """Pages of one snapshot, which the first one chooses."""
        native = self._native

        def pages(timestamp, start, end, limit):
            if timestamp is None:
                return first(start, end, limit)
            return native.page_at(timestamp, start, end, limit)

        return pages


class ChangesBase:
    """A change feed of a keyspace, or of some of its keys: a page after the other, of one shard each; of a ``parallel-snapshot`` keyspace of all sites.

    ``cursor`` is the text to keep: a consumer that goes on from there, in this process or another one, gets everything that follows, and nothing twice.
    """

    __slots__ = ("_native", "_taken")

    def __init__(self, native):
        self._native = native
        self._taken = 0

    def __repr__(self):
        return f"<{type(self).__qualname__} resolved {self.resolved}>"

    @property
    def cursor(self):
        """Behind all pages that were taken."""
        return self._native.cursor

    @property
    def resolved(self):
        """No change below this timestamp comes later, of any shard. Of a ``parallel-snapshot`` keyspace so many transactions of each site were told, as a tuple."""
        return self._native.resolved

    def has_passed(self, timestamp):
        """True if the transaction of this timestamp, which its receipt has, was told by the pages that were taken, or came before all of them."""
        return self._native.has_passed(timestamp)

    def _take(self, page):
        self._taken += 1
        self._native.take(page)
        return page


class ContainerBase:
    """All objects of a ``parallel-snapshot`` keyspace whose keys have one tag in braces: they have a common preferred site."""

    __slots__ = ("_native",)

    def __init__(self, native):
        self._native = native

    @property
    def tag(self):
        """The tag that its objects' keys have in braces."""
        return self._native.tag

    def preferred_site(self):
        """The name of its preferred site, as the nearest site knows it."""
        return self._native.preferred_site()

    def replica_sites(self):
        """The names of the sites that hold the values of its objects."""
        return self._native.replica_sites()

    def place_at(self, site, *, replicated_at=None):
        """Creates it with this preferred site, or moves it there; with ``replicated_at`` only those sites hold its objects from then on."""
        return self._native.place_at(site, replicated_at)

    def destroy(self):
        """Lets its preferred site be that which follows from its name. Its objects stay."""
        return self._native.destroy()

    def new_id(self, kind="register"):
        """A new id for an object, a ``register`` or a ``set``: a key that nobody else is given. Ids ascend in time."""
        return self._native.new_id(kind)


class TransactionBase:
    """An open transaction. Reads see its own writes; writes are kept back until the commit, which validates the reads.

    An open transaction may see a state that never was; it cannot commit then. So no read counts before the commit.
    """

    __slots__ = ("__weakref__", "_is_managed", "_is_over", "_native", "_receipt")

    def __init__(self, native, is_managed=False):
        self._native = native
        self._is_managed = is_managed
        self._is_over = False
        self._receipt = None

    def __del__(self):
        if getattr(self, "_is_over", True) or self._is_managed:
            return
        try:
            token = self._native.token
        except Forked:
            return
        warnings.warn(f"transaction {token} was left open, and is aborted", ResourceWarning, source=self, stacklevel=2)

    def __repr__(self):
        state = "ended" if self._is_over else "open"
        return f"<{type(self).__qualname__} {self.token}, {state}>"

    @property
    def token(self):
        """Its name, as far as it has come: ``Database.outcome`` tells its outcome by it."""
        return self._native.token

    @property
    def receipt(self):
        """The receipt, once it has committed; ``None`` before."""
        return self._receipt

    def get(self, key):
        """Reads a key; ``None`` if it is absent."""
        return self._native.get(key)

    def get_marked(self, key):
        """Reads a key, and tells whether its version may still be on its way to other sites."""
        return self._native.get_marked(key)

    def find(self, index, value, *, limit=1_000, after=None):
        """The keys that an index finds by a value, with what they hold. Go on after a page with ``after=page.next``."""
        return self._native.find(index, value, limit, after)

    def find_range(self, index, start=None, end=None, *, limit=1_000, after=None):
        """As ``find``, by values from one to another one, which is not wanted itself; without an end all."""
        return self._native.find_range(index, start, end, limit, after)

    def get_many(self, keys):
        """Reads several keys at once; the values are in their order."""
        return self._native.get_many(keys)

    def put(self, key, value, ttl=None):
        """Writes a key when the transaction commits. In a keyspace that was created with ``expiring=True`` the key may hold the value for a lifetime alone, which begins now."""
        self._native.put(key, value, ttl)

    def ttl(self, key):
        """For how many seconds a key will hold its value: ``None`` if it is absent, and ``math.inf`` if the value stays."""
        return self._native.ttl(key)

    def delete(self, key):
        """Deletes a key when the transaction commits. It is no mistake if it is absent."""
        self._native.delete(key)

    def set_add(self, set, element):
        """Adds one to the count of an element of a counting set; never conflicts (``parallel-snapshot``)."""
        self._native.set_add(set, element)

    def set_remove(self, set, element):
        """Takes one from the count of an element of a counting set; never conflicts."""
        self._native.set_remove(set, element)

    def set_count(self, set, element):
        """The count of an element of a counting set; zero if it was never added."""
        return self._native.set_count(set, element)

    def set_contains(self, set, element):
        """True if the count of an element is one or more."""
        return self._native.set_contains(set, element)

    def set_insert(self, set, element):
        """Raises the count of an element to one if it is less. True if it was."""
        return self._native.set_insert(set, element)

    def set_discard(self, set, element):
        """Lowers the count of an element to zero if it is more. True if it was."""
        return self._native.set_discard(set, element)

    def counter_add(self, counter, by):
        """Adds to a counter, or takes from it; it never falls below zero, and its changes never conflict (``parallel-snapshot``)."""
        self._native.counter_add(counter, by)

    def counter_get(self, counter):
        """The value of a counter; zero if it was never changed."""
        return self._native.counter_get(counter)

    def set_kind(self, kind):
        """Gives the transaction a kind, whose recent probability of commits ``info`` tells."""
        self._native.set_kind(kind)

    def info(self):
        """The system's knowledge of the transaction: its snapshot, and how often such ones have become final lately."""
        return self._native.info()

    def _end(self):
        """Notes that nothing can be added any more."""
        if self._is_managed:
            raise RuntimeError(
                "transact commits this transaction when the function returns: raise an exception to abort it"
            )
        if self._is_over:
            raise TransactionOver("the transaction is over: begin a new one")
        self._is_over = True


class ScanBase:
    """The entries of a range, read page by page. Can be gone through once."""

    __slots__ = ("_end", "_left", "_page", "_pages", "next", "timestamp")

    def __init__(self, pages, start, end, prefix, limit, page=PAGE, timestamp=None):
        if prefix is not None:
            if start or end:
                raise TypeError("a range is told by its ends or by a prefix, not by both")
            start, end = prefix, _native.end_of_prefix(prefix)
        if limit is not None and limit < 0:
            raise ValueError(f"a limit cannot be negative, and this is {limit}")
        if not 1 <= page <= PAGE_MAX:
            raise ValueError(f"a page has from 1 to {PAGE_MAX} entries, and this is {page}")
        self._pages = pages
        self._end = _native.octets(end)
        self._left = limit
        self._page = page
        self.next = _native.octets(start)
        """The key to go on from; ``None`` once the range has ended."""
        self.timestamp = timestamp
        """The timestamp of the snapshot, once a page was read; ``None`` if the pages are not of one."""

    def _is_done(self):
        return self.next is None or self._left == 0

    def _ask(self):
        size = self._page if self._left is None else min(self._page, self._left)
        return self._pages(self.timestamp, self.next, self._end, size)

    def _turn(self, page):
        entries, self.next, timestamp = page
        if timestamp is not None:
            self.timestamp = timestamp
        if self._left is not None:
            self._left -= len(entries)
        return entries


class ElementsBase:
    """The elements of a counting set, read page by page. Can be gone through once."""

    __slots__ = ("_end", "_from_greatest", "_is_last", "_key", "_left", "_pages", "_set", "_start")

    def __init__(self, pages, key, set, start, end, limit, from_greatest):
        if limit is not None and limit < 0:
            raise ValueError(f"a limit cannot be negative, and this is {limit}")
        self._pages = pages
        self._key = key
        self._set = set
        self._start = _native.octets(start)
        self._end = _native.octets(end)
        self._left = limit
        self._from_greatest = from_greatest
        self._is_last = False

    def _is_done(self):
        return self._is_last or self._left == 0

    def _size(self):
        return PAGE if self._left is None else min(PAGE, self._left)

    def _ask(self):
        return self._pages(self._set, self._start, self._end, self._size(), self._from_greatest)

    def _turn(self, elements):
        self._is_last = len(elements) < self._size()
        if self._left is not None:
            self._left -= len(elements)
        if elements:
            last = self._key(elements[-1])
            if self._from_greatest:
                self._end = last
            else:
                self._start = last + b"\0"
        return elements


def element_of_pair(pair):
    """The element, of an element with its count."""
    return pair[0]


def element_of_member(member):
    """The element, of a member."""
    return member.element


def choices(site, connect_timeout, deadline, open_transactions_max, commits_in_flight_max, outcome_retention, delays):
    """The options of a connection, as the native module takes them."""
    return {
        "site": site,
        "connect_timeout": connect_timeout,
        "deadline": deadline,
        "open_transactions_max": open_transactions_max,
        "commits_in_flight_max": commits_in_flight_max,
        "outcome_retention": outcome_retention,
        "delays": delays,
    }


def certificates(ca, certificate, key):
    """The files of a secured connection, as the native module takes them: all three or none."""
    files = {"ca": ca, "certificate": certificate, "key": key}
    return {name: None if path is None else os.fspath(path) for name, path in files.items()}


def login(user, password, token):
    """As which user to connect, as the native module takes it: a user and its password, or a token, or neither."""
    return {"user": user, "password": password, "token": token}


def create_keyspace(
    isolation,
    *,
    durability=None,
    shards=None,
    replicas=None,
    sites=None,
    clock_bound=None,
    application=None,
    retain=None,
    retain_bytes=None,
    expiring=None,
    order=None,
    retry_ahead=None,
    variant=None,
    orders_sessions=None,
    chain=None,
    tuner=None,
    decisions=None,
    grants=None,
):
    """The options of a new keyspace, as the native module takes them. It bears the name of the method that it stands for, which its errors name."""
    return {
        "isolation": isolation,
        "durability": durability,
        "shards": shards,
        "replicas": replicas,
        "sites": sites,
        "clock_bound": clock_bound,
        "application": application,
        "retain": retain,
        "retain_bytes": retain_bytes,
        "expiring": expiring,
        "order": order,
        "retry_ahead": retry_ahead,
        "variant": variant,
        "orders_sessions": orders_sessions,
        "chain": chain,
        "tuner": tuner,
        "decisions": decisions,
        "grants": grants,
    }
