#include "ipc/host.h"

#include "base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Since kernel 5.3; the same number on every architecture. */
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

_Static_assert(sizeof(ipc_host_t) == 40, "is sent over the wire as is");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "is sent over the wire as is: big-endian needs a conversion");

/*
 * Values that are kept because the process may have no free descriptor later.
 * The start time and the user are read again in another process or user
 * namespace. A read that failed is retried. No lock
 * protects the values, because the process may fork at any time.
 */
enum { NOT_KNOWN, BEING_KEPT, KNOWN };

static struct {
    int      state; /* of boot_id; atomic */
    uint8_t  boot_id[16];
    uint64_t process;    /* process_key() for start_time; atomic */
    uint64_t start_time; /* atomic */
    uint64_t user_space; /* the user namespace of `user`; atomic */
    uint64_t user;       /* ~(user << 32 | outer_user()); atomic */
    uint64_t unmapped;   /* complement of unmapped_user(); atomic */
} kept;

/* Read the boot id: two hexadecimal digits for each byte, with dashes between
 * some bytes. */
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

/* Fields of /proc/PID/stat. */
typedef struct proc_stat {
    uint64_t start_time;
    bool     is_exiting; /* its descriptors may be closed already */
} proc_stat_t;

/* PF_EXITING in the kernel's linux/sched.h. */
#define FLAG_EXITING UINT64_C(4)

/* Returns a field of the line, or 0 if the field does not exist. Field 2, the
 * program's name, is in parentheses and may contain blanks and parentheses. */
static uint64_t stat_field(const char *line, int wanted)
{
    const char *field = strrchr(line, ')');

    for (int number = 2; (number < wanted) && (field != NULL); number++) {
        field = strchr(field + 1, ' ');
    }
    return (field == NULL) ? 0 : strtoull(field, NULL, 10);
}

/* Read /proc/PID/stat. Returns 0 or an errno value. */
static int stat_read(uint32_t pid, proc_stat_t *stat_p)
{
    char  path[32], line[1024];
    FILE *file;
    bool  is_read;
    int   error;

    snprintf(path, sizeof(path), "/proc/%" PRIu32 "/stat", pid);
    file = fopen(path, "re");
    if (file == NULL) {
        return errno;
    }
    is_read = fgets(line, sizeof(line), file) != NULL;
    error   = ferror(file) ? errno : EIO;
    fclose(file);
    if (!is_read) {
        return error;
    }
    stat_p->is_exiting = (stat_field(line, 9) & FLAG_EXITING) != 0;
    stat_p->start_time = stat_field(line, 22);
    return (stat_p->start_time != 0) ? 0 : EIO;
}

/* Returns true if the numbers in /proc are the PIDs of this process's
 * namespace. /proc may be mounted for another PID namespace. */
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

/* Returns the inode of a namespace, or 0 if it cannot be read. */
static uint64_t namespace_of(const char *path)
{
    struct stat name_space;

    return (stat(path, &name_space) == 0) ? (uint64_t)name_space.st_ino : 0;
}

/* Returns a number that differs from that of a child, which may inherit `kept`.
 * The PID alone may be the same in another PID namespace. */
static uint64_t process_key(const ipc_host_t *host)
{
    return (host->pid_namespace << 32) | host->pid;
}

/* In a forked child: its PID may have been that of an ancestor that has
 * ended. */
static void forget_start_time(void)
{
    __atomic_store_n(&kept.process, 0, __ATOMIC_RELAXED);
}

static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, forget_start_time);
}

/* Returns the start time of this process; 0: unknown. */
static uint64_t own_start_time(const ipc_host_t *host)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    uint64_t              key  = process_key(host);
    proc_stat_t           own;

    if (__atomic_load_n(&kept.process, __ATOMIC_ACQUIRE) == key) {
        return __atomic_load_n(&kept.start_time, __ATOMIC_RELAXED);
    }
    if (stat_read(host->pid, &own) != 0) {
        return 0;
    }
    pthread_once(&once, watch_forks);
    __atomic_store_n(&kept.start_time, own.start_time, __ATOMIC_RELAXED);
    __atomic_store_n(&kept.process, key, __ATOMIC_RELEASE);
    return own.start_time;
}

/* The kernel's default of kernel.overflowuid. */
#define UNMAPPED_USER 65534u

/* Returns the user ID that the kernel reports for every user that this user
 * namespace does not map. */
static uint32_t unmapped_user(void)
{
    uint64_t known = ~__atomic_load_n(&kept.unmapped, __ATOMIC_RELAXED);
    uint32_t user  = UNMAPPED_USER;
    FILE    *file;

    if (known <= UINT32_MAX) {
        return (uint32_t)known;
    }
    file = fopen("/proc/sys/kernel/overflowuid", "re");
    if (file != NULL) {
        if (fscanf(file, "%" SCNu32, &user) == 1) {
            __atomic_store_n(&kept.unmapped, ~(uint64_t)user, __ATOMIC_RELAXED);
        }
        fclose(file);
    }
    return user;
}

