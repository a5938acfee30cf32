#include <config.h>

#include "sealed.h"

#include <check.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

int sealed_file(size_t size, size_t filled, int seals)
{
    int fd = memfd_create("store", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, (off_t)size), 0);
    ck_assert((filled == 0) || (fallocate(fd, 0, 0, (off_t)filled) == 0));
    ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

void *sealed_map(int fd, size_t offset, size_t size)
{
    void *address =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);

    ck_assert_ptr_ne(address, MAP_FAILED);
    return address;
}

void *sealed_get(size_t size, int *fd_p)
{
    *fd_p = sealed_file(size, size, F_SEAL_SHRINK);
    return sealed_map(*fd_p, 0, size);
}

void sealed_put(void *address, size_t size)
{
    ck_assert_int_eq(munmap(address, size), 0);
}
