# Programs that scripts run, or that are run by hand.
noinst_PROGRAMS = \
	tests/bench_copy_cuda tests/bench_heap tests/bench_heap_cuda \
	tests/bench_memory tests/bench_window tests/cable_end \
	tests/open_loop tests/stress
tests_bench_heap_LDADD = libreplay.la libtools.la libucxpool-internal.la
tests_bench_heap_cuda_SOURCES = \
	tests/bench_heap_cuda.c tests/bench_mapped.c tests/bench_mapped.h \
	tests/bench_rivals.c tests/bench_rivals.h tests/bench_triad.c \
	tests/bench_triad.h
tests_bench_heap_cuda_LDADD = libreplay.la libtools.la libucxpool.la
tests_bench_memory_LDADD = libucxpool.la
tests_cable_end_LDADD = libucxpool.la
tests_open_loop_LDADD = libucxpool.la
tests_stress_LDADD = libucxpool.la

# "make check" tests whether the library works on this machine. "make check-all"
# runs all tests.
TESTS = $(check_PROGRAMS) $(dist_check_SCRIPTS)
TEST_EXTENSIONS = .py .sh .vg
# Limit of CPU seconds without output. Most tests print nothing before
# their end.
END_HUNG = $(abs_top_srcdir)/scripts/end-hung
LOG_COMPILER = $(END_HUNG) 900
PY_LOG_COMPILER = $(END_HUNG) 900
SH_LOG_COMPILER = $(END_HUNG) 900 $(SHELL)
AM_TESTS_ENVIRONMENT = \
	top_srcdir='$(abs_top_srcdir)'; top_builddir='$(abs_top_builddir)'; \
	CC='$(CC)'; SANITIZER_CFLAGS='$(SANITIZER_CFLAGS)'; \
	FUZZER_LDFLAGS='$(FUZZER_LDFLAGS)'; \
	LIBUCX_CFLAGS='$(UCX_CFLAGS)'; JUNIT_JARS='$(JUNIT_JARS)'; \
	supp='$(abs_top_srcdir)/tests/sanitizer/tsan.supp'; \
	TSAN_OPTIONS="suppressions=$$supp:second_deadlock_stack=1"; \
	UBSAN_OPTIONS='print_stacktrace=1'; \
	CK_DEFAULT_TIMEOUT=$${CK_DEFAULT_TIMEOUT-20}; \
	CK_TIMEOUT_MULTIPLIER=$${CK_TIMEOUT_MULTIPLIER-10}; TEST_SLOW=yes; \
	export top_srcdir top_builddir CC SANITIZER_CFLAGS FUZZER_LDFLAGS \
	    LIBUCX_CFLAGS JUNIT_JARS \
	    TSAN_OPTIONS UBSAN_OPTIONS CK_DEFAULT_TIMEOUT \
	    CK_TIMEOUT_MULTIPLIER TEST_SLOW;

dist_check_SCRIPTS = \
	tests/fuzz/check_corpus.sh tests/test_budget.sh tests/test_cable.sh \
	tests/test_cpp.sh tests/test_examples.sh \
	tests/test_framework_throw.sh \
	tests/test_info.sh tests/test_install.sh tests/test_java.sh \
	tests/test_network.sh tests/test_python.sh tests/test_rmm.sh \
	tests/test_shuffle_mpirun.sh tests/test_stress.sh
# The end-to-end tests of the tools take a third of the time of all tests.
TOOL_CHECKS = \
	tests/test_perf.sh tests/test_perf_cuda.sh tests/test_perf_hosts.sh \
	tests/test_replay.sh tests/test_shuffle.sh tests/test_shuffle_memory.sh
# Tests of the source tree and of scripts, whose results do not depend on the
# machine.
TREE_CHECKS = \
	tests/check_abi.sh tests/check_circles.sh tests/check_docs.sh \
	tests/check_exports.sh tests/check_format.sh tests/check_headers.sh \
	tests/check_help.sh tests/check_layers.sh tests/check_man.sh \
	tests/check_protocol.sh tests/check_ptx.sh tests/check_readme.sh \
	tests/check_samples.py tests/check_style.sh tests/test_benchmarks.sh tests/test_configure.sh \
	tests/test_cuda_real.sh tests/test_end_hung.sh \
	tests/test_run_gpu_tests.sh tests/test_run_rdma_tests.sh \
	tests/test_site.sh
