#!/bin/sh
# Runs tests/stress for some seconds, with kills on `map` and without kills on
# `ucx`, where UCX itself may abort a process whose peer is killed
# (docs/known-issues.md).
set -u

: "${top_builddir:=$(pwd)}"
stress=$top_builddir/tests/stress
seconds=${TEST_STRESS_SECONDS:-3}
num_failed=0

run() {
    echo "stress --seconds $seconds $*"
    "$stress" --seconds "$seconds" "$@" || num_failed=$((num_failed + 1))
}

run --wire map --seed 1
run --wire ucx --seed 2 --calm
exit $num_failed
