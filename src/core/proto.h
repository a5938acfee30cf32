/*
 * The messages between two pools (docs/reference/protocol.md): little-endian,
 * with fixed layouts. Each has a fixed and a variable part.
 *
 *     fixed part      one of the structs below; begins with proto_head_t
 *     variable part   described in the comment of the struct
 *
 * The fixed part is the header of a UCX active message, or the start of a ring
 * entry; only proto_parse() reads it.
 */
#ifndef CORE_PROTO_H
#define CORE_PROTO_H

#include "base/math.h"
#include "copy/plan.h"
#include "ipc/cuda.h"
#include "ipc/file.h"
#include "ipc/virtual.h"

#include <assert.h>
#include <stdbool.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "the protocol's structs are little-endian");

#define PROTO_VERSION 7

/* The longest variable part of a control message: that of an eager message of
 * 16 KiB, with its runs and metadata. */
#define PROTO_DATA_MAX 20480u
/* The maximum length of a text, without a terminating NUL. */
#define PROTO_TEXT_MAX 127u
/* The maximum length of the text in BYE, without a terminating NUL. */
#define PROTO_REASON_MAX 255u
/* The maximum number of files that a peer may announce. */
#define PROTO_FILES_MAX 1024u
/* The maximum number of sends of one channel with data in flight. */
#define PROTO_SENDS_MAX 256u
/* The maximum number of imported windows of one channel. */
#define PROTO_GRANTS_MAX 4096u
/* The maximum number of parts of a window. Each part is in one file. */
#define PROTO_PARTS_MAX 128u
/* The owner of windows serves at most PROTO_CALLS_MAX operations of one channel
 * at a time. The total size of their CALLs is at most PROTO_CALLS_SIZE_MAX. */
#define PROTO_CALLS_MAX      64u
#define PROTO_CALLS_SIZE_MAX (UINT64_C(32) << 20)
/* The maximum size of a UCX rkey. */
#define PROTO_KEY_MAX 2048u
/* The maximum number of places (ucxpool_place_t) of one operation on a
 * window. */
#define PROTO_PLACES_MAX (UINT64_C(1) << 20)
/* The maximum number of blocks that a receiver lends for one message. */
#define PROTO_LENT_MAX 8u
/* The maximum number of slots of a mailbox. */
#define PROTO_SLOTS_MAX 64u
/* The maximum size of a message's data, in bytes. */
#define PROTO_SIZE_MAX (UINT64_C(1) << 62)

typedef enum proto_type {
    PROTO_HELLO = 1,
    PROTO_READY,
    PROTO_GO,
    PROTO_DESC,
    PROTO_RUNS,
    PROTO_ACCEPT,
    PROTO_DATA,
    PROTO_TAKEN,
    PROTO_DONE,
    PROTO_CANCEL,
    PROTO_CREDIT,
    PROTO_BYE,
    PROTO_DOORBELL,
    PROTO_KEPT,
    PROTO_SHORT,
    PROTO_WINDOW_OPEN,
    PROTO_WINDOW_OPENED,
    PROTO_WINDOW_CLOSE,
    PROTO_WINDOW_REVOKE,
    PROTO_WINDOW_END,
    PROTO_RETURNED,
    PROTO_MAILBOX,
    PROTO_LAST
} proto_type_t;

typedef struct proto_head {
    uint8_t  type;    /* proto_type_t */
    uint8_t  version; /* PROTO_VERSION */
    uint16_t credits; /* number of credits that this message returns to the
                         receiver */
    uint32_t channel; /* the receiver's ID for the channel */
    uint64_t key;     /* the receiver's random number for the channel */
} proto_head_t;

typedef enum proto_hello_flags {
    PROTO_HELLO_BY_EP  = 1u << 0, /* paired by endpoint, not by address */
    PROTO_HELLO_MAP    = 1u << 1, /* the sender offers its memory for mapping */
    PROTO_HELLO_CALLED = 1u << 2, /* the receiver connected to the sender's
                                     listener */
    PROTO_HELLO_PUSH = 1u << 3,   /* the sender's GPU writes to lent blocks,
                                     and the sender lends blocks */
    PROTO_HELLO_PUSH_NEAR = 1u << 4, /* push even if both pools are on one
                                        GPU */
    /* The files of this HELLO are pinned host memory. It may follow a HELLO
     * whose files are the GPU's memory. */
    PROTO_HELLO_PINNED = 1u << 5,
    PROTO_HELLO_BEGINS = 1u << 6 /* sent before a HELLO was received, or the
                                    repetition of such a HELLO */
} proto_hello_flags_t;

