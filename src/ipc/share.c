#include <config.h>

#include "ipc/share.h"

#include "base/error.h"
#include "base/log.h"
#include "base/math.h"
#include "base/text.h"
#include "mem/cuda_driver.h"
#include "mem/cuda_pinned.h"
#include "mem/memfd.h"
#include "mem/system.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

/* --- host memory ---------------------------------------------------------- */

/* --- identifying a process, and whether its memory can be mapped ---------- */

/* Since kernel 5.3; the same number on every architecture. */
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

_Static_assert(sizeof(ipc_host_t) == 40, "goes over the wire as is");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "goes over the wire as is: other machines convert here");

/*
 * Values that are read once, because they do not change and the process may
 * have no free descriptor later. A read that failed is retried. No lock
 * protects the values, because the process may fork at any time.
 */
enum { NOT_KNOWN, BEING_KEPT, KNOWN };

static struct {
    int      state; /* of boot_id; atomic */
    uint8_t  boot_id[16];
    uint32_t pid;        /* the process that start_time belongs to; atomic */
    uint64_t start_time; /* atomic */
    uint32_t user_pid;   /* the process that user belongs to; atomic */
    uint64_t user;       /* complement of a user and its outer_user(); atomic */
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

/* Returns the start time of this process; 0: unknown. */
static uint64_t own_start_time(uint32_t pid)
{
    proc_stat_t own;

    if (__atomic_load_n(&kept.pid, __ATOMIC_ACQUIRE) == pid) {
        return __atomic_load_n(&kept.start_time, __ATOMIC_RELAXED);
    }
    if (stat_read(pid, &own) != 0) {
        return 0;
    }
    __atomic_store_n(&kept.start_time, own.start_time, __ATOMIC_RELAXED);
    __atomic_store_n(&kept.pid, pid, __ATOMIC_RELEASE);
    return own.start_time;
}

/* The kernel's default of kernel.overflowuid. */
#define UNMAPPED_USER 65534u

/* Returns the user as which the kernel reports all users that this user
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
    uint32_t outer; /* of `first`, in the namespace above */
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

/* Returns the user as the namespace above this user namespace sees it, so that
 * containers with different maps can be compared; or IPC_NO_USER. A forked
 * child may have entered another user namespace. */
static uint32_t outer_user(uint32_t pid, uint32_t user)
{
    bool     is_ours = __atomic_load_n(&kept.user_pid, __ATOMIC_ACQUIRE) == pid;
    uint64_t known   = ~__atomic_load_n(&kept.user, __ATOMIC_RELAXED);
    user_map_t map;

    if (is_ours && (known >> 32 == user)) {
        return (uint32_t)known;
    }
    if (!user_map_find(user, &map)) {
        return IPC_NO_USER;
    }
    known = ((uint64_t)user << 32) | (map.outer + (user - map.first));
    __atomic_store_n(&kept.user, ~known, __ATOMIC_RELAXED);
    __atomic_store_n(&kept.user_pid, pid, __ATOMIC_RELEASE);
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
    host->start_time    = proc_is_ours() ? own_start_time(host->pid) : 0;
    host->uid           = outer_user(host->pid, (uint32_t)geteuid());
}

uint64_t ipc_net_namespace(void)
{
    return namespace_of("/proc/self/ns/net");
}

typedef enum process_state {
    PROCESS_RUNNING,
    PROCESS_ENDED,  /* the PID is unused, or belongs to another process */
    PROCESS_UNKNOWN /* unknown: the process could not be queried, for example
                         for lack of descriptors */
} process_state_t;

bool ipc_host_is_visible(const ipc_host_t *peer)
{
    return (peer->pid_namespace != 0) &&
           (peer->pid_namespace == namespace_of("/proc/self/ns/pid"));
}

static process_state_t process_query(const ipc_host_t *peer,
                                     proc_stat_t      *process_p)
{
    int error;

    if ((peer->pid == 0) || (peer->pid > INT_MAX)) {
        return PROCESS_ENDED;
    }
    if (!ipc_host_is_visible(peer)) {
        return PROCESS_UNKNOWN;
    }
    error = stat_read(peer->pid, process_p);
    if ((error == ENOENT) || (error == ESRCH)) {
        return PROCESS_ENDED;
    }
    if ((error != 0) || (peer->start_time == 0)) {
        return PROCESS_UNKNOWN;
    }
    return (process_p->start_time == peer->start_time) ? PROCESS_RUNNING
                                                       : PROCESS_ENDED;
}

bool ipc_host_is_same(const ipc_host_t *a, const ipc_host_t *b)
{
    return (memcmp(a->boot_id, b->boot_id, sizeof(a->boot_id)) == 0) &&
           (a->pid_namespace == b->pid_namespace) && (a->pid == b->pid) &&
           (a->start_time == b->start_time);
}

bool ipc_host_is_alive(const ipc_host_t *peer)
{
    proc_stat_t process;

    return process_query(peer, &process) == PROCESS_RUNNING;
}

bool ipc_host_is_reaped(const ipc_host_t *peer)
{
    proc_stat_t process;

    return process_query(peer, &process) == PROCESS_ENDED;
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

/* Returns true if the process has already closed its executable. Needs no
 * descriptor. */
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
    proc_stat_t     process;
    process_state_t state;

    if (!is_related(peer, reason, sizeof(reason)) ||
        !ipc_host_is_visible(peer)) {
        return false;
    }
    state = process_query(peer, &process);
    return (state == PROCESS_ENDED) ||
           ((state == PROCESS_RUNNING) && process.is_exiting) ||
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

/* --- files of this process ------------------------------------------------ */

_Static_assert(sizeof(ipc_file_t) == 32, "goes over the wire as is");

ucxpool_status_t ipc_file_fill(int fd, ipc_file_t *file)
{
    struct statfs system;
    struct stat   is;

    if ((fstat(fd, &is) != 0) || (fstatfs(fd, &system) != 0)) {
        return base_error(UCXPOOL_ERR_IO, "cannot stat memory file %d: %s", fd,
                          strerror(errno));
    }
    memset(file, 0, sizeof(*file));
    file->device = (uint64_t)is.st_dev;
    file->inode  = (uint64_t)is.st_ino;
    file->size   = (uint64_t)is.st_size;
    file->fd     = fd;
    if (system.f_type == HUGETLBFS_MAGIC) {
        file->huge_page_shift =
            (uint32_t)__builtin_ctzl((unsigned long)system.f_bsize);
    }
    return UCXPOOL_OK;
}

void ipc_unmap(const void *address, size_t size)
{
    mem_range_release((void *)(uintptr_t)address, size);
}

ucxpool_status_t ipc_create(const char *name, size_t size, int *fd_p,
                            void **address_p)
{
    char  full_name[64];
    void *address;
    int   fd, error;

    if (size == 0) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "cannot create memory file %s with 0 bytes", name);
    }
    snprintf(full_name, sizeof(full_name), "ucxpool:%d:%s", (int)getpid(),
             name);
    error = mem_memfd_create(full_name, size, 0, &fd);
    if (error != 0) {
        goto err_none;
    }
    error = mem_memfd_fill(fd, 0, size, 0);
    if (error != 0) {
        goto err_close;
    }
    error = mem_memfd_map(fd, 0, size, 0, true, &address);
    if (error != 0) {
        goto err_close;
    }
    error = mem_memfd_seal(fd, true);
    if (error != 0) {
        goto err_unmap;
    }
    *fd_p      = fd;
    *address_p = address;
    return UCXPOOL_OK;

err_unmap:
    ipc_unmap(address, size);
err_close:
    close(fd);
err_none:
    return base_error_errno(error == ENOSPC ? ENOMEM : error,
                            "cannot create a memory file of %zu bytes for %s",
                            size, name);
}

