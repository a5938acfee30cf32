#!/bin/sh
# Checks that Doxygen finds no undocumented function in the public headers.
set -eu

if ! command -v doxygen >/dev/null; then
    echo 'doxygen is not installed'
    exit 77
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# warnings < DOXYFILE - print Doxygen's warnings about functions.
warnings() {
    { cat; printf '%s\n' "OUTPUT_DIRECTORY = $dir" 'SHOW_FILES = YES' \
        'WARN_IF_UNDOCUMENTED = YES' 'WARN_AS_ERROR = NO'; } |
        (cd "$top_builddir" && doxygen - 2>&1) |
        grep -E '\(function\) .* is not documented|argument .* not found|error' ||
        true
}

# The check must find a planted fault.
mkdir "$dir/include"
printf '/* The file. */\n\nint ucxpool_planted(void);\n' >"$dir/include/planted.h"
found=$({ cat "$top_builddir/docs/Doxyfile"; echo "INPUT = $dir/include"; } |
    warnings | grep -c ucxpool_planted) || true
if [ "$found" -ne 1 ]; then
    echo "a planted function without documentation was found $found times"
    exit 1
fi

found=$(warnings <"$top_builddir/docs/Doxyfile")
if [ -n "$found" ]; then
    echo "$found"
    exit 1
fi
headers=$(find "$dir/xml" -name '*_8h.xml' | wc -l)
echo "$headers headers were read"
[ "$headers" -ge 8 ]
