package org.ucxpool;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertSame;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.io.FileOutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;

import org.junit.After;
import org.junit.Assume;
import org.junit.Before;
import org.junit.Rule;
import org.junit.Test;
import org.junit.function.ThrowingRunnable;
import org.junit.rules.TemporaryFolder;

/** Two connected pools in one process. Each has a thread that polls it. */
public class PoolTest {
    private static final long LIMIT = 1800;
    private static final int ROUNDS = 1000;
    private static final byte[] SECRET =
        "a secret of a test".getBytes(StandardCharsets.UTF_8);

    @Rule
    public final TemporaryFolder folder = new TemporaryFolder();

    private final List<Thread> polling = new ArrayList<>();
    private Pool left;
    private Pool right;
    private Channel toRight;
    private Channel toLeft;

    private static Pool pool(String name, byte[] secret) throws Exception {
        return new Pool(name, Map.of("COMM_SIZE", "8m", "MEMORY_LIMIT", "48m",
                                     "HEAP_CHUNK", "2m", "HUGE_PAGES", "n"),
                        secret);
    }

    /** A transfer completes only if both pools make progress. */
    private void pollAlways(Pool pool) {
        Thread thread = new Thread(() -> {
            try {
                for (;;) {
                    pool.poll(LIMIT, TimeUnit.SECONDS);
                }
            } catch (UcxpoolException e) {
                /* The pool is closed. */
            }
        });

        thread.start();
        polling.add(thread);
    }

    @Before
    public void setUp() throws Exception {
        left = pool("left", SECRET);
        right = pool("right", SECRET);
        pollAlways(left);
        pollAlways(right);
        try (Listener listener = right.listen("127.0.0.1:0")) {
            toRight = left.connect("127.0.0.1:" + listener.port());
            toLeft = listener.accept(LIMIT, TimeUnit.SECONDS);
        }
        assertTrue(toRight.await(LIMIT, TimeUnit.SECONDS));
    }

    @After
    public void tearDown() throws Exception {
        left.close();
        right.close();
        for (Thread thread : polling) {
            thread.join();
        }
    }

    private static ByteBuffer direct(byte[] bytes) {
        return ByteBuffer.allocateDirect(bytes.length).put(bytes).flip();
    }

    private Message receive() throws Exception {
        return toLeft.receive(LIMIT, TimeUnit.SECONDS);
    }

    private byte[] bytesOf(Message message) throws Exception {
        byte[] bytes = new byte[(int) message.length()];
        ByteBuffer target = ByteBuffer.allocateDirect(bytes.length);

        message.receive(target, null).await();
        target.get(bytes);
        return bytes;
    }

    private static byte[] random(int length) {
        byte[] bytes = new byte[length];

        new Random(length).nextBytes(bytes);
        return bytes;
    }

    /** A call throws this exception, with these words. */
    private static void assertFails(Class<? extends UcxpoolException> kind,
                                    Status status, String words,
                                    ThrowingRunnable call) {
        UcxpoolException failure = assertThrows(kind, call);

        assertEquals(status, failure.status());
        assertTrue(failure.getMessage(),
                   failure.getMessage().contains(words));
    }

    private static void assertFails(Status status, String words,
                                    ThrowingRunnable call) {
        assertFails(UcxpoolException.class, status, words, call);
    }

    @Test
    public void message_carries_segments_tag_and_metadata()
            throws Exception {
        byte[] metadata = {1, 2, 3};
        Source source = new Source().add(direct(new byte[] {10, 11}))
            .addEmpty()
            .add(direct(new byte[] {12, 13, 14}));
        Transfer sent = toRight.send(source, -5, metadata, null);
        Message message = receive();

        assertEquals(5, message.length());
        assertEquals(-5, message.tag());
        assertArrayEquals(metadata, message.metadata());
        assertArrayEquals(new long[] {2, 0, 3}, message.lengths());
        assertSame(toLeft, message.channel());
        assertArrayEquals(new byte[] {10, 11, 12, 13, 14}, bytesOf(message));
        sent.await();
        assertEquals(Status.OK, sent.status());
        assertEquals(5, sent.length());
        assertEquals("map", toLeft.wire());
        assertEquals(toRight.localAddress(), toLeft.remoteAddress());
    }

