# tsan       clang, ThreadSanitizer: the unit tests that have threads

# As in asan, the tests' own code is not optimized, and lld links the programs.
make_tsan() {
    local flags='-g -fno-omit-frame-pointer'
    configure tsan CC="${cache}clang" --enable-werror --enable-tsan \
        CFLAGS="-O1 $flags" LDFLAGS=-fuse-ld=lld &&
        compile tsan tests/libtestsupport.la libucxpool-internal.la \
            libframework.la CFLAGS="-O0 $flags" thread-programs
}

build_tsan() {
    local run=''
    # ThreadSanitizer needs addresses with little randomization.
    if [ "$(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 0)" -gt 28 ]
    then
        if setarch -R true 2>/dev/null; then
            run="LOG_FLAGS=setarch -R"
        fi
    fi
    check tsan check-threads ${run:+"$run"}
}
