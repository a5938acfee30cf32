/*
 * A batch of messages, seen from either end. The same loops drive every side.
 */
#ifndef PERF_EXCHANGE_H
#define PERF_EXCHANGE_H

#include "perf/end.h"
#include "perf/samples.h"

/*
 * Send a batch and time it.
 *
 * times      Gets the seconds from post to reply of each message; NULL: none.
 * seconds_p  [out] From the first post to the last reply.
 */
int exchange_send(end_t *end, uint64_t num_messages, samples_t *times,
                  double *seconds_p);

/*
 * Send a batch and receive one, at the same time.
 *
 * seconds_p  [out] From the first post here until both batches are over.
 */
int exchange_both(end_t *out, end_t *in, uint64_t num_messages,
                  samples_t *times, double *seconds_p);

/* Progress of either of them, as far as they do not share it. in: NULL for
 * none. */
void exchange_progress(end_t *out, end_t *in);

/* Post what the first messages of a batch need. To be called before the sender
 * is told to start. */
int exchange_expect(end_t *end, uint64_t num_messages);

/* Receive the batch and answer it. */
int exchange_recv(end_t *end, uint64_t num_messages);

#endif