    @Test
    public void memory_and_file_ranges_are_sent_as_one_message()
            throws Exception {
        byte[] bytes = random(3 << 20);
        Path path = folder.newFile("a name, \u00e4\u00f6").toPath();
        byte[] wanted = new byte[2 + (1 << 20) + 1000];

        Files.write(path, bytes);
        wanted[0] = 7;
        wanted[1] = 8;
        System.arraycopy(bytes, 12345, wanted, 2, 1 << 20);
        System.arraycopy(bytes, 5, wanted, 2 + (1 << 20), 1000);
        DataFile file = DataFile.open(path);
        Transfer sent = toRight.send(
            new Source().add(direct(new byte[] {7, 8}))
                .add(file, 12345, 1 << 20)
                .add(file, 5, 1000),
            1);

        /* The transfer keeps the file open. */
        file.release();
        assertArrayEquals(wanted, bytesOf(receive()));
        sent.await();
        assertThrows(IllegalStateException.class, file::retain);
    }

    @Test
    public void truncated_file_fails_both_sides() throws Exception {
        Path path = folder.newFile().toPath();

        Files.write(path, random(1 << 20));
        try (DataFile file = DataFile.open(path)) {
            Transfer sent =
                toRight.send(new Source().add(file, 0, 1 << 20), 1);
            Message message = receive();

            Files.write(path, new byte[1]);
            assertFails(UcxpoolException.Canceled.class, Status.CANCELED,
                        path + " is too short", () -> bytesOf(message));
            assertFails(Status.IO, "", sent::await);
        }
    }

    @Test
    public void range_beyond_the_end_of_the_file_is_an_error()
            throws Exception {
        Path path = folder.newFile().toPath();

        Files.write(path, new byte[100]);
        try (DataFile file = DataFile.open(path)) {
            assertFails(Status.IO, path.toString(),
                        () -> toRight.send(new Source().add(file, 50, 51), 1)
                            .await());
        }
        assertThrows(UcxpoolException.class,
                     () -> DataFile.open(path.resolveSibling("not there")));
    }

    @Test
    public void buffers_are_sent_and_received_in_place() throws Exception {
        byte[] bytes = random(1 << 20);

        try (Buffer from = left.allocateRegistered(bytes.length);
             Buffer to = right.allocateRegistered(bytes.length)) {
            byte[] arrived = new byte[bytes.length];

            assertTrue(from.isRegistered());
            from.byteBuffer().put(bytes);
            Transfer sent = toRight.send(new Source().add(from), 1);

            receive().receive(to, null).await();
            sent.await();
            to.byteBuffer().get(arrived);
            assertArrayEquals(bytes, arrived);
        }
        assertEquals(0, (long) left.stats().get("blocks_user_held"));
        assertEquals(0, (long) right.stats().get("blocks_user_held"));
    }

    @Test
    public void last_release_frees_the_buffer()
            throws Exception {
        Buffer buffer = left.allocate(1000);

        assertEquals(1000, buffer.byteBuffer().remaining());
        assertTrue(left.stats().get("heap_live_bytes") >= 1000);
        buffer.retain();
        buffer.release();
        assertTrue(left.stats().get("heap_live_bytes") >= 1000);
        buffer.release();
        assertEquals(0, (long) left.stats().get("heap_live_bytes"));
        assertThrows(IllegalStateException.class, buffer::release);
        assertThrows(IllegalStateException.class, buffer::retain);
    }

    @Test
    public void send_of_a_freed_buffer_retains_no_other_object()
            throws Exception {
        Path path = folder.newFile().toPath();
        DataFile file = DataFile.open(path);
        Buffer kept = left.allocate(1000);
        Buffer freed = left.allocate(1000);
        Source source =
            new Source().add(kept).add(file, 0, 0).add(freed).add(kept);

        freed.release();
        assertThrows(IllegalStateException.class,
                     () -> toRight.send(source, 1));
        kept.release();
        file.release();
        assertThrows(IllegalStateException.class, kept::retain);
        assertThrows(IllegalStateException.class, file::retain);
        assertEquals(0, (long) left.stats().get("heap_live_bytes"));
    }

    @Test
    public void transfer_ends_although_a_buffer_was_released_too_often()
            throws Exception {
        List<Transfer> ended = new ArrayList<>();
        Buffer freed = left.allocate(1000);
        Buffer kept = left.allocate(1000);
        Transfer transfer =
            new Transfer(left, new Object[] {freed, kept}, ended::add);

        freed.release();
        assertThrows(IllegalStateException.class,
                     () -> transfer.finish(Status.OK, "", 1000));
        assertTrue(transfer.isDone());
        transfer.await();
        assertEquals(1000, transfer.length());
        assertEquals(List.of(transfer), ended);
        assertThrows(IllegalStateException.class, kept::retain);
    }

