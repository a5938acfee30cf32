# gcc        the tarball, configured in place with gcc, without autotools, as
#            the README describes: ./configure, make, make check, make install;
#            and make check-tree. Warnings are errors
folders[gcc]=tree

# in_tree NAME LIMIT COMMAND... - run a command in the tarball's tree, without
# autotools, and with NVTX, which comes from a wheel on machines without CUDA.
in_tree() {
    local name=$1 limit=$2
    shift 2
    step "gcc: $name" "$limit" env -C "$work/tree" \
        PATH="$work/no-autotools:$PATH" \
        C_INCLUDE_PATH="$nvtx_dir/nvidia/cu13/include" "$@"
}

# Build as the README describes. Objects of an earlier run are kept.
make_tree() {
    nvtx_fetch && rmm_fetch && make_dist && mkdir -p "$work/tree" &&
        tar -C "$work/tree" --strip-components=1 \
            -xf "$work"/dist/libucxpool-*.tar.xz &&
        in_tree ./configure 300 env CC="${cache}gcc" CONFIG_SHELL=/bin/sh \
            ./configure -q &&
        in_tree make 900 nice -n 10 make -j"$jobs" &&
        in_tree 'make test-programs' 900 nice -n 10 \
            make -j"$jobs" test-programs &&
        in_tree 'no warnings' 60 sh -c '! grep "warning:" "$@"' sh \
            "$logs/gcc__make.log" "$logs/gcc__make_test-programs.log"
}

build_gcc() {
    local status=0
    RMM_DIR=$rmm_dir check gcc check || status=1
    check gcc check-tree || status=1
    in_tree 'make install' 300 make -s install DESTDIR="$work/tree/installed" ||
        status=1
    rm -rf "$work/tree/installed"
    return $status
}
