#!/bin/sh
# Every header compiles alone, twice included, as C11 and as C++.
set -eu

case $CC in
*clang*) cxx=${CXX-clang++} ;;
*) cxx=${CXX-g++} ;;
esac
if ! command -v "${cxx%% *}" >/dev/null; then
    echo "no C++ compiler ($cxx)"
    exit 77
fi

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
flags="-Wall -Wextra -Wundef -Werror -Wno-unused-function -fsyntax-only
    -D_GNU_SOURCE -I$top_srcdir/src -I$top_srcdir/include -I$top_srcdir
    -I$top_srcdir/tools -I$top_builddir/include -I$top_builddir $LIBUCX_CFLAGS"

# compile HEADER - print the compiler's words when it does not.
compile() {
    printf '#include "%s"\n#include "%s"\n' "$1" "$1" >"$dir/header.c"
    $CC -std=c11 $flags "$dir/header.c" >"$dir/log" 2>&1 || {
        echo "$1: does not compile alone as C11:"
        head -n 20 "$dir/log"
        return 1
    }
    $cxx -std=c++17 -x c++ $flags "$dir/header.c" >"$dir/log" 2>&1 || {
        echo "$1: does not compile alone as C++:"
        head -n 20 "$dir/log"
        return 1
    }
}

# A check that cannot fail proves nothing.
echo 'size_t planted(void);' >"$dir/planted.h"
if compile "$dir/planted.h" >/dev/null; then
    echo 'a planted header that lacks an include was not found'
    exit 1
fi
printf '#include <stddef.h>\nstatic inline int *f(void *p)\n{ return p; }\n' \
    >"$dir/planted.h"
if compile "$dir/planted.h" >/dev/null; then
    echo 'a planted header that is no C++ was not found'
    exit 1
fi

status=0
count=0
for header in $(cd "$top_srcdir" && find include -name '*.h') \
    include/ucxpool/version.h \
    $(cd "$top_srcdir" && find src tools tests -name '*.h' 2>/dev/null); do
    name=${header#include/}
    name=${name#src/}
    compile "$name" || status=1
    count=$((count + 1))
done
echo "$count headers"
exit $status
