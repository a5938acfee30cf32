"""Finds and loads libucxpool-framework.so, and describes its functions and
errors. libucxpool's own functions are found through it, too."""
import ctypes
import ctypes.util
import os
import sys

from ._errors import of_status

VARIABLE = "LIBUCXPOOL"
UCX_VARIABLE = "LIBUCXPOOL_UCX"
SONAME = "libucxpool-framework.so.1"
CORE = "libucxpool.so.1"

OK = 0
HOST = -1


class _Found(ctypes.Structure):
    """Dl_info"""
    _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p),
                ("symbol", ctypes.c_char_p), ("address", ctypes.c_void_p)]


FAILURE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p,
                           ctypes.c_size_t, ctypes.c_void_p)

_pointer = ctypes.c_void_p
_size = ctypes.c_size_t
_out = ctypes.POINTER(ctypes.c_void_p)
_out_size = ctypes.POINTER(ctypes.c_size_t)

# Name, result and parameters. A result of ctypes.c_int is a status.
_FUNCTIONS = (
    ("error_detail", ctypes.c_char_p, ()),
    ("status_string", ctypes.c_char_p, (ctypes.c_int,)),
    ("version_string", ctypes.c_char_p, ()),
    ("config_read", ctypes.c_int, (_out,)),
    ("config_string", _pointer, (_pointer, ctypes.c_uint)),
    ("config_release", None, (_pointer,)),
    ("string_free", None, (_pointer,)),
    ("destroy", None, (_pointer,)),
    ("torch_alloc", _pointer, (ctypes.c_ssize_t, ctypes.c_int, _pointer)),
    ("torch_free", None,
     (_pointer, ctypes.c_ssize_t, ctypes.c_int, _pointer)),
    ("framework_pool", ctypes.c_int, (ctypes.c_int, _out)),
    ("framework_set_pool", ctypes.c_int, (ctypes.c_int, _pointer)),
    ("heap_alloc", ctypes.c_int, (_pointer, _size, _pointer, _out)),
    ("heap_free", ctypes.c_int, (_pointer, _pointer, _pointer)),
    ("heap_usable_size", ctypes.c_int, (_pointer, _pointer, _out_size)),
    ("heap_stream_end", ctypes.c_int, (_pointer, _pointer)),
    ("heap_trim", ctypes.c_int, (_pointer, _size, _out_size)),
    ("heap_set_failure_handler", ctypes.c_int,
     (_pointer, FAILURE, _pointer)),
    ("heap_string", _pointer, (_pointer, ctypes.c_int)),
)


def _candidates():
    """Return the names to try, each with its origin. The system's loader looks
    up names without a slash, with LD_LIBRARY_PATH and ldconfig."""
    named = os.environ.get(VARIABLE)
    if named:
        folder, file = os.path.split(named)
        if file.startswith("libucxpool.so"):
            return [(os.path.join(folder, SONAME),
                     f"next to {named}, which the variable {VARIABLE} names")]
        return [(named, f"the variable {VARIABLE}")]
    found = [(os.path.join(os.path.dirname(__file__), "lib", SONAME),
              "this package"),
             (SONAME, "the system's loader")]
    for prefix in dict.fromkeys((sys.prefix, sys.base_prefix, "/usr/local",
                                 "/opt/ucxpool")):
        for folder in ("lib", "lib64"):
            found.append((os.path.join(prefix, folder, SONAME), "a prefix"))
    return found


def _load_ucx():
    """Load the UCX of the wheel libucx, if it is installed, before the library
    looks for UCX: everything in this process must use the same one. A UCX that
    is already loaded is kept."""
    if os.environ.get(UCX_VARIABLE, "wheel") == "wheel":
        try:
            import libucx
        except ImportError:
            return
        libucx.load_library()


def _load(name):
    """Load a library. If libucxpool.so is in the same directory, load it
    before."""
    _load_ucx()
    core = os.path.join(os.path.dirname(name), CORE)
    if os.path.exists(core):
        ctypes.CDLL(core)
    return ctypes.CDLL(name)


def _open():
    tried = []
    for name, origin in _candidates():
        if os.path.isabs(name) and not os.path.exists(name):
            tried.append(f"  {name} ({origin}): no such file")
            continue
        try:
            return _load(name)
        except OSError as error:
            tried.append(f"  {name} ({origin}): {error}")
    raise ImportError(
        f"{SONAME} was not found. Install libucxpool, or name the file in the "
        f"variable {VARIABLE}. Tried:\n" + "\n".join(tried))


def _file_of(function):
    """Return the file in this process that defines this function."""
    found = _Found()
    ctypes.CDLL(None).dladdr(ctypes.cast(function, ctypes.c_void_p),
                             ctypes.byref(found))
    return os.path.realpath(os.fsdecode(found.file))


class Library:
    """The loaded library. Its functions are attributes, without their
    prefix."""

    def __init__(self):
        self._library = _open()
        self.path = self._library._name
        for name, result, parameters in _FUNCTIONS:
            try:
                function = getattr(self._library, "ucxpool_" + name)
            except AttributeError:
                raise ImportError(
                    f"{self.path} has no ucxpool_{name}(): it is older than "
                    "this package") from None
            function.restype = result
            function.argtypes = parameters
            setattr(self, name, function)
        if not os.path.isabs(self.path):
            self.path = _file_of(self.framework_pool)

    def ucx_version(self):
        """Return the version of the UCX that the library uses, and its file.
        The process may have loaded other copies of UCX."""
        numbers = [ctypes.c_uint() for _ in range(3)]
        function = self._library.ucp_get_version
        function.restype = None
        function(*map(ctypes.byref, numbers))
        return tuple(one.value for one in numbers), _file_of(function)

    def error(self, status):
        """Return the error of the last call in this thread."""
        detail = self.error_detail().decode(errors="replace")
        core = sys.modules.get("ucxpool._core")
        if core is not None:
            core.tell_log()
        return of_status(status,
                         detail or self.status_string(status).decode())

    def check(self, status):
        if status != OK:
            raise self.error(status)

    def text(self, string):
        """Return a string that the library has returned, and free it."""
        if not string:
            raise MemoryError(self.error_detail().decode(errors="replace"))
        try:
            return ctypes.string_at(string).decode(errors="replace")
        finally:
            self.string_free(string)

    def address_of(self, name):
        """Return the address of a function, for callers in C."""
        function = getattr(self._library, "ucxpool_" + name)
        return ctypes.cast(function, ctypes.c_void_p).value


_loaded = None


def library():
    """Load the library once, and return it."""
    global _loaded
    if _loaded is None:
        _loaded = Library()
    return _loaded
