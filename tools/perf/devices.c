#include <config.h>

#include "perf/devices.h"
#include "perf/error.h"
#include "perf/memory.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int parse_number(const char **text_p, int32_t *number_p)
{
    char *end;
    long  number;

    if (!isdigit((unsigned char)**text_p)) {
        return -1;
    }
    errno  = 0;
    number = strtol(*text_p, &end, 10);
    if ((errno != 0) || (number > WORK_MAX_DEVICE)) {
        return -1;
    }
    *text_p   = end;
    *number_p = (int32_t)number;
    return 0;
}

int devices_parse(const char *text, int32_t devices[2])
{
    int32_t found[2] = {0, 0};

    if (strncmp(text, "cuda", 4) != 0) {
        return -1;
    }
    text += 4;
    if (*text == ':') {
        text++;
        if (parse_number(&text, &found[0]) != 0) {
            return -1;
        }
        found[1] = found[0];
        if (*text == ',') {
            text++;
            if (parse_number(&text, &found[1]) != 0) {
                return -1;
            }
        }
    }
    if (*text != '\0') {
        return -1;
    }
    memcpy(devices, found, sizeof(found));
    return 0;
}

const char *devices_text(const work_t *work, char text[DEVICES_TEXT_SIZE])
{
    if (!work_is_on_gpu(work)) {
        text[0] = '\0';
    } else if (work->devices[0] == work->devices[1]) {
        snprintf(text, DEVICES_TEXT_SIZE, "cuda:%d", work->devices[0]);
    } else {
        snprintf(text, DEVICES_TEXT_SIZE, "cuda:%d,%d", work->devices[0],
                 work->devices[1]);
    }
    return text;
}

const char *devices_pageable_text(uint32_t pageable)
{
    static const char *const texts[] = {
        [WORK_PAGEABLE_SEND]                      = "send",
        [WORK_PAGEABLE_RECV]                      = "recv",
        [WORK_PAGEABLE_SEND | WORK_PAGEABLE_RECV] = "both",
    };

    return texts[pageable];
}

int devices_parse_pageable(const char *text, uint32_t *pageable_p)
{
    for (uint32_t i = WORK_PAGEABLE_SEND;
         i <= (WORK_PAGEABLE_SEND | WORK_PAGEABLE_RECV); i++) {
        if (strcmp(text, devices_pageable_text(i)) == 0) {
            *pageable_p = i;
            return 0;
        }
    }
    return -1;
}

static int open_each(const int32_t devices[2])
{
    memory_t memory;

    for (int i = 0; i < 2; i++) {
        if ((i == 1) && (devices[1] == devices[0])) {
            break;
        }
        if (memory_init(&memory, devices[i], false) != 0) {
            return -1;
        }
        memory_cleanup(&memory);
    }
    return 0;
}

int devices_check(const int32_t devices[2])
{
    pid_t child;
    int   status = 0;

    fflush(NULL);
    child = fork();
    if (child == 0) {
        _exit(open_each(devices) == 0 ? 0 : 1);
    }
    if (child < 0) {
        return perf_error("fork: %s", strerror(errno));
    }
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            return perf_error("waitpid: %s", strerror(errno));
        }
    }
    if (WIFSIGNALED(status)) {
        return perf_error("looking at the GPU, a process died (%s)",
                          strsignal(WTERMSIG(status)));
    }
    return WEXITSTATUS(status) == 0 ? 0 : -1;
}
