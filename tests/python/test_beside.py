"""Tests ucxpool together with other packages that contain UCX, imported in
either order. Each test runs in a new process."""
import importlib.util
import os
import subprocess
import sys
import unittest

TRANSFER = """
import asyncio

async def main():
    async with ucxpool.Pool(comm_size="8m") as pool:
        listener = pool.listen()
        x, y = await asyncio.gather(
            pool.connect(f"127.0.0.1:{listener.port}"), listener.accept())
        sent = x.send(b"hello")
        print(bytes((await (await y.recv()).frames())[0]).decode())
        await sent

asyncio.run(main())
"""


# One agent reads from the other. The process exits without the destructors of
# NIXL's libraries, because that of its libnl-route crashes, with NIXL alone,
# too.
NIXL_TRANSFER = """
import os
import numpy

def agent(name):
    return nixl_cu13.nixl_agent(
        name, nixl_cu13.nixl_agent_config(backends=["UCX"]))

def described(array):
    return (array.ctypes.data, array.nbytes, 0)

def read(theirs, ours):
    source = numpy.arange(1 << 16)
    target = numpy.zeros_like(source)
    for one, array in ((theirs, source), (ours, target)):
        one.register_memory([(*described(array), "")], "DRAM")
    ours.add_remote_agent(theirs.get_agent_metadata())
    handle = ours.initialize_xfer(
        "READ", ours.get_xfer_descs([described(target)], "DRAM"),
        ours.get_xfer_descs([described(source)], "DRAM"), theirs.name, b"")
    state = ours.transfer(handle)
    while state == "PROC":
        state = ours.check_xfer_state(handle)
    print(bool((source == target).all()), end=" ")
"""


class OtherPackages(unittest.TestCase):
    def run_python(self, text):
        # By default UCX prints warnings to the standard output.
        done = subprocess.run([sys.executable, "-c", text], text=True,
                              capture_output=True, timeout=1800,
                              env={**os.environ, "UCX_LOG_FILE": "stderr"})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.split()[-4:]

    def test_ucxx_and_ucxpool_load_in_either_order(self):
        for order in ("import ucxpool; ucxpool.Pool; import ucxx",
                      "import ucxx; import ucxpool"):
            hello, version, count, theirs = self.run_python(f"""
{order}
{TRANSFER}
numbers, files = ucxpool.ucx_version()
print(*numbers, sep=".")
print(files.count("libucp"))
print(*ucxx.get_ucx_version(), sep=".")
""")
            self.assertEqual((hello, count), ("hello", "1"))
            self.assertEqual(version, theirs)

    @unittest.skipUnless(importlib.util.find_spec("nixl_cu13"),
                         "nixl-cu13 is not installed")
    def test_nixl_and_ucxpool_load_in_either_order(self):
        # It has its own UCX under another name, so there are two.
        for first, second in (
                ("import ucxpool; pool = ucxpool.Pool(comm_size='8m')",
                 "import nixl_cu13; one = agent('one')"),
                ("import nixl_cu13; one = agent('one')",
                 "import ucxpool; pool = ucxpool.Pool(comm_size='8m')")):
            said = self.run_python(f"""
{NIXL_TRANSFER}
{first}
{second}
{TRANSFER}
read(one, agent("two"))
asyncio.run(main())
file = ucxpool.ucx_version()[1]
print("nixl" in file, file.count("libucp"), flush=True)
os._exit(0)
""")
            self.assertEqual(said, ["True", "hello", "False", "1"])

    def test_prometheus_reads_the_statistics(self):
        said = self.run_python("""
import ucxpool.prometheus
from prometheus_client import CollectorRegistry, generate_latest
pools = [ucxpool.Pool(name=name, comm_size="8m", block_size="64k")
         for name in "ab"]
registry = CollectorRegistry()
registry.register(ucxpool.prometheus.Collector(*pools))
lines = generate_latest(registry).decode().splitlines()
print(*[line.replace(" ", "=") for line in lines
        if line.startswith("ucxpool_block_size_bytes{")])
pools[0].close()
print(sum(line.startswith("ucxpool_messages_sent_total{")
          for line in generate_latest(registry).decode().splitlines()), "-")
pools[1].close()
""")
        self.assertEqual(said, ['ucxpool_block_size_bytes{pool="a"}=65536.0',
                                'ucxpool_block_size_bytes{pool="b"}=65536.0',
                                "1", "-"])

    def test_import_loads_no_optional_packages(self):
        said = self.run_python("""
import sys
import ucxpool
ucxpool.Pool
print(any(name.split(".")[0] in ("numpy", "distributed", "ucxx")
          for name in sys.modules))
""")
        self.assertEqual(said, ["False"])


if __name__ == "__main__":
    unittest.main()