EXTRA_DIST += $(TOOL_CHECKS) $(TREE_CHECKS) \
	tests/abi tests/cpp tests/fuzz/corpus tests/fuzz/told tests/gpu_alltoall.py \
	tests/gpu_alltoall_death.py tests/gpu_frameworks.py tests/gpu_torch.py \
	tests/hosts.sh tests/make_rmm_plugins.sh \
	tests/no_check.sh tests/perf.sh tests/python tests/rdma \
	tests/rmm_plugin.cpp tests/sanitizer tests/shuffle.sh \
	tests/try_packages.sh

# By default, a program tests/NAME is compiled from tests/NAME.c and linked with
# these libraries. Files that replace calls (--wrap) are in no library: each
# program that uses such a file lists it.
LDADD = $(TEST_SUPPORT) libframework.la libucxpool-internal.la $(CHECK_LIBS)
check_PROGRAMS =
check_LTLIBRARIES = tests/replay_plugin/libplugin.la

if HAVE_CHECK
check_PROGRAMS += \
	tests/test_address tests/test_auth tests/test_auth_client \
	tests/test_base tests/test_batch tests/test_bitmap tests/test_block_check \
	tests/test_block_pool tests/test_blocks tests/test_borrowed \
	tests/test_budget_run tests/test_call_faults tests/test_cancel \
	tests/test_channel_events tests/test_close tests/test_comm \
	tests/test_completion tests/test_config tests/test_copy \
	tests/test_copy_cuda tests/test_copy_tiles tests/test_core \
	tests/test_crc32c tests/test_create tests/test_cuda_backing \
	tests/test_cuda_driver tests/test_cuda_markers \
	tests/test_cuda_pointer tests/test_cuda_reg tests/test_cuda_region \
	tests/test_dead_peer tests/test_deadline tests/test_degrade \
	tests/test_device tests/test_domains tests/test_events \
	tests/test_fd_export tests/test_file tests/test_file_space \
	tests/test_flow tests/test_folder tests/test_fork tests/test_gpu_busy \
	tests/test_gpu_create tests/test_gpu_death tests/test_gpu_end \
	tests/test_gpu_file tests/test_gpu_framework tests/test_gpu_host \
	tests/test_gpu_link tests/test_gpu_mailbox tests/test_gpu_mixed \
	tests/test_gpu_outbox \
	tests/test_gpu_namespaces tests/test_gpu_push \
	tests/test_gpu_stream tests/test_gpu_transfer tests/test_gpu_two \
	tests/test_gpu_window tests/test_gpu_window_faults \
	tests/test_gpu_window_many \
	tests/test_handles tests/test_heap tests/test_heap_create \
	tests/test_heap_log tests/test_heap_pool tests/test_heap_random \
	tests/test_heap_range tests/test_heap_threads tests/test_hello \
	tests/test_hostile tests/test_hostile_ucx tests/test_latency tests/test_launch \
	tests/test_lifeline tests/test_listener tests/test_many_peers \
	tests/test_meet tests/test_mem tests/test_memory tests/test_nap \
	tests/test_namespaces tests/test_network_faults tests/test_null \
	tests/test_padding tests/test_pairs tests/test_peer_death tests/test_peer_timeouts \
	tests/test_pending_connections tests/test_pieces tests/test_posted \
	tests/test_quiet tests/test_ranges \
	tests/test_reg_ucx tests/test_region tests/test_remote \
	tests/test_replay_log tests/test_replay_play \
	tests/test_replay_workload tests/test_secret \
	tests/test_share tests/test_share_cuda \
	tests/test_short tests/test_shuffle_batch \
	tests/test_shuffle_input \
	tests/test_shuffle_output tests/test_signals tests/test_spare \
	tests/test_sizes tests/test_stats tests/test_struct_sizes tests/test_stuck \
	tests/test_system tests/test_tcp_watch tests/test_threads \
	tests/test_transfer tests/test_tune tests/test_ucx \
	tests/test_ucx_key tests/test_verbs_none tests/test_vmm \
	tests/test_vmm_double tests/test_wait tests/test_window \
	tests/test_window_death tests/test_window_faults \
	tests/test_window_hostile tests/test_window_mapped \
	tests/test_window_peers tests/test_window_rma \
	tests/test_window_threads tests/test_wire_choice \
	tests/test_wire_stranger
