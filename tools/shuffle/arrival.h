/*
 * An arrival: a batch from another worker, on its way in or ready to be
 * written. Arrivals are few and made once; where none is idle, messages wait
 * with their senders.
 *
 *     idle -> (receiving) -> ready -> idle
 */
#ifndef SHUFFLE_ARRIVAL_H
#define SHUFFLE_ARRIVAL_H

#include "tools/shuffle/batch.h"

typedef struct arrival {
    struct arrival *next;
    void           *context; /* of who receives it */
    unsigned        source;  /* worker */
    char           *buffer;  /* borrowed; may be of a GPU */
    size_t          capacity;
    char           *large; /* memory of a message over the capacity */
    size_t          length;
    chunk_t        *chunks;
    uint32_t        max_chunks;
    uint32_t        num_chunks;
} arrival_t;

/* buffer: capacity bytes, borrowed, aligned to 16. NULL with a complaint. */
arrival_t *arrival_create(char *buffer, size_t capacity, uint32_t max_chunks);
void       arrival_destroy(arrival_t *arrival);

/*
 * Prepare for a message of that length and number of chunks: *memory_p is
 * where it goes. Returns -1 with a complaint.
 */
int arrival_prepare(arrival_t *arrival, unsigned source, size_t length,
                    uint32_t num_chunks, char **memory_p);

/* It needs memory of its own, of the host's. */
bool arrival_is_large(const arrival_t *arrival);

/* Where the message is. */
char *arrival_message(const arrival_t *arrival);

/* Find the chunks of the message, which is there, or has been copied elsewhere.
 * Returns -1 with a complaint. */
int arrival_parse(arrival_t *arrival, char *message);

/* Done with it: give back memory that only this message needed. */
void arrival_reset(arrival_t *arrival);

#endif
