"""Tests transfers from Python. Both pools are in this process, unless the peer
must die."""
import asyncio
import ctypes
import gc
import importlib.metadata
import os
import pickle
import pydoc
import signal
import subprocess
import sys
import textwrap
import threading
import time
import unittest
import weakref
from unittest import mock

import ucxpool
from ucxpool._pool import _core

SETTINGS = {"comm_size": "8m", "block_size": "64k"}


def python(text, *arguments):
    """Start another process that runs this code."""
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(text),
                             *map(str, arguments)], stdout=subprocess.PIPE,
                            text=True)


async def until(condition):
    """Let the event loop run until the condition is true."""
    while not condition():
        await asyncio.sleep(0.01)


def is_asleep(pid):
    """Is the main thread of the process asleep?"""
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0] == "S"


class Pair(unittest.IsolatedAsyncioTestCase):
    """Two pools with a channel between them."""
    wire = "map"

    async def asyncSetUp(self):
        self.a = ucxpool.Pool(name="a", wire=self.wire, **SETTINGS)
        self.b = ucxpool.Pool(name="b", wire=self.wire, **SETTINGS)
        self.listener = self.b.listen()
        self.where = f"127.0.0.1:{self.listener.port}"
        self.x, self.y = await asyncio.gather(
            self.a.connect(self.where, name="x"), self.listener.accept())

    async def asyncTearDown(self):
        for pool in (self.a, self.b):
            if not pool.closed:
                pool.check()
                self.assertEqual(pool.info()["requests"], 0)
        # Close both at the same time, as two processes would.
        await asyncio.gather(self.a.aclose(), self.b.aclose())

    async def through(self, buffers, **words):
        sent = self.x.send(buffers, **words)
        message = await self.y.recv()
        frames = await message.frames()
        await sent
        return message, frames


class RequiredPaths(unittest.IsolatedAsyncioTestCase):
    """Channels over the wire ucx, without RDMA."""

    async def asyncSetUp(self):
        self.accepted = []
        self.a = ucxpool.Pool(name="a", wire="ucx", require="map", **SETTINGS)
        self.b = ucxpool.Pool(name="b", wire="ucx", **SETTINGS)

    async def asyncTearDown(self):
        await asyncio.gather(self.a.aclose(), self.b.aclose())

    def where(self, **words):
        async def accept(channel):
            self.accepted.append(channel)

        return f"127.0.0.1:{self.b.listen(handler=accept, **words).port}"

    async def test_setting_is_the_default(self):
        with self.assertRaisesRegex(ucxpool.UnsupportedError, "requires map"):
            await self.a.connect(self.where())

    async def test_connect_overrides_the_setting(self):
        channel = await self.a.connect(self.where(), require="any")
        self.assertEqual(channel.wire, "ucx")
        with self.assertRaisesRegex(ucxpool.UnsupportedError, "requires rma"):
            await self.a.connect(self.where(), require="rma")
        with self.assertRaisesRegex(ucxpool.UnsupportedError, "map or rma"):
            await self.a.connect(self.where(), require="map,rma")
        with self.assertRaisesRegex(ucxpool.UnsupportedError,
                                    "requires direct"):
            await self.a.connect(self.where(), require="direct")

    async def test_listener_refuses_other_paths(self):
        where = self.where(require="rma")
        with self.assertRaisesRegex(ucxpool.UnsupportedError,
                                    "the peer refused the channel: .*rma"):
            await self.a.connect(where, require="any")

    async def test_unknown_path_is_rejected(self):
        for word in ("tcp", "", "map,any", "rma,map", "map,direct"):
            with self.assertRaisesRegex(ucxpool.InvalidParameterError,
                                        'require is "' + word):
                await self.a.connect("127.0.0.1:1", require=word)
            with self.assertRaises(ucxpool.InvalidParameterError):
                self.b.listen(require=word)


