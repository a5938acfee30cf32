package org.ucxpool;

import java.nio.file.Path;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * A file, open for reading, whose ranges are sent. The file has a reference
 * count like a {@link Buffer}. A transfer holds references to its files.
 */
public final class DataFile implements AutoCloseable {
    private final Path path;
    private final int descriptor;
    private final AtomicInteger references = new AtomicInteger(1);

    private DataFile(Path path, int descriptor) {
        this.path = path;
        this.descriptor = descriptor;
    }

    /**
     * Open a file.
     *
     * @param path the file
     * @return the open file
     * @throws UcxpoolException the file cannot be opened
     */
    public static DataFile open(Path path) throws UcxpoolException {
        Native.load();
        int descriptor =
            Native.fileOpen(Native.bytesOfPath(path.toString()));

        if (descriptor < 0) {
            throw new UcxpoolException(Status.IO, path + ": "
                + Native.text(Native.errorString(-descriptor)));
        }
        return new DataFile(path, descriptor);
    }

    /**
     * Returns the path of the file.
     *
     * @return the path with which the file was opened
     */
    public Path path() {
        return path;
    }

    int descriptor() {
        return descriptor;
    }

    /**
     * Add a reference.
     *
     * @return this
     * @throws IllegalStateException the file is closed
     */
    public DataFile retain() {
        if (references.getAndUpdate(n -> n > 0 ? n + 1 : n) == 0) {
            throw new IllegalStateException(path + " is closed");
        }
        return this;
    }

    /**
     * Release a reference. The last release closes the file.
     *
     * @throws IllegalStateException the file is closed already
     */
    public void release() {
        int before = references.getAndUpdate(n -> n > 0 ? n - 1 : n);

        if (before == 0) {
            throw new IllegalStateException(path + " is closed");
        }
        if (before == 1) {
            Native.fileClose(descriptor);
        }
    }

    /** Does the same as {@link #release()}. */
    @Override
    public void close() {
        release();
    }
}