    @Test
    public void errors_of_a_release_are_added_to_the_first_error()
            throws Exception {
        Buffer freed = left.allocate(1000);
        Transfer transfer =
            new Transfer(left, new Object[] {freed, freed}, null);
        Exception reason = new Exception();

        freed.release();
        transfer.drop(reason);
        assertEquals(1, reason.getSuppressed().length);
        assertEquals(1, reason.getSuppressed()[0].getSuppressed().length);
        transfer.drop(null);
    }

    @Test
    public void allocation_beyond_the_limit_throws_no_memory()
            throws Exception {
        assertThrows(UcxpoolException.NoMemory.class,
                     () -> left.allocate(64 << 20));
        assertThrows(UcxpoolException.NoMemory.class,
                     () -> left.allocateRegistered(64 << 20));
        left.allocate(1 << 20).release();
        left.trim(0);
        assertEquals(0, (long) left.stats().get("heap_reserved_bytes"));
    }

    private void assertOutOfMemory(long code) {
        UcxpoolException failure = UcxpoolException.ofLastCall(code);

        assertSame(UcxpoolException.NoMemory.class, failure.getClass());
        assertTrue(failure.getMessage(),
                   failure.getMessage().contains("outside the Java heap"));
    }

    /** The counts need more memory than an address space has. */
    @Test
    public void failed_allocation_does_not_report_an_earlier_error() {
        long[] list = new long[3];
        long count = 1L << 58;

        assertThrows(UcxpoolException.NoMemory.class,
                     () -> left.allocate(64 << 20));
        assertOutOfMemory(Native.send(0, list, Integer.MIN_VALUE, false, 0,
                                      null, 1, 0));
        assertOutOfMemory(Native.receive(0, list, Integer.MIN_VALUE, 1, 0));
        assertOutOfMemory(Native.post(0, 1, new long[] {0, count, 0, 0, 1},
                                      new Object[] {list}, new Object[1],
                                      new long[1]));
    }

    @Test
    public void refusal_reason_reaches_the_sender() throws Exception {
        Transfer sent =
            toRight.send(new Source().add(direct(random(100000))), 1);
        Message message = receive();

        message.refuse("not today");
        assertFails(UcxpoolException.Refused.class, Status.REFUSED,
                    "not today", sent::await);
        assertThrows(IllegalStateException.class,
                     () -> message.refuse("again"));
        assertThrows(IllegalStateException.class, message::lengths);
    }

    @Test
    public void canceled_send_completes_as_canceled() throws Exception {
        CountDownLatch ended = new CountDownLatch(1);
        Transfer sent =
            toRight.send(new Source().add(direct(random(100000))), 1, null,
                         transfer -> ended.countDown());

        assertFalse(sent.isDone());
        assertNull(sent.failure());
        sent.cancel();
        assertThrows(UcxpoolException.Canceled.class, sent::await);
        assertTrue(ended.await(LIMIT, TimeUnit.SECONDS));
        /* A second cancel has no effect. */
        sent.cancel();
    }

    @Test
    public void handlers_are_called_in_order() throws Exception {
        List<Long> tags = new ArrayList<>();
        CountDownLatch all = new CountDownLatch(100);
        CompletableFuture<Channel.State> ended = new CompletableFuture<>();

        toLeft.handle(new Channel.Handler() {
            @Override
            public void arrived(Message message) {
                tags.add(message.tag());
                try {
                    message.receive();
                } catch (UcxpoolException e) {
                    throw new AssertionError(e);
                }
                all.countDown();
            }

            @Override
            public void changed(Channel channel, Channel.State state,
                                String reason) {
                if (state != Channel.State.OPEN) {
                    ended.complete(state);
                }
            }
        });
        for (long i = 0; i < 100; i++) {
            toRight.send(new Source(), i);
        }
        assertTrue(all.await(LIMIT, TimeUnit.SECONDS));
        for (int i = 0; i < 100; i++) {
            assertEquals(i, (long) tags.get(i));
        }
        toRight.close();
        assertEquals(Channel.State.CLOSED,
                     ended.get(LIMIT, TimeUnit.SECONDS));
        assertThrows(UcxpoolException.Closed.class,
                     () -> toRight.send(new Source(), 1));
    }

