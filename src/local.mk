ucxpoolincludedir = $(includedir)/ucxpool
ucxpoolinclude_HEADERS = \
	include/ucxpool/batch.h include/ucxpool/channel.h \
	include/ucxpool/config.h \
	include/ucxpool/device.h include/ucxpool/event.h \
	include/ucxpool/framework.h include/ucxpool/heap.h \
	include/ucxpool/log.h include/ucxpool/memory.h include/ucxpool/pool.h \
	include/ucxpool/rmm.hpp \
	include/ucxpool/stats.h include/ucxpool/status.h \
	include/ucxpool/transfer.h include/ucxpool/ucxpool.h \
	include/ucxpool/ucxpool.hpp \
	include/ucxpool/verbs.h include/ucxpool/window.h
nodist_ucxpoolinclude_HEADERS = include/ucxpool/version.h
# Only for ucxpool_info and libucxpool-framework.
noinst_HEADERS = include/ucxpool/private.h

lib_LTLIBRARIES = libucxpool.la libucxpool-framework.la
# A convenience library, so that tests can use symbols that the version script
# hides.
noinst_LTLIBRARIES = libucxpool-internal.la
libucxpool_internal_la_SOURCES = \
	src/api/api.h \
	src/api/batch.c \
	src/api/channel.c \
	src/api/config.c \
	src/api/data.c \
	src/api/device.c \
	src/api/heap.c \
	src/api/histogram.c \
	src/api/pool.c \
	src/api/stats.c \
	src/api/transfer.c \
	src/api/verbs.c \
	src/api/window.c \
	src/base/clock.h \
	src/base/config.c src/base/config.h \
	src/base/crc32c.c src/base/crc32c.h \
	src/base/error.c src/base/error.h \
	src/base/key.c src/base/key.h \
	src/base/limits.c src/base/limits.h \
	src/base/list.h \
	src/base/lock.c src/base/lock.h \
	src/base/log.c src/base/log.h \
	src/base/math.h \
	src/base/memcheck.h \
	src/base/random.c src/base/random.h \
	src/base/secret.c src/base/secret.h \
	src/base/text.c src/base/text.h \
	src/base/trace.h \
	src/block/backing.c src/block/backing.h \
	src/block/budget.c src/block/budget.h \
	src/block/comm.c src/block/comm.h \
	src/block/pool.c src/block/pool.h \
	src/bootstrap/address.c src/bootstrap/address.h \
	src/bootstrap/auth.c src/bootstrap/auth.h \
	src/bootstrap/client.c src/bootstrap/client.h \
	src/bootstrap/listener.c src/bootstrap/listener.h \
	src/copy/cuda_copier.c src/copy/cuda_copier.h \
	src/copy/engine.c src/copy/engine.h \
	src/copy/fault.c src/copy/fault.h \
	src/copy/file.c src/copy/file.h \
	src/copy/list.c src/copy/list.h \
	src/copy/memtypes.c src/copy/memtypes.h \
	src/copy/plan.c src/copy/plan.h \
	src/copy/tiles.c src/copy/tiles.h \
	src/core/channel.c src/core/channel.h \
	src/core/control.c src/core/control.h \
	src/core/endpoint.c src/core/endpoint.h \
	src/core/inbox.c src/core/inbox.h \
	src/core/lifeline.c \
	src/core/link.c src/core/link.h \
	src/core/local.c src/core/local.h \
	src/core/memory.c src/core/memory.h \
	src/core/pool.c src/core/pool.h \
	src/core/proto.c src/core/proto.h \
	src/core/remote.c src/core/remote.h \
	src/core/request.c src/core/request.h \
	src/core/ring.c src/core/ring.h \
	src/core/stats.c src/core/stats.h \
	src/core/wakeup.c src/core/wakeup.h \
	src/core/wire.h \
	src/heap/heap.c src/heap/heap.h \
	src/heap/large.c \
	src/heap/log.c src/heap/log.h \
	src/heap/range.c src/heap/range.h \
	src/heap/space.c src/heap/space.h \
	src/heap/stream.c src/heap/stream.h \
	src/ipc/cuda.c src/ipc/cuda.h \
	src/ipc/file.c src/ipc/file.h \
	src/ipc/host.c src/ipc/host.h \
	src/ipc/socket.c src/ipc/socket.h \
	src/ipc/virtual.c src/ipc/virtual.h \
	src/mem/cuda_alloc.c \
	src/mem/cuda_api.h \
	src/mem/cuda_device.c src/mem/cuda_device.h \
	src/mem/cuda_driver.c src/mem/cuda_driver.h \
	src/mem/cuda_pinned.c src/mem/cuda_pinned.h \
	src/mem/cuda_stream.c src/mem/cuda_stream.h \
	src/mem/cuda_vmm.c \
	src/mem/host.c \
	src/mem/memfd.c src/mem/memfd.h \
	src/mem/nvml.c src/mem/nvml.h \
	src/mem/readable.c src/mem/readable.h \
	src/mem/reg_verbs.h \
	src/mem/region.c src/mem/region.h \
	src/mem/system.c src/mem/system.h \
	src/mem/vmm.h \
	src/mem/vmm_cuda.c \
	src/mem/vmm_host.c \
	src/pool/lifetime.c \
	src/pool/pool.h \
	src/pool/progress.c \
	src/pool/sleep.c \
	src/ucx/child.c \
	src/ucx/context.c src/ucx/context.h \
	src/ucx/peer_timeout.c \
	src/ucx/reg.c src/ucx/reg.h \
	src/ucx/rma.c \
	src/ucx/tune.c \
	src/window/device.c \
	src/window/mapped.c \
	src/window/messages.c \
	src/window/operation.c src/window/operation.h \
	src/window/process.c \
	src/window/remote.c src/window/remote.h \
	src/window/rma.c \
	src/window/serve.c \
	src/window/service.c src/window/service.h \
	src/window/way.c src/window/way.h \
	src/window/window.c src/window/window.h \
	src/wire/delivery.c \
	src/wire/loan.c \
	src/wire/mailbox.c \
	src/wire/map.c \
	src/wire/recv.c \
	src/wire/rndv.c \
	src/wire/state.c \
	src/wire/ucx.c \
	src/wire/wire.h \
	src/wireup/close.c \
	src/wireup/connect.c \
	src/wireup/fd_passing.c \
	src/wireup/hello.c \
	src/wireup/listener.c \
	src/wireup/mapping.c \
	src/wireup/network.c \
	src/wireup/wireup.h \
	src/xfer/fragment.c \
	src/xfer/mailbox.c \
	src/xfer/message.c \
	src/xfer/post.c src/xfer/post.h \
	src/xfer/queue.c \
	src/xfer/recv.c src/xfer/recv.h \
	src/xfer/send.c src/xfer/send.h \
	src/xfer/state.c src/xfer/state.h
