package org.ucxpool;

/** The result of a call or a transfer, as in ucxpool/status.h. */
public enum Status {
    /** Success. */
    OK(0),
    /** Not finished. */
    INPROGRESS(1),
    /** An argument or a setting is wrong. */
    INVALID_PARAM(-1),
    /** Out of memory, or a limit of the pool is reached. */
    NO_MEMORY(-2),
    /** No blocks, or too few, are free. */
    NO_BLOCKS(-3),
    /** Not possible with this build, or with this UCX. */
    UNSUPPORTED(-4),
    /** The system or UCX failed, or a file cannot be read. */
    IO(-5),
    /** Canceled here or by the peer. */
    CANCELED(-6),
    /** The deadline passed. */
    TIMED_OUT(-7),
    /** The peer died or cannot be reached, or the channel failed there. */
    PEER_LOST(-8),
    /** The peer refused. */
    REFUSED(-9),
    /** The message is longer than its destination. */
    TRUNCATED(-10),
    /** No matching message has arrived. */
    NO_MESSAGE(-11),
    /** Events are pending. */
    BUSY(-12),
    /** Not allowed, or the secret is wrong. */
    PERMISSION(-13),
    /** The peer has another version, or sent an invalid message. */
    PROTOCOL(-14),
    /** The data was corrupted in transit, or changed while it was sent. */
    CHECKSUM(-15),
    /** The port is taken. */
    ADDRESS_IN_USE(-16),
    /** The channel or pool is closed. */
    CLOSED(-17),
    /** A limit here or at the peer is exceeded. */
    LIMIT(-18);

    private final int code;

    Status(int code) {
        this.code = code;
    }

    /**
     * Returns the status for a status code of the C library.
     *
     * @param code the code
     * @return the status; IO for a code that a newer library has added
     */
    static Status of(int code) {
        for (Status status : values()) {
            if (status.code == code) {
                return status;
            }
        }
        return IO;
    }

    int code() {
        return code;
    }
}
