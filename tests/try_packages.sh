#!/bin/sh
# Runs in a minimal Debian root, started by scripts/try-packages: installs the
# packages next to this file, tries each, and removes them.
cd /try || exit 1
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
find / -xdev -name '*ucxpool*' ! -path '/try/*' ! -path '/proc/*' >before

# try NAME COMMAND... - run one test.
try() {
    name=$1
    shift
    if "$@" >"tests/$name.log" 2>&1; then
        result=PASS
    else
        result=FAIL
        echo "$name failed: $*"
        tail -n 40 "tests/$name.log"
    fi
    echo ":test-result: $result" >"tests/$name.trs"
}

# install PACKAGE... - install packages of this directory, and their
# dependencies.
install() {
    ours=''
    for package in "$@"; do
        case $package in
        *ucxpool*) ours="$ours $(echo ./"${package}"_*.deb)" ;;
        *) ours="$ours $package" ;;
        esac
    done
    apt-get -q -y install --no-install-recommends $ours
}

tools() {
    ucxpool_info --test &&
        seq 1000000 1020000 | sed 's/$/|a record of this length/' >records &&
        ucxpool_shuffle --delimiter='|' --output=parted records &&
        cat parted/part-* | sort | cmp - records &&
        zcat /usr/share/man/man1/ucxpool_shuffle.1.gz | grep -q partition
}

program() {
    cat >program.c <<'END'
#include <stdio.h>
#include <ucxpool/ucxpool.h>

int main(void)
{
    ucxpool_t *pool;

    if (ucxpool_create(NULL, &pool) != UCXPOOL_OK) {
        fputs(ucxpool_error_detail(), stderr);
        return 1;
    }
    ucxpool_destroy(pool);
    return 0;
}
END
    cc program.c $(pkg-config --cflags --libs ucxpool) -o program && ./program
}

# The installed example must compile.
example() {
    docs=/usr/share/doc/libucxpool-dev
    test -f $docs/docs/internals/architecture.md &&
        grep -q Redistribution $docs/COPYING && test -f $docs/NEWS &&
        cc $docs/examples/sender.c $(pkg-config --cflags --libs ucxpool) \
            -o sender
}

# Debian's Cython is older than the version with which the wheel is built.
python() {
    python3 -c 'import ucxpool; print(ucxpool.__file__)' |
        grep -q /usr/lib/python3/dist-packages/ &&
        UCXPOOL_LOG_LEVEL=none python3 tree/tests/python/run.py tests test_pool
}

# Debian's Dask must find the backend.
entry_point() {
    python3 - <<'END'
from importlib.metadata import entry_points
backend, = entry_points(group="distributed.comm.backends", name="ucxpool")
assert backend.value == "ucxpool.dask:UcxPoolBackend"
END
}

# Debian's virtual machine must find the C library.
bounce_transport() {
    java -cp /usr/share/java/ucxpool.jar BounceTransport.java |
        grep '^2000 blocks, .* through bounce buffers$'
}

purge() {
    apt-get -q -y purge libucxpool1 libucxpool-dev libucxpool-java \
        libucxpool-jni ucxpool-tools python3-ucxpool &&
        find / -xdev -name '*ucxpool*' ! -path '/try/*' ! -path '/proc/*' \
            >after &&
        diff before after
}

apt-get -q update
try install install libucxpool1 ucxpool-tools
try tools tools
try install-python install python3-ucxpool
try python python
try entry-point entry_point
try install-dev install libucxpool-dev gcc libc6-dev pkg-config
try program program
try example example
try install-java install libucxpool-java libucxpool-jni default-jdk-headless
try java bounce_transport
try purge purge
