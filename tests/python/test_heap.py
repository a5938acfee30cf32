"""Tests the heap on the host, and its errors."""
import ctypes
import gc
import subprocess
import sys
import threading
import unittest

import ucxpool
from ucxpool._pool import _core

MIB = 1 << 20
SMALL = {"comm_size": "8m", "memory_limit": "80m", "huge_pages": "n",
         "log_level": "none"}


class HeapTest(unittest.TestCase):

    def setUp(self):
        self.heap = ucxpool.Heap(**SMALL)

    def tearDown(self):
        self.heap.close()

    def test_repr_shows_device_and_state(self):
        self.assertEqual(repr(self.heap), "<ucxpool.Heap of host>")
        self.heap.close()
        self.assertEqual(repr(self.heap), "<ucxpool.Heap of host, closed>")

    def test_allocations_are_separate_and_freed(self):
        sizes = [1, 100, 4096, 100000, 3 * MIB]
        live = [(self.heap.alloc(size), size) for size in sizes]
        for number, (address, size) in enumerate(live):
            self.assertGreaterEqual(self.heap.usable_size(address), size)
            ctypes.memset(address, number, size)
        for number, (address, size) in enumerate(live):
            self.assertEqual(ctypes.string_at(address, size),
                             bytes([number]) * size)
        self.assertEqual(self.heap.stats()["num_live"], len(sizes))
        self.assertEqual(self.heap.stats()["asked_bytes"], sum(sizes))
        for address, _ in live:
            self.heap.free(address)
        self.assertEqual(self.heap.stats()["num_live"], 0)
        self.assertEqual(self.heap.stats()["live_bytes"], 0)

    def test_scattered_free_memory_becomes_one_range(self):
        # Free every second piece, so that no two free ones are adjacent.
        pieces = []
        try:
            while True:
                pieces.append(self.heap.alloc(2 * MIB))
        except ucxpool.OutOfMemoryError:
            pass
        freed = pieces[::2]
        for address in freed:
            self.heap.free(address)
        size = 2 * MIB * (len(freed) - 1)
        address = self.heap.alloc(size)
        ctypes.memset(address, 0x5a, size)
        segments = self.heap.segments(address, size)
        self.assertGreater(len(segments), 1)
        self.assertEqual(sum(one.length for one in segments), size)
        offset = 0
        for one in segments:
            # Both addresses refer to the same byte.
            ctypes.memset(address + offset, 0xa5, 1)
            self.assertEqual(ctypes.string_at(one.address, 1), b"\xa5")
            self.assertLessEqual(one.chunk, one.address)
            self.assertLessEqual(one.address + one.length,
                                 one.chunk + one.chunk_size)
            offset += one.length
        stats = self.heap.stats()
        self.assertGreaterEqual(stats["stitches"], 1)
        self.assertEqual(stats["stitched_live"], 1)

    def test_trim_releases_free_memory(self):
        self.heap.free(self.heap.alloc(32 * MIB))
        reserved = self.heap.stats()["reserved_bytes"]
        self.assertGreaterEqual(reserved, 32 * MIB)
        self.assertEqual(self.heap.trim(), reserved)
        self.assertEqual(self.heap.stats()["reserved_bytes"], 0)

    def test_out_of_memory_gives_a_reason(self):
        with self.assertRaises(ucxpool.OutOfMemoryError) as caught:
            self.heap.alloc(1 << 40)
        self.assertIsInstance(caught.exception, MemoryError)
        self.assertIsInstance(caught.exception, ucxpool.Error)
        self.assertEqual(caught.exception.status, -2)
        self.assertNotEqual(str(caught.exception), "")

    def test_invalid_arguments_are_rejected(self):
        address = self.heap.alloc(100)
        self.heap.free(address)
        self.heap.free(None)
        for wrong in (lambda: self.heap.free(address),
                      lambda: self.heap.alloc(0),
                      lambda: self.heap.usable_size(address),
                      lambda: self.heap.segments(address, 1),
                      lambda: ucxpool.Heap(no_such_key=1),
                      lambda: ucxpool.Heap(memory_limit="some")):
            with self.assertRaises(ucxpool.Error) as caught:
                wrong()
            self.assertEqual(caught.exception.status, -1)
        with self.assertRaises(TypeError):
            self.heap.alloc(1, "a stream")

    def test_memory_limit_may_be_text_or_number(self):
        for limit in ("64m", "64M", 64 * MIB, "65536k"):
            with ucxpool.Heap(memory_limit=limit) as heap:
                heap.free(heap.alloc(60 * MIB))
                self.assertEqual(heap.stats()["limit_bytes"], 64 * MIB)
                with self.assertRaises(ucxpool.OutOfMemoryError):
                    heap.alloc(65 * MIB)

    def test_heap_has_no_blocks(self):
        for settings, bytes_of_blocks in (({}, 0), ({"comm_size": "8m"},
                                                    8 * MIB)):
            with ucxpool.Heap(memory_limit="64m", **settings) as heap:
                heap.alloc(1)
                self.assertEqual(heap.stats()["limit_bytes"],
                                 64 * MIB - bytes_of_blocks)

    def test_streams_are_numbers_or_objects(self):
        class Cuda:
            def __cuda_stream__(self):
                return (0, 4096)

        class Torch:
            cuda_stream = 4096

        class Cupy:
            ptr = 4096

        for stream in (None, 0, 4096, Cuda(), Torch(), Cupy()):
            self.heap.free(self.heap.alloc(1000, stream), stream)
        self.heap.stream_end(4096)

    def test_unreferenced_buffer_is_freed(self):
        buffer = self.heap.buffer(MIB)
        view = memoryview(buffer).cast("B")
        del buffer
        view[MIB - 1] = 7
        part = view[MIB - 2:]
        del view
        gc.collect()
        self.assertEqual(bytes(part), b"\0\7"[:1] + b"\7"
                         if part[0] == 0 else bytes([part[0], 7]))
        self.assertEqual(self.heap.stats()["num_live"], 1)
        del part
        gc.collect()
        self.assertEqual(self.heap.stats()["num_live"], 0)

    def test_buffer_keeps_its_heap_alive(self):
        def make():
            return ucxpool.Heap(**SMALL).buffer(1000)

        buffer = make()
        gc.collect()
        buffer[999] = 1
        self.assertEqual(buffer[999], 1)

    def test_callback_may_free_memory(self):
        kept = [self.heap.alloc(32 * MIB)]
        calls = []

        def give(size, stream):
            calls.append((size, stream))
            if not kept:
                return False
            self.heap.free(kept.pop())
            return True

        self.heap.on_failure(give)
        first = self.heap.alloc(60 * MIB, 4096)
        self.assertEqual(calls, [(60 * MIB, 4096)])
        with self.assertRaises(ucxpool.OutOfMemoryError):
            self.heap.alloc(60 * MIB)
        self.assertEqual(len(calls), 2)
        self.heap.on_failure(None)
        with self.assertRaises(ucxpool.OutOfMemoryError):
            self.heap.alloc(60 * MIB)
        self.assertEqual(len(calls), 2)
        self.heap.free(first)

    def test_report_matches_the_statistics(self):
        address = self.heap.alloc(5000)
        expected = {name.removeprefix("heap_"): value for name, value
                    in _core.pool_stats(self.heap.pool).items()
                    if name.startswith("heap_")}
        self.assertEqual(self.heap.stats(), expected)
        self.assertTrue(self.heap.report("openmetrics")
                        .rstrip().endswith("# EOF"))
        self.assertNotEqual(self.heap.report(), "")
        with self.assertRaises(KeyError):
            self.heap.report("pdf")
        self.heap.free(address)

    def test_closed_heap_raises(self):
        heap = ucxpool.Heap(**SMALL)
        with heap:
            heap.alloc(100)
        heap.close()
        with self.assertRaises(ValueError):
            heap.alloc(100)

    def test_threads_allocate_at_once(self):
        errors = []

        def work(stream):
            try:
                for size in range(1, 40000, 400):
                    address = self.heap.alloc(size, stream)
                    ctypes.memset(address, stream % 256, size)
                    data = ctypes.string_at(address, size)
                    if data != bytes([stream % 256]) * size:
                        raise AssertionError(f"{size} bytes are others'")
                    self.heap.free(address, stream)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(4096 * n,))
                   for n in range(1, 5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(errors, [])
        self.assertEqual(self.heap.stats()["num_live"], 0)

    def test_frameworks_share_one_host_heap(self):
        heap = ucxpool.heap(None)
        address = heap.alloc(5000)
        self.assertEqual(ucxpool.heap_stats(None)["num_live"], 1)
        self.assertEqual(ucxpool.heap(None).pool, heap.pool)
        with self.assertRaises(ucxpool.Error):
            self.heap.give_to_frameworks()
        heap.free(address)
        heap.close()
        self.assertEqual(ucxpool.heap_stats(None)["num_live"], 0)

    def test_live_memory_at_exit_is_harmless(self):
        done = subprocess.run(
            [sys.executable, "-B", "-c",
             "import ucxpool\n"
             "heap = ucxpool.Heap(comm_size='8m')\n"
             "kept = [heap.alloc(100000), heap.buffer(5000)]\n"
             "shared = ucxpool.heap(None)\n"
             "kept += [shared.alloc(100000), shared.buffer(5000)]\n"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            timeout=1800)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
