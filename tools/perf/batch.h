/*
 * What the two processes say to each other about a batch.
 *
 *     leader     BATCH ------------>  follower   posts what it expects
 *                <------------ READY
 *                ====== messages =====>
 *                <------------- DONE             verified where asked
 *
 * Where the messages go both ways at once, the leader posts what it expects
 * first, and what comes to it is verified there. Where it reads or writes the
 * follower's memory by itself, it says OVER when that is done:
 *
 *                ==== reads, writes ==>          progresses, or sleeps
 *     leader     OVER ------------->
 *
 * and where both do it, the leader waits for the follower's OVER before.
 */
#ifndef PERF_BATCH_H
#define PERF_BATCH_H

#include "perf/samples.h"
#include "perf/stage.h"

/* Send one batch of a side. verify: fill the memory afresh, and have the
 * receiver compare every byte. */
int batch_lead(stage_t *stage, unsigned side, uint64_t num_messages,
               bool verify, samples_t *times, double *seconds_p);

/* Serve batches until the leader says that it was the last. */
int batch_follow(stage_t *stage);

/* Say that it was the last. */
int batch_end(stage_t *stage);

#endif
