"""make_archive.py FILE - write a CDS archive of Spark's classes to FILE. With
-XX:SharedArchiveFile=FILE, a JVM starts in two thirds of the CPU time."""
import os
import sys

import cluster

os.environ["PYSPARK_SUBMIT_ARGS"] = (
    f"--driver-java-options -XX:ArchiveClassesAtExit={sys.argv[1]} "
    + os.environ["PYSPARK_SUBMIT_ARGS"])

import pyspark

import queries

# One process, which also loads the classes of an executor.
with cluster.Cluster({}, master="local[2]") as local:
    queries.run(local.spark, [True], [queries.group, queries.join])
    local.spark.sparkContext.parallelize([(1, 2)], 2).groupByKey().collect()
driver = pyspark.SparkContext._gateway.proc
driver.stdin.close()
sys.exit(driver.wait())
