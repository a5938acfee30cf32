package org.ucxpool;

import java.util.ArrayDeque;
import java.util.Queue;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/** Takes peers that connect and have proven that they know the secret. */
public final class Listener implements AutoCloseable {
    private final Pool pool;
    private final int port;
    private final Queue<Channel> callers = new ArrayDeque<>();
    private Consumer<Channel> handler;
    private long handle;

    Listener(Pool pool, long handle) {
        this.pool = pool;
        this.handle = handle;
        this.port = Native.listenerPort(handle);
    }

    /**
     * Where it listens.
     *
     * @return the port, also where a free one was asked for
     */
    public int port() {
        return port;
    }

    /**
     * Have peers handled where they come, in place of {@link #accept accept()},
     * by the thread that polls.
     *
     * @param handler given each channel
     */
    public synchronized void handle(Consumer<Channel> handler) {
        this.handler = handler;
        while (!callers.isEmpty()) {
            handler.accept(callers.remove());
        }
    }

    void put(Channel channel) {
        Consumer<Channel> told;

        synchronized (this) {
            told = handler;
            if (told == null) {
                callers.add(channel);
                return;
            }
        }
        told.accept(channel);
    }

    /**
     * Wait for the next peer.
     *
     * @param timeout how long at most
     * @param unit of the timeout
     * @return the channel to it, or null if the time was over first
     * @throws UcxpoolException the pool was closed
     */
    public Channel accept(long timeout, TimeUnit unit)
            throws UcxpoolException {
        pool.await(this::hasCaller, unit.toNanos(timeout));
        synchronized (this) {
            return callers.poll();
        }
    }

    private synchronized boolean hasCaller() {
        return !callers.isEmpty();
    }

    /** Stop listening. Channels stay. */
    @Override
    public void close() {
        synchronized (this) {
            if (handle == 0) {
                return;
            }
            pool.release(this, handle);
            handle = 0;
        }
    }
}
