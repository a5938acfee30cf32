package org.ucxpool.spark;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertSame;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.StandardCopyOption;

import org.apache.spark.SparkConf;
import org.apache.spark.shuffle.IndexShuffleBlockResolver;
import org.junit.After;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.TemporaryFolder;
import scala.Option;

public class MapOutputsTest {
    @Rule
    public final TemporaryFolder folder = new TemporaryFolder();

    /** Resolves files by name in one directory. */
    private final class Resolver extends IndexShuffleBlockResolver {
        Resolver() {
            super(new SparkConf(false), null,
                  new java.util.concurrent.ConcurrentHashMap<>());
        }

        @Override
        public File getDataFile(int shuffleId, long mapId) {
            return new File(folder.getRoot(), shuffleId + "_" + mapId
                                                  + ".data");
        }

        @Override
        public File getIndexFile(int shuffleId, long mapId,
                                 Option<String[]> folders) {
            return new File(folder.getRoot(), shuffleId + "_" + mapId
                                                  + ".index");
        }
    }

    private final Resolver resolver = new Resolver();
    private final MapOutputs outputs = new MapOutputs(() -> resolver);

    @After
    public void tearDown() {
        outputs.close();
    }

    private void write(int shuffleId, long mapId, long... offsets)
            throws IOException {
        ByteBuffer index = ByteBuffer.allocate(8 * offsets.length);

        for (long offset : offsets) {
            index.putLong(offset);
        }
        Files.write(resolver.getIndexFile(shuffleId, mapId, null).toPath(),
                    index.array());
        Files.write(resolver.getDataFile(shuffleId, mapId).toPath(),
                    new byte[(int) offsets[offsets.length - 1]]);
    }

    private MapOutputs.Location find(String name) throws IOException {
        return outputs.find(BlockRange.parse(name));
    }

    @Test
    public void blocks_are_located_by_the_index() throws IOException {
        write(1, 7, 0, 10, 10, 35);
        MapOutputs.Location location = find("shuffle_1_7_0");

        assertEquals(0, location.offset);
        assertEquals(10, location.length);
        assertEquals("1_7.data", location.file.path().getFileName()
                                     .toString());
        location.file.release();
        location = find("shuffle_1_7_2");
        assertEquals(10, location.offset);
        assertEquals(25, location.length);
        location.file.release();
        location = find("shuffle_1_7_0_3");
        assertEquals(0, location.offset);
        assertEquals(35, location.length);
        location.file.release();
        location = find("shuffle_1_7_1");
        assertEquals(0, location.length);
        assertNull(location.file);
    }

    private void writeLong(int shuffleId, int count) throws IOException {
        long[] offsets = new long[count + 1];

        for (int i = 0; i < offsets.length; i++) {
            offsets[i] = 3L * i;
        }
        write(shuffleId, 8, offsets);
    }

    private void findInLong(int shuffleId) throws IOException {
        MapOutputs.Location location =
            find("shuffle_" + shuffleId + "_8_4000_4999");

        assertEquals(12000, location.offset);
        assertEquals(2997, location.length);
        location.file.release();
    }

    private boolean isKept(int shuffleId) throws IOException {
        File index = resolver.getIndexFile(shuffleId, 8, null);
        File away = folder.newFile();

        Files.move(index.toPath(), away.toPath(),
                   StandardCopyOption.REPLACE_EXISTING);
        try {
            findInLong(shuffleId);
            return true;
        } catch (IOException missing) {
            return false;
        } finally {
            Files.move(away.toPath(), index.toPath());
        }
    }

    @Test
    public void long_indexes_are_cached_up_to_a_limit()
            throws IOException {
        int half = 500000; /* nearly half of the offsets that are cached */

        for (int shuffle = 10; shuffle < 13; shuffle++) {
            writeLong(shuffle, half);
            findInLong(shuffle);
            String beyond = "shuffle_" + shuffle + "_8_" + half;

            assertThrows(IOException.class, () -> find(beyond));
        }
        assertTrue(isKept(10));
        assertTrue(isKept(11));
        assertFalse(isKept(12));
        outputs.forget(10);
        findInLong(12);
        assertTrue(isKept(12));
    }

    @Test
    public void missing_or_damaged_files_are_errors() throws IOException {
        assertThrows(IOException.class, () -> find("shuffle_2_1_0"));
        write(2, 2, 0, 5, 9);
        assertThrows(IOException.class, () -> find("shuffle_2_2_2"));
        write(2, 3, 0, 9, 5, 12);
        assertThrows(IOException.class, () -> find("shuffle_2_3_1"));
        write(2, 4, 0, 5);
        assertTrue(resolver.getDataFile(2, 4).delete());
        assertThrows(IOException.class, () -> find("shuffle_2_4_0"));
    }

    @Test
    public void files_stay_open_until_their_shuffle_is_removed()
            throws IOException {
        write(3, 1, 0, 5);
        write(4, 1, 0, 5);
        MapOutputs.Location first = find("shuffle_3_1_0");
        MapOutputs.Location other = find("shuffle_4_1_0");
        MapOutputs.Location again = find("shuffle_3_1_0");

        assertSame(first.file, again.file);
        first.file.release();
        again.file.release();
        other.file.release();
        outputs.forget(3);
        assertThrows(IllegalStateException.class, first.file::retain);
        other.file.retain().release();
    }

    @Test
    public void oldest_files_are_closed_at_the_limit()
            throws IOException {
        write(5, 0, 0, 5);
        MapOutputs.Location oldest = find("shuffle_5_0_0");

        for (int i = 1; i <= 512; i++) {
            write(5, i, 0, 5);
            find("shuffle_5_" + i + "_0").file.release();
        }
        /* The file is closed, but its last reader still has a reference. */
        oldest.file.release();
        assertThrows(IllegalStateException.class, oldest.file::retain);
        find("shuffle_5_0_0").file.release();
    }
}
