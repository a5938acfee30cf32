#include "copy/fault.h"

#include "base/error.h"
#include "copy/tiles.h"

ucxpool_status_t copy_fault_no_address(size_t piece)
{
    return base_error(UCXPOOL_ERR_INVALID_PARAM,
                      "piece %zu has no address; set its address", piece);
}

ucxpool_status_t copy_fault_beyond(uint64_t place)
{
    return base_error(UCXPOOL_ERR_INVALID_PARAM,
                      "place %llu is beyond the end of the window",
                      (unsigned long long)place);
}

static ucxpool_status_t other_length(size_t segment)
{
    return base_error(UCXPOOL_ERR_INVALID_PARAM,
                      "segment %zu differs in length from the first one, which "
                      "UCXPOOL_SEGMENTS_EVEN does not allow",
                      segment);
}

ucxpool_status_t copy_fault_find(const copy_memory_t *memory, size_t first,
                                 size_t end)
{
    for (size_t i = first; i < base_min(end, memory->num); i++) {
        if (memory->segments[i].length != memory->length) {
            return other_length(i);
        }
        if (memory->segments[i].address == NULL) {
            return copy_fault_no_address(i);
        }
    }
    return UCXPOOL_OK;
}

ucxpool_status_t copy_fault_of(uint32_t fault, size_t first)
{
    size_t number = first + (fault & ~(COPY_BEYOND | COPY_OTHER)) - 1;

    if (fault == 0) {
        return UCXPOOL_OK;
    }
    if (fault == COPY_LATE) {
        return UCXPOOL_ERR_BUSY;
    }
    if (fault & COPY_BEYOND) {
        return copy_fault_beyond(number);
    }
    return (fault & COPY_OTHER) ? other_length(number)
                                : copy_fault_no_address(number);
}
