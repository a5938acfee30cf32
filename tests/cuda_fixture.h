/*
 * The CUDA driver of a test: the stand-in, or with TEST_CUDA=real the driver of
 * this machine. To be used in checked fixtures, because the driver does not
 * work after a fork.
 */
#ifndef TESTS_CUDA_FIXTURE_H
#define TESTS_CUDA_FIXTURE_H

#include "mem/cuda_device.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>

/* The functions of cuda_stand_in/stand_in.h in the loaded library. Do not call
 * them on the real driver. */
typedef struct cuda_stand_in {
    void (*configure)(const char *text);
    unsigned (*count)(const char *name);
    void (*fail_call)(const char *name, unsigned n, int result);
    int (*has_failed)(void);
    unsigned (*step)(unsigned num);
    int (*priority)(CUstream stream);
    unsigned (*live)(void);
    void *(*bytes)(unsigned long long address, size_t size);
    void (*reset_context)(int device);
} cuda_stand_in_t;

extern cuda_stand_in_t stand_in;

/* Two libraries: the stand-in, and a stand-in for an old driver without virtual
 * memory and without cuGetProcAddress(). */
#define CUDA_STAND_IN_PATH     STAND_IN_DIR "/libstand_in.so"
#define CUDA_OLD_STAND_IN_PATH STAND_IN_DIR "/libold_stand_in.so"

bool cuda_is_real(void);

/* Returns true if there is a driver for these tests. A child process tries
 * it. */
bool cuda_is_present(void);

/* For tests that only the stand-in can run. */
bool cuda_is_stand_in(void);
#define STAND_IN_TEST_EACH(_name, _num) \
    TEST_WITH(_name, .end = _num, .only_if = cuda_is_stand_in)
#define STAND_IN_TEST(_name) STAND_IN_TEST_EACH(_name, 1)

/* Use the stand-in with this configuration; does nothing on the real driver. */
void cuda_start(const char *configuration);

/* Call a function of the driver in a device's context. */
#define CUDA_MUST(_device, _function, ...) \
    do { \
        assert_ok(mem_cuda_device_enter(_device)); \
        ck_assert_int_eq((_device)->driver->_function(__VA_ARGS__), \
                         CUDA_SUCCESS); \
        mem_cuda_device_leave(_device); \
    } while (0)

/* Returns the number of devices of the driver. */
int cuda_num_devices(void);

/* Copy bytes between host memory and memory of the driver, synchronously. */
void cuda_write(CUcontext context, const void *target, const void *source,
                size_t size);
void cuda_read(CUcontext context, void *target, const void *source,
               size_t size);

#endif
