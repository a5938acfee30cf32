package org.ucxpool;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * The data of a message: ranges of buffers, of direct byte buffers and of
 * files, in any order. Each range is one segment to the receiver.
 */
public final class Source {
    /* address or offset, length, descriptor + 1 */
    private static final int TRIPLE = 3;

    private long[] list;
    private int count;
    private long length;
    private boolean hasFiles;
    private final List<Object> held = new ArrayList<>();

    /** Creates an empty source: a message without data. */
    public Source() {
        this(4);
    }

    /**
     * Creates an empty source.
     *
     * @param capacity the expected number of ranges
     */
    public Source(int capacity) {
        list = new long[TRIPLE * Math.max(capacity, 1)];
    }

    private Source add(long where, long size, long file) {
        if (TRIPLE * (count + 1) > list.length) {
            list = Arrays.copyOf(list, 2 * list.length);
        }
        list[TRIPLE * count] = where;
        list[TRIPLE * count + 1] = size;
        list[TRIPLE * count + 2] = file;
        count++;
        length += size;
        return this;
    }

    /* Keeps an object of a range. Consecutive ranges usually belong to the same
     * object. */
    private void hold(Object object) {
        if (held.isEmpty() || held.get(held.size() - 1) != object) {
            held.add(object);
        }
    }

    private static void check(long offset, long size, long whole) {
        if (offset < 0 || size < 0 || size > whole - offset) {
            throw new IndexOutOfBoundsException(
                size + " bytes from " + offset + " of " + whole);
        }
    }

    /**
     * Add a range of a buffer.
     *
     * @param buffer the buffer
     * @param offset first byte
     * @param size bytes
     * @return this
     */
    public Source add(Buffer buffer, int offset, int size) {
        check(offset, size, buffer.size());
        hold(buffer);
        return add(buffer.address() + offset, size, 0);
    }

    /**
     * Add a whole buffer.
     *
     * @param buffer the buffer
     * @return this
     */
    public Source add(Buffer buffer) {
        return add(buffer, 0, buffer.size());
    }

    /**
     * Add the remaining bytes of a direct byte buffer.
     *
     * @param buffer the buffer; its position and its limit do not change
     * @return this
     * @throws IllegalArgumentException the buffer is in the Java heap
     */
    public Source add(ByteBuffer buffer) {
        if (!buffer.isDirect()) {
            throw new IllegalArgumentException(
                "a buffer in the Java heap: a direct one is needed");
        }
        hold(buffer);
        return add(Native.addressOf(buffer) + buffer.position(),
                   buffer.remaining(), 0);
    }

    /**
     * Add a range of a file.
     *
     * @param file the file
     * @param offset first byte
     * @param size bytes; if the file is shorter, the transfer fails
     * @return this
     */
    public Source add(DataFile file, long offset, long size) {
        check(offset, size, Long.MAX_VALUE);
        hold(file);
        hasFiles = true;
        return add(offset, size, file.descriptor() + 1L);
    }

    /**
     * Add an empty segment.
     *
     * @return this
     */
    public Source addEmpty() {
        return add(0, 0, 0);
    }

    /**
     * Returns the number of ranges.
     *
     * @return the number
     */
    public int count() {
        return count;
    }

    /**
     * Returns the total length.
     *
     * @return bytes
     */
    public long length() {
        return length;
    }

    boolean hasFiles() {
        return hasFiles;
    }

    long[] list() {
        return list;
    }

    /**
     * Retains the objects of all ranges, and returns them.
     *
     * @throws IllegalStateException an object was freed; none is retained
     */
    Object[] retainAll() {
        Object[] all = held.toArray();
        int num = 0;

        try {
            for (; num < all.length; num++) {
                if (all[num] instanceof Buffer) {
                    ((Buffer) all[num]).retain();
                } else if (all[num] instanceof DataFile) {
                    ((DataFile) all[num]).retain();
                }
            }
        } catch (IllegalStateException e) {
            releaseAll(Arrays.copyOf(all, num));
            throw e;
        }
        return all;
    }

    /**
     * Releases all objects, even if one of them was released too often.
     *
     * @throws IllegalStateException the error of the first such object; the
     *         other errors are added to this error
     */
    static void releaseAll(Object[] all) {
        IllegalStateException thrown = null;

        for (Object object : all) {
            try {
                if (object instanceof Buffer) {
                    ((Buffer) object).release();
                } else if (object instanceof DataFile) {
                    ((DataFile) object).release();
                }
            } catch (IllegalStateException e) {
                if (thrown == null) {
                    thrown = e;
                } else {
                    thrown.addSuppressed(e);
                }
            }
        }
        if (thrown != null) {
            throw thrown;
        }
    }
}
