# UCXPOOL_CHECK_VERBS
# -------------------
# Find libibverbs, into VERBS_CFLAGS and VERBS_LIBS. The library needs only its
# headers, and uses the libibverbs that the program has loaded. An example and a
# test are linked with it. Without it, or with --without-verbs,
# ucxpool_verbs_register() returns an error.
AC_DEFUN([UCXPOOL_CHECK_VERBS], [
  AC_ARG_WITH([verbs],
    [AS_HELP_STRING([--without-verbs], [do not build for programs that use libibverbs])],
    [], [with_verbs=check])
  have_verbs=no
  AS_CASE([$with_verbs],
    [no], [],
    [yes|check], [
      # 1.8 of rdma-core 28: the first with optional access flags.
      PKG_CHECK_MODULES([VERBS], [libibverbs >= 1.8.28], [have_verbs=yes], [
        AS_IF([test "x$with_verbs" = xyes],
          [AC_MSG_ERROR([libibverbs 1.8.28 (rdma-core 28) or newer was not found: install libibverbs-dev])])])],
    [AC_MSG_ERROR([--with-verbs takes no folder: set PKG_CONFIG_PATH])])
  AS_IF([test "x$have_verbs" = xyes], [ucxpool_has_verbs=1],
    [ucxpool_has_verbs=0])
  AC_DEFINE_UNQUOTED([UCXPOOL_HAS_VERBS], [$ucxpool_has_verbs],
    [Is ucxpool_verbs_register() built in?])
  AM_CONDITIONAL([HAVE_VERBS], [test "x$have_verbs" = xyes])
])
