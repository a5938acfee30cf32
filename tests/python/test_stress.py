"""Kills peers and cancels tasks at random times: nothing hangs, all buffers
are released, and all data is correct. KILLS and CANCELS set the numbers."""
import asyncio
import gc
import linecache
import os
import random
import subprocess
import sys
import textwrap
import tracemalloc
import unittest

import ucxpool

KILLS = int(os.environ.get("KILLS", "15"))
CANCELS = int(os.environ.get("CANCELS", "200"))

PEER = textwrap.dedent("""
    import asyncio, os, random, sys, ucxpool

    async def main():
        async with ucxpool.Pool(comm_size="4m", block_size="64k",
                                wire=sys.argv[2]) as pool:
            channel = await pool.connect(sys.argv[1])
            print("open", flush=True)
            while True:
                frames = await (await channel.recv()).frames()
                await channel.send(frames)

    asyncio.run(main())
    """)


def pattern(seed, length):
    return bytes([seed % 251]) * length


async def exchange(channel, seed, held):
    """Send one message there and back, in buffers that are checked
    afterwards."""
    rng = random.Random(seed)
    buffers = [bytearray(pattern(seed + i, rng.choice((10, 5000, 300000))))
               for i in range(rng.randrange(1, 8))]
    held.extend(buffers)
    await channel.send(buffers)
    message = await channel.recv()
    frames = await message.frames()
    for i, (frame, buffer) in enumerate(zip(frames, buffers, strict=True)):
        if frame != buffer:
            raise AssertionError(f"buffer {i} of message {seed} differs")


def check_released(test, held):
    """Check that the buffers were released: a bytearray that is exported
    cannot be resized. Clears the list, so that the buffers of the last round
    do not count as memory growth."""
    while held:
        held[-1].append(0)
        test.assertEqual(sys.getrefcount(held.pop()), 1)


class Memory:
    """Python's allocated memory must not grow after the first quarter of the
    rounds."""

    def __init__(self, number):
        self.measured = number // 4
        gc.collect()
        tracemalloc.start()

    def after(self, round):
        if round == self.measured:
            self.before = self._now()

    def _now(self):
        # asyncio reads source files for its warnings about slow callbacks.
        linecache.clearcache()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    def check(self, test):
        grown = self._now() - self.before
        tracemalloc.stop()
        test.assertLess(grown, 100000)


class Stress(unittest.IsolatedAsyncioTestCase):
    async def survive_kills(self, wire, number):
        async with ucxpool.Pool(comm_size="4m", block_size="64k", wire=wire,
                                close_timeout="100ms") as pool:
            listener = pool.listen()
            where = f"127.0.0.1:{listener.port}"
            memory = Memory(number)
            for round in range(number):
                peer = subprocess.Popen(
                    [sys.executable, "-c", PEER, where, wire],
                    stdout=subprocess.PIPE)
                held = []
                channel = await listener.accept()

                async def talk():
                    seed = round * 1000
                    while True:
                        seed += 1
                        await exchange(channel, seed, held)

                task = asyncio.create_task(talk())
                await asyncio.sleep(random.random() * 0.05)
                peer.kill()
                with self.assertRaises(ucxpool.PeerLostError):
                    await task
                channel.close()
                peer.wait()
                peer.stdout.close()
                del task, channel
                check_released(self, held)
                memory.after(round)
            memory.check(self)
            self.assertEqual(pool.info()["requests"], 0)
            pool.check()

    async def test_killed_peers_on_map(self):
        await self.survive_kills("map", KILLS)

    async def test_killed_peers_on_ucx(self):
        await self.survive_kills("ucx", KILLS)

    async def cancel_tasks(self, wire, number):
        async with ucxpool.Pool(comm_size="4m", block_size="64k",
                                wire=wire) as a, \
                ucxpool.Pool(comm_size="4m", block_size="64k",
                             wire=wire) as b:
            async def echo(channel):
                while True:
                    try:
                        message = await channel.recv()
                        await channel.send(await message.frames())
                    except ucxpool.CanceledError:
                        pass  # the other side cancelled
                    except ucxpool.ClosedError:
                        return

            listener = b.listen()
            where = f"127.0.0.1:{listener.port}"
            memory = Memory(number)
            for round in range(number):
                channel, there = await asyncio.gather(
                    a.connect(where), listener.accept())
                echoing = asyncio.create_task(echo(there))
                held = []
                task = asyncio.create_task(exchange(channel, round, held))
                for _ in range(random.randrange(40)):
                    await asyncio.sleep(0)
                task.cancel()
                try:
                    await task
                except asyncio.CancelledError:
                    pass
                del task
                await asyncio.sleep(0)  # asyncio keeps the last exception
                check_released(self, held)
                # The channel still works, except for the messages in transit.
                sent = channel.send(b"marker")
                while True:
                    message = await channel.recv()
                    try:
                        frames = await message.frames()
                    except ucxpool.CanceledError:
                        continue
                    if frames == [b"marker"]:
                        break
                await sent
                echoing.cancel()
                channel.close()
                there.close()
                await asyncio.gather(echoing, return_exceptions=True)
                memory.after(round)
            memory.check(self)
            for pool in (a, b):
                self.assertEqual(pool.info()["requests"], 0)
                pool.check()

    async def test_cancelled_tasks_on_map(self):
        await self.cancel_tasks("map", CANCELS)

    async def test_cancelled_tasks_on_ucx(self):
        await self.cancel_tasks("ucx", CANCELS)


if __name__ == "__main__":
    unittest.main()
