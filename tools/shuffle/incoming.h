/*
 * An incoming batch: a batch from another worker, on its way in or ready to be
 * written. They are few and made once; where none is idle, messages wait
 * with their senders.
 *
 *     idle -> (receiving) -> ready -> idle
 */
#ifndef SHUFFLE_INCOMING_H
#define SHUFFLE_INCOMING_H

#include "tools/shuffle/batch.h"

typedef struct incoming {
    struct incoming *next;
    void            *context; /* the receiver's */
    unsigned         source;  /* worker */
    char            *buffer;  /* borrowed; may be of a GPU */
    size_t           capacity;
    char            *large; /* memory of a message over the capacity */
    size_t           length;
    chunk_t         *chunks;
    uint32_t         max_chunks;
    uint32_t         num_chunks;
} incoming_t;

/* buffer: capacity bytes, borrowed, aligned to 16. NULL with an error. */
incoming_t *incoming_create(char *buffer, size_t capacity, uint32_t max_chunks);
void        incoming_destroy(incoming_t *incoming);

/*
 * Prepare for a message of that length and number of chunks: *memory_p is
 * where it goes. Returns -1 with an error.
 */
int incoming_prepare(incoming_t *incoming, unsigned source, size_t length,
                     uint32_t num_chunks, char **memory_p);

/* It needs memory of its own, of the host's. */
bool incoming_is_large(const incoming_t *incoming);

/* Where the message is. */
char *incoming_message(const incoming_t *incoming);

/* Find the chunks of the message, which is there, or has been copied elsewhere.
 * Returns -1 with an error. */
int incoming_parse(incoming_t *incoming, char *message);

/* Done with it: give back memory that only this message needed. */
void incoming_reset(incoming_t *incoming);

#endif
