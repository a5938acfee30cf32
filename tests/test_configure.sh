#!/bin/sh
# Tests that configure reports a missing library Check, and that make check
# reports it at the end.
set -eu

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
unset MAKEFLAGS MFLAGS MAKELEVEL TESTS

fail() {
    echo "$*"
    cat "$dir/log"
    exit 1
}

# A stand-in for pkg-config that does not know the packages named in $HIDDEN.
cat >"$dir/pkg-config" <<'END'
#!/bin/sh
for argument; do
    for hidden in $HIDDEN; do
        case $argument in
        "$hidden" | "$hidden "*) exit 1 ;;
        esac
    done
done
exec "$REAL_PKG_CONFIG" "$@"
END
chmod +x "$dir/pkg-config"
REAL_PKG_CONFIG=$(command -v "${PKG_CONFIG-pkg-config}")
export REAL_PKG_CONFIG
HIDDEN='check pmix libibverbs'
export HIDDEN

# A source tree that was configured in place cannot be configured from another
# directory, so use a copy without the results.
mkdir "$dir/source" "$dir/build"
for file in "$top_srcdir"/*; do
    case ${file##*/} in
    config.status | config.h | Makefile | libtool) ;;
    *) ln -s "$file" "$dir/source/" ;;
    esac
done

# Configure like this tree, but from another directory.
eval "set -- $("$top_builddir/config.status" --config)"
set -- "$@" "--srcdir=$dir/source" "PKG_CONFIG=$dir/pkg-config"
cd "$dir/build"
"$dir/source/configure" "$@" >"$dir/log" 2>&1 ||
    fail 'configure failed'
for line in 'libucxpool [0-9][-0-9.rc]*, to be installed in /' \
    '  UCX  *[1-9]\.[1-9][0-9]' \
    '  libibverbs  *no: .*libibverbs-dev' '  PMIx  *no: .*libpmix-dev' \
    '  Check  *no: NO TEST PROGRAM .*Debian: check'; do
    grep -q "^$line" "$dir/log" || fail "configure does not say: $line"
done

make -s check-local TESTS= >"$dir/log" 2>&1 || fail 'make check-local failed'
tail -n 3 "$dir/log" | grep -q '^NOT TESTED: .*Check' ||
    fail 'make check does not end with the list of skipped tests'

# With all packages, there is no such message.
HIDDEN=
"$dir/source/configure" "$@" >"$dir/log" 2>&1 ||
    fail 'configure failed the second time'
if grep -q '^  Check  *yes' "$dir/log"; then
    make -s check-local >"$dir/log" 2>&1 || fail 'make check-local failed'
    [ ! -s "$dir/log" ] || fail 'make check complains without a reason'
fi

# The plugin needs Spark 4. The name of a jar contains the version.
mkdir "$dir/spark"
: >"$dir/spark/spark-core_2.12-3.5.9.jar"
if "$top_srcdir/configure" "$@" "--with-spark=$dir/spark" >"$dir/log" 2>&1
then
    fail 'configure accepts the jars of Spark 3.5'
fi
grep -q 'the plugin needs Spark 4, and .* has spark-core_2.12-3.5.9.jar' \
    "$dir/log" || fail 'configure does not report Spark 3.5'
