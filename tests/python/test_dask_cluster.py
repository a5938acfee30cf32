"""Tests clients, schedulers, workers, shuffles and failures of Dask on
ucxpool://, with distributed's gen_cluster. A killed worker must be detected
through its connections: checks for missing heartbeats and the pool's
peer-timeout are off here."""
import asyncio
import itertools
import multiprocessing
import os
import random
import signal
import tempfile
import unittest
from unittest import mock

os.environ["DASK_DISTRIBUTED__COMM__DEFAULT_SCHEME"] = "ucxpool"

import dask
import dask.array
import dask.dataframe
import numpy
import pandas
from distributed import (Actor, Client, Event, Lock, Nanny, Queue, Scheduler,
                         Security, Semaphore, Variable, Worker, as_completed,
                         get_client, get_worker, wait)
from distributed.comm import CommClosedError, connect, listen
from distributed.core import Status, rpc
from distributed.diagnostics.plugin import SchedulerPlugin, WorkerPlugin
from distributed.scheduler import KilledWorker
from distributed.utils_test import BlockedGetData, BlockedGatherDep, dec, inc

import ucxpool.dask
from clusters import on_cluster

PREFIX = "ucxpool://"
ONE_EACH = [("127.0.0.1", 1)] * 2
FAILURES = {"distributed.comm.ucxpool.peer-timeout": "inf",
            # Dask tries to connect to a dead worker for this long.
            "distributed.comm.timeouts.connect": "5s",
            "distributed.scheduler.worker-ttl": None}


def silent_nannies(test):
    """Keep nannies from reporting to the scheduler that their worker has
    ended."""
    return mock.patch.object(Nanny, "_unregister", mock.AsyncMock())(test)


async def until(what):
    """Wait until the condition is true. gen_cluster ends a wait that takes too
    long."""
    while not what():
        await asyncio.sleep(0.01)


class Removals(SchedulerPlugin):
    """Records when workers are removed from the scheduler, by address."""

    def __init__(self, scheduler):
        self.removed = {address: asyncio.Event()
                        for address in scheduler.workers}
        scheduler.add_plugin(self, name="removals")

    def add_worker(self, scheduler, worker):
        self.removed.setdefault(worker, asyncio.Event())

    def remove_worker(self, scheduler, worker, **words):
        self.removed[worker].set()


