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
import org.ucxpool.UcxpoolException;

/**
 * Starts the transport of an executor, and puts it in the place of Spark's. If
 * something is in its way, all goes over Netty as it would without the plugin,
 * and the log has one line that says what it was.
 */
final class ExecutorSide implements ExecutorPlugin {
    private static final Logger LOG =
        LoggerFactory.getLogger(ExecutorSide.class);

    private static final String LIBRARY_PROPERTY = "org.ucxpool.library";
    private static final String FIELD = "blockStoreClient";

    private static volatile Transport current;

    /** Why the pool is not used. */
    static final class NotHere extends Exception {
        private static final long serialVersionUID = 1;

        NotHere(String why) {
            super(why);
        }
    }

    /** Spark removes a shuffle. */
    static void forget(int shuffleId) {
        Transport transport = transport();

        if (transport != null) {
            transport.forget(shuffleId);
        }
    }

    /** This executor's, or null. */
    static Transport transport() {
        return current;
    }

    @Override
    public void init(PluginContext context, Map<String, String> extra) {
        Statistics statistics = new Statistics();

        statistics.register(context.metricRegistry());
        if (context.executorID().equals("driver")) {
            /* It runs its tasks itself, and fetches from nobody. */
            return;
        }
        try {
            start(context, statistics);
        } catch (NotHere e) {
            LOG.warn("shuffle blocks go over Netty: {}", e.getMessage());
        } catch (UcxpoolException | UnsatisfiedLinkError e) {
            LOG.warn("shuffle blocks go over Netty: {}", e.toString());
        } catch (Exception | LinkageError e) {
            LOG.warn("shuffle blocks go over Netty: the plugin does not fit "
                         + "this Spark", e);
        }
    }

    private static void start(PluginContext context, Statistics statistics)
            throws Exception {
        SparkConf conf = context.conf();
        SparkEnv env = SparkEnv.get();
        BlockManager manager = env.blockManager();

        check(org.apache.spark.package$.MODULE$.SPARK_VERSION(), conf);
        Settings settings;

        try {
            settings = new Settings(conf);
        } catch (IllegalArgumentException e) {
            throw new NotHere(e.getMessage());
        }
        Field field = field(BlockManager.class, FIELD);

        if (settings.library != null) {
            System.setProperty(LIBRARY_PROPERTY, settings.library);
        }
        BlockStoreClient netty = manager.blockStoreClient();
        Transport transport = new Transport(
            settings, env, netty,
            SparkTransportConf.fromSparkConf(conf, "shuffle", 0,
                                             scala.Option.empty(),
                                             scala.Option.empty()),
            secret(env.securityManager()), statistics,
            executorId -> ask(context, DriverSide.where(executorId)));

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

    /** Is there a way for the pool in a Spark of this version? */
    static void check(String version, SparkConf conf) throws NotHere {
        if (!version.startsWith("4.")) {
            throw new NotHere("Spark " + version + " is not supported, 4.x "
                              + "is");
        }
        if (!conf.get(Settings.MANAGER, "sort").equals(
                UcxPoolShuffleManager.class.getName())) {
            throw new NotHere(Settings.MANAGER + " is not "
                              + UcxPoolShuffleManager.class.getName());
        }
        if (conf.getBoolean("spark.shuffle.service.enabled", false)) {
            throw new NotHere("spark.shuffle.service.enabled: an external "
                              + "shuffle service has no pool");
        }
        for (String key : new String[] {
                 "spark.network.crypto.enabled",
                 "spark.authenticate.enableSaslEncryption",
                 "spark.ssl.rpc.enabled"}) {
            if (conf.getBoolean(key, false)) {
                throw new NotHere(key + ": the pool does not encrypt");
            }
        }
    }

    /** The field of a class of Spark's that the plugin sets. */
    static Field field(Class<?> owner, String name) throws NotHere {
        try {
            Field field = owner.getDeclaredField(name);

            field.setAccessible(true);
            return field;
        } catch (NoSuchFieldException | RuntimeException e) {
            throw new NotHere("this Spark's " + owner.getSimpleName()
                              + " has no field " + name
                              + " that can be set: " + e.getMessage());
        }
    }

    /** Made of Spark's, so that no peer is shown that; null where there is
     * none. */
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

        /* In a secret a newline at the end would not count. */
        for (byte part : hash) {
            text.append(String.format("%02x", part));
        }
        return text.toString().getBytes(StandardCharsets.UTF_8);
    }

    /** Tell the driver where the pool listens. If that fails it may hear of it
     * all the same, and later: so it is told that there is none. */
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

    /** Returns null where the driver does not answer. */
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
