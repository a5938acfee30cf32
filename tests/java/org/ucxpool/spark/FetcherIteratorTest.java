package org.ucxpool.spark;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskContext$;
import org.apache.spark.io.CompressionCodec;
import org.apache.spark.network.buffer.ManagedBuffer;
import org.apache.spark.network.shuffle.BlockFetchingListener;
import org.apache.spark.shuffle.FetchFailedException;
import org.apache.spark.storage.BlockId;
import org.apache.spark.storage.BlockManagerId;
import org.apache.spark.storage.ShuffleBlockFetcherIterator;
import org.apache.spark.util.SystemClock;
import org.junit.After;
import org.junit.AfterClass;
import org.junit.Before;
import org.junit.BeforeClass;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.Timeout;
import org.ucxpool.Channel;
import org.ucxpool.Listener;
import org.ucxpool.Pool;
import scala.Option;
import scala.Tuple2;
import scala.Tuple3;
import scala.jdk.javaapi.CollectionConverters;

/** Spark's own iterator over the blocks of a reduce task keeps what it promises
 * when its blocks come over the pool. */
public class FetcherIteratorTest {
    private static final long LIMIT = 1800;
    private static SparkContext spark;

    @Rule
    public final Timeout limit = Timeout.seconds(LIMIT);

    private final Random random = new Random(7);
    private final Map<String, byte[]> written = new HashMap<>();
    private Ends ends;

    /** The blocks that a reduce task requests, and its limits. */
    private final class Want {
        final Map<String, List<Tuple3<BlockId, Object, Object>>> blocks =
            new LinkedHashMap<>();
        final TaskContext task = TaskContext$.MODULE$.empty();
        long maxBytes = Long.MAX_VALUE;
        int maxRequests = Integer.MAX_VALUE;
        int maxBlocks = Integer.MAX_VALUE;
        long maxToMemory = Long.MAX_VALUE;
        boolean isCompressed;
        boolean isChecked = true;
        boolean isLookedAt = true;
        boolean isBatch;

        Want of(String executor, long size, String... ids) {
            for (String id : ids) {
                blocks.computeIfAbsent(executor, key -> new ArrayList<>())
                    .add(new Tuple3<>(BlockId.apply(id), size, 0));
            }
            return this;
        }

        private InputStream wrap(InputStream in) {
            return isCompressed ? codec().compressedInputStream(in) : in;
        }

        ShuffleBlockFetcherIterator fetch() {
            List<Tuple2<BlockManagerId,
                        scala.collection.Seq<Tuple3<BlockId, Object, Object>>>>
                addresses = new ArrayList<>();

            blocks.forEach((executor, wanted) -> addresses.add(new Tuple2<>(
                executor.equals("driver")
                    ? ends.env.blockManager().blockManagerId()
                    : BlockManagerId.apply(executor, "127.0.0.1",
                                           ends.port(), Option.empty()),
                CollectionConverters.asScala(wanted).toSeq())));
            return new ShuffleBlockFetcherIterator(
                task, ends.client, ends.env.blockManager(),
                ends.env.mapOutputTracker(),
                CollectionConverters.asScala(addresses.iterator()),
                (id, in) -> wrap(in), maxBytes, maxRequests, maxBlocks,
                maxToMemory, 10, isChecked, isLookedAt, true, "ADLER32",
                task.taskMetrics().createTempShuffleReadMetrics(), isBatch,
                new SystemClock());
        }
    }

    @BeforeClass
    public static void startSpark() {
        spark = Ends.startSpark();
    }

    @AfterClass
    public static void stopSpark() {
        spark.stop();
    }

    @Before
    public void setUp() throws IOException {
        ends = new Ends();
    }

    @After
    public void tearDown() {
        assertEquals(List.of(), ends.netty.fetched);
        ends.close();
    }

    private static CompressionCodec codec() {
        return CompressionCodec.createCodec(spark.conf(), "lz4");
    }

    private byte[] bytes(int length) {
        byte[] made = new byte[length];

        random.nextBytes(made);
        return made;
    }

    /** Write outputs of the maps first to end, with blocks of these lengths. */
    private void writeOutputs(int first, int end, int... lengths)
            throws IOException {
        for (int map = first; map < end; map++) {
            byte[][] blocks = new byte[lengths.length][];

            for (int i = 0; i < lengths.length; i++) {
                blocks[i] = bytes(lengths[i]);
                written.put(Ends.id(map, i), blocks[i]);
            }
            ends.writeOutput(map, blocks);
        }
    }

