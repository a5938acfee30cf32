#!/bin/sh
# Tests that the files that make install installs work, and that make uninstall
# removes all of them.
set -eu

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
unset MAKEFLAGS MFLAGS MAKELEVEL
root=$dir/root

fail() {
    echo "$*"
    exit 1
}

# Lock libucxpool-framework, because libtool removes it briefly to relink it.
flock "$top_builddir/libucxpool-framework.la" \
    make -s -C "$top_builddir" install DESTDIR="$root" >"$dir/log" 2>&1 ||
    fail "make install failed: $(cat "$dir/log")"
# Check the documentation and the examples, with their links. Two pages are only
# for the site.
docs=$(dirname "$(find "$root" -name README.md)")
(cd "$top_srcdir" && find docs examples python/examples -name '[!.]*' \
    \( -name '*.md' -o -name '*.svg' -o -name '*.c' -o -name '*.cpp' \
    -o -name '*.java' -o -path '*/examples/*.py' \) ! -path docs/index.md \
    ! -path docs/reference/headers.md) |
    while read -r file; do
        cmp "$top_srcdir/$file" "$docs/$file" || {
            echo "make install does not install $file: add it to Makefile.am"
            exit 1
        }
    done
(cd "$docs" &&
    grep -oE '\]\((\.\./)*[A-Za-z0-9_/.-]+\.(c|cpp|java|md|py|svg)[)#]' \
        README.md docs/*.md docs/*/*.md) |
    sed 's/[)#]$//; s/:](/ /' | while read -r page link; do
        [ -e "$docs/$(dirname "$page")/$link" ] || {
            echo "$page links to $link, which is not installed"
            exit 1
        }
    done
pc=$(find "$root" -name ucxpool.pc)
libdir=$(dirname "$(dirname "$pc")")
PKG_CONFIG_SYSROOT_DIR=$root
PKG_CONFIG_PATH=$libdir/pkgconfig
LD_LIBRARY_PATH=$libdir
export PKG_CONFIG_SYSROOT_DIR PKG_CONFIG_PATH LD_LIBRARY_PATH
flags=$(pkg-config --cflags --libs ucxpool)
version=$(pkg-config --modversion ucxpool)
release=${version%%-*} # without the number of a release candidate

cat >"$dir/program.c" <<'END'
#include <ucxpool/ucxpool.h>

#include <stdio.h>

int main(void)
{
    printf("%s %d.%d.%d %s\n", ucxpool_status_string(UCXPOOL_OK),
           UCXPOOL_VERSION_MAJOR, UCXPOOL_VERSION_MINOR, UCXPOOL_VERSION_PATCH,
           ucxpool_version_string());
    return ucxpool_version() != UCXPOOL_VERSION;
}
END

# The same with the C++ header.
sed 's/ucxpool\.h>/ucxpool.hpp>/' "$dir/program.c" >"$dir/program.cpp"

# run PROGRAM COMPILER... - build the program with the installed tree, and run
# it.
run() {
    source=$1
    shift
    "$@" $SANITIZER_CFLAGS -o "$dir/program" "$dir/$source" \
        $flags || fail "$* does not build against the installed tree"
    said=$("$dir/program") ||
        fail 'the headers and the library have different versions'
    echo "$*: $said"
    case $said in
    *" $release $version") ;;
    *) fail "its version is not $version" ;;
    esac
}

case $CC in
*clang*) cxx=${CXX-clang++} ;;
*) cxx=${CXX-g++} ;;
esac
run program.c $CC -std=c11
if command -v "${cxx%% *}" >/dev/null; then
    run program.c $cxx -x c++ -std=c++17
    run program.cpp $cxx -std=c++17
fi

# Build a program that also calls UCX, and finds the library by its run path.
sed 's/#include <stdio.h>/#include <ucp\/api\/ucp.h>\n&/
    s/ucxpool_status_string(UCXPOOL_OK)/ucp_get_version_string()/' \
    "$dir/program.c" >"$dir/ucx.c"
case $LIBUCX_CFLAGS in
*-isystem*)
    ucx=$(dirname "${LIBUCX_CFLAGS#*-isystem }")
    libs="-L$ucx/lib -lucp -lucs -Wl,-rpath,$ucx/lib"
    ;;
