/*
 * Sharing: which process, and whether its memory can be mapped from here.
 */
#include <config.h>

#include "base/log.h"
#include "ipc/share.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* From kernel 5.3, by the same number on every machine. */
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

_Static_assert(sizeof(ipc_host_t) == 40, "goes over the wire as is");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "goes over the wire as is: other machines convert here");

/*
 * What has been read once, since it stays and the process may have no
 * descriptor left when it is asked for again. What could not be read is tried
 * again. No lock: a child may be forked at any moment.
 */
enum { NOT_KNOWN, BEING_KEPT, KNOWN };

static struct {
    int      state; /* of boot_id; atomic */
    uint8_t  boot_id[16];
    uint32_t pid;        /* whose start_time it is; atomic */
    uint64_t start_time; /* atomic */
} kept;

/* Two hexadecimal digits for each byte, with dashes between some. */
static bool boot_id_read(uint8_t *boot_id)
{
    FILE    *file  = fopen("/proc/sys/kernel/random/boot_id", "re");
    size_t   count = 0;
    unsigned byte;

    if (file == NULL) {
        return false;
    }
    while ((count < 16) && (fscanf(file, "%*[-]") != EOF) &&
           (fscanf(file, "%2x", &byte) == 1)) {
        boot_id[count++] = (uint8_t)byte;
    }
    fclose(file);
    return count == 16;
}

/* What /proc/PID/stat says. */
typedef struct proc_stat {
    uint64_t start_time;
    bool     is_exiting; /* its descriptors may be closed already */
} proc_stat_t;

/* PF_EXITING in the kernel's linux/sched.h. */
#define FLAG_EXITING UINT64_C(4)

/* The name of the program, field 2, stands in parentheses and may hold blanks
 * and parentheses. 0: there is no such field. */
static uint64_t stat_field(const char *line, int wanted)
{
    const char *field = strrchr(line, ')');

    for (int number = 2; (number < wanted) && (field != NULL); number++) {
        field = strchr(field + 1, ' ');
    }
    return (field == NULL) ? 0 : strtoull(field, NULL, 10);
}

static bool stat_read(uint32_t pid, proc_stat_t *stat_p)
{
    char  path[32], line[1024];
    FILE *file;
    bool  is_read;

    snprintf(path, sizeof(path), "/proc/%" PRIu32 "/stat", pid);
    file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    is_read = fgets(line, sizeof(line), file) != NULL;
    fclose(file);
    if (!is_read) {
        return false;
    }
    stat_p->is_exiting = (stat_field(line, 9) & FLAG_EXITING) != 0;
    stat_p->start_time = stat_field(line, 22);
    return stat_p->start_time != 0;
}

/* /proc may have been mounted in another PID name space than ours; then its
 * numbers are not those that we know. */
static bool proc_is_ours(void)
{
    char    text[16];
    ssize_t length = readlink("/proc/self", text, sizeof(text) - 1);

    if (length <= 0) {
        return false;
    }
    text[length] = '\0';
    return strtol(text, NULL, 10) == getpid();
}

