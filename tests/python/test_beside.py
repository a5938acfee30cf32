"""Beside other packages that bring UCX, in either order: each in a new
process."""
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


class Beside(unittest.TestCase):
    def run_python(self, text):
        done = subprocess.run([sys.executable, "-c", text], text=True,
                              capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.split()[-4:]  # UCX warns on stdout

    def test_ucxx_in_either_order(self):
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
        if line.startswith("ucxpool_block_size{")])
pools[0].close()
print(sum(line.startswith("ucxpool_messages_sent_total{")
          for line in generate_latest(registry).decode().splitlines()), "-")
pools[1].close()
""")
        self.assertEqual(said, ['ucxpool_block_size{pool="a"}=65536.0',
                                'ucxpool_block_size{pool="b"}=65536.0',
                                "1", "-"])

    def test_importing_takes_nothing_that_is_not_needed(self):
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
