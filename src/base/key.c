#include "base/key.h"

#include "base/log.h"
#include "base/math.h"
#include "base/text.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* --- parsing and formatting of values ------------------------------------- */

static bool is_valid_size(const base_key_t *key, size_t size)
{
    if (size == BASE_SIZE_AUTO) {
        return (key->flags & BASE_KEY_AUTO) != 0;
    }
    if (size == BASE_SIZE_INF) {
        return (key->flags & BASE_KEY_INF) != 0;
    }
    if ((size == 0) && (key->flags & BASE_KEY_ZERO)) {
        return true;
    }
    return (size >= key->min) && (size <= key->max) &&
           (!(key->flags & BASE_KEY_POW2) || base_is_pow2(size));
}

static bool parse_size(const base_key_t *key, const char *text, size_t *field)
{
    size_t size;

    if (!base_parse_size(text, &size) || !is_valid_size(key, size)) {
        return false;
    }
    *field = size;
    return true;
}

static bool parse_time(const base_key_t *key, const char *text, uint64_t *field)
{
    uint64_t ns;

    if (!base_parse_time(text, &ns) ||
        ((ns == UINT64_MAX) ? !(key->flags & BASE_KEY_INF)
                            : (ns < key->min) || (ns > key->max))) {
        return false;
    }
    *field = ns;
    return true;
}

static bool parse_number(const base_key_t *key, const char *text,
                         unsigned *field)
{
    unsigned number;

    if (!base_parse_unsigned(text, &number) || (number < key->min) ||
        (number > key->max)) {
        return false;
    }
    *field = number;
    return true;
}

static bool parse_path(const char *text, char *field)
{
    if (strlen(text) >= BASE_PATH_SIZE) {
        return false;
    }
    strcpy(field, text);
    return true;
}

bool base_key_parse(const base_key_t *key, const char *text,
                    base_config_t *config)
{
    void *field = (char *)config + key->offset;

    switch (key->type) {
    case BASE_KEY_SIZE:
        return parse_size(key, text, field);
    case BASE_KEY_TIME:
        return parse_time(key, text, field);
    case BASE_KEY_UNSIGNED:
        return parse_number(key, text, field);
    case BASE_KEY_BOOL:
        return base_parse_bool(text, field);
    case BASE_KEY_WORD:
        return base_parse_word(text, key->words, field);
    case BASE_KEY_PATH:
        return parse_path(text, field);
    }
    return false;
}

void base_key_format(const base_key_t *key, const base_config_t *config,
                     char text[BASE_KEY_VALUE_SIZE])
{
    const void *field = (const char *)config + key->offset;

    switch (key->type) {
    case BASE_KEY_SIZE:
        base_format_size(*(const size_t *)field, text);
        break;
    case BASE_KEY_TIME:
        base_format_time(*(const uint64_t *)field, text);
        break;
    case BASE_KEY_UNSIGNED:
        snprintf(text, BASE_KEY_VALUE_SIZE, "%u", *(const unsigned *)field);
        break;
    case BASE_KEY_BOOL:
        strcpy(text, *(const bool *)field ? "y" : "n");
        break;
    case BASE_KEY_WORD:
        strcpy(text, key->words[*(const unsigned *)field]);
        break;
    case BASE_KEY_PATH:
        strcpy(text, field);
        break;
    }
}

/* Append to `text`, a buffer of BASE_KEY_EXPECTED_SIZE bytes. Truncates the
 * text if necessary. */
static void __attribute__((format(printf, 2, 3)))
append(char *text, const char *format, ...)
{
    size_t  length = strlen(text);
    va_list args;

    va_start(args, format);
    vsnprintf(text + length, BASE_KEY_EXPECTED_SIZE - length, format, args);
    va_end(args);
}

static void format_number(uint64_t number, char *text)
{
    snprintf(text, BASE_FORMAT_SIZE, "%" PRIu64, number);
}

/* Append "from 4k to 1g" or "of 4k or more", or nothing if there is no
 * limit. */
static void append_range(const base_key_t *key, char *text)
{
    void (*format)(uint64_t number, char *text) = format_number;
    char min[BASE_FORMAT_SIZE], max[BASE_FORMAT_SIZE];

    if (key->type == BASE_KEY_SIZE) {
        format = base_format_size;
    } else if (key->type == BASE_KEY_TIME) {
        format = base_format_time;
    }
    format(key->min, min);
    format(key->max, max);
    if (key->max != BASE_KEY_NO_MAX) {
        append(text, " from %s to %s", min, max);
    } else if (key->min != 0) {
        append(text, " of %s or more", min);
    }
}

