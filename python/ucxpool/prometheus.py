"""The statistics of pools for prometheus_client:

    from prometheus_client import REGISTRY
    REGISTRY.register(ucxpool.prometheus.Collector(pool))

Each statistic of a pool is a metric ucxpool_NAME with the pool's name as its
label. If pools of one collector have the same name, a number is appended to
the labels of the later ones. The metrics ucxpool_channel_* have the statistics
of open channels, with the labels pool, channel (its name) and wire, and bytes
and operations also with way and direction. ucxpool_latency_seconds has the
histograms of latencies, with the labels pool, operation, wire and way.
"""
import re
import threading
import weakref

from prometheus_client.core import (CounterMetricFamily, GaugeMetricFamily,
                                    HistogramMetricFamily)

from ._errors import ClosedError
from ._pool import _core

# Latencies from 128 ns to 34 s; all others are in the lowest bucket or in +Inf.
_FIRST_BUCKET, _LAST_BUCKET = 7, 35

# The metrics ucxpool_channel_*: a description, and the labels after pool,
# channel and wire.
_METRICS = {
    "bytes": ("Bytes by channel.", ["direction", "way"]),
    "operations": ("Fragments of messages, and reads and writes of windows, "
                   "by channel.", ["direction", "way"]),
    "messages": ("Messages by channel.", ["outcome"]),
    "waits": ("Waits of sends for a block or a credit.", ["reason"]),
    "wait_seconds": ("Seconds of these waits.", ["reason"]),
    "copies_avoided_bytes": ("Bytes sent or received in place.", [])}

_TRAFFIC = re.compile(r"(sent|received|read|written)_(?:map_|ucx_)?(\w+)_"
                      r"(bytes|fragments|operations)")
_MESSAGES = re.compile(r"messages_(\w+)")
_OTHERS = {"block_waits": ("waits", "block"),
           "credit_waits": ("waits", "credit"),
           "block_wait_ns": ("wait_seconds", "block"),
           "credit_wait_ns": ("wait_seconds", "credit"),
           "copies_avoided_bytes": ("copies_avoided_bytes",)}


def _counters(stats):
    """Return the statistics of a channel as a dict. A key is a metric and its
    labels; times are in nanoseconds."""
    counters = {}
    for name, value in stats.items():
        traffic = _TRAFFIC.fullmatch(name)
        messages = _MESSAGES.fullmatch(name)
        if traffic:
            if value:  # a channel uses few of the ways
                direction, way, unit = traffic.groups()
                metric = "bytes" if unit == "bytes" else "operations"
                key = metric, direction, way
                counters[key] = counters.get(key, 0) + value
        elif messages:
            counters["messages", messages[1]] = value
        elif name in _OTHERS:
            counters[_OTHERS[name]] = value
    return counters


class _Channels:
    """The counters of channels, added up by pool, channel (its name) and wire.
    update() adds the increase of each channel since the last update. So a sum
    does not decrease when one of its channels is closed. Sums without open
    channels are dropped, which bounds their number."""

    def __init__(self):
        self._last = {}  # by channel; None: beyond max_channels
        self._sums = {}

    def update(self, pools, max_channels):
        """Read the counters of the oldest max_channels channels of each pool.
        The items of pools are a pool, its name, and its channels by age. A
        channel that was beyond max_channels at the last update is counted from
        now on."""
        last, sums = {}, {}
        for pool, name, channels in pools:
            pool = weakref.ref(pool)
            for channel in channels[max_channels:]:
                last[pool, channel.number] = None
            for channel in channels[:max_channels]:
                try:
                    labels = name, channel.name, channel.wire or "none"
                    counters = _counters(channel.stats())
                except ClosedError:
                    continue
                before = self._last.get((pool, channel.number), {})
                if before is None:
                    before = counters
                last[pool, channel.number] = counters
                if labels not in sums:
                    sums[labels] = dict(self._sums.get(labels, {}))
                for key, value in counters.items():
                    sums[labels][key] = (sums[labels].get(key, 0)
                                         + value - before.get(key, 0))
        self._last, self._sums = last, sums

    def families(self):
        """Return the metric families."""
        families = {
            metric: CounterMetricFamily(
                "ucxpool_channel_" + metric, text,
                labels=["pool", "channel", "wire", *labels])
            for metric, (text, labels) in _METRICS.items()}
        for common, counters in self._sums.items():
            for (metric, *labels), value in counters.items():
                families[metric].add_metric(
                    [*common, *labels],
                    value / 1e9 if metric == "wait_seconds" else value)
        return families.values()


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
    their own. The others are included only in the pool's metrics, and in
    ucxpool_channels_unlabeled. To limit the number of time series over time,
    too, reuse the names of channels (Channel.name): the default name of an
    accepted channel contains a port. A way or histogram without operations has
    no metric.

    The counters of channels of the same name are added up, and do not decrease
    while one of these channels is open. Transfers between the last scrape of a
    channel and its close are included only in the pool's metrics."""

    def __init__(self, *pools, max_channels=64):
        self.pools = list(pools)
        self.max_channels = max_channels
        self._channels = _Channels()
        self._labels = {}  # of open pools
        self._lock = threading.Lock()  # the HTTP server has several threads

    def collect(self):
        """Yield the metric families for prometheus_client. Any thread may call
        this. Pools and channels that are closed during the call are skipped."""
        with self._lock:
            families = list(self._families())
        yield from families

    def _open_pools(self):
        """Return each open pool with its label, statistics and histograms. A
        pool keeps its label while it is open."""
        found, names, labels = [], {}, {}
        for pool in dict.fromkeys(self.pools):
            try:
                names[weakref.ref(pool)] = pool.info()["name"]
                found.append((pool, pool.stats(), pool.histograms()))
            except ClosedError:
                names.pop(weakref.ref(pool), None)
        for pool in names:
            if pool in self._labels:
                labels[pool] = self._labels[pool]
        for pool, name in names.items():
            label, number = name, 1
            while pool not in labels and label in labels.values():
                number += 1
                label = f"{name}-{number}"
            labels.setdefault(pool, label)
        self._labels = labels
        return [(pool, labels[weakref.ref(pool)], *stats)
                for pool, *stats in found]

    def _families(self):
        names = _core.stat_names()
        families = {
            name: (CounterMetricFamily if kind == "counter"
                   else GaugeMetricFamily)(
                       "ucxpool_" + re.sub("_ns$", "_seconds", name), text,
                       labels=["pool"])
            for name, _, text, kind in names}
        scales = {name: 1e9 for name, unit, _, _ in names if unit == "ns"}
        unlabeled = GaugeMetricFamily(
            "ucxpool_channels_unlabeled",
            "Channels beyond max_channels, which have no metrics.",
            labels=["pool"])
        latency = HistogramMetricFamily(
            "ucxpool_latency_seconds",
            "Time from the post of an operation to its end.",
            labels=["pool", "operation", "wire", "way"])
        pools = []
        for pool, label, stats, histograms in self._open_pools():
            for name, value in stats.items():
                families[name].add_metric([label],
                                          value / scales.get(name, 1))
            for histogram in histograms.values():
                if histogram["count"]:
                    _add_latency(latency, label, histogram)
            channels = sorted(pool.channels(), key=lambda one: one.number)
            unlabeled.add_metric(
                [label], max(0, len(channels) - self.max_channels))
            pools.append((pool, label, channels))
        self._channels.update(pools, self.max_channels)
        yield from families.values()
        yield from self._channels.families()
        yield unlabeled
        yield latency
