#include <config.h>

#include "perf/pair.h"
#include "common/error.h"
#include "perf/stage.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

int pair_pin(int cpu)
{
    cpu_set_t set;

    if (cpu < 0) {
        return 0;
    }
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof(set), &set) != 0) {
        return tool_error("--cpus: processor %d cannot be had (%s); `nproc "
                          "--all` tells how many there are",
                          cpu, strerror(errno));
    }
    return 0;
}

static void child(const job_t *job, int fd, int cpu, pid_t parent,
                  job_result_t *result)
{
    control_t control;
    int       status;

    /* Kill this process if the program ends. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(1);
    }
    control_init_socket(&control, fd);
    status = pair_pin(cpu);
    if (status == 0) {
        status = result != NULL ? measure_lead(job, &control, result)
                                : measure_follow(job, &control);
    }
    exit(status == 0 ? 0 : 1);
}

/* Wait for both processes. If one fails, end the other one, which would
 * otherwise wait for it. */
static int wait_both(pid_t pids[2])
{
    int failed = 0;
    int left   = 2;
    int status;

    while (left > 0) {
        pid_t pid = waitpid(-1, &status, 0);

        if ((pid < 0) && (errno == EINTR)) {
            continue;
        }
        if (pid < 0) {
            return tool_error("waitpid: %s", strerror(errno));
        }
        if ((pid != pids[0]) && (pid != pids[1])) {
            continue;
        }
        left--;
        if (WIFSIGNALED(status) && !failed) {
            tool_error("the %s died (%s)",
                       pid == pids[0] ? "sender" : "receiver",
                       strsignal(WTERMSIG(status)));
        }
        if (!WIFEXITED(status) || (WEXITSTATUS(status) != 0)) {
            failed = 1;
            if (left == 1) {
                kill(pid == pids[0] ? pids[1] : pids[0], SIGKILL);
            }
        }
    }
    return failed ? -1 : 0;
}

static int fork_both(const job_t *job, const int cpus[2], int fds[2],
                     job_result_t *result)
{
    pid_t parent = getpid();
    pid_t pids[2];

    for (int i = 0; i < 2; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            close(fds[1 - i]);
            child(job, fds[i], cpus[i], parent, i == 0 ? result : NULL);
        }
        if (pids[i] < 0) {
            tool_error("fork: %s", strerror(errno));
            if (i == 1) {
                kill(pids[0], SIGKILL);
                waitpid(pids[0], NULL, 0);
            }
            return -1;
        }
    }
    close(fds[0]);
    close(fds[1]);
    fds[0] = fds[1] = -1;
    return wait_both(pids);
}

int pair_run(const job_t *job, const int cpus[2], job_result_t *result_p)
{
    job_result_t *result;
    int           fds[2];
    int           status;

    if (stage_check_memory(job, 2) != 0) {
        return -1;
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) {
        return tool_error("socketpair: %s", strerror(errno));
    }
    result = mmap(NULL, sizeof(*result), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (result == MAP_FAILED) {
        close(fds[0]);
        close(fds[1]);
        return tool_error("mmap: %s", strerror(errno));
    }
    status = fork_both(job, cpus, fds, result);
    if (fds[0] >= 0) {
        close(fds[0]);
        close(fds[1]);
    }
    if ((status == 0) && !result->done) {
        status = tool_error("the sender ended without a result");
    }
    *result_p = *result;
    munmap(result, sizeof(*result));
    return status;
}

static int open_each(const int32_t devices[2])
{
    memory_t memory;

    for (int i = 0; i < 2; i++) {
        if ((i == 1) && (devices[1] == devices[0])) {
            break;
        }
        if (memory_init(&memory, devices[i], false) != 0) {
            return -1;
        }
        memory_cleanup(&memory);
    }
    return 0;
}

int pair_check_devices(const int32_t devices[2])
{
    pid_t child;
    int   status = 0;

    fflush(NULL);
    child = fork();
    if (child == 0) {
        _exit(open_each(devices) == 0 ? 0 : 1);
    }
    if (child < 0) {
        return tool_error("fork: %s", strerror(errno));
    }
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            return tool_error("waitpid: %s", strerror(errno));
        }
    }
    if (WIFSIGNALED(status)) {
        return tool_error("looking at the GPU, a process died (%s)",
                          strsignal(WTERMSIG(status)));
    }
    return WEXITSTATUS(status) == 0 ? 0 : -1;
}