/* --- mapping a peer's file ------------------------------------------------ */

#define MEMFD_PREFIX "/memfd:"

/* Unit of st_blocks, for every file system. */
#define STAT_BLOCK_SIZE 512u

/* Page sizes are 2^12 to 2^40 bytes on every architecture. */
#define PAGE_SHIFT_MIN 12u
#define PAGE_SHIFT_MAX 40u

/* An attempt to map a peer's file. */
typedef struct attempt {
    const ipc_host_t *host;
    const ipc_file_t *file;
    int               given; /* descriptor in this process; -1: open it */
    const ipc_part_t *part;  /* NULL: the whole file */
    char             *reason;
    size_t            reason_size;
} attempt_t;

static ucxpool_status_t refuse(const attempt_t *attempt,
                               ucxpool_status_t status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Since kernel 5.1; the C library's headers may be older. */
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

static bool is_written(const attempt_t *attempt)
{
    return (attempt->part != NULL) && attempt->part->is_writable;
}

/* Returns the number of bytes that must be backed by memory. */
static uint64_t needed_size(const attempt_t *attempt)
{
    return (attempt->part != NULL) ? attempt->part->length
                                   : attempt->file->size;
}

static ucxpool_status_t refuse(const attempt_t *attempt,
                               ucxpool_status_t status, const char *format, ...)
{
    char    text[BASE_ERROR_SIZE];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    /* Clean the text, because a peer chooses the names of its files. */
    base_text_clean(text);
    snprintf(attempt->reason, attempt->reason_size, "%s", text);
    return base_error(status,
                      "descriptor %" PRId32 " of process %" PRIu32
                      " is not mapped: %s",
                      attempt->file->fd, attempt->host->pid, text);
}

static ucxpool_status_t refuse_ended(const attempt_t *attempt)
{
    return refuse(attempt, UCXPOOL_ERR_PEER_LOST, "the process has ended");
}

/* Refuse because the owner's process was not found. */
static ucxpool_status_t refuse_unseen(const attempt_t *attempt)
{
    if (ipc_host_is_reaped(attempt->host)) {
        return refuse_ended(attempt);
    }
    return refuse(attempt, UCXPOOL_ERR_PERMISSION,
                  "/proc does not show whether its process still runs");
}

/* Refuse because the file was not found or could not be opened. The reason may
 * be that the process has ended. */
static ucxpool_status_t refuse_open(const attempt_t *attempt, int error)
{
    if (ipc_host_is_reaped(attempt->host)) {
        return refuse_ended(attempt);
    }
    return refuse(attempt, UCXPOOL_ERR_PERMISSION,
                  "the file cannot be opened: %s (other user or namespace, or "
                  "the process forbids it)",
                  strerror(error));
}

/* Validate the numbers that the peer announced. */
static ucxpool_status_t numbers_check(const attempt_t *attempt)
{
    const ipc_file_t *file  = attempt->file;
    uint32_t          shift = file->huge_page_shift;

    if ((attempt->host->pid == 0) || (attempt->host->pid > INT_MAX)) {
        return refuse(attempt, UCXPOOL_ERR_PROTOCOL, "the PID is invalid");
    }
    if (file->fd < 0) {
        return refuse(attempt, UCXPOOL_ERR_PROTOCOL,
                      "the descriptor is negative");
    }
    if ((file->size == 0) || (file->size > PTRDIFF_MAX)) {
        return refuse(attempt, UCXPOOL_ERR_PROTOCOL,
                      "a file of %" PRIu64 " bytes cannot be mapped",
                      file->size);
    }
    if ((attempt->part != NULL) &&
        ((attempt->part->length == 0) || (attempt->part->length > file->size) ||
         (attempt->part->offset > file->size - attempt->part->length))) {
        return refuse(attempt, UCXPOOL_ERR_PROTOCOL,
                      "%" PRIu64 " bytes at offset %" PRIu64
                      " exceed the file of %" PRIu64 " bytes",
                      attempt->part->length, attempt->part->offset, file->size);
    }
    if (shift == 0) {
        return UCXPOOL_OK;
    }
    if ((shift < PAGE_SHIFT_MIN) || (shift > PAGE_SHIFT_MAX) ||
        (file->size % ((uint64_t)1 << shift) != 0)) {
        return refuse(attempt, UCXPOOL_ERR_PROTOCOL,
                      "%" PRIu64
                      " bytes are not a multiple of the page size 2^%" PRIu32,
                      file->size, shift);
    }
    return UCXPOOL_OK;
}

/*
 * Look up the file without opening it: a descriptor with O_PATH does not call
 * the driver of a FIFO or a device. The link is read first, because even
 * open(O_PATH) can block forever on a network file system.
 */
static ucxpool_status_t file_find(const attempt_t *attempt, int *fd_p)
{
    char    path[64], name[64];
    ssize_t length;
    int     fd;

    if ((attempt->given < 0) && !ipc_host_is_visible(attempt->host)) {
        return refuse(attempt, UCXPOOL_ERR_PERMISSION, "other PID namespace");
    }
    if (attempt->given >= 0) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d", attempt->given);
    } else {
        snprintf(path, sizeof(path), "/proc/%" PRIu32 "/fd/%" PRId32,
                 attempt->host->pid, attempt->file->fd);
    }
    length = readlink(path, name, sizeof(name) - 1);
    if (length < 0) {
        return refuse_open(attempt, errno);
    }
    name[length] = '\0';
    if (strncmp(name, MEMFD_PREFIX, strlen(MEMFD_PREFIX)) != 0) {
        return refuse(attempt, UCXPOOL_ERR_PROTOCOL,
                      "the file is not a memory file, but %s", name);
    }
    fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0) {
        return refuse_open(attempt, errno);
    }
    *fd_p = fd;
    return UCXPOOL_OK;
}

