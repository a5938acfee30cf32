/*
 * A double of virtual memory by hand, for those who stand on it: it stands
 * before another kind, counts calls, makes them fail, and holds what it is
 * asked against a model of what there is. Whatever breaks the contract of
 * mem/vmm.h ends the process by abort(), with a sentence: a chunk that is
 * mapped where something is, destroyed while it is mapped, unmapped in part,
 * used by work that may run at the same time as other work, or left behind.
 *
 * On host memory it can have streams of its own (virtual_streams.h), which go
 * on when a test says so: then it says of itself that it is no host memory.
 *
 * Like what it stands for it is thread-safe.
 */
#ifndef TESTS_VMM_DOUBLE_H
#define TESTS_VMM_DOUBLE_H

#include "mem/vmm.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum vmm_call {
    VMM_RESERVE,
    VMM_CHUNK_CREATE,
    VMM_MAP,
    VMM_ALLOW,
    VMM_UNMAP,
    VMM_FENCE_SET,
    VMM_FENCE_IS_REACHED, /* it fails by saying no */
    VMM_FENCE_WAIT,
    VMM_FENCE_SYNC,
    VMM_SIZES,
    VMM_CAN_FAIL, /* those before */
    VMM_RELEASE = VMM_CAN_FAIL,
    VMM_CHUNK_DESTROY,
    VMM_FENCE_PUT,
    VMM_LAST
} vmm_call_t;

/*
 * inner        Belongs to the double from now on, which destroys it.
 * has_streams  Streams of its own; inner is host memory then.
 *
 * The double's destroy() requires that nothing is left.
 */
mem_vmm_t *vmm_double_create(mem_vmm_t *inner, bool has_streams);

/* A double of host memory. */
mem_vmm_t *vmm_double_create_host(bool has_streams);

/*
 * Make the n-th call from now (from 1; 0: none) fail with this status, once.
 * Counting starts anew.
 *
 * call  VMM_LAST: any that can fail.
 */
void vmm_double_fail(mem_vmm_t *vmm, vmm_call_t call, unsigned n,
                     ucxpool_status_t status);
/* Has a call failed because of that? */
bool vmm_double_has_failed(mem_vmm_t *vmm);

/* Calls since vmm_double_fail(), or the start; VMM_LAST: all. */
unsigned vmm_double_count(mem_vmm_t *vmm, vmm_call_t call);

/* There is no more memory than this, for chunks in all; from the start, what
 * inner has. */
void vmm_double_limit(mem_vmm_t *vmm, uint64_t size);

/* Bytes of chunks, and of addresses to which a chunk is mapped. */
uint64_t vmm_double_held(mem_vmm_t *vmm);
uint64_t vmm_double_mapped(mem_vmm_t *vmm);
/* Chunks, and mappings of chunks. */
size_t vmm_double_num_chunks(mem_vmm_t *vmm);
size_t vmm_double_num_mappings(mem_vmm_t *vmm);
/* Fences that have been set and not put. */
size_t vmm_double_num_fences(mem_vmm_t *vmm);

/* Are these two bytes the same, through different mappings? Both are mapped. */
bool vmm_double_is_same(mem_vmm_t *vmm, const void *a, const void *b);

/*
 * Post work that uses a range, all of it mapped and allowed, in a stream of the
 * double's. When the stream comes to it, `work` is called, if there is any; it
 * makes no call of the double.
 */
void vmm_double_post(mem_vmm_t *vmm, void *stream, const void *address,
                     size_t size, void (*work)(void *arg), void *arg);

/* Let streams go on, see virtual_streams.h; nobody sees that but fences. */
unsigned vmm_double_run(mem_vmm_t *vmm, void *stream, unsigned num);
void     vmm_double_run_all(mem_vmm_t *vmm);
/* Wait for a stream, as its user may. */
void vmm_double_sync(mem_vmm_t *vmm, void *stream);

#endif
