/*
 * The native methods of org.ucxpool.Native. They only translate calls. Java
 * code decides which objects are kept alive, by which other object and for how
 * long.
 *
 * A method that returns a handle returns a positive number, or a negative
 * status. Java then gets the text from ucxpool_error_detail() in the same
 * thread, unless the status is OUT_OF_MEMORY.
 *
 * A transfer is one allocation with the data of a request until its end: its
 * list of segments, and its number in Java. The request's completion pointer
 * points to the transfer. No JNI reference outlives a call.
 */
#include <config.h>

#include "java/jni/library.h"
#include "java/jni/org_ucxpool_Native.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <jni.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define UNUSED __attribute__((unused))

/* A method's definition begins with this; further parameters follow the name.
 */
#define METHOD(type, name, ...) \
    JNIEXPORT type JNICALL Java_org_ucxpool_Native_##name( \
        UNUSED JNIEnv *env, UNUSED jclass class, ##__VA_ARGS__)

/* A constant of org.ucxpool.Native. */
#define CONSTANT(name) org_ucxpool_Native_##name

/* The status if a method runs out of memory before it calls the library. The
 * library then has no detail of this error. */
#define OUT_OF_MEMORY ((ucxpool_status_t)CONSTANT(OUT_OF_MEMORY))

static void *to_pointer(jlong handle)
{
    return (void *)(uintptr_t)handle;
}

static jlong to_handle(const void *pointer)
{
    return (jlong)(uintptr_t)pointer;
}

/* Copy a byte array and append a 0. Returns NULL if out of memory. */
static char *copy_bytes(JNIEnv *env, jbyteArray array, size_t *length_p)
{
    size_t length = (size_t)(*env)->GetArrayLength(env, array);
    char  *bytes  = malloc(length + 1);

    if (bytes != NULL) {
        (*env)->GetByteArrayRegion(env, array, 0, (jsize)length,
                                   (jbyte *)bytes);
        bytes[length] = '\0';
        *length_p     = length;
    }
    return bytes;
}

static jbyteArray new_bytes(JNIEnv *env, const void *bytes, size_t length)
{
    jbyteArray array = (*env)->NewByteArray(env, (jsize)length);

    if (array != NULL) {
        (*env)->SetByteArrayRegion(env, array, 0, (jsize)length, bytes);
    }
    return array;
}

/* Create a byte array from text. Strings are passed as UTF-8 bytes, because
 * JNI's strings use a modified UTF-8. */
static jbyteArray new_text(JNIEnv *env, const char *text)
{
    return new_bytes(env, text, strlen(text));
}

static void set_texts(JNIEnv *env, jobjectArray texts_out,
                      const char *const *texts, jsize count)
{
    for (jsize i = 0; i < count; i++) {
        jbyteArray text = new_text(env, texts[i]);

        (*env)->SetObjectArrayElement(env, texts_out, i, text);
        (*env)->DeleteLocalRef(env, text);
    }
}

/* --- the library ---------------------------------------------------------- */

METHOD(jbyteArray, open, jbyteArray path)
{
    char   why[512] = "no memory";
    size_t length;
    char  *name    = copy_bytes(env, path, &length);
    bool   is_open = (name != NULL) && library_open(name, why, sizeof(why));

    free(name);
    return is_open ? NULL : new_text(env, why);
}

METHOD(jbyteArray, detail)
{
    return new_text(env, library.error_detail());
}

METHOD(jbyteArray, statusString, jint status)
{
    return new_text(env, library.status_string((ucxpool_status_t)status));
}

/* --- pool ----------------------------------------------------------------- */

/* Change settings. text: alternating keys and values, each terminated by a 0
 * byte. */
static ucxpool_status_t modify_all(ucxpool_config_t *config, const char *text,
                                   size_t length)
{
    const char      *end    = text + length;
    ucxpool_status_t status = UCXPOOL_OK;

    while ((status == UCXPOOL_OK) && (text < end)) {
        const char *value = text + strlen(text) + 1;

        status = library.config_modify(config, text, value);
        text   = value + strlen(value) + 1;
    }
    return status;
}

