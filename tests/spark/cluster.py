"""Spark clusters of two executors on this machine, with and without the plugin.
The executors are separate processes that connect over the loopback interface. The
demo and the benchmark in java/ also use these clusters."""
import glob
import json
import os
import pathlib
import tempfile

os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
BUILD = pathlib.Path(os.environ["LIBUCXPOOL_BUILD"])
JARS = [BUILD / "java" / name
        for name in ("ucxpool-spark.jar", "ucxpool-spark-tests.jar")]
os.environ["PYSPARK_SUBMIT_ARGS"] = (
    "--jars " + ",".join(map(str, JARS)) + " --driver-memory 1g pyspark-shell")

# All clusters of a process use the local directory of the first.
FOLDER = tempfile.TemporaryDirectory()
os.environ["SPARK_LOCAL_DIRS"] = FOLDER.name

import pyspark
from pyspark.sql import SparkSession

PLUGIN = {
    "spark.shuffle.manager": "org.ucxpool.spark.UcxPoolShuffleManager",
    "spark.plugins": "org.ucxpool.spark.UcxPoolPlugin",
    "spark.ucxpool.library": str(BUILD / ".libs" / "libucxpool.so"),
}
COMMON = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "ERROR",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.shuffle.partitions": "7",
    "spark.ui.showConsoleProgress": "false",
    # No query begins before all executors have registered. With free cores for
    # all tasks of a stage, each executor then gets as many tasks as the other.
    "spark.scheduler.minRegisteredResourcesRatio": "1",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "1800s",
}
# Heap in use when idle: the pool keeps two staging buffers of messageSize.
IDLE = 2 << 20


class Cluster:
    """Two executors with `cores` cores each; or, with `master`, executors on its
    workers, whose work directory is `work`."""

    def __init__(self, settings, cores=1, master=None, work=None):
        # Starts the JVM, whose start options apply to all clusters.
        pyspark.SparkContext._ensure_initialized()
        if master is None:
            master = f"local-cluster[2,{cores},1024]"
            settings = {"spark.cores.max": 2 * cores, **settings}
        builder = SparkSession.builder.appName("ucxpool").master(master)
        for key, value in {**COMMON,
                           "spark.jars": ",".join(map(str, JARS)),
                           **settings}.items():
            builder = builder.config(key, value)
        self.spark = builder.getOrCreate()
        self.work = os.path.join(
            work or os.path.join(os.path.dirname(pyspark.__file__), "work"),
            self.spark.sparkContext.applicationId)
        for name, type_name in (("CountersOfExecutor", "string"),
                                ("StopOnce", "long")):
            self.spark.udf.registerJavaFunction(
                name, f"org.ucxpool.spark.{name}", type_name)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.spark.stop()

    def counters(self, executors=2):
        """The counters of each executor, by its id."""
        told = {}
        while len(told) < executors:
            for row in (self.spark.range(0, 8, 1, 8)
                        .selectExpr("CountersOfExecutor(id)").collect()):
                words = dict(word.split("=") for word in row[0].split())
                words = {key: int(value) for key, value in words.items()}
                told[words.pop("executor")] = words
        return told

    def idle_counters(self):
        """The counters of each executor, after it has released all memory:
        blocks for an ended task may still be arriving."""
        while True:
            told = self.counters()
            if all(counted["pool.heap_live_bytes"] == IDLE
                   for counted in told.values()):
                return told

    def total(self, name):
        """The sum of a counter over all executors."""
        return sum(told.get(name, 0) for told in self.counters().values())

    def logs(self, *texts):
        """The stderr of each executor, by its path, when all of them contain
        these texts: Spark writes what it reads from a pipe."""
        while True:
            logs = {name: pathlib.Path(name).read_text(errors="replace")
                    for name in sorted(glob.glob(f"{self.work}/*/stderr"))}
            if all(text in log for log in logs.values() for text in texts):
                return logs


def event_log(folder):
    """Settings that make a cluster write its event log to the directory."""
    return {"spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": f"file://{folder}"}


def events(folder):
    """The events of clusters that have ended."""
    for path in sorted(pathlib.Path(folder).glob("**/events_*")):
        for line in path.read_text().splitlines():
            yield json.loads(line)


def shuffle_read(folder, name):
    """The sum of a shuffle read metric over all tasks."""
    return sum(event["Task Metrics"]["Shuffle Read Metrics"][name]
               for event in events(folder)
               if event["Event"] == "SparkListenerTaskEnd"
               and event.get("Task Metrics"))
