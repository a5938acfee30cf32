"""Makes Numba use libucxpool's heap: an External Memory Management plugin.

    import ucxpool.numba
    ucxpool.numba.enable()

or, without changing the program, NUMBA_CUDA_MEMORY_MANAGER=ucxpool.numba.

Numba does not pass a stream to an allocator. So freed memory is reused only
after the GPU has finished all earlier work, and memory is freed in batches
(NUMBA_CUDA_MAX_PENDING_DEALLOCS_COUNT, _RATIO). Both are the same with Numba's
own allocator.
"""
import ctypes
import weakref

from numba import cuda
from numba.cuda import HostOnlyCUDAMemoryManager, MemoryPointer
from numba.cuda.cudadrv.driver import MemoryInfo

from ._heap import Heap
from ._errors import OutOfMemoryError

__all__ = ["Manager", "enable"]


def _finalizer(manager, address, size):
    """Return a finalizer that keeps no reference to the manager."""
    reference = weakref.ref(manager)

    def finalize():
        present = reference()
        if present is not None:
            present._defer(address, size)

    return finalize


class Manager(HostOnlyCUDAMemoryManager):
    """The plugin, for numba.cuda.set_memory_manager()."""

    def _heap(self):
        return Heap.of_frameworks(self.context.device.id)

    def _stats(self):
        heap = self._heap()
        stats = heap.stats()
        if stats["limit_bytes"] == 0:
            # A heap has no limit before its first allocation.
            heap.free(heap.alloc(1))
            stats = heap.stats()
        return stats

    def initialize(self):
        # Numba delays freeing up to a fraction of this.
        self.deallocations.memory_capacity = self._stats()["limit_bytes"]

    def memalloc(self, size):
        size = max(size, 1)
        try:
            address = self._heap().alloc(size)
        except OutOfMemoryError:
            self.deallocations.clear()
            address = self._heap().alloc(size)
        return MemoryPointer(weakref.proxy(self.context),
                             ctypes.c_void_p(address), size,
                             finalizer=_finalizer(self, address, size))

    def _defer(self, address, size):
        self.deallocations.add_item(self._free, address, size)

    def _free(self, address):
        # The streams that used this memory are unknown.
        self.context.synchronize()
        self._heap().free(address)

    def get_memory_info(self):
        stats = self._stats()
        return MemoryInfo(free=stats["limit_bytes"] - stats["live_bytes"],
                          total=stats["limit_bytes"])

    def get_ipc_handle(self, memory):
        raise NotImplementedError(
            "memory of libucxpool's heap has no CUDA IPC handle: the driver "
            "supports none for virtual memory; send it with libucxpool")

    @property
    def interface_version(self):
        return 1


# The variable NUMBA_CUDA_MEMORY_MANAGER requires this name.
_numba_memory_manager = Manager


def enable():
    """Let Numba allocate from the heap. Call it before Numba uses a GPU."""
    cuda.set_memory_manager(Manager)
