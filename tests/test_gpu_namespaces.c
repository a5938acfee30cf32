/*
 * The `map` wire between pools on GPUs of two processes that are in different
 * PID namespaces.
 */
#include <config.h>

#include "test.h"
#include "two_gpu.h"

#include "ipc/socket.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static const struct {
    const char *settings;
    const char *reason; /* for the wire */
} kinds[] = {
    {"WIRE=map CUDA_BACKING=vmm", "same host and user, each side"},
    {"WIRE=map CUDA_BACKING=alloc", "through pinned host memory"},
    {"WIRE=map CUDA_BACKING=host", "through pinned host memory"},
};

static bool leave(void)
{
    return unshare(CLONE_NEWPID) == 0;
}

/* The parent's threads and later children belong to its own namespace. */
static void return_home(void)
{
    int fd = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);

    two_check(setns(fd, CLONE_NEWPID) == 0);
    close(fd);
}

/* Like a container, the first process of the namespace has a /proc of its own.
 * The CUDA driver needs it. */
static void mount_proc(void)
{
    if (getpid() == 1) {
        two_check(unshare(CLONE_NEWNS) == 0);
        two_check(mount("none", "/", "", MS_REC | MS_PRIVATE, NULL) == 0);
        two_check(mount("proc", "/proc", "proc", 0, NULL) == 0);
    }
}

/* Returns true if this process may create namespaces, and the kernel reports
 * the end of a process in another one. */
static bool has_namespaces(void)
{
    int   status = 1;
    int   sockets[2], fd;
    pid_t child = fork();

    if (child == 0) {
        _exit((socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0) &&
                      (ipc_socket_watch(sockets[0], &fd) == 0) && leave()
                  ? 0
                  : 1);
    }
    return cuda_is_present() && (waitpid(child, &status, 0) == child) &&
           (status == 0);
}

TEST_SETTINGS(.before_fork = pair_warm_up, .timeout = 120,
              .only_if = has_namespaces);

TEST_EACH(containers_use_map_between_gpus, 3)
{
    two_t                  two;
    ucxpool_channel_attr_t attr;
    uint8_t               *memory;

    setenv("CUDA_STAND_IN", "devices=2", 1);
    ck_assert_int_eq(pthread_atfork(NULL, return_home, mount_proc), 0);
    ck_assert(leave());
    two_gpu_start(&two, kinds[_i].settings);
    ucxpool_channel_query(two.channel, &attr, sizeof(attr));
    two_check(attr.wire == UCXPOOL_WIRE_MAP);
    if (strstr(attr.wire_reason, kinds[_i].reason) == NULL) {
        fprintf(stderr, "%s\n", attr.wire_reason);
    }
    two_check(strstr(attr.wire_reason, kinds[_i].reason) != NULL);
    memory = gpu_alloc(64 * MIB);
    two_gpu_transfer(&two, !two.is_child, 20000000, 4096, 16, 1, memory);
    two_gpu_transfer(&two, two.is_child, 20000000, 4096, 16, 2, memory);
    gpu_free(memory);
    two_gpu_stop(&two);
}
