#!/bin/sh
# Tests ucxpool/ucxpool.hpp: compiles tests/cpp/test_cpp.cpp as C++17 and C++20
# with g++ and clang++, and runs it over each wire. Also runs the C++ examples.
set -eu

# Wait while libtool relinks the library for test_install.sh.
exec 9<"$top_builddir/libucxpool-framework.la"
flock -s 9

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
case $CC in
*clang*) compilers=${CXX-clang++} ;;
*) compilers=${CXX-g++} ;;
esac
# A sanitizer needs the compiler of the library.
[ -n "$SANITIZER_CFLAGS" ] || compilers='g++ clang++'
LD_LIBRARY_PATH=$top_builddir/.libs${LD_LIBRARY_PATH+:$LD_LIBRARY_PATH}
UCXPOOL_COMM_SIZE=16m
UCXPOOL_LOG_LEVEL=error
export LD_LIBRARY_PATH UCXPOOL_COMM_SIZE UCXPOOL_LOG_LEVEL UCXPOOL_WIRE

# compile STANDARD FILE PROGRAM
compile() {
    "$cxx" -std=c++"$1" -g -pthread -Wall -Wextra -Wundef -Wshadow \
        -Werror $SANITIZER_CFLAGS -I"$top_srcdir/include" \
        -I"$top_builddir/include" \
        -o "$dir/$3" "$2" "$top_builddir/.libs/libucxpool.so"
}

# Before version 15, clang++ has no coroutines.
has_coroutines() {
    "$cxx" -std=c++20 -x c++ -E -dM /dev/null | grep -q __cpp_impl_coroutine
}

cat >"$dir/dangling.cpp" <<'END'
#include <ucxpool/ucxpool.hpp>
ucxpool::source dangling()
{
    return std::string("bytes");
}
END
for cxx in $compilers; do
    command -v "$cxx" >/dev/null || continue
    for std in 17 20; do
        compile $std "$top_srcdir/tests/cpp/test_cpp.cpp" program
        for UCXPOOL_WIRE in map ucx; do
            echo "$cxx, C++$std, $UCXPOOL_WIRE:"
            "$dir/program"
        done
    done
    # A temporary container does not compile, because it would dangle.
    if compile 17 "$dir/dangling.cpp" dangling 2>"$dir/log" ||
        ! grep -q 'destroyed before the request ends' "$dir/log"; then
        echo "$cxx accepts a temporary container as a source"
        exit 1
    fi
    compile 17 "$top_srcdir/examples/cpp_sender.cpp" cpp_sender
    if has_coroutines; then
        compile 20 "$top_srcdir/examples/cpp_coroutines.cpp" cpp_coroutines
    fi
done
if [ ! -x "$dir/cpp_sender" ]; then
    echo "no C++ compiler ($compilers)"
    exit 77
fi

if [ -x "$dir/cpp_coroutines" ]; then
    "$dir/cpp_coroutines" | grep -x '1000 messages were returned'
fi
mkfifo "$dir/out"
"$top_builddir/examples/receiver" 127.0.0.1:0 >"$dir/out" &
exec 3<"$dir/out"
read -r word port <&3
"$dir/cpp_sender" "127.0.0.1:$port" these words
[ "$(cat <&3)" = "$(printf 'these\nwords')" ] || {
    echo 'cpp_sender sent other words'
    exit 1
}
if "$dir/cpp_sender" nowhere word 2>"$dir/log" ||
    ! grep '^cpp_sender: .*nowhere' "$dir/log"; then
    echo 'cpp_sender did not report an address without a port'
    exit 1
fi
