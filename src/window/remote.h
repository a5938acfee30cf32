/* Remote windows, on the importer's side (window/window.h). */
#ifndef WINDOW_REMOTE_H
#define WINDOW_REMOTE_H

#include "ipc/file.h"
#include "window/window.h"

/* Size of the text that explains which ways a remote window uses, and why. */
#define WINDOW_REASON_SIZE (2 * CORE_REASON_SIZE + 20)

/* The owner's answer to an import. */
typedef struct window_answer {
    proto_window_opened_t opened;
    const void           *data; /* data of the owner's message */
    size_t                data_size;
    const char           *reason; /* why the importer cannot access the
                                     memory */
    proto_window_cuda_t  cuda;    /* valid with PROTO_OPENED_CUDA */
    ipc_virtual_layout_t layout;  /* valid with PROTO_OPENED_VIRTUAL */
    const int *fds; /* descriptors of the parts, sent by the owner; NULL: take
                       them from the owner's process, or request them */
    size_t              num_parts;
    proto_window_part_t parts[PROTO_PARTS_MAX];
} window_answer_t;

/* A part of the window, mapped into this process. */
typedef struct window_view {
    uint64_t   end;     /* window offset of the first byte after the part */
    uint8_t   *address; /* mapped address of that byte */
    ipc_view_t view;    /* size 0: in a region, which the channel has mapped */
} window_view_t;

struct ucxpool_remote_window {
    base_list_t        link;    /* in the channel's list */
    ucxpool_channel_t *channel; /* holds a reference */
    uint64_t           number;
    window_blob_t      blob;
    bool               was_asked; /* OPEN was sent, or the import failed before
                                   * it was sent */
    bool             user_ref;    /* the caller has not released it yet */
    unsigned         refs;        /* held by operations and internal users */
    ucxpool_status_t status;
    char             reason[WINDOW_REASON_SIZE];
    uint64_t         length;
    unsigned         access;
    uint64_t grant;       /* the owner's ID for the grant; 0: none, or closed */
    uint64_t address;     /* in the owner's process; for GPU memory, its
                             address in this process */
    ipc_cuda_t     share; /* how it is mapped; `way` 0: not mapped */
    const void    *mapping;
    ipc_virtual_t  range; /* addresses reserved for GPU memory; size 0: none */
    window_view_t *views; /* the mapped parts, in the window's order */
    unsigned       num_views;
    bool           can_write;   /* the views are writable */
    bool           is_pinned;   /* our GPU can access the view */
    bool           needs_files; /* the owner must send its descriptors */
    ucp_rkey_h     key;         /* UCX's key; NULL: none */
    bool           is_on_gpu;   /* the key is for GPU memory */
    bool           is_trying;   /* a test of the key is in progress; tried() is
                                   called after it unless the channel ends */
    void (*tried)(struct ucxpool_remote_window *remote);
    uint8_t                  probe;  /* a byte of the window, to test the key */
    window_answer_t         *answer; /* while files are requested; else NULL */
    const struct window_way *way;    /* the way that reads use */
    const struct window_way *write_way;
    char                     way_reason[WINDOW_REASON_SIZE];
    base_list_t waiting; /* operations that wait for the owner's answer */
};

/* Implements ucxpool_remote_window_import(). */
ucxpool_status_t window_import(ucxpool_channel_t *channel, const void *blob,
                               size_t                    blob_size,
                               ucxpool_remote_window_t **remote_p);

/* Drop the caller's reference, or the reference of an operation. Either
 * function frees the remote window if it drops the last reference. */
void window_remote_release(ucxpool_remote_window_t *remote);
void window_remote_put(ucxpool_remote_window_t *remote);

/* Send OPEN for all imports for which OPEN has not been sent. Returns the
 * number of these imports. */
unsigned window_remotes_progress(ucxpool_channel_t *channel);

/* Handle the owner's answer to an import: granted or refused. The data and the
 * reason are only valid during the call. */
void window_remote_opened(ucxpool_channel_t           *channel,
                          const proto_window_opened_t *opened, const void *data,
                          size_t data_size, const char *reason);

/* Map the next allocations of a window whose files have been requested. The
 * caller keeps ownership of the descriptors. Errors: see ipc_virtual_map(). */
ucxpool_status_t window_remote_map_files(ucxpool_channel_t *channel,
                                         uint64_t number, const int *fds,
                                         unsigned num_fds);

/* Handle the owner's reply to a request for descriptors. Such a request is sent
 * for virtual memory (cuMemCreate()), or if this process is not permitted to
 * take descriptors from the owner's process. The caller keeps ownership of the
 * descriptors. If fds is NULL, the owner did not send them or they cannot be
 * mapped, and `reason` says why. */
void window_remote_files_received(ucxpool_channel_t *channel, uint64_t number,
                                  const int *fds, const char *reason);

/* Fail the remote window, because the owner has revoked the window. */
void window_remote_revoked(ucxpool_channel_t *channel, uint64_t number);

/* Add a reason why the remote window uses a way, or cannot use it. The newest
 * reason comes first in the text. */
void window_remote_set_reason(ucxpool_remote_window_t *remote,
                              const char              *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Release the mappings and the key of the remote window. May be called more
 * than once. */
void window_remote_unmap(ucxpool_remote_window_t *remote);

/* Fail the remote window: make it unusable, and end its operations with this
 * status. */
void window_remote_end(ucxpool_remote_window_t *remote, ucxpool_status_t status,
                       const char *reason);

#endif
