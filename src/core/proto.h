/*
 * The messages between two pools (docs/reference/protocol.md): little-endian,
 * fixed layouts, each a fixed part and a variable part.
 *
 *     fixed part      one of the structs below; begins with proto_head_t
 *     variable part   what the comment beside the struct says
 *
 * The fixed part travels as the header of a UCX active message, or at the
 * beginning of a ring entry; proto_parse() is the only reader.
 */
#ifndef CORE_PROTO_H
#define CORE_PROTO_H

#include "copy/plan.h"
#include "ipc/share.h"

#include <assert.h>
#include <stdbool.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "the protocol's structs are little-endian");

#define PROTO_VERSION 1

/* Longest variable part of a control message: an eager message of 16 KiB, with
 * room for its runs and metadata. */
#define PROTO_DATA_MAX 20480u
/* Longest text, without a final 0. */
#define PROTO_TEXT_MAX 127u
/* Most files a peer may announce. */
#define PROTO_FILES_MAX 1024u
/* Sends of one channel whose bytes may be on their way at a time. */
#define PROTO_SENDS_MAX 256u
/* Imports of windows over one channel. */
#define PROTO_GRANTS_MAX 4096u
/* Parts of files or allocations that a window lies in. */
#define PROTO_PARTS_MAX 128u
/* Operations of one channel on windows that the owner serves at a time, and
 * bytes of their CALLs. */
#define PROTO_CALLS_MAX      64u
#define PROTO_CALLS_SIZE_MAX (UINT64_C(32) << 20)
/* Bytes of a key of UCX's. */
#define PROTO_KEY_MAX 2048u
/* Places of one operation. */
#define PROTO_PLACES_MAX (UINT64_C(1) << 20)
/* Blocks that a receiver lends to a sender for one message. */
#define PROTO_LENT_MAX 8u
/* Slots of a mailbox. */
#define PROTO_SLOTS_MAX 64u
/* Longest message. */
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
    uint16_t credits; /* eager messages of the other side that were received
                         since */
    uint32_t channel; /* the receiver's number of the channel */
    uint64_t key;     /* the receiver's random number for the channel */
} proto_head_t;

typedef enum proto_hello_flags {
    PROTO_HELLO_BY_EP  = 1u << 0, /* pairs by endpoint, not by address */
    PROTO_HELLO_MAP    = 1u << 1, /* the sender offers its memory for mapping */
    PROTO_HELLO_CALLED = 1u << 2, /* the receiver has called a listener */
    PROTO_HELLO_PUSH   = 1u << 3, /* its GPU writes to blocks that are lent, and
                                     it lends blocks */
    PROTO_HELLO_PUSH_NEAR = 1u << 4 /* also where both are on one GPU */
} proto_hello_flags_t;

/* Variable part: files[num_files], the last one the control memory. */
typedef struct proto_hello {
    proto_head_t head;         /* channel and key are 0 */
    uint8_t      to_id[16];    /* the pool that is meant */
    uint8_t      to_key[16];   /* shows that the sender has its address */
    uint8_t      from_id[16];  /* the sender's pool */
    uint8_t      from_key[16]; /* of its address: not everybody knows it */
    uint64_t     pair;         /* which channel between the two pools */
    uint64_t     channel_key;  /* to be used in messages to the sender */
    uint32_t     channel;      /* likewise */
    uint32_t     flags;        /* proto_hello_flags_t */
    uint64_t     block_size;
    uint64_t     max_runs; /* longest list of runs that is taken */
    uint32_t     credits;  /* messages whose bytes may wait at the sender */
    uint32_t     max_metadata;
    uint32_t     memory_kind;
    uint32_t     num_files;
    uint32_t     max_unexpected; /* announcements that may wait: see
                                    proto_desc_cost() */
    uint32_t   reserved;
    ipc_host_t host;
} proto_hello_t;

/* Variable part: the reason in words. */
typedef struct proto_ready {
    proto_head_t head;
    uint32_t     can_map; /* 1: the receiver's memory has been mapped */
    uint32_t     reserved;
} proto_ready_t;

