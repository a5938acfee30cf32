package org.ucxpool.spark;

import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Map;

import org.apache.spark.SecurityManager;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.network.netty.SparkTransportConf;
import org.apache.spark.network.shuffle.BlockStoreClient;
import org.apache.spark.storage.BlockManager;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.ucxpool.Status;
import org.ucxpool.UcxpoolException;

/**
 * Starts the transport of an executor and replaces Spark's transport. If this
 * fails, blocks are fetched over Netty, as without the plugin. The logs of the
 * executor and of the driver then show the reason and the setting to change.
 */
final class ExecutorSide implements ExecutorPlugin {
    private static final Logger LOG =
        LoggerFactory.getLogger(ExecutorSide.class);

    private static final String LIBRARY_PROPERTY = "org.ucxpool.library";
    private static final String FIELD = "blockStoreClient";

    private static volatile Transport current;

    /** Called when Spark removes a shuffle. */
    static void forget(int shuffleId) {
        Transport transport = transport();

        if (transport != null) {
            transport.forget(shuffleId);
        }
    }

    /** Returns the transport of this executor, or null. */
    static Transport transport() {
        return current;
    }

    @Override
    public void init(PluginContext context, Map<String, String> extra) {
        Statistics statistics = new Statistics();

        statistics.register(context.metricRegistry());
        if (context.executorID().equals("driver")) {
            /*
             * In local mode the driver runs the tasks itself, and does not
             * fetch from other processes.
             */
            return;
        }
        try {
            start(context, statistics);
        } catch (Obstacle e) {
            report(context, e);
        } catch (Exception | LinkageError e) {
            report(context, new Obstacle(
                "the plugin does not support this Spark: " + e,
                "Build the plugin against the jars of this Spark", e));
        }
    }

    /**
     * Report an obstacle to the driver, because users read the driver's log.
     * Stop this executor if the application requires the pool.
     */
    static void report(PluginContext context, Obstacle obstacle) {
        LOG.warn("shuffle blocks go over Netty: {}. {}", obstacle.getMessage(),
                 obstacle.remedy, obstacle.getCause());
        ask(context, DriverSide.without(context.executorID(), obstacle));
        if (context.conf().getBoolean(Settings.REQUIRED, false)) {
            throw obstacle.ofRequired();
        }
    }

    private static void start(PluginContext context, Statistics statistics)
            throws Exception {
        SparkConf conf = context.conf();
        SparkEnv env = SparkEnv.get();
        BlockManager manager = env.blockManager();

        check(org.apache.spark.package$.MODULE$.SPARK_VERSION(), conf);
        Settings settings = Settings.read(conf);
        Field field = field(BlockManager.class, FIELD);

        if (settings.library != null) {
            System.setProperty(LIBRARY_PROPERTY, settings.library);
        }
        BlockStoreClient netty = manager.blockStoreClient();
        byte[] secret = secret(env.securityManager());
        Transport transport;

        try {
            transport = new Transport(
                settings, env, netty,
                SparkTransportConf.fromSparkConf(conf, "shuffle", 0,
                                                 scala.Option.empty(),
                                                 scala.Option.empty()),
                secret, statistics,
                executorId -> ask(context, DriverSide.where(executorId)));
        } catch (UcxpoolException e) {
            throw obstacle(e.status(), e.getMessage(), secret != null);
        } catch (UnsatisfiedLinkError e) {
            throw new Obstacle(e.getMessage(), "Set " + Settings.PREFIX
                + "library to the path of libucxpool.so.1 on the executors' "
                + "hosts");
        }

        try {
            field.set(manager, new PooledBlockStoreClient(netty, transport));
            tell(context, transport.address());
        } catch (Exception e) {
            field.set(manager, netty);
            transport.close();
            throw e;
        }
        Statistics.registerPool(context.metricRegistry(),
                                transport::poolStats);
        current = transport;
        LOG.info("shuffle blocks go over the pool, at {}",
                 transport.address());
    }

