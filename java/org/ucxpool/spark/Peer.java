package org.ucxpool.spark;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.ucxpool.Channel;
import org.ucxpool.Message;
import org.ucxpool.Source;
import org.ucxpool.Status;
import org.ucxpool.Transfer;
import org.ucxpool.UcxpoolException;

/**
 * Another executor, as one that is asked for blocks. Tasks post fetches;
 * what comes of them is handled in the transport's thread.
 */
final class Peer implements Channel.Handler {
    private static final Logger LOG = LoggerFactory.getLogger(Peer.class);

    /** What a peer needs of the transport. */
    interface Owner {
        Channel connect(String address) throws UcxpoolException;

        /** Receive a reply, when there is memory for it. */
        void admit(Fetch.Arrival arrival, Peer peer);

        /** Spark's own transport fetches what is left. */
        void toNetty(Peer peer, Fetch fetch);

        Statistics statistics();
    }

    private final Owner owner;
    final String executorId;
    final String host;
    final int port; /* Spark's, for Netty */
    private final String address;

    /* Held while they are used, and never while Spark is called. */
    private final Map<Long, Fetch> fetches = new HashMap<>();
    private Channel channel;
    private long lastRequest;
    /* It has been there at least once: if it is not now, it is gone. */
    private boolean hasOpened;
    private boolean isWithoutPool;
    private IOException lastEnd;

    Peer(Owner owner, String executorId, String host, int port,
         String address) {
        this.owner = owner;
        this.executorId = executorId;
        this.host = host;
        this.port = port;
        this.address = address;
        this.isWithoutPool = address == null;
    }

    /** Is there no way to it but Netty? */
    synchronized boolean isWithoutPool() {
        return isWithoutPool;
    }

    /**
     * Ask for blocks.
     *
     * @return false: it is to go over Netty
     * @throws IOException the channel has just ended
     */
    synchronized boolean post(Fetch fetch, byte[] blocks) throws IOException {
        if (channel == null && !isWithoutPool) {
            channel = owner.connect(address);
            /* If it has ended by now, that is told here. */
            channel.handle(this);
        }
        if (isWithoutPool) {
            return false;
        }
        if (channel == null) {
            throw lastEnd;
        }
        long request = ++lastRequest;

        fetches.put(request, fetch);
        try {
            channel.send(new Source(), Protocol.tag(Protocol.REQUEST, request),
                         blocks, sent -> sent(request, sent));
        } catch (IOException e) {
            fetches.remove(request);
            throw e;
        }
        owner.statistics().requests.inc();
        return true;
    }

    /* If the channel has ended, all of its fetches are told of that. */
    private void sent(long request, Transfer sent) {
        if (sent.failure() != null && isOpen()) {
            Fetch fetch = remove(request);

            if (fetch != null) {
                fetch.failAll(lost("took no request", sent.failure()));
            }
        }
    }

    private synchronized boolean isOpen() {
        return channel != null && channel.state() == Channel.State.OPEN;
    }

    private synchronized Fetch find(long request) {
        return fetches.get(request);
    }

    private synchronized Fetch remove(long request) {
        return fetches.remove(request);
    }

    private IOException lost(String what, Throwable why) {
        return new IOException("executor " + executorId + " at " + address
                               + " " + what + ": " + why.getMessage(), why);
    }

    @Override
    public void arrived(Message message) {
        long request = Protocol.request(message.tag());
        Fetch fetch = find(request);

        if (fetch == null) {
            message.refuse("no such request, or it is over");
            return;
        }
        int kind = Protocol.kind(message.tag());
        int length = message.metadata().length;

        if (kind == Protocol.REPLY && length == Protocol.REPLY_LENGTH) {
            replied(request, fetch, message);
        } else if (kind == Protocol.FAILURE
                   && length >= Protocol.FAILURE_LENGTH) {
            failed(request, fetch, message);
        } else {
            refuse(request, fetch, message, "neither a reply nor a failure");
        }
    }

    private void refuse(long request, Fetch fetch, Message message,
                        String why) {
        message.refuse(why);
        remove(request);
        fetch.failAll(new IOException("executor " + executorId + " at "
                                      + address + " sent nonsense: " + why));
    }

    private void replied(long request, Fetch fetch, Message message) {
        Fetch.Arrival arrival = new Fetch.Arrival(fetch, message);

        if (fetch.isSound(arrival)) {
            fetch.add(arrival);
            owner.admit(arrival, this);
        } else {
            refuse(request, fetch, message, "blocks that were not asked for");
        }
    }

    private void failed(long request, Fetch fetch, Message message) {
        byte[] metadata = message.metadata();
        int index = ByteBuffer.wrap(metadata).getInt();

        try {
            message.receive();
        } catch (UcxpoolException e) {
            LOG.debug("the channel has ended, and says so next", e);
        }
        fetch.fail(index, new IOException("executor " + executorId + ": "
                                          + Protocol.why(metadata)));
        if (fetch.isOver()) {
            remove(request);
        }
    }

    /** A reply has come, or will not. */
    void ended(Fetch.Arrival arrival) {
        if (arrival.fetch.isOver()) {
            remove(Protocol.request(arrival.message.tag()));
        }
    }

    @Override
    public void changed(Channel ended, Channel.State state, String reason) {
        IOException why;
        List<Fetch> left;

        if (state == Channel.State.OPEN) {
            synchronized (this) {
                hasOpened = true;
            }
            LOG.info("shuffle blocks of executor {} at {} come over the wire "
                         + "{}: {}", executorId, address, ended.wire(),
                     ended.wireReason());
            return;
        }
        synchronized (this) {
            if (channel != ended) {
                return;
            }
            why = new IOException("executor " + executorId + " at " + address
                + (hasOpened ? " was lost: " : " cannot be reached: ")
                + (reason.isEmpty() ? "it closed the channel" : reason));
            lastEnd = why;
            isWithoutPool =
                !hasOpened && ended.failure().status() != Status.PEER_LOST;
            channel = null;
            left = new ArrayList<>(fetches.values());
            fetches.clear();
        }
        ended.close();
        if (isWithoutPool()) {
            LOG.warn("shuffle blocks of executor {} come over Netty: {}",
                     executorId, reason);
        }
        for (Fetch fetch : left) {
            if (isWithoutPool()) {
                owner.toNetty(this, fetch);
            } else {
                fetch.failAll(why);
            }
        }
    }

    void close() {
        Channel open;

        synchronized (this) {
            open = channel;
        }
        if (open != null) {
            open.abort();
        }
    }
}