/* Check that the file is the announced one. */
static ucxpool_status_t file_check(const attempt_t *attempt, int fd)
{
    const ipc_file_t *file  = attempt->file;
    uint32_t          shift = file->huge_page_shift;
    struct statfs     system;
    struct stat       is;
    uint64_t          backed;

    if ((fstat(fd, &is) != 0) || (fstatfs(fd, &system) != 0)) {
        return refuse(attempt, UCXPOOL_ERR_PERMISSION,
                      "the file's attributes cannot be read: %s",
                      strerror(errno));
    }
    if (!S_ISREG(is.st_mode) || ((uint64_t)is.st_dev != file->device) ||
        ((uint64_t)is.st_ino != file->inode)) {
        return refuse(attempt, UCXPOOL_ERR_PROTOCOL,
                      "the file is not the announced one");
    }
    if (!ipc_user_is_ours((uint32_t)is.st_uid)) {
        return refuse(attempt, UCXPOOL_ERR_PERMISSION,
                      "the file belongs to another user, %u",
                      (unsigned)is.st_uid);
    }
    if ((shift == 0) != (system.f_type == TMPFS_MAGIC) ||
        (shift != 0) != (system.f_type == HUGETLBFS_MAGIC) ||
        ((shift != 0) && ((uint64_t)system.f_bsize != (uint64_t)1 << shift))) {
        return refuse(attempt, UCXPOOL_ERR_PROTOCOL,
                      "the file does not have the announced page size");
    }
    if ((uint64_t)is.st_size < file->size) {
        return refuse(attempt, UCXPOOL_ERR_PROTOCOL,
                      "the file has %" PRIu64
                      " bytes, but the owner announced %" PRIu64,
                      (uint64_t)is.st_size, file->size);
    }
    backed = (uint64_t)is.st_blocks * STAT_BLOCK_SIZE;
    if (backed < needed_size(attempt)) {
        return refuse(attempt, UCXPOOL_ERR_PROTOCOL,
                      "only %" PRIu64 " of its %" PRIu64
                      " bytes are backed by memory",
                      backed, needed_size(attempt));
    }
    return UCXPOOL_OK;
}

