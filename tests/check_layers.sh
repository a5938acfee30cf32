#!/bin/sh
# Checks that the #include lines follow the layers in
# docs/internals/architecture.md.
set -eu

# Print the table as lines: DIR-OR-FILE: LAYER LAYER ...
read_table() {
    awk -F'|' '
        /^## / { inside = /^## Layers$/ }
        inside && $2 ~ /`.*`/ && NF >= 5 {
            gsub(/[ `]/, "", $2)
            sub(/^ *-? */, "", $4)
            print $2 ": " $4
        }' "$1"
}

# check TREE TABLE - print the violations in TREE, one per line.
check() {
    (cd "$1" && find src include tools examples -name '*.[ch]' 2>/dev/null |
        LC_ALL=C sort | while read -r file; do
        sed -n 's/^[ \t]*#[ \t]*include[ \t]*\([<"][^>"]*\).*/\1/p' "$file" |
            sed "s|^|$file |"
    done) | awk -v table="$2" '
        BEGIN {
            while ((getline line < table) > 0) {
                split(line, half, ":")
                allowed[half[1]] = " " half[2] " "
                name = half[1]
                if (name ~ /^src\/.*\/$/) {
                    split(name, part, "/")
                    layer[part[2]] = 1
                }
            }
        }
        function bad(why) {
            print $1 ": includes " substr($2, 2) ": " why
        }
        {
            file = $1
            target = substr($2, 2)
            quoted = substr($2, 1, 1) == "\""
            folder = file
            sub(/[^\/]*$/, "", folder)
            place = file in allowed ? file : folder
            split(folder, part, "/")
            own = part[1] == "src" ? part[2] : ""
            if (part[1] != "src") {
                place = part[1] == "include" ? "include/ucxpool/" : part[1] "/"
            }
            if (!(place in allowed)) {
                bad("the table has no row for " place)
                next
            }
            split(target, part, "/")
            to = part[1]
            if (quoted && target !~ /\//) {
                bad("name it with its directory")
            } else if (to in layer) {
                if (to != own && index(allowed[place], " " to " ") == 0) {
                    bad("the table does not allow " to)
                }
            } else if (to == "ucp" || to == "uct" || to == "ucs") {
                if (file !~ /^src\/(ucx|core|wire|wireup|pool)\// &&
                    file !~ /^tools\// && file != "examples/borrowed.c") {
                    bad("UCX is not for this place")
                }
            } else if (to == "infiniband" && file !~ /^examples\// &&
                       file != "src/mem/reg_verbs.c") {
                bad("verbs is not for this place")
            } else if (to ~ /^nvtx/ && file != "src/base/trace.c") {
                bad("NVTX is not for this place")
            } else if (target ~ /^cuda/) {
                bad("CUDA has no headers here")
            } else if (quoted && to != "ucxpool" &&
                       ((to == "src") == (own == "") || file ~ /^examples/)) {
                bad("no layer is named " to)
            }
        }'
}

# The check must find a planted fault.
plant() {
    mkdir -p "$dir/tree/${1%/*}"
    echo "$2" >"$dir/tree/$1"
    found=$(check "$dir/tree" "$dir/table" | grep -c "^$1: ") || true
    rm "$dir/tree/$1"
    if [ "$found" -ne "$3" ]; then
        echo "planted '$2' in $1: $found violations found, $3 expected"
        exit 1
    fi
}

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
read_table "$top_srcdir/docs/internals/architecture.md" >"$dir/table"
rows=$(wc -l <"$dir/table")
if [ "$rows" -lt 8 ]; then
    echo "docs/internals/architecture.md: only $rows rows of the table of layers were found"
    exit 1
fi

plant src/base/planted.c '#include "mem/region.h"' 1
plant src/base/planted.c '#include "base/log.h"' 0
plant src/block/planted.c '#include "heap/heap.h"' 1
plant src/base/planted.c '#include "common/error.h"' 1
plant tools/planted.c '#include "src/base/log.h"' 1
plant examples/planted.c '#include "gpu/gpu.h"' 1
plant src/heap/planted.h '#  include "block/pool.h"' 1
plant src/copy/planted.h '#include <ucp/api/ucp.h>' 1
plant src/ucx/planted.c '#include <ucp/api/ucp.h>' 0
plant src/xfer/planted.c '#include <ucp/api/ucp.h>' 1
plant src/wire/planted.c '#include <ucp/api/ucp.h>' 0
plant src/xfer/planted.c '#include "copy/plan.h"' 0
plant src/xfer/planted.c '#include "wire/wire.h"' 0
plant src/wire/planted.c '#include "xfer/send.h"' 1
plant src/xfer/planted.c '#include "wireup/wireup.h"' 1
plant src/bootstrap/planted.c '#include "core/pool.h"' 1
plant src/mem/planted.c '#include <infiniband/verbs.h>' 1
plant src/mem/reg_verbs.c '#include <infiniband/verbs.h>' 0
plant src/core/planted.c '#include <infiniband/verbs.h>' 1
plant src/base/trace.c '#include <nvtx3/nvToolsExt.h>' 0
plant src/base/trace.h '#include <nvtx3/nvToolsExt.h>' 1
plant tools/planted.c '#include <nvtx3/nvToolsExt.h>' 1
plant examples/planted.c '#include <ucp/api/ucp.h>' 1
plant examples/borrowed.c '#include <ucp/api/ucp.h>' 0
plant examples/planted.c '#include <infiniband/verbs.h>' 0
plant src/gpu/planted.c '#include <stdio.h>' 1
plant src/xfer/planted.c '#include "pool.h"' 1
plant src/api/planted.c '#include "core/channel.h"' 0
plant tools/planted.c '#include "base/log.h"' 1
plant src/framework/planted.c '#include "base/log.h"' 1
plant tools/shuffle/planted.c '#include <ucxpool/ucxpool.h>' 0
plant examples/planted.c '#include "core/channel.h"' 1

violations=$(check "$top_srcdir" "$dir/table")
if [ -n "$violations" ]; then
    echo "$violations"
    exit 1
fi

# Under valgrind, these programs run in one process, so they may not fork.
cd "$top_srcdir/tests"
for name in $(sed -n '/CK_FORK=no$/q; s/ |//g; s/[\\)]$//; /^ *test_/p' \
    ../scripts/under-valgrind); do
    if grep -H '^#include "two.*\.h"' "$name.c"; then
        echo "remove $name from the list in scripts/under-valgrind"
        exit 1
    fi
done
echo "every include follows the table of layers"
