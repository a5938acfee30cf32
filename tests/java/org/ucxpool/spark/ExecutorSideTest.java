package org.ucxpool.spark;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertSame;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.io.IOException;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;

import org.apache.spark.SparkConf;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.network.shuffle.BlockStoreClient;
import org.apache.spark.storage.BlockManager;
import org.junit.Test;
import org.ucxpool.Status;

/** What is in the way of the pool, and is told by its name. */
public class ExecutorSideTest {
    private static SparkConf conf() {
        return new SparkConf(false).set(
            Settings.MANAGER, UcxPoolShuffleManager.class.getName());
    }

    private static Obstacle obstacle(String version, SparkConf conf) {
        return assertThrows(Obstacle.class,
                            () -> ExecutorSide.check(version, conf));
    }

    private static String why(String version, SparkConf conf) {
        return obstacle(version, conf).getMessage();
    }

    @Test
    public void versions_of_four_are_supported_and_no_other()
            throws Exception {
        for (String version : new String[] {"4.0.0", "4.3.0", "4.10.1",
                                            "4.4.0-SNAPSHOT"}) {
            ExecutorSide.check(version, conf());
        }
        for (String version : new String[] {"3.5.9", "5.0.0", "40.1.0"}) {
            assertEquals("Spark " + version + " is not supported, 4.x is",
                         why(version, conf()));
        }
    }

    @Test
    public void settings_in_the_way_are_named() throws Exception {
        for (String key : new String[] {
                 "spark.shuffle.service.enabled",
                 "spark.network.crypto.enabled",
                 "spark.authenticate.enableSaslEncryption",
                 "spark.ssl.rpc.enabled"}) {
            String why = why("4.3.0", conf().set(key, "true"));

            assertTrue(why, why.startsWith(key + ": "));
            ExecutorSide.check("4.3.0", conf().set(key, "false"));
        }
        String why = why("4.3.0", conf().set(Settings.MANAGER, "sort"));

        assertTrue(why, why.startsWith(Settings.MANAGER + " is not "));
    }

    private static String remedy(Status status, boolean hasSecret) {
        return ExecutorSide.obstacle(status, "why", hasSecret).remedy;
    }

    @Test
    public void the_key_to_set_is_named() {
        Obstacle crypto = obstacle(
            "4.3.0", conf().set("spark.network.crypto.enabled", "true"));

        assertTrue(crypto.remedy, crypto.remedy.startsWith(
            "Set spark.network.crypto.enabled=false"));
        assertTrue(remedy(Status.PERMISSION, false).startsWith(
            "Set spark.authenticate=true"));
        assertFalse(remedy(Status.PERMISSION, true).contains(
            "spark.authenticate"));
        assertEquals("Set spark.ucxpool.port to 0 or a free port",
                     remedy(Status.ADDRESS_IN_USE, true));
    }

    @Test
    public void an_executor_without_a_pool_tells_the_driver() {
        List<String> said = new ArrayList<>();
        Obstacle obstacle = new Obstacle("no library", "Set it");
        SparkConf conf = conf();
        PluginContext context = context(conf, null, said);

        ExecutorSide.report(context, obstacle);
        assertEquals(List.of("ask without 7 no library Set it"), said);
        conf.set(Settings.REQUIRED, "true");
        assertSame(obstacle, assertThrows(
            IllegalStateException.class,
            () -> ExecutorSide.report(context, obstacle)).getCause());
    }

    private static final class OtherManager {
    }

    @Test
    public void a_field_that_is_missing_is_named() throws Exception {
        String why = assertThrows(
            Obstacle.class,
            () -> ExecutorSide.field(OtherManager.class, "blockStoreClient"))
            .getMessage();

        assertTrue(why, why.startsWith("this Spark's OtherManager has no "
                                       + "field blockStoreClient"));
        assertEquals(BlockStoreClient.class,
                     ExecutorSide.field(BlockManager.class,
                                        "blockStoreClient").getType());
    }

    /** A context whose driver does not answer; what is sent is noted. */
    private static PluginContext silent(Exception why,
                                        List<String> said) {
        return context(conf(), why, said);
    }

    /** A context whose driver fails if why is given; what is sent is noted. */
    private static PluginContext context(SparkConf conf, Exception why,
                                         List<String> said) {
        return (PluginContext) Proxy.newProxyInstance(
            PluginContext.class.getClassLoader(),
            new Class<?>[] {PluginContext.class},
            (proxy, method, arguments) -> {
                switch (method.getName()) {
                case "executorID":
                    return "7";
                case "conf":
                    return conf;
                case "send":
                    said.add("send "
                             + String.join(" ", (String[]) arguments[0]));
                    return null;
                case "ask":
                    said.add("ask "
                             + String.join(" ", (String[]) arguments[0]));
                    if (why != null) {
                        throw why;
                    }
                    return "";
                default:
                    throw new AssertionError(method);
                }
            });
    }

    @Test
    public void a_pool_that_was_announced_in_vain_is_taken_back() {
        List<String> said = new ArrayList<>();
        IOException why = new IOException("no answer in time");
        PluginContext context = silent(why, said);

        assertSame(why, assertThrows(
            IOException.class,
            () -> ExecutorSide.tell(context, "127.0.0.1:1")));
        assertEquals(List.of("ask here 7 127.0.0.1:1", "send here 7 "), said);
    }

    @Test
    public void a_task_that_is_stopped_while_it_asks_stays_stopped() {
        PluginContext context =
            silent(new InterruptedException(), new ArrayList<>());

        assertNull(ExecutorSide.ask(context, DriverSide.where("1")));
        assertTrue(Thread.interrupted());
    }
}
