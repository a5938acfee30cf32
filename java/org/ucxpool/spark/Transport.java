package org.ucxpool.spark;

import java.io.File;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;

import org.apache.spark.SparkEnv;
import org.apache.spark.network.shuffle.BlockFetchingListener;
import org.apache.spark.network.shuffle.BlockStoreClient;
import org.apache.spark.network.shuffle.DownloadFileManager;
import org.apache.spark.network.util.TransportConf;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.ucxpool.Buffer;
import org.ucxpool.Channel;
import org.ucxpool.Listener;
import org.ucxpool.Pool;
import org.ucxpool.Transfer;
import org.ucxpool.UcxpoolException;

/**
 * The shuffle transport of one executor: a pool, a thread that polls it, the
 * other executors, and memory for received blocks.
 *
 * <p>Received data that has not been read is in the pool's heap. When the heap
 * is full, replies are received one after the other into a few reserved buffers
 * and written to disk. Waiting for memory could deadlock, because the memory
 * may belong to a task that waits for these blocks.
 */
final class Transport implements Peer.Owner, Fetch.Surroundings {
    private static final Logger LOG =
        LoggerFactory.getLogger(Transport.class);

    private static final int NUM_STAGING = 2;
    private static final long ASK_AGAIN_NS = TimeUnit.MINUTES.toNanos(1);
    private static final long LONGEST_POLL_NS = TimeUnit.SECONDS.toNanos(60);

    private final Settings settings;
    private final SparkEnv env;
    private final BlockStoreClient netty;
    private final TransportConf transportConf;
    private final Statistics statistics;
    private final Pool pool;
    private final Listener listener;
    private final MapOutputs outputs;
    private final Function<String, String> addresses;
    private final Map<String, Peer> peers = new ConcurrentHashMap<>();
    /** Times of failed queries for an executor's address. */
    private final Map<String, Long> unanswered = new ConcurrentHashMap<>();
    private final Thread thread;
    private final ExecutorService toNetty;
    private volatile boolean isClosed;

    /* The following members are used only by the transport's thread. */
    private final ArrayDeque<Buffer> staging = new ArrayDeque<>();
    private final ArrayDeque<Admission> waiting = new ArrayDeque<>();
    private boolean isAdmitting;

    private static final class Admission {
        final Fetch.Arrival arrival;
        final Peer peer;

        Admission(Fetch.Arrival arrival, Peer peer) {
            this.arrival = arrival;
            this.peer = peer;
        }
    }

    /**
     * Start the transport.
     *
     * @param netty fetches the blocks that do not use the pool
     * @param addresses of executors, by their id; "" if there is no pool, null
     *        if
     *        unknown
     */
    Transport(Settings settings, SparkEnv env, BlockStoreClient netty,
              TransportConf transportConf, byte[] secret,
              Statistics statistics, Function<String, String> addresses)
            throws UcxpoolException {
        this.settings = settings;
        this.env = env;
        this.netty = netty;
        this.transportConf = transportConf;
        this.statistics = statistics;
        this.addresses = addresses;
        this.outputs = new MapOutputs(UcxPoolShuffleManager::resolver);
        pool = new Pool("executor " + env.executorId(), settings.pool, secret);
        listener = listen();
        listener.handle(this::serve);
        toNetty = Executors.newCachedThreadPool(task -> {
            Thread made = new Thread(task, "ucxpool-to-netty");

            made.setDaemon(true);
            return made;
        });
        thread = new Thread(this::run, "ucxpool-shuffle");
        thread.setDaemon(true);
        thread.start();
    }

    /** Listen and allocate the reserved memory. Closes the pool on failure. */
    private Listener listen() throws UcxpoolException {
        try {
            for (int i = 0; i < NUM_STAGING; i++) {
                staging.add(pool.allocate(settings.messageSize));
            }
            return pool.listen(bracketed(host()) + ":" + settings.port);
        } catch (UcxpoolException e) {
            staging.forEach(Buffer::release);
            pool.close();
            throw e;
        }
    }

    private String host() {
        return env.blockManager().blockManagerId().host();
    }

    private static String bracketed(String host) {
        return host.contains(":") && !host.startsWith("[") ? "[" + host + "]"
                                                           : host;
    }

