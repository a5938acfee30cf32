"""Makes RMM use libucxpool's heap, and therefore also cuDF, cuML and
everything else that allocates through RMM.

    import ucxpool.rmm
    ucxpool.rmm.enable()                    # for the current device, or:

    resource = ucxpool.rmm.resource()       # as upstream of RMM's adaptors
"""
import rmm

from ._heap import Heap
from ._library import library

__all__ = ["enable", "resource"]


def _current_device():
    from rmm._cuda.gpu import getDevice
    return getDevice()


def resource(device=None):
    """Return a memory resource for a device (None: the current device)."""
    if not hasattr(rmm.pylibrmm.stream.Stream, "__cuda_stream__"):
        raise RuntimeError(f"RMM {rmm.__version__} does not pass the stream "
                           "of an allocation; use RMM 25.02 or later")
    if device is None:
        device = _current_device()
    heap = Heap.of_frameworks(device)
    # These are faster than the heap's own methods, but do not raise errors.
    alloc, free = library().torch_alloc, library().torch_free

    def allocate(size, stream):
        address = alloc(size, device, stream.__cuda_stream__()[1])
        if address is None and size:
            address = heap.alloc(size, stream)  # raises with the reason
        return address or 0

    def deallocate(address, size, stream):
        free(address, size, device, stream.__cuda_stream__()[1])

    return rmm.mr.CallbackMemoryResource(allocate, deallocate)


def enable(device=None):
    """Set RMM's resource for a device (None: the current device)."""
    made = resource(device)
    if device is None:
        rmm.mr.set_current_device_resource(made)
    else:
        rmm.mr.set_per_device_resource(device, made)
    return made
