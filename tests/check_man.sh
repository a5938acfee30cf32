#!/bin/sh
# The settings in man/ucxpool.7 are those of the library, in the same words.
set -eu

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

page=$top_srcdir/man/ucxpool.7
"$top_builddir/tools/ucxpool_info" -c >"$dir/settings"
cp "$page" "$dir/updated"
chmod u+w "$dir/updated"
sh "$top_srcdir/scripts/man-keys" --update "$dir/updated" <"$dir/settings"

keys=$(grep -c '^\.It Ev UCXPOOL_' "$dir/updated")
if [ "$keys" -ne "$(grep -c '^UCXPOOL_' "$dir/settings")" ]; then
    echo "the script puts $keys settings in the page, not all"
    exit 1
fi
if ! diff -u "$page" "$dir/updated"; then
    echo 'man/ucxpool.7 does not have the settings of the library; run'
    echo 'tools/ucxpool_info -c | scripts/man-keys --update man/ucxpool.7'
    exit 1
fi
echo "$keys settings"
