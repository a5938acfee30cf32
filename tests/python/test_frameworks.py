"""Tests the allocators for PyTorch, CuPy, RMM and Numba, with fakes of these
and with the stand-in for the CUDA driver."""
import gc
import importlib
import subprocess
import sys
import unittest

import fakes
import ucxpool

MIB = 1 << 20


def load(name):
    """Import ucxpool's module, with a new fake."""
    getattr(fakes, name)()
    sys.modules.pop("ucxpool." + name, None)
    return importlib.import_module("ucxpool." + name)


class FrameworkTest(unittest.TestCase):

    def num_live(self):
        return ucxpool.heap_stats(0)["num_live"]

    def setUp(self):
        self.assertEqual(self.num_live(), 0)

    def tearDown(self):
        gc.collect()
        self.assertEqual(self.num_live(), 0)


class TorchTest(FrameworkTest):

    def test_torch_allocates_from_the_heap(self):
        torch = load("torch")
        torch.enable()
        given = fakes.Torch.current
        self.assertEqual(given.names, ("ucxpool_torch_alloc_or_throw",
                                       "ucxpool_torch_free"))
        self.assertIn("set_begin_allocate_to_pool", given.allocator().set)
        address = given.malloc(5 * MIB, 0, 0)
        self.assertEqual(address % 512, 0)
        self.assertEqual(self.num_live(), 1)
        self.assertEqual(torch.memory_allocated(),
                         ucxpool.heap_stats(0)["live_bytes"])
        for device in (0, "cuda", "cuda:0", None):
            self.assertGreaterEqual(torch.memory_reserved(device), 5 * MIB)
        given.record_stream(address, 0)
        given.raw_delete(address, 5 * MIB, 0, 0)
        self.assertEqual(given.malloc(0, 0, 0), None)
        given.empty_cache()
        self.assertEqual(torch.memory_reserved(), 0)

    def test_enable_fails_after_torch_has_allocated(self):
        torch = load("torch")
        fakes.Torch.is_used = True
        with self.assertRaisesRegex(RuntimeError, "before anything"):
            torch.enable()

    def test_mem_pool_gets_null_when_memory_runs_out(self):
        torch = load("torch")
        pool = torch.mem_pool(use_on_oom=True)
        self.assertTrue(pool.use_on_oom)
        given = torch._kept[-1]
        self.assertIs(pool.allocator, given.allocator())
        self.assertEqual(given.names,
                         ("ucxpool_torch_alloc", "ucxpool_torch_free"))
        self.assertIsNone(given.malloc(1 << 40, 0, 0))
        address = given.malloc(20 * MIB, 0, 0)
        self.assertEqual(self.num_live(), 1)
        given.raw_delete(address, 20 * MIB, 0, 0)

    def test_torch_without_mem_pools_is_rejected(self):
        torch = load("torch")
        del sys.modules["torch.cuda"].MemPool
        with self.assertRaisesRegex(RuntimeError, "2.5"):
            torch.mem_pool()

    def test_torch_without_record_stream_is_rejected(self):
        torch = load("torch")
        before = fakes.TorchHooks.__getattr__
        del fakes.TorchHooks.__getattr__
        try:
            with self.assertRaisesRegex(RuntimeError, "streams"):
                torch.enable()
        finally:
            fakes.TorchHooks.__getattr__ = before


