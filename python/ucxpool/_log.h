/*
 * Keeps the library's log messages until a thread with the GIL takes them. The
 * library may hold a lock when it logs, and a thread with the GIL may wait for
 * that lock. So no function here waits for the GIL, or has a lock of its own,
 * which another thread could hold during a fork().
 */
#ifndef UCXPOOL_PYTHON_LOG_H
#define UCXPOOL_PYTHON_LOG_H

#include <ucxpool/log.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* At most this many messages are kept; further ones are only counted. */
#define LOG_MAX_KEPT 1000

typedef struct log_entry {
    struct log_entry *next;
    double            time; /* seconds since 1970 */
    int               level;
    char              message[];
} log_entry_t;

static log_entry_t *log_newest;
static unsigned     log_num_kept;
static unsigned     log_num_lost;

/* A ucxpool_log_handler_t. */
static void log_keep(ucxpool_log_level_t level, const char *message, void *arg)
{
    size_t          size  = strlen(message) + 1;
    log_entry_t    *entry = NULL;
    struct timespec now;

    (void)arg;
    if (__atomic_load_n(&log_num_kept, __ATOMIC_RELAXED) < LOG_MAX_KEPT) {
        entry = malloc(sizeof(*entry) + size);
    }
    if (entry == NULL) {
        __atomic_fetch_add(&log_num_lost, 1, __ATOMIC_RELAXED);
        return;
    }
    __atomic_fetch_add(&log_num_kept, 1, __ATOMIC_RELAXED);
    clock_gettime(CLOCK_REALTIME, &now);
    entry->time  = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
    entry->level = (int)level;
    memcpy(entry->message, message, size);
    entry->next = __atomic_load_n(&log_newest, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&log_newest, &entry->next, entry, 1,
                                        __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
    }
}

static int log_has_some(void)
{
    return __atomic_load_n(&log_newest, __ATOMIC_RELAXED) != NULL;
}

/* Take all messages, oldest first. The caller frees each of them. */
static log_entry_t *log_take(void)
{
    log_entry_t *newest =
        __atomic_exchange_n(&log_newest, NULL, __ATOMIC_ACQUIRE);
    log_entry_t *oldest = NULL;

    while (newest != NULL) {
        log_entry_t *next = newest->next;

        __atomic_fetch_sub(&log_num_kept, 1, __ATOMIC_RELAXED);
        newest->next = oldest;
        oldest       = newest;
        newest       = next;
    }
    return oldest;
}

/* The number of messages lost since the last call. */
static unsigned log_take_num_lost(void)
{
    return __atomic_exchange_n(&log_num_lost, 0, __ATOMIC_RELAXED);
}

#endif
