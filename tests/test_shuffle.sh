#!/bin/sh
# Tests ucxpool_shuffle, end to end: unusual but valid inputs, invalid inputs,
# and workers that die. Every part runs in its own directory.
#
# usage: test_shuffle.sh [PART...]
#
# TEST_MANY  the number of workers in tests that need many (32)
set -u
. "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}/tests/shuffle.sh"
# Small, so that several runs fit on a small machine.
: "${UCXPOOL_COMM_SIZE:=16m}"
: "${UCXPOOL_BLOCK_SIZE:=256k}"
export UCXPOOL_COMM_SIZE UCXPOOL_BLOCK_SIZE
many=${TEST_MANY:-32}

# fails STATUS TEXT ARG... - the run must fail with that status and print TEXT;
# no file may be left in out.
fails() {
    expected=$1
    text=$2
    shift 2
    run_tool "$@"
    [ $status -eq "$expected" ] ||
        failed "ucxpool_shuffle $*: exit status $status, not $expected"
    grep -q -e "$text" stderr ||
        failed "ucxpool_shuffle $*: does not say '$text': $(cat stderr)"
    leftovers
}

leftovers() {
    left=$(find out -name '*part-*' 2>/dev/null | head -3)
    [ -z "$left" ] || failed "left behind: $left"
}

# same FILE - require that the partitions hold the records of FILE, which ends
# in a newline.
same() {
    sort "$1" >expected
    cat out/part-* | sort >actual
    cmp -s expected actual || failed "the records are not those of $1"
    [ -z "$(find out -name '.*.tmp')" ] || failed "temporary files are left"
}

# keys_apart DELIMITER FIELD - require that no key occurs in two files.
keys_apart() {
    awk -F"[$1]" -v field="$2" '
        ($field in file) && file[$field] != FILENAME { print $field }
        { file[$field] = FILENAME }' out/part-* >twice
    [ ! -s twice ] || failed "keys in two partitions: $(head -3 twice)"
}

# records N - print N records of different lengths, with 1000 keys.
records() {
    awk -v n="$1" 'BEGIN {
        x = "abcdefghijklmnopqrstuvwxyz0123456789"
        for (i = 0; i < n; i++) {
            key = i * 7919 % 1000
            print key "|" i "|" substr(x x x, 1, i * 31 % 100) "|"
        }
    }'
}

# --- valid input ---------------------------------------------------------

part_partitions() {
    records 20000 >in.tbl
    for w in $(few '1 5' '1 2 5 16'); do
        for p in $(few '1 8' '1 8 1000'); do
            passes -w $w -p $p in.tbl || continue
            [ "$(ls out | wc -l)" -eq $p ] || failed "-p $p: not $p files"
            same in.tbl
            keys_apart '|' 1
            # A key is in the same partition for any number of workers.
            awk '{ print FILENAME, $0 }' out/part-* | sort >"list.$w.$p"
            cmp -s "list.1.$p" "list.$w.$p" ||
                failed "-w $w -p $p: partitions differ from those of -w 1"
        done
    done
}

part_fields() {
    printf '%s\n' 'a,1,x' 'b,2,y' 'c,1,z' >in.csv
    passes -w 2 -p 3 -k 2 in.csv && same in.csv && keys_apart , 2
    tr , '\t' <in.csv >in.tsv
    passes -w 2 -p 3 -k 2 in.tsv && same in.tsv && keys_apart "$(printf '\t')" 2
    tr , ':' <in.csv >in
    passes -w 2 -p 3 -k 3 -d : in && same in && keys_apart : 3
    passes -w 2 -p 3 -d tab in.tsv && same in.tsv
    cp in.tsv in.tab
    passes -w 2 -p 3 -k 3 in.tab && same in.tab
    # Files with different delimiters.
    passes -w 2 -p 3 -k 2 in.csv in.tsv &&
        cat in.csv in.tsv >both && same both
}