if HAVE_CUDA_HEADER
check_PROGRAMS += tests/test_cuda_api
endif
if HAVE_NVTX
check_LTLIBRARIES += tests/nvtx_stand_in/libnvtx.la
check_PROGRAMS += tests/test_trace
endif
if HAVE_VERBS
check_LTLIBRARIES += tests/verbs_stand_in/libold_verbs.la \
	tests/verbs_stand_in/libverbs.la
check_PROGRAMS += tests/test_verbs tests/test_verbs_real
endif
check_LTLIBRARIES += \
	tests/cuda_stand_in/libold_stand_in.la \
	tests/cuda_stand_in/libstand_in.la tests/libslow_names.la \
	tests/nvml_stand_in/libnvml.la tests/reg_stand_in/libreg.la
TEST_SUPPORT = tests/libtestsupport.la
noinst_LTLIBRARIES += $(TEST_SUPPORT)
endif
tests_libtestsupport_la_SOURCES = \
	tests/at_end.c tests/calls.h tests/caught.c tests/caught.h \
	tests/config_fixture.c tests/config_fixture.h \
	tests/copy_twin.c tests/copy_twin.h \
	tests/cuda_fixture.c tests/cuda_fixture.h tests/domains_stand_in.h \
	tests/fds.c tests/fds.h tests/files.h tests/forbid.h tests/gpu.c tests/gpu.h \
	tests/heap_fixture.c tests/heap_fixture.h tests/hostile.c \
	tests/hostile.h tests/loopback.c tests/loopback.h tests/main.c \
	tests/net_calls.h tests/pair.c tests/pair.h tests/rdma_end.h \
	tests/replace.h tests/resident.h tests/rounds.h tests/runner.c \
	tests/sealed.c tests/sealed.h tests/segments.h tests/slow.h \
	tests/stream_model.c tests/stream_model.h tests/test.h tests/two.c \
	tests/two.h tests/two_gpu.c tests/two_gpu.h tests/virtual_streams.c \
	tests/virtual_streams.h tests/vmm_double.c tests/vmm_double.h

# Calls replaced by tests/calls.c,
CALLS = \
	calloc fallocate fcntl fopen fstat fstatfs ftruncate madvise \
	memfd_create mmap open __open_2 readlink syscall
WRAP_CALLS = $(CALLS:%=-Wl,--wrap=%)
# tests/pool_calls.c,
POOL_CALLS = \
	RAND_bytes aligned_alloc epoll_create1 epoll_ctl eventfd malloc \
	process_vm_readv process_vm_writev pthread_cond_init \
	pthread_mutex_init timerfd_create ucp_am_recv_data_nbx ucp_am_send_nbx \
	ucp_config_read ucp_ep_create ucp_init_version ucp_mem_map \
	ucp_worker_create ucp_worker_get_address \
	ucp_worker_set_am_recv_handler
WRAP_POOL_CALLS = $(WRAP_CALLS) $(POOL_CALLS:%=-Wl,--wrap=%)
# tests/net_calls.c, with the clock,
NET_CALLS = \
	accept4 bind calloc clock_gettime connect epoll_create1 epoll_ctl \
	fstat getaddrinfo getsockname getsockopt HMAC listen RAND_bytes read \
	recv recvmsg send sendmsg socket
WRAP_NET_CALLS = $(NET_CALLS:%=-Wl,--wrap=%)
# tests/domains_stand_in.c,
DOMAINS_CALLS = \
	ucp_context_print_info ucp_rkey_buffer_release ucp_rkey_pack \
	uct_component_query uct_config_release uct_md_close uct_md_config_read \
	uct_md_open uct_md_query uct_md_query_tl_resources \
	uct_query_components uct_release_component_list \
	uct_release_tl_resource_list
WRAP_DOMAINS = $(DOMAINS_CALLS:%=-Wl,--wrap=%)
# tests/reg_stand_in/reg.c,
REG_CALLS = \
	ucp_context_query ucp_mem_map ucp_mem_query ucp_mem_unmap \
	ucp_rkey_buffer_release ucp_rkey_pack
WRAP_REG = $(REG_CALLS:%=-Wl,--wrap=%)
# and tests/files.c and tests/forbid.c.
WRAP_READS = -Wl,--wrap=pread,--wrap=preadv
WRAP_FORBID = -Wl,--wrap=readlink,--wrap=syscall

REPLAY_LDADD = libreplay.la libtools.la $(LDADD)
SHUFFLE_LDADD = libshuffle.la libtools.la $(LDADD)

# Tests that need no pool and no process of their own: a program for each layer.
tests_test_base_SOURCES = \
	tests/test_error.c tests/test_keys.c tests/test_lock.c \
	tests/test_parse.c tests/test_status.c tests/test_text.c
