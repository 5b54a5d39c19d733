"""A network of friends, each of whom reads and writes at the nearest site and waits for no other.

    quorate dev
    python timeline.py

Isolation: ``parallel-snapshot``. A user's keys share a tag, whose preferred site is where she lives, so her posts wait for that site alone. Others see them
a moment later. No site ever shows a post without its text, or a reply without the post that it replies to.
"""

import contextlib
import secrets
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Concatenate, ParamSpec, TypeVar

import quorate

POSTS = 6
"""How many posts each user writes; every second one is a reply, once there is something to reply to."""
NAMES = ["anna", "ben", "carla"]
THINK_SECONDS = 0.03
TIMELINE = 100
"""How many posts a timeline shows."""
TRIES_MAX = 10

P = ParamSpec("P")
T = TypeVar("T")


def follow(txn: quorate.Transaction, user: str, other: str) -> None:
    """Makes a user follow another one. Sets are changed at every site alike, so this waits for none."""
    if not txn.set_contains(f"{{{user}}}/follows", other):
        txn.set_add(f"{{{user}}}/follows", other)
        txn.set_add(f"{{{other}}}/followers", user)


def publish(txn: quorate.Transaction, user: str, post: bytes, text: str) -> None:
    """Writes a post, and puts it on the timelines of all that follow, as far as this site has heard of them."""
    # Page: publish
    if txn.get(post) is None:
        txn.put(post, text)
        txn.set_add(f"{{{user}}}/timeline", post)
        for follower, count in txn.set_iter(f"{{{user}}}/followers"):
            if count > 0:
                txn.set_add(f"{{{follower.decode()}}}/timeline", post)
    # Page ends.


def read(txn: quorate.Transaction, user: str) -> dict[bytes, bytes | None]:
    """The newest posts of a timeline with their texts, in one round trip to the nearest site."""
    # Page: read
    members = txn.get_members(f"{{{user}}}/timeline", from_greatest=True, limit=TIMELINE)
    return {member.element: member.value for member in members}
    # Page ends.


class User:
    """A user, connected to the site where she lives."""

    def __init__(self, address: str, site: str, name: str) -> None:
        self.db, self.name = quorate.connect(address, site=site), name
        self.network = self.db.keyspace("network")
        self.network.container(name).place_at(site)

    def run(
        self, function: Callable[Concatenate[quorate.Transaction, P], T], *arguments: P.args, **named: P.kwargs
    ) -> tuple[T, quorate.Receipt]:
        """Runs a function that may be repeated: each of those above looks first whether it has been run."""
        for _ in range(TRIES_MAX):
            try:
                return self.network.transact_with_receipt(function, *arguments, **named)
            except quorate.Unknown as error:
                with contextlib.suppress(quorate.TooOld, quorate.Unavailable, quorate.Unknown):
                    self.db.outcome(error.token or "")
            except quorate.Error as error:
                if not error.retry:
                    raise
                time.sleep(error.retry_after if isinstance(error, quorate.Overloaded) else 0.1)
        raise RuntimeError(f"the site of {self.name} does not answer: try again later")

    def timeline(self) -> dict[bytes, bytes]:
        """The timeline, which has to make sense whenever it is read."""
        posts = {post: text or b"" for post, text in self.run(read, self.name)[0].items()}
        for text in posts.values():
            assert text, f"{self.name} sees a post without its text"
            assert text[:4] != b"re: " or text[4:] in posts, f"{self.name} sees a reply, and not what it replies to"
        return posts

    def live(self) -> tuple[quorate.Receipt, float]:
        """Reads, writes and replies. Gives the receipt of the last post, and how many seconds the slowest one took."""
        slowest = 0.0
        for number in range(POSTS):
            others = [post for post in self.timeline() if f"{{{self.name}}}".encode() not in post]
            text = f"re: {others[0].decode()}" if number % 2 and others else f"hello {number}"
            begun = time.monotonic()
            _, receipt = self.run(publish, self.name, self.network.container(self.name).new_id(), text)
            slowest = max(slowest, time.monotonic() - begun)
            time.sleep(THINK_SECONDS)
        return receipt, slowest


def main(address: str) -> None:
    with contextlib.ExitStack() as stack:
        db = stack.enter_context(quorate.connect(address))
        db.create_keyspace("network", "parallel-snapshot", if_absent=True)
        run = secrets.token_hex(4)
        users = [User(address, site, f"{name}-{run}") for site, name in zip(db.sites(), NAMES, strict=False)]
        for user in users:
            stack.callback(user.db.close)
            for other in users:
                if other is not user:
                    user.run(follow, user.name, other.name)[1].visible()
        with ThreadPoolExecutor(len(users)) as pool:
            last = list(pool.map(User.live, users))
        slowest = max(seconds for _, seconds in last) * 1_000
        print(f"{len(users)} users wrote {POSTS} posts each, and waited for {slowest:.0f} ms at most.")

        for receipt, _ in last:
            receipt.visible()
        timelines = [user.timeline() for user in users]
        assert all(timeline == timelines[0] for timeline in timelines), "friends of the same users see different posts"
        assert len(timelines[0]) == POSTS * len(users), "a post is missing"
        replies = sum(text.startswith(b"re: ") for text in timelines[0].values())
        print(f"{replies} of them are replies, and no timeline has shown one without the post that it replies to.")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:7400")
