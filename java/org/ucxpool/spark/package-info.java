/**
 * Spark's shuffle on the pool. The jar and two settings load it:
 *
 * <pre>
 * spark.shuffle.manager  org.ucxpool.spark.UcxPoolShuffleManager
 * spark.plugins          org.ucxpool.spark.UcxPoolPlugin
 * </pre>
 *
 * <p>docs/guide/spark.md lists the settings, and the blocks that use the pool.
 */
package org.ucxpool.spark;
