# UCXPOOL_SANITIZERS
# ------------------
# --enable-asan, --enable-ubsan, --enable-tsan, or --enable-sanitizers=LIST
# (the compiler's names), into SANITIZER_CFLAGS, which goes to the linker too.
# Without a sanitizer, UCXPOOL_LDFLAGS makes the linker reject undefined symbols
# in the library. With a sanitizer this is impossible, because its symbols are
# undefined until a program is linked.
AC_DEFUN([UCXPOOL_SANITIZERS], [
  AC_ARG_ENABLE([sanitizers],
    [AS_HELP_STRING([--enable-sanitizers=LIST],
      [build with these sanitizers, for example address,undefined])],
    [], [enable_sanitizers=no])
  AC_ARG_ENABLE([asan],
    [AS_HELP_STRING([--enable-asan], [build with AddressSanitizer])],
    [], [enable_asan=no])
  AC_ARG_ENABLE([tsan],
    [AS_HELP_STRING([--enable-tsan], [build with ThreadSanitizer])],
    [], [enable_tsan=no])
  AC_ARG_ENABLE([ubsan],
    [AS_HELP_STRING([--enable-ubsan],
      [build with UndefinedBehaviorSanitizer; what it finds is fatal])],
    [], [enable_ubsan=no])

  AS_CASE([$enable_sanitizers],
    [yes], [AC_MSG_ERROR([--enable-sanitizers wants a list, for example --enable-sanitizers=address,undefined])],
    [no], [ucxpool_sanitizers=],
    [ucxpool_sanitizers=$enable_sanitizers])
  AS_IF([test "x$enable_asan" = xyes],
    [ucxpool_sanitizers="$ucxpool_sanitizers,address"])
  AS_IF([test "x$enable_tsan" = xyes],
    [ucxpool_sanitizers="$ucxpool_sanitizers,thread"])
  AS_IF([test "x$enable_ubsan" = xyes],
    [ucxpool_sanitizers="$ucxpool_sanitizers,undefined"])
  ucxpool_sanitizers=${ucxpool_sanitizers#,}

  AS_IF([test -n "$ucxpool_sanitizers"], [
    SANITIZER_CFLAGS="-fsanitize=$ucxpool_sanitizers -fno-sanitize-recover=all -fno-omit-frame-pointer"
    UCXPOOL_LDFLAGS=
    AC_MSG_CHECKING([whether $CC links with $SANITIZER_CFLAGS])
    ucxpool_save_CFLAGS=$CFLAGS
    CFLAGS="$CFLAGS $SANITIZER_CFLAGS"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])],
      [AC_MSG_RESULT([yes])],
      [AC_MSG_RESULT([no])
       AC_MSG_ERROR([$CC cannot build with the sanitizers $ucxpool_sanitizers: for clang install libclang-rt-dev; address and thread exclude each other])])
    # GCC warns about every fence, because ThreadSanitizer does not model them.
    # Our fences order memory shared between processes, which it cannot check.
    AC_MSG_CHECKING([whether $CC takes -Wno-tsan])
    CFLAGS="$ucxpool_save_CFLAGS -Werror -Wno-tsan"
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])],
      [AC_MSG_RESULT([yes])
       SANITIZER_CFLAGS="$SANITIZER_CFLAGS -Wno-tsan"],
      [AC_MSG_RESULT([no])])
    CFLAGS=$ucxpool_save_CFLAGS
  ], [
    SANITIZER_CFLAGS=
    UCXPOOL_LDFLAGS="-Wl,-z,defs"
  ])
  AC_SUBST([SANITIZER_CFLAGS])
  AC_SUBST([UCXPOOL_LDFLAGS])
])
