"""Tests Dask's `distributed` with the protocol ucxpool: single comms, clusters
in this process, and clusters whose processes are killed."""
import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

os.environ["DASK_DISTRIBUTED__COMM__DEFAULT_SCHEME"] = "ucxpool"

import dask
import numpy
from distributed import Client, LocalCluster, get_worker, wait
from distributed.comm import (CommClosedError, connect, get_address_host,
                              get_address_host_port, get_local_address_for,
                              listen, parse_address, resolve_address)
from distributed.utils_test import inc

import ucxpool.dask
from clusters import on_cluster

WHERE = "ucxpool://127.0.0.1"


# Blocks its event loop until the test continues it.
BUSY_PEER = """
import asyncio, sys
from distributed.comm import CommClosedError, connect

async def main():
    comm = await connect(sys.argv[1])
    sys.stdin.readline()
    try:
        while True:
            print(len(await comm.read()))
    except CommClosedError:
        print("closed")

asyncio.run(main())
"""


class Comms(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.accepted = asyncio.Queue()
        self.listener = await listen(WHERE, self.accepted.put)
        self.comm = await connect(self.listener.contact_address)
        self.peer = await self.accepted.get()

    async def asyncTearDown(self):
        self.comm.abort()
        self.peer.abort()
        self.listener.stop()

    async def test_addresses(self):
        self.assertRegex(self.listener.listen_address,
                         r"^ucxpool://127\.0\.0\.1:\d+$")
        self.assertEqual(self.comm.peer_address,
                         self.listener.contact_address)
        self.assertEqual(self.comm.local_address, self.peer.peer_address)
        self.assertTrue(self.comm.same_host)
        self.assertEqual(self.comm.extra_info["wire"], "map")
        self.assertEqual(parse_address("ucxpool://host:1"),
                         ("ucxpool", "host:1"))
        self.assertEqual(get_address_host("ucxpool://1.2.3.4:5"), "1.2.3.4")
        self.assertEqual(get_address_host_port("ucxpool://1.2.3.4:5"),
                         ("1.2.3.4", 5))
        self.assertEqual(resolve_address("ucxpool://localhost:5"),
                         "ucxpool://127.0.0.1:5")
        self.assertEqual(get_local_address_for("ucxpool://127.0.0.1:5"),
                         WHERE)

    async def test_names_become_addresses(self):
        async with listen("ucxpool://localhost", None) as listener:
            self.assertRegex(listener.contact_address,
                             r"^ucxpool://127\.0\.0\.1:\d+$")

    async def test_messages_there_and_back(self):
        array = numpy.arange(1000000.)
        for message in ("x", {"op": "y", "data": b"z" * 100},
                        {"array": dask_serialize(array)}):
            await self.comm.write(message)
            await self.peer.write(await self.peer.read())
            got = await self.comm.read()
            if "array" in message:
                numpy.testing.assert_array_equal(got["array"], array)
            else:
                self.assertEqual(got, message)

    async def test_many_writes_before_a_read(self):
        for i in range(500):
            task = asyncio.create_task(self.comm.write([i, b"x" * 1000]))
            self.assertEqual((await self.peer.read())[0], i)
            await task
        await asyncio.gather(*[self.comm.write(i) for i in range(50)])
        self.assertEqual([await self.peer.read() for _ in range(50)],
                         list(range(50)))

    async def test_writes_before_a_close_arrive(self):
        data = os.urandom(3 << 20)
        await self.comm.write(data)
        closing = asyncio.create_task(self.comm.close())
        self.assertEqual(await self.peer.read(), data)
        await closing
        self.assertTrue(self.comm.closed())
        with self.assertRaises(CommClosedError):
            await self.peer.read()
        with self.assertRaises(CommClosedError):
            await self.peer.write("late")
        self.assertTrue(self.peer.closed())
        with self.assertRaises(CommClosedError):
            await self.comm.read()

    async def test_close_waits_for_a_busy_peer(self):
        peer = subprocess.Popen(
            [sys.executable, "-c", BUSY_PEER, self.listener.contact_address],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        comm = await self.accepted.get()
        data = [b"first", os.urandom(3 << 20), b"last"]
        for one in data:
            await comm.write(one)
        closing = asyncio.create_task(comm.close())
        # Longer than a closed channel continues its transfers.
        done, _ = await asyncio.wait({closing}, timeout=3)
        self.assertFalse(done)
        said, _ = await asyncio.to_thread(peer.communicate, "go on\n")
        await closing
        self.assertEqual(said, "5\n3145728\n4\nclosed\n")

    async def test_close_gives_up_a_silent_peer_and_abort_ends_it(self):
        with dask.config.set({"distributed.comm.timeouts.tcp": "100ms"}):
            await self.comm.write(bytes(3 << 20))
            with self.assertLogs("ucxpool.dask", "WARNING") as logged:
                await self.comm.close()
        self.assertIn("1 messages are lost", logged.output[0])
        comm = await connect(self.listener.contact_address)
        await comm.write(bytes(3 << 20))
        closing = asyncio.create_task(comm.close())
        done, _ = await asyncio.wait({closing}, timeout=0.01)
        self.assertFalse(done)
        comm.abort()
        await closing
        (await self.accepted.get()).abort()

    async def test_messages_after_a_lost_one_are_not_delivered(self):
        peer = subprocess.Popen(
            [sys.executable, "-c", BUSY_PEER, self.listener.contact_address],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        comm = await self.accepted.get()
        await comm.write(b"first")
        await comm.write(bytes(3 << 20))
        long = comm._writes[-1]
        await comm.write(b"last")
        with dask.config.set({"distributed.comm.timeouts.tcp": "10ms"}):
            with self.assertLogs("ucxpool.dask", "WARNING"):
                await comm.close()
        # A closed channel aborts it after CLOSE_TIMEOUT.
        with self.assertRaises(ucxpool.Error):
            await long
        said, _ = await asyncio.to_thread(peer.communicate, "go on\n")
        self.assertEqual(said, "5\nclosed\n")

    async def test_close_ends_reads_on_both_sides(self):
        reads = [asyncio.create_task(one.read())
                 for one in (self.comm, self.peer)]
        await asyncio.sleep(0)
        await self.comm.close()
        for one in reads:
            with self.assertRaises(CommClosedError):
                await one

    async def test_connect_fails_without_a_listener(self):
        with self.assertRaisesRegex(OSError, "ucxpool://127.0.0.1:1"):
            await connect(WHERE + ":1", timeout=0.5)
        with self.assertRaises(ValueError):
            await connect("ucxpool://127.0.0.1", timeout=0.5)

    async def test_connect_fails_after_the_listener_stopped(self):
        self.listener.stop()
        with self.assertRaises(OSError):
            await connect(self.listener.contact_address, timeout=0.5)
        await self.comm.write("goes on")
        self.assertEqual(await self.peer.read(), "goes on")

    async def test_all_comms_share_one_pool(self):
        comms = [await connect(self.listener.contact_address)
                 for _ in range(20)]
        self.assertEqual(ucxpool.dask.pool().info()["channels"], 42)
        for comm in comms:
            await comm.close()
            await (await self.accepted.get()).close()

    async def test_pool_settings_come_from_dask(self):
        with dask.config.set({"distributed.comm.ucxpool": {
                "comm-size": "4MiB", "block_size": "64k", "secret": "s" * 32}}):
            said = ucxpool.dask.settings()
        self.assertEqual((said["comm_size"], said["block_size"],
                          said["secret"]), (4 << 20, "64k", b"s" * 32))
        with dask.config.set({"distributed.comm.ucxpool": {"no-such": 1}}):
            with self.assertRaises(ucxpool.InvalidParameterError):
                ucxpool.Pool(**ucxpool.dask.settings()).close()

    async def test_many_handshakes_at_once(self):
        """As many connect as a large cluster has workers that start at
        once."""
        loop = asyncio.get_running_loop()
        where = get_address_host_port(self.listener.contact_address)
        with contextlib.ExitStack() as ends:
            slow = []
            for _ in range(200):
                slow.append(ends.enter_context(socket.socket()))
                slow[-1].setblocking(False)
                await loop.sock_connect(slow[-1], where)
            # Later peers are accepted after them.
            comm = await connect(self.listener.contact_address)
            for one in slow:
                with self.assertRaises(BlockingIOError):
                    one.recv(1)
            comm.abort()
            (await self.accepted.get()).abort()

    async def test_handshake_may_take_as_long_as_a_connect(self):
        for connect, expected in (("30s", "30000ms"), ("0.5s", "500ms"),
                                  (2, "2000ms"), ("1us", "1ms"),
                                  ("5h", "3600000ms")):
            with dask.config.set({"distributed.comm.timeouts.connect": connect}):
                said = ucxpool.dask.settings()
            self.assertEqual(said["handshake_timeout"], expected)
            ucxpool.Pool(**said).close()
        with dask.config.set(
                {"distributed.comm.ucxpool.handshake-timeout": "7s"}):
            self.assertEqual(ucxpool.dask.settings()["handshake_timeout"],
                             "7s")


def dask_serialize(array):
    from distributed.protocol import to_serialize
    return to_serialize(array)


class InOneProcess(unittest.TestCase):
    """Uses gen_cluster: a scheduler, two workers and a client in one event
    loop."""

    @on_cluster()
    async def test_map_and_gather(self, client, scheduler, a, b):
        self.assertTrue(scheduler.address.startswith("ucxpool://"))
        self.assertTrue(a.address.startswith("ucxpool://"))
        futures = client.map(inc, range(100))
        self.assertEqual(await client.gather(futures), list(range(1, 101)))

    @on_cluster()
    async def test_arrays_move_between_workers(self, client, scheduler, a, b):
        x = client.submit(numpy.arange, 1000000, workers=[a.address])
        y = client.submit(numpy.sum, x, workers=[b.address])
        self.assertEqual(await y, sum(range(1000000)))

    @on_cluster()
    async def test_failing_task_raises(self, client, scheduler, a, b):
        with self.assertRaises(ZeroDivisionError):
            await client.submit(lambda: 1 / 0)

    @on_cluster()
    async def test_results_survive_a_closed_worker(
            self, client, scheduler, a, b):
        futures = client.map(inc, range(20))
        await wait(futures)
        await a.close()
        self.assertEqual(await client.gather(futures), list(range(1, 21)))


def slow_block(i):
    time.sleep(0.05)
    return numpy.full(200000, i, dtype=numpy.int64)


def end_of(worker_pid):
    os.kill(worker_pid, signal.SIGKILL)


class Clusters(unittest.TestCase):
    """Clusters of several processes."""

    def cluster(self, **words):
        return LocalCluster(n_workers=2, threads_per_worker=1,
                            protocol="ucxpool", dashboard_address=None,
                            silence_logs=50, **words)

    def test_arrays_and_frames(self):
        with self.cluster() as cluster, Client(cluster) as client:
            self.assertTrue(
                cluster.scheduler_address.startswith("ucxpool://"))
            array = numpy.random.default_rng(1).random(1 << 20)
            future = client.scatter(array, broadcast=True)
            numpy.testing.assert_array_equal(client.gather(future), array)
            parts = client.map(slow_block, range(8))
            total = client.submit(lambda all: sum(int(one.sum())
                                                  for one in all), parts)
            self.assertEqual(total.result(), 200000 * sum(range(8)))

    def test_killed_worker_is_detected_and_its_work_redone(self):
        with self.cluster() as cluster, Client(cluster) as client:
            pids = client.run(os.getpid)
            parts = client.map(slow_block, range(20), pure=False)
            wait(parts[:4])
            end_of(sorted(pids.values())[0])
            total = client.submit(lambda all: sum(int(one.sum())
                                                  for one in all), parts)
            self.assertEqual(total.result(timeout=1800),
                             200000 * sum(range(20)))

    def test_resident_memory_of_a_worker_with_16_peers(self):
        with LocalCluster(n_workers=17, threads_per_worker=1, processes=True,
                          protocol="ucxpool", dashboard_address=None,
                          silence_logs=50) as cluster, \
                Client(cluster) as client:
            workers = list(client.scheduler_info(n_workers=-1)["workers"])
            self.assertEqual(len(workers), 17)
            before = client.run(mapped_blocks)
            data = [client.submit(numpy.ones, 1 << 20, workers=[one],
                                  pure=False) for one in workers]
            sums = [client.submit(lambda *all: sum(float(one.sum())
                                                   for one in all), *data,
                                  workers=[one], pure=False)
                    for one in workers[:2]]
            self.assertEqual(client.gather(sums), [17. * (1 << 20)] * 2)
            after = client.run(mapped_blocks)
            self.assertGreater(max(after.values()), max(before.values()))
            self.assertLess(max(after.values()), 256 << 20)

    def test_command_line_accepts_a_secret(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        where = os.path.join(folder, "scheduler.json")
        secret = os.path.join(folder, "secret")
        with open(os.open(secret, os.O_WRONLY | os.O_CREAT, 0o600),
                  "w") as file:
            file.write("0123456789abcdef" * 4)
        variables = {**os.environ,
                     "DASK_DISTRIBUTED__COMM__UCXPOOL__SECRET_FILE": secret}
        with contextlib.ExitStack() as ends:
            for words in (["scheduler", "--protocol", "ucxpool", "--host",
                           "127.0.0.1", "--port", "0"], ["worker"]):
                process = subprocess.Popen(
                    [sys.executable, "-m", "dask", *words,
                     "--no-dashboard", "--scheduler-file", where],
                    cwd=folder, env=variables, stderr=subprocess.DEVNULL)
                ends.callback(process.wait)
                ends.callback(process.terminate)
            ends.enter_context(dask.config.set(
                {"distributed.comm.ucxpool.secret-file": secret}))
            client = ends.enter_context(
                Client(scheduler_file=where, timeout=1800))
            client.wait_for_workers(1, timeout=1800)
            address = client.submit(
                lambda: get_worker().address).result(timeout=1800)
            self.assertTrue(address.startswith("ucxpool://"))

    def test_without_host_and_secret_it_listens_on_loopback(self):
        async def start():
            with self.assertLogs("ucxpool.dask", "WARNING") as said:
                async with listen("ucxpool://", None) as listener:
                    self.assertRegex(listener.contact_address,
                                     r"^ucxpool://127\.0\.0\.1:\d+$")
            self.assertIn("secret-file", said.output[0])

        asyncio.run(start())

    def test_error_without_a_secret_says_what_to_set(self):
        async def start():
            async with listen("ucxpool://0.0.0.0:0", None):
                pass

        with self.assertRaisesRegex(PermissionError, "--host 127.0.0.1"):
            asyncio.run(start())


def mapped_blocks():
    """Return the resident bytes of the blocks of this pool and of its
    peers."""
    resident, ours = 0, False
    with open("/proc/self/smaps") as maps:
        for line in maps:
            if "-" in line.split()[0] and ":" not in line.split()[0]:
                ours = "memfd:ucxpool" in line
            elif ours and line.startswith("Rss:"):
                resident += int(line.split()[1]) * 1024
    return resident


if __name__ == "__main__":
    unittest.main()
