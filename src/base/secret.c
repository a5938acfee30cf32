#include "base/secret.h"

#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Bytes to read. A file may end with "\n" or "\r\n". One more byte detects a
 * secret that is too long. */
#define READ_SIZE (BASE_SECRET_MAX + 3)

struct base_secret {
    unsigned num_users; /* atomic */
    size_t   length;
    uint8_t  bytes[];
};

/* Returns the length without a "\n" or "\r\n" at the end. */
static size_t strip(const uint8_t *bytes, size_t length)
{
    if ((length > 0) && (bytes[length - 1] == '\n')) {
        length--;
        length -= (length > 0) && (bytes[length - 1] == '\r');
    }
    return length;
}

static ucxpool_status_t copy(const uint8_t *bytes, size_t length,
                             base_secret_t **secret_p)
{
    base_secret_t *secret = calloc(1, sizeof(*secret) + length);

    if (secret == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY, "no memory for the secret");
    }
    secret->num_users = 1;
    secret->length    = length;
    memcpy(secret->bytes, bytes, length);
    *secret_p = secret;
    return UCXPOOL_OK;
}

ucxpool_status_t base_secret_create(const void *bytes, size_t length,
                                    base_secret_t **secret_p)
{
    if (length < READ_SIZE) {
        length = strip(bytes, length);
    }
    if ((length < BASE_SECRET_MIN) || (length > BASE_SECRET_MAX)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "a secret of %zu bytes is invalid: pass %d to %d "
                          "bytes, for example 32 random bytes",
                          length, BASE_SECRET_MIN, BASE_SECRET_MAX);
    }
    return copy(bytes, length, secret_p);
}

/* --- from a file ---------------------------------------------------------- */

/* Check the file by its open descriptor, so that it cannot be replaced between
 * the check and the read. */
static ucxpool_status_t check_file(int fd, const char *path)
{
    struct stat info;

    if (fstat(fd, &info) != 0) {
        return base_error_errno(errno, "cannot examine the secret file %s",
                                path);
    }
    if (!S_ISREG(info.st_mode)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "the secret file %s is not a regular file: set "
                          "UCXPOOL_SECRET_FILE to a regular file",
                          path);
    }
    if ((info.st_uid != geteuid()) && (info.st_uid != 0)) {
        return base_error(UCXPOOL_ERR_PERMISSION,
                          "the secret file %s belongs to user %u: run `chown "
                          "%u %s`",
                          path, (unsigned)info.st_uid, (unsigned)geteuid(),
                          path);
    }
    if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        return base_error(UCXPOOL_ERR_PERMISSION,
                          "the secret file %s has mode %04o, which gives "
                          "access to other users: run `chmod 600 %s`",
                          path, (unsigned)info.st_mode & 07777u, path);
    }
    return UCXPOOL_OK;
}

static ucxpool_status_t read_all(int fd, const char *path,
                                 uint8_t bytes[READ_SIZE], size_t *length_p)
{
    ssize_t length;

    *length_p = 0;
    while (*length_p < READ_SIZE) {
        length = read(fd, bytes + *length_p, READ_SIZE - *length_p);
        if (length > 0) {
            *length_p += (size_t)length;
        } else if (length == 0) {
            break;
        } else if (errno != EINTR) {
            return base_error_errno(errno, "cannot read the secret file %s",
                                    path);
        }
    }
    return UCXPOOL_OK;
}

static ucxpool_status_t check_length(size_t length, const char *path)
{
    if (length < BASE_SECRET_MIN) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "the secret in %s has %zu bytes, fewer than %d: "
                          "create one with `openssl rand -hex 32 > %s`",
                          path, length, BASE_SECRET_MIN, path);
    }
    if (length > BASE_SECRET_MAX) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "the secret in %s has more than %d bytes: create one "
                          "with `openssl rand -hex 32 > %s`",
                          path, BASE_SECRET_MAX, path);
    }
    return UCXPOOL_OK;
}

static ucxpool_status_t read_file(int fd, const char *path,
                                  base_secret_t **secret_p)
{
    uint8_t          bytes[READ_SIZE];
    size_t           length;
    ucxpool_status_t status = check_file(fd, path);

    if (status != UCXPOOL_OK) {
        return status;
    }
    status = read_all(fd, path, bytes, &length);
    if (status == UCXPOOL_OK) {
        length = strip(bytes, length);
        status = check_length(length, path);
    }
    if (status == UCXPOOL_OK) {
        status = copy(bytes, length, secret_p);
    }
    explicit_bzero(bytes, sizeof(bytes));
    return status;
}

/* Report every error as UCXPOOL_ERR_PERMISSION, unless system resources are
 * exhausted. */
static ucxpool_status_t cannot_open(int error, const char *path)
{
    ucxpool_status_t status;

    status = base_error_errno(
        error, "cannot open the secret file %s (setting UCXPOOL_SECRET_FILE)",
        path);
    return (error == ENOMEM) || (error == EMFILE) || (error == ENFILE)
               ? status
               : UCXPOOL_ERR_PERMISSION;
}

ucxpool_status_t base_secret_read(const char *path, base_secret_t **secret_p)
{
    ucxpool_status_t status;
    int              fd;

    if (path[0] == '\0') {
        *secret_p = NULL;
        return UCXPOOL_OK;
    }
    /* Without O_NONBLOCK, opening a FIFO would block. */
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0) {
        return cannot_open(errno, path);
    }
    status = read_file(fd, path, secret_p);
    close(fd);
    return status;
}

/* --- references ----------------------------------------------------------- */

base_secret_t *base_secret_get(base_secret_t *secret)
{
    if (secret != NULL) {
        __atomic_add_fetch(&secret->num_users, 1, __ATOMIC_RELAXED);
    }
    return secret;
}

void base_secret_put(base_secret_t *secret)
{
    if ((secret != NULL) &&
        (__atomic_sub_fetch(&secret->num_users, 1, __ATOMIC_ACQ_REL) == 0)) {
        explicit_bzero(secret, sizeof(*secret) + secret->length);
        free(secret);
    }
}

const void *base_secret_bytes(const base_secret_t *secret, size_t *length_p)
{
    *length_p = secret->length;
    return secret->bytes;
}
