noinst_PROGRAMS += \
	examples/all_to_all examples/borrowed examples/dead_peer \
	examples/event_loop examples/gpu_buffers examples/page_cache \
	examples/receiver examples/sender
examples_all_to_all_LDADD = libucxpool.la
examples_borrowed_LDADD = libucxpool.la $(UCX_LIBS)
examples_dead_peer_LDADD = libucxpool.la
examples_event_loop_LDADD = libucxpool.la
examples_gpu_buffers_LDADD = libucxpool.la -ldl
examples_page_cache_LDADD = libucxpool.la
examples_receiver_LDADD = libucxpool.la
examples_sender_LDADD = libucxpool.la
if HAVE_VERBS
noinst_PROGRAMS += examples/verbs_write
endif
examples_verbs_write_LDADD = libucxpool.la $(VERBS_LIBS)
