#!/bin/sh
# Tests org.ucxpool with JUnit in one virtual machine, and its examples.
set -eu

if [ -z "$JUNIT_JARS" ]; then
    echo 'configure found no JDK, or no JUnit'
    exit 77
fi
if [ -n "$SANITIZER_CFLAGS" ]; then
    echo 'Java cannot load a library built with a sanitizer'
    exit 77
fi
UCXPOOL_LOG_LEVEL=none
# Overwrite freed memory at once.
MALLOC_PERTURB_=165
export UCXPOOL_LOG_LEVEL MALLOC_PERTURB_
library=-Dorg.ucxpool.library=$top_builddir/.libs/libucxpool.so
jni=-Djava.library.path=$top_builddir/java/.libs
jar=$top_builddir/java/ucxpool.jar
log=$(mktemp)
SLOW_NAMES=$log.fifo
export SLOW_NAMES
mkfifo "$SLOW_NAMES"
trap 'rm -f "$log" "$SLOW_NAMES"' EXIT

java -Xmx128m "$library" "$jni" -cp "$jar" "$top_srcdir/examples/BounceTransport.java" \
    >"$log" 2>&1 || {
    cat "$log"
    exit 1
}
grep -q '^2000 blocks, [0-9]* bytes, through bounce buffers$' "$log" || {
    cat "$log"
    exit 1
}
java -Xmx128m "$library" "$jni" -cp "$jar" "$top_srcdir/examples/FileTransfer.java" \
    >"$log" 2>&1 && grep -q '^1048592 bytes arrived$' "$log" || {
    cat "$log"
    exit 1
}

status=0
LD_PRELOAD=$top_builddir/tests/.libs/libslow_names.so \
    java -Xcheck:jni -Xmx128m "$library" "$jni" \
    -cp "$jar:$top_builddir/java/ucxpool-tests.jar:$JUNIT_JARS" \
    org.junit.runner.JUnitCore org.ucxpool.BounceBufferTest \
    org.ucxpool.PoolTest >"$log" 2>&1 || status=$?
cat "$log"
# -Xcheck:jni only prints warnings.
if grep -q '^WARNING in native method' "$log"; then
    echo 'the native methods violate rules of JNI'
    exit 1
fi
# Print the number of tests for count-tests.
sed -n 's/^OK (\([0-9]*\) tests*)$/100%: Checks: \1, Failures: 0, Errors: 0/p
    s/^Tests run: \([0-9]*\),  Failures: \([0-9]*\)$/0%: Checks: \1, Failures: \2, Errors: 0/p' \
    "$log"
exit $status
