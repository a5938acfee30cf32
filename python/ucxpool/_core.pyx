# cython: language_level=3, binding=True, embedsignature=False, auto_pickle=False
"""Classes for the library's handles. They have the parts of a transfer that do
not need an event loop.

Calls that copy or wait run without the GIL. The library knows channels and
requests by a number, not by an address, so an event for a deleted object finds
nothing. A request holds its memory until it ends.
"""
cimport cython
from cpython.buffer cimport (PyBUF_C_CONTIGUOUS, PyBUF_FORMAT, PyBUF_SIMPLE,
                             PyBUF_WRITABLE, PyBuffer_Release,
                             PyObject_CheckBuffer, PyObject_GetBuffer)
from cpython.bytes cimport (PyBytes_AsString, PyBytes_Check,
                            PyBytes_FromStringAndSize, PyBytes_Size)
from cpython.exc cimport PyErr_CheckSignals
from cpython.memoryview cimport PyMemoryView_Check
from libc.stdint cimport uint16_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memmove, memset
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

import functools
import os
import time
import weakref

from ._api cimport *

cdef extern from "Python.h":
    int PyObject_AsFileDescriptor(object file) except -1

cdef extern from "<stdlib.h>" nogil:
    int posix_memalign(void **address, size_t alignment, size_t size)

cdef extern from "<sched.h>" nogil:
    int sched_yield()

cdef extern from "<unistd.h>" nogil:
    int usleep(unsigned us)

cdef extern from "<sys/mman.h>" nogil:
    enum:
        MADV_HUGEPAGE
    int madvise(void *address, size_t size, int advice)

cdef extern from "_log.h" nogil:
    ctypedef struct log_entry_t:
        log_entry_t *next
        double time
        int level
        char *message
    void log_keep(ucxpool_log_level_t level, const char *message,
                  void *arg) noexcept
    bint log_has_some()
    log_entry_t *log_take()
    unsigned log_take_num_lost()

from . import _log
from ._errors import ClosedError, Error, InvalidParameterError, of_status

CONNECTING = UCXPOOL_CHANNEL_CONNECTING
OPEN = UCXPOOL_CHANNEL_OPEN
CLOSED = UCXPOOL_CHANNEL_CLOSED
FAILED = UCXPOOL_CHANNEL_FAILED
EVENT_MESSAGE = UCXPOOL_EVENT_MESSAGE
EVENT_STATE = UCXPOOL_EVENT_STATE
EVENT_CALLER = UCXPOOL_EVENT_CALLER

_WIRES = {0: None, 1: "map", 2: "ucx"}
_STATES = {CONNECTING: "connecting", OPEN: "open", CLOSED: "closed",
           FAILED: "failed"}
_WAYS = {0: None, 1: "messages", 2: "process", 3: "cuda", 4: "mapped",
         5: "rma"}

# Limits of one turn of an event loop: completions, rounds and time.
DEF BATCH = 64
DEF TURN_ROUNDS = 64
DEF TURN_NS = 500000
# How long a turn without events spins before the loop sleeps. A peer that also
# spins answers faster than a thread can sleep and wake up. The time is doubled
# each time that something arrives, and halved each time that nothing does.
# Below the minimum, only one of SPIN_TURNS turns spins.
DEF SPIN_MAX_NS = 100000
DEF SPIN_MIN_NS = 6000
DEF SPIN_PURE_NS = 2000
DEF SPIN_TURNS = 32
# A waiting thread checks for signals this often.
DEF WAIT_SLICE_NS = 100000000
# A thread that closes a handle checks this often whether other threads still
# use the handle.
DEF INSIDE_US = 1000
# Frames up to SHORT_FRAME share one allocation. With apart=True, frames up to
# APART_FRAME share allocations of at most SHORT_FRAME.
DEF SHORT_FRAME = 65536
DEF APART_FRAME = 4096
# Allocations of at least this size use huge pages.
DEF LARGE_MEMORY = 4 << 20
DEF LARGE_PAGE = 2 << 20
DEF PAGE = 4096
# Limits of the freed memory that is kept for reuse.
DEF MAX_SPARES = 128
DEF MAX_SPARE_BYTES = 64 << 20
# Limit of the process's memory that GPUs can read. This memory is pinned.
DEF MAX_LIST_BYTES = 256 << 20


cdef str _text(const char *text):
    return text.decode("utf-8", "replace") if text != NULL else ""


cdef object _error(ucxpool_status_t status):
    cdef str detail = _text(ucxpool_error_detail())

    _tell()
    return of_status(<int>status,
                     detail or _text(ucxpool_status_string(status)))


cdef int _check(ucxpool_status_t status) except -1:
    if status != UCXPOOL_OK:
        raise _error(status)
    return 0


cdef uint64_t _nanoseconds(timeout) except? 0:
    """Convert seconds to nanoseconds. None means no timeout."""
    if timeout is None:
        return UCXPOOL_FOREVER
    if timeout < 0:
        raise ValueError(f"timeout {timeout} s is negative")
    return <uint64_t>min(timeout * 1e9, 9e18)


cdef uint64_t _now() noexcept nogil:
    cdef timespec now

    clock_gettime(CLOCK_MONOTONIC, &now)
    return <uint64_t>now.tv_sec * 1000000000 + <uint64_t>now.tv_nsec


cdef void _wait_for(int *num_inside) noexcept nogil:
    """Wait until no thread is in a call that uses the handle. No other thread
    can begin such a call, because the handle is NULL."""
    while num_inside[0] > 0:
        usleep(INSIDE_US)


def version():
    """The version of libucxpool."""
    return _text(ucxpool_version_string())


# --- the log ------------------------------------------------------------------

# True if the creator of a pool has set the level.
cdef bint _level_is_given = False


def take_log():
    """Return the log entries that were not reported yet, and the number of
    lost ones."""
    cdef log_entry_t *entry = log_take()
    cdef log_entry_t *next
    cdef list messages = []

    while entry != NULL:
        messages.append((entry.level, entry.time, _text(entry.message)))
        next = entry.next
        free(entry)
        entry = next
    return messages, log_take_num_lost()


cdef int _tell() except -1:
    """Pass the library's log entries to `logging`. Call it only while no lock
    or handle of the library is in use."""
    if log_has_some():
        _log.tell(take_log)
    return 0


def tell_log():
    """Pass the library's log entries to `logging`, after a direct call to the
    library."""
    _tell()


cdef int _follow_level() except -1:
    """Set the library's log level to the logger's current level."""
    cdef int level

    if _log.IS_USED and not _level_is_given:
        level = _log.level()
        ucxpool_log_set_level(<ucxpool_log_level_t>level)
    return 0


if _log.IS_USED:
    _check(ucxpool_log_set_handler(log_keep, NULL))
    _follow_level()


# --- memory -------------------------------------------------------------------

cdef struct spare_t:
    void *address
    Py_ssize_t capacity
    int device # the GPU that reads it, or NO_DEVICE

DEF NO_DEVICE = -1

# Freed memory, oldest first. New memory costs a page fault per page, which
# takes longer than filling it; pinned memory takes longer still. Protected by
# the GIL.
cdef spare_t _spares[MAX_SPARES]
cdef int _num_spares = 0
cdef Py_ssize_t _spare_bytes = 0
# Bytes of memory that GPUs read, including the spares.
cdef Py_ssize_t _list_bytes = 0


cdef void *_spare_take(int index) noexcept:
    global _num_spares, _spare_bytes
    cdef void *address = _spares[index].address

    _spare_bytes -= _spares[index].capacity
    _num_spares -= 1
    memmove(&_spares[index], &_spares[index + 1],
            (_num_spares - index) * sizeof(spare_t))
    return address


cdef void _memory_free(void *address, Py_ssize_t capacity,
                       int device) noexcept:
    global _list_bytes

    if device == NO_DEVICE:
        free(address)
    else:
        ucxpool_device_list_free(address)
        _list_bytes -= capacity


cdef void *_list_get(Py_ssize_t capacity, int device) noexcept:
    """Return memory that the GPU can read, or NULL if none can be
    allocated."""
    global _list_bytes
    cdef void *address = NULL

    if _list_bytes + capacity > MAX_LIST_BYTES:
        return NULL
    ucxpool_device_list_alloc(device, capacity, &address)
    if address != NULL:
        _list_bytes += capacity
    return address


cdef Py_ssize_t _capacity_of(Py_ssize_t size) noexcept:
    """Round a size up, by at most an eighth, so that freed memory can be
    reused for requests of a similar size."""
    cdef Py_ssize_t step = PAGE

    while 16 * step <= size:
        step *= 2
    return (size + step - 1) // step * step


cdef void *_memory_get(Py_ssize_t size, int device) noexcept:
    cdef void *address = NULL
    cdef Py_ssize_t capacity = _capacity_of(size)
    cdef int i

    if device == NO_DEVICE and size <= SHORT_FRAME:
        return malloc(max(size, 1))
    for i in reversed(range(_num_spares)):
        if _spares[i].capacity == capacity and _spares[i].device == device:
            return _spare_take(i)
    if device != NO_DEVICE:
        return _list_get(capacity, device)
    if capacity < LARGE_MEMORY:
        return malloc(capacity)
    if posix_memalign(&address, LARGE_PAGE, capacity) == 0:
        madvise(address, capacity, MADV_HUGEPAGE)
    return address


cdef void _memory_put(void *address, Py_ssize_t size, int device) noexcept:
    global _num_spares, _spare_bytes
    cdef Py_ssize_t capacity = _capacity_of(size)
    cdef spare_t oldest

    if (device == NO_DEVICE and size <= SHORT_FRAME
            or capacity > MAX_SPARE_BYTES):
        _memory_free(address, capacity, device)
        return
    while (_num_spares == MAX_SPARES
           or _spare_bytes + capacity > MAX_SPARE_BYTES):
        oldest = _spares[0]
        _memory_free(_spare_take(0), oldest.capacity, oldest.device)
    _spares[_num_spares] = spare_t(address, capacity, device)
    _num_spares += 1
    _spare_bytes += capacity