class Clients(unittest.TestCase):
    @on_cluster()
    async def test_all_comms_use_the_pool(self, client, scheduler, a, b):
        await client.submit(sum, client.map(inc, range(4)))
        pool = ucxpool.dask.pool()
        for one in (client, scheduler, a, b):
            self.assertTrue(one.scheduler.address.startswith(PREFIX)
                            if one is client
                            else one.address.startswith(PREFIX))
        self.assertGreaterEqual(pool.info()["channels"], 6)
        comm = a.batched_stream.comm
        self.assertIsInstance(comm, ucxpool.dask.UcxPool)
        self.assertEqual(comm.extra_info["wire"], "map")

    @on_cluster()
    async def test_scatter_and_gather(self, client, scheduler, a, b):
        arrays = [numpy.random.default_rng(i).random(100000)
                  for i in range(10)]
        futures = await client.scatter(arrays)
        for one, two in zip(arrays, await client.gather(futures)):
            numpy.testing.assert_array_equal(one, two)
        [everywhere] = await client.scatter([arrays[0]], broadcast=True)
        self.assertEqual(
            {ws.address for ws in scheduler.tasks[everywhere.key].who_has},
            {a.address, b.address})

    @on_cluster()
    async def test_scatter_through_the_scheduler(
            self, client, scheduler, a, b):
        data = {"x": numpy.arange(1000), "y": "text"}
        future = await client.scatter(data, direct=False)
        got = await client.gather(future, direct=False)
        self.assertEqual(got["y"], "text")
        numpy.testing.assert_array_equal(got["x"], data["x"])

    @on_cluster()
    async def test_results_as_they_complete(self, client, scheduler, a, b):
        futures = client.map(inc, range(50))
        got = [result async for _, result in as_completed(
            futures, with_results=True)]
        self.assertEqual(sorted(got), list(range(1, 51)))

    @on_cluster()
    async def test_an_exception_and_its_traceback(
            self, client, scheduler, a, b):
        future = client.submit(lambda: 1 / 0)
        after = client.submit(inc, future)
        with self.assertRaises(ZeroDivisionError):
            await after
        self.assertIsInstance(await future.exception(), ZeroDivisionError)
        self.assertIsNotNone(await future.traceback())

    @on_cluster()
    async def test_dropped_futures_are_forgotten(
            self, client, scheduler, a, b):
        future = client.submit(inc, 1)
        key = future.key
        await future
        del future
        await until(lambda: key not in scheduler.tasks
                    and not a.data and not b.data)

    @on_cluster()
    async def test_task_is_cancelled(self, client, scheduler, a, b):
        gate = Event("gate")
        future = client.submit(lambda: Event("gate").wait())
        await until(lambda: a.state.executing or b.state.executing)
        await future.cancel()
        self.assertTrue(future.cancelled())
        await gate.set()

    @on_cluster()
    async def test_functions_on_workers_and_the_scheduler(
            self, client, scheduler, a, b):
        self.assertEqual(await client.run(lambda dask_worker:
                                          dask_worker.address),
                         {one.address: one.address for one in (a, b)})
        self.assertEqual(await client.run_on_scheduler(
            lambda dask_scheduler: dask_scheduler.address),
            scheduler.address)

    @on_cluster()
    async def test_clients_share_datasets_variables_and_queues(
            self, client, scheduler, a, b):
        async with Client(scheduler.address, asynchronous=True) as other:
            await client.publish_dataset(numbers=client.submit(inc, 1))
            self.assertEqual(await (await other.get_dataset("numbers")), 2)
            one, two = (Variable("v", client=each)
                        for each in (client, other))
            await one.set(client.submit(inc, 2))
            self.assertEqual(await (await two.get()), 3)
            one, two = [await Queue("q", client=each)
                        for each in (client, other)]
            await one.put("word")
            self.assertEqual(await two.get(), "word")

    @on_cluster()
    async def test_locks_and_semaphores_of_tasks(
            self, client, scheduler, a, b):
        def alone(i):
            with Lock("lock"), Semaphore(name="s", max_leases=1):
                worker = get_worker()
                before, worker.inside = getattr(worker, "inside", 0), 1
                worker.inside = before
                return before

        self.assertEqual(await client.gather(client.map(alone, range(6))),
                         [0] * 6)

    @on_cluster()
    async def test_a_task_that_submits_tasks(self, client, scheduler, a, b):
        def many(n):
            with_tasks = get_client()
            return sum(with_tasks.gather(with_tasks.map(inc, range(n))))

        self.assertEqual(await client.submit(many, 10), 55)

    @on_cluster()
    async def test_an_actor(self, client, scheduler, a, b):
        class Counter:
            n = 0

            def add(self, by):
                self.n += by
                return self.n

        counter = await client.submit(Counter, actor=True,
                                      workers=[a.address])
        self.assertIsInstance(counter, Actor)
        for _ in range(3):
            last = await counter.add(2)
        self.assertEqual(last, 6)
        self.assertEqual(await client.submit(
            lambda one: one.add(1).result(), counter, workers=[b.address]),
            7)

    @on_cluster()
    async def test_large_arguments_and_graphs(self, client, scheduler, a, b):
        data = os.urandom(3 << 20)
        self.assertEqual(await client.submit(len, data), len(data))
        x = dask.array.random.default_rng(1).random((300, 300),
                                                    chunks=(100, 100))
        y = (x @ x.T).sum()
        self.assertAlmostEqual(
            await client.compute(y), y.compute(scheduler="sync"), places=3)

    @on_cluster(client=False)
    async def test_lost_client_reconnects_and_closed_one_is_forgotten(
            self, scheduler, a, b):
        async with Client(scheduler.address, asynchronous=True) as client:
            await client.submit(inc, 1)
            self.assertIn(client.id, scheduler.clients)
            before = client.scheduler_comm
            before.comm.abort()
            # The client reconnects by itself.
            await until(lambda: client.scheduler_comm not in (None, before)
                        and client.status == "running")
            self.assertEqual(await client.submit(inc, 2), 3)
        await until(lambda: set(scheduler.clients) <= {"fire-and-forget"})

    @on_cluster(client=False, config={"distributed.comm.timeouts.connect":
                                      "200ms"})
    async def test_client_fails_without_a_scheduler(self, scheduler, a, b):
        with self.assertRaisesRegex(OSError, "Timed out trying to connect"):
            await Client("ucxpool://127.0.0.1:1", asynchronous=True,
                         timeout="200ms")


