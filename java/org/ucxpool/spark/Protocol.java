package org.ucxpool.spark;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/**
 * What two executors say to each other. The kind of a message and the number of
 * the request are its tag; a number is the asking side's, and is used once.
 *
 * <pre>
 * REQUEST  metadata: the blocks wanted (BlockRange), one behind the other
 * REPLY    data: bytes of consecutive blocks, a segment each
 *          metadata: index of the first one; 1 if the last one is complete
 * FAILURE  metadata: index of the block; why, in UTF-8
 * </pre>
 *
 * <p>A block longer than a message goes on as the first one of the next reply.
 * Replies of one request come in the order of its blocks.
 */
final class Protocol {
    static final int REQUEST = 1;
    static final int REPLY = 2;
    static final int FAILURE = 3;

    /** MAX_METADATA of both sides. */
    static final int METADATA_MAX = 4096;

    /** Metadata of a reply, and the least of a failure. */
    static final int REPLY_LENGTH = 5;
    static final int FAILURE_LENGTH = 4;

    private static final int KIND_SHIFT = 56;
    /* shuffle, map, first, count, each as long as it may be */
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
     * The metadata of a request for as many blocks as have room.
     *
     * @param count [out] how many, in its first place
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
     * The blocks of a request.
     *
     * @throws IllegalArgumentException it is none
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