cdef class Memory:
    """Uninitialized memory as a writable buffer. If `device` is given, that
    GPU can read it, provided that such memory is available."""
    cdef void *_address
    cdef Py_ssize_t _size
    cdef int _device

    def __cinit__(self, Py_ssize_t size, device=None):
        self._device = NO_DEVICE if device is None else device
        self._address = _memory_get(size, self._device)
        if self._address == NULL and self._device != NO_DEVICE:
            self._device = NO_DEVICE
            self._address = _memory_get(size, NO_DEVICE)
        if self._address == NULL:
            raise MemoryError(f"no memory for {size} bytes")
        self._size = size

    @property
    def is_list(self):
        """True if a GPU can read the memory."""
        return self._device != NO_DEVICE

    def __dealloc__(self):
        if self._address != NULL:
            _memory_put(self._address, self._size, self._device)

    def __len__(self):
        return self._size

    def __getbuffer__(self, Py_buffer *view, int flags):
        view.buf = self._address
        view.obj = self
        view.len = self._size
        view.readonly = 0
        view.itemsize = 1
        view.format = b"B"
        view.ndim = 1
        view.shape = &self._size
        view.strides = &view.itemsize
        view.suboffsets = NULL
        view.internal = NULL


cdef dict _cuda_interface(object one):
    """Return the description of GPU memory, or None. Check this before the
    buffer protocol: CuPy's arrays also have the buffer protocol, but it raises
    an error. Call this function once for each object, because the property
    builds a new dictionary each time."""
    if PyMemoryView_Check(one):
        return None
    return getattr(one, "__cuda_array_interface__", None)


cdef class Buffers:
    """Buffers as the library's segments, held until release()."""
    cdef ucxpool_segment_t *segments
    cdef size_t count
    cdef uint64_t length
    cdef Py_buffer *_views
    cdef size_t _num_views
    cdef list _objects
    cdef bint has_stream
    cdef uintptr_t stream
    cdef bint is_cuda # at least one buffer is on a GPU
    cdef Pieces _pieces

    def __dealloc__(self):
        self.release()
        free(self.segments)
        free(self._views)

    cdef ucxpool_data_t data(self, bint is_source) noexcept:
        """Describe the buffers for the library."""
        cdef ucxpool_segment_t *segments = self.segments
        cdef size_t count = self.count
        cdef void **addresses

        if self._pieces is not None:
            count = self._pieces.count
            if self._pieces._list.is_even:
                addresses = <void **>self._pieces._list.bytes
                return (ucxpool_source_pieces(<const void *const *>addresses,
                                              count, self._pieces._each)
                        if is_source else
                        ucxpool_data_pieces(<void *const *>addresses, count,
                                            self._pieces._each))
            segments = <ucxpool_segment_t *>self._pieces._list.bytes
        return (ucxpool_source_segments(<ucxpool_const_segment_t *>segments,
                                        count)
                if is_source else ucxpool_data_segments(segments, count))

    cdef void hold(self, object one) except *:
        """Hold a reference to an object until release()."""
        self._objects.append(one)

    cdef void release(self) noexcept:
        cdef size_t i

        for i in range(self._num_views):
            PyBuffer_Release(&self._views[i])
        self._num_views = 0
        self._objects = None
        self._pieces = None

    cdef void begin(self, list objects) except *:
        """Set the list of held objects."""
        self._objects = objects

    cdef int grow(self, size_t num) except -1:
        """Allocate `num` segments."""
        self.segments = <ucxpool_segment_t *>malloc(
            (num + 1) * sizeof(ucxpool_segment_t))
        if self.segments == NULL:
            raise MemoryError(f"no memory for a list of {num} buffers")
        return 0

    cdef void add_range(self, void *address, size_t length) noexcept:
        self.segments[self.count].address = address
        self.segments[self.count].length = length
        self.length += length
        self.count += 1

    cdef int _add(self, object one, bint writable, bint is_cuda) except -1:
        cdef ucxpool_segment_t *segment = &self.segments[self.count]
        cdef dict what

        if not writable and PyBytes_Check(one):
            segment.address = PyBytes_AsString(one)
            segment.length = PyBytes_Size(one)
        else:
            what = _cuda_interface(one)
            if what is not None:
                self._add_cuda(what, segment, writable, is_cuda)
            elif PyObject_CheckBuffer(one):
                self._add_buffer(one, segment, writable)
            else:
                raise TypeError(
                    f"buffer {self.count} is a {type(one).__name__}, which "
                    "has neither Python's buffer protocol nor "
                    "__cuda_array_interface__")
        self.length += segment.length
        self.count += 1
        return 0

    cdef int _add_buffer(self, object one, ucxpool_segment_t *segment,
                         bint writable) except -1:
        cdef Py_buffer *view

        if self._views == NULL:
            self._views = <Py_buffer *>malloc(
                (len(self._objects) - self.count) * sizeof(Py_buffer))
            if self._views == NULL:
                raise MemoryError("no memory for a list of buffers")
        view = &self._views[self._num_views]
        try:
            PyObject_GetBuffer(one, view, PyBUF_WRITABLE if writable
                               else PyBUF_SIMPLE)
        except (BufferError, ValueError) as error:
            raise ValueError(
                f"buffer {self.count}: {error}; it must be contiguous, and "
                "to receive into it also writable") from None
        self._num_views += 1
        segment.address = view.buf
        segment.length = <size_t>view.len
        return 0

    cdef int _add_cuda(self, dict what, ucxpool_segment_t *segment,
                       bint writable, bint is_cuda) except -1:
        if not is_cuda:
            raise ValueError(_ON_GPU.format(f"buffer {self.count} is"))
        self.is_cuda = True
        size = int(what["typestr"][2:])
        expected = []
        for extent in reversed(what["shape"]):
            expected.append(size)
            size *= extent
        strides = what.get("strides")
        if strides is not None and size > 0 and any(
                a != b and n > 1 for a, b, n in
                zip(strides, reversed(expected), what["shape"])):
            raise ValueError(
                f"buffer {self.count} is strided; buffers must be contiguous: "
                "copy it first")
        address, read_only = what["data"]
        if writable and read_only:
            raise ValueError(f"buffer {self.count} is read-only")
        stream = what.get("stream")
        if stream is not None:
            stream = 0 if stream == 1 else stream
            if self.has_stream and stream != self.stream:
                raise ValueError(
                    f"buffer {self.count} uses a different stream from the "
                    "buffers before it: synchronize first, or send it "
                    "separately")
            self.has_stream = True
            self.stream = stream
        segment.address = <void *><uintptr_t>(address or 0)
        segment.length = size
        return 0


cdef str _ON_GPU = ("{} in GPU memory, and the pool is on the host: create the "
                     "pool with Pool(device=0)")


cdef Buffers _buffers(object given, bint writable, bint is_cuda):
    """Return Buffers for one buffer, several buffers, or pieces."""
    cdef Buffers buffers = Buffers.__new__(Buffers)

    if isinstance(given, Pieces):
        (<Pieces>given)._use(writable, is_cuda)
        buffers.begin([given])
        buffers._pieces = given
        return buffers
    if (PyBytes_Check(given) or PyObject_CheckBuffer(given)
            or hasattr(given, "__cuda_array_interface__")):
        buffers.begin([given])
    else:
        buffers.begin(list(given))
    buffers.grow(len(buffers._objects))
    for one in buffers._objects:
        buffers._add(one, writable, is_cuda)
    return buffers


cdef class _Words:
    """A list of 64-bit numbers. A buffer is used without reading each number;
    a sequence is converted. The items are pairs, or single numbers if their
    length is given."""
    cdef const uint64_t *bytes
    cdef size_t count # number of pairs, or of single numbers
    cdef bint is_even
    cdef Py_buffer _view
    cdef bint _has_view
    cdef uint64_t *_made

    def __cinit__(self, given, length):
        self.is_even = length is not None
        if PyObject_CheckBuffer(given):
            self._take(given)
        else:
            self._make(given)

    def __dealloc__(self):
        if self._has_view:
            PyBuffer_Release(&self._view)
        free(self._made)

    cdef int _take(self, object given) except -1:
        cdef int dimensions = 1 if self.is_even else 2
        cdef bytes kind

        PyObject_GetBuffer(given, &self._view,
                           PyBUF_FORMAT | PyBUF_C_CONTIGUOUS)
        self._has_view = True
        kind = (self._view.format if self._view.format != NULL else b"B")
        if (self._view.itemsize != 8 or kind.lstrip(b"@=<") not in b"qQlLnN"
                or self._view.ndim != dimensions
                or (not self.is_even and self._view.shape[1] != 2)):
            raise ValueError(
                "places must be 64-bit integers: rows of (offset, length), or, "
                "with the keyword length, only offsets; got format "
                f"{kind.decode()!r} and shape "
                f"{[self._view.shape[i] for i in range(self._view.ndim)]}")
        self.bytes = <const uint64_t *>self._view.buf
        self.count = self._view.shape[0]
        return 0

    cdef int _make(self, object given) except -1:
        cdef list items = list(given)
        cdef size_t width = 1 if self.is_even else 2
        cdef size_t i

        self.count = len(items)
        self._made = <uint64_t *>malloc((self.count * width + 1) * 8)
        if self._made == NULL:
            raise MemoryError(f"no memory for a list of {self.count} places")
        for i in range(self.count):
            if self.is_even:
                self._made[i] = items[i]
            else:
                self._made[2 * i], self._made[2 * i + 1] = items[i]
        self.bytes = self._made
        return 0

    cdef ucxpool_places_t places(self, uint64_t length) noexcept:
        if self.is_even:
            return ucxpool_places_even(self.bytes, self.count, length)
        return ucxpool_places(<const ucxpool_place_t *>self.bytes, self.count)