    /** Receives all messages, and closes the channel when the peer does. */
    private static final class Closes implements Channel.Handler {
        final List<Channel.State> states = new ArrayList<>();
        int numArrived;

        @Override
        public void arrived(Message message) {
            numArrived++;
            try {
                message.receive();
            } catch (UcxpoolException e) {
                throw new AssertionError(e);
            }
        }

        @Override
        public void changed(Channel channel, Channel.State state,
                            String reason) {
            states.add(state);
            if (state != Channel.State.OPEN) {
                channel.close();
            }
        }
    }

    /** Messages that arrived before the close are delivered before it, even
     * if they do not all fit into one round of events. */
    private void sendAndClose(String wire, int num) throws Exception {
        Map<String, String> settings =
            Map.of("COMM_SIZE", "8m", "HUGE_PAGES", "n", "CREDITS", "1024",
                   "MAX_METADATA", "4096", "WIRE", wire);
        Closes closes = new Closes();

        try (Pool sends = new Pool("sends", settings, null);
             Pool receives = new Pool("receives", settings, null);
             Listener listener = receives.listen("127.0.0.1:0")) {
            Channel channel =
                sends.connect("127.0.0.1:" + listener.port());

            listener.handle(caller -> caller.handle(closes));
            while (channel.state() != Channel.State.OPEN
                   || closes.states.isEmpty()) {
                sends.poll(1, TimeUnit.MILLISECONDS);
                receives.poll(1, TimeUnit.MILLISECONDS);
            }
            for (int i = 0; i < num; i++) {
                channel.send(new Source(), i, new byte[4096], null);
            }
            channel.close();
            while (closes.states.size() < 2) {
                /* The close arrives together with the last message. */
                for (int i = 0; i < 100; i++) {
                    sends.poll(0, TimeUnit.MILLISECONDS);
                }
                receives.poll(1, TimeUnit.MILLISECONDS);
            }
        }
        assertEquals(List.of(Channel.State.OPEN, Channel.State.CLOSED),
                     closes.states);
        assertEquals(num, closes.numArrived);
    }

    @Test
    public void messages_are_delivered_before_the_close()
            throws Exception {
        for (String wire : new String[] {"map", "ucx"}) {
            sendAndClose(wire, 1);
            sendAndClose(wire, 1000);
        }
    }

    /** Records the states that it receives. */
    private static final class States implements Channel.Handler {
        final List<Channel.State> states = new ArrayList<>();

        @Override
        public void arrived(Message message) {
            throw new AssertionError("nothing is sent");
        }

        @Override
        public synchronized void changed(Channel channel,
                                         Channel.State state, String reason) {
            states.add(state);
        }
    }

    @Test
    public void late_handler_receives_the_current_state()
            throws Exception {
        States opened = new States();
        States failed = new States();

        toRight.handle(opened);
        assertEquals(List.of(Channel.State.OPEN), opened.states);
        Channel channel = left.connect("127.0.0.1:1");

        assertThrows(UcxpoolException.class,
                     () -> channel.await(LIMIT, TimeUnit.SECONDS));
        channel.handle(failed);
        assertEquals(List.of(Channel.State.FAILED), failed.states);
        channel.close();
    }

    @Test
    public void blocking_in_a_handler_throws() throws Exception {
        CompletableFuture<Throwable> thrown = new CompletableFuture<>();

        toRight.send(new Source(), 1, null, transfer -> {
            try {
                toRight.receive(LIMIT, TimeUnit.SECONDS);
            } catch (UcxpoolException | RuntimeException e) {
                thrown.complete(e);
            }
        });
        assertTrue(thrown.get(LIMIT, TimeUnit.SECONDS)
                       instanceof IllegalStateException);
    }

    @Test
    public void await_in_an_interrupted_thread_preserves_the_interrupt()
            throws Exception {
        AtomicInteger asked = new AtomicInteger();

        /* Another thread polls. */
        Thread.currentThread().interrupt();
        assertFalse(left.await(() -> asked.incrementAndGet() > 1000,
                               TimeUnit.MILLISECONDS.toNanos(200)));
        assertTrue(Thread.interrupted());
    }

