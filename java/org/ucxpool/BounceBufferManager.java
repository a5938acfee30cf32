package org.ucxpool;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;

/**
 * Manages bounce buffers of one size in the pool's registered blocks. The
 * buffers are sent and received in place. The interface is the same as that of
 * the manager of this name in Spark RAPIDS, so that a transport written for
 * Spark RAPIDS can be ported.
 *
 * <p>The constructor allocates the memory. The memory returns to the pool after
 * the manager has been closed and all buffers have been returned.
 */
public final class BounceBufferManager implements AutoCloseable {
    private final String name;
    private final int bufferSize;
    private final int numBuffers;
    private final Buffer root;
    private final BitSet free = new BitSet();
    private boolean isClosed;

    /**
     * Allocates the memory.
     *
     * @param pool the pool whose blocks are used; its settings SEND_SHARE and
     *        RECV_SHARE must leave enough blocks
     * @param name the name of the manager in errors
     * @param bufferSize size of a buffer, in bytes
     * @param numBuffers number of buffers
     * @throws UcxpoolException.NoMemory the pool has too few free blocks
     * @throws UcxpoolException another error
     * @throws IllegalArgumentException the total is 0, or more than 2 GiB
     */
    public BounceBufferManager(Pool pool, String name, int bufferSize,
                               int numBuffers) throws UcxpoolException {
        long size = (long) bufferSize * numBuffers;

        if (bufferSize <= 0 || numBuffers <= 0 || size > Integer.MAX_VALUE) {
            throw new IllegalArgumentException(name + ": " + numBuffers
                + " bounce buffers of " + bufferSize + " bytes");
        }
        this.name = name;
        this.bufferSize = bufferSize;
        this.numBuffers = numBuffers;
        this.root = pool.allocateRegistered((int) size);
        free.set(0, numBuffers);
    }

    /**
     * Returns the size of a buffer.
     *
     * @return bytes
     */
    public int bufferSize() {
        return bufferSize;
    }

    /**
     * Returns the number of free buffers.
     *
     * @return the number
     */
    public synchronized int numFree() {
        return free.cardinality();
    }

    /**
     * Returns the memory of all buffers, so that the caller can register it
     * with other hardware.
     *
     * @return the memory, owned by the manager
     */
    public Buffer rootBuffer() {
        return root;
    }

    /**
     * Acquire all requested buffers or none, without waiting.
     *
     * @param count number of buffers, 1 or more
     * @return the buffers, or an empty list if fewer are free
     * @throws IllegalArgumentException the manager has fewer buffers
     * @throws IllegalStateException the manager is closed
     */
    public synchronized List<BounceBuffer> acquireBuffersNonBlocking(
            int count) {
        checkCount(count);
        if (isClosed) {
            throw new IllegalStateException(name + " is closed");
        }
        List<BounceBuffer> taken = new ArrayList<>(count);

        if (free.cardinality() >= count) {
            while (taken.size() < count) {
                taken.add(takeOne());
            }
        }
        return taken;
    }

    /**
     * Acquire buffers. Waits until enough are free.
     *
     * @param count number of buffers, 1 or more
     * @return the buffers
     * @throws IllegalArgumentException the manager has fewer buffers
     * @throws IllegalStateException the manager is closed, or was closed
     *         during the wait
     * @throws InterruptedException the thread was interrupted while it waited
     */
    public synchronized List<BounceBuffer> acquireBuffersBlocking(int count)
            throws InterruptedException {
        List<BounceBuffer> taken;

        while ((taken = acquireBuffersNonBlocking(count)).isEmpty()) {
            wait();
        }
        return taken;
    }

    private void checkCount(int count) {
        if (count <= 0 || count > numBuffers) {
            throw new IllegalArgumentException(name + ": " + count + " of "
                + numBuffers + " bounce buffers");
        }
    }

    private BounceBuffer takeOne() {
        int index = free.nextSetBit(0);

        free.clear(index);
        root.retain();
        return new BounceBuffer(this, index, root, bufferSize);
    }

    /**
     * Return a buffer; the same as closing the buffer.
     *
     * @param buffer a buffer of this manager
     * @throws IllegalArgumentException the buffer belongs to another manager
     * @throws IllegalStateException the buffer was already returned
     */
    public void freeBuffer(BounceBuffer buffer) {
        if (buffer.manager() != this) {
            throw new IllegalArgumentException(
                "a bounce buffer of another manager than " + name);
        }
        buffer.close();
    }

    void take(BounceBuffer buffer) {
        synchronized (this) {
            free.set(buffer.index());
            notifyAll();
        }
        root.release();
    }

    /** Closes the manager. No more buffers can be acquired. */
    @Override
    public void close() {
        synchronized (this) {
            if (isClosed) {
                return;
            }
            isClosed = true;
            notifyAll();
        }
        root.release();
    }
}