class Workers(unittest.TestCase):
    @on_cluster(nthreads=ONE_EACH)
    async def test_results_move_between_workers_in_one_transfer(
            self, client, scheduler, a, b):
        value = {"x": numpy.arange(300000), "y": b"bytes" * 10000,
                 "z": pandas.DataFrame({"w": range(1000)})}
        x = client.submit(lambda: value, workers=[a.address])
        y = client.submit(lambda one: (int(one["x"].sum()), len(one["y"]),
                                       int(one["z"].w.sum())), x,
                          workers=[b.address])
        self.assertEqual(await y, (sum(range(300000)), 50000,
                                   sum(range(1000))))
        self.assertEqual(b.state.transfer_incoming_count_total, 1)
        self.assertEqual(a.transfer_outgoing_count_total, 1)

    @on_cluster(nthreads=[("127.0.0.1", 1)] * 4)
    async def test_every_worker_reads_from_every_other(
            self, client, scheduler, *workers):
        def part(i):
            Event("go").wait()
            return numpy.full(50000, i)

        parts = [client.submit(part, i, workers=[one.address])
                 for i, one in enumerate(workers)]
        sums = [client.submit(lambda *all: sum(int(part.sum())
                                               for part in all), *parts,
                              workers=[one.address], pure=False)
                for one in workers]
        # All sums begin at once. A later one might read several parts from one
        # worker.
        await until(lambda: all(one.key in scheduler.tasks for one in sums))
        await Event("go").set()
        self.assertEqual(await client.gather(sums), [300000] * 4)
        for one in workers:
            self.assertEqual(one.state.transfer_incoming_count_total, 3)

    @on_cluster()
    async def test_data_is_replicated_balanced_and_retired(
            self, client, scheduler, a, b):
        futures = client.map(lambda i: numpy.full(10000, i), range(10),
                             workers=[a.address])
        await wait(futures)
        await client.replicate(futures[:2], n=2)
        self.assertEqual(len(scheduler.tasks[futures[0].key].who_has), 2)
        await client.retire_workers([a.address])
        self.assertEqual(set(scheduler.workers), {b.address})
        self.assertEqual([int(one[0]) for one in
                          await client.gather(futures)], list(range(10)))

    @on_cluster(nthreads=[],
                config={"distributed.comm.ucxpool.secret": "s" * 32})
    async def test_worker_without_host_is_reachable_by_its_scheduler(
            self, client, scheduler):
        """As with tcp://. It listens on all addresses, because there is a
        secret."""
        for name in ("first", "second"):
            async with Worker(scheduler.address, name=name) as worker:
                self.assertEqual(worker.ip, "127.0.0.1")
                self.assertEqual(worker.listener.get_host_port()[0],
                                 "0.0.0.0")
                self.assertEqual(await client.submit(inc, 1, pure=False), 2)

    @on_cluster(nthreads=[])
    async def test_host_interface_and_contact_address(self, client, scheduler):
        for kind in (Worker, Nanny):
            async with kind(scheduler.address, interface="lo") as one:
                self.assertRegex(
                    one.address if kind is Worker else one.worker_address,
                    r"^ucxpool://127\.0\.0\.1:\d+$")
        async with Worker(scheduler.address, host="127.0.0.2") as one:
            self.assertRegex(one.address, r"^ucxpool://127\.0\.0\.2:\d+$")
            self.assertEqual(await client.submit(inc, 1), 2)
            async with Worker(
                    scheduler.address, host="127.0.0.3", port=0,
                    contact_address=one.address.replace(
                        "127.0.0.2", "127.0.0.1")) as two:
                self.assertRegex(two.contact_address,
                                 r"^ucxpool://127\.0\.0\.1:\d+$")

    @on_cluster(nthreads=[])
    async def test_ports_and_local_directories(self, client, scheduler):
        with tempfile.TemporaryDirectory() as folder:
            async with Worker(scheduler.address, host="127.0.0.1",
                              port="20000:40000",
                              local_directory=folder) as one, \
                    Worker(scheduler.address, host="127.0.0.1",
                           port="20000:40000",
                           local_directory=folder) as two:
                self.assertNotEqual(one.port, two.port)
                for each in (one, two):
                    self.assertTrue(20000 <= each.port <= 40000)
                    self.assertTrue(each.local_directory.startswith(folder))

    @on_cluster(nthreads=[])
    async def test_worker_fails_without_a_scheduler(self, client, scheduler):
        with self.assertRaises(asyncio.TimeoutError):
            await Worker("ucxpool://127.0.0.1:1", death_timeout=0.1)

    @on_cluster()
    async def test_heartbeats_and_plugins(self, client, scheduler, a, b):
        seen = scheduler.workers[a.address].last_seen
        await a.heartbeat()
        self.assertGreater(scheduler.workers[a.address].last_seen, seen)

        class Plugin(WorkerPlugin):
            def setup(self, worker):
                worker.was_set_up = True

        await client.register_plugin(Plugin())
        self.assertTrue(a.was_set_up and b.was_set_up)

    @on_cluster(client=False)
    async def test_calls_between_servers(self, scheduler, a, b):
        async with rpc(a.address) as one:
            answers = await asyncio.gather(*[one.identity()
                                             for _ in range(20)])
            self.assertEqual({answer["id"] for answer in answers}, {a.id})
        got = await scheduler.broadcast(msg={"op": "ping"})
        self.assertEqual(got, {a.address: b"pong", b.address: b"pong"})


