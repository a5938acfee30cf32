#!/bin/sh
# Checks that at most three files call each other in a circle. The calls are
# read from the objects built from src/ and tools/. A file also calls the
# functions and tables that its own tables name.
set -eu
LC_ALL=C
export LC_ALL

# objects TREE - print "FILE OBJECT" for each object of src/ and tools/.
objects() {
    (cd "$1" && find src tools -name '*.o' ! -path 'src/*/.libs/*_la-*' |
        awk '{
            object = $0
            sub(/\.libs\//, "")
            sub(/\.o$/, "")
            if (!($0 in best) || object ~ /\.libs\//) {
                best[$0] = object
            }
        }
        END {
            for (name in best) {
                print name, best[name]
            }
        }')
}

# calls TREE - print "FILE FILE" for each pair whose first file calls the
# second. A name that several programs define refers to the one in the same
# directory.
calls() {
    objects "$1" | while read -r file object; do
        nm "$1/$object" | awk -v file="$file" '{ print file, $(NF - 1), $NF }'
    done | awk '
        { folder = $1; sub(/\/[^\/]*$/, "", folder) }
        $2 ~ /^[TDBRC]$/ { home[folder " " $3] = $1; any[$3] = $1 }
        $2 == "U" { wanted[$1 " " $3] = folder }
        END {
            for (pair in wanted) {
                split(pair, part, " ")
                near = wanted[pair] " " part[2]
                to = near in home ? home[near] : any[part[2]]
                if (to != "" && to != part[1] && !seen[part[1], to]++) {
                    print part[1], to
                }
            }
        }'
}

# circles - read pairs, and print the circles of more than three files.
circles() {
    awk '
        { out[$1] = out[$1] " " $2; node[$1]; node[$2] }
        function reach(from, done,    todo, first, last, next_one, n, i) {
            todo[1] = from
            last = 1
            for (first = 1; first <= last; first++) {
                n = split(out[todo[first]], next_one, " ")
                for (i = 1; i <= n; i++) {
                    if (!(next_one[i] in done)) {
                        done[next_one[i]]
                        todo[++last] = next_one[i]
                    }
                }
            }
        }
        END {
            for (a in node) {
                split("", from_a)
                reach(a, from_a)
                for (b in from_a) {
                    reaches[a, b]
                }
            }
            for (a in node) {
                if (a in told || !((a, a) in reaches)) {
                    continue
                }
                names = ""
                count = 0
                for (b in node) {
                    if ((a, b) in reaches && (b, a) in reaches) {
                        names = names " " b
                        told[b]
                        count++
                    }
                }
                if (count > 3) {
                    print "a circle of " count " files:" names
                }
            }
        }'
}

# The check must find a planted fault.
plant() {
    found=$(printf '%b' "$1" | circles | wc -l)
    if [ "$found" -ne "$2" ]; then
        echo "planted '$1': $found circles found, $2 expected"
        exit 1
    fi
}

plant 'a b\nb c\nc d\nd a\n' 1
plant 'a b\nb c\nc d\nd a\ne f\nf g\ng h\nh e\nd e\n' 2
plant 'a b\nb c\nc a\n' 0
plant 'a b\nb c\nc d\na d\n' 0

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
calls "$top_builddir" >"$dir/calls"
num=$(wc -l <"$dir/calls")
if [ "$num" -lt 500 ]; then
    echo "only $num pairs of files that call each other were found"
    exit 1
fi
if ! grep -q '^src/window/remote src/window/device$' "$dir/calls"; then
    echo "what the initialiser of a table names was not found"
    exit 1
fi
circles <"$dir/calls" >"$dir/circles"
if [ -s "$dir/circles" ]; then
    cat "$dir/circles"
    exit 1
fi
echo "of $num pairs of files that call each other none is in a circle of more than three"
