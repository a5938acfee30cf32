"""Tests the exit of the interpreter while objects of each type exist: nothing
is printed, and the exit code is that of the program."""
import itertools
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

LIMIT = 600

MAKE_POOL = """
import numpy, ucxpool
pool = ucxpool.Pool(comm_size="8m")
listener = pool.listen("127.0.0.1:0")
to = pool.connect(f"127.0.0.1:{listener.port}").wait()
channel = listener.accept().wait()
received = to.recv_into(bytearray(10))
unsent = to.send(bytearray(1 << 20))
to.send(b"hello", tag=1).wait()
message = channel.recv(1).wait()
window = pool.window(numpy.zeros(1000, "u1"))
remote = to.import_window(window.export())
transfer = remote.read([(0, 10)], bytearray(10))
pieces = ucxpool.Pieces(bytearray(10), [(0, 1)])
operation = channel.recv(2)
objects = [pool, listener, to, channel, received, unsent, message, window,
           remote, transfer, pieces, operation]
"""

MAKE_NIXL = """
import numpy
from ucxpool.nixl import nixl_agent, nixl_agent_config
agents = [nixl_agent(f"agent {has_thread}", nixl_agent_config(
    enable_prog_thread=has_thread)) for has_thread in (True, False)]
memory = numpy.zeros(1 << 16, "u1")
rows = [(memory.ctypes.data, memory.nbytes, 0)]
for agent in agents:
    agent.register_memory([(*rows[0], "")], "DRAM")
one, two = agents
one.add_remote_agent(two.get_agent_metadata())
one.send_notif(two.name, b"note")
handle = one.initialize_xfer("READ", one.get_xfer_descs(rows, "DRAM"),
                             one.get_xfer_descs(rows, "DRAM"), two.name,
                             b"read")
one.transfer(handle)
prepared = one.prep_xfer_dlist("", rows, "DRAM")
objects = [agents, memory, handle, prepared]
"""

MAKE_UCXX = """
import asyncio
import ucxpool.ucxx as ucxx
loop = asyncio.new_event_loop()
async def make():
    accepted = asyncio.Queue()
    listener = ucxx.create_listener(accepted.put, 0)
    endpoint = await ucxx.create_endpoint("127.0.0.1", listener.port)
    other = await accepted.get()
    await endpoint.am_send(b"hello")
    return [listener, endpoint, other, loop]
objects = loop.run_until_complete(make())
"""

MAKE_HEAP = """
import numpy, ucxpool
heap = ucxpool.Heap(memory_limit="64m")
buffer = heap.buffer(1000)
array = numpy.frombuffer(heap.buffer(1000), "u1")
address = heap.alloc(1000)
shared = ucxpool.Heap(memory_limit="64m")
shared.give_to_frameworks()
frameworks = ucxpool.Heap.of_frameworks()
kept = frameworks.buffer(1000)
objects = [heap, buffer, array, shared, frameworks, kept]
"""

# The module that keeps the objects: the program's own, which is cleared first;
# one that is cleared after the package, whose functions have lost their
# modules by then; and the last module of all.
KEEP = "import {module} as keeper\n"
KEEPERS = ("__main__", "os", "builtins")

# The traceback comes from the program.
END = {
    "the last line": ("", 0),
    "sys.exit()": ("import sys\nsys.exit(3)\n", 3),
    "an exception": ("import sys\nsys.excepthook = lambda *_: None\n"
                     "raise ValueError\n", 1),
}

IN_MAIN = "{make}\nkeeper.kept = objects\n{end}"

# The thread is in the library when the interpreter exits.
IN_THREAD = """
import threading, time
there = threading.Event()
def run():
    names = {{}}
    exec({make!r}, names)
    keeper.kept = names["objects"]
    there.set()
    first = names["objects"][0]
    try:
        while hasattr(first, "wait"):
            first.wait(1)
    except Exception: # the pool was closed while the thread used it
        pass
    while True:
        time.sleep(1)
threading.Thread(target=run, daemon=True).start()
there.wait()
{end}
"""


class End(unittest.TestCase):
    def run_all(self, make):
        for (keeper, (name, (end, code))), program in itertools.product(
                zip(KEEPERS, END.items()), (IN_MAIN, IN_THREAD)):
            with self.subTest(keeper=keeper, end=name, program=program):
                self.run_one(KEEP.format(module=keeper)
                             + program.format(make=make, end=end), code)

    def run_one(self, program, code):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "program.py"
            path.write_text(program)
            done = subprocess.run(
                [sys.executable, path], text=True, capture_output=True,
                timeout=LIMIT, env={**os.environ, "UCXPOOL_COMM_SIZE": "8m",
                                    "UCXPOOL_CLOSE_TIMEOUT": "100ms"})
        self.assertEqual((done.stderr, done.stdout, done.returncode),
                         ("", "", code))

    def test_exit_with_a_pool(self):
        self.run_all(MAKE_POOL)

    def test_exit_with_nixl(self):
        self.run_all(MAKE_NIXL)

    def test_exit_with_ucxx(self):
        self.run_all(MAKE_UCXX)

    def test_exit_with_heaps(self):
        self.run_all(MAKE_HEAP)


if __name__ == "__main__":
    unittest.main()
