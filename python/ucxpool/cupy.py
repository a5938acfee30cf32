"""Makes CuPy use libucxpool's heap.

    import ucxpool.cupy
    ucxpool.cupy.enable()

Memory is allocated for CuPy's current stream, and freed in that stream when
the array is deleted, as in CuPy's own pool. CuPy's streams are kept alive
while their memory may be in use. For a stream that CuPy did not create
(ExternalStream), call ucxpool.cupy.stream_end() before it is destroyed.
"""
import ctypes
import gc
import sys
import threading

import cupy
from cupy.cuda.memory import CFunctionAllocator
from cupy.cuda.memory import OutOfMemoryError as _CupyOutOfMemoryError

from ._heap import Heap
from ._errors import OutOfMemoryError
from ._library import library

__all__ = ["Allocator", "disable", "enable", "stream_end"]

# Both handles of the legacy default stream.
_DEFAULT = (0, 1)
_PER_THREAD = 2
# From this number of streams on, the allocator searches for unused ones.
_MANY = 32


class _Entry:
    """The functions of one stream. C code calls them with the address of a
    variable that contains the stream."""

    def __init__(self, stream):
        lib = library()
        self.stream = stream
        self.variable = ctypes.c_void_p(stream.ptr)
        self.malloc = CFunctionAllocator(
            ctypes.addressof(self.variable), lib.address_of("cupy_malloc"),
            lib.address_of("cupy_free"), self.variable).malloc


def _current_function():
    """Return CuPy's C function for the handle of the current stream, or
    None."""
    try:
        from cupy_backends.cuda import stream
        return stream.__pyx_capi__["get_current_stream_ptr"]
    except (ImportError, AttributeError, KeyError):
        return None


class _Malloc:
    """The Python form of ucxpool._cupy.Malloc, for a package without the
    extension, and for versions of CuPy that declare their function
    differently."""

    def __init__(self, add, retry):
        mallocs = {}
        current = cupy.cuda.get_current_stream
        find = mallocs.get

        def malloc(size):
            handle = current().ptr
            of_stream = find(handle)
            if of_stream is None:
                of_stream = mallocs[handle] = add(handle)
            memory = of_stream(size)
            if memory.ptr or not size:
                return memory
            return retry(size)

        self.malloc = malloc
        self.forget = lambda handle: mallocs.pop(handle, None)


def _make_malloc(add, retry):
    try:
        from . import _cupy
        return _cupy.Malloc(_current_function(), add, retry)
    except (ImportError, TypeError):
        return _Malloc(add, retry)


class Allocator:
    """An allocator for cupy.cuda.set_allocator(Allocator().malloc)."""

    def __init__(self):
        self._entries = {}
        self._many = _MANY
        self._lock = threading.Lock()
        # Variables are never deleted: freeing memory late still reads them.
        self._variables = []
        self._malloc = _make_malloc(
            lambda handle: self._add(cupy.cuda.get_current_stream()).malloc,
            self._retry)
        self.malloc = self._malloc.malloc

    def _add(self, stream):
        if stream.ptr == _PER_THREAD:
            raise ValueError(
                "per-thread default streams are not supported: their handle "
                "means another stream in each thread; unset "
                "CUPY_CUDA_PER_THREAD_DEFAULT_STREAM, and use "
                "cupy.cuda.Stream()")
        with self._lock:
            if len(self._entries) >= self._many:
                self._sweep()
                self._many = max(_MANY, 2 * len(self._entries))
            entry = self._entries.get(stream.ptr)
            if entry is None:
                entry = self._entries[stream.ptr] = _Entry(stream)
                self._variables.append(entry.variable)
            return entry

    def _retry(self, size):
        """Collect garbage and try again, as CuPy's pool does: unreachable
        arrays may hold memory."""
        entry = self._add(cupy.cuda.get_current_stream())
        gc.collect()
        memory = entry.malloc(size)
        if memory.ptr:
            return memory
        device = cupy.cuda.Device().id
        heap = Heap.of_frameworks(device)
        try:
            # Try again, to get the reason.
            address = heap.alloc(size, entry.variable.value)
        except OutOfMemoryError as reason:
            stats = heap.stats()
            raise _CupyOutOfMemoryError(size, stats["live_bytes"],
                                        stats["limit_bytes"]) from reason
        heap.free(address, entry.variable.value)
        return self.malloc(size)

    def _sweep(self):
        """Release streams that only this allocator references."""
        for handle, entry in list(self._entries.items()):
            # One reference belongs to the entry, one to this call.
            if handle not in _DEFAULT and sys.getrefcount(entry.stream) == 2:
                self._end(handle, entry)

    def _end(self, handle, entry):
        device = entry.stream.device_id
        devices = [device] if device >= 0 else range(
            cupy.cuda.runtime.getDeviceCount())
        for device in devices:
            Heap.of_frameworks(device).stream_end(handle)
        # All of the stream's work is done, so memory freed later needs no
        # ordering.
        entry.variable.value = 0
        self._malloc.forget(handle)
        del self._entries[handle]

    def stream_end(self, stream):
        """Forget a stream before it is destroyed. Waits for the stream's
        work."""
        with self._lock:
            entry = self._entries.get(stream.ptr)
            if entry is not None and stream.ptr not in _DEFAULT:
                self._end(stream.ptr, entry)


_enabled = None
_before = None


def enable():
    """Let CuPy allocate from the heap. Earlier allocations are not moved."""
    global _enabled, _before
    if _enabled is None:
        _before = cupy.cuda.get_allocator()
        _enabled = Allocator()
    cupy.cuda.set_allocator(_enabled.malloc)
    return _enabled


def disable():
    """Restore CuPy's previous allocator."""
    if _enabled is not None:
        cupy.cuda.set_allocator(_before)


def stream_end(stream):
    """Call this before a stream that CuPy did not create is destroyed."""
    if _enabled is not None:
        _enabled.stream_end(stream)
