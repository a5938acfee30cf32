"""The plugin on a standalone cluster, with a master and two workers as users start
them: results, barrier stages, dynamic allocation, decommissioning, and Spark's
shuffle service."""
import os
import pathlib
import signal
import tempfile
import threading
import unittest

from pyspark import BarrierTaskContext

import queries
from cluster import PLUGIN
from executors import End, folder_of, shuffle_files
from ports import free_port
from standalone import Standalone

# By default, Spark reads the files of other executors on the same host itself.
REMOTE = {"spark.shuffle.readHostLocalDisk": "false"}
DECOMMISSION = {"spark.decommission.enabled": "true",
                "spark.storage.decommission.enabled": "true",
                "spark.storage.decommission.shuffleBlocks.enabled": "true"}
QUERIES = [queries.sort, queries.group, queries.join]


class Shuffle:
    """A shuffle that counts the rows that were mapped. With a directory, the map of
    the first row opens the pipe "reached" there, and continues when the pipe "go"
    is opened."""

    MAPS = 8
    ROWS = 1000
    SUMS = [sum(range(0, ROWS, 2)), sum(range(1, ROWS, 2))]

    def __init__(self, cluster, folder=None):
        self.context = cluster.spark.sparkContext
        self.mapped = mapped = self.context.accumulator(0)
        if folder is not None:
            for name in ("reached", "go"):
                os.mkfifo(f"{folder}/{name}")

        def to_pair(number):
            if folder is not None and number == 0:
                open(f"{folder}/reached", "w").close()
                open(f"{folder}/go").close()
            mapped.add(1)
            return number % 2 + 1, number

        # The first of three partitions has no rows.
        self.pairs = (self.context.parallelize(range(self.ROWS), self.MAPS)
                      .map(to_pair).partitionBy(3, lambda key: key))

    def map(self):
        """Run the maps without reading a block."""
        self.context.runJob(self.pairs, lambda rows: [len(list(rows))], [0])

    def sums(self):
        return self.context.runJob(
            self.pairs,
            lambda rows: [sum(value for key, value in rows)], [1, 2])

    def sums_in_a_barrier_stage(self):
        def meet_and_sum(rows):
            BarrierTaskContext.get().barrier()
            yield sum(value for key, value in rows)

        return self.pairs.barrier().mapPartitions(meet_and_sum).collect()[1:]


def counters_of(cluster, executors):
    """The sums of the block counters of these executors."""
    told = {}
    while not told.keys() >= set(executors):
        told = cluster.counters(len(executors))
    return {name: sum(told[executor][name] for executor in executors)
            for name in ("fetchedBlocks", "nettyBlocks", "failedBlocks")}


