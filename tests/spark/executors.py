"""Executors as seen from outside: their files, their end, and a query that pauses
in one of them."""
import os
import pathlib
import select
import threading

# Many requests, one at a time, so that some are not sent yet when a task
# pauses.
SLOW = {"spark.reducer.maxSizeInFlight": "64k",
        "spark.reducer.maxReqsInFlight": "1",
        "spark.shuffle.compress": "false",
        "spark.sql.adaptive.enabled": "false"}
# Of each of two executors: each gets half of the maps and half of the reducers
# of a Pause.
CORES = 4


def folder_of(pid):
    """The directory of an executor's files."""
    for variable in pathlib.Path(f"/proc/{pid}/environ").read_text().split("\0"):
        if variable.startswith("SPARK_EXECUTOR_DIRS="):
            return variable.partition("=")[2]
    raise AssertionError(f"process {pid} has no SPARK_EXECUTOR_DIRS")


def shuffle_files(folder, ending):
    """The files of map outputs in a directory."""
    return list(pathlib.Path(folder).glob(f"**/shuffle_*{ending}"))


class End:
    """Waits for the end of a process that is not our child."""

    def __init__(self, pid):
        self.descriptor = os.pidfd_open(pid)

    def wait(self):
        select.select([self.descriptor], [], [])
        os.close(self.descriptor)


class Pause:
    """A query in which one task pauses while it fetches: the first task to get
    there, or the first of one executor."""

    ROWS = 4000
    WANTED = [(ROWS * (ROWS - 1) // 2, ROWS)]

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        for name in ("reached", "go"):
            os.mkfifo(self.folder / name)
        self.name = str(folder)

    @classmethod
    def of_executor(cls, cluster, executor):
        # Each executor runs in its own directory.
        pause = cls(os.path.join(cluster.work, str(executor)))
        pause.name = "."
        return pause

    def start(self, cluster):
        """Sum two long partitions in a thread."""
        self.result = []
        self.thread = threading.Thread(
            target=lambda: self.result.append(
                tuple(rows(cluster, self.name).collect()[0])))
        self.thread.start()

    def wait(self):
        """Wait until the task pauses. Returns its executor."""
        reached = os.open(self.folder / "reached",
                          os.O_RDONLY | os.O_NONBLOCK)
        try:
            while not select.select([reached], [], [], 0.1)[0]:
                if not self.thread.is_alive():
                    raise AssertionError("the query ended without a pause")
            return int(os.read(reached, 16))
        finally:
            os.close(reached)

    def resume(self):
        """Continue the task, wait for the query, and return its rows."""
        (self.folder / "go").write_text("go")
        self.thread.join()
        for name in ("taken", "go"):
            (self.folder / name).unlink()
        return self.result


def rows(cluster, folder):
    return (cluster.spark.range(0, Pause.ROWS, 1, 8)
            .selectExpr("id", "repeat(sha2(string(id), 256), 30) AS text")
            .repartition(2, "id")
            .selectExpr(f"StopOnce(id, '{folder}') AS id", "text")
            .selectExpr("sum(id)", "count(distinct text)"))
