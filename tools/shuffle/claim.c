#include <config.h>

#include "tools/shuffle/claim.h"
#include "tools/shuffle/error.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define CLAIM_NAME ".ucxpool_shuffle.claim"
/* How long another process of the run may take from its lock to its words. */
#define CLAIM_TRIES   100u
#define CLAIM_WAIT_MS 10
#define CLAIM_TEXT    (sizeof(claim_id_t) + HOST_NAME_MAX + 64)

typedef enum attempt {
    ATTEMPT_TAKEN   = 0,
    ATTEMPT_AGAIN   = 1,
    ATTEMPT_REFUSED = -1 /* with an error */
} attempt_t;

int claim_id_make(claim_id_t id)
{
    unsigned char bytes[(sizeof(claim_id_t) - 1) / 2];

    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes)) {
        return say_error("cannot get random bytes: %s", strerror(errno));
    }
    for (size_t i = 0; i < sizeof(bytes); i++) {
        snprintf(id + 2 * i, 3, "%02x", bytes[i]);
    }
    return 0;
}

static attempt_t claim_say_error(const char *path)
{
    say_error("cannot claim output folder '%s': %s", path, strerror(errno));
    return ATTEMPT_REFUSED;
}

/* Whether the folder holds nothing but the claim. */
static int claim_check_empty(int folder_fd, const char *path)
{
    int            fd = openat(folder_fd, ".", O_RDONLY | O_DIRECTORY);
    DIR           *dir;
    struct dirent *entry;
    int            result = 0;

    dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir == NULL) {
        result = say_error("cannot list output folder '%s': %s", path,
                           strerror(errno));
        if (fd >= 0) {
            close(fd);
        }
        return result;
    }
    while ((entry = readdir(dir)) != NULL) {
        if ((strcmp(entry->d_name, ".") != 0) &&
            (strcmp(entry->d_name, "..") != 0) &&
            (strcmp(entry->d_name, CLAIM_NAME) != 0)) {
            result = say_error("output folder '%s' is not empty (it holds "
                               "'%s'): empty it or name another with -o",
                               path, entry->d_name);
            break;
        }
    }
    closedir(dir);
    return result;
}

/* Whether the locked file still has its name. */
static bool claim_is_there(const claim_t *claim, int folder_fd)
{
    struct stat own;
    struct stat named;

    return (fstat(claim->fd, &own) == 0) &&
           (fstatat(folder_fd, CLAIM_NAME, &named, AT_SYMLINK_NOFOLLOW) == 0) &&
           (own.st_dev == named.st_dev) && (own.st_ino == named.st_ino);
}

static void claim_read(const claim_t *claim, char text[CLAIM_TEXT])
{
    ssize_t length = pread(claim->fd, text, CLAIM_TEXT - 1, 0);

    text[length > 0 ? length : 0] = '\0';
    text[strcspn(text, "\n")]     = '\0';
}

/* Whether it is this run that the file names. */
static bool claim_is_of(const claim_t *claim, const claim_id_t id)
{
    char text[CLAIM_TEXT];

    claim_read(claim, text);
    return (strlen(text) > sizeof(claim_id_t)) &&
           (memcmp(text + 2, id, sizeof(claim_id_t) - 1) == 0);
}

static int claim_write(const claim_t *claim, const claim_id_t id)
{
    char host[HOST_NAME_MAX + 1] = "";
    char text[CLAIM_TEXT];
    int  length;

    gethostname(host, sizeof(host) - 1);
    length = snprintf(text, sizeof(text), "- %s process %ld on %s\n", id,
                      (long)getpid(), host);
    if (ftruncate(claim->fd, 0) != 0) {
        return -1;
    }
    return pwrite(claim->fd, text, (size_t)length, 0) == length ? 0 : -1;
}

/* The file names this run: hold on to it. */
static attempt_t claim_share(const claim_t *claim, int folder_fd,
                             const claim_id_t id)
{
    return (flock(claim->fd, LOCK_SH | LOCK_NB) == 0) &&
                   claim_is_there(claim, folder_fd) && claim_is_of(claim, id)
               ? ATTEMPT_TAKEN
               : ATTEMPT_AGAIN;
}

