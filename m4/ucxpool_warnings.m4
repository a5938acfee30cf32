# UCXPOOL_WARNINGS
# ----------------
# Warnings of the compiler, into UCXPOOL_WARN_CFLAGS. --enable-werror makes
# them errors.
AC_DEFUN([UCXPOOL_WARNINGS], [
  AC_ARG_ENABLE([werror],
    [AS_HELP_STRING([--enable-werror], [treat warnings as errors])],
    [], [enable_werror=no])
  UCXPOOL_WARN_CFLAGS="-Wall -Wextra -Wundef -Wshadow -Wstrict-prototypes \
-Wmissing-prototypes -Wpointer-arith -Wvla -Wno-unused-parameter"
  AS_IF([test "x$enable_werror" = xyes],
    [UCXPOOL_WARN_CFLAGS="$UCXPOOL_WARN_CFLAGS -Werror"])
  AC_SUBST([UCXPOOL_WARN_CFLAGS])
])
