"""What fails is computed again, and the result is right."""
import os
import pathlib
import signal
import tempfile
import threading
import unittest

from cluster import PLUGIN, Cluster

# Many requests, one after the other, so that some are left to be made.
SLOW = {"spark.reducer.maxSizeInFlight": "64k",
        "spark.reducer.maxReqsInFlight": "1",
        "spark.shuffle.compress": "false",
        "spark.sql.adaptive.enabled": "false"}


def folder_of(pid):
    """Where an executor has its files."""
    for variable in pathlib.Path(f"/proc/{pid}/environ").read_text().split("\0"):
        if variable.startswith("SPARK_EXECUTOR_DIRS="):
            return variable.partition("=")[2]
    raise AssertionError(f"process {pid} has no SPARK_EXECUTOR_DIRS")


def shuffle_files(folder, ending):
    """The files of map outputs in a folder."""
    return list(pathlib.Path(folder).glob(f"**/shuffle_*{ending}"))


class Failures(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.pipes = pathlib.Path(folder.name)
        for name in ("reached", "go"):
            os.mkfifo(self.pipes / name)

    def start(self, cluster):
        """Sum two long partitions in a thread; returns it, and where its result
        will be."""
        result = []
        rows = (cluster.spark.range(0, 4000, 1, 8)
                .selectExpr("id", "repeat(sha2(string(id), 256), 30) AS text")
                .repartition(2, "id")
                .selectExpr(f"StopOnce(id, '{self.pipes}') AS id", "text")
                .selectExpr("sum(id)", "count(distinct text)"))
        thread = threading.Thread(
            target=lambda: result.append(rows.collect()[0]))
        thread.start()
        return thread, result

    def while_stopped(self, cluster, act):
        """Let a query run into its shuffle, act while one of its tasks stands
        still in the middle of what it fetches, and let it go on."""
        told = cluster.counters()
        thread, result = self.start(cluster)
        # Whoever opens it waits for the other side.
        stopped = int((self.pipes / "reached").read_text())
        act({executor: counted["pid"] for executor, counted in told.items()
             if executor != stopped})
        (self.pipes / "go").write_text("go")
        thread.join()
        self.assertEqual([tuple(row) for row in result],
                         [(4000 * 3999 // 2, 4000)])
        return stopped

    def test_an_executor_that_is_killed(self):
        def kill(others):
            for pid in others.values():
                os.kill(pid, signal.SIGKILL)

        with Cluster({**PLUGIN, **SLOW}) as cluster:
            stopped = self.while_stopped(cluster, kill)
            counted = cluster.counters()[stopped]
            self.assertGreater(counted["failedBlocks"], 0)
            self.assertEqual(counted["nettyBlocks"], 0)
            self.assertEqual(counted["pool.heap_live"], 2 << 20)

    def test_files_that_are_cut_short(self):
        def cut(others):
            for pid in others.values():
                files = shuffle_files(folder_of(pid), ".data")
                self.assertTrue(files)
                for path in files:
                    os.truncate(path, 1)

        with Cluster({**PLUGIN, **SLOW}) as cluster:
            stopped = self.while_stopped(cluster, cut)
            counted = cluster.counters()[stopped]
            self.assertGreater(counted["failedBlocks"], 0)
            self.assertEqual(counted["pool.heap_live"], 2 << 20)

    def test_files_that_are_not_there(self):
        with Cluster(PLUGIN) as cluster:
            context = cluster.spark.sparkContext
            # The first of three partitions has nothing, so to compute it runs
            # the maps, and reads no block.
            pairs = (context.parallelize(range(1000), 4)
                     .map(lambda n: (n % 2 + 1, n))
                     .partitionBy(3, lambda key: key))
            self.assertEqual(context.runJob(pairs, lambda rows: [sum(
                1 for row in rows)], [0]), [0])
            for counted in cluster.counters().values():
                files = shuffle_files(folder_of(counted["pid"]), "")
                self.assertTrue(files)
                for path in files:
                    path.unlink()
            self.assertEqual(
                context.runJob(pairs, lambda rows: [sum(
                    value for key, value in rows)], [1, 2]),
                [sum(range(0, 1000, 2)), sum(range(1, 1000, 2))])


if __name__ == "__main__":
    unittest.main()
