/*
 * Sends a header and a range of a file in one message from one pool to another.
 * The file is not mapped.
 *
 *     java -cp ucxpool.jar examples/FileTransfer.java
 */
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

import org.ucxpool.Buffer;
import org.ucxpool.Channel;
import org.ucxpool.DataFile;
import org.ucxpool.Listener;
import org.ucxpool.Message;
import org.ucxpool.Pool;
import org.ucxpool.Source;

public final class FileTransfer {
    private FileTransfer() {
    }

    private static void send(String where, ByteBuffer header, Path path)
            throws Exception {
        try (Pool pool = new Pool("sender");
             DataFile file = DataFile.open(path)) {
            Channel channel = pool.connect(where);
            Source source = new Source().add(header).add(file, 4096, 1 << 20);

            channel.send(source, 1).await();
        }
    }

    private static byte[] receive(Pool pool, Listener listener)
            throws Exception {
        Channel channel = listener.accept(60, TimeUnit.SECONDS);
        Message message = channel.receive(60, TimeUnit.SECONDS);
        byte[] bytes = new byte[(int) message.length()];

        try (Buffer buffer = pool.allocate(bytes.length)) {
            message.receive(buffer, null).await();
            buffer.byteBuffer().get(bytes);
        }
        return bytes;
    }

    public static void main(String[] arguments) throws Exception {
        Path path = Files.createTempFile("transfer", null);
        byte[] bytes = new byte[4096 + (1 << 20)];
        ByteBuffer header = ByteBuffer.allocateDirect(16);

        new Random(1).nextBytes(bytes);
        Files.write(path, bytes);
        try (Pool pool = new Pool("receiver");
             Listener listener = pool.listen("127.0.0.1:0")) {
            CompletableFuture<byte[]> result = new CompletableFuture<>();
            Thread receiver = new Thread(() -> {
                try {
                    result.complete(receive(pool, listener));
                } catch (Exception e) {
                    result.completeExceptionally(e);
                }
            });

            receiver.start();
            send("127.0.0.1:" + listener.port(), header, path);
            byte[] arrived = result.get();
            if (!Arrays.equals(Arrays.copyOfRange(arrived, 16, arrived.length),
                               Arrays.copyOfRange(bytes, 4096, bytes.length))) {
                throw new IllegalStateException("the received bytes differ");
            }
            System.out.println(arrived.length + " bytes arrived");
        } finally {
            Files.delete(path);
        }
    }
}