    /** The names of the first block of each map. */
    private static String[] ids(int first, int end) {
        String[] ids = new String[end - first];

        for (int i = 0; i < ids.length; i++) {
            ids[i] = Ends.id(first + i, 0);
        }
        return ids;
    }

    private static byte[] compressed(byte[] plain) throws IOException {
        ByteArrayOutputStream all = new ByteArrayOutputStream();

        try (OutputStream out = codec().compressedOutputStream(all)) {
            out.write(plain);
        }
        return all.toByteArray();
    }

    /** Read the next block completely. Returns its name. */
    private String readNext(ShuffleBlockFetcherIterator blocks)
            throws IOException {
        Tuple2<BlockId, InputStream> next = blocks.next();

        try (InputStream in = next._2()) {
            assertArrayEquals(next._1().name(),
                              written.get(next._1().name()),
                              in.readAllBytes());
        }
        return next._1().name();
    }

    private Set<String> readAll(ShuffleBlockFetcherIterator blocks)
            throws IOException {
        Set<String> read = new TreeSet<>();

        while (blocks.hasNext()) {
            assertTrue(read.add(readNext(blocks)));
        }
        return read;
    }

    @Test
    public void local_and_remote_blocks_are_read_and_released()
            throws IOException {
        writeOutputs(0, 5, 1000);
        Want want = new Want().of("driver", 1000, ids(0, 3))
                        .of("1", 1000, ids(3, 5));
        ShuffleBlockFetcherIterator blocks = want.fetch();

        ends.awaitBytes(2000);
        assertTrue(ends.heapLive() > ends.idle);
        assertEquals(Set.of(ids(0, 5)), readAll(blocks));
        assertEquals(1, ends.client.calls.size());
        ends.awaitIdle();
    }

    @Test
    public void bytes_in_flight_are_limited() throws IOException {
        writeOutputs(0, 2, 1000);
        Want want =
            new Want().of("1", 1000, ids(0, 1)).of("2", 1000, ids(1, 2));

        want.maxBytes = 1000;
        ShuffleBlockFetcherIterator blocks = want.fetch();

        ends.awaitBytes(1000);
        assertEquals(1, ends.client.calls.size());
        readNext(blocks);
        assertEquals(2, ends.client.calls.size());
        readNext(blocks);
        assertFalse(blocks.hasNext());
    }

    @Test
    public void blocks_in_flight_per_address_are_limited()
            throws IOException {
        writeOutputs(0, 3, 1000);
        Want want = new Want().of("1", 1000, ids(0, 3));

        want.maxBlocks = 2;
        checkTwoRequests(want, 1000);
    }

    /** Two of three blocks may be in flight: Spark first requests one or two,
     * and the others after these have been read. */
    private void checkTwoRequests(Want want, long length)
            throws IOException {
        ShuffleBlockFetcherIterator blocks = want.fetch();
        int first = ends.client.calls.get(0).length;

        ends.awaitBytes(length * first);
        assertEquals(1, ends.client.calls.size());
        assertTrue(first < 3);
        assertEquals(3, readAll(blocks).size());
        assertEquals(2, ends.client.calls.size());
        assertEquals(3 - first, ends.client.calls.get(1).length);
    }

    @Test
    public void requests_in_flight_are_limited()
            throws IOException {
        writeOutputs(0, 6, 1000);
        Want want = new Want();

        for (int i = 0; i < 6; i++) {
            want.of("executor " + i, 1000, Ends.id(i, 0));
        }
        want.maxRequests = 1;
        ShuffleBlockFetcherIterator blocks = want.fetch();

        for (int i = 1; i <= 6; i++) {
            ends.awaitBytes(1000L * i);
            assertEquals(i, ends.client.calls.size());
            readNext(blocks);
        }
        assertFalse(blocks.hasNext());
    }

    @Test
    public void adjacent_blocks_are_fetched_as_one() throws IOException {
        int[] lengths = {700, 0, 300, 90000};
        ByteArrayOutputStream all = new ByteArrayOutputStream();
        Want want = new Want();

        writeOutputs(3, 4, lengths);
        for (int i = 0; i < lengths.length; i++) {
            all.write(written.get(Ends.id(3, i)));
            want.of("1", 1000, Ends.id(3, i));
        }
        written.put("shuffle_0_3_0_4", all.toByteArray());
        want.isBatch = true;
        assertEquals(Set.of("shuffle_0_3_0_4"), readAll(want.fetch()));
        assertArrayEquals(new String[] {"shuffle_0_3_0_4"},
                          ends.client.calls.get(0));
    }

