/* Sharing memory files between processes. */
#include <config.h>

#include "base/config.h"
#include "calls.h"
#include "ipc/file.h"
#include "mem/memfd.h"
#include "mem/region.h"
#include "resident.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE   ((size_t)3 << 16)
#define NOBODY 65534

static char        reason[160];
static const void *mapped;

/* This process and its file. */
static ipc_host_t host;
static ipc_file_t file;
static int        fd = -1; /* closed at the end of the test */

static void teardown(void)
{
    if (fd >= 0) {
        close(fd);
        fd = -1;
    }
}

static ucxpool_status_t map(const ipc_host_t *of, const ipc_file_t *what)
{
    reason[0] = '\0';
    mapped    = NULL;
    return ipc_map(of, what, -1, &mapped, reason, sizeof(reason));
}

/* The mapping is rejected with these words, and leaves no trace. */
static void check_refused(const ipc_host_t *of, const ipc_file_t *what,
                          ucxpool_status_t status, const char *words)
{
    unsigned num_fds = fds_count();
    size_t   size    = calls_mapped_size();

    ck_assert_int_eq(map(of, what), status);
    assert_has(reason, words);
    assert_detail(words);
    ck_assert_ptr_null(mapped);
    ck_assert_uint_eq(fds_count(), num_fds);
    ck_assert_uint_eq(calls_mapped_size(), size);
}

static void announce(int of)
{
    ipc_host_fill(&host);
    assert_ok(ipc_file_fill(of, &file));
}

