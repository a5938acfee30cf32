"""Examples that come with Spark print the same with and without the plugin."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import pyspark

from cluster import COMMON, JARS, PLUGIN

EXAMPLES = pathlib.Path(pyspark.__file__).parent / "examples/src/main/python"


def run(name, settings, *arguments):
    """Run an example and return the lines that it prints."""
    options = ["--master", "local-cluster[2,1,1024]",
               "--jars", ",".join(map(str, JARS))]
    for key, value in {**COMMON, **settings}.items():
        options += ["--conf", f"{key}={value}"]
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *map(str, arguments)],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable,
             "PYSPARK_SUBMIT_ARGS": " ".join([*options, "pyspark-shell"])},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=1800)
    if done.returncode:
        raise AssertionError(f"{name} ended with {done.returncode}:\n"
                             f"{done.stderr[-4000:]}")
    return done.stdout.splitlines()


class Examples(unittest.TestCase):
    def setUp(self):
        self.file = tempfile.NamedTemporaryFile("w", suffix=".txt")
        self.addCleanup(self.file.close)

    def write(self, lines):
        self.file.write("".join(f"{line}\n" for line in lines))
        self.file.flush()
        return self.file.name

    def test_page_rank(self):
        links = self.write(f"{i % 60} {(i * i + i // 60) % 60}"
                           for i in range(600))
        ranks = []
        for settings in ({}, PLUGIN):
            found = {}
            for line in run("pagerank.py", settings, links, 2):
                words = re.fullmatch(r"(\d+) has rank: ([\d.e-]+)\.", line)
                found[words[1]] = float(words[2])
            ranks.append(found)
        self.assertGreater(len(ranks[0]), 30)
        self.assertEqual(ranks[0].keys(), ranks[1].keys())
        for page, rank in ranks[0].items():
            # Floating-point sums depend on the order of the blocks.
            self.assertAlmostEqual(rank, ranks[1][page], places=9)

    def test_sort(self):
        numbers = self.write(i * 7919 % 1009 for i in range(1009))
        plain = run("sort.py", {}, numbers)
        self.assertEqual(plain, [str(i) for i in range(1009)])
        self.assertEqual(run("sort.py", PLUGIN, numbers), plain)


if __name__ == "__main__":
    unittest.main()
