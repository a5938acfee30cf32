# dist       make distcheck: the tarball is complete, builds, installs and
#            uninstalls without autotools
results_at[dist]=''

# Stubs for the autotools, which fail when they are called.
make_dist() {
    local tool
    [ ! -f "$state/dist.configured" ] || return 0
    configure dist CC="${cache}gcc" --enable-werror || return 1
    mkdir -p "$work/no-autotools"
    for tool in aclocal autoconf autoheader autom4te automake autoreconf \
        libtoolize m4; do
        printf '#!/bin/sh\necho "%s: not there" >&2\nexit 1\n' "$tool" \
            >"$work/no-autotools/$tool"
        chmod +x "$work/no-autotools/$tool"
    done
    touch "$state/dist.configured"
}

build_dist() {
    step 'dist: make distcheck' 1500 \
        env PATH="$work/no-autotools:$PATH" \
        make -C "$work/dist" -j"$tests_at_once" distcheck-short \
        DISTCHECK_CONFIGURE_FLAGS="--enable-werror 'CC=${cache}gcc'" &&
        step 'dist: nothing is missing' 60 "$top/scripts/tarball-lacks" \
            "$work"/dist/libucxpool-*.tar.xz
}
