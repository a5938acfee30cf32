package org.ucxpool.spark;

import static org.junit.Assert.assertTrue;

import java.io.File;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.function.Function;

import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkEnv;
import org.apache.spark.network.buffer.ManagedBuffer;
import org.apache.spark.network.netty.SparkTransportConf;
import org.apache.spark.network.shuffle.BlockFetchingListener;
import org.apache.spark.network.shuffle.BlockStoreClient;
import org.apache.spark.network.shuffle.DownloadFileManager;
import org.apache.spark.network.shuffle.checksum.Cause;
import org.apache.spark.network.util.TransportConf;
import org.apache.spark.shuffle.IndexShuffleBlockResolver;
import scala.Option;

/**
 * Both ends of the transport in one process. One end requests blocks, and the
 * other answers with map outputs of this process's block manager. Every
 * executor name except "driver" is the answering end.
 */
final class Ends implements AutoCloseable {
    static final int MESSAGE_SIZE = 64 << 10;

    /** The size of the heap; 2 MiB of the memory are blocks. */
    static final int HEAP_SIZE = 6 << 20;

    private static final int SHUFFLE = 0;

    final SparkEnv env = SparkEnv.get();
    final Netty netty = new Netty();
    final Statistics statistics = new Statistics();
    final Statistics served = new Statistics();
    final Transport answering;
    final Transport asking;
    final Client client;
    final long idle;
    private final Set<Long> outputs = new TreeSet<>();

    /** Replaces Spark's transport. The tests check that it fetches no block. */
    static final class Netty extends BlockStoreClient {
        final List<String> fetched = new ArrayList<>();
        final List<String> diagnosed = new ArrayList<>();

        @Override
        public void fetchBlocks(String host, int port, String executorId,
                                String[] ids, BlockFetchingListener listener,
                                DownloadFileManager files) {
            fetched.addAll(List.of(ids));
            for (String id : ids) {
                listener.onBlockFetchFailure(id, new IOException("Netty"));
            }
        }

        @Override
        public Cause diagnoseCorruption(String host, int port,
                                        String executorId, int shuffleId,
                                        long mapId, int reduceId,
                                        long checksum, String algorithm) {
            diagnosed.add(String.join(" ", host, Integer.toString(port),
                                      executorId, "shuffle_" + shuffleId + "_"
                                                      + mapId + "_" + reduceId,
                                      Long.toString(checksum), algorithm));
            return Cause.DISK_ISSUE;
        }

        @Override
        public void close() {
        }
    }

    /** The client that the iterator uses: forwards to the plugin's client, and
     * records the calls. */
    static final class Client extends BlockStoreClient {
        private final BlockStoreClient inner;
        final List<String[]> calls = new ArrayList<>();
        int numToFiles;
        Runnable beforeCall = () -> { };
        CountDownLatch mayArrive = new CountDownLatch(0);
        String stopped = "";

        Client(BlockStoreClient inner) {
            this.inner = inner;
        }

        @Override
        public void fetchBlocks(String host, int port, String executorId,
                                String[] ids, BlockFetchingListener listener,
                                DownloadFileManager files) {
            calls.add(ids);
            numToFiles += files != null ? 1 : 0;
            beforeCall.run();
            inner.fetchBlocks(host, port, executorId, ids,
                              new Stopped(listener), files);
        }

        @Override
        public Cause diagnoseCorruption(String host, int port,
                                        String executorId, int shuffleId,
                                        long mapId, int reduceId,
                                        long checksum, String algorithm) {
            return inner.diagnoseCorruption(host, port, executorId, shuffleId,
                                            mapId, reduceId, checksum,
                                            algorithm);
        }

        @Override
        public void close() throws IOException {
            inner.close();
        }

        /** Delays the report of one block until mayArrive. */
        private final class Stopped implements BlockFetchingListener {
            private final BlockFetchingListener listener;

            Stopped(BlockFetchingListener listener) {
                this.listener = listener;
            }

            @Override
            public void onBlockFetchSuccess(String id, ManagedBuffer block) {
                if (id.equals(stopped)) {
                    try {
                        mayArrive.await();
                    } catch (InterruptedException e) {
                        throw new AssertionError(e);
                    }
                }
                listener.onBlockFetchSuccess(id, block);
            }

