/*
 * A transport like that of Spark RAPIDS' shuffle, on bounce buffers of the
 * pool. The sender packs many blocks into windows of one bounce buffer each.
 * The receiver takes a bounce buffer for each window and copies the blocks out.
 *
 *     blocks     [ 1 ][    2    ][        3        ][ 4 ]
 *     windows    [   bounce buffer   ][   bounce buffer   ]
 *
 * Both sides know the lengths of the blocks from metadata that was exchanged
 * earlier, and therefore need no header. The left column has the calls in
 * RAPIDS, the right column has the calls that replace them here:
 *
 *     BounceBufferManager.acquireBuffersNonBlocking  the same
 *     BounceBufferManager.freeBuffer, close          the same
 *     getRootBuffer, registered by the transport     registered already
 *     connection.request(message, callback)          channel.send()
 *     connection.receive(buffer, callback)           message.receive()
 *     transaction.waitForCompletion                  transfer.await()
 *
 *     java -cp ucxpool.jar examples/BounceTransport.java
 */
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.TimeUnit;

import org.ucxpool.BounceBuffer;
import org.ucxpool.BounceBufferManager;
import org.ucxpool.Channel;
import org.ucxpool.Listener;
import org.ucxpool.Message;
import org.ucxpool.Pool;
import org.ucxpool.Source;

public final class BounceTransport {
    private static final int WINDOW = 256 << 10;
    private static final int NUM_BUFFERS = 4;
    private static final long LIMIT = 60;

    private BounceTransport() {
    }

    /** Copies bytes between consecutive blocks and a window. */
    private static final class Cursor {
        private final List<ByteBuffer> blocks;
        private int next;

        Cursor(List<ByteBuffer> blocks) {
            this.blocks = blocks;
        }

        boolean isAtEnd() {
            return next == blocks.size();
        }

        /** Copies the blocks' next bytes into a window, or a window's into the
         * blocks, until one of them ends. */
        void move(ByteBuffer window, boolean isOut) {
            while (!isAtEnd() && window.hasRemaining()) {
                ByteBuffer block = blocks.get(next);
                ByteBuffer from = isOut ? window : block;
                ByteBuffer to = isOut ? block : window;
                int length = Math.min(from.remaining(), to.remaining());

                to.put(from.slice().limit(length));
                from.position(from.position() + length);
                if (!block.hasRemaining()) {
                    next++;
                }
            }
        }
    }

    /** The sending side: packs a window while others are in flight. */
    static void send(Channel channel, BounceBufferManager manager,
                     List<ByteBuffer> blocks) throws Exception {
        Cursor cursor = new Cursor(blocks);

        for (long window = 0; !cursor.isAtEnd(); window++) {
            BounceBuffer bounce = manager.acquireBuffersBlocking(1).get(0);
            ByteBuffer bytes = bounce.byteBuffer();
            Source source = new Source();

            cursor.move(bytes, false);
            bounce.addTo(source, 0, bytes.position());
            /* Release the bounce buffer in any case. */
            channel.send(source, window, null, sent -> bounce.close());
        }
    }

    /** The receiving side: receives into bounce buffers and copies out. */
    static void receive(Channel channel, BounceBufferManager manager,
                        List<ByteBuffer> blocks) throws Exception {
        Cursor cursor = new Cursor(blocks);

        while (!cursor.isAtEnd()) {
            Message message = channel.receive(LIMIT, TimeUnit.SECONDS);

            try (BounceBuffer bounce =
                     manager.acquireBuffersBlocking(1).get(0)) {
                ByteBuffer bytes =
                    bounce.byteBuffer().limit((int) message.length());

                message.receive(bytes, null).await();
                cursor.move(bytes, true);
            }
        }
    }

    private static Pool pool(String name) throws Exception {
        return new Pool(name, Map.of("COMM_SIZE", "16m"), null);
    }

    /** Progresses a pool in its own thread. Both sides need one. */
    private static void pollAlways(Pool pool) {
        Thread thread = new Thread(() -> {
            try {
                for (;;) {
                    pool.poll(LIMIT, TimeUnit.SECONDS);
                }
            } catch (java.io.IOException e) {
                /* The pool is closed. */
            }
        });

        thread.setDaemon(true);
        thread.start();
    }

    public static void main(String[] arguments) throws Exception {
        Random random = new Random(1);
        List<ByteBuffer> blocks = new ArrayList<>();
        List<ByteBuffer> arrived = new ArrayList<>();
        long length = 0;

        for (int i = 0; i < 2000; i++) {
            byte[] bytes = new byte[1 + random.nextInt(20000)];

            random.nextBytes(bytes);
            blocks.add(ByteBuffer.wrap(bytes));
            arrived.add(ByteBuffer.allocate(bytes.length));
            length += bytes.length;
        }
        try (Pool left = pool("left"); Pool right = pool("right");
             BounceBufferManager out = new BounceBufferManager(
                 left, "send", WINDOW, NUM_BUFFERS);
             BounceBufferManager in = new BounceBufferManager(
                 right, "receive", WINDOW, NUM_BUFFERS);
             Listener listener = right.listen("127.0.0.1:0")) {
            pollAlways(left);
            pollAlways(right);
            Channel to = left.connect("127.0.0.1:" + listener.port());
            Channel from = listener.accept(LIMIT, TimeUnit.SECONDS);
            Thread receiver = new Thread(() -> {
                try {
                    receive(from, in, arrived);
                } catch (Exception e) {
                    throw new IllegalStateException(e);
                }
            });

            receiver.start();
            send(to, out, blocks);
            receiver.join();
            out.acquireBuffersBlocking(NUM_BUFFERS).forEach(
                BounceBuffer::close);
        }
        for (int i = 0; i < blocks.size(); i++) {
            if (!Arrays.equals(blocks.get(i).array(),
                               arrived.get(i).array())) {
                throw new IllegalStateException("block " + i + " differs");
            }
        }
        System.out.println(blocks.size() + " blocks, " + length
                           + " bytes, through bounce buffers");
    }
}
