package org.ucxpool.spark;

import com.codahale.metrics.MetricSet;

import java.io.IOException;
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

/** Fetches shuffle blocks over the pool, and all other blocks over Netty. */
final class PooledBlockStoreClient extends BlockStoreClient {
    private final BlockStoreClient netty;
    private final Transport transport;

    PooledBlockStoreClient(BlockStoreClient netty, Transport transport) {
        this.netty = netty;
        this.transport = transport;
    }

    @Override
    public void fetchBlocks(String host, int port, String executorId,
                            String[] ids, BlockFetchingListener listener,
                            DownloadFileManager files) {
        if (!transport.fetch(host, port, executorId, ids, listener, files)) {
            netty.fetchBlocks(host, port, executorId, ids, listener, files);
        }
    }

    @Override
    public Cause diagnoseCorruption(String host, int port, String executorId,
                                    int shuffleId, long mapId, int reduceId,
                                    long checksum, String algorithm) {
        return netty.diagnoseCorruption(host, port, executorId, shuffleId,
                                        mapId, reduceId, checksum, algorithm);
    }

    @Override
    public MetricSet shuffleMetrics() {
        return netty.shuffleMetrics();
    }

    @Override
    public void setAppAttemptId(String id) {
        netty.setAppAttemptId(id);
    }

    @Override
    public String getAppAttemptId() {
        return netty.getAppAttemptId();
    }

    @Override
    public void getHostLocalDirs(
            String host, int port, String[] executorIds,
            CompletableFuture<Map<String, String[]>> folders) {
        netty.getHostLocalDirs(host, port, executorIds, folders);
    }

    @Override
    public void pushBlocks(String host, int port, String[] ids,
                           ManagedBuffer[] buffers,
                           BlockPushingListener listener) {
        netty.pushBlocks(host, port, ids, buffers, listener);
    }

    @Override
    public void finalizeShuffleMerge(String host, int port, int shuffleId,
                                     int mergeId,
                                     MergeFinalizerListener listener) {
        netty.finalizeShuffleMerge(host, port, shuffleId, mergeId, listener);
    }

    @Override
    public void getMergedBlockMeta(String host, int port, int shuffleId,
                                   int mergeId, int reduceId,
                                   MergedBlocksMetaListener listener) {
        netty.getMergedBlockMeta(host, port, shuffleId, mergeId, reduceId,
                                 listener);
    }

    @Override
    public boolean removeShuffleMerge(String host, int port, int shuffleId,
                                      int mergeId) {
        return netty.removeShuffleMerge(host, port, shuffleId, mergeId);
    }

    /** BlockManager closes Netty's client itself. */
    @Override
    public void close() throws IOException {
        transport.close();
    }
}
