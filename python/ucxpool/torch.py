"""Makes PyTorch use libucxpool's heap.

    import ucxpool.torch
    ucxpool.torch.enable()                  # for all of PyTorch, or:

    with torch.cuda.use_mem_pool(ucxpool.torch.mem_pool()):
        ...                                 # for allocations in this block

enable() replaces PyTorch's caching allocator. PyTorch then has no statistics
of its own: use memory_allocated() and memory_reserved() from here instead of
torch.cuda's. When memory runs out, PyTorch raises RuntimeError with "CUDA out
of memory" in its text; an allocator cannot raise torch.OutOfMemoryError.
Capturing a CUDA graph fails with an error.

With a MemPool, PyTorch keeps its own allocator, which takes its segments from
the heap.
"""
import torch
from torch.cuda.memory import CUDAPluggableAllocator, change_current_allocator

from ._heap import Heap
from ._library import library

__all__ = ["allocator", "enable", "mem_pool", "memory_allocated",
           "memory_reserved"]

# Functions that PyTorch calls without holding a reference to them.
_kept = []


def allocator(*, throws=False):
    """Return a CUDAPluggableAllocator. Set throws for an allocator that
    replaces PyTorch's own, because PyTorch does not check its result for
    NULL."""
    lib = library()
    alloc = "ucxpool_torch_alloc_or_throw" if throws else "ucxpool_torch_alloc"
    made = CUDAPluggableAllocator(lib.path, alloc, "ucxpool_torch_free")
    hooks = made.allocator()
    try:
        hooks.set_record_stream_fn(lib.address_of("torch_record_stream"))
        hooks.set_reset_fn(lib.address_of("torch_empty_cache"))
    except AttributeError as error:
        raise RuntimeError(
            f"PyTorch {torch.__version__} does not tell an allocator which "
            "streams use its memory, so memory would be reused too early; use "
            "PyTorch 2.1 or later") from error
    if throws and hasattr(hooks, "set_begin_allocate_to_pool"):
        hooks.set_begin_allocate_to_pool(
            lib.address_of("torch_refuse_graph"))
    _kept.append(made)
    return made


def enable():
    """Let PyTorch allocate all GPU memory from the heap. Call it before
    PyTorch allocates GPU memory."""
    made = allocator(throws=True)
    try:
        change_current_allocator(made)
    except RuntimeError as error:
        raise RuntimeError(
            "PyTorch has already used its own allocator: call "
            "ucxpool.torch.enable() before anything uses a GPU") from error
    return made


def mem_pool(**options):
    """Return a torch.cuda.MemPool that takes its segments from the heap. The
    options are those of MemPool."""
    if not hasattr(torch.cuda, "MemPool"):
        raise RuntimeError(f"PyTorch {torch.__version__} has no "
                           "torch.cuda.MemPool; use PyTorch 2.5 or later")
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
    """Return the bytes in live tensors, like torch.cuda.memory_allocated()."""
    return _stats(device)["live_bytes"]


def memory_reserved(device=None):
    """Return the bytes that the heap holds, like
    torch.cuda.memory_reserved()."""
    return _stats(device)["reserved_bytes"]
