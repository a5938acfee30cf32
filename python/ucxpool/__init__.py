"""libucxpool's heap: memory that does not fragment, for Python.

As the allocator of a framework, before it allocates anything:

    import ucxpool.torch;  ucxpool.torch.enable()
    import ucxpool.cupy;   ucxpool.cupy.enable()
    import ucxpool.rmm;    ucxpool.rmm.enable()
    import ucxpool.numba;  ucxpool.numba.enable()

They share one pool on each device; ucxpool.heap(0) is its heap, and
ucxpool.heap_stats(0) tells how it does. Settings are the environment's
UCXPOOL_* (`man 7 ucxpool`), read when the pool is made: os.environ will do.

By itself, on the host:

    with ucxpool.Heap(memory_limit="1g") as heap:
        array = numpy.frombuffer(heap.buffer(1 << 20), dtype=numpy.float32)
"""
import importlib

from ._heap import Heap, Segment
from ._library import Error, OutOfMemoryError, library as _load

__all__ = ["Error", "Heap", "OutOfMemoryError", "Segment", "heap",
           "heap_stats", "library_path", "version"]

_FRAMEWORKS = ("cupy", "numba", "rmm", "torch")


def heap(device=0):
    """The heap that the frameworks share on a GPU; of the host if device is
    None."""
    return Heap.of_frameworks(device)


def heap_stats(device=0):
    """Its statistics, as a dict."""
    return heap(device).stats()


def library_path():
    """The libucxpool.so that is loaded."""
    return _load().path


def version():
    """Its version."""
    return _load().version_string().decode()


def __getattr__(name):
    if name in _FRAMEWORKS:
        return importlib.import_module("." + name, __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
