package org.ucxpool.spark;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

import org.junit.After;
import org.junit.Before;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.TemporaryFolder;
import org.ucxpool.Buffer;
import org.ucxpool.Pool;

public class ReceivedBlockTest {
    @Rule
    public final TemporaryFolder folder = new TemporaryFolder();

    private Pool pool;
    private byte[] bytes;
    private File file;

    @Before
    public void setUp() throws Exception {
        pool = new Pool("blocks", Map.of("COMM_SIZE", "1m", "MEMORY_LIMIT",
                                         "16m", "HEAP_CHUNK", "2m",
                                         "HUGE_PAGES", "n"),
                        null);
        bytes = new byte[1000];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) (i * 7);
        }
        file = new File(folder.getRoot(), "spilled");
    }

    @After
    public void tearDown() {
        pool.close();
    }

    /** Bytes 0 to 400 in memory, 400 to 900 in a file, the rest in memory. */
    private ReceivedBlock block() throws IOException {
        Buffer buffer = pool.allocate(bytes.length);
        Part.SpillFile spilled =
            new Part.SpillFile(file, ByteBuffer.wrap(bytes));
        List<Part> parts = new ArrayList<>();

        buffer.byteBuffer().put(bytes);
        parts.add(Part.of(buffer, 0, 400));
        parts.add(spilled.part(400, 500));
        parts.add(Part.of(buffer, 900, 100));
        buffer.release();
        spilled.release();
        return new ReceivedBlock(parts);
    }

    private long heapLive() throws IOException {
        return pool.stats().get("heap_live_bytes");
    }

    @Test
    public void parts_are_read_as_one_block() throws IOException {
        ReceivedBlock block = block();
        ByteBuffer all = block.nioByteBuffer();
        byte[] copy = new byte[all.remaining()];

        assertEquals(1000, block.size());
        all.get(copy);
        assertArrayEquals(bytes, copy);
        try (InputStream in = block.createInputStream()) {
            assertArrayEquals(bytes, in.readAllBytes());
            assertEquals(-1, in.read());
        }
        try (InputStream in = block.createInputStream()) {
            for (byte wanted : bytes) {
                assertEquals(wanted & 0xff, in.read());
            }
            assertEquals(-1, in.read());
        }
        block.release();
    }

    @Test
    public void last_release_frees_memory_and_file() throws IOException {
        ReceivedBlock block = block();

        block.retain();
        block.release();
        assertTrue(file.exists());
        assertTrue(heapLive() > 0);
        block.release();
        assertFalse(file.exists());
        assertEquals(0, heapLive());
    }

    @Test
    public void deleted_file_is_an_error_on_read()
            throws IOException {
        ReceivedBlock block = block();

        assertTrue(file.delete());
        try (InputStream in = block.createInputStream()) {
            assertArrayEquals(Arrays.copyOf(bytes, 400), in.readNBytes(400));
            assertThrows(IOException.class, in::read);
        }
        block.release();
    }

    /** A thread started by a task may outlive the task. */
    @Test
    public void released_block_cannot_be_read()
            throws IOException {
        ReceivedBlock block = block();
        InputStream in = block.createInputStream();
        InputStream late = block.createInputStream();

        assertEquals(bytes[0], in.read());
        block.release();
        assertEquals(0, heapLive());
        assertThrows(IOException.class, in::read);
        assertThrows(IOException.class, () -> in.readNBytes(10));
        assertThrows(IOException.class, late::read);
    }

    @Test
    public void empty_block_is_at_its_end() throws IOException {
        ReceivedBlock block = new ReceivedBlock(List.of());

        assertEquals(0, block.size());
        assertEquals(-1, block.createInputStream().read());
        assertEquals(0, block.nioByteBuffer().remaining());
        block.release();
    }
}