    @Test
    public void poll_waits_in_an_interrupted_thread_while_another_polls()
            throws Exception {
        AtomicInteger found = new AtomicInteger(-1);
        AtomicBoolean stays = new AtomicBoolean();
        CountDownLatch isPolling = new CountDownLatch(1);
        CountDownLatch hasWaited = new CountDownLatch(1);
        Thread thread = new Thread(() -> {
            Thread.currentThread().interrupt();
            try {
                found.set(left.poll(LIMIT, TimeUnit.SECONDS));
            } catch (UcxpoolException e) {
                /* found stays -1. */
            }
            stays.set(Thread.interrupted());
        });

        /* Keeps the other thread in poll(). */
        toRight.send(new Source(), 1, null, sent -> {
            isPolling.countDown();
            try {
                hasWaited.await();
            } catch (InterruptedException e) {
                throw new AssertionError(e);
            }
        });
        isPolling.await();
        thread.start();
        while (thread.isAlive()
               && thread.getState() != Thread.State.TIMED_WAITING) {
            Thread.onSpinWait();
        }
        assertTrue(thread.isAlive());
        hasWaited.countDown();
        thread.join();
        assertEquals(0, found.get());
        assertTrue(stays.get());
    }

    @Test
    public void many_threads_wait_on_one_pool() throws Exception {
        int numThreads = 8;
        int numMessages = 200;
        AtomicInteger wrong = new AtomicInteger();
        List<Thread> threads = new ArrayList<>();

        /* The receiver sends each message back. */
        toLeft.handle(new Channel.Handler() {
            @Override
            public void arrived(Message message) {
                ByteBuffer bytes =
                    ByteBuffer.allocateDirect((int) message.length());

                try {
                    message.receive(bytes, got -> {
                        try {
                            toLeft.send(new Source().add(bytes),
                                        message.tag());
                        } catch (UcxpoolException e) {
                            wrong.incrementAndGet();
                        }
                    });
                } catch (UcxpoolException e) {
                    wrong.incrementAndGet();
                }
            }

            @Override
            public void changed(Channel channel, Channel.State state,
                                String reason) {
            }
        });
        for (int i = 0; i < numThreads; i++) {
            byte[] bytes = random(1 + 7000 * i);

            threads.add(new Thread(() -> {
                try {
                    for (int j = 0; j < numMessages; j++) {
                        toRight.send(new Source().add(direct(bytes)), j)
                            .await();
                    }
                } catch (UcxpoolException e) {
                    wrong.incrementAndGet();
                }
            }));
        }
        threads.forEach(Thread::start);
        for (int i = 0; i < numThreads * numMessages; i++) {
            Message back = toRight.receive(LIMIT, TimeUnit.SECONDS);
            byte[] bytes = bytesOf(back);

            assertArrayEquals(random(bytes.length), bytes);
        }
        for (Thread thread : threads) {
            thread.join();
        }
        assertEquals(0, wrong.get());
    }

    @Test
    public void closed_peer_fails_sends_and_receives() throws Exception {
        Transfer sent =
            toRight.send(new Source().add(direct(random(100000))), 1);

        right.close();
        UcxpoolException failure =
            assertThrows(UcxpoolException.class, sent::await);

        assertTrue(failure.toString(),
                   Arrays.asList(Status.CLOSED, Status.CANCELED,
                                 Status.PEER_LOST)
                       .contains(failure.status()));
        assertThrows(UcxpoolException.class,
                     () -> toRight.receive(LIMIT, TimeUnit.SECONDS));
        assertThrows(UcxpoolException.Closed.class,
                     () -> right.listen("127.0.0.1:0"));
        assertThrows(UcxpoolException.Closed.class,
                     () -> right.poll(0, TimeUnit.SECONDS));
    }

    @Test
    public void message_is_unusable_after_its_pool_closed() throws Exception {
        Buffer buffer = right.allocate(100);

        toRight.send(new Source().add(direct(random(100))), 1);
        Message message = receive();

        right.close();
        assertThrows(UcxpoolException.Closed.class,
                     () -> message.receive(buffer, null));
        assertThrows(IllegalStateException.class, message::lengths);
        message.refuse("too late");
        /* The message holds no reference to the buffer. */
        buffer.release();
        assertThrows(IllegalStateException.class, buffer::retain);
    }

    @Test
    public void connect_and_listen_fail_while_the_pool_closes()
            throws Exception {
        List<Class<?>> thrown = new ArrayList<>();

        try (Listener listener = right.listen("127.0.0.1:0")) {
            String where = "127.0.0.1:" + listener.port();

            toRight.send(new Source().add(direct(random(100000))), 1, null,
                         sent -> {
                             try {
                                 left.connect(where);
                             } catch (UcxpoolException e) {
                                 thrown.add(e.getClass());
                             }
                             try {
                                 left.listen("127.0.0.1:0");
                             } catch (UcxpoolException e) {
                                 thrown.add(e.getClass());
                             }
                         });
            /* Closing the pool also waits for this transfer. */
            toRight.send(new Source().add(direct(random(100000))), 2);
            left.close();
        }
        assertEquals(List.of(UcxpoolException.Closed.class,
                             UcxpoolException.Closed.class),
                     thrown);
    }

