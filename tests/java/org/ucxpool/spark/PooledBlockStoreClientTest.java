package org.ucxpool.spark;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;

import com.codahale.metrics.MetricSet;

import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;

import org.apache.spark.network.buffer.ManagedBuffer;
import org.apache.spark.network.shuffle.BlockFetchingListener;
import org.apache.spark.network.shuffle.BlockPushingListener;
import org.apache.spark.network.shuffle.BlockStoreClient;
import org.apache.spark.network.shuffle.DownloadFileManager;
import org.apache.spark.network.shuffle.MergeFinalizerListener;
import org.apache.spark.network.shuffle.MergedBlocksMetaListener;
import org.apache.spark.network.shuffle.checksum.Cause;
import org.junit.Test;

/** Netty handles the calls that the pool does not, such as block pushes. */
public class PooledBlockStoreClientTest {
    private final List<String> called = new ArrayList<>();

    /** Records the calls. */
    private final class Netty extends BlockStoreClient {
        @Override
        public void fetchBlocks(String host, int port, String executorId,
                                String[] ids, BlockFetchingListener listener,
                                DownloadFileManager files) {
            called.add("fetchBlocks");
        }

        @Override
        public Cause diagnoseCorruption(String host, int port, String id,
                                        int shuffleId, long mapId,
                                        int reduceId, long checksum,
                                        String algorithm) {
            called.add("diagnoseCorruption");
            return null;
        }

        @Override
        public MetricSet shuffleMetrics() {
            called.add("shuffleMetrics");
            return null;
        }

        @Override
        public void setAppAttemptId(String id) {
            called.add("setAppAttemptId");
        }

        @Override
        public String getAppAttemptId() {
            called.add("getAppAttemptId");
            return null;
        }

        @Override
        public void getHostLocalDirs(
                String host, int port, String[] ids,
                CompletableFuture<Map<String, String[]>> folders) {
            called.add("getHostLocalDirs");
        }

        @Override
        public void pushBlocks(String host, int port, String[] ids,
                               ManagedBuffer[] buffers,
                               BlockPushingListener listener) {
            called.add("pushBlocks");
        }

        @Override
        public void finalizeShuffleMerge(String host, int port, int shuffleId,
                                         int mergeId,
                                         MergeFinalizerListener listener) {
            called.add("finalizeShuffleMerge");
        }

        @Override
        public void getMergedBlockMeta(String host, int port, int shuffleId,
                                       int mergeId, int reduceId,
                                       MergedBlocksMetaListener listener) {
            called.add("getMergedBlockMeta");
        }

        @Override
        public boolean removeShuffleMerge(String host, int port, int shuffleId,
                                          int mergeId) {
            called.add("removeShuffleMerge");
            return true;
        }

        @Override
        public void close() {
            called.add("close");
        }
    }

    private static Object nothing(Class<?> type) {
        if (type == int.class) {
            return 0;
        }
        return type == long.class ? (Object) 0L : null;
    }

    @Test
    public void all_calls_except_fetches_are_forwarded_to_netty()
            throws Exception {
        PooledBlockStoreClient client =
            new PooledBlockStoreClient(new Netty(), null);
        List<String> wanted = new ArrayList<>();

        for (Method method : BlockStoreClient.class.getDeclaredMethods()) {
            if (!Modifier.isPublic(method.getModifiers())
                || method.getName().equals("fetchBlocks")) {
                continue;
            }
            Object[] arguments = new Object[method.getParameterCount()];

            for (int i = 0; i < arguments.length; i++) {
                arguments[i] = nothing(method.getParameterTypes()[i]);
            }
            method.invoke(client, arguments);
            wanted.add(method.getName());
        }
        assertTrue(wanted.contains("pushBlocks"));
        assertEquals(wanted, called);
    }
}