class OnStandalone(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.service = free_port()
        cls.cluster = Standalone()
        cls.addClassCleanup(cls.cluster.end)
        # The executors of both workers are on one host, so they use the shuffle
        # service of the first worker.
        workers = [
            cls.cluster.add_worker("one", cores=2, settings={
                "spark.shuffle.service.enabled": "true",
                "spark.shuffle.service.port": cls.service}),
            cls.cluster.add_worker("two")]
        for worker in workers:
            worker.says("Successfully registered with master")
        with cls.cluster.application({}) as cluster:
            cls.wanted = [query(cluster.spark).collect() for query in QUERIES]

    def run_queries(self, cluster):
        for query, wanted in zip(QUERIES, self.wanted):
            self.assertEqual(query(cluster.spark).collect(), wanted,
                             query.__name__)

    def check_all_went_over_the_pool(self, counted):
        self.assertGreater(counted["fetchedBlocks"], 0)
        self.assertEqual(counted["nettyBlocks"], 0)
        self.assertEqual(counted["failedBlocks"], 0)

    def test_results_match_netty(self):
        with self.cluster.application({**PLUGIN, **REMOTE},
                                      executors=3) as cluster:
            self.run_queries(cluster)
            first = counters_of(cluster, range(3))
            self.check_all_went_over_the_pool(first)

            self.assertEqual(Shuffle(cluster).sums_in_a_barrier_stage(),
                             Shuffle.SUMS)
            both = counters_of(cluster, range(3))
            self.check_all_went_over_the_pool(both)
            self.assertGreater(both["fetchedBlocks"], first["fetchedBlocks"])

    def test_dynamic_allocation_and_decommissioning(self):
        """Executors are added as needed. When one is decommissioned, the others
        have its blocks, and no row is mapped again."""
        with tempfile.TemporaryDirectory() as folder, \
                self.cluster.application({
                    **PLUGIN, **REMOTE, **DECOMMISSION,
                    "spark.dynamicAllocation.enabled": "true",
                    "spark.dynamicAllocation.initialExecutors": "1",
                    "spark.dynamicAllocation.schedulerBacklogTimeout": "1s",
                    "spark.scheduler.maxRegisteredResourcesWaitingTime": "0s",
                    # Reducers run on any idle executor.
                    "spark.shuffle.reduceLocality.enabled": "false",
                    # Spark supports it only on YARN, and ignores it here.
                    "spark.shuffle.push.enabled": "true"},
                    executors=3) as cluster:
            shuffle = Shuffle(cluster, folder)
            maps = threading.Thread(target=shuffle.map)
            maps.start()
            pathlib.Path(folder, "reached").read_bytes()
            # The first executor is paused. These two were added.
            left = list(cluster.counters(2))
            pathlib.Path(folder, "go").write_bytes(b"")
            maps.join()
            told = cluster.counters(3)
            [gone] = told.keys() - set(left)

            files = shuffle_files(folder_of(told[gone]["pid"]), ".data")
            self.assertTrue(files)
            end = End(told[gone]["pid"])
            os.kill(told[gone]["pid"], signal.SIGPWR)
            end.wait()
            before = counters_of(cluster, left)
            self.assertEqual(shuffle.sums(), Shuffle.SUMS)
            after = counters_of(cluster, left)
            self.assertEqual(shuffle.mapped.value, Shuffle.ROWS)
            self.check_all_went_over_the_pool(after)
            self.assertGreater(after["fetchedBlocks"], before["fetchedBlocks"])
            moved = {path.name for executor in left for path in shuffle_files(
                folder_of(told[executor]["pid"]), ".data")}
            self.assertEqual(len(moved), Shuffle.MAPS)
            self.assertLess({path.name for path in files}, moved)

    def test_fallback_storage(self):
        """The last executor writes its blocks there when it is decommissioned,
        and the next executor reads them from there."""
        with tempfile.TemporaryDirectory() as folder, \
                self.cluster.application({
                    **PLUGIN, **REMOTE, **DECOMMISSION,
                    "spark.storage.decommission.fallbackStorage.path":
                        f"file://{folder}/"}, executors=1) as cluster:
            shuffle = Shuffle(cluster)
            shuffle.map()
            [(executor, counted)] = cluster.counters(1).items()
            end = End(counted["pid"])
            os.kill(counted["pid"], signal.SIGPWR)
            end.wait()
            self.assertEqual(shuffle.sums(), Shuffle.SUMS)
            [(other, counted)] = cluster.counters(1).items()
            self.assertNotEqual(executor, other)
            self.assertEqual(shuffle.mapped.value, Shuffle.ROWS)
            self.assertEqual(len(shuffle_files(folder, ".data")),
                             Shuffle.MAPS)
            for name in ("fetchedBlocks", "nettyBlocks", "failedBlocks"):
                self.assertEqual(counted[name], 0, name)

    def test_shuffle_service_uses_netty(self):
        with self.cluster.application({
                **PLUGIN, **REMOTE, "spark.shuffle.service.enabled": "true",
                "spark.shuffle.service.port": self.service}) as cluster:
            self.run_queries(cluster)
            self.assertEqual(
                counters_of(cluster, range(2))["fetchedBlocks"], 0)
            for log in cluster.logs("shuffle blocks go over Netty",
                                    "external shuffle service").values():
                said = [line for line in log.splitlines()
                        if "shuffle blocks go over Netty" in line]
                self.assertEqual(len(said), 1, log)
                self.assertIn("spark.shuffle.service.enabled", said[0])


if __name__ == "__main__":
    unittest.main()
