package org.ucxpool;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BooleanSupplier;

/**
 * A pool is a fixed set of registered blocks, and the transfers that use them.
 *
 * <p>Threads. Any thread may call any method at any time. If several threads
 * wait, one of them polls and wakes the others. Handlers and listeners are
 * called in the polling thread. They may start transfers, close channels and
 * free memory, but must not wait.
 */
public final class Pool implements AutoCloseable {
    private static final int RECORDS_SIZE = 1 << 20;

    private static final long CLOSE_NS = TimeUnit.SECONDS.toNanos(5);

    /* About three days. */
    private static final long LONGEST_NS = 1L << 48;

    private final long handle;
    private final int wakeDescriptor;
    private final String[] statNames;
    private final String[] channelStatNames;
    private final AtomicLong lastNumber = new AtomicLong();
    private final Map<Long, Transfer> transfers = new ConcurrentHashMap<>();

    /**
     * This monitor is held while a handle is released, so that the polling
     * thread has no record of a released handle. It is not held while a host
     * name is resolved. A channel is therefore registered here before it is
     * created. Channels have numbers, because addresses are reused.
     */
    private final Object handles = new Object();
    private final Map<Long, Channel> channels = new HashMap<>();
    private final Map<Long, Listener> listeners = new HashMap<>();

    /**
     * The monitor of waiting threads. The waiting thread that polls is the
     * leader.
     */
    private final Object turn = new Object();
    private Thread leader;
    private final ByteBuffer records =
        ByteBuffer.allocateDirect(RECORDS_SIZE).order(ByteOrder.nativeOrder());
    private final long recordsAddress;
    private long[] ended = new long[64];
    private int numEnded;

    /**
     * The number of users: the open pool itself, each buffer, and each call in
     * progress.
     */
    private final AtomicLong users = new AtomicLong(1);
    private boolean isClosing; /* no new handles are created */
    private volatile boolean isClosed;

    /**
     * Creates a pool.
     *
     * @param name the name of the pool in logs and statistics
     * @param settings as {@code ucxpool_info -c} lists them, without the prefix
     *        UCXPOOL_; they override the environment
     * @param secret the secret that peers must know, 16 bytes or more; or null
     * @throws UcxpoolException a setting is invalid, or out of memory
     * @throws UnsatisfiedLinkError libucxpool is missing or too old
     */
    public Pool(String name, Map<String, String> settings, byte[] secret)
            throws UcxpoolException {
        Native.load();
        wakeDescriptor = Native.wakeCreate();
        if (wakeDescriptor < 0) {
            throw UcxpoolException.of(Status.IO, Native.text(
                Native.errorString(-wakeDescriptor)));
        }
        handle = Native.create(joined(settings), secret, Native.bytes(name));
        if (handle < 0) {
            UcxpoolException failure = UcxpoolException.ofLastCall(handle);

            Native.fileClose(wakeDescriptor);
            throw failure;
        }
        recordsAddress = Native.addressOf(records);
        statNames = statNames(false);
        channelStatNames = statNames(true);
    }

    /**
     * Creates a pool with the settings of the environment.
     *
     * @param name the name of the pool in logs and statistics
     * @throws UcxpoolException a setting is invalid, or out of memory
     */
    public Pool(String name) throws UcxpoolException {
        this(name, Map.of(), null);
    }

    private static byte[] joined(Map<String, String> settings) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();