# A header is not a record: it occurs once at the start of each output, and is
# not counted.
part_header() {
    { echo 'key|n|text|'
      records 5000; } >a.tbl
    { echo 'key|n|text|'
      records 300; } >b.tbl
    : >empty.tbl
    printf 'key|n|text|' >alone.tbl
    { sed 1d a.tbl
      sed 1d b.tbl; } >all
    for w in 1 2 7; do
        passes -w $w -p 3 --header a.tbl empty.tbl b.tbl alone.tbl || continue
        for file in out/part-*; do
            [ "$(head -n 1 "$file")" = 'key|n|text|' ] ||
                failed "-w $w: $file begins with $(head -n 1 "$file")"
            sed -i 1d "$file"
        done
        same all
        keys_apart '|' 1
        grep -q 'Checked: 5300 records' stdout || failed "-w $w: $(cat stdout)"
    done
    passes -w 9 -p 4 --header alone.tbl
    [ "$(sort -u out/part-*)" = 'key|n|text|' ] || failed "a header alone"
    [ "$(cat out/part-* | wc -l)" -eq 4 ] || failed "not once in each"
    # Test more partitions than open files, with a long header.
    { head -c 100000 /dev/zero | tr '\000' h
      echo
      records 10; } >long.tbl
    passes -w 2 -p 50 --header long.tbl
    [ "$(head -qc 3 out/part-* | tr -d h | wc -c)" -eq 0 ] || failed "long"
    rm -rf out
    echo 'other|n|text|' >other.tbl
    fails 1 "header of 'other.tbl' differs" --header -o out a.tbl other.tbl
    [ ! -e out ] || failed "an output directory was made for other headers"
}

# Quotes in .csv files: a key is the unquoted value, and a record may contain
# newlines.
part_quotes() {
    awk 'BEGIN {
        print "\"the\nkey\",text"
        for (i = 0; i < 20000; i++) {
            key = "k, " i % 100
            if (i % 3 == 0) key = "plain" i % 100
            quoted = i % 3 != 0 || i % 2 ? "\"" key "\"" : key
            print quoted ",\"line " i "\n\"\"and, \"\"\nmore\",5\" x"
        }
    }' >in.csv
    command -v python3 >/dev/null 2>&1 || return
    for w in 1 3 8; do
        passes -w $w -p 5 --header in.csv || continue
        grep -q 'Checked: 20000 records' stdout || failed "-w $w: $(cat stdout)"
        python3 -c '
import csv, sys
def rows(name):
    found = list(csv.reader(open(name, newline="")))
    assert found.pop(0) == ["the\nkey", "text"], name
    return found
parts = [rows(name) for name in sys.argv[2:]]
assert sorted(sum(parts, [])) == sorted(rows(sys.argv[1]))
keys = [{row[0] for row in part} for part in parts]
assert sum(map(len, keys)) == len(set.union(*keys)), keys
' in.csv out/part-* || failed "-w $w: rows differ, or a key is in two files"
    done
    rm -rf out
    printf 'a\n"b\n' >open.csv
    fails 1 "begins at byte 2, has a quote that is not closed" -o out open.csv
    passes -w 2 -p 2 -d , open.csv && same open.csv
}

part_odd() {
    : >empty.tbl
    passes -w 2 -p 3 empty.tbl && same empty.tbl
    [ "$(ls out | wc -l)" -eq 3 ] || failed "no file for an empty partition"
    printf 'a|b\n' >one.tbl
    passes -w 5 -p 3 one.tbl && same one.tbl
    printf 'a|b\nc|d' >unended.tbl
    passes -w 2 -p 3 unended.tbl one.tbl empty.tbl
    printf 'a|b\nc|d\na|b\n' >expected.tbl && same expected.tbl
    printf '|a\n|b\n\n\n|c\n' >emptykeys.tbl
    passes -w 2 -p 3 emptykeys.tbl && same emptykeys.tbl
    [ "$(find out -size +0 | grep -c part-)" -eq 1 ] ||
        failed "equal (empty) keys are not together"
    printf 'a\000b|\000\n\000|\n\000\n' >nul.tbl
    passes -w 2 -p 3 nul.tbl && same nul.tbl
    records 5000 | sed 's/^[0-9]*/k/' >onekey.tbl
    passes -w 3 -p 4 onekey.tbl && same onekey.tbl
    passes -w 2 -p 2 onekey.tbl onekey.tbl &&
        cat onekey.tbl onekey.tbl >twice.tbl && same twice.tbl
    # A file name is not an option, and may contain anything.
    cp one.tbl './-a "b".tbl'
    passes -w 1 --json -- '-a "b".tbl' && same one.tbl
}

