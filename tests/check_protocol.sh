#!/bin/sh
# Checks that the layouts, types and limits in docs/reference/protocol.md match
# the code: each table becomes assertions for the compiler.
set -eu

# tables FILE - print a C source that asserts the tables of a document. A line
# with "`TYPE`, N bytes" precedes the table of a struct. If the line also has
# "with gaps", the table need not cover the whole struct.
tables() {
    awk -F '|' '
        function cell(n,  text) {
            text = $n
            gsub(/^[ `]+|[ `]+$/, "", text)
            return text
        }
        function say(condition, what) {
            printf "_Static_assert(%s, \"%s\");\n", condition, what
        }
        function finish() {
            if (type != "" && rows != 0) {
                if (!gaps && at != size) {
                    say(0, type ": the table ends at " at " of " size)
                }
                structs++
                type = ""
            }
        }
        match($0, /`[a-z_]+_t`, [0-9,]+ bytes/) {
            finish()
            split(substr($0, RSTART, RLENGTH), part, /[`]/)
            type = part[2]
            size = part[3]
            gsub(/[^0-9]/, "", size)
            gaps = /with gaps/
            rows = 0
            at   = 0
            say("sizeof(" type ") == " size, type " has " size " bytes")
        }
        type != "" && $2 ~ /^ *[0-9]+ *$/ && $3 ~ /^ *[0-9]+ *$/ {
            offset = cell(2) + 0
            name   = cell(4)
            if (!gaps && offset != at) {
                say(0, type ": no row covers byte " at)
            }
            say("offsetof(" type ", " name ") == " offset, type "." name)
            say("sizeof(((" type " *)0)->" name ") == " cell(3), \
                type "." name)
            at = offset + cell(3)
            rows++
            next
        }
        rows != 0 && !/^\|/ { finish() }
        $2 ~ /^ `[A-Z_]+` $/ && $3 ~ /^ *[0-9]+ *$/ {
            say(cell(2) " == " cell(3), cell(2) " is " cell(3))
            names++
            if ($4 ~ /^ *[0-9]+ *$/) {
                say("sizeof(union { FIXED_" cell(2) " }) == " cell(4), cell(2))
            }
        }
        END {
            finish()
            printf "/* %d structs, %d numbers */\n", structs, names
        }
    ' "$1"
}

# Print definitions for the compiler. The ring's entries are declared only in
# ring.c.
prologue() {
    echo '#include "core/ring.c"'
    echo '#include "core/remote.h"'
    echo '#include "copy/plan.h"'
    echo '#include "bootstrap/auth.h"'
    echo '#include "xfer/send.h"'
    echo '#include "window/window.h"'
    for name in HELLO READY DESC RUNS ACCEPT DATA TAKEN DONE CANCEL SHORT \
        WINDOW_OPEN WINDOW_OPENED WINDOW_CLOSE WINDOW_REVOKE WINDOW_END \
        RETURNED MAILBOX BYE; do
        type=$(echo "$name" | tr '[:upper:]' '[:lower:]')
        echo "#define FIXED_PROTO_$name proto_${type}_t x;"
    done
    for name in GO CREDIT DOORBELL KEPT; do
        echo "#define FIXED_PROTO_$name proto_head_t x;"
    done
}

# structs, messages - print the names in proto.h that a document must contain.
structs() {
    awk '/^typedef struct/ { inside = 1 }
        /^}/ && inside { print substr($2, 1, length($2) - 1) }
        /^}/ { inside = 0 }' "$proto"
}
messages() {
    awk '/^typedef enum proto_type / { inside = 1 }
        inside && /^    PROTO_/ && !/PROTO_LAST/ { sub(/,/, ""); print $1 }
        /^}/ { inside = 0 }' "$proto"
}

# is_complete - succeed if each struct has a table, and each message has a row
# with its size.
is_complete() {
    complete=true
    for type in $(structs); do
        grep -q "^_Static_assert(sizeof($type)" "$dir/tables.c" || {
            echo "error: no table of $type"
            complete=false
        }
    done
    for name in $(messages); do
        grep -q "FIXED_$name }" "$dir/tables.c" || {
            echo "error: no row of $name"
            complete=false
        }
    done
    $complete
}

# check FILE - compile the tables of a document.
check() {
    { prologue; tables "$1"; } >"$dir/tables.c"
    is_complete >"$dir/log" &&
        $CC -std=c11 -D_GNU_SOURCE -fsyntax-only -Wno-unused-function \
            -I"$top_srcdir/src" -I"$top_srcdir/include" \
            -I"$top_builddir/include" -I"$top_builddir" $LIBUCX_CFLAGS \
            "$dir/tables.c" >"$dir/log" 2>&1
}

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
document=$top_srcdir/docs/reference/protocol.md
proto=$top_srcdir/src/core/proto.h

# The check must find a planted fault.
for wrong in 's/^| 16 | 16 | `to_id`/| 16 | 15 | `to_id`/' \
    's/^| 56 | 4 | `checksum`.*//' \
    's/^| `PROTO_DONE` | 9 |/| `PROTO_DONE` | 8 |/' \
    's/^| `PROTO_DONE` | 9 | 32 |/| `PROTO_DONE` | 9 | 24 |/' \
    's/`core_ring_page_t`, 266,240/`core_ring_page_t`, 266,244/' \
    's/^| `PROTO_KEPT` | 14 .*//' \
    's/`proto_window_revoke_t`, 24 bytes/as many bytes/' \
    's/^| `PROTO_TEXT_MAX` | 127/| `PROTO_TEXT_MAX` | 128/'; do
    sed "$wrong" "$document" >"$dir/wrong.md"
    if cmp -s "$dir/wrong.md" "$document"; then
        echo "the planted mistake $wrong plants nothing"
        exit 1
    fi
    if check "$dir/wrong.md"; then
        echo "the planted mistake $wrong was not found"
        exit 1
    fi
done

if ! check "$document"; then
    grep error "$dir/log" || cat "$dir/log"
    exit 1
fi
tail -n 1 "$dir/tables.c"
