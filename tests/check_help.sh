#!/bin/sh
# The options of each tool are the same in its source, its --help and its man
# page, each told once; --help and --version answer alike in all of them.
set -eu

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# names - the options in a text, one a line.
names() {
    grep -oE -- '--?[A-Za-z][A-Za-z-]*'
}

# of_source FILE - what getopt_long() is given: long names, and short ones.
of_source() {
    tr '}' '\n' <"$1" |
        sed -n "s/^[, ]*{\"\([a-z-]*\)\", [a-z]*_argument, NULL, \(.*\)/\1 \2/p" |
        while read -r long short; do
        echo "--$long"
        case $short in
        "'"?"'") echo "-$short" | tr -d "'" ;;
        esac
    done
}

# of_help TEXT - from the lines "  -x, --long VALUE  what it does".
of_help() {
    sed -n 's/^  *\(--*[A-Za-z].*\)/\1/p' "$1" | sed 's/  .*//' | names
}

# of_page FILE - from the heads of its list, in mdoc (.It Fl) or man (.TP).
of_page() {
    awk '
        /^\.It Fl / {
            gsub(/Fl Fl /, "--")
            gsub(/Fl /, "-")
            print substr($0, 4)
        }
        head { gsub(/\\-/, "-"); gsub(/[",=]/, " "); print }
        { head = $0 == ".TP" }' "$1" |
        tr ' ' '\n' | grep '^-' | names
}

# of_synopsis FILE - the long options there, as mdoc shows them: after a bar that
# is followed by no macro, Fl goes on with one dash.
of_synopsis() {
    sed -n '/^\.Op Fl /{
        s/^\.Op //
        s/^Fl [a-z]/ /
        s/Fl Fl /--/g
        s/Fl /-/g
        s/| \([a-z]\)/| -\1/g
        p
    }' "$1" | tr ' ' '\n' | grep '^-' | names | grep '^-[^ ]..'
}

status=0
# same WHAT SOURCE FILE - the two lists of options are one.
same() {
    sort "$3" >"$dir/sorted"
    if ! diff "$2" "$dir/sorted" >"$dir/diff"; then
        echo "$1 does not have the options of the source, each once:"
        cat "$dir/diff"
        status=1
    fi
}

# check TOOL SOURCE HELP PAGE
check() {
    of_source "$2" | sort >"$dir/source"
    [ "$(wc -l <"$dir/source")" -ge 6 ] || {
        echo "no options found in $2"
        exit 1
    }
    of_help "$3" >"$dir/help"
    same "$1 --help" "$dir/source" "$dir/help"
    of_page "$4" >"$dir/page"
    same "man/$1.1" "$dir/source" "$dir/page"
    of_synopsis "$4" | sort -u >"$dir/synopsis"
    if [ -n "$(comm -13 "$dir/source" "$dir/synopsis")" ]; then
        echo "the synopsis of man/$1.1 has options that there are not:"
        comm -13 "$dir/source" "$dir/synopsis" | sed 's/^/> /'
        status=1
    fi
}

# A check that cannot fail proves nothing.
cat >"$dir/planted.c" <<'END'
    {"all", no_argument, NULL, 'a'},
    {"best", required_argument, NULL, OPTION_BEST},
    {"count", required_argument, NULL, 'c'},
    {"help", no_argument, NULL, 'h'},
END
printf '  -a, --all  what\n  -a, --all  twice\n      --best=X  x\n' \
    >"$dir/planted.help"
printf '  -c, --count N  x\n  -h, --help\n' >>"$dir/planted.help"
printf '.Op Fl Fl all | best | Fl c\n' >"$dir/planted.1"
printf '.It Fl a , Fl Fl all\n.TP\n.BR \\-\\-best =X\n.It Fl h , Fl Fl help\n' \
    >>"$dir/planted.1"
found=$(check planted "$dir/planted.c" "$dir/planted.help" "$dir/planted.1" |
    grep '^[<>]' | sort | tr '\n' ' ')
if [ "$found" != '< --count < -c > --all > -a > -best ' ]; then
    echo "of the planted faults these were found: $found"
    exit 1
fi

for tool in ucxpool_info ucxpool_perf ucxpool_replay ucxpool_shuffle; do
    program=$top_builddir/tools/$tool
    for option in -h --help; do
        "$program" $option >"$dir/text" 2>"$dir/err" || true
        if [ -s "$dir/err" ] ||
            ! head -n 1 "$dir/text" | grep -q "^usage: $tool"; then
            echo "$tool $option does not print its usage"
            status=1
        fi
    done
    for option in -V --version; do
        "$program" $option >"$dir/version" 2>"$dir/err" || true
        if [ -s "$dir/err" ] || ! head -n 1 "$dir/version" |
            grep -q "^$tool (libucxpool) [0-9]"; then
            echo "$tool $option does not print its version"
            status=1
        fi
    done
    check "$tool" "$top_srcdir/tools/${tool#ucxpool_}/options.c" "$dir/text" \
        "$top_srcdir/man/$tool.1"
    widest=$(awk 'length > n { n = length } END { print n }' "$dir/text")
    if [ "$widest" -gt 80 ]; then
        echo "$tool --help is $widest columns wide"
        status=1
    fi
done
exit $status