static ucxpool_status_t set_secret(JNIEnv *env, ucxpool_config_t *config,
                                   jbyteArray secret)
{
    size_t           length;
    char            *bytes;
    ucxpool_status_t status;

    if (secret == NULL) {
        return UCXPOOL_OK;
    }
    bytes = copy_bytes(env, secret, &length);
    if (bytes == NULL) {
        return OUT_OF_MEMORY;
    }
    status = library.config_set_secret(config, bytes, length);
    explicit_bzero(bytes, length);
    free(bytes);
    return status;
}

METHOD(jlong, create, jbyteArray settings, jbyteArray secret, jbyteArray name)
{
    ucxpool_params_t  params = {.field_mask = UCXPOOL_PARAM_FIELD_CONFIG |
                                              UCXPOOL_PARAM_FIELD_NAME};
    ucxpool_config_t *config = NULL;
    ucxpool_t        *pool   = NULL;
    size_t            text_length, name_length;
    char             *text   = copy_bytes(env, settings, &text_length);
    char             *label  = copy_bytes(env, name, &name_length);
    ucxpool_status_t  status = OUT_OF_MEMORY;

    if ((text != NULL) && (label != NULL)) {
        status = library.config_read(&config);
    }
    if (status == UCXPOOL_OK) {
        status = modify_all(config, text, text_length);
    }
    if (status == UCXPOOL_OK) {
        status = set_secret(env, config, secret);
    }
    if (status == UCXPOOL_OK) {
        params.config = config;
        params.name   = label;
        status        = library.create(&params, &pool);
    }
    library.config_release(config);
    free(label);
    free(text);
    return (status == UCXPOOL_OK) ? to_handle(pool) : status;
}

METHOD(void, destroy, jlong pool)
{
    library.destroy(to_pointer(pool));
}

/* --- memory --------------------------------------------------------------- */

METHOD(jlong, heapAlloc, jlong pool, jlong size)
{
    void            *address = NULL;
    ucxpool_status_t status =
        library.heap_alloc(to_pointer(pool), (size_t)size, NULL, &address);

    return (status == UCXPOOL_OK) ? to_handle(address) : status;
}

METHOD(jint, heapFree, jlong pool, jlong address)
{
    return library.heap_free(to_pointer(pool), to_pointer(address), NULL);
}

METHOD(jint, heapTrim, jlong pool, jlong keep)
{
    return library.heap_trim(to_pointer(pool), (size_t)keep, NULL);
}

METHOD(jlong, commAlloc, jlong pool, jlong size)
{
    void            *address = NULL;
    ucxpool_status_t status =
        library.comm_alloc(to_pointer(pool), (size_t)size, &address);

    return (status == UCXPOOL_OK) ? to_handle(address) : status;
}

METHOD(void, commFree, jlong pool, jlong address)
{
    library.comm_free(to_pointer(pool), to_pointer(address));
}

METHOD(jobject, view, jlong address, jlong size)
{
    return (*env)->NewDirectByteBuffer(env, to_pointer(address), size);
}

METHOD(jlong, addressOf, jobject buffer)
{
    return to_handle((*env)->GetDirectBufferAddress(env, buffer));
}

/* --- channels and listeners ----------------------------------------------- */

/*
 * Returns params with which events identify the channel by its number, from the
 * first event on. require: bits of ucxpool_path_t, or -1 for the setting.
 */
static ucxpool_channel_params_t params_of(jlong number, jint require)
{
    ucxpool_channel_params_t params = {.field_mask =
                                           UCXPOOL_CHANNEL_PARAM_FIELD_USER_PTR,
                                       .user_ptr = to_pointer(number)};

    if (require >= 0) {
        params.field_mask |= UCXPOOL_CHANNEL_PARAM_FIELD_REQUIRE;
        params.require = (uint64_t)require;
    }
    return params;
}

/*
 * Java registers the channel under this number before the channel is created,
 * because creating it resolves the host name, and an event may be delivered
 * before this returns.
 */
