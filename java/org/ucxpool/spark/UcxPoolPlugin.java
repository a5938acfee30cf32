package org.ucxpool.spark;

import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.SparkPlugin;

/**
 * Starts the pool of each executor and lets the executors find each other. The
 * plugin is used together with {@link UcxPoolShuffleManager}.
 */
public final class UcxPoolPlugin implements SparkPlugin {
    /** Created by Spark. */
    public UcxPoolPlugin() {
    }

    @Override
    public DriverPlugin driverPlugin() {
        return new DriverSide();
    }

    @Override
    public ExecutorPlugin executorPlugin() {
        return new ExecutorSide();
    }
}
