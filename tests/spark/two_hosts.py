"""A standalone cluster on two hosts: the master and a worker on host one, a worker
on host two."""
import contextlib
import subprocess
import sys

import hosts
from standalone import Standalone

ADDRESS = hosts.ADDRESSES["one"]
# Settings of a driver on host one.
DRIVER = {"spark.driver.host": ADDRESS, "spark.driver.bindAddress": ADDRESS}


@contextlib.contextmanager
def two_hosts(settings, cores=1):
    """Start the cluster, with this number of cores on each host. The settings
    are Spark's, of all its daemons."""
    try:
        hosts.up()
        with Standalone(ADDRESS, hosts.on("one"), settings) as master:
            for host, address in hosts.ADDRESSES.items():
                worker = master.add_worker(host, address, hosts.on(host),
                                           settings, cores)
                worker.says("Successfully registered with master")
            yield master
    finally:
        hosts.down()


def on_first(*words):
    """Run Python with these arguments in the network of host one. Returns its
    output."""
    return subprocess.run(
        [*hosts.inside("one"), "env", f"SPARK_LOCAL_IP={ADDRESS}",
         sys.executable, *words],
        stdout=subprocess.PIPE, text=True, check=True).stdout