/* Variable part: files[num_files]. The last file is the control memory. to_key
 * proves that the sender knows the receiver's address. */
typedef struct proto_hello {
    proto_head_t head;         /* channel and key are 0 */
    uint8_t      to_id[16];    /* the receiver's pool */
    uint8_t      to_key[16];   /* the secret part of the receiver's address */
    uint8_t      from_id[16];  /* the sender's pool */
    uint8_t      from_key[16]; /* the secret part of the sender's address */
    uint64_t     pair;         /* identifies the channel between the pools */
    uint64_t     channel_key;  /* the channel key in messages to the sender */
    uint32_t     channel;      /* the channel ID in messages to the sender */
    uint32_t     flags;        /* proto_hello_flags_t */
    uint64_t     block_size;
    uint64_t     max_runs; /* longest list of runs that the sender accepts */
    uint32_t     credits;  /* eager messages that the receiver may send */
    uint32_t     max_metadata;
    uint32_t     memory_kind;
    uint32_t     num_files;
    uint32_t max_unexpected; /* limit of unanswered descriptors, in units: see
                                proto_desc_cost() */
    uint32_t   gpu; /* the checksum of the GPU's UUID; 0: no GPU copies */
    ipc_host_t host;
} proto_hello_t;

/* Variable part: the reason, as text. */
typedef struct proto_ready {
    proto_head_t head;
    uint32_t     can_map; /* 1: the sender has mapped the receiver's memory */
    uint32_t     pinned;  /* 1: can_map refers to the receiver's HELLO with
                             PROTO_HELLO_PINNED */
} proto_ready_t;

/*
 * Messages over a host's socket (wireup/wireup.h), which are not control
 * messages. The receiver of a HELLO or the importer of a window requests
 * descriptors of the owner's memory. The owner sends them in batches.
 */
#define PROTO_IMPORT_MAGIC 0x66786375u /* "ucxf" */

typedef struct proto_import {
    uint32_t magic;
    uint16_t version; /* PROTO_VERSION */
    uint16_t max;     /* maximum number of descriptors in one answer; not 0 */
    uint32_t channel; /* the owner's ID for the channel */
    uint32_t first;   /* index of the first requested descriptor */
    uint64_t key;     /* the owner's random number for the channel */
    uint64_t grant;   /* the owner's ID for a window's grant; 0: the request is
                         for the files of the owner's HELLO */
} proto_import_t;

/* Sent with `count` descriptors. The descriptors are in the order of the
 * HELLO's files, or of the window's file parts or allocations. */
typedef struct proto_given {
    uint32_t magic;
    uint16_t version;
    uint16_t count;
    uint32_t first;
    uint32_t total;                      /* total number of descriptors */
    char     reason[PROTO_TEXT_MAX + 1]; /* if `count` is 0: why the owner sends
                                            no descriptors, as text */
} proto_given_t;

typedef enum proto_desc_flags {
    PROTO_DESC_EAGER = 1u << 0, /* the stream follows in the variable part */
    PROTO_DESC_RUNS  = 1u << 1, /* the runs follow in separate messages */
    /* Internal messages, which are not matched with receives of the
     * application. At most one of these flags is set. */
    PROTO_DESC_CALL  = 1u << 2, /* an operation on a window: proto_call_t */
    PROTO_DESC_READ  = 1u << 3, /* the answer to a read; tag: the read's ID */
    PROTO_DESC_WRITE = 1u << 4, /* the data of a write; tag: the write's ID */
    /* The message's data is written to slots of the receiver's mailbox. */
    PROTO_DESC_MAILED = 1u << 5
} proto_desc_flags_t;

#define PROTO_DESC_WINDOW (PROTO_DESC_CALL | PROTO_DESC_READ | PROTO_DESC_WRITE)

