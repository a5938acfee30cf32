"""PyTorch on libucxpool's heap.

    import ucxpool.torch
    ucxpool.torch.enable()                  # all of PyTorch, or:

    with torch.cuda.use_mem_pool(ucxpool.torch.mem_pool()):
        ...                                 # what is allocated in here

enable() replaces PyTorch's caching allocator. PyTorch then has no statistics of
its own; memory_allocated() and memory_reserved() here take the place of
torch.cuda's. When memory runs out, it raises RuntimeError with "CUDA out of
memory" in it, not torch.OutOfMemoryError, which an allocator cannot raise. CUDA
graphs are refused.

With a MemPool, PyTorch's allocator stays, and takes its segments from the heap.
"""
import torch
from torch.cuda.memory import CUDAPluggableAllocator, change_current_allocator

from ._heap import Heap
from ._library import library

__all__ = ["allocator", "enable", "mem_pool", "memory_allocated",
           "memory_reserved"]

# PyTorch calls these without holding on to them.
_kept = []


def allocator(*, throws=False):
    """A CUDAPluggableAllocator. throws: for an allocator that replaces
    PyTorch's own, which looks at no NULL."""
    lib = library()
    alloc = "ucxpool_torch_alloc_or_throw" if throws else "ucxpool_torch_alloc"
    made = CUDAPluggableAllocator(lib.path, alloc, "ucxpool_torch_free")
    hooks = made.allocator()
    try:
        hooks.set_record_stream_fn(lib.address_of("torch_record_stream"))
        hooks.set_reset_fn(lib.address_of("torch_empty_cache"))
    except AttributeError as error:
        raise RuntimeError(
            f"PyTorch {torch.__version__} cannot tell an allocator of streams "
            "that use its memory, so it would be reused too early; 2.1 and "
            "later can") from error
    if throws and hasattr(hooks, "set_begin_allocate_to_pool"):
        hooks.set_begin_allocate_to_pool(
            lib.address_of("torch_refuse_graph"))
    _kept.append(made)
    return made


def enable():
    """Let PyTorch allocate all GPU memory from the heap. Call it before
    anything is on a GPU."""
    made = allocator(throws=True)
    try:
        change_current_allocator(made)
    except RuntimeError as error:
        raise RuntimeError(
            "PyTorch has used its own allocator by now: call "
            "ucxpool.torch.enable() before anything touches a GPU") from error
    return made


def mem_pool(**options):
    """A torch.cuda.MemPool whose segments are the heap's. Options are
    MemPool's own."""
    if not hasattr(torch.cuda, "MemPool"):
        raise RuntimeError(f"PyTorch {torch.__version__} has no "
                           "torch.cuda.MemPool; 2.5 and later have")
    return torch.cuda.MemPool(allocator().allocator(), **options)


def _stats(device):
    if isinstance(device, int):
        index = device
    else:
        index = None if device is None else torch.device(device).index
    if index is None:
        index = torch.cuda.current_device()
    return Heap.of_frameworks(index).stats()


def memory_allocated(device=None):
    """Bytes in live tensors, as torch.cuda.memory_allocated()."""
    return _stats(device)["live"]


def memory_reserved(device=None):
    """Bytes that the heap holds, as torch.cuda.memory_reserved()."""
    return _stats(device)["reserved"]
