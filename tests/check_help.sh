#!/bin/sh
# Checks that the --help text and the man page of each tool list the same
# options, once each, and that --help and --version work the same way in all
# tools.
set -eu

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# names - print the options in the text on stdin, one per line.
names() {
    grep -oE -- '--?[A-Za-z][A-Za-z-]*'
}

# of_help TEXT - print the options in lines such as " -x, --long VALUE
# description".
of_help() {
    sed -n 's/^  *\(--*[A-Za-z].*\)/\1/p' "$1" | sed 's/  .*//' | names
}

# of_page FILE - print the options that head the entries of the page's list, in
# mdoc (.It Fl) or man (.TP).
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

# of_synopsis FILE - print the long options in the page's synopsis, as mdoc
# formats them: after a bar without a macro, Fl prints one dash.
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
# check TOOL HELP PAGE
check() {
    of_help "$2" | sort >"$dir/help"
    [ "$(wc -l <"$dir/help")" -ge 6 ] || {
        echo "no options found in $1 --help"
        exit 1
    }
    of_page "$3" | sort >"$dir/page"
    if ! diff "$dir/help" "$dir/page" >"$dir/diff"; then
        echo "man/$1.1 does not have the options of --help, each once:"
        cat "$dir/diff"
        status=1
    fi
    of_synopsis "$3" | sort -u >"$dir/synopsis"
    if [ -n "$(comm -13 "$dir/help" "$dir/synopsis")" ]; then
        echo "the synopsis of man/$1.1 has unknown options:"
        comm -13 "$dir/help" "$dir/synopsis" | sed 's/^/> /'
        status=1
    fi
}

# The check must find a planted fault.
printf '  -a, --all  what\n      --best=X  x\n' >"$dir/planted.help"
printf '  -c, --count N  x\n  -h, --help\n' >>"$dir/planted.help"
printf '.Op Fl Fl all | best | Fl c\n' >"$dir/planted.1"
printf '.It Fl a , Fl Fl all\n.TP\n.BR \\-\\-best =X\n.It Fl h , Fl Fl help\n' \
    >>"$dir/planted.1"
printf '.It Fl a , Fl Fl all\n' >>"$dir/planted.1"
found=$(check planted "$dir/planted.help" "$dir/planted.1" |
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
    check "$tool" "$dir/text" "$top_srcdir/man/$tool.1"
    widest=$(awk 'length > n { n = length } END { print n }' "$dir/text")
    if [ "$widest" -gt 80 ]; then
        echo "$tool --help is $widest columns wide"
        status=1
    fi
done
exit $status
