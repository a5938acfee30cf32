package org.ucxpool.spark;

import java.util.HashMap;
import java.util.Map;

import org.apache.spark.SparkConf;
import scala.Tuple2;

/** The settings spark.ucxpool.*; docs/guide/spark.md lists them. */
final class Settings {
    static final String PREFIX = "spark.ucxpool.";
    static final String POOL_PREFIX = PREFIX + "conf.";
    static final String MANAGER = "spark.shuffle.manager";
    static final String PLUGINS = "spark.plugins";
    /** Fail the application instead of fetching blocks over Netty. */
    static final String REQUIRED = PREFIX + "required";

    private static final String[] KEYS =
        {"memory", "messageSize", "port", "wire", "library", "required"};

    /** Size of the pool's blocks and heap, in bytes. */
    final long memory;
    /** Maximum length of a message, in bytes. */
    final int messageSize;
    /** Listening port; 0: any free port. */
    final int port;
    /** Path of libucxpool; null: the dynamic linker finds it. */
    final String library;
    /** Whether the application fails instead of fetching blocks over Netty. */
    final boolean isRequired;
    /** Settings of the pool. */
    final Map<String, String> pool = new HashMap<>();

    /** Read the settings. An invalid setting is an obstacle to the pool. */
    static Settings read(SparkConf conf) throws Obstacle {
        try {
            return new Settings(conf);
        } catch (IllegalArgumentException e) {
            throw new Obstacle(e.getMessage(), "Correct that setting", e);
        }
    }

    /**
     * Read the settings.
     *
     * @throws IllegalArgumentException a setting is unknown or invalid
     */
    Settings(SparkConf conf) {
        for (Tuple2<String, String> entry : conf.getAllWithPrefix(PREFIX)) {
            check(entry._1());
        }
        memory = conf.getSizeAsBytes(PREFIX + "memory", "64m");
        long size = conf.getSizeAsBytes(PREFIX + "messageSize", "1m");
        port = conf.getInt(PREFIX + "port", 0);
        library = conf.get(PREFIX + "library", null);
        isRequired = conf.getBoolean(REQUIRED, false);
        if (memory < 8 << 20) {
            throw wrong("memory", memory, "8m or more");
        }
        if (size < 4096 || size > memory / 16) {
            throw wrong("messageSize", size,
                        "4k or more, and at most a 16th of "
                            + PREFIX + "memory");
        }
        messageSize = (int) Math.min(size, 1 << 30);
        fillPool(conf);
    }

    /*
     * A quarter of the memory is for the blocks, half of which are send blocks.
     * The rest is for data that Spark has not read yet. Peers on this host map
     * the send blocks, which therefore also count as memory of the peers.
     */
    private void fillPool(SparkConf conf) {
        pool.put("COMM_SIZE", Long.toString(memory / 4));
        pool.put("SEND_SHARE", "50");
        pool.put("RECV_SHARE", "50");
        pool.put("MEMORY_LIMIT", Long.toString(memory));
        pool.put("HEAP_CHUNK", "2m");
        pool.put("HUGE_PAGES", "n");
        pool.put("MAX_METADATA", Integer.toString(Protocol.METADATA_MAX));
        pool.put("WIRE", conf.get(PREFIX + "wire", "auto"));
        for (Tuple2<String, String> entry :
             conf.getAllWithPrefix(POOL_PREFIX)) {
            pool.put(entry._1(), entry._2());
        }
    }

    private static void check(String name) {
        boolean isKnown = name.startsWith("conf.");

        for (String key : KEYS) {
            isKnown |= key.equals(name);
        }
        if (!isKnown) {
            throw new IllegalArgumentException(PREFIX + name
                + " is not a setting; the settings are " + PREFIX
                + String.join(", " + PREFIX, KEYS) + " and " + POOL_PREFIX
                + "KEY");
        }
    }

    private static IllegalArgumentException wrong(String key, long value,
                                                  String right) {
        return new IllegalArgumentException(
            PREFIX + key + "=" + value + ": it must be " + right);
    }
}