METHOD(jlong, connect, jlong pool, jbyteArray where, jlong number, jint require)
{
    ucxpool_channel_params_t params  = params_of(number, require);
    ucxpool_channel_t       *channel = NULL;
    ucxpool_status_t         status  = OUT_OF_MEMORY;
    size_t                   length;
    char                    *text = copy_bytes(env, where, &length);

    if (text != NULL) {
        status =
            library.channel_connect(to_pointer(pool), text, &params, &channel);
        free(text);
    }
    return (status == UCXPOOL_OK) ? to_handle(channel) : status;
}

METHOD(jlong, listen, jlong pool, jbyteArray where)
{
    ucxpool_listener_t *listener = NULL;
    ucxpool_status_t    status   = OUT_OF_MEMORY;
    size_t              length;
    char               *text = copy_bytes(env, where, &length);

    if (text != NULL) {
        status = library.listener_create(to_pointer(pool), text, &listener);
        free(text);
    }
    return (status == UCXPOOL_OK) ? to_handle(listener) : status;
}

METHOD(jint, listenerPort, jlong listener)
{
    return library.listener_port(to_pointer(listener));
}

/* Returns 0 if no peer is queued. */
METHOD(jlong, accept, jlong listener, jlong number, jint require)
{
    ucxpool_channel_params_t params  = params_of(number, require);
    ucxpool_channel_t       *channel = NULL;

    library.listener_accept(to_pointer(listener), &params, &channel);
    return to_handle(channel);
}

METHOD(void, listenerDestroy, jlong listener)
{
    library.listener_destroy(to_pointer(listener));
}

METHOD(void, channelClose, jlong channel, jboolean at_once)
{
    if (at_once) {
        library.channel_abort(to_pointer(channel));
    } else {
        library.channel_close(to_pointer(channel));
    }
}

/* numbers: state, status, wire; strings: reason, wire reason, both addresses */
METHOD(void, channelQuery, jlong channel, jintArray numbers_out,
       jobjectArray texts_out)
{
    ucxpool_channel_attr_t attr;
    jint                   numbers[3];

    library.channel_query(to_pointer(channel), &attr, sizeof(attr));
    numbers[0] = (jint)attr.state;
    numbers[1] = (jint)attr.status;
    numbers[2] = (jint)attr.wire;
    (*env)->SetIntArrayRegion(env, numbers_out, 0, 3, numbers);

    const char *const texts[] = {attr.reason, attr.wire_reason,
                                 attr.local_address, attr.remote_address};

    set_texts(env, texts_out, texts, 4);
}

/* --- requests ------------------------------------------------------------- */

/* The data of a request until it is released. The list is followed by the
 * metadata of a send, which is used only while the send is posted. */
typedef struct transfer {
    jlong number; /* its number in Java */
    union {
        ucxpool_range_t   ranges[1]; /* used if there are files */
        ucxpool_segment_t segments[1];
    } list;
} transfer_t;

/*
 * A list consists of triples: address, length, 0 for memory; offset, length,
 * descriptor + 1 for files.
 */
#define TRIPLE 3

/* Convert one triple to a range. Errors name the file by its path in /proc. */
static ucxpool_range_t to_range(const jlong *triple)
{
    size_t length = (size_t)triple[1];

    if (triple[2] == 0) {
        return library.range_memory(to_pointer(triple[0]), length);
    }
    return library.range_file((int)triple[2] - 1, triple[0], length, NULL);
}

/* Returns the size of a transfer without metadata. */
static size_t transfer_size(size_t count)
{
    return sizeof(transfer_t) + count * sizeof(ucxpool_range_t);
}

/* Create a transfer with uninitialized metadata. Returns NULL if out of memory.
 */
static transfer_t *transfer_create(JNIEnv *env, jlongArray list, size_t count,
                                   bool has_files, size_t metadata_length,
                                   jlong number)
{
    transfer_t *transfer = malloc(transfer_size(count) + metadata_length);
    jlong       triples[64 * TRIPLE];

    if (transfer == NULL) {
        return NULL;
    }
    transfer->number = number;
    for (size_t i = 0; i < count; i++) {
        jlong *triple = &triples[i % 64 * TRIPLE];

        if (i % 64 == 0) {
            size_t num = (count - i < 64) ? count - i : 64;

            (*env)->GetLongArrayRegion(env, list, (jsize)(i * TRIPLE),
                                       (jsize)(num * TRIPLE), triples);
        }
        if (has_files) {
            transfer->list.ranges[i] = to_range(triple);
        } else {
            transfer->list.segments[i] =
                (ucxpool_segment_t){to_pointer(triple[0]), (size_t)triple[1]};
        }
    }
    return transfer;
}

