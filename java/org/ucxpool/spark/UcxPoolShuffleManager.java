package org.ucxpool.spark;

import org.apache.spark.SparkConf;
import org.apache.spark.shuffle.IndexShuffleBlockResolver;
import org.apache.spark.shuffle.sort.SortShuffleManager;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Spark's own shuffle manager, with access to its files. Its blocks are fetched
 * over the pool after {@link UcxPoolPlugin} has started the pool. The plugin
 * must also be loaded.
 */
public final class UcxPoolShuffleManager extends SortShuffleManager {
    private static final Logger LOG =
        LoggerFactory.getLogger(UcxPoolShuffleManager.class);

    /*
     * Spark creates one manager per process. It is kept here, because the type
     * by which Spark returns the manager differs in Spark 4.0.
     */
    private static volatile UcxPoolShuffleManager current;

    /**
     * Created by Spark.
     *
     * @param conf the application's settings
     */
    public UcxPoolShuffleManager(SparkConf conf) {
        super(conf);
        current = this;
        if (!conf.get(Settings.PLUGINS, "").contains(
                UcxPoolPlugin.class.getName())) {
            Obstacle obstacle = new Obstacle(
                Settings.PLUGINS + " does not name "
                    + UcxPoolPlugin.class.getName(),
                "Set " + Settings.PLUGINS + "="
                    + UcxPoolPlugin.class.getName());

            if (conf.getBoolean(Settings.REQUIRED, false)) {
                throw obstacle.ofRequired();
            }
            LOG.warn("shuffle blocks go over Netty: {}. {}",
                     obstacle.getMessage(), obstacle.remedy);
        }
    }

    /**
     * Returns the resolver that finds the files of this process's map outputs.
     */
    static IndexShuffleBlockResolver resolver() {
        return current.shuffleBlockResolver();
    }

    @Override
    public boolean unregisterShuffle(int shuffleId) {
        ExecutorSide.forget(shuffleId);
        return super.unregisterShuffle(shuffleId);
    }
}
