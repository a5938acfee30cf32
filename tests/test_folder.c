/* The directory of sockets that containers share (UCXPOOL_SOCKET_DIR). */
#include <config.h>

#include "ipc/socket.h"
#include "pair.h"
#include "test.h"
#include "replace.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NOBODY 65534
#define HOUR   3600

static char   above[32];  /* the directory's directory */
static char   folder[64]; /* of sockets; the first test creates it */
static time_t ahead;      /* added to the time */

REPLACE(time_t, time, time_t *now_p)
{
    return __real_time(now_p) + ahead;
}

static void start(void)
{
    strcpy(above, "/tmp/ucxpool-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(above));
    snprintf(folder, sizeof(folder), "%s/sockets", above);
}

static unsigned num_files(const char *path)
{
    DIR     *files = opendir(path);
    unsigned count = 0;

    while (readdir(files) != NULL) {
        count++;
    }
    closedir(files);
    return count - 2; /* . and .. */
}

static void stop(void)
{
    ck_assert((rmdir(folder) == 0) || (errno == ENOENT));
    ck_assert_int_eq(rmdir(above), 0);
}

static bool is_root(void)
{
    return geteuid() == 0;
}

TEST_SETTINGS(.before_fork = pair_warm_up, .setup = start, .teardown = stop);

static ucxpool_t *pool_in(const char *path)
{
    char settings[256];

    snprintf(settings, sizeof(settings), "SOCKET_DIR=%s", path);
    return pair_pool(settings);
}

TEST(a_pool_creates_the_folder_and_removes_its_socket)
{
    ucxpool_t  *pool = pool_in(folder);
    struct stat is;

    ck_assert_int_eq(stat(folder, &is), 0);
    ck_assert_uint_eq(is.st_mode & 07777, 0700);
    ck_assert_uint_eq(num_files(folder), 1);
    ucxpool_destroy(pool);
    ck_assert_uint_eq(num_files(folder), 0);
}

TEST(a_pool_on_the_ucx_wire_needs_no_folder)
{
    ucxpool_t *pool = pair_pool("WIRE=ucx SOCKET_DIR=nowhere");

    ucxpool_destroy(pool);
}

/* --- unsafe directories --------------------------------------------------- */

static void check_rejected(const char *path, ucxpool_status_t status,
                           const char *words)
{
    char       settings[256];
    ucxpool_t *pool;

    snprintf(settings, sizeof(settings), "SOCKET_DIR=%s", path);
    ck_assert_int_eq(pair_try_pool(NULL, settings, &pool), status);
    assert_has(ucxpool_error_detail(), "UCXPOOL_SOCKET_DIR");
    assert_has(ucxpool_error_detail(), words);
}

TEST(a_folder_that_others_can_write_to_is_rejected)
{
    ck_assert_int_eq(mkdir(folder, 0700), 0);
    ck_assert_int_eq(chmod(folder, 01777), 0);
    check_rejected(folder, UCXPOOL_ERR_PERMISSION, "other users can write");
    ck_assert_int_eq(chmod(folder, 0770), 0);
    check_rejected(folder, UCXPOOL_ERR_PERMISSION, "other users can write");
    ck_assert_uint_eq(num_files(folder), 0);
}

TEST_WITH(a_folder_of_another_user_is_rejected, .end = 1, .only_if = is_root)
{
    ck_assert_int_eq(mkdir(folder, 0700), 0);
    ck_assert_int_eq(chown(folder, NOBODY, NOBODY), 0);
    check_rejected(folder, UCXPOOL_ERR_PERMISSION, "belongs to user 65534");
}

TEST(a_symbolic_link_is_not_followed)
{
    ck_assert_int_eq(symlink("/root", folder), 0);
    check_rejected(folder, UCXPOOL_ERR_PERMISSION, "is not a directory");
    ck_assert_int_eq(unlink(folder), 0);
}

TEST(a_path_that_does_not_fit_a_socket_is_rejected)
{
    char path[IPC_FOLDER_MAX + 2];

    memset(path, 'a', sizeof(path));
    path[0]                  = '/';
    path[IPC_FOLDER_MAX + 1] = '\0';
    check_rejected(path, UCXPOOL_ERR_INVALID_PARAM, "at most 57 bytes");
    check_rejected("relative", UCXPOOL_ERR_INVALID_PARAM, "absolute path");
    check_rejected("/nowhere/sockets", UCXPOOL_ERR_IO, "cannot create");
}

/* --- files in the directory ----------------------------------------------- */

static const uint8_t ids[][IPC_ID_SIZE] = {{1}, {2}, {3}};

/* Create a socket, and close it unless it stays in use. */
static int make_socket(const uint8_t *id, bool is_used)
{
    int fd;

    ck_assert_int_eq(ipc_socket_listen(folder, id, &fd), 0);
    if (!is_used) {
        close(fd);
    }
    return fd;
}

TEST(sockets_of_ended_processes_are_removed)
{
    char other[128];
    int  fd;

    assert_ok(ipc_folder_prepare(folder));
    fd = make_socket(ids[0], true);
    make_socket(ids[1], false);
    assert_ok(ipc_folder_prepare(folder)); /* the files are too young */
    ck_assert(ipc_folder_has(folder, ids[1]));

    snprintf(other, sizeof(other), "%s/other", folder);
    close(open(other, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    ahead = HOUR;
    assert_ok(ipc_folder_prepare(folder));
    ck_assert(ipc_folder_has(folder, ids[0]));
    ck_assert(!ipc_folder_has(folder, ids[1]));
    ck_assert_uint_eq(num_files(folder), 2);

    close(fd);
    assert_ok(ipc_folder_prepare(folder));
    ck_assert_uint_eq(num_files(folder), 1);
    ck_assert_int_eq(unlink(other), 0);
}

/* The listener notices nothing when another pool checks its file. */
TEST(a_socket_in_use_sees_no_connection)
{
    int fd, accepted;

    assert_ok(ipc_folder_prepare(folder));
    fd    = make_socket(ids[0], true);
    ahead = HOUR;
    assert_ok(ipc_folder_prepare(folder));
    ck_assert_int_eq(ipc_socket_accept(fd, &accepted), EAGAIN);
    ipc_folder_remove(folder, ids[0]);
    close(fd);
}

/* A process of another user listens at the name of a peer's socket. */
TEST_WITH(a_strangers_socket_is_not_the_peers, .end = 1, .only_if = is_root)
{
    ipc_host_t   host;
    ipc_caller_t owner;
    pid_t        child;
    char         byte;
    int          fd, pipes[2];

    assert_ok(ipc_folder_prepare(folder));
    ck_assert_int_eq(pipe2(pipes, O_CLOEXEC), 0);
    fd    = make_socket(ids[0], true);
    child = fork();
    if (child == 0) {
        if ((setuid(NOBODY) != 0) || (listen(fd, 1) != 0) ||
            (write(pipes[1], "x", 1) != 1)) {
            _exit(1);
        }
        pause();
    }
    close(fd);
    ck_assert_int_eq(read(pipes[0], &byte, 1), 1);
    ck_assert_int_eq(ipc_socket_connect(folder, ids[0], &fd), 0);
    ck_assert_int_eq(ipc_socket_caller(fd, &owner), 0);
    ipc_host_fill(&host);
    host.pid_namespace++; /* a PID that cannot be compared */
    ck_assert(!ipc_caller_is(&owner, &host));
    test_kill(child);
    close(fd);
    ipc_folder_remove(folder, ids[0]);
    close(pipes[0]);
    close(pipes[1]);
}
