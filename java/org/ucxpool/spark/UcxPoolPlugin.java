package org.ucxpool.spark;

import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.SparkPlugin;

/**
 * Starts the pool of each executor and lets them find each other. Goes together
 * with {@link UcxPoolShuffleManager}.
 */
public final class UcxPoolPlugin implements SparkPlugin {
    /** Made by Spark. */
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