/* Open exactly the file that was checked. */
static ucxpool_status_t file_reopen(const attempt_t *attempt, int path_fd,
                                    int *fd_p)
{
    char path[64];
    int  fd, seals;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", path_fd);
    fd = open(path, (is_written(attempt) ? O_RDWR : O_RDONLY) | O_CLOEXEC |
                        O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        return refuse_open(attempt, errno);
    }
    seals = fcntl(fd, F_GET_SEALS);
    if ((seals < 0) || !(seals & F_SEAL_SHRINK)) {
        close(fd);
        return refuse(attempt, UCXPOOL_ERR_PERMISSION,
                      "the file is not sealed against shrinking");
    }
    if (is_written(attempt) && (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE))) {
        close(fd);
        return refuse(attempt, UCXPOOL_ERR_PERMISSION,
                      "the file is sealed against writing");
    }
    *fd_p = fd;
    return UCXPOOL_OK;
}

static ucxpool_status_t file_open(const attempt_t *attempt, int *fd_p)
{
    int              path_fd = -1;
    int              fd      = -1;
    ucxpool_status_t status  = file_find(attempt, &path_fd);

    if (status != UCXPOOL_OK) {
        return status;
    }
    status = file_check(attempt, path_fd);
    if (status != UCXPOOL_OK) {
        goto err_close_path;
    }
    status = file_reopen(attempt, path_fd, &fd);
    if (status != UCXPOOL_OK) {
        goto err_close_path;
    }
    close(path_fd);
    /* The PID may have been reused during the checks. */
    if ((attempt->given < 0) && !ipc_host_is_alive(attempt->host)) {
        close(fd);
        return refuse_unseen(attempt);
    }
    *fd_p = fd;
    return UCXPOOL_OK;

err_close_path:
    close(path_fd);
    return status;
}

static ucxpool_status_t file_map(const attempt_t *attempt, uint64_t start,
                                 uint64_t size, void **address_p)
{
    int              fd = -1;
    int              error;
    ucxpool_status_t status = file_open(attempt, &fd);

    if (status != UCXPOOL_OK) {
        return status;
    }
    error = mem_memfd_map(fd, start, size, attempt->file->huge_page_shift,
                          is_written(attempt), address_p);
    close(fd);
    if (error != 0) {
        return refuse(attempt,
                      error == ENOMEM ? UCXPOOL_ERR_NO_MEMORY
                                      : UCXPOOL_ERR_PERMISSION,
                      "mapping %" PRIu64 " bytes: %s", size, strerror(error));
    }
    return UCXPOOL_OK;
}

ucxpool_status_t ipc_map(const ipc_host_t *host, const ipc_file_t *file,
                         int given, const void **address_p, char *reason,
                         size_t reason_size)
{
    const attempt_t  attempt = {host, file, given, NULL, reason, reason_size};
    void            *address;
    ucxpool_status_t status = numbers_check(&attempt);

    if (status == UCXPOOL_OK) {
        status = file_map(&attempt, 0, file->size, &address);
    }
    if (status == UCXPOOL_OK) {
        *address_p = address;
    }
    return status;
}

