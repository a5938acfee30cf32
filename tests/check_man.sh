#!/bin/sh
# Checks that man/ucxpool.7 lists the settings of the library, with the same
# texts.
set -eu

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

page=$top_srcdir/man/ucxpool.7
"$top_builddir/tools/ucxpool_info" -c >"$dir/settings"
cp "$page" "$dir/updated"
chmod u+w "$dir/updated"
sh "$top_srcdir/scripts/man-keys" --update "$dir/updated" <"$dir/settings"

keys=$(grep -c '^\.It Ev UCXPOOL_' "$dir/updated") || true
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

# The library warns about unknown UCXPOOL_* variables, so no variable of the
# build, the scripts or the Python package may have this prefix.
cd "$top_srcdir"
{
    sed -n 's/^\(UCXPOOL_[A-Z0-9_]*\).*/\1/p' "$dir/settings"
    cat include/ucxpool/*.h src/base/config.h src/libucxpool.map |
        grep -oE '\bUCXPOOL_[A-Z0-9_]+'
} | sort -u >"$dir/known"
find README.md HACKING.md docs debian/rules python scripts quickstart \
    run-gpu-tests run-rdma-tests run-tests -type f \
    ! -name "*.awk" ! -name "*.h" ! -path "*/build/*" -exec \
    grep -IHoE '\bUCXPOOL_[A-Z0-9_]*[A-Z0-9]\b' {} + |
    sort -u -t : -k 2 >"$dir/used"
if awk -F : 'NR == FNR { known[$1]; next } !($2 in known)' \
    "$dir/known" "$dir/used" | grep .; then
    echo 'these variables are not settings: rename them'
    exit 1
fi
