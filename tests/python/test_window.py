"""Tests windows from Python. Both pools are in this process, unless the peer
must die."""
import array
import asyncio
import gc
import os
import threading
import unittest

import ucxpool
from test_pool import SETTINGS, Pair, python

NUM = 1000
EACH = 100


def offsets_of(numbers):
    return array.array("Q", [EACH * number for number in numbers])


def rows_of(pairs):
    """Return two columns in the layout of a NumPy array."""
    flat = array.array("Q", [number for pair in pairs for number in pair])
    return memoryview(flat).cast("B").cast("Q", (len(pairs), 2))


class Windows(Pair):
    way = "process"


    async def asyncSetUp(self):
        await super().asyncSetUp()
        self.memory = bytearray(os.urandom(NUM * EACH))
        self.window = self.b.window(self.memory, "pages")
        self.remote = self.x.import_window(self.window.export(write=True))

    async def asyncTearDown(self):
        if not self.remote.closed:
            self.remote.close()
        if not self.window.closed:
            await self.window.aclose()
        await super().asyncTearDown()

    async def test_both_sides_describe_the_window(self):
        self.assertEqual((self.window.name, self.window.length),
                         ("pages", NUM * EACH))
        self.assertIs(self.window.pool, self.b)
        self.assertEqual(self.b.windows(), [self.window])
        self.assertIs(await self.remote.opened(), self.remote)
        self.assertEqual((self.remote.length, self.remote.access),
                         (NUM * EACH, "read, write"))
        self.assertEqual(self.remote.way, self.way)
        self.assertTrue(self.remote.way_reason)
        self.assertEqual(self.remote.reason, "")
        self.assertIs(self.remote.channel, self.x)
        self.assertEqual(self.window.peers, 1)
        self.assertIn("pages", repr(self.window))
        self.assertIn(self.way, repr(self.remote))

    async def test_places_of_one_length_are_read_in_order(self):
        order = [(7 * i + 3) % NUM for i in range(NUM)]
        target = bytearray(NUM * EACH)
        await self.remote.read(offsets_of(order), target, length=EACH)
        self.assertEqual(target, b"".join(
            self.memory[EACH * i:EACH * i + EACH] for i in order))

    async def test_batch_reads_and_writes(self):
        before, pairs = bytes(self.memory), [(500, 10), (0, 3)]
        read, again = bytearray(13), bytearray(2 * EACH)
        batch = self.a.batch()
        batch.read(self.remote, pairs, read)
        batch.read(self.remote, offsets_of([7, 2]), again, length=EACH)
        batch.write(self.remote, [(20, 4)], b"text", notify=5, metadata=b"m")
        batch.send(self.x, b"sent", tag=6)
        del pairs
        await asyncio.gather(*batch.post())
        self.assertEqual(read, before[500:510] + before[:3])
        self.assertEqual(again, before[7 * EACH:8 * EACH]
                         + before[2 * EACH:3 * EACH])
        self.assertEqual(self.memory[20:24], b"text")
        notified, sent = await self.y.recv(5), await self.y.recv(6)
        self.assertEqual((notified.metadata, sent.length), (b"m", 4))
        await asyncio.gather(notified.frames(), sent.frames())

    async def test_batch_stops_at_a_refused_read(self):
        target = bytearray(4)
        batch = self.a.batch()
        batch.read(self.remote, [(0, 4)], target)
        batch.read(self.remote, [(NUM * EACH, 1)], bytearray(1))
        batch.write(self.remote, [(0, 4)], b"late")
        await self.remote.opened()
        with self.assertRaisesRegex(ValueError, "place"):
            batch.post()
        await batch.transfers[0]
        self.assertEqual(target, self.memory[:4])
        self.remote.close()
        with self.assertRaisesRegex(ucxpool.ClosedError, "closed here"):
            batch.post()
        self.assertEqual(len(batch), 0)
        for transfer, error in zip(batch.transfers[1:],
                                   (ValueError, ucxpool.ClosedError),
                                   strict=True):
            with self.assertRaises(error):
                transfer.outcome()
        self.assertEqual(self.memory[:4], target)

    async def test_places_are_given_in_many_forms(self):
        expected = self.memory[5:15] + self.memory[1000:1001]
        pairs = [(5, 10), (1000, 1)]
        for places in (pairs, tuple(pairs), rows_of(pairs), iter(pairs)):
            target = bytearray(11)
            await self.remote.read(places, target)
            self.assertEqual(target, expected)
        for places in ([1, 2], array.array("q", [1, 2]),
                       array.array("Q", [1, 2])):
            target = bytearray(2)
            await self.remote.read(places, target, length=1)
            self.assertEqual(target, self.memory[1:3])
        await self.remote.read([], bytearray())

    async def test_invalid_places_are_rejected(self):
        target = bytearray(NUM * EACH)
        for places, words in ((array.array("Q", [1, 2]), {}),
                              (rows_of([(1, 2)]), {"length": 2}),
                              (array.array("I", [1, 2]), {"length": 2}),
                              (array.array("d", [1, 2]), {"length": 2}),
                              (b"12345678", {"length": 2}),
                              ([(1, 2, 3)], {}), ([(0, NUM * EACH + 1)], {}),
                              (rows_of([(2**64 - 1, 2)]), {}),
                              (array.array("q", [-1]), {"length": 1})):
            with self.assertRaises(ValueError, msg=repr(places)):
                self.remote.read(places, target, **words)
        for places in ([(-1, 2)], [(0, 2**64)]):
            with self.assertRaises(OverflowError):
                self.remote.read(places, target)
        with self.assertRaises(TypeError):
            self.remote.read([1, 2], target)
        self.assertEqual(self.a.info()["requests"], 0)

    async def test_write_puts_data_in_its_places(self):
        data = os.urandom(3 * EACH)
        await self.remote.write(offsets_of([9, 2, 4]), [data[:7], data[7:]],
                                length=EACH)
        expected = [data[i * EACH:i * EACH + EACH] for i in range(3)]
        self.assertEqual([self.memory[i * EACH:i * EACH + EACH]
                          for i in (9, 2, 4)], expected)

    async def test_pieces_are_read_into_and_written_from(self):
        local = bytearray(NUM * EACH)
        order = [(11 * i + 5) % NUM for i in range(NUM)]
        pieces = ucxpool.Pieces(local, offsets_of(order), EACH)
        self.assertEqual((pieces.count, pieces.length, pieces.is_cuda),
                         (NUM, NUM * EACH, False))
        await self.remote.read(offsets_of(order), pieces, length=EACH)
        self.assertEqual(local, self.memory)
        local[:] = os.urandom(NUM * EACH)
        ends = ucxpool.Pieces(local, rows_of([(0, 10), (NUM * EACH - 5, 5)]))
        self.assertEqual((ends.count, ends.length), (2, 15))
        await self.remote.write([(100, 15)], ends)
        self.assertEqual(self.memory[100:115], local[:10] + local[-5:])

    async def test_pieces_are_sent_and_received_into(self):
        local = bytearray(b"abcdefgh")
        sent = self.x.send(ucxpool.Pieces(local, [6, 0], 2))
        target = bytearray(8)
        await self.y.recv_into(ucxpool.Pieces(target, [(5, 1), (0, 3)]))
        await sent
        self.assertEqual(target, b"hab\0\0g\0\0")

    async def test_pieces_beyond_the_buffer_are_rejected(self):
        for places, length in (([(0, 9)], None), ([(2**64 - 1, 1)], None),
                               ([8], 1), ([9], 0)):
            with self.assertRaises(ValueError):
                ucxpool.Pieces(bytearray(8), places, length)
        with self.assertRaises(TypeError):
            ucxpool.Pieces([b"one", b"two"], [0], 1)
        with self.assertRaises(ValueError):
            self.remote.read([(0, 1)], ucxpool.Pieces(b"constant", [0], 1))

    async def test_list_of_pieces_is_copied(self):
        places = array.array("Q", [0])
        pieces = ucxpool.Pieces(bytearray(b"ab"), places, 1)
        places[0] = 1 << 60
        await self.remote.write([(0, 1)], pieces)
        self.assertEqual(self.memory[:1], b"a")

    async def test_owner_is_notified(self):
        target = bytearray(10)
        await self.remote.read([(0, 10)], target, notify=77, metadata=b"read")
        message = await self.y.recv()
        self.assertEqual((message.tag, message.metadata, message.length),
                         (77, b"read", 0))
        await message.into(bytearray())
        await self.remote.write([(0, 10)], bytes(10), notify=0)
        message = await self.y.recv()
        self.assertEqual((message.tag, message.metadata), (0, b""))
        self.assertEqual(self.memory[:10], bytes(10))
        await message.into(bytearray())
        with self.assertRaises(ValueError):
            self.remote.read([(0, 10)], target, metadata=b"for nobody")

    async def test_buffer_lengths_are_checked(self):
        for call in (lambda: self.remote.read([(0, 10)], bytearray(9)),
                     lambda: self.remote.write([(0, 10)], bytes(9)),
                     lambda: self.remote.write([(0, 10)], bytes(11))):
            with self.assertRaises(ValueError):
                call()
        target = bytearray(12)
        await self.remote.read([(0, 10)], target)
        self.assertEqual(target, self.memory[:10] + b"\0\0")

    async def test_blob_limits_access(self):
        with self.x.import_window(self.window.export()) as reader:
            self.assertEqual(reader.access, "read")
            with self.assertRaises(ucxpool.NotPermittedError):
                reader.write([(0, 1)], b"x")
        with self.assertRaises(ValueError):
            self.window.export(read=False)
        for blob in (b"", bytes(64), b"x" * 64):
            with self.assertRaises(ucxpool.Error):
                self.x.import_window(blob)

    async def test_blob_of_another_pool_is_refused(self):
        mine = self.a.window(bytearray(8))
        with self.assertRaises(ValueError):
            self.x.import_window(mine.export())
        await mine.aclose()

    async def test_read_only_memory_cannot_be_written(self):
        async with self.b.window(b"constant") as window:
            with self.assertRaises(ValueError):
                window.export(write=True)
            with self.x.import_window(window.export()) as remote:
                target = bytearray(8)
                await remote.read([(0, 8)], target)
                self.assertEqual(target, b"constant")

    async def test_windows_need_one_nonempty_buffer(self):
        for buffer, error in ((b"", ValueError), ([b"a", b"b"], TypeError),
                              (7, TypeError), (memoryview(b"abcd")[::2],
                                               ValueError)):
            with self.assertRaises(error):
                self.b.window(buffer)
        self.assertEqual(self.b.windows(), [self.window])

    async def test_buffer_is_held_until_the_window_closes(self):
        with self.assertRaises(BufferError):
            self.memory.append(1)
        await self.window.aclose()
        self.memory.append(1)
        self.assertTrue(self.window.closed)
        self.window.close()
        for call in (self.window.export, lambda: self.window.length):
            with self.assertRaises(ucxpool.ClosedError):
                call()

    async def test_dropped_window_stays_open(self):
        remote = self.x.import_window(self.b.window(b"stays").export())
        gc.collect()
        target = bytearray(5)
        await remote.read([(0, 5)], target)
        self.assertEqual(target, b"stays")
        remote.close()

    async def test_revoked_window_cannot_be_used(self):
        await self.remote.opened()
        blob = self.window.export()
        await self.window.revoke()
        self.assertTrue(self.window.revoked)
        self.assertEqual(self.window.peers, 0)
        with self.assertRaises(ucxpool.CanceledError):
            await self.remote.read([(0, 1)], bytearray(1))
        self.assertIn("revoked", self.remote.reason)
        self.assertIsInstance(self.remote.ended_with(), ucxpool.CanceledError)
        with self.assertRaises(ucxpool.CanceledError):
            self.window.export()
        again = self.x.import_window(blob)
        with self.assertRaises(ucxpool.RefusedError):
            await again.opened()
        with self.assertRaises(ucxpool.RefusedError):
            await again.read([(0, 1)], bytearray(1))

    async def test_buffers_are_held_until_the_transfer_ends(self):
        target, places = bytearray(NUM * EACH), offsets_of(range(NUM))
        transfer = self.remote.read(places, target, length=EACH)
        if not transfer.done:
            with self.assertRaises(BufferError):
                target.append(1)
            with self.assertRaises(BufferError):
                places.append(1)
        await transfer
        target.append(1)
        places.append(1)

    async def test_closed_remote_window_raises(self):
        self.remote.close()
        self.remote.close()
        self.assertTrue(self.remote.closed)
        for call in (lambda: self.remote.read([(0, 1)], bytearray(1)),
                     lambda: self.remote.length):
            with self.assertRaises(ucxpool.ClosedError):
                call()
        while self.window.peers:
            await self.b._until(lambda: None if self.window.peers else True)

    async def test_remote_window_ends_with_its_channel(self):
        await self.remote.opened()
        self.x.abort()
        with self.assertRaises(ucxpool.Error):
            await self.remote.read([(0, 1)], bytearray(1))
        await self.window.revoke()


