"""Tests the pool with a busy event loop, and with all the ways in which a
program can wait."""
import asyncio
import concurrent.futures
import os
import socket
import threading
import unittest

import test_pool
import ucxpool
from test_pool import SETTINGS

# ucxpool._core: a turn ends after this many rounds in which something moved.
TURN_ROUNDS = 64
LIMIT = 1800


class Busy(test_pool.Pair):
    """Two pools, and a callback that runs once in each iteration of the
    loop."""

    async def asyncSetUp(self):
        await super().asyncSetUp()
        self.turns = []  # the pool of each turn, and None for each iteration
        self.most_rounds = 0
        self.is_busy = True
        self.watch(self.a)
        self.watch(self.b)
        self.beat()

    async def asyncTearDown(self):
        self.is_busy = False
        await super().asyncTearDown()

    def watch(self, pool):
        """Record each turn. The loop already has the method."""
        turn = pool._progress

        def noted():
            events = turn()
            self.turns.append(pool)
            self.most_rounds = max(self.most_rounds, pool._num_rounds)
            return events

        pool._progress = noted

    def beat(self):
        self.turns.append(None)
        if self.is_busy:
            asyncio.get_running_loop().call_soon(self.beat)

    def check_turns(self):
        """In one iteration a pool has at most one scheduled turn and one turn
        because its descriptor is readable: after the callback of this
        iteration, and before that of the next."""
        in_row = {}
        for one in self.turns:
            if one is None:
                in_row.clear()
            else:
                in_row[one] = in_row.get(one, 0) + 1
                self.assertLessEqual(in_row[one], 4)
        self.assertLessEqual(self.most_rounds, TURN_ROUNDS)

    async def test_a_long_message_takes_many_short_turns(self):
        data = os.urandom(1 << 20) * 64
        begin = len(self.turns)
        _, frames = await self.through(data)
        self.assertEqual(frames[0], data)
        turns = self.turns[begin:]
        # At most the blocks of the sender move in one turn, 8 MiB.
        for pool in (self.a, self.b):
            self.assertGreaterEqual(turns.count(pool), 8)
        self.assertGreaterEqual(turns.count(None), 8)
        self.check_turns()

    async def test_many_channels_at_once(self):
        async def talk(mine, other, number):
            for i in range(20):
                buffers = [bytes([number + i]) * (100 * number), b"", b"end"]
                sent = mine.send(buffers, tag=i)
                message = await other.recv()
                self.assertEqual(await message.frames(), buffers)
                await sent

        pairs = []
        for _ in range(40):
            mine = await self.a.connect(self.where)
            pairs.append((mine, await self.listener.accept()))
        await asyncio.gather(*[talk(*pair, i) for i, pair in
                               enumerate(pairs)])
        self.check_turns()

    async def test_messages_to_a_busy_loop(self):
        """Two hundred callbacks run in each iteration."""
        calls = 0

        def call():
            nonlocal calls
            calls += 1
            if self.is_busy:
                asyncio.get_running_loop().call_soon(call)

        for _ in range(200):
            call()
        begin = calls
        for i in range(20):
            _, frames = await self.through([bytes([i]) * 200000])
            self.assertEqual(frames, [bytes([i]) * 200000])
        # Each message there and back takes at least one iteration.
        self.assertGreaterEqual(calls - begin, 20 * 200)
        self.check_turns()

    async def test_two_pools_do_not_starve_each_other(self):
        """An endless stream of messages on one pool, and messages there and
        back on the other."""
        async with ucxpool.Pool(wire=self.wire, **SETTINGS) as other:
            self.watch(other)
            listener = other.listen()
            mine, there = await asyncio.gather(
                other.connect(f"127.0.0.1:{listener.port}"),
                listener.accept())
            streamed = 0

            async def stream():
                nonlocal streamed
                data = bytes(4 << 20)
                while True:
                    await self.through(data)
                    streamed += 1

            streaming = asyncio.create_task(stream())
            rounds = 0
            while rounds < 100 or streamed < 10:
                sent = mine.send(b"ping")
                await (await there.recv()).frames()
                await sent
                rounds += 1
            streaming.cancel()
            await asyncio.wait([streaming])
            self.assertTrue(streaming.cancelled())
            self.assertEqual(other.info()["requests"], 0)
        self.check_turns()
        # Blocks that were in use when the stream ended have been released.
        self.x.abort()
        self.y.abort()
        while self.a.info()["requests"] or self.b.info()["requests"]:
            await asyncio.sleep(0)


