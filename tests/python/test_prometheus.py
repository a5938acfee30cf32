"""Tests the collector of ucxpool.prometheus, and the dashboard for Grafana and
the alerts in docs/guide."""
import asyncio
import ctypes
import importlib.util
import json
import pathlib
import re
import unittest
import unittest.mock

import ucxpool

if importlib.util.find_spec("prometheus_client") is None:
    raise unittest.SkipTest("prometheus_client is not installed")
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
import ucxpool.prometheus

GUIDE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "guide"
DASHBOARD = GUIDE / "grafana-dashboard.json"


async def connected(pool, num):
    """Return channels from the pool to itself."""
    listener = pool.listen()
    pairs = [await asyncio.gather(
        pool.connect(f"127.0.0.1:{listener.port}", name=f"to-{i}"),
        listener.accept()) for i in range(num)]
    for i, (_, accepted) in enumerate(pairs):
        accepted.name = f"from-{i}"
    return pairs


async def transfer(sender, receiver, data):
    sent = sender.send(data)
    await (await receiver.recv()).frames()
    await sent


def collect(collector):
    """Return the samples, as a dict from name and labels to values."""
    return {(sample.name, *sorted(sample.labels.items())): sample.value
            for family in collector.collect() for sample in family.samples}


def sent_bytes(samples, channel):
    """Return the values of the counters of bytes that the channel sent."""
    return [value for key, value in samples.items()
            if key[0] == "ucxpool_channel_bytes_total"
            and {("channel", channel), ("direction", "sent")} <= set(key[1:])]


def labels(samples, name):
    """Return the labels of all samples of this name, as dicts."""
    return [dict(key[1:]) for key in samples if key[0] == name]


async def exported():
    """Return the names of the samples that Prometheus may get."""
    async with ucxpool.Pool(comm_size="8m") as pool:
        families = list(ucxpool.prometheus.Collector(pool).collect())
    suffixes = {"counter": ["_total"], "gauge": [""],
                "histogram": ["_bucket", "_sum", "_count"]}
    return {family.name + suffix for family in families
            for suffix in suffixes[family.type]}


def printed():
    """Return the families that the library prints as OpenMetrics: those of a
    pool, and those of its heap."""
    string = ctypes.CDLL(ucxpool.library_path()).ucxpool_stats_string
    string.argtypes, string.restype = (ctypes.c_void_p, ctypes.c_int
                                       ), ctypes.c_void_p
    with ucxpool.Heap(comm_size="8m") as heap:
        return [list(text_string_to_metric_families(text))
                for text in (heap._lib.text(string(heap.pool, 2)),
                             heap.report("openmetrics"))]


def collected():
    """Return the families that Prometheus reads from the collector."""
    with ucxpool.Pool(comm_size="8m") as pool:
        registry = CollectorRegistry()
        registry.register(ucxpool.prometheus.Collector(pool))
        text = generate_latest(registry).decode()
    return list(text_string_to_metric_families(text))


class Names(unittest.TestCase):
    def test_names_follow_the_rules_of_openmetrics_and_promtool(self):
        pool, heap = printed()
        for family in pool + heap + collected():
            self.assertIn(family.type, ("counter", "gauge", "histogram"))
            self.assertTrue(family.documentation, family.name)
            self.assertRegex(family.name, "^ucxpool_[a-z_]+$")
            self.assertNotRegex(
                family.name,
                "_(total|created|count|sum|bucket|info|gauge|counter|"
                "(pico|nano|micro|milli|kilo|mega|giga|kibi|mebi|gibi)[a-z]+|"
                "minutes|hours|days|s|ms|us|ns|sec|b|kb|mb|gb|m|h|d)(_|$)")

    def test_the_library_and_the_collector_use_the_same_names(self):
        kinds = {(family.name, family.type) for family in collected()}
        pool, _ = printed()
        self.assertGreater(len(pool), 100)
        self.assertEqual({(family.name, family.type) for family in pool}
                         - kinds, {("ucxpool_degraded", "gauge")})

    def test_times_are_in_seconds(self):
        with ucxpool.Pool(comm_size="8m") as pool:
            samples = collect(ucxpool.prometheus.Collector(pool))
            self.assertEqual(
                samples["ucxpool_registration_seconds_total",
                        ("pool", pool.info()["name"])],
                pool.stats()["registration_ns"] / 1e9)


