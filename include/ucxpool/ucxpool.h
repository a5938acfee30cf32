/*
 * libucxpool: a fixed pool of registered blocks, and messages through it.
 *
 * The words used everywhere:
 *
 *   region    one physical allocation, mapped once, registered once
 *   block     a fixed-size piece of a region: the unit of packing and quotas
 *   pool      all blocks within a byte budget, and what is sent through them
 *   channel   the connection to one peer
 *   segment   {address, length}: a piece of a caller's buffer
 *   message   one send: a descriptor, then the bytes of its segments
 *   request   one send or receive in progress
 *   wire      what carries the bytes: `map` (same host) or `ucx` (any peer)
 *
 * The way of a message:
 *
 *   segments -> gather -> block --wire--> scatter -> segments
 *                  \                         /
 *                   in place where the memory is the pool's own
 *
 * A sender in full:
 *
 *   ucxpool_create(NULL, &pool);
 *   ucxpool_channel_connect(pool, "127.0.0.1:7000", NULL, &channel);
 *   ucxpool_send_buffer(channel, data, length, 1, NULL, &request);
 *   status = ucxpool_request_wait(request, UCXPOOL_FOREVER);
 *   ucxpool_request_release(request);
 *   ucxpool_destroy(pool);
 *
 * Handles. What was created is destroyed (_destroy: pools, listeners), a
 * channel is closed or aborted (_close, _abort), and what the caller was given
 * to keep is released (_release: requests, settings, addresses). Memory is
 * freed
 * (_free), blocks are put back (_put), and a registration is undone
 * (_deregister). What ends a handle takes NULL, too, and does nothing then.
 *
 * Waiting. Every function that waits takes a time in nanoseconds, and returns
 * UCXPOOL_INPROGRESS when it is over and what it waits for has not come.
 * UCXPOOL_ERR_TIMED_OUT is something else: how a request ends whose deadline
 * has passed.
 *
 * Structs. Those that the library fills are given with their size, as the
 * program was compiled: fields that the program does not know are left out,
 * and those that an older library does not know are 0. Those that the program
 * fills have a mask of the fields that are set, or `reserved` ones, which are
 * 0.
 *
 * docs/reference/api.md lists the calls that may wait, those allowed in
 * callbacks, how long returned values are valid, and the few calls that most
 * programs need.
 *
 * Headers: status.h errors, log.h the log, config.h settings, pool.h create and
 * progress, memory.h blocks and registered buffers, channel.h peers, event.h
 * what they have to tell, transfer.h send and receive, window.h memory that
 * peers read and write by themselves, heap.h memory of any size, stats.h
 * counters, device.h GPUs and verbs.h RDMA by one's own. framework.h, with the
 * allocators of PyTorch, CuPy and RMM, is that of libucxpool-framework and not
 * included here.
 */
#ifndef UCXPOOL_UCXPOOL_H
#define UCXPOOL_UCXPOOL_H

#include <ucxpool/channel.h>
#include <ucxpool/config.h>
#include <ucxpool/device.h>
#include <ucxpool/event.h>
#include <ucxpool/heap.h>
#include <ucxpool/log.h>
#include <ucxpool/memory.h>
#include <ucxpool/pool.h>
#include <ucxpool/stats.h>
#include <ucxpool/status.h>
#include <ucxpool/transfer.h>
#include <ucxpool/verbs.h>
#include <ucxpool/version.h>
#include <ucxpool/window.h>

#endif