static void set_timeout(ucxpool_request_params_t *params, jlong timeout_ns)
{
    if (timeout_ns > 0) {
        params->field_mask |= UCXPOOL_REQUEST_PARAM_FIELD_TIMEOUT;
        params->timeout_ns = (uint64_t)timeout_ns;
    }
}

/* A send to post. */
typedef struct send {
    transfer_t              *transfer;
    ucxpool_data_t           data;
    ucxpool_request_params_t params;
} send_t;

/* Fill in a send. Returns false if out of memory. */
static bool send_prepare(JNIEnv *env, send_t *send, jlongArray list,
                         size_t count, bool has_files, jbyteArray metadata,
                         jlong number)
{
    ucxpool_request_params_t *params = &send->params;
    jsize                     length =
        (metadata == NULL) ? 0 : (*env)->GetArrayLength(env, metadata);
    transfer_t *transfer =
        transfer_create(env, list, count, has_files, (size_t)length, number);

    if (transfer == NULL) {
        return false;
    }
    *params = (ucxpool_request_params_t){
        .field_mask     = UCXPOOL_REQUEST_PARAM_FIELD_COMPLETION,
        .completion_ptr = transfer};
    if (metadata != NULL) {
        jbyte *bytes = (jbyte *)transfer + transfer_size(count);

        (*env)->GetByteArrayRegion(env, metadata, 0, length, bytes);
        params->metadata        = bytes;
        params->metadata_length = (size_t)length;
        params->field_mask |= UCXPOOL_REQUEST_PARAM_FIELD_METADATA;
    }
    if (has_files) {
        send->data = library.source_ranges(transfer->list.ranges, count);
    } else {
        send->data = library.source_segments(
            (const ucxpool_const_segment_t *)transfer->list.segments, count);
    }
    send->transfer = transfer;
    return true;
}

METHOD(jlong, send, jlong channel, jlongArray list, jint count,
       jboolean has_files, jlong tag, jbyteArray metadata, jlong number,
       jlong timeout_ns)
{
    ucxpool_request_t *request = NULL;
    send_t             send;
    ucxpool_status_t   status;

    if (!send_prepare(env, &send, list, (size_t)count, has_files, metadata,
                      number)) {
        return OUT_OF_MEMORY;
    }
    set_timeout(&send.params, timeout_ns);
    status = library.send(to_pointer(channel), &send.data, (uint64_t)tag,
                          &send.params, &request);
    if (status != UCXPOOL_OK) {
        free(send.transfer);
        return status;
    }
    return to_handle(request);
}

/* A send of a batch. */
typedef struct batch_send {
    send_t             send;
    ucxpool_request_t *request;
} batch_send_t;

/* Fill in all sends of a batch. Returns false if out of memory. */
static bool batch_prepare(JNIEnv *env, batch_send_t *sends, ucxpool_op_t *ops,
                          jint count, jlongArray fields, jobjectArray lists,
                          jobjectArray metadata)
{
    bool is_ok = true;

    for (jint i = 0; is_ok && (i < count); i++) {
        jobject list = (*env)->GetObjectArrayElement(env, lists, i);
        jobject text = (*env)->GetObjectArrayElement(env, metadata, i);
        jlong   field[CONSTANT(FIELDS)];

        (*env)->GetLongArrayRegion(env, fields, i * CONSTANT(FIELDS),
                                   CONSTANT(FIELDS), field);
        is_ok  = send_prepare(env, &sends[i].send, list,
                              (size_t)field[CONSTANT(FIELD_COUNT)],
                              field[CONSTANT(FIELD_HAS_FILES)] != 0, text,
                              field[CONSTANT(FIELD_NUMBER)]);
        ops[i] = (ucxpool_op_t){.kind = UCXPOOL_OP_SEND,
                                .channel =
                                    to_pointer(field[CONSTANT(FIELD_CHANNEL)]),
                                .data   = sends[i].send.data,
                                .tag    = (uint64_t)field[CONSTANT(FIELD_TAG)],
                                .params = &sends[i].send.params,
                                .request_p = &sends[i].request};
        (*env)->DeleteLocalRef(env, text);
        (*env)->DeleteLocalRef(env, list);
    }
    return is_ok;
}

