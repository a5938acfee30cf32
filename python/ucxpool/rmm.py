"""RMM on libucxpool's heap, and with it cuDF, cuML and all that asks RMM.

    import ucxpool.rmm
    ucxpool.rmm.enable()                    # of the current device, or:

    resource = ucxpool.rmm.resource()       # below adaptors of RMM's
"""
import rmm

from ._heap import Heap
from ._library import library

__all__ = ["enable", "resource"]


def _current_device():
    from rmm._cuda.gpu import getDevice
    return getDevice()


def resource(device=None):
    """A memory resource of a device, the current one if None."""
    if not hasattr(rmm.pylibrmm.stream.Stream, "__cuda_stream__"):
        raise RuntimeError(f"RMM {rmm.__version__} does not tell the stream "
                           "of an allocation; 25.02 and later do")
    if device is None:
        device = _current_device()
    heap = Heap.of_frameworks(device)
    # Shorter ways to the same heap than its own methods; they raise nothing.
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
    """Make it RMM's resource of a device, the current one if None."""
    made = resource(device)
    if device is None:
        rmm.mr.set_current_device_resource(made)
    else:
        rmm.mr.set_per_device_resource(device, made)
    return made
