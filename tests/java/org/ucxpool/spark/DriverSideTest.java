package org.ucxpool.spark;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.util.concurrent.atomic.AtomicInteger;

import org.apache.spark.SparkConf;
import org.junit.Test;

/** How the driver handles executors that have no pool. */
public class DriverSideTest {
    private final AtomicInteger stops = new AtomicInteger();
    private final DriverSide driver = new DriverSide();

    private static SparkConf conf() {
        return new SparkConf(false).set(
            Settings.MANAGER, UcxPoolShuffleManager.class.getName());
    }

    private void start(SparkConf conf) {
        driver.start(conf, "4.3.0", stops::incrementAndGet);
    }

    private void without(int executor) {
        assertEquals("", driver.receive(DriverSide.without(
            Integer.toString(executor),
            new Obstacle("no library", "Set spark.ucxpool.library"))));
    }

    @Test
    public void executors_may_use_netty_unless_the_pool_is_required() {
        start(conf());
        without(1);
        without(2);
        assertEquals(0, stops.get());
    }

    @Test
    public void application_is_stopped_once_if_the_pool_is_required() {
        start(conf().set(Settings.REQUIRED, "true"));
        assertEquals(0, stops.get());
        without(1);
        without(2);
        assertEquals(1, stops.get());
    }

    @Test
    public void wrong_settings_fail_at_startup_if_the_pool_is_required() {
        SparkConf conf = conf().set("spark.ucxpool.memroy", "1g");

        start(conf);
        String why = assertThrows(
            IllegalStateException.class,
            () -> start(conf.set(Settings.REQUIRED, "true"))).getMessage();

        assertTrue(why, why.startsWith(Settings.REQUIRED + " is set, and "));
        assertTrue(why, why.contains("spark.ucxpool.memroy is not a setting"));
    }

    @Test
    public void shuffle_manager_without_the_plugin_fails_if_required() {
        String why = assertThrows(
            IllegalStateException.class,
            () -> new UcxPoolShuffleManager(
                conf().set(Settings.REQUIRED, "true"))).getMessage();

        assertTrue(why, why.contains("Set spark.plugins="
                                     + UcxPoolPlugin.class.getName()));
    }
}