class Collector(unittest.IsolatedAsyncioTestCase):
    async def test_channels_are_labeled_by_wire_and_way(self):
        for wire in ("map", "ucx"):
            async with ucxpool.Pool(name="p", comm_size="8m",
                                    wire=wire) as pool:
                (sender, receiver), = await connected(pool, 1)
                await transfer(sender, receiver, bytes(100))
                await transfer(sender, receiver, bytes(100))
                samples = collect(ucxpool.prometheus.Collector(pool))
                common = (("channel", "to-0"), ("direction", "sent"),
                          ("pool", "p"), ("way", "eager"), ("wire", wire))
                self.assertEqual(
                    samples["ucxpool_channel_bytes_total", *common], 200)
                self.assertEqual(
                    samples["ucxpool_channel_operations_total", *common], 2)
                self.assertEqual(
                    samples["ucxpool_channel_messages_total",
                            ("channel", "from-0"), ("outcome", "received"),
                            ("pool", "p"), ("wire", wire)], 2)
                self.assertEqual(
                    samples["ucxpool_channel_waits_total",
                            ("channel", "to-0"), ("pool", "p"),
                            ("reason", "credit"), ("wire", wire)], 0)
                self.assertEqual(sender.stats()["messages_sent"], 2)

    async def test_each_statistic_of_channels_is_exported(self):
        async with ucxpool.Pool(comm_size="8m") as pool:
            (sender, _), = await connected(pool, 1)
            counters = ucxpool.prometheus._counters(
                dict.fromkeys(sender.stats(), 1))
            self.assertEqual(sum(counters.values()), len(sender.stats()))
            self.assertLessEqual({metric for metric, *_ in counters},
                                 set(ucxpool.prometheus._METRICS))

    async def test_the_number_of_labeled_channels_is_limited(self):
        async with ucxpool.Pool(name="p", comm_size="8m") as pool:
            pairs = await connected(pool, 3)
            for sender, receiver in pairs:
                await transfer(sender, receiver, b"x")
            collector = ucxpool.prometheus.Collector(pool, max_channels=2)
            samples = collect(collector)
            found = {one["channel"] for one in labels(
                samples, "ucxpool_channel_messages_total")}
            self.assertEqual(len(found), 2)
            self.assertEqual(
                samples["ucxpool_channels_unlabeled", ("pool", "p")], 4)
            collector.max_channels = 6
            samples = collect(collector)
            self.assertEqual(
                samples["ucxpool_channels_unlabeled", ("pool", "p")], 0)
            per_channel = [one for key in samples for one in [dict(key[1:])]
                           if one.get("channel") == "to-0"]
            self.assertLessEqual(len(per_channel), 41)

    async def test_pools_of_one_name_have_different_labels(self):
        def pools_of(samples):
            return {one["pool"]: samples["ucxpool_messages_sent_total",
                                         ("pool", one["pool"])]
                    for one in labels(samples, "ucxpool_messages_sent_total")}

        first, second = (ucxpool.Pool(name="p", comm_size="8m")
                         for _ in range(2))
        async with second:
            async with first:
                (sender, receiver), = await connected(second, 1)
                await transfer(sender, receiver, b"x")
                collector = ucxpool.prometheus.Collector(first, second, first)
                samples = [sample for family in collector.collect()
                           for sample in family.samples]
                self.assertEqual(len(samples), len(collect(collector)))
                self.assertEqual(pools_of(collect(collector)),
                                 {"p": 0, "p-2": 1})
            # The other pool keeps its label.
            self.assertEqual(pools_of(collect(collector)), {"p-2": 1})

    async def test_channels_of_one_name_are_added_up(self):
        async with ucxpool.Pool(name="p", comm_size="8m") as pool:
            pairs = await connected(pool, 2)
            for sender, receiver in pairs:
                sender.name = "both"
                await transfer(sender, receiver, bytes(10))
            samples = collect(ucxpool.prometheus.Collector(pool))
            self.assertEqual(sent_bytes(samples, "both"), [20])

    async def test_counters_keep_the_part_of_a_closed_channel(self):
        async with ucxpool.Pool(name="p", comm_size="8m") as pool:
            pairs = await connected(pool, 3)
            collector = ucxpool.prometheus.Collector(pool)
            for sender, receiver in pairs:
                sender.name = "one"
                await transfer(sender, receiver, bytes(10))
            self.assertEqual(sent_bytes(collect(collector), "one"), [30])
            pairs[0][0].close()
            self.assertEqual(sent_bytes(collect(collector), "one"), [30])
            await transfer(*pairs[1], bytes(5))
            self.assertEqual(sent_bytes(collect(collector), "one"), [35])
            pairs[1][0].close()
            pairs[2][0].close()
            self.assertEqual(sent_bytes(collect(collector), "one"), [])

    async def test_counters_continue_when_a_channel_replaces_another(self):
        async with ucxpool.Pool(name="p", comm_size="8m") as pool:
            (first, receiver), = await connected(pool, 1)
            collector = ucxpool.prometheus.Collector(pool)
            await transfer(first, receiver, bytes(10))
            self.assertEqual(sent_bytes(collect(collector), "to-0"), [10])
            first.close()
            (second, receiver), = await connected(pool, 1)
            await transfer(second, receiver, bytes(3))
            self.assertEqual(sent_bytes(collect(collector), "to-0"), [13])

    async def test_a_renamed_channel_adds_nothing_twice(self):
        async with ucxpool.Pool(name="p", comm_size="8m") as pool:
            pairs = await connected(pool, 2)
            collector = ucxpool.prometheus.Collector(pool)
            for sender, receiver in pairs:
                await transfer(sender, receiver, bytes(10))
            collect(collector)
            pairs[0][0].name = "to-1"
            self.assertEqual(sent_bytes(collect(collector), "to-1"), [10])

    async def test_channels_beyond_the_limit_are_counted_when_labeled(self):
        async with ucxpool.Pool(name="p", comm_size="8m") as pool:
            pairs = await connected(pool, 2)
            channels = sorted(pool.channels(), key=lambda one: one.number)
            channels[0].name = channels[-1].name = "one"
            for sender, receiver in pairs:
                await transfer(sender, receiver, bytes(10))
                await transfer(receiver, sender, bytes(10))
            collector = ucxpool.prometheus.Collector(pool, max_channels=3)
            self.assertEqual(sent_bytes(collect(collector), "one"), [10])
            collector.max_channels = 4
            self.assertEqual(sent_bytes(collect(collector), "one"), [10])

    async def test_a_channel_closed_during_a_scrape_is_skipped(self):
        async with ucxpool.Pool(name="p", comm_size="8m") as pool:
            pairs = await connected(pool, 2)
            for sender, receiver in pairs:
                await transfer(sender, receiver, bytes(10))
            listed = pool.channels()
            pairs[0][0].close()
            with unittest.mock.patch.object(ucxpool.Pool, "channels",
                                            return_value=listed):
                samples = collect(ucxpool.prometheus.Collector(pool))
            self.assertEqual(sent_bytes(samples, "to-0"), [])
            self.assertEqual(sent_bytes(samples, "to-1"), [10])

    async def test_a_pool_closed_during_a_scrape_is_skipped(self):
        pools = [ucxpool.Pool(name=name, comm_size="8m") for name in "ab"]

        def stats(pool):
            pools[0].close()
            return ucxpool._core.Pool.stats(pool)

        with unittest.mock.patch.object(ucxpool.Pool, "stats", stats):
            samples = collect(ucxpool.prometheus.Collector(*pools))
        self.assertEqual(labels(samples, "ucxpool_channels_open"),
                         [{"pool": "b"}])
        pools[1].close()

    async def test_operations_before_the_first_sample_are_not_exported(self):
        async with ucxpool.Pool(name="p", comm_size="8m") as pool:
            histogram = {"operation": "send", "wire": "map", "way": "eager",
                         "count": 5, "sum": 0, "buckets": [5] + 39 * [0]}
            with unittest.mock.patch.object(ucxpool.Pool, "histograms",
                                            return_value={"": histogram}):
                samples = collect(ucxpool.prometheus.Collector(pool))
                histogram.update(count=6, buckets=[2, 0, 1] + 36 * [0] + [3],
                                 sum=4)
                timed = collect(ucxpool.prometheus.Collector(pool))
            for found, expected in ((samples, 0), (timed, 4)):
                for suffix in ("bucket", "count"):
                    self.assertEqual(
                        max(value for key, value in found.items() if key[0]
                            == "ucxpool_latency_seconds_" + suffix), expected)

    async def test_buckets_of_a_latency_end_with_all_operations(self):
        async with ucxpool.Pool(name="p", comm_size="8m", wire="map") as pool:
            (sender, receiver), = await connected(pool, 1)
            for _ in range(10):
                await transfer(sender, receiver, bytes(100))
            samples = collect(ucxpool.prometheus.Collector(pool))
            common = (("operation", "send"), ("pool", "p"), ("way", "eager"),
                      ("wire", "map"))
            buckets = {float(dict(key[1:])["le"]): value
                       for key, value in samples.items()
                       if key[0] == "ucxpool_latency_seconds_bucket"
                       and set(common) <= set(key)}
            self.assertEqual(len(buckets), 30)
            in_order = [buckets[bound] for bound in sorted(buckets)]
            self.assertEqual(in_order, sorted(in_order))
            self.assertEqual(in_order[-1], 10)
            self.assertEqual(
                samples["ucxpool_latency_seconds_count", *common], 10)
            self.assertGreater(
                samples["ucxpool_latency_seconds_sum", *common], 0)
            histogram = pool.histograms()["send_map_eager"]
            self.assertEqual(sum(histogram["buckets"]), histogram["count"])
            for one in labels(samples, "ucxpool_latency_seconds_count"):
                self.assertIn(one["operation"], ("send", "recv"))