/* Post sends. Writes the requests of those that were posted; the others stay 0.
 */
METHOD(jint, post, jlong pool, jint count, jlongArray fields,
       jobjectArray lists, jobjectArray metadata, jlongArray requests_out)
{
    batch_send_t    *sends  = calloc((size_t)count + 1, sizeof(*sends));
    ucxpool_op_t    *ops    = calloc((size_t)count + 1, sizeof(*ops));
    ucxpool_status_t status = OUT_OF_MEMORY;
    size_t           num    = 0;

    if ((sends != NULL) && (ops != NULL) &&
        batch_prepare(env, sends, ops, count, fields, lists, metadata)) {
        status = library.post(to_pointer(pool), ops, sizeof(*ops),
                              (size_t)count, &num);
    }
    for (jint i = 0; (sends != NULL) && (i < count); i++) {
        jlong request = to_handle(sends[i].request);

        if ((size_t)i >= num) {
            free(sends[i].send.transfer);
        } else {
            (*env)->SetLongArrayRegion(env, requests_out, i, 1, &request);
        }
    }
    free(ops);
    free(sends);
    return status;
}

METHOD(jlong, receive, jlong message, jlongArray list, jint count, jlong number,
       jlong timeout_ns)
{
    ucxpool_request_params_t params  = {0};
    ucxpool_request_t       *request = NULL;
    transfer_t              *transfer =
        transfer_create(env, list, (size_t)count, false, 0, number);
    ucxpool_data_t   data;
    ucxpool_status_t status;

    if (transfer == NULL) {
        return OUT_OF_MEMORY;
    }
    params.field_mask     = UCXPOOL_REQUEST_PARAM_FIELD_COMPLETION;
    params.completion_ptr = transfer;
    set_timeout(&params, timeout_ns);
    data = library.data_segments(transfer->list.segments, (size_t)count);
    status =
        library.message_recv(to_pointer(message), &data, &params, &request);
    if (status != UCXPOOL_OK) {
        free(transfer);
        return status;
    }
    return to_handle(request);
}

METHOD(void, cancel, jlong request)
{
    library.request_cancel(to_pointer(request));
}

METHOD(void, refuse, jlong message, jbyteArray reason)
{
    size_t length;
    char  *text = copy_bytes(env, reason, &length);

    library.message_refuse(to_pointer(message), text);
    free(text);
}

METHOD(jint, lengths, jlong message, jlongArray lengths_out, jint count)
{
    size_t first = 0, num = 1;
    size_t part[256];

    while ((first < (size_t)count) && (num > 0)) {
        jlong  values[256];
        size_t wanted = (size_t)count - first;

        if (wanted > 256) {
            wanted = 256;
        }
        num = library.message_lengths(to_pointer(message), first, wanted, part);
        for (size_t i = 0; i < num; i++) {
            values[i] = (jlong)part[i];
        }
        (*env)->SetLongArrayRegion(env, lengths_out, (jsize)first, (jsize)num,
                                   values);
        first += num;
    }
    return (jint)first;
}

/* --- events --------------------------------------------------------------- */

/*
 * Records of events are written one after the other to memory of Java, each
 * aligned to 8 bytes.
 */
typedef struct record {
    int32_t  kind;
    int32_t  status;       /* ENDED, STATE */
    int64_t  size;         /* bytes with the text, rounded up to 8 */
    int64_t  number;       /* transfer; or channel */
    int64_t  handle;       /* request; message; listener */
    uint64_t tag;          /* ENDED, MESSAGE */
    uint64_t length;       /* ENDED, MESSAGE: bytes; STATE: the state */
    int64_t  num_segments; /* MESSAGE */
    int64_t  text_length;  /* detail; metadata; reason */
    char     text[];
} record_t;

