package org.ucxpool.spark;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;

import org.junit.Test;

public class BlockRangeTest {
    @Test
    public void shuffle_block_names_are_parsed_and_formatted() {
        BlockRange one = BlockRange.parse("shuffle_3_12345678901_7");
        BlockRange several = BlockRange.parse("shuffle_0_5_10_20");

        assertEquals(3, one.shuffleId);
        assertEquals(12345678901L, one.mapId);
        assertEquals(7, one.first);
        assertEquals(8, one.end);
        assertEquals("shuffle_3_12345678901_7", one.toString());
        assertEquals(10, several.first);
        assertEquals(20, several.end);
        assertEquals("shuffle_0_5_10_20", several.toString());
    }

    @Test
    public void other_block_names_are_not_parsed() {
        for (String name : new String[] {
                 "rdd_1_2", "broadcast_1", "shuffle_1_2",
                 "shuffleChunk_1_2_3_4", "shuffleMerged_app_1_2_3",
                 "shuffle_1_2_3.data", "shuffle_1_2_3_4_5", "shuffle_a_2_3",
                 "shuffle_1_2_9_3", "shuffle_1_-2_3", "shuffle_",
                 "shuffle_99999999999_1_1"}) {
            assertNull(name, BlockRange.parse(name));
        }
    }

    @Test
    public void one_other_name_rejects_the_whole_list() {
        String[] names = {"shuffle_1_2_3", "shuffle_1_3_3_5"};

        assertEquals(names[0], BlockRange.parse(names).get(0).toString());
        assertEquals(names[1], BlockRange.parse(names).get(1).toString());
        names[1] = "shuffleChunk_1_0_3_0";
        assertNull(BlockRange.parse(names));
    }

    @Test
    public void requests_are_split_by_size_and_decoded() {
        List<BlockRange> blocks = new ArrayList<>();
        Random random = new Random(1);
        List<String> back = new ArrayList<>();
        List<String> wanted = new ArrayList<>();
        int[] count = new int[1];

        for (int i = 0; i < 2000; i++) {
            int first =
                random.nextInt(Integer.MAX_VALUE) >>> random.nextInt(31);

            blocks.add(new BlockRange(
                random.nextInt(Integer.MAX_VALUE) >>> random.nextInt(31),
                random.nextLong() >>> 1 + random.nextInt(60), first,
                i % 3 == 0 ? first : Math.max(first, first + 1)));
            wanted.add(blocks.get(i).toString());
        }
        for (int from = 0; from < blocks.size(); from += count[0]) {
            byte[] request = Protocol.request(blocks, from, count);

            assertTrue(request.length <= Protocol.METADATA_MAX);
            assertTrue(count[0] > 0);
            for (BlockRange block : Protocol.blocks(request)) {
                back.add(block.toString());
            }
        }
        assertEquals(wanted, back);
    }

    @Test
    public void malformed_requests_are_rejected() {
        int[] count = new int[1];
        byte[] request = Protocol.request(
            List.of(new BlockRange(1000, 1000, 1000, 1001)), 0, count);

        for (int length = 1; length < request.length; length++) {
            byte[] cut = Arrays.copyOf(request, length);

            assertThrows(IllegalArgumentException.class,
                         () -> Protocol.blocks(cut));
        }
        byte[] long9 = new byte[64];

        Arrays.fill(long9, (byte) 0xff);
        assertThrows(IllegalArgumentException.class,
                     () -> Protocol.blocks(long9));
    }

    @Test
    public void tags_encode_kind_and_number() {
        long number = (1L << 56) - 1;

        for (int kind : new int[] {Protocol.REQUEST, Protocol.REPLY,
                                   Protocol.FAILURE}) {
            assertEquals(kind, Protocol.kind(Protocol.tag(kind, number)));
            assertEquals(number, Protocol.request(Protocol.tag(kind, number)));
        }
        assertEquals("not there", Protocol.why(
            Protocol.failure(3, "not there")));
    }
}
