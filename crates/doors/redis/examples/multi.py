"""Transactions of two keys a second: python3 multi.py HOST PORT CONNECTIONS SECONDS

Each connection sends MULTI, INCRBY of one key, DECRBY of another and EXEC at once, and waits for the replies. The keys are drawn among 100,000 and have
hash tags of their own, so that a Redis Cluster refuses most of these transactions.
"""

import asyncio
import random
import sys
import time


def encoded(*words):
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


async def reply(reader):
    line = await reader.readline()
    if line[:1] == b"*":
        return [await reply(reader) for _ in range(int(line[1:]))]
    if line[:1] == b"-":
        raise SystemExit(f"refused: {line.decode().strip()}")
    return line.strip()


async def client(host, port, end):
    reader, writer = await asyncio.open_connection(host, port)
    committed = 0
    while time.monotonic() < end:
        one, other = (b"{%d}" % random.randrange(100_000) for _ in range(2))
        writer.write(
            encoded(b"MULTI") + encoded(b"INCRBY", one, b"10") + encoded(b"DECRBY", other, b"10") + encoded(b"EXEC")
        )
        for _ in range(4):
            await reply(reader)
        committed += 1
    writer.close()
    return committed


async def main(host, port, connections, seconds):
    end = time.monotonic() + seconds
    committed = await asyncio.gather(*(client(host, port, end) for _ in range(connections)))
    print(f"{sum(committed) / seconds:.0f} transactions a second")


if len(sys.argv) != 5:
    raise SystemExit(__doc__)
asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])))
