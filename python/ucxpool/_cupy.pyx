# cython: language_level=3, binding=False, embedsignature=False, auto_pickle=False
"""CuPy's memory functions for its current stream. The stream is looked up
without Python, because a lookup in Python would take longer than the
allocation."""
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid
from libc.stdint cimport intptr_t

# CuPy's declaration of cupy_backends.cuda.stream.get_current_stream_ptr().
cdef const char *CURRENT = "intptr_t (void)"

ctypedef intptr_t (*current_t)() except? -1


cdef class Malloc:
    """malloc(size) for cupy.cuda.set_allocator().

    current      the capsule of CuPy's C function for the current stream
    add(handle)  called once for each stream; returns the malloc() of its
                 CFunctionAllocator
    retry(size)  called when malloc() returned no memory"""
    cdef current_t _current
    cdef dict _mallocs
    cdef object _add
    cdef object _retry
    cdef intptr_t _last_stream
    cdef object _last_malloc

    def __init__(self, current, add, retry):
        if not PyCapsule_IsValid(current, CURRENT):
            raise TypeError("this version of CuPy declares its function for "
                            "the current stream differently")
        self._current = <current_t>PyCapsule_GetPointer(current, CURRENT)
        self._mallocs = {}
        self._add = add
        self._retry = retry
        self._last_malloc = None

    def malloc(self, size):
        cdef intptr_t stream = self._current()

        if self._last_malloc is None or stream != self._last_stream:
            self._look_up(stream)
        memory = self._last_malloc(size)
        if memory.ptr or not size:
            return memory
        return self._retry(size)

    cdef int _look_up(self, intptr_t stream) except -1:
        of_stream = self._mallocs.get(stream)
        if of_stream is None:
            of_stream = self._mallocs[stream] = self._add(stream)
        self._last_stream = stream
        self._last_malloc = of_stream
        return 0

    def forget(self, handle):
        """Forget a stream that was destroyed; another stream may get its
        handle."""
        self._mallocs.pop(handle, None)
        self._last_malloc = None