tests_test_copy_SOURCES = \
	tests/test_copy.c tests/test_lengths.c tests/test_plan.c
tests_test_core_SOURCES = \
	tests/test_link.c tests/test_proto.c
tests_test_mem_SOURCES = \
	tests/test_nvml.c tests/test_readable.c

tests_test_address_SOURCES = tests/net_calls.c tests/test_address.c
tests_test_address_LDFLAGS = $(WRAP_NET_CALLS)
tests_test_auth_SOURCES = tests/net_calls.c tests/test_auth.c
tests_test_auth_LDFLAGS = $(WRAP_NET_CALLS)
tests_test_auth_client_SOURCES = tests/net_calls.c tests/test_auth_client.c
tests_test_auth_client_LDFLAGS = $(WRAP_NET_CALLS)
tests_test_budget_run_SOURCES = tests/reg_stand_in/reg.c tests/test_budget_run.c
tests_test_budget_run_LDFLAGS = $(WRAP_REG)
tests_test_call_faults_SOURCES = tests/calls.c tests/pool_calls.c \
	tests/test_call_faults.c
CALL_FAULTS_CALLS = \
	accept4 connect pread preadv realloc recv recvmsg send sendmsg socket \
	ucp_worker_arm ucp_worker_destroy
tests_test_call_faults_LDFLAGS = $(WRAP_POOL_CALLS) \
	$(CALL_FAULTS_CALLS:%=-Wl,--wrap=%)
tests_test_comm_SOURCES = tests/calls.c tests/test_comm.c
tests_test_comm_LDFLAGS = $(WRAP_CALLS)
tests_test_config_LDFLAGS = -Wl,--wrap=calloc,--wrap=realloc
tests_test_copy_cuda_SOURCES = tests/calls.c tests/test_copy_cuda.c
tests_test_copy_cuda_LDFLAGS = $(WRAP_CALLS)
tests_test_create_SOURCES = tests/calls.c tests/pool_calls.c tests/test_create.c
tests_test_create_LDFLAGS = $(WRAP_POOL_CALLS)
tests_test_cuda_api_SOURCES = tests/cuda_api_list.h tests/cuda_api_ours.c \
	tests/cuda_api_theirs.c tests/test_cuda_api.c
tests_test_cuda_api_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_HEADER_CFLAGS)
tests_test_cuda_api_LDADD = $(TEST_SUPPORT) $(CHECK_LIBS)
tests_test_cuda_backing_LDFLAGS = \
	-Wl,--wrap=fopen,--wrap=syscall,--wrap=ucp_context_query
tests_test_cuda_reg_LDFLAGS = $(WRAP_REG) -Wl,--wrap=ucp_context_print_info
tests_test_cuda_region_SOURCES = tests/calls.c tests/test_cuda_region.c
tests_test_cuda_region_LDFLAGS = $(WRAP_CALLS)
tests_test_degrade_SOURCES = tests/reg_stand_in/reg.c tests/test_degrade.c
tests_test_degrade_LDFLAGS = $(WRAP_REG)
tests_test_device_LDFLAGS = -Wl,--wrap=ucp_init_version
tests_test_domains_SOURCES = tests/domains_stand_in.c tests/test_domains.c
tests_test_domains_LDFLAGS = $(WRAP_DOMAINS) -Wl,--wrap=malloc,--wrap=realloc
tests_test_events_LDFLAGS = \
	-Wl,--wrap=epoll_wait,--wrap=recvmsg,--wrap=sendmsg,--wrap=ucp_worker_arm
tests_test_fd_export_SOURCES = tests/forbid.c tests/net_calls.c \
	tests/test_fd_export.c
tests_test_fd_export_LDFLAGS = $(WRAP_NET_CALLS) $(WRAP_FORBID) \
	-Wl,--wrap=ipc_socket_caller,--wrap=ipc_socket_send
tests_test_file_SOURCES = tests/files.c tests/test_file.c
tests_test_file_LDFLAGS = $(WRAP_READS) -Wl,--wrap=core_ring_reserve
tests_test_file_space_LDFLAGS = -Wl,--wrap=realloc
tests_test_folder_LDFLAGS = -Wl,--wrap=time
FORK_CALLS = \
	clock_gettime ucp_request_check_status ucp_request_free \
	ucp_worker_flush_nbx