cdef class Pieces:
    """Many pieces of one buffer, in any order."""
    cdef Buffers _whole # None if addresses were given
    cdef object _owner
    cdef _Words _list # addresses
    cdef uint64_t _each
    cdef readonly size_t count
    cdef readonly uint64_t length
    cdef readonly bint is_cuda
    cdef bint _is_read_only

    def __cinit__(self, buffer, places, length=None):
        cdef _Words given = _Words(places, length)
        cdef size_t i

        self._each = length if length is not None else 0
        if buffer is None:
            self._list = given
        else:
            self._open(buffer)
            self._check(given)
            self._place(given)
        self.count = given.count
        if given.is_even:
            self.length = self._each * given.count
        else:
            for i in range(given.count):
                self.length += given.bytes[2 * i + 1]

    cdef int _open(self, object buffer) except -1:
        try:
            self._whole = _buffers(buffer, True, True)
        except (TypeError, ValueError):
            self._whole = _buffers(buffer, False, True)
            self._is_read_only = True
        if self._whole.count != 1:
            raise TypeError("pieces must be of one buffer; got "
                            f"{self._whole.count}")
        self.is_cuda = self._whole.is_cuda
        return 0

    cdef int _check(self, _Words given) except -1:
        """Check that all pieces are within the buffer."""
        cdef uint64_t size = self._whole.length
        cdef uint64_t offset
        cdef uint64_t length = self._each
        cdef size_t width = 1 if given.is_even else 2
        cdef size_t i

        for i in range(given.count):
            offset = given.bytes[i * width]
            if not given.is_even:
                length = given.bytes[i * width + 1]
            if length > size or offset > size - length:
                raise ValueError(
                    f"piece {i}, {length} bytes at {offset}, exceeds the "
                    f"buffer of {size} bytes")
        return 0

    cdef int _place(self, _Words given) except -1:
        """Convert offsets to addresses, in a new list: the caller may change
        the given one."""
        cdef size_t width = 1 if given.is_even else 2
        cdef uint64_t base = <uint64_t><uintptr_t>(
            self._whole.segments[0].address)
        cdef _Words made = _Words.__new__(
            _Words, (), self._each if given.is_even else None)
        cdef size_t i

        made._made = <uint64_t *>malloc((given.count * width + 1) * 8)
        if made._made == NULL:
            raise MemoryError(f"no memory for a list of {given.count} pieces")
        for i in range(given.count):
            made._made[i * width] = base + given.bytes[i * width]
            if not given.is_even:
                made._made[i * width + 1] = given.bytes[i * width + 1]
        made.bytes = made._made
        made.count = given.count
        self._list = made
        return 0

    cdef int _use(self, bint writable, bint is_cuda) except -1:
        if writable and self._is_read_only:
            raise ValueError("the buffer of these pieces is read-only")
        if self.is_cuda and not is_cuda:
            raise ValueError(_ON_GPU.format("these pieces are"))
        return 0


ctypedef fused index_t:
    uint32_t
    uint64_t


cdef size_t _take(const uint64_t *values, size_t count, index_t *indices,
                  size_t num, uint64_t *into) noexcept nogil:
    """Set into[i] to values[indices[i]]. Returns num, or the position of the
    first index that is out of range. A negative index becomes a large unsigned
    number, and is also out of range."""
    cdef size_t i

    for i in range(num):
        if indices[i] >= count:
            return i
        into[i] = values[indices[i]]
    return num


cdef size_t _take_even(uint64_t first, uint64_t step, size_t count,
                       index_t *indices, size_t num,
                       uint64_t *into) noexcept nogil:
    """Same as _take() for values[i] == first + i * step, without an array of
    values."""
    cdef size_t i

    for i in range(num):
        if indices[i] >= count:
            return i
        into[i] = first + indices[i] * step
    return num


def step_of(values):
    """Return the difference between consecutive values of an array of 64-bit
    integers, modulo 2**64; None if it is not constant."""
    cdef _Words given = _Words(values, 0)
    cdef uint64_t step
    cdef size_t i

    if given.count < 2:
        return None
    step = given.bytes[1] - given.bytes[0]
    for i in range(2, given.count):
        if given.bytes[i] - given.bytes[i - 1] != step:
            return None
    return step


def take(values, step, indices, into):
    """into[i] = values[indices[i]] for arrays of 64-bit integers; indices have
    32 or 64 bits. step is step_of(values). Raises IndexError for an index that
    is out of range."""
    cdef _Words given = _Words(values, 0)
    cdef _Words taken = _Words(into, 0)
    cdef uint64_t *out = <uint64_t *>taken.bytes
    cdef bint is_even = step is not None
    cdef uint64_t by = step if is_even else 0
    cdef size_t num = taken.count
    cdef size_t done
    cdef Py_buffer view
    cdef uint32_t *short
    cdef uint64_t *long

    PyObject_GetBuffer(indices, &view, PyBUF_C_CONTIGUOUS)
    try:
        if (<size_t>view.len != num * view.itemsize
                or view.itemsize not in (4, 8)):
            raise ValueError("indices must have 32 or 64 bits, one for each "
                             "value to take")
        short, long = <uint32_t *>view.buf, <uint64_t *>view.buf
        if view.itemsize == 4:
            done = (_take_even(given.bytes[0], by, given.count, short, num, out)
                    if is_even else
                    _take(given.bytes, given.count, short, num, out))
        else:
            done = (_take_even(given.bytes[0], by, given.count, long, num, out)
                    if is_even else
                    _take(given.bytes, given.count, long, num, out))
    finally:
        PyBuffer_Release(&view)
    if done != num:
        raise IndexError(f"indices[{done}] is out of range: there are "
                         f"{given.count} values")


def pieces_at(addresses, length, owner, bint is_cuda):
    """Return Pieces of memory. The caller guarantees that the memory exists
    and, if is_cuda is set, that a GPU's pool can access it. The Pieces hold a
    reference to owner."""
    cdef Pieces pieces = Pieces(None, addresses, length)

    pieces._owner = owner
    pieces.is_cuda = is_cuda
    return pieces


# --- requests -----------------------------------------------------------------

@cython.no_gc_clear
cdef class Request:
    """One send, receive or flush in progress."""
    cdef ucxpool_request_t *_handle
    cdef readonly Pool _pool
    cdef Buffers _buffers
    cdef int _num_waiting
    cdef object __weakref__
    cdef uint64_t number
    cdef readonly int status
    cdef readonly str detail
    cdef readonly uint64_t tag
    cdef readonly uint64_t length
    cdef readonly bytes metadata
    cdef public object _result
    # Called once, when the request has ended.
    cdef public object _on_done

    @property
    def done(self):
        """True if the request has ended, with or without an error."""
        return self.status != UCXPOOL_INPROGRESS

    def cancel(self):
        """Cancel the request. The request ends as soon as UCX no longer uses
        the request's memory. The caller may reuse this memory only when `done`
        is true."""
        if self._handle != NULL and self._pool._pool != NULL:
            ucxpool_request_cancel(self._handle)
            self._look()

    def outcome(self):
        """Return the result if the request is done. Raises its error if it
        failed, and asyncio.InvalidStateError while it is in progress."""
        if self.status != UCXPOOL_OK:
            if self.status == UCXPOOL_INPROGRESS:
                import asyncio
                raise asyncio.InvalidStateError(
                    "this transfer is in progress: await it, or call wait()")
            raise of_status(self.status, self.detail)
        return self._result

    @property
    def result(self):
        """The value that awaiting and outcome() return."""
        return self.outcome()

    def _wait_done(self, timeout=None):
        """Progress until the request has ended or the timeout, in seconds, is
        over. If an event loop in another thread drives the pool, that loop
        makes the progress."""
        cdef uint64_t until = _nanoseconds(timeout)
        cdef uint64_t left
        cdef ucxpool_status_t status = UCXPOOL_INPROGRESS

        until = until if until == UCXPOOL_FOREVER else _now() + until
        while not self.done:
            left = UCXPOOL_FOREVER if until == UCXPOOL_FOREVER else (
                until - min(_now(), until))
            if left == 0:
                return False
            self._pool._enter(None)
            self._num_waiting += 1
            with nogil:
                status = ucxpool_request_wait(self._handle,
                                              min(left, WAIT_SLICE_NS))
            self._num_waiting -= 1
            self._pool._leave()
            PyErr_CheckSignals()
            self._look()
            _tell()
        return True

    cdef void _look(self) noexcept:
        """Ask the library whether the request has ended; if so, store the
        results."""
        cdef ucxpool_status_t status

        if self._handle != NULL and self._pool._pool != NULL:
            status = ucxpool_request_test(self._handle)
            if status != UCXPOOL_INPROGRESS:
                self._end(status)

    cdef void _end(self, ucxpool_status_t status) noexcept:
        """Store the results and release the handle and the memory. A waiting
        thread keeps the handle until it has seen the end. While the pool is
        being closed, _lost() ends the request instead."""
        cdef ucxpool_request_attr_t attr
        cdef bint is_new = self.status == UCXPOOL_INPROGRESS

        if self._pool._pool == NULL:
            return
        if is_new:
            ucxpool_request_query(self._handle, &attr, sizeof(attr))
            self.tag = attr.tag
            self.length = attr.length
            if attr.metadata_length > 0:
                self.metadata = PyBytes_FromStringAndSize(
                    <const char *>attr.metadata,
                    <Py_ssize_t>attr.metadata_length)
            if status != UCXPOOL_OK:
                self.detail = _text(attr.detail)
            self.status = <int>status
        if self._num_waiting == 0 and self._handle != NULL:
            ucxpool_request_release(self._handle)
            self._handle = NULL
        # The callback called here may close the pool.
        if is_new:
            self._forget()

    cdef void _forget(self) noexcept:
        self._pool._requests.pop(self.number, None)
        if self._buffers is not None:
            self._buffers.release()
            self._buffers = None
        call, self._on_done = self._on_done, None
        if call is not None:
            try:
                call()
            except BaseException as error:
                self._pool._unraisable(error)

    cdef void _fail(self, error):
        """End the request with this error: the library has refused to post
        it."""
        self.status = error.status
        self.detail = str(error)
        self._forget()

    cdef void _lost(self) noexcept:
        """End the request: the pool was destroyed, and with it the handle."""
        self._handle = NULL
        if self.status == UCXPOOL_INPROGRESS:
            self.detail = "the pool was closed"
            self.status = <int>UCXPOOL_ERR_CANCELED
            self._forget()


