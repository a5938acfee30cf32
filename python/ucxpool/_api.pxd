# The part of libucxpool's C interface that _core.pyx uses. <ucxpool/ucxpool.h>
# documents it.
from libc.stdint cimport uint16_t, uint64_t

cdef extern from "ucxpool/ucxpool.h" nogil:
    ctypedef struct ucxpool_t:
        pass
    ctypedef struct ucxpool_config_t:
        pass
    ctypedef struct ucxpool_channel_t:
        pass
    ctypedef struct ucxpool_listener_t:
        pass
    ctypedef struct ucxpool_request_t:
        pass
    ctypedef struct ucxpool_message_t:
        pass
    ctypedef struct ucxpool_window_t:
        pass
    ctypedef struct ucxpool_remote_window_t:
        pass

    # --- status.h
    ctypedef enum ucxpool_status_t:
        UCXPOOL_OK
        UCXPOOL_INPROGRESS
        UCXPOOL_ERR_INVALID_PARAM
        UCXPOOL_ERR_CANCELED
        UCXPOOL_ERR_NO_MESSAGE
        UCXPOOL_ERR_BUSY
        UCXPOOL_ERR_CLOSED
    const char *ucxpool_status_string(ucxpool_status_t status)
    const char *ucxpool_error_detail()
    const char *ucxpool_version_string()

    # --- log.h
    ctypedef enum ucxpool_log_level_t:
        pass
    ctypedef void (*ucxpool_log_handler_t)(ucxpool_log_level_t level,
                                           const char *message,
                                           void *arg) noexcept
    ucxpool_status_t ucxpool_log_set_handler(ucxpool_log_handler_t handler,
                                             void *arg)
    ucxpool_status_t ucxpool_log_set_level(ucxpool_log_level_t level)

    # --- config.h
    ucxpool_status_t ucxpool_config_read(ucxpool_config_t **config_p)
    ucxpool_status_t ucxpool_config_modify(ucxpool_config_t *config,
                                           const char *key, const char *value)
    ucxpool_status_t ucxpool_config_set_secret(ucxpool_config_t *config,
                                               const void *bytes,
                                               size_t length)
    void ucxpool_config_release(ucxpool_config_t *config)

    # --- pool.h
    ctypedef enum ucxpool_memory_kind_t:
        UCXPOOL_MEMORY_HOST
        UCXPOOL_MEMORY_CUDA
    enum:
        UCXPOOL_PARAM_FIELD_CONFIG
        UCXPOOL_PARAM_FIELD_MEMORY_KIND
        UCXPOOL_PARAM_FIELD_NAME
        UCXPOOL_PARAM_FIELD_DEVICE
    ctypedef struct ucxpool_params_t:
        uint64_t field_mask
        const ucxpool_config_t *config
        ucxpool_memory_kind_t memory_kind
        const char *name
        int device
    ctypedef struct ucxpool_attr_t:
        const char *name
        ucxpool_memory_kind_t memory_kind
        int device
        size_t block_size
        size_t region_size
        size_t num_regions
        int degraded_to
        const char *degraded_why
    const uint64_t UCXPOOL_FOREVER
    ucxpool_status_t ucxpool_create(const ucxpool_params_t *params,
                                    ucxpool_t **pool_p)
    void ucxpool_query(const ucxpool_t *pool, ucxpool_attr_t *attr_p,
                       size_t attr_size)
    void ucxpool_destroy(ucxpool_t *pool)
    unsigned ucxpool_progress(ucxpool_t *pool)
    ucxpool_status_t ucxpool_wait(ucxpool_t *pool, uint64_t timeout_ns)
    ucxpool_status_t ucxpool_event_fd(ucxpool_t *pool, int *fd_p)
    ucxpool_status_t ucxpool_arm(ucxpool_t *pool)
    ucxpool_status_t ucxpool_check(ucxpool_t *pool)

    # --- heap.h
    ctypedef struct ucxpool_heap_segment_t:
        void *address
        size_t length
        void *chunk
        size_t chunk_size
    ucxpool_status_t ucxpool_heap_segments(
        ucxpool_t *pool, const void *address, size_t length,
        ucxpool_heap_segment_t *segments, size_t max_segments,
        size_t *num_segments_p)

    # --- channel.h
    ctypedef enum ucxpool_channel_state_t:
        UCXPOOL_CHANNEL_CONNECTING
        UCXPOOL_CHANNEL_OPEN
        UCXPOOL_CHANNEL_CLOSED
        UCXPOOL_CHANNEL_FAILED
    ctypedef struct ucxpool_channel_attr_t:
        ucxpool_channel_state_t state
        ucxpool_status_t status
        char reason[352]  # UCXPOOL_REASON_SIZE
        int wire
        char wire_reason[352]
        char name[32]  # UCXPOOL_NAME_SIZE
        void *user_ptr
        char local_address[80]  # UCXPOOL_HOST_PORT_SIZE
        char remote_address[80]
    enum:
        UCXPOOL_CHANNEL_PARAM_FIELD_USER_PTR
        UCXPOOL_CHANNEL_PARAM_FIELD_REQUIRE
        UCXPOOL_PATH_MAP
        UCXPOOL_PATH_RMA
        UCXPOOL_PATH_DIRECT
    ctypedef struct ucxpool_channel_params_t:
        uint64_t field_mask
        void *user_ptr
        uint64_t require
    ucxpool_status_t ucxpool_channel_connect(
        ucxpool_t *pool, const char *where,
        const ucxpool_channel_params_t *params, ucxpool_channel_t **channel_p)
    void ucxpool_channel_set_name(ucxpool_channel_t *channel, const char *name)
    void ucxpool_channel_query(const ucxpool_channel_t *channel,
                               ucxpool_channel_attr_t *attr_p,
                               size_t attr_size)
    void ucxpool_channel_close(ucxpool_channel_t *channel)
    void ucxpool_channel_abort(ucxpool_channel_t *channel)
    ucxpool_status_t ucxpool_listener_create(ucxpool_t *pool,
                                             const char *where,
                                             ucxpool_listener_t **listener_p)
    uint16_t ucxpool_listener_port(const ucxpool_listener_t *listener)
    ucxpool_status_t ucxpool_listener_accept(
        ucxpool_listener_t *listener, const ucxpool_channel_params_t *params,
        ucxpool_channel_t **channel_p)
    void ucxpool_listener_destroy(ucxpool_listener_t *listener)

    # --- event.h
    enum:
        UCXPOOL_EVENT_MESSAGE
        UCXPOOL_EVENT_STATE
        UCXPOOL_EVENT_CALLER
    ctypedef struct ucxpool_event_t:
        unsigned kinds
        ucxpool_channel_t *channel
        ucxpool_listener_t *listener
        void *user_ptr
    ucxpool_status_t ucxpool_event_get(ucxpool_t *pool,
                                       ucxpool_event_t *events, size_t max,
                                       size_t *num_p)

    # --- transfer.h
    ctypedef struct ucxpool_segment_t:
        void *address
        size_t length
    ctypedef struct ucxpool_const_segment_t:
        const void *address
        size_t length
    ctypedef struct ucxpool_data_t:
        pass
    ucxpool_data_t ucxpool_source_segments(
        const ucxpool_const_segment_t *segments, size_t count)
    ucxpool_data_t ucxpool_data_segments(const ucxpool_segment_t *segments,
                                         size_t count)
    ucxpool_data_t ucxpool_source_pieces(const void *const *addresses,
                                         size_t count, size_t length)
    ucxpool_data_t ucxpool_data_pieces(void *const *addresses, size_t count,
                                       size_t length)
    enum:
        UCXPOOL_REQUEST_PARAM_FIELD_METADATA
        UCXPOOL_REQUEST_PARAM_FIELD_TIMEOUT
        UCXPOOL_REQUEST_PARAM_FIELD_STREAM
        UCXPOOL_REQUEST_PARAM_FIELD_SEGMENTS
        UCXPOOL_REQUEST_PARAM_FIELD_COMPLETION
        UCXPOOL_REQUEST_PARAM_FIELD_NOTIFY
    ctypedef enum ucxpool_segments_kind_t:
        UCXPOOL_SEGMENTS_CUDA
    ctypedef struct ucxpool_request_params_t:
        uint64_t field_mask
        const void *metadata
        size_t metadata_length
        uint64_t timeout_ns
        void *stream
        ucxpool_segments_kind_t segments_kind
        void *completion_ptr
        uint64_t notify_tag
    void *UCXPOOL_STREAM_READY
    ucxpool_status_t ucxpool_probe(ucxpool_t *pool, ucxpool_channel_t *channel,
                                   uint64_t tag, uint64_t mask,
                                   ucxpool_message_t **message_p)
    ctypedef struct ucxpool_message_attr_t:
        uint64_t tag
        size_t length
        size_t num_segments
        const void *metadata
        size_t metadata_length
        ucxpool_channel_t *channel
    void ucxpool_message_query(const ucxpool_message_t *message,
                               ucxpool_message_attr_t *attr_p,
                               size_t attr_size)
    size_t ucxpool_message_lengths(const ucxpool_message_t *message,
                                   size_t first, size_t num_lengths,
                                   size_t *lengths)
    ucxpool_status_t ucxpool_message_recv(
        ucxpool_message_t *message, const ucxpool_data_t *data,
        const ucxpool_request_params_t *params, ucxpool_request_t **request_p)
    void ucxpool_message_refuse(ucxpool_message_t *message, const char *reason)
    ucxpool_status_t ucxpool_channel_flush(
        ucxpool_channel_t *channel, const ucxpool_request_params_t *params,
        ucxpool_request_t **request_p)
    ucxpool_status_t ucxpool_request_test(const ucxpool_request_t *request)
    ucxpool_status_t ucxpool_request_wait(ucxpool_request_t *request,
                                          uint64_t timeout_ns)
    ctypedef struct ucxpool_request_attr_t:
        ucxpool_status_t status
        char detail[352]
        uint64_t tag
        size_t length
        const void *metadata
        size_t metadata_length
    void ucxpool_request_query(const ucxpool_request_t *request,
                               ucxpool_request_attr_t *attr_p,
                               size_t attr_size)
    void ucxpool_request_cancel(ucxpool_request_t *request)
    ctypedef struct ucxpool_completion_t:
        ucxpool_request_t *request
        void *completion_ptr
        ucxpool_status_t status
        uint64_t tag
        uint64_t length
    ucxpool_status_t ucxpool_completion_get(ucxpool_t *pool,
                                            ucxpool_completion_t *completions,
                                            size_t max, size_t *num_p)
    void ucxpool_request_release(ucxpool_request_t *request)

    # --- window.h
    enum:
        UCXPOOL_WINDOW_PARAM_FIELD_NAME
        UCXPOOL_WINDOW_PARAM_FIELD_FD
        UCXPOOL_WINDOW_READ
        UCXPOOL_WINDOW_WRITE
        UCXPOOL_WINDOW_BLOB_SIZE
    ctypedef struct ucxpool_window_params_t:
        uint64_t field_mask
        const char *name
        int fd
    ctypedef struct ucxpool_window_attr_t:
        char name[32]
        void *address
        size_t length
        unsigned num_peers
        int is_revoked
        size_t registered
        char not_registered[352]
    ucxpool_status_t ucxpool_device_list_alloc(int device, size_t size,
                                               void **list_p)
    void ucxpool_device_list_free(void *list)
    ucxpool_status_t ucxpool_window_create(
        ucxpool_t *pool, void *address, size_t length,
        const ucxpool_window_params_t *params, ucxpool_window_t **window_p)
    ucxpool_status_t ucxpool_window_export(const ucxpool_window_t *window,
                                           unsigned access, void *blob)
    ucxpool_status_t ucxpool_window_revoke(ucxpool_window_t *window,
                                           uint64_t timeout_ns)
    void ucxpool_window_destroy(ucxpool_window_t *window)
    void ucxpool_window_query(const ucxpool_window_t *window,
                              ucxpool_window_attr_t *attr_p, size_t attr_size)
    ucxpool_status_t ucxpool_remote_window_import(
        ucxpool_channel_t *channel, const void *blob, size_t blob_size,
        ucxpool_remote_window_t **remote_p)
    void ucxpool_remote_window_release(ucxpool_remote_window_t *remote)
    ctypedef struct ucxpool_remote_window_attr_t:
        ucxpool_status_t status
        char reason[352]
        size_t length
        unsigned access
        int way
        char way_reason[352]
        ucxpool_channel_t *channel
    void ucxpool_remote_window_query(const ucxpool_remote_window_t *remote,
                                     ucxpool_remote_window_attr_t *attr_p,
                                     size_t attr_size)
    ctypedef struct ucxpool_place_t:
        uint64_t offset
        uint64_t length
    ctypedef struct ucxpool_places_t:
        size_t count
    ucxpool_places_t ucxpool_places(const ucxpool_place_t *places,
                                    size_t count)
    ucxpool_places_t ucxpool_places_even(const uint64_t *offsets, size_t count,
                                         uint64_t length)

    # --- batch.h
    ctypedef enum ucxpool_op_kind_t:
        UCXPOOL_OP_SEND
        UCXPOOL_OP_RECV
        UCXPOOL_OP_READ
        UCXPOOL_OP_WRITE
    ctypedef struct ucxpool_op_t:
        ucxpool_op_kind_t kind
        ucxpool_data_t data
        const ucxpool_request_params_t *params
        ucxpool_request_t **request_p
        ucxpool_channel_t *channel
        uint64_t tag
        uint64_t mask
        ucxpool_remote_window_t *remote
        const ucxpool_places_t *places
    ucxpool_status_t ucxpool_post(ucxpool_t *pool, const ucxpool_op_t *ops,
                                  size_t op_size, size_t num_ops,
                                  size_t *num_posted_p)

    # --- stats.h
    ctypedef struct ucxpool_stat_attr_t:
        const char *name
        const char *unit
        const char *help
        int kind
    size_t ucxpool_stats_count()
    ucxpool_status_t ucxpool_stats_query(size_t index,
                                         ucxpool_stat_attr_t *attr_p,
                                         size_t attr_size)
    ucxpool_status_t ucxpool_stats_read(ucxpool_t *pool, uint64_t *values,
                                        size_t max_values, size_t *num_p)
    size_t ucxpool_channel_stats_count()
    ucxpool_status_t ucxpool_channel_stats_query(size_t index,
                                                 ucxpool_stat_attr_t *attr_p,
                                                 size_t attr_size)
    ucxpool_status_t ucxpool_channel_stats_read(
        const ucxpool_channel_t *channel, uint64_t *values, size_t max_values,
        size_t *num_p)
    int UCXPOOL_HISTOGRAM_BUCKETS
    ctypedef struct ucxpool_histogram_attr_t:
        const char *name
        const char *operation
        const char *wire
        const char *way
    ctypedef struct ucxpool_histogram_t:
        uint64_t count
        uint64_t sum
        uint64_t buckets[40]
    size_t ucxpool_histogram_count()
    ucxpool_status_t ucxpool_histogram_query(size_t index,
                                             ucxpool_histogram_attr_t *attr_p,
                                             size_t attr_size)
    ucxpool_status_t ucxpool_histogram_get(ucxpool_t *pool, const char *name,
                                           ucxpool_histogram_t *histogram_p,
                                           size_t histogram_size)