        settings.forEach((key, value) -> {
            out.writeBytes(Native.bytes(key));
            out.write(0);
            out.writeBytes(Native.bytes(value));
            out.write(0);
        });
        return out.toByteArray();
    }

    /* --- users ----------------------------------------------------------- */

    private void enter() throws UcxpoolException {
        if (isClosed
            || users.getAndUpdate(n -> n > 0 ? n + 1 : n) == 0) {
            throw closed();
        }
    }

    private static UcxpoolException closed() {
        return UcxpoolException.of(Status.CLOSED, "the pool is closed");
    }

    private void leave() {
        if (users.decrementAndGet() == 0) {
            Native.destroy(handle);
            Native.fileClose(wakeDescriptor);
        }
    }

    /* --- memory ---------------------------------------------------------- */

    /**
     * Allocate from the pool's heap, which grows up to MEMORY_LIMIT (a
     * setting).
     *
     * @param size bytes, 1 or more
     * @return memory with undefined contents
     * @throws UcxpoolException.NoMemory too little memory is free
     * @throws UcxpoolException another error
     */
    public Buffer allocate(int size) throws UcxpoolException {
        return allocate(size, false);
    }

    /**
     * Allocate registered blocks, which are sent and received in place.
     *
     * @param size bytes, 1 or more; rounded up to whole blocks
     * @return memory with undefined contents
     * @throws UcxpoolException.NoMemory too few blocks are free
     * @throws UcxpoolException another error
     */
    public Buffer allocateRegistered(int size) throws UcxpoolException {
        return allocate(size, true);
    }

    private Buffer allocate(int size, boolean isRegistered)
            throws UcxpoolException {
        enter();
        long address = isRegistered ? Native.commAlloc(handle, size)
                                    : Native.heapAlloc(handle, size);
        if (address < 0) {
            UcxpoolException failure = UcxpoolException.ofLastCall(address);

            leave();
            throw failure;
        }
        /* The buffer stays a user of the pool. */
        return new Buffer(this, address, size, isRegistered);
    }

    void free(long address, boolean isRegistered) {
        if (isRegistered) {
            Native.commFree(handle, address);
        } else {
            Native.heapFree(handle, address);
        }
        leave();
    }

    /**
     * Return free memory of the heap to the system.
     *
     * @param keep bytes that the heap may keep
     * @throws UcxpoolException the system failed
     */
    public void trim(long keep) throws UcxpoolException {
        enter();
        try {
            check(Native.heapTrim(handle, keep));
        } finally {
            leave();
        }
    }

    private static void check(long status) throws UcxpoolException {
        if (status < 0) {
            throw UcxpoolException.ofLastCall(status);
        }
    }

    /* --- peers ----------------------------------------------------------- */

    /**
     * Connect to a listener. Does not wait.
     *
     * @param where host and port: "1.2.3.4:7000", "[::1]:7000"
     * @return the channel, which is connecting
     * @throws UcxpoolException the host is unknown
     */
    public Channel connect(String where) throws UcxpoolException {
        return connect(where, null);
    }

    /**
     * Connect to a listener. Does not wait. A channel that cannot use a
     * required path fails with {@link Status#UNSUPPORTED} and the reason.
     *
     * @param where host and port: "1.2.3.4:7000", "[::1]:7000"
     * @param require the paths that the channel may use: "map", "rma",
     *        "direct", "map,rma", "direct,rma" or "any"; null for the setting
     *        REQUIRE
     * @return the channel, which is connecting
     * @throws UcxpoolException the host is unknown, or no path has this name
     */
    public Channel connect(String where, String require)
            throws UcxpoolException {
        int paths = paths(require);

        enter();
        try {
            return connect(note(), where, paths);
        } finally {
            leave();
        }
    }

    /** Returns the bits of ucxpool_path_t, or -1 for the setting. */
    private static int paths(String require) throws UcxpoolException {
        if (require == null) {
            return -1;
        }
        switch (require) {
        case "any":
            return 0;
        case "map":
            return 1;
        case "rma":
            return 2;
        case "map,rma":
            return 3;
        case "direct":
            return 4;
        case "direct,rma":
            return 6;
        default:
            throw UcxpoolException.of(Status.INVALID_PARAM,
                                      "require is \"" + require + "\"; use "
                                      + "any, map, rma, direct, map,rma or "
                                      + "direct,rma");
        }
    }

    private Channel note() throws UcxpoolException {
        synchronized (handles) {
            throwIfClosing();
            return add(0, lastNumber.incrementAndGet(),
                       Channel.State.CONNECTING);
        }
    }

    /**
     * Connects the channel. Resolving a name may take seconds. No lock is held
     * during that time, and the pool may be closed.
     */
    private Channel connect(Channel channel, String where, int require)
            throws UcxpoolException {
        long address = Native.connect(handle, Native.bytes(where),
                                      channel.number(), require);

        synchronized (handles) {
            if (address < 0 || isClosing) {
                channels.remove(channel.number());
            }
            if (address >= 0 && isClosing) {
                Native.channelClose(address, true);
            }
            check(address);
            throwIfClosing();
            /* There is no deadlock: only close() can have seen this channel,
             * and close() ignores a channel without a handle. */
            channel.setHandle(address);
        }
        return channel;
    }

    /**
     * Throws if the pool is being closed, because a handle created now would
     * not be closed.
     */
    private void throwIfClosing() throws UcxpoolException {
        if (isClosing) {
            throw closed();
        }
    }

    private Channel add(long address, long number, Channel.State state) {
        Channel channel = new Channel(this, address, number, state);

        channels.put(number, channel);
        return channel;
    }

    /**
     * Listen for peers. Without a secret only addresses of this machine are
     * allowed.
     *
     * @param where host and port; port 0 selects a free port
     * @return the listener
     * @throws UcxpoolException the port is taken, or a secret is needed
     */
    public Listener listen(String where) throws UcxpoolException {
        return listen(where, null);
    }

    /**
     * Listen for peers, as {@link #listen(String)} does.
     *
     * @param where host and port; port 0 selects a free port
     * @param require the paths that accepted channels may use, as for
     *        {@link #connect(String, String)}; null for the setting REQUIRE
     * @return the listener
     * @throws UcxpoolException the port is taken, a secret is needed, or no
     *         path has this name
     */
    public Listener listen(String where, String require)
            throws UcxpoolException {
        int paths = paths(require);

        enter();
        try {
            synchronized (handles) {
                throwIfClosing();
            }
            long address = Native.listen(handle, Native.bytes(where));

            check(address);
            Listener listener = noteListener(address, paths);

            /* Events of peers that have connected until now were ignored. */
            acceptAll(address);
            return listener;
        } finally {
            leave();
        }
    }

    private Listener noteListener(long address, int require)
            throws UcxpoolException {
        synchronized (handles) {
            if (isClosing) {
                Native.listenerDestroy(address);
                throw closed();
            }
            Listener listener = new Listener(this, address, require);

            listeners.put(address, listener);
            return listener;
        }
    }

    /** Accepts queued peers, unless the listener is closed or not registered
     * yet. */
    private void acceptAll(long listenerAddress) {
        for (;;) {
            Listener listener;
            Channel channel;

            synchronized (handles) {
                listener = isClosing ? null : listeners.get(listenerAddress);
                channel = listener == null ? null
                                           : accept(listener, listenerAddress);
            }
            if (channel == null) {
                return;
            }
            listener.put(channel);
        }
    }

    private Channel accept(Listener listener, long listenerAddress) {
        long number = lastNumber.incrementAndGet();
        long address =
            Native.accept(listenerAddress, number, listener.require());

        return address == 0 ? null : add(address, number, Channel.State.OPEN);
    }

    /** Releases a channel. The caller holds the channel's monitor. */
    void release(Channel channel, long address, boolean atOnce) {
        synchronized (handles) {
            channels.remove(channel.number());
            Native.channelClose(address, atOnce);
        }
    }

    /** Releases a listener. The caller holds the listener's monitor. */
    void release(Listener listener, long address) {
        synchronized (handles) {
            listeners.remove(address, listener);
            Native.listenerDestroy(address);
        }
    }

    /* --- transfers ------------------------------------------------------- */

    /** Starts a request that ends with this number. */
    private interface Post {
        long post(Source source, long number) throws UcxpoolException;
    }

    private Transfer start(Source source, Transfer.Listener listener,
                           Post post) throws UcxpoolException {
        Transfer transfer =
            new Transfer(this, source.retainAll(), listener);
        long number = lastNumber.incrementAndGet();

        transfers.put(number, transfer);
        try {
            long request = post.post(source, number);

            check(request);
            transfer.start(request);
            return transfer;
        } catch (UcxpoolException e) {
            transfers.remove(number);
            transfer.drop(e);
            throw e;
        }
    }

    Transfer send(Channel channel, Source source, long tag, byte[] metadata,
                  Transfer.Listener listener) throws UcxpoolException {
        return start(source, listener, (from, number) -> {
            synchronized (channel) {
                return Native.send(channel.handle(), from.list(), from.count(),
                                   from.hasFiles(), tag, metadata, number, 0);
            }
        });
    }

    /**
     * Post the sends of a batch, in one call. The batch is then empty, and can
     * be used again.
     *
     * <p>If a send is refused, for example because its channel is closed or
     * its buffer was freed, this method throws its error. The sends before it
     * are posted. The refused send is removed, unless memory ran out, and the
     * batch keeps the sends after it: another call continues with them.
     *
     * @param batch the sends
     * @param transfers gets the transfer of each posted send, in order, also if
     *        this method throws; if it is immutable, nothing is posted
     * @throws UcxpoolException a send is refused, or the pool is closed
     * @throws IllegalStateException a send is refused, because its buffer was
     *         freed or its file is closed
     */
    public void post(Batch batch, List<? super Transfer> transfers)
            throws UcxpoolException {
        Exception refusal;

        enter();
        try {
            refusal = postAll(batch, transfers);
        } finally {
            leave();
        }
        if (refusal instanceof IllegalStateException) {
            throw (IllegalStateException) refusal;
        }
        if (refusal != null) {
            throw (UcxpoolException) refusal;
        }
    }

    /** Returns the error of the first send that is not posted, or null. */
    private Exception postAll(Batch batch, List<? super Transfer> posted) {
        List<Transfer> made = new ArrayList<>(batch.size());
        long[] fields = new long[Native.FIELDS * batch.size()];
        long[] requests = new long[batch.size()];
        Exception refusal = null;
        int num = 0;

        try {
            refusal = prepare(batch, made, fields);
            /* Nothing is posted yet, because this may throw. */
            posted.addAll(made);
            UcxpoolException earlier =
                post(batch, made.size(), fields, requests);

            refusal = earlier == null ? refusal : earlier;
            while (num < made.size() && requests[num] != 0) {
                made.get(num).start(requests[num]);
                num++;
            }
        } finally {
            for (int i = num; i < made.size(); i++) {
                transfers.remove(
                    fields[Native.FIELDS * i + Native.FIELD_NUMBER]);
                made.get(i).drop(refusal);
            }
        }
        batch.remove(refusal == null
                     || refusal instanceof UcxpoolException.NoMemory
                     ? num : num + 1);
        if (num < made.size()) {
            posted.removeAll(new HashSet<>(made.subList(num, made.size())));
        }
        return refusal;
    }

    /**
     * Creates the transfers and writes the fields of the sends before the first
     * that is refused. Returns its error, or null.
     */
    private Exception prepare(Batch batch, List<Transfer> made,
                              long[] fields) {
        try {
            for (int i = 0; i < batch.size(); i++) {
                made.add(prepare(batch.get(i), fields, Native.FIELDS * i));
            }
            return null;
        } catch (UcxpoolException | IllegalStateException e) {
            return e;
        }
    }

    private Transfer prepare(Batch.Send send, long[] fields, int first)
            throws UcxpoolException {
        Source source = send.source();
        long number = lastNumber.incrementAndGet();

        fields[first + Native.FIELD_CHANNEL] = send.channel().handleOf(this);
        fields[first + Native.FIELD_COUNT] = source.count();
        fields[first + Native.FIELD_HAS_FILES] = source.hasFiles() ? 1 : 0;
        fields[first + Native.FIELD_TAG] = send.tag();
        fields[first + Native.FIELD_NUMBER] = number;
        Transfer transfer =
            new Transfer(this, source.retainAll(), send.listener());

        transfers.put(number, transfer);
        return transfer;
    }

    /**
     * Posts the first sends of a batch. Returns the error of the first send
     * that is not posted, or null.
     */
    private UcxpoolException post(Batch batch, int count, long[] fields,
                                  long[] requests) {
        Object[] lists = new Object[count];
        Object[] metadata = new Object[count];
        UcxpoolException refusal = null;

        for (int i = 0; i < count; i++) {
            lists[i] = batch.get(i).source().list();
            metadata[i] = batch.get(i).metadata();
        }
        /* Handles are not released while this monitor is held. */
        synchronized (handles) {
            for (int i = 0; i < count; i++) {
                Channel channel = batch.get(i).channel();

                if (channels.get(channel.number()) != channel) {
                    refusal = channel.closed();
                    count = i;
                }
            }
            int status = Native.post(handle, count, fields, lists, metadata,
                                     requests);

            return status < 0 ? UcxpoolException.ofLastCall(status) : refusal;
        }
    }

    Transfer receive(long message, Source target, Transfer.Listener listener)
            throws UcxpoolException {
        enter();
        try {
            return start(target, listener, (into, number) ->
                Native.receive(message, into.list(), into.count(), number,
                               0));
        } finally {
            leave();
        }
    }

    void cancel(long request) {
        try {
            enter();
        } catch (UcxpoolException e) {
            /* It was freed together with the pool. */
            return;
        }
        Native.cancel(request);
        leave();
    }

    void lengths(long message, long[] lengths) {
        try {
            enter();
        } catch (UcxpoolException e) {
            throw new IllegalStateException("the message's pool is closed",
                                            e);
        }
        Native.lengths(message, lengths, lengths.length);
        leave();
    }

    void refuse(long message, String reason) {
        try {
            enter();
        } catch (UcxpoolException.Closed e) {
            /* It was freed together with the pool. */
            return;
        } catch (UcxpoolException e) {
            throw new AssertionError(e);
        }
        Native.refuse(message, Native.bytes(reason));
        leave();
    }

    /* --- polling --------------------------------------------------------- */

    /**
     * Make progress and report events. An event loop needs no other call. While
     * another thread polls, waits until that thread has found an event.
     * Interrupting the thread does not end the wait; {@link #wakeup} does.
     *
     * @param timeout the maximum time to wait if nothing happens
     * @param unit the unit of the timeout
     * @return the number of events
     * @throws UcxpoolException the pool is closed
     */
    public int poll(long timeout, TimeUnit unit) throws UcxpoolException {
        int[] count = new int[1];
        boolean isInterrupted = Thread.interrupted();

        try {
            take(() -> false, unit.toNanos(timeout), count);
            return count[0];
        } finally {
            if (isInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** End the wait of the thread that polls. */
    public void wakeup() {
        try {
            enter();
        } catch (UcxpoolException e) {
            return;
        }
        Native.wake(wakeDescriptor);
        leave();
    }

    /**
     * Polls until the condition holds. Returns false if the timeout expired
     * first.
     */
    boolean await(BooleanSupplier isThere, long timeoutNs)
            throws UcxpoolException {
        long start = System.nanoTime();
        long left = timeoutNs;
        boolean isInterrupted = false;

        try {
            while (!isThere.getAsBoolean()) {
                if (left <= 0) {
                    return false;
                }
                /* The flag must be cleared, because every further wait would
                 * end at once. */
                isInterrupted |= Thread.interrupted();
                take(isThere, left, null);
                left = timeoutNs - (System.nanoTime() - start);
            }
            return true;
        } finally {
            if (isInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /**
     * Does one round of polling as the leader, or waits while another thread
     * leads.
     */
    private void take(BooleanSupplier isThere, long timeoutNs, int[] count)
            throws UcxpoolException {
        long wait = Math.min(timeoutNs, LONGEST_NS);

        enter();
        try {
            if (!lead(isThere, wait)) {
                return;
            }
            try {
                int num = Native.poll(handle, handles, wakeDescriptor,
                                      recordsAddress, RECORDS_SIZE,
                                      isThere.getAsBoolean() ? 0 : wait);

                dispatch(num);
                if (count != null) {
                    count[0] = num;
                }
            } finally {
                synchronized (turn) {
                    leader = null;
                    turn.notifyAll();
                }
            }
        } finally {
            leave();
        }
    }

    /**
     * Becomes the leader. Returns false if another thread leads and has
     * finished a round.
     */
    private boolean lead(BooleanSupplier isThere, long timeoutNs) {
        synchronized (turn) {
            if (leader == Thread.currentThread()) {
                throw new IllegalStateException(
                    "a handler must not wait: it runs in the polling thread");
            }
            if (leader == null) {
                leader = Thread.currentThread();
                return true;
            }
            if (!isThere.getAsBoolean()) {
                try {
                    /* 0 would mean forever. */
                    turn.wait(timeoutNs / 1000000 + 1);
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                }
            }
            return false;
        }
    }

    /** Reports all events, even if a handler throws. */
    private void dispatch(int num) {
        RuntimeException thrown = null;
        int at = 0;

        numEnded = 0;
        for (int i = 0; i < num; i++) {
            int size = (int) records.getLong(at + 8);

            try {
                dispatchOne(at);
            } catch (RuntimeException e) {
                thrown = e;
            }
            at += size;
        }
        if (numEnded > 0) {
            Native.release(ended, numEnded);
        }
        if (thrown != null) {
            throw thrown;
        }
    }

    private void dispatchOne(int at) {
        int status = records.getInt(at + 4);
        long number = records.getLong(at + 16);
        long object = records.getLong(at + 24);
        long tag = records.getLong(at + 32);
        long length = records.getLong(at + 40);
        int numSegments = (int) records.getLong(at + 48);
        byte[] text = new byte[(int) records.getLong(at + 56)];

        records.get(at + Native.RECORD_HEADER, text);
        switch (records.getInt(at)) {
        case Native.RECORD_ENDED:
            noteEnded(object);
            transfers.remove(number).finish(Status.of(status),
                                            Native.text(text), length);
            break;
        case Native.RECORD_MESSAGE:
            arrived(number, object, tag, length, numSegments, text);
            break;
        case Native.RECORD_STATE:
            changed(number, status, (int) length, Native.text(text));
            break;
        case Native.RECORD_CALLER:
            acceptAll(object);
            break;
        default:
            throw new AssertionError(records.getInt(at));
        }
    }

    private void noteEnded(long request) {
        if (numEnded == ended.length) {
            ended = Arrays.copyOf(ended, 2 * numEnded);
        }
        ended[numEnded++] = request;
    }

    private void arrived(long number, long message, long tag, long length,
                         int numSegments, byte[] metadata) {
        Channel channel;

        synchronized (handles) {
            channel = channels.get(number);
        }
        if (channel == null) {
            Native.refuse(message, Native.bytes("the channel was closed"));
        } else {
            channel.put(new Message(this, channel, message, tag, length,
                                    numSegments, metadata));
        }
    }

    private void changed(long number, int status, int state, String reason) {
        Channel channel;

        synchronized (handles) {
            channel = channels.get(number);
        }
        if (channel != null) {
            channel.change(Channel.State.values()[state], Status.of(status),
                           reason);
        }
    }

    /* --- statistics ------------------------------------------------------ */

    /**
     * Returns the pool's statistics, in one snapshot.
     *
     * @return numbers by the names in ucxpool/stats.h, in the same order
     * @throws UcxpoolException the pool is closed
     */
    public Map<String, Long> stats() throws UcxpoolException {
        enter();
        try {
            return statsOf(handle, statNames, false);
        } finally {
            leave();
        }
    }

    Map<String, Long> stats(Channel channel) throws UcxpoolException {
        enter();
        try {
            synchronized (channel) {
                return statsOf(channel.handle(), channelStatNames, true);
            }
        } finally {
            leave();
        }
    }

    /**
     * Returns the pool's histograms of latencies.
     *
     * @return histograms by the names in ucxpool/stats.h, "send_map_eager"
     * @throws UcxpoolException the pool is closed
     */
    public Map<String, Histogram> histograms() throws UcxpoolException {
        Map<String, Histogram> histograms = new LinkedHashMap<>();

        enter();
        try {
            for (int i = 0; i < Native.histogramCount(); i++) {
                Object[] texts = new Object[4];
                long[] values = new long[Native.HISTOGRAM_VALUES];

                check(Native.histogramRead(handle, i, texts, values));
                histograms.put(text(texts[0]), new Histogram(
                    text(texts[1]), text(texts[2]), text(texts[3]), values[0],
                    values[1], Arrays.copyOfRange(values, 2, values.length)));
            }
        } finally {
            leave();
        }
        return histograms;
    }

    private static String text(Object bytes) {
        return Native.text((byte[]) bytes);
    }

    private static String[] statNames(boolean ofChannel) {
        String[] names = new String[Native.statsCount(ofChannel)];

        for (int i = 0; i < names.length; i++) {
            names[i] = Native.text(Native.statsName(i, ofChannel));
        }
        return names;
    }

    private static Map<String, Long> statsOf(long handle, String[] names,
                                             boolean ofChannel)
            throws UcxpoolException {
        long[] values = new long[names.length];
        Map<String, Long> stats = new LinkedHashMap<>();

        check(Native.statsRead(handle, values, ofChannel));
        for (int i = 0; i < values.length; i++) {
            stats.put(names[i], values[i]);
        }
        return stats;
    }

    /* --- the end --------------------------------------------------------- */

    /**
     * Close the pool. Transfers in progress end as canceled, and peers are
     * notified. The memory is freed after the last buffer has been released.
     * Handlers must not call this method.
     */
    @Override
    public void close() {
        List<Channel> open;
        List<Listener> listening;
        long start = System.nanoTime();

        synchronized (handles) {
            if (isClosed) {
                return;
            }
            isClosing = true;
            open = new ArrayList<>(channels.values());
            listening = new ArrayList<>(listeners.values());
        }
        for (Listener listener : listening) {
            listener.close();
        }
        for (Channel channel : open) {
            channel.abort();
        }
        try {
            await(() -> transfers.isEmpty(),
                  CLOSE_NS - (System.nanoTime() - start));
        } catch (UcxpoolException e) {
            /* Another thread has already closed the pool. */
            return;
        }
        synchronized (handles) {
            if (isClosed) {
                return;
            }
            isClosed = true;
        }
        Native.wake(wakeDescriptor);
        leave();
    }
}
