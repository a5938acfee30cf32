"""Tests NIXL's agent on the pool: one program on ucxpool.nixl and on NIXL
itself, and agents in this process."""
import gc
import importlib.util
import json
import os
import pathlib
import random
import resource
import socket
import subprocess
import sys
import threading
import time
import types
import unittest
import unittest.mock
import weakref

import numpy

import ucxpool.nixl
from ucxpool.nixl import nixl_agent, nixl_agent_config

HERE = pathlib.Path(__file__).resolve().parent
LIMIT = 1800
os.environ.setdefault("UCXPOOL_COMM_SIZE", "8m")


def run_program(module, *arguments, **settings):
    done = subprocess.run(
        [sys.executable, HERE / "nixl_program.py", module, *arguments],
        text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        timeout=3 * LIMIT, env={**os.environ, **settings})
    lines = [line[7:] for line in done.stdout.splitlines()
             if line.startswith("result ")]
    if not lines:
        raise AssertionError(f"{module} {arguments}: {done.returncode}\n"
                             f"{done.stdout}{done.stderr}")
    return json.loads(lines[0])


class OneProgram(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.ours = run_program("ucxpool.nixl")

    def test_program_completes(self):
        states = self.ours["states"]
        self.assertEqual(states, [["DONE", True]] * (len(states) - 1) + ["UCX"])
        self.assertEqual(self.ours["notes"], ["answer", "text"])
        self.assertEqual(self.ours["owner"]["notes"],
                         ["all of it", "read some", "the last", "written"])

    @unittest.skipUnless(importlib.util.find_spec("nixl_cu13"),
                         "nixl-cu13 is not installed")
    def test_nixl_gives_the_same_results(self):
        self.assertEqual(run_program("nixl_cu13"), self.ours)

    def test_messages_give_the_same_results(self):
        for settings in ({"UCXPOOL_WINDOW_WAY": "messages"},
                         {"UCXPOOL_WIRE": "ucx"}):
            self.assertEqual(run_program("ucxpool.nixl", **settings), self.ours)

    def test_transfer_fails_if_the_owner_is_killed(self):
        for way, second in (("messages", "PROC"), ("direct", None)):
            result = run_program("ucxpool.nixl", "kill",
                                 UCXPOOL_WINDOW_WAY=way)
            self.assertEqual((result["first"], result["last"]),
                             ("DONE", "ERR"))
            if second is not None:
                self.assertEqual(result["second"], second)


KILLED = """
import time
from ucxpool.nixl import nixl_agent
agent = nixl_agent("killed")
print(agent.get_agent_metadata().hex(), flush=True)
time.sleep(1000)
"""


def descs_of(array, *pieces):
    base = array.ctypes.data
    return [(base + at, length, 0) for at, length in
            (pieces or ((0, array.nbytes),))]


class Agents(unittest.TestCase):
    """Two agents in this process, without threads."""
    words = {"enable_prog_thread": False}

    def setUp(self):
        self.one, self.two = [nixl_agent(name, nixl_agent_config(**self.words))
                              for name in ("one", "two")]
        self.source = numpy.arange(1 << 16)
        self.target = numpy.zeros_like(self.source)
        self.registered = self.one.register_memory(
            [(*descs_of(self.source)[0], "")], "DRAM")
        self.two.register_memory([(*descs_of(self.target)[0], "")], "DRAM")

    def tearDown(self):
        for agent in (self.one, self.two):
            agent._close()

    def know(self):
        self.assertEqual(self.two.add_remote_agent(
            self.one.get_agent_metadata()), b"one")

    def until(self, look):
        found = look()
        end = time.monotonic() + LIMIT
        while not found:
            self.assertLess(time.monotonic(), end)
            found = look()
        return found

    def handle(self, operation="READ", note=b"", remote=None):
        local = self.two.get_xfer_descs(descs_of(self.target), "DRAM")
        remote = remote or self.two.get_xfer_descs(descs_of(self.source),
                                                   "DRAM")
        return self.two.initialize_xfer(operation, local, remote, "one", note)

    def finish(self, handle):
        self.two.transfer(handle)

        def look():
            self.one.update_notifs()
            return self.two.check_xfer_state(handle) != "PROC"
        self.until(look)
        return self.two.check_xfer_state(handle)

    def test_agents_without_threads_progress_when_called(self):
        self.know()
        self.assertEqual(self.finish(self.handle(note=b"read")), "DONE")
        self.assertTrue((self.source == self.target).all())
        self.until(lambda: self.one.check_remote_xfer_done("two", b"read"))
        self.assertEqual(self.one.notifs, {"two": []})

    def test_agent_reads_its_own_memory(self):
        other = numpy.zeros_like(self.source)
        self.one.register_memory([(*descs_of(other)[0], "")], "DRAM")
        handle = self.one.initialize_xfer(
            "READ", self.one.get_xfer_descs(descs_of(other), "DRAM"),
            self.one.get_xfer_descs(descs_of(self.source), "DRAM"), "one",
            b"loop")
        self.one.transfer(handle)
        self.until(lambda: self.one.check_xfer_state(handle) != "PROC")
        self.assertEqual(self.one.check_xfer_state(handle), "DONE")
        self.assertTrue((self.source == other).all())
        self.assertEqual(self.until(self.one.get_new_notifs),
                         {"one": [b"loop"]})

    def test_deregistered_memory_cannot_be_read(self):
        self.know()
        handle = self.handle()
        self.assertEqual(self.finish(handle), "DONE")
        self.one.deregister_memory(self.registered)
        self.target[:] = 7
        self.assertEqual(self.finish(handle), "ERR")
        self.assertIn("revoked", self.two.get_xfer_error(handle))
        self.assertTrue((self.target == 7).all())
        with self.assertRaises(ucxpool.nixl.nixlNotFoundError):
            self.one.deregister_memory(self.registered)

    def test_newer_metadata_adds_memory(self):
        self.know()
        later = numpy.arange(1 << 16)[::-1].copy()
        self.one.register_memory([(*descs_of(later)[0], "")], "DRAM")
        remote = self.two.get_xfer_descs(descs_of(later), "DRAM")
        with self.assertRaises(ucxpool.nixl.nixlNotFoundError):
            self.handle(remote=remote)
        self.two.add_remote_agent(self.one.get_partial_agent_metadata(
            self.one.get_reg_descs([(*descs_of(later)[0], "")], "DRAM")))
        self.assertEqual(self.finish(self.handle(remote=remote)), "DONE")
        self.assertTrue((later == self.target).all())

    def test_newer_metadata_removes_memory(self):
        self.know()
        remote = self.two.get_xfer_descs(descs_of(self.source), "DRAM")
        self.one.deregister_memory(self.registered)
        half = (*descs_of(self.source, (0, 1 << 18))[0], "")
        self.one.register_memory([half], "DRAM")
        self.know()
        self.assertFalse(self.two.check_remote_metadata("one", remote))
        rows = self.two.get_xfer_descs([half[:3]], "DRAM")
        handle = self.two.initialize_xfer("READ", self.two.get_xfer_descs(
            descs_of(self.target, (0, 1 << 18)), "DRAM"), rows, "one")
        self.assertEqual(self.finish(handle), "DONE")

    def test_active_transfer_cannot_be_posted_again(self):
        if self.words["enable_prog_thread"]:
            self.skipTest("a thread may have ended it")
        self.know()
        handle = self.handle()
        self.assertEqual(self.two.transfer(handle), "PROC")
        with self.assertRaises(ucxpool.nixl.nixlRepostActiveError):
            self.two.transfer(handle)
        self.two.release_xfer_handle(handle)
        with self.assertRaises(ucxpool.nixl.nixlInvalidParamError):
            self.two.check_xfer_state(handle)
        self.assertEqual(self.two._host.pool.info()["requests"], 1)  # HELLO

    def test_regions_may_overlap_and_adjoin(self):
        inner = descs_of(self.source, (4096, 4096))[0]
        self.one.register_memory([(*inner, "")], "DRAM")
        self.know()
        remote = self.two.get_xfer_descs(descs_of(
            self.source, (0, 4096), (4096, 4096), (6000, 4096), (8192, 4096)),
            "DRAM")
        local = self.two.get_xfer_descs(descs_of(
            self.target, *[(4096 * i, 4096) for i in range(4)]), "DRAM")
        handle = self.two.initialize_xfer("READ", local, remote, "one")
        self.assertEqual(self.finish(handle), "DONE")
        expected = self.source.tobytes()
        self.assertEqual(self.target.tobytes()[:16384],
                         expected[:8192] + expected[6000:10096]
                         + expected[8192:12288])

    def test_notification_is_resent_if_its_channel_fails(self):
        self.know()
        peer = self.two._peers["one"]
        long = bytes(100000)
        for note in (b"first", long):
            peer.notify(self.two._host, note)
        peer.channel(self.two._host, ucxpool._nixl.HOST).abort()
        self.two.send_notif("one", b"last")
        notes = []
        while len(notes) < 3:
            notes += self.one.get_new_notifs().get("two", [])
            self.two.update_notifs()
        self.assertEqual(sorted(notes), sorted([b"first", long, b"last"]))

    def test_unreachable_peer_is_an_error(self):
        self.know()
        self.one._close()
        with self.assertRaisesRegex(ucxpool.nixl.nixlBackendError,
                                    "notifications to one"):
            self.until(lambda: self.two.send_notif("one", b"note"))
        # This is the same each time.
        with self.assertRaises(ucxpool.nixl.nixlBackendError):
            self.two.send_notif("one", b"note")

    def test_killed_peer_is_an_error(self):
        peer = subprocess.Popen(
            [sys.executable, "-c", KILLED], stdout=subprocess.PIPE)
        self.two.add_remote_agent(bytes.fromhex(
            peer.stdout.readline().decode()))
        self.two.send_notif("killed", b"alive")
        peer.kill()
        peer.wait()
        peer.stdout.close()
        with self.assertRaises(ucxpool.nixl.nixlBackendError):
            self.until(lambda: self.two.send_notif("killed", b"note"))

    def test_listen_address_can_be_set(self):
        for words, variable in (({"listen_address": "127.0.0.2"}, ""),
                                ({}, "127.0.0.2"), ({}, "lo")):
            with unittest.mock.patch.dict(os.environ,
                                          LIBUCXPOOL_LISTEN=variable):
                agent = nixl_agent("elsewhere", nixl_agent_config(
                    enable_listen_thread=True, listen_port=0, **words))
            host = "127.0.0.1" if variable == "lo" else "127.0.0.2"
            self.assertEqual(agent._host.address.rpartition(":")[0], host)
            for listener in agent._host.listeners:
                with socket.create_connection((host, listener.port)):
                    pass
                with self.assertRaises(OSError):
                    socket.create_connection(("127.0.0.3", listener.port))
            agent._close()

    def test_telemetry(self):
        self.know()
        handle = self.handle()
        self.assertEqual(self.finish(handle), "DONE")
        with self.assertRaises(ucxpool.nixl.nixlNoTelemetryError):
            self.two.get_xfer_telemetry(handle)
        self.two._config.capture_telemetry = True
        told = self.two.get_xfer_telemetry(handle)
        self.assertEqual((told.totalBytes, told.descCount),
                         (self.source.nbytes, 1))
        self.assertLessEqual(told.postDuration, told.xferDuration)
        self.assertGreater(told.startTime, 0)

    def test_lists_of_descriptors(self):
        rows = descs_of(self.source, (0, 8), (8, 16))
        made = self.one.get_xfer_descs(rows, "DRAM")
        same = self.one.get_xfer_descs(numpy.array(rows), "DRAM")
        self.assertEqual(made, same)
        self.assertIs(self.one.get_xfer_descs(made), made)
        self.assertEqual((len(made), made.descCount(), made.isEmpty()),
                         (2, 2, False))
        self.assertEqual(list(made), rows)
        self.assertEqual((made.index(rows[1]), made.index((1, 2, 3))), (1, -1))
        made.append((1, 2, 3))
        self.assertEqual(made[2], (1, 2, 3))
        made.remDesc(0)
        self.assertEqual(list(made), [rows[1], (1, 2, 3)])
        read = self.two.deserialize_descs(self.one.get_serialized_descs(made))
        self.assertEqual(read, made)
        self.assertEqual(self.registered[0][3], b"")
        self.assertEqual(list(self.registered.trim()), descs_of(self.source))
        self.assertNotEqual(self.registered.trim(), self.registered)
        made.clear()
        self.assertTrue(made.isEmpty())
        with self.assertRaises(ucxpool.nixl.nixlMismatchError):
            self.two.deserialize_descs(b"cos\nsystem\n")
        with self.assertRaises(ucxpool.nixl.nixlNotSupportedError):
            self.one.get_xfer_descs(rows, "FILE")

    def test_damaged_metadata_is_rejected(self):
        good = self.one.get_agent_metadata()
        chance = random.Random(1)
        refused = 0
        for _ in range(300):
            bad = bytearray(good)
            for _ in range(chance.randrange(1, 4)):
                bad[chance.randrange(len(bad))] = chance.randrange(256)
            try:
                self.two.add_remote_agent(bytes(bad[:chance.choice(
                    (len(bad), chance.randrange(len(bad))))]))
            except ucxpool.nixl.nixlMismatchError:
                refused += 1
        self.assertGreater(refused, 100)


class Many(unittest.TestCase):
    """Many agents connect to one at once: more than its accept queue holds."""
    AGENTS = 24

    def setUp(self):
        with unittest.mock.patch.dict(os.environ, UCXPOOL_ACCEPT_QUEUE="2"):
            self.owner = nixl_agent("owner")
            self.agents = [nixl_agent(f"agent {number}")
                           for number in range(self.AGENTS)]
        self.addCleanup(self.owner._close)
        self.source = numpy.arange(1000)
        self.owner.register_memory([(*descs_of(self.source)[0], "")], "DRAM")
        for agent in self.agents:
            self.addCleanup(agent._close)
            agent.add_remote_agent(self.owner.get_agent_metadata())

    def take(self, count):
        notes = {}
        while sum(map(len, notes.values())) < count:
            for name, more in self.owner.get_new_notifs().items():
                notes.setdefault(name, []).extend(more)
            time.sleep(0.001)
        return notes

    def test_many_agents_read_at_once(self):
        targets, handles = [], []
        for agent in self.agents:
            target = numpy.zeros_like(self.source)
            agent.register_memory([(*descs_of(target)[0], "")], "DRAM")
            handle = agent.initialize_xfer(
                "READ", agent.get_xfer_descs(descs_of(target), "DRAM"),
                agent.get_xfer_descs(descs_of(self.source), "DRAM"), "owner",
                b"read")
            agent.transfer(handle)
            targets.append(target)
            handles.append(handle)
        for agent, handle, target in zip(self.agents, handles, targets):
            while agent.check_xfer_state(handle) == "PROC":
                time.sleep(0.001)
            self.assertEqual((agent.check_xfer_state(handle),
                              agent.get_xfer_error(handle)), ("DONE", None))
            self.assertTrue((target == self.source).all())
        self.assertEqual(self.take(self.AGENTS),
                         {agent.name: [b"read"] for agent in self.agents})

    def test_notifications_arrive_after_their_agent_closed(self):
        told = [b"%d" % number for number in range(5)]

        def send(agent):
            for note in told:
                agent.send_notif("owner", note)
            agent._close()
        threads = [threading.Thread(target=send, args=(agent,))
                   for agent in self.agents]
        for thread in threads:
            thread.start()
        self.assertEqual(self.take(self.AGENTS * len(told)),
                         {agent.name: told for agent in self.agents})
        for thread in threads:
            thread.join()


CALLERS = """
import sys, time
from ucxpool.nixl import nixl_agent, nixl_agent_config
first, count = map(int, sys.argv[1:])
config = nixl_agent_config(enable_prog_thread=False)
agents = [nixl_agent(f"agent {first + number}", config)
          for number in range(count)]
print("ready", flush=True)
metadata = bytes.fromhex(sys.stdin.readline())
for agent in agents:
    agent.add_remote_agent(metadata)
for agent in agents:
    agent.send_notif("owner", agent.name.encode())
while True:
    for agent in agents:
        agent.get_new_notifs()
    time.sleep(0.02)
"""


class Thousand(unittest.TestCase):
    """Agents of 8 processes connect to one at once."""
    PROCESSES, EACH = 8, 125

    def start(self, first):
        process = subprocess.Popen(
            [sys.executable, "-c", CALLERS, str(first), str(self.EACH)],
            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, "UCXPOOL_COMM_SIZE": "1m",
                 "UCXPOOL_BLOCK_SIZE": "64k"})
        self.addCleanup(self.stop, process)
        return process

    def stop(self, process):
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()

    def test_notifications_of_a_thousand_agents_arrive(self):
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        total = self.PROCESSES * self.EACH
        callers = [self.start(first) for first in range(0, total, self.EACH)]
        owner = nixl_agent("owner")
        self.addCleanup(owner._close)
        for process in callers:
            self.assertEqual(process.stdout.readline(), "ready\n")
        for process in callers:
            process.stdin.write(owner.get_agent_metadata().hex() + "\n")
            process.stdin.flush()
        notes = {}
        while sum(map(len, notes.values())) < total:
            for name, more in owner.get_new_notifs().items():
                notes.setdefault(name, []).extend(more)
            self.assertEqual([process.poll() for process in callers],
                             [None] * self.PROCESSES)
            time.sleep(0.001)
        self.assertEqual(notes, {f"agent {number}": [b"agent %d" % number]
                                 for number in range(total)})


