"""Prints the metrics of a pool for Prometheus."""
import prometheus_client

import ucxpool
import ucxpool.prometheus

with ucxpool.Pool(name="example") as pool:
    collector = ucxpool.prometheus.Collector(pool)
    prometheus_client.REGISTRY.register(collector)
    print(prometheus_client.generate_latest().decode())