class Schedulers(unittest.TestCase):
    @on_cluster(client=False, nthreads=[])
    async def test_scheduler_address_and_file(self, scheduler):
        with tempfile.NamedTemporaryFile() as file:
            async with Scheduler(protocol="ucxpool", host="127.0.0.1",
                                 port=0, dashboard_address=":0",
                                 scheduler_file=file.name) as other:
                self.assertRegex(other.address,
                                 r"^ucxpool://127\.0\.0\.1:\d+$")
                async with Worker(scheduler_file=file.name), \
                        Client(scheduler_file=file.name,
                               asynchronous=True) as client:
                    self.assertEqual(await client.submit(inc, 1), 2)

    @on_cluster(client=False, nthreads=[])
    async def test_scheduler_on_an_interface(self, scheduler):
        async with Scheduler(protocol="ucxpool://", interface="lo", port=0,
                             dashboard_address=":0") as other:
            self.assertRegex(other.address, r"^ucxpool://127\.0\.0\.1:\d+$")

    @on_cluster(client=False, nthreads=[])
    async def test_scheduler_with_two_protocols(self, scheduler):
        """A scheduler has workers with either protocol, and all of them
        communicate."""
        async with Scheduler(protocol=["ucxpool", "tcp"],
                             host=["127.0.0.1"] * 2, port=[0, 0],
                             dashboard_address=":0") as other:
            ours, tcp = (one.contact_address for one in other.listeners)
            self.assertTrue(ours.startswith(PREFIX))
            async with Worker(ours) as a, Worker(tcp) as b, \
                    Client(tcp, asynchronous=True) as client:
                self.assertTrue(a.address.startswith(PREFIX))
                self.assertTrue(b.address.startswith("tcp://"))
                x = client.submit(numpy.arange, 100000,
                                  workers=[a.address])
                y = client.submit(numpy.negative, x, workers=[b.address])
                z = client.submit(numpy.sum, y, workers=[a.address])
                self.assertEqual(await z, -sum(range(100000)))

    @on_cluster()
    async def test_closing_the_scheduler_ends_workers_and_clients(
            self, client, scheduler, a, b):
        future = client.submit(inc, 1)
        await future
        await scheduler.close()
        await asyncio.gather(a.finished(), b.finished())
        self.assertEqual({a.status, b.status}, {Status.closed})
        await client.close()

    @on_cluster(nthreads=[("127.0.0.1", 1)] * 3)
    async def test_idle_workers_steal_work(
            self, client, scheduler, a, *others):
        def slow(i, gate):
            Event(gate).wait()
            return i

        gate = Event("go")
        futures = client.map(slow, range(30), gate="go",
                             workers=[a.address], allow_other_workers=True)
        await until(lambda: any(one.state.executing for one in others))
        await gate.set()
        self.assertEqual(await client.gather(futures), list(range(30)))

    @on_cluster(client=False, nthreads=[],
                config={"distributed.comm.require-encryption": None})
    async def test_required_encryption_is_refused_by_all(self, scheduler):
        needed = Security(require_encryption=True)
        for start in (
                lambda: Scheduler(protocol="ucxpool", security=needed,
                                  host="127.0.0.1", port=0,
                                  dashboard_address=":0"),
                lambda: Client(scheduler.address, security=needed,
                               asynchronous=True),
                lambda: Worker(scheduler.address, security=needed)):
            with self.assertRaises(RuntimeError) as said:
                await start()
            self.assertIn("encryption required", str(
                said.exception.__cause__ or said.exception))