class BusyOverUcx(Busy):
    wire = "ucx"


class Bounds(unittest.TestCase):
    def test_too_many_turns_are_detected(self):
        case = Busy("check_turns")
        case.most_rounds = TURN_ROUNDS
        case.turns = [1, 2, 1, 2, 1, 1, None, 1, 1, 2]
        case.check_turns()
        case.turns = [1, 2, 1, 2, 1, 1, 1]
        self.assertRaises(AssertionError, case.check_turns)
        case.turns = []
        case.most_rounds += 1
        self.assertRaises(AssertionError, case.check_turns)


class Awaiting(test_pool.Pair):
    async def test_operations_are_coroutines(self):
        other = asyncio.create_task(self.listener.accept())
        mine = await asyncio.create_task(self.a.connect(self.where))
        first = asyncio.create_task(mine.recv())
        second = asyncio.ensure_future(mine.recv())
        there = await other
        await asyncio.gather(there.send(b"1", tag=1), there.send(b"2", tag=2))
        messages = await asyncio.gather(first, second)
        self.assertEqual([one.tag for one in messages], [1, 2])
        self.assertEqual(await asyncio.gather(*[one.frames()
                                                for one in messages]),
                         [[b"1"], [b"2"]])

    async def test_unawaited_operation_does_nothing(self):
        for make in (self.x.recv, self.listener.accept,
                     lambda: self.a.connect(self.where)):
            make().close()
            make()
        self.assertEqual(self.a.info()["channels"], 1)
        accepted = asyncio.create_task(self.listener.accept())
        await asyncio.sleep(0)
        self.assertFalse(accepted.done())
        accepted.cancel()

    async def test_cancelled_accept_loses_no_channel(self):
        accepting = asyncio.create_task(self.listener.accept())
        await asyncio.sleep(0)
        accepting.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await accepting
        mine = await self.a.connect(self.where)
        there = await self.listener.accept()
        sent = mine.send(b"found")
        self.assertEqual(await (await there.recv()).frames(), [b"found"])
        await sent

    async def test_accept_cancelled_after_a_channel_arrived(self):
        accepting = asyncio.create_task(self.listener.accept())
        await asyncio.sleep(0)
        give = self.listener._give

        def give_and_cancel(channel):
            give(channel)
            accepting.cancel()

        self.listener._give = give_and_cancel
        mine = await self.a.connect(self.where)
        with self.assertRaises(asyncio.CancelledError):
            await accepting
        del self.listener._give
        there = await self.listener.accept()
        self.assertEqual(there.local_address, mine.remote_address)

    async def test_cancelled_accept_passes_the_channel_on(self):
        first, second = [asyncio.create_task(self.listener.accept())
                         for _ in range(2)]
        await asyncio.sleep(0)
        give = self.listener._give

        def give_and_cancel(channel):
            give(channel)
            first.cancel()

        self.listener._give = give_and_cancel
        await self.a.connect(self.where)
        with self.assertRaises(asyncio.CancelledError):
            await first
        await asyncio.wait_for(second, LIMIT)

    async def test_abort_ends_transfers_in_progress(self):
        memory = bytearray(1 << 20)
        sent = self.x.send(memory)
        waiting = asyncio.create_task(self.x.recv())
        await asyncio.sleep(0)
        self.x.abort()
        with self.assertRaises(ucxpool.CanceledError):
            await sent
        with self.assertRaises(ucxpool.ClosedError):
            await waiting
        memory.append(1)
        self.assertTrue(self.x.closed)
        # The peer may already have an event for the message.
        with self.assertRaises(ucxpool.ClosedError):
            while True:
                message = await self.y.recv()
                with self.assertRaises(ucxpool.CanceledError):
                    await message.frames()

    async def test_contexts_close(self):
        with self.x as channel:
            self.assertFalse(channel.closed)
        self.assertTrue(self.x.closed)
        async with self.y as channel:
            self.assertFalse(channel.ended)
        self.assertTrue(self.y.ended)
        self.assertIn("closed", repr(self.y))
        async with self.b.listen() as listener:
            self.assertIs(listener.pool, self.b)
        self.assertTrue(listener.closed)
        with self.b.listen() as listener:
            self.assertFalse(listener.closed)
        self.assertTrue(listener.closed)
        with self.assertRaises(ucxpool.ClosedError):
            await listener.accept()

    async def test_connect_times_out_without_an_answer(self):
        """Connect to a socket that accepts connections and sends nothing."""
        with socket.create_server(("127.0.0.1", 0)) as silent:
            where = f"127.0.0.1:{silent.getsockname()[1]}"
            with self.assertRaises(ucxpool.TimedOutError) as caught:
                await self.a.connect(where, timeout=0.05)
            self.assertIn(where, str(caught.exception))
            connecting = asyncio.create_task(self.a.connect(where))
            await asyncio.sleep(0)
            connecting.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await connecting
        self.assertEqual(self.a.info()["channels"], 1)

    async def test_short_frames_share_memory_and_long_ones_do_not(self):
        lengths = [100, 65536, 65537, 0, 1 << 20, 1, 65537]
        _, frames = await self.through([bytes(one) for one in lengths])
        self.assertEqual([len(one) for one in frames], lengths)
        short = {id(one.obj) for one in frames if len(one) <= 65536}
        long = {id(one.obj) for one in frames if len(one) > 65536}
        self.assertEqual((len(short), len(long), len(short & long)),
                         (1, 3, 0))
        # A long frame has its own memory; a short one keeps the memory of the
        # others.
        owner = frames[0].obj
        self.assertEqual(len(owner), 100 + 65536 + 0 + 1)
        self.assertTrue(all(not one.readonly and one.format == "B"
                            for one in frames))

    async def test_settings_accept_python_types(self):
        for value in (True, "y", 1):
            with ucxpool.Pool(listen_without_secret=value, comm_size=8 << 20,
                              close_timeout="1s") as pool:
                self.assertEqual(pool.info()["device"], None)

    async def test_second_event_loop_is_rejected(self):
        def work():
            async def main():
                await self.x.recv()
            with self.assertRaisesRegex(RuntimeError, "another event loop"):
                asyncio.run(main())

        await asyncio.to_thread(work)
        self.assertIs(self.a.driven_by, asyncio.get_running_loop())


