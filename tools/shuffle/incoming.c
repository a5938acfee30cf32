#include <config.h>

#include "tools/shuffle/incoming.h"
#include "tools/shuffle/error.h"

#include <stdlib.h>

incoming_t *incoming_create(char *buffer, size_t capacity, uint32_t max_chunks)
{
    incoming_t *incoming = calloc(1, sizeof(*incoming));

    if (incoming == NULL) {
        goto err;
    }
    incoming->buffer     = buffer;
    incoming->capacity   = capacity;
    incoming->max_chunks = max_chunks;
    incoming->chunks     = calloc(max_chunks, sizeof(*incoming->chunks));
    if (incoming->chunks == NULL) {
        goto err;
    }
    return incoming;

err:
    incoming_destroy(incoming);
    say_error("out of memory for a batch of %u chunks", max_chunks);
    return NULL;
}

void incoming_destroy(incoming_t *incoming)
{
    if (incoming != NULL) {
        free(incoming->large);
        free(incoming->chunks);
        free(incoming);
    }
}

int incoming_prepare(incoming_t *incoming, unsigned source, size_t length,
                     uint32_t num_chunks, char **memory_p)
{
    if (num_chunks > incoming->max_chunks) {
        return say_error("a batch from worker %u has %u chunks, more than %u",
                         source, num_chunks, incoming->max_chunks);
    }
    incoming->source     = source;
    incoming->length     = length;
    incoming->num_chunks = num_chunks;
    if (length <= incoming->capacity) {
        *memory_p = incoming->buffer;
        return 0;
    }
    incoming->large = malloc(length);
    if (incoming->large == NULL) {
        return say_error("out of memory for a batch of %zu bytes from worker "
                         "%u",
                         length, source);
    }
    *memory_p = incoming->large;
    return 0;
}

bool incoming_is_large(const incoming_t *incoming)
{
    return incoming->large != NULL;
}

char *incoming_message(const incoming_t *incoming)
{
    return incoming->large != NULL ? incoming->large : incoming->buffer;
}

int incoming_parse(incoming_t *incoming, char *message)
{
    if (batch_parse(message, incoming->length, incoming->num_chunks,
                    incoming->chunks) != 0) {
        return say_error("from worker %u: %s", incoming->source, error_text());
    }
    return 0;
}

void incoming_reset(incoming_t *incoming)
{
    free(incoming->large);
    incoming->large = NULL;
}