/* Variable part: runs (unless PROTO_DESC_RUNS), metadata, stream (if eager). */
typedef struct proto_desc {
    proto_head_t head;
    uint64_t     message;  /* the sender's ID for the message; 0 if eager */
    uint64_t     sequence; /* 0, 1, 2, ... for the descriptors of a channel */
    uint64_t     tag;
    uint64_t     payload_size;
    uint32_t     num_runs;
    uint32_t     metadata_size;
    uint32_t     flags; /* proto_desc_flags_t */
    uint32_t     slot;  /* with PROTO_DESC_MAILED; else 0 */
} proto_desc_t;

/* The cost of a descriptor that is not eager, in units of the receiver's
 * max_unexpected: 1, plus 1 for each 256 bytes of its variable part, but at
 * most max. ACCEPT or DONE returns the units. */
#define PROTO_DESC_UNIT 256u

static inline uint32_t proto_desc_cost(size_t data_size, uint32_t max)
{
    uint32_t cost = 1 + (uint32_t)(data_size / PROTO_DESC_UNIT);

    return (cost < max) ? cost : max;
}

/* The longest message in a SHORT. Together with one run, it fits in the
 * variable part of a descriptor. */
#define PROTO_SHORT_MAX (PROTO_DATA_MAX - 16)

/* A short form of descriptors, sent only through a ring: for eager messages of
 * the same length, with one segment each and without metadata. The sequence
 * number of each message is that of the previous one plus 1. Variable part: for
 * each message, its tag (uint64_t), its data, and padding to a multiple of 8
 * bytes. */
typedef struct proto_short {
    proto_head_t head;
    uint32_t     num;    /* of messages, 1 or more */
    uint32_t     length; /* of each message, in bytes, 1 or more */
} proto_short_t;

/* Returns the size of a message in the variable part of a SHORT. length: at
 * most PROTO_SHORT_MAX */
static inline size_t proto_short_size(size_t length)
{
    return sizeof(uint64_t) + base_align_up(length, 8);
}

/* Variable part: runs[num_runs], which are the message's runs from index
 * `first` on. */
typedef struct proto_runs {
    proto_head_t head;
    uint64_t     sequence; /* the descriptor's sequence number */
    uint32_t     first;
    uint32_t     num_runs;
} proto_runs_t;

/* Variable part: an array of proto_lent_t, which may be empty. It lists the
 * blocks to which the sender may write until the message has ended. */
typedef struct proto_accept {
    proto_head_t head;
    uint64_t     message;   /* the sender's ID for the message */
    uint64_t     receive;   /* the receiver's ID for the receive */
    uint64_t     frag_size; /* longest fragment that the receiver accepts */
    uint32_t     window;    /* maximum number of fragments in flight */
    uint32_t     reserved;
} proto_accept_t;

typedef struct proto_lent {
    uint64_t offset; /* of the block, in its region */
    uint64_t length;
    uint32_t region; /* number of the receiver's region */
    uint32_t reserved;
} proto_lent_t;

/* Sent after a failed message, when all writes to its lent blocks have
 * ended. */
typedef struct proto_returned {
    proto_head_t head;
    uint64_t     message; /* the sender's ID for the message */
} proto_returned_t;

/* A mailbox: contiguous slots in the receiver's memory, to which the sender
 * writes messages as long as the channel exists. The flags of the slots follow
 * the last slot. */
typedef struct proto_mailbox {
    proto_head_t head;
    uint64_t     offset; /* of the first slot, in the region */
    uint32_t     region; /* number of the receiver's region */
    uint32_t     num_slots;
    uint64_t     slot_size; /* a multiple of 64 */
} proto_mailbox_t;

/* Size of a slot's flag. When a message is complete, the first word of its
 * first slot's flag is set to the low 32 bits of the message's number. */
#define PROTO_FLAG_SIZE 64u

typedef enum proto_data_flags {
    PROTO_DATA_LAST     = 1u << 0, /* `index` is the highest of the message */
    PROTO_DATA_CHECKSUM = 1u << 1,
    PROTO_DATA_INPLACE  = 1u << 2, /* sent from registered memory */
    PROTO_DATA_PUSHED   = 1u << 3, /* written to a lent block */
    /* Pushed, and complete when the flag of `slot` in the mailbox is set. */
    PROTO_DATA_EARLY = 1u << 4
} proto_data_flags_t;

