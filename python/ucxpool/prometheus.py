"""The statistics of pools for prometheus_client:

    from prometheus_client import REGISTRY
    REGISTRY.register(ucxpool.prometheus.Collector(pool))

Each statistic is a metric ucxpool_NAME with the pool's name as its label, the
same as in the OpenMetrics output of ucxpool_stats_print().
"""
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from ._pool import _core


class Collector:
    """Collects the statistics of some pools. More pools may be added to
    `pools`; closed pools are skipped."""

    def __init__(self, *pools):
        self.pools = list(pools)

    def collect(self):
        """Yield the metric families for prometheus_client."""
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