part_long() {
    # Longer than a block, than a batch, and than all blocks of the pool.
    { records 100
      for n in 300000 3000000 20000000; do
          printf 'k%s|' $n
          head -c $n /dev/zero | tr '\000' x
          echo '|'
      done
      records 100; } >long.tbl
    passes -w 2 -p 5 long.tbl && same long.tbl
    passes -w 5 -p 8 long.tbl && same long.tbl
}

part_small_blocks() {
    records 20000 >in.tbl
    head -c 100000 /dev/zero | tr '\000' y >>in.tbl
    echo >>in.tbl
    for wire in map ucx; do
        UCXPOOL_WIRE=$wire UCXPOOL_BLOCK_SIZE=4k UCXPOOL_COMM_SIZE=64k
        export UCXPOOL_WIRE UCXPOOL_BLOCK_SIZE UCXPOOL_COMM_SIZE
        passes -w 2 -p 7 in.tbl && same in.tbl
        # One block to send, one to receive, and one for the caller.
        UCXPOOL_COMM_SIZE=12k passes -w 3 -p 7 in.tbl && same in.tbl
    done
}

part_wires() {
    records 20000 >in.tbl
    for wire in map ucx; do
        for checksum in none crc32c; do
            UCXPOOL_WIRE=$wire UCXPOOL_CHECKSUM=$checksum
            export UCXPOOL_WIRE UCXPOOL_CHECKSUM
            passes -w 3 -p 8 --json in.tbl && same in.tbl
            grep -q "\"wire\": \"$wire\"" stdout ||
                failed "the wire is not $wire: $(cat stdout)"
            grep -q '"registrations_after_start": 0,' stdout ||
                failed "registrations after start"
        done
    done
}

# More partitions than files can be open.
part_many_files() {
    records 20000 >in.tbl
    (ulimit -n 300 && passes -w 2 -p 1000 in.tbl && same in.tbl
     exit $num_failed) || failed "300 open files are too few"
    [ "$(ls out | wc -l)" -eq 1000 ] || failed "not 1000 files"
    passes -w 3 -p $(few 2000 20000) in.tbl && find out -type f -size +0 \
        -exec cat '{}' + | sort >actual
    sort in.tbl | cmp -s - actual || failed "many open files: other records"
}

# Print the largest memory use of a worker, in KiB.
peak() {
    grep -o '"max_resident_bytes": [0-9]*' stdout |
        awk '$2 / 1024 > most { most = $2 / 1024 } END { print int(most) }'
}

# Test files larger than memory: a worker's memory use does not grow with them.
# (test_shuffle_memory.sh tests this with a limit.)
part_large() {
    # Sanitizers keep freed memory.
    [ -z "${SANITIZER_CFLAGS:-}" ] || return 0
    records 20000 >piece.tbl
    for n in 1 2 3 4 5 6 7 8 9 10; do
        cat piece.tbl piece.tbl
    done >in.tbl
    for p in 2 1000; do
        passes -w 2 -p $p --json in.tbl && small=$(peak)
        passes -w 2 -p $p --json in.tbl in.tbl in.tbl in.tbl in.tbl in.tbl \
            in.tbl in.tbl in.tbl in.tbl && large=$(peak)
        [ "$(cat out/part-* | wc -c)" -eq $((10 * $(wc -c <in.tbl))) ] ||
            failed "-p $p: the size is not that of the input"
        # Read-ahead and buffers may add to this, but no tenth of the input.
        [ "$large" -lt $((small + $(wc -c <in.tbl) / 1024)) ] ||
            failed "-p $p: $small KiB for a file, $large for ten of them"
    done
}

part_json() {
    records 1000 >in.tbl
    passes -w 2 -p 2 --json in.tbl
    for text in '"records": 1000' "\"bytes\": $(wc -c <in.tbl | tr -d ' ')" \
        '"workers": 2' '"partitions": 2' '"by_worker": \[{"worker": 0'; do
        grep -q "$text" stdout || failed "--json lacks $text"
    done
    if command -v python3 >/dev/null 2>&1; then
        python3 -c 'import json, sys; d = json.load(sys.stdin)
assert d["input"] == d["output"], d
assert sum(w["output"]["records"] for w in d["by_worker"]) == 1000, d
assert d["transfer"]["bytes_sent"] == d["transfer"]["bytes_received"], d
' <stdout || failed "--json output is wrong"
    fi
    passes -w 2 -p 2 in.tbl
    grep -q 'Checked: 1000 records' stdout || failed "no check in the summary"
    # UCX logs to the standard output, which must contain only the summary.
    rm -rf out
    UCX_LOG_LEVEL=debug "$shuffle" -w 2 -p 2 --json -o out in.tbl \
        >stdout 2>stderr || failed "with UCX's log: $(tail -1 stderr)"
    [ "$(wc -l <stdout)" -eq 1 ] || failed "more than JSON: $(head -3 stdout)"
    grep -q UCX stderr || failed "UCX's log is lost"
    rm -rf out
    "$shuffle" -w 2 --json -o out in.tbl >/dev/full 2>stderr
    [ $? -eq 1 ] || failed "a summary that cannot be written is no error"
    grep -q 'are complete, but the summary' stderr ||
        failed "the error does not say that the files are complete: $(cat stderr)"
}

