package org.ucxpool;

import java.nio.ByteBuffer;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Memory of a pool, outside the Java heap, with a reference count. The memory
 * is freed after one {@link #release()} for the allocation and one for each
 * {@link #retain()}. A transfer holds references to its buffers until it has
 * ended.
 *
 * <p>{@link #byteBuffer()} returns a view, which is invalid after the last
 * release. Accessing the view after that may crash the process.
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
     * Returns the size of the buffer.
     *
     * @return bytes
     */
    public int size() {
        return size;
    }

    /**
     * Returns the address of the buffer, for native libraries.
     *
     * @return the address of the first byte
     */
    public long address() {
        return address;
    }

    /**
     * Returns whether the buffer consists of registered blocks, which are sent
     * and received in place.
     *
     * @return true if {@link Pool#allocateRegistered} allocated it
     */
    public boolean isRegistered() {
        return isRegistered;
    }

    /**
     * Returns a view of the whole buffer.
     *
     * @return a view with its own position, limit and byte order
     */
    public ByteBuffer byteBuffer() {
        return view.duplicate();
    }

    /**
     * Returns a view of a part of the buffer.
     *
     * @param offset first byte
     * @param length bytes
     * @return a view that begins at the offset
     */
    public ByteBuffer byteBuffer(int offset, int length) {
        return view.slice(offset, length);
    }

    /**
     * Add a reference.
     *
     * @return this
     * @throws IllegalStateException the buffer has been freed
     */
    public Buffer retain() {
        if (references.getAndUpdate(n -> n > 0 ? n + 1 : n) == 0) {
            throw new IllegalStateException("the buffer was freed");
        }
        return this;
    }

    /**
     * Release a reference.
     *
     * @throws IllegalStateException the buffer has already been freed
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

    /** Does the same as {@link #release()}. */
    @Override
    public void close() {
        release();
    }
}
