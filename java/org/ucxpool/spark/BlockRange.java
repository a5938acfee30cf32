package org.ucxpool.spark;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

/**
 * The part of a map output that is a shuffle block: the bytes of the reducers
 * from first to end. A request encodes each block in a few bytes, so that the
 * list of a few hundred blocks fits in the metadata of a message.
 */
final class BlockRange {
    private static final String PREFIX = "shuffle_";

    final int shuffleId;
    final long mapId;
    final int first;
    final int end;

    BlockRange(int shuffleId, long mapId, int first, int end) {
        this.shuffleId = shuffleId;
        this.mapId = mapId;
        this.first = first;
        this.end = end;
    }

    /**
     * Parse a name: shuffle_S_M_R is one block, and shuffle_S_M_FIRST_END is
     * several blocks that Spark fetches as one. Returns null for other names.
     */
    static BlockRange parse(String name) {
        if (!name.startsWith(PREFIX)) {
            return null;
        }
        String[] parts = name.substring(PREFIX.length()).split("_");

        if (parts.length < 3 || parts.length > 4) {
            return null;
        }
        try {
            int shuffleId = Integer.parseInt(parts[0]);
            long mapId = Long.parseLong(parts[1]);
            int first = Integer.parseInt(parts[2]);
            int end =
                parts.length == 4 ? Integer.parseInt(parts[3]) : first + 1;

            if (shuffleId < 0 || mapId < 0 || first < 0 || end < first) {
                return null;
            }
            return new BlockRange(shuffleId, mapId, first, end);
        } catch (NumberFormatException e) {
            return null;
        }
    }

    /** Parse all names. Returns null if one of them is not a shuffle block. */
    static List<BlockRange> parse(String[] names) {
        List<BlockRange> ranges = new ArrayList<>(names.length);

        for (String name : names) {
            BlockRange range = parse(name);

            if (range == null) {
                return null;
            }
            ranges.add(range);
        }
        return ranges;
    }

    /** Append the range to a buffer. */
    void write(ByteArrayOutputStream out) {
        writeNumber(out, shuffleId);
        writeNumber(out, mapId);
        writeNumber(out, first);
        writeNumber(out, end - first);
    }

    /**
     * Read one range.
     *
     * @throws IllegalArgumentException the bytes are invalid
     */
    static BlockRange read(ByteBuffer in) {
        long shuffleId = readNumber(in);
        long mapId = readNumber(in);
        long first = readNumber(in);
        long count = readNumber(in);

        if (shuffleId > Integer.MAX_VALUE || first > Integer.MAX_VALUE
            || count > Integer.MAX_VALUE - first) {
            throw new IllegalArgumentException("a number is too large");
        }
        return new BlockRange((int) shuffleId, mapId, (int) first,
                              (int) (first + count));
    }

    /* Write a number with seven bits per byte, lowest bits first. */
    private static void writeNumber(ByteArrayOutputStream out, long number) {
        long left = number;

        while (left >= 0x80) {
            out.write((int) (left & 0x7f) | 0x80);
            left >>>= 7;
        }
        out.write((int) left);
    }

    private static long readNumber(ByteBuffer in) {
        long number = 0;

        for (int shift = 0; shift < 63; shift += 7) {
            if (!in.hasRemaining()) {
                throw new IllegalArgumentException("the request is cut off");
            }
            byte part = in.get();

            number |= (long) (part & 0x7f) << shift;
            if (part >= 0) {
                return number;
            }
        }
        throw new IllegalArgumentException("a number is too long");
    }

    @Override
    public String toString() {
        String name = PREFIX + shuffleId + "_" + mapId + "_" + first;

        return end == first + 1 ? name : name + "_" + end;
    }
}