class Messages(Pair):
    async def test_channel_describes_itself(self):
        self.assertEqual(self.x.state, "open")
        self.assertEqual(self.x.wire, self.wire)
        self.assertTrue(self.x.wire_reason)
        self.assertEqual(self.x.name, "x")
        self.assertEqual(self.x.remote_address, self.where)
        self.assertEqual(self.x.local_address, self.y.remote_address)
        self.assertIn("open", repr(self.x))
        self.assertIs(self.x.pool, self.a)

    async def test_buffers_of_all_types_keep_their_lengths(self):
        array = memoryview(bytearray(range(96)) * 1000).cast("I", (24, 1000))
        buffers = [b"bytes", bytearray(b"bytearray"), b"", array,
                   memoryview(b"view")[1:3]]
        message, frames = await self.through(buffers, tag=2**64 - 1,
                                             metadata=b"about")
        self.assertEqual(message.tag, 2**64 - 1)
        self.assertEqual(message.metadata, b"about")
        self.assertEqual(message.lengths, (5, 9, 0, 96000, 2))
        self.assertEqual(message.length, 96016)
        self.assertEqual(message.num_buffers, 5)
        self.assertEqual([bytes(one) for one in frames],
                         [b"bytes", b"bytearray", b"", array.tobytes(), b"ie"])
        frames[3][0] = 1  # the frames belong to this test

    async def test_one_buffer_none_and_an_iterator(self):
        for buffers, expected in ((b"one", [b"one"]), ([], []),
                                  (iter([b"a", b"b"]), [b"a", b"b"])):
            _, frames = await self.through(buffers)
            self.assertEqual([bytes(one) for one in frames], expected)

    async def test_ten_thousand_buffers(self):
        buffers = [os.urandom(1 + i % 300) for i in range(10000)]
        _, frames = await self.through(buffers)
        self.assertEqual([bytes(one) for one in frames], buffers)

    async def test_message_larger_than_the_blocks(self):
        buffer = os.urandom(20 << 20)
        _, frames = await self.through([buffer, b"end"])
        self.assertEqual(bytes(frames[0]), buffer)

    async def test_into_differently_split_buffers(self):
        sent = self.x.send([b"abc", b"defgh"])
        first, second = bytearray(6), bytearray(2)
        message = await self.y.recv()
        transfer = message.into([first, second])
        await transfer
        await sent
        self.assertEqual((first, second), (b"abcdef", b"gh"))
        self.assertEqual(transfer.length, 8)
        with self.assertRaises(ValueError):
            message.into(first)

    async def test_too_short_buffers_lose_nothing(self):
        sent = self.x.send(b"abc")
        message = await self.y.recv()
        with self.assertRaises(ucxpool.TruncatedError) as caught:
            await message.into(bytearray(2))
        self.assertIsInstance(caught.exception, BufferError)
        target = bytearray(3)
        await message.into(target)
        await sent
        self.assertEqual(target, b"abc")

    async def test_recv_into_too_short_buffers(self):
        for has_arrived in (False, True):
            sent = self.x.send(bytes(1 << 20))
            if has_arrived:
                await until(lambda: self.y._kept)
            with self.assertRaises(ucxpool.TruncatedError):
                await self.y.recv_into(bytearray(1))
            with self.assertRaises(ucxpool.Error):
                await sent

    async def test_recv_into_before_and_after_the_send(self):
        for before in (True, False):
            target = bytearray(5)
            if before:
                received = self.y.recv_into(target, tag=4)
                sent = self.x.send(b"hello", tag=4, metadata=b"m")
            else:
                sent = self.x.send(b"hello", tag=4, metadata=b"m")
                await until(lambda: self.y._kept)
                received = self.y.recv_into(target, tag=4)
            await received
            await sent
            self.assertEqual(target, b"hello")
            self.assertEqual((received.tag, received.length,
                              received.metadata), (4, 5, b"m"))

    async def test_tags_select_messages_and_keep_their_order(self):
        for i in range(6):
            await self.x.send(bytes([i]), tag=i % 2)
        odd = [await self.y.recv(1) for _ in range(3)]
        even = [await self.y.recv(0) for _ in range(3)]
        values = [bytes((await one.frames())[0])[0] for one in odd + even]
        self.assertEqual(values, [1, 3, 5, 0, 2, 4])

    async def test_mask_selects_the_bits_of_the_tag_to_compare(self):
        for i in range(4):
            await self.x.send(bytes([i]), tag=i)
        tags = [(await self.y.recv(tag, mask)).tag
                for tag, mask in ((3, 1), (0, 2), (3, None), (None, None))]
        self.assertEqual(tags, [1, 0, 3, 2])
        with self.assertRaisesRegex(ValueError, "a mask needs a tag"):
            self.y.recv(mask=1)

    async def test_waiting_receives_get_matching_messages(self):
        waits = [asyncio.create_task(self.y.recv(i))
                 for i in (3, 1, 2)]
        await asyncio.sleep(0)
        for i in (1, 2, 3):
            await self.x.send(bytes([i]), tag=i)
        messages = await asyncio.gather(*waits)
        self.assertEqual([one.tag for one in messages], [3, 1, 2])
        for one in messages:
            await one.frames()

    async def test_kept_message_is_found_while_another_receive_waits(self):
        other = asyncio.create_task(self.y.recv(1))
        await asyncio.sleep(0)
        for value in (b"a", b"b"):
            await self.x.send(value, tag=2)
        await until(lambda: len(self.y._kept) == 2)
        for value in (b"a", b"b"):
            message = await self.y.recv(2)
            self.assertEqual(bytes((await message.frames())[0]), value)
        await self.x.send(b"c", tag=1)
        await (await other).frames()

    async def test_several_tasks_await_one_transfer(self):
        sent = self.x.send(bytes(1 << 20))

        async def wait():
            await sent

        waits = [asyncio.create_task(wait()) for _ in range(3)]
        await asyncio.sleep(0)
        await (await self.y.recv()).frames()
        await asyncio.gather(*waits)

    async def test_allocator_makes_the_frames(self):
        made = []

        def allocator(length):
            made.append(bytearray(length))
            return made[-1]

        sent = self.x.send([b"ab", b"cde"])
        frames = await (await self.y.recv()).frames(allocator)
        await sent
        self.assertIs(frames[0], made[0])
        self.assertEqual(made, [b"ab", b"cde"])

    async def test_apart_frames_hold_little_other_memory(self):
        lengths = [0, 100, 4096, 4097, 0, 60000, 70000, *[3000] * 100]
        data = [os.urandom(length) for length in lengths]
        sent = self.x.send(data)
        frames = await (await self.y.recv()).frames(apart=True)
        await sent
        self.assertEqual(frames, data)
        pieces = {id(one.obj): len(one.obj) for one in frames}
        self.assertEqual({len(one.obj) for one in frames if len(one) > 4096},
                         {4097, 60000, 70000})
        self.assertLessEqual(max(len(one.obj) for one in frames
                                 if len(one) <= 4096), 65536)
        self.assertEqual(len(pieces), 3 + 5)

    async def test_lengths_are_known_after_receiving(self):
        for take in ("into", "frames", "refuse"):
            for lengths in ((3, 0, 70000), (5,), ()):
                sent = self.x.send([bytes(length) for length in lengths])
                message = await self.y.recv()
                if take == "into":
                    await message.into([bytearray(70003)])
                elif take == "frames":
                    await message.frames()
                else:
                    message.refuse("not wanted")
                try:
                    await sent
                except ucxpool.RefusedError:
                    self.assertEqual(take, "refuse")
                self.assertEqual(message.lengths, lengths)

    async def test_transfer_in_progress_has_no_result(self):
        transfer = self.y.recv_into(bytearray(4))
        for ask in (transfer.outcome, lambda: transfer.result):
            with self.assertRaisesRegex(asyncio.InvalidStateError,
                                        "in progress: await it"):
                ask()
        await self.x.send(b"four")
        await transfer
        self.assertIsNone(transfer.result)
        self.x.send(b"five")
        frames = (await self.y.recv()).frames()
        self.assertEqual(await frames, frames.result)
        short = self.y.recv_into(bytearray(1))
        self.x.send(b"long")
        with self.assertRaises(ucxpool.TruncatedError):
            await short
        with self.assertRaises(ucxpool.TruncatedError):
            short.result

    async def test_repr_describes_objects(self):
        sending = self.x.send([b"ab", b"cde"], tag=7)
        message = await self.y.recv()
        self.assertEqual(repr(message),
                         "<ucxpool.Message, tag 7, 5 bytes in 2 buffers>")
        receiving = message.into(bytearray(5))
        await receiving
        await sending
        self.assertEqual(repr(message),
                         "<ucxpool.Message, tag 7, 5 bytes in 2 buffers, "
                         "received or refused>")
        self.assertEqual(repr(receiving), "<ucxpool.Transfer, done, 5 bytes>")
        waiting = self.y.recv_into(bytearray(1))
        self.assertEqual(repr(waiting), "<ucxpool.Transfer, in progress>")
        waiting.cancel()
        with self.assertRaises(ucxpool.CanceledError):
            await waiting
        self.assertRegex(repr(waiting), "^<ucxpool.Transfer, failed: .+>$")
        self.assertEqual(repr(self.listener),
                         f"<ucxpool.Listener, port {self.listener.port}>")
        self.assertEqual(repr(self.y.recv()),
                         "<ucxpool.Operation, not begun>")
        self.assertEqual(
            repr(ucxpool.Pieces(bytearray(64), [0, 8], 4)),
            "<ucxpool.Pieces, 2 of the host, 8 bytes together>")
        self.assertRegex(repr(self.a), "^<ucxpool.Pool a on the host, ")
        self.assertRegex(repr(self.x), "^<ucxpool.Channel x, open, wire ")

    async def test_pool_may_be_created_in_another_thread(self):
        async with await asyncio.to_thread(ucxpool.Pool, **SETTINGS) as pool:
            channel = await pool.connect(self.where)
            self.assertEqual(channel.state, "open")
            await self.listener.accept()

    async def test_refusal_reaches_the_sender(self):
        for drop in (False, True):
            sent = self.x.send(bytes(1 << 20))
            message = await self.y.recv()
            if drop:
                del message
            else:
                message.refuse("no room for it")
            with self.assertRaisesRegex(
                    ucxpool.RefusedError,
                    "dropped" if drop else "no room for it"):
                await sent

    async def test_pool_connects_to_itself(self):
        mine, other = await asyncio.gather(self.b.connect(self.where),
                                           self.listener.accept())
        sent = mine.send(b"to myself")
        frames = await (await other.recv()).frames()
        await sent
        self.assertEqual(bytes(frames[0]), b"to myself")

    async def test_many_messages_in_both_directions(self):
        async def talk(channel, number):
            sent = [channel.send([bytes([number]) * (i * 37)], tag=i)
                    for i in range(200)]
            for i in range(200):
                message = await channel.recv()
                self.assertEqual(message.tag, i)
                frames = await message.frames()
                self.assertEqual(bytes(frames[0]),
                                 bytes([1 - number]) * (i * 37))
            await asyncio.gather(*sent)

        await asyncio.gather(talk(self.x, 0), talk(self.y, 1))

    def test_pools_without_a_name_get_different_names(self):
        with ucxpool.Pool(**SETTINGS) as one, ucxpool.Pool(**SETTINGS) as two:
            names = [pool.info()["name"] for pool in (one, two)]
        self.assertRegex(names[0], r"^ucxpool(-\d+)?$")
        self.assertRegex(names[1], r"^ucxpool-\d+$")
        self.assertNotEqual(*names)

    async def test_statistics_and_info(self):
        await self.through(b"counted")
        self.assertEqual(self.a.stats()["messages_sent"], 1)
        self.assertEqual(self.b.stats()["messages_received"], 1)
        info = self.a.info()
        self.assertEqual((info["name"], info["device"], info["block_size"]),
                         ("a", None, 65536))
        self.assertEqual(info["version"], ucxpool.version())
        numbers, files = ucxpool.ucx_version()
        self.assertGreaterEqual(numbers, (1, 13, 0))
        self.assertEqual(files.count("libucp"), 1)


