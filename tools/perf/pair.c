#include <config.h>

#include "perf/pair.h"
#include "common/error.h"
#include "perf/buffers.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct pair {
    control_t control; /* first: a control_t * is a pair_t * */
    int       fd;      /* one end of a SOCK_SEQPACKET pair */
} pair_t;

static pid_t receiver;

int pair_pin(int cpu)
{
    cpu_set_t set;

    if (cpu < 0) {
        return 0;
    }
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof(set), &set) != 0) {
        return tool_error("--cpus: cannot run on CPU %d (%s); `nproc --all` "
                          "prints the number of CPUs",
                          cpu, strerror(errno));
    }
    return 0;
}

/* --- the control connection ----------------------------------------------- */

/* Handle the end of the other process. If that is the sender, it has died, and
 * PR_SET_PDEATHSIG is about to kill this process. */
static int lost(const char *text)
{
    if (receiver == 0) {
        _exit(1);
    }
    return tool_error("the other process %s", text);
}

static int socket_send(control_t *control, const void *data, size_t length)
{
    ssize_t sent;

    do {
        sent = send(((pair_t *)control)->fd, data, length, MSG_NOSIGNAL);
    } while ((sent < 0) && (errno == EINTR));
    if (sent != (ssize_t)length) {
        return lost("has ended");
    }
    return 0;
}

static int socket_poll(control_t *control, int timeout_ms, void *data,
                       size_t size, size_t *length_p)
{
    struct pollfd fd = {((pair_t *)control)->fd, POLLIN, 0};
    ssize_t       got;

    if (poll(&fd, 1, timeout_ms) <= 0) {
        return 0;
    }
    got = recv(fd.fd, data, size, MSG_DONTWAIT | MSG_TRUNC);
    if ((got < 0) && ((errno == EAGAIN) || (errno == EINTR))) {
        return 0;
    }
    if (got <= 0) {
        return lost("ended early; its own message has the reason");
    }
    *length_p = (size_t)got;
    return 1;
}

/* Print that the receiver died. May be called in a signal handler. */
static void report_death(int signal_number)
{
    char  text[] = "ucxpool_perf: the receiver died (signal 00)\n";
    char *digits = strchr(text, '0');

    digits[0] = (char)('0' + signal_number / 10);
    digits[1] = (char)('0' + signal_number % 10);
    if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0) {
        return; /* there is no standard error */
    }
}

/* Wait for the receiver. If it still runs after a failure, end it first. */
static int pair_end(control_t *control, int status)
{
    pair_t       *pair   = (pair_t *)control;
    struct pollfd closed = {pair->fd, 0, 0};
    int           ended  = 0;

    signal(SIGCHLD, SIG_DFL);
    if (status == 0) {
        status = measure_end(control);
    }
    if ((status != 0) && (poll(&closed, 1, 0) == 0)) {
        kill(receiver, SIGKILL);
        waitpid(receiver, NULL, 0);
    } else {
        waitpid(receiver, &ended, 0);
    }
    if (WIFSIGNALED(ended)) {
        report_death(WTERMSIG(ended));
    }
    close(pair->fd);
    free(pair);
    return ended == 0 ? status : -1;
}

/* --- the receiver --------------------------------------------------------- */

static void receiver_main(pair_t *pair, pid_t parent)
{
    /* Kill this process if the program ends. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(1);
    }
    exit(measure_follow(&pair->control) == 0 ? 0 : 1);
}

/* End this process if the receiver fails during a job. Without failure
 * handling, UCX would wait for the receiver forever. */
static void on_child(int signal_number)
{
    siginfo_t info = {0};

    waitid(P_PID, (id_t)receiver, &info, WEXITED | WNOHANG | WNOWAIT);
    if ((info.si_pid == 0) || (info.si_status == 0)) {
        return;
    }
    if (info.si_code != CLD_EXITED) {
        report_death(info.si_status);
    }
    _exit(1);
}

/* Fork before this process uses UCX or a GPU. */
static int fork_receiver(pair_t *pair)
{
    pid_t parent = getpid();
    int   fds[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) {
        return tool_error("cannot create a socket pair: %s", strerror(errno));
    }
    fflush(NULL);
    receiver = fork();
    pair->fd = fds[receiver == 0 ? 1 : 0];
    close(fds[receiver == 0 ? 0 : 1]);
    if (receiver == 0) {
        receiver_main(pair, parent);
    }
    if (receiver < 0) {
        close(pair->fd);
        return tool_error("fork: %s", strerror(errno));
    }
    signal(SIGCHLD, on_child);
    return 0;
}

int pair_start(const int cpus[2], control_t **control_p)
{
    pair_t *pair = tool_calloc(1, sizeof(*pair));

    pair->control.send = socket_send;
    pair->control.poll = socket_poll;
    pair->control.end  = pair_end;
    if ((pair_pin(cpus[1]) != 0) || (fork_receiver(pair) != 0)) {
        free(pair);
        return -1;
    }
    *control_p = &pair->control;
    return pair_pin(cpus[0]) == 0 ? 0 : pair_end(&pair->control, -1);
}

int pair_check_devices(const int32_t devices[2])
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
