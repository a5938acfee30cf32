"""make_archive.py FILE - archive Spark's classes there, as a virtual machine has
them in memory: with -XX:SharedArchiveFile the next ones start in two thirds of the
processor time."""
import os
import sys

import cluster

os.environ["PYSPARK_SUBMIT_ARGS"] = (
    f"--driver-java-options -XX:ArchiveClassesAtExit={sys.argv[1]} "
    + os.environ["PYSPARK_SUBMIT_ARGS"])

import pyspark

import queries

# All in one process, which has an executor's classes as well.
with cluster.Cluster({}, master="local[2]") as local:
    queries.run(local.spark, [True], [queries.group, queries.join])
    local.spark.sparkContext.parallelize([(1, 2)], 2).groupByKey().collect()
driver = pyspark.SparkContext._gateway.proc
driver.stdin.close()
sys.exit(driver.wait())