class MessagesOverUcx(Messages):
    wire = "ucx"


class Batches(Pair):
    async def test_batch_posts_on_many_channels(self):
        again, other = await asyncio.gather(
            self.a.connect(self.where), self.listener.accept())
        targets = [bytearray(5) for _ in range(4)]
        batch = self.b.batch()
        for channel, number in ((self.y, 1), (other, 2)):
            batch.recv_into(channel, targets[number], tag=number)
        batch.send(self.y, bytes(1 << 20), tag=9)
        self.assertIn("3 operations", repr(batch))
        received = batch.post()
        self.assertEqual(len(batch), 0)
        batch = self.a.batch()
        batch.send(again, [b"wor", b"ld"], tag=2)
        batch.send(self.x, b"hello", tag=1, metadata=b"m")
        sent = batch.post() + batch.post()
        self.assertEqual(len(sent), 2)
        await (await self.x.recv(9)).frames()
        await asyncio.gather(*sent, *received)
        self.assertEqual(targets[1:3], [b"hello", b"world"])
        self.assertEqual((received[0].tag, received[0].metadata), (1, b"m"))

    async def test_batch_receives_kept_messages(self):
        for text in (b"one", b"two"):
            await self.x.send(text, tag=4)
        await until(lambda: len(self.y._kept) == 2)
        targets = [bytearray(3) for _ in range(4)]
        batch = self.b.batch()
        for target, tag in zip(targets, (5, 4, 4, 4)):
            batch.recv_into(self.y, target, tag=tag)
        received = batch.post()
        self.assertEqual([one.done for one in received][::3], [False, False])
        for text, tag in ((b"six", 4), (b"ten", 5)):
            await self.x.send(text, tag=tag)
        await asyncio.gather(*received)
        self.assertEqual(targets, [b"ten", b"one", b"two", b"six"])

    def refused(self, batch, error, regex):
        with self.assertRaisesRegex(error, regex) as caught:
            batch.post()
        return caught.exception

    async def test_batch_continues_after_a_refused_operation(self):
        """The library refuses the second operation, and this package the
        fourth one."""
        closed, peer = await asyncio.gather(
            self.a.connect(self.where), self.listener.accept())
        batch = self.a.batch()
        for number, channel in enumerate((self.x, self.x, self.x, closed,
                                          self.x)):
            batch.send(channel, bytes([number]), tag=number,
                       metadata=bytes(1 << 20 if number == 1 else 0))
        closed.close()
        error = self.refused(batch, ucxpool.LimitError, "MAX_METADATA")
        self.assertEqual(error.__notes__, [
            "operation 1 of the batch was refused; the 3 after it were not "
            "posted"])
        first, second = batch.transfers
        await first
        with self.assertRaisesRegex(ucxpool.LimitError, "MAX_METADATA"):
            await second
        self.refused(batch, ucxpool.ClosedError, "closed")
        self.assertEqual((len(batch), len(batch.transfers)), (1, 4))
        transfers = batch.post()
        self.assertEqual(batch.transfers, [])
        self.assertEqual([one.status for one in transfers],
                         [0, -18, 0, -17, 0])
        for number in (0, 2, 4):
            message = await self.y.recv()
            self.assertEqual(message.tag, number)
            await message.frames()
        peer.close()

    async def test_batch_rejects_wrong_arguments_at_once(self):
        batch = self.a.batch()
        with self.assertRaises(TypeError):
            batch.send(self.x, 7)
        with self.assertRaisesRegex(ValueError, "a mask needs a tag"):
            batch.recv_into(self.x, bytearray(1), mask=1)
        self.assertEqual((len(batch), batch.post()), (0, []))
        batch.send(self.y, b"")
        self.refused(batch, ucxpool.InvalidParameterError, "another pool")
        self.assertEqual(len(batch), 0)

    async def test_batch_refuses_a_kept_message_of_another_pool(self):
        await self.x.send(b"one", tag=4)
        await until(lambda: self.y._kept)
        batch = self.a.batch()
        batch.recv_into(self.y, bytearray(3), tag=4)
        self.refused(batch, ucxpool.InvalidParameterError, "another pool")
        target = bytearray(3)
        await self.y.recv_into(target, tag=4)
        self.assertEqual(target, b"one")

    async def test_batch_leaves_transfers_of_its_pool_alone(self):
        """A refused operation of another pool can have the number of a
        transfer in progress."""
        ahead = self.a.batch()
        for _ in range(200):
            ahead.send(self.x, b"")
        target = bytearray(1)
        received = self.x.recv_into(target, tag=77)
        for _ in range(400):
            batch = self.a.batch()
            batch.send(self.y, b"")
            self.refused(batch, ucxpool.InvalidParameterError, "another pool")
        self.assertEqual(self.a.info()["requests"], 1)
        await self.y.send(b"!", tag=77)
        await received
        self.assertEqual(target, b"!")

    async def test_batch_continues_after_a_refused_kept_message(self):
        await self.x.send(b"one", tag=4)
        await until(lambda: self.y._kept)
        reason = ucxpool.OutOfMemoryError("no memory")
        target = bytearray(3)
        batch = self.b.batch()
        batch.recv_into(self.y, target, tag=5)
        batch.recv_into(self.y, bytearray(3), tag=4)
        batch.send(self.y, b"last", tag=6)
        message = weakref.ref(self.y._kept[0])
        with (mock.patch.object(message(), "_post_op", side_effect=reason),
              mock.patch.object(self.b, "_kick",
                                wraps=self.b._kick) as kick):
            # assertRaises() would clear the frames of the traceback.
            try:
                batch.post()
            except ucxpool.OutOfMemoryError as error:
                self.assertIs(error, reason)
            else:
                self.fail("the receive was not refused")
        kick.assert_called()
        # Another receive can have the message.
        self.assertEqual(list(self.y._kept), [message()])
        self.assertEqual(reason.__notes__, [
            "operation 1 of the batch was refused; the 1 after it were not "
            "posted"])
        self.assertEqual((len(batch), len(batch.transfers)), (1, 2))
        with self.assertRaisesRegex(ucxpool.OutOfMemoryError, "no memory"):
            await batch.transfers[1]
        transfers = batch.post()
        await (await self.x.recv(6)).frames()
        with self.assertRaises(ValueError):
            self.y.recv_into(b"read-only", tag=4)
        await self.y.recv_into(bytearray(3), tag=4)
        await self.x.send(b"two", tag=5)
        await asyncio.gather(transfers[0], transfers[2])
        self.assertEqual(target, b"two")

    async def test_batch_without_memory_still_starts_its_transfers(self):
        batch = self.a.batch()
        batch.send(self.x, b"text")
        with (mock.patch.object(self.a, "_post_batch",
                                side_effect=MemoryError("no memory")),
              mock.patch.object(self.a, "_kick",
                                wraps=self.a._kick) as kick):
            self.refused(batch, MemoryError, "no memory")
        kick.assert_called()
        self.assertEqual((len(batch), batch.transfers), (1, []))
        sent, = batch.post()
        await (await self.y.recv()).frames()
        await sent

    async def test_batch_reads_the_buffers_of_a_kept_message_once(self):
        await self.x.send(b"one", tag=4)
        await until(lambda: self.y._kept)
        targets = [bytearray(1), bytearray(2)]
        batch = self.b.batch()
        buffers = mock.MagicMock(spec=["__iter__"])
        buffers.__iter__.side_effect = lambda: iter(targets)
        batch.recv_into(self.y, buffers, tag=4)
        await asyncio.gather(*batch.post())
        self.assertEqual(targets, [b"o", b"ne"])
        buffers.__iter__.assert_called_once()

    async def test_batch_of_a_closed_pool_raises(self):
        batch = self.a.batch()
        batch.send(self.x, b"text")
        await self.a.aclose()
        self.refused(batch, ucxpool.ClosedError, "pool .*closed")


