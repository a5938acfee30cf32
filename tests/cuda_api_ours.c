/* The list, compiled with src/mem/cuda_api.h. */
#include "mem/cuda_api.h"

#include "cuda_api_list.h"

const cuda_api_fact_t cuda_api_ours[] = {CUDA_API_FACTS{NULL, 0}};