class Failing:
    """A channel whose event handler fails."""

    def _on_event(self, kinds):
        raise ZeroDivisionError("in an event")


class FailuresInATurn(test_pool.Pair):
    async def asyncSetUp(self):
        await super().asyncSetUp()
        self.reported = []
        asyncio.get_running_loop().set_exception_handler(
            lambda loop, context: self.reported.append(context["exception"]))

    def fail_before_all_others(self, pool):
        turn = pool._progress
        pool._progress = lambda: [(Failing(), 0), *turn()]

    async def test_other_events_are_still_delivered(self):
        """An event for a state is delivered only once."""
        waiting = asyncio.create_task(self.y.recv())
        await asyncio.sleep(0)
        self.fail_before_all_others(self.b)
        await self.x.send(b"hello")
        await (await asyncio.wait_for(waiting, LIMIT)).frames()
        waiting = asyncio.create_task(self.y.recv())
        await asyncio.sleep(0)
        self.x.close()
        with self.assertRaises(ucxpool.ClosedError):
            await asyncio.wait_for(waiting, LIMIT)
        del self.b._progress
        self.assertEqual({type(one) for one in self.reported},
                         {ZeroDivisionError})

    async def test_thread_without_a_loop_gets_its_events(self):
        def work():
            with ucxpool.Pool(**SETTINGS) as pool:
                self.fail_before_all_others(pool)
                listener = pool.listen()
                mine = pool.connect(f"127.0.0.1:{listener.port}").wait(LIMIT)
                other = listener.accept().wait(LIMIT)
                sent = mine.send(b"hello")
                other.recv().wait(LIMIT).frames().wait(LIMIT)
                sent.wait(LIMIT)

        with self.assertLogs("ucxpool", "ERROR") as said:
            await asyncio.to_thread(work)
        self.assertIn("in an event", said.output[0])

    async def test_failed_accept_does_not_block_other_peers(self):
        take = self.listener._take_channel
        failures = [ucxpool.OutOfMemoryError("no memory for a channel")]

        def take_or_fail():
            channel = take()
            if channel is not None and failures:
                channel.abort()
                raise failures.pop()
            return channel

        accepting = asyncio.create_task(self.listener.accept())
        await asyncio.sleep(0)
        self.listener._take_channel = take_or_fail
        with self.assertLogs("ucxpool", "WARNING") as said:
            await asyncio.gather(*[self.a.connect(self.where)
                                   for _ in range(2)],
                                 return_exceptions=True)
            await asyncio.wait_for(accepting, LIMIT)
        self.assertIn("no memory for a channel", said.output[0])
        self.assertEqual(self.reported, [])

    async def test_failing_handler_does_not_block_other_peers(self):
        handled = asyncio.Queue()

        async def take(channel):
            await handled.put(channel)

        def handler(channel):
            self.listener.handler = take
            raise ZeroDivisionError("at once")

        self.listener.handler = handler
        await asyncio.gather(*[self.a.connect(self.where) for _ in range(2)],
                             return_exceptions=True)
        await asyncio.wait_for(handled.get(), LIMIT)
        self.assertEqual([str(one) for one in self.reported], ["at once"])