class BatchesOverUcx(Batches):
    wire = "ucx"


class BadInput(Pair):
    async def test_non_buffers_are_rejected(self):
        with self.assertRaisesRegex(TypeError, "buffer 1 is a int, which has"):
            self.x.send([b"", 7])
        with self.assertRaises(TypeError):
            self.x.send(7)

    async def test_strided_and_read_only_buffers_are_rejected(self):
        with self.assertRaisesRegex(ValueError, "buffer 1: .*contiguous"):
            self.x.send([b"", memoryview(b"abcdef")[::2]])
        with mock.patch.object(self.x, "_take") as take:
            with self.assertRaisesRegex(ValueError, "buffer 0: "):
                self.x.recv_into(b"constant")
        take.assert_not_called()

    async def test_gpu_memory_in_a_host_pool_is_rejected(self):
        class Array:
            __cuda_array_interface__ = {
                "shape": (4,), "typestr": "<f4", "data": (4096, False),
                "version": 3}

        with self.assertRaisesRegex(ValueError, r"Pool\(device=0\)"):
            self.x.send(Array())

    async def test_invalid_settings_and_addresses_are_rejected(self):
        with self.assertRaisesRegex(ucxpool.InvalidParameterError,
                                    "NO_SUCH_SETTING"):
            ucxpool.Pool(no_such_setting=1)
        with self.assertRaises(ValueError):
            await self.a.connect("nowhere")
        with self.assertRaises(OSError) as caught:
            self.a.listen(self.where)
        self.assertIsInstance(caught.exception, ucxpool.AddressInUseError)

    async def test_too_long_metadata_and_tags_are_rejected(self):
        with self.assertRaises(ucxpool.LimitError):
            self.x.send(b"", metadata=bytes(1 << 20))
        with self.assertRaises(OverflowError):
            self.x.send(b"", tag=2**64)

    async def test_negative_timeouts_are_rejected(self):
        with self.assertRaisesRegex(ValueError, "is negative"):
            self.x.send(b"", timeout=-1)


