"""The plugin on two hosts that reach each other by TCP alone: the same rows as over
Netty, also when an executor is killed and when the cable is cut. The hosts are
network name spaces; skipped where such cannot be made."""
import faulthandler
import json
import os
import pathlib
import signal
import sys
import time
import unittest

import hosts
import queries
from cluster import PLUGIN, Cluster
from executors import SLOW, Pause
from standalone import application
from two_hosts import DRIVER, on_first, two_hosts

SECRET = {"spark.authenticate": "true",
          "spark.authenticate.secret": "of-these-tests"}
QUERIES = [queries.sort, queries.group, queries.join]
# All that is needed to be told soon of a host that says nothing any more: the pool
# is to notice it first.
WATCHFUL = {"spark.ucxpool.conf.PEER_TIMEOUT": "2s",
            "spark.executor.heartbeatInterval": "1s",
            "spark.storage.blockManagerHeartbeatTimeoutMs": "15s",
            "spark.network.timeoutInterval": "1s"}
# A task that takes longer than the other one is started once more.
SPECULATION = {"spark.speculation": "true",
               "spark.speculation.interval": "100ms",
               "spark.speculation.quantile": "0.5"}
# Two staging buffers are kept; all else is given back.
IDLE = 2 << 20
LIMIT = 1800


class TwoHosts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.reason = hosts.why_not()
        if cls.reason is not None:
            return
        with two_hosts(SECRET) as master:
            told = on_first(__file__, "--driver", master.url, master.work,
                            hosts.name("two"))
        cls.told = json.loads(told.splitlines()[-1])

    def setUp(self):
        # Not by the class: then none would count.
        if self.reason is not None:
            self.skipTest(self.reason)

    def test_without_a_secret_all_goes_over_netty(self):
        self.assertEqual(self.told["blocks without a secret"], 0)
        for lines in self.told["reasons without a secret"]:
            self.assertEqual(len(lines), 1)
            self.assertIn("without a secret", lines[0])

    def test_results_are_those_of_netty(self):
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

    def test_an_executor_that_is_killed(self):
        self.check_computed_again("killed")

    def test_a_cable_that_is_cut(self):
        self.check_computed_again("cut")

    def test_a_copy_of_a_task_that_is_late(self):
        """Spark starts one on another host alone."""
        came_first, rows, counters = self.told["late"]
        self.assertTrue(came_first)
        self.assertEqual([tuple(row) for row in rows], Pause.WANTED)
        for counted in counters.values():
            self.assertEqual(counted["nettyBlocks"], 0)
            self.assertEqual(counted["failedBlocks"], 0)
            self.assertEqual(counted["pool.heap_live"], IDLE)


def executors_of(cluster):
    """The number and the process of the one on each host."""
    found = {}
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_text().split("\0")
        except OSError:
            # It has just ended.
            continue
        options = dict(zip(words, words[1:]))
        if options.get("--app-id") == (
                cluster.spark.sparkContext.applicationId):
            found[options["--hostname"]] = (int(options["--executor-id"]),
                                            int(path.parent.name))
    return [found[address] for address in hosts.ADDRESSES.values()]


def lines_of(cluster, words):
    """Those with these words, of each executor."""
    return [[line for line in log.splitlines() if words in line]
            for log in cluster.logs().values()]


def while_it_reads(cluster, act):
    """The rows of a query and the counters of host one, where it stands still in
    the middle of what it fetches from host two while something is done."""
    cluster.counters()
    (reader, _), (_, process) = executors_of(cluster)
    pause = Pause.of_executor(cluster, reader)
    pause.start(cluster)
    pause.wait()
    act(process)
    rows = pause.go_on()
    told = {}
    while reader not in told:
        told = cluster.counters(1)
    return rows, told[reader]


def until_idle(cluster):
    """The counters of all executors, when what came for tasks is given back."""
    end = time.monotonic() + LIMIT
    while True:
        told = cluster.counters()
        if (all(counted["pool.heap_live"] == IDLE for counted in told.values())
                or time.monotonic() > end):
            return told


def while_a_copy_runs(cluster):
    """Has the copy of a task that stands still on host one ended the query? With
    its rows, and the counters after the late task has gone on."""
    cluster.counters()
    (reader, _), _ = executors_of(cluster)
    pause = Pause.of_executor(cluster, reader)
    pause.start(cluster)
    pause.wait()
    pause.thread.join(LIMIT)
    came_first = not pause.thread.is_alive()
    return came_first, pause.go_on(), until_idle(cluster)


def drive(url, work, other_host):
    """The driver, in the network of host one."""
    # What it waits for when it is ended because it hangs.
    faulthandler.register(signal.SIGTERM, chain=True)
    told = {}
    with Cluster({**PLUGIN, **DRIVER}) as cluster:
        wanted = [query(cluster.spark).collect() for query in QUERIES]
        told["blocks without a secret"] = cluster.total("fetchedBlocks")
        told["reasons without a secret"] = lines_of(
            cluster, "shuffle blocks go over Netty")
    with application(url, work, {**PLUGIN, **DRIVER, **SECRET, **SLOW,
                                 **SPECULATION}) as cluster:
        told["late"] = while_a_copy_runs(cluster)
    with application(url, work, {
            **PLUGIN, **DRIVER, **SECRET, **SLOW, **WATCHFUL,
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