static uint64_t page_size(const ipc_file_t *file)
{
    return (file->huge_page_shift != 0) ? (uint64_t)1 << file->huge_page_shift
                                        : (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Returns the start of the first page of the part. The start is aligned to a
 * large page if the part is at least that long. */
static uint64_t part_start(const ipc_file_t *file, const ipc_part_t *part)
{
    uint64_t page  = page_size(file);
    uint64_t large = mem_system_transparent_size();

    if (part->length >= large) {
        page = base_max(page, large);
    }
    return part->offset & ~(page - 1);
}

ucxpool_status_t ipc_view_map(const ipc_host_t *host, const ipc_file_t *file,
                              int given, const ipc_part_t *part,
                              ipc_view_t *view_p, char *reason,
                              size_t reason_size)
{
    const attempt_t  attempt = {host, file, given, part, reason, reason_size};
    ucxpool_status_t status  = numbers_check(&attempt);
    uint64_t         start;
    uint64_t         size;
    void            *address;

    if (status != UCXPOOL_OK) {
        return status;
    }
    start = part_start(file, part);
    size  = base_align_up(part->offset + part->length - start, page_size(file));
    status = file_map(&attempt, start, size, &address);
    if (status == UCXPOOL_OK) {
        *view_p = (ipc_view_t){
            .address = (char *)address + (part->offset - start),
            .start   = address,
            .size    = size,
        };
    }
    return status;
}

void ipc_view_unmap(ipc_view_t *view)
{
    if (view->size != 0) {
        mem_range_release(view->start, view->size);
        view->size = 0;
    }
}

/* --- memory of a GPU ------------------------------------------------------ */

/* --- the owner's side, and passing descriptors ---------------------------- */

/* Since kernel 5.6; the same number on every architecture. */
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

_Static_assert(sizeof(ipc_cuda_t) == 96, "goes over the wire as is");
_Static_assert(sizeof(CUipcMemHandle) == 64, "the handle fits");

static ucxpool_status_t share_error(const mem_regions_t *regions,
                                    CUresult result, const char *call,
                                    unsigned index)
{
    return mem_cuda_error(regions->cuda->driver, result,
                          "%s of region %u of GPU %d (%s)", call, index,
                          regions->cuda->ordinal, regions->cuda->name);
}

static ucxpool_status_t fill_ipc(const mem_regions_t *regions, unsigned index,
                                 ipc_cuda_t *share)
{
    CUipcMemHandle   handle;
    ucxpool_status_t status = mem_cuda_device_enter(regions->cuda);
    CUresult         result;

    if (status != UCXPOOL_OK) {
        return status;
    }
    result = regions->cuda->driver->cuIpcGetMemHandle(
        &handle, (CUdeviceptr)(uintptr_t)regions->regions[index].address);
    mem_cuda_device_leave(regions->cuda);
    if (result != CUDA_SUCCESS) {
        return share_error(regions, result, "cuIpcGetMemHandle", index);
    }
    share->way = IPC_CUDA_IPC;
    memcpy(share->handle, &handle, sizeof(handle));
    return UCXPOOL_OK;
}

static ucxpool_status_t fill_file(mem_regions_t *regions, unsigned index,
                                  ipc_cuda_t *share)
{
    mem_region_t *region = &regions->regions[index];
    int           fd     = -1;
    CUresult      result;

    if (!regions->cuda->has_posix_handles) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "GPU %d (%s) cannot export memory by file "
                          "descriptors: share memory of cuMemAlloc instead",
                          regions->cuda->ordinal, regions->cuda->name);
    }
    if (region->fd < 0) {
        result = regions->cuda->driver->cuMemExportToShareableHandle(
            &fd, region->handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
        if (result != CUDA_SUCCESS) {
            return share_error(regions, result, "cuMemExportToShareableHandle",
                               index);
        }
        region->fd = fd;
    }
    share->way = IPC_CUDA_FILE;
    share->fd  = region->fd;
    return UCXPOOL_OK;
}

ucxpool_status_t ipc_cuda_fill(mem_regions_t *regions, unsigned index,
                               ipc_cuda_t *share)
{
    memset(share, 0, sizeof(*share));
    share->fd   = -1;
    share->size = regions->region_size;
    if (regions->cuda != NULL) {
        memcpy(share->uuid, &regions->cuda->uuid, sizeof(share->uuid));
    }
    if (!regions->kind->is_gpu) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "memory of kind %s has no GPU handle",
                          regions->kind->name);
    }
    return regions->kind->shares_by_fd ? fill_file(regions, index, share)
                                       : fill_ipc(regions, index, share);
}

