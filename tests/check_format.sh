#!/bin/sh
# Checks that clang-format with .clang-format changes no file. Versions of
# clang-format differ, so only the version of Debian 12 is used.
set -eu

known=14
found=$(clang-format --version 2>/dev/null |
    sed -n 's/.*version \([0-9]*\)\..*/\1/p')
if [ "$found" != "$known" ]; then
    echo "skipped: needs clang-format $known, found ${found:-none}"
    exit 77
fi

# check TREE - print the files of TREE that clang-format would change.
check() {
    (
        cd "$1"
        # Generated headers are not formatted.
        find src include tools examples java tests \( -name '*.[ch]' \
            -o -name '*.[ch]pp' \) ! -name 'org_ucxpool_*.h' | LC_ALL=C sort |
            xargs clang-format --style=file --dry-run 2>&1 |
            sed -n 's/^\([^:]*\):[0-9]*:[0-9]*: warning.*/\1/p' | uniq
    )
}

# The check must find a planted fault.
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/src" "$dir/include" "$dir/tools" "$dir/examples" "$dir/java" \
    "$dir/tests"
cp "$top_srcdir/.clang-format" "$dir"
echo 'int a;' >"$dir/src/good.c"
echo 'int  a ;' >"$dir/src/bad.c"
if [ "$(check "$dir")" != src/bad.c ]; then
    echo "a planted file was not found: $(check "$dir")"
    exit 1
fi

changed=$(check "$top_srcdir")
if [ -n "$changed" ]; then
    echo "run clang-format -i on:"
    echo "$changed"
    exit 1
fi
echo "clang-format agrees with every file"