    @Test
    public void pool_closes_during_name_lookups()
            throws Exception {
        try (Listener listener = right.listen("127.0.0.1:0")) {
            String where = "localhost:" + listener.port();

            for (int i = 0; i < 50; i++) {
                Pool pool = pool("connects", SECRET);
                CompletableFuture<Throwable> thrown =
                    new CompletableFuture<>();
                CountDownLatch connected = new CountDownLatch(1);
                Thread thread = new Thread(() -> {
                    try {
                        for (;;) {
                            pool.connect(where).abort();
                            connected.countDown();
                            pool.poll(0, TimeUnit.SECONDS);
                        }
                    } catch (UcxpoolException | RuntimeException e) {
                        thrown.complete(e);
                    }
                });

                thread.start();
                assertTrue(connected.await(LIMIT, TimeUnit.SECONDS));
                pool.close();
                assertSame(UcxpoolException.Closed.class,
                           thrown.get(LIMIT, TimeUnit.SECONDS).getClass());
                thread.join();
            }
        }
    }

    /** With tests/slow_names.c, which tests/test_java.sh loads. */
    @Test
    public void messages_arrive_while_listen_resolves_a_name()
            throws Exception {
        String fifo = System.getenv("SLOW_NAMES");
        CompletableFuture<Integer> port = new CompletableFuture<>();

        Assume.assumeNotNull(fifo);
        Thread thread = new Thread(() -> {
            try (Listener listener = left.listen("waits.test:0")) {
                port.complete(listener.port());
            } catch (UcxpoolException e) {
                port.completeExceptionally(e);
            }
        });

        thread.start();
        /* Opening blocks until the lookup starts, which then reads the FIFO. */
        try (FileOutputStream lookup = new FileOutputStream(fifo)) {
            toLeft.send(new Source(), 1);
            assertEquals(1, toRight.receive(LIMIT, TimeUnit.SECONDS).tag());
            lookup.write(1);
        }
        assertTrue(port.get(LIMIT, TimeUnit.SECONDS) > 0);
        thread.join();
    }

    /** Objects of events that the polling thread has read stay valid until
     * it has handled the events. */
    @Test
    public void listener_closes_while_peers_connect() throws Exception {
        for (int i = 0; i < ROUNDS; i++) {
            Listener listener = right.listen("127.0.0.1:0");
            List<Channel> callers = new ArrayList<>();

            for (int j = 0; j < 4; j++) {
                callers.add(left.connect("127.0.0.1:" + listener.port()));
            }
            /* In some rounds, the polling thread is just handling the event. */
            long until = System.nanoTime() + i % 100 * 10000;

            while (System.nanoTime() < until) {
                Thread.onSpinWait();
            }
            listener.close();
            callers.forEach(Channel::abort);
        }
    }

    @Test
    public void buffers_outlive_their_pool() throws Exception {
        Buffer buffer = right.allocate(100000);

        right.close();
        buffer.byteBuffer().put(99999, (byte) 3);
        assertEquals(3, buffer.byteBuffer().get(99999));
        buffer.release();
    }

    @Test
    public void wrong_secret_is_rejected() throws Exception {
        Pool stranger =
            pool("stranger", "another secret!!".getBytes(
                StandardCharsets.UTF_8));

        try (stranger; Listener listener = right.listen("127.0.0.1:0")) {
            Channel channel =
                stranger.connect("127.0.0.1:" + listener.port());
            assertFails(Status.PERMISSION, "",
                        () -> channel.await(LIMIT, TimeUnit.SECONDS));
            assertEquals(Channel.State.FAILED, channel.state());
            assertEquals(Status.PERMISSION, channel.failure().status());
        }
    }

