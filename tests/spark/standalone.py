"""A cluster as users start one: a master and workers, which are Spark daemons that
wait for applications."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import threading

import pyspark

import cluster

SPARK_CLASS = pathlib.Path(pyspark.__file__).parent / "bin" / "spark-class"


class Daemon:
    """A master or a worker, and its log."""

    def __init__(self, log, command, variables):
        self.log = open(log, "w")
        self.reader = None
        # The kernel kills it when this process ends, for whatever reason.
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *command],
            env={**os.environ, **variables}, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, start_new_session=True)

    def says(self, pattern):
        """Wait for a line that matches. A thread writes later lines to the log."""
        for line in self.process.stderr:
            self.log.write(line)
            found = re.search(pattern, line)
            if found:
                self.reader = threading.Thread(
                    target=shutil.copyfileobj, daemon=True,
                    args=(self.process.stderr, self.log))
                self.reader.start()
                return found
        self.log.flush()
        raise AssertionError(pathlib.Path(self.log.name).read_text())

    def end(self):
        """Kill it and all processes that it has started."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        if self.reader is not None:
            self.reader.join()
        self.process.stderr.close()
        self.log.close()


def application(url, work, settings, executors=2):
    """A driver of the master at `url`, whose workers have the work directory
    `work`."""
    return cluster.Cluster(
        {"spark.executor.cores": "1", "spark.executor.memory": "1g",
         "spark.cores.max": str(executors), **settings}, master=url, work=work)


class Standalone:
    """A master without workers. A prefix is a command that runs the command after
    it on another host. Settings are Spark's, for one daemon."""

    def __init__(self, host="127.0.0.1", prefix=(), settings=None):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)
        self.work = self.folder / "work"
        self.daemons = []
        master = self.start("master", host, prefix, settings, [
            "org.apache.spark.deploy.master.Master", "--host", host,
            "--port", "0", "--webui-port", "0"])
        self.url = master.says("Starting Spark master at (spark://.*)")[1]

    def start(self, name, host, prefix, settings, command):
        options = " ".join(f"-D{key}={value}"
                           for key, value in (settings or {}).items())
        # Daemons of one host share it: the shuffle service of one worker serves
        # the files of all executors there.
        files = self.folder / f"files-{host}"
        files.mkdir(exist_ok=True)
        self.daemons.append(Daemon(
            self.folder / f"{name}.log", [*prefix, SPARK_CLASS, *command],
            {"SPARK_LOCAL_IP": host, "SPARK_DAEMON_JAVA_OPTS": options,
             "SPARK_DAEMON_MEMORY": "256m", "SPARK_LOCAL_DIRS": str(files)}))
        return self.daemons[-1]

    def add_worker(self, name, host="127.0.0.1", prefix=(), settings=None,
                   cores=1):
        """Start a worker. Does not wait; says() of the result does."""
        return self.start(name, host, prefix, settings, [
            "org.apache.spark.deploy.worker.Worker", "--host", host,
            "--webui-port", "0", "--cores", str(cores), "--memory",
            f"{cores}g", "--work-dir", str(self.work), self.url])

    def application(self, settings, executors=2):
        """A driver, which waits until this many executors have
        registered."""
        return application(self.url, self.work, settings, executors)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.end()

    def end(self):
        for daemon in self.daemons:
            daemon.end()
        self.temporary.cleanup()
