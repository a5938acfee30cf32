# UCXPOOL_SUMMARY
# ---------------
# The summary of configure: what is built and what is not, and what to install
# for the rest. Must follow AC_OUTPUT.
AC_DEFUN([UCXPOOL_SUMMARY], [
  ucxpool_line() {
    AS_IF([test "x$silent" != xyes], [printf '  %-12s %s\n' "$[]1" "$[]2"])
  }
  AS_IF([test "x$silent" != xyes],
    [printf '\n%s, to be installed in %s\n' "$PACKAGE_STRING" "$prefix"])
  ucxpool_line UCX "$ucx_version${ucx_dir:+ in $ucx_dir}"
  ucxpool_line CUDA 'yes: a program finds the driver when it runs'
  AS_IF([test "x$have_verbs" = xyes],
    [ucxpool_line libibverbs yes],
    [ucxpool_line libibverbs \
      'no: nothing for programs that speak verbs (Debian: libibverbs-dev)'])
  AS_IF([test "x$have_pmix" = xyes],
    [ucxpool_line PMIx yes],
    [ucxpool_line PMIx \
      'no: ucxpool_shuffle not under mpirun (Debian: libpmix-dev)'])
  AS_IF([test "x$have_check" = xyes],
    [ucxpool_line Check yes],
    [ucxpool_line Check \
      'no: NO TEST PROGRAM is built for make check (Debian: check)'])
  AS_IF([test "x$have_cuda_header" = xyes],
    [ucxpool_line cuda.h yes],
    [ucxpool_line cuda.h \
      'no: our declarations are not compared with it by make check'])
  AS_IF([test "x$have_nvtx" = xyes],
    [ucxpool_line NVTX yes],
    [ucxpool_line NVTX \
      'no: profilers are not told of transfers (--with-nvtx=DIR)'])
  AS_IF([command -v python3 >/dev/null],
    [ucxpool_line Python yes],
    [ucxpool_line Python \
      'no: the Python package is not tested by make check (Debian: python3)'])
  AS_IF([test $have_java = no],
      [ucxpool_line Java \
        'no: no make java (Debian: default-jdk-headless)'],
    [test -z "$SPARK_JARS"],
      [ucxpool_line Java \
        'yes: make java; without the plugin for Spark (--with-spark=DIR)'],
    [ucxpool_line Java "yes: make java, for Spark in $SPARK_JARS"])
  AS_IF([test -n "$ucxpool_sanitizers"],
    [ucxpool_line sanitizers "$ucxpool_sanitizers"])
])
