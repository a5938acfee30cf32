#!/bin/sh
# Checks that each library's exports, version script and headers contain the
# same names.
set -eu

# Wait while libtool relinks the library for test_install.sh.
exec 9<"$top_builddir/libucxpool-framework.la"
flock -s 9

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export LC_ALL=C

# exports_of LIBRARY, names_in MAP, declared_in < PREPROCESSED HEADERS - print
# the names in each of them.
exports_of() {
    nm -D --defined-only "$1" |
        awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u
}
names_in() {
    sed -n 's/^[ \t]*\([a-z_0-9]*\);$/\1/p' "$1" | sort -u
}
declared_in() {
    tr '\n' ' ' | grep -oE '\bucxpool_[a-z0-9_]+ *\(' | tr -d ' (' | sort -u
}

# compare A B WHAT - print the names of A that are not in B.
compare() {
    comm -23 "$1" "$2" | sed "s/$/: $3/"
}

# The check must find a planted fault.
printf 'extern int\nucxpool_planted (void);' | declared_in >"$dir/planted"
if [ "$(compare "$dir/planted" /dev/null x)" != 'ucxpool_planted: x' ]; then
    echo 'a planted declaration was not found'
    exit 1
fi
grep -oE '\bucxpool_[a-z0-9_]+' "$top_srcdir/tests/test_null.c" |
    sort -u >"$dir/tried"

# declared HEADER... - print the names that these headers, and the headers that
# they include, declare.
declared() {
    printf '#include <ucxpool/%s.h>\n' "$@" |
        $CC -E -P -I"$top_srcdir/include" -I"$top_builddir/include" -x c - |
        declared_in
}

# check LIBRARY - compare the library's exports, its version script and
# $dir/declared.
check() {
    exports_of "$top_builddir/.libs/$1.so" >"$dir/exported"
    names_in "$top_srcdir/src/$1.map" >"$dir/listed"
    if [ ! -s "$dir/listed" ] || [ ! -s "$dir/exported" ]; then
        echo "$1: no names were found in the library or its version script"
    fi
    compare "$dir/exported" "$dir/listed" "exported, not in $1.map"
    compare "$dir/listed" "$dir/declared" "in $1.map, not in a header"
    compare "$dir/declared" "$dir/listed" "in a header, not in $1.map"
    compare "$dir/listed" "$dir/exported" "in $1.map, not exported"
    compare "$dir/listed" "$dir/tried" 'not in test_null.c'
    sed -n '$=' "$dir/exported" >>"$dir/count"
}

declared ucxpool private >"$dir/core"
declared ucxpool private framework | comm -23 - "$dir/core" >"$dir/framework"
{
    mv "$dir/core" "$dir/declared"
    check libucxpool
    mv "$dir/framework" "$dir/declared"
    check libucxpool-framework
} >"$dir/violations"
cat "$dir/violations"
[ ! -s "$dir/violations" ]
echo "$(paste -sd+ "$dir/count" | sed 's/+/ and /') names"