static void append_specials(const base_key_t *key, char *text)
{
    if (key->flags & BASE_KEY_ZERO) {
        append(text, ", or 0");
    }
    if (key->flags & BASE_KEY_AUTO) {
        append(text, ", or auto");
    }
    if (key->flags & BASE_KEY_INF) {
        append(text, ", or inf");
    }
}

static void append_words(const char *const *words, char *text)
{
    append(text, "one of");
    for (unsigned i = 0; words[i] != NULL; i++) {
        append(text, "%s%s", (i == 0) ? " " : ", ", words[i]);
    }
}

void base_key_expected(const base_key_t *key, char text[BASE_KEY_EXPECTED_SIZE])
{
    text[0] = '\0';
    switch (key->type) {
    case BASE_KEY_SIZE:
        append(text,
               (key->flags & BASE_KEY_POW2) ? "a power of two" : "a size");
        append_range(key, text);
        append(text, ", written as 64k, 4m or 2g");
        append_specials(key, text);
        break;
    case BASE_KEY_TIME:
        append(text, "a time");
        append_range(key, text);
        append(text, ", written as 5s, 200ms or 10us");
        append_specials(key, text);
        break;
    case BASE_KEY_UNSIGNED:
        append(text, "a number");
        append_range(key, text);
        break;
    case BASE_KEY_BOOL:
        append(text, "y or n");
        break;
    case BASE_KEY_WORD:
        append_words(key->words, text);
        break;
    case BASE_KEY_PATH:
        append(text, "the path of a file, shorter than %d bytes",
               BASE_PATH_SIZE);
        break;
    }
}

/* --- the table ------------------------------------------------------------ */

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define MS  UINT64_C(1000000)
#define SEC UINT64_C(1000000000)

