"""Two network name spaces of this machine as two hosts, with a cable between
them, and on them a standalone Spark cluster whose processes have names, numbers
and shared memory of their own. Takes root, and ip of iproute2."""
import os
import pathlib
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

PATIENCE = 120  # seconds
ADDRESSES = ("10.213.8.1", "10.213.8.2")
PORT = 7077
MASTER = f"spark://{ADDRESSES[0]}:{PORT}"
ISOLATED = ["unshare", "--uts", "--ipc", "--pid", "--fork",
            "--kill-child=KILL", "--mount-proc"]


def run(*command):
    subprocess.run(command, check=True, timeout=PATIENCE)


class Hosts:
    """The master and a worker on the first, a worker on the second."""

    def __enter__(self):
        # What ends with the process must end with a signal, too.
        signal.signal(signal.SIGTERM, lambda *args: sys.exit(143))
        self.names = [f"ucxp{os.getpid()}h{i}" for i in (1, 2)]
        self.folder = tempfile.mkdtemp()
        self.processes = []
        self.secret = secrets.token_hex()
        try:
            self.plug_in()
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error):
        for process in self.processes:
            process.kill()
            process.wait()
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False,
                           stderr=subprocess.DEVNULL)
        shutil.rmtree(self.folder)

    def plug_in(self):
        for name in self.names:
            run("ip", "netns", "add", name)
        run("ip", "-n", self.names[0], "link", "add", "cable", "type", "veth",
            "peer", "name", "cable", "netns", self.names[1])
        for name, address in zip(self.names, ADDRESSES):
            run("ip", "-n", name, "addr", "add", f"{address}/24", "dev",
                "cable")
            for link in ("lo", "cable"):
                run("ip", "-n", name, "link", "set", link, "up")

    def start(self):
        import pyspark

        home = os.path.dirname(pyspark.__file__)
        settings = pathlib.Path(self.folder, "settings")
        settings.touch(mode=0o600)
        settings.write_text("".join(f"{key} {value}\n" for key, value
                                    in self.settings().items()))
        deploy = "org.apache.spark.deploy"
        common = ["--properties-file", str(settings), "--webui-port", "0"]
        commands = [(0, f"{deploy}.master.Master", "--port", str(PORT))]
        for host in (0, 1):
            commands.append((host, f"{deploy}.worker.Worker", "--cores", "1",
                             "--memory", "2g", "--work-dir",
                             f"{self.folder}/work{host}", MASTER))
        for host, name, *words in commands:
            log = open(f"{self.folder}/{name}{host}.log", "w")
            self.processes.append(subprocess.Popen(
                ["ip", "netns", "exec", self.names[host], *ISOLATED, "sh",
                 "-c", 'hostname "$1" && shift && exec "$@"', "sh",
                 self.names[host], f"{home}/bin/spark-class", name, *common,
                 "--host", ADDRESSES[host], *words],
                env={**os.environ, "SPARK_HOME": home,
                     "SPARK_LOCAL_IP": ADDRESSES[host],
                     "SPARK_DAEMON_MEMORY": "256m"},
                stdout=log, stderr=log))
            log.close()

    def settings(self):
        """With which a cluster of this process authenticates itself."""
        return {"spark.authenticate": "true",
                "spark.authenticate.secret": self.secret}

    def python(self, *words, seconds):
        """Run this Python on the first host; returns what it prints."""
        return subprocess.run(
            ["ip", "netns", "exec", self.names[0], sys.executable, *words],
            env={**os.environ, "UCXPOOL_SECRET_OF_HOSTS": self.secret},
            check=True, stdout=subprocess.PIPE, text=True,
            timeout=seconds).stdout


def settings_inside():
    """Settings of a cluster whose driver runs on the first host."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            socket.create_connection((ADDRESSES[0], PORT), 1).close()
            break
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
    return {"spark.master": MASTER, "spark.driver.host": ADDRESSES[0],
            "spark.driver.bindAddress": ADDRESSES[0],
            "spark.executor.cores": "1", "spark.cores.max": "2",
            "spark.executor.memory": "1024m",
            "spark.authenticate": "true",
            "spark.authenticate.secret":
                os.environ["UCXPOOL_SECRET_OF_HOSTS"]}