class Ends(Pair):
    async def test_connect_fails_without_a_listener(self):
        with self.assertRaises(ConnectionError) as caught:
            await self.a.connect("127.0.0.1:1")
        self.assertIsInstance(caught.exception, ucxpool.PeerLostError)
        self.assertIn("127.0.0.1:1", str(caught.exception))

    async def test_cancelled_receive_loses_no_message(self):
        for num_turns in (1, 10):
            task = asyncio.create_task(self.y.recv())
            for _ in range(num_turns):
                await asyncio.sleep(0)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            sent = self.x.send(b"still there")
            frames = await (await self.y.recv()).frames()
            await sent
            self.assertEqual(bytes(frames[0]), b"still there")

    async def test_receive_cancelled_after_a_message_arrived(self):
        task = asyncio.create_task(self.y.recv())
        await asyncio.sleep(0)
        keep = self.y._keep

        def keep_and_cancel(message):
            keep(message)
            task.cancel()

        self.y._keep = keep_and_cancel
        await self.x.send(b"given")
        with self.assertRaises(asyncio.CancelledError):
            await task
        del self.y._keep
        frames = await (await self.y.recv()).frames()
        self.assertEqual(bytes(frames[0]), b"given")

    async def test_cancelled_send_releases_its_memory_first(self):
        memory = bytearray(1 << 20)
        count = sys.getrefcount(memory)

        async def send():
            await self.x.send(memory)

        task = asyncio.create_task(send())
        await asyncio.sleep(0)
        with self.assertRaises(BufferError):
            memory.append(1)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        memory.append(1)
        self.assertEqual(sys.getrefcount(memory), count)
        self.assertEqual(self.a.info()["requests"], 0)

    async def test_timeouts_end_transfers(self):
        timeout = 1
        while not self.y._kept:  # a message is not sent after its timeout
            sent = self.x.send(bytes(1 << 20), timeout=timeout)
            with self.assertRaises(TimeoutError) as caught:
                await sent
            self.assertIsInstance(caught.exception, ucxpool.TimedOutError)
            timeout *= 2
        # There is no data for the message now.
        with self.assertRaises(ucxpool.CanceledError):
            await (await self.y.recv()).frames()
        with self.assertRaises(ucxpool.TimedOutError):
            await self.y.recv_into(bytearray(1), tag=1, timeout=0.05)
        with self.assertRaises(TimeoutError):
            async with asyncio.timeout(0.05):
                await self.y.recv(1)

    async def test_close_delivers_posted_sends(self):
        self.x.send([b"last words", bytes(300000)])
        self.x.close()
        self.assertTrue(self.x.closed)
        message = await self.y.recv()
        frames = await message.frames()
        self.assertEqual(bytes(frames[0]), b"last words")
        with self.assertRaises(ucxpool.ClosedError):
            await self.y.recv()
        with self.assertRaises(ConnectionError):
            self.x.send(b"")

    async def test_close_ends_waiting_receives(self):
        here = asyncio.create_task(self.x.recv())
        there = asyncio.create_task(self.y.recv())
        into = self.y.recv_into(bytearray(1))
        await asyncio.sleep(0)
        self.x.close()
        for one in (here, there):
            with self.assertRaises(ucxpool.ClosedError):
                await one
        with self.assertRaises(ucxpool.Error):
            await into

    async def test_closing_the_pool_ends_everything(self):
        waiting = asyncio.create_task(self.x.recv())
        accepting = asyncio.create_task(self.listener.accept())
        memory = bytearray(1 << 20)
        sent = self.x.send(memory)
        await asyncio.sleep(0)
        await self.b.aclose()
        with self.assertRaises(ucxpool.ClosedError):
            await accepting
        await self.a.aclose()
        with self.assertRaises(ucxpool.ClosedError):
            await waiting
        with self.assertRaises(ucxpool.Error):
            await sent
        memory.append(1)
        with self.assertRaises(ucxpool.ClosedError):
            self.a.stats()
        self.assertIn("closed", repr(self.a))

    async def test_dropped_channel_is_closed(self):
        del self.x
        gc.collect()
        with self.assertRaises(ucxpool.ClosedError):
            await self.y.recv()

    async def test_dropped_channels_are_not_kept(self):
        for _ in range(10):
            mine = await self.a.connect(self.where)
            other = await self.listener.accept()
            del mine
            gc.collect()
            with self.assertRaises(ucxpool.ClosedError):
                await other.recv()
        self.assertEqual(self.a.info()["channels"], 1)
        # y, and the last accepted channel.
        self.assertEqual(self.b.info()["channels"], 2)

    async def test_flush_waits_for_the_receiver(self):
        self.x.send(bytes(1 << 20))
        flush = self.x.flush()
        await until(lambda: self.y._kept)
        self.assertFalse(flush.done)
        await (await self.y.recv()).frames()
        await flush

    async def test_killed_peer_ends_transfers(self):
        peer = python("""
            import asyncio, sys, ucxpool

            async def main():
                async with ucxpool.Pool(comm_size="8m") as pool:
                    channel = await pool.connect(sys.argv[1])
                    await channel.send(b"here")
                    await asyncio.Event().wait()

            asyncio.run(main())
            """, self.where)
        channel = await self.listener.accept()
        await (await channel.recv()).frames()
        memory = bytearray(1 << 20)
        sent = channel.send(memory)
        received = asyncio.create_task(channel.recv())
        into = channel.recv_into(bytearray(9), tag=1, mask=1)
        await asyncio.sleep(0)
        peer.kill()
        for one in (sent, received, into):
            with self.assertRaises(ConnectionError) as caught:
                await one
            self.assertIsInstance(caught.exception, ucxpool.PeerLostError)
        memory.append(1)
        self.assertEqual(channel.state, "failed")
        peer.wait()
        peer.stdout.close()