            @Override
            public void onBlockFetchFailure(String id, Throwable why) {
                listener.onBlockFetchFailure(id, why);
            }
        }
    }

    /** Start Spark in this process, whose environment the ends use. */
    static SparkContext startSpark() {
        return new SparkContext(
            new SparkConf(false)
                .setMaster("local[1]")
                .setAppName("ends")
                .set("spark.driver.host", "127.0.0.1")
                .set("spark.driver.bindAddress", "127.0.0.1")
                .set("spark.ui.enabled", "false")
                /* Every executor except "driver" is remote. */
                .set("spark.shuffle.readHostLocalDisk", "false")
                .set(Settings.MANAGER, UcxPoolShuffleManager.class.getName())
                .set(Settings.PREFIX + "memory", "8m")
                .set(Settings.PREFIX + "messageSize",
                     Integer.toString(MESSAGE_SIZE)));
    }

    Ends() throws IOException {
        answering = start(env.conf(), served, id -> "");
        asking = start(env.conf(), statistics, id -> answering.address());
        client = new Client(new PooledBlockStoreClient(netty, asking));
        writeOutput(Integer.MAX_VALUE, new byte[0]);
        /* The first block opens the channel. */
        awaitEmptyBlock();
        idle = heapLive();
    }

    /** Create another end that requests blocks from these addresses. */
    Transport start(SparkConf settings, Statistics counted,
                    Function<String, String> others) throws IOException {
        TransportConf conf = SparkTransportConf.fromSparkConf(
            settings, "shuffle", 0, Option.empty(), Option.empty());

        return new Transport(new Settings(settings), env, netty, conf, null,
                             counted, others);
    }

    int port() {
        return env.blockManager().blockManagerId().port();
    }

    private static IndexShuffleBlockResolver resolver() {
        return UcxPoolShuffleManager.resolver();
    }

    static String id(long mapId, int reducer) {
        return "shuffle_" + SHUFFLE + "_" + mapId + "_" + reducer;
    }

    /** Write the files of a map output with one block for each reducer. */
    void writeOutput(long mapId, byte[]... blocks) throws IOException {
        ByteBuffer index = ByteBuffer.allocate(8 * (blocks.length + 1));
        File data = resolver().getDataFile(SHUFFLE, mapId);
        long end = 0;

        outputs.add(mapId);
        index.putLong(0);
        try (RandomAccessFile out = new RandomAccessFile(data, "rw")) {
            for (byte[] block : blocks) {
                out.write(block);
                end += block.length;
                index.putLong(end);
            }
            out.setLength(end);
        }
        Files.write(resolver().getIndexFile(SHUFFLE, mapId, Option.empty())
                        .toPath(), index.array());
    }

    /** Change bytes in the middle of a map output. */
    void damage(long mapId, long offset) throws IOException {
        File data = resolver().getDataFile(SHUFFLE, mapId);

        try (RandomAccessFile out = new RandomAccessFile(data, "rw")) {
            out.seek(offset);
            int before = out.read();

            out.seek(offset);
            out.write(before ^ 0xff);
        }
    }

    long heapLive() {
        return asking.poolStats().get("heap_live_bytes");
    }

    /** Fetch an empty block, which needs no memory. */
    private void awaitEmptyBlock() {
        CountDownLatch isThere = new CountDownLatch(1);
        BlockFetchingListener listener = new BlockFetchingListener() {
            @Override
            public void onBlockFetchSuccess(String id, ManagedBuffer block) {
                isThere.countDown();
            }

            @Override
            public void onBlockFetchFailure(String id, Throwable why) {
                why.printStackTrace();
            }
        };
        String[] ids = {id(Integer.MAX_VALUE, 0)};

        assertTrue(asking.fetch("127.0.0.1", port(), "1", ids, listener,
                                null));
        try {
            isThere.await();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** Wait until all memory of received blocks is freed. */
    void awaitIdle() {
        while (heapLive() != idle) {
            awaitEmptyBlock();
        }
    }

    /** Wait until this number of bytes has arrived. */
    void awaitBytes(long bytes) {
        while (statistics.fetchedBytes.getCount() < bytes) {
            awaitEmptyBlock();
        }
    }

    @Override
    public void close() {
        asking.close();
        answering.close();
        outputs.forEach(map -> resolver().removeDataByMap(SHUFFLE, map));
    }
}