static_assert(sizeof(record_t) == CONSTANT(RECORD_HEADER),
              "the text is not where Java expects it");

/* The longest text of a record is metadata. A detail is truncated to this
 * size. */
#define TEXT_MAX    4096
#define RECORD_MAX  (sizeof(record_t) + TEXT_MAX)
#define NUM_AT_ONCE 64

typedef struct records {
    char  *next;
    size_t left;
    jint   count;
} records_t;

static void add_record(records_t *records, const record_t *from,
                       const void *text, size_t text_length)
{
    record_t *record = (record_t *)records->next;

    if (text_length > TEXT_MAX) {
        text_length = TEXT_MAX;
    }
    *record             = *from;
    record->text_length = (int64_t)text_length;
    record->size = (int64_t)((sizeof(*record) + text_length + 7) & ~(size_t)7);
    if (text_length > 0) {
        memcpy(record->text, text, text_length);
    }
    records->next += record->size;
    records->left -= (size_t)record->size;
    records->count++;
}

static void add_completion(records_t                  *records,
                           const ucxpool_completion_t *completion)
{
    transfer_t            *transfer = completion->completion_ptr;
    ucxpool_request_attr_t attr     = {0};
    record_t               record   = {.kind   = CONSTANT(RECORD_ENDED),
                                       .status = completion->status,
                                       .number = transfer->number,
                                       .handle = to_handle(completion->request),
                                       .tag    = completion->tag,
                                       .length = completion->length};

    if (completion->status != UCXPOOL_OK) {
        library.request_query(completion->request, &attr, sizeof(attr));
    }
    add_record(records, &record, attr.detail, strlen(attr.detail));
    free(transfer);
}

static void add_completions(ucxpool_t *pool, records_t *records)
{
    ucxpool_completion_t completions[NUM_AT_ONCE];
    size_t               num = NUM_AT_ONCE;

    while ((num == NUM_AT_ONCE) &&
           (records->left >= (NUM_AT_ONCE + 1) * RECORD_MAX)) {
        num = 0;
        library.completion_get(pool, completions, NUM_AT_ONCE, &num);
        for (size_t i = 0; i < num; i++) {
            add_completion(records, &completions[i]);
        }
    }
}

/* Returns true if a channel has room for a record outside the reserved space.
 */
static bool has_room(const records_t *records, size_t kept)
{
    return records->left >= kept + RECORD_MAX;
}

/* Add the messages of a channel. Returns false if there is too little space for
 * all. */
static bool add_messages(ucxpool_t *pool, const ucxpool_event_t *event,
                         records_t *records, size_t kept)
{
    ucxpool_message_attr_t attr;
    ucxpool_message_t     *message;

    while (has_room(records, kept)) {
        if (library.probe(pool, event->channel, 0, 0, &message) != UCXPOOL_OK) {
            return true;
        }
        library.message_query(message, &attr, sizeof(attr));
        add_record(records,
                   &(record_t){.kind         = CONSTANT(RECORD_MESSAGE),
                               .number       = to_handle(event->user_ptr),
                               .handle       = to_handle(message),
                               .tag          = attr.tag,
                               .length       = attr.length,
                               .num_segments = (int64_t)attr.num_segments},
                   attr.metadata, attr.metadata_length);
    }
    return false;
}

static void add_state(const ucxpool_event_t        *event,
                      const ucxpool_channel_attr_t *attr, records_t *records)
{
    add_record(records,
               &(record_t){.kind   = CONSTANT(RECORD_STATE),
                           .status = attr->status,
                           .number = to_handle(event->user_ptr),
                           .length = attr->state},
               attr->reason, strlen(attr->reason));
}

/*
 * Add the events of a channel. Java gets the event that a channel is open
 * before the channel's messages, and the event that it has ended after all of
 * them. Messages that do not fit are reported again, by an event without the
 * state. The end is therefore reported together with the last message, possibly
 * twice.
 */