    @Test
    public void channel_without_a_required_path_fails() throws Exception {
        try (Listener rma = right.listen("127.0.0.1:0", "rma");
             Listener any = right.listen("127.0.0.1:0", "any")) {
            assertUnsupported(left.connect("127.0.0.1:" + any.port(), "rma"));
            left.connect("127.0.0.1:" + rma.port(), "any");
            assertUnsupported(rma.accept(LIMIT, TimeUnit.SECONDS));
            assertTrue(left.connect("127.0.0.1:" + any.port(), "map,rma")
                           .await(LIMIT, TimeUnit.SECONDS));
            assertTrue(left.connect("127.0.0.1:" + any.port(), "direct")
                           .await(LIMIT, TimeUnit.SECONDS));
        }
        assertFails(Status.INVALID_PARAM, "map,any",
                    () -> left.connect("127.0.0.1:1", "map,any"));
    }

    private void assertUnsupported(Channel channel) {
        assertFails(Status.UNSUPPORTED, "requires rma",
                    () -> channel.receive(LIMIT, TimeUnit.SECONDS));
    }

    @Test
    public void histograms_count_operations() throws Exception {
        for (int i = 0; i < 3; i++) {
            toRight.send(new Source().add(direct(random(1 << 20))), 1);
            bytesOf(receive());
        }
        long count = 0;

        for (Map.Entry<String, Histogram> entry
                : right.histograms().entrySet()) {
            Histogram histogram = entry.getValue();

            assertEquals(entry.getKey(), String.join(
                "_", histogram.operation(), histogram.wire(),
                histogram.way()));
            assertEquals(40, histogram.buckets().length);
            assertEquals(histogram.count(),
                         Arrays.stream(histogram.buckets()).sum());
            if (histogram.count() > 0) {
                assertEquals("recv", histogram.operation());
                assertEquals("map", histogram.wire());
                assertTrue(histogram.sum() > 0);
                count += histogram.count();
            }
        }
        assertEquals(3, count);
        right.close();
        assertThrows(UcxpoolException.Closed.class, () -> right.histograms());
    }

    /* --- batches --------------------------------------------------------- */

    private static Source source(int... bytes) {
        ByteBuffer buffer = ByteBuffer.allocateDirect(bytes.length);

        for (int one : bytes) {
            buffer.put((byte) one);
        }
        return new Source().add(buffer.flip());
    }

    private void assertReceived(Channel channel, int tag) throws Exception {
        Message message = channel.receive(LIMIT, TimeUnit.SECONDS);

        assertEquals(tag, message.tag());
        assertArrayEquals(new byte[] {(byte) tag}, bytesOf(message));
    }

    @Test
    public void batch_posts_sends_on_many_channels() throws Exception {
        Batch batch = new Batch();
        List<Transfer> sent = new ArrayList<>();
        CountDownLatch ended = new CountDownLatch(1);

        try (Listener listener = right.listen("127.0.0.1:0");
             Buffer buffer = left.allocate(1)) {
            Channel other = left.connect("127.0.0.1:" + listener.port());
            Channel peer = listener.accept(LIMIT, TimeUnit.SECONDS);

            buffer.byteBuffer().put(0, (byte) 2);
            batch.send(toRight, source(1), 1)
                .send(other, new Source().add(buffer), 2)
                .send(toRight, source(3), 3, new byte[] {7},
                      transfer -> ended.countDown())
                .send(toRight, source(4), 4, new byte[] {8, 9}, null);
            left.post(batch, sent);
            assertEquals(0, batch.size());
            assertEquals(4, sent.size());
            assertReceived(toLeft, 1);
            assertReceived(peer, 2);
            Message third = receive();
            Message last = receive();

            assertArrayEquals(new byte[] {7}, third.metadata());
            assertArrayEquals(new byte[] {8, 9}, last.metadata());
            assertEquals(3, bytesOf(third)[0]);
            assertEquals(4, bytesOf(last)[0]);
        }
        for (Transfer transfer : sent) {
            transfer.await();
        }
        assertTrue(ended.await(LIMIT, TimeUnit.SECONDS));
        left.post(batch, sent);
        assertEquals(4, sent.size());
    }

    @Test
    public void batch_continues_after_a_refused_send() throws Exception {
        Batch batch = new Batch();
        List<Transfer> sent = new ArrayList<>();
        Channel closed = left.connect("127.0.0.1:1");

        closed.close();
        batch.send(toRight, source(0), 0)
            .send(toRight, source(1), 1, new byte[1 << 20], null)
            .send(toRight, source(2), 2)
            .send(closed, source(3), 3)
            .send(toLeft, source(4), 4)
            .send(toRight, source(5), 5);
        assertFails(Status.LIMIT, "", () -> left.post(batch, sent));
        assertEquals(4, batch.size());
        assertEquals(1, sent.size());
        assertThrows(UcxpoolException.Closed.class,
                     () -> left.post(batch, sent));
        assertFails(Status.INVALID_PARAM, "", () -> left.post(batch, sent));
        left.post(batch, sent);
        assertEquals(3, sent.size());
        for (int tag : new int[] {0, 2, 5}) {
            assertReceived(toLeft, tag);
        }
        for (Transfer transfer : sent) {
            transfer.await();
        }
        left.close();
        batch.send(toRight, source(6), 6);
        assertThrows(UcxpoolException.Closed.class,
                     () -> left.post(batch, sent));
        assertEquals(1, batch.size());
    }

