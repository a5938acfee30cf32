"""Numba on libucxpool's heap: an External Memory Management plugin.

    import ucxpool.numba
    ucxpool.numba.enable()

or, without a line of code, NUMBA_CUDA_MEMORY_MANAGER=ucxpool.numba.

Numba tells an allocator no stream. So what is freed waits until the GPU has
done all that it was given, as with Numba's own allocator, and like that one,
several at a time (NUMBA_CUDA_MAX_PENDING_DEALLOCS_COUNT, _RATIO).
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
    """The manager may be gone when a pointer is."""
    reference = weakref.ref(manager)

    def finalize():
        present = reference()
        if present is not None:
            present._defer(address, size)

    return finalize


class Manager(HostOnlyCUDAMemoryManager):
    """For numba.cuda.set_memory_manager()."""

    def _heap(self):
        return Heap.of_frameworks(self.context.device.id)

    def _stats(self):
        heap = self._heap()
        stats = heap.stats()
        if stats["limit"] == 0:
            # A heap knows its limit from its first allocation on.
            heap.free(heap.alloc(1))
            stats = heap.stats()
        return stats

    def initialize(self):
        # Numba lets a share of this wait to be freed.
        self.deallocations.memory_capacity = self._stats()["limit"]

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
        # In which streams it was used, nobody has told.
        self.context.synchronize()
        self._heap().free(address)

    def get_memory_info(self):
        stats = self._stats()
        return MemoryInfo(free=stats["limit"] - stats["live"],
                          total=stats["limit"])

    def get_ipc_handle(self, memory):
        raise NotImplementedError(
            "memory of libucxpool's heap has no CUDA IPC handle: it is virtual "
            "memory, which the driver refuses them; send it with libucxpool")

    @property
    def interface_version(self):
        return 1


# What the variable NUMBA_CUDA_MEMORY_MANAGER looks for.
_numba_memory_manager = Manager


def enable():
    """Let Numba allocate from the heap. Call it before Numba uses a GPU."""
    cuda.set_memory_manager(Manager)
