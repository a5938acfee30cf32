#!/bin/sh
# Tests the parts of the Python package that do not need its extension: the
# search for the library, and integration with fake frameworks, on the stand-in
# for the CUDA driver.
set -eu

# Wait while libtool relinks the library for test_install.sh.
exec 9<"$top_builddir/libucxpool-framework.la"
flock -s 9

if ! command -v python3 >/dev/null; then
    echo 'Python is not installed'
    exit 77
fi
if [ -n "$SANITIZER_CFLAGS" ]; then
    echo 'Python does not load a library with a sanitizer'
    exit 77
fi
LIBUCXPOOL=$top_builddir/.libs/libucxpool.so
PYTHONPATH=$top_srcdir/python:$top_srcdir/tests/python
UCXPOOL_LOG_LEVEL=none
UCXPOOL_HUGE_PAGES=n
export LIBUCXPOOL PYTHONPATH UCXPOOL_LOG_LEVEL UCXPOOL_HUGE_PAGES
python3 -B -m unittest -q test_library

UCXPOOL_CUDA_DRIVER=$top_builddir/tests/cuda_stand_in/.libs/libstand_in.so
if [ ! -e "$UCXPOOL_CUDA_DRIVER" ]; then
    echo 'Check is not installed, so there is no stand-in driver'
    exit
fi
UCXPOOL_MEMORY_LIMIT=256m
CUDA_STAND_IN=devices=1,memory=512m
export UCXPOOL_CUDA_DRIVER UCXPOOL_MEMORY_LIMIT CUDA_STAND_IN
python3 -B -m unittest -q test_frameworks
