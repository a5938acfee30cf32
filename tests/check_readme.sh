#!/bin/sh
# Checks that the program in the README is examples/sender.c, and that each
# relative link in the documents leads to an existing file and heading.
set -eu

# anchors FILE - print the names of the file's headings as used in links.
anchors() {
    sed -nE 's/^#+ +//p' "$1" | sed -E 's/\[([^]]*)\]\([^)]*\)/\1/g' |
        tr '[:upper:]' '[:lower:]' | sed 's/[^a-z0-9_ -]//g; s/ /-/g'
}

# links DIR FILE - print the broken relative links of a document.
links() {
    grep -oE '\]\([^):]+\)' "$1/$2" | sed 's/^](//; s/)$//' |
        while read -r link; do
            target=$1/$2
            case $link in
            '#'*) ;;
            *) target=$1/$(dirname "$2")/${link%%#*} ;;
            esac
            if [ ! -e "$target" ]; then
                echo "$2: no ${link%%#*}"
                continue
            fi
            case $link in
            *'#'*) anchors "$target" | grep -qxF -- "${link#*#}" ||
                echo "$2: no heading $link" ;;
            esac
        done
}

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# The check must find a planted fault.
printf '# A part\n\n[this](planted.md), [that](there.md#a-part), [it](#b)\n' \
    >"$dir/there.md"
if [ "$(links "$dir" there.md)" != 'there.md: no planted.md
there.md: no heading #b' ]; then
    echo 'the planted links were not found'
    exit 1
fi

status=0
sed -n '/^```c$/,/^```$/{/^```/!p}' "$top_srcdir/README.md" >"$dir/program"
if ! diff "$dir/program" "$top_srcdir/examples/sender.c"; then
    echo 'README.md: its program is not examples/sender.c'
    status=1
fi
for file in README.md HACKING.md $(cd "$top_srcdir" && find docs -name '*.md'); do
    links "$top_srcdir" "$file"
done >"$dir/links"
if [ -s "$dir/links" ]; then
    cat "$dir/links"
    status=1
fi
exit $status
