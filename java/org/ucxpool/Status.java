package org.ucxpool;

/** How a call or a transfer ended, as ucxpool/status.h has it. */
public enum Status {
    /** All went well. */
    OK(0),
    /** Not finished. */
    INPROGRESS(1),
    /** An argument or a setting is wrong. */
    INVALID_PARAM(-1),
    /** The system gave no memory, or a limit of the pool is reached. */
    NO_MEMORY(-2),
    /** No, or too few, blocks are free. */
    NO_BLOCKS(-3),
    /** Not possible with this build, or with this UCX. */
    UNSUPPORTED(-4),
    /** The system or UCX failed, or a file cannot be read. */
    IO(-5),
    /** Ended by cancel, here or by the peer. */
    CANCELED(-6),
    /** The deadline passed. */
    TIMED_OUT(-7),
    /** The peer died, or cannot be reached. */
    PEER_LOST(-8),
    /** The peer said no. */
    REFUSED(-9),
    /** The message is longer than its target. */
    TRUNCATED(-10),
    /** Nothing that matches has arrived. */
    NO_MESSAGE(-11),
    /** Events are pending. */
    BUSY(-12),
    /** Not allowed, or the secret is wrong. */
    PERMISSION(-13),
    /** The peer speaks another version, or nonsense. */
    PROTOCOL(-14),
    /** Bytes changed on the way. */
    CHECKSUM(-15),
    /** The port is taken. */
    ADDRESS_IN_USE(-16),
    /** The channel or pool is closed. */
    CLOSED(-17),
    /** Over a limit of ours, or of the peer's. */
    LIMIT(-18);

    private final int code;

    Status(int code) {
        this.code = code;
    }

    /**
     * The status of a number of the C library.
     *
     * @param code the number
     * @return the status; IO for one that a newer library has added
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
