"""The processes of Spark's executors on this machine: their ids, CPU time and
memory."""
import glob
import os
import pathlib
import time

TICKS = os.sysconf("SC_CLK_TCK")
MOVERS = ("shuffle-server", "shuffle-client", "shuffle-boss", "shuffle-chunk",
          "ucxpool-")


def executors(application):
    """Process ids of an application's current executors, by executor id."""
    found = {}
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            words = pathlib.Path(path).read_text().split("\0")
        except OSError:
            continue  # it has ended
        if ("org.apache.spark.executor.CoarseGrainedExecutorBackend" in words
                and application in words):
            found[words[words.index("--executor-id") + 1]] = int(
                path.split("/")[2])
    return found


def ticks_of(path):
    fields = pathlib.Path(path).read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def processor_time(pids):
    """CPU seconds of the threads that transfer blocks, and of all threads."""
    moved = whole = 0
    for pid in pids:
        whole += ticks_of(f"/proc/{pid}/stat")
        for task in glob.glob(f"/proc/{pid}/task/*"):
            name = pathlib.Path(task, "comm").read_text()
            if name.startswith(MOVERS):
                moved += ticks_of(f"{task}/stat")
    return moved / TICKS, whole / TICKS


def pages(path):
    """The fields of smaps or smaps_rollup that count bytes, summed up."""
    sums = {}
    for line in pathlib.Path(path).read_text().splitlines():
        words = line.split()
        if len(words) == 3 and words[2] == "kB":
            name = words[0].rstrip(":")
            sums[name] = sums.get(name, 0) + int(words[1]) * 1024
    return sums


def num_open(pid):
    """The number of open descriptors of a process."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def num_mapped(pid, word):
    """The number of mappings of a process whose name contains this word."""
    return sum(word in line for line in
               pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines())


def wait_for(context, number, patience=300):
    """Wait until an application has this number of executors."""
    deadline = time.monotonic() + patience
    while context._jsc.sc().getExecutorIds().length() < number:
        if time.monotonic() > deadline:
            raise SystemExit("the executors do not start")
        time.sleep(0.1)