    @Test
    public void batches_respect_the_limits() throws IOException {
        Want want = new Want();

        writeOutputs(0, 3, 500, 500);
        for (int map = 0; map < 3; map++) {
            want.of("1", 500, Ends.id(map, 0), Ends.id(map, 1));
        }
        want.isBatch = true;
        want.maxBlocks = 2;
        for (int map = 0; map < 3; map++) {
            byte[] both = new byte[1000];

            System.arraycopy(written.get(Ends.id(map, 0)), 0, both, 0, 500);
            System.arraycopy(written.get(Ends.id(map, 1)), 0, both, 500, 500);
            written.put("shuffle_0_" + map + "_0_2", both);
        }
        checkTwoRequests(want, 1000);
    }

    @Test
    public void ended_task_releases_all_blocks() throws IOException {
        writeOutputs(0, 4, 1000);
        ends.client.stopped = Ends.id(3, 0);
        ends.client.mayArrive = new CountDownLatch(1);
        Want want = new Want().of("1", 1000, ids(0, 4));
        ShuffleBlockFetcherIterator blocks = want.fetch();

        /* One block is read, one is being read, one waits, and one is late. */
        readNext(blocks);
        InputStream open = blocks.next()._2();

        assertEquals(written.get(Ends.id(1, 0))[0], (byte) open.read());
        want.task.markTaskCompleted(Option.empty());
        ends.client.mayArrive.countDown();
        ends.awaitIdle();
    }

    @Test
    public void failed_block_does_not_fail_other_blocks()
            throws IOException {
        writeOutputs(0, 1, 1000);
        writeOutputs(2, 3, 1000);
        Want want = new Want().of("1", 1000, ids(0, 3));
        ShuffleBlockFetcherIterator blocks = want.fetch();
        Set<String> read = new TreeSet<>();
        List<String> failures = new ArrayList<>();

        for (int i = 0; i < 3; i++) {
            try {
                read.add(readNext(blocks));
            } catch (Exception e) {
                /* Scala does not declare the exception. */
                assertEquals(FetchFailedException.class, e.getClass());
                failures.add(e.getCause().getMessage());
            }
        }
        assertEquals(Set.of(Ends.id(0, 0), Ends.id(2, 0)), read);
        assertEquals(1, failures.size());
        assertTrue(failures.get(0),
                   failures.get(0).endsWith("shuffle_0_1_0.index"));
        assertEquals(1, ends.statistics.failedBlocks.getCount());
        want.task.markTaskCompleted(Option.empty());
        ends.awaitIdle();
    }

    @Test
    public void lost_peer_fails_the_remaining_blocks() throws IOException {
        writeOutputs(0, 2, 1000);
        Want want =
            new Want().of("1", 1000, ids(0, 1)).of("2", 1000, ids(1, 2));

        want.maxRequests = 1;
        ShuffleBlockFetcherIterator blocks = want.fetch();

        ends.awaitBytes(1000);
        ends.answering.close();
        readNext(blocks);
        assertThrows(FetchFailedException.class, blocks::next);
        want.task.markTaskCompleted(Option.empty());
        assertEquals(ends.idle, ends.heapLive());
    }

    /** A compressed block of 200,000 bytes, the only one of its map. */
    private Want compressedBlock(int map) throws IOException {
        byte[] plain = bytes(200000);
        byte[] packed = compressed(plain);
        Want want = new Want().of("1", packed.length, Ends.id(map, 0));

        written.put(Ends.id(map, 0), plain);
        ends.writeOutput(map, packed);
        want.isCompressed = true;
        want.maxBytes = 48 << 20;
        return want;
    }

    @Test
    public void damaged_block_is_fetched_again() throws IOException {
        Want want = compressedBlock(0);

        ends.damage(0, 100000);
        /* Repair the block before the second fetch. */
        ends.client.beforeCall = () -> {
            if (ends.client.calls.size() == 2) {
                try {
                    ends.damage(0, 100000);
                } catch (IOException e) {
                    throw new AssertionError(e);
                }
            }
        };
        assertEquals(Set.of(Ends.id(0, 0)), readAll(want.fetch()));
        assertEquals(2, ends.client.calls.size());
        assertEquals(List.of(), ends.netty.diagnosed);
        ends.awaitIdle();
    }

