/**
 * Spark's shuffle on the pool. Two settings load it, and the jar:
 *
 * <pre>
 * spark.shuffle.manager  org.ucxpool.spark.UcxPoolShuffleManager
 * spark.plugins          org.ucxpool.spark.UcxPoolPlugin
 * </pre>
 *
 * <p>docs/spark.md has the settings, and what goes over the pool and what not.
 */
package org.ucxpool.spark;
