package org.ucxpool;

import java.util.ArrayList;
import java.util.List;
import java.util.Objects;

/**
 * Sends on any channels of a pool, which {@link Pool#post} posts in one call.
 * One thread at a time may use a batch.
 */
public final class Batch {
    record Send(Channel channel, Source source, long tag, byte[] metadata,
                Transfer.Listener listener) {
    }

    private final List<Send> sends = new ArrayList<>();

    /** Creates an empty batch. */
    public Batch() {
    }

    /**
     * Add a send.
     *
     * @param channel the channel
     * @param source the data, held from the post to the end of the transfer; it
     *        must not be changed
     * @param tag the tag for the receiver
     * @param metadata up to MAX_METADATA bytes (a setting) for the receiver, or
     *        null
     * @param listener called when the transfer ends, or null
     * @return this
     */
    public Batch send(Channel channel, Source source, long tag,
                      byte[] metadata, Transfer.Listener listener) {
        sends.add(new Send(Objects.requireNonNull(channel),
                           Objects.requireNonNull(source), tag, metadata,
                           listener));
        return this;
    }

    /**
     * Add a send.
     *
     * @param channel the channel
     * @param source the data, held from the post to the end of the transfer; it
     *        must not be changed
     * @param tag the tag for the receiver
     * @return this
     */
    public Batch send(Channel channel, Source source, long tag) {
        return send(channel, source, tag, null, null);
    }

    /**
     * Returns the number of sends.
     *
     * @return the sends that were added and not posted
     */
    public int size() {
        return sends.size();
    }

    Send get(int index) {
        return sends.get(index);
    }

    /** Removes the first sends. */
    void remove(int count) {
        sends.subList(0, count).clear();
    }
}
