/*
 * Fuzz target: one message of a peer, through the parser of messages.
 *
 *     0   1   size of the fixed part
 *     1       the fixed part, then the variable part
 *
 * A message that the parser accepts must be safe in the rest of the library.
 */
#include "fuzz.h"

#include "base/error.h"
#include "base/log.h"
#include "base/math.h"
#include "copy/list.h"
#include "copy/plan.h"
#include "core/proto.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TEXT 64

static char told[512];

const char *fuzz_told(void)
{
    return told;
}

/* A copy of exactly that size, so that reads beyond it are detected. */
static uint8_t *copy_of(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size != 0 ? size : 1);

    if (size != 0) {
        memcpy(copy, data, size);
    }
    return copy;
}

static void check_text(const uint8_t *data, size_t size)
{
    char text[MAX_TEXT];

    proto_copy_text(text, sizeof(text), data, size);
    CHECK(strlen(text) <= size);
    for (const char *c = text; *c != '\0'; c++) {
        CHECK((*c >= ' ') && (*c <= '~'));
    }
}

/* The bytes of an eager message follow its runs and metadata. */
static void check_eager(const proto_desc_t *desc, const copy_run_t *runs,
                        const copy_totals_t *totals, const uint8_t *stream)
{
    const size_t      size    = (size_t)totals->payload_size;
    char             *target  = malloc(size + 1);
    ucxpool_segment_t segment = {target, size};
    copy_memory_t     memory  = copy_memory_of_segments(&segment, 1);
    copy_plan_t       plan;
    unsigned          sum = 0;

    CHECK(totals->stream_size <= PROTO_DATA_MAX);
    copy_plan_init(&plan, runs, desc->num_runs, totals, &memory);
    copy_scatter(&plan, 0, totals->stream_size, stream);
    for (size_t i = 0; i < size; i++) {
        sum += (unsigned char)target[i];
    }
    CHECK(sum <= 255 * size);
    free(target);
}

static void check_desc(const proto_desc_t *desc, const uint8_t *data,
                       size_t size)
{
    const size_t  runs_size = desc->num_runs * sizeof(copy_run_t);
    copy_run_t   *runs;
    copy_totals_t totals;

    if (desc->flags & PROTO_DESC_RUNS) {
        /* The bytes arrive later, or never. */
        CHECK((size <= PROTO_DATA_MAX) && (desc->num_runs > 0));
        return;
    }
    CHECK(runs_size + desc->metadata_size <= size);
    runs = (copy_run_t *)copy_of(data, runs_size);
    if (proto_check_desc(desc, runs, size - runs_size, &totals) != UCXPOOL_OK) {
        snprintf(told, sizeof(told), "refused: %s", ucxpool_error_detail());
    } else {
        CHECK(totals.payload_size == desc->payload_size);
        CHECK(totals.payload_size <= PROTO_SIZE_MAX);
        if (desc->flags & PROTO_DESC_EAGER) {
            check_eager(desc, runs, &totals,
                        data + runs_size + desc->metadata_size);
        } else {
            CHECK(size == runs_size + desc->metadata_size);
        }
    }
    free(runs);
}

static void check_message(const proto_fixed_t *message, const uint8_t *data,
                          size_t size)
{
    switch (message->head.type) {
    case PROTO_HELLO:
        CHECK(message->hello.num_files <= PROTO_FILES_MAX);
        CHECK(size == message->hello.num_files * sizeof(ipc_file_t));
        break;
    case PROTO_WINDOW_OPENED:
        if (message->window_opened.flags & PROTO_OPENED_KEY) {
            CHECK(!(message->window_opened.flags &
                    (PROTO_OPENED_CUDA | PROTO_OPENED_PARTS |
                     PROTO_OPENED_VIRTUAL)));
            CHECK(size <= PROTO_KEY_MAX);
            break;
        }
        CHECK(!(message->window_opened.flags & PROTO_OPENED_VIRTUAL) ||
              (size <= ipc_virtual_layout_size(IPC_VIRTUAL_RUNS_MAX)));
        CHECK(size <= PROTO_PARTS_MAX * sizeof(proto_window_part_t));
        CHECK(!(message->window_opened.flags & PROTO_OPENED_CUDA) ||
              (size == sizeof(proto_window_cuda_t)));
        CHECK(!(message->window_opened.flags & PROTO_OPENED_PARTS) ||
              (size % sizeof(proto_window_part_t) == 0));
        break;
    case PROTO_WINDOW_END:
    case PROTO_READY:
    case PROTO_DONE:
    case PROTO_CANCEL:
        CHECK((message->head.type != PROTO_CANCEL) ||
              (message->cancel.status < 0));
        CHECK(size <= PROTO_TEXT_MAX);
        check_text(data, size);
        break;
    case PROTO_BYE:
        CHECK(message->bye.status <= 0);
        CHECK(size <= PROTO_REASON_MAX);
        check_text(data, size);
        break;
    case PROTO_DESC:
        check_desc(&message->desc, data, size);
        break;
    case PROTO_RUNS:
        CHECK(size == message->runs.num_runs * sizeof(copy_run_t));
        break;
    case PROTO_ACCEPT:
        CHECK(size % sizeof(proto_lent_t) == 0);
        CHECK(size <= PROTO_LENT_MAX * sizeof(proto_lent_t));
        break;
    case PROTO_SHORT:
        CHECK((message->in_short.num != 0) && (message->in_short.length != 0));
        CHECK(message->in_short.length <= PROTO_SHORT_MAX);
        CHECK(size == message->in_short.num *
                          proto_short_size(message->in_short.length));
        break;
    case PROTO_DATA:
        break;
    default:
        CHECK(size == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    proto_fixed_t message;
    size_t        fixed_size;
    uint8_t      *fixed, *variable;

    base_log_set_level(BASE_LOG_NONE);
    told[0] = '\0';
    if (size == 0) {
        return 0;
    }
    fixed_size = base_min((size_t)data[0], size - 1);
    data++;
    size -= 1 + fixed_size;
    fixed    = copy_of(data, fixed_size);
    variable = copy_of(data + fixed_size, size);
    if (proto_parse(fixed, fixed_size, size, &message) == UCXPOOL_OK) {
        CHECK(message.head.version == PROTO_VERSION);
        CHECK(fixed_size == proto_fixed_size(message.head.type));
        CHECK(memcmp(&message, fixed, fixed_size) == 0);
        snprintf(told, sizeof(told), "type %u", message.head.type);
        check_message(&message, variable, size);
    } else {
        snprintf(told, sizeof(told), "refused: %s", ucxpool_error_detail());
    }
    free(fixed);
    free(variable);
    return 0;
}
