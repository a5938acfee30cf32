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

/** Obstacles to the use of the pool, and how they are reported. */
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
    public void only_spark_4_is_supported()
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
    public void conflicting_settings_are_reported() throws Exception {
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
    public void remedy_names_the_setting() {
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
    public void executor_without_a_pool_reports_to_the_driver() {
        List<String> sent = new ArrayList<>();
        Obstacle obstacle = new Obstacle("no library", "Set it");
        SparkConf conf = conf();
        PluginContext context = context(conf, null, sent);

        ExecutorSide.report(context, obstacle);
        assertEquals(List.of("ask without 7 no library Set it"), sent);
        conf.set(Settings.REQUIRED, "true");
        assertSame(obstacle, assertThrows(
            IllegalStateException.class,
            () -> ExecutorSide.report(context, obstacle)).getCause());
    }

    private static final class OtherManager {
    }

    @Test
    public void missing_field_is_reported() throws Exception {
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

    /** A context whose driver does not answer. Records the messages sent. */
    private static PluginContext silent(Exception why,
                                        List<String> sent) {
        return context(conf(), why, sent);
    }

    /** A context whose driver fails if `why` is not null. Records the
     * messages sent. */
    private static PluginContext context(SparkConf conf, Exception why,
                                         List<String> sent) {
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
                    sent.add("send "
                             + String.join(" ", (String[]) arguments[0]));
                    return null;
                case "ask":
                    sent.add("ask "
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
    public void failed_announcement_is_withdrawn() {
        List<String> sent = new ArrayList<>();
        IOException why = new IOException("no answer in time");
        PluginContext context = silent(why, sent);

        assertSame(why, assertThrows(
            IOException.class,
            () -> ExecutorSide.tell(context, "127.0.0.1:1")));
        assertEquals(List.of("ask here 7 127.0.0.1:1", "send here 7 "), sent);
    }

    @Test
    public void interrupt_during_a_query_is_preserved() {
        PluginContext context =
            silent(new InterruptedException(), new ArrayList<>());

        assertNull(ExecutorSide.ask(context, DriverSide.where("1")));
        assertTrue(Thread.interrupted());
    }
}
