package org.ucxpool;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

import org.junit.After;
import org.junit.Before;
import org.junit.Test;

public class BounceBufferTest {
    private static final int SIZE = 64 << 10;

    private Pool pool;
    private BounceBufferManager manager;

    @Before
    public void setUp() throws Exception {
        pool = new Pool("bounce", Map.of("COMM_SIZE", "8m", "BLOCK_SIZE",
                                         "64k", "HUGE_PAGES", "n"),
                        null);
        manager = new BounceBufferManager(pool, "send", SIZE, 4);
    }

    @After
    public void tearDown() {
        manager.close();
        pool.close();
    }

    @Test
    public void acquire_takes_all_or_nothing() {
        List<BounceBuffer> three = manager.acquireBuffersNonBlocking(3);

        assertEquals(3, three.size());
        assertTrue(manager.acquireBuffersNonBlocking(2).isEmpty());
        assertEquals(1, manager.numFree());
        three.forEach(BounceBuffer::close);
        assertEquals(4, manager.numFree());
        manager.acquireBuffersNonBlocking(4).forEach(manager::freeBuffer);
        assertEquals(4, manager.numFree());
    }

    @Test
    public void buffers_are_contiguous_in_the_root_buffer() {
        List<BounceBuffer> all = manager.acquireBuffersNonBlocking(4);

        for (int i = 0; i < 4; i++) {
            assertEquals(manager.rootBuffer().address() + (long) i * SIZE,
                         all.get(i).address());
            assertEquals(SIZE, all.get(i).byteBuffer().remaining());
            all.get(i).byteBuffer().put(0, (byte) i);
        }
        for (int i = 0; i < 4; i++) {
            assertEquals(i, manager.rootBuffer().byteBuffer().get(i * SIZE));
            all.get(i).close();
        }
    }

    @Test
    public void wrong_usage_is_rejected() throws Exception {
        BounceBuffer one = manager.acquireBuffersNonBlocking(1).get(0);

        assertThrows(IllegalArgumentException.class,
                     () -> manager.acquireBuffersNonBlocking(0));
        assertThrows(IllegalArgumentException.class,
                     () -> manager.acquireBuffersNonBlocking(5));
        try (BounceBufferManager other =
                 new BounceBufferManager(pool, "other", SIZE, 1)) {
            assertThrows(IllegalArgumentException.class,
                         () -> other.freeBuffer(one));
        }
        one.close();
        assertThrows(IllegalStateException.class, one::close);
        assertEquals(4, manager.numFree());
    }

    @Test
    public void blocked_acquire_gets_released_buffers() throws Exception {
        List<BounceBuffer> all = manager.acquireBuffersBlocking(4);
        CompletableFuture<Integer> taken = CompletableFuture.supplyAsync(() -> {
            try {
                List<BounceBuffer> two = manager.acquireBuffersBlocking(2);

                two.forEach(BounceBuffer::close);
                return two.size();
            } catch (InterruptedException e) {
                return -1;
            }
        });

        all.forEach(BounceBuffer::close);
        assertEquals(2, (int) taken.get(1800, TimeUnit.SECONDS));
    }

    @Test
    public void last_buffer_returns_the_memory_to_the_pool()
            throws Exception {
        long before = pool.stats().get("blocks_user_held");
        BounceBuffer one = manager.acquireBuffersNonBlocking(1).get(0);

        assertTrue(before > 0);
        manager.close();
        assertThrows(IllegalStateException.class,
                     () -> manager.acquireBuffersNonBlocking(1));
        assertEquals(before, (long) pool.stats().get("blocks_user_held"));
        one.close();
        assertEquals(0, (long) pool.stats().get("blocks_user_held"));
    }
}
