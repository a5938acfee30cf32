"""Tests the search for the library."""
import os
import subprocess
import sys
import unittest

import ucxpool


class LibraryTest(unittest.TestCase):

    def run_python(self, code, **variables):
        environment = dict(os.environ, **variables)
        return subprocess.run([sys.executable, "-B", "-c", code],
                              env=environment, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=1800)

    def test_missing_library_is_reported(self):
        done = self.run_python("import ucxpool; ucxpool.version()",
                               LIBUCXPOOL="/nonexistent/libucxpool.so")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("ImportError", done.stderr)
        self.assertIn("/nonexistent/libucxpool.so", done.stderr)
        self.assertIn("/nonexistent/libucxpool-framework.so.1", done.stderr)
        self.assertIn("LIBUCXPOOL", done.stderr)

    def test_other_library_is_reported(self):
        done = self.run_python("import ucxpool; ucxpool.version()",
                               LIBUCXPOOL="libc.so.6")
        self.assertIn("ImportError", done.stderr)

    def test_either_file_name_is_accepted(self):
        folder = os.path.dirname(ucxpool.library_path())
        for name in "libucxpool.so.1", "libucxpool-framework.so":
            done = self.run_python("import ucxpool; print(ucxpool.version())",
                                   LIBUCXPOOL=os.path.join(folder, name))
            self.assertEqual(done.stdout.split(), [ucxpool.version()],
                             done.stderr)

    def test_loader_finds_the_library(self):
        folder = os.path.dirname(ucxpool.library_path())
        code = ("import os; os.environ.pop('LIBUCXPOOL'); import ucxpool;"
                "print(ucxpool.library_path(), ucxpool.version())")
        done = self.run_python(code, LD_LIBRARY_PATH=folder)
        file = os.path.realpath(ucxpool.library_path())
        self.assertEqual(done.stdout.split(), [file, ucxpool.version()],
                         done.stderr)

    def test_versions_match(self):
        top = os.environ["top_srcdir"]
        with open(os.path.join(top, "python", "pyproject.toml")) as file:
            version = ucxpool.version().replace("-rc", "rc")
            self.assertIn(f'version = "{version}"', file.read())


if __name__ == "__main__":
    unittest.main()