/* An extent of /proc/self/uid_map. */
typedef struct user_map {
    uint32_t first;
    uint32_t outer; /* ID of `first` in the parent namespace */
    uint32_t count;
} user_map_t;

/* Find the extent that contains the user. Returns false if there is none. */
static bool user_map_find(uint32_t user, user_map_t *map_p)
{
    FILE *file     = fopen("/proc/self/uid_map", "re");
    bool  is_found = false;

    if (file == NULL) {
        return false;
    }
    while (!is_found &&
           (fscanf(file, "%" SCNu32 " %" SCNu32 " %" SCNu32, &map_p->first,
                   &map_p->outer, &map_p->count) == 3)) {
        is_found = user - map_p->first < map_p->count;
    }
    fclose(file);
    return is_found;
}

/* Returns the user's ID in the parent user namespace. Containers may map user
 * IDs differently, so only these IDs can be compared between containers.
 * Returns IPC_NO_USER if the ID is unknown. The process may enter another user
 * namespace between two calls. */
static uint32_t outer_user(uint32_t user)
{
    uint64_t   name_space = namespace_of("/proc/self/ns/user");
    uint64_t   old        = __atomic_load_n(&kept.user_space, __ATOMIC_ACQUIRE);
    uint64_t   known      = ~__atomic_load_n(&kept.user, __ATOMIC_RELAXED);
    user_map_t map;

    if ((old == name_space) && (known >> 32 == user)) {
        return (uint32_t)known;
    }
    if (!user_map_find(user, &map)) {
        return IPC_NO_USER;
    }
    known = ((uint64_t)user << 32) | (map.outer + (user - map.first));
    __atomic_store_n(&kept.user, ~known, __ATOMIC_RELAXED);
    __atomic_store_n(&kept.user_space, name_space, __ATOMIC_RELEASE);
    return (uint32_t)known;
}

bool ipc_user_is_ours(uint32_t user)
{
    user_map_t map;

    return (user == (uint32_t)geteuid()) &&
           ((user != unmapped_user()) ||
            (user_map_find(user, &map) && (map.count == UINT32_MAX)));
}

void ipc_host_fill(ipc_host_t *host)
{
    memset(host, 0, sizeof(*host));
    host->pid = (uint32_t)getpid();
    boot_id_fill(host->boot_id);
    host->pid_namespace = namespace_of("/proc/self/ns/pid");
    host->start_time    = proc_is_ours() ? own_start_time(host) : 0;
    host->uid           = outer_user((uint32_t)geteuid());
}

uint64_t ipc_net_namespace(void)
{
    return namespace_of("/proc/self/ns/net");
}

typedef enum process_state {
    PROCESS_RUNNING,
    PROCESS_EXITING,
    PROCESS_ENDED,  /* the PID is unused, or belongs to another process */
    PROCESS_UNKNOWN /* unknown: the process could not be queried, for example
                         for lack of descriptors */
} process_state_t;

bool ipc_host_is_visible(const ipc_host_t *peer)
{
    return (peer->pid_namespace != 0) &&
           (peer->pid_namespace == namespace_of("/proc/self/ns/pid"));
}

static process_state_t process_query(const ipc_host_t *peer)
{
    proc_stat_t process;
    int         error;

    if ((peer->pid == 0) || (peer->pid > INT_MAX)) {
        return PROCESS_ENDED;
    }
    if (!ipc_host_is_visible(peer)) {
        return PROCESS_UNKNOWN;
    }
    error = stat_read(peer->pid, &process);
    if ((error == ENOENT) || (error == ESRCH)) {
        return PROCESS_ENDED;
    }
    if ((error != 0) || (peer->start_time == 0)) {
        return PROCESS_UNKNOWN;
    }
    if (process.start_time != peer->start_time) {
        return PROCESS_ENDED;
    }
    return process.is_exiting ? PROCESS_EXITING : PROCESS_RUNNING;
}

bool ipc_host_is_same(const ipc_host_t *a, const ipc_host_t *b)
{
    return (memcmp(a->boot_id, b->boot_id, sizeof(a->boot_id)) == 0) &&
           (a->pid_namespace == b->pid_namespace) && (a->pid == b->pid) &&
           (a->start_time == b->start_time);
}

bool ipc_host_is_alive(const ipc_host_t *peer)
{
    process_state_t state = process_query(peer);

    return (state == PROCESS_RUNNING) || (state == PROCESS_EXITING);
}

