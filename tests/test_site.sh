#!/bin/sh
# Tests that make site builds the site without warnings. The site has the
# documentation of each public header, and loads nothing from the network.
set -eu

if ! command -v sphinx-build >/dev/null; then
    echo 'sphinx-build is not installed'
    exit 77
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# foreign DIR - print the scripts and styles that the pages load from other
# hosts.
foreign() {
    grep -rhoE --include='*.html' \
        '<(script|link rel="stylesheet")[^>]*"(https?:)?//[^"]*"' "$1" || true
}

# Planted faults must be found: a broken link, a broken link to a heading, and a
# script from another host.
printf '# A page\n\n[it](b.md)\n[that](index.md#no-heading)\n' >"$dir/index.md"
if sphinx-build -q -W --keep-going -c "$top_srcdir/docs" "$dir" "$dir/out" \
    2>"$dir/errors" || ! grep -q 'b\.md' "$dir/errors" ||
    ! grep -q 'no-heading' "$dir/errors"; then
    if grep -E 'No module named|no theme named' "$dir/errors"; then
        exit 77
    fi
    echo 'a planted link was not found:'
    cat "$dir/errors"
    exit 1
fi
echo '<script src="https://example.org/a.js"></script>' >"$dir/out/a.html"
if [ "$(foreign "$dir/out" | wc -l)" -ne 1 ]; then
    echo 'the planted script was not found'
    exit 1
fi

make -C "$top_builddir" -s site
foreign=$(foreign "$top_builddir/site/html")
if [ -n "$foreign" ]; then
    echo "the site loads: $foreign"
    exit 1
fi
for header in "$top_srcdir"/include/ucxpool/*.h version.h; do
    header=$(basename "$header")
    [ "$header" = private.h ] ||
        grep -q "^\`\`\`{doxygenfile} $header\$" \
            "$top_srcdir/docs/reference/headers.md" || {
        echo "docs/reference/headers.md does not have $header"
        exit 1
    }
done
