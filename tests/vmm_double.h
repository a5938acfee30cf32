/*
 * A double of a virtual memory interface, for tests of the layers above it. It
 * wraps a real one, counts calls, makes them fail, and checks each call against
 * a model. Any violation of the contract of mem/vmm.h ends the process by
 * abort(), with a message: a chunk that is mapped over another, destroyed while
 * it is mapped, unmapped in part, used by unordered concurrent work, or leaked.
 *
 * On host memory it can have its own streams (virtual_streams.h), which run
 * when a test steps them. It then reports that it is not host memory.
 *
 * It is thread-safe, like the real one.
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
    VMM_FENCE_IS_REACHED, /* it fails by returning false */
    VMM_FENCE_WAIT,
    VMM_FENCE_SYNC,
    VMM_SIZES,
    VMM_CAN_FAIL, /* the calls before can fail */
    VMM_RELEASE = VMM_CAN_FAIL,
    VMM_CHUNK_DESTROY,
    VMM_FENCE_PUT,
    VMM_LAST
} vmm_call_t;

/*
 * inner        Owned by the double, which destroys it.
 * has_streams  Use own streams; inner must be host memory.
 *
 * The double's destroy() requires that nothing is left.
 */
mem_vmm_t *vmm_double_create(mem_vmm_t *inner, bool has_streams);

/* A double of host memory. */
mem_vmm_t *vmm_double_create_host(bool has_streams);

/*
 * Make the n-th call from now (from 1; 0: none) fail with this status, once.
 * Restarts the count.
 *
 * call  VMM_LAST: any that can fail.
 */
void vmm_double_fail(mem_vmm_t *vmm, vmm_call_t call, unsigned n,
                     ucxpool_status_t status);
/* Has a call failed because of vmm_double_fail()? */
bool vmm_double_has_failed(mem_vmm_t *vmm);

/* Calls since vmm_double_fail(), or the start; VMM_LAST: all. */
unsigned vmm_double_count(mem_vmm_t *vmm, vmm_call_t call);

/* Limit the memory of all chunks together; by default the limit of inner. */
void vmm_double_limit(mem_vmm_t *vmm, uint64_t size);

/* Bytes of chunks, and of mapped addresses. */
uint64_t vmm_double_held(mem_vmm_t *vmm);
uint64_t vmm_double_mapped(mem_vmm_t *vmm);
/* Chunks, and mappings of chunks. */
size_t vmm_double_num_chunks(mem_vmm_t *vmm);
size_t vmm_double_num_mappings(mem_vmm_t *vmm);
/* Fences that are set and not yet put. */
size_t vmm_double_num_fences(mem_vmm_t *vmm);

/* Do these two addresses lead to the same byte, through different mappings?
 * Both must be mapped. */
bool vmm_double_is_same(mem_vmm_t *vmm, const void *a, const void *b);

/*
 * Post work that uses a range, all of it mapped and allowed, in a stream of the
 * double. When the stream executes it, `work` is called, if not NULL; it must
 * not call the double.
 */
void vmm_double_post(mem_vmm_t *vmm, void *stream, const void *address,
                     size_t size, void (*work)(void *arg), void *arg);

/* Run streams, see virtual_streams.h. Only fences observe it. */
unsigned vmm_double_run(mem_vmm_t *vmm, void *stream, unsigned num);
void     vmm_double_run_all(mem_vmm_t *vmm);
/* Wait for a stream, as its user may. */
void vmm_double_sync(mem_vmm_t *vmm, void *stream);

#endif
