"""Checks that the address sanitizer is active, for the tests that are run with
it."""
import subprocess
import sys
import unittest

import ucxpool
from ucxpool import _core

USE_AFTER_FREE = """
import ctypes
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
memory = ctypes.c_void_p(libc.malloc(64))
libc.free(memory)
libc.memset(memory, 0, 64)
"""


class Sanitizer(unittest.TestCase):
    def test_library_and_extension_are_sanitized(self):
        for path in (_core.__file__, ucxpool.library_path()):
            with open(path, "rb") as file:
                self.assertIn(b"__asan_init", file.read(), path)

    def test_error_ends_the_process(self):
        child = subprocess.run([sys.executable, "-c", USE_AFTER_FREE],
                               capture_output=True, text=True, timeout=1800)
        self.assertNotEqual(child.returncode, 0)
        self.assertIn("heap-use-after-free", child.stderr)


if __name__ == "__main__":
    unittest.main()