tests_test_fork_LDFLAGS = $(FORK_CALLS:%=-Wl,--wrap=%)
tests_test_gpu_create_SOURCES = tests/calls.c tests/test_gpu_create.c
tests_test_gpu_create_LDFLAGS = $(WRAP_CALLS)
tests_test_gpu_file_SOURCES = tests/files.c tests/test_gpu_file.c
tests_test_gpu_file_LDFLAGS = $(WRAP_READS)
tests_test_gpu_host_SOURCES = tests/forbid.c tests/test_gpu_host.c
tests_test_gpu_host_LDFLAGS = $(WRAP_FORBID) \
	-Wl,--wrap=ucx_facts_get,--wrap=ucx_reg_regions \
	-Wl,--wrap=wireup_mapping_open
tests_test_gpu_two_SOURCES = tests/forbid.c tests/test_gpu_two.c
tests_test_gpu_two_LDFLAGS = $(WRAP_FORBID)
tests_test_gpu_window_SOURCES = tests/forbid.c tests/test_gpu_window.c
tests_test_gpu_window_LDFLAGS = $(WRAP_FORBID)
tests_test_gpu_window_many_LDFLAGS = -Wl,--wrap=ipc_socket_send
tests_test_heap_create_SOURCES = tests/calls.c tests/test_heap_create.c
tests_test_heap_create_LDFLAGS = $(WRAP_CALLS) -Wl,--wrap=pthread_mutex_init
tests_test_heap_log_LDFLAGS = -Wl,--wrap=write
tests_test_hello_LDFLAGS = -Wl,--wrap=clock_gettime,--wrap=malloc
tests_test_namespaces_LDFLAGS = \
	-Wl,--wrap=core_local_connect,--wrap=getsockopt
tests_test_network_faults_SOURCES = tests/calls.c tests/pool_calls.c \
	tests/test_network_faults.c
tests_test_network_faults_LDFLAGS = $(WRAP_POOL_CALLS)
tests_test_peer_timeouts_LDFLAGS = -Wl,--wrap=ucp_init_version
tests_test_pending_connections_SOURCES = tests/net_calls.c \
	tests/test_pending_connections.c
tests_test_pending_connections_LDFLAGS = $(WRAP_NET_CALLS)
REG_UCX_CALLS = \
	ucp_mem_map ucp_mem_query ucp_mem_unmap ucp_rkey_buffer_release \
	ucp_rkey_pack
tests_test_reg_ucx_LDFLAGS = $(REG_UCX_CALLS:%=-Wl,--wrap=%)
tests_test_region_SOURCES = tests/calls.c tests/test_region.c
tests_test_region_LDFLAGS = $(WRAP_CALLS) -Wl,--wrap=mem_system_query
tests_test_remote_LDFLAGS = -Wl,--wrap=clock_gettime
tests_test_replay_log_LDADD = $(REPLAY_LDADD)
tests_test_replay_play_LDADD = $(REPLAY_LDADD)
tests_test_replay_workload_LDADD = $(REPLAY_LDADD)
tests_test_secret_SOURCES = tests/net_calls.c tests/test_secret.c
tests_test_secret_LDFLAGS = $(WRAP_NET_CALLS)
tests_test_share_SOURCES = tests/calls.c tests/test_share.c
tests_test_share_LDFLAGS = $(WRAP_CALLS)
tests_test_share_cuda_SOURCES = tests/calls.c tests/test_share_cuda.c
tests_test_share_cuda_LDFLAGS = $(WRAP_CALLS)
tests_test_shuffle_batch_LDADD = $(SHUFFLE_LDADD)
tests_test_shuffle_input_LDADD = $(SHUFFLE_LDADD)
SHUFFLE_OUTPUT_CALLS = pwrite close openat linkat getrlimit setrlimit
tests_test_shuffle_output_LDFLAGS = $(SHUFFLE_OUTPUT_CALLS:%=-Wl,--wrap=%)
tests_test_shuffle_output_LDADD = $(SHUFFLE_LDADD)
STUCK_CALLS = \
	clock_gettime ucp_am_recv_data_nbx ucp_am_send_nbx ucp_ep_close_nbx \
	ucp_request_free ucp_worker_progress
tests_test_stuck_LDFLAGS = $(STUCK_CALLS:%=-Wl,--wrap=%)
tests_test_system_LDFLAGS = -Wl,--wrap=fopen
TUNE_CALLS = \
	ucp_config_modify ucp_context_print_info ucp_get_version \
	uct_component_query uct_config_get uct_config_release \
	uct_md_config_read uct_query_components uct_release_component_list