    /**
     * Returns the obstacle, with the setting to change, if the pool cannot be
     * created.
     */
    static Obstacle obstacle(Status status, String why,
                             boolean hasSecret) {
        String remedy = "Change the setting " + Settings.PREFIX
            + "* or " + Settings.POOL_PREFIX + "KEY that this error names";

        if (status == Status.PERMISSION && !hasSecret) {
            remedy = "Set spark.authenticate=true, and "
                + "spark.authenticate.secret if the cluster manager creates "
                + "none: executors on other hosts need a secret";
        } else if (status == Status.NO_MEMORY) {
            remedy = "Set " + Settings.PREFIX + "memory to less";
        } else if (status == Status.ADDRESS_IN_USE) {
            remedy = "Set " + Settings.PREFIX + "port to 0 or a free port";
        }
        return new Obstacle(why, remedy);
    }

    /** Check that the plugin supports this version of Spark. */
    static void check(String version, SparkConf conf) throws Obstacle {
        if (!version.startsWith("4.")) {
            throw new Obstacle("Spark " + version + " is not supported, 4.x "
                               + "is",
                               "Use Spark 4.0 or newer");
        }
        if (!conf.get(Settings.MANAGER, "sort").equals(
                UcxPoolShuffleManager.class.getName())) {
            throw new Obstacle(Settings.MANAGER + " is not "
                               + UcxPoolShuffleManager.class.getName(),
                               "Set " + Settings.MANAGER + "="
                               + UcxPoolShuffleManager.class.getName());
        }
        if (conf.getBoolean("spark.shuffle.service.enabled", false)) {
            throw new Obstacle("spark.shuffle.service.enabled: an external "
                               + "shuffle service has no pool",
                               "Set spark.shuffle.service.enabled=false");
        }
        for (String key : new String[] {
                 "spark.network.crypto.enabled",
                 "spark.authenticate.enableSaslEncryption",
                 "spark.ssl.rpc.enabled"}) {
            if (conf.getBoolean(key, false)) {
                throw new Obstacle(key + ": the pool does not encrypt",
                                   "Set " + key + "=false if the network is "
                                   + "trusted");
            }
        }
    }

    /** Returns the field of a class of Spark that the plugin sets. */
    static Field field(Class<?> owner, String name) throws Obstacle {
        try {
            Field field = owner.getDeclaredField(name);

            field.setAccessible(true);
            return field;
        } catch (NoSuchFieldException | RuntimeException e) {
            throw new Obstacle("this Spark's " + owner.getSimpleName()
                               + " has no field " + name
                               + " that can be set: " + e.getMessage(),
                               "Use a version of Spark that "
                               + "docs/guide/spark.md lists");
        }
    }

    /**
     * Returns a secret derived from Spark's secret, so that peers never see
     * Spark's secret itself. Returns null if there is none.
     */
    private static byte[] secret(SecurityManager security)
            throws NoSuchAlgorithmException {
        if (!security.isAuthenticationEnabled()) {
            return null;
        }
        MessageDigest digest = MessageDigest.getInstance("SHA-256");

        digest.update("ucxpool shuffle\0".getBytes(StandardCharsets.UTF_8));
        byte[] hash = digest.digest(
            security.getSecretKey().getBytes(StandardCharsets.UTF_8));
        StringBuilder text = new StringBuilder();

        /* The secret must not end with a newline, which would be ignored. */
        for (byte part : hash) {
            text.append(String.format("%02x", part));
        }
        return text.toString().getBytes(StandardCharsets.UTF_8);
    }

    /**
     * Send the pool's address to the driver. If sending fails, the driver may
     * still receive the address later, so tell the driver that there is no
     * pool.
     */
    static void tell(PluginContext context, String address)
            throws Exception {
        String executorId = context.executorID();

        try {
            context.ask(DriverSide.here(executorId, address));
        } catch (Exception e) {
            try {
                context.send(DriverSide.here(executorId, ""));
            } catch (Exception unsent) {
                e.addSuppressed(unsent);
            }
            throw e;
        }
    }

    /** Ask the driver. Returns null if the driver does not answer. */
    static String ask(PluginContext context, Object question) {
        try {
            return (String) context.ask(question);
        } catch (Exception e) {
            if (e instanceof InterruptedException) {
                Thread.currentThread().interrupt();
            }
            LOG.warn("the driver does not answer", e);
            return null;
        }
    }

    @Override
    public void shutdown() {
        Transport transport = current;

        current = null;
        if (transport != null) {
            transport.close();
        }
    }
}
