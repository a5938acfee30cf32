package org.ucxpool;

import java.util.ArrayDeque;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.TimeUnit;

/**
 * A channel is the connection to one peer. Sends may be posted at once; they
 * wait until the connection is established.
 */
public final class Channel implements AutoCloseable {
    /** The state of a channel. */
    public enum State {
        /** The connection is being established. */
        CONNECTING,
        /** Messages can be exchanged. */
        OPEN,
        /** This side or the peer has closed the channel. */
        CLOSED,
        /** The channel has failed. */
        FAILED
    }

    /**
     * Handles the messages and states of a channel. Its methods are called in
     * the thread that polls.
     */
    public interface Handler {
        /**
         * Called when a message has arrived.
         *
         * @param message the message, which the handler must receive or refuse,
         *        now or later
         */
        void arrived(Message message);

        /**
         * Called when the channel has opened and when it has ended, once for
         * each. Messages that arrived before the end are reported before the
         * end. The program must close the channel even after it has ended.
         *
         * @param channel the channel
         * @param state its new state
         * @param reason why the channel failed, or ""
         */
        void changed(Channel channel, State state, String reason);
    }

    private final Pool pool;
    private final long number;
    private final Queue<Message> arrived = new ArrayDeque<>();
    private volatile State state;
    private volatile Status status = Status.OK;
    private volatile String reason = "";
    private Handler handler;
    private long handle;
    private Object attachment;

    Channel(Pool pool, long handle, long number, State state) {
        this.pool = pool;
        this.handle = handle;
        this.number = number;
        this.state = state;
    }

    long number() {
        return number;
    }

    /** Set the native handle, if the handle is created after this object. */
    synchronized void setHandle(long made) {
        handle = made;
    }

    synchronized long handle() throws UcxpoolException {
        if (handle == 0) {
            throw closed();
        }
        return handle;
    }

    UcxpoolException closed() {
        return UcxpoolException.of(Status.CLOSED,
                                   "this side has closed the channel");
    }

    /** Returns the handle if the channel belongs to this pool. */
    long handleOf(Pool owner) throws UcxpoolException {
        if (owner != pool) {
            throw UcxpoolException.of(Status.INVALID_PARAM,
                                      "the channel belongs to another pool");
        }
        return handle();
    }

    /**
     * Returns the object that the program has attached.
     *
     * @return the last attached object, or null
     */
    public synchronized Object attachment() {
        return attachment;
    }

    /**
     * Attach an object.
     *
     * @param object any object
     */
    public synchronized void attach(Object object) {
        attachment = object;
    }

    /**
     * Pass messages to a handler when they arrive, instead of {@link #receive
     * receive()}. The calling thread first passes the messages that have
     * already arrived, and the state unless the channel is connecting.
     *
     * @param handler handles messages and the channel's state
     */
    public synchronized void handle(Handler handler) {
        this.handler = handler;
        if (state == State.OPEN) {
            handler.changed(this, state, reason);
        }
        while (!arrived.isEmpty()) {
            handler.arrived(arrived.remove());
        }
        if (hasEnded()) {
            handler.changed(this, state, reason);
        }
    }

    void put(Message message) {
        Handler told;

        synchronized (this) {
            told = handler;
            if (told == null) {
                arrived.add(message);
                return;
            }
        }
        told.arrived(message);
    }

    void change(State to, Status why, String text) {
        Handler told;

        synchronized (this) {
            /*
             * An accepted channel is already open. The end is reported twice if
             * messages had to wait for space.
             */
            if (to == state || hasEnded()) {
                return;
            }
            state = to;
            status = why;
            reason = text;
            told = handler;
        }
        if (told != null) {
            told.changed(this, to, text);
        }
    }

    /**
     * Returns the state, as of the last poll.
     *
     * @return the state
     */
    public State state() {
        return state;
    }

    /**
     * Returns the reason why the channel has ended.
     *
     * @return the error, or null if the channel has not ended
     */
    public synchronized UcxpoolException failure() {
        if (state == State.FAILED) {
            return UcxpoolException.of(status, reason);
        }
        if (state == State.CLOSED) {
            return UcxpoolException.of(Status.CLOSED,
                                       "this side or the peer has closed the "
                                       + "channel");
        }
        return null;
    }

