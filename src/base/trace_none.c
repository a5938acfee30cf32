/* The functions of base/trace.h for builds without NVTX. */
#include "base/trace.h"

bool base_trace_is_on;

void base_trace_init(void)
{
}

void base_trace_begin(base_range_t *range, base_range_kind_t kind,
                      uint64_t size)
{
}

void base_trace_end(base_range_t *range)
{
}
