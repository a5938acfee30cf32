/*
 * Runs a fuzz target once on each named file, and prints what each input did.
 * With --enable-fuzzers, libFuzzer's main() is used instead.
 */
#include <config.h>

#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The data is copied to memory of exactly its size, so that a sanitizer detects
 * each read beyond it. */
static void run_file(const char *path)
{
    FILE    *file = fopen(path, "rb");
    uint8_t *data;
    long     size;

    if ((file == NULL) || (fseek(file, 0, SEEK_END) != 0) ||
        ((size = ftell(file)) < 0) || (fseek(file, 0, SEEK_SET) != 0)) {
        perror(path);
        exit(EXIT_FAILURE);
    }
    data = malloc((size_t)size);
    if (((data == NULL) && (size != 0)) ||
        (fread(data, 1, (size_t)size, file) != (size_t)size)) {
        perror(path);
        exit(EXIT_FAILURE);
    }
    fclose(file);
    LLVMFuzzerTestOneInput(data, (size_t)size);
    free(data);
    printf("%s: %s\n", basename(path), fuzz_told());
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s FILE...\n", argv[0]);
        return 2;
    }
    for (int i = 1; i < argc; i++) {
        run_file(argv[i]);
    }
    return EXIT_SUCCESS;
}