cdef class _Params:
    """Parameters of a request, including its completion."""
    cdef ucxpool_request_params_t params

    cdef void begin(self, Request request, Buffers buffers, timeout) except *:
        memset(&self.params, 0, sizeof(self.params))
        self.params.field_mask = UCXPOOL_REQUEST_PARAM_FIELD_COMPLETION
        self.params.completion_ptr = <void *><uintptr_t>request.number
        if timeout is not None:
            self.params.field_mask |= UCXPOOL_REQUEST_PARAM_FIELD_TIMEOUT
            self.params.timeout_ns = _nanoseconds(timeout)
        if buffers is not None and buffers.has_stream:
            self.params.field_mask |= UCXPOOL_REQUEST_PARAM_FIELD_STREAM
            self.params.stream = <void *>buffers.stream
        elif (buffers is not None and buffers._pieces is not None
                and buffers._pieces._whole is None
                and buffers._pieces.is_cuda):
            self.params.field_mask |= (UCXPOOL_REQUEST_PARAM_FIELD_SEGMENTS
                                       | UCXPOOL_REQUEST_PARAM_FIELD_STREAM)
            self.params.segments_kind = UCXPOOL_SEGMENTS_CUDA
            self.params.stream = UCXPOOL_STREAM_READY

    cdef void add_metadata(self, bytes metadata) except *:
        if metadata:
            self.params.field_mask |= UCXPOOL_REQUEST_PARAM_FIELD_METADATA
            self.params.metadata = PyBytes_AsString(metadata)
            self.params.metadata_length = PyBytes_Size(metadata)


cdef class _Op(_Params):
    """A send, receive, read or write to post."""
    cdef ucxpool_op_t op
    cdef readonly Request request
    cdef Channel channel # of a send or receive
    cdef Remote remote # of a read or write
    cdef ucxpool_places_t places
    cdef bytes metadata

    cdef void set(self, Pool pool, ucxpool_op_kind_t kind, Buffers buffers,
                  timeout, bytes metadata) except *:
        self.request = pool._new_request(buffers)
        self.begin(self.request, buffers, timeout)
        self.metadata = metadata
        self.add_metadata(metadata)
        self.op.kind = kind
        self.op.data = buffers.data(kind == UCXPOOL_OP_SEND
                                    or kind == UCXPOOL_OP_WRITE)
        self.op.params = &self.params
        self.op.request_p = &self.request._handle
        self.op.places = &self.places

    cdef int check(self, Pool pool) except -1:
        """Raise the reason if enter() would return False."""
        cdef Pool owner

        if self.channel is not None:
            self.channel._check()
            owner = self.channel._pool
        else:
            self.remote._query()
            owner = self.remote._pool
        if owner is not pool:
            raise InvalidParameterError("the channel or window belongs to "
                                        "another pool")
        return 0

    cdef bint enter(self, Pool pool) noexcept:
        """Get the handle; _release() waits until leave(). Returns False if the
        handle is closed or belongs to another pool."""
        if self.channel is not None:
            if (self.channel._handle == NULL
                    or self.channel._pool is not pool):
                return False
            self.op.channel = self.channel._handle
            self.channel._num_inside += 1
        else:
            if self.remote._handle == NULL or self.remote._pool is not pool:
                return False
            self.op.remote = self.remote._handle
            self.remote._num_inside += 1
        return True

    cdef void leave(self) noexcept:
        if self.channel is not None:
            self.channel._num_inside -= 1
        else:
            self.remote._num_inside -= 1


# --- messages -----------------------------------------------------------------

@cython.no_gc_clear
cdef class Message:
    """A message that has arrived and has not been received yet."""
    cdef ucxpool_message_t *_handle
    cdef readonly Pool _pool
    cdef object __weakref__
    cdef readonly object channel
    cdef readonly uint64_t tag
    cdef readonly uint64_t length
    cdef readonly size_t num_buffers
    cdef readonly bytes metadata
    cdef size_t *_kept_lengths # after the message was received or refused
    cdef tuple _lengths

    def __dealloc__(self):
        free(self._kept_lengths)
        if self._handle != NULL and self._pool._pool != NULL:
            ucxpool_message_refuse(self._handle,
                                   b"the receiver dropped the message")

    @property
    def lengths(self):
        """The lengths of the sender's buffers, in bytes. They remain available
        after the message has been received or refused."""
        cdef size_t i

        if self._lengths is None:
            self._keep_lengths()
            self._lengths = (
                (self.length,) if self._kept_lengths == NULL else
                tuple([self._kept_lengths[i]
                       for i in range(self.num_buffers)]))
        return self._lengths

    @property
    def _is_taken(self):
        """True if the message was received or refused."""
        return self._handle == NULL

    cdef int _keep_lengths(self) except -1:
        """Read the lengths from the library while the message's handle is
        valid. If there is only one buffer, its length is already known."""
        if self._kept_lengths != NULL or self.num_buffers == 1:
            return 0
        self._check()
        self._kept_lengths = <size_t *>calloc(self.num_buffers + 1,
                                              sizeof(size_t))
        if self._kept_lengths == NULL:
            raise MemoryError("no memory for a list of lengths")
        ucxpool_message_lengths(self._handle, 0, self.num_buffers,
                                self._kept_lengths)
        return 0

    cdef int _check(self) except -1:
        if self._pool._pool == NULL and not self._pool._forked:
            raise ClosedError("the pool of this message is closed")
        if self._handle == NULL:
            raise ValueError("this message has been received or refused")
        self._pool._check()
        return 0

    def _post_into(self, buffers, timeout=None):
        """Receive the message. Returns the request."""
        self._check()
        return self._receive(_buffers(buffers, True, self._pool.is_cuda),
                             timeout)

    def _post_op(self, _Op op):
        """Receive the message as this receive of its channel says. Returns the
        request."""
        cdef Request request = op.request
        cdef ucxpool_message_t *handle
        cdef ucxpool_status_t status

        self._check()
        self._keep_lengths()
        self._pool._enter(request)
        # Another thread that tries to receive the message sees that it is
        # taken.
        handle, self._handle = self._handle, NULL
        with nogil:
            status = ucxpool_message_recv(handle, &op.op.data, &op.params,
                                          &request._handle)
        self._pool._leave()
        if status != UCXPOOL_OK:
            self._handle = handle
        return self._pool._posted(request, status)

    def _post_frames(self, timeout=None, bint apart=False):
        """Receive the message into new memory, split like the sender's
        buffers. Returns the request; its result is a list of memoryviews.
        Short frames share one allocation, or, with apart, allocations of
        limited size."""
        cdef list frames = []
        cdef Buffers buffers = Buffers.__new__(Buffers)
        cdef Py_ssize_t short = APART_FRAME if apart else SHORT_FRAME
        cdef Memory memory
        cdef Memory shared = None
        cdef Py_ssize_t at = 0
        cdef Py_ssize_t left = 0
        cdef Py_ssize_t length
        cdef Request request

        self._check()
        for length in self.lengths:
            left += length if length <= short else 0
        buffers.begin([])
        buffers.grow(len(self.lengths))
        for length in self.lengths:
            if length > short:
                memory = Memory(length)
                buffers._objects.append(memory)
                buffers.add_range(memory._address, length)
                frames.append(memoryview(memory))
                continue
            if shared is None or at + length > shared._size:
                shared = Memory(min(left, SHORT_FRAME) if apart else left)
                buffers._objects.append(shared)
                view = memoryview(shared)
                at = 0
            buffers.add_range(<char *>shared._address + at, length)
            frames.append(view[at:at + length])
            at += length
            left -= length
        request = self._receive(buffers, timeout)
        request._result = frames
        return request

    cdef Request _receive(self, Buffers buffers, timeout):
        cdef _Op op = _Op.__new__(_Op)

        op.set(self._pool, UCXPOOL_OP_RECV, buffers, timeout, b"")
        return self._post_op(op)

    def refuse(self, reason=""):
        """Refuse the message: the sender's transfer ends with RefusedError and
        this reason."""
        self._check()
        self._keep_lengths()
        ucxpool_message_refuse(self._handle, reason.encode())
        self._handle = NULL


# --- pools and heaps ----------------------------------------------------------

cdef ucxpool_t *_create_pool(device, name, secret, settings) except NULL:
    """Create a pool; settings maps names to strings."""
    cdef ucxpool_params_t params
    cdef ucxpool_config_t *config = NULL
    cdef ucxpool_t *pool = NULL
    cdef ucxpool_status_t status
    cdef bytes label

    global _level_is_given

    memset(&params, 0, sizeof(params))
    _level_is_given = _level_is_given or "LOG_LEVEL" in settings
    if _log.IS_USED and not _level_is_given:
        settings["LOG_LEVEL"] = _log.level_word()
    _follow_level()
    _check(ucxpool_config_read(&config))
    try:
        for key, value in settings.items():
            _check(ucxpool_config_modify(config, key.encode(), value.encode()))
        if secret is not None:
            secret = bytes(secret)
            _check(ucxpool_config_set_secret(config, <const char *>secret,
                                             len(secret)))
        params.field_mask = UCXPOOL_PARAM_FIELD_CONFIG
        params.config = config
        if name is not None:
            label = name.encode()
            params.field_mask |= UCXPOOL_PARAM_FIELD_NAME
            params.name = label
        if device is not None:
            params.field_mask |= (UCXPOOL_PARAM_FIELD_MEMORY_KIND
                                  | UCXPOOL_PARAM_FIELD_DEVICE)
            params.memory_kind = UCXPOOL_MEMORY_CUDA
            params.device = device
        with nogil:
            status = ucxpool_create(&params, &pool)
        _check(status)
    finally:
        ucxpool_config_release(config)
    return pool


