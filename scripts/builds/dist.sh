# dist       make distcheck: the tarball is complete, builds, installs and
#            uninstalls without autotools
results_at[dist]=''

# Create the tarball, and stubs for the autotools, which fail when they are
# called. Other builds call this too; it runs once.
make_dist() {
    local tool
    [ ! -f "$state/tarball" ] || return 0
    configure dist CC="${cache}gcc" --enable-werror || return 1
    mkdir -p "$work/no-autotools"
    for tool in aclocal autoconf autoheader autom4te automake autoreconf \
        libtoolize m4; do
        printf '#!/bin/sh\necho "%s: not there" >&2\nexit 1\n' "$tool" \
            >"$work/no-autotools/$tool"
        chmod +x "$work/no-autotools/$tool"
    done
    step 'dist: make dist' 300 make -C "$work/dist" -s dist-xz &&
        touch "$state/tarball"
}

build_dist() {
    step 'dist: make distcheck' 1500 \
        env PATH="$work/no-autotools:$PATH" \
        make -C "$work/dist" -j"$tests_at_once" distcheck-short \
        DISTCHECK_CONFIGURE_FLAGS="--enable-werror 'CC=${cache}gcc'" &&
        step 'dist: nothing is missing' 60 "$top/scripts/tarball-lacks" \
            "$work"/dist/libucxpool-*.tar.xz
}
