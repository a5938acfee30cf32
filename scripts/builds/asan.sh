# asan       clang, AddressSanitizer (with leaks) and UBSan: tests that run code
#            of the library, and the Python package (without leaks)

# Variables are initialized with a pattern, so that the use of an unset variable
# has an effect. The sanitizer fills new heap memory. The library is compiled
# once, with the fuzzer's counters. The tests' own code is not optimized, so it
# compiles in less than half of the CPU time. lld links a program in half of the
# CPU time.
make_asan() {
    local flags='-g -fno-omit-frame-pointer -ftrivial-auto-var-init=pattern'
    configure asan CC="${cache}clang" --enable-werror --enable-asan \
        --enable-ubsan --enable-fuzzers CFLAGS="-O1 $flags" \
        LDFLAGS=-fuse-ld=lld || return 1
    case $builds in
    *' asan '*)
        compile asan all FUZZER_CFLAGS= CFLAGS="-O0 $flags" test-programs &&
            make_asan_python
        ;;
    *) compile asan fuzz-targets ;;
    esac
}

# The Python package, whose extension also has the sanitizer. It uses the system's
# UCX, as the library does.
make_asan_python() {
    LIBUCXPOOL_BUILD="$work/asan" CC=clang \
        CFLAGS='-O1 -g -fno-omit-frame-pointer -fsanitize=address' \
        venv 'asan: Python package' "$work/asan/venv" --no-deps "$top/python" &&
        compile asan "$stand_in"
}

build_asan() {
    local status=0
    check asan check-code || status=1
    run_python 'asan: tests of the Python package' 600 test_sanitizer \
        test_pool test_pool_loop test_window test_gpu test_cupy_malloc \
        test_stress ||
        status=1
    return $status
}