/*
 * Over the socket of a host (wireup/fd_passing.h), not as control messages: the
 * receiver of a HELLO, or the importer of a window, asks its owner for the
 * files' descriptors, some at a time, and is given them.
 */
#define PROTO_IMPORT_MAGIC 0x66786375u /* "ucxf" */

typedef struct proto_import {
    uint32_t magic;
    uint16_t version; /* PROTO_VERSION */
    uint16_t reserved;
    uint32_t channel; /* the owner's number of the channel */
    uint32_t first;   /* of the descriptors that are wanted */
    uint64_t key;     /* the owner's random number for the channel */
    uint64_t grant;   /* of a window, whose files they are; 0: HELLO's files */
} proto_import_t;

/* With `count` descriptors, in the order of the HELLO's files, or of the
 * window's parts that lie in files. */
typedef struct proto_given {
    uint32_t magic;
    uint16_t version;
    uint16_t count;
    uint32_t first;
    uint32_t total; /* that there are */
} proto_given_t;

typedef enum proto_desc_flags {
    PROTO_DESC_EAGER = 1u << 0, /* the stream follows in the variable part */
    PROTO_DESC_RUNS  = 1u << 1, /* the runs follow in messages of their own */
    /* For no receive of the caller's; one of these at the most. */
    PROTO_DESC_CALL  = 1u << 2, /* an operation on a window: proto_call_t */
    PROTO_DESC_READ  = 1u << 3, /* what a read has asked for; tag: which */
    PROTO_DESC_WRITE = 1u << 4, /* what a write brings; tag: which */
    /* It is on its way to a slot of the receiver's mailbox. */
    PROTO_DESC_MAILED = 1u << 5
} proto_desc_flags_t;

#define PROTO_DESC_WINDOW (PROTO_DESC_CALL | PROTO_DESC_READ | PROTO_DESC_WRITE)

/* Variable part: runs (unless PROTO_DESC_RUNS), metadata, stream (if eager). */
typedef struct proto_desc {
    proto_head_t head;
    uint64_t     message;  /* the sender's number; 0 when eager */
    uint64_t     sequence; /* 0, 1, 2, ... for the descriptors of a channel */
    uint64_t     tag;
    uint64_t     payload_size;
    uint32_t     num_runs;
    uint32_t     metadata_size;
    uint32_t     flags; /* proto_desc_flags_t */
    uint32_t     slot;  /* with PROTO_DESC_MAILED; else 0 */
} proto_desc_t;

/*
 * What a descriptor that is not eager takes of its receiver's max_unexpected,
 * until ACCEPT or DONE: 1, and 1 more for each 256 bytes of its variable part;
 * but never more than all.
 */
#define PROTO_DESC_UNIT 256u

static inline uint32_t proto_desc_cost(size_t data_size, uint32_t max)
{
    uint32_t cost = 1 + (uint32_t)(data_size / PROTO_DESC_UNIT);

    return (cost < max) ? cost : max;
}

/* Longest variable part of a SHORT, so that it and its run fit in the place of
 * a descriptor. */
#define PROTO_SHORT_MAX (PROTO_DATA_MAX - 16)

/* A descriptor in a ring, of a message in one piece: eager, without metadata.
 * Its sequence number is the one after that of the descriptor before it.
 * Variable part: the bytes, 1 or more. */
typedef struct proto_short {
    proto_head_t head;
    uint64_t     tag;
} proto_short_t;

/* Variable part: runs[num_runs], to stand from number first on. */
typedef struct proto_runs {
    proto_head_t head;
    uint64_t     sequence; /* of the descriptor */
    uint32_t     first;
    uint32_t     num_runs;
} proto_runs_t;

/* Variable part: proto_lent_t, of none or some blocks, which are the sender's
 * to write to until the message has ended. */
typedef struct proto_accept {
    proto_head_t head;
    uint64_t     message;   /* the sender's number */
    uint64_t     receive;   /* the receiver's number */
    uint64_t     frag_size; /* longest fragment that the receiver takes */
    uint32_t     window;    /* fragments that may be on their way */
    uint32_t     reserved;
} proto_accept_t;

