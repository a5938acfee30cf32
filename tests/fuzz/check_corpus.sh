#!/bin/sh
# Each fuzz target over its corpus, fuzz_NAME over corpus/NAME.
set -eu

corpus=$top_srcdir/tests/fuzz/corpus
for folder in "$corpus"/*/; do
    name=$(basename "$folder")
    echo "$name:"
    "$top_builddir/tests/fuzz/fuzz_$name" "$folder"*
done
