"""Kill executors of Spark at random moments during shuffles:

    make java-tests         in a build tree configured with --with-spark
    LIBUCXPOOL_BUILD=TREE python java/benchmarks/kills.py [--kills 500] [--seed 1]

One of four executors is spared, so that it has been a peer of all killed
executors. The others get SIGKILL, one after the other, and Spark starts new
ones. The kills are divided among the clusters below, which run one after the
other.

The table counts jobs; jobs that failed or returned wrong rows; jobs that did
not end within two minutes after the last kill; and executors that leak: two
minutes after a job, with no transfer in progress, they still have received
data, blocks or transfers, or map memory of executors that have ended. Failed
fetches are those of all tasks. The columns after it are those of the spared
executor: blocks that failed or used Netty, and its open descriptors after the
first quarter of the kills and at the end. Exits with 1 if a job failed or an
executor leaks.

--minutes N ends the kills after that time."""
import argparse
import itertools
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]
                       / "tests" / "spark"))
from cluster import PLUGIN, Cluster, event_log, events
from processes import executors, num_open

# Settings with which Spark retries without limit, and the virtual machines of
# executors start quickly.
PATIENT = {
    "spark.master": "local-cluster[4,1,640]",
    "spark.executor.memory": "640m",
    "spark.executor.extraJavaOptions":
        "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.task.maxFailures": "1000000",
    "spark.stage.maxConsecutiveAttempts": "1000000",
    "spark.deploy.maxExecutorRetries": "-1",
    "spark.sql.adaptive.enabled": "false",
    "spark.shuffle.compress": "false",
}
# Many requests one after the other, so that some are always in flight.
STEPS = {"spark.reducer.maxSizeInFlight": "128k",
         "spark.reducer.maxReqsInFlight": "1"}
CLUSTERS = {
    "map": {"spark.ucxpool.wire": "map"},
    "map, step by step": {"spark.ucxpool.wire": "map", **STEPS},
    "map, 8 MB of memory": {"spark.ucxpool.wire": "map",
                            "spark.ucxpool.memory": "8m",
                            "spark.ucxpool.messageSize": "256k"},
    "ucx": {"spark.ucxpool.wire": "ucx"},
    "ucx, step by step": {"spark.ucxpool.wire": "ucx", **STEPS,
                          "spark.executorEnv.UCX_TLS": "tcp"},
    "map, all blocks to files": {
        "spark.ucxpool.wire": "map",
        "spark.network.maxRemoteBlockSizeFetchToMem": "200k"},
}
PATIENCE = 120  # seconds


def small(spark):
    """1,600 blocks."""
    return (spark.range(0, 200000, 1, 40).selectExpr("id", "id % 1000 AS key")
            .repartition(40, "key")
            .selectExpr("count(*)", "sum(id)", "sum(key)"))


def long(spark):
    """64 blocks of a megabyte, whose readers take longer than their writers."""
    text = "repeat(sha2(string(id), 256), 64)"
    digest = "text"
    for _ in range(3):
        digest = f"sha2(concat(text, {digest}), 512)"
    return (spark.range(0, 16000, 1, 8).selectExpr("id", f"{text} AS text")
            .repartition(8, "id")
            .selectExpr("id", "text", f"{digest} AS digest")
            .selectExpr("count(*)", "sum(id)", "sum(crc32(digest))"))


WORKS = (small, long)


class Killer(threading.Thread):
    """Kill executors at random times until the number is reached or it is
    stopped: those that Spark assigns tasks to, except the spared one."""

    def __init__(self, context, spared, number, choose, deadline):
        super().__init__(daemon=True)
        self.context = context
        self.spared = spared
        self.number = number
        self.choose = choose
        self.deadline = deadline
        self.killed = set()
        self.let = threading.Event()
        self.let.set()
        self.is_stopped = False

    def is_over(self):
        return (self.is_stopped or len(self.killed) >= self.number
                or time.monotonic() > self.deadline)

    def run(self):
        while not self.is_over():
            time.sleep(self.choose.uniform(0, 6))
            self.let.wait()
            known = self.context._jsc.sc().getExecutorIds()
            known = {known.apply(i) for i in range(known.length())}
            there = executors(self.context.applicationId)
            left = (known & there.keys()) - self.killed - {self.spared}
            if left:
                # The oldest has most of the blocks that others fetch.
                executor = min(left, key=int)
                os.kill(there[executor], signal.SIGKILL)
                self.killed.add(executor)


class Job(threading.Thread):
    def __init__(self, work, spark):
        super().__init__(daemon=True)
        self.rows = None
        self.failure = None
        self.query = work(spark)
        self.start()

    def run(self):
        try:
            self.rows = [tuple(row) for row in self.query.collect()]
        except Exception as failure:
            self.failure = failure


def report(application):
    """Stacks of all threads of the executors, to debug a hang."""
    pids = dict(executors(application))
    for executor, pid in pids.items():
        said = subprocess.run(["jstack", str(pid)], capture_output=True,
                              text=True, timeout=60)
        print(f"--- executor {executor}\n{said.stdout}", file=sys.stderr)


