"""JUnit tests of the plugin's classes, in a JVM with Spark's classes. Each JUnit
class is a test here."""
import os
import pathlib
import re
import subprocess
import unittest

import pyspark

BUILD = pathlib.Path(os.environ["LIBUCXPOOL_BUILD"]) / "java"
JARS = [BUILD / "ucxpool-spark.jar", BUILD / "ucxpool-spark-tests.jar",
        "/usr/share/java/junit4.jar", "/usr/share/java/hamcrest.jar",
        pathlib.Path(pyspark.__file__).parent / "jars" / "*"]


# JDK packages that Spark's launcher opens, and that some of its classes need.
OPENS = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in (
    "java.lang", "java.lang.invoke", "java.net", "java.nio", "java.util",
    "java.util.concurrent", "sun.nio.ch", "sun.nio.cs")]


class JUnit(unittest.TestCase):
    def test_block_ranges(self):
        self.run_class("org.ucxpool.spark.BlockRangeTest")

    def test_driver_side(self):
        self.run_class("org.ucxpool.spark.DriverSideTest")

    def test_executor_side(self):
        self.run_class("org.ucxpool.spark.ExecutorSideTest")

    def test_fetcher_iterator(self):
        self.run_class("org.ucxpool.spark.FetcherIteratorTest")

    def test_map_outputs(self):
        self.run_class("org.ucxpool.spark.MapOutputsTest")

    def test_peers(self):
        self.run_class("org.ucxpool.spark.PeerTest")

    def test_pooled_block_store_client(self):
        self.run_class("org.ucxpool.spark.PooledBlockStoreClientTest")

    def test_received_blocks(self):
        self.run_class("org.ucxpool.spark.ReceivedBlockTest")

    def test_servers(self):
        self.run_class("org.ucxpool.spark.ServerTest")

    def run_class(self, name):
        library = BUILD.parent / ".libs" / "libucxpool.so"
        done = subprocess.run(
            ["java", *OPENS, f"-Dorg.ucxpool.library={library}",
             "-cp", ":".join(map(str, JARS)), "org.junit.runner.JUnitCore",
             name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=1800)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, re.compile(r"^OK \(\d+ tests?\)$", re.M))


if __name__ == "__main__":
    unittest.main()
