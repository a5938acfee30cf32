#!/bin/sh
# Checks that the binary interface equals the recorded one, so that programs
# linked with an earlier build still run. Additions must be recorded, too:
#
#     for name in libucxpool libucxpool-framework; do
#         scripts/record-abi _build/gcc/.libs/$name.so >tests/abi/$name.abi
#     done
set -eu

if ! command -v abidw >/dev/null || ! command -v abidiff >/dev/null; then
    echo 'abigail-tools is not installed'
    exit 77
fi
# The records contain the sizes of this architecture.
if [ "$(uname -m)" != x86_64 ]; then
    echo 'the record is of x86_64'
    exit 77
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

differs() {
    ! abidiff "$1" "$2" >"$dir/difference" 2>&1
}

# The check must find a planted fault.
planted() {
    sed "$2" "$dir/$1.now" >"$dir/planted"
    if cmp -s "$dir/planted" "$dir/$1.now" ||
        ! differs "$dir/planted" "$dir/$1.now"; then
        echo "$1: a planted change was not found: $2"
        exit 1
    fi
}

status=0
for record in "$top_srcdir"/tests/abi/*.abi; do
    name=$(basename "$record" .abi)
    "$top_srcdir/scripts/record-abi" "$top_builddir/.libs/$name.so" \
        >"$dir/$name.now"
    if differs "$record" "$dir/$name.now"; then
        echo "$name: the binary interface is not the recorded one:"
        cat "$dir/difference"
        echo "An addition is recorded (see this script); anything else is for" \
            'the next version of the library.'
        status=1
    fi
done
planted libucxpool "s/name='ucxpool_recv_buffer'/name='ucxpool_planted'/g"
planted libucxpool "s/'UCXPOOL_WIRE_UCX' value='2'/'UCXPOOL_WIRE_UCX' value='3'/"
planted libucxpool "/class-decl name='ucxpool_event' /,/class-decl>/s/offset-in-bits='192'/offset-in-bits='256'/"
planted libucxpool-framework "s/name='ucxpool_torch_free'/name='ucxpool_planted'/g"
exit $status
