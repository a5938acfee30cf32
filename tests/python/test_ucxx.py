"""Tests the calls that ucxpool.ucxx shares with UCXX, on both."""
import asyncio
import gc
import os
import pickle
import resource
import unittest
import unittest.mock

import numpy

# Seconds in which a busy machine connects. UCXX's default is 5.
WORDS = {"connect_timeout": 600}


class Calls:
    """Tests for a class that sets `ucxx`, the module."""

    async def asyncSetUp(self):
        self.accepted = asyncio.Queue()
        self.listener = self.listen(self.accepted.put)
        self.a = await self.connect(self.listener)
        self.b = await self.accepted.get()

    def listen(self, handler):
        return self.ucxx.create_listener(handler, 0, **WORDS)

    async def connect(self, listener):
        return await self.ucxx.create_endpoint("127.0.0.1", listener.port,
                                               **WORDS)

    async def asyncTearDown(self):
        await self.a.close()
        await self.b.close()
        self.listener.close()
        await asyncio.sleep(0)

    async def test_send_and_recv(self):
        for size in (1, 1000, 10 << 20):
            data = numpy.random.default_rng(size).bytes(size)
            target = bytearray(size)
            await asyncio.gather(self.a.send(data), self.b.recv(target))
            self.assertEqual(target, data)

    async def test_arrays_both_ways(self):
        here = numpy.arange(100000.)
        there = numpy.empty_like(here)
        back = numpy.empty_like(here)
        await asyncio.gather(self.a.send(here), self.b.recv(there))
        await asyncio.gather(self.b.send(there), self.a.recv(back))
        numpy.testing.assert_array_equal(here, back)

    async def test_tags_select_messages(self):
        first, second = bytearray(5), bytearray(6)
        sends = asyncio.gather(self.a.send(b"first", tag=1),
                               self.a.send(b"second", tag=2))
        await self.b.recv(second, tag=2)
        await self.b.recv(first, tag=1)
        await sends
        self.assertEqual((first, second), (b"first", b"second"))

    async def test_send_multi_and_recv_multi(self):
        buffers = [bytes([i % 251]) * (1 + i * 7) for i in range(300)]
        _, got = await asyncio.gather(self.a.send_multi(buffers),
                                      self.b.recv_multi())
        self.assertEqual([bytes(one) for one in got], buffers)
        with self.assertRaises(ValueError):
            await self.a.send_multi(b"no list")

    async def test_active_messages(self):
        for size in (1, 100000, 4 << 20):
            data = numpy.random.default_rng(size).bytes(size)
            _, got = await asyncio.gather(self.a.am_send(data),
                                          self.b.am_recv())
            self.assertEqual(bytes(got), data)

    async def test_objects(self):
        what = {"list": list(range(1000)), "text": "x" * 5000}
        _, got = await asyncio.gather(self.a.send_obj(pickle.dumps(what)),
                                      self.b.recv_obj())
        self.assertEqual(pickle.loads(got), what)
        _, got = await asyncio.gather(
            self.a.send_obj(b"abc"),
            self.b.recv_obj(allocator=lambda n: numpy.empty(n, "u1")))
        self.assertEqual(got.tobytes(), b"abc")

    async def test_peer_close_ends_a_receive(self):
        receive = asyncio.create_task(self.a.recv(bytearray(1)))
        await asyncio.sleep(0)
        await self.b.close()
        with self.assertRaises(Exception):
            await receive
        while not self.a.closed:
            await asyncio.sleep(0.01)
        self.assertFalse(self.a.alive)

    async def test_handler_may_be_a_coroutine(self):
        async def echo(endpoint):
            await endpoint.send_obj(await endpoint.recv_obj())
            await endpoint.close()

        listener = self.listen(echo)
        endpoint = await self.connect(listener)
        await endpoint.send_obj(b"hello")
        self.assertEqual(bytes(await endpoint.recv_obj()), b"hello")
        await endpoint.close()
        listener.close()


class OnThePool(Calls, unittest.IsolatedAsyncioTestCase):
    import ucxpool.ucxx as ucxx

    async def asyncTearDown(self):
        await super().asyncTearDown()
        self.ucxx.reset()

    async def test_too_short_buffer(self):
        sent = asyncio.create_task(self.a.send(bytes(1 << 20)))
        with self.assertRaises(self.ucxx.UCXMessageTruncatedError):
            await self.b.recv(bytearray(2))
        with self.assertRaises(self.ucxx.UCXError):
            await sent

    async def test_close_after_n_received_messages(self):
        self.b.close_after_n_recv(2)
        for _ in range(2):
            await asyncio.gather(self.a.send(b"x"),
                                 self.b.recv(bytearray(1)))
        self.assertTrue(self.b.closed)

    async def test_dropped_listener_stops(self):
        lost = self.listen(self.accepted.put)
        port = lost.port
        endpoint = await self.connect(lost)
        other = await self.accepted.get()
        del lost
        gc.collect()
        with self.assertRaises(self.ucxx.UCXConnectionResetError):
            await self.ucxx.create_endpoint("127.0.0.1", port)
        # Endpoints stay open.
        _, got = await asyncio.gather(endpoint.am_send(b"still"),
                                      other.am_recv())
        self.assertEqual(bytes(got), b"still")
        await endpoint.close()
        await other.close()

    async def test_handler_outlives_its_listener(self):
        async def echo(endpoint):
            await endpoint.send_obj(await endpoint.recv_obj())

        lost = self.listen(echo)
        endpoint = await self.connect(lost)
        while not self.a.channel.pool._tasks:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        del lost
        gc.collect()
        await endpoint.send_obj(b"hello")
        self.assertEqual(bytes(await endpoint.recv_obj()), b"hello")
        await endpoint.close()

    async def test_a_thousand_endpoints_connect_at_once(self):
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        endpoints = await asyncio.gather(*[
            self.connect(self.listener) for _ in range(1000)])
        others = [await self.accepted.get() for _ in endpoints]
        await asyncio.gather(*[
            one.am_send(b"%d" % number)
            for number, one in enumerate(endpoints)])
        got = await asyncio.gather(*[one.am_recv() for one in others])
        self.assertEqual(sorted(int(bytes(one)) for one in got),
                         list(range(1000)))
        for one in endpoints + others:
            one.abort()

    async def test_listen_address_can_be_set(self):
        ucxx = self.ucxx
        here = ucxx.create_listener(self.accepted.put, 0, address="127.0.0.2")
        with unittest.mock.patch.dict(os.environ, LIBUCXPOOL_LISTEN="lo"):
            there = ucxx.create_listener(self.accepted.put, 0)
            self.assertEqual(ucxx.get_address(), "127.0.0.1")
        self.assertEqual((here.ip, there.ip), ("127.0.0.2", "127.0.0.1"))
        for listener in (here, there):
            await (await ucxx.create_endpoint(listener.ip,
                                              listener.port)).close()
        with self.assertRaises(ucxx.UCXConnectionResetError):
            await ucxx.create_endpoint("127.0.0.1", here.port)


class OnUcxx(Calls, unittest.IsolatedAsyncioTestCase):
    import ucxx

    async def asyncTearDown(self):
        await super().asyncTearDown()
        del self.a, self.b, self.listener, self.accepted
        self.ucxx.reset()


if __name__ == "__main__":
    unittest.main()
