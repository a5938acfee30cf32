"""dask_cluster.py [--rounds N] [--protocols LIST] [--json FILE]

Clusters of two workers of Dask's `distributed`, one for each protocol in turn,
do the same work; medians of wall time, and of the processor time of all
processes (scheduler, client and workers).
"""
import argparse
import json
import statistics
import time

import numpy
import psutil
from distributed import Client, LocalCluster, wait


def make(size, seed):
    return numpy.random.default_rng(seed).integers(
        0, 256, size, dtype=numpy.uint8)


def total(*parts):
    return sum(int(part[::4096].sum()) for part in parts)


def between_workers(client, num, size, seed):
    """Arrays made on one worker, used on the other. The clock runs from when
    they are there."""
    one, other = sorted(client.scheduler_info()["workers"])
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


def measure(protocol, round):
    found = {}
    with LocalCluster(n_workers=2, threads_per_worker=1, protocol=protocol,
                      dashboard_address=None, silence_logs=50) as cluster, \
            Client(cluster) as client:
        here = psutil.Process()
        processes = [here, *here.children(recursive=True)]
        for number, (work, prepare) in enumerate(WORKS.items()):
            prepare(client, 10 * round + number)()
            run = prepare(client, 500 + 10 * round + number)
            used, begin = processor_time(processes), time.perf_counter()
            run()
            found[work] = (time.perf_counter() - begin,
                           processor_time(processes) - used)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--protocols", default="tcp,ucxpool")
    parser.add_argument("--json")
    given = parser.parse_args()
    protocols = given.protocols.split(",")
    results = {}
    for round in range(given.rounds):
        turn = round % len(protocols)
        for protocol in protocols[turn:] + protocols[:turn]:
            for work, (wall, used) in measure(protocol, round).items():
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
