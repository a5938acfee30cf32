/*
 * A test double of a virtual memory interface (mem/vmm.h), for tests of the
 * layers above it. The double wraps a real interface, counts calls, makes calls
 * fail, and checks each call against a model. After a violation of the contract
 * of mem/vmm.h, the process prints a message and calls abort(). Violations are
 * chunks that are mapped over others, destroyed while they are mapped, unmapped
 * in part, used by unordered concurrent work, or leaked.
 *
 * On host memory, the double can have its own streams (virtual_streams.h),
 * which run when a test steps them. The double then reports that it is not host
 * memory.
 *
 * The double is thread-safe, like the real interface.
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
    VMM_FENCE_IS_REACHED, /* this call fails by returning false */
    VMM_FENCE_WAIT,
    VMM_FENCE_SYNC,
    VMM_SIZES,
    VMM_CAN_FAIL, /* only the calls before this entry can fail */
    VMM_RELEASE = VMM_CAN_FAIL,
    VMM_CHUNK_DESTROY,
    VMM_FENCE_PUT,
    VMM_LAST
} vmm_call_t;

/*
 * inner        The real interface. The double owns and destroys it.
 * has_streams  Use streams of the double; `inner` must be host memory.
 *
 * The double's destroy() requires that all objects have been released.
 */
mem_vmm_t *vmm_double_create(mem_vmm_t *inner, bool has_streams);

/* Create a double of host memory. */
mem_vmm_t *vmm_double_create_host(bool has_streams);

/*
 * Make the n-th call from now (from 1; 0: none) fail once with this status.
 * Restarts the count.
 *
 * call  VMM_LAST: any call that can fail.
 */
void vmm_double_fail(mem_vmm_t *vmm, vmm_call_t call, unsigned n,
                     ucxpool_status_t status);
/* Returns true if a call has failed because of vmm_double_fail(). */
bool vmm_double_has_failed(mem_vmm_t *vmm);

/* Returns the number of these calls since vmm_double_fail() or the start.
 * VMM_LAST: all calls. */
unsigned vmm_double_count(mem_vmm_t *vmm, vmm_call_t call);

/* Limit the memory of all chunks together; by default the limit of inner. */
void vmm_double_limit(mem_vmm_t *vmm, uint64_t size);

/* Return the number of bytes of all chunks, and of all mapped addresses. */
uint64_t vmm_double_held(mem_vmm_t *vmm);
uint64_t vmm_double_mapped(mem_vmm_t *vmm);
/* Returns the number of mappings of chunks. */
size_t vmm_double_num_mappings(mem_vmm_t *vmm);

/*
 * Post work that uses a range in a stream of the double. The whole range must
 * be mapped and allowed. The function `work`, if not NULL, is called when the
 * stream executes the work; it must not call the double.
 */
void vmm_double_post(mem_vmm_t *vmm, void *stream, const void *address,
                     size_t size, void (*work)(void *arg), void *arg);

/* Run streams; see virtual_streams.h. The host observes this only by fences. */
unsigned vmm_double_run(mem_vmm_t *vmm, void *stream, unsigned num);
void     vmm_double_run_all(mem_vmm_t *vmm);
/* Wait for a stream, as a user of the stream may. */
void vmm_double_sync(mem_vmm_t *vmm, void *stream);

#endif
