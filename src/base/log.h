/*
 * The log. Lines up to the level of the setting LOG_LEVEL are written to
 * stderr, or passed to the handler of <ucxpool/log.h>.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

typedef enum base_log_level {
    BASE_LOG_NONE,
    BASE_LOG_ERROR,
    BASE_LOG_WARN,
    BASE_LOG_INFO,
    BASE_LOG_DEBUG,
    BASE_LOG_TRACE
} base_log_level_t;

void             base_log_set_level(base_log_level_t level);
base_log_level_t base_log_get_level(void);

/* Set the level that is in effect until base_log_set_level() is called. */
void base_log_set_initial_level(base_log_level_t level);

void base_log_write(base_log_level_t level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Arguments are not evaluated if the level is disabled. */
#define base_log(_level, ...) \
    do { \
        if ((_level) <= base_log_get_level()) { \
            base_log_write((_level), __VA_ARGS__); \
        } \
    } while (0)

#define base_warn(...)  base_log(BASE_LOG_WARN, __VA_ARGS__)
#define base_info(...)  base_log(BASE_LOG_INFO, __VA_ARGS__)
#define base_debug(...) base_log(BASE_LOG_DEBUG, __VA_ARGS__)

#endif
