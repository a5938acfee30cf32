# UCXPOOL_CHECK_NVTX
# ------------------
# Find NVTX 3, which consists only of headers, into NVTX_CFLAGS: in the
# compiler's directories, in the CUDA toolkit, or in DIR of --with-nvtx=DIR.
# Without it, or with --without-nvtx, transfers are not reported to profilers.
AC_DEFUN([UCXPOOL_CHECK_NVTX], [
  AC_ARG_WITH([nvtx],
    [AS_HELP_STRING([--with-nvtx=DIR],
      [take the headers nvtx3/ from DIR or DIR/include, for ranges in profilers])],
    [], [with_nvtx=check])
  NVTX_CFLAGS=
  have_nvtx=no
  AS_CASE([$with_nvtx],
    [no], [],
    [yes|check], [
      AC_CHECK_HEADER([nvtx3/nvToolsExt.h], [have_nvtx=yes],
        [AS_IF([test -f /usr/local/cuda/include/nvtx3/nvToolsExt.h], [
          have_nvtx=yes
          NVTX_CFLAGS="-isystem /usr/local/cuda/include"])])
      AS_IF([test "x$with_nvtx$have_nvtx" = xyesno],
        [AC_MSG_ERROR([nvtx3/nvToolsExt.h was not found: give --with-nvtx=DIR, for example of the CUDA toolkit])])],
    [AS_IF([test -f "$with_nvtx/nvtx3/nvToolsExt.h"],
        [NVTX_CFLAGS="-isystem $with_nvtx"],
      [test -f "$with_nvtx/include/nvtx3/nvToolsExt.h"],
        [NVTX_CFLAGS="-isystem $with_nvtx/include"],
      [AC_MSG_ERROR([there is no nvtx3/nvToolsExt.h in $with_nvtx or $with_nvtx/include])])
    have_nvtx=yes])
  AC_SUBST([NVTX_CFLAGS])
  AM_CONDITIONAL([HAVE_NVTX], [test "x$have_nvtx" = xyes])
])
