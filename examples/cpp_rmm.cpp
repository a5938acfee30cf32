/* cpp_rmm - RMM allocates a buffer from the heap of GPU 0's pool. Needs RMM
 * 26.10 or later; tests/make_rmm_plugins.sh compiles it. */
#include <ucxpool/framework.h>
#include <ucxpool/rmm.hpp>

#include <rmm/cuda_stream.hpp>
#include <rmm/device_buffer.hpp>
#include <rmm/mr/per_device_resource.hpp>

#include <cstdio>

int main()
{
    ucxpool_t *pool;

    if (ucxpool_framework_pool(0, &pool) != UCXPOOL_OK) {
        std::fprintf(stderr, "cpp_rmm: %s\n", ucxpool_error_detail());
        return 77;
    }
    rmm::mr::set_current_device_resource(ucxpool::heap_resource(pool));

    rmm::cuda_stream   stream;
    rmm::device_buffer buffer(1 << 20, stream);

    ucxpool_heap_print(pool, stdout, UCXPOOL_STATS_TEXT);
    return 0;
}
