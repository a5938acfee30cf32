package org.ucxpool.spark;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

import org.apache.spark.api.plugin.DriverPlugin;

/**
 * Knows where the pools of the executors listen. Questions and answers are made
 * of the JDK's classes alone: Spark reads them before it has the plugin's jar.
 */
final class DriverSide implements DriverPlugin {
    private static final String HERE = "here";
    private static final String WHERE = "where";

    private final Map<String, String> addresses = new ConcurrentHashMap<>();

    /** An executor tells where its pool listens. */
    static String[] here(String executorId, String address) {
        return new String[] {HERE, executorId, address};
    }

    /** An executor asks for the pool of another; the answer is a text, "" for
     * one that has none. */
    static String[] where(String executorId) {
        return new String[] {WHERE, executorId};
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
        throw new IllegalArgumentException("not a question: " + words[0]);
    }
}
