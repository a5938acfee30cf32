"""Spark's shuffle gives the same rows over the pool as over Netty, and uses Netty
where the pool cannot be used."""
import subprocess
import tempfile
import unittest

import queries
from cluster import PLUGIN, Cluster, event_log, shuffle_read
from ports import free_port

SECRET = {"spark.authenticate": "true",
          "spark.authenticate.secret": "of these tests"}


class Shuffle(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with Cluster(queries.SKEW) as cluster:
            cls.wanted = queries.run(cluster.spark)
            cls.total_of_netty = cluster.total("fetchedBlocks")

    def check(self, rows):
        for query, found in rows.items():
            self.assertEqual(found, self.wanted[query], query)

    def check_all_went_over_the_pool(self, cluster):
        told = cluster.counters()
        for counted in told.values():
            self.assertEqual(counted["nettyBlocks"], 0, told)
            self.assertEqual(counted["failedBlocks"], 0, told)
        fetched = sum(x["fetchedBlocks"] for x in told.values())
        self.assertGreater(fetched, 0, told)
        self.assertEqual(sum(x["servedBlocks"] for x in told.values()),
                         fetched)
        return told

    def test_results_match_netty(self):
        self.assertEqual(self.total_of_netty, 0)
        with Cluster({**PLUGIN, **queries.SKEW}) as cluster:
            self.check(queries.run(cluster.spark))
            told = self.check_all_went_over_the_pool(cluster)
            for counted in told.values():
                self.assertEqual(counted["spilledBytes"], 0)
                # Check the pool's own count.
                self.assertGreaterEqual(
                    counted["pool.messages_received"],
                    counted["requests"] + counted["replies"])
            cluster.idle_counters()

    def shuffle_many_small_blocks(self, cluster):
        """Each executor gets half of the 60 maps, if it has as many cores, and
        some of the 30 reducers."""
        cluster.spark.conf.set("spark.sql.adaptive.enabled", "false")
        rows = (cluster.spark.range(0, 60000, 1, 60)
                .repartition(30, "id").selectExpr("sum(id)").collect())
        self.assertEqual(rows[0][0], 60000 * 59999 // 2)

    def test_many_small_blocks_are_sent_as_one_message(self):
        with Cluster(PLUGIN, cores=30) as cluster:
            self.shuffle_many_small_blocks(cluster)
            told = self.check_all_went_over_the_pool(cluster)
            total = {name: sum(counted[name] for counted in told.values())
                     for name in ("fetchedBlocks", "requests", "replies")}
            self.assertGreater(total["fetchedBlocks"], 8 * total["requests"])
            self.assertLessEqual(total["replies"], total["requests"])

    def test_no_memory_and_no_compression(self):
        """Blocks that do not fit into memory are written to disk."""
        with Cluster({**PLUGIN, "spark.shuffle.compress": "false",
                      "spark.ucxpool.memory": "8m",
                      "spark.ucxpool.conf.MEMORY_LIMIT": "5m",
                      "spark.ucxpool.messageSize": "256k"}) as cluster:
            self.check(queries.run(cluster.spark, [False],
                                   [queries.join, queries.wide]))
            told = self.check_all_went_over_the_pool(cluster)
            self.assertGreater(
                sum(x["spilledBytes"] for x in told.values()), 1 << 20)

    def test_long_requests_are_stored_in_files(self):
        """Spark fetches to files above a size limit. Here over the `ucx` wire,
        encrypted on disk, with a secret, in messages shorter than a block."""
        with tempfile.TemporaryDirectory() as folder:
            with Cluster({**PLUGIN, **SECRET, **event_log(folder),
                          "spark.ucxpool.wire": "ucx",
                          "spark.io.encryption.enabled": "true",
                          "spark.network.maxRemoteBlockSizeFetchToMem": "100k",
                          "spark.ucxpool.messageSize": "16k"}) as cluster:
                self.check(queries.run(cluster.spark, [True],
                                       [queries.sort, queries.wide,
                                        queries.skewed]))
                told = self.check_all_went_over_the_pool(cluster)
                for log in cluster.logs("over the wire").values():
                    self.assertIn("over the wire ucx", log)
            to_files = shuffle_read(folder, "Remote Bytes Read To Disk")
            self.assertGreater(to_files, 100 << 10)
            # Spark's metrics agree with the plugin's counters.
            self.assertEqual(shuffle_read(folder, "Remote Bytes Read"),
                             sum(x["fetchedBytes"] for x in told.values()))
            self.assertEqual(shuffle_read(folder, "Remote Blocks Fetched"),
                             sum(x["fetchedBlocks"] for x in told.values()))

    def check_netty(self, settings, reason):
        with Cluster({**PLUGIN, **settings}) as cluster:
            self.assertEqual(queries.group(cluster.spark).collect(),
                             self.wanted["group", True])
            self.assertEqual(cluster.total("fetchedBlocks"), 0)
            for log in cluster.logs("shuffle blocks go over Netty").values():
                found = [line for line in log.splitlines()
                         if "shuffle blocks go over Netty" in line]
                self.assertEqual(len(found), 1, log)
                self.assertIn(reason, found[0])

    def test_encryption_uses_netty(self):
        self.check_netty({**SECRET, "spark.network.crypto.enabled": "true"},
                         "spark.network.crypto.enabled")

    def test_sasl_encryption_uses_netty(self):
        self.check_netty({**SECRET,
                          "spark.authenticate.enableSaslEncryption": "true"},
                         "spark.authenticate.enableSaslEncryption")

    def test_ssl_encryption_uses_netty(self):
        with tempfile.TemporaryDirectory() as folder:
            store = f"{folder}/keys"
            subprocess.run(
                ["keytool", "-genkeypair", "-keystore", store, "-storepass",
                 "of-these-tests", "-keyalg", "RSA", "-dname", "CN=localhost",
                 "-alias", "rpc"], check=True, stderr=subprocess.DEVNULL)
            rpc = {"enabled": "true", "protocol": "TLSv1.3",
                   "keyPassword": "of-these-tests"}
            for kind in ("keyStore", "trustStore"):
                rpc[kind] = store
                rpc[f"{kind}Password"] = "of-these-tests"
            self.check_netty({f"spark.ssl.rpc.{key}": value
                              for key, value in rpc.items()},
                             "spark.ssl.rpc.enabled")

    def test_executor_without_a_pool_uses_netty(self):
        """Only the executor that gets the port has a pool. Both fetch each
        other's blocks over Netty."""
        with Cluster({**PLUGIN, "spark.ucxpool.port": free_port()}) as cluster:
            self.shuffle_many_small_blocks(cluster)
            told = cluster.counters()
            with_pool = [x for x in told.values() if "pool.heap_live_bytes" in x]
            self.assertEqual(len(with_pool), 1, told)
            self.assertEqual(with_pool[0]["fetchedBlocks"], 0)
            self.assertGreater(with_pool[0]["nettyBlocks"], 0)
            logs = "".join(cluster.logs("over Netty").values())
            self.assertIn("address in use", logs)
            self.assertIn("come over Netty: it has no pool", logs)


if __name__ == "__main__":
    unittest.main()
