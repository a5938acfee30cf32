package org.ucxpool.spark;

import com.codahale.metrics.Counter;
import com.codahale.metrics.Gauge;
import com.codahale.metrics.Metric;

import java.util.Map;
import java.util.TreeMap;

import org.apache.spark.SparkEnv;
import org.apache.spark.metrics.source.Source;
import org.apache.spark.sql.api.java.UDF1;

/**
 * An SQL function that returns the executor that it runs in, and the plugin's
 * counters there from Spark's metrics system. With these, the tests check
 * whether blocks used the pool or Netty.
 */
public final class CountersOfExecutor implements UDF1<Long, String> {
    private static final long serialVersionUID = 1;

    private static final String SOURCE =
        "plugin." + UcxPoolPlugin.class.getName();

    @Override
    public String call(Long row) {
        StringBuilder text = new StringBuilder();

        text.append("executor=").append(SparkEnv.get().executorId());
        text.append(" pid=").append(ProcessHandle.current().pid());
        metrics().forEach((name, metric) ->
            text.append(' ').append(name).append('=').append(value(metric)));
        return text.toString();
    }

    private static Map<String, Metric> metrics() {
        Map<String, Metric> all = new TreeMap<>();
        scala.collection.Iterator<Source> sources =
            SparkEnv.get().metricsSystem().getSourcesByName(SOURCE).iterator();

        while (sources.hasNext()) {
            all.putAll(sources.next().metricRegistry().getMetrics());
        }
        return all;
    }

    private static long value(Metric metric) {
        return metric instanceof Counter
            ? ((Counter) metric).getCount()
            : (Long) ((Gauge<?>) metric).getValue();
    }
}