def heap_create(device, settings):
    """Return the handle of the pool of a new heap, as a number."""
    cdef uintptr_t pool = <uintptr_t>_create_pool(device, None, None,
                                                  settings)

    _tell()
    return pool


def heap_segments(uintptr_t pool, uintptr_t address, size_t length):
    """Return address, length, chunk and chunk_size of each segment of a
    range."""
    cdef ucxpool_heap_segment_t *found = NULL
    cdef size_t room = 0
    cdef size_t num = 0
    cdef size_t i

    try:
        while True:
            _check(ucxpool_heap_segments(<ucxpool_t *>pool, <void *>address,
                                         length, found, room, &num))
            if num <= room:
                break
            free(found)
            found = <ucxpool_heap_segment_t *>malloc(num * sizeof(found[0]))
            if found == NULL:
                raise MemoryError("no memory for a list of segments")
            room = num
        return [(<uintptr_t>found[i].address, found[i].length,
                 <uintptr_t>found[i].chunk, found[i].chunk_size)
                for i in range(num)]
    finally:
        free(found)


# --- channels and listeners ---------------------------------------------------

cdef object _paths(require):
    """Return the bits of a value of the setting REQUIRE, or None for the
    setting itself."""
    cdef dict paths = {"any": 0, "map": UCXPOOL_PATH_MAP,
                       "rma": UCXPOOL_PATH_RMA,
                       "map,rma": UCXPOOL_PATH_MAP | UCXPOOL_PATH_RMA,
                       "direct": UCXPOOL_PATH_DIRECT,
                       "direct,rma": UCXPOOL_PATH_DIRECT | UCXPOOL_PATH_RMA}

    if require is None:
        return None
    if require not in paths:
        raise InvalidParameterError(
            f'require is "{require}"; use "any", "map", "rma", "direct", '
            '"map,rma" or "direct,rma"')
    return paths[require]


@cython.no_gc_clear
cdef class Channel:
    """The connection to one peer's pool."""
    cdef ucxpool_channel_t *_handle
    cdef readonly Pool _pool
    cdef readonly uint64_t number
    cdef int _num_inside # threads that use the handle without the GIL
    cdef object __weakref__
    cdef ucxpool_channel_attr_t _attr

    def __dealloc__(self):
        if self._pool is not None:
            self._pool._channels.pop(self.number, None)
        if self._handle != NULL and self._pool._pool != NULL:
            ucxpool_channel_close(self._handle)

    cdef int _check(self) except -1:
        if self._pool._pool == NULL and not self._pool._forked:
            raise ClosedError("the pool of this channel is closed")
        if self._handle == NULL:
            raise ClosedError("this channel is closed")
        self._pool._check()
        return 0

    cdef int _enter(self, Request request) except -1:
        """Same as Pool._enter(), for a call that uses the channel's handle:
        _release() waits for such a call, too."""
        self._check()
        self._pool._enter(request)
        self._num_inside += 1
        return 0

    cdef void _leave(self) noexcept:
        self._num_inside -= 1
        self._pool._leave()

    cdef ucxpool_channel_attr_t *_query(self) except NULL:
        self._check()
        ucxpool_channel_query(self._handle, &self._attr, sizeof(self._attr))
        return &self._attr

    @property
    def closed(self):
        """True if the channel was closed on this side."""
        return self._handle == NULL or self._pool._pool == NULL

    @property
    def _state_number(self):
        return <int>self._query().state

    @property
    def state(self):
        """"connecting", "open", "closed" or "failed"."""
        if self.closed:
            return "closed"
        return _STATES[<int>self._query().state]

    @property
    def wire(self):
        """"map" or "ucx"; None until the wire is chosen."""
        return _WIRES[self._query().wire]

    @property
    def wire_reason(self):
        """Why this wire was chosen."""
        return _text(self._query().wire_reason)

    @property
    def name(self):
        """A name for logs and statistics; it can be set."""
        return _text(self._query().name)

    @name.setter
    def name(self, name):
        self._check()
        ucxpool_channel_set_name(self._handle, name.encode())

    @property
    def local_address(self):
        """The local address, such as "10.0.0.1:7000", or "" before the channel
        is connected."""
        return _text(self._query().local_address)

    @property
    def remote_address(self):
        """The peer's address, in the same form."""
        return _text(self._query().remote_address)

    def stats(self):
        """Return the channel's statistics by name (<ucxpool/stats.h>), even
        after the channel has failed. Raises ClosedError if the channel was
        closed on this side."""
        cdef size_t count = ucxpool_channel_stats_count()
        cdef size_t num = 0
        cdef uint64_t *values

        self._check()
        values = <uint64_t *>calloc(count, sizeof(uint64_t))
        if values == NULL:
            raise MemoryError("no memory for statistics")
        try:
            _check(ucxpool_channel_stats_read(self._handle, values, count,
                                              &num))
            return _by_name(channel_stat_names(), values)
        finally:
            free(values)

    def ended_with(self):
        """The error with which the channel has ended, as an exception; None if
        it has not ended."""
        cdef ucxpool_channel_attr_t *attr

        if self.closed:
            return ClosedError("this channel is closed")
        attr = self._query()
        if attr.state == UCXPOOL_CHANNEL_CLOSED:
            return ClosedError(_text(attr.reason)
                               or "the peer has closed the channel")
        if attr.state == UCXPOOL_CHANNEL_FAILED:
            return of_status(<int>attr.status, _text(attr.reason))
        return None

    cdef _Op _send(self, buffers, uint64_t tag, metadata, timeout):
        cdef _Op op = _Op.__new__(_Op)
        cdef bytes text = bytes(metadata)

        self._check()
        op.channel = self
        op.op.tag = tag
        op.set(self._pool, UCXPOOL_OP_SEND,
               _buffers(buffers, False, self._pool.is_cuda), timeout, text)
        return op

    def _recv_op(self, buffers, uint64_t tag, uint64_t mask, timeout):
        """Return a receive to post."""
        cdef _Op op = _Op.__new__(_Op)

        self._check()
        op.channel = self
        op.op.tag = tag
        op.op.mask = mask
        op.set(self._pool, UCXPOOL_OP_RECV,
               _buffers(buffers, True, self._pool.is_cuda), timeout, b"")
        return op

    def _send_op(self, buffers, tag, metadata, timeout):
        """Return a send to post."""
        return self._send(buffers, tag, metadata, timeout)

    def _post_send(self, buffers, tag=0, metadata=b"", timeout=None):
        """Send buffers as one message. Returns the request."""
        return self._pool._post_one(self._send(buffers, tag, metadata,
                                               timeout))

    def _post_recv(self, _Op op):
        """Receive the next message that matches. Returns the request."""
        return self._pool._post_one(op)

    def _post_flush(self, timeout=None):
        """Return a request that ends when all earlier sends have ended."""
        cdef Request request
        cdef _Params params = _Params.__new__(_Params)
        cdef ucxpool_status_t status

        self._check()
        request = self._pool._new_request(None)
        params.begin(request, None, timeout)
        self._enter(request)
        with nogil:
            status = ucxpool_channel_flush(self._handle, &params.params,
                                           &request._handle)
        self._leave()
        return self._pool._posted(request, status)

    def _post_import(self, blob):
        """Return a peer's window. The request to import it may not have been
        sent to the peer yet."""
        cdef bytes given = bytes(blob)
        cdef const char *text = given
        cdef size_t size = len(given)
        cdef ucxpool_remote_window_t *handle = NULL
        cdef ucxpool_status_t status
        cdef Remote remote

        self._enter(None)
        with nogil:
            status = ucxpool_remote_window_import(self._handle, text, size,
                                                  &handle)
        self._leave()
        _check(status)
        remote = self._pool._remote_type.__new__(self._pool._remote_type)
        remote._handle = handle
        remote._channel = self
        remote._pool = self._pool
        return remote

    def _probe(self, tag, mask):
        """Return the oldest message that matches and was not received, or
        None."""
        cdef ucxpool_message_t *handle = NULL
        cdef ucxpool_message_attr_t attr
        cdef ucxpool_status_t status
        cdef Message message

        self._check()
        status = ucxpool_probe(self._pool._pool, self._handle, tag, mask,
                               &handle)
        if status == UCXPOOL_ERR_NO_MESSAGE:
            return None
        _check(status)
        ucxpool_message_query(handle, &attr, sizeof(attr))
        message = self._pool._message_type.__new__(self._pool._message_type)
        message._handle = handle
        message._pool = self._pool
        message.channel = self
        message.tag = attr.tag
        message.length = attr.length
        message.num_buffers = attr.num_segments
        message.metadata = PyBytes_FromStringAndSize(
            <const char *>attr.metadata, <Py_ssize_t>attr.metadata_length)
        return message

    def _release(self, bint at_once=False):
        """Close the channel. Posted operations end first, unless at_once is
        set."""
        cdef ucxpool_channel_t *handle = self._handle

        self._handle = NULL
        self._pool._channels.pop(self.number, None)
        if handle != NULL and self._pool._pool != NULL:
            self._pool._enter(None)
            with nogil:
                _wait_for(&self._num_inside)
                if at_once:
                    ucxpool_channel_abort(handle)
                else:
                    ucxpool_channel_close(handle)
            self._pool._leave()


