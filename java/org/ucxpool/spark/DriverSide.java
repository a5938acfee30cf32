package org.ucxpool.spark;

import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Stores the addresses of the executors' pools, and reports in the driver's log
 * why an executor has no pool. Questions and answers use only classes of the
 * JDK: Spark deserializes them before it has loaded the plugin's jar.
 */
final class DriverSide implements DriverPlugin {
    private static final Logger LOG =
        LoggerFactory.getLogger(DriverSide.class);

    private static final String HERE = "here";
    private static final String WHERE = "where";
    private static final String WITHOUT = "without";

    private final Map<String, String> addresses = new ConcurrentHashMap<>();
    private final Set<String> warned = ConcurrentHashMap.newKeySet();
    private boolean isRequired;
    private Runnable stop;

    /**
     * Returns the message by which an executor reports the address of its pool.
     */
    static String[] here(String executorId, String address) {
        return new String[] {HERE, executorId, address};
    }

    /**
     * Returns the message by which an executor asks for the address of another
     * executor's pool. The answer is "" if that executor has no pool.
     */
    static String[] where(String executorId) {
        return new String[] {WHERE, executorId};
    }

    /** Returns the message by which an executor reports that it has no pool. */
    static String[] without(String executorId, Obstacle obstacle) {
        return new String[] {WITHOUT, executorId, obstacle.getMessage(),
                             obstacle.remedy};
    }

    @Override
    public Map<String, String> init(SparkContext context,
                                    PluginContext plugin) {
        /* stop() waits for the threads in receive(). */
        start(plugin.conf(), org.apache.spark.package$.MODULE$.SPARK_VERSION(),
              () -> new Thread(() -> context.stop(1), "ucxpool-stop").start());
        return Map.of();
    }

    /** Check the settings before executors are started. */
    void start(SparkConf conf, String version, Runnable stop) {
        this.stop = stop;
        isRequired = conf.getBoolean(Settings.REQUIRED, false);
        try {
            ExecutorSide.check(version, conf);
            Settings.read(conf);
        } catch (Obstacle e) {
            if (isRequired) {
                throw e.ofRequired();
            }
            warn("all executors", e.getMessage(), e.remedy);
        }
    }

    private void warn(String whose, String why, String remedy) {
        String line = "shuffle blocks of " + whose + " go over Netty: " + why
            + ". " + remedy;

        /* Log a reason only once, even if many executors report it. */
        if (warned.add(remedy)) {
            LOG.warn(line);
        } else {
            LOG.info(line);
        }
    }

    private void reportWithout(String executorId, String why, String remedy) {
        if (!isRequired) {
            warn("executor " + executorId, why, remedy);
        } else if (warned.add(WITHOUT)) {
            LOG.error("{} is set, and executor {} cannot use the pool: {}. {}."
                          + " The application is stopped",
                      Settings.REQUIRED, executorId, why, remedy);
            stop.run();
        }
    }

    @Override
    public Object receive(Object message) {
        String[] words = (String[]) message;

        if (words[0].equals(HERE)) {
            addresses.put(words[1], words[2]);
            return "";
        }
        if (words[0].equals(WHERE)) {
            return addresses.getOrDefault(words[1], "");
        }
        if (words[0].equals(WITHOUT)) {
            reportWithout(words[1], words[2], words[3]);
            return "";
        }
        throw new IllegalArgumentException("unknown question: " + words[0]);
    }
}
