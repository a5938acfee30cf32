"""The heap of a pool."""
import collections
import ctypes
import json
import os
import weakref

from . import _library

Segment = collections.namedtuple("Segment",
                                 "address length chunk chunk_size")
Segment.__doc__ = "A range of a heap's memory that is in one physical chunk."
Segment.address.__doc__ = "Its start address."
Segment.length.__doc__ = "Its length in bytes."
Segment.chunk.__doc__ = "The start address of the chunk that contains it."
Segment.chunk_size.__doc__ = "The size of the chunk in bytes."

_FORMATS = {"text": 0, "json": 1, "openmetrics": 2}


def _handle(stream):
    """Return the handle of a stream as a number. The stream is a number, None
    (the default stream), or an object with a handle."""
    if stream is None:
        return 0
    if hasattr(stream, "__cuda_stream__"):
        stream = stream.__cuda_stream__()[1]
    elif hasattr(stream, "cuda_stream"):
        stream = stream.cuda_stream
    elif hasattr(stream, "ptr"):
        stream = stream.ptr
    if not isinstance(stream, int):
        raise TypeError(f"{stream!r} is not a stream: it has no "
                        "__cuda_stream__()")
    # The legacy default stream has two handles.
    return 0 if stream == 1 else stream


def _without_blocks(settings):
    """Return the settings of a heap. Its pool has no blocks unless a setting
    requests them."""
    settings = {key.upper(): str(value) for key, value in settings.items()}
    if not any(key in settings or "UCXPOOL_" + key in os.environ
               for key in ("COMM_SIZE", "BLOCK_SIZE", "REGION_SIZE")):
        settings["COMM_SIZE"] = "0"
    return settings


def _core():
    """Return the extension. It needs the libraries that library() loads."""
    _library.library()
    from . import _core as extension
    return extension


class DeviceBuffer:
    """Memory from a GPU's heap, allocated and freed in stream order on the
    default stream."""

    def __init__(self, heap, size):
        self.nbytes = size
        self.address = heap.alloc(size) if size else None
        # The heap must outlive its buffers.
        weakref.finalize(self, heap._free_buffer, self.address)

    @property
    def __cuda_array_interface__(self):
        return {"shape": (self.nbytes,), "typestr": "|u1", "version": 3,
                "data": (self.address or 0, False), "strides": None,
                "stream": 1}

    def __len__(self):
        return self.nbytes