tests_test_tune_LDFLAGS = $(TUNE_CALLS:%=-Wl,--wrap=%)
tests_test_verbs_LDFLAGS = -Wl,--wrap=calloc
tests_test_verbs_none_SOURCES = src/mem/reg_verbs_none.c tests/test_verbs_none.c
tests_test_verbs_none_CFLAGS = $(AM_CFLAGS)
tests_test_verbs_real_SOURCES = tests/rdma_end.c tests/test_verbs_real.c
tests_test_verbs_real_LDADD = $(LDADD) $(VERBS_LIBS)
tests_test_vmm_SOURCES = tests/calls.c tests/test_vmm.c
tests_test_vmm_LDFLAGS = $(WRAP_CALLS) \
	-Wl,--wrap=malloc,--wrap=mem_system_query,--wrap=pthread_mutex_init
tests_test_wait_LDFLAGS = -Wl,--wrap=pool_progress_all
tests_test_window_faults_SOURCES = tests/calls.c tests/pool_calls.c \
	tests/test_window_faults.c
tests_test_window_faults_LDFLAGS = $(WRAP_POOL_CALLS)
tests_test_window_mapped_SOURCES = tests/calls.c tests/test_window_mapped.c
tests_test_window_mapped_LDFLAGS = $(WRAP_CALLS)
WINDOW_RMA_CALLS = \
	ucp_mem_map ucp_mem_unmap ucp_rkey_pack ucp_ep_rkey_unpack \
	ucp_rkey_destroy ucp_get_nbx ucp_put_nbx ucp_ep_flush_nbx \
	ucp_ep_print_info ucp_worker_destroy
tests_test_window_rma_LDFLAGS = $(WINDOW_RMA_CALLS:%=-Wl,--wrap=%)
tests_test_wire_stranger_LDFLAGS = -Wl,--wrap=fcntl,--wrap=fcntl64

# test_signals loads the library through late_load, which is not linked with it.
EXTRA_tests_test_signals_DEPENDENCIES = libucxpool.la tests/late_load
EXTRA_PROGRAMS = tests/late_load
CLEANFILES += tests/late_load
tests_late_load_LDADD = -ldl

# Stand-ins for other libraries. An installation path makes libtool build a
# shared library.
STAND_IN_LDFLAGS = -module -avoid-version -shared -rpath /nonexistent
tests_replay_plugin_libplugin_la_SOURCES = tests/replay_plugin/plugin.c
tests_replay_plugin_libplugin_la_LDFLAGS = $(STAND_IN_LDFLAGS)
tests_libslow_names_la_SOURCES = tests/slow_names.c
tests_libslow_names_la_LDFLAGS = $(STAND_IN_LDFLAGS)

# The CUDA driver with memory files as device memory, and an old version.
STAND_IN_SOURCES = \
	tests/copy_twin.c tests/copy_twin.h tests/cuda_stand_in/calls.c \
	tests/cuda_stand_in/device.c tests/cuda_stand_in/host.c \
	tests/cuda_stand_in/ipc.c tests/cuda_stand_in/kernel.c \
	tests/cuda_stand_in/memory.c tests/cuda_stand_in/pool.c \
	tests/cuda_stand_in/proc.c tests/cuda_stand_in/stand_in.h \
	tests/cuda_stand_in/state.h tests/cuda_stand_in/stream.c \
	tests/cuda_stand_in/vmm.c
tests_cuda_stand_in_libstand_in_la_SOURCES = $(STAND_IN_SOURCES)
tests_cuda_stand_in_libstand_in_la_LDFLAGS = $(STAND_IN_LDFLAGS)
tests_cuda_stand_in_libold_stand_in_la_SOURCES = $(STAND_IN_SOURCES)
tests_cuda_stand_in_libold_stand_in_la_LDFLAGS = $(STAND_IN_LDFLAGS)
tests_cuda_stand_in_libold_stand_in_la_CPPFLAGS = $(AM_CPPFLAGS) \
	-DSTAND_IN_WITHOUT_POOLS -DSTAND_IN_WITHOUT_PROCS \
	-DSTAND_IN_WITHOUT_VMM

# NVIDIA's management library, and a profiler.
tests_nvml_stand_in_libnvml_la_SOURCES = \
	tests/nvml_stand_in/nvml.c tests/nvml_stand_in/stand_in.h
