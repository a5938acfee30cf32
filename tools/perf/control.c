#include "perf/control.h"
#include "common/error.h"

#include <stdlib.h>

/* Number of polls without sleeping. Further polls sleep, so that other
 * processes can run. */
#define NUM_LOOKS 1000u

int control_send(control_t *control, const void *data, size_t length)
{
    return control->send(control, data, length);
}

static int wait_message(control_t *control, void *data, size_t size,
                        size_t *length_p)
{
    unsigned looks = 0;
    int      taken = 0;

    while (taken == 0) {
        if (control->idle != NULL) {
            control->idle(control->idle_arg);
        }
        taken = control->poll(control, ++looks > NUM_LOOKS ? 1 : 0, data, size,
                              length_p);
    }
    return taken < 0 ? -1 : 0;
}

int control_recv(control_t *control, void *data, size_t length)
{
    size_t got;

    if (wait_message(control, data, length, &got) != 0) {
        return -1;
    }
    if (got != length) {
        return tool_error("the other process has another version: it sent a "
                          "control message of %zu bytes instead of %zu; run "
                          "the same ucxpool_perf on both sides",
                          got, length);
    }
    return 0;
}

int control_recv_while(control_t *control, void (*idle)(void *arg), void *arg,
                       void *data, size_t length)
{
    int status;

    control->idle     = idle;
    control->idle_arg = arg;
    status            = control_recv(control, data, length);
    control->idle     = NULL;
    return status;
}

int control_swap(control_t *control, const void *mine, void *theirs,
                 size_t length)
{
    return control_send(control, mine, length) != 0
               ? -1
               : control_recv(control, theirs, length);
}

int control_exchange(control_t *control, const void *mine, size_t length,
                     void **theirs_p, size_t *theirs_length_p)
{
    int status = control_send(control, mine, length);

    *theirs_p = tool_calloc(1, CONTROL_MAX);
    if (status == 0) {
        status = wait_message(control, *theirs_p, CONTROL_MAX, theirs_length_p);
    }
    if ((status == 0) && (*theirs_length_p > CONTROL_MAX)) {
        status = tool_error("a control message has %zu bytes, more than the "
                            "limit of %u",
                            *theirs_length_p, CONTROL_MAX);
    }
    if (status != 0) {
        free(*theirs_p);
        *theirs_p = NULL;
    }
    return status;
}
