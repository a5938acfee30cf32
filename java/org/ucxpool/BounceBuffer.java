package org.ucxpool;

import java.nio.ByteBuffer;
import java.util.Objects;

/**
 * A bounce buffer that was acquired, to be given back by {@link #close()}.
 */
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
     * How long it is.
     *
     * @return bytes, the same for all of a manager
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
        return root.address() + offset;
    }

    /**
     * Its memory.
     *
     * @return a view, not to be used after {@link #close()}
     */
    public ByteBuffer byteBuffer() {
        return root.byteBuffer(offset, size);
    }

    /**
     * Add a part of it to what is sent. It is not to be closed before the
     * transfer has ended.
     *
     * @param source what is sent
     * @param from first byte
     * @param length bytes
     */
    public void addTo(Source source, int from, int length) {
        Objects.checkFromIndexSize(from, length, size);
        source.add(root, offset + from, length);
    }

    /**
     * Give it back to its manager.
     *
     * @throws IllegalStateException it was given back before
     */
    @Override
    public void close() {
        synchronized (this) {
            if (isClosed) {
                throw new IllegalStateException(
                    "the bounce buffer was closed too many times");
            }
            isClosed = true;
        }
        manager.take(this);
    }
}
