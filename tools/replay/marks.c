#include "replay/marks.h"
#include "replay/error.h"

#include <string.h>

#define STRIDE (UINT64_C(2) << 20)

/* A mark: bytes of an allocation. */
typedef struct mark {
    uint64_t offset;
    size_t   length; /* 0: none yet */
} mark_t;

static size_t at_most_a_word(uint64_t size)
{
    return size < sizeof(uint64_t) ? (size_t)size : sizeof(uint64_t);
}

/* Go on to the next mark, behind this one. False: this one ends with the
 * allocation. */
static bool next_mark(uint64_t size, mark_t *mark)
{
    uint64_t end  = mark->offset + mark->length;
    uint64_t last = size - at_most_a_word(size);

    if (mark->length == 0) {
        mark->length = at_most_a_word(size);
        return true;
    }
    if (end == size) {
        return false;
    }
    mark->offset += STRIDE;
    mark->offset = mark->offset < last ? mark->offset : last;
    mark->offset = mark->offset > end ? mark->offset : end;
    mark->length = at_most_a_word(size - mark->offset);
    return true;
}

static int copy(device_t *device, void *target, const void *source,
                size_t length, void *stream)
{
    CUresult result;

    if (device->ordinal == DEVICE_HOST) {
        memcpy(target, source, length);
        return 0;
    }
    result = device->gpu.driver.cuMemcpyAsync(
        gpu_address(target), gpu_address(source), length, stream);
    return result == CUDA_SUCCESS
               ? 0
               : device_fail(device, result, "a mark cannot be copied");
}

static int wait(device_t *device, void *stream)
{
    CUresult result;

    if (device->ordinal == DEVICE_HOST) {
        return 0;
    }
    result = device->gpu.driver.cuStreamSynchronize(stream);
    return result == CUDA_SUCCESS
               ? 0
               : device_fail(device, result, "a mark was not copied");
}

int marks_write(device_t *device, void *address, uint64_t size, uint64_t word,
                void *stream)
{
    mark_t mark = {0};

    while (next_mark(size, &mark)) {
        if (copy(device, (char *)address + mark.offset, &word, mark.length,
                 stream) != 0) {
            return -1;
        }
    }
    return wait(device, stream);
}

int marks_check(device_t *device, void *address, uint64_t size, uint64_t word,
                void *stream)
{
    mark_t   mark = {0};
    uint64_t found;

    while (next_mark(size, &mark)) {
        found = 0;
        if ((copy(device, &found, (char *)address + mark.offset, mark.length,
                  stream) != 0) ||
            (wait(device, stream) != 0)) {
            return -1;
        }
        if (memcmp(&found, &word, mark.length) != 0) {
            return replay_error("somebody wrote into %llu bytes of memory at "
                                "%p, %llu bytes behind its begin, while they "
                                "were live",
                                (unsigned long long)size, address,
                                (unsigned long long)mark.offset);
        }
    }
    return 0;
}
