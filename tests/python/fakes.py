"""Fakes of PyTorch, CuPy, RMM and Numba. They have the parts that ucxpool
uses, with the same signatures, and call the allocators in the same way."""
import ctypes
import sys
import types
import weakref
from collections import namedtuple


def module(name, **members):
    made = types.ModuleType(name)
    vars(made).update(members)
    sys.modules[name] = made
    return made


class Stream:
    """A stream of any of these frameworks."""

    def __init__(self, ptr, device_id=0):
        self.ptr = ptr
        self.device_id = device_id

    def __cuda_stream__(self):
        return (0, self.ptr)


# --- PyTorch ----------------------------------------------------------------

class TorchHooks:
    def __init__(self):
        self.set = {}

    def __getattr__(self, name):
        if not name.startswith("set_"):
            raise AttributeError(name)
        return lambda address: self.set.__setitem__(name, address)


class CUDAPluggableAllocator:
    def __init__(self, path, alloc, free):
        library = ctypes.CDLL(path)
        self.names = (alloc, free)
        self._alloc = getattr(library, alloc)
        self._alloc.restype = ctypes.c_void_p
        self._alloc.argtypes = [ctypes.c_ssize_t, ctypes.c_int,
                                ctypes.c_void_p]
        self._free = getattr(library, free)
        self._free.restype = None
        self._free.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t,
                               ctypes.c_int, ctypes.c_void_p]
        self._hooks = TorchHooks()

    def allocator(self):
        return self._hooks

    # These are called by PyTorch's C++ code.
    def malloc(self, size, device, stream):
        return self._alloc(size, device, stream)

    def raw_delete(self, address, size, device, stream):
        self._free(address, size, device, stream)

    def record_stream(self, address, stream):
        function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
        function(self._hooks.set["set_record_stream_fn"])(address, stream)

    def empty_cache(self):
        ctypes.CFUNCTYPE(None)(self._hooks.set["set_reset_fn"])()


class Torch:
    current = None
    is_used = False


def change_current_allocator(allocator):
    if Torch.is_used:
        raise RuntimeError("Can't swap an already initialized allocator")
    Torch.current = allocator


class MemPool:
    def __init__(self, allocator=None, use_on_oom=False):
        self.allocator = allocator
        self.use_on_oom = use_on_oom


def torch():
    Torch.current, Torch.is_used = None, False
    memory = module("torch.cuda.memory",
                    CUDAPluggableAllocator=CUDAPluggableAllocator,
                    change_current_allocator=change_current_allocator)
    cuda = module("torch.cuda", memory=memory, MemPool=MemPool,
                  current_device=lambda: 0)
    device = namedtuple("device", "type index")

    def make_device(text):
        if isinstance(text, device):
            return text
        kind, _, index = text.partition(":")
        return device(kind, int(index) if index else None)
    return module("torch", cuda=cuda, __version__="9.9", device=make_device)


# --- CuPy -------------------------------------------------------------------

class CupyOutOfMemoryError(MemoryError):
    def __init__(self, size, total, limit=0):
        super().__init__(f"Out of memory allocating {size:,} bytes "
                         f"(allocated so far: {total:,} bytes, "
                         f"limit set to: {limit:,} bytes).")


class CFunctionAllocatorMemory:
    def __init__(self, size, param, malloc, free, device):
        self.ptr = 0
        self._param, self._free, self._device = param, free, device
        if size > 0:
            function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p,
                                        ctypes.c_size_t, ctypes.c_int)
            self.ptr = function(malloc)(param, size, device) or 0

    def __del__(self):
        if self.ptr:
            function = ctypes.CFUNCTYPE(None, ctypes.c_void_p,
                                        ctypes.c_void_p, ctypes.c_int)
            function(self._free)(self._param, self.ptr, self._device)


