package org.ucxpool.spark;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertSame;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.io.File;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

import org.apache.spark.network.buffer.ManagedBuffer;
import org.apache.spark.network.shuffle.BlockFetchingListener;
import org.apache.spark.network.util.TransportConf;
import org.junit.After;
import org.junit.Before;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.Timeout;
import org.ucxpool.Channel;
import org.ucxpool.Listener;
import org.ucxpool.Message;
import org.ucxpool.Pool;
import org.ucxpool.Source;
import org.ucxpool.UcxpoolException;

/** Peers that are unreachable, have another secret, or send invalid data. */
public class PeerTest implements Peer.Owner, Fetch.Surroundings,
                                 BlockFetchingListener {
    private static final long LIMIT = 1800;
    private static final String[] IDS = {"shuffle_0_0_0", "shuffle_0_1_0"};

    @Rule
    public final Timeout limit = Timeout.seconds(1800);

    private final Statistics statistics = new Statistics();
    private final List<String> fetched = new ArrayList<>();
    private final List<String> failed = new ArrayList<>();
    private final List<Fetch> overNetty = new ArrayList<>();
    private Throwable why;
    /* connect() waits for the outcome, before the Peer has a handler. */
    private boolean isConnectAwaited;
    private long now;
    private Pool pool;
    private Pool other;
    private Channel accepted;

    private static Pool makePool(String name, byte[] secret)
            throws Exception {
        return new Pool(name, Map.of("COMM_SIZE", "2m", "MEMORY_LIMIT", "16m",
                                     "HEAP_CHUNK", "2m", "HUGE_PAGES", "n"),
                        secret);
    }

    @Before
    public void setUp() throws Exception {
        pool = makePool("asks", null);
    }

    @After
    public void tearDown() {
        pool.close();
        if (other != null) {
            other.close();
        }
    }

    @Override
    public Channel connect(String address) throws UcxpoolException {
        Channel channel = pool.connect(address);

        while (isConnectAwaited
               && channel.state() == Channel.State.CONNECTING) {
            pool.poll(LIMIT, TimeUnit.SECONDS);
        }
        return channel;
    }

    @Override
    public void admit(Fetch.Arrival arrival, Peer peer) {
        throw new AssertionError("a reply that should have been rejected");
    }

    @Override
    public void toNetty(Peer peer, Fetch fetch) {
        overNetty.add(fetch);
    }

    @Override
    public Statistics statistics() {
        return statistics;
    }

    @Override
    public long now() {
        return now;
    }

    @Override
    public File spillFile() {
        throw new AssertionError("nothing is spilled");
    }

    @Override
    public TransportConf transportConf() {
        throw new AssertionError("nothing goes to files");
    }

    @Override
    public void onBlockFetchSuccess(String id, ManagedBuffer block) {
        fetched.add(id);
    }

    @Override
    public void onBlockFetchFailure(String id, Throwable thrown) {
        failed.add(id);
        why = thrown;
    }

    private Fetch post(Peer peer) throws IOException {
        Fetch fetch = new Fetch(this, IDS, this, null);
        int[] count = new int[1];
        List<BlockRange> ranges = new ArrayList<>();

        for (String id : IDS) {
            ranges.add(BlockRange.parse(id));
        }
        assertTrue(peer.post(fetch, Protocol.request(ranges, 0, count)));
        return fetch;
    }

    private void pollUntilReported() throws IOException {
        while (failed.isEmpty() && overNetty.isEmpty()) {
            pool.poll(LIMIT, TimeUnit.SECONDS);
        }
    }

    @Test
    public void unreachable_peer_fails_the_fetch() throws Exception {
        Peer peer = new Peer(this, "1", "127.0.0.1", 1, "127.0.0.1:1");

        post(peer);
        pollUntilReported();
        assertEquals(Arrays.asList(IDS), failed);
        assertTrue(overNetty.isEmpty());
        assertTrue(why.getMessage(), why.getMessage().startsWith(
            "executor 1 at 127.0.0.1:1 cannot be reached: "));
        assertEquals(2, statistics.failedBlocks.getCount());
        assertFalse(peer.isWithoutPool());
    }

    @Test
    public void immediately_refused_connection_fails_the_request()
            throws Exception {
        Peer peer = new Peer(this, "1", "127.0.0.1", 1, "127.0.0.1:1");

        isConnectAwaited = true;
        for (int i = 0; i < 2; i++) {
            IOException thrown =
                assertThrows(IOException.class, () -> post(peer));

            assertTrue(thrown.getMessage(), thrown.getMessage().startsWith(
                "executor 1 at 127.0.0.1:1 cannot be reached: "));
        }
        assertFalse(peer.isWithoutPool());
    }

    /** The channel opens before the requester sets its handler. */
    @Test
    public void closed_peer_pool_fails_pending_fetches()
            throws Exception {
        other = makePool("other", null);
        Listener listener = other.listen("127.0.0.1:0");
        Thread thread = poll(other);
        Peer peer = new Peer(this, "1", "127.0.0.1", 1,
                             "127.0.0.1:" + listener.port());

        isConnectAwaited = true;
        post(peer);
        other.close();
        pollUntilReported();
        assertEquals(Arrays.asList(IDS), failed);
        assertTrue(why.getMessage(), why.getMessage().contains("was lost"));
        assertFalse(peer.isWithoutPool());
        thread.join();
    }

    @Test
    public void wrong_secret_falls_back_to_netty() throws Exception {
        other = makePool("other", "another secret!!".getBytes("US-ASCII"));
        try (Listener listener = other.listen("127.0.0.1:0")) {
            Peer peer = new Peer(this, "1", "127.0.0.1", 1,
                                 "127.0.0.1:" + listener.port());
            Thread thread = poll(other);
            Fetch fetch = post(peer);

            pollUntilReported();
            assertSame(fetch, overNetty.get(0));
            assertTrue(failed.isEmpty());
            assertTrue(peer.isWithoutPool());
            assertFalse(peer.post(fetch, new byte[0]));
            other.close();
            thread.join();
        }
    }

    private static ServerSocket anyPort() throws IOException {
        return new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
    }

    /** A listener closes the oldest connection if too many arrive at once. */
    @Test
    public void disconnected_request_is_retried_once() throws Exception {
        ServerSocket socket = anyPort();
        String address = "127.0.0.1:" + socket.getLocalPort();

        post(new Peer(this, "1", "127.0.0.1", 1, address));
        socket.accept().close();
        socket.close();
        other = makePool("other", null);
        try (Listener listener = other.listen(address)) {
            Thread thread = poll(other);

            answer(listener, new byte[0]);
            pollUntilReported();
            assertEquals(Arrays.asList(IDS), failed);
            assertTrue(why.getMessage(),
                       why.getMessage().contains("sent an invalid message"));
            other.close();
            thread.join();
        }
    }

    /** The process that accepts the connections is alive. */
    @Test
    public void second_disconnect_falls_back_to_netty()
            throws Exception {
        try (ServerSocket socket = anyPort()) {
            Peer peer = new Peer(this, "1", "127.0.0.1", 1,
                                 "127.0.0.1:" + socket.getLocalPort());
            Thread closing = new Thread(() -> {
                try {
                    socket.accept().close();
                    socket.accept().close();
                } catch (IOException e) {
                    throw new AssertionError(e);
                }
            });
            Fetch fetch = post(peer);

            closing.start();
            pollUntilReported();
            assertEquals(List.of(fetch), overNetty);
            assertTrue(failed.isEmpty());
            assertTrue(peer.isWithoutPool());
            closing.join();
        }
    }

    /** Polls until the pool is closed. */
    private static Thread poll(Pool polled) {
        Thread thread = new Thread(() -> {
            try {
                for (;;) {
                    polled.poll(LIMIT, TimeUnit.SECONDS);
                }
            } catch (IOException e) {
                /* The pool is closed. */
            }
        });

        thread.start();
        return thread;
    }

    @Test
    public void invalid_replies_are_rejected() throws Exception {
        other = makePool("other", null);
        try (Listener listener = other.listen("127.0.0.1:0")) {
            Peer peer = new Peer(this, "1", "127.0.0.1", 1,
                                 "127.0.0.1:" + listener.port());
            Thread thread = poll(other);
            byte[][] replies = {Protocol.reply(2, true),
                                Protocol.reply(-1, true), new byte[3],
                                new byte[0]};

            for (byte[] reply : replies) {
                failed.clear();
                post(peer);
                answer(listener, reply);
                pollUntilReported();
                assertEquals(Arrays.asList(IDS), failed);
                assertTrue(why.getMessage(),
                           why.getMessage().contains("sent an invalid message"));
            }
            assertTrue(fetched.isEmpty());
            other.close();
            thread.join();
        }
    }

    /** The process may be stopped while its host still answers. */
    @Test
    public void unanswered_requests_time_out() throws Exception {
        other = makePool("other", null);
        try (Listener listener = other.listen("127.0.0.1:0")) {
            Peer peer = new Peer(this, "1", "127.0.0.1", 1,
                                 "127.0.0.1:" + listener.port());
            Thread thread = poll(other);

            isConnectAwaited = true;
            now = 1000;
            post(peer);
            now = 1100;
            post(peer);
            now = 2999;
            peer.endIfSilent(2000);
            assertTrue(failed.isEmpty());
            peer.noteProgress();
            now = 4998;
            peer.endIfSilent(2000);
            assertTrue(failed.isEmpty());
            now = 4999;
            peer.endIfSilent(2000);
            assertEquals(4, failed.size());
            assertTrue(why.getMessage(),
                       why.getMessage().contains("has not answered"));
            assertFalse(peer.isWithoutPool());
            /* The next request uses a new channel, and has not timed out. */
            post(peer);
            peer.endIfSilent(2000);
            assertEquals(4, failed.size());
            other.close();
            thread.join();
        }
    }

    /** The local process may lack descriptors, or fail to resolve the host. */
    @Test
    public void local_connect_error_does_not_fail_the_fetch()
            throws Exception {
        Peer peer = new Peer(this, "1", "127.0.0.1", 1, "not an address");
        Fetch fetch = new Fetch(this, IDS, this, null);

        assertFalse(peer.post(fetch, new byte[0]));
        assertTrue(failed.isEmpty());
        assertEquals(0, statistics.requests.getCount());
        pool.close();
        assertThrows(UcxpoolException.Closed.class,
                     () -> peer.post(fetch, new byte[0]));
    }

    /** For example, the request may be too long to send. */
    @Test
    public void local_send_error_does_not_fail_the_fetch()
            throws Exception {
        other = makePool("other", null);
        try (Listener listener = other.listen("127.0.0.1:0")) {
            Peer peer = new Peer(this, "1", "127.0.0.1", 1,
                                 "127.0.0.1:" + listener.port());
            Fetch fetch = new Fetch(this, IDS, this, null);

            assertFalse(peer.post(fetch, new byte[1 << 20]));
            assertTrue(failed.isEmpty());
            assertEquals(0, statistics.requests.getCount());
        }
    }

    private void pollUntilOverNetty(int count) throws IOException {
        while (overNetty.size() < count) {
            pool.poll(LIMIT, TimeUnit.SECONDS);
        }
    }

    @Test
    public void peer_without_pool_is_retried_after_a_minute()
            throws Exception {
        long minute = TimeUnit.MINUTES.toNanos(1);

        other = makePool("other", "another secret!!".getBytes("US-ASCII"));
        try (Listener listener = other.listen("127.0.0.1:0")) {
            Peer peer = new Peer(this, "1", "127.0.0.1", 1,
                                 "127.0.0.1:" + listener.port());
            Thread thread = poll(other);

            post(peer);
            pollUntilOverNetty(1);
            now = minute - 1;
            assertTrue(peer.isWithoutPool());
            now = minute;
            assertFalse(peer.isWithoutPool());
            post(peer);
            pollUntilOverNetty(2);
            now = 3 * minute - 1;
            assertTrue(peer.isWithoutPool());
            now = 3 * minute;
            assertFalse(peer.isWithoutPool());
            other.close();
            thread.join();
        }
    }

    /** Answer the next request with one reply. */
    private void answer(Listener listener, byte[] reply) throws Exception {
        while (accepted == null) {
            pool.poll(1, TimeUnit.MILLISECONDS);
            accepted = listener.accept(1, TimeUnit.MILLISECONDS);
        }
        Message request = null;

        while (request == null) {
            pool.poll(1, TimeUnit.MILLISECONDS);
            request = accepted.receive(1, TimeUnit.MILLISECONDS);
        }
        request.receive();
        accepted.send(new Source().add(ByteBuffer.allocateDirect(8)),
                      Protocol.tag(Protocol.REPLY,
                                   Protocol.request(request.tag())),
                      reply, null);
    }
}
