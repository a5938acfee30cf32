package org.ucxpool;

import java.nio.ByteBuffer;
import java.nio.ReadOnlyBufferException;

/**
 * A message that has arrived, or whose description has: its bytes are with the
 * sender until it is received. Each is ended by {@link #receive} or
 * {@link #refuse}; one that is kept counts among those that may
 * wait here (the settings CREDITS and MAX_UNEXPECTED).
 */
public final class Message {
    private final Pool pool;
    private final Channel channel;
    private final long tag;
    private final long length;
    private final int numSegments;
    private final byte[] metadata;
    private long handle;

    Message(Pool pool, Channel channel, long handle, long tag, long length,
            int numSegments, byte[] metadata) {
        this.pool = pool;
        this.channel = channel;
        this.handle = handle;
        this.tag = tag;
        this.length = length;
        this.numSegments = numSegments;
        this.metadata = metadata;
    }

    /**
     * Who has sent it.
     *
     * @return the channel it came by
     */
    public Channel channel() {
        return channel;
    }

    /**
     * The sender's tag.
     *
     * @return 64 bits
     */
    public long tag() {
        return tag;
    }

    /**
     * How long it is.
     *
     * @return bytes of all segments
     */
    public long length() {
        return length;
    }

    /**
     * What the sender has written beside the data.
     *
     * @return the bytes, which may be none
     */
    public byte[] metadata() {
        return metadata;
    }

    /**
     * The lengths of the sender's segments, in their order.
     *
     * @return an array of one number a segment
     * @throws IllegalStateException the message was received or refused, or its
     *         pool is closed
     */
    public synchronized long[] lengths() {
        long[] lengths = new long[numSegments];

        pool.lengths(live(), lengths);
        return lengths;
    }

    /**
     * Receive it.
     *
     * @param target where to; at least as long as the message, and held until
     *        the end
     * @param listener told of the end, or null
     * @return the receive, under way
     * @throws UcxpoolException it cannot begin; the message is as it was
     */
    public synchronized Transfer receive(Buffer target,
                                         Transfer.Listener listener)
            throws UcxpoolException {
        return receive(new Source(1).add(target), listener);
    }

    /**
     * Receive it into a direct byte buffer.
     *
     * @param target from its position on, which is not changed
     * @param listener told of the end, or null
     * @return the receive, under way
     * @throws UcxpoolException it cannot begin; the message is as it was
     */
    public synchronized Transfer receive(ByteBuffer target,
                                         Transfer.Listener listener)
            throws UcxpoolException {
        if (target.isReadOnly()) {
            throw new ReadOnlyBufferException();
        }
        return receive(new Source(1).add(target), listener);
    }

    /**
     * Receive a message that has no data.
     *
     * @return the receive, under way
     * @throws UcxpoolException it has data, or cannot be received now
     */
    public synchronized Transfer receive() throws UcxpoolException {
        return receive(new Source(1), null);
    }

    private Transfer receive(Source target, Transfer.Listener listener)
            throws UcxpoolException {
        Transfer transfer = pool.receive(live(), target, listener);

        handle = 0;
        return transfer;
    }

    /**
     * Refuse it: its sender's transfer ends as refused.
     *
     * @param reason up to 127 bytes of text
     * @throws IllegalStateException the message was received or refused
     */
    public synchronized void refuse(String reason) {
        long message = live();

        handle = 0;
        pool.refuse(message, reason);
    }

    private long live() {
        if (handle == 0) {
            throw new IllegalStateException(
                "the message was received or refused before");
        }
        return handle;
    }
}
