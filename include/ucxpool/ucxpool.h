/*
 * libucxpool: a fixed pool of registered memory blocks, and messages that are
 * sent through them.
 *
 * Terms:
 *
 *   region    one physical allocation, mapped once, registered once
 *   block     a fixed-size piece of a region; messages are packed into blocks
 *   pool      a fixed set of blocks, and the transfers that use them
 *   channel   the connection to one peer
 *   segment   {address, length}: a piece of a caller's buffer
 *   message   the data of one send: a descriptor, then the bytes of its
 *             segments
 *   request   one send, receive, read or write in progress
 *   wire      the transport of a channel: `map` (same host) or `ucx` (any peer)
 *
 * Path of a message:
 *
 *   segments -> gather -> block --wire--> scatter -> segments
 *                  \                         /
 *                   in place if the memory belongs to the pool
 *
 * A complete sender:
 *
 *   ucxpool_create(NULL, &pool);
 *   ucxpool_channel_connect(pool, "127.0.0.1:7000", NULL, &channel);
 *   ucxpool_send_buffer(channel, data, length, 1, NULL, &request);
 *   status = ucxpool_request_wait(request, UCXPOOL_FOREVER);
 *   ucxpool_request_release(request);
 *   ucxpool_destroy(pool);
 *
 * Names. A function is named after the object that it creates or acts on:
 * ucxpool_request_wait(), ucxpool_window_create(),
 * ucxpool_remote_window_read(). If the object is a pool, its name is omitted:
 * ucxpool_create(), ucxpool_progress(). ucxpool_send(), ucxpool_recv() and
 * ucxpool_probe() exchange messages.
 *
 * Releasing objects. The last part of a function's name indicates what the
 * function releases:
 *
 *   _destroy     an object that was created: pool, listener, window
 *   _close       a channel; _abort closes it at once
 *   _release     an object that the library returned: request, remote window,
 *                address, settings
 *   _free        memory of ucxpool_comm_alloc(), ucxpool_heap_alloc(),
 *                ucxpool_device_list_alloc() and the allocators of framework.h;
 *                strings (ucxpool_string_free())
 *   _put         a block: returns it to its pool
 *   _stream_end  the heap's use of a stream: ucxpool_heap_stream_end() forgets
 *                the stream
 *   _deregister  the registration of a pool in a protection domain (verbs.h)
 *
 * If the object or the address is NULL, these functions do nothing. One
 * exception is ucxpool_heap_stream_end(), for which a NULL stream is the legacy
 * default stream. A probed message is released by ucxpool_message_recv() or
 * ucxpool_message_refuse(). ucxpool_destroy() also releases all objects of the
 * pool and frees its memory.
 *
 * Timeouts. All timeouts are in nanoseconds. If the timeout of a function
 * expires, the function returns UCXPOOL_INPROGRESS. UCXPOOL_ERR_TIMED_OUT has a
 * different meaning: the deadline of a request has passed.
 *
 * Structs. The functions that query an object take the size of the struct that
 * they fill. If the library is newer than the program, it fills only the fields
 * that fit in this size. If the library is older, it sets the rest of the
 * struct to 0. A struct that the caller fills has either a mask of the fields
 * that are set, or `reserved` fields, which must be 0. Structs that come in
 * arrays, such as ucxpool_event_t and ucxpool_range_t, never change their size
 * and have `reserved` fields, which are 0 in the structs that the library
 * fills. There are two exceptions. ucxpool_op_t may grow, because
 * ucxpool_post() takes its size. ucxpool_segment_t, ucxpool_const_segment_t and
 * ucxpool_place_t have no `reserved` fields, because their arrays can be long.
 *
 * docs/reference/api.md lists the few calls that most programs need, the calls
 * that may block, the calls that are allowed in callbacks, and how long
 * returned pointers stay valid.
 *
 * Headers: status.h (errors), log.h (the log), config.h (settings), pool.h
 * (create and progress), memory.h (blocks and registered buffers), channel.h
 * (peers), event.h (events of channels and listeners), transfer.h (send and
 * receive), window.h (memory that peers read and write directly), batch.h (many
 * operations in one call), heap.h (memory of any size), stats.h (counters),
 * device.h (GPUs) and verbs.h (keys for the application's own RDMA).
 * framework.h has the allocators for PyTorch, CuPy and RMM. It belongs to
 * libucxpool-framework and is not included here. For C++ there are ucxpool.hpp
 * (handles, exceptions, coroutines) and rmm.hpp (a resource for RMM 26.10 and
 * later).
 */
#ifndef UCXPOOL_UCXPOOL_H
#define UCXPOOL_UCXPOOL_H

#include <ucxpool/batch.h>
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