/* Call between enter and leave. */
static ucxpool_status_t fill_memory(const mem_cuda_device_t *device,
                                    CUdeviceptr address, uint64_t length,
                                    ipc_cuda_t *share, uint64_t *offset_p)
{
    const mem_cuda_driver_t *driver = device->driver;
    CUdeviceptr              base   = 0;
    size_t                   size   = 0;
    CUipcMemHandle           handle;
    CUresult                 result;

    result = driver->cuMemGetAddressRange(&base, &size, address);
    if ((result == CUDA_SUCCESS) &&
        ((address - base > size) || (length > size - (address - base)))) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "the memory lies in more than one allocation");
    }
    if (result == CUDA_SUCCESS) {
        result = driver->cuIpcGetMemHandle(&handle, base);
    }
    if (result == CUDA_ERROR_INVALID_VALUE) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "the memory was not allocated by cuMemAlloc() and "
                          "has no IPC handle");
    }
    if (result != CUDA_SUCCESS) {
        return mem_cuda_error(driver, result,
                              "cuIpcGetMemHandle of memory of GPU %d (%s)",
                              device->ordinal, device->name);
    }
    *share = (ipc_cuda_t){.size = size, .way = IPC_CUDA_IPC, .fd = -1};
    memcpy(share->uuid, &device->uuid, sizeof(share->uuid));
    memcpy(share->handle, &handle, sizeof(handle));
    *offset_p = address - base;
    return UCXPOOL_OK;
}

ucxpool_status_t ipc_cuda_fill_memory(const mem_cuda_device_t *device,
                                      const void *address, uint64_t length,
                                      ipc_cuda_t *share, uint64_t *offset_p)
{
    ucxpool_status_t status = mem_cuda_device_enter(device);

    if (status != UCXPOOL_OK) {
        return status;
    }
    status = fill_memory(device, (CUdeviceptr)(uintptr_t)address, length, share,
                         offset_p);
    mem_cuda_device_leave(device);
    return status;
}

static ucxpool_status_t import_error(const ipc_host_t *host, int error)
{
    if ((error == ESRCH) || ipc_host_is_reaped(host)) {
        return base_error(UCXPOOL_ERR_PEER_LOST,
                          "process %" PRIu32 " has ended", host->pid);
    }
    if (error == EBADF) {
        return base_error(UCXPOOL_ERR_PROTOCOL,
                          "process %" PRIu32
                          " does not have the descriptor that it announced",
                          host->pid);
    }
    /* A kernel before 5.6 returns ENOSYS, which becomes
     * UCXPOOL_ERR_UNSUPPORTED. */
    return base_error_errno(error,
                            "cannot take a descriptor of process %" PRIu32
                            " with pidfd_getfd (ptrace rules may forbid it: "
                            "sysctl kernel.yama.ptrace_scope)",
                            host->pid);
}

ucxpool_status_t ipc_cuda_import(const ipc_host_t *host,
                                 const ipc_cuda_t *share, int *fd_p)
{
    int process, fd, error;

    if ((share->way != IPC_CUDA_FILE) || (share->fd < 0)) {
        return base_error(UCXPOOL_ERR_PROTOCOL,
                          "descriptor %" PRId32 " of process %" PRIu32
                          " is invalid",
                          share->fd, host->pid);
    }
    /* Use a pidfd, because the PID of the owner may be reused. */
    process = ipc_watch(host);
    if (process < 0) {
        return !ipc_host_is_reaped(host)
                   ? base_error(UCXPOOL_ERR_UNSUPPORTED,
                                "process %" PRIu32
                                " is in another PID namespace, or cannot be "
                                "watched: pidfd_open needs Linux 5.3 or later",
                                host->pid)
                   : import_error(host, ESRCH);
    }
    fd    = (int)syscall(SYS_pidfd_getfd, process, share->fd, 0);
    error = errno;
    close(process);
    if (fd < 0) {
        return import_error(host, error);
    }
    *fd_p = fd;
    return UCXPOOL_OK;
}

/* --- mapping a peer's region ---------------------------------------------- */

/* An attempt to map regions. Used between enter and leave. */
typedef struct gpu_attempt {
    const mem_cuda_device_t *device;
    const ipc_cuda_t        *share;
    const int               *fds;
    unsigned                 num_regions;
    bool                     is_written; /* else only read */
} gpu_attempt_t;

static size_t range_size(const gpu_attempt_t *attempt)
{
    return attempt->num_regions * (size_t)attempt->share->size;
}

static ucxpool_status_t map_error(const gpu_attempt_t *attempt, CUresult result,
                                  const char *call)
{
    return mem_cuda_error(attempt->device->driver, result,
                          "%s of a peer's %" PRIu64 " bytes on GPU %d (%s)",
                          call, attempt->share->size, attempt->device->ordinal,
                          attempt->device->name);
}

