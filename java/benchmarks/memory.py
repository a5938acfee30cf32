"""Memory of an executor with eight peers on its host, over Netty and over the
pool, in turn:

    make java-tests         in a build tree configured with --with-spark
    LIBUCXPOOL_BUILD=TREE python java/benchmarks/memory.py [--rounds 3]

Nine executors shuffle many small blocks and some long ones, each with each
other. Then the memory of each is read from /proc/PID/smaps. The table has the
medians of executors and rounds, in MiB: RSS, which counts a page that two
processes share for both; PSS, which counts half of it for each; and the parts
of RSS: the pool's blocks, its heap, mapped blocks of peers, libraries, and the
rest. Java's heap has a fixed size and is touched at the start, to exclude its
variation; --free-heap leaves it as Spark configures it. --set KEY=VALUE sets a
setting of the pool's side."""
import argparse
import pathlib
import re
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]
                       / "tests" / "spark"))
from cluster import PLUGIN, Cluster
from processes import executors, wait_for

PEERS = 8
COMMON = {
    "spark.master": f"local-cluster[{PEERS + 1},1,512]",
    "spark.executor.memory": "512m",
    "spark.sql.adaptive.enabled": "false",
    "spark.shuffle.compress": "false",
}
FIXED_HEAP = {"spark.executor.extraJavaOptions":
              "-Xms512m -XX:+AlwaysPreTouch"}
SIDES = {"netty": {}, "map": {**PLUGIN, "spark.ucxpool.wire": "map"},
         "ucx": {**PLUGIN, "spark.ucxpool.wire": "ucx"}}
NAMES = ("RSS", "PSS", "blocks", "heap", "peers' blocks", "libraries", "rest")


def shuffle(spark):
    for count, length, parts in ((200000, 1, 36), (20000, 64, 18)):
        text = f"repeat(sha2(string(id), 256), {length})"
        (spark.range(0, count, 1, parts).selectExpr("id", f"{text} AS text")
         .repartition(parts, "id").selectExpr("sum(length(text))").collect())


def kind(pid, name):
    """The kind of a mapping."""
    memory = re.match(r"/memfd:ucxpool:(\d+):(\w+)", name)
    if memory is None:
        return "libraries" if ".so" in name else "rest"
    if memory[1] != str(pid):
        return "peers' blocks"
    return "heap" if memory[2] == "heap" else "blocks"


def memory_of(pid):
    """Bytes, by NAMES."""
    sums = dict.fromkeys(NAMES, 0)
    name = ""
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
        words = line.split()
        if re.fullmatch(r"[0-9a-f]+-[0-9a-f]+", words[0]):
            name = words[5] if len(words) > 5 else ""
        elif words[0] == "Rss:":
            sums["RSS"] += int(words[1]) << 10
            sums[kind(pid, name)] += int(words[1]) << 10
        elif words[0] == "Pss:":
            sums["PSS"] += int(words[1]) << 10
    return sums


def measure(settings):
    """Of each executor."""
    with Cluster({**COMMON, **settings}) as cluster:
        context = cluster.spark.sparkContext
        wait_for(context, PEERS + 1)
        shuffle(cluster.spark)
        found = [memory_of(pid) for pid in
                 executors(context.applicationId).values()]
        logs = cluster.logs()
    for name, log in logs.items():
        if "over Netty" in log:
            raise SystemExit(f"{name}: shuffle blocks go over Netty")
    return found


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--free-heap", action="store_true")
    parser.add_argument("--set", action="append", default=[], metavar="K=V")
    arguments = parser.parse_args()
    given = dict(one.split("=", 1) for one in arguments.set)
    found = {side: [] for side in SIDES}
    for _ in range(arguments.rounds):
        for side, settings in SIDES.items():
            heap = {} if arguments.free_heap else FIXED_HEAP
            more = {} if side == "netty" else given
            found[side] += measure({**heap, **settings, **more})
    print("| side | " + " | ".join(NAMES) + " |")
    print("|" + "---|" * (len(NAMES) + 1))
    medians = {side: [statistics.median(one[name] for one in all_of)
                      for name in NAMES] for side, all_of in found.items()}
    for side, values in medians.items():
        print(f"| {side} | " + " | ".join(
            f"{value / (1 << 20):.0f}" for value in values) + " |")
        if side != "netty":
            print(f"| {side} - netty | " + " | ".join(
                f"{(value - netty) / (1 << 20):+.0f}" for value, netty in
                zip(values, medians["netty"])) + " |")


if __name__ == "__main__":
    main()
