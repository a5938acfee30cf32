package org.ucxpool.spark;

/** The reason why the pool is not used, and what to change. */
final class Obstacle extends Exception {
    private static final long serialVersionUID = 1;

    /**
     * A sentence without a full stop that names the Spark setting to change.
     */
    final String remedy;

    Obstacle(String why, String remedy) {
        super(why);
        this.remedy = remedy;
    }

    Obstacle(String why, String remedy, Throwable cause) {
        super(why, cause);
        this.remedy = remedy;
    }

    /** Returns the exception for an application that requires the pool. */
    IllegalStateException ofRequired() {
        return new IllegalStateException(
            Settings.REQUIRED + " is set, and the pool cannot be used: "
                + getMessage() + ". " + remedy,
            this);
    }
}