class Heap:
    """Allocates memory of any size, on the host (Heap()) or on a GPU
    (Heap(0)). Fragmentation rarely makes an allocation fail.

    Keywords are settings, as in Heap(memory_limit="1g"); `python -m
    ucxpool.info -c` lists them. A size is a number of bytes, or a string such
    as "64m". If neither the keywords nor the environment configure blocks
    (comm_size), the pool of the heap has no blocks and cannot have channels.
    Addresses are plain numbers. Memory must be freed in the heap that
    allocated it. Streams are numbers, or objects of PyTorch, CuPy, RMM or
    cuda.core; on the host they are only labels.

    A heap is a context manager, and can be closed with close(). Closing the
    heap frees all its memory.
    """

    def __init__(self, device=None, **settings):
        self._lib = _library.library()
        self.device = _library.HOST if device is None else device
        self._failure = None
        self._pool = _core().heap_create(device, _without_blocks(settings))
        self._finalizer = weakref.finalize(self, self._lib.destroy,
                                           self._pool)

    @classmethod
    def of_frameworks(cls, device=None):
        """Return the heap that PyTorch, CuPy, RMM and Numba share on a
        device."""
        heap = cls.__new__(cls)
        heap._lib = _library.library()
        heap.device = _library.HOST if device is None else device
        heap._failure = None
        heap._finalizer = None
        pool = ctypes.c_void_p()
        heap._lib.check(heap._lib.framework_pool(heap.device,
                                                 ctypes.byref(pool)))
        heap._pool = pool.value
        return heap

    def __repr__(self):
        where = ("host" if self.device == _library.HOST
                 else f"GPU {self.device}")
        return f"<ucxpool.Heap of {where}{'' if self._pool else ', closed'}>"

    @property
    def pool(self):
        """The ucxpool_t * as a number, for libucxpool's C functions."""
        if self._pool is None:
            raise ValueError("the heap is closed")
        return self._pool

    def close(self):
        """Destroy the pool, unless the frameworks use it."""
        self._pool = None
        if self._finalizer is not None:
            self._finalizer()
            _core().tell_log()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def give_to_frameworks(self):
        """Let PyTorch, CuPy, RMM and Numba allocate from this heap. Call this
        method before they allocate anything on the heap's device. The heap is
        then never destroyed."""
        self._lib.check(self._lib.framework_set_pool(self.device, self.pool))
        if self._finalizer is not None:
            self._finalizer.detach()
            self._finalizer = None

    def alloc(self, size, stream=None):
        """Allocate `size` bytes for work in the stream (None: the default
        stream), and return the address. Raises OutOfMemoryError if there is
        not enough memory. Only free() and close() free the memory."""
        address = ctypes.c_void_p()
        self._lib.check(self._lib.heap_alloc(
            self.pool, size, _handle(stream), ctypes.byref(address)))
        return address.value

    def free(self, address, stream=None):
        """Free memory from alloc(), after the work that was submitted to the
        stream before this call. The address may be None."""
        self._lib.check(self._lib.heap_free(self.pool, address,
                                            _handle(stream)))

    def buffer(self, size):
        """Allocate `size` bytes as a writable buffer, for memoryview() or
        numpy.frombuffer(); on a GPU as a DeviceBuffer, for cupy.asarray(). The
        memory is freed when nothing refers to the buffer."""
        if self.device != _library.HOST:
            return DeviceBuffer(self, size)
        if not size:
            return (ctypes.c_ubyte * 0)()
        address = self.alloc(size)
        array = (ctypes.c_ubyte * size).from_address(address)
        # The heap must outlive its buffers.
        weakref.finalize(array, Heap._free_buffer, self, address)
        return array

    def _free_buffer(self, address):
        if self._pool is not None:
            self.free(address)

    def usable_size(self, address):
        """Return the usable size of an allocation, in bytes."""
        size = ctypes.c_size_t()
        self._lib.check(self._lib.heap_usable_size(self.pool, address,
                                                   ctypes.byref(size)))
        return size.value

    def segments(self, address, length):
        """Return the parts of an allocation's range that are in different
        physical chunks, as a list of Segment."""
        return [Segment(*one) for one in
                _core().heap_segments(self.pool, address, length)]

    def stream_end(self, stream):
        """Forget a stream; call this method before the stream is destroyed."""
        self._lib.check(self._lib.heap_stream_end(self.pool, _handle(stream)))

    def trim(self, keep=0):
        """Release free chunks until the heap holds at most `keep` bytes in
        total, or no chunk is completely free. Returns the number of released
        bytes."""
        released = ctypes.c_size_t()
        self._lib.check(self._lib.heap_trim(self.pool, keep,
                                            ctypes.byref(released)))
        return released.value

    def on_failure(self, callback):
        """Set a function that is called as callback(size, stream) before an
        allocation fails. The function may free memory; if it returns True, the
        allocation is tried again. None removes the function."""
        def call(_arg, _pool, size, stream):
            try:
                return bool(callback(size, stream or 0))
            except BaseException:  # must not pass through C
                import traceback
                traceback.print_exc()
                return False

        failure = _library.FAILURE(call if callback is not None else 0)
        self._lib.check(
            self._lib.heap_set_failure_handler(self.pool, failure, None))
        self._failure = failure  # as long as the heap may call it

    def stats(self):
        """Return the heap's statistics as a dict. The keys are the statistics'
        names in <ucxpool/stats.h> without the prefix heap_."""
        # Without the extension, which frameworks do not need.
        return {name.removeprefix("heap_"): value
                for name, value in json.loads(self.report("json")).items()
                if isinstance(value, int)}

    def report(self, form="text"):
        """Return the report of ucxpool_heap_string(), as "text", "json" or
        "openmetrics"."""
        return self._lib.text(
            self._lib.heap_string(self.pool, _FORMATS[form]))