libucxpool_internal_la_LIBADD = $(UCX_LIBS) $(CRYPTO_LIBS) -ldl
# Only the headers of libibverbs: the application loads the library.
if HAVE_VERBS
libucxpool_internal_la_SOURCES += src/mem/reg_verbs.c
else
libucxpool_internal_la_SOURCES += src/mem/reg_verbs_none.c
endif
# NVTX consists only of headers. A profiler contains the code that records ranges.
if HAVE_NVTX
libucxpool_internal_la_SOURCES += src/base/trace.c
else
libucxpool_internal_la_SOURCES += src/base/trace_none.c
endif

libucxpool_la_SOURCES =
libucxpool_la_LIBADD = libucxpool-internal.la
libucxpool_la_LDFLAGS = \
	-version-info 1:0:0 \
	-Wl,--version-script=$(top_srcdir)/src/libucxpool.map \
	$(UCXPOOL_LDFLAGS)
EXTRA_libucxpool_la_DEPENDENCIES = src/libucxpool.map

# C++ exceptions pass through the functions for array libraries, which frameworks
# in C++ call.
noinst_LTLIBRARIES += libframework.la
libframework_la_CFLAGS = $(AM_CFLAGS) -fexceptions
libframework_la_SOURCES = \
	src/framework/framework.c src/framework/framework.h

libucxpool_framework_la_SOURCES =
libucxpool_framework_la_LIBADD = libframework.la libucxpool.la -ldl
libucxpool_framework_la_LDFLAGS = \
	-version-info 1:0:0 \
	-Wl,--version-script=$(top_srcdir)/src/libucxpool-framework.map \
	$(UCXPOOL_LDFLAGS)
EXTRA_libucxpool_framework_la_DEPENDENCIES = src/libucxpool-framework.map

# scripts/make-ptx compiles the kernel.
EXTRA_DIST += src/libucxpool.map src/libucxpool-framework.map \
	src/copy/kernel.cu src/copy/kernel.ptx src/copy/units.cuh
CLEANFILES += src/copy/kernel_ptx.inc
src/copy/kernel_ptx.inc: src/copy/kernel.ptx
	$(AM_V_GEN)$(MKDIR_P) src/copy && \
	sed -e 's/[\\"]/\\&/g; s/.*/"&\\n"/' $(srcdir)/src/copy/kernel.ptx \
		>$@-new && mv $@-new $@
src/copy/cuda_copier.lo: src/copy/kernel_ptx.inc