bool ipc_host_is_reaped(const ipc_host_t *peer)
{
    return process_query(peer) == PROCESS_ENDED;
}

/* Returns true if the peer is a process of the same user on this host. */
static bool is_related(const ipc_host_t *peer, char *reason, size_t reason_size)
{
    static const uint8_t unknown[sizeof(peer->boot_id)];
    ipc_host_t           own;

    ipc_host_fill(&own);
    if ((memcmp(own.boot_id, unknown, sizeof(unknown)) == 0) ||
        (own.pid_namespace == 0)) {
        snprintf(reason, reason_size, "/proc of this process cannot be read");
        return false;
    }
    if ((memcmp(peer->boot_id, unknown, sizeof(unknown)) == 0) ||
        (peer->pid_namespace == 0)) {
        snprintf(reason, reason_size, "the peer cannot read its /proc");
        return false;
    }
    if (memcmp(own.boot_id, peer->boot_id, sizeof(own.boot_id)) != 0) {
        snprintf(reason, reason_size, "other host");
        return false;
    }
    if (!ipc_user_is_ours((uint32_t)geteuid())) {
        snprintf(reason, reason_size,
                 "the user namespace of this process does not map its user");
        return false;
    }
    if (own.uid == IPC_NO_USER) {
        snprintf(reason, reason_size, "/proc/self/uid_map cannot be read");
        return false;
    }
    if (own.uid != peer->uid) {
        snprintf(reason, reason_size,
                 "other user: %" PRIu32 " there, %" PRIu32 " here", peer->uid,
                 own.uid);
        return false;
    }
    if ((own.start_time == 0) && (own.pid_namespace == peer->pid_namespace)) {
        snprintf(reason, reason_size,
                 "/proc belongs to another PID namespace, or cannot be read");
        return false;
    }
    return true;
}

bool ipc_host_fits(const ipc_host_t *peer, char *reason, size_t reason_size)
{
    if (!is_related(peer, reason, reason_size)) {
        return false;
    }
    if (ipc_host_is_visible(peer) && !ipc_host_is_alive(peer)) {
        snprintf(reason, reason_size,
                 "process %" PRIu32 " has ended, or its /proc cannot be read",
                 peer->pid);
        return false;
    }
    snprintf(reason, reason_size, "same host and user");
    return true;
}

bool ipc_host_is_local(const ipc_host_t *peer)
{
    static const uint8_t unknown[sizeof(peer->boot_id)];
    ipc_host_t           own;

    ipc_host_fill(&own);
    return (memcmp(own.boot_id, unknown, sizeof(unknown)) != 0) &&
           (memcmp(own.boot_id, peer->boot_id, sizeof(own.boot_id)) == 0);
}

bool ipc_host_shares_network(const ipc_host_t *peer)
{
    uint64_t ours = ipc_net_namespace();
    char     text[128];

    if ((ours == 0) || !ipc_host_is_visible(peer) ||
        !ipc_host_fits(peer, text, sizeof(text))) {
        return false;
    }
    snprintf(text, sizeof(text), "/proc/%" PRIu32 "/ns/net", peer->pid);
    return namespace_of(text) == ours;
}

/* Returns true if the process has no executable any more, because it is
 * exiting or has ended. Needs no descriptor. */
static bool has_no_program(const ipc_host_t *peer)
{
    char path[32];
    char target;

    snprintf(path, sizeof(path), "/proc/%" PRIu32 "/exe", peer->pid);
    return (readlink(path, &target, sizeof(target)) < 0) && (errno == ENOENT);
}

bool ipc_host_has_ended(const ipc_host_t *peer)
{
    char            reason[128];
    process_state_t state;

    if (!is_related(peer, reason, sizeof(reason)) ||
        !ipc_host_is_visible(peer)) {
        return false;
    }
    state = process_query(peer);
    return (state == PROCESS_ENDED) || (state == PROCESS_EXITING) ||
           ((state == PROCESS_UNKNOWN) && has_no_program(peer));
}

int ipc_watch(const ipc_host_t *host)
{
    int fd;

    if ((host->pid == 0) || (host->pid > INT_MAX) ||
        !ipc_host_is_visible(host)) {
        return -1;
    }
    /* The kernel always sets close-on-exec. */
    fd = (int)syscall(SYS_pidfd_open, (pid_t)host->pid, 0);
    if (fd < 0) {
        base_debug("process %" PRIu32 " cannot be watched: %s", host->pid,
                   strerror(errno));
        return -1;
    }
    /* From here on, the pidfd refers to one process. The PID may have been
     * reused before the pidfd was opened. */
    if (!ipc_host_is_alive(host)) {
        base_debug("process %" PRIu32
                   " has ended, and another process has its PID",
                   host->pid);
        close(fd);
        return -1;
    }
    return fd;
}
