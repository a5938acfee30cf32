"""The plugin on two hosts that are connected only by TCP: the rows are those of
Netty, also after an executor is killed or the link fails. The hosts are network
namespaces. The tests are skipped if these cannot be created."""
import faulthandler
import json
import os
import pathlib
import signal
import sys
import unittest

import hosts
import queries
from cluster import PLUGIN, Cluster
from executors import CORES, SLOW, Pause
from standalone import application
from two_hosts import DRIVER, on_first, two_hosts

SECRET = {"spark.authenticate": "true",
          "spark.authenticate.secret": "of-these-tests"}
QUERIES = [queries.sort, queries.group, queries.join]
# Short timeouts, to detect soon that a host does not answer. The pool's is shorter
# than Spark's, so that the pool detects it first.
WATCHFUL = {"spark.ucxpool.conf.PEER_TIMEOUT": "2s",
            "spark.executor.heartbeatInterval": "1s",
            "spark.storage.blockManagerHeartbeatTimeoutMs": "15s",
            "spark.network.timeoutInterval": "1s"}
# A copy of a task is started if the task takes longer than the other one.
SPECULATION = {"spark.speculation": "true",
               "spark.speculation.interval": "100ms",
               "spark.speculation.quantile": "0.5"}
CLUSTER = {"spark.executor.cores": CORES, "spark.cores.max": 2 * CORES}


class TwoHosts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.reason = hosts.why_not()
        if cls.reason is not None:
            return
        with two_hosts(SECRET, CORES) as master:
            told = on_first(__file__, "--driver", master.url, master.work,
                            hosts.name("two"))
        cls.told = json.loads(told.splitlines()[-1])

    def setUp(self):
        # Not in setUpClass(): then the tests would not be counted as skipped.
        if self.reason is not None:
            self.skipTest(self.reason)

    def test_without_a_secret_all_blocks_use_netty(self):
        self.assertEqual(self.told["blocks without a secret"], 0)
        for lines in self.told["reasons without a secret"]:
            self.assertEqual(len(lines), 1)
            self.assertIn("without a secret", lines[0])

    def test_results_match_netty(self):
        self.assertEqual(self.told["differ"], [])
        for counted in self.told["counters"].values():
            self.assertGreater(counted["fetchedBlocks"], 0)
            self.assertEqual(counted["nettyBlocks"], 0)
            self.assertEqual(counted["failedBlocks"], 0)
        for lines in self.told["wires"]:
            self.assertEqual(len(lines), 1)
            self.assertIn("over the wire ucx", lines[0])

    def check_computed_again(self, event):
        rows, counted = self.told[event]
        self.assertEqual([tuple(row) for row in rows], Pause.WANTED)
        self.assertGreater(counted["failedBlocks"], 0)
        self.assertEqual(counted["nettyBlocks"], 0)

    def test_maps_of_a_killed_executor_run_again(self):
        self.check_computed_again("killed")

    def test_maps_of_an_unreachable_host_run_again(self):
        self.check_computed_again("cut")

    def test_speculative_copy_of_a_task_uses_the_pool(self):
        """Spark starts the copy only on another host."""
        rows, counters = self.told["late"]
        self.assertEqual([tuple(row) for row in rows], Pause.WANTED)
        for counted in counters.values():
            self.assertEqual(counted["nettyBlocks"], 0)
            self.assertEqual(counted["failedBlocks"], 0)


def executors_of(cluster):
    """The id and the PID of the executor on each host."""
    found = {}
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_text().split("\0")
        except OSError:
            # The process has just ended.
            continue
        options = dict(zip(words, words[1:]))
        if options.get("--app-id") == (
                cluster.spark.sparkContext.applicationId):
            found[options["--hostname"]] = (int(options["--executor-id"]),
                                            int(path.parent.name))
    return [found[address] for address in hosts.ADDRESSES.values()]


def lines_of(cluster, words):
    """The log lines with these words, of each executor."""
    return [[line for line in log.splitlines() if words in line]
            for log in cluster.logs(words).values()]


def while_it_reads(cluster, act):
    """Run a query, and call `act` with the PID of the executor on host two while a
    task on host one pauses in the middle of its fetches from there. Returns the
    rows, and the counters of the executor on host one."""
    cluster.counters()
    (reader, _), (_, process) = executors_of(cluster)
    pause = Pause.of_executor(cluster, reader)
    pause.start(cluster)
    pause.wait()
    act(process)
    rows = pause.resume()
    told = {}
    while reader not in told:
        told = cluster.counters(1)
    return rows, told[reader]


def while_a_copy_runs(cluster):
    """Run a query while one of its tasks pauses on host one, so that Spark starts a
    copy of it, and the query ends before the task continues. Returns its rows, and
    the counters after the task has continued."""
    cluster.counters()
    (reader, _), _ = executors_of(cluster)
    pause = Pause.of_executor(cluster, reader)
    pause.start(cluster)
    pause.wait()
    pause.thread.join()
    return pause.resume(), cluster.idle_counters()


def drive(url, work, other_host):
    """The driver, in the network of host one."""
    # If it hangs and is terminated, print where it waits.
    faulthandler.register(signal.SIGTERM, chain=True)
    told = {}
    with Cluster({**PLUGIN, **DRIVER}) as cluster:
        wanted = [query(cluster.spark).collect() for query in QUERIES]
        told["blocks without a secret"] = cluster.total("fetchedBlocks")
        told["reasons without a secret"] = lines_of(
            cluster, "shuffle blocks go over Netty")
    with application(url, work, {**PLUGIN, **DRIVER, **SECRET, **SLOW,
                                 **CLUSTER, **SPECULATION}) as cluster:
        told["late"] = while_a_copy_runs(cluster)
    with application(url, work, {
            **PLUGIN, **DRIVER, **SECRET, **SLOW, **CLUSTER, **WATCHFUL,
            "spark.locality.wait": "0s"}) as cluster:
        told["differ"] = [
            query.__name__ for query, rows in zip(QUERIES, wanted)
            if query(cluster.spark).collect() != rows]
        told["counters"] = cluster.counters()
        told["wires"] = lines_of(cluster, "over the wire")
        told["killed"] = while_it_reads(
            cluster, lambda process: os.kill(process, signal.SIGKILL))
        told["cut"] = while_it_reads(
            cluster, lambda process: hosts.ip("-n", other_host, "link", "set",
                                              "cable", "down"))
    print(json.dumps(told))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--driver"]:
        drive(*sys.argv[2:])
    else:
        unittest.main()
