"""Each of N processes sends each other process a thousand buffers in one
message: all_to_all.py [N]

Each process reports digests of the messages that it sent to and received from
each peer. The parent process compares the digests."""
import asyncio
import hashlib
import multiprocessing
import os
import random
import sys
from multiprocessing.connection import Connection
from typing import Any

import ucxpool

NUM_BUFFERS = 1000


def buffers_for(me: int, peer: int) -> list[bytes]:
    """Return buffers of 0 to 8,191 random bytes."""
    lengths = random.Random(f"{me} to {peer}")
    return [os.urandom(lengths.randrange(8192)) for _ in range(NUM_BUFFERS)]


def digest(buffers: list[Any]) -> str:
    """Return a digest of the bytes and of the buffers' lengths."""
    found = hashlib.sha256()
    for one in buffers:
        found.update(len(one).to_bytes(8, "little"))
        found.update(one)
    return found.hexdigest()


async def send_to(pool: ucxpool.Pool, where: str, me: int, peer: int) -> str:
    buffers = buffers_for(me, peer)
    async with await pool.connect(where, name=f"to {peer}") as channel:
        await channel.send(buffers, tag=me)  # until the peer has them
    return digest(buffers)


async def receive(channel: ucxpool.Channel) -> tuple[int, str]:
    message = await channel.recv()
    frames = await message.frames()
    return message.tag, digest(frames)


async def work(me: int, number: int, parent: Connection) -> None:
    async with ucxpool.Pool(name=f"process {me}") as pool:
        listener = pool.listen()
        parent.send(f"127.0.0.1:{listener.port}")
        peers = parent.recv()
        others = [peer for peer in range(number) if peer != me]
        sending = asyncio.gather(*[send_to(pool, peers[peer], me, peer)
                                   for peer in others])
        channels = [await listener.accept() for _ in others]
        got = dict(await asyncio.gather(*map(receive, channels)))
        parent.send((dict(zip(others, await sending)), got))


def process(me: int, number: int, parent: Connection) -> None:
    asyncio.run(work(me, number, parent))


def main(number: int = 4) -> None:
    context = multiprocessing.get_context("spawn")
    pipes = [context.Pipe() for _ in range(number)]
    processes = [context.Process(target=process, args=(i, number, pipe[1]))
                 for i, pipe in enumerate(pipes)]
    for one, (_, theirs) in zip(processes, pipes):
        one.start()
        theirs.close()
    addresses = [mine.recv() for mine, _ in pipes]
    for mine, _ in pipes:
        mine.send(addresses)
    sent, got = zip(*[mine.recv() for mine, _ in pipes])
    for one in processes:
        one.join()
    same = sum(sent[a][b] == got[b][a] for a in range(number)
               for b in range(number) if a != b)
    print(f"{same} of {number * (number - 1)} messages of {NUM_BUFFERS} "
          "buffers arrived as they were sent")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
