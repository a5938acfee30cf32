#!/bin/sh
# Checks that the binary interface equals the recorded one, so that programs
# linked with an earlier build still run. Additions must be recorded, too:
#
#     for name in libucxpool libucxpool-framework; do
#         scripts/record-abi _build/gcc/.libs/$name.so >tests/abi/$name.abi
#     done
set -eu

# Wait while libtool relinks the library for test_install.sh.
exec 9<"$top_builddir/libucxpool-framework.la"
flock -s 9

if ! command -v abidw >/dev/null || ! command -v python3 >/dev/null; then
    echo 'abigail-tools or python3 is not installed'
    exit 77
fi
# The records contain the sizes of this architecture.
if [ "$(uname -m)" != x86_64 ]; then
    echo 'the record is of x86_64'
    exit 77
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

status=0
for record in "$top_srcdir"/tests/abi/*.abi; do
    name=$(basename "$record" .abi)
    "$top_srcdir/scripts/record-abi" "$top_builddir/.libs/$name.so" \
        >"$dir/$name.abi"
    if ! diff -u "$record" "$dir/$name.abi"; then
        echo "$name: the binary interface is not the recorded one." \
            "An addition is recorded (see this script); anything else is for" \
            'the next version of the library.'
        status=1
    fi
done
exit $status