*) libs=$(env -u PKG_CONFIG_SYSROOT_DIR pkg-config --libs ucx) ;;
esac
$CC $SANITIZER_CFLAGS $LIBUCX_CFLAGS -o "$dir/ucx" "$dir/ucx.c" $flags $libs \
    -Wl,-rpath,"$libdir"
said=$(env -u LD_LIBRARY_PATH "$dir/ucx") && echo "with UCX: $said" &&
    case $said in
    1.[1-9]*" $version") ;;
    *) false ;;
    esac || fail 'a program that also calls UCX fails with a run path'

# Build a program with libucxpool-framework.
sed 's/ucxpool\.h/framework.h>\n#include <ucxpool\/ucxpool.h/
    s/ucxpool_status_string(UCXPOOL_OK)/ucxpool_framework_set_pool(-2, 0) ==\
        UCXPOOL_ERR_INVALID_PARAM ? ucxpool_error_detail() : ""/' \
    "$dir/program.c" >"$dir/framework.c"
$CC $SANITIZER_CFLAGS -o "$dir/framework" "$dir/framework.c" \
    $(pkg-config --cflags --libs ucxpool-framework)
said=$("$dir/framework") && echo "framework: $said" &&
    case $said in
    'invalid device -2'*" $version") ;;
    *) false ;;
    esac || fail 'a program with libucxpool-framework does not run'

# Build a CMake project.
if command -v cmake >/dev/null; then
    mkdir "$dir/cmake"
    cp "$dir/program.c" "$dir/framework.c" "$dir/cmake"
    cat >"$dir/cmake/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.18)
project(program C)
find_package(ucxpool ${VERSION} REQUIRED)
add_executable(program program.c)
target_link_libraries(program ucxpool::ucxpool)
add_executable(framework framework.c)
target_link_libraries(framework ucxpool::framework)
END
    # with_cmake VERSION - configure the project, which requests that version.
    with_cmake() {
        rm -rf "$dir/cmake/build"
        CFLAGS=$SANITIZER_CFLAGS cmake -S "$dir/cmake" -B "$dir/cmake/build" \
            -DVERSION="$1" -DCMAKE_C_COMPILER="${CC##* }" \
            -Ducxpool_DIR="$libdir/cmake/ucxpool" >"$dir/log" 2>&1
    }
    if ! with_cmake "${release%.*}" ||
        ! cmake --build "$dir/cmake/build" >>"$dir/log" 2>&1; then
        cat "$dir/log"
        exit 1
    fi
    [ "$("$dir/cmake/build/framework")" = "$said" ] ||
        fail 'a program built by CMake does not run'
    case $("$dir/cmake/build/program") in
    *" $release $version") ;;
    *) fail "a program built by CMake does not have version $version" ;;
    esac
    for other in "${release%.*}.99" 0.1 9.0; do
        ! with_cmake "$other" || fail "CMake accepts $version for $other"
    done
fi

# One binary runs on machines with and without libibverbs and a GPU.
! readelf -d "$libdir/libucxpool.so" |
    grep -E 'NEEDED.*(ibverbs|cuda|nvidia)' ||
    fail 'the library requires a library that a machine may lack'

# Find the jar by its name without a version.
if [ -f "$top_builddir/java/ucxpool.jar" ] && [ -z "$SANITIZER_CFLAGS" ]; then
    jar=$(find "$root" -name ucxpool.jar)
    [ "$(readlink "$jar")" = "ucxpool-$version.jar" ] ||
        fail "ucxpool.jar is not a link to the jar of this version: '$jar'"
    cat >"$dir/Program.java" <<'END'
import org.ucxpool.Pool;

public final class Program {
    public static void main(String[] args) throws Exception {
        try (Pool pool = new Pool("installed")) {
            System.out.println(pool.stats().get("blocks_asked") > 0);
        }
    }
}
END
    jni=$(find "$root" -name libucxpool-jni.so)
    said=$(java -Xmx64m ${jni:+"-Djava.library.path=${jni%/*}"} -cp "$jar" \
        "$dir/Program.java") && [ "$said" = true ] ||
        fail "a program does not run with the installed jar: $said"
fi

make -s -C "$top_builddir" uninstall DESTDIR="$root" >"$dir/log" 2>&1 ||
    fail "make uninstall failed: $(cat "$dir/log")"
left=$(find "$root" ! -type d)
[ -z "$left" ] || fail "make uninstall leaves: $left"