def frame():
    """Return 3 partitions for each of 4 days, and the data that a shuffle must
    keep."""
    return dask.datasets.timeseries(
        start="2000-01-01", end="2000-01-05", freq="60s",
        partition_freq="8h", dtypes={"x": float, "y": float, "n": int},
        seed=7)


def mark(part):
    """Add a number that is unique to the partition."""
    return part.assign(mark=random.getrandbits(62))


def by_rows(data):
    return data.sort_values(list(data.columns)).reset_index(drop=True)


def p2p(**words):
    return dask.config.set({"dataframe.shuffle.method": "p2p", **words})


class Shuffles(unittest.TestCase):
    async def check(self, client, scheduler, on_disk=True, meanwhile=None):
        """Check that every row exists once, and that rows with the same key
        are together."""
        data = frame()
        with p2p(**{"distributed.p2p.storage.disk": on_disk}):
            out = data.shuffle("n", force=True)
        marked = client.compute(out.map_partitions(
            mark, meta=mark(data._meta)))
        if meanwhile is not None:
            await meanwhile()
        got = await marked
        self.assertEqual(set(got.groupby("n").mark.nunique()), {1})
        pandas.testing.assert_frame_equal(
            by_rows(got.drop(columns="mark")),
            by_rows(data.compute(scheduler="sync")))
        plugin = scheduler.plugins["shuffle"]
        await until(lambda: not plugin.active_shuffles)

    @on_cluster()
    async def test_shuffle_on_disk(self, client, scheduler, a, b):
        await self.check(client, scheduler)

    @on_cluster(nthreads=[("127.0.0.1", 1)] * 4)
    async def test_shuffle_in_memory_of_four_workers(
            self, client, scheduler, *workers):
        await self.check(client, scheduler, on_disk=False)

    @on_cluster()
    async def test_two_shuffles_at_once_and_a_merge(
            self, client, scheduler, a, b):
        with p2p():
            left, right = frame(), frame()[["n", "x"]].rename(
                columns={"x": "other"})
            left = left[left.n < 960]
            right = right[right.n < 960]
            merged = left.merge(right, on="n", how="inner")
        got = await client.compute(merged)
        expected = left.compute(scheduler="sync").merge(
            right.compute(scheduler="sync"), on="n", how="inner")
        pandas.testing.assert_frame_equal(by_rows(got), by_rows(expected))

    @on_cluster()
    async def test_arrays_are_rechunked(self, client, scheduler, a, b):
        data = numpy.random.default_rng(3).random((300, 300))
        with dask.config.set({"array.rechunk.method": "p2p"}):
            x = dask.array.from_array(data, chunks=(300, 30)).rechunk(
                (30, 300))
        numpy.testing.assert_array_equal(await client.compute(x), data)

    @on_cluster(nthreads=ONE_EACH, config=FAILURES)
    async def test_worker_closes_during_a_shuffle(
            self, client, scheduler, a, b):
        async def close():
            # Its output is lost.
            await until(lambda: any(
                key.startswith("shuffle-barrier") and task.state == "memory"
                for key, task in scheduler.tasks.items()
                if isinstance(key, str)))
            await b.close()

        await self.check(client, scheduler, meanwhile=close)

    @silent_nannies
    @on_cluster(nthreads=ONE_EACH[:1], config=FAILURES)
    async def test_worker_is_killed_during_a_shuffle(
            self, client, scheduler, a):
        nanny = await Nanny(scheduler.address, nthreads=1)

        async def kill():
            removals = Removals(scheduler)
            its = nanny.worker_address
            runs = a.plugins["shuffle"].shuffle_runs
            # Wait until the other worker has sent it rows.
            await until(lambda: any(run.total_recvd for run in
                                    runs._active_runs.values()))
            os.kill(nanny.pid, signal.SIGKILL)
            await removals.removed[its].wait()

        try:
            await self.check(client, scheduler, meanwhile=kill)
        finally:
            await nanny.close()