typedef struct proto_lent {
    uint64_t offset; /* of the block, in its region */
    uint64_t length;
    uint32_t region; /* the receiver's */
    uint32_t reserved;
} proto_lent_t;

/* Nothing writes to what was lent for a message any more that did not end
 * well. */
typedef struct proto_returned {
    proto_head_t head;
    uint64_t     message; /* the sender's number */
} proto_returned_t;

/* For the sender to write short messages to, for as long as the channel lives:
 * slots side by side, each with a flag in its last 64 bytes. */
typedef struct proto_mailbox {
    proto_head_t head;
    uint64_t     offset; /* in the region */
    uint32_t     region; /* the receiver's */
    uint32_t     num_slots;
    uint64_t     slot_size; /* a multiple of 64 */
} proto_mailbox_t;

/* Of a slot, at its end: the flag is the first word of it, and has the low 32
 * bits of the message's number when the message is there. */
#define PROTO_FLAG_SIZE 64u

typedef enum proto_data_flags {
    PROTO_DATA_LAST     = 1u << 0, /* index is the highest of the message */
    PROTO_DATA_CHECKSUM = 1u << 1,
    PROTO_DATA_INPLACE  = 1u << 2, /* sent from registered memory */
    PROTO_DATA_PUSHED   = 1u << 3  /* it lies in a block that was lent */
} proto_data_flags_t;

/* Variable part: the bytes (`ucx` wire), or nothing (`map` wire). */
typedef struct proto_data {
    proto_head_t head;
    uint64_t     message;
    uint64_t     receive;
    uint64_t     offset; /* in the stream */
    uint64_t     length;
    uint32_t     index; /* 0, 1, 2, ... for the fragments of a message */
    uint32_t     flags; /* proto_data_flags_t */
    uint32_t     checksum;
    uint32_t     piece;         /* to be told in TAKEN */
    uint64_t     region_offset; /* `map` wire: where the bytes lie */
    uint32_t     region;
    uint32_t     word; /* `map` wire: which of revoked[] the message has */
} proto_data_t;

typedef struct proto_taken {
    proto_head_t head;
    uint64_t     message;
    uint32_t     piece;
    uint32_t     reserved;
} proto_taken_t;

/* Variable part: the reason in words. */
typedef struct proto_done {
    proto_head_t head;
    uint64_t     message;
    int32_t      status; /* ucxpool_status_t */
    uint32_t     reserved;
} proto_done_t;

/* Variable part: the reason in words. */
typedef struct proto_cancel {
    proto_head_t head;
    uint64_t     message;
    uint64_t     receive; /* the receiver's number; 0: not known */
    int32_t      status;  /* how its send ended: an error of ucxpool_status_t */
    uint32_t     reserved;
} proto_cancel_t;

typedef struct proto_window_open {
    proto_head_t head;
    uint64_t     remote; /* the importer's number of it */
    uint64_t     window;
    uint8_t      key[16]; /* of its blob */
    uint32_t     access;  /* ucxpool_window_access_t */
    uint32_t     flags;   /* proto_open_flags_t */
} proto_window_open_t;

/* What an importer wants beside a grant. */
typedef enum proto_open_flags {
    PROTO_OPEN_KEY = 1u << 0 /* UCX's, for its get and put */
} proto_open_flags_t;

/*
 * Variable part: of a refusal the reason in words; otherwise what the flags
 * say, or why the memory cannot be mapped, or has no key, in words.
 */
typedef struct proto_window_opened {
    proto_head_t head;
    uint64_t     remote;
    uint64_t     grant;   /* the owner's number of it; 0: refused */
    uint64_t     length;  /* of the window */
    uint64_t     address; /* in the owner's process */
    int32_t      status;  /* ucxpool_status_t */
    uint32_t     flags;   /* proto_opened_flags_t */
} proto_window_opened_t;

/* What an owner offers beside messages; the variable part says how. Of the last
 * three there is one at most. */
