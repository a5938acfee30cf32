#include "stand_in.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <infiniband/verbs.h>

/* Functions that some headers define as macros. */
#undef ibv_reg_mr

#define EXPORT  __attribute__((visibility("default")))
#define MAX_MRS 8192

static struct {
    struct ibv_mr mr;
    bool          is_live;
    bool          is_readable; /* the CPU can read it */
} mrs[MAX_MRS];

static unsigned             num_mrs;
static unsigned             fail_at;
static unsigned             num_calls;
static int                  fail_error;
static bool                 fails_only_files;
static bool                 has_peermem;
static const struct ibv_mr *bound;
static int                  last_access;
static char                 journal[65536];
static char                 read_journal[65536];

static void note(const char *what, unsigned number)
{
    size_t length = strlen(journal);

    snprintf(journal + length, sizeof(journal) - length, "%s%s%u",
             (length == 0) ? "" : " ", what, number);
}

static void require(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "verbs stand-in: %s\n", what);
        abort();
    }
}

/* Can the process read this page? */
static bool is_page_readable(const char *address)
{
    FILE              *file = fopen("/proc/self/maps", "r");
    char               line[512];
    unsigned long long start;
    unsigned long long end;
    char               right;
    bool               answer = false;

    require(file != NULL, "no /proc/self/maps");
    while (!answer && (fgets(line, sizeof(line), file) != NULL)) {
        answer = (sscanf(line, "%llx-%llx %c", &start, &end, &right) == 3) &&
                 ((uintptr_t)address - start < end - start) && (right == 'r');
    }
    fclose(file);
    return answer;
}

static bool is_readable(const void *address, size_t length)
{
    const char *start = address;

    return is_page_readable(start) && is_page_readable(start + length - 1);
}

static bool is_refused(bool is_file)
{
    if ((fail_at == 0) || (fails_only_files && !is_file) ||
        (++num_calls != fail_at)) {
        return false;
    }
    errno = fail_error;
    return true;
}

static struct ibv_mr *refuse(void)
{
    size_t length = strlen(journal);

    snprintf(journal + length, sizeof(journal) - length, "%srefused",
             (length == 0) ? "" : " ");
    return NULL;
}

static void check_overlap(const struct ibv_pd *pd, const char *start,
                          size_t length)
{
    for (unsigned i = 0; i < num_mrs; i++) {
        const char *at = mrs[i].mr.addr;

        require(!mrs[i].is_live || (mrs[i].mr.pd != pd) ||
                    (start + length <= at) || (at + mrs[i].mr.length <= start),
                "a range was registered twice");
    }
}

static struct ibv_mr *add(const char *what, struct ibv_pd *pd, void *address,
                          size_t length, int access)
{
    struct ibv_mr *mr = &mrs[num_mrs].mr;

    require(num_mrs < MAX_MRS, "too many registrations");
    check_overlap(pd, address, length);
    *mr = (struct ibv_mr){
        .context = pd->context,
        .pd      = pd,
        .addr    = address,
        .length  = length,
        .handle  = num_mrs,
        .lkey    = 0x1000 + num_mrs,
        .rkey    = 0x800000 + num_mrs,
    };
    mrs[num_mrs].is_live     = true;
    mrs[num_mrs].is_readable = is_readable(address, length);
    last_access              = access;
    note(what, num_mrs++);
    return mr;
}

static struct ibv_mr *add_range(const char *what, struct ibv_pd *pd,
                                void *address, size_t length, int access)
{
    if (is_refused(false)) {
        return refuse();
    }
    if (!is_readable(address, length) && !has_peermem) {
        errno = EFAULT;
        return refuse();
    }
    return add(what, pd, address, length, access);
}

EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length,
                                 int access)
{
    require((access & IBV_ACCESS_OPTIONAL_RANGE) == 0,
            "ibv_reg_mr was given optional flags");
    return add_range("reg", pd, addr, length, access);
}

#ifndef VERBS_STAND_IN_OLD

EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr,
                                       size_t length, uint64_t iova,
                                       unsigned int access)
{
    require(iova == (uintptr_t)addr, "the address and iova differ");
    return add_range("optional", pd, addr, length, (int)access);
}

EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset,
                                        size_t length, uint64_t iova, int fd,
                                        int access)
{
    struct stat is;

    require(fstat(fd, &is) == 0, "no such file");
    require((uint64_t)is.st_size >= offset + length, "the file is too short");
    if (is_refused(true)) {
        return refuse();
    }
    return add("dmabuf", pd, (void *)(uintptr_t)iova, length, access);
}

#endif

EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
    unsigned number = mr->handle;

    require((number < num_mrs) && (mr == &mrs[number].mr) &&
                mrs[number].is_live,
            "an unregistered range was deregistered");
    require(!mrs[number].is_readable || is_readable(mr->addr, mr->length),
            "the memory was freed before it was deregistered");
    if (mr == bound) {
        return EBUSY;
    }
    mrs[number].is_live = false;
    note("dereg", number);
    return 0;
}

static void refuse_nth(unsigned n, int error, int only_files)
{
    num_calls        = 0;
    fail_at          = n;
    fail_error       = error;
    fails_only_files = only_files != 0;
}

static void bind_windows(const struct ibv_mr *mr)
{
    bound = mr;
}

static void set_peermem(int has)
{
    has_peermem = has != 0;
}

static unsigned live(const struct ibv_pd *pd)
{
    unsigned num = 0;

    for (unsigned i = 0; i < num_mrs; i++) {
        num += mrs[i].is_live && ((pd == NULL) || (mrs[i].mr.pd == pd));
    }
    return num;
}

static const struct ibv_mr *find(const struct ibv_pd *pd, const void *address)
{
    for (unsigned i = 0; i < num_mrs; i++) {
        if (mrs[i].is_live && (mrs[i].mr.pd == pd) &&
            ((uintptr_t)address - (uintptr_t)mrs[i].mr.addr <
             mrs[i].mr.length)) {
            return &mrs[i].mr;
        }
    }
    return NULL;
}

static const char *take_journal(void)
{
    memcpy(read_journal, journal, strlen(journal) + 1);
    journal[0] = '\0';
    return read_journal;
}

static int get_access(void)
{
    return last_access;
}

static void reset(void)
{
    memset(mrs, 0, num_mrs * sizeof(mrs[0]));
    num_mrs          = 0;
    fail_at          = 0;
    num_calls        = 0;
    fail_error       = 0;
    fails_only_files = false;
    has_peermem      = false;
    bound            = NULL;
    last_access      = 0;
    journal[0]       = '\0';
}

EXPORT extern const verbs_stand_in_t verbs_stand_in;
EXPORT const verbs_stand_in_t        verbs_stand_in = {
           refuse_nth, bind_windows, set_peermem, live,
           find,       take_journal, get_access,  reset,
};
