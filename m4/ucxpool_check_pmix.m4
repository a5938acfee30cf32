# UCXPOOL_CHECK_PMIX
# ------------------
# Find PMIx, into PMIX_CFLAGS and PMIX_LIBS. With it, ucxpool_shuffle runs under
# mpirun and srun. Without it, or with --without-pmix, it reports an error there.
AC_DEFUN([UCXPOOL_CHECK_PMIX], [
  AC_ARG_WITH([pmix],
    [AS_HELP_STRING([--without-pmix], [do not build for mpirun and srun])],
    [], [with_pmix=check])
  have_pmix=no
  AS_CASE([$with_pmix],
    [no], [],
    [yes|check], [
      PKG_CHECK_MODULES([PMIX], [pmix >= 3.1], [have_pmix=yes], [
        AS_IF([test "x$with_pmix" = xyes],
          [AC_MSG_ERROR([PMIx 3.1 or newer was not found: install libpmix-dev])])])],
    [AC_MSG_ERROR([--with-pmix takes no folder: set PKG_CONFIG_PATH])])
  AS_IF([test "x$have_pmix" = xyes],
    [PMIX_CFLAGS="$PMIX_CFLAGS -DHAVE_PMIX=1"])
])
