package org.ucxpool.spark;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.ucxpool.Channel;
import org.ucxpool.Message;
import org.ucxpool.Source;
import org.ucxpool.Status;
import org.ucxpool.Transfer;
import org.ucxpool.UcxpoolException;

/**
 * Another executor, from which blocks are fetched. Tasks post fetches; the
 * transport's thread handles the results.
 */
final class Peer implements Channel.Handler {
    private static final Logger LOG = LoggerFactory.getLogger(Peer.class);

    /**
     * The shortest and the longest time for which a peer's blocks use Netty
     * after a failure.
     */
    private static final long NETTY_NS = TimeUnit.MINUTES.toNanos(1);
    private static final long LONGEST_NETTY_NS = TimeUnit.HOURS.toNanos(1);

    /** The parts of the transport that a peer uses. */
    interface Owner {
        Channel connect(String address) throws UcxpoolException;

        /** Receive a reply as soon as memory is available. */
        void admit(Fetch.Arrival arrival, Peer peer);

        /** Fetch the remaining blocks by Spark's own transport. */
        void toNetty(Peer peer, Fetch fetch);

        Statistics statistics();

        /** Returns the nanoseconds since an arbitrary time. */
        long now();
    }

    private final Owner owner;
    final String executorId;
    final String host;
    final int port; /* Spark's, for Netty */
    private final String address;

    /** A request in progress. */
    private static final class Posted {
        final Fetch fetch;
        final byte[] blocks;

        Posted(Fetch fetch, byte[] blocks) {
            this.fetch = fetch;
            this.blocks = blocks;
        }
    }

    /* Guarded by the monitor of this object, which is never held while Spark is
     * called. */
    private final Map<Long, Posted> posted = new HashMap<>();
    private Channel channel;
    private long lastRequest;
    private long lastProgress; /* last answer, or first request */
    /*
     * True if the executor has existed at some time. If it does not exist now,
     * it has ended.
     */
    private boolean hasOpened;
    private boolean isOpened; /* the channel has been open */
    private boolean isSecondTry; /* the peer closed the previous channel */
    /* The failure may be temporary, for example a busy executor. */
    private boolean isOverNetty;
    private long nettyUntil;
    private long nettyNs = NETTY_NS;
    private IOException lastEnd;

    Peer(Owner owner, String executorId, String host, int port,
         String address) {
        this.owner = owner;
        this.executorId = executorId;
        this.host = host;
        this.port = port;
        this.address = address;
    }

    /** Returns whether blocks of this peer must use Netty for now. */
    synchronized boolean isWithoutPool() {
        if (isOverNetty && owner.now() - nettyUntil >= 0) {
            isOverNetty = false;
        }
        return address == null || isOverNetty;
    }

    /** Use Netty for a time that doubles with each failed attempt. */
    private void goOverNetty() {
        isOverNetty = true;
        nettyUntil = owner.now() + nettyNs;
        nettyNs = Math.min(2 * nettyNs, LONGEST_NETTY_NS);
    }

    /**
     * Post a request for blocks.
     *
     * @return false if the caller must use Netty instead
     * @throws IOException the channel has just ended
     */
    synchronized boolean post(Fetch fetch, byte[] blocks) throws IOException {
        if (channel == null && !isWithoutPool()) {
            isSecondTry = false;
            try {
                connect();
            } catch (UcxpoolException e) {
                throwIfOfPeer(e);
                LOG.warn("blocks of executor {} come over Netty: {}",
                         executorId, e.getMessage());
                return false;
            }
        }
        if (isWithoutPool()) {
            return false;
        }
        if (channel == null) {
            throw lastEnd;
        }
        long request = ++lastRequest;

        if (posted.isEmpty()) {
            lastProgress = owner.now();
        }
        posted.put(request, new Posted(fetch, blocks));
        try {
            send(request, blocks);
        } catch (UcxpoolException e) {
            posted.remove(request);
            throwIfOfPeer(e);
            LOG.warn("blocks of executor {} come over Netty: {}", executorId,
                     e.getMessage());
            return false;
        }
        owner.statistics().requests.inc();
        return true;
    }

    /**
     * Throw if the failure was caused by the peer, and not locally, for example
     * by a lack of descriptors.
     */
    private static void throwIfOfPeer(UcxpoolException e)
            throws UcxpoolException {
        if (e.status() == Status.PEER_LOST || e.status() == Status.CLOSED) {
            throw e;
        }
    }

    private void connect() throws UcxpoolException {
        isOpened = false;
        channel = owner.connect(address);
        /* If the channel has already ended, this call reports it. */
        channel.handle(this);
    }

    private void send(long request, byte[] blocks) throws UcxpoolException {
        Channel by = channel;

        by.send(new Source(), Protocol.tag(Protocol.REQUEST, request), blocks,
                sent -> sent(by, request, sent));
    }

    /* If the channel has ended, all of its fetches fail. */
    private void sent(Channel by, long request, Transfer sent) {
        if (sent.failure() != null && isOpen(by)) {
            Fetch fetch = remove(request);

            if (fetch != null) {
                fetch.failAll(lost("did not receive a request",
                                   sent.failure()));
            }
        }
    }

    private synchronized boolean isOpen(Channel by) {
        return channel == by && by.state() == Channel.State.OPEN;
    }

    private synchronized Fetch find(long request) {
        Posted found = posted.get(request);

        return found == null ? null : found.fetch;
    }

