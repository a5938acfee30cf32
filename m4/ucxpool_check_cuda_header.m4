# UCXPOOL_CHECK_CUDA_HEADER
# -------------------------
# Find the CUDA driver's own header, into CUDA_HEADER_CFLAGS. Only a test uses it,
# to compare our declarations with it.
AC_DEFUN([UCXPOOL_CHECK_CUDA_HEADER], [
  CUDA_HEADER_CFLAGS=
  AS_IF([test -f /usr/local/cuda/include/cuda.h],
    [CUDA_HEADER_CFLAGS="-isystem /usr/local/cuda/include"])
  ucxpool_saved_cppflags=$CPPFLAGS
  CPPFLAGS="$CPPFLAGS $CUDA_HEADER_CFLAGS"
  AC_MSG_CHECKING([for cuda.h of CUDA 12.3 or later])
  AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <cuda.h>
#if CUDA_VERSION < 12030
#error too old
#endif]])], [have_cuda_header=yes], [have_cuda_header=no])
  AC_MSG_RESULT([$have_cuda_header])
  CPPFLAGS=$ucxpool_saved_cppflags
  AC_SUBST([CUDA_HEADER_CFLAGS])
  AM_CONDITIONAL([HAVE_CUDA_HEADER], [test "x$have_cuda_header" = xyes])
])
