#include <config.h>

#include "bootstrap/secret.h"

#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file may end with "\n" or "\r\n"; one byte more shows that it is too
 * long. */
#define READ_SIZE (BASE_SECRET_MAX + 3)

struct bootstrap_secret {
    size_t  length;
    uint8_t bytes[READ_SIZE];
};

/* Checked on the open file, so that it cannot be exchanged between the check
 * and the reading. */
static ucxpool_status_t check_file(int fd, const char *path)
{
    struct stat info;

    if (fstat(fd, &info) != 0) {
        return base_error_errno(errno, "cannot examine the secret file %s",
                                path);
    }
    if (!S_ISREG(info.st_mode)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "the secret file %s is not a regular file: name one",
                          path);
    }
    if ((info.st_uid != geteuid()) && (info.st_uid != 0)) {
        return base_error(UCXPOOL_ERR_PERMISSION,
                          "the secret file %s belongs to user %u: make it "
                          "yours, `chown %u %s`",
                          path, (unsigned)info.st_uid, (unsigned)geteuid(),
                          path);
    }
    if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        return base_error(UCXPOOL_ERR_PERMISSION,
                          "the secret file %s has mode %04o, others may use "
                          "it: `chmod 600 %s`",
                          path, (unsigned)info.st_mode & 07777u, path);
    }
    return UCXPOOL_OK;
}

static ucxpool_status_t read_all(int fd, const char *path,
                                 bootstrap_secret_t *secret)
{
    ssize_t length;

    while (secret->length < READ_SIZE) {
        length = read(fd, secret->bytes + secret->length,
                      READ_SIZE - secret->length);
        if (length > 0) {
            secret->length += (size_t)length;
        } else if (length == 0) {
            break;
        } else if (errno != EINTR) {
            return base_error_errno(errno, "cannot read the secret file %s",
                                    path);
        }
    }
    return UCXPOOL_OK;
}

static ucxpool_status_t check_length(const bootstrap_secret_t *secret,
                                     const char               *path)
{
    if (secret->length < BASE_SECRET_MIN) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "the secret in %s has %zu bytes and needs %d: make "
                          "one with `openssl rand -hex 32 > %s`",
                          path, secret->length, BASE_SECRET_MIN, path);
    }
    if (secret->length > BASE_SECRET_MAX) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "the secret in %s has more than %d bytes: make one "
                          "with `openssl rand -hex 32 > %s`",
                          path, BASE_SECRET_MAX, path);
    }
    return UCXPOOL_OK;
}

static ucxpool_status_t fill(int fd, const char *path,
                             bootstrap_secret_t *secret)
{
    ucxpool_status_t status = check_file(fd, path);

    if (status != UCXPOOL_OK) {
        return status;
    }
    status = read_all(fd, path, secret);
    if (status != UCXPOOL_OK) {
        return status;
    }
    secret->length = base_secret_strip(secret->bytes, secret->length);
    return check_length(secret, path);
}

/* What keeps us from the file is a matter of permission, unless the system is
 * at its end. */
static ucxpool_status_t cannot_open(int error, const char *path)
{
    ucxpool_status_t status;

    status = base_error_errno(
        error, "cannot open the secret file %s (setting SECRET_FILE)", path);
    return (error == ENOMEM) || (error == EMFILE) || (error == ENFILE)
               ? status
               : UCXPOOL_ERR_PERMISSION;
}

ucxpool_status_t bootstrap_secret_read(const char          *path,
                                       bootstrap_secret_t **secret_p)
{
    bootstrap_secret_t *secret;
    ucxpool_status_t    status;
    int                 fd;

    if (path[0] == '\0') {
        *secret_p = NULL;
        return UCXPOOL_OK;
    }
    secret = calloc(1, sizeof(*secret));
    if (secret == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY, "no memory for the secret");
    }
    /* Without O_NONBLOCK a FIFO in place of the file would stop us here. */
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0) {
        status = cannot_open(errno, path);
        goto err_release_secret;
    }
    status = fill(fd, path, secret);
    close(fd);
    if (status != UCXPOOL_OK) {
        goto err_release_secret;
    }
    *secret_p = secret;
    return UCXPOOL_OK;

err_release_secret:
    bootstrap_secret_release(secret);
    return status;
}

ucxpool_status_t bootstrap_secret_of(const base_config_t *config,
                                     bootstrap_secret_t **secret_p)
{
    bootstrap_secret_t *secret;
    const void         *bytes;

    if (config->secret == NULL) {
        return bootstrap_secret_read(config->secret_file, secret_p);
    }
    secret = calloc(1, sizeof(*secret));
    if (secret == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY, "no memory for the secret");
    }
    bytes = base_secret_bytes(config->secret, &secret->length);
    memcpy(secret->bytes, bytes, secret->length);
    *secret_p = secret;
    return UCXPOOL_OK;
}

void bootstrap_secret_release(bootstrap_secret_t *secret)
{
    if (secret != NULL) {
        OPENSSL_cleanse(secret, sizeof(*secret));
        free(secret);
    }
}

ucxpool_status_t bootstrap_secret_sign(const bootstrap_secret_t *secret,
                                       const void *data, size_t length,
                                       uint8_t mac_p[BOOTSTRAP_MAC_SIZE])
{
    /* A NULL key would mean "the key of the last call". */
    const void *key        = secret != NULL ? (const void *)secret->bytes : "";
    int         key_length = secret != NULL ? (int)secret->length : 0;

    if (HMAC(EVP_sha256(), key, key_length, data, length, mac_p, NULL) ==
        NULL) {
        return base_error(UCXPOOL_ERR_IO, "libcrypto cannot compute an "
                                          "HMAC-SHA-256: check its "
                                          "configuration");
    }
    return UCXPOOL_OK;
}
