#include <config.h>

#include "two_gpu.h"

#include "segments.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define TAG UINT64_C(42)

static int last_device(void)
{
    const char *num = getenv("TEST_CUDA_DEVICES");

    return (num == NULL) ? 0 : atoi(num) - 1;
}

void two_gpu_start_on(two_t *two, two_side_t parents, two_side_t childs)
{
    int device;

    if (!cuda_is_real()) {
        setenv(MEM_CUDA_DRIVER_VARIABLE, CUDA_STAND_IN_PATH, 1);
    }
    two_init_on(two, parents, childs);
    device = two->is_child ? childs.device : parents.device;
    two_ok(mem_cuda_device_open((device < 0) ? 0 : device, &gpu));
}

void two_gpu_start(two_t *two, const char *settings)
{
    two_gpu_start_on(two, (two_side_t){settings, 0},
                     (two_side_t){settings, last_device()});
}

bool two_gpu_start_apart(two_t *two, const char *parents, const char *childs,
                         bool is_far)
{
    int device = !is_far ? 0 : cuda_is_real() ? last_device() : 1;

    if (is_far && (device == 0)) {
        return false;
    }
    two_gpu_start_on(two, (two_side_t){parents, 0},
                     (two_side_t){childs, device});
    return true;
}

void two_gpu_stop(two_t *two)
{
    two_ok(ucxpool_check(two->pool));
    mem_cuda_device_close(gpu);
    two_cleanup(two);
}

void two_gpu_transfer(two_t *two, bool is_sender, size_t size, size_t length,
                      size_t gap, unsigned seed, uint8_t *memory)
{
    size_t             count    = (size + length - 1) / length;
    ucxpool_segment_t *segments = calloc(count, sizeof(*segments));
    size_t             room     = count * (length + gap);
    uint8_t           *bytes    = malloc(room);
    uint8_t           *expected = malloc(room);
    ucxpool_request_t *request;

    pair_fill_with(expected, room, seed);
    for (size_t i = 0; i < count; i++) {
        segments[i].address = memory + i * (length + gap);
        segments[i].length =
            (i + 1 < count) ? length : size - (count - 1) * length;
    }
    if (!is_sender) {
        memset(bytes, 0xfe, room);
        gpu_write(memory, bytes, room);
        two_ok(recv_segments(two->pool, two->channel, segments, count, TAG,
                             UINT64_MAX, NULL, &request));
        two_ok(two_finish(two, request));
        gpu_read(bytes, memory, room);
        for (size_t i = 0; i < count; i++) {
            size_t at = i * (length + gap);

            two_check(memcmp(bytes + at, expected + at, segments[i].length) ==
                      0);
            for (size_t j = segments[i].length; j < length + gap; j++) {
                two_check(bytes[at + j] == 0xfe);
            }
        }
    } else {
        gpu_write(memory, expected, room);
        two_ok(
            send_segments(two->channel, segments, count, TAG, NULL, &request));
        two_ok(two_finish(two, request));
    }
    free(segments);
    free(bytes);
    free(expected);
}