    @Test
    public void block_damaged_twice_is_diagnosed() throws IOException {
        Want want = compressedBlock(0);

        ends.damage(0, 100000);
        FetchFailedException failed =
            assertThrows(FetchFailedException.class, want.fetch()::next);

        assertTrue(failed.getMessage(),
                   failed.getMessage().contains("DISK_ISSUE"));
        assertEquals(2, ends.client.calls.size());
        assertEquals(1, ends.netty.diagnosed.size());
        String asked = ends.netty.diagnosed.get(0);

        assertTrue(asked, asked.startsWith(
            "127.0.0.1 " + ends.port() + " 1 shuffle_0_0_0 "));
        assertTrue(asked, asked.endsWith(" ADLER32"));
        want.task.markTaskCompleted(Option.empty());
        ends.awaitIdle();
    }

    @Test
    public void damage_at_the_end_is_detected_when_read() throws IOException {
        Want want = compressedBlock(0);

        ends.damage(0, 190000);
        /* Spark checks only the first third of this size before reading. */
        want.maxBytes = 3 * 1024;
        InputStream in = want.fetch().next()._2();

        assertThrows(FetchFailedException.class, in::readAllBytes);
        assertEquals(1, ends.client.calls.size());
        assertEquals(1, ends.netty.diagnosed.size());
        want.task.markTaskCompleted(Option.empty());
        ends.awaitIdle();
    }

    @Test
    public void damage_is_not_detected_if_detection_is_off()
            throws IOException {
        Want want = compressedBlock(0);

        ends.damage(0, 100000);
        want.isChecked = false;
        want.isLookedAt = false;
        InputStream in = want.fetch().next()._2();

        assertFalse(assertThrows(Exception.class, in::readAllBytes)
                        instanceof FetchFailedException);
        assertEquals(1, ends.client.calls.size());
        assertEquals(List.of(), ends.netty.diagnosed);
        in.close();
        ends.awaitIdle();
    }

    @Test
    public void long_blocks_are_checked_and_read_completely()
            throws IOException {
        Want want = compressedBlock(0);

        want.maxBytes = 2048;
        assertEquals(Set.of(Ends.id(0, 0)), readAll(want.fetch()));
        /* The server counts a reply after it has sent it. */
        assertTrue(ends.served.replies.getCount() > 2);
        ends.awaitIdle();
    }

    @Test
    public void long_requests_are_stored_in_files_of_the_task()
            throws IOException {
        writeOutputs(0, 1, 100);
        writeOutputs(1, 2, 3 * Ends.MESSAGE_SIZE + 1);
        Want want = new Want().of("1", 100, Ends.id(0, 0));

        want.maxToMemory = 200;
        assertEquals(1, readAll(want.fetch()).size());
        assertEquals(0, ends.client.numToFiles);

        want = new Want().of("1", 300, Ends.id(1, 0));
        want.maxToMemory = 200;
        Set<File> before = localFiles();
        ShuffleBlockFetcherIterator blocks = want.fetch();

        assertEquals(Set.of(Ends.id(1, 0)), readAll(blocks));
        assertEquals(1, ends.client.numToFiles);
        Set<File> made = localFiles();

        made.removeAll(before);
        assertEquals(1, made.size());
        want.task.markTaskCompleted(Option.empty());
        assertEquals(before, localFiles());
        ends.awaitIdle();
    }

    private Set<File> localFiles() {
        return new TreeSet<>(CollectionConverters.asJava(
            ends.env.blockManager().diskBlockManager().getAllFiles()));
    }

    @Test
    public void empty_block_is_a_failure() throws IOException {
        writeOutputs(0, 1, 0);
        Want want = new Want().of("1", 1000, Ends.id(0, 0));
        FetchFailedException failed =
            assertThrows(FetchFailedException.class, want.fetch()::next);

        assertTrue(failed.getMessage(), failed.getMessage().contains(
            "Received a zero-size buffer"));
    }

    @Test
    public void blocks_without_memory_are_spilled_to_files()
            throws IOException {
        int count = 2 * Ends.HEAP_SIZE / Ends.MESSAGE_SIZE;

        writeOutputs(0, count, Ends.MESSAGE_SIZE);
        Set<File> before = localFiles();
        Want want = new Want().of("1", Ends.MESSAGE_SIZE, ids(0, count));
        ShuffleBlockFetcherIterator blocks = want.fetch();
        int calls = ends.client.calls.size();

        ends.awaitBytes((long) count * Ends.MESSAGE_SIZE);
        assertTrue(ends.heapLive() <= Ends.HEAP_SIZE);
        assertTrue(ends.statistics.spilledBytes.getCount()
                   >= Ends.HEAP_SIZE);
        assertFalse(before.equals(localFiles()));
        assertEquals(count, readAll(blocks).size());
        /* Nothing was fetched a second time. */
        assertEquals(calls, ends.client.calls.size());
        assertEquals(before, localFiles());
        ends.awaitIdle();
    }

