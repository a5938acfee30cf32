"""The statistics of pools for prometheus_client:

    from prometheus_client import REGISTRY
    REGISTRY.register(ucxpool.prometheus.Collector(pool))

Each is a metric ucxpool_NAME with the pool's name as its label, as
ucxpool_stats_print() writes them in the OpenMetrics form.
"""
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from ._pool import _core


class Collector:
    """Of some pools, which may be added to `pools`; closed ones are left
    out."""

    def __init__(self, *pools):
        self.pools = list(pools)

    def collect(self):
        """For prometheus_client: its families of metrics."""
        families = {
            name: (CounterMetricFamily if kind == "counter"
                   else GaugeMetricFamily)("ucxpool_" + name, text,
                                           labels=["pool"])
            for name, _, text, kind in _core.stat_names()}
        for pool in self.pools:
            if pool.closed:
                continue
            label = pool.info()["name"]
            for name, value in pool.stats().items():
                families[name].add_metric([label], value)
        yield from families.values()