class CFunctionAllocator:
    def __init__(self, param, malloc, free, owner):
        self._arguments = (param, malloc, free)
        self._owner = owner

    # Returns a pointer to the memory, with the attributes that ucxpool uses.
    def malloc(self, size):
        return CFunctionAllocatorMemory(size, *self._arguments, 0)


class Cupy:
    stream = Stream(0, -1)
    allocator = "CuPy's own"


def cupy():
    Cupy.stream, Cupy.allocator = Stream(0, -1), "CuPy's own"
    memory = module("cupy.cuda.memory", CFunctionAllocator=CFunctionAllocator,
                    OutOfMemoryError=CupyOutOfMemoryError)
    cuda = module("cupy.cuda", memory=memory,
                  get_current_stream=lambda: Cupy.stream,
                  set_allocator=lambda f: setattr(Cupy, "allocator", f),
                  get_allocator=lambda: Cupy.allocator,
                  Device=namedtuple("Device", "id", defaults=(0,)),
                  runtime=types.SimpleNamespace(getDeviceCount=lambda: 1))
    return module("cupy", cuda=cuda)


# --- RMM --------------------------------------------------------------------

class CallbackMemoryResource:
    def __init__(self, allocate, deallocate):
        self._allocate, self._deallocate = allocate, deallocate

    def allocate(self, size, stream=Stream(0)):
        return self._allocate(size, stream)

    def deallocate(self, address, size, stream=Stream(0)):
        self._deallocate(address, size, stream)


class Rmm:
    resources = {}


def rmm():
    Rmm.resources = {}
    stream = module("rmm.pylibrmm.stream", Stream=Stream)
    pylibrmm = module("rmm.pylibrmm", stream=stream)
    mr = module(
        "rmm.mr", CallbackMemoryResource=CallbackMemoryResource,
        set_current_device_resource=lambda r: Rmm.resources.update({0: r}),
        set_per_device_resource=lambda d, r: Rmm.resources.update({d: r}))
    gpu = module("rmm._cuda.gpu", getDevice=lambda: 0)
    module("rmm._cuda", gpu=gpu)
    return module("rmm", mr=mr, pylibrmm=pylibrmm, __version__="99.10")


# --- Numba ------------------------------------------------------------------

class Deallocations:
    """Two deallocations are pending; the third frees all."""

    def __init__(self):
        self.memory_capacity = 0
        self._waiting = []

    def add_item(self, dtor, handle, size=0):
        assert dtor.__name__ and size > 0
        self._waiting.append((dtor, handle))
        if len(self._waiting) > 2:
            self.clear()

    def clear(self):
        while self._waiting:
            dtor, handle = self._waiting.pop(0)
            dtor(handle)


class HostOnlyCUDAMemoryManager:
    def __init__(self, *args, **kwargs):
        if "context" not in kwargs:
            raise RuntimeError("Memory manager requires a context")
        self.context = kwargs.pop("context")
        self.allocations = {}
        self.deallocations = Deallocations()


class MemoryPointer:
    def __init__(self, context, pointer, size, owner=None, finalizer=None):
        self.context, self.size = context, size
        self.device_pointer = pointer
        self._finalizer = weakref.finalize(self, finalizer)


class NumbaContext:
    def __init__(self):
        self.device = types.SimpleNamespace(id=0)
        self.num_waits = 0

    def synchronize(self):
        self.num_waits += 1


class Numba:
    manager = None


def set_memory_manager(plugin):
    if plugin(context=None).interface_version != 1:
        raise RuntimeError("EMM Plugin interface")
    Numba.manager = plugin


def numba():
    driver = module("numba.cuda.cudadrv.driver",
                    MemoryInfo=namedtuple("MemoryInfo", "free,total"))
    cudadrv = module("numba.cuda.cudadrv", driver=driver)
    cuda = module("numba.cuda", cudadrv=cudadrv,
                  HostOnlyCUDAMemoryManager=HostOnlyCUDAMemoryManager,
                  MemoryPointer=MemoryPointer,
                  set_memory_manager=set_memory_manager)
    return module("numba", cuda=cuda)