/* Nobody else has a lock. */
static attempt_t claim_found(const claim_t *claim, int folder_fd,
                             const char *path, const claim_id_t id)
{
    if (!claim_is_there(claim, folder_fd)) {
        return ATTEMPT_AGAIN;
    }
    if (claim_check_empty(folder_fd, path) != 0) {
        unlinkat(folder_fd, CLAIM_NAME, 0);
        return ATTEMPT_REFUSED;
    }
    if (claim_write(claim, id) != 0) {
        claim_say_error(path);
        unlinkat(folder_fd, CLAIM_NAME, 0);
        return ATTEMPT_REFUSED;
    }
    return claim_share(claim, folder_fd, id);
}

static attempt_t claim_try(const claim_t *claim, int folder_fd,
                           const char *path, const claim_id_t id)
{
    if (flock(claim->fd, LOCK_EX | LOCK_NB) == 0) {
        return claim_found(claim, folder_fd, path, id);
    }
    if (errno != EWOULDBLOCK) {
        return claim_say_error(path);
    }
    return claim_is_of(claim, id) ? claim_share(claim, folder_fd, id)
                                  : ATTEMPT_AGAIN;
}

static int claim_refuse(const char *path, const char *text)
{
    const char *who = strstr(text, "process");

    return say_error("another run of ucxpool_shuffle (%s) writes into output "
                     "folder '%s': let it end, or name another folder with -o",
                     who != NULL ? who : "just started", path);
}

bool claim_drop(claim_t *claim, int folder_fd)
{
    char text[CLAIM_TEXT] = "";

    if (claim->fd < 0) {
        return false;
    }
    if ((flock(claim->fd, LOCK_EX | LOCK_NB) == 0) &&
        claim_is_there(claim, folder_fd)) {
        claim_read(claim, text);
        unlinkat(folder_fd, CLAIM_NAME, 0);
    }
    close(claim->fd);
    claim->fd = -1;
    return text[0] == '+';
}

/* The run has created the folder. */
static int claim_mark(claim_t *claim, int folder_fd, const char *path)
{
    if (pwrite(claim->fd, "+", 1, 0) == 1) {
        return 0;
    }
    claim_say_error(path);
    claim_drop(claim, folder_fd);
    return -1;
}

/* Nothing is created in a folder that cannot be claimed. Returns 1 when the
 * folder is not there any more. */
static int claim_open(claim_t *claim, int folder_fd, const char *path)
{
    const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW;

    claim->fd = openat(folder_fd, CLAIM_NAME, flags);
    if ((claim->fd < 0) && (errno == ENOENT)) {
        if (claim_check_empty(folder_fd, path) != 0) {
            return -1;
        }
        claim->fd = openat(folder_fd, CLAIM_NAME, flags | O_CREAT, 0666);
        if ((claim->fd < 0) && (errno == ENOENT)) {
            return 1;
        }
    }
    return claim->fd >= 0 ? 0 : (int)claim_say_error(path);
}

int claim_take(claim_t *claim, int folder_fd, const char *path,
               const claim_id_t id, bool created)
{
    char      text[CLAIM_TEXT];
    attempt_t attempt;
    int       result;

    for (unsigned i = 0; i < CLAIM_TRIES; i++) {
        result = claim_open(claim, folder_fd, path);
        if (result != 0) {
            return result;
        }
        attempt = claim_try(claim, folder_fd, path, id);
        if (attempt == ATTEMPT_TAKEN) {
            return created ? claim_mark(claim, folder_fd, path) : 0;
        }
        claim_read(claim, text);
        close(claim->fd);
        claim->fd = -1;
        if (attempt == ATTEMPT_REFUSED) {
            return -1;
        }
        poll(NULL, 0, CLAIM_WAIT_MS);
    }
    return claim_refuse(path, text);
}
