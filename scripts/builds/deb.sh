# deb        Debian's packages, made from the tarball by dpkg-buildpackage, with
#            its tests; installed and tried in a minimal root of this Debian
results_at[deb]=$work/deb
begins_after[deb]=dist
packages_of[deb]=$packages_deb

# The packages are built from the tarball, as the README describes.
make_deb() {
    make_dist
}

build_deb() {
    local tree
    rm -rf "$work/deb" && mkdir -p "$work/deb"
    tar -C "$work/deb" -xf "$work"/dist/libucxpool-*.tar.xz
    tree=$(echo "$work"/deb/libucxpool-*)
    step 'deb: dpkg-buildpackage' 900 env -C "$tree" CC="${cache}gcc" \
        dpkg-buildpackage -b -us -uc || {
        failed_tests "$tree/_build/debian/tests"
        return 1
    }
    step 'deb: packages in a bare root' 900 "$top/scripts/try-packages" \
        "$work/deb"
}
