#include <config.h>

#include "perf/shared_words.h"
#include "perf/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

/* Where the words are, and by what they are known. */
typedef struct offer {
    int32_t  pid;
    int32_t  fd;
    uint64_t mark;
} offer_t;

/* The memory of the words, and the mark that its maker has left. */
typedef struct page {
    shared_words_t words;
    uint64_t       mark;
} page_t;

static page_t *map(int fd)
{
    page_t *page =
        mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    return page == MAP_FAILED ? NULL : page;
}

/* The sender's part: the words, all 0. */
static int make(offer_t *offer, page_t **page_p)
{
    page_t *page;
    int     fd = memfd_create("ucxpool_perf", MFD_CLOEXEC);

    if (fd < 0) {
        return perf_error("memfd_create: %s", strerror(errno));
    }
    page = ftruncate(fd, sizeof(*page)) == 0 ? map(fd) : NULL;
    if ((page == NULL) ||
        (getrandom(&page->mark, sizeof(page->mark), 0) != sizeof(page->mark))) {
        perf_error("no page of shared memory: %s", strerror(errno));
        if (page != NULL) {
            munmap(page, sizeof(*page));
        }
        close(fd);
        return -1;
    }
    *offer  = (offer_t){(int32_t)getpid(), fd, page->mark};
    *page_p = page;
    return 0;
}

/* The receiver's: the same process id on another host leads elsewhere, or
 * nowhere. */
static page_t *find(const offer_t *offer)
{
    char    path[64];
    page_t *page;
    int     fd;

    snprintf(path, sizeof(path), "/proc/%d/fd/%d", offer->pid, offer->fd);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        return NULL;
    }
    page = lseek(fd, 0, SEEK_END) >= (off_t)sizeof(*page) ? map(fd) : NULL;
    close(fd);
    if ((page != NULL) && (page->mark != offer->mark)) {
        munmap(page, sizeof(*page));
        return NULL;
    }
    return page;
}

int shared_words_create(control_t *control, bool is_sender,
                        shared_words_t **words_p)
{
    page_t *page  = NULL;
    offer_t offer = {0, -1, 0};
    uint8_t found = 0;
    int     status;

    if (is_sender) {
        if (make(&offer, &page) != 0) {
            return -1;
        }
        status = control_send(control, &offer, sizeof(offer));
        status =
            status == 0 ? control_recv(control, &found, sizeof(found)) : status;
        close(offer.fd);
    } else {
        status = control_recv(control, &offer, sizeof(offer));
        page   = status == 0 ? find(&offer) : NULL;
        found  = page != NULL;
        status =
            status == 0 ? control_send(control, &found, sizeof(found)) : status;
    }
    if (((status != 0) || !found) && (page != NULL)) {
        munmap(page, sizeof(*page));
        page = NULL;
    }
    *words_p = page == NULL ? NULL : &page->words;
    return status;
}

void shared_words_destroy(shared_words_t *words)
{
    if (words != NULL) {
        munmap(words, sizeof(page_t));
    }
}
