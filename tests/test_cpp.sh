#!/bin/sh
# Tests ucxpool/ucxpool.hpp: compiles tests/cpp/test_cpp.cpp as C++17 and C++20
# with g++ and clang++, and runs it over each wire. Also runs the C++ examples.
set -eu

# Wait while libtool relinks the library for test_install.sh.
exec 9<"$top_builddir/libucxpool-framework.la"
flock -s 9

dir=$(mktemp -d)
receiver=
cleanup() {
    [ -z "$receiver" ] || kill "$receiver" 2>/dev/null || true
    rm -rf "$dir"
}
trap cleanup EXIT
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

fail() {
    echo "$*"
    exit 1
}

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

# rejects STANDARD - check that each line of stdin does not compile.
rejects() {
    cat >"$dir/cases"
    {
        printf '#include <ucxpool/ucxpool.hpp>\n#include <vector>\n'
        cat <<END
template <typename T> T &object();
extern ucxpool::pool pool;
extern ucxpool::channel channel;
extern ucxpool::message message;
extern ucxpool::remote_window remote;
extern ucxpool_place_t place;
extern std::vector<int> ints;
void rejected()
{
END
        cat "$dir/cases"
        echo '}'
    } >"$dir/rejected.cpp"
    if compile "$1" "$dir/rejected.cpp" rejected 2>"$dir/log" ||
        grep 'error:' "$dir/log" | grep -v \
            'nodiscard\|not plain bytes\|destroyed before the request ends'; then
        echo "$cxx accepts these lines, or rejects them for another reason:"
        cat "$dir/cases"
        exit 1
    fi
    grep -n '^[a-z]*[.:]' "$dir/rejected.cpp" | while IFS=: read -r number line; do
        grep -q "rejected.cpp:$number:" "$dir/log" ||
            fail "$cxx accepts: $line"
    done
}

for cxx in $compilers; do
    command -v "$cxx" >/dev/null || continue
    for std in 17 20; do
        # An application may compile the header with its own warnings.
        echo '#include <ucxpool/ucxpool.hpp>' |
            "$cxx" -std=c++$std -x c++ -fsyntax-only -Wall -Wextra -Wshadow \
                -Wconversion -Wsign-conversion -Wold-style-cast -Werror \
                -I"$top_srcdir/include" -I"$top_builddir/include" -
        compile $std "$top_srcdir/tests/cpp/test_cpp.cpp" program
        for UCXPOOL_WIRE in map ucx; do
            echo "$cxx, C++$std, $UCXPOOL_WIRE:"
            "$dir/program" || fail "exit status $?"
        done
    done
    # Temporary containers would dangle, other elements are pointers, and a
    # request that is dropped is canceled.
    rejects 17 <<'END'
ucxpool::source(std::string("bytes"));
ucxpool::source(object<std::vector<const char *>>());
ucxpool::source(object<std::vector<std::string_view>>());
ucxpool::source(object<std::vector<ucxpool::source>>());
ucxpool::target(object<std::vector<ucxpool_const_segment_t>>());
ucxpool::target(object<std::vector<ucxpool_range_t>>());
channel.send(ints, 1);
channel.recv(ints, 1);
channel.flush();
pool.recv(ints, 1);
message.recv(ints);
remote.read(place, ints);
remote.write(place, ints);
remote.read(ucxpool_places(&place, 1), ints);
remote.write(ucxpool_places(&place, 1), ints);
END
    compile 17 "$top_srcdir/examples/cpp_batch.cpp" cpp_batch
    compile 17 "$top_srcdir/examples/cpp_sender.cpp" cpp_sender
    if has_coroutines; then
        rejects 20 <<'END'
ucxpool::source(object<std::vector<std::span<int>>>());
ucxpool::async_send(channel, ints, 1);
ucxpool::async_recv(channel, ints, 1);
ucxpool::async_recv(pool, ints, 1);
ucxpool::async_read(remote, ucxpool_places(&place, 1), ints);
ucxpool::async_write(remote, ucxpool_places(&place, 1), ints);
END
        compile 20 "$top_srcdir/examples/cpp_coroutines.cpp" cpp_coroutines
    fi
done
if [ ! -x "$dir/cpp_sender" ]; then
    echo "no C++ compiler ($compilers)"
    exit 77
fi

"$dir/cpp_batch" | grep -x 'the sum of 1000 numbers is 500500' ||
    fail 'cpp_batch printed something else'
if [ -x "$dir/cpp_coroutines" ]; then
    "$dir/cpp_coroutines" | grep -x '1000 messages were returned' ||
        fail 'cpp_coroutines printed something else'
fi
mkfifo "$dir/out"
"$top_builddir/examples/receiver" 127.0.0.1:0 >"$dir/out" &
receiver=$!
exec 3<"$dir/out"
read -r word port <&3 || fail 'the receiver ended at once'
"$dir/cpp_sender" "127.0.0.1:$port" these words ||
    fail "cpp_sender: exit status $?"
[ "$(cat <&3)" = "$(printf 'these\nwords')" ] ||
    fail 'cpp_sender sent other words'
if "$dir/cpp_sender" nowhere word 2>"$dir/log" ||
    ! grep '^cpp_sender: .*nowhere' "$dir/log"; then
    fail 'cpp_sender did not report an address without a port'
fi
