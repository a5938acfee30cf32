/*
 * Functions of libucxpool, which is loaded by dlopen() on request of Java code
 * and not by the dynamic linker. UCX must not read the environment before
 * UCX_ERROR_SIGNALS is set. Otherwise UCX's handler of SIGSEGV would catch the
 * faults that HotSpot uses (safepoints, null checks) and kill the JVM. The same
 * holds for SIGHUP, on which the JVM exits cleanly.
 */
#ifndef JNI_LIBRARY_H
#define JNI_LIBRARY_H

#include <ucxpool/ucxpool.h>

#include <stdbool.h>

/* The names of the public functions that are called. */
#define LIBRARY_FUNCTIONS(F) \
    F(arm) \
    F(channel_abort) \
    F(channel_close) \
    F(channel_connect) \
    F(channel_query) \
    F(channel_stats_count) \
    F(channel_stats_query) \
    F(channel_stats_read) \
    F(comm_alloc) \
    F(comm_free) \
    F(completion_get) \
    F(config_modify) \
    F(config_read) \
    F(config_release) \
    F(config_set_secret) \
    F(create) \
    F(data_segments) \
    F(destroy) \
    F(error_detail) \
    F(event_fd) \
    F(event_get) \
    F(heap_alloc) \
    F(heap_free) \
    F(heap_trim) \
    F(histogram_count) \
    F(histogram_get) \
    F(histogram_query) \
    F(listener_accept) \
    F(listener_create) \
    F(listener_destroy) \
    F(listener_port) \
    F(message_lengths) \
    F(message_query) \
    F(message_recv) \
    F(message_refuse) \
    F(post) \
    F(probe) \
    F(progress) \
    F(range_file) \
    F(range_memory) \
    F(request_cancel) \
    F(request_query) \
    F(request_release) \
    F(send) \
    F(source_ranges) \
    F(source_segments) \
    F(stats_count) \
    F(stats_query) \
    F(stats_read) \
    F(status_string)

#define LIBRARY_FIELD(name) __typeof__(ucxpool_##name) *name;

typedef struct library {
    LIBRARY_FUNCTIONS(LIBRARY_FIELD)
} library_t;

/* The functions. library_open() must succeed before any of them is called. */
extern library_t library;

/*
 * Open libucxpool once per process. After a success, further calls succeed and
 * do nothing.
 *
 * path  The file, or a name that the dynamic linker finds.
 * why   [out] The reason for a failure, in words; of why_size bytes.
 */
bool library_open(const char *path, char *why, size_t why_size);

#endif
