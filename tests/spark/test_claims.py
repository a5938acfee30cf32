"""Checks with the plugin what Spark's tests check of its own shuffle. The table is
in docs/reference/spark-tests.md."""
import os
import pathlib
import tempfile
import threading
import unittest

from pyspark import StorageLevel

import queries
import tpch
from cluster import PLUGIN, Cluster, event_log, events, shuffle_read

# One short request at a time, so that a task sends many.
SLOW = {"spark.reducer.maxSizeInFlight": "64k",
        "spark.reducer.maxReqsInFlight": "1",
        "spark.sql.adaptive.enabled": "false"}
KRYO = {"spark.serializer": "org.apache.spark.serializer.KryoSerializer"}
# Sort map outputs, instead of merging one file for each reducer.
SORTED = {"spark.shuffle.sort.bypassMergeThreshold": "1"}


def shuffle_written(folder, what):
    """The sum of a shuffle write metric over all tasks."""
    return sum(event["Task Metrics"]["Shuffle Write Metrics"]
               [f"Shuffle {what} Written"]
               for event in events(folder)
               if event["Event"] == "SparkListenerTaskEnd")


class Base(unittest.TestCase):
    def check_pool(self, cluster):
        """Check that the pool fetched all blocks and released all memory.
        Returns the counters."""
        told = cluster.idle_counters()
        self.assertGreater(sum(x["fetchedBlocks"] for x in told.values()), 0,
                           told)
        for counted in told.values():
            self.assertEqual(counted["nettyBlocks"], 0, told)
            self.assertEqual(counted["failedBlocks"], 0, told)
        return told


