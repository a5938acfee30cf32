/*
 * BYE without a channel.
 */
#include "mem/share_socket.h"
#include "xfer/control.h"

#include <stdlib.h>

typedef struct last_word {
    ucxpool_t   *pool;
    proto_head_t head;
} last_word_t;

static void last_word_sent(void *request, ucs_status_t status, void *arg)
{
    last_word_t *word = arg;
    ucxpool_t   *pool = word->pool;

    (void)status;
    ucp_request_free(request);
    free(word);
    xfer_pool_end_operation(pool);
}

static void send_by_ucx(ucxpool_t *pool, ucp_ep_h reply_ep,
                        const proto_head_t *head)
{
    last_word_t        *word  = xfer_alloc(pool, sizeof(*word));
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK |
                        UCP_OP_ATTR_FIELD_USER_DATA,
        .flags     = UCP_AM_SEND_FLAG_EAGER,
        .cb.send   = last_word_sent,
        .user_data = word,
    };

    if (word == NULL) {
        return; /* the peer asks again */
    }
    word->pool = pool;
    word->head = *head;
    if (UCS_PTR_IS_PTR(ucp_am_send_nbx(reply_ep, pool->config.am_id,
                                       &word->head, sizeof(word->head), NULL, 0,
                                       &param))) {
        pool->num_operations++;
    } else {
        free(word);
    }
}

void xfer_control_bye(ucxpool_t *pool, const proto_hello_t *hello,
                      const xfer_way_t *way)
{
    proto_head_t head = {
        .type    = PROTO_BYE,
        .version = PROTO_VERSION,
        .channel = hello->channel,
        .key     = hello->channel_key,
    };

    if (way->fd >= 0) {
        (void)mem_share_socket_send(way->fd, &head, sizeof(head), NULL, 0);
    } else if (way->reply_ep != NULL) {
        send_by_ucx(pool, way->reply_ep, &head);
    }
}
