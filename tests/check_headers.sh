#!/bin/sh
# Checks that each header compiles as C11, alone and included twice, and as C++
# together with the headers of its directory. Compiling alone as C11 finds
# missing includes, so the headers of a directory need not be compiled one by
# one as C++.
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

# compile LANGUAGE COMPILER HEADER... - print the compiler's output if it fails.
compile() {
    language=$1
    compiler=$2
    shift 2
    printf '#include "%s"\n' "$@" "$@" >"$dir/header.c"
    $compiler $flags "$dir/header.c" >"$dir/log" 2>&1 || {
        echo "$*: does not compile as $language:"
        head -n 20 "$dir/log"
        return 1
    }
}

as_c() {
    compile C11 "$CC -std=c11" "$1"
}

as_cxx() {
    compile C++ "$cxx -std=c++17 -x c++" "$@"
}

# The check must find a planted fault.
echo 'size_t planted(void);' >"$dir/planted.h"
if as_c "$dir/planted.h" >/dev/null; then
    echo 'a planted header that lacks an include was not found'
    exit 1
fi
printf '#include <stddef.h>\nstatic inline int *f(void *p)\n{ return p; }\n' \
    >"$dir/planted.h"
if as_cxx "$dir/planted.h" >/dev/null; then
    echo 'a planted header that is no C++ was not found'
    exit 1
fi

status=0
count=0
for folder in $(cd "$top_srcdir" && find include src tools tests -type d); do
    names=$(cd "$top_srcdir" && find "$folder" -maxdepth 1 -name '*.h' |
        sed 's,^include/,,; s,^src/,,')
    [ "$folder" != include/ucxpool ] || names="$names ucxpool/version.h"
    for name in $names; do
        as_c "$name" || status=1
        count=$((count + 1))
    done
    # Headers of different programs may conflict.
    if [ -n "$names" ] && ! as_cxx $names >/dev/null; then
        for name in $names; do
            as_cxx "$name" || status=1
        done
    fi
done
echo "$count headers"
exit $status
