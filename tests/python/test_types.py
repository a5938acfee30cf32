"""Tests the package's types, which py.typed promises: mypy's stubtest compares
the stubs with the installed package, and mypy checks the examples with
them."""
import ast
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import ucxpool

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parents[1]
EXAMPLES = TOP / "python" / "examples"
PACKAGE = pathlib.Path(ucxpool.__file__).parent
# Modules for frameworks that are not installed cannot be compared.
MODULES = ("_errors", "_heap", "_pool", "nixl", "prometheus", "ucxx")


def run(module, *arguments, **environment):
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run(
            [sys.executable, "-m", module, *map(str, arguments)], cwd=folder,
            text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={**os.environ, **environment}, timeout=1800)


def stubtest(*modules, **environment):
    return run("mypy.stubtest", "--concise",
               *[f"ucxpool.{module}" for module in modules], **environment)


def mypy(*arguments):
    return run("mypy", "--strict", "--ignore-missing-imports", *arguments)


class Stubs(unittest.TestCase):
    def test_every_public_name_has_a_stub(self):
        done = stubtest(*MODULES)
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_missing_stub_is_reported(self):
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder) / "ucxpool"
            shutil.copytree(PACKAGE, copy,
                            ignore=shutil.ignore_patterns("lib", "*.so"))
            stub = copy / "_pool.pyi"
            stub.write_text(re.sub(r"    def flush\(.*\n", "",
                                   stub.read_text()))
            done = stubtest("_pool", MYPYPATH=folder)
        self.assertEqual(done.returncode, 1)
        self.assertIn("ucxpool._pool.Channel.flush is not present in stub",
                      done.stdout)

    def test_public_members_match_the_stub(self):
        """help() shows all members, so the names of internal ones begin with
        an underscore, also those inherited from the extension."""
        tree = ast.parse((PACKAGE / "_pool.pyi").read_text())
        for node in tree.body:
            if not isinstance(node, ast.ClassDef) or node.name[0] == "_":
                continue
            told = {getattr(one, "name", None) or one.target.id
                    for one in node.body
                    if isinstance(one, ast.AnnAssign | ast.FunctionDef
                                  | ast.AsyncFunctionDef)}
            there = {name for name in dir(getattr(ucxpool, node.name))
                     if name[0] != "_"}
            self.assertLessEqual(there, told, node.name)

    def test_exports_match_all(self):
        tree = ast.parse((PACKAGE / "__init__.pyi").read_text())
        told = {name.name: name for name in tree.body
                if isinstance(name, ast.FunctionDef)}
        names = [ast.literal_eval(one.value) for one in tree.body
                 if isinstance(one, ast.Assign)]
        self.assertEqual(sorted(names[0]), sorted(ucxpool.__all__))
        for name in ucxpool.__all__:
            one = getattr(ucxpool, name)
            if not isinstance(one, (type, int)):
                self.assertEqual([part.arg for part in told[name].args.args],
                                 list(one.__code__.co_varnames[
                                     :one.__code__.co_argcount]))


class Pages(unittest.TestCase):
    def test_api_page_is_up_to_date(self):
        """If this fails, run scripts/make-python-api
        >docs/reference/python-api.md"""
        made = subprocess.run([sys.executable, TOP / "scripts/make-python-api"],
                              capture_output=True, text=True, timeout=1800)
        self.assertEqual((made.returncode, made.stderr), (0, ""))
        self.maxDiff = None
        self.assertEqual((TOP / "docs" / "reference" / "python-api.md").read_text(),
                         made.stdout)


class Programs(unittest.TestCase):
    def test_examples_pass_mypy(self):
        # distributed and Ray have no type annotations.
        paths = [path for path in EXAMPLES.glob("*.py")
                 if path.stem not in ("dask_cluster", "ray_tensors")]
        done = mypy(*paths)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn(f"no issues found in {len(paths)} source files",
                      done.stdout)

    def test_numpy_arrays_are_buffers(self):
        text = """\
import numpy
import ucxpool

async def use(pool: ucxpool.Pool, channel: ucxpool.Channel) -> None:
    array = numpy.zeros((4, 2), "u8")
    await channel.send(array)
    await channel.send([array, b"x", array])
    await channel.recv_into(array)
    await (await channel.recv()).into([array])
    pieces = ucxpool.Pieces(array, array)
    window = pool.window(array)
    remote = channel.import_window(window.export())
    await remote.read(array, pieces)
    await remote.write(array, array)
"""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "arrays.py"
            path.write_text(text)
            for version in ("3.11", "3.12"):
                done = mypy("--python-version", version, path)
                self.assertEqual(done.returncode, 0, done.stdout)

    def test_wrong_argument_is_reported(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "wrong.py"
            text = (EXAMPLES / "echo_client.py").read_text()
            path.write_text(text.replace("tag=1", 'tag="1"'))
            done = mypy(path)
        self.assertEqual(done.returncode, 1)
        self.assertIn('Argument "tag" to "send" of "Channel"', done.stdout)


if __name__ == "__main__":
    unittest.main()
