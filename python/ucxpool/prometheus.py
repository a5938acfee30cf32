"""The statistics of pools for prometheus_client:

    from prometheus_client import REGISTRY
    REGISTRY.register(ucxpool.prometheus.Collector(pool))

Each statistic of a pool is a metric ucxpool_NAME with the pool's name as its
label. The metrics ucxpool_channel_* have the statistics of open channels, with
the labels pool, channel (its name) and wire, and bytes and operations also with
way and direction. ucxpool_latency_seconds has the histograms of latencies, with
the labels pool, operation, wire and way.
"""
import re

from prometheus_client.core import (CounterMetricFamily, GaugeMetricFamily,
                                    HistogramMetricFamily)

from ._pool import _core

# Latencies from 128 ns to 34 s; all others are in the lowest bucket or in +Inf.
_FIRST_BUCKET, _LAST_BUCKET = 7, 35

_TRAFFIC = re.compile(r"(sent|received|read|written)_(?:map_|ucx_)?(\w+)_"
                      r"(bytes|fragments|operations)")
_MESSAGES = re.compile(r"messages_(\w+)")
_WAITS = {"block_waits": ("waits", "block", 1),
          "credit_waits": ("waits", "credit", 1),
          "blocked_ns": ("wait_seconds", "block", 1e-9),
          "credit_wait_ns": ("wait_seconds", "credit", 1e-9)}


class _Channels:
    """The metrics of channels, by their labels. Channels of the same name are
    added up."""

    LABELS = {
        "bytes": ("Bytes by channel.", ["direction", "way"]),
        "operations": ("Fragments of messages, and reads and writes of "
                       "windows, by channel.", ["direction", "way"]),
        "messages": ("Messages by channel.", ["outcome"]),
        "waits": ("Waits of sends for a block or a credit.", ["reason"]),
        "wait_seconds": ("Seconds of these waits.", ["reason"]),
        "copies_avoided_bytes": ("Bytes sent or received in place.", [])}

    def __init__(self):
        self.values = {metric: {} for metric in self.LABELS}

    def add(self, pool, channel):
        """Add the statistics of a channel."""
        common = (pool, channel.name, channel.wire or "none")
        for name, value in channel.stats().items():
            traffic = _TRAFFIC.fullmatch(name)
            messages = _MESSAGES.fullmatch(name)
            if traffic:
                if value:  # a channel uses few of the ways
                    direction, way, unit = traffic.groups()
                    metric = "bytes" if unit == "bytes" else "operations"
                    self._add(metric, (*common, direction, way), value)
            elif messages:
                self._add("messages", (*common, messages[1]), value)
            elif name in _WAITS:
                metric, reason, factor = _WAITS[name]
                self._add(metric, (*common, reason), value * factor)
            elif name in self.LABELS:
                self._add(name, common, value)

    def _add(self, metric, labels, value):
        values = self.values[metric]
        values[labels] = values.get(labels, 0) + value

    def families(self):
        """Yield the metric families."""
        for metric, (text, labels) in self.LABELS.items():
            family = CounterMetricFamily(
                "ucxpool_channel_" + metric, text,
                labels=["pool", "channel", "wire", *labels])
            for values, value in self.values[metric].items():
                family.add_metric(values, value)
            yield family


def _add_latency(family, pool, histogram):
    buckets = histogram["buckets"]
    total = sum(buckets[1:_FIRST_BUCKET])
    bounds = []
    for i in range(_FIRST_BUCKET, _LAST_BUCKET + 1):
        total += buckets[i]
        bounds.append((repr(2 ** i / 1e9), total))
    # Bucket 0 has the operations of unknown latency.
    bounds.append(("+Inf", histogram["count"] - buckets[0]))
    family.add_metric(
        [pool, histogram["operation"], histogram["wire"], histogram["way"]],
        bounds, histogram["sum"] / 1e9)


class Collector:
    """Collects the statistics of some pools. More pools may be added to
    `pools`; closed pools are skipped.

    At most max_channels channels of a pool, the oldest ones, have metrics of
    their own. The others count only in the metrics of the pool, and in
    ucxpool_channels_unlabeled. To keep the number of time series small over
    time, too, give channels names that recur (Channel.name): the default name
    of an accepted channel contains a port. A way or histogram without
    operations has no metric."""

    def __init__(self, *pools, max_channels=64):
        self.pools = list(pools)
        self.max_channels = max_channels

    def collect(self):
        """Yield the metric families for prometheus_client."""
        families = {
            name: (CounterMetricFamily if kind == "counter"
                   else GaugeMetricFamily)("ucxpool_" + name, text,
                                           labels=["pool"])
            for name, _, text, kind in _core.stat_names()}
        unlabeled = GaugeMetricFamily(
            "ucxpool_channels_unlabeled",
            "Channels beyond max_channels, which have no metrics.",
            labels=["pool"])
        latency = HistogramMetricFamily(
            "ucxpool_latency_seconds",
            "Time from the post of an operation to its end.",
            labels=["pool", "operation", "wire", "way"])
        channels = _Channels()
        for pool in self.pools:
            if pool.closed:
                continue
            label = pool.info()["name"]
            for name, value in pool.stats().items():
                families[name].add_metric([label], value)
            for histogram in pool.histograms().values():
                if histogram["count"]:
                    _add_latency(latency, label, histogram)
            all_channels = sorted(pool.channels(), key=lambda one: one.number)
            for channel in all_channels[:self.max_channels]:
                channels.add(label, channel)
            unlabeled.add_metric(
                [label], max(0, len(all_channels) - self.max_channels))
        yield from families.values()
        yield from channels.families()
        yield unlabeled
        yield latency
