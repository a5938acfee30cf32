"""Spark's shuffle over Netty and over the pool, in turn:

    make java-tests         in a build tree configured with --with-spark
    LIBUCXPOOL_BUILD=TREE python java/benchmarks/shuffle.py [--rounds 5] [WORK...]

A round starts a cluster of two executors on this machine for each side, runs
the work once to warm up, and once to measure. The table has the medians of the
rounds: wall time; the time that tasks waited for blocks; CPU time of the
threads that transfer blocks (Netty's shuffle service and the pool, in both
executors) and of the executors as a whole. `--host-local` adds a third side
that reads the other executor's files, as real clusters do on one host. It is
the lower bound for a transport.

`--hosts` runs the executors in two network namespaces of this machine, on a
standalone cluster with `spark.authenticate`; the pool's wire is then `ucx`. It
needs root and iproute2. `--scale 0.1` makes a tenth of the rows. The work tpch
needs tpchgen-cli from PyPI; its scale factor is half of --scale."""
import argparse
import contextlib
import json
import pathlib
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]
                       / "tests" / "spark"))
import tpch as queries
from cluster import PLUGIN, Cluster, event_log, shuffle_read
from processes import executors, processor_time, wait_for
from standalone import application
from two_hosts import DRIVER, on_first, two_hosts

SECRET = {"spark.authenticate": "true",
          "spark.authenticate.secret": "of-this-benchmark"}


def small(spark, options):
    """300 maps times 300 reducers: 90,000 blocks of a few hundred bytes."""
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    spark.conf.set("spark.sql.shuffle.partitions", "300")
    return (spark.range(0, int(9000000 * options.scale), 1, 300)
            .selectExpr("hash(id) AS key", "id")
            .repartition(300, "key").selectExpr("sum(key)", "sum(id)"))


def long(spark, options):
    """330 MB in blocks of a few MB, which do not compress."""
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    return (spark.range(0, int(20000 * options.scale), 1, 8)
            .selectExpr("id", "array_join(transform(sequence(1, 256), "
                        "n -> sha2(concat(id, n), 256)), '') AS text")
            .repartition(8, "id").selectExpr("sum(length(text))", "sum(id)"))


def join(spark, options):
    """A star of three tables, joined and grouped."""
    spark.conf.set("spark.sql.adaptive.enabled", "true")
    spark.conf.set("spark.sql.shuffle.partitions", "16")
    items = spark.range(0, int(3000000 * options.scale), 1, 8).selectExpr(
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


def tpch(spark, options):
    """Queries of TPC-H one after the other, on generated tables."""
    spark.conf.set("spark.sql.adaptive.enabled", "true")
    spark.conf.set("spark.sql.shuffle.partitions", "16")
    return Queries(spark, options.tpch)


class Queries:
    def __init__(self, spark, folder):
        self.spark = spark
        queries.load(spark, folder)

    def collect(self):
        return queries.run(self.spark)


WORKS = {work.__name__: work for work in (small, long, join, tpch)}
SIDES = {"netty": {}, "pool": PLUGIN,
         "host-local": {"spark.shuffle.readHostLocalDisk": "true",
                        "spark.shuffle.useOldFetchProtocol": "false"}}


def measure(work, settings, options, start=Cluster):
    """One round of one side: wall, fetch wait, movers, whole."""
    with tempfile.TemporaryDirectory() as folder:
        with start({**settings, **event_log(folder)}) as cluster:
            context = cluster.spark.sparkContext
            wait_for(context, 2)
            work(cluster.spark, options).collect()
            pids = executors(context.applicationId).values()
            before = processor_time(pids)
            begin = time.monotonic()
            work(cluster.spark, options).collect()
            wall = time.monotonic() - begin
            after = processor_time(pids)
        # The event log has both runs, which do the same.
        waited = shuffle_read(folder, "Fetch Wait Time") / 1000 / 2
    return wall, waited, after[0] - before[0], after[1] - before[1]


def measure_on_hosts(master, work, side, options):
    """The same, with the driver on the first host."""
    return json.loads(on_first(
        __file__, "--inside", side, work, "--master", master.url, "--work",
        master.work, "--scale", str(options.scale), "--tpch",
        str(options.tpch)))


def measure_inside(work, side, options):
    """The command that it runs there."""
    print(json.dumps(measure(
        WORKS[work], {**SIDES[side], **DRIVER, **SECRET}, options,
        lambda settings: application(options.master, options.work,
                                     settings))))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--host-local", action="store_true")
    parser.add_argument("--hosts", action="store_true")
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--tpch", help=argparse.SUPPRESS)
    for name in ("--inside", "--master", "--work"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    parser.add_argument("works", nargs="*", metavar="WORK",
                        choices=[[], *WORKS])
    options = parser.parse_args()
    if options.inside is not None:
        measure_inside(options.works[0], options.inside, options)
    else:
        compare(options)


def compare(options):
    sides = [side for side in SIDES
             if side != "host-local" or options.host_local]
    print("| work | side | wall | fetch wait | moving threads | all threads "
          "| wall beside Netty |")
    print("|---|---|---|---|---|---|---|")
    with contextlib.ExitStack() as stack:
        works = options.works or WORKS
        if "tpch" in works:
            options.tpch = stack.enter_context(tempfile.TemporaryDirectory())
            queries.generate(options.tpch, options.scale / 2)
        master = (stack.enter_context(two_hosts(SECRET)) if options.hosts
                  else None)
        for name in works:
            found = {side: [] for side in sides}
            for _ in range(options.rounds):
                for side in sides:
                    found[side].append(
                        measure_on_hosts(master, name, side, options)
                        if master else
                        measure(WORKS[name], SIDES[side], options))
            medians = {side: [statistics.median(column)
                              for column in zip(*found[side])]
                       for side in sides}
            for side, values in medians.items():
                print(f"| {name} | {side} | " + " | ".join(
                    f"{value:.2f} s" for value in values)
                    + f" | {values[0] / medians['netty'][0]:.3f} |",
                    flush=True)


if __name__ == "__main__":
    main()
