"""Runs the examples in python/examples/ as a user does, and checks that the
guide contains their code."""
import pathlib
import re
import subprocess
import sys
import textwrap
import unittest

import ucxpool

TOP = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = TOP / "python" / "examples"
GUIDE = TOP / "docs" / "guide" / "python.md"


def start(name, *arguments):
    """Start an example. Its output is not buffered (-u), so that it appears
    before that of a process which continues later."""
    return subprocess.Popen(
        [sys.executable, "-u", EXAMPLES / f"{name}.py", *arguments], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE)


class Examples(unittest.TestCase):
    maxDiff = None

    def run_example(self, name, *arguments):
        process = start(name, *arguments)
        said, errors = process.communicate(timeout=1800)
        self.assertEqual((process.returncode, errors), (0, ""))
        return said

    def test_echo(self):
        with start("echo_server", "127.0.0.1:0") as server:
            try:
                line = server.stdout.readline()
                self.assertRegex(line, r"^listening on port \d+\n$")
                where = f"127.0.0.1:{line.split()[-1]}"
                for _ in range(2):
                    self.assertEqual(self.run_example("echo_client", where),
                                     "1 (4, 7) [b'many', b'buffers']\n")
                    self.assertEqual(server.stdout.readline(),
                                     "a client has left\n")
            finally:
                server.terminate()

    def test_all_to_all(self):
        self.assertEqual(
            self.run_example("all_to_all", "3"),
            "6 of 6 messages of 1000 buffers arrived as they were sent\n")

    def test_no_asyncio(self):
        said = self.run_example("no_asyncio").splitlines()
        self.assertEqual(sorted(said), [f"thread {i}: header, the same"
                                        for i in range(3)])

    def test_ucxx_echo(self):
        self.assertEqual(self.run_example("ucxx_echo"),
                         "[b'many', b'buffers']\n")

    def test_window(self):
        said = self.run_example("window").splitlines()
        self.assertEqual(sorted(said), [
            f"read {[i % 251 for i in (999, 997, 995)]} and so on",
            "two pages were written: first other"])

    def test_nixl_agents(self):
        self.assertEqual(self.run_example("nixl_agents"),
                         "DONE the same\nthe owner was notified\n")

    def test_dask_cluster(self):
        self.assertEqual(self.run_example("dask_cluster"),
                         "ucxpool:\n328350\n")

    def test_gpu_frames(self):
        try:
            ucxpool.Heap(0, memory_limit="64m").close()
        except ucxpool.Error as error:
            self.skipTest(f"no GPU: {error}")
        self.assertEqual(self.run_example("gpu_frames"),
                         "4 frames on the GPU: True\n"
                         "from the host and back: True\n")

    def test_each_example_has_a_test(self):
        names = {path.stem for path in EXAMPLES.glob("*.py")}
        tested = {name.removeprefix("test_") for name in dir(self)
                  if name.startswith("test_")}
        self.assertEqual(names - tested, {"echo_client", "echo_server"})


def code_of(text):
    """Return the blocks of Python code in a page."""
    return [textwrap.dedent(block) for block in
            re.findall(r"^ *```python\n(.*?)^ *```$", text, re.M | re.S)]


def unknown(blocks):
    """Return the blocks that are not part of an example."""
    texts = [path.read_text() for path in EXAMPLES.glob("*.py")]
    return [block for block in blocks
            if not any("\n" + block in text for text in texts)]


class Guide(unittest.TestCase):
    def test_guide_code_matches_the_examples(self):
        blocks = code_of(GUIDE.read_text())
        self.assertGreaterEqual(len(blocks), 6)
        self.assertEqual(unknown(blocks), [])

    def test_different_code_is_detected(self):
        block = code_of(GUIDE.read_text())[0]
        self.assertEqual(unknown([block]), [])
        changed = block.replace("recv()", "receive()")
        self.assertEqual(unknown([changed]), [changed])

    def test_guide_names_each_example(self):
        text = GUIDE.read_text()
        self.assertEqual([path.name for path in EXAMPLES.glob("*.py")
                          if path.name not in text], [])


if __name__ == "__main__":
    unittest.main()
