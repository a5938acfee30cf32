#include "wireup/hello_say.h"

#include "core/control.h"
#include "wireup/mapping.h"

#include <string.h>

static uint32_t hello_flags(const ucxpool_channel_t *channel, bool offers_map)
{
    uint32_t flags = offers_map ? PROTO_HELLO_MAP : 0u;

    if (channel->by_ep) {
        return flags | PROTO_HELLO_BY_EP;
    }
    if (channel->at_door && !channel->begins) {
        flags |= PROTO_HELLO_CALLED;
    }
    return flags;
}

static void fill_hello(ucxpool_channel_t *channel, proto_hello_t *hello,
                       uint32_t num_files)
{
    ucxpool_t *pool = channel->pool;

    hello->head.channel = 0;
    hello->head.key     = 0;
    memcpy(hello->to_id, channel->peer.id, sizeof(hello->to_id));
    memcpy(hello->to_key, channel->peer.key, sizeof(hello->to_key));
    memcpy(hello->from_id, pool->id, sizeof(hello->from_id));
    if (!channel->by_ep) {
        memcpy(hello->from_key, pool->key, sizeof(hello->from_key));
    }
    hello->pair         = channel->pair;
    hello->channel_key  = channel->key;
    hello->channel      = channel->number;
    hello->flags        = hello_flags(channel, num_files != 0);
    hello->block_size   = pool->config.block_size;
    hello->max_runs     = pool->config.max_segments;
    hello->credits      = pool->config.credits;
    hello->max_metadata = (uint32_t)pool->config.max_metadata;
    hello->memory_kind  = wireup_mapping_kind(pool);
    hello->num_files    = num_files;
    ipc_host_fill(&hello->host);
}

void wireup_hello_say(ucxpool_channel_t *channel)
{
    uint32_t       num_files = wireup_mapping_num_files(channel);
    void          *files;
    proto_fixed_t *fixed;

    fixed =
        core_control_begin(channel, PROTO_HELLO, num_files * sizeof(ipc_file_t),
                           CORE_OUTSIDE, &files);
    if (fixed == NULL) {
        return;
    }
    fill_hello(channel, &fixed->hello, num_files);
    if (num_files != 0) {
        wireup_mapping_fill(channel, files);
    }
    channel->handshake |= CORE_HELLO_SENT;
    core_control_end(channel);
}

void wireup_hello_say_ready(ucxpool_channel_t *channel)
{
    size_t         size = strlen(channel->peer.we_reason);
    void          *text;
    proto_fixed_t *fixed;

    fixed = core_control_begin(channel, PROTO_READY, size, CORE_OUTSIDE, &text);
    if (fixed == NULL) {
        return;
    }
    channel->handshake |= CORE_READY_SENT;
    fixed->ready.can_map = channel->peer.we_map;
    memcpy(text, channel->peer.we_reason, size);
    core_control_end(channel);
}