class Rows(Base):
    """The rows are the same, however blocks are written, compressed and fetched."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        tpch.generate(cls.folder.name, 0.01)
        with Cluster({}) as cluster:
            tpch.load(cluster.spark, cls.folder.name)
            cls.tpch = tpch.run(cluster.spark)
            cls.sql = queries.run(cluster.spark, [True], [queries.join])

    def check_pairs(self, context):
        """Pairs of Python objects, which Spark's serializer writes."""
        left = context.parallelize([(n % 50, n) for n in range(2000)], 6)
        right = context.parallelize([(n, str(n)) for n in range(40, 60)], 3)

        self.assertEqual(
            {key: sorted(values)
             for key, values in left.groupByKey(5).collect()},
            {key: list(range(key, 2000, 50)) for key in range(50)})
        self.assertEqual(left.sortByKey(numPartitions=4).keys().collect(),
                         sorted(n % 50 for n in range(2000)))
        self.assertEqual(
            {key: (len(list(mine)), list(others)) for key, (mine, others)
             in left.cogroup(right, 4).collect()},
            {key: (40 if key < 50 else 0, [str(key)] if key >= 40 else [])
             for key in range(60)})
        self.assertEqual(
            sorted(set(left.subtractByKey(right, 4).keys().collect())),
            list(range(40)))
        self.assertEqual(
            context.parallelize([], 4).map(lambda n: (n, n))
            .partitionBy(5).collect(), [])

    def check_empty_blocks(self, cluster):
        """Four keys in 20 times 20 blocks: empty blocks are not fetched."""
        before = cluster.total("fetchedBlocks")
        pairs = cluster.spark.sparkContext.parallelize(range(4), 20).map(
            lambda n: (n, 2 * n))
        self.assertEqual(sorted(pairs.partitionBy(20).collect()),
                         [(n, 2 * n) for n in range(4)])
        self.assertLessEqual(cluster.total("fetchedBlocks") - before, 4)

    def check_rows(self, cluster):
        self.check_pairs(cluster.spark.sparkContext)
        self.check_empty_blocks(cluster)
        self.assertEqual(
            queries.run(cluster.spark, [True], [queries.join]), self.sql)
        self.check_pool(cluster)

    def test_sorted_files_spilling_and_zstd(self):
        """Fetches above a size limit go to files, of shuffle blocks and of
        others."""
        with tempfile.TemporaryDirectory() as folder:
            with Cluster({
                    **PLUGIN, **SORTED, **event_log(folder),
                    "spark.io.compression.codec": "zstd",
                    "spark.shuffle.spill.numElementsForceSpillThreshold":
                        "2000",
                    "spark.network.maxRemoteBlockSizeFetchToMem": "100k",
                    "spark.task.maxDirectResultSize": "10k"}) as cluster:
                self.check_rows(cluster)
                self.check_blocks_of_no_shuffle(cluster)
            spilled = sum(event["Task Metrics"]["Disk Bytes Spilled"]
                          for event in events(folder)
                          if event["Event"] == "SparkListenerTaskEnd")
            self.assertGreater(spilled, 10000)

    def check_blocks_of_no_shuffle(self, cluster):
        """Cached partitions, replicas, broadcasts and long results do not use the
        pool."""
        before = cluster.total("fetchedBlocks")
        context = cluster.spark.sparkContext
        for level in (StorageLevel.MEMORY_ONLY, StorageLevel.DISK_ONLY_2):
            rows = context.parallelize(range(100000), 4).persist(level)
            self.assertEqual(rows.count(), 100000)
            self.assertEqual(rows.coalesce(1).sum(), sum(range(100000)))
            self.assertEqual(len(rows.collect()), 100000)
        text = context.broadcast(os.urandom(5 << 20))
        self.assertEqual(
            context.parallelize(range(4), 4)
            .map(lambda n: len(text.value)).collect(), [5 << 20] * 4)
        self.assertEqual(cluster.total("nettyBlocks"), 0)
        self.assertEqual(cluster.total("fetchedBlocks"), before)

    def test_kryo_snappy_limits_and_several_tasks_at_once(self):
        with Cluster({**PLUGIN, **SORTED, **KRYO,
                      "spark.io.compression.codec": "snappy",
                      "spark.shuffle.spill.compress": "false",
                      "spark.shuffle.checksum.enabled": "false",
                      "spark.shuffle.detectCorrupt": "false",
                      "spark.reducer.maxSizeInFlight": "32k",
                      "spark.reducer.maxReqsInFlight": "2",
                      "spark.reducer.maxBlocksInFlightPerAddress": "3"},
                     cores=2) as cluster:
            self.check_rows(cluster)

    def test_files_of_the_same_host(self):
        """Spark reads them itself, if its setting allows it."""
        with Cluster({**PLUGIN, "spark.shuffle.readHostLocalDisk": "true"}
                     ) as cluster:
            self.assertEqual(
                queries.run(cluster.spark, [True], [queries.join]), self.sql)
            for counted in cluster.counters().values():
                self.assertEqual(counted["fetchedBlocks"], 0)
                self.assertEqual(counted["nettyBlocks"], 0)

    def test_files_of_each_reducer_lz4_and_tpch(self):
        for number in (1, 5, 9):
            self.assertGreater(len(self.tpch[number]), 3, number)
        with Cluster(PLUGIN) as cluster:
            tpch.load(cluster.spark, self.folder.name)
            found = tpch.run(cluster.spark)
            for number, rows in self.tpch.items():
                self.assertEqual(found[number], rows, number)
            self.check_rows(cluster)


