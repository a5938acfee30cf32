"""Tests Dask on two hosts, with the commands of docs/guide/dask.md, "On two
hosts". The hosts are network namespaces of this machine, and the test cuts the
virtual cable between them. Skipped if namespaces cannot be created."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs/guide/dask.md"
LENGTH = 1 << 20  # numbers of 8 bytes

# A host has its own name, processes and shared memory.
ISOLATED = ["unshare", "--uts", "--ipc", "--pid", "--fork",
            "--kill-child=KILL", "--mount-proc"]


def commands():
    """Return the commands of the section, in order: lines indented by four
    spaces."""
    section = DOCUMENT.read_text().split("\n## On two hosts\n")[1].split(
        "\n## ")[0]
    return re.findall(r"^ {4}(\S.*)$", section, re.MULTILINE)


def why_not():
    if shutil.which("ip") is None:
        return "there is no ip"
    if os.getuid() != 0:
        return "only root can make network name spaces"
    name = f"ucxp{os.getpid()}t"
    for command in (["ip", "netns", "add", name],
                    ["ip", "-n", name, "link", "add", "one", "type", "veth",
                     "peer", "name", "two"],
                    ["ip", "netns", "exec", name, *ISOLATED, "true"]):
        said = subprocess.run(command, capture_output=True, text=True)
        if said.returncode != 0:
            break
    subprocess.run(["ip", "netns", "del", name], capture_output=True)
    return f"no name spaces: {said.stderr}" if said.returncode else None


class TwoHosts(unittest.TestCase):
    def setUp(self):
        reason = why_not()
        if reason is not None:
            self.skipTest(reason)
        self.commands = commands()
        self.names = {host: f"ucxp{os.getpid()}{host[-3:]}"
                      for host in ("host-one", "host-two")}
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        bin_folder = os.path.dirname(sys.executable)
        self.variables = {
            **os.environ, "PWD": self.folder,
            "PATH": f"{bin_folder}:{os.environ['PATH']}",
            # Missing heartbeats must not count.
            "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "None"}

    def run_here(self, command):
        for host, name in self.names.items():
            command = command.replace(host, name)
        return subprocess.run(["sh", "-ec", command], cwd=self.folder,
                              env=self.variables, check=True,
                              stdout=subprocess.PIPE, text=True).stdout

    def on(self, host, *command, **words):
        """Start a command on a host; it is ended with the test."""
        process = subprocess.Popen(
            ["ip", "netns", "exec", self.names[host], *ISOLATED, "sh", "-c",
             'hostname "$1" && shift && exec "$@"', "sh", host, *command],
            cwd=self.folder, env=self.variables, text=True, **words)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def say_of(self, pattern):
        """Return the only command that matches."""
        [command] = [one for one in self.commands
                     if re.match(pattern, one)]
        return command

    def sent_by(self, host):
        [link] = json.loads(self.run_here(
            f"ip -n {host} -s -j link show cable"))
        return link["stats64"]["tx"]["bytes"]

    def plug_in(self):
        for name in self.names.values():
            self.addCleanup(subprocess.run, ["ip", "netns", "del", name])
        for command in self.commands:
            if command.startswith("ip ") and not command.endswith("down"):
                self.run_here(command)
        # The system takes a while to detect the cable.
        for host in self.names:
            while " UP " not in self.run_here(
                    f"ip -n {host} -br link show cable"):
                pass

    def start_dask(self):
        self.run_here(self.say_of(r"\(umask"))
        name, value = re.match(r"export (\w+)=\$PWD/(.*)",
                               self.say_of("export")).groups()
        self.variables[name] = os.path.join(self.folder, value)
        where = self.say_of("dask scheduler").split()[-1]
        processes = []
        for host, pattern in (("host-one", "dask scheduler"),
                              ("host-one", "dask worker .* one$"),
                              ("host-two", "dask worker .* two$")):
            log = open(os.path.join(self.folder, f"{len(pattern)}.log"), "w")
            self.addCleanup(log.close)
            processes.append(self.on(host, *self.say_of(pattern).split(),
                                     "--no-dashboard", stderr=log))
        return f"ucxpool://{where}:8786", processes[-1]

    def check(self, peer_timeout, end_two):
        """Host two works and dies; host one repeats its work."""
        self.variables["DASK_DISTRIBUTED__COMM__UCXPOOL__PEER_TIMEOUT"] = (
            peer_timeout)
        self.plug_in()
        address, two = self.start_dask()
        before = self.sent_by("host-two")
        client = self.on("host-one", sys.executable, __file__, "--client",
                         address, stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE)
        self.addCleanup(client.stdin.close)
        self.addCleanup(client.stdout.close)
        line = client.stdout.readline()
        self.assertTrue(line, "the client has ended")
        first = json.loads(line)
        # The client and worker one are containers of one host.
        self.assertEqual(first["wires"], {"one": "map", "two": "ucx"})
        self.assertRegex(first["addresses"]["one"],
                         r"^ucxpool://10\.213\.7\.1:\d+$")
        self.assertRegex(first["addresses"]["two"],
                         r"^ucxpool://10\.213\.7\.2:\d+$")
        self.assertEqual(first["sum"], sum(range(LENGTH)))
        # The data that host one has read from host two was sent over the
        # cable.
        self.assertGreater(self.sent_by("host-two") - before, 8 * LENGTH)

        end_two(two)
        client.stdin.write("ended\n")
        client.stdin.flush()
        line = client.stdout.readline()
        self.assertTrue(line, "the client has ended")
        second = json.loads(line)
        self.assertEqual(second["removed"], first["addresses"]["two"])
        self.assertEqual(second["sum"], sum(range(LENGTH)) + LENGTH)
        self.assertEqual(second["where"], [first["addresses"]["one"]])
        self.assertEqual(client.wait(), 0)

    def test_cut_cable_is_detected_within_peer_timeout(self):
        self.check("2s", lambda two: self.run_here(
            self.say_of(r"ip .* down$")))

    def test_killed_host_is_detected_by_its_connections(self):
        self.check("inf", lambda two: two.kill())


def client(address):
    """Runs on the first host: submits work to both hosts, and again when host
    two is lost."""
    import numpy
    from distributed import Client, wait

    def numbers(start):
        return numpy.arange(start, start + LENGTH)

    def total(array):
        return int(array.sum())

    def wire(dask_worker):
        return dask_worker.batched_stream.comm.extra_info["wire"]

    def say(**words):
        print(json.dumps(words), flush=True)

    with Client(address, timeout=1800) as client:
        client.wait_for_workers(2, timeout=1800)
        names = {one: info["name"] for one, info in
                 client.scheduler_info()["workers"].items()}
        addresses = {name: one for one, name in names.items()}
        there = {"workers": [addresses["two"]], "allow_other_workers": True}
        x = client.submit(numbers, 0, **there)
        y = client.submit(numbers, 1, **there)
        wait([x, y])
        say(addresses=addresses,
            wires={names[one]: its for one, its in
                   client.run(wire).items()},
            sum=client.submit(total, x,
                              workers=[addresses["one"]]).result())

        removed = []
        noticed = threading.Event()

        def on_event(event):
            if event[1].get("action") == "remove-worker":
                removed.append(event[1]["worker"])
                noticed.set()

        client.subscribe_topic("all", on_event)
        client.sync(client.scheduler.identity)  # now it is subscribed
        sys.stdin.readline()
        noticed.wait()
        again = client.submit(total, y).result()
        say(removed=removed[0], sum=again,
            where=list(client.who_has([y])[y.key]))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--client"]:
        client(sys.argv[2])
    else:
        unittest.main()
