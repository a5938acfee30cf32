"""Generated TPC-H tables, and the queries that join and group most, in Spark's SQL,
with the validation parameters of the specification."""
import pathlib
import subprocess
import sysconfig

TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp",
          "region", "supplier")


def generate(folder, scale):
    """Write each table to four files, so that several tasks read it."""
    program = pathlib.Path(sysconfig.get_path("scripts"), "tpchgen-cli")
    subprocess.run(
        [program, "parquet", "--scale-factor", str(scale), "--parts", "4",
         "--quiet", "--output-dir", folder], check=True, timeout=1800)


def load(spark, folder):
    for table in TABLES:
        (spark.read.parquet(f"file://{folder}/{table}")
         .createOrReplaceTempView(table))


QUERIES = {
    1: """
SELECT l_returnflag, l_linestatus,
       sum(l_quantity), sum(l_extendedprice),
       sum(l_extendedprice * (1 - l_discount)) AS discounted,
       sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS charged,
       avg(l_quantity), avg(l_extendedprice), avg(l_discount), count(*)
FROM lineitem
WHERE l_shipdate <= date '1998-12-01' - interval 90 days
GROUP BY l_returnflag, l_linestatus
ORDER BY l_returnflag, l_linestatus""",
    3: """
SELECT l_orderkey, sum(l_extendedprice * (1 - l_discount)) AS revenue,
       o_orderdate, o_shippriority
FROM customer
JOIN orders ON c_custkey = o_custkey
JOIN lineitem ON l_orderkey = o_orderkey
WHERE c_mktsegment = 'BUILDING'
  AND o_orderdate < date '1995-03-15' AND l_shipdate > date '1995-03-15'
GROUP BY l_orderkey, o_orderdate, o_shippriority
ORDER BY revenue DESC, o_orderdate, l_orderkey
LIMIT 10""",
    5: """
SELECT n_name, sum(l_extendedprice * (1 - l_discount)) AS revenue
FROM region
JOIN nation ON n_regionkey = r_regionkey
JOIN customer ON c_nationkey = n_nationkey
JOIN orders ON o_custkey = c_custkey
JOIN lineitem ON l_orderkey = o_orderkey
JOIN supplier ON s_suppkey = l_suppkey AND s_nationkey = c_nationkey
WHERE r_name = 'ASIA' AND o_orderdate >= date '1994-01-01'
  AND o_orderdate < date '1995-01-01'
GROUP BY n_name
ORDER BY revenue DESC""",
    9: """
SELECT n_name AS nation, year(o_orderdate) AS in_year,
       sum(l_extendedprice * (1 - l_discount)
           - ps_supplycost * l_quantity) AS profit
FROM part
JOIN lineitem ON l_partkey = p_partkey
JOIN supplier ON s_suppkey = l_suppkey
JOIN partsupp ON ps_partkey = l_partkey AND ps_suppkey = l_suppkey
JOIN orders ON o_orderkey = l_orderkey
JOIN nation ON n_nationkey = s_nationkey
WHERE p_name LIKE '%green%'
GROUP BY nation, in_year
ORDER BY nation, in_year DESC""",
    10: """
SELECT c_custkey, c_name, sum(l_extendedprice * (1 - l_discount)) AS revenue,
       c_acctbal, n_name, c_address, c_phone, c_comment
FROM customer
JOIN orders ON o_custkey = c_custkey
JOIN lineitem ON l_orderkey = o_orderkey
JOIN nation ON n_nationkey = c_nationkey
WHERE o_orderdate >= date '1993-10-01' AND o_orderdate < date '1994-01-01'
  AND l_returnflag = 'R'
GROUP BY c_custkey, c_name, c_acctbal, c_phone, n_name, c_address, c_comment
ORDER BY revenue DESC, c_custkey
LIMIT 20""",
    18: """
SELECT c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice,
       sum(l_quantity)
FROM customer
JOIN orders ON c_custkey = o_custkey
JOIN lineitem ON o_orderkey = l_orderkey
WHERE o_orderkey IN (SELECT l_orderkey FROM lineitem
                     GROUP BY l_orderkey HAVING sum(l_quantity) > 300)
GROUP BY c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice
ORDER BY o_totalprice DESC, o_orderdate
LIMIT 100""",
}


def run(spark):
    """The rows of each query, by its number."""
    return {number: spark.sql(text).collect()
            for number, text in QUERIES.items()}