def held(told, staging):
    """Leaks of an executor with no transfer in progress: bytes of its heap
    except those for staging, and blocks."""
    kept = {"heap_live_bytes": told["pool.heap_live_bytes"] - staging}
    for share in ("send", "recv"):
        for state in ("held", "quarantined"):
            kept[f"{share} {state}"] = told[f"pool.blocks_{share}_{state}"]
    return {name: value for name, value in kept.items() if value != 0}


def mapped_of_the_dead(pid, application):
    """Mappings of memory of processes that are not executors any more."""
    living = {str(one) for one in executors(application).values()}
    owners = re.findall(r"memfd:ucxpool:(\d+):",
                        pathlib.Path(f"/proc/{pid}/maps").read_text())
    return sum(owner not in living for owner in owners)


def counters(cluster, spared):
    """Of the spared executor, and of the others."""
    told = {}
    while int(spared) not in told:
        told = cluster.counters(executors=1)
    return told


def leaks(cluster, spared, staging):
    """Wait for transfers in progress; return the leaks of the executors."""
    application = cluster.spark.sparkContext.applicationId
    deadline = time.monotonic() + PATIENCE
    while True:
        found = {}
        for executor, told in counters(cluster, spared).items():
            if "pool.heap_live_bytes" not in told:
                found[executor] = {"no pool": 1}
                continue
            kept = held(told, staging)
            try:
                dead = mapped_of_the_dead(told["pid"], application)
            except OSError:
                continue
            if dead:
                kept["mappings of the dead"] = dead
            if kept:
                found[executor] = kept
        if not found:
            return 0
        if time.monotonic() > deadline:
            print(found, file=sys.stderr)
            return len(found)
        time.sleep(1)


def run_cluster(name, number, choose, deadline, folder):
    """Returns a row of the table."""
    settings = {**PATIENT, **PLUGIN, **CLUSTERS[name], **event_log(folder)}
    staging = 2 * (256 << 10 if "8 MB" in name else 1 << 20)
    counted = {"jobs": 0, "wrong": 0, "failed": 0, "hung": 0, "leaks": 0}
    with Cluster(settings) as cluster:
        context = cluster.spark.sparkContext
        application = context.applicationId
        first = cluster.counters(executors=4)
        spared = str(min(first))
        pid = first[int(spared)]["pid"]
        wanted = {}
        for work in WORKS:
            wanted[work] = [tuple(row) for row in
                            work(cluster.spark).collect()]
        killer = Killer(context, spared, number, choose, deadline)
        killer.start()
        descriptors = None
        for work in itertools.cycle(WORKS):
            if killer.is_over():
                break
            job = Job(work, cluster.spark)
            job.join(PATIENCE)
            killer.let.clear()
            job.join(PATIENCE)
            counted["jobs"] += 1
            if job.is_alive():
                counted["hung"] += 1
                report(application)
                killer.is_stopped = True
                break
            if job.failure is not None:
                counted["failed"] += 1
                print(job.failure, file=sys.stderr)
            elif job.rows != wanted[work]:
                counted["wrong"] += 1
                print(job.rows, wanted[work], file=sys.stderr)
            if counted["jobs"] % 8 == 0:
                counted["leaks"] += leaks(cluster, spared, staging)
            if descriptors is None and len(killer.killed) >= number // 4:
                descriptors = num_open(pid)
            print(f"{name}: {len(killer.killed)} kills, {counted}",
                  file=sys.stderr)
            killer.let.set()
        killer.is_stopped = True
        killer.let.set()
        killer.join()
        told = {}
        if counted["hung"] == 0:
            counted["leaks"] += leaks(cluster, spared, staging)
            told = counters(cluster, spared)[int(spared)]
        failed = told.get("failedBlocks")
        netty = told.get("nettyBlocks")
        open_at_end = num_open(pid)
    fetches = sum(event["Event"] == "SparkListenerTaskEnd"
                  and event["Task End Reason"]["Reason"] == "FetchFailed"
                  for event in events(folder))
    return [name, len(killer.killed), *counted.values(), fetches, failed,
            netty, descriptors, open_at_end]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=600)
    parser.add_argument("--cluster", action="append", choices=list(CLUSTERS))
    arguments = parser.parse_args()
    choose = random.Random(arguments.seed)
    names = arguments.cluster or list(CLUSTERS)
    end = time.monotonic() + 60 * arguments.minutes
    bad = done = 0
    print("| cluster | kills | jobs | wrong | failed | hung | leaks "
          "| failed fetches | failed blocks | over Netty | descriptors "
          "| at the end |")
    print("|" + "---|" * 12, flush=True)
    for i, name in enumerate(names):
        left = len(names) - i
        now = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            row = run_cluster(name, -(-(arguments.kills - done) // left),
                              choose, now + max(0, end - now) / left, folder)
        done += row[1]
        bad += sum(row[3:7])
        print("| " + " | ".join(map(str, row)) + " |", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