# --- errors --------------------------------------------------------------

part_usage() {
    records 10 >in.tbl
    "$shuffle" --help | grep -q '^usage:' || failed "--help"
    "$shuffle" --version | grep -q '[0-9]\.[0-9]' || failed "--version"
    for option in --help --version; do
        "$shuffle" $option >/dev/full 2>stderr
        [ $? -eq 1 ] || failed "$option that cannot be written is no error"
        grep -q 'No space left' stderr || failed "$option: $(cat stderr)"
    done
    fails 2 'output directory' in.tbl
    fails 2 'input file' -o out
    fails 2 "give a number, 1 to" -w 0 -o out in.tbl
    fails 2 "give a number, 1 to" -w 2x -o out in.tbl
    fails 2 "give a number, 1 to" -p -1 -o out in.tbl
    fails 2 "give a number, 1 to" -p 100001 -o out in.tbl
    fails 2 "give a number, 1 to" -k 0 -o out in.tbl
    fails 2 "one character" -d '||' -o out in.tbl
    fails 2 "one character" -d '' -o out in.tbl
    fails 2 "unrecognized option" --nonsense -o out in.tbl
    fails 2 "invalid option" -x -o out in.tbl
    fails 2 "requires an argument" -o
    UCXPOOL_WIRE=pigeon fails 2 pigeon -o out in.tbl
    UCXPOOL_DEPTH=nonsense fails 2 DEPTH=nonsense -o out in.tbl
    [ ! -e out ] || failed "an output directory was made for wrong usage"
}

part_inputs() {
    records 10 >in.tbl
    fails 1 'missing.tbl.*No such file' -o out in.tbl missing.tbl
    mkdir folder.tbl
    fails 1 'folder.tbl.*is a directory' -o out folder.tbl
    mkfifo pipe.tbl
    fails 1 'pipe.tbl.*not a regular file' -o out pipe.tbl
    # A regular file for which fstat() reports 0 bytes, but which has content.
    fails 1 'filesystems.*does not report its size' -d tab -o out \
        /proc/filesystems
    cp in.tbl secret.tbl
    chmod 0 secret.tbl
    if [ "$(id -u)" -ne 0 ]; then
        fails 1 'secret.tbl.*Permission denied' -o out secret.tbl
    else
        # Root, without the capability to read everything.
        caps=-dac_override,-dac_read_search
        printf '#!/bin/sh\nexec setpriv --bounding-set %s --inh-caps %s %s "$@"' \
            $caps $caps "$shuffle" >unable
        chmod +x unable
        everything=$shuffle
        shuffle=./unable
        fails 1 'secret.tbl.*Permission denied' -o out secret.tbl
        shuffle=$everything
    fi
    cp in.tbl in.unknown
    fails 1 'in.unknown.*use -d' -o out in.unknown
    [ ! -e out ] || failed "an output directory was made for a wrong input"
    printf 'a|b|c\na|b\na|b|d\n' >short.tbl
    fails 1 "byte 6 of 'short.tbl' has no field 3" -w 2 -k 3 -o out short.tbl
    [ ! -e out ] || failed "an output directory is left"
}

part_outputs() {
    records 10 >in.tbl
    mkdir full
    : >full/something
    fails 1 "full.*is not empty" -o full in.tbl
    [ -e full/something ] || failed "something was removed"
    fails 1 "no/such.*No such file" -o no/such in.tbl
    fails 1 "in.tbl.*Not a directory" -o in.tbl in.tbl
    mkdir kept
    printf 'a\n' >short.tbl
    fails 1 'no field 2' -k 2 -o kept short.tbl
    [ -d kept ] || failed "an existing directory was removed"
    [ -z "$(ls -A kept)" ] || failed "files are left: $(ls -A kept)"
}

