/*
 * How much of its BAR1 a GPU can really give to registrations: less than all,
 * because the driver keeps some for itself, and no function tells how much. So
 * there is a table of devices, and a file that adds to it and overrides it:
 *
 *     # NAME [WINDOW] = SIZE
 *     Tesla T4 [256m] = 200m
 *     NVIDIA RTX A4000 = 210m
 *     * [64m] = 32m
 *     NVIDIA H100* = none
 *
 * NAME is what the driver calls the device, in any case; * stands for any
 * letters, also none. WINDOW is the size of BAR1; without it the line is for
 * every size. SIZE is what may be registered; none: all of the window. The last
 * line that fits counts, and the file's come after the table's. Empty lines,
 * and those that begin with #, mean nothing.
 */
#ifndef BLOCK_PRESET_H
#define BLOCK_PRESET_H

#include <ucxpool/status.h>

#include <stdbool.h>
#include <stdint.h>

/* Of a preset that sets no limit. */
#define BLOCK_PRESET_NONE UINT64_MAX

typedef struct block_preset {
    bool     is_found;
    uint64_t limit;     /* bytes, or BLOCK_PRESET_NONE */
    char     from[176]; /* in words: "the preset 'Tesla T4' [256m]" */
} block_preset_t;

/*
 * Find a device's preset. Every line of the file is read, so that a bad one is
 * told whether it is for this device or not.
 *
 * path       File; "" for none.
 * name       As the driver says it.
 * bar1_size  0: not known. Then only lines without a window fit, and those of
 *            the table that name the device.
 *
 * UCXPOOL_ERR_INVALID_PARAM  the file cannot be read, or a line of it is wrong;
 *                            the detail names both
 */
ucxpool_status_t block_preset_find(const char *path, const char *name,
                                   uint64_t        bar1_size,
                                   block_preset_t *preset_p);

#endif