class Listeners(Pair):
    async def test_iteration_ends_when_the_listener_closes(self):
        seen = []

        async def serve():
            async for channel in self.listener:
                seen.append(channel)

        task = asyncio.create_task(serve())
        for _ in range(3):
            await self.a.connect(self.where)
        await until(lambda: len(seen) == 3)
        self.listener.close()
        await task

    async def test_accept_cancelled_while_its_listener_closes(self):
        accepting = asyncio.create_task(self.listener.accept())
        await asyncio.sleep(0)
        accepting.cancel()
        self.listener.close()
        with self.assertRaises(asyncio.CancelledError):
            await accepting

    async def test_handler_runs_for_each_peer(self):
        async def handler(channel):
            message = await channel.recv()
            await channel.send(await message.frames(), tag=message.tag + 1)

        listener = self.b.listen(handler=handler)
        channels = [await self.a.connect(f"127.0.0.1:{listener.port}")
                    for _ in range(3)]
        for i, channel in enumerate(channels):
            channel.send(bytes([i]), tag=i)
        for i, channel in enumerate(channels):
            message = await channel.recv()
            self.assertEqual(message.tag, i + 1)
            await message.frames()

    async def test_secrets_must_match(self):
        with ucxpool.Pool(secret=b"s" * 32, **SETTINGS) as pool:
            listener = pool.listen()
            where = f"127.0.0.1:{listener.port}"
            accepting = asyncio.create_task(listener.accept())
            with self.assertRaises(ucxpool.NotPermittedError):
                await self.a.connect(where)
            async with ucxpool.Pool(secret=b"s" * 32, **SETTINGS) as other:
                channel = await other.connect(where)
                self.assertEqual(channel.state, "open")
                await accepting


class Package(unittest.TestCase):
    def test_heap_uses_the_same_library(self):
        with ucxpool.Heap(memory_limit="64m") as heap:
            memory = heap.buffer(1 << 20)
            memoryview(memory).cast("B")[:] = bytes(1 << 20)
        self.assertTrue(os.path.exists(ucxpool.library_path()))
        with open("/proc/self/maps", encoding="utf-8") as maps:
            files = {line.split()[-1] for line in maps
                     if "/libucxpool" in line}
        self.assertEqual(len(files), 2, files)

    def test_package_has_a_version(self):
        self.assertEqual(ucxpool.__version__,
                         importlib.metadata.version("ucxpool"))
        self.assertIn("__version__", dir(ucxpool))

    def test_help_hides_cython_and_man_pages(self):
        public = [getattr(ucxpool, name) for name in ucxpool.__all__]
        for one in [ucxpool, *(one for one in public if callable(one))]:
            self.assertNotRegex(pydoc.plain(pydoc.render_doc(one)),
                                "_cython__|man 7")

    def test_objects_are_not_pickled(self):
        with ucxpool.Pool(comm_size="1m", block_size="64k") as pool:
            with self.assertRaises(TypeError):
                pickle.dumps(pool)

    def test_ucxpool_info_prints_every_setting(self):
        def told(*arguments):
            return subprocess.run(
                [sys.executable, "-m", "ucxpool.info", *arguments],
                check=True, stdout=subprocess.PIPE, text=True).stdout

        report = told()
        for line in (f"package +{ucxpool.__version__}\n",
                     f"library +{ucxpool.version()}, .*libucxpool",
                     r"UCX +1\.\d+\.\d+, /", r"block size +\d+\n"):
            self.assertRegex(report, line)
        settings = told("--config")
        for key in ("COMM_SIZE", "SECRET_FILE", "LOG_LEVEL"):
            self.assertRegex(settings, rf"(?m)^UCXPOOL_{key}=")
        for comment in ("Takes", "Default", "From"):
            self.assertRegex(settings, rf"(?m)^# {comment}: ")

    def test_each_status_has_a_matching_builtin(self):
        for kind, builtin in ((ucxpool.InvalidParameterError, ValueError),
                              (ucxpool.OutOfMemoryError, MemoryError),
                              (ucxpool.NoBlocksError, MemoryError),
                              (ucxpool.InputOutputError, OSError),
                              (ucxpool.TimedOutError, TimeoutError),
                              (ucxpool.PeerLostError, ConnectionError),
                              (ucxpool.ClosedError, ConnectionError),
                              (ucxpool.NotPermittedError, PermissionError),
                              (ucxpool.TruncatedError, BufferError)):
            error = kind("what to change")
            self.assertIsInstance(error, builtin)
            self.assertIsInstance(error, ucxpool.Error)
            self.assertEqual((str(error), error.status),
                             ("what to change", kind.status))


