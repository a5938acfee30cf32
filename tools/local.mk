# The tools use only public headers and the installed library, which
# tests/check_layers.sh checks. The code of a tool except main() may be in a
# convenience library, so that tests can link to it.
bin_PROGRAMS = \
	tools/ucxpool_info tools/ucxpool_perf tools/ucxpool_replay \
	tools/ucxpool_shuffle
noinst_LTLIBRARIES += libtools.la libgpu.la libreplay.la libshuffle.la
libtools_la_SOURCES = \
	tools/common/error.c tools/common/error.h \
	tools/common/json.c tools/common/json.h \
	tools/common/number.c tools/common/number.h \
	tools/common/pool.c tools/common/pool.h \
	tools/common/program.c tools/common/program.h \
	tools/common/samples.c tools/common/samples.h \
	tools/common/system.c tools/common/system.h
# Loads the CUDA driver with dlopen().
libgpu_la_SOURCES = \
	tools/gpu/gpu.c tools/gpu/gpu.h

tools_ucxpool_info_SOURCES = \
	tools/info/gpu.c tools/info/machine.c tools/info/pool.c \
	tools/info/report.c tools/info/report.h tools/info/ucx.c \
	tools/ucxpool_info.c
tools_ucxpool_info_LDADD = libtools.la libucxpool.la $(UCX_LIBS)

tools_ucxpool_perf_SOURCES = \
	tools/perf/batch.c tools/perf/buffers.c tools/perf/buffers.h \
	tools/perf/control.c tools/perf/control.h \
	tools/perf/end.c tools/perf/end.h tools/perf/job.c tools/perf/job.h \
	tools/perf/lane.h tools/perf/measure.c tools/perf/pair.c \
	tools/perf/pair.h tools/perf/pool.c tools/perf/raw.c \
	tools/perf/remote.c tools/perf/report.c tools/perf/report.h \
	tools/perf/stage.c tools/perf/stage.h \
	tools/perf/test.c tools/perf/test.h tools/ucxpool_perf.c
tools_ucxpool_perf_LDADD = libgpu.la libtools.la libucxpool.la $(UCX_LIBS)

tools_ucxpool_shuffle_LDADD = libshuffle.la libtools.la libucxpool.la
libshuffle_la_CPPFLAGS = $(AM_CPPFLAGS) $(PMIX_CFLAGS)
libshuffle_la_LIBADD = $(PMIX_LIBS)
libshuffle_la_SOURCES = \
	tools/shuffle/batch.c tools/shuffle/batch.h tools/shuffle/exchange.c \
	tools/shuffle/exchange.h tools/shuffle/input.c tools/shuffle/input.h \
	tools/shuffle/job.h tools/shuffle/local.c tools/shuffle/output.c \
	tools/shuffle/output.h tools/shuffle/ranks.c tools/shuffle/summary.c \
	tools/shuffle/worker.c

tools_ucxpool_replay_LDADD = libreplay.la libtools.la libucxpool.la
libreplay_la_LIBADD = libgpu.la -lm
libreplay_la_SOURCES = \
	tools/replay/allocator.c tools/replay/allocator.h \
	tools/replay/measure.c tools/replay/measure.h \
	tools/replay/report.c tools/replay/trace.c \
	tools/replay/trace.h tools/replay/workload.c tools/replay/workload.h
