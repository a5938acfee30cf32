package org.ucxpool.spark;

import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;

import org.apache.spark.network.buffer.ManagedBuffer;
import org.apache.spark.network.shuffle.BlockFetchingListener;
import org.apache.spark.network.shuffle.DownloadFile;
import org.apache.spark.network.shuffle.DownloadFileManager;
import org.apache.spark.network.shuffle.DownloadFileWritableChannel;
import org.apache.spark.network.util.TransportConf;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.ucxpool.Buffer;
import org.ucxpool.Message;

/**
 * One request for blocks, and its results. Each block is reported once, as
 * fetched or as failed. After the request has been posted, only the transport's
 * thread uses this object.
 */
final class Fetch {
    private static final Logger LOG = LoggerFactory.getLogger(Fetch.class);

    /** A reply, which has the bytes of consecutive blocks. */
    static final class Arrival {
        final Fetch fetch;
        final Message message;
        final int first;
        final boolean isLastComplete;
        final long[] lengths;
        Buffer buffer; /* null: the reply has no bytes */
        boolean isStaged; /* the buffer will soon be needed for other replies */
        boolean isDone;
        IOException failure;

        Arrival(Fetch fetch, Message message) {
            ByteBuffer metadata = ByteBuffer.wrap(message.metadata());

            this.fetch = fetch;
            this.message = message;
            this.first = metadata.getInt();
            this.isLastComplete = metadata.get() != 0;
            this.lengths = message.lengths();
        }

        int size() {
            return (int) message.length();
        }
    }

    /** The parts of the transport that a fetch uses. */
    interface Surroundings {
        /** Returns a file for bytes that do not fit in memory. */
        File spillFile();

        TransportConf transportConf();

        Statistics statistics();
    }

    private final Surroundings surroundings;
    private final String[] ids;
    private final BlockFetchingListener listener;
    private final DownloadFileManager files;
    private final ArrayDeque<Arrival> arrivals = new ArrayDeque<>();
    private final boolean[] isTold;
    private int numLeft;

    /* Index of the block that is not complete yet. */
    private int current = -1;
    private List<Part> parts = new ArrayList<>();
    private DownloadFile file;
    private DownloadFileWritableChannel channel;

    /** Creates a fetch. files: if not null, the blocks are written to files. */
    Fetch(Surroundings surroundings, String[] ids,
          BlockFetchingListener listener, DownloadFileManager files) {
        this.surroundings = surroundings;
        this.ids = ids;
        this.listener = listener;
        this.files = files;
        this.isTold = new boolean[ids.length];
        this.numLeft = ids.length;
    }

    boolean isToFiles() {
        return files != null;
    }

    boolean isOver() {
        return numLeft == 0;
    }

    BlockFetchingListener listener() {
        return listener;
    }

    DownloadFileManager files() {
        return files;
    }

    /**
     * Returns the blocks that have not been reported. The caller must report
     * them.
     */
    String[] giveUp() {
        List<String> left = new ArrayList<>();

        for (int i = 0; i < ids.length; i++) {
            if (!isTold[i]) {
                isTold[i] = true;
                left.add(ids[i]);
            }
        }
        numLeft = 0;
        dropCurrent();
        return left.toArray(new String[0]);
    }

    /**
     * Returns whether a reply is valid. A reply comes from another process, so
     * it must be checked.
     */
    boolean isSound(Arrival arrival) {
        return arrival.first >= 0 && arrival.lengths.length > 0
            && arrival.first <= ids.length - arrival.lengths.length;
    }

    void add(Arrival arrival) {
        arrivals.add(arrival);
    }

    /** Returns the next reply in order, or null. */
    Arrival nextDone() {
        Arrival head = arrivals.peek();

        return head != null && head.isDone ? arrivals.remove() : null;
    }

    /**
     * Report the blocks that a reply completes. The caller still owns the
     * buffer.
     */
    void deliver(Arrival arrival) {
        if (arrival.failure != null) {
            for (int i = 0; i < arrival.lengths.length; i++) {
                fail(arrival.first + i, arrival.failure);
            }
            return;
        }
        Part.SpillFile spilled = null;

        try {
            if (arrival.isStaged && files == null) {
                spilled = new Part.SpillFile(
                    surroundings.spillFile(),
                    arrival.buffer.byteBuffer(0, arrival.size()));
                surroundings.statistics().spilledBytes.inc(arrival.size());
            }
            deliverPieces(arrival, spilled);
        } catch (IOException e) {
            for (int i = 0; i < arrival.lengths.length; i++) {
                fail(arrival.first + i, e);
            }
        } finally {
            if (spilled != null) {
                spilled.release();
            }
        }
    }

    private void deliverPieces(Arrival arrival, Part.SpillFile spilled)
            throws IOException {
        int offset = 0;

        for (int i = 0; i < arrival.lengths.length; i++) {
            int length = (int) arrival.lengths[i];
            int index = arrival.first + i;
            boolean isLast = i == arrival.lengths.length - 1;

            if (!isTold[index]) {
                append(arrival, spilled, index, offset, length);
                if (!isLast || arrival.isLastComplete) {
                    complete(index);
                }
            }
            offset += length;
        }
    }

    private void append(Arrival arrival, Part.SpillFile spilled, int index,
                        int offset, int length) throws IOException {
        if (current >= 0 && current != index) {
            throw new IOException(ids[index] + " came before the end of "
                                  + ids[current]);
        }
        current = index;
        if (files != null) {
            if (channel == null) {
                file = files.createTempFile(surroundings.transportConf());
                channel = file.openForWriting();
            }
            if (length > 0) {
                ByteBuffer bytes = arrival.buffer.byteBuffer(offset, length);

                while (bytes.hasRemaining()) {
                    channel.write(bytes);
                }
            }
        } else if (length > 0) {
            parts.add(spilled != null
                          ? spilled.part(offset, length)
                          : Part.of(arrival.buffer, offset, length));
        }
    }

    private void complete(int index) throws IOException {
        ManagedBuffer block;

        if (files != null) {
            DownloadFile complete = file;

            block = channel.closeAndRead();
            channel = null;
            file = null;
            if (!files.registerTempFileToClean(complete)) {
                complete.delete();
            }
        } else {
            block = new ReceivedBlock(parts);
            parts = new ArrayList<>();
        }
        current = -1;
        noteTold(index);
        surroundings.statistics().fetchedBlocks.inc();
        surroundings.statistics().fetchedBytes.inc(block.size());
        try {
            listener.onBlockFetchSuccess(ids[index], block);
        } catch (RuntimeException e) {
            LOG.error("Spark rejected block {}", ids[index], e);
        } finally {
            block.release();
        }
    }

    private void noteTold(int index) {
        isTold[index] = true;
        numLeft--;
    }

    void fail(int index, Throwable why) {
        if (index < 0 || index >= ids.length || isTold[index]) {
            return;
        }
        if (index == current) {
            dropCurrent();
        }
        noteTold(index);
        surroundings.statistics().failedBlocks.inc();
        try {
            listener.onBlockFetchFailure(ids[index], why);
        } catch (RuntimeException e) {
            LOG.error("Spark rejected the failure of {}", ids[index], e);
        }
    }

    void failAll(Throwable why) {
        for (int i = 0; i < ids.length; i++) {
            fail(i, why);
        }
    }

    private void dropCurrent() {
        parts.forEach(Part::release);
        parts = new ArrayList<>();
        if (channel != null) {
            try {
                channel.close();
            } catch (IOException e) {
                LOG.warn("{} could not be closed", file.path(), e);
            }
            file.delete();
            channel = null;
            file = null;
        }
        current = -1;
    }
}
