# UCXPOOL_CHECK_CRYPTO
# --------------------
# Find OpenSSL's libcrypto (HMAC-SHA-256), into CRYPTO_CFLAGS and CRYPTO_LIBS.
AC_DEFUN([UCXPOOL_CHECK_CRYPTO], [
  PKG_CHECK_MODULES([CRYPTO], [libcrypto >= 3.0], [],
    [AC_MSG_ERROR([libcrypto 3.0 or newer was not found: install libssl-dev])])
])