    /**
     * Wait until the channel is open.
     *
     * @param timeout the maximum time to wait
     * @param unit the unit of the timeout
     * @return false if the timeout expired first
     * @throws UcxpoolException the channel has ended
     */
    public boolean await(long timeout, TimeUnit unit)
            throws UcxpoolException {
        if (!pool.await(() -> state != State.CONNECTING,
                        unit.toNanos(timeout))) {
            return false;
        }
        throwIfEnded();
        return true;
    }

    private void throwIfEnded() throws UcxpoolException {
        UcxpoolException failure = failure();

        if (failure != null) {
            throw failure;
        }
    }

    /**
     * Send a message.
     *
     * @param source the data, held until the end; it must not be changed
     * @param tag the tag for the receiver
     * @param metadata up to MAX_METADATA bytes (a setting) for the receiver, or
     *        null
     * @param listener called when the transfer ends, or null
     * @return the send, in progress
     * @throws UcxpoolException the send cannot be posted
     */
    public Transfer send(Source source, long tag, byte[] metadata,
                         Transfer.Listener listener) throws UcxpoolException {
        return pool.send(this, source, tag, metadata, listener);
    }

    /**
     * Send a message.
     *
     * @param source the data, held until the end; it must not be changed
     * @param tag the tag for the receiver
     * @return the send, in progress
     * @throws UcxpoolException the send cannot be posted
     */
    public Transfer send(Source source, long tag) throws UcxpoolException {
        return send(source, tag, null, null);
    }

    /**
     * Wait for the next message.
     *
     * @param timeout the maximum time to wait
     * @param unit the unit of the timeout
     * @return the message, or null if the timeout expired first
     * @throws UcxpoolException the channel has ended, and all of its messages
     *         have been received
     */
    public Message receive(long timeout, TimeUnit unit)
            throws UcxpoolException {
        pool.await(() -> hasArrived() || hasEnded(), unit.toNanos(timeout));
        synchronized (this) {
            if (!arrived.isEmpty()) {
                return arrived.remove();
            }
        }
        throwIfEnded();
        return null;
    }

    private synchronized boolean hasArrived() {
        return !arrived.isEmpty();
    }

    private boolean hasEnded() {
        return state == State.CLOSED || state == State.FAILED;
    }

    /**
     * Returns the wire of the channel.
     *
     * @return "map", "ucx", or "" before it is chosen
     */
    public String wire() {
        int[] numbers = new int[3];
        Object[] texts = new Object[4];

        query(numbers, texts);
        return numbers[2] == 1 ? "map" : numbers[2] == 2 ? "ucx" : "";
    }

    /**
     * Returns the reason why this wire was chosen.
     *
     * @return the reason, in one sentence
     */
    public String wireReason() {
        return text(1);
    }

    /**
     * Returns the local address of the connection.
     *
     * @return host and port, in numeric form
     */
    public String localAddress() {
        return text(2);
    }

    /**
     * Returns the peer's address of the connection.
     *
     * @return host and port, in numeric form
     */
    public String remoteAddress() {
        return text(3);
    }

    private String text(int index) {
        Object[] texts = new Object[4];

        query(new int[3], texts);
        return texts[index] == null ? ""
                                    : Native.text((byte[]) texts[index]);
    }

    private synchronized void query(int[] numbers, Object[] texts) {
        if (handle != 0) {
            Native.channelQuery(handle, numbers, texts);
        }
    }

    /**
     * Returns the channel's statistics, in one snapshot.
     *
     * @return numbers by the names in ucxpool/stats.h, in the same order
     * @throws UcxpoolException this side has closed the channel
     */
    public Map<String, Long> stats() throws UcxpoolException {
        return pool.stats(this);
    }

    /** Close the channel after all posted sends have ended. Does not wait. */
    @Override
    public void close() {
        close(false);
    }

    /** Close the channel at once. Transfers in progress end as canceled. */
    public void abort() {
        close(true);
    }

    private void close(boolean atOnce) {
        synchronized (this) {
            if (handle == 0) {
                return;
            }
            pool.release(this, handle, atOnce);
            /* Free the messages. The peer is informed by the end of the
             * channel. */
            while (!arrived.isEmpty()) {
                arrived.remove().refuse("the channel was closed");
            }
            handle = 0;
            state = State.CLOSED;
        }
    }
}