class ThreadsNextToALoop(test_pool.Pair):
    async def test_threads_connect_and_accept(self):
        def work():
            there = []
            accepting = threading.Thread(
                target=lambda: there.append(self.listener.accept().wait(LIMIT)))
            accepting.start()
            mine = self.a.connect(self.where, name="thread's").wait(LIMIT)
            accepting.join()
            sent = mine.send(bytes(1 << 20))
            frames = there[0].recv().wait(LIMIT).frames().wait(LIMIT)
            sent.wait(LIMIT)
            return mine.name, len(frames[0])

        self.assertEqual(await asyncio.to_thread(work), ("thread's", 1 << 20))

    async def test_timed_out_wait_loses_nothing(self):
        def work():
            with self.assertRaisesRegex(ucxpool.TimedOutError, "0.01 s"):
                self.y.recv().wait(0.01)
            with self.assertRaisesRegex(ucxpool.TimedOutError, "0.01 s"):
                self.listener.accept().wait(0.01)
            sent = self.x.send(bytes(1 << 20))
            with self.assertRaisesRegex(ucxpool.TimedOutError, "continues"):
                sent.wait(0.01)
            message = self.y.recv().wait(LIMIT)
            self.assertEqual(len(message.frames().wait(LIMIT)[0]), 1 << 20)
            sent.wait(LIMIT)

        await asyncio.to_thread(work)

    async def wait_in_vain(self, operation):
        """A thread waits and times out while the loop is blocked. Then the
        loop starts the thread's operation."""
        def work():
            with self.assertRaises(ucxpool.TimedOutError):
                operation.wait(0.01)
            return True

        with concurrent.futures.ThreadPoolExecutor(1) as threads:
            self.assertTrue(threads.submit(work).result(LIMIT))
        for _ in range(5):
            await asyncio.sleep(0)

    async def test_message_arriving_at_the_timeout_is_kept(self):
        first, second = self.x.send(b"first"), self.x.send(b"second")
        while len(self.y._kept) < 2:
            await asyncio.sleep(0)
        for expected in (b"first", b"second"):
            await self.wait_in_vain(self.y.recv())
            message = await asyncio.wait_for(self.y.recv(), LIMIT)
            self.assertEqual(bytes((await message.frames())[0]), expected)
        await asyncio.gather(first, second)

    async def test_peer_arriving_at_the_timeout_is_kept(self):
        mine = await self.a.connect(self.where)
        while not self.listener._accepted:
            await asyncio.sleep(0)
        await self.wait_in_vain(self.listener.accept())
        other = await asyncio.wait_for(self.listener.accept(), LIMIT)
        sent = mine.send(b"hello")
        await (await other.recv()).frames()
        await sent

    async def test_loop_awaits_a_transfer_of_a_thread(self):
        sent = await asyncio.to_thread(self.x.send, bytes(1 << 20))
        frames = await (await self.y.recv()).frames()
        await sent
        self.assertEqual(len(frames[0]), 1 << 20)


if __name__ == "__main__":
    unittest.main()
