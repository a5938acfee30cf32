package org.ucxpool.spark;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;

import org.apache.spark.SparkConf;
import org.apache.spark.shuffle.IndexShuffleBlockResolver;
import org.junit.After;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.TemporaryFolder;
import org.ucxpool.Channel;
import org.ucxpool.Listener;
import org.ucxpool.Message;
import org.ucxpool.Pool;
import org.ucxpool.Source;
import org.ucxpool.UcxpoolException;
import scala.Option;

/** A server whose pool cannot send some of its replies. */
public class ServerTest implements Channel.Handler {
    private static final int LIMIT_MS = 1800000;
    private static final int MESSAGE_SIZE = 1 << 20;

    @Rule
    public final TemporaryFolder folder = new TemporaryFolder();

    /** One map output. */
    private final class Resolver extends IndexShuffleBlockResolver {
        Resolver() {
            super(new SparkConf(false), null, new ConcurrentHashMap<>());
        }

        @Override
        public File getDataFile(int shuffleId, long mapId) {
            return new File(folder.getRoot(), "data");
        }

        @Override
        public File getIndexFile(int shuffleId, long mapId,
                                 Option<String[]> folders) {
            return new File(folder.getRoot(), "index");
        }
    }

    private final Resolver resolver = new Resolver();
    private final MapOutputs outputs = new MapOutputs(() -> resolver);
    private final Statistics statistics = new Statistics();
    private final List<Long> tags = new ArrayList<>();
    private final List<Long> lengths = new ArrayList<>();
    private final List<byte[]> metadata = new ArrayList<>();
    private boolean hasEnded;
    private Pool asks;
    private Pool answers;
    private Channel channel;

    private static Pool makePool(String name, Map<String, String> more)
            throws Exception {
        Map<String, String> settings = new HashMap<>(
            Map.of("COMM_SIZE", "2m", "MEMORY_LIMIT", "16m", "HEAP_CHUNK",
                   "2m", "HUGE_PAGES", "n"));

        settings.putAll(more);
        return new Pool(name, settings, null);
    }

    @Override
    public void arrived(Message message) {
        tags.add(message.tag());
        lengths.add(message.length());
        metadata.add(message.metadata());
        try {
            message.receive(
                ByteBuffer.allocateDirect((int) message.length()), null);
        } catch (UcxpoolException e) {
            throw new AssertionError(e);
        }
    }

    @Override
    public void changed(Channel channel, Channel.State state, String reason) {
        hasEnded = state != Channel.State.OPEN;
    }

    private void write(long... offsets) throws Exception {
        ByteBuffer index = ByteBuffer.allocate(8 * offsets.length);

        for (long offset : offsets) {
            index.putLong(offset);
        }
        Files.write(resolver.getIndexFile(0, 0, null).toPath(),
                    index.array());
        Files.write(resolver.getDataFile(0, 0).toPath(),
                    new byte[(int) offsets[offsets.length - 1]]);
    }

    /** Start a server in a pool with this setting, and connect to it. */
    private void serve(String setting, String value) throws Exception {
        asks = makePool("asks", Map.of());
        answers = makePool("answers", Map.of(setting, value));
        Listener listener = answers.listen("127.0.0.1:0");

        listener.handle(caller -> caller.handle(
            new Server(caller, outputs, MESSAGE_SIZE, statistics)));
        channel = asks.connect("127.0.0.1:" + listener.port());
        channel.handle(this);
    }

    @After
    public void tearDown() {
        asks.close();
        answers.close();
        outputs.close();
    }

    private void ask(long request, String... names) throws Exception {
        ByteArrayOutputStream blocks = new ByteArrayOutputStream();

        for (String name : names) {
            BlockRange.parse(name).write(blocks);
        }
        channel.send(new Source(), Protocol.tag(Protocol.REQUEST, request),
                     blocks.toByteArray(), null);
    }

    private void pollUntil(int count) throws Exception {
        while (tags.size() < count && !hasEnded) {
            asks.poll(1, TimeUnit.MILLISECONDS);
            answers.poll(1, TimeUnit.MILLISECONDS);
        }
    }

    @Test(timeout = LIMIT_MS)
    public void unpostable_reply_fails_its_blocks()
            throws Exception {
        write(0, 10, 30, 30 + 2 * MESSAGE_SIZE);
        serve("MAX_SEGMENTS", "1");
        /* Segments of three lengths; the last block is longer than a reply. */
        ask(7, "shuffle_0_0_0", "shuffle_0_0_1", "shuffle_0_0_2");
        pollUntil(3);
        for (int i = 0; i < 3; i++) {
            assertEquals(Protocol.tag(Protocol.FAILURE, 7),
                         (long) tags.get(i));
            assertEquals(i, ByteBuffer.wrap(metadata.get(i)).getInt());
        }
        assertTrue(Protocol.why(metadata.get(0)),
                   Protocol.why(metadata.get(0)).contains("MAX_SEGMENTS"));
        /* Replies that can be posted are still sent. */
        ask(8, "shuffle_0_0_1");
        pollUntil(4);
        assertEquals(Protocol.tag(Protocol.REPLY, 8), (long) tags.get(3));
        assertEquals(20, (long) lengths.get(3));
        assertArrayEquals(Protocol.reply(0, true), metadata.get(3));
    }

    @Test(timeout = LIMIT_MS)
    public void channel_closes_if_a_failure_cannot_be_sent()
            throws Exception {
        write(0, 10);
        serve("MAX_METADATA", "4");
        ask(7, "shuffle_0_0_0");
        pollUntil(1);
        assertTrue(hasEnded);
        assertEquals(List.of(), tags);
    }
}