class AgentsWithThreads(Agents):
    words = {"enable_prog_thread": True}

    def test_thread_completes_transfers_without_calls(self):
        self.know()
        handle = self.handle(note=b"moved")
        self.two.transfer(handle)
        transfer, told = handle._value, threading.Event()

        def ended():
            transfer._look()
            told.set()
        transfer.requests[0]._on_done = ended
        if not transfer.requests[0].done:
            self.assertTrue(told.wait(LIMIT))
        self.assertTrue((self.source == self.target).all())

    def test_dropped_agent_is_closed(self):
        agent = nixl_agent("three")
        threads = [side._thread for side in agent._sides.values()]
        gone = weakref.ref(agent)
        del agent
        gc.collect()
        for thread in threads:
            thread.join(LIMIT)
        self.assertEqual((gone(), [one.is_alive() for one in threads]),
                         (None, [False]))

    def test_metadata_is_fetched_and_sent(self):
        listening = nixl_agent("listening", nixl_agent_config(
            enable_listen_thread=True, listen_port=0))
        port = listening._host.listeners[1].port
        self.one.fetch_remote_metadata("listening", "127.0.0.1", port)
        self.one.send_local_metadata("127.0.0.1", port)
        self.until(lambda: self.one.check_remote_metadata("listening"))
        self.until(lambda: listening.check_remote_metadata(
            "one", self.registered.trim()))
        self.one.send_notif("listening", b"note")
        self.assertFalse(listening.check_remote_metadata("two"))
        self.assertEqual(self.until(listening.get_new_notifs),
                         {"one": [b"note"]})
        self.one.invalidate_local_metadata("127.0.0.1", port)
        self.until(lambda: not listening.check_remote_metadata("one"))
        with self.assertRaises(ucxpool.nixl.nixlNotSupportedError):
            self.one.send_local_metadata()
        listening._close()