class Failures(unittest.TestCase):
    @on_cluster(config=FAILURES)
    async def test_results_of_a_lost_worker_are_recomputed(
            self, client, scheduler, a, b):
        removals = Removals(scheduler)
        futures = client.map(inc, range(20))
        await wait(futures)
        # Its connection to the scheduler breaks.
        a.periodic_callbacks["heartbeat"].stop()
        a.batched_stream.comm.abort()
        await removals.removed[a.address].wait()
        self.assertEqual(await client.submit(sum, futures),
                         sum(range(1, 21)))

    @silent_nannies
    @on_cluster(Worker=Nanny, nthreads=ONE_EACH, config=FAILURES)
    async def test_killed_worker_is_replaced_and_its_work_redone(
            self, client, scheduler, a, b):
        removals = Removals(scheduler)
        futures = client.map(lambda i: numpy.full(50000, i), range(10))
        await wait(futures)
        before = a.worker_address
        wire = await client.run(
            lambda dask_worker:
            dask_worker.batched_stream.comm.extra_info["wire"])
        self.assertEqual(set(wire.values()), {"map"})
        os.kill(a.pid, signal.SIGKILL)
        await removals.removed[before].wait()
        total = client.submit(lambda parts: sum(int(part[0])
                                                for part in parts), futures)
        self.assertEqual(await total, 45)
        await until(lambda: a.worker_address in scheduler.workers
                    and a.worker_address != before)

    @silent_nannies
    @on_cluster(Worker=Nanny, nthreads=ONE_EACH,
                config={**FAILURES,
                        "distributed.scheduler.allowed-failures": 0})
    async def test_task_kills_its_worker(self, client, scheduler, a, b):
        with self.assertRaises(KilledWorker):
            await client.submit(os._exit, 1)
        await client.wait_for_workers(2)
        self.assertEqual(await client.submit(inc, 1), 2)

    @silent_nannies
    @on_cluster(nthreads=ONE_EACH[:1], config=FAILURES)
    async def test_peer_is_killed_while_data_is_fetched(
            self, client, scheduler, a):
        async with Nanny(scheduler.address, nthreads=1,
                         worker_class=BlockedGetData) as nanny:
            removals = Removals(scheduler)
            its = nanny.worker_address
            x = client.submit(numpy.arange, 1000, workers=[its],
                              allow_other_workers=True)
            await wait(x)
            y = client.submit(numpy.sum, x, workers=[a.address])
            await until(lambda: a.state.in_flight_workers)
            os.kill(nanny.pid, signal.SIGKILL)
            await removals.removed[its].wait()
            self.assertEqual(await y, sum(range(1000)))
            self.assertNotIn(its, a.state.has_what)

    @on_cluster(config=FAILURES, Worker=BlockedGatherDep, nthreads=ONE_EACH)
    async def test_peer_closes_before_data_is_fetched(
            self, client, scheduler, a, b):
        x = client.submit(numpy.arange, 1000, workers=[b.address],
                          allow_other_workers=True)
        await wait(x)
        y = client.submit(numpy.sum, x, workers=[a.address])
        await a.in_gather_dep.wait()
        await b.close()
        a.block_gather_dep.set()
        self.assertEqual(await y, sum(range(1000)))

    @on_cluster(Worker=Nanny, nthreads=ONE_EACH, config=FAILURES)
    async def test_cluster_restarts(self, client, scheduler, a, b):
        pids = a.pid, b.pid
        future = client.submit(inc, 1)
        await future
        await client.restart()
        self.assertTrue(future.cancelled())
        self.assertFalse({a.pid, b.pid} & set(pids))
        self.assertEqual(await client.submit(dec, 1), 0)


