#!/bin/sh
# ./run-rdma-tests without booting a machine: its options, the names and files
# of its tests, and the reasons for skipping.
set -eu

run=$top_srcdir/run-rdma-tests
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

command -v bash >/dev/null || { echo 'bash is not installed'; exit 77; }

# ends CODE ARGUMENT... - require that run-rdma-tests ends with that exit code.
ends() {
    expected=$1
    shift
    code=0
    bash "$run" "$@" >"$dir/log" 2>&1 || code=$?
    if [ $code -ne "$expected" ]; then
        echo "$*: exit code $code, not $expected"
        cat "$dir/log"
        exit 1
    fi
}

# says WORDS - require a matching line in the output.
says() {
    grep -qE -- "$1" "$dir/log" && return
    echo "no line of the output matches '$1':"
    cat "$dir/log"
    exit 1
}

ends 0 --help
says '^usage:'
ends 2 --nonsense
ends 2 --built
ends 2 --limit soon
ends 1 no-such-test
says 'no test has such a name: no-such-test'

# Each test has a unique name, and its script exists.
ends 0 --list
says '^pingpong$'
[ -z "$(sort "$dir/log" | uniq -d)" ] || { echo 'a name twice'; exit 1; }
sed -n 's/^[0-9]* [0-9]* \([a-z_]*\).*/\1/p' "$top_srcdir/tests/rdma/list" |
    while read -r script; do
        [ -f "$top_srcdir/tests/rdma/$script.sh" ] || {
            echo "tests/rdma/$script.sh does not exist"
            exit 1
        }
    done

# Each script belongs to a test, or is shared.
for script in "$top_srcdir"/tests/rdma/*.sh; do
    name=$(basename "$script" .sh)
    [ "$name" = verbs ] ||
        grep -q "^[0-9]* [0-9]* $name\( \|\$\)" "$top_srcdir/tests/rdma/list" || {
        echo "no line of tests/rdma/list runs $name.sh"
        exit 1
    }
done

# A machine without QEMU, but with everything else that the script needs.
mkdir "$dir/bin"
for program in bash basename cat cut dirname grep nproc paste sed sort tail \
    tr uname; do
    ln -s "$(command -v $program)" "$dir/bin/$program"
done
code=0
PATH=$dir/bin bash "$run" --no-install >"$dir/log" 2>&1 || code=$?
if [ $code -ne 77 ]; then
    echo "without QEMU: exit code $code, not 77"
    cat "$dir/log"
    exit 1
fi
says '^skipped: (qemu-system-x86_64 was not found |the machine is for x86_64)'
