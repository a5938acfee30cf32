package org.ucxpool;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;

/**
 * Bounce buffers of one size, made of the pool's registered blocks: what is
 * written into one is sent in place, and a message is received in place. It has
 * the shape of Spark RAPIDS' manager of that name, so that a transport that was
 * written for that one can be moved to this.
 *
 * <p>The memory is taken once, at the start, and is the pool's again when the
 * manager is closed and the last buffer has come back.
 */
public final class BounceBufferManager implements AutoCloseable {
    private final String name;
    private final int bufferSize;
    private final int numBuffers;
    private final Buffer root;
    private final BitSet free = new BitSet();
    private boolean isClosed;

    /**
     * Takes the memory.
     *
     * @param pool whose blocks; its settings SEND_SHARE and RECV_SHARE leave
     *        some
     * @param name for errors
     * @param bufferSize bytes of a buffer
     * @param numBuffers how many there are
     * @throws UcxpoolException.NoMemory the pool has not so many blocks left
     * @throws UcxpoolException another error
     * @throws IllegalArgumentException there are none, or more than 2 GiB
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
     * How long a buffer is.
     *
     * @return bytes
     */
    public int bufferSize() {
        return bufferSize;
    }

    /**
     * How many can be acquired now.
     *
     * @return their number
     */
    public synchronized int numFree() {
        return free.cardinality();
    }

    /**
     * All of them, for whoever registers the memory with other hardware.
     *
     * @return the memory, which stays the manager's
     */
    public Buffer rootBuffer() {
        return root;
    }

    /**
     * Acquire some, or none, without waiting.
     *
     * @param count how many, 1 or more
     * @return as many, or an empty list when fewer are free
     * @throws IllegalArgumentException there are not so many at all
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
     * Acquire some when as many are free.
     *
     * @param count how many, 1 or more
     * @return as many
     * @throws IllegalArgumentException there are not so many at all
     * @throws IllegalStateException the manager is closed, or was closed
     *         meanwhile
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
     * Give one back; the same as to close it.
     *
     * @param buffer one of this manager
     * @throws IllegalArgumentException it is another's
     * @throws IllegalStateException it was given back before
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

    /** Nothing can be acquired any more. */
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
