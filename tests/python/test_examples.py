"""Runs the examples in python/examples/ as a user does, and checks that the
guide names them. tests/check_samples.py checks that the code in the guide is
part of an example."""
import ast
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import ucxpool

TOP = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = TOP / "python" / "examples"
GUIDE = TOP / "docs" / "guide"


def start(name, *arguments, **environment):
    """Start an example. Its output is not buffered (-u), so that it appears
    before that of a process which continues later. Dask must not warn that a
    worker takes longer than 4 s to end."""
    return subprocess.Popen(
        [sys.executable, "-u", EXAMPLES / f"{name}.py", *arguments], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "DASK_LOGGING__DISTRIBUTED": "error",
             **environment})


class Examples(unittest.TestCase):
    maxDiff = None

    def require_gpu(self):
        try:
            ucxpool.Heap(0, memory_limit="64m").close()
        except ucxpool.Error as error:
            self.skipTest(f"no GPU: {error}")

    def run_example(self, name, *arguments, **environment):
        process = start(name, *arguments, **environment)
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

    def test_sender(self):
        with ucxpool.Pool() as pool, pool.listen() as listener:
            with start("sender", f"127.0.0.1:{listener.port}", "two",
                       "words") as sender:
                message = listener.accept().wait().recv().wait()
                frames = message.frames().wait()
                self.assertEqual([bytes(one) for one in frames],
                                 [b"two", b"words"])
                self.assertEqual(sender.communicate(), ("", ""))
                self.assertEqual(sender.returncode, 0)

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

    def test_batch(self):
        self.assertEqual(self.run_example("batch"), "the sum is 499500\n")

    def test_nixl_agents(self):
        self.assertEqual(self.run_example("nixl_agents"),
                         "DONE the same\nthe owner was notified\n")

    def test_dask_cluster(self):
        self.assertEqual(self.run_example("dask_cluster"),
                         "ucxpool:\n328350\n")

    def test_dask_cluster_with_the_configuration_files(self):
        self.require_gpu()
        with tempfile.NamedTemporaryFile() as secret:
            secret.write(os.urandom(32).hex().encode())
            secret.flush()
            for name in ("dask", "dask_gpu"):
                self.assertEqual(
                    self.run_example(
                        "dask_cluster",
                        DASK_CONFIG=str(EXAMPLES / f"{name}.yaml"),
                        DASK_DISTRIBUTED__COMM__UCXPOOL__SECRET_FILE=secret.name,
                        # CuPy is not installed.
                        DASK_DISTRIBUTED__COMM__UCXPOOL__DEVICE_ALLOCATOR="heap"),
                    "ucxpool:\n328350\n")

    def test_dask_reads_the_configuration_files(self):
        for name, on_gpu, expected in (
                ("dask", False, {"secret_file": "/etc/dask/ucxpool.secret",
                                 "comm_size": 8 << 20, "peer_timeout": "10s"}),
                ("dask_gpu", True, {"device": 0, "comm_size": 256 << 20})):
            said = subprocess.check_output(
                [sys.executable, "-c", "import ucxpool.dask as ours; "
                 f"print(ours.settings({on_gpu}))"], text=True,
                env={**os.environ,
                     "DASK_CONFIG": str(EXAMPLES / f"{name}.yaml")})
            self.assertLessEqual(expected.items(),
                                 ast.literal_eval(said).items())

    def test_heap(self):
        self.require_gpu()
        self.assertEqual(self.run_example("heap"),
                         "262144 floats in host memory\n"
                         "1 buffer on the GPU\n")

    def test_metrics(self):
        self.assertIn('\nucxpool_channels_open{pool="example"} 0.0\n',
                      self.run_example("metrics"))

    def test_gpu_frames(self):
        self.require_gpu()
        self.assertEqual(self.run_example("gpu_frames"),
                         "4 frames on the GPU: True\n"
                         "from the host and back: True\n")

    def test_each_example_has_a_test(self):
        names = {path.stem for path in EXAMPLES.glob("*.py")}
        tested = {name.removeprefix("test_") for name in dir(self)
                  if name.startswith("test_")}
        # test_ray.py runs ray_tensors.
        self.assertEqual(names - tested,
                         {"echo_client", "echo_server", "ray_tensors"})


class Guide(unittest.TestCase):
    def test_guide_names_each_example(self):
        text = "".join(path.read_text() for path in
                       (TOP / "README.md", *GUIDE.glob("*.md")))
        self.assertEqual([path.name for path in EXAMPLES.iterdir()
                          if path.is_file()
                          and f"/{path.name})" not in text], [])


if __name__ == "__main__":
    unittest.main()