static void boot_id_fill(uint8_t *boot_id)
{
    int state = NOT_KNOWN;

    if (__atomic_load_n(&kept.state, __ATOMIC_ACQUIRE) == KNOWN) {
        memcpy(boot_id, kept.boot_id, sizeof(kept.boot_id));
        return;
    }
    if (!boot_id_read(boot_id)) {
        memset(boot_id, 0, sizeof(kept.boot_id));
        return;
    }
    if (__atomic_compare_exchange_n(&kept.state, &state, BEING_KEPT, false,
                                    __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
        memcpy(kept.boot_id, boot_id, sizeof(kept.boot_id));
        __atomic_store_n(&kept.state, KNOWN, __ATOMIC_RELEASE);
    }
}

/* Of this process. 0: not known. */
static uint64_t own_start_time(uint32_t pid)
{
    proc_stat_t own;

    if (__atomic_load_n(&kept.pid, __ATOMIC_ACQUIRE) == pid) {
        return __atomic_load_n(&kept.start_time, __ATOMIC_RELAXED);
    }
    if (!stat_read(pid, &own)) {
        return 0;
    }
    __atomic_store_n(&kept.start_time, own.start_time, __ATOMIC_RELAXED);
    __atomic_store_n(&kept.pid, pid, __ATOMIC_RELEASE);
    return own.start_time;
}

void ipc_host_fill(ipc_host_t *host)
{
    struct stat name_space;

    memset(host, 0, sizeof(*host));
    host->pid = (uint32_t)getpid();
    host->uid = (uint32_t)geteuid();
    boot_id_fill(host->boot_id);
    if (stat("/proc/self/ns/pid", &name_space) == 0) {
        host->pid_namespace = (uint64_t)name_space.st_ino;
    }
    host->start_time = proc_is_ours() ? own_start_time(host->pid) : 0;
}

uint64_t ipc_net_namespace(void)
{
    struct stat name_space;

    return (stat("/proc/self/ns/net", &name_space) == 0)
               ? (uint64_t)name_space.st_ino
               : 0;
}

/* False: the number is no process's, or another one's by now. */
static bool process_read(const ipc_host_t *peer, proc_stat_t *process_p)
{
    return (peer->pid != 0) && (peer->pid <= INT_MAX) &&
           (peer->start_time != 0) && stat_read(peer->pid, process_p) &&
           (process_p->start_time == peer->start_time);
}

bool ipc_host_is_alive(const ipc_host_t *peer)
{
    proc_stat_t process;

    return process_read(peer, &process);
}

/* Would this process see that one, if it is there, and may it map its files? */
static bool is_within_reach(const ipc_host_t *peer, char *reason,
                            size_t reason_size)
{
    static const uint8_t unknown[sizeof(peer->boot_id)];
    ipc_host_t           own;

    ipc_host_fill(&own);
    if ((memcmp(own.boot_id, unknown, sizeof(unknown)) == 0) ||
        (own.pid_namespace == 0)) {
        snprintf(reason, reason_size, "/proc cannot be read here");
        return false;
    }
    if ((memcmp(peer->boot_id, unknown, sizeof(unknown)) == 0) ||
        (peer->pid_namespace == 0)) {
        snprintf(reason, reason_size, "/proc cannot be read there");
        return false;
    }
    if (memcmp(own.boot_id, peer->boot_id, sizeof(own.boot_id)) != 0) {
        snprintf(reason, reason_size, "other host");
        return false;
    }
    if (own.pid_namespace != peer->pid_namespace) {
        snprintf(reason, reason_size, "other PID name space");
        return false;
    }
    if (own.uid != peer->uid) {
        snprintf(reason, reason_size,
                 "other user: %" PRIu32 " there, %" PRIu32 " here", peer->uid,
                 own.uid);
        return false;
    }
    if (own.start_time == 0) {
        snprintf(reason, reason_size,
                 "/proc here is another PID name space's, or cannot be read");
        return false;
    }
    return true;
}

bool ipc_host_fits(const ipc_host_t *peer, char *reason, size_t reason_size)
{
    if (!is_within_reach(peer, reason, reason_size)) {
        return false;
    }
    if (!ipc_host_is_alive(peer)) {
        snprintf(reason, reason_size,
                 "process %" PRIu32 " has ended, or its /proc cannot be read",
                 peer->pid);
        return false;
    }
    snprintf(reason, reason_size, "same host and user");
    return true;
}

bool ipc_host_has_ended(const ipc_host_t *peer)
{
    char        reason[128];
    proc_stat_t process;

    return is_within_reach(peer, reason, sizeof(reason)) &&
           (peer->start_time != 0) &&
           (!process_read(peer, &process) || process.is_exiting);
}

int ipc_watch(const ipc_host_t *host)
{
    int fd;

    if ((host->pid == 0) || (host->pid > INT_MAX)) {
        return -1;
    }
    /* Always closed on exec. */
    fd = (int)syscall(SYS_pidfd_open, (pid_t)host->pid, 0);
    if (fd < 0) {
        base_debug("process %" PRIu32 " cannot be watched: %s", host->pid,
                   strerror(errno));
        return -1;
    }
    /* From here on the number cannot be given to another process unnoticed; but
     * it may have been before. */
    if (!ipc_host_is_alive(host)) {
        base_debug("process %" PRIu32 " is another one by now", host->pid);
        close(fd);
        return -1;
    }
    return fd;
}
