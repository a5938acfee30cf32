"""Tests python -m ucxpool.demo, and the p2p shuffle of Dask that it
demonstrates."""
import os
import random
import subprocess
import sys
import tempfile
import unittest

os.environ["DASK_DISTRIBUTED__COMM__DEFAULT_SCHEME"] = "ucxpool"

import dask
import dask.dataframe
import pandas

from clusters import on_cluster
from ucxpool import demo


class Parts(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def write(self, data):
        path = os.path.join(self.folder.name, "records.csv")
        with open(path, "wb") as file:
            file.write(data)
        return path

    def test_files_are_split_at_record_ends(self):
        rng = random.Random(1)
        lines = [b"%d,%s" % (i, b"x" * rng.randrange(50)) for i in range(500)]
        for ending in (b"", b"\n"):
            path = self.write(b"\n".join(lines) + ending)
            for chunk in (1, 7, 100, 4096, 1 << 20):
                parts = demo.cut(path, chunk)
                self.assertEqual([one for part in parts
                                  for one in demo.records_of(part)], lines)
        self.assertEqual(demo.cut(self.write(b"")), [])

    def test_key_is_the_selected_field(self):
        self.assertEqual(demo.key_of(b"a,b,c", b",", 2), b"b")
        self.assertEqual(demo.key_of(b"a,b,c", b",", 3), b"c")
        self.assertEqual(demo.key_of(b"a", b",", 2), b"")

    def test_lost_and_changed_records_are_detected(self):
        records = [b"a,1", b"b,2", b"c,3"]
        keys = [one[:1] for one in records]
        whole = demo.summary(keys, records)
        self.assertEqual(demo.total([demo.summary(keys[1:], records[1:]),
                                     demo.summary(keys[:1], records[:1])],
                                    "x"), whole)
        self.assertNotEqual(demo.summary(keys, [b"a,1", b"b,2", b"c,4"]),
                            whole)
        with self.assertRaisesRegex(SystemExit, "in two parts"):
            demo.total([whole, whole], "x")

    def run_demo(self, *words):
        return subprocess.run(
            [sys.executable, "-m", "ucxpool.demo", *words], text=True,
            capture_output=True, timeout=1800)

    def test_run_reports_times_and_checks_records(self):
        rng = random.Random(2)
        path = self.write(b"".join(b"%d;%d;text \xe4\xff\n"
                                   % (i, rng.randrange(40))
                                   for i in range(5000)))
        done = self.run_demo("-d", ";", "-k", "2", "-r", "1", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("5,000 records of 1 files", done.stdout)
        self.assertIn("Nothing was lost: each time 5,000 records", done.stdout)
        self.assertIn("each of 40 keys in one of 8 parts", done.stdout)
        self.assertRegex(done.stdout, r"ucxpool:// takes \d+\.\d\d of the time")

    def test_wrong_usage_is_rejected(self):
        for words, said in ((["/no/such/file"], "not a file"), ([], "usage"),
                            (["-k", "0", __file__], "1 or more")):
            done = self.run_demo(*words)
            self.assertEqual(done.returncode, 2)
            self.assertIn(said, done.stderr)


class Shuffle(unittest.TestCase):
    @on_cluster(nthreads=[("127.0.0.1", 1)] * 3)
    async def test_p2p_shuffle_keeps_all_rows(
            self, client, scheduler, *workers):
        table = pandas.DataFrame({
            "key": range(3000), "text": [f"row {i}" for i in range(3000)],
            "number": [i / 7 for i in range(3000)]})
        table["key"] %= 17
        with dask.config.set({"dataframe.shuffle.method": "p2p"}):
            shuffled = dask.dataframe.from_pandas(
                table, npartitions=6).shuffle("key", npartitions=5)
            parts = await client.gather(client.compute(shuffled.to_delayed()))
        keys = [set(part["key"]) for part in parts]
        self.assertEqual(sum(map(len, keys)), 17)
        pandas.testing.assert_frame_equal(
            pandas.concat(parts).sort_index(), table, check_dtype=False)


if __name__ == "__main__":
    unittest.main()
