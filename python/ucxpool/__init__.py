"""libucxpool for Python: sends many buffers as one message over UCX, and
provides a heap whose allocations rarely fail because of fragmentation.

Transfers, with asyncio:

    async with ucxpool.Pool() as pool:
        channel = await pool.connect("127.0.0.1:7000")
        await channel.send([header, array, table], tag=1, metadata=b"rows")
        message = await channel.recv()
        frames = await message.frames()

Without asyncio, use wait(): pool.connect("127.0.0.1:7000").wait(), and so on.
A peer listens:

    async for channel in pool.listen("127.0.0.1:7000"):
        ...

Pool(device=0) has its blocks on a GPU, and accepts buffers on that GPU and on
the host. Keywords are settings, as in Pool(comm_size="256m"). In the
environment, settings are named UCXPOOL_*. `python -m ucxpool.info -c` lists
them.

To use the heap as the allocator of a framework, call this before the framework
allocates anything:

    import ucxpool.torch;  ucxpool.torch.enable()
    import ucxpool.cupy;   ucxpool.cupy.enable()
    import ucxpool.rmm;    ucxpool.rmm.enable()
    import ucxpool.numba;  ucxpool.numba.enable()

The frameworks share one pool on each device. ucxpool.heap(0) is the heap of
the pool on GPU 0, and ucxpool.heap_stats(0) returns its statistics. A heap can
also be used alone, on the host:

    with ucxpool.Heap(memory_limit="1g") as heap:
        array = numpy.frombuffer(heap.buffer(1 << 20), dtype=numpy.float32)
"""
import importlib

from ._errors import *  # noqa: F403
from ._errors import __all__ as _errors
from ._heap import Heap, Segment
from ._library import library as _load

_POOL = ("Batch", "Channel", "Listener", "Message", "Operation", "Pieces",
         "Pool", "RemoteWindow", "Transfer", "Window")
_MODULES = ("cupy", "dask", "nixl", "numba", "prometheus", "ray", "rmm", "torch",
            "ucxx")

__all__ = [*_errors, *_POOL, "Heap", "Segment", "heap", "heap_stats",
           "library_path", "ucx_version", "version"]


def heap(device=0):
    """Return the heap that the frameworks share on a GPU, or on the host if
    device is None."""
    return Heap.of_frameworks(device)


def heap_stats(device=0):
    """Return the statistics of the heap that heap() returns, as a dict."""
    return heap(device).stats()


def library_path():
    """Return the path of the libucxpool.so that is loaded."""
    return _load().path


def version():
    """Return the version of the library. ucxpool.__version__ is the version of
    the package."""
    return _load().version_string().decode()


def ucx_version():
    """Return the version of the UCX in use, as (1, 21, 0), and its file."""
    return _load().ucx_version()


def __getattr__(name):
    if name == "__version__":
        metadata = importlib.import_module("importlib.metadata")
        return metadata.version(__name__)
    if name in _MODULES:
        return importlib.import_module("." + name, __name__)
    if name in _POOL:
        return getattr(importlib.import_module("._pool", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    # Leave out _MODULES: otherwise help() would import modules whose
    # frameworks are missing.
    return sorted({*globals(), *__all__, "__version__"})
