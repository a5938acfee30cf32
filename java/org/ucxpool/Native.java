package org.ucxpool;

import java.io.IOException;
import java.io.InputStream;
import java.io.UnsupportedEncodingException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;

/** The native methods; java/jni/native.c describes them. Strings are UTF-8. */
final class Native {
    /**
     * The property that names libucxpool: a path, or a name that the dynamic
     * linker finds.
     */
    static final String LIBRARY_PROPERTY = "org.ucxpool.library";

    /**
     * Returned instead of a status by a method that runs out of memory before
     * it calls the library.
     */
    static final int OUT_OF_MEMORY = -1000;

    /* The kinds of records of events, and the size of a record without its
     * text. */
    static final int RECORD_ENDED = 1; /* a request */
    static final int RECORD_MESSAGE = 2;
    static final int RECORD_STATE = 3;
    static final int RECORD_CALLER = 4; /* a listener with a queue */
    static final int RECORD_HEADER = 64;

    /* The numbers of a send in a batch. */
    static final int FIELD_CHANNEL = 0;
    static final int FIELD_COUNT = 1;
    static final int FIELD_HAS_FILES = 2;
    static final int FIELD_TAG = 3;
    static final int FIELD_NUMBER = 4;
    static final int FIELDS = 5;

    /** The count, the sum and the buckets of a histogram. */
    static final int HISTOGRAM_VALUES = 42;

    private static final String LIBRARY_DEFAULT = "libucxpool.so.1";
    private static final String JNI_LIBRARY = "ucxpool-jni";

    private static boolean isOpen;

    private Native() {
    }

    /**
     * Loads both libraries, once.
     *
     * @throws UnsatisfiedLinkError a library is missing or too old
     */
    static synchronized void load() {
        if (isOpen) {
            return;
        }
        String library =
            System.getProperty(LIBRARY_PROPERTY, LIBRARY_DEFAULT);

        loadJni();
        byte[] why = open(bytesOfPath(library));
        if (why != null) {
            throw new UnsatisfiedLinkError(library + ": " + text(why)
                + " (the property " + LIBRARY_PROPERTY + " names the file)");
        }
        isOpen = true;
    }

    /**
     * Loads the JNI library from this jar if the jar contains it, and otherwise
     * from java.library.path.
     */
    private static void loadJni() {
        String name = System.mapLibraryName(JNI_LIBRARY);

        try (InputStream in = Native.class.getResourceAsStream(name)) {
            if (in == null) {
                System.loadLibrary(JNI_LIBRARY);
                return;
            }
            Path file = Files.createTempFile(JNI_LIBRARY, ".so");

            try {
                Files.copy(in, file, StandardCopyOption.REPLACE_EXISTING);
                System.load(file.toString());
            } finally {
                /* The library stays mapped after its file is deleted. */
                Files.delete(file);
            }
        } catch (IOException e) {
            throw (UnsatisfiedLinkError) new UnsatisfiedLinkError(
                name + " could not be unpacked: " + e).initCause(e);
        }
    }

    static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** Returns a path in the system's encoding. */
    static byte[] bytesOfPath(String path) {
        String encoding = System.getProperty("sun.jnu.encoding", "UTF-8");

        try {
            return path.getBytes(encoding);
        } catch (UnsupportedEncodingException e) {
            return bytes(path);
        }
    }

    private static native byte[] open(byte[] library);

    static native byte[] detail();

    static native byte[] statusString(int status);

    static native long create(byte[] settings, byte[] secret, byte[] name);

    static native void destroy(long pool);

    static native long heapAlloc(long pool, long size);

    static native int heapFree(long pool, long address);

    static native int heapTrim(long pool, long keep);

    static native long commAlloc(long pool, long size);

    static native void commFree(long pool, long address);

    static native ByteBuffer view(long address, long size);

    static native long addressOf(ByteBuffer buffer);

    static native long connect(long pool, byte[] where, long number,
                               int require);

    static native long listen(long pool, byte[] where);

    static native int listenerPort(long listener);

    static native long accept(long listener, long number, int require);

    static native void listenerDestroy(long listener);

    static native void channelClose(long channel, boolean atOnce);

    static native void channelQuery(long channel, int[] numbers,
                                    Object[] texts);

    static native long send(long channel, long[] list, int count,
                            boolean hasFiles, long tag, byte[] metadata,
                            long number, long timeoutNs);

    /* fields: FIELDS numbers for each send */
    static native int post(long pool, int count, long[] fields,
                           Object[] lists, Object[] metadata,
                           long[] requests);

    static native long receive(long message, long[] list, int count,
                               long number, long timeoutNs);

    static native void cancel(long request);

    static native void refuse(long message, byte[] reason);

    static native int lengths(long message, long[] lengths, int count);

    static native int poll(long pool, Object handles, int wakeDescriptor,
                           long memory, long size, long timeoutNs);

    static native int wakeCreate();

    static native void wake(int wakeDescriptor);

    static native void release(long[] requests, int count);

    static native int statsCount(boolean ofChannel);

    static native byte[] statsName(int index, boolean ofChannel);

    static native int statsRead(long handle, long[] values,
                                boolean ofChannel);

    static native int histogramCount();

    static native int histogramRead(long pool, int index, Object[] texts,
                                    long[] values);

    static native int fileOpen(byte[] path);

    static native void fileClose(int descriptor);

    static native byte[] errorString(int error);
}