static void ipc_close(const mem_cuda_device_t *device, CUdeviceptr address)
{
    mem_cuda_ignore(device->driver,
                    device->driver->cuIpcCloseMemHandle(address),
                    "cuIpcCloseMemHandle");
}

/* Check that the opened memory is as large as announced, from its first byte
 * on. */
static ucxpool_status_t ipc_check(const gpu_attempt_t *attempt,
                                  CUdeviceptr          address)
{
    CUdeviceptr base = 0;
    size_t      size = 0;
    CUresult    result;

    result =
        attempt->device->driver->cuMemGetAddressRange(&base, &size, address);
    if (result != CUDA_SUCCESS) {
        return map_error(attempt, result, "cuMemGetAddressRange");
    }
    if ((address < base) || (address - base > size) ||
        (size - (address - base) < attempt->share->size)) {
        return base_error(UCXPOOL_ERR_PROTOCOL,
                          "a peer's region of GPU memory has %zu bytes, "
                          "but announced %" PRIu64,
                          size, attempt->share->size);
    }
    return UCXPOOL_OK;
}

static ucxpool_status_t map_handle(const gpu_attempt_t *attempt,
                                   CUdeviceptr         *address_p)
{
    CUipcMemHandle   handle;
    CUdeviceptr      address = 0;
    ucxpool_status_t status;
    CUresult         result;

    memcpy(&handle, attempt->share->handle, sizeof(handle));
    result = attempt->device->driver->cuIpcOpenMemHandle(
        &address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    if (result != CUDA_SUCCESS) {
        return map_error(attempt, result, "cuIpcOpenMemHandle");
    }
    status = ipc_check(attempt, address);
    if (status != UCXPOOL_OK) {
        ipc_close(attempt->device, address);
        return status;
    }
    *address_p = address;
    return UCXPOOL_OK;
}

/* Let the device read the range, and write to it only if requested. One call
 * covers the whole range, because each call to the driver takes time. */
static CUresult rights_set(const gpu_attempt_t *attempt, CUdeviceptr address)
{
    CUmemAccessDesc desc = {.flags = attempt->is_written
                                         ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                         : CU_MEM_ACCESS_FLAGS_PROT_READ};

    desc.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    desc.location.id   = attempt->device->device;
    return attempt->device->driver->cuMemSetAccess(address, range_size(attempt),
                                                   &desc, 1);
}

/* Map one region. The driver only maps whole allocations, so it rejects an
 * announced size that is wrong. */
static CUresult region_map(const gpu_attempt_t *attempt, unsigned index,
                           CUdeviceptr address, const char **call_p)
{
    const mem_cuda_driver_t     *driver = attempt->device->driver;
    CUmemGenericAllocationHandle handle = 0;
    CUresult                     result;

    *call_p = "cuMemImportFromShareableHandle";
    result  = driver->cuMemImportFromShareableHandle(
         &handle, (void *)(intptr_t)attempt->fds[index],
         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    *call_p = "cuMemMap";
    result =
        driver->cuMemMap(address, (size_t)attempt->share->size, 0, handle, 0);
    /* The mapping keeps a reference to the memory. */
    mem_cuda_ignore(driver, driver->cuMemRelease(handle), "cuMemRelease");
    return result;
}

/* Unmap the first num_regions regions. Each mapping must be unmapped
 * separately. */
static void regions_unmap(const gpu_attempt_t *attempt, unsigned num_regions,
                          CUdeviceptr address)
{
    const mem_cuda_driver_t *driver = attempt->device->driver;
    size_t                   size   = (size_t)attempt->share->size;

    for (unsigned i = 0; i < num_regions; i++) {
        mem_cuda_ignore(driver, driver->cuMemUnmap(address + i * size, size),
                        "cuMemUnmap");
    }
}

/* Map the peer's regions side by side. */
static ucxpool_status_t files_map(const gpu_attempt_t *attempt,
                                  CUdeviceptr         *address_p)
{
    const mem_cuda_driver_t *driver = attempt->device->driver;
    size_t                   size   = (size_t)attempt->share->size;
    const char              *call   = "cuMemAddressReserve";
    unsigned                 num    = 0;
    CUresult                 result;

    result =
        driver->cuMemAddressReserve(address_p, range_size(attempt), 0, 0, 0);
    if (result != CUDA_SUCCESS) {
        return map_error(attempt, result, call);
    }
    while ((num < attempt->num_regions) && (result == CUDA_SUCCESS)) {
        result = region_map(attempt, num, *address_p + num * size, &call);
        num += (result == CUDA_SUCCESS) ? 1 : 0;
    }
    if (result == CUDA_SUCCESS) {
        call   = "cuMemSetAccess";
        result = rights_set(attempt, *address_p);
    }
    if (result != CUDA_SUCCESS) {
        goto err_unmap;
    }
    return UCXPOOL_OK;

err_unmap:
    regions_unmap(attempt, num, *address_p);
    mem_cuda_range_free(driver, *address_p, range_size(attempt));
    return map_error(attempt, result, call);
}

static ucxpool_status_t share_check(const gpu_attempt_t *attempt)
{
    const ipc_cuda_t *share = attempt->share;

    if ((share->size == 0) || (attempt->num_regions == 0) ||
        (share->size > PTRDIFF_MAX / attempt->num_regions)) {
        return base_error(UCXPOOL_ERR_PROTOCOL,
                          "a peer announced %u regions of %" PRIu64 " bytes",
                          attempt->num_regions, share->size);
    }
    if ((share->way != IPC_CUDA_IPC) && (share->way != IPC_CUDA_FILE)) {
        return base_error(
            UCXPOOL_ERR_PROTOCOL,
            "a peer announced GPU memory with unknown sharing method %" PRIu32,
            share->way);
    }
    if (share->way == IPC_CUDA_IPC) {
        return attempt->num_regions == 1
                   ? UCXPOOL_OK
                   : base_error(UCXPOOL_ERR_PROTOCOL,
                                "a peer announced %u regions with one handle",
                                attempt->num_regions);
    }
    for (unsigned i = 0; i < attempt->num_regions; i++) {
        if (attempt->fds[i] < 0) {
            return base_error(
                UCXPOOL_ERR_PROTOCOL,
                "a peer's region of GPU memory has no descriptor");
        }
    }
    if (!attempt->device->has_vmm) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "GPU %d (%s) or its driver has no virtual memory "
                          "functions, and a peer's memory needs them",
                          attempt->device->ordinal, attempt->device->name);
    }
    return UCXPOOL_OK;
}

