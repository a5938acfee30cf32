"""Spark's shuffle over Netty and over the pool, in turns:

    make java-tests         in a build tree configured with --with-spark
    UCXPOOL_BUILD=TREE python java/benchmarks/shuffle.py [--rounds 5] [WORK...]

A round starts a cluster of two executors on this machine for each side, runs
the work once to warm up, and once to measure. The table has the medians of the
rounds: wall time; the time that tasks waited for blocks; processor time of the
threads that move blocks (those of Netty's shuffle service and of the pool, in
both executors), and of the executors as a whole. `--host-local` adds a third
side that reads the other executor's files, as real clusters do on one host, and
is what a perfect transport would come near to."""
import argparse
import pathlib
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]
                       / "tests" / "spark"))
from cluster import PLUGIN, Cluster, event_log, shuffle_read
from executors import processor_time


def small(spark):
    """300 maps times 300 reducers: 90,000 blocks of some hundred bytes."""
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    spark.conf.set("spark.sql.shuffle.partitions", "300")
    return (spark.range(0, 9000000, 1, 300)
            .selectExpr("hash(id) AS key", "id")
            .repartition(300, "key").selectExpr("sum(key)", "sum(id)"))


def long(spark):
    """330 MB in blocks of some MB, which do not compress."""
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    return (spark.range(0, 20000, 1, 8)
            .selectExpr("id", "array_join(transform(sequence(1, 256), "
                        "n -> sha2(concat(id, n), 256)), '') AS text")
            .repartition(8, "id").selectExpr("sum(length(text))", "sum(id)"))


def join(spark):
    """A star of three tables, joined and grouped."""
    spark.conf.set("spark.sql.adaptive.enabled", "true")
    spark.conf.set("spark.sql.shuffle.partitions", "16")
    items = spark.range(0, 3000000, 1, 8).selectExpr(
        "id % 750000 AS order_id", "id % 20000 AS part_id",
        "cast(id % 50 AS double) AS quantity",
        "sha2(string(id), 224) AS comment")
    orders = spark.range(0, 750000, 1, 4).selectExpr(
        "id AS order_id", "id % 75000 AS customer_id")
    customers = spark.range(0, 75000, 1, 2).selectExpr(
        "id AS customer_id", "id % 25 AS nation")
    return (items.join(orders, "order_id").join(customers, "customer_id")
            .groupBy("nation").agg({"quantity": "sum", "comment": "max"})
            .orderBy("nation"))


WORKS = {work.__name__: work for work in (small, long, join)}
SIDES = {"netty": {}, "pool": PLUGIN,
         "host-local": {"spark.shuffle.readHostLocalDisk": "true",
                        "spark.shuffle.useOldFetchProtocol": "false"}}


def measure(work, settings):
    """One round of one side: wall, fetch wait, movers, whole."""
    with tempfile.TemporaryDirectory() as folder:
        with Cluster({**settings, **event_log(folder)}) as cluster:
            work(cluster.spark).collect()
            pids = [told["pid"] for told in cluster.counters().values()]
            before = processor_time(pids)
            start = time.monotonic()
            work(cluster.spark).collect()
            wall = time.monotonic() - start
            after = processor_time(pids)
        # Of both runs: they do the same.
        waited = shuffle_read(folder, "Fetch Wait Time") / 1000 / 2
    return wall, waited, after[0] - before[0], after[1] - before[1]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--host-local", action="store_true")
    parser.add_argument("work", nargs="*", choices=[[], *WORKS])
    arguments = parser.parse_args()
    sides = [side for side in SIDES
             if side != "host-local" or arguments.host_local]
    print("| work | side | wall | fetch wait | moving threads | all threads |")
    print("|---|---|---|---|---|---|")
    for name in arguments.work or WORKS:
        found = {side: [] for side in sides}
        for _ in range(arguments.rounds):
            for side in sides:
                found[side].append(measure(WORKS[name], SIDES[side]))
        for side in sides:
            print(f"| {name} | {side} | " + " | ".join(
                f"{statistics.median(column):.2f} s"
                for column in zip(*found[side])) + " |", flush=True)


if __name__ == "__main__":
    main()
