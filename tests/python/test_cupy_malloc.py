"""Tests CuPy's memory functions, with test functions instead of CuPy's."""
import ctypes
import unittest

from ucxpool import _cupy

CURRENT = b"intptr_t (void)"

_function = ctypes.CFUNCTYPE(ctypes.c_ssize_t)


def capsule(function, name=CURRENT):
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return new(ctypes.cast(function, ctypes.c_void_p), name, None)


class Memory:
    def __init__(self, ptr):
        self.ptr = ptr


class Malloc(unittest.TestCase):
    def setUp(self):
        self.stream = 0
        self.asked = []
        self.added = []
        self.function = _function(lambda: self.stream)
        self.allocator = _cupy.Malloc(capsule(self.function), self.add,
                                      lambda size: ("again", size))
        self.malloc = self.allocator.malloc

    def add(self, handle):
        self.added.append(handle)

        def malloc(size):
            self.asked.append((handle, size))
            return Memory(0 if size in (0, 666) else 512)
        return malloc

    def test_malloc_uses_the_current_stream(self):
        for self.stream in (0, 0, 7, 7, 0, 1 << 46, 7):
            self.assertEqual(self.malloc(100).ptr, 512)
        self.assertEqual(self.added, [0, 7, 1 << 46])
        self.assertEqual([handle for handle, _ in self.asked],
                         [0, 0, 7, 7, 0, 1 << 46, 7])

    def test_malloc_retries_without_memory(self):
        self.assertEqual(self.malloc(666), ("again", 666))
        self.assertEqual(self.malloc(0).ptr, 0)

    def test_forgotten_stream_is_added_again(self):
        self.malloc(1)
        self.allocator.forget(0)
        self.allocator.forget(99)
        self.malloc(1)
        self.assertEqual(self.added, [0, 0])

    def test_errors_are_passed_on(self):
        def fail(handle):
            raise ValueError("per-thread streams")

        malloc = _cupy.Malloc(capsule(self.function), fail, None).malloc
        for _ in range(2):
            with self.assertRaisesRegex(ValueError, "per-thread"):
                malloc(1)

    def test_function_with_another_declaration_is_rejected(self):
        for one in (None, 5, capsule(self.function, b"intptr_t (int)")):
            with self.assertRaises(TypeError):
                _cupy.Malloc(one, self.add, None)


if __name__ == "__main__":
    unittest.main()
