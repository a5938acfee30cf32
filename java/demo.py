"""Shuffle records with Spark SQL, on a cluster of two executors, over Netty and
over the pool:

    LIBUCXPOOL_BUILD=TREE python java/demo.py [-d DELIMITER] [-k FIELD] FILE...

where TREE is a build tree with `make java-tests`. The records are
shuffled by a field into eight partitions. The count, length and checksum of all
records must be the same before and after the shuffle, with both transports. The
output includes Spark's own metrics."""
import argparse
import os
import pathlib
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]
                       / "tests" / "spark"))
from cluster import PLUGIN, Cluster, event_log, shuffle_read

SUMS = ("count(*) AS records", "sum(octet_length(value)) AS bytes",
        "sum(crc32(encode(value, 'UTF-8'))) AS sum")
METRICS = ("Remote Blocks Fetched", "Remote Bytes Read", "Fetch Wait Time")


def sums(rows):
    return tuple(rows.selectExpr(*SUMS).collect()[0])


def run(files, delimiter, field, settings):
    """Sums before and after, seconds, metrics, blocks over the pool."""
    quoted = delimiter.replace("\\", "\\\\").replace("'", "\\'")
    with tempfile.TemporaryDirectory() as folder:
        with Cluster({**settings, **event_log(folder)}) as cluster:
            records = cluster.spark.read.text(files)
            before = sums(records)
            start = time.monotonic()
            behind = sums(records.selectExpr(
                "value", f"split_part(value, '{quoted}', {field}) AS key")
                .repartition(8, "key"))
            seconds = time.monotonic() - start
            pooled = cluster.total("fetchedBlocks")
        read = [shuffle_read(folder, name) for name in METRICS]
        return before, behind, seconds, read, pooled


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("-d", dest="delimiter", default="|")
    parser.add_argument("-k", dest="field", type=int, default=1)
    parser.add_argument("files", nargs="+", metavar="FILE")
    arguments = parser.parse_args()
    files = [f"file://{os.path.abspath(name)}" for name in arguments.files]

    print(f"  {'':8} {'records':>10} {'bytes':>12} {'sum':>20}")
    lines = []
    wanted = None
    for side, settings in (("netty", {}), ("pool", PLUGIN)):
        before, behind, seconds, read, pooled = run(
            files, arguments.delimiter, arguments.field, settings)
        if wanted is None:
            wanted = before
            print("  {:8} {:10} {:12} {:20}".format("input", *before))
        print("  {:8} {:10} {:12} {:20}".format(side, *behind), flush=True)
        if before != wanted or behind != wanted:
            sys.exit(f"{side}: the records behind the shuffle are not those "
                     "before it")
        if (pooled > 0) != (side == "pool"):
            sys.exit(f"{side}: {pooled} blocks went over the pool")
        lines.append(f"  {side:8} {read[0]:10} {read[1]:12} "
                     f"{read[2] / 1000:11.3f} s {seconds:8.3f} s "
                     f"{pooled:10}")
    print("\n  Spark's metrics of the blocks fetched between the executors")
    print(f"  {'':8} {'blocks':>10} {'bytes':>12} {'fetch wait':>13} "
          f"{'query':>10} {'over pool':>10}")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
