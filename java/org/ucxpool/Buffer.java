package org.ucxpool;

import java.nio.ByteBuffer;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Memory of a pool, outside the Java heap, counted by references: it is given
 * back when each {@link #retain()} and the allocation itself have had their
 * {@link #release()}. A transfer holds the buffers that it reads or writes by
 * itself, for as long as it is under way.
 *
 * <p>What {@link #byteBuffer()} gives is a view, which is invalid after the
 * last release: reading it then may end the process.
 */
public final class Buffer implements AutoCloseable {
    private final Pool pool;
    private final long address;
    private final int size;
    private final boolean isRegistered;
    private final ByteBuffer view;
    private final AtomicInteger references = new AtomicInteger(1);

    Buffer(Pool pool, long address, int size, boolean isRegistered) {
        this.pool = pool;
        this.address = address;
        this.size = size;
        this.isRegistered = isRegistered;
        this.view = Native.view(address, size);
    }

    /**
     * How long it is.
     *
     * @return bytes
     */
    public int size() {
        return size;
    }

    /**
     * Where it is, for libraries of C.
     *
     * @return the address of the first byte
     */
    public long address() {
        return address;
    }

    /**
     * Is it made of registered blocks, which are sent and received in place?
     *
     * @return true if {@link Pool#allocateRegistered} made it
     */
    public boolean isRegistered() {
        return isRegistered;
    }

    /**
     * All of it.
     *
     * @return a view with a position, a limit and a byte order of its own
     */
    public ByteBuffer byteBuffer() {
        return view.duplicate();
    }

    /**
     * A part of it.
     *
     * @param offset first byte
     * @param length bytes
     * @return a view that begins at the offset
     */
    public ByteBuffer byteBuffer(int offset, int length) {
        return view.slice(offset, length);
    }

    /**
     * Hold it.
     *
     * @return this
     * @throws IllegalStateException it has been given back already
     */
    public Buffer retain() {
        if (references.getAndUpdate(n -> n > 0 ? n + 1 : n) == 0) {
            throw new IllegalStateException("the buffer was given back");
        }
        return this;
    }

    /**
     * Let go of it.
     *
     * @throws IllegalStateException it was released more often than retained
     */
    public void release() {
        int before = references.getAndUpdate(n -> n > 0 ? n - 1 : n);

        if (before == 0) {
            throw new IllegalStateException(
                "the buffer was released more often than retained");
        }
        if (before == 1) {
            pool.free(address, isRegistered);
        }
    }

    /** The same as {@link #release()}. */
    @Override
    public void close() {
        release();
    }
}