static void add_channel(ucxpool_t *pool, const ucxpool_event_t *event,
                        records_t *records, size_t kept)
{
    ucxpool_channel_attr_t attr;
    bool                   has_ended;

    library.channel_query(event->channel, &attr, sizeof(attr));
    has_ended = (attr.state == UCXPOOL_CHANNEL_CLOSED) ||
                (attr.state == UCXPOOL_CHANNEL_FAILED);
    if ((event->kinds & UCXPOOL_EVENT_STATE) && !has_ended) {
        add_state(event, &attr, records);
        kept -= RECORD_MAX;
    }
    if (add_messages(pool, event, records, kept) && has_ended) {
        add_state(event, &attr, records);
    }
}

static void add_listener(const ucxpool_event_t *event, records_t *records)
{
    add_record(records,
               &(record_t){.kind   = CONSTANT(RECORD_CALLER),
                           .handle = to_handle(event->listener)},
               NULL, 0);
}

/*
 * Fetch events and add their records. The library reports a change of state
 * only once. Space for each event is therefore reserved before the event is
 * fetched, and kept until the event is processed.
 */
static void add_events(ucxpool_t *pool, records_t *records)
{
    ucxpool_event_t events[NUM_AT_ONCE];
    size_t          num = 0;

    if (records->left < NUM_AT_ONCE * 2 * RECORD_MAX) {
        return;
    }
    library.event_get(pool, events, NUM_AT_ONCE, &num);
    for (size_t i = 0; i < num; i++) {
        size_t kept = (num - i) * RECORD_MAX;

        if (events[i].channel != NULL) {
            add_channel(pool, &events[i], records, kept);
        } else {
            add_listener(&events[i], records);
        }
    }
}

static jlong now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (jlong)time.tv_sec * 1000000000 + time.tv_nsec;
}

/*
 * Collect all events. The monitor of `handles` is held while channels are
 * looked up. They are released only with this monitor held, so they still exist
 * at that time.
 */
static jint collect(JNIEnv *env, ucxpool_t *pool, jobject handles, jlong memory,
                    jlong size)
{
    records_t records = {to_pointer(memory), (size_t)size, 0};

    add_completions(pool, &records);
    if ((*env)->MonitorEnter(env, handles) == JNI_OK) {
        add_events(pool, &records);
        (*env)->MonitorExit(env, handles);
    }
    return records.count;
}

/*
 * Sleep until an event arrives, Java wakes this thread, or the timeout expires.
 * Returns false if the caller must not wait any longer.
 */
static bool sleep_once(ucxpool_t *pool, int wake_fd, jlong timeout_ns)
{
    struct timespec  timeout = {.tv_sec  = timeout_ns / 1000000000,
                                .tv_nsec = timeout_ns % 1000000000};
    struct pollfd    fds[2]  = {{.events = POLLIN},
                                {.fd = wake_fd, .events = POLLIN}};
    ucxpool_status_t status  = library.event_fd(pool, &fds[0].fd);
    eventfd_t        number;

    if (status == UCXPOOL_OK) {
        status = library.arm(pool);
    }
    if (status != UCXPOOL_OK) {
        return status == UCXPOOL_ERR_BUSY;
    }
    if (ppoll(fds, 2, &timeout, NULL) <= 0) {
        return false;
    }
    if (fds[1].revents != 0) {
        eventfd_read(wake_fd, &number);
        return false;
    }
    return true;
}

METHOD(jint, poll, jlong pool, jobject handles, jint wake_fd, jlong memory,
       jlong size, jlong timeout_ns)
{
    jlong deadline = now() + timeout_ns;
    jlong left     = timeout_ns;
    jint  count;

    for (;;) {
        library.progress(to_pointer(pool));
        count = collect(env, to_pointer(pool), handles, memory, size);
        if ((count != 0) || (left <= 0)) {
            return count;
        }
        if (sleep_once(to_pointer(pool), wake_fd, left)) {
            left = deadline - now();
        } else {
            left = 0;
        }
    }
}

/* Create a descriptor that ends the sleep. Returns the descriptor, or a
 * negative errno. */
METHOD(jint, wakeCreate)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    return (fd < 0) ? -errno : fd;
}