class Others(Base):
    """Tests that need no rows of another cluster."""

    def check_sums(self, cluster, rows, maps, reducers, tasks):
        """Compare sums of rows with and without a shuffle. Each task reads the
        blocks of many reducers, one reducer after another. Returns how many
        blocks have been fetched so far."""
        plain = cluster.spark.range(0, rows, 1, maps)
        sums = ["count(*)", "sum(id)", "sum(hash(id))"]
        shuffled = plain.repartition(reducers, "id").coalesce(tasks)
        cluster.spark.conf.set("spark.sql.adaptive.enabled", "false")
        self.assertEqual(shuffled.selectExpr(*sums).collect(),
                         plain.selectExpr(*sums).collect())
        told = self.check_pool(cluster)
        for counted in told.values():
            self.assertEqual(counted["spilledBytes"], 0)
            self.assertLessEqual(counted["pool.heap_reserved_bytes"], 48 << 20)
        return sum(counted["fetchedBlocks"] for counted in told.values())

    def test_many_partitions(self):
        """Tasks also report that they read as much as was written."""
        with tempfile.TemporaryDirectory() as folder:
            with Cluster({**PLUGIN, **event_log(folder)}) as cluster:
                first = self.check_sums(cluster, 120000, 4, 10000, 20)
                # About half of the blocks are local to the task's executor.
                self.assertGreater(first, 4 * 10000 // 4)
                last = self.check_sums(cluster, 300000, 300, 300, 10)
                self.assertGreater(last - first, 300 * 300 // 4)
            self.assertEqual(shuffle_read(folder, "Remote Blocks Fetched"),
                             last)
            self.assertEqual(shuffle_read(folder, "Total Records Read"),
                             shuffle_written(folder, "Records"))
            self.assertEqual(shuffle_read(folder, "Local Bytes Read")
                             + shuffle_read(folder, "Remote Bytes Read"),
                             shuffle_written(folder, "Bytes"))


class Stopped(Base):
    """Events while a task pauses in the middle of its fetches."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.pipes = pathlib.Path(folder.name)
        for name in ("reached", "go"):
            os.mkfifo(self.pipes / name)

    def start(self, cluster, reducers):
        """Sum long partitions in a thread, and wait until a task pauses.
        Returns the thread, a dict for its result, and the task's executor."""
        found = {}

        def work():
            cluster.spark.sparkContext.setJobGroup("stopped", "stopped")
            try:
                found["row"] = tuple(rows.collect()[0])
            except Exception as error:
                found["error"] = str(error)

        rows = (cluster.spark.range(0, 4000, 1, 24)
                .selectExpr("id", "repeat(sha2(string(id), 256), 30) AS text")
                .repartition(reducers, "id")
                .selectExpr(f"StopOnce(id, '{self.pipes}') AS id", "text")
                .selectExpr("sum(id)", "count(distinct text)"))
        thread = threading.Thread(target=work)
        thread.start()
        return thread, found, int((self.pipes / "reached").read_text())

    def resume(self):
        (self.pipes / "go").write_text("go")

    def test_canceled_job_releases_its_memory(self):
        with Cluster({**PLUGIN, **SLOW}) as cluster:
            thread, found, _ = self.start(cluster, 2)
            cluster.spark.sparkContext.cancelJobGroup("stopped")
            self.resume()
            thread.join()
            self.assertIn("cancel", found["error"].lower())
            cluster.idle_counters()
            # A task that needs only a few rows also ends early.
            few = (cluster.spark.range(0, 20000, 1, 8)
                   .selectExpr("id", "repeat(hex(id), 100) AS text")
                   .repartition(4, "id").limit(5))
            self.assertEqual(len(few.collect()), 5)
            self.check_pool(cluster)

    def test_damaged_files_are_diagnosed(self):
        """Spark diagnoses them over Netty, and reports the cause."""
        with Cluster({**PLUGIN, **SLOW,
                      "spark.stage.maxConsecutiveAttempts": "1"},
                     cores=12) as cluster:
            told = cluster.counters()
            thread, found, stopped = self.start(cluster, 1)
            for executor, counted in told.items():
                if executor != stopped:
                    self.damage(counted["pid"])
            self.resume()
            thread.join()
            self.assertIn("corrupted due to DISK_ISSUE", found["error"])
            cluster.idle_counters()

    def damage(self, pid):
        environment = pathlib.Path(f"/proc/{pid}/environ").read_text()
        folder = dict(word.partition("=")[::2] for word
                      in environment.split("\0"))["SPARK_EXECUTOR_DIRS"]
        files = list(pathlib.Path(folder).glob("**/shuffle_*.data"))
        self.assertTrue(files)
        for path in files:
            with open(path, "r+b") as file:
                file.seek(100)
                there = file.read(100)
                file.seek(100)
                file.write(bytes(byte ^ 0xff for byte in there))


if __name__ == "__main__":
    unittest.main()