# Of two runs into one directory, one succeeds and the other is rejected.
part_two_runs() {
    records 3000 >in.tbl
    for trial in $(few '1 2 3' '1 2 3 4 5 6 7 8 9 10'); do
        rm -rf out
        "$shuffle" -w 2 -p 3 -o out in.tbl >stdout.1 2>stderr.1 &
        first=$!
        "$shuffle" -w 2 -p 3 -o out in.tbl >stdout.2 2>stderr.2
        second=$?
        wait $first
        first=$?
        [ $((first + second)) -eq 1 ] ||
            failed "exit statuses of two runs: $first and $second"
        same in.tbl
        [ "$(ls -A out | wc -l)" -eq 3 ] || failed "left: $(ls -A out)"
        cat stderr.1 stderr.2 >stderr
        grep -q -e 'File exists' -e 'is not empty' stderr ||
            failed "the reason is not printed: $(cat stderr)"
    done
}

# A file that another program creates in the output directory is kept.
part_foreign_file() {
    start_stopped || return
    echo mine >out/part-00001
    kill -CONT "$victim"
    wait $main 2>wait
    status=$?
    [ $status -eq 1 ] || failed "exit status $status, not 1"
    grep -q "cannot name 'out/.*part-00001.*File exists" stderr ||
        failed "the error is not printed: $(cat stderr)"
    [ "$(cat out/part-00001)" = mine ] || failed "the file of another program was replaced"
    [ "$(ls -A out)" = part-00001 ] || failed "left behind: $(ls -A out)"
}

part_full_disk() {
    records 100000 >in.tbl
    # Alone, because UCX needs descriptors of its own.
    (ulimit -f 512 && "$shuffle" -w 1 -p 2 -o out in.tbl) >stdout 2>stderr
    status=$?
    [ $status -eq 1 ] || failed "exit status $status, not 1"
    grep -q 'cannot write.*out/.part-0000' stderr ||
        failed "a file that may not grow: $(cat stderr)"
    leftovers
    # A disk of 1 MiB, if one can be created.
    mkdir disk
    unshare --map-root-user --mount sh -c '
        mount -t tmpfs -o size=1m none disk || exit 77
        "$1" -w 2 -p 2 -o disk in.tbl >stdout 2>stderr
        status=$?
        ls -A disk >left
        exit $status' sh "$shuffle" 2>/dev/null
    status=$?
    if [ $status -eq 77 ] || [ ! -e left ]; then
        echo "$part: no disk of 1 MiB can be made here"
        return
    fi
    [ $status -eq 1 ] || failed "full disk: exit status $status, not 1"
    grep -q 'No space left on device: free some space' stderr ||
        failed "full disk: $(cat stderr)"
    [ ! -s left ] || failed "full disk: left behind: $(cat left)"
}

# One of many workers fails at once, while the others are still connecting to
# it. The other workers and UCX print no error.
part_first_cause() {
    printf 'a\n' >short.tbl
    for wire in map ucx; do
        UCXPOOL_WIRE=$wire
        export UCXPOOL_WIRE
        fails 1 'no field 2' -w $many -k 2 -o out short.tbl
        [ "$(wc -l <stderr)" -eq 1 ] ||
            failed "$wire: more than the cause is printed: $(cat stderr)"
    done
}

# --- death ---------------------------------------------------------------

# has_temporary - succeed if partition 1 is being written.
has_temporary() {
    ls out/.part-00001.*.tmp >/dev/null 2>&1
}

# Start a run and stop its worker 1 at work, so that the run cannot end. The
# main process is $main, the workers are $workers, and worker 1 is $victim.
#
# start_stopped [WORKERS]
start_stopped() {
    num_workers=${1:-3}
    records 20000 >piece.tbl
    : >in.tbl
    until [ "$(wc -c <in.tbl)" -gt 400000000 ]; do
        # The run ended before the worker was stopped, so give it more to do.
        for i in 1 2 3 4 5 6 7 8 9 10; do
            cat piece.tbl piece.tbl
        done >>in.tbl
        rm -rf out
        # A non-interactive shell ignores SIGINT in its background jobs.
        env --default-signal=INT "$shuffle" -w $num_workers -p $num_workers \
            -o out in.tbl >stdout 2>stderr &
        main=$!
        while kill -0 $main 2>/dev/null; do
            if has_temporary; then
                workers=$(cat /proc/$main/task/$main/children 2>/dev/null)
                victim=$(echo $workers | cut -d' ' -f2)
                kill -STOP "$victim" 2>/dev/null || break
                # Until all records are written, no worker exits.
                has_temporary && [ -e /proc/$main/exe ] &&
                    [ "$(cat out/.part-*.tmp 2>/dev/null | wc -c)" -lt \
                        "$(wc -c <in.tbl)" ] && return 0
                kill -CONT "$victim"
            fi
        done
        wait $main 2>wait
    done
    failed "no run could be stopped: $(cat stderr)"
    return 1
}

