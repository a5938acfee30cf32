package org.ucxpool.spark;

import java.io.File;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Supplier;

import org.apache.spark.shuffle.IndexShuffleBlockResolver;
import org.ucxpool.DataFile;

/**
 * The files of this executor's map outputs. The most recently used files stay
 * open, with their indexes. A map output never changes, because a task that is
 * run again has another number.
 */
final class MapOutputs {
    private static final int MAX_OPEN = 512;
    /*
     * Maximum number of offsets in all cached indexes: 8 MiB. Further indexes
     * are read from their files each time, so that they do not evict the cached
     * ones.
     */
    private static final int KEPT_MAX = 1 << 20;

    private static final class Output {
        long[] index; /* offset of each reducer's block, and the end */
        DataFile data;
    }

    private static final class Key {
        final int shuffleId;
        final long mapId;

        Key(int shuffleId, long mapId) {
            this.shuffleId = shuffleId;
            this.mapId = mapId;
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof Key && ((Key) other).mapId == mapId
                && ((Key) other).shuffleId == shuffleId;
        }

        @Override
        public int hashCode() {
            return 31 * shuffleId + Long.hashCode(mapId);
        }
    }

    private final Supplier<IndexShuffleBlockResolver> resolver;
    private final LinkedHashMap<Key, Output> open =
        new LinkedHashMap<>(64, 0.75f, true);
    private long kept; /* number of offsets in all cached indexes */

    MapOutputs(Supplier<IndexShuffleBlockResolver> resolver) {
        this.resolver = resolver;
    }

    /** The location of a block's bytes. */
    static final class Location {
        final DataFile file;
        final long offset;
        final long length;

        Location(DataFile file, long offset, long length) {
            this.file = file;
            this.offset = offset;
            this.length = length;
        }
    }

    /**
     * Find a block. The caller releases the location's file, which is null for
     * a block without bytes.
     *
     * @throws IOException its files cannot be read, or have changed
     */
    synchronized Location find(BlockRange block) throws IOException {
        Key key = new Key(block.shuffleId, block.mapId);
        Output output = open.get(key);

        if (output == null) {
            output = new Output();
            open.put(key, output);
            closeOldest();
        }
        long[] ends = ends(output, block);

        if (ends[0] < 0 || ends[1] < ends[0]) {
            throw new IOException("the index of map output " + block.mapId
                + " of shuffle " + block.shuffleId + " is damaged: "
                + block + " would be from " + ends[0] + " to " + ends[1]);
        }
        if (ends[0] == ends[1]) {
            return new Location(null, 0, 0);
        }
        if (output.data == null) {
            output.data = DataFile.open(
                resolver.get().getDataFile(block.shuffleId, block.mapId)
                    .toPath());
        }
        return new Location(output.data.retain(), ends[0], ends[1] - ends[0]);
    }

    private long[] ends(Output output, BlockRange block) throws IOException {
        if (output.index == null) {
            File file = resolver.get().getIndexFile(
                block.shuffleId, block.mapId, scala.Option.empty());

            if (kept + file.length() / Long.BYTES > KEPT_MAX) {
                return read(file, block);
            }
            output.index = read(file);
            kept += output.index.length;
        }
        if (block.end >= output.index.length) {
            throw beyond(block, output.index.length - 1);
        }
        return new long[] {output.index[block.first],
                           output.index[block.end]};
    }

    private static IOException beyond(BlockRange block, long count) {
        return new IOException(block + " was requested, but the index has "
            + count + " blocks");
    }

    private static long[] read(File file) throws IOException {
        byte[] bytes = Files.readAllBytes(file.toPath());
        long[] index = new long[bytes.length / Long.BYTES];

        ByteBuffer.wrap(bytes).asLongBuffer().get(index);
        return index;
    }

    private static long[] read(File file, BlockRange block)
            throws IOException {
        try (RandomAccessFile in = new RandomAccessFile(file, "r")) {
            if ((block.end + 1L) * Long.BYTES > in.length()) {
                throw beyond(block, in.length() / Long.BYTES - 1);
            }
            long[] ends = new long[2];

            in.seek(block.first * (long) Long.BYTES);
            ends[0] = in.readLong();
            in.seek(block.end * (long) Long.BYTES);
            ends[1] = in.readLong();
            return ends;
        }
    }

    private void closeOldest() {
        if (open.size() > MAX_OPEN) {
            Iterator<Output> oldest = open.values().iterator();

            close(oldest.next());
            oldest.remove();
        }
    }

    private void close(Output output) {
        if (output.index != null) {
            kept -= output.index.length;
        }
        if (output.data != null) {
            output.data.release();
        }
    }

    /** Close the files of a shuffle that Spark removes. */
    synchronized void forget(int shuffleId) {
        for (Map.Entry<Key, Output> entry :
             new ArrayList<>(open.entrySet())) {
            if (entry.getKey().shuffleId == shuffleId) {
                close(open.remove(entry.getKey()));
            }
        }
    }

    synchronized void close() {
        open.values().forEach(this::close);
        open.clear();
    }
}