    /** Returns the address for other executors. */
    String address() {
        return bracketed(host()) + ":" + listener.port();
    }

    @Override
    public Channel connect(String address) throws UcxpoolException {
        return pool.connect(address);
    }

    @Override
    public Statistics statistics() {
        return statistics;
    }

    @Override
    public TransportConf transportConf() {
        return transportConf;
    }

    @Override
    public File spillFile() {
        return env.blockManager().diskBlockManager().createTempLocalBlock()
            ._2();
    }

    /* --- the thread ------------------------------------------------------ */

    private void run() {
        long timeout = TimeUnit.MILLISECONDS.toNanos(
            transportConf.connectionTimeoutMs());
        long wait = Math.max(1, Math.min(timeout / 4, LONGEST_POLL_NS));
        long lastLook = now();

        while (!isClosed) {
            try {
                pool.poll(wait, TimeUnit.NANOSECONDS);
                if (now() - lastLook >= wait) {
                    lastLook = now();
                    endSilentPeers(timeout);
                }
            } catch (UcxpoolException.Closed e) {
                return;
            } catch (UcxpoolException | RuntimeException e) {
                LOG.error("the pool's thread continues after an error", e);
            }
        }
    }

    /**
     * Fail the requests of silent peers after the same time as Netty. Requests
     * that wait for memory here have been answered by the peer.
     */
    private void endSilentPeers(long timeoutNs) {
        waiting.forEach(admission -> admission.peer.noteProgress());
        peers.values().forEach(peer -> peer.endIfSilent(timeoutNs));
    }

    @Override
    public long now() {
        return System.nanoTime();
    }

    private void serve(Channel channel) {
        LOG.debug("an executor has connected from {}",
                  channel.remoteAddress());
        channel.handle(new Server(channel, outputs, settings.messageSize,
                                  statistics));
    }

    @Override
    public void admit(Fetch.Arrival arrival, Peer peer) {
        if (arrival.message.length() > settings.messageSize) {
            arrival.failure = new IOException("a reply of "
                + arrival.message.length() + " bytes exceeds "
                + Settings.PREFIX + "messageSize, which must be the same in "
                + "all executors");
            arrival.message.refuse("longer than " + Settings.PREFIX
                                   + "messageSize");
            over(arrival, peer);
        } else if (waiting.isEmpty() && takeMemory(arrival)) {
            receive(arrival, peer);
        } else {
            waiting.add(new Admission(arrival, peer));
        }
    }

    private boolean takeMemory(Fetch.Arrival arrival) {
        if (arrival.size() == 0) {
            return true;
        }
        if (!arrival.fetch.isToFiles()) {
            try {
                arrival.buffer = pool.allocate(arrival.size());
                return true;
            } catch (UcxpoolException e) {
                LOG.debug("no memory for a reply of {} bytes: {}",
                          arrival.size(), e.getMessage());
            }
        }
        arrival.buffer = staging.poll();
        arrival.isStaged = arrival.buffer != null;
        return arrival.isStaged;
    }

    private void receive(Fetch.Arrival arrival, Peer peer) {
        try {
            if (arrival.buffer == null) {
                arrival.message.receive();
                over(arrival, peer);
            } else {
                arrival.message.receive(
                    arrival.buffer.byteBuffer(0, arrival.size()),
                    transfer -> received(arrival, peer, transfer));
            }
        } catch (UcxpoolException e) {
            arrival.failure = e;
            over(arrival, peer);
        }
    }

    private void received(Fetch.Arrival arrival, Peer peer,
                          Transfer transfer) {
        arrival.failure = transfer.failure();
        over(arrival, peer);
    }

    /**
     * Called when a reply has been received or has failed. Reports all blocks
     * in order.
     */
    private void over(Fetch.Arrival arrival, Peer peer) {
        Fetch.Arrival next;

        arrival.isDone = true;
        while ((next = arrival.fetch.nextDone()) != null) {
            arrival.fetch.deliver(next);
            giveBack(next);
            peer.ended(next);
        }
        admitWaiting();
    }

    private void giveBack(Fetch.Arrival arrival) {
        if (arrival.isStaged) {
            staging.add(arrival.buffer);
        } else if (arrival.buffer != null) {
            arrival.buffer.release();
        }
    }

