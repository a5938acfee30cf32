#!/bin/sh
# What the library exports, what the version script lists, and what the public
# headers declare are the same names.
set -eu

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export LC_ALL=C

# exports_of LIBRARY, names_in MAP, declared_in < PREPROCESSED HEADERS
exports_of() {
    nm -D --defined-only "$1" |
        awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u
}
names_in() {
    sed -n 's/^[ \t]*\([a-z_0-9]*\);$/\1/p' "$1" | sort -u
}
declared_in() {
    tr '\n' ' ' >"$dir/headers"
    # Those that are defined in the header are not the library's.
    grep -oE 'static inline [^(]*\(' "$dir/headers" |
        grep -oE 'ucxpool_[a-z0-9_]+ *\(' | tr -d ' (' | sort -u >"$dir/inline"
    grep -oE '\bucxpool_[a-z0-9_]+ *\(' "$dir/headers" | tr -d ' (' | sort -u |
        comm -23 - "$dir/inline"
}

# compare A B WHAT - print the names of A that are not in B.
compare() {
    comm -23 "$1" "$2" | sed "s/$/: $3/"
}

library=$top_builddir/.libs/libucxpool.so
exports_of "$library" >"$dir/exported"
names_in "$top_srcdir/src/libucxpool.map" >"$dir/listed"
printf '#include <ucxpool/%s.h>\n' ucxpool info |
    $CC -E -P -I"$top_srcdir/include" -I"$top_builddir/include" -x c - |
    declared_in >"$dir/declared"

# A check that cannot fail proves nothing.
printf 'extern int\nucxpool_planted (void);' | declared_in >"$dir/planted"
if [ "$(compare "$dir/planted" "$dir/listed" x)" != 'ucxpool_planted: x' ]; then
    echo 'a planted declaration was not found'
    exit 1
fi
if [ ! -s "$dir/listed" ] || [ ! -s "$dir/exported" ]; then
    echo 'no names were found in the library or its version script'
    exit 1
fi

{
    compare "$dir/exported" "$dir/listed" 'exported, not in libucxpool.map'
    compare "$dir/listed" "$dir/declared" 'in libucxpool.map, not in a header'
    compare "$dir/declared" "$dir/listed" 'in a header, not in libucxpool.map'
    grep -oE '\bucxpool_[a-z0-9_]+' "$top_srcdir/tests/test_null.c" |
        sort -u >"$dir/tried"
    compare "$dir/listed" "$dir/tried" 'not in test_null.c'
    if [ -f "$top_srcdir/src/api/pool.c" ]; then
        compare "$dir/listed" "$dir/exported" 'in libucxpool.map, not exported'
    fi
} >"$dir/violations"
cat "$dir/violations"
[ ! -s "$dir/violations" ]
echo "$(wc -l <"$dir/exported") names"
