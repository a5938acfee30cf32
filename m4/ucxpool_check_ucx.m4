# UCXPOOL_CHECK_UCX
# -----------------
# Find UCX, into UCX_CFLAGS and UCX_LIBS. --with-ucx=DIR names an installation
# (DIR/include/ucp/api/ucp.h must exist); by default pkg-config finds it.
AC_DEFUN([UCXPOOL_CHECK_UCX], [
  AC_ARG_WITH([ucx],
    [AS_HELP_STRING([--with-ucx=DIR], [UCX installed under DIR (default: as pkg-config says)])],
    [], [with_ucx=pkg-config])
  AS_CASE([$with_ucx],
    [no], [AC_MSG_ERROR([libucxpool needs UCX; --without-ucx is not possible])],
    [yes|pkg-config], [
      PKG_CHECK_MODULES([UCX], [ucx >= 1.13], [],
        [AC_MSG_ERROR([UCX 1.13 or newer was not found: install libucx-dev, or name its directory with --with-ucx=DIR])])],
    [
      AS_IF([test ! -f "$with_ucx/include/ucp/api/ucp.h"],
        [AC_MSG_ERROR([--with-ucx=$with_ucx: there is no include/ucp/api/ucp.h under it])])
      AS_IF([test ! -e "$with_ucx/lib/libucp.so"],
        [AC_MSG_ERROR([--with-ucx=$with_ucx: there is no lib/libucp.so under it])])
      ucx_dir=$(cd "$with_ucx" && pwd -P)
      # -isystem: warnings in the macros of UCX's headers are not ours.
      UCX_CFLAGS="-isystem $ucx_dir/include"
      # In LIBS, by their paths and hidden from libtool. Otherwise libtool would
      # use the .la files next to them (those of PyPI's wheel contain
      # directories of another machine), or the system's UCX, or drop the run
      # path. libtool puts them before the archives that need them, so the
      # linker must not drop them as unneeded.
      UCX_LIBS=
      LIBS="$LIBS -Wl,-rpath,$ucx_dir/lib"
      LIBS="$LIBS -Wl,--push-state,--no-as-needed"
      LIBS="$LIBS,$ucx_dir/lib/libucp.so,$ucx_dir/lib/libuct.so"
      LIBS="$LIBS,$ucx_dir/lib/libucs.so,--pop-state"
      AC_SUBST([UCX_CFLAGS])
      AC_SUBST([UCX_LIBS])])
  AC_SUBST([UCX_DIR], [${ucx_dir:-/}])

  ucxpool_save_CPPFLAGS=$CPPFLAGS
  CPPFLAGS="$CPPFLAGS $UCX_CFLAGS"
  AC_CHECK_DECLS([UCP_OP_ATTR_FIELD_MEMH], [],
    [AC_MSG_ERROR([UCX is older than 1.13: it has no UCP_OP_ATTR_FIELD_MEMH])],
    [[#include <ucp/api/ucp.h>]])
  AC_CHECK_DECLS([UCP_EP_ATTR_FIELD_TRANSPORTS], [], [],
    [[#include <ucp/api/ucp.h>]])
  AC_COMPUTE_INT([ucx_major], [UCP_API_MAJOR],
    [#include <ucp/api/ucp_version.h>], [ucx_major=?])
  AC_COMPUTE_INT([ucx_minor], [UCP_API_MINOR],
    [#include <ucp/api/ucp_version.h>], [ucx_minor=?])
  ucx_version=$ucx_major.$ucx_minor
  CPPFLAGS=$ucxpool_save_CPPFLAGS
])
