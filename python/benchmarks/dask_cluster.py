"""dask_cluster.py [--gpu | --lineitem SF] [--workers N] [--rounds N]
                [--protocols LIST] [--works PART] [--json FILE]

Runs the same work on clusters of Dask's `distributed` with two workers, or N,
one cluster for each protocol, in turn. Prints medians of the wall time and of
the CPU time of all processes (scheduler, client and workers). With --gpu the
arrays are CuPy's; on a host with several GPUs each worker has its own. With
--lineitem the work is a p2p shuffle of TPC-H's table lineitem, at this scale
factor, by the order key.
"""
import argparse
import json
import statistics
import time

import dask
import numpy
import psutil
from distributed import (Client, LocalCluster, Nanny, Scheduler, SpecCluster,
                         wait)


def make(size, seed):
    return numpy.random.default_rng(seed).integers(
        0, 256, size, dtype=numpy.uint8)


def total(*parts):
    return sum(int(part[::4096].sum()) for part in parts)


def workers_of(client):
    """Return the workers' addresses, when the client knows all of them."""
    for _ in range(100):
        found = sorted(client.scheduler_info(n_workers=-1)["workers"])
        if len(found) == len(client.cluster.worker_spec):
            return found
        time.sleep(0.1)
    raise SystemExit(f"workers have died: only {found} are left")


def between_workers(client, num, size, seed):
    """Make arrays on one worker and use them on another. The time starts when
    they have been made."""
    one, other = workers_of(client)[:2]
    parts = [client.submit(make, size, seed * 1000 + i, workers=[one],
                           pure=False) for i in range(num)]
    wait(parts)

    def run():
        client.submit(total, *parts, workers=[other], pure=False).result()
    return run


def scatter(client, seed):
    data = make(64 << 20, seed)
    return lambda: client.scatter(data, hash=False)


def gather(client, seed):
    future = client.submit(make, 64 << 20, seed, pure=False)
    wait(future)
    return future.result


def submits(client, seed):
    def run():
        for i in range(50):
            client.submit(lambda x: x, i, pure=False).result()
    return run


def make_on_gpu(num, size, seed):
    import cupy
    return [cupy.full(size, (seed + i) % 251, dtype=cupy.uint8)
            for i in range(num)]


def ends_on_gpu(parts, every):
    """Return the type of the arrays, and the last bytes of some."""
    return (type(parts[0]).__module__,
            [int(part[-1]) for part in parts[::every]])


