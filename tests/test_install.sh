#!/bin/sh
# What make install puts somewhere works there, and make uninstall takes all of
# it away again.
set -eu

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
unset MAKEFLAGS MFLAGS MAKELEVEL
root=$dir/root

make -s -C "$top_builddir" install DESTDIR="$root" >"$dir/log" 2>&1 || {
    cat "$dir/log"
    exit 1
}
pc=$(find "$root" -name ucxpool.pc)
libdir=$(dirname "$(dirname "$pc")")
PKG_CONFIG_SYSROOT_DIR=$root
PKG_CONFIG_PATH=$libdir/pkgconfig
LD_LIBRARY_PATH=$libdir
export PKG_CONFIG_SYSROOT_DIR PKG_CONFIG_PATH LD_LIBRARY_PATH
flags=$(pkg-config --cflags --libs ucxpool)
version=$(pkg-config --modversion ucxpool)

cat >"$dir/program.c" <<'END'
#include <ucxpool/ucxpool.h>

#include <stdio.h>

int main(void)
{
    printf("%s %d.%d.%d\n", ucxpool_status_string(UCXPOOL_OK),
           UCXPOOL_VERSION_MAJOR, UCXPOOL_VERSION_MINOR, UCXPOOL_VERSION_PATCH);
    return 0;
}
END

# run COMPILER... - build the program against the installed tree and run it.
run() {
    "$@" $SANITIZER_CFLAGS -o "$dir/program" "$dir/program.c" \
        $flags || { echo "$* does not build against the installed tree"; exit 1; }
    said=$("$dir/program")
    echo "$*: $said"
    case $said in
    *" $version") ;;
    *)
        echo "it is not version $version"
        exit 1
        ;;
    esac
}

case $CC in
*clang*) cxx=${CXX-clang++} ;;
*) cxx=${CXX-g++} ;;
esac
run $CC -std=c11
if command -v "${cxx%% *}" >/dev/null; then
    run $cxx -x c++ -std=c++17
fi

# One binary serves machines with and without libibverbs and a GPU.
if readelf -d "$libdir/libucxpool.so" | grep -E 'NEEDED.*(ibverbs|cuda|nvidia)'
then
    echo 'the library needs what a machine may not have'
    exit 1
fi

make -s -C "$top_builddir" uninstall DESTDIR="$root" >"$dir/log" 2>&1
left=$(find "$root" ! -type d)
if [ -n "$left" ]; then
    echo "make uninstall leaves:"
    echo "$left"
    exit 1
fi
