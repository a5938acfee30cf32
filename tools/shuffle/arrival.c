#include <config.h>

#include "tools/shuffle/arrival.h"
#include "tools/shuffle/complaint.h"

#include <stdlib.h>

arrival_t *arrival_create(char *buffer, size_t capacity, uint32_t max_chunks)
{
    arrival_t *arrival = calloc(1, sizeof(*arrival));

    if (arrival == NULL) {
        goto err;
    }
    arrival->buffer     = buffer;
    arrival->capacity   = capacity;
    arrival->max_chunks = max_chunks;
    arrival->chunks     = calloc(max_chunks, sizeof(*arrival->chunks));
    if (arrival->chunks == NULL) {
        goto err;
    }
    return arrival;

err:
    arrival_destroy(arrival);
    complain("out of memory for a batch of %u chunks", max_chunks);
    return NULL;
}

void arrival_destroy(arrival_t *arrival)
{
    if (arrival != NULL) {
        free(arrival->large);
        free(arrival->chunks);
        free(arrival);
    }
}

int arrival_prepare(arrival_t *arrival, unsigned source, size_t length,
                    uint32_t num_chunks, char **memory_p)
{
    if (num_chunks > arrival->max_chunks) {
        return complain("a batch from worker %u has %u chunks, more than %u",
                        source, num_chunks, arrival->max_chunks);
    }
    arrival->source     = source;
    arrival->length     = length;
    arrival->num_chunks = num_chunks;
    if (length <= arrival->capacity) {
        *memory_p = arrival->buffer;
        return 0;
    }
    arrival->large = malloc(length);
    if (arrival->large == NULL) {
        return complain("out of memory for a batch of %zu bytes from worker "
                        "%u",
                        length, source);
    }
    *memory_p = arrival->large;
    return 0;
}

bool arrival_is_large(const arrival_t *arrival)
{
    return arrival->large != NULL;
}

char *arrival_message(const arrival_t *arrival)
{
    return arrival->large != NULL ? arrival->large : arrival->buffer;
}

int arrival_parse(arrival_t *arrival, char *message)
{
    if (batch_parse(message, arrival->length, arrival->num_chunks,
                    arrival->chunks) != 0) {
        return complain("from worker %u: %s", arrival->source,
                        complaint_text());
    }
    return 0;
}

void arrival_reset(arrival_t *arrival)
{
    free(arrival->large);
    arrival->large = NULL;
}
