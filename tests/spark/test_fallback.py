"""An application that cannot use the pool: the warning in the logs of the driver
and the executors, and the failure if the pool is required. Each application runs
in its own process, whose stderr is the driver's log."""
import ast
import os
import pathlib
import subprocess
import sys
import textwrap
import unittest

HERE = pathlib.Path(__file__).resolve().parent

PROGRAM = textwrap.dedent("""
    import sys
    from cluster import PLUGIN, Cluster

    settings = dict(word.split("=", 1) for word in sys.argv[1:])
    with Cluster({**PLUGIN, **settings,
                  "spark.log.level": "WARN"}) as cluster:
        rows = cluster.spark.range(0, 1000, 1, 4).repartition(4, "id")
        print("rows", rows.selectExpr("sum(id)").collect()[0][0])
        fetched = cluster.total("fetchedBlocks")
        print("fetched", fetched)
        warning = "shuffle blocks go over Netty"
        for log in cluster.logs(*[] if fetched else [warning]).values():
            print("executor", [line for line in log.splitlines()
                               if warning in line])
    """)
REQUIRED = "spark.ucxpool.required=true"
NO_LIBRARY = "spark.ucxpool.library=/not/there.so"
NO_PLUGIN = "spark.plugins="


def run(*settings, address="127.0.0.1"):
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *settings], cwd=HERE, timeout=1800,
        env={**os.environ, "SPARK_LOCAL_IP": address}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE)


class Fallback(unittest.TestCase):
    def check_warned(self, settings, why, remedy, **words):
        done = run(*settings, **words)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("rows 499500", done.stdout)
        found = [line for line in done.stderr.splitlines()
                 if "go over Netty" in line]
        self.assertEqual(len(found), 1, done.stderr)
        self.assertIn(why, found[0])
        self.assertIn(remedy, found[0])
        self.assertIn("fetched 0\n", done.stdout)
        logs = [ast.literal_eval(line.removeprefix("executor "))
                for line in done.stdout.splitlines()
                if line.startswith("executor ")]
        self.assertEqual([len(lines) for lines in logs], [1, 1], logs)
        for lines in logs:
            self.assertIn(why, lines[0])

    def check_failed(self, settings, *texts):
        done = run(REQUIRED, *settings)
        self.assertNotEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("rows", done.stdout)
        for text in texts:
            self.assertIn(text, done.stderr)

    def test_missing_library_uses_netty(self):
        self.check_warned([NO_LIBRARY], "/not/there.so",
                          "Set spark.ucxpool.library")

    def test_missing_plugin_uses_netty(self):
        self.check_warned([NO_PLUGIN], "spark.plugins does not name",
                          "Set spark.plugins=org.ucxpool.spark.UcxPoolPlugin")

    def test_wrong_setting_uses_netty(self):
        self.check_warned(["spark.ucxpool.memroy=1g"],
                          "spark.ucxpool.memroy is not a setting",
                          "Correct that setting")

    def test_required_fails_without_the_library(self):
        self.check_failed([NO_LIBRARY], f"{REQUIRED.split('=')[0]} is set",
                          "/not/there.so", "Set spark.ucxpool.library")

    def test_required_fails_without_the_plugin(self):
        self.check_failed([NO_PLUGIN], "spark.plugins does not name")

    def test_required_fails_with_a_wrong_setting(self):
        self.check_failed(["spark.ucxpool.memroy=1g"],
                          "spark.ucxpool.memroy is not a setting")

    def test_required_runs_if_the_pool_is_used(self):
        done = run(REQUIRED)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("rows 499500", done.stdout)
        self.assertNotIn("Netty", done.stderr)


if __name__ == "__main__":
    unittest.main()