class OnGpu(unittest.TestCase):
    """Tests on a GPU, or with the stand-in for the driver."""
    PAGES, PAGE = 50, 3000

    def setUp(self):
        try:
            self.heap = ucxpool.Heap(0, memory_limit="64m")
        except ucxpool.Error as error:
            self.skipTest(f"no GPU: {error}")
        self.addCleanup(self.heap.close)
        self.owner, self.reader = nixl_agent("owner"), nixl_agent("reader")
        self.addCleanup(self.owner._close)
        self.addCleanup(self.reader._close)

    def on_gpu(self, agent):
        """Return registered memory and its pages."""
        buffer = self.heap.buffer(self.PAGES * self.PAGE)
        self.addCleanup(lambda: buffer)  # until the agents are closed
        address = buffer.__cuda_array_interface__["data"][0]
        agent.register_memory([(address, len(buffer), 0, "")], "VRAM")
        return self.pages_at(address)

    def on_host(self, agent, array):
        agent.register_memory(numpy.array([descs_of(array)[0]]), "DRAM")
        return self.pages_at(array.ctypes.data)

    def pages_at(self, address):
        pages = numpy.zeros((self.PAGES, 3), "u8")
        pages[:, 0] = address + numpy.arange(self.PAGES) * self.PAGE
        pages[:, 1] = self.PAGE
        return pages

    def move(self, operation, local, remote):
        self.end(self.reader.initialize_xfer(
            operation, self.reader.get_xfer_descs(*local),
            self.reader.get_xfer_descs(*remote), "owner", b"moved"))

    def end(self, handle):
        state, end = self.reader.transfer(handle), time.monotonic() + LIMIT
        while state == "PROC" and time.monotonic() < end:
            state = self.reader.check_xfer_state(handle)
        self.assertEqual((state, self.reader.get_xfer_error(handle)),
                         ("DONE", None))

    def test_host_and_gpu_memory(self):
        theirs, ours = self.on_gpu(self.owner), self.on_gpu(self.reader)
        source = numpy.random.default_rng(1).integers(
            0, 256, self.PAGES * self.PAGE, "u1")
        target = numpy.zeros_like(source)
        first = self.on_host(self.reader, source)
        last = self.on_host(self.reader, target)
        self.reader.add_remote_agent(self.owner.get_agent_metadata())
        self.move("WRITE", (first, "DRAM"), (theirs[::-1], "VRAM"))
        self.move("READ", (ours, "VRAM"), (theirs, "VRAM"))
        self.move("WRITE", (ours, "VRAM"), (theirs[::-1], "VRAM"))
        self.move("READ", (last, "DRAM"), (theirs, "VRAM"))
        self.assertTrue((source == target).all())
        notes = []
        while len(notes) < 4:
            notes += self.owner.get_new_notifs().get("reader", [])
        self.assertEqual(notes, [b"moved"] * 4)

    def test_list_memory_is_reused(self):
        for size in (1, 4096, 1 << 20, 100 << 20):
            memory = ucxpool._core.Memory(size, 0)
            self.assertTrue(memory.is_list)
            bytes_of = numpy.frombuffer(memory, "u1")
            bytes_of[:] = 7
            address = bytes_of.ctypes.data
            del memory, bytes_of
            again = numpy.frombuffer(ucxpool._core.Memory(size, 0), "u1")
            if size < 32 << 20:
                self.assertEqual(again.ctypes.data, address)
        del again
        many = [ucxpool._core.Memory(8 << 20, 0) for _ in range(6)]
        del many
        # A process has at most 256 MiB of it, including freed memory that is
        # kept.
        held = [ucxpool._core.Memory(64 << 20, 0) for _ in range(5)]
        self.assertEqual([one.is_list for one in held[:3]], [True] * 3)
        self.assertFalse(held[4].is_list)
        del held
        self.assertTrue(ucxpool._core.Memory(128 << 20, 0).is_list)
        # There is no such GPU, so this is ordinary memory.
        self.assertFalse(ucxpool._core.Memory(64, 77).is_list)
        self.assertFalse(ucxpool._core.Memory(64).is_list)

    def test_long_list_is_posted_in_parts(self):
        theirs, ours = self.on_gpu(self.owner), self.on_gpu(self.reader)
        source = numpy.random.default_rng(2).integers(
            0, 256, (self.PAGES, self.PAGE), "u1")
        target = numpy.zeros_like(source)
        first = self.on_host(self.reader, source)
        last = self.on_host(self.reader, target)
        self.reader.add_remote_agent(self.owner.get_agent_metadata())
        self.move("WRITE", (first, "DRAM"), (theirs, "VRAM"))
        local = self.reader.prep_xfer_dlist("", ours, "VRAM")
        remote = self.reader.prep_xfer_dlist("owner", theirs, "VRAM")
        mine, its = [numpy.random.default_rng(seed).permutation(
            self.PAGES).astype("i4") for seed in (3, 4)]
        given = mine.copy(), its.copy()
        with unittest.mock.patch.multiple(
                ucxpool._nixl, PARTED_MIN=16, FIRST_MIN=8, FIRST_MAX=8,
                NEXT_PART=8, LIST_MIN=8):
            handle = self.reader.make_prepped_xfer("READ", local, given[0],
                                                   remote, given[1], b"parts")
            for wrong in (-1, self.PAGES):
                with self.assertRaises(ucxpool.nixl.nixlInvalidParamError):
                    self.reader.make_prepped_xfer(
                        "READ", local, [*mine[1:], wrong], remote, its)
            self.assertGreater(len(handle._value.groups), 1)
            for group in handle._value.groups:
                self.assertTrue(memory_of(group.places).is_list)
        for indices in given:
            indices[:] = 0
        for _ in range(2):
            self.end(handle)
        self.move("WRITE", (ours, "VRAM"), (theirs, "VRAM"))
        self.move("READ", (last, "DRAM"), (theirs, "VRAM"))
        self.assertTrue((target[mine] == source[its]).all())
        notes = []
        while len(notes) < 5:
            notes += self.owner.get_new_notifs().get("reader", [])
        self.assertEqual(sorted(notes), [b"moved"] * 3 + [b"parts"] * 2)


