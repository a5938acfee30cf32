package org.ucxpool;

import java.util.concurrent.TimeUnit;

/** One send or receive, under way or at its end. */
public final class Transfer {
    /** Told once when a transfer has ended, by the thread that polls. */
    @FunctionalInterface
    public interface Listener {
        /**
         * It has ended. May start other transfers; must not wait for any.
         *
         * @param transfer the one that has ended
         */
        void ended(Transfer transfer);
    }

    private final Pool pool;
    private final Object[] held;
    private final Listener listener;
    private long request;
    private volatile boolean isDone;
    private Status status = Status.INPROGRESS;
    private String detail = "";
    private long length;

    Transfer(Pool pool, Object[] held, Listener listener) {
        this.pool = pool;
        this.held = held;
        this.listener = listener;
    }

    /* It may have ended by now: another thread polls. */
    synchronized void start(long handle) {
        request = handle;
    }

    /** It could not be started. */
    void drop() {
        Source.releaseAll(held);
    }

    /** The request is released after this. */
    void finish(Status how, String why, long bytes) {
        synchronized (this) {
            status = how;
            detail = why;
            length = bytes;
            isDone = true;
        }
        Source.releaseAll(held);
        if (listener != null) {
            listener.ended(this);
        }
    }

    /**
     * Has it ended?
     *
     * @return true once it has, however it did
     */
    public boolean isDone() {
        return isDone;
    }

    /**
     * How it has ended.
     *
     * @return INPROGRESS until then
     */
    public synchronized Status status() {
        return status;
    }

    /**
     * How many bytes the message has.
     *
     * @return bytes; 0 until the end
     */
    public synchronized long length() {
        return length;
    }

    /**
     * Why it has failed.
     *
     * @return null while it is under way, and if it has not
     */
    public synchronized UcxpoolException failure() {
        if (status == Status.OK || status == Status.INPROGRESS) {
            return null;
        }
        return UcxpoolException.of(status, detail);
    }

    /**
     * Wait for its end.
     *
     * @param timeout how long at most
     * @param unit of the timeout
     * @return false if the time was over first
     * @throws UcxpoolException it has failed
     */
    public boolean await(long timeout, TimeUnit unit)
            throws UcxpoolException {
        if (!pool.await(() -> isDone, unit.toNanos(timeout))) {
            return false;
        }
        UcxpoolException failure = failure();

        if (failure != null) {
            throw failure;
        }
        return true;
    }

    /**
     * Wait for its end, for as long as it takes.
     *
     * @throws UcxpoolException it has failed
     */
    public void await() throws UcxpoolException {
        await(Long.MAX_VALUE, TimeUnit.NANOSECONDS);
    }

    /** End it early: it ends as canceled, or as it had ended before. */
    public synchronized void cancel() {
        if (!isDone && request != 0) {
            pool.cancel(request);
        }
    }
}