tests_nvml_stand_in_libnvml_la_LDFLAGS = $(STAND_IN_LDFLAGS)
tests_nvtx_stand_in_libnvtx_la_SOURCES = \
	tests/nvtx_stand_in/nvtx.c tests/nvtx_stand_in/stand_in.h
tests_nvtx_stand_in_libnvtx_la_LDFLAGS = $(STAND_IN_LDFLAGS)

# Limits registration. Preloaded before UCX, or compiled into a test.
tests_reg_stand_in_libreg_la_SOURCES = \
	tests/reg_stand_in/reg.c tests/reg_stand_in/reg.h
tests_reg_stand_in_libreg_la_CPPFLAGS = $(AM_CPPFLAGS) \
	-DREG_STAND_IN_PRELOADED
tests_reg_stand_in_libreg_la_LDFLAGS = $(STAND_IN_LDFLAGS)

# libibverbs, and an old version.
VERBS_STAND_IN_SOURCES = \
	tests/verbs_stand_in/stand_in.h tests/verbs_stand_in/verbs.c
tests_verbs_stand_in_libverbs_la_SOURCES = $(VERBS_STAND_IN_SOURCES)
tests_verbs_stand_in_libverbs_la_LDFLAGS = $(STAND_IN_LDFLAGS)
tests_verbs_stand_in_libold_verbs_la_SOURCES = $(VERBS_STAND_IN_SOURCES)
tests_verbs_stand_in_libold_verbs_la_LDFLAGS = $(STAND_IN_LDFLAGS)
tests_verbs_stand_in_libold_verbs_la_CPPFLAGS = $(AM_CPPFLAGS) \
	-DVERBS_STAND_IN_OLD

# Fuzz targets, run by tests/fuzz/check_corpus.sh. Each NAME has a directory in
# tests/fuzz/corpus/.
FUZZ_TARGETS = \
	tests/fuzz/fuzz_auth tests/fuzz/fuzz_lengths tests/fuzz/fuzz_proto \
	tests/fuzz/fuzz_replay_log tests/fuzz/fuzz_ring
if HAVE_CHECK
FUZZ_TARGETS += tests/fuzz/fuzz_dispatch
endif
noinst_PROGRAMS += $(FUZZ_TARGETS)
noinst_LTLIBRARIES += tests/fuzz/libfuzz.la
tests_fuzz_libfuzz_la_SOURCES = tests/fuzz/fuzz.h
if !ENABLE_FUZZERS
tests_fuzz_libfuzz_la_SOURCES += tests/fuzz/driver.c
endif
tests_fuzz_fuzz_auth_LDFLAGS = $(FUZZER_LDFLAGS)
tests_fuzz_fuzz_auth_LDADD = tests/fuzz/libfuzz.la libucxpool-internal.la
tests_fuzz_fuzz_lengths_LDFLAGS = $(FUZZER_LDFLAGS)
tests_fuzz_fuzz_lengths_LDADD = tests/fuzz/libfuzz.la libucxpool-internal.la
tests_fuzz_fuzz_proto_LDFLAGS = $(FUZZER_LDFLAGS)
tests_fuzz_fuzz_proto_LDADD = tests/fuzz/libfuzz.la libucxpool-internal.la
tests_fuzz_fuzz_ring_LDFLAGS = $(FUZZER_LDFLAGS)
tests_fuzz_fuzz_ring_LDADD = tests/fuzz/libfuzz.la libucxpool-internal.la
tests_fuzz_fuzz_replay_log_LDFLAGS = $(FUZZER_LDFLAGS)
tests_fuzz_fuzz_replay_log_LDADD = tests/fuzz/libfuzz.la libreplay.la libtools.la
tests_fuzz_fuzz_dispatch_LDFLAGS = $(FUZZER_LDFLAGS)
tests_fuzz_fuzz_dispatch_LDADD = tests/fuzz/libfuzz.la $(LDADD)

# Programs that scripts run.
if HAVE_CHECK
tests/test_cuda_real.log: \
	tests/test_copy_cuda tests/test_cuda_backing tests/test_cuda_driver \
	tests/test_cuda_markers tests/test_cuda_pointer tests/test_cuda_region \
	tests/test_device tests/test_gpu_busy tests/test_gpu_create \
	tests/test_gpu_death tests/test_gpu_file tests/test_gpu_host \
	tests/test_gpu_link tests/test_gpu_mailbox tests/test_gpu_mixed \
	tests/test_gpu_outbox \
	tests/test_gpu_namespaces tests/test_gpu_push \
	tests/test_gpu_stream tests/test_gpu_transfer tests/test_gpu_two \
	tests/test_gpu_window tests/test_share_cuda \
	tests/test_vmm
