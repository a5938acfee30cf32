"""Tests pools on a GPU: with CUDA, or with the stand-in for its driver that
the variable UCXPOOL_CUDA_DRIVER names. Buffers come from the heap, so no
framework is needed."""
import asyncio
import os
import unittest

import ucxpool

SETTINGS = {"comm_size": "32m", "block_size": "64k", "region_size": "2m"}

# A heap of its own, separate from the blocks.
HEAP = {"memory_limit": "64m"}


class Strided:
    def __init__(self, whole):
        self.whole = whole

    @property
    def __cuda_array_interface__(self):
        return {**self.whole.__cuda_array_interface__,
                "shape": (4, 4), "strides": (8, 1)}


class OfAnotherStream:
    def __init__(self, whole):
        self.whole = whole

    @property
    def __cuda_array_interface__(self):
        return {**self.whole.__cuda_array_interface__, "stream": 2}


class LikeCupys(bytearray):
    """Also supports the buffer protocol, but only the GPU interface may be
    used."""

    def __init__(self, whole):
        super().__init__(len(whole))
        self.whole = whole

    @property
    def __cuda_array_interface__(self):
        return self.whole.__cuda_array_interface__


class OnGpu(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        try:
            self.heap = ucxpool.Heap(0, **HEAP)
        except ucxpool.Error as error:
            self.skipTest(f"no GPU: {error}")
        self.addCleanup(self.heap.close)
        self.pool = ucxpool.Pool(0, **SETTINGS)
        self.addCleanup(self.pool.close)
        listener = self.pool.listen()
        self.mine, self.other = await asyncio.gather(
            self.pool.connect(f"127.0.0.1:{listener.port}"),
            listener.accept())

    async def on_gpu(self, data):
        """Return the bytes in a buffer on the GPU."""
        buffer = self.heap.buffer(len(data))
        sent = self.mine.send(data)
        await self.other.recv_into([buffer])
        await sent
        return buffer

    async def bytes_of(self, buffers):
        sent = self.mine.send(buffers)
        frames = await (await self.other.recv()).frames()
        await sent
        return [bytes(frame) for frame in frames]

    async def test_there_and_back(self):
        for length in (1, 17, 4096, 65537, 3 << 20):
            data = os.urandom(length)
            self.assertEqual(await self.bytes_of([await self.on_gpu(data)]),
                             [data])

    async def test_many_host_and_gpu_buffers(self):
        data = [os.urandom(1 + 997 * i % 20000) for i in range(200)]
        buffers = [await self.on_gpu(one) if i % 3 else one
                   for i, one in enumerate(data)]
        self.assertEqual(await self.bytes_of(buffers), data)

    async def test_array_with_both_interfaces_is_gpu_memory(self):
        data = os.urandom(5000)
        array = LikeCupys(await self.on_gpu(data))
        self.assertEqual(await self.bytes_of([array]), [data])
        self.assertEqual(await self.bytes_of(array), [data])

    async def test_frames_in_gpu_memory(self):
        data = [os.urandom(length) for length in (3, 70000, 0, 500)]
        sent = self.mine.send(data)
        message = await self.other.recv()
        frames = await message.frames(self.heap.buffer)
        await sent
        self.assertEqual([len(one) for one in frames], [3, 70000, 0, 500])
        self.assertEqual(await self.bytes_of(frames), data)

    async def test_windows(self):
        data = os.urandom(200000)
        memory = await self.on_gpu(data)
        async with self.pool.window(memory, "on the GPU") as window:
            remote = self.mine.import_window(window.export(write=True))
            self.assertEqual((await remote.opened()).way, "cuda")
            host, gpu = bytearray(70), self.heap.buffer(70)
            places = [(100000 - 1000 * i, i) for i in range(5, 10)]
            expected = b"".join(data[at:at + n] for at, n in places)
            await remote.read(places, host)
            self.assertEqual(host[:35], expected)
            pieces = ucxpool.Pieces(gpu, range(0, 70, 2), 1)
            self.assertTrue(pieces.is_cuda)
            await remote.read(places, pieces)
            self.assertEqual((await self.bytes_of(gpu))[0][:70:2], expected)
            await remote.write([(7, 35)], pieces)
            self.assertEqual((await self.bytes_of(memory))[0],
                             data[:7] + expected + data[42:])
            remote.close()
        with ucxpool.Pool(**SETTINGS) as host:
            with self.assertRaisesRegex(ValueError, "pool is on the host"):
                host.window(memory)
            listener = host.listen()
            channel, _ = await asyncio.gather(
                host.connect(f"127.0.0.1:{listener.port}"), listener.accept())
            with self.assertRaisesRegex(ValueError, "pool is on the host"):
                channel.send(pieces)

    async def test_invalid_buffers_are_rejected(self):
        whole = self.heap.buffer(64)
        with self.assertRaisesRegex(ValueError, "strided"):
            self.mine.send([Strided(whole)])
        with self.assertRaisesRegex(ValueError, "different stream"):
            self.mine.send([whole, OfAnotherStream(whole)])
        with ucxpool.Pool(**SETTINGS) as host:
            listener = host.listen()
            channel, _ = await asyncio.gather(
                host.connect(f"127.0.0.1:{listener.port}"), listener.accept())
            with self.assertRaisesRegex(ValueError, r"Pool\(device=0\)"):
                channel.send([whole])

    async def test_buffer_is_freed_with_its_last_reference(self):
        before = self.heap.stats()["live_bytes"]
        buffer = self.heap.buffer(1 << 20)
        self.assertGreater(self.heap.stats()["live_bytes"], before)
        del buffer
        self.assertEqual(self.heap.stats()["live_bytes"], before)

    async def test_info_names_the_gpu(self):
        self.assertEqual(self.pool.info()["device"], 0)
        self.assertIn("GPU 0", repr(self.pool))


if __name__ == "__main__":
    unittest.main()
