package org.ucxpool;

/**
 * The latencies of one kind of operation: see ucxpool/stats.h.
 *
 * @param operation "send", "recv", "read" or "write"
 * @param wire "map" or "ucx"
 * @param way the way in which the bytes are transferred
 * @param count the number of operations, which is the sum of the buckets
 * @param sum the sum of the latencies, in nanoseconds
 * @param buckets bucket i &gt; 0 counts the operations that took at least
 *        2<sup>i-1</sup> and less than 2<sup>i</sup> nanoseconds; the last
 *        bucket also counts all longer ones. Bucket 0 counts the operations
 *        that ended before the first sample, whose latency is not known yet:
 *        sum does not include them
 */
public record Histogram(String operation, String wire, String way, long count,
                        long sum, long[] buckets) {
}
