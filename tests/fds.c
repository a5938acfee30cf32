#include "fds.h"

#include "base/math.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/resource.h>

unsigned fds_count(void)
{
    DIR     *dir = opendir("/proc/self/fd");
    unsigned num = 0;

    if (dir == NULL) {
        abort();
    }
    while (readdir(dir) != NULL) {
        num++;
    }
    closedir(dir);
    return num;
}

uint64_t fds_limit(uint64_t num)
{
    struct rlimit limit;
    uint64_t      before;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        abort();
    }
    before         = limit.rlim_cur;
    limit.rlim_cur = base_min(num, (uint64_t)limit.rlim_max);
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
        abort();
    }
    return before;
}
