package org.ucxpool;

import java.nio.ByteBuffer;
import java.util.Objects;

/** An acquired bounce buffer. {@link #close()} returns it to its manager. */
public final class BounceBuffer implements AutoCloseable {
    private final BounceBufferManager manager;
    private final int index;
    private final Buffer root;
    private final int offset;
    private final int size;
    private boolean isClosed;

    BounceBuffer(BounceBufferManager manager, int index, Buffer root,
                 int size) {
        this.manager = manager;
        this.index = index;
        this.root = root;
        this.offset = index * size;
        this.size = size;
    }

    int index() {
        return index;
    }

    BounceBufferManager manager() {
        return manager;
    }

    /**
     * Returns the size of the buffer.
     *
     * @return bytes, the same for all buffers of a manager
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
        return root.address() + offset;
    }

    /**
     * Returns the memory of the buffer.
     *
     * @return a view, which must not be used after {@link #close()}
     */
    public ByteBuffer byteBuffer() {
        return root.byteBuffer(offset, size);
    }

    /**
     * Add a part of the buffer to a message. Do not close the buffer before the
     * transfer has ended.
     *
     * @param source the message to send
     * @param from first byte
     * @param length bytes
     */
    public void addTo(Source source, int from, int length) {
        Objects.checkFromIndexSize(from, length, size);
        source.add(root, offset + from, length);
    }

    /**
     * Return the buffer to its manager.
     *
     * @throws IllegalStateException the buffer was already returned
     */
    @Override
    public void close() {
        synchronized (this) {
            if (isClosed) {
                throw new IllegalStateException(
                    "the bounce buffer was closed before");
            }
            isClosed = true;
        }
        manager.take(this);
    }
}