def hold_still(address, stage):
    """A peer that connects, performs its stage, and hangs."""
    async def run():
        comm = await connect(address)
        if stage == "written":
            await comm.write("hello")
        elif stage == "reading":
            await comm.read()
        await asyncio.Event().wait()

    with dask.config.set(FAILURES):
        asyncio.run(run())


class KilledPeers(unittest.IsolatedAsyncioTestCase):
    """A killed peer is detected at once over the wire map, through the
    connection alone."""

    async def check(self, stage, act):
        with dask.config.set(FAILURES):
            accepted = asyncio.Queue()
            async with listen("ucxpool://127.0.0.1",
                              accepted.put) as listener:
                peer = multiprocessing.get_context("spawn").Process(
                    target=hold_still,
                    args=(listener.contact_address, stage))
                peer.start()
                gone = asyncio.create_task(asyncio.to_thread(peer.join))
                here = asyncio.create_task(accepted.get())
                try:
                    await asyncio.wait([here, gone],
                                       return_when=asyncio.FIRST_COMPLETED)
                    self.assertTrue(here.done(), "the peer has ended")
                    comm = here.result()
                    self.assertEqual(comm.extra_info["wire"], "map")
                    await act(comm, peer)
                    self.assertTrue(comm.closed())
                finally:
                    peer.kill()
                    await gone
                    here.cancel()

    async def test_killed_peer_ends_a_read(self):
        async def act(comm, peer):
            self.assertEqual(await comm.read(), "hello")
            read = asyncio.create_task(comm.read())
            await asyncio.sleep(0)
            peer.kill()
            with self.assertRaises(CommClosedError):
                await read

        await self.check("written", act)

    async def test_killed_peer_ends_writes(self):
        async def act(comm, peer):
            async def write_on():
                for _ in itertools.count():
                    await comm.write({"data": b"x" * (1 << 20)})

            write = asyncio.create_task(write_on())
            while len(comm._writes) < ucxpool.dask.MAX_WRITES:
                await asyncio.sleep(0)
            peer.kill()
            with self.assertRaises(CommClosedError):
                await write

        await self.check("reading", act)

    async def test_killed_peer_is_detected_without_calls(self):
        async def act(comm, peer):
            peer.kill()
            while not comm.closed():
                await asyncio.sleep(0.01)

        await self.check("", act)


if __name__ == "__main__":
    unittest.main()
