"""Queries that shuffle. Their rows do not depend on how blocks are fetched."""


def sort(spark):
    return (spark.range(0, 20000, 1, 5)
            .selectExpr("hash(id) AS key", "id").orderBy("key", "id"))


def group(spark):
    return (spark.range(0, 50000, 1, 4)
            .selectExpr("id % 5000 AS key", "id")
            .groupBy("key").agg({"id": "sum"}).orderBy("key"))


def join(spark):
    left = spark.range(0, 20000, 1, 4).selectExpr(
        "id % 997 AS key", "id AS left", "repeat('x', int(id % 50)) AS text")
    right = spark.range(0, 2000, 1, 3).selectExpr("id % 997 AS key", "id")
    return (left.join(right, "key").groupBy("key")
            .agg({"left": "sum", "id": "max", "text": "max"}).orderBy("key"))


def empty(spark):
    """Three keys in seven partitions: most blocks have no bytes."""
    return (spark.range(0, 1000, 1, 5).selectExpr("id % 3 AS key", "id")
            .groupBy("key").agg({"id": "sum"}).orderBy("key"))


def nothing(spark):
    return (spark.range(0, 1000, 1, 5).where("id < 0")
            .selectExpr("id % 3 AS key").groupBy("key").count())


def skewed(spark):
    """One key has nearly all rows; with AQE its partition is split."""
    rows = spark.range(0, 40000, 1, 4).selectExpr(
        "IF(id % 10 = 0, id, 7) AS key", "id", "repeat(hex(id), 20) AS text")
    few = spark.range(0, 1000, 1, 2).withColumnRenamed("id", "key")
    return (rows.join(few, "key").groupBy("key")
            .agg({"id": "sum", "text": "max"}).orderBy("key"))


def wide(spark):
    """Rows of 20 kB, in few long blocks."""
    return (spark.range(0, 1200, 1, 4)
            .selectExpr("id", "repeat(sha2(string(id), 512), 160) AS text")
            .repartition(3, "id")
            .selectExpr("id", "sha2(text, 256) AS sum").orderBy("id"))


def batched(spark):
    """A task reads neighbouring partitions, so it fetches blocks in batches."""
    return (spark.range(0, 30000, 1, 5).selectExpr("id % 100 AS key", "id")
            .repartition(20, "key").groupBy("key").agg({"id": "sum"})
            .orderBy("key"))


ALL = [sort, group, join, empty, nothing, skewed, wide, batched]

SKEW = {
    "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "10k",
    "spark.sql.adaptive.skewJoin.skewedPartitionFactor": "2",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "20k",
}


# Also run without AQE, which gives them other plans.
PLAIN = [sort, join, wide]


def run(spark, adaptive=(True, False), which=None):
    """The rows of each query, with and without AQE."""
    rows = {}
    for is_adaptive in adaptive:
        spark.conf.set("spark.sql.adaptive.enabled", str(is_adaptive).lower())
        for query in which or (ALL if is_adaptive else PLAIN):
            rows[query.__name__, is_adaptive] = query(spark).collect()
    return rows
