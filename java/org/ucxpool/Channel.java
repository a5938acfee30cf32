package org.ucxpool;

import java.util.ArrayDeque;
import java.util.Queue;
import java.util.concurrent.TimeUnit;

/**
 * The connection to one peer. It may be sent to at once: what is sent waits
 * until the connection stands.
 */
public final class Channel implements AutoCloseable {
    /** What becomes of a channel. */
    public enum State {
        /** The connection is being made. */
        CONNECTING,
        /** Messages go to and fro. */
        OPEN,
        /** One of both has closed it. */
        CLOSED,
        /** It has failed. */
        FAILED
    }

    /** Told of what comes by a channel, by the thread that polls. */
    public interface Handler {
        /**
         * A message has come.
         *
         * @param message to be received or refused, now or later
         */
        void arrived(Message message);

        /**
         * The channel has opened, or has ended: once each. Messages that came
         * before the end are told of before it. An ended channel is to be
         * closed, all the same.
         *
         * @param channel the channel
         * @param state what it is now
         * @param reason why it failed, or ""
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

    /** What it is in the library, where that is made after it. */
    synchronized void setHandle(long made) {
        handle = made;
    }

    synchronized long handle() throws UcxpoolException {
        if (handle == 0) {
            throw UcxpoolException.of(Status.CLOSED,
                                      "this side has closed the channel");
        }
        return handle;
    }

    /**
     * What it is to the program.
     *
     * @return what was attached last, or null
     */
    public synchronized Object attachment() {
        return attachment;
    }

    /**
     * Note what it is to the program.
     *
     * @param object anything
     */
    public synchronized void attach(Object object) {
        attachment = object;
    }

    /**
     * Have messages handled where they arrive, in place of
     * {@link #receive receive()}. What has arrived before is handed over at
     * once, by the thread that calls this, and so is the state if it is not
     * connecting any more.
     *
     * @param handler told of messages and of the channel's state
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
            /* A channel that was accepted is open, and an end comes twice
             * where messages had to wait for room. */
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
     * What it is now, as far as polling has shown.
     *
     * @return the state
     */
    public State state() {
        return state;
    }

    /**
     * Why it has ended.
     *
     * @return null while it has not
     */
    public synchronized UcxpoolException failure() {
        if (state == State.FAILED) {
            return UcxpoolException.of(status, reason);
        }
        if (state == State.CLOSED) {
            return UcxpoolException.of(Status.CLOSED,
                                       "one of both has closed the channel");
        }
        return null;
    }

    /**
     * Wait until it is open.
     *
     * @param timeout how long at most
     * @param unit of the timeout
     * @return false if the time was over first
     * @throws UcxpoolException it has ended
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
     * Send.
     *
     * @param source what; held until the end, and not to be changed
     * @param tag for the receiver
     * @param metadata up to MAX_METADATA bytes (a setting) that come with it,
     *        or null
     * @param listener told of the end, or null
     * @return the send, under way
     * @throws UcxpoolException it cannot begin
     */
    public Transfer send(Source source, long tag, byte[] metadata,
                         Transfer.Listener listener) throws UcxpoolException {
        return pool.send(this, source, tag, metadata, listener);
    }

    /**
     * Send.
     *
     * @param source what; held until the end, and not to be changed
     * @param tag for the receiver
     * @return the send, under way
     * @throws UcxpoolException it cannot begin
     */
    public Transfer send(Source source, long tag) throws UcxpoolException {
        return send(source, tag, null, null);
    }

    /**
     * Wait for the next message.
     *
     * @param timeout how long at most
     * @param unit of the timeout
     * @return the message, or null if the time was over first
     * @throws UcxpoolException the channel has ended, and all that came by it
     *         has been taken
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
     * What carries its bytes.
     *
     * @return "map", "ucx", or "" while that is not chosen
     */
    public String wire() {
        int[] numbers = new int[3];
        Object[] texts = new Object[4];

        query(numbers, texts);
        return numbers[2] == 1 ? "map" : numbers[2] == 2 ? "ucx" : "";
    }

    /**
     * Why that carries its bytes.
     *
     * @return a sentence
     */
    public String wireReason() {
        return text(1);
    }

    /**
     * This end of the connection.
     *
     * @return host and port, in numbers
     */
    public String localAddress() {
        return text(2);
    }

    /**
     * The other end of the connection.
     *
     * @return host and port, in numbers
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

    /** Close it when what was sent has come to its end. Does not wait. */
    @Override
    public void close() {
        close(false);
    }

    /** Close it at once: what is under way ends as canceled. */
    public void abort() {
        close(true);
    }

    private void close(boolean atOnce) {
        synchronized (this) {
            if (handle == 0) {
                return;
            }
            pool.release(this, handle, atOnce);
            /* To their sender the channel has ended; here they are freed. */
            while (!arrived.isEmpty()) {
                arrived.remove().refuse("the channel was closed");
            }
            handle = 0;
            state = State.CLOSED;
        }
    }
}
