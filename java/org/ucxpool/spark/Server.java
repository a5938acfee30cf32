package org.ucxpool.spark;

import java.io.IOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;

import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.ucxpool.Channel;
import org.ucxpool.DataFile;
import org.ucxpool.Message;
import org.ucxpool.Source;
import org.ucxpool.Status;
import org.ucxpool.Transfer;
import org.ucxpool.UcxpoolException;

/**
 * Answers the requests of one other executor from the files of the map outputs.
 * Only the transport's thread uses this object.
 */
final class Server implements Channel.Handler {
    private static final Logger LOG = LoggerFactory.getLogger(Server.class);

    /** Maximum number of replies in progress. */
    private static final int WINDOW = 4;
    /** Maximum number of blocks in one reply. */
    private static final int MAX_PIECES = 4096;

    /** The unanswered part of a request. */
    private static final class Answer {
        final long request;
        final List<BlockRange> blocks;
        int next; /* the first block that has not been sent completely */
        long sent; /* bytes of that block that have been sent */
        MapOutputs.Location location; /* of that block; null: not begun */

        Answer(long request, List<BlockRange> blocks) {
            this.request = request;
            this.blocks = blocks;
        }

        boolean isOver() {
            return next == blocks.size();
        }

        /**
         * Ends the current block. Returns its file, which the caller releases,
         * or null.
         */
        DataFile endBlock() {
            DataFile file = location == null ? null : location.file;

            location = null;
            sent = 0;
            next++;
            return file;
        }
    }

    private final MapOutputs outputs;
    private final int messageSize;
    private final Statistics statistics;
    private final Channel channel;
    private final Queue<Answer> answers = new ArrayDeque<>();
    /** The files of the current reply. */
    private final List<DataFile> files = new ArrayList<>();
    private int numUnderWay;

    Server(Channel channel, MapOutputs outputs, int messageSize,
           Statistics statistics) {
        this.channel = channel;
        this.outputs = outputs;
        this.messageSize = messageSize;
        this.statistics = statistics;
    }

    @Override
    public void arrived(Message message) {
        if (Protocol.kind(message.tag()) != Protocol.REQUEST) {
            message.refuse("not a request");
            return;
        }
        List<BlockRange> blocks;

        try {
            blocks = Protocol.blocks(message.metadata());
            message.receive();
        } catch (IllegalArgumentException e) {
            message.refuse(e.getMessage());
            return;
        } catch (UcxpoolException e) {
            giveUp("a request cannot be received", e);
            return;
        }
        answers.add(new Answer(Protocol.request(message.tag()), blocks));
        sendMore();
    }

    @Override
    public void changed(Channel ended, Channel.State state, String reason) {
        if (state != Channel.State.OPEN) {
            drop();
            ended.close();
        }
    }

    private void drop() {
        for (Answer answer : answers) {
            while (!answer.isOver()) {
                end(answer);
            }
        }
        releaseFiles();
        answers.clear();
    }

    /**
     * Close the channel to inform the peer, which would otherwise wait for an
     * answer.
     */
    private void giveUp(String what, UcxpoolException why) {
        if (why.status() == Status.CLOSED
            || why.status() == Status.PEER_LOST) {
            LOG.debug("{}: the channel has ended", what, why);
        } else {
            LOG.warn("no more replies to an executor at {}, {}: {}",
                     channel.remoteAddress(), what, why.getMessage());
        }
        drop();
        channel.abort();
    }

    private void sendMore() {
        try {
            while (numUnderWay < WINDOW && !answers.isEmpty()) {
                Answer answer = answers.element();

                sendNext(answer);
                if (answer.isOver()) {
                    answers.remove();
                }
            }
        } catch (UcxpoolException e) {
            giveUp("a reply cannot be sent", e);
        }
    }

    /** Send the next reply, or the failure of a block. */
    private void sendNext(Answer answer) throws UcxpoolException {
        int first = answer.next;
        int count = 0;
        boolean isLastComplete = true;
        Source source = new Source(
            Math.min(answer.blocks.size() - first, MAX_PIECES));
        IOException failure = null;

        while (!answer.isOver() && count < MAX_PIECES && isLastComplete
               && source.length() < messageSize) {
            try {
                isLastComplete = addPiece(answer, source);
                count++;
            } catch (IOException e) {
                failure = e;
                break;
            }
        }
        if (count > 0) {
            sendReply(answer, source, first, count, isLastComplete);
        }
        if (failure != null) {
            LOG.warn("block {} cannot be read: {}",
                     answer.blocks.get(answer.next), failure.toString());
            sendFailure(answer.request, answer.next, failure.toString());
            end(answer);
        }
        releaseFiles();
    }

    private void end(Answer answer) {
        DataFile file = answer.endBlock();

        if (file != null) {
            files.add(file);
        }
    }

    private void releaseFiles() {
        files.forEach(DataFile::release);
        files.clear();
    }

    /**
     * Add the part of the next block that fits. Returns whether the block is
     * complete.
     */
    private boolean addPiece(Answer answer, Source source)
            throws IOException {
        if (answer.location == null) {
            answer.location = outputs.find(answer.blocks.get(answer.next));
        }
        MapOutputs.Location location = answer.location;
        long size = Math.min(location.length - answer.sent,
                             messageSize - source.length());

        if (location.file == null) {
            /*
             * An empty block also needs a segment, because segments are
             * counted.
             */
            source.addEmpty();
        } else {
            source.add(location.file, location.offset + answer.sent, size);
        }
        answer.sent += size;
        if (answer.sent < location.length) {
            return false;
        }
        end(answer);
        statistics.servedBlocks.inc();
        return true;
    }

    /** Send the reply. If the send cannot be posted, the blocks fail. */
    private void sendReply(Answer answer, Source source, int first, int count,
                           boolean isLastComplete) throws UcxpoolException {
        long request = answer.request;

        try {
            channel.send(source, Protocol.tag(Protocol.REPLY, request),
                         Protocol.reply(first, isLastComplete),
                         sent -> sent(request, first, count, sent));
        } catch (UcxpoolException e) {
            if (!isLastComplete) {
                end(answer);
            }
            sendFailures(request, first, count, e.getMessage());
            LOG.warn("{} blocks cannot be sent: {}", count, e.getMessage());
            return;
        }
        numUnderWay++;
        statistics.replies.inc();
        statistics.servedBytes.inc(source.length());
    }

    private void sent(long request, int first, int count, Transfer sent) {
        UcxpoolException failure = sent.failure();

        numUnderWay--;
        if (channel.state() != Channel.State.OPEN) {
            return;
        }
        if (failure != null) {
            try {
                sendFailures(request, first, count, failure.getMessage());
            } catch (UcxpoolException e) {
                giveUp("a failure cannot be reported", e);
                return;
            }
        }
        sendMore();
    }

    private void sendFailures(long request, int first, int count, String why)
            throws UcxpoolException {
        for (int i = 0; i < count; i++) {
            sendFailure(request, first + i, why);
        }
    }

    private void sendFailure(long request, int index, String why)
            throws UcxpoolException {
        channel.send(new Source(), Protocol.tag(Protocol.FAILURE, request),
                     Protocol.failure(index, why), null);
    }
}
