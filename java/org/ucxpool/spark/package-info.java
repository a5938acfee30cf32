/**
 * Runs Spark's shuffle on the pool. The plugin is loaded by its jar and two
 * settings:
 *
 * <pre>
 * spark.shuffle.manager  org.ucxpool.spark.UcxPoolShuffleManager
 * spark.plugins          org.ucxpool.spark.UcxPoolPlugin
 * </pre>
 *
 * <p>docs/guide/spark.md lists the settings, and the blocks that use the pool.
 */
package org.ucxpool.spark;
