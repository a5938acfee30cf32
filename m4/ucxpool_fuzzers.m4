# UCXPOOL_FUZZERS
# ---------------
# --enable-fuzzers links the programs in tests/fuzz/ with libFuzzer, which only
# clang has. Otherwise they have a main() that runs the files named.
AC_DEFUN([UCXPOOL_FUZZERS], [
  AC_ARG_ENABLE([fuzzers],
    [AS_HELP_STRING([--enable-fuzzers],
      [link tests/fuzz/ with libFuzzer (CC=clang)])],
    [], [enable_fuzzers=no])
  FUZZER_CFLAGS=
  FUZZER_LDFLAGS=
  AS_IF([test "x$enable_fuzzers" = xyes], [
    FUZZER_CFLAGS="-fsanitize=fuzzer-no-link"
    FUZZER_LDFLAGS="-fsanitize=fuzzer"
    UCXPOOL_LDFLAGS=
    AC_MSG_CHECKING([whether $CC links with $FUZZER_LDFLAGS])
    ucxpool_save_CFLAGS=$CFLAGS
    CFLAGS="$CFLAGS $SANITIZER_CFLAGS $FUZZER_LDFLAGS"
    AC_LINK_IFELSE([AC_LANG_SOURCE([[
        #include <stddef.h>
        int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
        int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
        {
            return data == NULL && size != 0;
        }]])],
      [AC_MSG_RESULT([yes])],
      [AC_MSG_RESULT([no])
       AC_MSG_ERROR([$CC has no libFuzzer: configure with CC=clang, and install libclang-rt-dev])])
    CFLAGS=$ucxpool_save_CFLAGS
  ])
  AC_SUBST([FUZZER_CFLAGS])
  AC_SUBST([FUZZER_LDFLAGS])
  AM_CONDITIONAL([ENABLE_FUZZERS], [test "x$enable_fuzzers" = xyes])
])