typedef enum proto_opened_flags {
    PROTO_OPENED_PROCESS = 1u << 0, /* host memory, by its address */
    PROTO_OPENED_CUDA    = 1u << 1, /* a GPU's: proto_window_cuda_t */
    PROTO_OPENED_PARTS   = 1u << 2, /* proto_window_part_t, some of them */
    PROTO_OPENED_KEY     = 1u << 3  /* UCX's */
} proto_opened_flags_t;

/* The allocation that the window lies in, and where. */
typedef struct proto_window_cuda {
    ipc_cuda_t share;
    uint64_t   offset;
} proto_window_cuda_t;

/*
 * A part of the window, in their order: where in a memory file it lies, or, in
 * the memory of a GPU, in an allocation that the file stands for. With a region
 * it is in one that the importer has mapped, and there is no file.
 */
typedef struct proto_window_part {
    ipc_file_t file;
    uint64_t   offset; /* of its first byte */
    uint64_t   length;
    uint32_t   region; /* the owner's, counted from 1 on; 0: a file */
    uint32_t   reserved;
} proto_window_part_t;

/* The importer can touch the window no more. */
typedef struct proto_window_close {
    proto_head_t head;
    uint64_t     grant;
} proto_window_close_t;

/* The owner wants that. */
typedef struct proto_window_revoke {
    proto_head_t head;
    uint64_t     remote;
} proto_window_revoke_t;

/* Variable part: the reason in words. */
typedef struct proto_window_end {
    proto_head_t head;
    uint64_t     operation;
    int32_t      status;  /* ucxpool_status_t */
    uint32_t     refused; /* 1: by the owner; 0: the importer gives it up */
} proto_window_end_t;

typedef enum proto_call_kind {
    PROTO_CALL_READ  = 1,
    PROTO_CALL_WRITE = 2
} proto_call_kind_t;

/*
 * The first bytes of a message with PROTO_DESC_CALL. Then the places: where
 * `length` is not 0 num_places offsets of 8 bytes, of which each has that
 * length; otherwise as many of ucxpool_place_t.
 */
typedef struct proto_call {
    uint64_t operation; /* the importer's number */
    uint64_t grant;
    uint32_t kind; /* proto_call_kind_t */
    uint32_t reserved;
    uint64_t num_places;
    uint64_t length;
    uint64_t size; /* bytes of all places */
} proto_call_t;

/* CREDIT, BYE, DOORBELL, KEPT and GO are a head alone. */

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
} proto_fixed_t;

/* Size of the fixed part of a type; 0 for a type that does not exist. */
size_t proto_fixed_size(unsigned type);

/*
 * Copy the fixed part of a message that a peer sent, and check that it is of
 * our version, as long as its type says, and that the variable part is as long
 * as the fixed part says, and that the status of a CANCEL is an error. Data of
 * a DATA message is not looked at.
 *
 * UCXPOOL_ERR_PROTOCOL  it is not; the detail says what is wrong
 */
ucxpool_status_t proto_parse(const void *fixed, size_t fixed_size,
                             size_t data_size, proto_fixed_t *message_p);

/*
 * Check a CALL that has come whole, and that its places lie within a window of
 * window_length bytes.
 *
 * data_size  Bytes behind the call.
 *
 * UCXPOOL_ERR_INVALID_PARAM  they do not; the detail says what is wrong
 */
ucxpool_status_t proto_check_call(const proto_call_t *call, const void *places,
                                  uint64_t data_size, uint64_t window_length);

/* Copy an IMPORT, checked likewise. False: it is none, and *import_p stays. */
bool proto_parse_import(const void *bytes, size_t length,
                        proto_import_t *import_p);

/*
 * Check the runs and sizes of a descriptor whose runs have all arrived.
 * data_size is the length of the variable part without runs.
 */
ucxpool_status_t proto_check_desc(const proto_desc_t *desc,
                                  const copy_run_t *runs, size_t data_size,
                                  copy_totals_t *totals_p);

/* Copy a text from a peer, with anything but printable ASCII replaced. */
void proto_copy_text(char *text, size_t text_size, const void *data,
                     size_t data_size);

#endif