@cython.no_gc_clear
cdef class Listener:
    """Accepts connections from peers."""
    cdef ucxpool_listener_t *_handle
    cdef readonly Pool _pool
    cdef object _require
    cdef object __weakref__

    @property
    def port(self):
        """The port that the listener is bound to. If port 0 was requested, this
        is the port that the system chose. Raises ClosedError if the listener
        is closed."""
        if self.closed:
            raise ClosedError("this listener is closed")
        return ucxpool_listener_port(self._handle)

    @property
    def closed(self):
        """True if the listener or its pool was closed."""
        return self._handle == NULL or self._pool._pool == NULL

    def _take_channel(self):
        """Return the channel of the next peer that has connected, or None."""
        cdef Channel channel
        cdef ucxpool_channel_params_t params
        cdef ucxpool_status_t status

        if self.closed:
            raise ClosedError("this listener is closed")
        channel = self._pool._new_channel(&params, self._require)
        status = ucxpool_listener_accept(self._handle, &params,
                                         &channel._handle)
        if status == UCXPOOL_INPROGRESS:
            return None
        _check(status)
        return channel

    def _release(self):
        """Stop listening. Accepted channels stay open."""
        cdef ucxpool_listener_t *handle = self._handle

        self._handle = NULL
        if handle != NULL and self._pool._pool != NULL:
            self._pool._listeners.pop(<uintptr_t>handle, None)
            ucxpool_listener_destroy(handle)


# --- windows ------------------------------------------------------------------

@cython.no_gc_clear
cdef class Window:
    """Memory that peers can read and write directly. The pool holds a
    reference to the window until the window is closed."""
    cdef ucxpool_window_t *_handle
    cdef readonly Pool _pool
    cdef Buffers _buffers
    cdef bint _is_read_only
    cdef int _num_inside # threads that use the handle without the GIL
    cdef object __weakref__
    cdef ucxpool_window_attr_t _attr

    cdef ucxpool_window_attr_t *_query(self) except NULL:
        if self.closed:
            raise ClosedError("this window is closed")
        self._pool._check()
        ucxpool_window_query(self._handle, &self._attr, sizeof(self._attr))
        return &self._attr

    @property
    def closed(self):
        """True if the window or its pool was closed."""
        return self._handle == NULL or self._pool._pool == NULL

    @property
    def name(self):
        """A name that appears in error messages and in the log."""
        return _text(self._query().name)

    @property
    def length(self):
        """The length in bytes."""
        return self._query().length

    @property
    def peers(self):
        """The number of channels over which the window is imported."""
        return self._query().num_peers

    @property
    def revoked(self):
        """True if revoke() was called."""
        return bool(self._query().is_revoked)

    def export(self, bint read=True, bint write=False):
        """Return the blob with which peers import the window, as bytes. The
        application sends the blob to the peers by any means. Any peer that has
        the blob may access the window as selected here: read, write, or both.
        Raises ValueError if neither is selected, or for write access to a
        read-only buffer, and CanceledError after revoke()."""
        cdef unsigned access = ((UCXPOOL_WINDOW_READ if read else 0)
                                | (UCXPOOL_WINDOW_WRITE if write else 0))
        cdef bytes blob = PyBytes_FromStringAndSize(
            NULL, UCXPOOL_WINDOW_BLOB_SIZE)

        self._query()
        if write and self._is_read_only:
            raise ValueError("the buffer of this window is read-only")
        _check(ucxpool_window_export(self._handle, access,
                                     PyBytes_AsString(blob)))
        return blob

    def _revoke_for(self, timeout):
        """Revoke the window, and make progress until no peer accesses it,
        for at most `timeout` seconds. Returns whether no peer accesses it
        anymore."""
        cdef uint64_t timeout_ns = min(_nanoseconds(timeout), WAIT_SLICE_NS)
        cdef ucxpool_status_t status

        self._query()
        self._pool._enter(None)
        self._num_inside += 1
        with nogil:
            status = ucxpool_window_revoke(self._handle, timeout_ns)
        self._num_inside -= 1
        self._pool._leave()
        PyErr_CheckSignals()
        if status == UCXPOOL_INPROGRESS:
            return False
        _check(status)
        return True

    def _release(self):
        """Destroy the window. Call this only after the window was revoked."""
        cdef ucxpool_window_t *handle = self._handle

        if handle != NULL and self._pool._pool != NULL:
            self._pool._enter(None)
            self._handle = NULL
            with nogil:
                _wait_for(&self._num_inside)
                ucxpool_window_destroy(handle)
            self._pool._leave()
            self._pool._windows.pop(<uintptr_t>handle, None)
            self._lost()

    cdef void _lost(self) noexcept:
        """The library no longer has the window."""
        self._handle = NULL
        if self._buffers is not None:
            self._buffers.release()
            self._buffers = None


@cython.no_gc_clear
cdef class Remote:
    """A window of a peer."""
    cdef ucxpool_remote_window_t *_handle
    cdef readonly Pool _pool
    cdef readonly Channel _channel
    cdef int _num_inside # threads that use the handle without the GIL
    cdef object __weakref__
    cdef ucxpool_remote_window_attr_t _attr

    def __dealloc__(self):
        if self._handle != NULL and self._pool._pool != NULL:
            ucxpool_remote_window_release(self._handle)

    cdef ucxpool_remote_window_attr_t *_query(self) except NULL:
        if self.closed:
            raise ClosedError("this window was closed here")
        self._pool._check()
        ucxpool_remote_window_query(self._handle, &self._attr,
                                    sizeof(self._attr))
        return &self._attr

    @property
    def channel(self):
        """The channel to the window's owner."""
        return self._channel

    @property
    def closed(self):
        """True if the window or the pool was closed on this side."""
        return self._handle == NULL or self._pool._pool == NULL

    @property
    def length(self):
        """The length in bytes."""
        return self._query().length

    @property
    def access(self):
        """The access that the blob allows: "read", "write" or "read,
        write"."""
        cdef unsigned access = self._query().access

        return ", ".join([word for bit, word in (
            (UCXPOOL_WINDOW_READ, "read"), (UCXPOOL_WINDOW_WRITE, "write"))
            if access & bit])

    @property
    def way(self):
        """How the data is transferred: "mapped", "process" or "cuda" (the
        local CPU or GPU copies it, without work by the owner), "rma" (UCX get
        and put for long pieces), or "messages"; None before the owner has
        answered."""
        return _WAYS[self._query().way]

    @property
    def way_reason(self):
        """Why this way was chosen."""
        return _text(self._query().way_reason)

    @property
    def reason(self):
        """Why the window cannot be used; "" if it can."""
        return _text(self._query().reason)

    def ended_with(self):
        """Return `reason` as an exception; None if the window can be used or
        the owner has not answered yet."""
        cdef ucxpool_remote_window_attr_t *attr

        if self.closed:
            return ClosedError("this window was closed here")
        attr = self._query()
        if attr.status in (UCXPOOL_OK, UCXPOOL_INPROGRESS):
            return None
        return of_status(<int>attr.status, _text(attr.reason))

    def _is_answered(self):
        """Return whether the owner has answered."""
        return self._query().status != UCXPOOL_INPROGRESS

    cdef _Op _access(self, ucxpool_op_kind_t kind, places, data, length,
                     notify, metadata, timeout):
        cdef _Words words = _Words(places, length)
        cdef bytes text = bytes(metadata)
        cdef uint64_t tag = notify if notify is not None else 0
        cdef _Op op = _Op.__new__(_Op)
        cdef Buffers held

        self._query()
        if text and notify is None:
            raise ValueError("metadata is sent with a notification: pass its "
                             "tag, as notify=1")
        held = _buffers(data, kind == UCXPOOL_OP_READ, self._pool.is_cuda)
        held.hold(words)
        op.remote = self
        op.places = words.places(length if length is not None else 0)
        op.set(self._pool, kind, held, timeout, text)
        if notify is not None:
            op.params.notify_tag = tag
            op.params.field_mask |= UCXPOOL_REQUEST_PARAM_FIELD_NOTIFY
        return op

    def _op(self, bint is_write, places, data, length, notify, metadata,
            timeout):
        """Return a read or write to post."""
        return self._access(UCXPOOL_OP_WRITE if is_write else UCXPOOL_OP_READ,
                            places, data, length, notify, metadata, timeout)

    def _post(self, bint is_write, places, data, length, notify, metadata,
              timeout):
        """Read or write. Returns the request."""
        return self._pool._post_one(
            self._access(UCXPOOL_OP_WRITE if is_write else UCXPOOL_OP_READ,
                         places, data, length, notify, metadata, timeout))

    def _release(self):
        """Release the window when the operations in progress have ended."""
        cdef ucxpool_remote_window_t *handle = self._handle

        self._handle = NULL
        if handle != NULL and self._pool._pool != NULL:
            self._pool._enter(None)
            with nogil:
                _wait_for(&self._num_inside)
                ucxpool_remote_window_release(handle)
            self._pool._leave()


# --- the pool -----------------------------------------------------------------

cdef dict _pools = {}


def _after_fork():
    """Detach a child process from its parent's pools. If the child used these
    pools, it would send messages to the parent's peers in the parent's name.
    The parent reports the log entries of its pools."""
    _log.forget(take_log)
    for reference in list(_pools.values()):
        pool = reference()
        if pool is not None:
            (<Pool>pool)._forked = True
            (<Pool>pool)._pool = NULL


os.register_at_fork(after_in_child=_after_fork)


def close_all():
    """Close all pools when the interpreter exits, while the objects that the
    pools hold still exist."""
    for reference in list(_pools.values()):
        pool = reference()
        if pool is not None:
            pool._destroy()
    # Log entries that are kept from here on would never be reported.
    if _log.IS_USED:
        ucxpool_log_set_handler(NULL, NULL)
        _tell()