    @Test
    public void concurrent_fetches_of_the_same_blocks_complete()
            throws IOException {
        writeOutputs(0, 20, 3000);
        List<ShuffleBlockFetcherIterator> all = new ArrayList<>();

        for (int i = 0; i < 4; i++) {
            all.add(new Want().of("1", 3000, ids(0, 20)).fetch());
        }
        for (ShuffleBlockFetcherIterator blocks : all) {
            assertEquals(Set.of(ids(0, 20)), readAll(blocks));
        }
        assertEquals(80, ends.statistics.fetchedBlocks.getCount() - 1);
        ends.awaitIdle();
    }

    /** When a stage begins, all executors may connect at once. */
    @Test
    public void idle_connections_do_not_block_a_new_one()
            throws IOException {
        String[] where = ends.answering.address().split(":");
        List<Socket> sockets = new ArrayList<>();

        for (int i = 0; i < 100; i++) {
            sockets.add(new Socket(where[0], Integer.parseInt(where[1])));
        }
        try (Pool pool = new Pool("late", Map.of("COMM_SIZE", "1m"), null)) {
            /* The listener accepts this connection after the others. */
            Channel channel = pool.connect(ends.answering.address());

            assertTrue(channel.await(LIMIT, TimeUnit.SECONDS));
        }
        Socket first = sockets.get(0);

        first.setSoTimeout(1);
        assertThrows(SocketTimeoutException.class,
                     () -> first.getInputStream().read());
        for (Socket socket : sockets) {
            socket.close();
        }
    }

    /** Records the first failure. */
    private static final class Failure implements BlockFetchingListener {
        final CompletableFuture<Throwable> why = new CompletableFuture<>();

        @Override
        public void onBlockFetchSuccess(String id, ManagedBuffer block) {
            why.completeExceptionally(new AssertionError(id));
        }

        @Override
        public void onBlockFetchFailure(String id, Throwable thrown) {
            why.complete(thrown);
        }
    }

    /** As with Netty, an executor may be stopped for this long. */
    @Test
    public void silent_peer_fails_after_spark_network_timeout()
            throws Exception {
        SparkConf conf = ends.env.conf().clone().set(
            "spark.network.timeout", "1s");
        Failure failure = new Failure();

        try (Pool silent = new Pool("silent", Map.of("COMM_SIZE", "1m"),
                                    null);
             Listener listener = silent.listen("127.0.0.1:0")) {
            Transport asking =
                ends.start(conf, new Statistics(),
                           id -> "127.0.0.1:" + listener.port());

            assertTrue(asking.fetch("127.0.0.1", ends.port(), "1",
                                    ids(0, 1), failure, null));
            while (!failure.why.isDone()) {
                silent.poll(10, TimeUnit.MILLISECONDS);
            }
            assertTrue(failure.why.get().getMessage(),
                       failure.why.get().getMessage().endsWith(
                           "has not answered for 1 s"));
            asking.close();
        }
    }

    @Test
    public void unanswered_driver_query_is_repeated_later()
            throws Exception {
        List<String> asked = new ArrayList<>();
        Transport asking =
            ends.start(ends.env.conf(), new Statistics(), id -> {
                asked.add(id);
                if (id.equals("stopped") && asked.size() == 1) {
                    Thread.currentThread().interrupt();
                    return null;
                }
                return id.equals("silent") ? null : ends.answering.address();
            });
        Failure failure = new Failure();

        /* An interrupted task does not affect the next task's query. */
        assertFalse(asking.fetch("127.0.0.1", ends.port(), "stopped",
                                 ids(0, 1), failure, null));
        assertTrue(Thread.interrupted());
        assertTrue(asking.fetch("127.0.0.1", ends.port(), "stopped",
                                ids(0, 1), failure, null));
        for (int i = 0; i < 2; i++) {
            assertFalse(asking.fetch("127.0.0.1", ends.port(), "silent",
                                     ids(0, 1), failure, null));
        }
        assertEquals(List.of("stopped", "stopped", "silent"), asked);
        asking.close();
    }
}
