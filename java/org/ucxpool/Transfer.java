package org.ucxpool;

import java.util.concurrent.TimeUnit;

/** A send or receive, in progress or ended. */
public final class Transfer {
    /** Called once when a transfer has ended, in the thread that polls. */
    @FunctionalInterface
    public interface Listener {
        /**
         * Called when the transfer has ended. The method may start other
         * transfers, but must not wait for any.
         *
         * @param transfer the transfer
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

    /* The transfer may have ended already, because another thread polls. */
    synchronized void start(long handle) {
        request = handle;
    }

    /**
     * Drops a transfer that could not be started. If the caller has released an
     * object too often, the error is added to the reason.
     *
     * @param reason the error of the start; null if it is not known here
     */
    void drop(Exception reason) {
        try {
            Source.releaseAll(held);
        } catch (IllegalStateException e) {
            if (reason != null) {
                reason.addSuppressed(e);
            }
        }
    }

    /**
     * Ends the transfer. The files are released first: a thread that waits
     * may use them as soon as isDone is set.
     *
     * @throws IllegalStateException the caller has released an object too
     *         often; the transfer has ended nevertheless
     */
    void finish(Status how, String why, long bytes) {
        try {
            Source.releaseAll(held);
        } finally {
            synchronized (this) {
                status = how;
                detail = why;
                length = bytes;
                isDone = true;
            }
            if (listener != null) {
                listener.ended(this);
            }
        }
    }

    /**
     * Returns whether the transfer has ended.
     *
     * @return true if it has ended, with any status
     */
    public boolean isDone() {
        return isDone;
    }

    /**
     * Returns the result of the transfer.
     *
     * @return INPROGRESS until the end
     */
    public synchronized Status status() {
        return status;
    }

    /**
     * Returns the length of the message.
     *
     * @return bytes; 0 until the end
     */
    public synchronized long length() {
        return length;
    }

    /**
     * Returns the reason why the transfer has failed.
     *
     * @return the error, or null if the transfer is in progress or has
     *        succeeded
     */
    public synchronized UcxpoolException failure() {
        if (status == Status.OK || status == Status.INPROGRESS) {
            return null;
        }
        return UcxpoolException.of(status, detail);
    }

    /**
     * Wait for the end of the transfer.
     *
     * @param timeout the maximum time to wait
     * @param unit the unit of the timeout
     * @return false if the timeout expired first
     * @throws UcxpoolException the transfer has failed
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
     * Wait for the end of the transfer, without a timeout.
     *
     * @throws UcxpoolException the transfer has failed
     */
    public void await() throws UcxpoolException {
        await(Long.MAX_VALUE, TimeUnit.NANOSECONDS);
    }

    /**
     * Cancel the transfer. The transfer ends as canceled, unless it has ended
     * already.
     */
    public synchronized void cancel() {
        if (!isDone && request != 0) {
            pool.cancel(request);
        }
    }
}