def on_gpus(client, num, size, seed):
    one, other = workers_of(client)[:2]
    parts = client.submit(make_on_gpu, num, size, seed, workers=[one],
                          pure=False)
    wait(parts)

    def run():
        kind, ends = client.submit(ends_on_gpu, parts, num // 10,
                                   workers=[other], pure=False).result()
        if kind != "cupy" or ends != [(seed + i) % 251
                                      for i in range(0, num, num // 10)]:
            raise SystemExit("the bytes differ")
    return run


def all_ends_on_gpu(every, *lists):
    return [ends_on_gpu(parts, every) for parts in lists]


def each_to_each(client, size, seed):
    """Each worker uses arrays that every other worker made for it, 1 GB in
    total."""
    workers = workers_of(client)
    num = max(1, 10**9 // size // (len(workers) - 1))
    every = max(1, num // 10)
    parts = {(one, other): client.submit(
        make_on_gpu, num, size, seed, workers=[one], pure=False)
        for one in workers for other in workers if one != other}
    wait(list(parts.values()))
    right = ("cupy", [(seed + i) % 251 for i in range(0, num, every)])

    def run():
        ends = client.gather([client.submit(
            all_ends_on_gpu, every,
            *(made for (_, other), made in parts.items() if other == worker),
            workers=[worker], pure=False) for worker in workers])
        if any(tuple(end) != right for of_one in ends for end in of_one):
            raise SystemExit("the bytes differ")
    return run


# The columns of lineitem. Texts are those of TPC-H, or have the same length.
MODES = ["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"]
INSTRUCTIONS = ["DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN"]
LINEITEMS = 6_001_215  # at scale factor 1
PART_ROWS = 250_000


def lineitems(first, num):
    import pandas
    rng = numpy.random.default_rng(first)
    day = numpy.datetime64("1992-01-02") + rng.integers(0, 2526, num)
    price = rng.integers(90_000, 10_500_000, num) / 100
    comments = numpy.array(["x" * one for one in range(10, 44)], dtype=object)
    return pandas.DataFrame({
        "l_orderkey": rng.permutation(
            numpy.arange(first, first + num) // 4 + 1),
        "l_partkey": rng.integers(1, 200_001, num),
        "l_suppkey": rng.integers(1, 10_001, num),
        "l_linenumber": rng.integers(1, 8, num),
        "l_quantity": rng.integers(1, 51, num).astype(float),
        "l_extendedprice": price,
        "l_discount": rng.integers(0, 11, num) / 100,
        "l_tax": rng.integers(0, 9, num) / 100,
        "l_returnflag": rng.choice(["A", "N", "R"], num),
        "l_linestatus": rng.choice(["O", "F"], num),
        "l_shipdate": day.astype("datetime64[s]"),
        "l_commitdate": (day + 30).astype("datetime64[s]"),
        "l_receiptdate": (day + 7).astype("datetime64[s]"),
        "l_shipinstruct": rng.choice(INSTRUCTIONS, num),
        "l_shipmode": rng.choice(MODES, num),
        "l_comment": rng.choice(comments, num),
    }).astype({name: "string[pyarrow]" for name in (
        "l_returnflag", "l_linestatus", "l_shipinstruct", "l_shipmode",
        "l_comment")})


def shuffle_lineitem(client, scale):
    import dask.dataframe as dd
    num = int(LINEITEMS * scale)
    starts = list(range(0, num, PART_ROWS))
    table = dd.from_map(lineitems, starts,
                        [min(PART_ROWS, num - one) for one in starts],
                        meta=lineitems(0, 1)).persist()
    wait(table)

    def run():
        parts = table.shuffle("l_orderkey", shuffle_method="p2p")
        found = int(parts.map_partitions(
            lambda part: len(part), meta=("rows", int)).compute().sum())
        if found != num:
            raise SystemExit(f"the shuffle returned {found} of {num} rows")
    return run


GPU_WORKS = {
    "1 GB in 100 frames":
        lambda client, seed: on_gpus(client, 100, 10_000_000, seed),
    "10,000 frames of 64 KiB":
        lambda client, seed: on_gpus(client, 10000, 65536, seed),
    "each to each, 1 GB a worker in frames of 10 MB":
        lambda client, seed: each_to_each(client, 10_000_000, seed),
}

WORKS = {
    "128 MB, worker to worker":
        lambda client, seed: between_workers(client, 1, 128 << 20, seed),
    "32 x 4 MB, worker to worker":
        lambda client, seed: between_workers(client, 32, 4 << 20, seed),
    "500 x 16 kB, worker to worker":
        lambda client, seed: between_workers(client, 500, 16 << 10, seed),
    "scatter 64 MB": scatter,
    "gather 64 MB": gather,
    "50 submits": submits,
}


def processor_time(processes):
    return sum(sum(one.cpu_times()[:2]) for one in processes)


def cluster_of(protocol, num_workers, num_gpus):
    """Return a cluster. Each worker has its own GPU if there are GPUs."""
    if not num_gpus:
        return LocalCluster(n_workers=num_workers, threads_per_worker=1,
                            protocol=protocol, dashboard_address=None,
                            silence_logs=50)
    workers = {i: {"cls": Nanny, "options": {
        "protocol": protocol, "nthreads": 1, "dashboard": False,
        "host": "127.0.0.1",
        "env": {"CUDA_VISIBLE_DEVICES": str(i % num_gpus)}}}
        for i in range(num_workers)}
    return SpecCluster(workers, {"cls": Scheduler, "options": {
        "protocol": protocol, "host": "127.0.0.1", "dashboard": False}},
        silence_logs=50)


def measure(protocol, works, num_workers, num_gpus, round):
    found = {}
    dask.config.set({"distributed.comm.ucxpool.device":
                     0 if num_gpus and protocol == "ucxpool" else None})
    with cluster_of(protocol, num_workers, num_gpus) as cluster, \
            Client(cluster) as client:
        client.wait_for_workers(num_workers)
        here = psutil.Process()
        processes = [here, *here.children(recursive=True)]
        for number, (work, prepare) in enumerate(works.items()):
            prepare(client, 10 * round + number)()
            run = prepare(client, 500 + 10 * round + number)
            used, begin = processor_time(processes), time.perf_counter()
            run()
            found[work] = (time.perf_counter() - begin,
                           processor_time(processes) - used)
    return found


def count_gpus():
    import cupy
    return cupy.cuda.runtime.getDeviceCount()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--protocols", default="tcp,ucxpool")
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--lineitem", type=float, metavar="SF")
    parser.add_argument("--works", default="",
                        help="run only works with this in their name")
    parser.add_argument("--json")
    given = parser.parse_args()
    if given.workers < 2:
        parser.error(f"--workers {given.workers}: must be 2 or more")
    num_gpus = count_gpus() if given.gpu else 0
    works = WORKS
    if given.gpu:
        works = GPU_WORKS
    elif given.lineitem:
        works = {f"p2p shuffle of lineitem, SF {given.lineitem:g}":
                 lambda client, _: shuffle_lineitem(client, given.lineitem)}
    works = {work: prepare for work, prepare in works.items()
             if given.works in work}
    protocols = given.protocols.split(",")
    results = {}
    for round in range(given.rounds):
        turn = round % len(protocols)
        for protocol in protocols[turn:] + protocols[:turn]:
            for work, (wall, used) in measure(
                    protocol, works, given.workers, num_gpus, round).items():
                results.setdefault(work, {}).setdefault(
                    protocol, []).append((wall, used))
    for work, found in results.items():
        print(work)
        first = [statistics.median(one) for one in zip(*found[protocols[0]])]
        for protocol, values in found.items():
            wall, used = (statistics.median(one) for one in zip(*values))
            print(f"  {protocol:10} {wall * 1e3:8.1f} ms ({wall / first[0]:.2f})"
                  f" {used * 1e3:8.1f} ms of processor time "
                  f"({used / first[1]:.2f})")
    if given.json:
        with open(given.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