class OverUcx(Windows):
    wire = "ucx"
    way = "messages"


# Owns a window until the channel is closed, or until it is killed.
OWNER = """
import sys
import ucxpool
pool = ucxpool.Pool(comm_size="8m", block_size="64k", window_way=sys.argv[1])
listener = pool.listen()
window = pool.window(b"word" * (4 << 20))
print(listener.port, window.export().hex(), flush=True)
channel = listener.accept().wait()
try:
    channel.recv().wait()
except ucxpool.ClosedError:
    window.close()
    print("closed", flush=True)
"""


# The same with a window in a file.
FILE_OWNER = """
import fcntl
import mmap
import os
import ucxpool
file = open(os.memfd_create("pages", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING),
            "r+b")
file.write(b"word" * (1 << 20))
file.flush()
fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
memory = mmap.mmap(file.fileno(), 4 << 20)
pool = ucxpool.Pool(comm_size="8m", block_size="64k")
listener = pool.listen()
window = pool.window(memory, "pages", file)
for buffer, wrong in ((memory, os.memfd_create("other")),
                      (bytearray(10), file)):
    try:
        pool.window(buffer, "pages", wrong)
        print("taken")
    except ValueError:
        pass
print(listener.port, window.export(read=True, write=True).hex(), flush=True)
channel = listener.accept().wait()
try:
    channel.recv().wait()
except ucxpool.ClosedError:
    print(memory[:6], window.peers, flush=True)
"""


