"""Tests for ucxpool:// what upstream's distributed/comm/tests/test_comms.py
tests for a backend. docs/reference/dask-tests.md has the table."""
import asyncio
import gc
import importlib.metadata
import os
import ssl
import threading
import unittest
from unittest import mock

os.environ["DASK_DISTRIBUTED__COMM__DEFAULT_SCHEME"] = "ucxpool"

import dask
import numpy
from distributed import Security
from distributed.comm import (CommClosedError, connect, get_address_host,
                              get_address_host_port, get_local_address_for,
                              listen, parse_address, resolve_address)
from distributed.comm.core import FatalCommClosedError
from distributed.comm.registry import backends, get_backend
from distributed.protocol import (Serialized, deserialize, serialize,
                                  to_serialize)
from distributed.utils import get_ip
from distributed.utils_test import has_ipv6

import ucxpool
import ucxpool.dask
from ports import free_port

WHERE = "ucxpool://127.0.0.1"
LONG = os.urandom(1 << 20) * 3


def settings(**words):
    return dask.config.set(
        {f"distributed.comm.ucxpool.{key}": value
         for key, value in words.items()})


class Case(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.enterContext(settings(secret="s" * 32))
        self.comms = []

    async def asyncTearDown(self):
        for comm in self.comms:
            comm.abort()

    async def pair(self, where=WHERE, listen_args={}, **words):
        """Return a comm and its peer."""
        accepted = asyncio.Queue()
        async with listen(where, accepted.put, **words,
                          **listen_args) as listener:
            comm = await connect(listener.contact_address, **words)
        peer = await accepted.get()
        self.comms += [comm, peer]
        return comm, peer

    async def serve(self, handler, where=WHERE, **words):
        listener = await listen(where, handler, **words)
        self.addCleanup(listener.stop)
        return listener

    async def comm_to(self, listener, **words):
        comm = await connect(listener.contact_address, **words)
        self.comms.append(comm)
        return comm


async def answer_ping(comm):
    try:
        message = await comm.read()
        await comm.write({**message, "op": "pong"})
        await comm.read()
    except CommClosedError:
        pass
    finally:
        await comm.close()


async def echo(comm):
    await comm.write(await comm.read())
    await comm.close()


class Addresses(Case):
    async def test_host_and_port_of_an_address(self):
        self.assertEqual(get_address_host("ucxpool://127.0.0.1:123"),
                         "127.0.0.1")
        self.assertEqual(get_address_host("ucxpool://[::1]:123"), "::1")
        self.assertEqual(get_address_host_port("ucxpool://[fe80::1]:123"),
                         ("fe80::1", 123))
        with self.assertRaises(ValueError):
            get_address_host_port("ucxpool://127.0.0.1")
        with self.assertRaises(ValueError):
            get_address_host_port("ucxpool://::1:123")

    async def test_names_are_resolved_and_addresses_kept(self):
        for given, resolved in (("127.0.0.1:123", "127.0.0.1:123"),
                                ("0.0.0.0:456", "0.0.0.0:456"),
                                ("localhost:456", "127.0.0.1:456"),
                                ("[::1]:123", "[::1]:123"),
                                ("[::]:123", "[::]:123")):
            self.assertEqual(resolve_address("ucxpool://" + given),
                             "ucxpool://" + resolved)

    async def test_the_default_scheme(self):
        self.assertEqual(parse_address("127.0.0.2:789"),
                         ("ucxpool", "127.0.0.2:789"))
        self.assertEqual(resolve_address("127.0.0.2:789"),
                         "ucxpool://127.0.0.2:789")

    async def test_local_address_for_a_peer(self):
        self.assertEqual(get_local_address_for("ucxpool://127.0.0.1:80"),
                         "ucxpool://127.0.0.1")
        self.assertEqual(get_local_address_for("ucxpool://8.8.8.8:4444"),
                         "ucxpool://" + get_ip())
        if has_ipv6():
            self.assertEqual(get_local_address_for("ucxpool://[::1]:123"),
                             "ucxpool://[::1]")

    async def test_the_backend_is_an_entry_point(self):
        [point] = importlib.metadata.entry_points(
            group="distributed.comm.backends", name="ucxpool")
        self.assertIs(point.load(), ucxpool.dask.UcxPoolBackend)
        self.assertIsInstance(get_backend("ucxpool"),
                              ucxpool.dask.UcxPoolBackend)

    async def test_both_ends_agree_on_addresses(self):
        comm, peer = await self.pair()
        self.assertEqual(comm.peer_address, peer.local_address)
        self.assertEqual(comm.local_address, peer.peer_address)
        ends = comm.local_address, comm.peer_address
        comm.abort()
        # The addresses are still available when a comm has ended.
        self.assertEqual((comm.local_address, comm.peer_address), ends)

    async def test_both_ends_report_the_wire_also_when_closed(self):
        comm, peer = await self.pair()
        for one in (peer, comm):
            self.assertEqual(one.extra_info["wire"], "map")
            one.abort()
            self.assertEqual(one.extra_info["wire"], "map")

    async def test_repr_shows_addresses_and_state(self):
        comm, peer = await self.pair()
        for one in (comm, peer):
            self.assertNotIn("closed", repr(one))
            await one.close()
            self.assertIn("closed", repr(one))
            self.assertIn(comm.local_address, repr(one))
            self.assertIn(peer.local_address, repr(one))


class ClientServer(Case):
    async def check(self, loc, listens, contact=None, **words):
        """Listen at loc, and check the reported hosts and that clients get
        answers."""
        listener = await self.serve(answer_ping, "ucxpool://" + loc,
                                    xxx="ignored", **words)
        port = get_address_host_port(listener.listen_address)[1]
        self.assertEqual(listener.get_host_port(), (listens, port))
        self.assertEqual(get_address_host_port(listener.listen_address),
                         (listens, port))
        self.assertEqual(get_address_host_port(listener.contact_address),
                         (contact or listens, port))

        async def ask(i):
            comm = await self.comm_to(listener, xxx="ignored")
            self.assertEqual(comm.peer_address, listener.contact_address)
            await comm.write({"op": "ping", "data": i})
            await comm.write({"op": "end"})
            self.assertEqual(await comm.read(), {"op": "pong", "data": i})
            await comm.close()
            return i

        await ask(1234)
        self.assertEqual(await asyncio.gather(*map(ask, range(20))),
                         list(range(20)))
        listener.stop()
        return port

    async def test_listen_on_one_address(self):
        await self.check("127.0.0.1", "127.0.0.1")
        port = free_port()
        self.assertEqual(await self.check(f"127.0.0.1:{port}", "127.0.0.1"),
                         port)

    async def test_listen_on_the_default_port(self):
        port = free_port()
        self.assertEqual(await self.check("127.0.0.1", "127.0.0.1",
                                          default_port=port), port)
        self.assertNotEqual(await self.check("127.0.0.1:0", "127.0.0.1",
                                             default_port=port), port)

    async def test_listen_on_all_addresses(self):
        await self.check("0.0.0.0", "0.0.0.0", get_ip())
        await self.check("", "0.0.0.0", get_ip())
        port = free_port()
        self.assertEqual(await self.check(f":{port}", "0.0.0.0", get_ip()),
                         port)

    async def test_default_host_is_the_contact_address(self):
        await self.check("", "0.0.0.0", "127.0.0.1",
                         default_host="127.0.0.1")
        await self.check("127.0.0.1", "127.0.0.1", default_host="127.0.0.9")

    @unittest.skipUnless(has_ipv6(), "there is no IPv6")
    async def test_listen_on_ipv6(self):
        await self.check("[::1]", "::1")
        await self.check("[::]", "::", "::1", default_host="::1")

    async def test_a_hundred_clients_at_once(self):
        listener = await self.serve(answer_ping)

        async def ask(i):
            comm = await self.comm_to(listener)
            await comm.write({"op": "ping", "data": i})
            return (await comm.read())["data"]

        self.assertEqual(await asyncio.gather(*map(ask, range(100))),
                         list(range(100)))

    async def test_a_hundred_listeners(self):
        for where in (WHERE, "ucxpool://0.0.0.0", "ucxpool://"):
            listeners = [await self.serve(None, where) for _ in range(100)]
            for kind in ("listen_address", "contact_address"):
                self.assertEqual(
                    len({getattr(one, kind) for one in listeners}), 100)
            for one in listeners:
                one.stop()

    async def test_port_in_use_is_an_error(self):
        listener = await self.serve(None)
        with self.assertRaises(OSError) as said:
            await self.serve(None, listener.listen_address)
        self.assertIsInstance(said.exception, ucxpool.AddressInUseError)

    async def test_listener_has_no_port_before_start(self):
        listener = listen(WHERE, None)
        with self.assertRaises(ValueError):
            listener.get_host_port()


class Encryption(Case):
    """A secret authenticates peers. Comms that must be encrypted are
    refused."""

    NEEDED = {"require_encryption": True}

    async def test_listener_refuses_required_encryption(self):
        with self.assertRaisesRegex(
                RuntimeError, "encryption required by Dask configuration, "
                r"refusing communication from/to 'ucxpool://127\.0\.0\.1'"):
            await listen(WHERE, None, **self.NEEDED)

    async def test_connector_refuses_required_encryption(self):
        listener = await self.serve(answer_ping)
        with self.assertRaisesRegex(RuntimeError, 'protocol="tls"'):
            await connect(listener.contact_address, **self.NEEDED)
        await self.comm_to(listener, require_encryption=False)

    async def test_security_object_can_require_encryption(self):
        with dask.config.set({"distributed.comm.require-encryption": True}):
            needed = Security()
        listener = await self.serve(answer_ping)
        for role in ("client", "scheduler", "worker"):
            with self.assertRaisesRegex(RuntimeError, "encryption required"):
                await connect(listener.contact_address,
                              **needed.get_connection_args(role))
        for role in ("scheduler", "worker"):
            with self.assertRaisesRegex(RuntimeError, "encryption required"):
                await listen(WHERE, None, **needed.get_listen_args(role))

    async def test_certificates_alone_are_ignored(self):
        context = ssl.create_default_context()
        listener = await self.serve(answer_ping, ssl_context=context)
        comm = await self.comm_to(listener, ssl_context=context,
                                  server_hostname="localhost")
        await comm.write({"op": "ping"})
        self.assertEqual(await comm.read(), {"op": "pong"})

    async def test_no_end_claims_to_be_encrypted(self):
        self.assertFalse(ucxpool.dask.UcxPoolConnector.encrypted)
        self.assertFalse(ucxpool.dask.UcxPoolListener.encrypted)

    async def test_wrong_secret_fails_at_once_with_a_reason(self):
        listener = await self.serve(answer_ping)
        ours = ucxpool.dask.pool()
        self.addCleanup(ours.close)
        with settings(secret="t" * 32):
            other = ucxpool.Pool(**ucxpool.dask.settings())
        self.addCleanup(other.close)
        with mock.patch.object(ucxpool.dask, "pool", lambda: other):
            with self.assertRaisesRegex(FatalCommClosedError, "secret"):
                await connect(listener.contact_address, timeout=600)

    async def test_unusable_path_fails_at_once_with_a_reason(self):
        listener = await self.serve(answer_ping)
        other = ucxpool.Pool(**{**ucxpool.dask.settings(), "wire": "ucx",
                                "require": "map"})
        self.addCleanup(other.close)
        with mock.patch.object(ucxpool.dask, "pool", lambda: other):
            with self.assertRaisesRegex(
                    FatalCommClosedError,
                    "cannot connect to .*: the channel requires map, "):
                await connect(listener.contact_address, timeout=600)


class Closing(Case):
    async def test_peer_closes_at_once(self):
        listener = await self.serve(lambda comm: comm.close())
        comm = await self.comm_to(listener)
        with self.assertRaises(CommClosedError):
            while True:
                await comm.write({})
                await comm.read()
        comm = await self.comm_to(listener)
        with self.assertRaises(CommClosedError):
            await comm.read()

    async def test_close_ends_current_and_later_calls(self):
        comm, peer = await self.pair()
        reads = [asyncio.create_task(one.read()) for one in (comm, peer)]
        await asyncio.sleep(0)
        await comm.close()
        for read in reads:
            with self.assertRaises(CommClosedError):
                await read
        for one in (comm, peer):
            with self.assertRaises(CommClosedError):
                await one.read()
            with self.assertRaises(CommClosedError):
                await one.write({})
        await comm.close()
        await peer.close()

    async def test_closed_reports_the_peers_close(self):
        comm, peer = await self.pair()
        await comm.close()
        async with asyncio.timeout(1800):
            while not peer.closed():
                await asyncio.sleep(0.01)

    async def test_dropped_comm_is_closed(self):
        comm, peer = await self.pair()
        self.comms.remove(comm)
        del comm
        gc.collect()
        with self.assertRaises(CommClosedError):
            await peer.read()

    async def test_abort_drops_writes(self):
        comm, peer = await self.pair()
        for _ in range(20):
            await comm.write({"data": to_serialize(LONG)})
        comm.abort()
        with self.assertRaises(CommClosedError):
            for _ in range(20):
                await peer.read()

    async def test_failed_write_ends_the_comm(self):
        class Oops(BaseException):
            pass

        for kind in (BufferError, Oops):
            comm, peer = await self.pair()
            with mock.patch.object(ucxpool._pool.Channel, "send",
                                   side_effect=kind):
                with self.assertRaises(kind):
                    await comm.write("x")
            self.assertTrue(comm.closed())
            with self.assertRaises(CommClosedError):
                await peer.read()

    async def test_cancelled_read_ends_the_comm(self):
        comm, peer = await self.pair()
        with self.assertRaises(asyncio.TimeoutError):
            await asyncio.wait_for(comm.read(), 0.01)
        self.assertTrue(comm.closed())
        with self.assertRaises(CommClosedError):
            await peer.read()

    async def test_cancelled_write_leaves_no_gap(self):
        """A write is cancelled while it waits for an older one, which is lost.
        The peer must not read any later message."""
        comm, peer = await self.pair()
        begun = 0

        async def write_on():
            nonlocal begun
            while True:
                begun += 1
                await comm.write([begun, to_serialize(LONG)])

        task = asyncio.create_task(write_on())
        while begun <= ucxpool.dask.MAX_WRITES:
            await asyncio.sleep(0)  # until it waits for the oldest
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        self.assertTrue(comm.closed())
        got = []
        with self.assertRaises(CommClosedError):
            while True:
                got.append((await peer.read())[0])
        self.assertEqual(got, list(range(1, len(got) + 1)))


class Handshakes(Case):
    async def test_handler_is_not_called_before_the_handshake(self):
        called = asyncio.Queue()
        listener = await self.serve(called.put_nowait)  # no coroutine function
        host, port = listener.get_host_port()
        # Peers that send nothing, to the pool's listener and to Dask's.
        _, writer = await asyncio.open_connection(host, port)
        channel = await ucxpool.dask.pool().connect(f"{host}:{port}")
        writer.close()
        await writer.wait_closed()
        channel.close()
        comm = await self.comm_to(listener)
        self.assertEqual((await called.get()).peer_address,
                         comm.local_address)
        self.assertTrue(called.empty())

    async def test_invalid_peer_is_rejected_and_others_connect(self):
        called = asyncio.Queue()
        listener = await self.serve(called.put)
        host, port = listener.get_host_port()
        for words in (b"what is this?", [b"\x81\xa1x", b""], b""):
            channel = await ucxpool.dask.pool().connect(f"{host}:{port}")
            with self.assertLogs("ucxpool.dask", "WARNING") as said:
                channel.send(words)
                with self.assertRaises(ucxpool.ClosedError):
                    while True:
                        await (await channel.recv()).frames()
            self.assertIn(channel.local_address, said.output[0])
        comm = await self.comm_to(listener)
        self.assertEqual((await called.get()).peer_address,
                         comm.local_address)

    async def test_peer_ends_during_the_handshake(self):
        called = asyncio.Queue()
        listener = await self.serve(called.put)
        connector = get_backend("ucxpool").get_connector()
        where = parse_address(listener.contact_address)[1]
        for end in ("close", "abort"):
            comm = await connector.connect(where)
            comm.abort() if end == "abort" else await comm.close()
        one, two = await asyncio.gather(*[connector.connect(where)
                                          for _ in range(2)])
        await one.close()
        await two.close()
        comm = await self.comm_to(listener)
        self.assertEqual((await called.get()).peer_address,
                         comm.local_address)
        self.assertTrue(called.empty())

    async def test_handshake_may_take_longer_than_a_connect(self):
        limit = 1800
        loop = asyncio.get_running_loop()
        clock = loop.time

        class SlowComm(ucxpool.dask.UcxPool):
            async def write(self, *words, **more):
                loop.time = lambda: clock() + 2 * limit
                for _ in range(3):  # all timers expire
                    await asyncio.sleep(0)
                return await super().write(*words, **more)

        class SlowConnector(ucxpool.dask.UcxPoolConnector):
            comm_class = SlowComm

        class SlowBackend(ucxpool.dask.UcxPoolBackend):
            _connector_class = SlowConnector

        listener = await self.serve(echo)
        with mock.patch.dict(backends, ucxpool=SlowBackend()):
            comm = await self.comm_to(listener, timeout=limit)
        await comm.write(b"test")
        self.assertEqual(await comm.read(), b"test")

    async def test_failed_connect_is_retried(self):
        failures = []

        class Unreliable(ucxpool.dask.UcxPoolConnector):
            async def connect(self, *words, **more):
                if len(failures) < 3:
                    failures.append(1)
                    raise OSError
                return await super().connect(*words, **more)

        class Backend(ucxpool.dask.UcxPoolBackend):
            _connector_class = Unreliable

        listener = await self.serve(echo)
        with mock.patch.dict(backends, ucxpool=Backend()):
            comm = await self.comm_to(listener)
        self.assertEqual(len(failures), 3)
        await comm.write(b"test")
        self.assertEqual(await comm.read(), b"test")

    async def test_connect_fails_at_once_if_the_peer_is_no_pool(self):
        async def nonsense(reader, writer):
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 10)
            await writer.drain()
            writer.close()

        async with await asyncio.start_server(
                nonsense, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            with self.assertRaisesRegex(
                    FatalCommClosedError, "cannot connect to "
                    f"{WHERE}:{port}: .* not a pool"):
                await connect(f"{WHERE}:{port}", timeout=600)

    async def test_late_listener_is_found(self):
        port = free_port()
        task = asyncio.create_task(
            connect(f"{WHERE}:{port}", timeout=1800))
        await asyncio.sleep(0)
        listener = await self.serve(echo, f"{WHERE}:{port}")
        comm = await task
        self.comms.append(comm)
        self.assertEqual(comm.peer_address, listener.contact_address)

    async def test_listener_stops_while_it_accepts(self):
        """The listener is stopped right after it has accepted. The client must
        not wait forever."""
        listener = await self.serve(echo)
        accept = listener._listener.handler

        async def stop_first(channel):
            listener.stop()
            await accept(channel)

        listener._listener.handler = stop_first
        async with asyncio.timeout(1800):
            with self.assertRaises(CommClosedError):
                await connect(listener.contact_address)

    async def test_server_aborts_handshakes(self):
        listener = await self.serve(echo)
        connector = get_backend("ucxpool").get_connector()
        comm = await connector.connect(
            parse_address(listener.contact_address)[1])
        self.comms.append(comm)
        await comm.read()  # the listener's part of the handshake
        listener.abort_handshaking_comms()
        with self.assertRaises(CommClosedError):
            await comm.read()

    async def test_connect_times_out_as_configured(self):
        where = f"{WHERE}:{free_port()}"
        with dask.config.set({"distributed.comm.timeouts.connect": "150ms"}):
            with self.assertRaisesRegex(OSError, f"{where} after 0.15 s"):
                await connect(where)

    async def test_failed_connects_create_no_threads(self):
        before = set(threading.enumerate())
        with self.assertRaises(OSError):
            await connect(f"ucxpool://localhost:{free_port()}", timeout=0.1)
        self.assertLessEqual(len(set(threading.enumerate()) - before), 2)

    async def test_configured_socket_backlog_is_used(self):
        for said, taken in ((10, 10), (1 << 20,
                                       ucxpool.dask.MAX_ACCEPT_QUEUE)):
            with dask.config.set({"distributed.comm.socket-backlog": said}):
                self.assertEqual(
                    ucxpool.dask.settings()["accept_queue"], taken)
                with settings(**{"accept-queue": 7}):
                    self.assertEqual(
                        ucxpool.dask.settings()["accept_queue"], 7)


def message_of(value):
    return {"op": "update", "x": b"abc",
            "to_ser": [to_serialize(value)],
            "ser": Serialized(*serialize(value))}


def eof():
    raise EOFError


class EndsEarly:
    def __reduce__(self):
        return eof, ()


class Opaque(list):
    """A type that serialization does not look into."""


def memory_of(array):
    """Return the memory below an array."""
    while isinstance(array, (numpy.ndarray, memoryview)):
        array = array.base if isinstance(array, numpy.ndarray) else array.obj
    return array


class Messages(Case):
    def check(self, got, value, deserialized):
        self.assertEqual({key: got[key] for key in ("op", "x")},
                         {"op": "update", "x": b"abc"})
        [one] = got["to_ser"]
        for part in (one, got["ser"]):
            if deserialized:
                self.assertNotIsInstance(part, Serialized)
                self.assertEqual(part, value)
            else:
                self.assertIsInstance(part, Serialized)
                self.assertEqual(deserialize(part.header, part.frames), value)

    async def test_listener_decides_on_deserializing(self):
        for flag in (True, False):
            for value in (123, LONG):
                accepted = asyncio.Queue()
                listener = await self.serve(accepted.put, deserialize=flag)
                comm = await self.comm_to(listener)
                await comm.write(message_of(value))
                peer = await accepted.get()
                self.check(await peer.read(), value, flag)
                await peer.close()

    async def test_connector_decides_on_deserializing(self):
        for flag in (True, False):
            for value in (123, LONG):
                accepted = asyncio.Queue()
                listener = await self.serve(accepted.put)
                comm = await self.comm_to(listener, deserialize=flag)
                peer = await accepted.get()
                await peer.write(message_of(value))
                self.check(await comm.read(), value, flag)
                await peer.close()

    async def test_there_and_back(self):
        for flag in (True, False):
            comm, peer = await self.pair(deserialize=flag)
            await comm.write(message_of(LONG))
            got = await peer.read()
            if flag:
                got = message_of(got["ser"])
            await peer.write(got)
            self.check(await comm.read(), LONG, flag)

    async def test_truncated_data_ends_the_comm(self):
        comm, peer = await self.pair()
        await comm.write({"data": to_serialize(EndsEarly())})
        with self.assertRaises(CommClosedError):
            await peer.read()
        self.assertTrue(peer.closed())
        with self.assertRaises(CommClosedError):
            await comm.read()

    async def test_unserializable_message_leaves_the_comm_open(self):
        comm, peer = await self.pair()
        with self.assertRaises(TypeError):
            await comm.write({"x": to_serialize(threading.Lock())},
                             on_error="raise")
        await comm.write("goes on")
        self.assertEqual(await peer.read(), "goes on")

    async def test_serializers_and_deserializers_are_passed_on(self):
        comm, peer = await self.pair()
        await comm.write({"x": to_serialize(1)}, serializers=["pickle"])
        with self.assertRaises(TypeError):
            await peer.read(deserializers=["dask"])

    async def test_lengths_from_zero_to_several_pools(self):
        comm, peer = await self.pair()
        size = ucxpool.dask.settings()["comm_size"]
        for length in (0, 1, 4095, 4096, 4097, 1 << 16, (1 << 18) + 1,
                       (1 << 20) - 1, 3 * size + 1):
            data = (LONG * (length // len(LONG) + 1))[:length]
            array = numpy.frombuffer(data, dtype="u1")
            await asyncio.gather(
                comm.write({"x": to_serialize(data),
                            "y": to_serialize(array)}),
                self.read_back(peer, data))

    async def read_back(self, peer, data):
        got = await peer.read()
        self.assertEqual(got["x"], data)
        self.assertEqual(got["y"].tobytes(), data)

    async def test_thousands_of_frames(self):
        comm, peer = await self.pair()
        arrays = [numpy.full(i % 700, i) for i in range(3000)]
        write = asyncio.create_task(
            comm.write([to_serialize(one) for one in arrays]))
        got = await peer.read()
        await write
        for one, two in zip(arrays, got, strict=True):
            numpy.testing.assert_array_equal(one, two)

    async def test_both_write_much_before_either_reads(self):
        comm, peer = await self.pair()
        message = {"data": to_serialize(LONG)}
        for one in (comm, peer):
            for _ in range(10):
                await one.write(message)
        for one in (comm, peer):
            for _ in range(10):
                self.assertEqual((await one.read())["data"], LONG)

    async def test_write_returns_the_number_of_bytes(self):
        comm, peer = await self.pair()
        self.assertGreaterEqual(
            await comm.write({"data": to_serialize(LONG)}), len(LONG))

    async def test_arrays_of_a_message_have_their_own_memory(self):
        comm, peer = await self.pair()
        for kind in (list, Opaque):
            for length in (2, 100000):
                await comm.write({"data": to_serialize(
                    kind([numpy.arange(length), numpy.arange(length + 1)]))})
                a, b = (await peer.read())["data"]
                self.assertFalse(numpy.may_share_memory(a, b))
                self.assertTrue(a.flags.writeable and b.flags.writeable)

    async def test_array_keeps_little_other_memory(self):
        """A short array keeps at most one allocation of 64 KiB, a longer one
        only its own memory. The message also has short and long frames, and
        some that are longer than a shard of TCP."""
        comm, peer = await self.pair()
        with dask.config.set({"distributed.comm.shard": "100kiB"}):
            for length, other in ((1, 0), (1, 5000), (200000, 9500),
                                  (350000, 0)):
                await comm.write({
                    "np": to_serialize(numpy.ones(length, "u1")),
                    "other": LONG[:other]})
                array = (await peer.read())["np"]
                kept = len(memory_of(array))
                if length > 4096:
                    self.assertEqual(kept, length)
                self.assertIn(kept, range(length, max(length, 65536) + 1))

    async def test_offloading_can_be_disabled(self):
        """The value of allow_offload reaches the comm of a listener."""
        accepted = asyncio.Queue()
        listener = await self.serve(accepted.put, allow_offload=False)
        await self.comm_to(listener)
        self.assertFalse((await accepted.get()).allow_offload)


if __name__ == "__main__":
    unittest.main()
