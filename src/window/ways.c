/*
 * The ways to access a window, best first.
 */
#include "window/window.h"

const window_way_t *const window_ways[] = {
    &window_mapped, &window_process,  &window_device,
    &window_rma,    &window_messages, NULL,
};