METHOD(void, wake, jint wake_fd)
{
    eventfd_write(wake_fd, 1);
}

METHOD(void, release, jlongArray requests, jint count)
{
    jlong handles[NUM_AT_ONCE];

    for (jint first = 0; first < count; first += NUM_AT_ONCE) {
        jint num = (count - first < NUM_AT_ONCE) ? count - first : NUM_AT_ONCE;

        (*env)->GetLongArrayRegion(env, requests, first, num, handles);
        for (jint i = 0; i < num; i++) {
            library.request_release(to_pointer(handles[i]));
        }
    }
}

/* --- statistics ----------------------------------------------------------- */

METHOD(jint, statsCount, jboolean of_channel)
{
    return (jint)(of_channel ? library.channel_stats_count()
                             : library.stats_count());
}

METHOD(jbyteArray, statsName, jint index, jboolean of_channel)
{
    ucxpool_stat_attr_t attr = {0};

    if (of_channel) {
        library.channel_stats_query((size_t)index, &attr, sizeof(attr));
    } else {
        library.stats_query((size_t)index, &attr, sizeof(attr));
    }
    return new_text(env, attr.name);
}

/* handle: of the pool or the channel */
METHOD(jint, statsRead, jlong handle, jlongArray values_out,
       jboolean of_channel)
{
    size_t           num    = (size_t)(*env)->GetArrayLength(env, values_out);
    uint64_t        *values = calloc(num, sizeof(*values));
    ucxpool_status_t status;

    if (values == NULL) {
        return OUT_OF_MEMORY;
    }
    if (of_channel) {
        status =
            library.channel_stats_read(to_pointer(handle), values, num, &num);
    } else {
        status = library.stats_read(to_pointer(handle), values, num, &num);
    }
    if (status == UCXPOOL_OK) {
        (*env)->SetLongArrayRegion(env, values_out, 0, (jsize)num,
                                   (jlong *)values);
    }
    free(values);
    return status;
}

static_assert(2 + UCXPOOL_HISTOGRAM_BUCKETS == CONSTANT(HISTOGRAM_VALUES),
              "Java's array has another length");

METHOD(jint, histogramCount)
{
    return (jint)library.histogram_count();
}

/* texts: name, operation, wire, way; values: count, sum, and the buckets */
METHOD(jint, histogramRead, jlong pool, jint index, jobjectArray texts_out,
       jlongArray values_out)
{
    ucxpool_histogram_attr_t attr;
    ucxpool_histogram_t      histogram;
    ucxpool_status_t         status =
        library.histogram_query((size_t)index, &attr, sizeof(attr));

    if (status == UCXPOOL_OK) {
        status = library.histogram_get(to_pointer(pool), attr.name, &histogram,
                                       sizeof(histogram));
    }
    if (status != UCXPOOL_OK) {
        return status;
    }

    const char *const texts[] = {attr.name, attr.operation, attr.wire,
                                 attr.way};

    set_texts(env, texts_out, texts, 4);
    (*env)->SetLongArrayRegion(env, values_out, 0, 1,
                               (jlong *)&histogram.count);
    (*env)->SetLongArrayRegion(env, values_out, 1, 1, (jlong *)&histogram.sum);
    (*env)->SetLongArrayRegion(env, values_out, 2, UCXPOOL_HISTOGRAM_BUCKETS,
                               (jlong *)histogram.buckets);
    return UCXPOOL_OK;
}

/* --- files ---------------------------------------------------------------- */

/* Open a file. Returns a descriptor, or a negative errno. */
METHOD(jint, fileOpen, jbyteArray path)
{
    size_t length;
    char  *name = copy_bytes(env, path, &length);
    int    fd   = -ENOMEM;

    if (name != NULL) {
        fd = open(name, O_RDONLY | O_CLOEXEC);
        fd = (fd < 0) ? -errno : fd;
        free(name);
    }
    return fd;
}

METHOD(void, fileClose, jint fd)
{
    close(fd);
}

METHOD(jbyteArray, errorString, jint error)
{
    char text[128];

    return new_text(env, strerror_r(error, text, sizeof(text)));
}