class WithoutAsyncio(unittest.TestCase):
    def test_file_is_mapped(self):
        owner = python(FILE_OWNER)
        self.addCleanup(owner.stdout.close)
        self.addCleanup(owner.wait)
        port, blob = owner.stdout.readline().split()
        with ucxpool.Pool(**SETTINGS) as pool:
            channel = pool.connect(f"127.0.0.1:{port}").wait()
            remote = channel.import_window(bytes.fromhex(blob))
            self.assertEqual(remote.opened().wait().way, "mapped")
            target = bytearray(12)
            remote.read([(0, 4), ((4 << 20) - 8, 8)], target).wait()
            self.assertEqual(target, b"word" * 3)
            remote.write([(1, 5)], b"rites").wait()
            remote.close()
        self.assertEqual(owner.stdout.readline(), "b'writes' 0\n")

    def begin(self, way):
        owner = python(OWNER, way)
        self.addCleanup(owner.stdout.close)
        self.addCleanup(owner.wait)
        self.addCleanup(owner.kill)
        port, blob = owner.stdout.readline().split()
        pool = ucxpool.Pool(window_way=way, **SETTINGS)
        self.addCleanup(pool.close)
        channel = pool.connect(f"127.0.0.1:{port}").wait()
        remote = channel.import_window(bytes.fromhex(blob))
        self.assertIs(remote.opened().wait(), remote)
        self.assertEqual(remote.way,
                         "messages" if way == "messages" else "process")
        return owner, channel, remote

    def test_threads_read_and_the_owner_closes(self):
        for way in ("direct", "messages"):
            owner, channel, remote = self.begin(way)
            found = []

            def read(number):
                target = bytearray(4 * number)
                remote.read([(4 * i, 4) for i in range(number)],
                            target).wait()
                found.append(target == b"word" * number)
            threads = [threading.Thread(target=read, args=(number,))
                       for number in (1, 100, 10000)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(found, [True] * 3)
            remote.close()
            channel.pool.close()
            self.assertEqual(owner.stdout.readline(), "closed\n")

    def test_read_ends_when_the_owner_is_killed(self):
        for way in ("direct", "messages"):
            owner, _, remote = self.begin(way)
            target = bytearray(16 << 20)
            transfer = remote.read([(0, len(target))], target)
            owner.kill()
            owner.wait()
            try:
                transfer.wait()
                self.assertEqual(target, b"word" * (4 << 20))
                with self.assertRaises(ucxpool.PeerLostError):
                    for _ in range(1000):
                        remote.read([(0, len(target))], target).wait()
            except ucxpool.PeerLostError:
                pass

    def test_revoke_does_not_wait_for_an_idle_peer(self):
        with ucxpool.Pool(**SETTINGS) as a, ucxpool.Pool(**SETTINGS) as b:
            window = b.window(bytearray(8))
            listener = b.listen()
            channel = a._connect_channel(f"127.0.0.1:{listener.port}")
            remote = channel.import_window(window.export())
            accepted = None
            while not remote._is_answered():
                a._wait_some(0.01)
                b._wait_some(0.01)
                accepted = accepted or listener._take_channel()
            self.assertEqual(window.peers, 1)
            # Pool a makes no progress and copies nothing.
            window.revoke().wait()
            self.assertEqual(window.peers, 0)
            window.close()


if __name__ == "__main__":
    unittest.main()
