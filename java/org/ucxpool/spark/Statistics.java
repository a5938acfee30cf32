package org.ucxpool.spark;

import com.codahale.metrics.Counter;
import com.codahale.metrics.Gauge;
import com.codahale.metrics.MetricRegistry;

import java.util.Map;
import java.util.function.Supplier;

/**
 * Counters in Spark's metrics system, under the plugin's name. They count
 * blocks that this executor fetched and served, and include the pool's
 * statistics.
 */
final class Statistics {
    final Counter fetchedBlocks = new Counter();
    final Counter fetchedBytes = new Counter();
    final Counter failedBlocks = new Counter();
    /**
     * Bytes that were received while there was no memory, and written to disk.
     */
    final Counter spilledBytes = new Counter();
    /** Shuffle blocks that were fetched over Netty. */
    final Counter nettyBlocks = new Counter();
    final Counter requests = new Counter();
    final Counter replies = new Counter();
    final Counter servedBlocks = new Counter();
    final Counter servedBytes = new Counter();

    void register(MetricRegistry registry) {
        registry.register("fetchedBlocks", fetchedBlocks);
        registry.register("fetchedBytes", fetchedBytes);
        registry.register("failedBlocks", failedBlocks);
        registry.register("spilledBytes", spilledBytes);
        registry.register("nettyBlocks", nettyBlocks);
        registry.register("requests", requests);
        registry.register("replies", replies);
        registry.register("servedBlocks", servedBlocks);
        registry.register("servedBytes", servedBytes);
    }

    /** Register the statistics of the pool as pool.NAME. */
    static void registerPool(MetricRegistry registry,
                             Supplier<Map<String, Long>> stats) {
        for (String name : stats.get().keySet()) {
            registry.register("pool." + name, (Gauge<Long>) () ->
                stats.get().getOrDefault(name, 0L));
        }
    }
}
