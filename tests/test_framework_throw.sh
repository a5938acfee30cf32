#!/bin/sh
# Tests the C++ exceptions of the functions for frameworks: std::bad_alloc, or
# PyTorch's own error if PyTorch's library (here a stand-in) is loaded.
set -eu

# Wait while libtool relinks the library for test_install.sh.
exec 9<"$top_builddir/libucxpool-framework.la"
flock -s 9

case $CC in
*clang*) cxx=${CXX-clang++} ;;
*) cxx=${CXX-g++} ;;
esac
if ! command -v "${cxx%% *}" >/dev/null; then
    echo "no C++ compiler ($cxx)"
    exit 77
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

cat >"$dir/libc10.cpp" <<'END'
#include <cstdint>
#include <stdexcept>
#include <string>

namespace c10 {
namespace detail {
[[noreturn]] __attribute__((visibility("default"))) void
torchCheckFail(const char *, const char *, uint32_t, const char *message);

void torchCheckFail(const char *, const char *, uint32_t, const char *message)
{
    throw std::runtime_error(message);
}
}
}
END

cat >"$dir/program.cpp" <<'END'
#include <ucxpool/framework.h>
#include <ucxpool/ucxpool.h>

#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <functional>
#include <new>
#include <stdexcept>

static const int    host = UCXPOOL_FRAMEWORK_HOST;
static const size_t much = (size_t)1 << 40;

static void say(const char *what, const std::function<void *()> &call)
{
    try {
        void *address = call();
        printf("%s: %s\n", what, address == nullptr ? "NULL" : "memory");
    } catch (const std::bad_alloc &) {
        printf("%s: bad_alloc\n", what);
    } catch (const std::runtime_error &error) {
        printf("%s: %.20s\n", what, error.what());
    }
}

int main(int argc, char **argv)
{
    // As RMM's callback resource and PyTorch's allocator hold them.
    std::function<void *(size_t, void *, void *)> rmm = ucxpool_rmm_alloc;
    std::function<void *(size_t, int, void *)>    torch =
        ucxpool_torch_alloc_or_throw;
    ucxpool_t *pool = nullptr;

    if (ucxpool_framework_pool(host, &pool) != UCXPOOL_OK) {
        printf("no pool: %s\n", ucxpool_error_detail());
        return 1;
    }
    say("rmm", [&] { return rmm(4096, nullptr, pool); });
    say("rmm", [&] { return rmm(much, nullptr, pool); });
    say("torch", [&] { return torch(4096, host, nullptr); });
    say("torch", [&] { return torch(much, host, nullptr); });
    if ((argc > 1) && (dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) == nullptr)) {
        printf("%s\n", dlerror());
        return 1;
    }
    say("rmm", [&] { return rmm(much, nullptr, pool); });
    say("torch", [&] { return torch(much, host, nullptr); });
    say("torch", [&] { return torch((size_t)-1, host, nullptr); });
    say("graph", [&]() -> void * {
        ucxpool_torch_refuse_graph();
        return nullptr;
    });
    return 0;
}
END

cat >"$dir/expected" <<'END'
rmm: memory
rmm: bad_alloc
torch: memory
torch: bad_alloc
rmm: bad_alloc
torch: CUDA out of memory. 
torch: cannot allocate -1 b
graph: CUDA graphs cannot b
END

"$cxx" -std=c++17 -fPIC -shared $SANITIZER_CFLAGS -Wl,-soname,libc10.so \
    -o "$dir/libc10.so" "$dir/libc10.cpp"
"$cxx" -std=c++17 -Wall -Wextra -Werror $SANITIZER_CFLAGS \
    -I"$top_srcdir/include" -I"$top_builddir/include" -o "$dir/program" \
    "$dir/program.cpp" "$top_builddir/.libs/libucxpool-framework.so" \
    "$top_builddir/.libs/libucxpool.so" -ldl
LD_LIBRARY_PATH=$top_builddir/.libs${LD_LIBRARY_PATH+:$LD_LIBRARY_PATH}
UCXPOOL_LOG_LEVEL=none
UCXPOOL_MEMORY_LIMIT=64m
export LD_LIBRARY_PATH UCXPOOL_LOG_LEVEL UCXPOOL_MEMORY_LIMIT
"$dir/program" "$dir/libc10.so" >"$dir/said" || {
    echo "exit status $?"
    cat "$dir/said"
    exit 1
}
diff -u "$dir/expected" "$dir/said"