class CupyTest(FrameworkTest):

    def setUp(self):
        super().setUp()
        self.cupy = load("cupy")
        self.allocator = self.cupy.enable()

    def test_cupy_allocates_from_the_heap_and_frees(self):
        memory = fakes.Cupy.allocator(3 * MIB)
        self.assertNotEqual(memory.ptr, 0)
        self.assertEqual(memory.ptr % 512, 0)
        self.assertEqual(self.num_live(), 1)
        del memory
        self.assertEqual(self.num_live(), 0)
        self.assertEqual(fakes.Cupy.allocator(0).ptr, 0)

    def test_disable_restores_the_allocator(self):
        self.cupy.enable()
        self.cupy.disable()
        self.assertEqual(fakes.Cupy.allocator, "CuPy's own")

    def test_out_of_memory_raises_cupys_error_with_a_reason(self):
        kept = fakes.Cupy.allocator(32 * MIB)
        with self.assertRaises(fakes.CupyOutOfMemoryError) as caught:
            fakes.Cupy.allocator(1 << 40)
        self.assertIn("1,099,511,627,776", str(caught.exception))
        self.assertIn(f"{ucxpool.heap_stats(0)['live_bytes']:,}",
                      str(caught.exception))
        self.assertIsInstance(caught.exception.__cause__,
                              ucxpool.OutOfMemoryError)
        del kept, caught

    def test_out_of_memory_collects_garbage(self):
        class Cycle:
            pass

        gc.disable()
        try:
            cycle = Cycle()
            cycle.itself = cycle
            limit = ucxpool.heap_stats(0)["limit_bytes"]
            cycle.memory = fakes.Cupy.allocator(limit // 2)
            del cycle
            memory = fakes.Cupy.allocator(limit * 3 // 4)
            self.assertNotEqual(memory.ptr, 0)
        finally:
            gc.enable()

    def test_per_thread_streams_are_refused(self):
        fakes.Cupy.stream = fakes.Stream(2, -1)
        with self.assertRaisesRegex(ValueError, "PER_THREAD"):
            fakes.Cupy.allocator(100)

    def test_unused_streams_are_released(self):
        # Not a stream of the driver, so that only memory in use is ordered.
        ended = []
        self.allocator._many = 4
        before = ucxpool.Heap.stream_end
        ucxpool.Heap.stream_end = lambda heap, stream: ended.append(stream)
        try:
            kept = fakes.Stream(0x10000)
            for ptr in [0x10000] + [0x20000 + 256 * n for n in range(9)]:
                fakes.Cupy.stream = (kept if ptr == kept.ptr
                                     else fakes.Stream(ptr))
                entry = self.allocator._entries.get(ptr) or \
                    self.allocator._add(fakes.Cupy.stream)
                del entry
        finally:
            ucxpool.Heap.stream_end = before
        self.assertGreater(len(ended), 0)
        self.assertNotIn(kept.ptr, ended)
        self.assertNotIn(fakes.Cupy.stream.ptr, ended)
        for ptr in ended:
            self.assertNotIn(ptr, self.allocator._entries)

    def test_stream_end_forgets_a_stream(self):
        self.cupy.stream_end(fakes.Stream(0x30000))
        fakes.Cupy.stream = fakes.Stream(0)
        memory = fakes.Cupy.allocator(100)
        self.cupy.stream_end(fakes.Cupy.stream)
        self.assertEqual(list(self.allocator._entries), [0])
        del memory


class RmmTest(FrameworkTest):

    def test_enable_sets_the_device_resource(self):
        rmm = load("rmm")
        self.assertIs(rmm.enable(), fakes.Rmm.resources[0])
        resource = fakes.Rmm.resources[0]
        address = resource.allocate(5000)
        self.assertEqual(address % 256, 0)
        self.assertEqual(self.num_live(), 1)
        resource.deallocate(address, 5000)
        self.assertEqual(resource.allocate(0), 0)
        resource.deallocate(0, 0)
        self.assertIs(rmm.enable(0), fakes.Rmm.resources[0])

    def test_out_of_memory_raises_memory_error(self):
        resource = load("rmm").resource()
        with self.assertRaises(MemoryError):
            resource.allocate(1 << 40)

    def test_rmm_without_streams_is_rejected(self):
        rmm = load("rmm")
        sys.modules["rmm.pylibrmm.stream"].Stream = object
        with self.assertRaisesRegex(RuntimeError, "stream"):
            rmm.resource()


class NumbaTest(FrameworkTest):

    def manager(self):
        numba = load("numba")
        numba.enable()
        self.assertIs(fakes.Numba.manager, numba._numba_memory_manager)
        manager = fakes.Numba.manager(context=fakes.NumbaContext())
        manager.initialize()
        return manager

    def test_memory_is_freed_after_all_work(self):
        manager = self.manager()
        self.assertGreater(manager.deallocations.memory_capacity, 0)
        pointers = [manager.memalloc(size) for size in (0, 1, 100000)]
        self.assertEqual(self.num_live(), 3)
        for pointer in pointers:
            self.assertNotEqual(pointer.device_pointer.value, 0)
        del pointers[:], pointer
        gc.collect()
        self.assertEqual(self.num_live(), 0)
        self.assertGreater(manager.context.num_waits, 0)

    def test_out_of_memory_frees_pending_deallocations(self):
        manager = self.manager()
        info = manager.get_memory_info()
        self.assertEqual(info.free, info.total)
        pointer = manager.memalloc(info.total * 3 // 4)
        del pointer
        self.assertEqual(self.num_live(), 1)
        pointer = manager.memalloc(info.total * 3 // 4)
        self.assertEqual(self.num_live(), 1)
        with self.assertRaises(MemoryError):
            manager.memalloc(info.total)
        del pointer
        manager.deallocations.clear()

    def test_ipc_handles_are_not_supported(self):
        manager = self.manager()
        with self.assertRaisesRegex(NotImplementedError, "IPC"):
            manager.get_ipc_handle(None)

    def test_pointer_may_outlive_its_manager(self):
        manager = self.manager()
        pointer = manager.memalloc(100)
        address = pointer.device_pointer.value
        del manager
        gc.collect()
        del pointer
        ucxpool.heap(0).free(address)


class PackageTest(unittest.TestCase):

    def run_python(self, *lines):
        done = subprocess.run(
            [sys.executable, "-B", "-c", "import fakes\n" + "\n".join(lines)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=1800)
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_frameworks_may_free_when_the_process_ends(self):
        self.run_python(
            "import atexit",
            "fakes.torch()",
            "import ucxpool.torch",
            "given = ucxpool.torch.enable()",
            "kept = [given.malloc(size, 0, 0) for size in (100, 5000000)]",
            "atexit.register(given.raw_delete, kept[0], 100, 0, 0)")

    def test_numba_knows_the_limit_before_it_allocates(self):
        self.run_python(
            "fakes.numba()",
            "import ucxpool.numba",
            "made = ucxpool.numba.Manager(context=fakes.NumbaContext())",
            "made.initialize()",
            "assert made.deallocations.memory_capacity > 0",
            "assert made.get_memory_info().free > 0")

    def test_modules_are_imported_on_access(self):
        fakes.rmm()
        sys.modules.pop("ucxpool.rmm", None)
        vars(ucxpool).pop("rmm", None)
        self.assertTrue(callable(ucxpool.rmm.enable))
        with self.assertRaises(AttributeError):
            ucxpool.jax


if __name__ == "__main__":
    unittest.main()
