# UCXPOOL_BUILD_INFO
# ------------------
# Build information for ucxpool_info, as strings in config.h. Must be last,
# because it uses the final flags.
AC_DEFUN([UCXPOOL_BUILD_INFO], [
  ucxpool_quote='s/^ *//; s/[[\\"]]/\\&/g'
  ucxpool_args=`AS_ECHO(["$ac_configure_args"]) | sed "$ucxpool_quote"`
  ucxpool_cflags=`AS_ECHO(["$CFLAGS"]) | sed "$ucxpool_quote"`
  AC_DEFINE_UNQUOTED([UCXPOOL_CONFIGURE_ARGS], ["$ucxpool_args"],
    [Arguments that configure was called with])
  AC_DEFINE_UNQUOTED([UCXPOOL_CFLAGS], ["$ucxpool_cflags"],
    [Flags for the compiler])
  AC_DEFINE_UNQUOTED([UCXPOOL_SANITIZER_LIST], ["$ucxpool_sanitizers"],
    [Sanitizers that are built in, empty for none])
  AC_DEFINE_UNQUOTED([UCXPOOL_HOST], ["$host"],
    [The machine that this is built for])
])
