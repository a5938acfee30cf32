# UCXPOOL_TEST_PATHS
# ------------------
# Paths of built files and of UCX for the tests, as strings in config.h. In their
# CPPFLAGS they would make each shared source be compiled once per program.
AC_DEFUN([UCXPOOL_TEST_PATHS], [
  ucxpool_tests=`pwd -P`/tests
  AC_DEFINE_UNQUOTED([STAND_IN_DIR], ["$ucxpool_tests/cuda_stand_in/.libs"],
    [Directory of the libraries that stand in for the CUDA driver])
  AC_DEFINE_UNQUOTED([NVML_STAND_IN_PATH],
    ["$ucxpool_tests/nvml_stand_in/.libs/libnvml.so"],
    [The library that stands in for NVML])
  AC_DEFINE_UNQUOTED([NVTX_STAND_IN_PATH],
    ["$ucxpool_tests/nvtx_stand_in/.libs/libnvtx.so"],
    [The library that stands in for a profiler])
  AC_DEFINE_UNQUOTED([VERBS_STAND_IN_DIR],
    ["$ucxpool_tests/verbs_stand_in/.libs"],
    [Directory of the libraries that stand in for libibverbs])
  AC_DEFINE_UNQUOTED([UCX_DIR], ["$UCX_DIR"],
    [Directory of UCX where configure was told one, or /])
])