#define NUM_WORDS(...) \
    (sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

/* 1. Fails to compile unless there is one word for each enum value from 0 to
 * _last. */
#define ONE_IF_COMPLETE(_last, ...) \
    sizeof(struct { \
        static_assert(NUM_WORDS(__VA_ARGS__) == (_last) + 1, \
                      "one word for each value up to " #_last); \
        char one; \
    })

/* A NULL-terminated array of words, in the order of their enum, whose last
 * value is _last. */
#define WORDS(_last, ...) \
    ((const char *const[NUM_WORDS(__VA_ARGS__) + \
                        ONE_IF_COMPLETE(_last, __VA_ARGS__)]){__VA_ARGS__})

#define KEY(_name, _type, _field, _fallback, _flags, _min, _max, _words, ...) \
    { \
        _name, _type, offsetof(base_config_t, _field), _fallback, _flags, \
            _min, _max, _words, __VA_ARGS__ \
    }
#define SIZE(_name, _field, _fallback, _flags, _min, _max, ...) \
    KEY(_name, BASE_KEY_SIZE, _field, _fallback, _flags, _min, _max, NULL, \
        __VA_ARGS__)
#define TIME(_name, _field, _fallback, _flags, _min, _max, ...) \
    KEY(_name, BASE_KEY_TIME, _field, _fallback, _flags, _min, _max, NULL, \
        __VA_ARGS__)
#define UNSIGNED(_name, _field, _fallback, _min, _max, ...) \
    KEY(_name, BASE_KEY_UNSIGNED, _field, _fallback, 0, _min, _max, NULL, \
        __VA_ARGS__)
#define BOOL(_name, _field, _fallback, ...) \
    KEY(_name, BASE_KEY_BOOL, _field, _fallback, 0, 0, 0, NULL, __VA_ARGS__)
#define WORD(_name, _field, _fallback, _words, ...) \
    KEY(_name, BASE_KEY_WORD, _field, _fallback, 0, 0, 0, _words, __VA_ARGS__)
#define PATH(_name, _field, _fallback, ...) \
    KEY(_name, BASE_KEY_PATH, _field, _fallback, 0, 0, 0, NULL, __VA_ARGS__)

/* clang-format off */
const base_key_t base_keys[BASE_NUM_KEYS] = {
    SIZE("COMM_SIZE", comm_size, "auto", BASE_KEY_AUTO | BASE_KEY_ZERO,
         8 * KIB, BASE_KEY_NO_MAX,
         "Total size of all blocks. The memory is allocated and registered "
         "when the pool is created. auto uses 64m or 1/32 of the machine's "
         "memory, whichever is less. On a GPU, auto uses the least of 500m, "
         "1/32 of the GPU's memory and the available part of its BAR1. If "
         "MEMORY_LIMIT is set, auto uses at most a quarter of it. 0 creates a "
         "pool for its heap only, without blocks and channels."),
    BOOL("COMM_STRICT", comm_strict, "n",
         "Behavior if COMM_SIZE cannot be allocated or registered in full. y: "
         "the creation of the pool fails. n: the pool uses fewer blocks or, on "
         "a GPU, pinned host memory instead of GPU memory, and logs a "
         "warning."),
    SIZE("BLOCK_SIZE", block_size, "auto", BASE_KEY_AUTO | BASE_KEY_POW2,
         4 * KIB, GIB,
         "Size of one block, the unit of allocation. auto uses 1m, or up to 4m "
         "if COMM_SIZE is 128m or more. On a GPU, auto uses up to 32m. It uses "
         "smaller blocks if COMM_SIZE is small."),
    SIZE("REGION_SIZE", region_size, "auto", BASE_KEY_AUTO, 4 * KIB,
         BASE_KEY_NO_MAX,
         "Size of one region: one physical allocation with one registration. "
         "A multiple of BLOCK_SIZE."),
    UNSIGNED("SEND_SHARE", send_share, "25", 1, 99,
             "Percentage of the blocks for packing messages to send. The "
             "application gets the blocks that remain after SEND_SHARE and "
             "RECV_SHARE."),
    UNSIGNED("RECV_SHARE", recv_share, "25", 1, 99,
             "Percentage of the blocks for received messages."),
    WORD("HUGE_PAGES", huge_pages, "try",
         WORDS(BASE_SWITCH_TRY, "n", "y", "try"),
         "Huge pages for the blocks. If too few are available, y fails and "
         "try uses ordinary pages."),
    WORD("CUDA_BACKING", cuda_backing, "auto",
         WORDS(BASE_BACKING_HOST, "auto", "alloc", "vmm", "host"),
         "Memory for the blocks of a pool on a GPU. alloc: one allocation from "
         "cuMemAlloc(). vmm: virtual memory with one region per block, so that "
         "scattered blocks can be mapped contiguously. host: pinned host "
         "memory. auto: alloc if UCX was built with CUDA; otherwise vmm if "
         "peers can map it, else alloc."),

    SIZE("MEMORY_LIMIT", memory_limit, "auto", BASE_KEY_AUTO, 4 * MIB,
         BASE_KEY_NO_MAX,
         "Limit of the memory of blocks and heap together. The heap gets the "
         "rest after COMM_SIZE. Pinned blocks of a pool on a GPU do not count. "
         "auto uses all of a GPU's memory, or half of the machine's."),
    SIZE("HEAP_CHUNK", heap_chunk, "32m", BASE_KEY_POW2, 2 * MIB, 128 * MIB,
         "Size of the heap's large chunks, for long allocations. Short "
         "allocations use chunks of 2m."),
    SIZE("HEAP_ALIGNMENT", heap_alignment, "256", BASE_KEY_POW2, 256, 2 * MIB,
         "Alignment of the heap's allocations; their sizes are rounded up to "
         "it. Set 512 for frameworks that require it."),
    SIZE("HEAP_STITCH", heap_stitch, "auto", BASE_KEY_AUTO, 4 * MIB,
         BASE_KEY_NO_MAX,
         "Size of the address range in which the heap maps scattered memory "
         "contiguously (stitched ranges), including the ranges that it keeps "
         "for reuse. auto uses twice the limit of the heap."),
    PATH("HEAP_LOG", heap_log, "",
         "File for a log of all calls on the heap in RMM's format, for "
         "ucxpool_replay. Each call on the heap writes one line with a system "
         "call. Empty: no log."),

    WORD("WIRE", wire, "auto", WORDS(BASE_WIRE_UCX, "auto", "map", "ucx"),
         "The wire between two pools. map: a peer on the same host, of the "
         "same user, accesses the blocks directly. ucx: UCX transfers the "
         "data. auto: map if possible, otherwise ucx."),
    WORD("REQUIRE", require, "any",
         WORDS(BASE_REQUIRE_DIRECT_RMA, "any", "map", "rma", "map,rma",
               "direct", "direct,rma"),
         "The paths that a channel may use. A channel that would use another "
         "path fails before its first message. map: the map wire. rma: the ucx "
         "wire over transports with their own get and put, such as RDMA. "
         "direct: map, unless it copies through pinned host memory. map,rma "
         "and direct,rma: either of the two. any: all paths. In this case, "
         "a channel between two processes on one host logs a warning if it "
         "does not use map, unless WIRE=ucx is set on either side."),
    PATH("SOCKET_DIR", socket_dir, "",
         "Directory for Unix sockets of pools. Processes on one host but in "
         "different network namespaces use the map wire if both mount this "
         "directory. The pool creates it with mode 0700. Other users must not "
         "have write access to it. An absolute path of at most 57 bytes, "
         "without a trailing slash. Empty: the pool has a socket only in its "
         "network namespace."),
    WORD("MAP_WAY", map_way, "auto",
         WORDS(BASE_MAP_WAY_HOST, "auto", "pull", "push", "host"),
         "How messages are transferred over the map wire between pools on "
         "GPUs. pull: the receiver's GPU reads the sender's blocks. push: the "
         "sender's GPU writes to blocks that the receiver grants from its "
         "RECV_SHARE and SEND_SHARE. Between two GPUs, it writes messages "
         "that fit to a mailbox in one of these blocks, before the receiver "
         "accepts them. auto: pull between two processes on one GPU. Between "
         "two GPUs, auto pushes, except where pull is faster: messages that "
         "do not fit in the mailbox and are shorter than 2 MiB, and messages "
         "of more than 16 MiB with segments of 512 KiB to 16 MiB. host: the "
         "data is copied through pinned host memory. This always happens "
         "between GPUs that cannot access each other, and between a pool on a "
         "GPU and a pool in host memory. If the settings of two pools differ, "
         "host overrides pull, pull overrides auto, and auto overrides push."),
    WORD("WINDOW_WAY", window_way, "auto",
         WORDS(BASE_WINDOW_WAY_DIRECT, "auto", "messages", "direct"),
         "How peers' windows are read and written. direct: by the local "
         "CPU or GPU if the peer is on the same host and of the same user, "
         "otherwise by get and put operations of UCX's transports. A window "
         "without such access cannot be used. messages: through the owner's "
         "pool. auto: direct if possible (over the ucx wire, only for long "
         "pieces), otherwise messages."),
    SIZE("WINDOW_BUDGET", window_budget, "inf", BASE_KEY_INF, 0,
         BASE_KEY_NO_MAX,
         "Maximum bytes of windows that are registered with UCX for get and "
         "put operations of peers; blocks do not count. Windows beyond this "
         "limit use messages."),
    SIZE("FRAG_SIZE", frag_size, "auto", BASE_KEY_AUTO, 4 * KIB, GIB,
         "Size of a fragment, the part of a message that one wire operation "
         "carries. At most BLOCK_SIZE."),
    UNSIGNED("DEPTH", depth, "4", 1, 64,
             "Fragments of one message that are in flight at one time. A "
             "receiver on a GPU uses twice as many."),
    SIZE("EAGER_SIZE", eager_size, "16k", 0, 0, 16 * KIB,
         "Messages up to this size are sent with their descriptor, without a "
         "block and without waiting for the receiver. Does not apply to memory "
         "that the pool's GPU can access."),
    UNSIGNED("CREDITS", credits, "256", 1, 1024,
             "Maximum number of messages up to EAGER_SIZE that a peer may have "
             "sent with their data and that no receive has matched. Each needs "
             "20 KiB of memory, or about 400 bytes if it has at most 48 bytes. "
             "A sender that has waited 1 ms for a credit sends only the "
             "descriptor."),
    UNSIGNED("MAX_UNEXPECTED", max_unexpected, "131072", 1, 16777216,
             "Maximum number of messages of one channel that have arrived with "
             "only their descriptor and that no receive has matched. Each "
             "needs about 400 bytes, or up to 600 if it has more than 64 bytes "
             "of metadata and lengths. A message counts once more for each 256 "
             "bytes of metadata and lengths. Further sends wait until a "
             "message has been received."),
    SIZE("INPLACE_MIN", inplace_min, "16k", BASE_KEY_INF, 0, BASE_KEY_NO_MAX,
         "Minimum size of pieces of ucxpool_comm_alloc() memory that are sent "
         "in place. Shorter pieces are packed. Other memory is sent in place "
         "only over the ucx wire, in pieces of at least 16 times this size, if "
         "the machine has no RDMA device. inf packs everything."),
    SIZE("MAX_METADATA", max_metadata, "2k", 0, 0, 4 * KIB,
         "Maximum size of the metadata of a sent or received message."),
    SIZE("MAX_SEGMENTS", max_segments, "4m", 0, 1, GIB,
         "Maximum number of runs in a sent or received message (4m is "
         "4,194,304). A run is any number of consecutive segments of the same "
         "length. Also limits the total number of runs in the long lists of a "
         "channel's messages that no receive has matched. Further messages "
         "with long lists are refused."),
    WORD("CHECKSUM", checksum, "none",
         WORDS(BASE_CHECKSUM_CRC32C, "none", "crc32c"),
         "Checksum that each fragment carries and the receiver verifies."),
    UNSIGNED("AM_ID", am_id, "100", 0, 65000,
             "UCX active-message id of the pool. The pool also uses the next "
             "id. Pools that communicate need the same value."),
    TIME("REQUEST_TIMEOUT", request_timeout_ns, "inf", BASE_KEY_INF, MS,
         BASE_KEY_NO_MAX,
         "Timeout of requests that do not set their own."),
    TIME("CLOSE_TIMEOUT", close_timeout_ns, "2s", BASE_KEY_INF, 0,
         BASE_KEY_NO_MAX,
         "Longest time that ucxpool_destroy() and ucxpool_window_destroy() "
         "wait for peers, and that requests of a closed channel continue."),
    TIME("PEER_TIMEOUT", peer_timeout_ns, "10s", BASE_KEY_INF, SEC, 86400 * SEC,
         "Time within which the failure of a peer's host is detected. If the "
         "pool creates its UCX context, it configures UCX to detect the "
         "failure; UCX's own environment variables take precedence. Over TCP, "
         "the pool checks UCX's connections itself. inf leaves the detection "
         "to UCX."),
    TIME("SPIN", spin_ns, "200us", BASE_KEY_INF, 0, BASE_KEY_NO_MAX,
         "Maximum time that a waiting call polls before it sleeps. The call "
         "polls for less time while waits are long, and for more again when "
         "they become short. inf never sleeps."),

    PATH("SECRET_FILE", secret_file, "",
         "File with the secret that a listener shares with its peers. Only its "
         "owner may have access to it (mode 0600). Empty: no secret."),
    BOOL("LISTEN_WITHOUT_SECRET", listen_without_secret, "n",
         "Allow listeners without a secret on addresses that other machines "
         "can reach. Anyone who can reach the port can then communicate with "
         "the pool."),
    UNSIGNED("MAX_HALF_OPEN", max_half_open, "1024", 1, 65536,
             "Maximum number of connections that are in their handshake at "
             "one time, but at most a quarter of the files that the process "
             "may open. A new connection replaces the oldest one, whose "
             "client tries again. Each connection needs 9 KiB."),
    UNSIGNED("ACCEPT_QUEUE", accept_queue, "1024", 1, 4096,
             "Maximum number of authenticated peers that wait to be accepted "
             "by a listener; each needs 5 KiB. Further peers are refused and "
             "try again until HANDSHAKE_TIMEOUT."),
    TIME("HANDSHAKE_TIMEOUT", handshake_timeout_ns, "30s", 0, MS, 3600 * SEC,
         "Time within which a connection must complete its handshake. If 1,000 "
         "peers connect at once to a listener on a busy machine, the last one "
         "is answered after several seconds."),

    WORD("LOG_LEVEL", log_level, "warn",
         WORDS(BASE_LOG_TRACE, "none", "error", "warn", "info", "debug",
               "trace"),
         "Log level of the process. Messages are written to stderr unless the "
         "application sets a log handler."),
};
/* clang-format on */

static_assert(sizeof(base_wire_t) == sizeof(unsigned), "words are unsigned");
static_assert(sizeof(base_require_t) == sizeof(unsigned), "words are unsigned");
static_assert(sizeof(base_map_way_t) == sizeof(unsigned), "words are unsigned");
static_assert(sizeof(base_window_way_t) == sizeof(unsigned),
              "words are unsigned");
static_assert(sizeof(base_backing_t) == sizeof(unsigned), "words are unsigned");
static_assert(sizeof(base_checksum_t) == sizeof(unsigned),
              "words are unsigned");
static_assert(sizeof(base_switch_t) == sizeof(unsigned), "words are unsigned");

const base_key_t *base_key_find(const char *name)
{
    for (size_t i = 0; i < BASE_NUM_KEYS; i++) {
        if (strcmp(base_keys[i].name, name) == 0) {
            return &base_keys[i];
        }
    }
    return NULL;
}
