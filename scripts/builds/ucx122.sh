# ucx122     gcc --coverage, UCX 1.22 from PyPI: the unit tests, and all other
#            tests that use UCX

# The wheel is only for x86_64: elsewhere the system's UCX is used for coverage.
make_ucx122() {
    local with_ucx=''
    if [ "$(uname -m)" = x86_64 ]; then
        ucx_fetch || return 1
        with_ucx=--with-ucx=$ucx_dir/libucx
    fi
    configure ucx122 CC="${cache}gcc" CFLAGS='-O0 --coverage' \
        --enable-werror $with_ucx &&
        compile ucx122 all test-programs
}

# check_covered TARGET - delete the counts of earlier runs, and run tests.
check_covered() {
    find "$work/ucx122" -name '*.gcda' -delete
    check ucx122 "$1"
}

build_ucx122() {
    if [ "$(uname -m)" != x86_64 ]; then
        say "  the wheel $ucx_wheel is for x86_64 only: left out"
        return 77
    fi
    check_covered check-ucx
}
