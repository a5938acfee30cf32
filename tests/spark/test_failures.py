"""After a failure, Spark computes lost blocks again, and the result is right."""
import os
import signal
import tempfile
import unittest

from cluster import PLUGIN, Cluster
from executors import CORES, SLOW, Pause, folder_of, shuffle_files


class Failures(unittest.TestCase):
    def while_stopped(self, cluster, act):
        """Run a query, call `act` while one of its tasks pauses in the middle of
        its fetches, and continue the query. Returns the task's executor."""
        told = cluster.counters()
        with tempfile.TemporaryDirectory() as folder:
            pause = Pause(folder)
            pause.start(cluster)
            stopped = pause.wait()
            act({executor: counted["pid"]
                 for executor, counted in told.items()
                 if executor != stopped})
            self.assertEqual(pause.resume(), Pause.WANTED)
        return stopped

    def test_maps_of_a_killed_executor_run_again(self):
        def kill(others):
            for pid in others.values():
                os.kill(pid, signal.SIGKILL)

        with Cluster({**PLUGIN, **SLOW}, CORES) as cluster:
            stopped = self.while_stopped(cluster, kill)
            counted = cluster.idle_counters()[stopped]
            self.assertGreater(counted["failedBlocks"], 0)
            self.assertEqual(counted["nettyBlocks"], 0)

    def test_maps_of_truncated_files_run_again(self):
        def cut(others):
            for pid in others.values():
                files = shuffle_files(folder_of(pid), ".data")
                self.assertTrue(files)
                for path in files:
                    os.truncate(path, 1)

        with Cluster({**PLUGIN, **SLOW}, CORES) as cluster:
            stopped = self.while_stopped(cluster, cut)
            counted = cluster.idle_counters()[stopped]
            self.assertGreater(counted["failedBlocks"], 0)

    def test_maps_of_missing_files_run_again(self):
        with Cluster(PLUGIN) as cluster:
            context = cluster.spark.sparkContext
            # The first of three partitions is empty, so computing it runs the
            # maps, but reads no block.
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