/* Make a file as a careless peer might create it. */
static void make_file(size_t size, int seals)
{
    fd = memfd_create("ucxpool:test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, (off_t)size), 0);
    ck_assert_int_eq(fallocate(fd, 0, 0, (off_t)size), 0);
    ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
    announce(fd);
}

/* Announce any file of this process as a memory file. */
static void check_foreign(int of)
{
    ck_assert_int_ge(of, 0);
    announce(of);
    file.size = SIZE;
    check_refused(&host, &file, UCXPOOL_ERR_PROTOCOL, "not a memory file");
    close(of);
}

/*
 * Another process with a memory file. It writes each byte that it receives to
 * its first byte, and ends when its pipe is closed.
 */
typedef struct owner {
    pid_t      pid;
    int        to;
    int        from;
    ipc_host_t host;
    ipc_file_t file;
} owner_t;

static void read_all(int from, void *data, size_t size)
{
    ck_assert_int_eq(read(from, data, size), (ssize_t)size);
}

static void owner_main(int from, int to, uid_t uid)
{
    ipc_host_t self;
    ipc_file_t own;
    void      *address;
    char       byte;
    int        own_fd;

    if ((uid != geteuid()) && (setresuid(uid, uid, uid) != 0)) {
        _exit(1);
    }
    if (ipc_create("owner", SIZE, &own_fd, &address) != UCXPOOL_OK) {
        _exit(2);
    }
    memset(address, 'o', SIZE);
    ipc_host_fill(&self);
    if ((ipc_file_fill(own_fd, &own) != UCXPOOL_OK) ||
        (write(to, &self, sizeof(self)) != sizeof(self)) ||
        (write(to, &own, sizeof(own)) != sizeof(own))) {
        _exit(3);
    }
    while (read(from, &byte, 1) == 1) {
        *(char *)address = byte;
        if (write(to, &byte, 1) != 1) {
            _exit(4);
        }
    }
    _exit(0);
}

static void owner_start(owner_t *owner, uid_t uid)
{
    int to[2], from[2];

    ck_assert_int_eq(pipe2(to, O_CLOEXEC), 0);
    ck_assert_int_eq(pipe2(from, O_CLOEXEC), 0);
    owner->pid = fork();
    ck_assert_int_ge(owner->pid, 0);
    if (owner->pid == 0) {
        close(to[1]);
        close(from[0]);
        owner_main(to[0], from[1], uid);
    }
    close(to[0]);
    close(from[1]);
    owner->to   = to[1];
    owner->from = from[0];
    read_all(owner->from, &owner->host, sizeof(owner->host));
    read_all(owner->from, &owner->file, sizeof(owner->file));
}

static void owner_write(const owner_t *owner, char byte)
{
    ck_assert_int_eq(write(owner->to, &byte, 1), 1);
    read_all(owner->from, &byte, 1);
}

static void owner_end(owner_t *owner)
{
    close(owner->to);
    ck_assert_int_eq(test_exit_of(owner->pid), 0);
    close(owner->from);
}

static void owner_kill(owner_t *owner)
{
    test_kill(owner->pid);
    close(owner->to);
    close(owner->from);
}

/* Run a check in a child process. It returns 0, or 77 to skip the test. */
static void run_in_child(int (*check)(void))
{
    pid_t child = fork();
    int   status;

    if (child == 0) {
        _exit(check());
    }
    status = test_exit_of(child);
    ck_assert_msg((status == 0) || (status == 77), "%d", status);
}

/* --- use ---------------------------------------------------------------- */

TEST_SETTINGS(.teardown = teardown);

TEST(this_process_has_the_same_host_and_user)
{
    ipc_host_fill(&host);
    ck_assert_uint_eq(host.pid, (uint32_t)getpid());
    ck_assert_uint_eq(host.uid, (uint32_t)geteuid());
    ck_assert(ipc_host_is_alive(&host));
    ck_assert_msg(ipc_host_fits(&host, reason, sizeof(reason)), "%s", reason);
    ck_assert_str_eq(reason, "same host and user");
}

TEST(blanks_and_parentheses_in_the_name_do_not_hide_the_start_time)
{
    ck_assert_int_eq(prctl(PR_SET_NAME, ") R 1 (2 3) 4"), 0);
    ipc_host_fill(&host);
    ck_assert(ipc_host_is_alive(&host));
    ck_assert_int_eq(prctl(PR_SET_NAME, "plain"), 0);
    ck_assert(ipc_host_is_alive(&host));
}

TEST(changes_in_a_peers_file_are_visible)
{
    owner_t owner;

    owner_start(&owner, geteuid());
    ck_assert(ipc_host_fits(&owner.host, reason, sizeof(reason)));
    assert_ok(map(&owner.host, &owner.file));
    for (size_t i = 0; i < SIZE; i++) {
        if (((const char *)mapped)[i] != 'o') {
            ck_abort_msg("byte %zu differs", i);
        }
    }
    owner_write(&owner, 'x');
    ck_assert_int_eq(*(const char *)mapped, 'x');
    ipc_unmap(mapped, SIZE);
    owner_end(&owner);
}

static void *own_file; /* mapped by this process */

/* Inherited descriptors are not used. */
static int check_own_file(void)
{
    close(fd);
    munmap(own_file, SIZE);
    return (map(&host, &file) == UCXPOOL_OK) && (strcmp(mapped, "mine") == 0)
               ? 0
               : 1;
}

TEST(two_processes_map_each_others_files)
{
    owner_t owner;

    assert_ok(ipc_create("mine", SIZE, &fd, &own_file));
    announce(fd);
    memcpy(own_file, "mine", 5);
    owner_start(&owner, geteuid());
    assert_ok(map(&owner.host, &owner.file));
    run_in_child(check_own_file);
    ipc_unmap(mapped, SIZE);
    owner_end(&owner);
    ipc_unmap(own_file, SIZE);
}

TEST(a_mapping_outlives_its_owner)
{
    owner_t owner;

    owner_start(&owner, geteuid());
    assert_ok(map(&owner.host, &owner.file));
    owner_kill(&owner);
    ck_assert_int_eq(((const char *)mapped)[SIZE - 1], 'o');
    ipc_unmap(mapped, SIZE);
}

TEST(a_mapping_cannot_be_made_writable)
{
    owner_t owner;

    owner_start(&owner, geteuid());
    assert_ok(map(&owner.host, &owner.file));
    ck_assert_int_eq(
        mprotect((void *)(uintptr_t)mapped, SIZE, PROT_READ | PROT_WRITE), -1);
    ck_assert_int_eq(errno, EACCES);
    ipc_unmap(mapped, SIZE);
    owner_end(&owner);
}

TEST(a_mapping_holds_no_descriptor_and_unmap_leaves_no_trace)
{
    unsigned num_fds;
    size_t   size;
    owner_t  owner;

    owner_start(&owner, geteuid());
    num_fds = fds_count();
    size    = calls_mapped_size();
    assert_ok(map(&owner.host, &owner.file));
    ck_assert_uint_eq(fds_count(), num_fds);
    ipc_unmap(mapped, SIZE);
    ck_assert_uint_eq(calls_mapped_size(), size);
    owner_end(&owner);
}

TEST(regions_of_host_memory_are_shared)
{
    mem_regions_t regions;

    assert_ok(mem_regions_init(&regions, &mem_kind_host, -1, 2, (size_t)2 << 20,
                               BASE_SWITCH_TRY));
    for (unsigned i = 0; i < 2; i++) {
        announce(regions.regions[i].fd);
        ck_assert_uint_eq(file.size, regions.region_size);
        assert_ok(map(&host, &file));
        strcpy(regions.regions[i].address, "region");
        ck_assert_str_eq(mapped, "region");
        ipc_unmap(mapped, file.size);
    }
    mem_regions_cleanup(&regions);
}

TEST(a_mapping_is_resident_in_the_pages_that_were_read)
{
    size_t size = (size_t)8 << 20;
    size_t before;

    make_file(size, F_SEAL_SHRINK);
    before = resident_size();
    assert_ok(map(&host, &file));
    ck_assert_int_eq(*(const char *)mapped, 0);
    ck_assert_uint_lt(resident_size(), before + size / 2);
    ipc_unmap(mapped, file.size);
}

TEST(huge_pages_are_shared_if_the_machine_has_some)
{
    mem_regions_t regions;

    if (mem_regions_init(&regions, &mem_kind_host, -1, 1, (size_t)2 << 20,
                         BASE_SWITCH_YES) != UCXPOOL_OK) {
        fprintf(stderr, "skipped: no free huge pages of 2 MiB\n");
        return;
    }
    announce(regions.regions[0].fd);
    ck_assert_uint_eq(file.huge_page_shift, 21);
    assert_ok(map(&host, &file));
    strcpy(regions.regions[0].address, "huge");
    ck_assert_str_eq(mapped, "huge");
    ipc_unmap(mapped, file.size);
    file.huge_page_shift = 0;
    check_refused(&host, &file, UCXPOOL_ERR_PROTOCOL, "pages");
    mem_regions_cleanup(&regions);
}

TEST(a_control_file_is_zero_and_sealed_and_mapped_for_writing)
{
    size_t size = 5000;
    void  *address, *second;
    int    seals;

    assert_ok(ipc_create("control", size, &fd, &address));
    for (size_t i = 0; i < size; i++) {
        ck_assert_int_eq(((char *)address)[i], 0);
    }
    memset(address, 1, size);
    seals = fcntl(fd, F_GET_SEALS);
    ck_assert_int_eq(seals & (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL),
                     F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    if (mem_memfd_is_private(fd)) {
        second = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        ck_assert_ptr_eq(second, MAP_FAILED);
    }
    ipc_unmap(address, size);
}

TEST(the_end_of_a_peer_is_detected)
{
    owner_t       owner;
    struct pollfd event = {.events = POLLIN};

    owner_start(&owner, geteuid());
    event.fd = ipc_watch(&owner.host);
    if (event.fd < 0) {
        fprintf(stderr, "skipped: no pidfd_open here\n");
        owner_end(&owner);
        return;
    }
    ck_assert_int_eq(poll(&event, 1, 0), 0);
    owner_kill(&owner);
    ck_assert_int_eq(poll(&event, 1, -1), 1);
    close(event.fd);
}

/* --- incompatible hosts -------------------------------------------------- */

static void check_misfit(const ipc_host_t *of, const char *words)
{
    ck_assert(!ipc_host_fits(of, reason, sizeof(reason)));
    assert_has(reason, words);
}

TEST(an_unknown_host_is_not_treated_as_another)
{
    ipc_host_fill(&host);
    memset(host.boot_id, 0, sizeof(host.boot_id));
    check_misfit(&host, "the peer cannot read its /proc");
    ipc_host_fill(&host);
    host.pid_namespace = 0;
    check_misfit(&host, "the peer cannot read its /proc");
}

TEST(our_identity_is_known_without_descriptors)
{
    ipc_host_t again;
    uint64_t   limit;

    ipc_host_fill(&host);
    limit = fds_limit(0);
    ipc_host_fill(&again);
    fds_limit(limit);
    ck_assert_uint_ne(host.start_time, 0);
    ck_assert_mem_eq(&host, &again, sizeof(host));
}

TEST(another_host_is_rejected)
{
    ipc_host_fill(&host);
    host.boot_id[15] ^= 1;
    host.start_time++;
    check_misfit(&host, "other host");
    ck_assert(!ipc_host_has_ended(&host));
}

TEST(another_user_is_rejected)
{
    ipc_host_fill(&host);
    host.uid++;
    check_misfit(&host, "other user");
}

TEST(a_process_with_another_start_time_is_not_mapped_or_watched)
{
    unsigned num_fds = fds_count();
    void    *address;

    assert_ok(ipc_create("mine", SIZE, &fd, &address));
    announce(fd);
    host.start_time++;
    check_misfit(&host, "has ended");
    check_refused(&host, &file, UCXPOOL_ERR_PEER_LOST, "has ended");
    ck_assert_int_eq(ipc_watch(&host), -1);
    ipc_unmap(address, SIZE);
    teardown();
    ck_assert_uint_eq(fds_count(), num_fds);
}

TEST(a_dead_process_is_not_mapped_or_watched)
{
    owner_t owner;

    owner_start(&owner, geteuid());
    owner_end(&owner);
    ck_assert(ipc_host_has_ended(&owner.host));
    check_misfit(&owner.host, "has ended");
    check_refused(&owner.host, &owner.file, UCXPOOL_ERR_PEER_LOST, "has ended");
    ck_assert_int_eq(ipc_watch(&owner.host), -1);
}

/* An error of the system does not mean that the process has ended. */
TEST_EACH(a_process_that_cannot_be_checked_counts_as_alive, 4)
{
    static const int errors[] = {EMFILE, ENFILE, ENOMEM, EACCES};
    void            *address;

    assert_ok(ipc_create("mine", SIZE, &fd, &address));
    announce(fd);
    calls_fail_from(CALLS_FOPEN, 1, errors[_i]);
    ck_assert(!ipc_host_is_reaped(&host));
    ck_assert(!ipc_host_is_alive(&host));
    ck_assert(!ipc_host_has_ended(&host));
    check_refused(&host, &file, UCXPOOL_ERR_PERMISSION, "still runs");
    calls_reset();
    ck_assert(ipc_host_is_alive(&host));
    ipc_unmap(address, SIZE);
}

/* At first it is a zombie. */
TEST(the_end_of_a_process_is_known_without_descriptors)
{
    owner_t    owner;
    ipc_host_t own;
    siginfo_t  info;

    owner_start(&owner, geteuid());
    ipc_host_fill(&own); /* like a pool that has no peers yet */
    calls_fail_from(CALLS_FOPEN, 1, EMFILE);
    ck_assert(!ipc_host_has_ended(&owner.host));
    close(owner.to);
    ck_assert_int_eq(waitid(P_PID, (id_t)owner.pid, &info, WEXITED | WNOWAIT),
                     0);
    ck_assert(ipc_host_has_ended(&owner.host));
    ck_assert_int_eq(waitpid(owner.pid, NULL, 0), owner.pid);
    ck_assert(ipc_host_has_ended(&owner.host));
    calls_reset();
    close(owner.from);
}

TEST_EACH(only_these_errors_mean_that_a_process_has_ended, 2)
{
    static const int errors[] = {ENOENT, ESRCH};

    ipc_host_fill(&host);
    calls_fail_from(CALLS_FOPEN, 1, errors[_i]);
    ck_assert(ipc_host_is_reaped(&host));
    ck_assert(ipc_host_has_ended(&host));
    calls_reset();
    ck_assert(!ipc_host_is_reaped(&host));
    host.start_time++;
    ck_assert(ipc_host_is_reaped(&host));
}

TEST(invalid_process_ids_are_rejected)
{
    static const uint32_t pids[] = {0, 0x80000000u, UINT32_MAX};

    ipc_host_fill(&host);
    for (size_t i = 0; i < sizeof(pids) / sizeof(pids[0]); i++) {
        host.pid = pids[i];
        check_misfit(&host, "has ended");
        ck_assert_int_eq(ipc_watch(&host), -1);
    }
}

TEST(a_proc_of_another_pid_namespace_matches_no_peer)
{
    ipc_host_fill(&host);
    calls_fail_from(CALLS_READLINK, 1, ENOENT);
    check_misfit(&host, "/proc belongs to");
    ck_assert(!ipc_host_has_ended(&host));
    calls_reset();
    ck_assert(ipc_host_fits(&host, reason, sizeof(reason)));
    ck_assert(!ipc_host_has_ended(&host));
}

TEST(an_unreadable_proc_matches_no_peer)
{
    host = (ipc_host_t){0};
    calls_fail_from(CALLS_FOPEN, 1, EACCES);
    check_misfit(&host, "/proc of this process cannot be read");
    calls_fail(CALLS_FOPEN, 2, EACCES);
    ipc_host_fill(&host);
    calls_fail(CALLS_FOPEN, 1, EACCES);
    check_misfit(&host, "/proc belongs to");
    calls_reset();
    ipc_host_fill(&host);
    calls_fail(CALLS_FOPEN, 1, EACCES);
    check_misfit(&host, "cannot be read");
    calls_reset();
    ck_assert(ipc_host_fits(&host, reason, sizeof(reason)));
}

TEST(without_pidfds_no_peer_is_watched)
{
    ipc_host_fill(&host);
    calls_fail(CALLS_SYSCALL, 1, ENOSYS);
    ck_assert_int_eq(ipc_watch(&host), -1);
    calls_reset();
}

TEST(a_reason_is_truncated_to_its_buffer)
{
    char text[6];

    ipc_host_fill(&host);
    host.boot_id[0] ^= 1;
    ck_assert(!ipc_host_fits(&host, text, sizeof(text)));
    ck_assert_str_eq(text, "other");
}

/* Runs in a PID namespace of its own: checks the parent's identity, and reports
 * its own. */
static void stranger_main(int to)
{
    ipc_host_t own;
    pid_t      pid;
    int        status;

    if (unshare(CLONE_NEWPID) != 0) {
        _exit(77);
    }
    pid = fork();
    if (pid == 0) {
        if (ipc_host_is_visible(&host)) {
            _exit(1);
        }
        ipc_host_fill(&own);
        _exit(write(to, &own, sizeof(own)) == sizeof(own) ? 0 : 2);
    }
    _exit((waitpid(pid, &status, 0) == pid) && WIFEXITED(status)
              ? WEXITSTATUS(status)
              : 3);
}

TEST(a_pid_of_another_namespace_is_not_used)
{
    const ipc_file_t none = {.size = SIZE, .fd = 0};
    ipc_host_t       stranger;
    pid_t            pid;
    int              pipes[2];
    int              status;

    ipc_host_fill(&host);
    ck_assert_int_eq(pipe2(pipes, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0) {
        stranger_main(pipes[1]);
    }
    status = test_exit_of(pid);
    if (status == 77) {
        fprintf(stderr, "skipped: no PID namespace can be created here\n");
    } else {
        ck_assert_int_eq(status, 0);
        read_all(pipes[0], &stranger, sizeof(stranger));
        ck_assert(!ipc_host_is_visible(&stranger));
        ck_assert(ipc_host_fits(&stranger, reason, sizeof(reason)));
        ck_assert(!ipc_host_is_alive(&stranger));
        ck_assert(!ipc_host_is_reaped(&stranger));
        ck_assert(!ipc_host_has_ended(&stranger));
        ck_assert_int_eq(ipc_watch(&stranger), -1);
        check_refused(&stranger, &none, UCXPOOL_ERR_PERMISSION,
                      "other PID namespace");
    }
    close(pipes[0]);
    close(pipes[1]);
}

/* Without a map, the user is reported as nobody, like all other users. */
static int check_unmapped_user(void)
{
    if ((geteuid() == 0) && (setresuid(NOBODY, NOBODY, NOBODY) != 0)) {
        return 77;
    }
    if (!ipc_user_is_ours((uint32_t)geteuid())) {
        return 1;
    }
    if (unshare(CLONE_NEWUSER) != 0) {
        return 77;
    }
    ipc_host_fill(&host);
    return !ipc_user_is_ours(NOBODY) &&
                   !ipc_host_fits(&host, reason, sizeof(reason)) &&
                   (strstr(reason, "does not map its user") != NULL)
               ? 0
               : 2;
}

TEST(a_user_that_its_namespace_does_not_map_fits_no_peer)
{
    run_in_child(check_unmapped_user);
}

/* Enter a user namespace that maps only user 5, to NOBODY. Exits if this is
 * impossible. */
static void enter_namespace_as_5(void)
{
    static const char line[] = "5 65534 1";

    if (((geteuid() != NOBODY) && (setresuid(NOBODY, NOBODY, NOBODY) != 0)) ||
        (prctl(PR_SET_DUMPABLE, 1) != 0) || (unshare(CLONE_NEWUSER) != 0)) {
        _exit(77);
    }
    fd = open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC);
    if ((fd < 0) || (write(fd, line, strlen(line)) < 0)) {
        _exit(77);
    }
    close(fd);
}

/* Without a mount over kernel.overflowuid, the check is skipped. */
static int check_overflow_user(void)
{
    char path[] = "/tmp/test_share.XXXXXX";
    int  number;
    bool done;

    enter_namespace_as_5();
    number = mkstemp(path);
    if ((number < 0) || (write(number, "5\n", 2) != 2)) {
        return 1;
    }
    done = (unshare(CLONE_NEWNS) == 0) &&
           (mount(path, "/proc/sys/kernel/overflowuid", "none", MS_BIND,
                  NULL) == 0);
    unlink(path);
    close(number);
    if (!done) {
        return 77;
    }
    return (geteuid() == 5) && !ipc_user_is_ours(5) ? 0 : 2;
}

TEST(the_user_of_unmapped_users_is_read_from_the_kernel)
{
    run_in_child(check_overflow_user);
}

static int check_unread_map(void)
{
    uint64_t limit;

    enter_namespace_as_5();
    limit = fds_limit(0);
    ipc_host_fill(&host);
    if ((host.uid != IPC_NO_USER) ||
        ipc_host_fits(&host, reason, sizeof(reason)) ||
        (strstr(reason, "uid_map cannot be read") == NULL)) {
        return 2;
    }
    fds_limit(limit);
    ipc_host_fill(&host);
    return (host.uid == NOBODY) && ipc_host_fits(&host, reason, sizeof(reason))
               ? 0
               : 3;
}

TEST(the_user_in_a_namespace_is_unknown_without_descriptors)
{
    ipc_host_fill(&host); /* the boot id is read only once */
    run_in_child(check_unread_map);
}

/* --- rejected files ---------------------------------------------------- */

TEST(an_unsealed_file_is_rejected)
{
    make_file(SIZE, F_SEAL_GROW);
    check_refused(&host, &file, UCXPOOL_ERR_PERMISSION, "not sealed");
    ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    assert_ok(map(&host, &file));
    ipc_unmap(mapped, SIZE);
}

TEST(a_truncated_file_is_rejected)
{
    make_file(SIZE, 0);
    ck_assert_int_eq(ftruncate(fd, (off_t)SIZE - 1), 0);
    ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    check_refused(&host, &file, UCXPOOL_ERR_PROTOCOL,
                  "but the owner announced");
}

TEST(a_sparse_file_is_rejected)
{
    fd = memfd_create("ucxpool:hollow", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ck_assert_int_eq(ftruncate(fd, (off_t)1 << 40), 0);
    ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    announce(fd);
    check_refused(&host, &file, UCXPOOL_ERR_PROTOCOL, "backed by memory");
}

/* The file is rejected if one field of its announcement has another value. */
#define CHECK_REFUSED_WITH(_field, _value, _words) \
    do { \
        ipc_file_t wrong_ = file; \
        wrong_._field     = (_value); \
        check_refused(&host, &wrong_, UCXPOOL_ERR_PROTOCOL, (_words)); \
    } while (0)

TEST(a_file_other_than_the_announced_one_is_rejected)
{
    make_file(SIZE, F_SEAL_SHRINK);
    CHECK_REFUSED_WITH(inode, file.inode + 1, "not the one announced");
    CHECK_REFUSED_WITH(device, file.device + 1, "not the one announced");
}

TEST(a_closed_descriptor_is_rejected)
{
    make_file(SIZE, F_SEAL_SHRINK);
    teardown();
    check_refused(&host, &file, UCXPOOL_ERR_PERMISSION, "cannot be opened");
}

TEST(invalid_descriptors_and_sizes_are_rejected)
{
    make_file(SIZE, F_SEAL_SHRINK);
    CHECK_REFUSED_WITH(fd, -1, "descriptor is negative");
    CHECK_REFUSED_WITH(fd, INT32_MIN, "descriptor is negative");
    CHECK_REFUSED_WITH(size, 0, "a file of 0 bytes");
    CHECK_REFUSED_WITH(size, UINT64_MAX, "cannot be mapped");
    CHECK_REFUSED_WITH(size, (uint64_t)1 << 62, "but the owner announced");
    CHECK_REFUSED_WITH(size, SIZE + 1, "but the owner announced");
    host.pid = 0;
    check_refused(&host, &file, UCXPOOL_ERR_PROTOCOL, "PID");
    host.pid = UINT32_MAX;
    check_refused(&host, &file, UCXPOOL_ERR_PROTOCOL, "PID");
}

TEST(invalid_page_sizes_are_rejected)
{
    static const uint32_t shifts[] = {1, 11, 41, 63, 64, UINT32_MAX, 21};

    make_file(SIZE, F_SEAL_SHRINK);
    ck_assert_uint_eq(file.huge_page_shift, 0);
    for (size_t i = 0; i < sizeof(shifts) / sizeof(shifts[0]); i++) {
        file.huge_page_shift = shifts[i];
        check_refused(&host, &file, UCXPOOL_ERR_PROTOCOL, "page size 2^");
    }
    file.huge_page_shift = 16;
    check_refused(&host, &file, UCXPOOL_ERR_PROTOCOL, "announced page size");
}

TEST(a_pipe_a_device_and_a_plain_file_are_rejected)
{
    int   pipes[2];
    FILE *plain = tmpfile();

    ck_assert_int_eq(pipe2(pipes, O_CLOEXEC), 0);
    check_foreign(pipes[0]);
    check_foreign(pipes[1]);
    check_foreign(open("/dev/null", O_RDWR | O_CLOEXEC));
    ck_assert_ptr_nonnull(plain);
    check_foreign(dup(fileno(plain)));
    fclose(plain);
}

TEST(a_fifo_is_rejected_without_blocking)
{
    char path[] = "/tmp/ucxpool-test-XXXXXX";
    char fifo[sizeof(path) + 5];

    ck_assert_ptr_nonnull(mkdtemp(path));
    snprintf(fifo, sizeof(fifo), "%s/fifo", path);
    ck_assert_int_eq(mkfifo(fifo, 0600), 0);
    /* Opening the FIFO only for reading would block until a writer opens it. */
    check_foreign(open(fifo, O_RDWR | O_CLOEXEC));
    unlink(fifo);
    rmdir(path);
}

static void swap_for_a_pipe(void)
{
    int pipes[2];

    ck_assert_int_eq(pipe2(pipes, O_CLOEXEC), 0);
    ck_assert_int_eq(dup3(pipes[0], fd, O_CLOEXEC), fd);
    close(pipes[0]);
    close(pipes[1]);
}

TEST(a_file_replaced_during_the_check_is_rejected)
{
    make_file(SIZE, F_SEAL_SHRINK);
    calls_after_readlink(swap_for_a_pipe);
    check_refused(&host, &file, UCXPOOL_ERR_PROTOCOL, "not the one announced");
}

TEST(the_file_of_another_user_is_rejected)
{
    owner_t owner;

    if (geteuid() != 0) {
        fprintf(stderr, "skipped: only root can be another user\n");
        return;
    }
    owner_start(&owner, NOBODY);
    check_misfit(&owner.host, "other user");
    check_refused(&owner.host, &owner.file, UCXPOOL_ERR_PERMISSION,
                  "another user");
    owner_end(&owner);
}

static int check_as_another_user(void)
{
    if (setresuid(NOBODY, NOBODY, NOBODY) != 0) {
        return 1;
    }
    if (ipc_host_fits(&host, reason, sizeof(reason)) ||
        (strstr(reason, "other user") == NULL)) {
        return 2;
    }
    if (map(&host, &file) != UCXPOOL_ERR_PERMISSION) {
        return 3;
    }
    return strstr(reason, "cannot be opened") != NULL ? 0 : 4;
}

TEST(another_user_cannot_open_our_files)
{
    if (geteuid() != 0) {
        fprintf(stderr, "skipped: only root can be another user\n");
        return;
    }
    make_file(SIZE, F_SEAL_SHRINK);
    run_in_child(check_as_another_user);
}

/* --- failing system calls ------------------------------------------------ */

TEST_EACH(mapping_can_be_retried_after_a_failed_call, 6)
{
    static const struct {
        calls_name_t     name;
        unsigned         num_errors; /* how many calls must not fail */
        ucxpool_status_t status;
    } rows[] = {
        {CALLS_READLINK, 1, UCXPOOL_ERR_PERMISSION},
        {CALLS_OPEN, 2, UCXPOOL_ERR_PERMISSION},
        {CALLS_FSTAT, 1, UCXPOOL_ERR_PERMISSION},
        {CALLS_FSTATFS, 1, UCXPOOL_ERR_PERMISSION},
        {CALLS_FCNTL, 1, UCXPOOL_ERR_PERMISSION},
        {CALLS_MMAP, 2, UCXPOOL_ERR_NO_MEMORY},
    };
    unsigned n;

    make_file(SIZE, F_SEAL_SHRINK);
    for (n = 1;; n++) {
        unsigned         num_fds = fds_count();
        size_t           size    = calls_mapped_size();
        ucxpool_status_t status;

        calls_fail(rows[_i].name, n, ENOMEM);
        status = map(&host, &file);
        if (!calls_has_failed()) {
            assert_ok(status);
            break;
        }
        calls_reset();
        ck_assert_int_eq(status, rows[_i].status);
        ck_assert_str_ne(reason, "");
        ck_assert_ptr_null(mapped);
        ck_assert_uint_eq(fds_count(), num_fds);
        ck_assert_uint_eq(calls_mapped_size(), size);
    }
    calls_reset();
    ck_assert_uint_eq(n - 1, rows[_i].num_errors);
    ipc_unmap(mapped, SIZE);
}

TEST(a_mapping_without_permission_reports_the_reason)
{
    make_file(SIZE, F_SEAL_SHRINK);
    calls_fail(CALLS_MMAP, 2, EPERM);
    assert_error(map(&host, &file), PERMISSION);
    calls_reset();
}

TEST_EACH(creation_can_be_retried_after_a_failed_call, 6)
{
    static const struct {
        calls_name_t     name;
        int              error;
        ucxpool_status_t status;
    } rows[] = {
        {CALLS_MEMFD_CREATE, ENOMEM, UCXPOOL_ERR_NO_MEMORY},
        {CALLS_MEMFD_CREATE, EMFILE, UCXPOOL_ERR_IO},
        {CALLS_FTRUNCATE, EIO, UCXPOOL_ERR_IO},
        {CALLS_FALLOCATE, ENOSPC, UCXPOOL_ERR_NO_MEMORY},
        {CALLS_MMAP, ENOMEM, UCXPOOL_ERR_NO_MEMORY},
        {CALLS_FCNTL, EPERM, UCXPOOL_ERR_PERMISSION},
    };
    unsigned num_fds = fds_count();
    size_t   size    = calls_mapped_size();
    void    *address = NULL;
    unsigned n;

    for (n = 1;; n++) {
        ucxpool_status_t status;

        calls_fail_from(rows[_i].name, n, rows[_i].error);
        status = ipc_create("control", SIZE, &fd, &address);
        if (!calls_has_failed()) {
            calls_reset();
            assert_ok(status);
            break;
        }
        calls_reset();
        if (status == UCXPOOL_OK) {
            /* The calls after the n-th are optional. */
            ck_assert_int_eq(rows[_i].name, CALLS_FCNTL);
            ipc_unmap(address, SIZE);
            close(fd);
            fd      = -1;
            address = NULL;
            continue;
        }
        ck_assert_int_eq(status, rows[_i].status);
        assert_detail("control");
        ck_assert_ptr_null(address);
        ck_assert_int_eq(fd, -1);
        ck_assert_uint_eq(fds_count(), num_fds);
        ck_assert_uint_eq(calls_mapped_size(), size);
    }
    ck_assert_uint_gt(n, 1);
    ipc_unmap(address, SIZE);
}

TEST(an_invalid_descriptor_cannot_be_announced)
{
    assert_error(ipc_file_fill(-1, &file), IO);
}
