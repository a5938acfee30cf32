#!/bin/sh
# Checks the measurable part of the style: lengths, columns, markers, and which
# layers call UCX.
set -eu

max_function=60
max_column=80

# check TREE - print the violations in TREE, one per line.
check() {
    (
        cd "$1"
        # Generated headers do not count.
        find src include tools examples java tests fuzz \( -name '*.[ch]' \
            -o -name '*.[ch]pp' -o -name '*.cu' -o -name '*.java' \) \
            ! -name 'org_ucxpool_*.h' 2>/dev/null |
            LC_ALL=C sort | while read -r file; do
            awk -v file="$file" \
                -v max_function=$max_function -v max_column=$max_column '
                function bad(line, what) {
                    print file ":" line ": " what
                }
                BEGIN { start = 1 }
                # The name of a test is a sentence: its lines may be longer.
                length($0) > max_column + (file ~ /^tests\// ? 20 : 0) {
                    bad(NR, length($0) " columns, at most " max_column)
                }
                /\t/ { bad(NR, "a tab") }
                /[ \t]$/ { bad(NR, "blanks at the end") }
                # The braces of a function are in the first column. It begins after a
                # blank line, a comment, a directive, or another function. In C++
                # it may be a class.
                !inside && (/^$/ || /^( ?\*\/|#|\/\*.*\*\/$)/) {
                    start = NR + 1
                }
                /^{$/ && file !~ /pp$/ { inside = 1 }
                /^}$/ && inside {
                    inside = 0
                    if (NR - start + 1 > max_function) {
                        bad(NR, "a function of " NR - start + 1 \
                            " lines, at most " max_function)
                    }
                    start = NR + 1
                }
                # Only layers that translate status codes of UCX may call it.
                {
                    code = $0
                    if (comment) {
                        if (!sub(/^.*\*\//, "", code)) {
                            code = ""
                        } else {
                            comment = 0
                        }
                    }
                    gsub(/\/\*[^*]*\*\//, "", code)
                    gsub(/"([^"\\]|\\.)*"/, "", code)
                    if (sub(/\/\*.*$/, "", code)) {
                        comment = 1
                    }
                }
                file ~ /^(src|include|examples)\// &&
                file !~ /^(src\/(ucx|core|xfer|window|wire|wireup|pool)\/|examples\/borrowed\.c$)/ &&
                code ~ /(^|[^a-z_])uc[pst]_[a-z0-9_]+ *\(/ {
                    bad(NR, "a call of UCX in a layer that knows none")
                }
                file ~ /^(src|include)\// &&
                file !~ /^src\/mem\/reg_verbs\.c$/ &&
                code ~ /(^|[^a-z_])ibv_[a-z0-9_]+ *\(/ {
                    bad(NR, "a call of verbs outside reg_verbs.c")
                }' "$file"
        done
        # The words are split here so that this file does not match.
        markers="TO""DO|FIX""ME|XX""X|HA""CK"
        find src include tools examples java tests fuzz scripts docs .ci \
            m4/ucxpool_* Makefile.am configure.ac run-tests run-gpu-tests \
            run-rdma-tests quickstart README.md \
            -type f 2>/dev/null | LC_ALL=C sort |
            xargs -r grep -InwE "$markers" | sed 's/$/: a marker/' || true
    )
}

# plant NAME EXPECTED - require that many violations in the file on stdin.
plant() {
    mkdir -p "$dir/tree/${1%/*}"
    cat >"$dir/tree/$1"
    found=$(check "$dir/tree" | wc -l)
    if [ "$found" -ne "$2" ]; then
        echo "planted $1: $found violations found, $2 expected:"
        check "$dir/tree"
        exit 1
    fi
    rm "$dir/tree/$1"
}

# lines N - print N lines of code.
lines() {
    yes '    work();' | head -n "$1"
}

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

{ printf 'int f(int a,\n      int b)\n{\n'; lines 56; echo '}'; } |
    plant src/base/function.c 0
{ printf 'int f(int a,\n      int b)\n{\n'; lines 57; echo '}'; } |
    plant src/base/function.c 1
{ printf 'int f(void)\n{\n    int a;\n\n#if 1\n'; lines 30; printf '/* A. */\n'
    lines 30; echo '}'; } | plant src/base/function.c 1
{ printf 'int f(void)\n{\n'; lines 30; printf '}\nint g(void)\n{\n'
    lines 30; echo '}'; } | plant src/base/function.c 0
printf '%080d\n' 0 | plant include/ucxpool/wide.h 0
printf '%081d\n' 0 | plant include/ucxpool/wide.h 1
printf '%081d\n' 0 | plant java/org/Wide.java 1
printf '/* %s: later */\n' TO''DO | plant tools/marker.c 1
printf '/* a comment\n * ucp_mem_map()\n */\nint ucp_x;\n' |
    plant src/block/call.c 0
printf '    status = ucp_mem_map(context);\n' | plant src/block/call.c 1
printf '    status = ucp_mem_map(context);\n' | plant src/ucx/reg.c 0
printf '    status = ucp_mem_map(context);\n' | plant src/core/call.c 0
printf '    status = ucp_mem_map(context);\n' | plant examples/call.c 1
printf '    status = ucp_mem_map(context);\n' | plant examples/borrowed.c 0

printf '    error = ibv_dereg_mr(mr);\n' | plant src/xfer/call.c 1
printf '    error = ibv_dereg_mr(mr);\n' | plant src/mem/reg_verbs.c 0
printf '    error = ibv_dereg_mr(mr);\n' | plant examples/call.c 0

violations=$(check "$top_srcdir")
if [ -n "$violations" ]; then
    echo "$violations"
    exit 1
fi
echo "lengths, columns, markers and calls of UCX and verbs are correct"
