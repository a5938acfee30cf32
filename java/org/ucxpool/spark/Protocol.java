package org.ucxpool.spark;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/**
 * Defines the messages between two executors. The tag of a message contains its
 * kind and the number of the request. The requesting side chooses the number
 * and uses it once.
 *
 * <pre>
 * REQUEST  metadata: the requested blocks (BlockRange), one after the other
 * REPLY    data: bytes of consecutive blocks, one segment each
 *          metadata: index of the first one; 1 if the last one is complete
 * FAILURE  metadata: index of the block; the reason, in UTF-8
 * </pre>
 *
 * <p>A block longer than a message continues as the first block of the next
 * reply. Replies to one request are sent in the order of its blocks.
 */
final class Protocol {
    static final int REQUEST = 1;
    static final int REPLY = 2;
    static final int FAILURE = 3;

    /** The setting MAX_METADATA on both sides. */
    static final int METADATA_MAX = 4096;

    /** Size of a reply's metadata in bytes, and the minimum for a failure. */
    static final int REPLY_LENGTH = 5;
    static final int FAILURE_LENGTH = 4;

    private static final int KIND_SHIFT = 56;
    /* Size of shuffle, map, first and count in their longest encoding. */
    private static final int BLOCK_MAX = 5 + 9 + 5 + 5;

    private Protocol() {
    }

    static long tag(int kind, long request) {
        return (long) kind << KIND_SHIFT | request;
    }

    static int kind(long tag) {
        return (int) (tag >>> KIND_SHIFT);
    }

    static long request(long tag) {
        return tag & (1L << KIND_SHIFT) - 1;
    }

    /**
     * Returns the metadata of a request, with as many blocks as fit.
     *
     * @param count [out] their number, in its first element
     */
    static byte[] request(List<BlockRange> blocks, int from, int[] count) {
        ByteArrayOutputStream out = new ByteArrayOutputStream(512);
        int next = from;

        while (next < blocks.size()
               && out.size() <= METADATA_MAX - BLOCK_MAX) {
            blocks.get(next++).write(out);
        }
        count[0] = next - from;
        return out.toByteArray();
    }

    /**
     * Returns the blocks of a request.
     *
     * @throws IllegalArgumentException the metadata is invalid
     */
    static List<BlockRange> blocks(byte[] metadata) {
        ByteBuffer in = ByteBuffer.wrap(metadata);
        List<BlockRange> blocks = new ArrayList<>();

        while (in.hasRemaining()) {
            blocks.add(BlockRange.read(in));
        }
        return blocks;
    }

    static byte[] reply(int first, boolean isLastComplete) {
        return ByteBuffer.allocate(REPLY_LENGTH)
            .putInt(first)
            .put((byte) (isLastComplete ? 1 : 0))
            .array();
    }

    static byte[] failure(int index, String why) {
        byte[] text = why.getBytes(StandardCharsets.UTF_8);
        int length = Math.min(text.length, 1024);

        return ByteBuffer.allocate(FAILURE_LENGTH + length)
            .putInt(index)
            .put(text, 0, length)
            .array();
    }

    static String why(byte[] failure) {
        return new String(failure, FAILURE_LENGTH,
                          failure.length - FAILURE_LENGTH,
                          StandardCharsets.UTF_8);
    }
}
