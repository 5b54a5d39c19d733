"""Errors: one class for each that ``docs/guide.md`` lists.

Each says whether anything can have happened, and whether the same may simply be run again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quorate import Timestamp


class Error(Exception):
    """A call did not do its work."""

    may_have_happened: bool = False
    """False if surely nothing has happened."""
    retry: bool = False
    """True if the same can simply be run again: it surely has not happened, and it may succeed."""
    token: str | None = None
    """The name of the transaction, for ``Database.outcome``; ``None`` if it is not known, or needs no question."""


class Conflict(Error):
    """Another transaction was in the way. Run the transaction again; ``transact`` has done so until its deadline."""


class BelowZero(Error):
    """The transaction takes more from a counter than there is, as far as its site knows."""


class Unavailable(Error):
    """Too few replicas serve or can be reached."""

    missing: list[str] = []
    """The replicas that did not answer, and where they should be."""
    needs_operator: bool = False
    """True if one of them will not serve before an operator acts; the message says how."""


class HistoryAbandoned(Error):
    """This client has seen transactions that were lost with a site. Told once: look at the data, then run it again."""

    site: str = ""


class Overloaded(Error):
    """The cluster, or this client, has more work than it takes."""

    retry_after: float = 0.0
    """How many seconds to wait before the next try."""


class NoSpace(Error):
    """The disks of too many nodes are full. Reads are served."""

    reason: str = ""


class Denied(Error):
    """The user of this client has not the right. Nothing was done, unless there is a ``token``: ask for the outcome of that."""

    reason: str = ""


class Unknown(Error):
    """The transaction may or may not have committed, or may do so later: ask for the outcome of ``token``."""


class ApologyOwed(Error):
    """A result that was shown early has not become final, and will not: apologize, then run it again."""


class AnswersLost(Error):
    """A one-round transaction **has committed**, and its answers cannot be had any more: look at the data."""


class NotReached(Error):
    """A transaction **has committed**, and has not come as far as was waited for. It goes on by itself: ask again."""

    milestone: str = ""
    """``durable`` or ``visible``."""
    missing: list[str] = []
    """The sites that do not have it yet, or do not answer."""
    waited: float = 0.0


class Step(Error):
    """A step of a batch does not suit the value of its key; nothing was done."""

    step: int = 0
    """Which, counted from zero."""
    key: str = ""
    fault: str = ""


class Invalid(Error):
    """The call is at fault, and nothing was sent. The message names the key, the limit, or the names that there are."""


class NoSuchKeyspace(Invalid):
    """There is no keyspace of this name; the message names those that exist."""


class KeyspaceExists(Invalid):
    """There is a keyspace of this name already; with ``if_absent``: and it has other options, which the message names."""


class TransactionOver(Invalid):
    """The transaction has ended: begin a new one."""


class TooOld(Error):
    """The outcome was asked for after it may have been forgotten: look at the data."""


class SnapshotTooOld(Error):
    """Versions so old are not kept any more."""

    oldest: Timestamp
    """The oldest timestamp that can be read."""


class CutLost(Error):
    """A keyspace cannot be read at one instant; nothing was changed."""

    name: str = ""
    reason: str = ""


class ChangesUnavailable(Error):
    """The replicas of a shard do not answer a consumer of changes: call again, and nothing is missed."""

    shard: int | None = None
    """The shard; ``None`` of a keyspace whose sites all have everything."""
    reason: str = ""


class ChangesTooOld(Error):
    """The consumer of changes is too late: the replicas of a shard have let go what follows its cursor. Read all keys, and begin again."""

    shard: int | None = None
    """The shard; ``None`` of a keyspace whose sites all have everything."""
    retained_from: Timestamp | tuple[int, ...]
    """From here on the shard retains its changes."""


class ChangeRefused(Error):
    """The replicas of a keyspace cannot be changed now; nothing was."""

    name: str = ""
    reason: str = ""


class NotServing(Error):
    """A keyspace **is created**, and does not serve yet. It goes on by itself: do not create it again."""

    name: str = ""
    serving: int = 0
    """How many of its shards serve."""
    shards: int = 0
    """How many there are."""
    waited: float = 0.0


class Connect(Error):
    """No node of the cluster could be reached."""

    tried: list[tuple[str, str]] = []
    """Each address that was tried, and how it failed."""


class Handshake(Error):
    """A server answered, but not as a server of this cluster and version does."""

    address: str = ""
    reason: str = ""


class Closed(Error):
    """The database was closed: connect again."""


class Refused(Error):
    """A shard refuses its part of a one-round transaction; nothing was changed."""

    shard: int = 0
    reason: bytes | None = None
    """The reason of a procedure, in its own encoding; ``None`` if the shard has another one."""


class Application(Error):
    """The client has given up: the message says why. (Exceptions of the program pass through as they are.)"""


class Forked(Error):
    """The database was connected before the process was forked: connect in the fork."""


__all__ = [
    "AnswersLost",
    "ApologyOwed",
    "Application",
    "BelowZero",
    "ChangeRefused",
    "ChangesTooOld",
    "ChangesUnavailable",
    "Closed",
    "Conflict",
    "Connect",
    "CutLost",
    "Denied",
    "Error",
    "Forked",
    "Handshake",
    "HistoryAbandoned",
    "Invalid",
    "KeyspaceExists",
    "NoSpace",
    "NoSuchKeyspace",
    "NotReached",
    "NotServing",
    "Overloaded",
    "Refused",
    "SnapshotTooOld",
    "Step",
    "TooOld",
    "TransactionOver",
    "Unavailable",
    "Unknown",
]