/* Variable part: the data (`ucx` wire), or nothing (`map` wire). */
typedef struct proto_data {
    proto_head_t head;
    uint64_t     message;
    uint64_t     receive;
    uint64_t     offset; /* of the fragment, in the stream */
    uint64_t     length;
    uint32_t     index; /* 0, 1, 2, ... for the fragments of a message */
    uint32_t     flags; /* proto_data_flags_t */
    union {
        uint32_t checksum; /* with PROTO_DATA_CHECKSUM */
        uint32_t slot;     /* with PROTO_DATA_EARLY */
    };
    uint32_t piece;         /* the fragment's number, which TAKEN returns */
    uint64_t region_offset; /* `map` wire: offset of the data in `region` */
    uint32_t region;
    uint32_t word; /* `map` wire: index of the message in revoked[] */
} proto_data_t;

typedef struct proto_taken {
    proto_head_t head;
    uint64_t     message;
    uint32_t     piece;
    uint32_t     reserved;
} proto_taken_t;

/* Variable part: the reason, as text. */
typedef struct proto_done {
    proto_head_t head;
    uint64_t     message;
    int32_t      status; /* ucxpool_status_t */
    uint32_t     reserved;
} proto_done_t;

/* Variable part: the reason, as text. */
typedef struct proto_cancel {
    proto_head_t head;
    uint64_t     message;
    uint64_t     receive; /* the receiver's ID for the receive; 0: unknown */
    int32_t      status;  /* the error of the send, a ucxpool_status_t */
    uint32_t     reserved;
} proto_cancel_t;

typedef struct proto_window_open {
    proto_head_t head;
    uint64_t     remote; /* the importer's ID for the remote window */
    uint64_t     window;
    uint8_t      key[16]; /* the key in the window's blob */
    uint32_t     access;  /* ucxpool_window_access_t */
    uint32_t     flags;   /* proto_open_flags_t */
} proto_window_open_t;

/* Data that the importer requests in addition to a grant. */
typedef enum proto_open_flags {
    PROTO_OPEN_KEY = 1u << 0 /* UCX's rkey, for get and put */
} proto_open_flags_t;

/* Variable part: if the owner refuses, the reason as text. Otherwise the data
 * that the flags describe, or a text that says why the memory cannot be mapped
 * or has no key. */
typedef struct proto_window_opened {
    proto_head_t head;
    uint64_t     remote;
    uint64_t     grant;   /* the owner's ID for the grant; 0: refused */
    uint64_t     length;  /* of the window */
    uint64_t     address; /* of the window, in the owner's process */
    int32_t      status;  /* ucxpool_status_t */
    uint32_t     flags;   /* proto_opened_flags_t */
} proto_window_opened_t;

/* Ways to access a window, in addition to messages. The variable part has the
 * details. At most one of the last four is set. */
typedef enum proto_opened_flags {
    PROTO_OPENED_PROCESS = 1u << 0, /* host memory, at `address` */
    PROTO_OPENED_CUDA    = 1u << 1, /* GPU memory: proto_window_cuda_t */
    PROTO_OPENED_PARTS   = 1u << 2, /* an array of proto_window_part_t */
    PROTO_OPENED_KEY     = 1u << 3, /* UCX's rkey */
    PROTO_OPENED_VIRTUAL = 1u << 4  /* allocations of a GPU's virtual memory:
                                       ipc_virtual_layout_t with its runs */
} proto_opened_flags_t;

/* The allocation that contains the window, and its offset. */
typedef struct proto_window_cuda {
    ipc_cuda_t share;
    uint64_t   offset;
} proto_window_cuda_t;

/* A part of the window, in order: a range of a memory file. If `region` is not
 * 0, the part is in a region that the importer has mapped, and there is no
 * file. */
typedef struct proto_window_part {
    ipc_file_t file;
    uint64_t   offset; /* of the part's first byte, in the file or region */
    uint64_t   length;
    uint32_t   region; /* number of the owner's region, from 1 on; 0: a file */
    uint32_t   reserved;
} proto_window_part_t;