    @Test
    public void batch_continues_after_a_freed_buffer_or_closed_file()
            throws Exception {
        Batch batch = new Batch();
        List<Transfer> sent = new ArrayList<>();
        Buffer freed = left.allocate(1000);
        DataFile closed = DataFile.open(folder.newFile().toPath());

        batch.send(toRight, source(0), 0)
            .send(toRight, new Source().add(freed), 1)
            .send(toRight, source(2), 2, new byte[1 << 20], null)
            .send(toRight, new Source().add(closed, 0, 0), 3)
            .send(toRight, source(4), 4);
        freed.release();
        closed.release();
        assertThrows(IllegalStateException.class,
                     () -> left.post(batch, sent));
        assertEquals(1, sent.size());
        assertEquals(3, batch.size());
        assertFails(Status.LIMIT, "", () -> left.post(batch, sent));
        assertEquals(2, batch.size());
        assertThrows(IllegalStateException.class,
                     () -> left.post(batch, sent));
        left.post(batch, sent);
        assertEquals(2, sent.size());
        assertReceived(toLeft, 0);
        assertReceived(toLeft, 4);
        for (Transfer transfer : sent) {
            transfer.await();
        }
    }

    @Test
    public void batch_with_an_immutable_list_posts_nothing()
            throws Exception {
        Batch batch = new Batch();
        List<Transfer> sent = new ArrayList<>();

        batch.send(toRight, source(1), 1);
        assertThrows(UnsupportedOperationException.class,
                     () -> left.post(batch, List.of()));
        assertEquals(1, batch.size());
        assertEquals(0L, (long) left.stats().get("messages_sent"));
        left.post(batch, sent);
        assertReceived(toLeft, 1);
        sent.get(0).await();
        assertEquals(1L, (long) left.stats().get("messages_sent"));
    }

    @Test
    public void channel_statistics_count_one_channel() throws Exception {
        try (Listener listener = right.listen("127.0.0.1:0")) {
            Channel other = left.connect("127.0.0.1:" + listener.port());

            toRight.send(new Source().add(direct(random(100))), 1).await();
            assertEquals(100, bytesOf(receive()).length);
            assertEquals(1L, (long) toRight.stats().get("messages_sent"));
            assertEquals(0L, (long) other.stats().get("messages_sent"));
            assertEquals(1L, (long) left.stats().get("messages_sent"));
            assertTrue(left.stats().keySet().containsAll(
                other.stats().keySet()));
            other.close();
            assertThrows(UcxpoolException.Closed.class, other::stats);
        }
    }

    @Test
    public void wrong_settings_are_reported() {
        assertFails(Status.INVALID_PARAM, "COMM_SIZE",
                    () -> new Pool("wrong", Map.of("COMM_SIZES", "8m"),
                                   null));
        assertThrows(UcxpoolException.class,
                     () -> new Pool("short", Map.of(), new byte[3]));
    }

    @Test
    public void out_of_bounds_ranges_are_rejected() throws Exception {
        try (Buffer buffer = left.allocate(100)) {
            assertThrows(IndexOutOfBoundsException.class,
                         () -> new Source().add(buffer, 50, 51));
            assertThrows(IndexOutOfBoundsException.class,
                         () -> new Source().add(buffer, -1, 1));
            assertThrows(IllegalArgumentException.class,
                         () -> new Source().add(ByteBuffer.allocate(8)));
        }
    }

    /** UCX would handle SIGSEGV itself, and end the process. */
    @Test
    public void jvm_keeps_its_signal_handlers() {
        int caught = 0;
        Object[] nothing = new Object[1];

        for (int i = 0; i < 200000; i++) {
            try {
                caught -= nothing[0].hashCode();
            } catch (NullPointerException e) {
                caught++;
            }
        }
        assertEquals(200000, caught);
    }
}