def missing_from(whole, part, path="dashboard"):
    """Yield the path of each value of `part` that `whole` lacks."""
    if isinstance(part, dict) and isinstance(whole, dict):
        for key in part:
            yield from missing_from(whole.get(key), part[key], f"{path}.{key}")
    elif (isinstance(part, list) and isinstance(whole, list)
          and len(part) == len(whole)):
        for i, (one, other) in enumerate(zip(whole, part)):
            yield from missing_from(one, other, f"{path}[{i}]")
    elif whole != part:
        yield path


class Dashboard(unittest.IsolatedAsyncioTestCase):
    def setUp(self):
        self.board = json.loads(DASHBOARD.read_text())
        self.panels = [panel for panel in self.board["panels"]
                       if panel["type"] != "row"]

    @unittest.skipUnless(
        importlib.util.find_spec("grafana_foundation_sdk"),
        "grafana-foundation-sdk is not installed")
    def test_grafanas_schema_has_each_field(self):
        """Grafana's library drops the fields that its schema lacks."""
        from grafana_foundation_sdk.cog.encoder import JSONEncoder
        from grafana_foundation_sdk.models.dashboard import Dashboard as Schema
        read = Schema.from_json(json.loads(DASHBOARD.read_text()))
        kept = json.loads(JSONEncoder().encode(read))
        self.assertEqual(list(missing_from(kept, self.board)), [])

    def test_numbers_of_panels_and_names_of_queries_are_unique(self):
        numbers = [panel["id"] for panel in self.board["panels"]]
        self.assertEqual(len(numbers), len(set(numbers)))
        for panel in self.panels:
            names = [target["refId"] for target in panel["targets"]]
            self.assertEqual(len(names), len(set(names)), panel["title"])

    def test_panels_do_not_overlap(self):
        used = set()
        for panel in self.board["panels"]:
            place = panel["gridPos"]
            cells = {(x, y)
                     for x in range(place["x"], place["x"] + place["w"])
                     for y in range(place["y"], place["y"] + place["h"])}
            self.assertFalse(used & cells, panel["title"])
            self.assertLessEqual(place["x"] + place["w"], 24, panel["title"])
            used |= cells

    def test_variables_that_queries_use_are_defined(self):
        variables = {one["name"]: one
                     for one in self.board["templating"]["list"]}
        self.assertEqual(variables["datasource"]["type"], "datasource")
        self.assertEqual(variables["datasource"]["query"], "prometheus")
        used = set(re.findall(r"\$\{?(\w+)", json.dumps(self.board)))
        self.assertEqual(used - {"__rate_interval", "__all"}, set(variables))
        for panel in self.panels:
            self.assertEqual(panel["datasource"]["uid"], "${datasource}")

    async def test_metrics_that_queries_use_are_exported(self):
        names = await exported()
        queries = [target["expr"] for panel in self.panels
                   for target in panel["targets"]]
        queries += [one["query"]["query"]
                    for one in self.board["templating"]["list"]
                    if one["type"] == "query"]
        self.assertGreater(len(queries), 15)
        for query in queries:
            used = re.findall(r"ucxpool_\w+", query)
            self.assertTrue(used, query)
            self.assertLessEqual(set(used), names)


class Alerts(unittest.IsolatedAsyncioTestCase):
    async def test_metrics_of_alerts_are_exported(self):
        table = (GUIDE / "monitoring.md").read_text().split("## Alerts")[1]
        used = re.findall(r"^\| `(ucxpool_\w+)", table, re.MULTILINE)
        self.assertGreater(len(used), 8)
        self.assertLessEqual(set(used), await exported())


if __name__ == "__main__":
    unittest.main()
