#include "rdma_end.h"

#include "pair.h"
#include "two.h"

#include <infiniband/verbs.h>

#include <string.h>
#include <sys/socket.h>

#define PORT 1

typedef struct card {
    union ibv_gid gid;
    uint32_t      qp_number;
    uint16_t      lid;
} card_t;

static char device_name[64];

/* Open the first device with an active port; NULL: none. */
static struct ibv_context *open_device(void)
{
    struct ibv_device  **devices = ibv_get_device_list(NULL);
    struct ibv_context  *context = NULL;
    struct ibv_port_attr port;

    for (size_t i = 0; (devices != NULL) && (devices[i] != NULL); i++) {
        context = ibv_open_device(devices[i]);
        if ((context != NULL) && (ibv_query_port(context, PORT, &port) == 0) &&
            (port.state == IBV_PORT_ACTIVE)) {
            strncpy(device_name, ibv_get_device_name(devices[i]),
                    sizeof(device_name) - 1);
            break;
        }
        if (context != NULL) {
            ibv_close_device(context);
            context = NULL;
        }
    }
    if (devices != NULL) {
        ibv_free_device_list(devices);
    }
    return context;
}

bool rdma_is_present(void)
{
    struct ibv_context *context = open_device();

    if (context == NULL) {
        return false;
    }
    ibv_close_device(context);
    return true;
}

const char *rdma_device_name(void)
{
    return device_name;
}

void rdma_open(rdma_end_t *end)
{
    struct ibv_qp_init_attr attr = {
        .qp_type = IBV_QPT_RC,
        .cap     = {.max_send_wr  = 4,
                    .max_recv_wr  = 1,
                    .max_send_sge = 1,
                    .max_recv_sge = 1},
    };

    end->context = open_device();
    two_check(end->context != NULL);
    end->pd = ibv_alloc_pd(end->context);
    two_check(end->pd != NULL);
    end->cq = ibv_create_cq(end->context, 4, NULL, NULL, 0);
    two_check(end->cq != NULL);
    attr.send_cq = end->cq;
    attr.recv_cq = end->cq;
    end->qp      = ibv_create_qp(end->pd, &attr);
    two_check(end->qp != NULL);
}

/* The domain can be deallocated only after its registrations. */
void rdma_close(rdma_end_t *end)
{
    two_check(ibv_destroy_qp(end->qp) == 0);
    two_check(ibv_destroy_cq(end->cq) == 0);
    two_check(ibv_dealloc_pd(end->pd) == 0);
    two_check(ibv_close_device(end->context) == 0);
}

static void bring_up(rdma_end_t *end, const struct ibv_port_attr *port,
                     const card_t *theirs)
{
    struct ibv_qp_attr init = {
        .qp_state        = IBV_QPS_INIT,
        .port_num        = PORT,
        .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
    };
    struct ibv_qp_attr receive = {
        .qp_state           = IBV_QPS_RTR,
        .path_mtu           = port->active_mtu,
        .dest_qp_num        = theirs->qp_number,
        .max_dest_rd_atomic = 1,
        .min_rnr_timer      = 12,
        .ah_attr            = {.dlid      = theirs->lid,
                               .port_num  = PORT,
                               .is_global = port->link_layer == IBV_LINK_LAYER_ETHERNET,
                               .grh       = {.dgid = theirs->gid, .hop_limit = 1}},
    };
    struct ibv_qp_attr send = {
        .qp_state      = IBV_QPS_RTS,
        .timeout       = 14,
        .retry_cnt     = 6,
        .rnr_retry     = 6,
        .max_rd_atomic = 1,
    };

    two_check(ibv_modify_qp(end->qp, &init,
                            IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                IBV_QP_ACCESS_FLAGS) == 0);
    two_check(ibv_modify_qp(end->qp, &receive,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
                                IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                IBV_QP_MAX_DEST_RD_ATOMIC |
                                IBV_QP_MIN_RNR_TIMER) == 0);
    two_check(ibv_modify_qp(end->qp, &send,
                            IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

void rdma_connect(rdma_end_t *end, int talk)
{
    struct ibv_port_attr port;
    card_t               mine;
    card_t               theirs;
    char                 byte = 0;

    memset(&mine, 0, sizeof(mine));
    two_check(ibv_query_port(end->context, PORT, &port) == 0);
    two_check(ibv_query_gid(end->context, PORT, 0, &mine.gid) == 0);
    mine.qp_number = end->qp->qp_num;
    mine.lid       = port.lid;
    two_check(send(talk, &mine, sizeof(mine), 0) == sizeof(mine));
    two_check(recv(talk, &theirs, sizeof(theirs), MSG_WAITALL) ==
              sizeof(theirs));
    bring_up(end, &port, &theirs);
    /* The peer's end may not be ready yet. */
    two_check(send(talk, &byte, 1, 0) == 1);
    two_check(recv(talk, &byte, 1, MSG_WAITALL) == 1);
}

static int post(rdma_end_t *end, enum ibv_wr_opcode opcode, struct ibv_sge *sge,
                uint64_t remote_address, uint32_t rkey)
{
    struct ibv_send_wr request = {
        .opcode     = opcode,
        .send_flags = IBV_SEND_SIGNALED,
        .sg_list    = sge,
        .num_sge    = 1,
        .wr.rdma    = {.remote_addr = remote_address, .rkey = rkey},
    };
    struct ibv_send_wr *bad;
    struct ibv_wc       done;
    uint64_t            deadline = pair_deadline();
    int                 num      = 0;

    two_check(ibv_post_send(end->qp, &request, &bad) == 0);
    while (num == 0) {
        num = ibv_poll_cq(end->cq, 1, &done);
        two_check(!pair_is_late(deadline));
    }
    two_check(num == 1);
    return (int)done.status;
}

int rdma_write(rdma_end_t *end, uint64_t address, uint32_t length,
               uint32_t lkey, uint64_t remote_address, uint32_t rkey)
{
    struct ibv_sge sge = {.addr = address, .length = length, .lkey = lkey};

    return post(end, IBV_WR_RDMA_WRITE, &sge, remote_address, rkey);
}

int rdma_read(rdma_end_t *end, uint64_t address, uint32_t length, uint32_t lkey,
              uint64_t remote_address, uint32_t rkey)
{
    struct ibv_sge sge = {.addr = address, .length = length, .lkey = lkey};

    return post(end, IBV_WR_RDMA_READ, &sge, remote_address, rkey);
}
