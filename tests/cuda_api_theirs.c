/*
 * The list and the functions, compiled with the driver's own header: the
 * declarations of the table use that header's types instead of ours.
 */
#include <cuda.h>
#include <stddef.h>

#define MEM_CUDA_API_H
#include "mem/cuda_driver.h"

#include "cuda_api_list.h"

const cuda_api_fact_t cuda_api_theirs[] = {CUDA_API_FACTS{NULL, 0}};

#define SAME_TYPE(_name, _symbol, _is_needed, _params) \
    _Static_assert(__builtin_types_compatible_p( \
                       __typeof__(((mem_cuda_driver_t *)NULL)->_name), \
                       __typeof__(&_name)), \
                   #_name " is declared as in cuda.h");
MEM_CUDA_CALLS(SAME_TYPE)

/* In cuda.h, the name without a version is a macro for the versioned one. */
#define TEXT(_name)                                 #_name
#define SYMBOL(_name, _symbol, _is_needed, _params) {_symbol, TEXT(_name)},

const cuda_api_symbol_t cuda_api_symbols[] = {
    MEM_CUDA_CALLS(SYMBOL){NULL, NULL}};
