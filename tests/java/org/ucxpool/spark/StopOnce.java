package org.ucxpool.spark;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;

import org.apache.spark.SparkEnv;
import org.apache.spark.sql.api.java.UDF2;

/**
 * An SQL function that returns its argument. The first task that calls it while
 * the directory contains two named pipes, "reached" and "go", takes the pipes.
 * It writes its executor's id to the first, and continues when it can read the
 * second.
 */
public final class StopOnce implements UDF2<Long, String, Long> {
    private static final long serialVersionUID = 1;

    @Override
    public Long call(Long number, String folder) throws IOException {
        Path reached = Path.of(folder, "reached");
        Path taken = Path.of(folder, "taken");

        if (!Files.exists(reached)) {
            return number;
        }
        try {
            Files.move(reached, taken);
        } catch (NoSuchFileException e) {
            return number;
        }
        Files.writeString(taken, SparkEnv.get().executorId());
        Files.readString(Path.of(folder, "go"));
        return number;
    }
}