@cython.no_gc_clear
cdef class Pool:
    """A pool of blocks, and the channels that use it."""
    cdef ucxpool_t *_pool
    cdef dict _requests
    cdef dict _channels
    cdef dict _listeners
    cdef dict _windows
    cdef uint64_t _last_number
    cdef bint _forked
    cdef object __weakref__
    cdef readonly bint is_cuda
    cdef readonly size_t _num_ended # requests that ended in the last turn
    cdef readonly unsigned _num_rounds # rounds of that turn that made progress
    cdef public size_t _num_waiting # coroutines that wait
    cdef int _num_inside # threads in the library, without the GIL
    cdef uint64_t _spin_ns
    cdef unsigned _num_unspun
    # The classes of the objects that the pool creates. A subclass sets them.
    cdef public object _channel_type
    cdef public object _listener_type
    cdef public object _message_type
    cdef public object _request_type
    cdef public object _window_type
    cdef public object _remote_type

    def __cinit__(self, *args, **kwargs):
        self._requests = {}
        self._channels = {}
        self._listeners = {}
        self._windows = {}
        self._spin_ns = SPIN_MAX_NS
        self._channel_type = Channel
        self._listener_type = Listener
        self._message_type = Message
        self._request_type = Request
        self._window_type = Window
        self._remote_type = Remote

    def _create(self, device, name, secret, settings):
        """Create the pool; settings maps names to strings."""
        self.is_cuda = device is not None
        self._pool = _create_pool(device, name, secret, settings)
        _pools[id(self)] = weakref.ref(self)
        _tell()

    def __dealloc__(self):
        _pools.pop(<uintptr_t><void *>self, None)
        if self._pool != NULL:
            ucxpool_destroy(self._pool)

    def _destroy(self):
        """Close the pool with all its channels. Waits for peers, for at most
        the setting CLOSE_TIMEOUT."""
        cdef ucxpool_t *pool = self._pool

        self._pool = NULL
        if pool != NULL:
            with nogil:
                # Other threads return within WAIT_SLICE_NS, and find the pool
                # closed.
                _wait_for(&self._num_inside)
                ucxpool_destroy(pool)
            for request in list(self._requests.values()):
                (<Request>request)._lost()
            for window in list(self._windows.values()):
                (<Window>window)._lost()
            self._windows.clear()
            _tell()

    cdef int _check(self) except -1:
        if self._forked:
            raise RuntimeError("this pool belongs to the parent process: a "
                               "child must create its own after fork()")
        if self._pool == NULL:
            raise ClosedError("this pool is closed")
        return 0

    cdef int _enter(self, Request request) except -1:
        """Call this before a call without the GIL: _destroy() waits until
        _leave(). request is the request that the call posts, or None. No
        Python code may run in between: it could close the pool, and _destroy()
        would wait for its own caller."""
        self._check()
        if request is not None:
            self._requests[request.number] = request
        self._num_inside += 1
        return 0

    cdef void _leave(self) noexcept:
        self._num_inside -= 1

    @property
    def closed(self):
        """True if the pool was closed."""
        return self._pool == NULL

    @property
    def address(self):
        """The ucxpool_t * as a number, for C functions."""
        self._check()
        return <uintptr_t>self._pool

    def _fileno(self):
        """Return a descriptor that becomes readable when _progress() has
        something to do. The descriptor works only after _arm() has returned
        True."""
        cdef int fd = -1

        self._check()
        _check(ucxpool_event_fd(self._pool, &fd))
        return fd

    def _connect_channel(self, where, require=None):
        """Return a channel to a listener; it is not connected yet."""
        cdef ucxpool_t *pool
        cdef bytes text = where.encode()
        cdef const char *place = text
        cdef Channel channel
        cdef ucxpool_channel_params_t params
        cdef ucxpool_status_t status

        self._check()
        _follow_level()
        channel = self._new_channel(&params, _paths(require))
        self._enter(None)
        pool = self._pool
        with nogil:
            status = ucxpool_channel_connect(pool, place, &params,
                                             &channel._handle)
        self._leave()
        _check(status)
        _tell()
        return channel

    cdef Channel _new_channel(self, ucxpool_channel_params_t *params, paths):
        """Return a channel that is ready for events, which refer to it by its
        number. The library sets the channel's handle before it reports the
        first event. paths is from _paths()."""
        cdef Channel channel = self._channel_type.__new__(self._channel_type)

        self._last_number += 1
        channel._pool = self
        channel.number = self._last_number
        channel.__init__()
        self._channels[channel.number] = weakref.ref(channel)
        params.field_mask = UCXPOOL_CHANNEL_PARAM_FIELD_USER_PTR
        params.user_ptr = <void *><uintptr_t>channel.number
        if paths is not None:
            params.field_mask |= UCXPOOL_CHANNEL_PARAM_FIELD_REQUIRE
            params.require = paths
        return channel

    def _create_listener(self, where, require=None):
        cdef ucxpool_t *pool
        cdef ucxpool_listener_t *handle = NULL
        cdef bytes text = where.encode()
        cdef const char *place = text
        cdef ucxpool_status_t status
        cdef Listener listener
        cdef object paths = _paths(require)

        self._check()
        _follow_level()
        self._enter(None)
        pool = self._pool
        with nogil:
            status = ucxpool_listener_create(pool, place, &handle)
        self._leave()
        _check(status)
        _tell()
        listener = self._listener_type.__new__(self._listener_type)
        listener._handle = handle
        listener._pool = self
        listener._require = paths
        listener.__init__()
        self._listeners[<uintptr_t>handle] = listener
        return listener

    def _create_window(self, buffer, name, file):
        """Make memory available as a window; file is None or the file that the
        buffer maps."""
        cdef ucxpool_t *pool
        cdef ucxpool_window_t *handle = NULL
        cdef ucxpool_window_params_t params
        cdef ucxpool_status_t status
        cdef bytes label = name.encode()
        cdef Buffers held
        cdef bint is_read_only = False
        cdef Window window

        self._check()
        try:
            held = _buffers(buffer, True, self.is_cuda)
        except (TypeError, ValueError):
            held = _buffers(buffer, False, self.is_cuda)
            is_read_only = True
        if held.count != 1:
            raise TypeError("a window must be of one buffer; got "
                            f"{held.count}")
        params.field_mask = UCXPOOL_WINDOW_PARAM_FIELD_NAME
        params.name = label
        if file is not None:
            params.field_mask |= UCXPOOL_WINDOW_PARAM_FIELD_FD
            params.fd = PyObject_AsFileDescriptor(file)
        self._enter(None)
        pool = self._pool
        with nogil:
            status = ucxpool_window_create(
                pool, held.segments[0].address, held.segments[0].length,
                &params, &handle)
        self._leave()
        _check(status)
        window = self._window_type.__new__(self._window_type)
        window._handle = handle
        window._pool = self
        window._buffers = held
        window._is_read_only = is_read_only
        self._windows[<uintptr_t>handle] = window
        return window

    cdef Request _new_request(self, Buffers buffers):
        cdef Request request = self._request_type.__new__(self._request_type)

        self._last_number += 1
        request._pool = self
        request._buffers = buffers
        request.number = self._last_number
        request.status = UCXPOOL_INPROGRESS
        return request

    def _failed(self, error):
        """Return a request that has ended with this error."""
        cdef Request request = self._new_request(None)

        request._fail(error)
        return request

    cdef Request _posted(self, Request request, ucxpool_status_t status):
        """Check the status of the call that posted the request. Raises an
        exception if the call failed; otherwise returns the request."""
        if status != UCXPOOL_OK:
            try:
                raise _error(status)
            finally:
                self._requests.pop(request.number, None)
                if request._buffers is not None:
                    request._buffers.release()
        request._look()
        return request

    cdef Request _post_one(self, _Op op):
        """Post an operation. Returns its request."""
        cdef ucxpool_t *pool
        cdef ucxpool_status_t status = UCXPOOL_ERR_CLOSED
        cdef size_t num
        cdef bint is_open

        if self._pool == NULL:
            op.check(self)
        self._enter(op.request)
        is_open = self._pool != NULL and op.enter(self)
        if is_open:
            pool = self._pool
            with nogil:
                status = ucxpool_post(pool, &op.op, sizeof(op.op), 1, &num)
            op.leave()
        self._leave()
        if not is_open:
            self._requests.pop(op.request.number, None)
            op.check(self)
        return self._posted(op.request, status)

    def _post_batch(self, list ops):
        """Post operations. Returns the number of operations before the first
        refused one, and the error of the refused operation, or None if no
        operation is refused. The request of the refused operation fails with
        the same error."""
        cdef size_t count = len(ops)
        cdef size_t num_entered = 0
        cdef size_t num = 0
        cdef size_t i
        cdef ucxpool_t *pool
        cdef ucxpool_op_t *array
        cdef ucxpool_status_t status
        cdef Request request
        cdef object error = None

        array = <ucxpool_op_t *>calloc(count, sizeof(ucxpool_op_t))
        if array == NULL:
            raise MemoryError(f"no memory for a batch of {count} operations")
        for i in range(count):
            request = (<_Op>ops[i]).request
            # Another pool's request may have the number of one of this pool.
            if request._pool is self:
                self._requests[request.number] = request
        # From here to _leave() no Python code runs: see _enter().
        if self._pool != NULL:
            self._num_inside += 1
            while (num_entered < count
                   and (<_Op>ops[num_entered]).enter(self)):
                array[num_entered] = (<_Op>ops[num_entered]).op
                num_entered += 1
            pool = self._pool
            with nogil:
                status = ucxpool_post(pool, array, sizeof(array[0]),
                                      num_entered, &num)
            for i in range(num_entered):
                (<_Op>ops[i]).leave()
            self._leave()
        free(array)
        if num < num_entered:
            error = _error(status)
        for i in range(num):
            (<_Op>ops[i]).request._look()
        for i in range(num, count):
            request = (<_Op>ops[i]).request
            if request._pool is self:
                self._requests.pop(request.number, None)
        if num < count:
            try:
                if error is None:
                    (<_Op>ops[num]).check(self)
            except Error as reason:
                error = reason
            (<_Op>ops[num]).request._fail(error)
        return num, error

    def _progress(self):
        """Make progress for a short time, and end the requests that have
        completed. Returns the events, as pairs of a channel or listener and
        the kinds of its events."""
        cdef bint is_awaited = self._num_waiting > 0 or len(self._requests) > 0
        cdef ucxpool_t *pool

        self._enter(None)
        pool = self._pool
        with nogil:
            self._num_rounds = self._move(pool)
            if self._num_rounds == 0 and is_awaited and self._spin(pool):
                self._num_rounds = self._move(pool)
        self._leave()
        self._complete()
        _tell()
        return self._events()

    cdef unsigned _move(self, ucxpool_t *pool) noexcept nogil:
        """Make progress for one turn. Returns the number of rounds that made
        progress."""
        cdef uint64_t until = _now() + TURN_NS
        cdef unsigned rounds = 0

        while rounds < TURN_ROUNDS and ucxpool_progress(pool) != 0:
            rounds += 1
            if _now() >= until:
                break
        return rounds

    cdef bint _spin(self, ucxpool_t *pool) noexcept nogil:
        """Poll for a while. Returns whether something has arrived."""
        cdef uint64_t begin = _now()
        cdef uint64_t now = begin

        if self._spin_ns < SPIN_MIN_NS:
            self._num_unspun += 1
            if self._num_unspun < SPIN_TURNS:
                return False
            self._num_unspun = 0
            self._spin_ns = SPIN_MAX_NS
        while now - begin < self._spin_ns:
            if ucxpool_progress(pool) != 0:
                self._spin_ns = min(2 * self._spin_ns,
                                    <uint64_t>SPIN_MAX_NS)
                return True
            now = _now()
            if now - begin >= SPIN_PURE_NS:
                sched_yield()
        self._spin_ns //= 2
        return False

    cdef int _complete(self) except -1:
        cdef ucxpool_completion_t completions[BATCH]
        cdef size_t num = BATCH

        self._num_ended = 0
        while num == BATCH and self._pool != NULL:
            _check(ucxpool_completion_get(self._pool, completions, BATCH,
                                          &num))
            self._end(completions, num)
        return 0

    cdef void _end(self, ucxpool_completion_t *completions,
                   size_t num) noexcept:
        cdef size_t i
        cdef Request request

        for i in range(num):
            request = self._requests.get(
                <uintptr_t>completions[i].completion_ptr)
            if request is not None:
                request._end(completions[i].status)
        self._num_ended += num

    cdef list _events(self):
        cdef ucxpool_event_t events[BATCH]
        cdef size_t num = 0

        if self._pool == NULL:
            return []
        _check(ucxpool_event_get(self._pool, events, BATCH, &num))
        return self._found(events, num)

    cdef list _found(self, ucxpool_event_t *events, size_t num):
        cdef size_t i
        cdef list found = []

        for i in range(num):
            if events[i].channel != NULL:
                one = self._channels.get(<uintptr_t>events[i].user_ptr)
                one = one() if one is not None else None
            else:
                one = self._listeners.get(<uintptr_t>events[i].listener)
            if one is not None:
                found.append((one, events[i].kinds))
        return found

    def _arm(self):
        """Arm the pool's descriptor. Returns False if _progress() has
        something to do now. Returns True if the descriptor is armed: it
        becomes readable when _progress() has something to do."""
        cdef ucxpool_status_t status

        self._check()
        status = ucxpool_arm(self._pool)
        if status == UCXPOOL_ERR_BUSY:
            return False
        _check(status)
        return True

    def _wait_some(self, timeout=None):
        """Wait until the pool has made progress, for at most a tenth of a
        second. For a thread without an event loop."""
        cdef uint64_t left = min(_nanoseconds(timeout), WAIT_SLICE_NS)
        cdef ucxpool_t *pool

        self._enter(None)
        pool = self._pool
        with nogil:
            ucxpool_wait(pool, left)
        self._leave()
        PyErr_CheckSignals()
        return self._progress()

    def _drive(self):
        """Make progress until there is an event or completion, for at most a
        tenth of a second. For a thread that does nothing else. While there is
        no event or completion, this thread does not take the GIL, so other
        Python threads keep running. Returns the events in the form that
        _progress() returns."""
        cdef ucxpool_completion_t ended[BATCH]
        cdef ucxpool_event_t told[BATCH]
        cdef size_t num_ended = 0
        cdef size_t num_told = 0
        cdef uint64_t now = _now()
        cdef uint64_t until = now + WAIT_SLICE_NS
        cdef ucxpool_t *pool

        # Check for signals before taking completions and events from the
        # library: an exception would lose them.
        PyErr_CheckSignals()
        self._enter(None)
        pool = self._pool
        with nogil:
            while (num_ended == 0 and num_told == 0 and now < until
                   and self._pool != NULL):
                ucxpool_wait(pool, until - now)
                ucxpool_completion_get(pool, ended, BATCH, &num_ended)
                ucxpool_event_get(pool, told, BATCH, &num_told)
                now = _now()
        self._leave()
        self._num_ended = 0
        self._end(ended, num_ended)
        _tell()
        return self._found(told, num_told)

    def channels(self):
        """The channels that exist and have not been closed."""
        return [one for one in [reference() for reference in
                                list(self._channels.values())]
                if one is not None and (<Channel>one)._handle != NULL]

    def listeners(self):
        """The listeners that have not been closed."""
        return list(self._listeners.values())

    def windows(self):
        """The windows that have not been closed."""
        return list(self._windows.values())

    def check(self):
        """Verify the pool's invariants, for tests. Raises ucxpool.Error if an
        invariant does not hold."""
        self._check()
        _check(ucxpool_check(self._pool))

    def info(self):
        """Return a dictionary that describes the pool: name, device (None: the
        host), block_size and region_size in bytes, num_regions, degraded (why
        the pool is slower than it could be, or None), requests (the number of
        transfers in progress), channels (the number of channels), and version
        (of the library). Raises ClosedError if the pool is closed."""
        cdef ucxpool_attr_t attr

        self._check()
        ucxpool_query(self._pool, &attr, sizeof(attr))
        return {"name": _text(attr.name),
                "device": None if attr.device < 0 else attr.device,
                "block_size": attr.block_size,
                "region_size": attr.region_size,
                "num_regions": attr.num_regions,
                "degraded": _text(attr.degraded_why) or None,
                "requests": len(self._requests),
                "channels": len(self.channels()),
                "version": version()}

    def stats(self):
        """Return the statistics by name (<ucxpool/stats.h>). Raises
        ClosedError if the pool is closed."""
        self._check()
        return pool_stats(<uintptr_t>self._pool)

    def histograms(self):
        """Return the histograms of latencies by name (<ucxpool/stats.h>). Each
        is a dict with operation ("send", "recv", "read" or "write"), wire, way,
        count, sum (in nanoseconds) and buckets. Bucket i > 0 counts the
        operations that took at least 2**(i-1) and less than 2**i nanoseconds.
        The last bucket also counts all longer ones. Bucket 0 counts the
        operations that ended before the histogram's first sample. Their latency
        is not known yet: sum does not include them, and the first sample moves
        them to its bucket. Raises ClosedError if the pool is closed."""
        cdef ucxpool_histogram_attr_t attr
        cdef ucxpool_histogram_t histogram
        cdef size_t i
        cdef int j
        cdef dict histograms = {}

        self._check()
        for i in range(ucxpool_histogram_count()):
            _check(ucxpool_histogram_query(i, &attr, sizeof(attr)))
            _check(ucxpool_histogram_get(self._pool, attr.name, &histogram,
                                         sizeof(histogram)))
            histograms[_text(attr.name)] = {
                "operation": _text(attr.operation), "wire": _text(attr.wire),
                "way": _text(attr.way), "count": histogram.count,
                "sum": histogram.sum,
                "buckets": [histogram.buckets[j]
                            for j in range(UCXPOOL_HISTOGRAM_BUCKETS)]}
        return histograms

    def _unraisable(self, error):
        import sys
        sys.excepthook(type(error), error, error.__traceback__)