tests/test_python.log: tests/cuda_stand_in/libstand_in.la
if HAVE_JUNIT
tests/test_java.log: java/ucxpool-tests.jar tests/libslow_names.la
endif
if HAVE_JAVA
tests/test_install.log: java/ucxpool.jar
endif
tests/test_run_gpu_tests.log: \
	tests/cuda_stand_in/libstand_in.la tests/test_cuda_backing \
	tests/test_cuda_driver tests/test_cuda_markers tests/test_cuda_pointer \
	tests/test_cuda_region tests/test_device tests/test_gpu_two tests/test_share_cuda
endif

if !HAVE_CHECK
TESTS += tests/no_check.sh
# Reports skipped tests, which are easily missed among those that passed.
check-local: check-TESTS
	@echo 'NOT TESTED: configure did not find the library Check, so no test'
	@echo 'program was built. Install it (Debian: check), and run configure'
	@echo 'and make check again.'
endif

# Subsets of the tests for builds that do not run all: scripts/pick-tests
# explains which and why.
PICK_TESTS = `cd $(srcdir) && TOOL_CHECKS='$(TOOL_CHECKS)' \
	TREE_CHECKS='$(TREE_CHECKS)' scripts/pick-tests
ALL_TESTS = $(check_PROGRAMS) $(dist_check_SCRIPTS) $(TOOL_CHECKS) $(TREE_CHECKS)
test-programs: $(check_LTLIBRARIES) $(check_PROGRAMS)
# all runs a second make, which would compile the library at the same time.
check-all check-code check-ucx check-quick check-programs: config.h all-am \
	test-programs
	$(MAKE) $(AM_MAKEFLAGS) check-TESTS \
	    TESTS="$(PICK_TESTS) $(@:check-%=%) $(ALL_TESTS)`"
check-tree: config.h all-am test-programs
	$(MAKE) $(AM_MAKEFLAGS) check-TESTS TESTS='$(TREE_CHECKS)'
thread-programs: $(check_LTLIBRARIES)
	$(MAKE) $(AM_MAKEFLAGS) $(PICK_TESTS) threads $(ALL_TESTS)`
# check-TESTS would build all programs.
check-threads: thread-programs
	$(MAKE) $(AM_MAKEFLAGS) check-TESTS check_PROGRAMS= \
	    TESTS="$(PICK_TESTS) threads $(ALL_TESTS)`"
# For packages. Builds only the programs that are run.
check-short: all $(check_LTLIBRARIES)
	$(MAKE) $(AM_MAKEFLAGS) check-TESTS check_PROGRAMS= \
	    TESTS="$(PICK_TESTS) short $(ALL_TESTS)`"
fuzz-targets: $(FUZZ_TARGETS)
distcheck-short:
	$(MAKE) $(AM_MAKEFLAGS) distcheck check_PROGRAMS= check_LTLIBRARIES= TESTS=

# Most of the time is spent translating code that runs once or twice. Not
# following jumps saves a tenth.
VALGRIND_FLAGS = -q --vex-guest-chase=no \
	--leak-check=full --errors-for-leak-kinds=definite \
	--show-leak-kinds=definite --error-exitcode=99 --num-callers=30 \
	--suppressions=$(abs_top_srcdir)/tests/sanitizer/valgrind.supp
VG_LOG_COMPILER = $(END_HUNG) 900 \
	$(abs_top_srcdir)/scripts/under-valgrind $(LIBTOOL) --mode=execute valgrind
AM_VG_LOG_FLAGS = $(VALGRIND_FLAGS)
# valgrind/NAME.vg runs tests/NAME under valgrind.
check-valgrind: test-programs
	mkdir -p valgrind
	tests=; for test in $(PICK_TESTS) valgrind $(ALL_TESTS)`; do \
	    name=valgrind/$${test##*/}.vg; : >$$name; tests="$$tests $$name"; \
	done; \
	$(MAKE) $(AM_MAKEFLAGS) check-TESTS TESTS="$$tests" \
	    TEST_SUITE_LOG=valgrind/all.log
.PHONY: test-programs thread-programs fuzz-targets \
	check-all check-code check-programs check-quick check-short \
	check-threads check-tree check-ucx check-valgrind \
	distcheck-short
