"""python -m ucxpool.demo [-d DELIMITER] [-k FIELD] [-r ROUNDS] FILE...

Two Dask workers on ucxpool:// shuffle the records of the files by a key, with
the p2p shuffle of dask.dataframe. Two workers on tcp:// do the same, in turn.
Prints the times of both, and checks that no record was lost or changed: it
compares the number of records, a checksum and the keys with those of the
files.

  -d  the delimiter between the fields of a record (default: a comma)
  -k  the number of the key field, from 1 (default: 1)
  -r  timed rounds of each protocol, after a warm-up round (default: 3)
"""
import argparse
import contextlib
import hashlib
import os
import statistics
import sys
import time

PROTOCOLS = ("ucxpool", "tcp")
PARTS = 8
# The approximate size of an input partition in bytes.
CHUNK = 4 << 20


def cut(path, chunk=CHUNK):
    """Split a file into ranges that end at the end of a record."""
    ranges, begin, size = [], 0, os.path.getsize(path)
    with open(path, "rb") as file:
        while begin < size:
            file.seek(min(begin + chunk, size) - 1)
            file.readline()
            ranges.append((path, begin, file.tell()))
            begin = file.tell()
    return ranges


def records_of(part):
    path, begin, end = part
    with open(path, "rb") as file:
        file.seek(begin)
        return file.read(end - begin).splitlines()


def key_of(record, delimiter, field):
    """Return the key of a record; it is empty if the record has no such
    field."""
    fields = record.split(delimiter, field)
    return fields[field - 1] if len(fields) >= field else b""


def fingerprint(record):
    return int.from_bytes(hashlib.blake2b(record, digest_size=8).digest(),
                          "little")


def summary(keys, records):
    """Return the number of records, their bytes, a checksum that does not
    depend on the order, and the keys."""
    return (len(records), sum(map(len, records)),
            sum(map(fingerprint, records)) % (1 << 64), set(keys))


def frame_of(part, delimiter, field):
    import pandas
    records = records_of(part)
    return pandas.DataFrame({
        "key": [key_of(one, delimiter, field).decode("latin-1")
                for one in records],
        "record": [one.decode("latin-1") for one in records]},
        dtype="string[pyarrow]")


def summary_of_frame(frame):
    return summary([one.encode("latin-1") for one in frame["key"]],
                   [one.encode("latin-1") for one in frame["record"]])


def total(summaries, what):
    """Add up the summaries. No key may be in two parts."""
    keys = set()
    for _, _, _, some in summaries:
        if keys & some:
            raise SystemExit(f"{what}: a key is in two parts")
        keys |= some
    count, size, checksum = (sum(values) for values in
                             list(zip(*summaries))[:3])
    return count, size, checksum % (1 << 64), keys


def shuffle(client, ranges, delimiter, field, show):
    """Return the summaries of the parts, and the time of the shuffle."""
    import dask.dataframe
    from distributed import progress, wait
    frame = dask.dataframe.from_map(frame_of, ranges, delimiter=delimiter,
                                    field=field).persist()
    wait(frame)
    begin = time.perf_counter()
    shuffled = frame.shuffle("key", npartitions=PARTS,
                             shuffle_method="p2p").persist()
    if show:
        progress(shuffled, notebook=False)
        print()
    wait(shuffled)
    took = time.perf_counter() - begin
    futures = client.map(summary_of_frame,
                         client.compute(shuffled.to_delayed()), pure=False)
    return client.gather(futures), took


def arguments():
    parser = argparse.ArgumentParser(
        prog="python -m ucxpool.demo", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="python -m ucxpool.demo [-d DELIMITER] [-k FIELD] [-r ROUNDS] "
              "FILE...", add_help=True)
    parser.add_argument("-d", default=",", help=argparse.SUPPRESS)
    parser.add_argument("-k", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("-r", type=int, default=3, help=argparse.SUPPRESS)
    parser.add_argument("files", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if not given.d:
        parser.error("-d: the delimiter is empty")
    if given.k < 1 or given.r < 1:
        parser.error("-k and -r must be 1 or more")
    for path in given.files:
        if not os.path.isfile(path) or not os.access(path, os.R_OK):
            parser.error(f"{path}: not a file, or not readable")
    return given


def main():
    given = arguments()
    try:
        import dask.dataframe  # noqa: F401
        import distributed
    except ImportError as error:
        raise SystemExit(f"{error}: pip install 'ucxpool[demo]'") from error
    delimiter = given.d.encode()
    ranges = [one for path in given.files for one in cut(path)]
    if not ranges:
        raise SystemExit("the files are empty: there is nothing to shuffle")
    records = [one for part in ranges for one in records_of(part)]
    expected = summary([key_of(one, delimiter, given.k) for one in records],
                       records)
    print(f"{expected[0]:,} records of {len(given.files)} files, "
          f"{expected[1] / 1e6:,.1f} MB, {len(expected[3]):,} keys; "
          f"Dask {distributed.__version__}, two workers for each protocol")
    del records

    times = {protocol: [] for protocol in PROTOCOLS}
    with contextlib.ExitStack() as ends:
        clients = {}
        for protocol in PROTOCOLS:
            cluster = ends.enter_context(distributed.LocalCluster(
                n_workers=2, threads_per_worker=1, protocol=protocol,
                dashboard_address="127.0.0.1:0", silence_logs=50))
            clients[protocol] = ends.enter_context(
                distributed.Client(cluster))
            print(f"  {protocol + '://':11} dashboard: "
                  f"{cluster.dashboard_link}")
        for number in range(given.r + 1):
            for protocol in PROTOCOLS:
                show = number == 0
                if show:
                    print(f"\nShuffling on {protocol}://")
                with clients[protocol].as_current():
                    summaries, took = shuffle(
                        clients[protocol], ranges, delimiter, given.k, show)
                found = total(summaries, protocol)
                if found != expected:
                    raise SystemExit(
                        f"{protocol}: the shuffle returned {found[0]:,} "
                        f"records of {found[1]:,} bytes, expected "
                        f"{expected[0]:,} of {expected[1]:,}, or some records "
                        "have changed")
                if number > 0:
                    times[protocol].append(took)
    report(times, expected)


def report(times, expected):
    print("\nSeconds of each shuffle and their median:")
    for protocol, values in times.items():
        each = " ".join(f"{value:7.3f}" for value in values)
        print(f"  {protocol + '://':11} {each}  median "
              f"{statistics.median(values):.3f}")
    ratio = (statistics.median(times["ucxpool"])
             / statistics.median(times["tcp"]))
    print(f"  ucxpool:// takes {ratio:.2f} of the time of tcp://")
    print(f"\nNothing was lost: each time {expected[0]:,} records, "
          f"{expected[1]:,} bytes, checksum {expected[2]:016x},\nas in the "
          f"files, and each of {len(expected[3]):,} keys in one of "
          f"{PARTS} parts.")


if __name__ == "__main__":
    sys.exit(main())
