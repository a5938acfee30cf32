package org.ucxpool;

import java.nio.ByteBuffer;
import java.nio.ReadOnlyBufferException;

/**
 * A message that has arrived, at least its descriptor. If only the descriptor
 * has arrived, the bytes stay at the sender until the message is received. The
 * program must call {@link #receive} or {@link #refuse} for each message. Until
 * then the message counts against the settings CREDITS and MAX_UNEXPECTED.
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
     * Returns the channel of the sender.
     *
     * @return the channel by which the message arrived
     */
    public Channel channel() {
        return channel;
    }

    /**
     * Returns the sender's tag.
     *
     * @return the tag, 64 bits
     */
    public long tag() {
        return tag;
    }

    /**
     * Returns the length of the message.
     *
     * @return total size of all segments, in bytes
     */
    public long length() {
        return length;
    }

    /**
     * Returns the sender's metadata.
     *
     * @return the bytes, possibly none
     */
    public byte[] metadata() {
        return metadata;
    }

    /**
     * Returns the lengths of the sender's segments, in order.
     *
     * @return an array with one number per segment
     * @throws IllegalStateException the message was received or refused, or its
     *         pool is closed
     */
    public synchronized long[] lengths() {
        long[] lengths = new long[numSegments];

        pool.lengths(live(), lengths);
        return lengths;
    }

    /**
     * Receive the message.
     *
     * @param target destination; at least as long as the message, held until
     *        the end
     * @param listener called when the transfer ends, or null
     * @return the receive, in progress
     * @throws UcxpoolException the receive cannot be posted; the message is
     *         unchanged
     */
    public synchronized Transfer receive(Buffer target,
                                         Transfer.Listener listener)
            throws UcxpoolException {
        return receive(new Source(1).add(target), listener);
    }

    /**
     * Receive the message into a direct byte buffer.
     *
     * @param target destination, from its position on; the position does not
     *        change
     * @param listener called when the transfer ends, or null
     * @return the receive, in progress
     * @throws UcxpoolException the receive cannot be posted; the message is
     *         unchanged
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
     * Receive a message without data.
     *
     * @return the receive, in progress
     * @throws UcxpoolException the message has data, or cannot be received now
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
     * Refuse the message. The sender's transfer ends as refused.
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
