"""A shuffle of 1 GB in blocks of 16 MB with little direct memory in the JVM,
over Netty and over the pool, in turn:

    make java-tests         in a build tree configured with --with-spark
    LIBUCXPOOL_BUILD=TREE python java/benchmarks/direct.py [--rounds 5]

Each side runs without a limit and with -XX:MaxDirectMemorySize=64m in
executors. The table has the medians of the rounds: the wall time of the second
run of a cluster, and its ratio to the time of the same side without the limit.
For the side with the limit it also has the failed tasks and the number of lines
in the executors' logs about exhausted direct memory or deferred requests. If
the job failed, the table has its error. --scale 0.1 makes a tenth of the
rows."""
import argparse
import pathlib
import re
import statistics
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]
                       / "tests" / "spark"))
from cluster import PLUGIN, Cluster, event_log, events
from processes import wait_for

PATIENCE = 600  # seconds
LIMITS = ("none", "64m")
# With either transport, executors with less direct memory than this do not
# start; the default is 200m.
COMMON = {"spark.network.maxRemoteBlockSizeFetchToMem": "48m"}
SIDES = {"netty": {}, "pool": PLUGIN}
SAID = re.compile("OutOfDirectMemory|OutOfMemoryError|NettyOOM|"
                  "Defer|defer|direct memory|direct buffer memory")


def collect(spark, scale, told):
    """Call it in a thread; return its result or the error."""
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    rows = (spark.range(0, int(62500 * scale), 1, 8)
            .selectExpr("id", "array_join(transform(sequence(1, 256), "
                        "n -> sha2(concat(id, n), 256)), '') AS text")
            .repartition(8, "id").selectExpr("sum(length(text))"))
    try:
        told.append(rows.collect()[0][0])
    except Exception as failure:
        told.append(failure)


def run(spark, scale):
    """Seconds, or the error."""
    told = []
    thread = threading.Thread(target=collect, args=(spark, scale, told),
                              daemon=True)
    start = time.monotonic()
    thread.start()
    thread.join(PATIENCE)
    if not told:
        return f"not over after {PATIENCE} s"
    if isinstance(told[0], Exception):
        cause = re.search(r"\S+(Exception|Error): [^\n]{0,80}", str(told[0]))
        return f"failed: {cause[0] if cause else type(told[0]).__name__}"
    assert told[0] == int(62500 * scale) * 64 * 256, told
    return time.monotonic() - start


def measure(settings, limit, scale):
    """Wall time, failed tasks, lines in the logs."""
    limited = ({} if limit == "none" else {
        "spark.executor.extraJavaOptions":
            f"-XX:MaxDirectMemorySize={limit}"})
    with tempfile.TemporaryDirectory() as folder:
        with Cluster({**COMMON, **settings, **limited,
                      **event_log(folder)}) as cluster:
            wait_for(cluster.spark.sparkContext, 2)
            wall = run(cluster.spark, scale)
            if not isinstance(wall, str):
                wall = run(cluster.spark, scale)
            lines = sum(SAID.search(line) is not None
                        for log in cluster.logs().values()
                        for line in log.splitlines())
        failed = sum(event["Event"] == "SparkListenerTaskEnd"
                     and event["Task End Reason"]["Reason"] != "Success"
                     for event in events(folder))
    return wall, failed, lines


def text_of(walls, without):
    """The median, and its ratio to the median without a limit."""
    said = [wall for wall in walls if isinstance(wall, str)]
    if said:
        return said[0], "", None
    median = statistics.median(walls)
    return (f"{median:.2f} s",
            f"{median / without:.3f}" if without else "", median)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1)
    arguments = parser.parse_args()
    found = {(side, limit): [] for side in SIDES for limit in LIMITS}
    for _ in range(arguments.rounds):
        for side, limit in found:
            measured = measure(SIDES[side], limit, arguments.scale)
            print(side, limit, *measured, file=sys.stderr)
            found[side, limit].append(measured)
    print("| side | limit | wall | relative | failed tasks | lines |")
    print("|---|---|---|---|---|---|")
    without = {}
    for (side, limit), rounds in found.items():
        walls, failed, lines = zip(*rounds)
        wall, ratio, median = text_of(walls, without.get(side))
        without.setdefault(side, median)
        print(f"| {side} | {limit} | {wall} | {ratio} "
              f"| {statistics.median(failed):.0f} "
              f"| {statistics.median(lines):.0f} |")


if __name__ == "__main__":
    main()
