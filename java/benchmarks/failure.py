"""The time from the kill of an executor until the task that waits for its
blocks has failed, over Netty and over the pool, in turn:

    make java-tests         in a build tree configured with --with-spark
    LIBUCXPOOL_BUILD=TREE python java/benchmarks/failure.py [--rounds 5]

A reduce task is halfway through its blocks when the other executor is stopped
(SIGSTOP), so that its next request gets no answer. A second later that executor
is killed (SIGKILL). The time ends when the driver records the task's end with
the reason FetchFailed: the task's finish time in Spark's event log, in
milliseconds of the same clock. `ucx` uses TCP."""
import argparse
import os
import pathlib
import signal
import statistics
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]
                       / "tests" / "spark"))
from cluster import PLUGIN, Cluster, event_log, events

PATIENCE = 120  # seconds
ONE_BY_ONE = {"spark.reducer.maxSizeInFlight": "64k",
              "spark.reducer.maxReqsInFlight": "1",
              "spark.shuffle.compress": "false",
              "spark.sql.adaptive.enabled": "false"}
SIDES = {"netty": {},
         "map": {**PLUGIN, "spark.ucxpool.wire": "map"},
         "ucx": {**PLUGIN, "spark.ucxpool.wire": "ucx",
                 "spark.executorEnv.UCX_TLS": "tcp"}}


def start(cluster, pipes, result):
    """Sum two long partitions in a thread; one task stops in the middle."""
    rows = (cluster.spark.range(0, 4000, 1, 8)
            .selectExpr("id", "repeat(sha2(string(id), 256), 30) AS text")
            .repartition(2, "id")
            .selectExpr(f"StopOnce(id, '{pipes}') AS id", "text")
            .selectExpr("sum(id)", "count(distinct text)"))
    thread = threading.Thread(
        target=lambda: result.append(tuple(rows.collect()[0])), daemon=True)
    thread.start()
    return thread


def measure(settings):
    """Seconds."""
    with tempfile.TemporaryDirectory() as folder:
        pipes = pathlib.Path(folder, "pipes")
        pipes.mkdir()
        logs = pathlib.Path(folder, "logs")
        logs.mkdir()
        for name in ("reached", "go"):
            os.mkfifo(pipes / name)
        result = []
        with Cluster({**ONE_BY_ONE, **settings, **event_log(logs)}) as cluster:
            told = cluster.counters()
            thread = start(cluster, pipes, result)
            reached = int((pipes / "reached").read_text())
            [other] = [counted["pid"] for executor, counted in told.items()
                       if executor != reached]
            os.kill(other, signal.SIGSTOP)
            (pipes / "go").write_text("go")
            time.sleep(1)
            killed = time.time()
            os.kill(other, signal.SIGKILL)
            thread.join(PATIENCE)
            if result != [(4000 * 3999 // 2, 4000)]:
                raise SystemExit(f"{PATIENCE} s after the kill: {result}")
        ends = [event["Task Info"]["Finish Time"] / 1000
                for event in events(logs)
                if event["Event"] == "SparkListenerTaskEnd"
                and event["Task End Reason"]["Reason"] == "FetchFailed"]
    if not ends:
        raise SystemExit("no task has failed to fetch")
    return min(ends) - killed


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    found = {side: [] for side in SIDES}
    for _ in range(arguments.rounds):
        for side, settings in SIDES.items():
            found[side].append(measure(settings))
    print("| side | from the kill to FetchFailed | shortest | longest |")
    print("|---|---|---|---|")
    for side, times in found.items():
        print(f"| {side} | " + " | ".join(
            f"{time:.3f} s" for time in
            (statistics.median(times), min(times), max(times))) + " |")


if __name__ == "__main__":
    main()
