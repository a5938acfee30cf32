package org.ucxpool.spark;

import io.netty.buffer.Unpooled;

import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;

import org.apache.spark.network.buffer.ManagedBuffer;

/**
 * A block in the form that Spark uses. Its parts are released with the last
 * reference.
 */
final class ReceivedBlock extends ManagedBuffer {
    private final List<Part> parts;
    private final long size;
    private final AtomicInteger references = new AtomicInteger(1);

    /** Creates a block, which then owns the parts. */
    ReceivedBlock(List<Part> parts) {
        long sum = 0;

        for (Part part : parts) {
            sum += part.length;
        }
        this.parts = parts;
        this.size = sum;
    }

    @Override
    public long size() {
        return size;
    }

    @Override
    public ByteBuffer nioByteBuffer() throws IOException {
        if (parts.size() == 1 && parts.get(0).view() != null) {
            return parts.get(0).view();
        }
        ByteBuffer all = ByteBuffer.allocate(Math.toIntExact(size));

        for (Part part : parts) {
            part.copyTo(all);
        }
        return all.flip();
    }

    @Override
    public InputStream createInputStream() {
        return new PartsInputStream(parts.iterator());
    }

    /**
     * Reads the parts one after the other. Each part is opened only when it is
     * needed, because Spark attributes an error while reading to the block, but
     * an error while opening to itself.
     */
    private static final class PartsInputStream extends InputStream {
        private final Iterator<Part> parts;
        private InputStream current = InputStream.nullInputStream();

        PartsInputStream(Iterator<Part> parts) {
            this.parts = parts;
        }

        private boolean next() throws IOException {
            if (!parts.hasNext()) {
                return false;
            }
            current = parts.next().open();
            return true;
        }

        @Override
        public int read() throws IOException {
            do {
                int value = current.read();

                if (value >= 0) {
                    return value;
                }
            } while (next());
            return -1;
        }

        @Override
        public int read(byte[] bytes, int offset, int length)
                throws IOException {
            if (length == 0) {
                return 0;
            }
            do {
                int count = current.read(bytes, offset, length);

                if (count > 0) {
                    return count;
                }
            } while (next());
            return -1;
        }

        @Override
        public int available() throws IOException {
            return current.available();
        }
    }

    @Override
    public ManagedBuffer retain() {
        references.incrementAndGet();
        return this;
    }

    @Override
    public ManagedBuffer release() {
        if (references.decrementAndGet() == 0) {
            parts.forEach(Part::release);
        }
        return this;
    }

    @Override
    public Object convertToNetty() throws IOException {
        return Unpooled.wrappedBuffer(nioByteBuffer());
    }

    @Override
    public Object convertToNettyForSsl() throws IOException {
        return convertToNetty();
    }

    @Override
    public String toString() {
        return "ReceivedBlock[" + size + " bytes in " + parts.size()
            + " parts]";
    }
}
