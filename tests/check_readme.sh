#!/bin/sh
# The first program in the README is examples/sender.c, to the letter, and what
# the documents point to is there.
set -eu

# links DIR FILE - the relative links of a document that lead nowhere.
links() {
    grep -oE '\]\([^)#:]+(#[^)]*)?\)' "$1/$2" | sed 's/^](//; s/[#)].*//' |
        while read -r target; do
            [ -e "$1/$(dirname "$2")/$target" ] || echo "$2: no $target"
        done
}

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# A check that cannot fail proves nothing.
echo 'See [this](planted.md), [that](there.md#part).' >"$dir/there.md"
if [ "$(links "$dir" there.md)" != 'there.md: no planted.md' ]; then
    echo 'a planted link was not found'
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