# gone PID... - wait for these processes to end.
gone() {
    for pid in "$@"; do
        tail --pid="$pid" -f /dev/null
    done
}

# The signal that kills a worker is reported, but not the resulting errors of
# other workers: many of them are still connecting to it.
part_killed_worker() {
    for run in 'map 3' 'ucx 3' "map $many" "ucx $many"; do
        UCXPOOL_WIRE=${run% *}
        export UCXPOOL_WIRE
        start_stopped "${run#* }" || return
        kill -KILL "$victim"
        wait $main 2>wait
        status=$?
        [ $status -eq 1 ] || failed "exit status $status, not 1"
        grep -q "worker 1 (process $victim) was killed by signal 9" stderr ||
            failed "the error does not name the dead worker: $(cat stderr)"
        [ "$(grep -c '^ucxpool_shuffle: ' stderr)" -eq 1 ] ||
            failed "more than that is printed: $(cat stderr)"
        gone $workers
        leftovers
    done
}

part_interrupted() {
    for number in 2 15; do
        start_stopped || return
        # Ctrl-C on a terminal goes to all processes.
        if [ $number -eq 2 ]; then
            kill -2 $main $workers
        else
            kill -$number $main
        fi
        kill -CONT "$victim"
        wait $main 2>wait
        status=$?
        [ $status -eq $((128 + number)) ] ||
            failed "signal $number: exit status $status"
        grep -q 'nothing was written' stderr ||
            failed "signal $number: the error is not printed: $(cat stderr)"
        gone $workers
        leftovers
    done
}

part_killed_main() {
    start_stopped || return
    kill -KILL $main
    kill -CONT "$victim"
    wait $main 2>wait
    gone $workers
    leftovers
    [ ! -e out ] || failed "the directory is left, with $(ls -A out)"
}

# An interrupt that is too late to stop the run: the files have their final
# names, and only the summary is missing, blocked by a full pipe.
part_interrupted_late() {
    records 1000 >in.tbl
    mkfifo pipe
    exec 3<>pipe
    dd if=/dev/zero of=pipe bs=4096 oflag=nonblock conv=notrunc 2>dd
    grep -q 'temporarily unavailable' dd || failed "the pipe is not full: $(cat dd)"
    env --default-signal=INT "$shuffle" -w 2 -p 2 -o out in.tbl \
        >pipe 2>stderr 3>&- &
    main=$!
    until [ -e out/part-00000 ] && [ -e out/part-00001 ]; do
        kill -0 $main || {
            failed "no partitions: $(cat stderr)"
            break
        }
    done
    kill -INT $main
    exec 4<pipe 3>&-
    tr -d '\000' <&4 >stdout || failed 'the summary does not end'
    exec 4<&-
    wait $main 2>wait
    status=$?
    [ $status -eq 0 ] || failed "exit status $status: $(cat stderr)"
    grep -q 'Checked: 1000 records' stdout || failed 'no summary'
    same in.tbl
}

# -------------------------------------------------------------------------

if [ $# -eq 0 ]; then
    set -- partitions many_files fields header quotes odd long small_blocks \
        wires large json usage inputs outputs two_runs foreign_file \
        first_cause full_disk killed_worker interrupted interrupted_late killed_main
fi
for part in "$@"; do
    mkdir -p "$work/$part"
    cd "$work/$part" || exit 1
    # Run the part in its own process, because it may change the environment.
    (num_failed=0; "part_$part"; exit $((num_failed > 0))) ||
        num_failed=$((num_failed + 1))
    cd / && rm -rf "${work:?}/$part"
done
echo "$# parts, $num_failed failed"
[ "$num_failed" -eq 0 ]
