"""Tests Dask's messages with GPU frames, with CUDA or with the stand-in for
its driver. Arrays are in memory from the heap, and are serialized like CuPy's.
CuPy itself is used if it is installed and a GPU exists."""
import asyncio
import os
import threading
import unittest
from unittest import mock

os.environ["DASK_DISTRIBUTED__COMM__DEFAULT_SCHEME"] = "ucxpool"

import dask
import numpy
from distributed import Client, Scheduler, Worker
from distributed.comm import CommClosedError, connect, listen
from distributed.protocol import to_serialize
from distributed.protocol.cuda import cuda_deserialize, cuda_serialize

import ucxpool.dask
from clusters import on_cluster

CONFIG = {"distributed.comm.ucxpool": {
    "device": 0, "device-allocator": "heap", "gpu-comm-size": "64MiB",
    "region-size": "2MiB"}}


class Array:
    """Bytes on the GPU. They are copied through a pool."""

    def __init__(self, buffer):
        self.buffer = buffer

    @staticmethod
    def to_gpu(data):
        buffer = ucxpool.heap(0).buffer(len(data))
        _copy(data, [buffer])
        return Array(buffer)

    def __bytes__(self):
        data = bytearray(len(self.buffer))
        _copy(self.buffer, [data])
        return bytes(data)

    def __eq__(self, other):
        return bytes(self) == bytes(other)


_ends = []
_lock = threading.Lock()


def _copy(source, target):
    """Copy through a pool that needs no event loop."""
    with _lock:
        if not _ends:
            pool = ucxpool.Pool(0, comm_size="32m", region_size="2m")
            listener = pool.listen()
            _ends.append(pool.connect(f"127.0.0.1:{listener.port}").wait())
            _ends.append(listener.accept().wait())
        mine, other = _ends
        sent = mine.send(source)
        other.recv_into(target).wait()
        sent.wait()


@cuda_serialize.register(Array)
def _serialize(array):
    return {}, [array.buffer]


@cuda_deserialize.register(Array)
def _deserialize(header, frames):
    return Array(frames[0])


def make(length):
    return Array.to_gpu(bytes(i * 7 % 256 for i in range(length)))


def same(array, length):
    assert isinstance(array.buffer, ucxpool._heap.DeviceBuffer)
    return bytes(array) == bytes(i * 7 % 256 for i in range(length))


def setUpModule():
    try:
        ucxpool.Heap(0, memory_limit="64m").close()
    except ucxpool.Error as error:
        raise unittest.SkipTest(f"no GPU: {error}") from error


class Comms(unittest.IsolatedAsyncioTestCase):
    """Comms that use the configured device as those of workers do."""

    async def asyncSetUp(self):
        self.enterContext(dask.config.set(CONFIG))
        self.enterContext(
            mock.patch("ucxpool.dask._has_worker", return_value=True))
        self.accepted = asyncio.Queue()
        self.listener = await listen("ucxpool://127.0.0.1", self.accepted.put)
        self.comm = await connect(self.listener.contact_address)
        self.peer = await self.accepted.get()

    async def asyncTearDown(self):
        self.comm.abort()
        self.peer.abort()
        self.listener.stop()
        ucxpool.dask.pool(True).close()
        ucxpool.dask.pool().close()

    async def test_host_and_gpu_frames_in_one_message(self):
        data = [os.urandom(1 + 5003 * i) for i in range(20)]
        numbers = numpy.arange(100000)
        for _ in range(3):
            await self.comm.write({
                "gpu": [to_serialize(Array.to_gpu(one)) for one in data],
                "host": to_serialize(numbers), "word": "x"})
            got = await self.peer.read()
            self.assertEqual([bytes(one) for one in got["gpu"]], data)
            numpy.testing.assert_array_equal(got["host"], numbers)
            self.assertEqual(got["word"], "x")
            await self.peer.write([to_serialize(got["gpu"][7]), "back"])
            array, word = await self.comm.read()
            self.assertEqual((bytes(array), word), (data[7], "back"))

    async def test_message_without_gpu_frames_opens_no_channel(self):
        num = ucxpool.dask.pool(True).info()["channels"]
        await self.comm.write("x")
        self.assertEqual(await self.peer.read(), "x")
        self.assertEqual(ucxpool.dask.pool(True).info()["channels"], num)

    async def test_writes_before_a_close_arrive(self):
        array = make(3 << 20)
        await self.comm.write([to_serialize(array)])
        await self.comm.close()
        self.assertEqual((await self.peer.read())[0], array)
        with self.assertRaises(CommClosedError):
            await self.peer.read()

    async def test_channels_close_with_their_comm(self):
        for _ in range(5):
            comm = await connect(self.listener.contact_address)
            peer = await self.accepted.get()
            await comm.write([to_serialize(make(1000))])
            await peer.read()
            await comm.close()
            await peer.close()
        self.assertEqual(ucxpool.dask.pool(True).info()["channels"], 0)

    async def test_peer_without_a_gpu_is_reported(self):
        with dask.config.set({"distributed.comm.ucxpool.device": None}):
            comm = await connect(self.listener.contact_address)
        try:
            with self.assertRaisesRegex(TypeError, "ucxpool.device"):
                await comm.write(to_serialize(make(10)),
                                 serializers=("cuda", "dask"))
        finally:
            comm.abort()
            (await self.accepted.get()).abort()

    async def test_cancelled_read_ends_the_comm_or_loses_nothing(self):
        await self.comm.write([to_serialize(make(1 << 20))])
        task = asyncio.create_task(self.peer.read())
        for _ in range(3):
            await asyncio.sleep(0)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        if not self.peer.closed():
            self.assertEqual((await self.peer.read())[0], make(1 << 20))


class WithoutThisGpu(unittest.IsolatedAsyncioTestCase):
    """The stand-in has one GPU, and the configuration names another one."""

    async def asyncSetUp(self):
        self.enterContext(dask.config.set(
            {"distributed.comm.ucxpool": {**CONFIG["distributed.comm.ucxpool"],
                                          "device": 77}}))

    async def asyncTearDown(self):
        ucxpool.dask.pool().close()

    async def test_only_workers_create_gpu_pools(self):
        async with Scheduler(protocol="ucxpool", dashboard_address=":0",
                             host="127.0.0.1") as scheduler:
            async with Client(scheduler.address, asynchronous=True) as client:
                self.assertEqual(
                    (await client.scheduler.identity())["type"], "Scheduler")
                with self.assertRaises(RuntimeError) as raised:
                    await Worker(scheduler.address, host="127.0.0.1")
        told = str(raised.exception) + str(raised.exception.__cause__)
        self.assertIn("distributed.comm.ucxpool.device is 77, and this worker "
                      "cannot use that GPU", told)


class InOneProcess(unittest.TestCase):
    @on_cluster(config=CONFIG)
    async def test_arrays_move_between_workers(self, client, scheduler, a, b):
        for length in (1, 100000, 3 << 20):
            x = client.submit(make, length, workers=[a.address], pure=False)
            y = client.submit(same, x, length, workers=[b.address], pure=False)
            self.assertTrue(await y)
        sent = sum(value for name, value
                   in ucxpool.dask.pool(True).stats().items()
                   if name.startswith("sent_") and name.endswith("_bytes"))
        self.assertGreater(sent, 3 << 20)


if __name__ == "__main__":
    unittest.main()