ucxpool_status_t ipc_cuda_map(const mem_cuda_device_t *device,
                              const ipc_cuda_t *share, const int *fds,
                              unsigned num_regions, bool is_written,
                              const void **address_p)
{
    const gpu_attempt_t attempt = {device, share, fds, num_regions, is_written};
    CUdeviceptr         address = 0;
    ucxpool_status_t    status  = share_check(&attempt);

    if (status != UCXPOOL_OK) {
        return status;
    }
    status = mem_cuda_device_enter(device);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = share->way == IPC_CUDA_IPC ? map_handle(&attempt, &address)
                                        : files_map(&attempt, &address);
    mem_cuda_device_leave(device);
    if (status == UCXPOOL_OK) {
        *address_p = (const void *)(uintptr_t)address;
    }
    return status;
}

void ipc_cuda_unmap(const mem_cuda_device_t *device, const ipc_cuda_t *share,
                    unsigned num_regions, const void *address)
{
    const gpu_attempt_t attempt = {device, share, NULL, num_regions, false};
    CUdeviceptr         there   = (CUdeviceptr)(uintptr_t)address;

    if (mem_cuda_device_enter(device) != UCXPOOL_OK) {
        return;
    }
    if (share->way == IPC_CUDA_IPC) {
        ipc_close(device, there);
    } else {
        regions_unmap(&attempt, num_regions, there);
        mem_cuda_range_free(device->driver, there, range_size(&attempt));
    }
    mem_cuda_device_leave(device);
}

/* --- host memory for a GPU ------------------------------------------------ */

/* Call between enter and leave. */
static void unpin(const mem_cuda_device_t *device,
                  const uint8_t *const *regions, unsigned num_regions)
{
    for (unsigned i = 0; i < num_regions; i++) {
        mem_cuda_unpin(device, (void *)(uintptr_t)regions[i]);
    }
}

ucxpool_status_t ipc_cuda_pin(const mem_cuda_device_t *device,
                              const uint8_t *const    *regions,
                              const uint64_t *sizes, unsigned num_regions)
{
    ucxpool_status_t status = mem_cuda_device_enter(device);
    unsigned         num    = 0;

    if (status != UCXPOOL_OK) {
        return status;
    }
    while ((num < num_regions) && (status == UCXPOOL_OK)) {
        status = mem_cuda_pin(device, (void *)(uintptr_t)regions[num],
                              (size_t)sizes[num], true);
        num += (status == UCXPOOL_OK) ? 1 : 0;
    }
    if (status != UCXPOOL_OK) {
        unpin(device, regions, num);
    }
    mem_cuda_device_leave(device);
    return status;
}

void ipc_cuda_unpin(const mem_cuda_device_t *device,
                    const uint8_t *const *regions, unsigned num_regions)
{
    if (mem_cuda_device_enter(device) == UCXPOOL_OK) {
        unpin(device, regions, num_regions);
        mem_cuda_device_leave(device);
    }
}
