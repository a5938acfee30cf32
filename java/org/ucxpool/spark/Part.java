package org.ucxpool.spark;

import java.io.ByteArrayInputStream;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.StandardOpenOption;
import java.util.concurrent.atomic.AtomicInteger;

import org.ucxpool.Buffer;

/** Received bytes of a block, in memory of the pool or in a file. */
abstract class Part {
    final int length;

    Part(int length) {
        this.length = length;
    }

    abstract InputStream open() throws IOException;

    /** Append the bytes to a buffer. */
    abstract void copyTo(ByteBuffer target) throws IOException;

    /** Returns the bytes in memory, or null if they are in a file. */
    abstract ByteBuffer view();

    abstract void release();

    /** Returns a part of a buffer. The part retains the buffer. */
    static Part of(Buffer buffer, int offset, int length) {
        return new InMemory(buffer.retain(), offset, length);
    }

    private static final class InMemory extends Part {
        private final Buffer buffer;
        private final int offset;

        InMemory(Buffer buffer, int offset, int length) {
            super(length);
            this.buffer = buffer;
            this.offset = offset;
        }

        @Override
        ByteBuffer view() {
            return buffer.byteBuffer(offset, length).asReadOnlyBuffer();
        }

        @Override
        InputStream open() {
            return new BufferInputStream(buffer, view());
        }

        @Override
        void copyTo(ByteBuffer target) {
            target.put(view());
        }

        @Override
        void release() {
            buffer.release();
        }
    }

    /**
     * Reads a buffer that may be released at the same time, because threads of
     * a task may continue after the task has ended. The stream holds no
     * reference between two calls, because Spark does not close all streams.
     */
    private static final class BufferInputStream extends InputStream {
        private final Buffer buffer;
        private final ByteBuffer view;

        BufferInputStream(Buffer buffer, ByteBuffer view) {
            this.buffer = buffer;
            this.view = view;
        }

        private void hold() throws IOException {
            try {
                buffer.retain();
            } catch (IllegalStateException e) {
                throw new IOException("the block was released", e);
            }
        }

        @Override
        public int read() throws IOException {
            hold();
            try {
                return view.hasRemaining() ? view.get() & 0xff : -1;
            } finally {
                buffer.release();
            }
        }

        @Override
        public int read(byte[] bytes, int offset, int length)
                throws IOException {
            int count = Math.min(length, view.remaining());

            if (count == 0 && length > 0) {
                return -1;
            }
            hold();
            try {
                view.get(bytes, offset, count);
            } finally {
                buffer.release();
            }
            return count;
        }

        @Override
        public long skip(long count) {
            int skipped =
                (int) Math.max(0, Math.min(count, view.remaining()));

            view.position(view.position() + skipped);
            return skipped;
        }

        @Override
        public int available() {
            return view.remaining();
        }
    }

    /** A file with the bytes of one message for which there was no memory. */
    static final class SpillFile {
        private final File file;
        private final AtomicInteger references = new AtomicInteger(1);

        /** Writes the file. The caller has a reference to it. */
        SpillFile(File file, ByteBuffer bytes) throws IOException {
            this.file = file;
            try (FileChannel out = FileChannel.open(
                     file.toPath(), StandardOpenOption.CREATE,
                     StandardOpenOption.WRITE)) {
                while (bytes.hasRemaining()) {
                    out.write(bytes);
                }
            } catch (IOException e) {
                file.delete();
                throw e;
            }
        }

        /** Returns a part of the file. The part retains the file. */
        Part part(long offset, int length) {
            references.incrementAndGet();
            return new InFile(this, offset, length);
        }

        void release() {
            if (references.decrementAndGet() == 0) {
                file.delete();
            }
        }
    }

    private static final class InFile extends Part {
        private final SpillFile spilled;
        private final long offset;

        InFile(SpillFile spilled, long offset, int length) {
            super(length);
            this.spilled = spilled;
            this.offset = offset;
        }

        @Override
        ByteBuffer view() {
            return null;
        }

        @Override
        InputStream open() throws IOException {
            byte[] bytes = new byte[length];

            copyTo(ByteBuffer.wrap(bytes));
            return new ByteArrayInputStream(bytes);
        }

        @Override
        void copyTo(ByteBuffer target) throws IOException {
            try (RandomAccessFile in =
                     new RandomAccessFile(spilled.file, "r")) {
                byte[] bytes = new byte[length];

                in.seek(offset);
                in.readFully(bytes);
                target.put(bytes);
            }
        }

        @Override
        void release() {
            spilled.release();
        }
    }
}