    /* Receive waiting replies. Receiving may end at once, which calls this
     * method again. */
    private void admitWaiting() {
        if (isAdmitting) {
            return;
        }
        isAdmitting = true;
        while (!waiting.isEmpty() && takeMemory(waiting.element().arrival)) {
            Admission admission = waiting.remove();

            receive(admission.arrival, admission.peer);
        }
        isAdmitting = false;
    }

    /* --- tasks ----------------------------------------------------------- */

    /**
     * Fetch shuffle blocks. Returns false if the caller must use Netty instead.
     */
    boolean fetch(String host, int port, String executorId, String[] ids,
                  BlockFetchingListener told, DownloadFileManager files) {
        List<BlockRange> ranges = BlockRange.parse(ids);

        if (ranges == null) {
            return false;
        }
        Peer peer = find(executorId, host, port);

        if (peer == null || peer.isWithoutPool()) {
            if (settings.isRequired) {
                IOException why = wouldUseNetty(executorId);

                for (String id : ids) {
                    told.onBlockFetchFailure(id, why);
                }
                return true;
            }
            statistics.nettyBlocks.inc(ids.length);
            return false;
        }
        post(peer, ids, ranges, told, files);
        return true;
    }

    /**
     * Find an executor. Returns null if the address of its pool is unknown at
     * present. Several tasks may call this at the same time.
     */
    private Peer find(String executorId, String host, int port) {
        Peer known = peers.get(executorId);
        Long before = unanswered.get(executorId);

        if (known != null
            || before != null && now() - before < ASK_AGAIN_NS) {
            return known;
        }
        String address = addresses.apply(executorId);

        if (address == null) {
            /* An interrupted task does not mean that the driver has failed. */
            if (!Thread.currentThread().isInterrupted()) {
                unanswered.put(executorId, now());
            }
            return null;
        }
        Peer found = new Peer(this, executorId, host, port,
                              address.isEmpty() ? null : address);

        known = peers.putIfAbsent(executorId, found);
        if (known == null && address.isEmpty()) {
            LOG.warn("shuffle blocks of executor {} come over Netty: it has "
                         + "no pool", executorId);
        }
        return known == null ? found : known;
    }

    private void post(Peer peer, String[] ids, List<BlockRange> ranges,
                      BlockFetchingListener told, DownloadFileManager files) {
        int[] count = new int[1];

        for (int from = 0; from < ids.length; from += count[0]) {
            byte[] request = Protocol.request(ranges, from, count);
            Fetch fetch = new Fetch(
                this, Arrays.copyOfRange(ids, from, from + count[0]), told,
                files);

            try {
                if (!peer.post(fetch, request)) {
                    toNetty(peer, fetch);
                }
            } catch (IOException e) {
                fetch.failAll(new IOException(
                    "executor " + peer.executorId + ": " + e.getMessage(),
                    e));
            }
        }
    }

    private static IOException wouldUseNetty(String executorId) {
        return new IOException(
            Settings.REQUIRED + " is set, and the blocks of executor "
                + executorId + " would come over Netty: the log of the "
                + "executor that fetches them says why");
    }

    @Override
    public void toNetty(Peer peer, Fetch fetch) {
        if (settings.isRequired) {
            fetch.failAll(wouldUseNetty(peer.executorId));
            return;
        }
        String[] left = fetch.giveUp();

        statistics.nettyBlocks.inc(left.length);
        if (left.length > 0) {
            /* Netty connects in the calling thread and waits for the
             * connection. */
            toNetty.execute(() -> netty.fetchBlocks(
                peer.host, peer.port, peer.executorId, left,
                fetch.listener(), fetch.files()));
        }
    }

    /** Called when Spark removes a shuffle. */
    void forget(int shuffleId) {
        outputs.forget(shuffleId);
    }

    Map<String, Long> poolStats() {
        try {
            return pool.stats();
        } catch (UcxpoolException e) {
            return Map.of();
        }
    }

    synchronized void close() {
        isClosed = true;
        listener.close();
        peers.values().forEach(Peer::close);
        pool.close();
        try {
            thread.join();
            staging.forEach(Buffer::release);
            staging.clear();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        outputs.close();
        toNetty.shutdown();
    }
}