cdef dict _by_name(list names, uint64_t *values):
    cdef dict stats = {}
    cdef Py_ssize_t i

    for i in range(len(names)):
        stats[names[i][0]] = values[i]
    return stats


ctypedef ucxpool_status_t (*_query_t)(size_t, ucxpool_stat_attr_t *,
                                      size_t) noexcept nogil


cdef list _stat_names(size_t count, _query_t query):
    cdef ucxpool_stat_attr_t attr
    cdef size_t i
    cdef list names = []

    for i in range(count):
        _check(query(i, &attr, sizeof(attr)))
        names.append((_text(attr.name), _text(attr.unit), _text(attr.help),
                      "gauge" if attr.kind else "counter"))
    return names


def pool_stats(uintptr_t pool):
    """Return the statistics of a pool by name."""
    cdef size_t count = ucxpool_stats_count()
    cdef size_t num = 0
    cdef uint64_t *values = <uint64_t *>calloc(count, sizeof(uint64_t))

    if values == NULL:
        raise MemoryError("no memory for statistics")
    try:
        _check(ucxpool_stats_read(<ucxpool_t *>pool, values, count, &num))
        return _by_name(stat_names(), values)
    finally:
        free(values)


@functools.cache
def stat_names():
    """Return name, unit, help, and "counter" or "gauge" of each statistic."""
    return _stat_names(ucxpool_stats_count(), ucxpool_stats_query)


@functools.cache
def channel_stat_names():
    """Return the same of each statistic of channels."""
    return _stat_names(ucxpool_channel_stats_count(),
                       ucxpool_channel_stats_query)
