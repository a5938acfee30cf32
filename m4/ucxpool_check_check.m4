# UCXPOOL_CHECK_CHECK
# -------------------
# Find the test library Check, into CHECK_CFLAGS and CHECK_LIBS. Without it the
# library and the tools are built, and `make check` reports that it is missing.
AC_DEFUN([UCXPOOL_CHECK_CHECK], [
  PKG_CHECK_MODULES([CHECK], [check >= 0.15],
    [have_check=yes], [have_check=no])
  AM_CONDITIONAL([HAVE_CHECK], [test "x$have_check" = xyes])
])