class NewMemory(unittest.TestCase):
    """Tests the memory for received frames."""

    def place(self, size):
        """Return the address of an allocation that is freed at once."""
        memory = _core.Memory(size)
        view = memoryview(memory)
        self.assertEqual((view.nbytes, len(memory)), (size, size))
        view[:1] = view[size - 1:] = b"x"
        return ctypes.addressof((ctypes.c_char * size).from_buffer(memory))

    def test_freed_memory_serves_similar_sizes(self):
        for size in (100000, 1 << 20, 5000000, 40 << 20):
            place = self.place(size)
            self.assertEqual(self.place(size), place)
            self.assertEqual(self.place(size - size // 100), place)

    def test_memory_in_use_is_not_reused(self):
        kept = [_core.Memory(1 << 20) for _ in range(3)]
        for number, one in enumerate(kept):
            memoryview(one)[:] = bytes([number]) * (1 << 20)
        self.assertEqual([memoryview(one)[-1] for one in kept], [0, 1, 2])

    @unittest.skipIf("ASAN_OPTIONS" in os.environ,
                     "the sanitizer keeps what is freed")
    def test_little_freed_memory_is_kept(self):
        text = textwrap.dedent("""
            import ctypes
            from ucxpool._pool import _core

            def resident():
                with open("/proc/self/statm") as file:
                    return int(file.read().split()[1]) * 4096

            before = resident()
            for size in range(1 << 20, 120 << 20, 7 << 20):
                one = _core.Memory(size)
                ctypes.memset((ctypes.c_char * size).from_buffer(one), 1, size)
                del one
            print(resident() - before)
            """)
        # Freed memory is returned to the system at once.
        said = subprocess.run(
            [sys.executable, "-c", text], text=True, check=True,
            stdout=subprocess.PIPE,
            env={**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"})
        self.assertLess(int(said.stdout), 68 << 20)
        self.assertGreater(int(said.stdout), 0)


class Threads(unittest.TestCase):
    def test_without_an_event_loop(self):
        with ucxpool.Pool(**SETTINGS) as pool:
            listener = pool.listen()
            where = f"127.0.0.1:{listener.port}"

            def client():
                with ucxpool.Pool(**SETTINGS) as mine:
                    channel = mine.connect(where).wait()
                    channel.send([b"a", bytes(1 << 20)], tag=3).wait()
                    answer = channel.recv().wait()
                    target = bytearray(1)
                    answer.into(target).wait()
                    found.append(bytes(target))
                    channel.flush().wait()

            found = []
            thread = threading.Thread(target=client)
            thread.start()
            channel = listener.accept().wait()
            frames = channel.recv(3).wait().frames().wait()
            channel.send(frames[0]).wait()
            with self.assertRaises(ucxpool.ClosedError):
                channel.recv().wait()
            thread.join()
            self.assertEqual(found, [b"a"])
            with self.assertRaisesRegex(ucxpool.TimedOutError, "0.01 s"):
                listener.accept().wait(0.01)
            with self.assertRaises(ucxpool.TimedOutError):
                pool.connect(where).wait(0)

    def test_other_threads_deliver_the_failure_of_a_new_channel(self):
        told = []

        class Channel(ucxpool.Channel):
            def __init__(self):
                other = threading.Thread(target=progress, args=(self,))
                other.start()
                other.join()
                super().__init__()

            def _on_event(self, kinds):
                super()._on_event(kinds)
                told.append((self, kinds))

        def progress(channel):
            while channel.state == "connecting":
                pool._hand_out(pool._progress())

        with ucxpool.Pool(log_level="error", **SETTINGS) as pool:
            pool._channel_type = Channel
            channel = pool._connect_channel("127.0.0.1:1")
            progress(channel)
            self.assertEqual(told, [(channel, _core.EVENT_STATE)])

    def test_handler_needs_an_event_loop(self):
        async def handler(channel):
            channel.close()

        with ucxpool.Pool(**SETTINGS) as pool:
            with self.assertRaisesRegex(RuntimeError, "no event loop"):
                pool.listen(handler=handler)
            self.assertEqual(pool.listeners(), [])

    def test_threads_next_to_an_event_loop(self):
        async def main():
            async with ucxpool.Pool(**SETTINGS) as pool:
                listener = pool.listen()
                mine, other = await asyncio.gather(
                    pool.connect(f"127.0.0.1:{listener.port}"),
                    listener.accept())

                def work(number):
                    for _ in range(50):
                        mine.send(bytes([number]) * 70000,
                                  tag=number).wait()
                        message = mine.recv(number).wait()
                        frames = message.frames().wait()
                        self.assertEqual(bytes(frames[0]), bytes([number]) * 9)

                async def serve():
                    for _ in range(150):
                        message = await other.recv()
                        frames = await message.frames()
                        await other.send(frames[0][:9], tag=message.tag)

                await asyncio.gather(serve(), *[asyncio.to_thread(work, i)
                                                for i in range(3)])

        asyncio.run(main())

    def test_pool_moves_to_a_new_loop(self):
        with ucxpool.Pool(**SETTINGS) as pool:
            listener = pool.listen()

            async def main():
                mine, other = await asyncio.gather(
                    pool.connect(f"127.0.0.1:{listener.port}"),
                    listener.accept())
                sent = mine.send(b"x")
                await (await other.recv()).frames()
                await sent

            asyncio.run(main())
            asyncio.run(main())

    def test_thread_continues_after_the_loop_closed(self):
        with ucxpool.Pool(**SETTINGS) as pool:
            listener = pool.listen()

            async def main():
                return await asyncio.gather(
                    pool.connect(f"127.0.0.1:{listener.port}"),
                    listener.accept())

            mine, other = asyncio.run(main())
            sent = mine.send(bytes(1 << 20))
            frames = other.recv().wait().frames().wait()
            self.assertEqual(len(frames[0]), 1 << 20)
            sent.wait()

    def test_threads_that_begin_to_wait_at_once_are_all_woken(self):
        calls, threads = [], []

        class Both(ucxpool._pool._Both):
            """While the second thread is about to wait, a third one is, too."""

            def __init__(self, *both):
                if not threads:
                    threads.append(threading.Thread(
                        target=sent._add_callback,
                        args=(lambda: calls.append(3),)))
                    threads[0].start()
                    threads[0].join(0.3)
                super().__init__(*both)

        with ucxpool.Pool(**SETTINGS) as pool, \
                mock.patch.object(ucxpool._pool, "_Both", Both):
            listener = pool.listen()

            async def main():
                return await asyncio.gather(
                    pool.connect(f"127.0.0.1:{listener.port}"),
                    listener.accept())

            mine, other = asyncio.run(main())
            sent = mine.send(bytes(1 << 20))
            sent._add_callback(lambda: calls.append(1))
            sent._add_callback(lambda: calls.append(2))
            threads[0].join()
            other.recv().wait().frames().wait()
            sent.wait()
        self.assertEqual(calls, [1, 2, 3])

    def test_pool_closes_while_threads_wait(self):
        for _ in range(20):
            pool = ucxpool.Pool(**SETTINGS)
            listener = pool.listen()
            ends = []

            def work():
                try:
                    listener.accept().wait()
                except ucxpool.Error as error:
                    ends.append(type(error))

            threads = [threading.Thread(target=work) for _ in range(2)]
            for thread in threads:
                thread.start()
            time.sleep(0.01)
            pool.close()
            for thread in threads:
                thread.join()
            self.assertEqual(ends, [ucxpool.ClosedError] * 2)


class Processes(unittest.TestCase):
    def run_python(self, text, returncode=0):
        process = python(text)
        said, _ = process.communicate(timeout=1800)
        self.assertEqual(process.returncode, returncode)
        return said

    def test_interpreter_exits_during_transfers(self):
        said = self.run_python("""
            import asyncio, ucxpool

            async def main():
                pool = ucxpool.Pool(comm_size="8m", close_timeout="50ms")
                listener = pool.listen()
                x, y = await asyncio.gather(
                    pool.connect(f"127.0.0.1:{listener.port}"),
                    listener.accept())
                keep.extend([x, y, x.send(bytearray(1 << 20)),
                             y.recv_into(bytearray(9), tag=1, mask=1)])

            keep = []
            asyncio.run(main())
            print("end")
            """)
        self.assertEqual(said, "end\n")

    def run_connected(self, text):
        """Run code that has a connected pool, in another process, because it
        may crash. Freed memory is overwritten at once."""
        said = subprocess.run(
            [sys.executable, "-c", textwrap.dedent("""
                import threading, ucxpool

                def connected():
                    pool = ucxpool.Pool(comm_size="8m", close_timeout="50ms")
                    listener = pool.listen()
                    mine = pool.connect(f"127.0.0.1:{listener.port}").wait()
                    return pool, mine, listener.accept().wait()
                """) + textwrap.dedent(text)],
            capture_output=True, text=True, timeout=1800,
            env={**os.environ, "MALLOC_PERTURB_": "165"})
        self.assertEqual(said.returncode, 0, said.stderr)
        return said.stdout

    def test_pool_closes_while_threads_send(self):
        said = self.run_connected("""
            def send(mine, sent):
                try:
                    while True:
                        mine.send(bytes(100))
                        sent.release()
                except ucxpool.ClosedError:
                    pass

            for _ in range(40):
                pool, mine, other = connected()
                sent = threading.Semaphore(0)
                threads = [threading.Thread(target=send, args=(mine, sent))
                           for _ in range(3)]
                for thread in threads:
                    thread.start()
                for _ in range(50):
                    sent.acquire()
                pool.close()
                for thread in threads:
                    thread.join()
            print("end")
            """)
        self.assertEqual(said, "end\n")

    def test_iterator_of_buffers_closes_pool_or_channel(self):
        said = self.run_connected("""
            for closes_pool in (True, False):
                pool, mine, other = connected()

                def buffers():
                    yield b"some"
                    (pool if closes_pool else mine).close()
                    yield b"more"

                try:
                    mine.send(buffers())
                except ucxpool.ClosedError as error:
                    print(error)
            """)
        self.assertEqual(said, "the pool of this channel is closed\n"
                               "this channel is closed\n")

    def test_reference_cycles_are_collected(self):
        said = self.run_python("""
            import gc, weakref, ucxpool

            def make():
                pool = ucxpool.Pool(comm_size="8m", close_timeout="50ms")
                listener = pool.listen()
                x = pool.connect(f"127.0.0.1:{listener.port}").wait()
                y = listener.accept().wait()
                sent = x.send(b"kept")
                circle = [pool, listener, x, y, sent, y.recv().wait(),
                          x.send(bytearray(1 << 20))]
                for one in circle:
                    if hasattr(one, "__dict__"):
                        one.circle = circle
                circle.append(circle)
                return weakref.ref(pool)

            pools = [make() for _ in range(10)]
            gc.collect()
            print([pool() for pool in pools].count(None))
            """)
        self.assertEqual(said, "10\n")

    def test_forked_child_gets_an_error(self):
        said = self.run_python("""
            import os, ucxpool
            pool = ucxpool.Pool(comm_size="8m")
            if os.fork() == 0:
                try:
                    pool.listen()
                except RuntimeError as error:
                    print(error, flush=True)
                pool.close()
                os._exit(0)
            os.wait()
            print(pool.listen().port > 0)
            """)
        self.assertRegex(said, "(?s)parent process.*True")

    def test_exit_of_a_forked_child_keeps_the_parents_transfers(self):
        """The child exits normally, with copies of all objects of its
        parent."""
        said = self.run_python("""
            import os, sys, ucxpool
            with ucxpool.Pool(comm_size="8m") as pool:
                listener = pool.listen()
                x = pool.connect(f"127.0.0.1:{listener.port}").wait()
                y = listener.accept().wait()
                data = os.urandom(1 << 20)
                small = x.send(b"small", tag=1)
                sent = x.send(data, tag=2)
                message = y.recv(1).wait()
                child = os.fork()
                if child == 0:
                    for call in (lambda: x.send(b""), message.frames,
                                 sent.wait, pool.stats):
                        try:
                            call()
                        except RuntimeError as error:
                            print(error)
                    del message, x, y
                    sys.exit(0)
                print(os.waitpid(child, 0)[1])
                print(bytes(message.frames().wait()[0]))
                frames = y.recv(2).wait().frames().wait()
                sent.wait()
                print(frames[0] == data)
            """)
        told = "this pool belongs to the parent process: .*\\n"
        self.assertRegex(said, f"^({told}){{4}}0\nb'small'\nTrue\n$")

    def test_other_children_create_their_own_pools(self):
        for method in ("spawn", "forkserver"):
            context = __import__("multiprocessing").get_context(method)
            with ucxpool.Pool(**SETTINGS) as pool:
                listener = pool.listen()
                child = context.Process(
                    target=send_hello,
                    args=(f"127.0.0.1:{listener.port}",))
                child.start()
                channel = listener.accept().wait()
                frames = channel.recv().wait().frames().wait()
                self.assertEqual(bytes(frames[0]), b"hello")
                child.join()
                self.assertEqual(child.exitcode, 0)

    def test_control_c_ends_a_wait(self):
        process = python("""
            import ucxpool
            with ucxpool.Pool(comm_size="8m") as pool:
                listener = pool.listen()
                print("waiting", flush=True)
                try:
                    listener.accept().wait()
                except KeyboardInterrupt:
                    print("interrupted")
            """)
        self.assertEqual(process.stdout.readline(), "waiting\n")
        while not is_asleep(process.pid):
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.communicate(timeout=1800)[0], "interrupted\n")


def send_hello(where):
    with ucxpool.Pool(**SETTINGS) as pool:
        channel = pool.connect(where).wait()
        channel.send(b"hello").wait()
        channel.flush().wait()


if __name__ == "__main__":
    unittest.main()
