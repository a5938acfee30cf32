package org.ucxpool;

import java.util.ArrayDeque;
import java.util.Queue;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/** Accepts peers that connect and prove that they know the secret. */
public final class Listener implements AutoCloseable {
    private final Pool pool;
    private final int require;
    private final int port;
    private final Queue<Channel> callers = new ArrayDeque<>();
    private Consumer<Channel> handler;
    private long handle;

    Listener(Pool pool, long handle, int require) {
        this.pool = pool;
        this.handle = handle;
        this.require = require;
        this.port = Native.listenerPort(handle);
    }

    /**
     * Returns the listening port.
     *
     * @return the port; the actual one if port 0 was requested
     */
    public int port() {
        return port;
    }

    /** Returns the allowed paths of accepted channels: ucxpool_path_t bits. */
    int require() {
        return require;
    }

    /**
     * Pass peers to a handler when they connect, instead of {@link #accept
     * accept()}. The handler is called in the thread that polls.
     *
     * @param handler called with each channel
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
     * @param timeout the maximum time to wait
     * @param unit the unit of the timeout
     * @return the channel to the peer, or null if the timeout expired first
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

    /** Stop listening. Accepted channels stay open. */
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