/* Sent by the importer when it can no longer access the window. */
typedef struct proto_window_close {
    proto_head_t head;
    uint64_t     grant;
} proto_window_close_t;

/* Sent by the owner to request a CLOSE. */
typedef struct proto_window_revoke {
    proto_head_t head;
    uint64_t     remote;
} proto_window_revoke_t;

/* Variable part: the reason, as text. */
typedef struct proto_window_end {
    proto_head_t head;
    uint64_t     operation;
    int32_t      status;  /* ucxpool_status_t */
    uint32_t     refused; /* 1: the owner refused the operation; 0: the importer
                             canceled it */
} proto_window_end_t;

typedef enum proto_call_kind {
    PROTO_CALL_READ  = 1,
    PROTO_CALL_WRITE = 2
} proto_call_kind_t;

/*
 * The start of a message with PROTO_DESC_CALL. The places follow. If `length`
 * is 0, they are an array of ucxpool_place_t. Otherwise they are num_places
 * offsets of 8 bytes, and each place has this length.
 */
typedef struct proto_call {
    uint64_t operation; /* the importer's ID for the operation */
    uint64_t grant;
    uint32_t kind; /* proto_call_kind_t */
    uint32_t reserved;
    uint64_t num_places;
    uint64_t length;
    uint64_t size; /* total length of the places */
} proto_call_t;

/* Variable part: the reason of a failure, as text. */
typedef struct proto_bye {
    proto_head_t head;
    int32_t      status; /* ucxpool_status_t; OK: the channel was closed */
    uint32_t     reserved;
} proto_bye_t;

/* CREDIT, DOORBELL, KEPT and GO have only a head. */

typedef union proto_fixed {
    proto_head_t          head;
    proto_hello_t         hello;
    proto_ready_t         ready;
    proto_desc_t          desc;
    proto_short_t         in_short;
    proto_runs_t          runs;
    proto_accept_t        accept;
    proto_data_t          data;
    proto_taken_t         taken;
    proto_done_t          done;
    proto_cancel_t        cancel;
    proto_window_open_t   window_open;
    proto_window_opened_t window_opened;
    proto_window_close_t  window_close;
    proto_window_revoke_t window_revoke;
    proto_window_end_t    window_end;
    proto_returned_t      returned;
    proto_mailbox_t       mailbox;
    proto_bye_t           bye;
} proto_fixed_t;

/* Returns the size of the fixed part of a type; 0 for an unknown type. */
size_t proto_fixed_size(unsigned type);

/*
 * Copy the fixed part of a peer's message. Check its version, its size and the
 * size of the variable part. Check the status of a CANCEL or BYE. The payload
 * of a DATA message is not read.
 *
 * UCXPOOL_ERR_PROTOCOL  the message is invalid; the detail contains the reason
 */
ucxpool_status_t proto_parse(const void *fixed, size_t fixed_size,
                             size_t data_size, proto_fixed_t *message_p);

/*
 * Check a complete CALL: its places must be within a window of window_length
 * bytes.
 *
 * data_size  Size of the places that follow the call, in bytes.
 *
 * UCXPOOL_ERR_INVALID_PARAM  a place is outside the window, or the call is
 *                            invalid; the detail contains the reason
 */
ucxpool_status_t proto_check_call(const proto_call_t *call, const void *places,
                                  uint64_t data_size, uint64_t window_length);

/* Copy and check an IMPORT. Returns false if it is invalid; *import_p is then
 * unchanged. */
bool proto_parse_import(const void *bytes, size_t length,
                        proto_import_t *import_p);

/*
 * Check the runs and sizes of a descriptor whose runs have all arrived.
 * data_size is the length of the variable part without runs.
 */
ucxpool_status_t proto_check_desc(const proto_desc_t *desc,
                                  const copy_run_t *runs, size_t data_size,
                                  copy_totals_t *totals_p);

/* Copy a peer's text. Bytes that are not printable ASCII are replaced. */
void proto_copy_text(char *text, size_t text_size, const void *data,
                     size_t data_size);

#endif