    private synchronized Fetch remove(long request) {
        Posted removed = posted.remove(request);

        return removed == null ? null : removed.fetch;
    }

    private IOException lost(String what, Throwable why) {
        return new IOException("executor " + executorId + " at " + address
                               + " " + what + ": " + why.getMessage(), why);
    }

    @Override
    public void arrived(Message message) {
        long request = Protocol.request(message.tag());
        Fetch fetch = find(request);

        noteProgress();
        if (fetch == null) {
            message.refuse("the request does not exist or has ended");
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
                                      + address + " sent an invalid message: "
                                      + why));
    }

    private void replied(long request, Fetch fetch, Message message) {
        Fetch.Arrival arrival = new Fetch.Arrival(fetch, message);

        if (fetch.isSound(arrival)) {
            fetch.add(arrival);
            owner.admit(arrival, this);
        } else {
            refuse(request, fetch, message, "blocks that were not requested");
        }
    }

    private void failed(long request, Fetch fetch, Message message) {
        byte[] metadata = message.metadata();
        int index = ByteBuffer.wrap(metadata).getInt();

        try {
            message.receive();
        } catch (UcxpoolException e) {
            LOG.debug("the channel has ended; the reason follows", e);
        }
        fetch.fail(index, new IOException("executor " + executorId + ": "
                                          + Protocol.why(metadata)));
        if (fetch.isOver()) {
            remove(request);
        }
    }

    /**
     * Record progress, because a delay is caused by this side and not by the
     * peer.
     */
    synchronized void noteProgress() {
        lastProgress = owner.now();
    }

    /** Called when a reply has been received or has failed. */
    void ended(Fetch.Arrival arrival) {
        noteProgress();
        if (arrival.fetch.isOver()) {
            remove(Protocol.request(arrival.message.tag()));
        }
    }

    @Override
    public void changed(Channel changed, Channel.State state, String reason) {
        if (state == Channel.State.OPEN) {
            opened(changed);
        } else {
            ended(changed, reason);
            changed.close();
        }
    }

    private void opened(Channel open) {
        synchronized (this) {
            hasOpened = true;
            isOpened = true;
            nettyNs = NETTY_NS;
        }
        LOG.info("shuffle blocks of executor {} at {} come over the wire "
                     + "{}: {}", executorId, address, open.wire(),
                 open.wireReason());
    }

    private void ended(Channel ended, String reason) {
        IOException why;
        boolean isToNetty;
        List<Posted> left;

        synchronized (this) {
            if (channel != ended || triesAgain()) {
                return;
            }
            why = new IOException("executor " + executorId + " at " + address
                + (isOpened ? " was lost: " : " cannot be reached: ")
                + (reason.isEmpty() ? "it closed the channel" : reason));
            isToNetty = !isGone();
            if (isToNetty) {
                goOverNetty();
            }
            left = dropChannel(why);
        }
        if (isToNetty) {
            LOG.warn("shuffle blocks of executor {} come over Netty: {}",
                     executorId, reason);
        }
        for (Posted one : left) {
            if (isToNetty) {
                owner.toNetty(this, one.fetch);
            } else {
                one.fetch.failAll(why);
            }
        }
    }

    /** Drop the channel. Returns the requests in progress. */
    private List<Posted> dropChannel(IOException why) {
        List<Posted> left = new ArrayList<>(posted.values());

        lastEnd = why;
        channel = null;
        posted.clear();
        return left;
    }

    /** Fail all requests if the peer has not answered for this time. */
    void endIfSilent(long timeoutNs) {
        Channel silent;
        List<Posted> left;
        IOException why = new IOException(
            "executor " + executorId + " at " + address
            + " has not answered for " + timeoutNs / 1000000000 + " s");

        synchronized (this) {
            if (posted.isEmpty() || channel == null
                || owner.now() - lastProgress < timeoutNs) {
                return;
            }
            silent = channel;
            left = dropChannel(why);
        }
        LOG.warn("{}: its channel is closed", why.getMessage());
        silent.abort();
        left.forEach(one -> one.fetch.failAll(why));
    }

    /**
     * Returns whether the connection was established but closed before the
     * channel opened. The peer may be alive, because a listener with too many
     * connections closes the oldest.
     */
    private boolean isHungUpOn() {
        return !isOpened
            && channel.failure().status() == Status.PEER_LOST
            && !channel.remoteAddress().isEmpty();
    }

    /** Returns whether the channel's end shows that the executor has ended. */
    private boolean isGone() {
        Status status = channel.failure().status();

        return isOpened
            || status == Status.PEER_LOST && !isHungUpOn()
            || status == Status.TIMED_OUT && hasOpened
            || status == Status.CLOSED && hasOpened;
    }

    /**
     * Send all requests again over a new channel, once, if the peer closed the
     * old connection.
     */
    private boolean triesAgain() {
        if (isSecondTry || !isHungUpOn()) {
            return false;
        }
        Channel before = channel;

        isSecondTry = true;
        try {
            connect();
            for (Map.Entry<Long, Posted> one : posted.entrySet()) {
                send(one.getKey(), one.getValue().blocks);
            }
            return true;
        } catch (UcxpoolException e) {
            LOG.debug("no second try to connect to {}", address, e);
            if (channel != null && channel != before) {
                channel.abort();
            }
            channel = before;
            return false;
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