class PartsOfLists(unittest.TestCase):
    """Tests how long lists for a GPU are split."""

    @staticmethod
    def cut(count, each):
        return [(of.start, of.stop)
                for of in ucxpool._nixl.parts_of(count, each)]

    def test_first_part_has_64_mib(self):
        self.assertEqual(self.cut(65536, 8192), [(0, 8192), (8192, 65536)])
        self.assertEqual(self.cut(16384, 64 << 10), [(0, 1024), (1024, 16384)])

    def test_first_part_has_bounded_length(self):
        self.assertEqual(self.cut(20000, 1 << 30)[0], (0, 1024))
        self.assertEqual(self.cut(20000, 0), [(0, 16384), (16384, 20000)])

    def test_parts_grow_and_the_last_takes_a_short_rest(self):
        self.assertEqual(self.cut(500000, 4096),
                         [(0, 16384), (16384, 81920), (81920, 500000)])
        self.assertEqual(self.cut(16384, 1), [(0, 16384)])


def memory_of(array):
    """Return the memory below an array."""
    while isinstance(array, (numpy.ndarray, memoryview)):
        array = array.base if isinstance(array, numpy.ndarray) else array.obj
    return array


class Tensor:
    """The parts of a PyTorch tensor that agents use."""
    device = "cpu"

    def __init__(self, array):
        self.array = array

    def data_ptr(self):
        return self.array.ctypes.data

    def numel(self):
        return self.array.size

    def element_size(self):
        return self.array.itemsize

    def is_contiguous(self):
        return self.array.flags.c_contiguous

    def get_device(self):
        return -1


class Tensors(unittest.TestCase):
    def setUp(self):
        self.agent = nixl_agent("one")
        self.addCleanup(self.agent._close)
        if "torch" not in sys.modules:
            sys.modules["torch"] = types.SimpleNamespace(Tensor=Tensor)
            self.addCleanup(sys.modules.pop, "torch")
        else:
            self.skipTest("PyTorch itself is here")

    def test_tensors_describe_their_memory(self):
        arrays = [numpy.zeros(100, "f4"), numpy.zeros((3, 5), "f8")]
        expected = [descs_of(array)[0] for array in arrays]
        tensors = [Tensor(array) for array in arrays]
        self.assertEqual(list(self.agent.get_xfer_descs(tensors)), expected)
        self.assertEqual(list(self.agent.get_xfer_descs(tensors[0])),
                         expected[:1])
        registered = self.agent.register_memory(tensors)
        self.assertEqual(list(registered),
                         [(*one, b"") for one in expected])
        self.agent.deregister_memory(registered)
        self.assertIsNone(self.agent.get_xfer_descs(
            Tensor(numpy.zeros((4, 4))[:, 1])))


if __name__ == "__main__":
    unittest.main()
