package org.ucxpool;

import java.io.IOException;

/**
 * An error of the library. The message says what failed and what to change. The
 * {@link #status() status} is the code of the error. Errors that a program may
 * handle separately have their own classes.
 */
public class UcxpoolException extends IOException {
    private static final long serialVersionUID = 1;

    private final Status status;

    UcxpoolException(Status status, String message) {
        super(message);
        this.status = status;
    }

    /**
     * Returns the status.
     *
     * @return never OK
     */
    public Status status() {
        return status;
    }

    /** The peer died or cannot be reached, or the channel failed there. */
    public static final class PeerLost extends UcxpoolException {
        private static final long serialVersionUID = 1;

        PeerLost(String message) {
            super(Status.PEER_LOST, message);
        }
    }

    /** The peer refused the message. The text is the peer's reason. */
    public static final class Refused extends UcxpoolException {
        private static final long serialVersionUID = 1;

        Refused(String message) {
            super(Status.REFUSED, message);
        }
    }

    /** The transfer was canceled, here or by the peer. */
    public static final class Canceled extends UcxpoolException {
        private static final long serialVersionUID = 1;

        Canceled(String message) {
            super(Status.CANCELED, message);
        }
    }

    /** The transfer's deadline passed. */
    public static final class TimedOut extends UcxpoolException {
        private static final long serialVersionUID = 1;

        TimedOut(String message) {
            super(Status.TIMED_OUT, message);
        }
    }

    /** The pool has no memory left, or too few free blocks. */
    public static final class NoMemory extends UcxpoolException {
        private static final long serialVersionUID = 1;

        NoMemory(Status status, String message) {
            super(status, message);
        }
    }

    /** The channel or the pool is closed. */
    public static final class Closed extends UcxpoolException {
        private static final long serialVersionUID = 1;

        Closed(String message) {
            super(Status.CLOSED, message);
        }
    }

    /** Returns the exception for an error status. */
    static UcxpoolException of(Status status, String detail) {
        String name = Native.text(Native.statusString(status.code()));
        String message = detail.isEmpty() ? name : name + ": " + detail;

        switch (status) {
        case PEER_LOST:
            return new PeerLost(message);
        case REFUSED:
            return new Refused(message);
        case CANCELED:
            return new Canceled(message);
        case TIMED_OUT:
            return new TimedOut(message);
        case NO_MEMORY:
        case NO_BLOCKS:
            return new NoMemory(status, message);
        case CLOSED:
            return new Closed(message);
        default:
            return new UcxpoolException(status, message);
        }
    }

    /** Returns the exception for the last call in this thread. */
    static UcxpoolException ofLastCall(long code) {
        if (code == Native.OUT_OF_MEMORY) {
            return of(Status.NO_MEMORY,
                      "cannot allocate memory outside the Java heap");
        }
        return of(Status.of((int) code), Native.text(Native.detail()));
    }
}
