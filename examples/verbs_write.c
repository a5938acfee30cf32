/*
 * verbs_write [DEVICE [GID-INDEX]] - an application uses RDMA itself, on blocks
 * of the pool. Two processes have a pool each. The first process writes one of
 * its blocks into a block of the second, which only checks the result.
 *
 * Exit status: 77 if there is no RDMA device.
 */
#include <ucxpool/ucxpool.h>

#include <infiniband/verbs.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define PORT 1

/* One process. */
typedef struct side {
    int                   talk; /* a socket to the other process */
    int                   gid_index;
    struct ibv_context   *device;
    struct ibv_pd        *pd;
    struct ibv_cq        *cq;
    struct ibv_qp        *qp;
    ucxpool_t            *pool;
    ucxpool_verbs_t      *verbs;
    ucxpool_block_t       block;
    ucxpool_verbs_piece_t piece; /* address of the block, and its keys */
} side_t;

/* The data that the other process needs. */
typedef struct card {
    struct ibv_port_attr port;
    union ibv_gid        gid;
    uint32_t             qp_number;
    uint32_t             rkey;
    uint64_t             address;
} card_t;

static void must(bool good, const char *what)
{
    if (!good) {
        perror(what);
        exit(1);
    }
}

static void must_pool(ucxpool_status_t status)
{
    if (status != UCXPOOL_OK) {
        fprintf(stderr, "verbs_write: %s: %s\n", ucxpool_status_string(status),
                ucxpool_error_detail());
        exit(1);
    }
}

/* Return the device of that name, or the first one if name is NULL. Returns
 * NULL if there is none. */
static struct ibv_device *find_device(struct ibv_device **devices,
                                      const char         *name)
{
    for (; (devices != NULL) && (*devices != NULL); devices++) {
        if ((name == NULL) ||
            (strcmp(ibv_get_device_name(*devices), name) == 0)) {
            return *devices;
        }
    }
    return NULL;
}

static void open_device(side_t *side, struct ibv_device *device)
{
    struct ibv_qp_init_attr attr = {
        .qp_type = IBV_QPT_RC,
        .cap     = {.max_send_wr  = 1,
                    .max_recv_wr  = 1,
                    .max_send_sge = 1,
                    .max_recv_sge = 1},
    };

    side->device = ibv_open_device(device);
    must(side->device != NULL, "ibv_open_device");
    side->pd = ibv_alloc_pd(side->device);
    must(side->pd != NULL, "ibv_alloc_pd");
    side->cq = ibv_create_cq(side->device, 1, NULL, NULL, 0);
    must(side->cq != NULL, "ibv_create_cq");
    attr.send_cq = side->cq;
    attr.recv_cq = side->cq;
    side->qp     = ibv_create_qp(side->pd, &attr);
    must(side->qp != NULL, "ibv_create_qp");
}

/* Create the pool, register it in our protection domain, and get a block. */
static void open_pool(side_t *side)
{
    must_pool(ucxpool_create(NULL, &side->pool));
    must_pool(ucxpool_verbs_register(
        side->pool, side->pd, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
        &side->verbs));
    must_pool(ucxpool_block_get(side->pool, &side->block));
    must_pool(ucxpool_verbs_keys(side->verbs, side->block.address,
                                 side->block.size, &side->piece));
}

static void exchange_cards(const side_t *side, card_t *mine, card_t *theirs)
{
    must(ibv_query_port(side->device, PORT, &mine->port) == 0,
         "ibv_query_port");
    must(ibv_query_gid(side->device, PORT, side->gid_index, &mine->gid) == 0,
         "ibv_query_gid");
    mine->qp_number = side->qp->qp_num;
    mine->rkey      = side->piece.rkey;
    mine->address   = side->piece.address;
    must(send(side->talk, mine, sizeof(*mine), 0) == sizeof(*mine), "send");
    must(recv(side->talk, theirs, sizeof(*theirs), MSG_WAITALL) ==
             sizeof(*theirs),
         "the other process");
}

/* Connect the queue pair: each of the three steps names its attributes. */
static void connect_qp(side_t *side, const card_t *mine, const card_t *theirs)
{
    bool is_ethernet        = mine->port.link_layer == IBV_LINK_LAYER_ETHERNET;
    struct ibv_qp_attr init = {
        .qp_state        = IBV_QPS_INIT,
        .port_num        = PORT,
        .qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
    };
    struct ibv_qp_attr receive = {
        .qp_state           = IBV_QPS_RTR,
        .path_mtu           = mine->port.active_mtu,
        .dest_qp_num        = theirs->qp_number,
        .max_dest_rd_atomic = 1,
        .min_rnr_timer      = 12,
        .ah_attr            = {.dlid      = theirs->port.lid,
                               .port_num  = PORT,
                               .is_global = is_ethernet,
                               .grh       = {.dgid       = theirs->gid,
                                             .sgid_index = side->gid_index,
                                             .hop_limit  = 1}},
    };
    struct ibv_qp_attr send = {
        .qp_state      = IBV_QPS_RTS,
        .timeout       = 14,
        .retry_cnt     = 7,
        .rnr_retry     = 7,
        .max_rd_atomic = 1,
    };

    must(ibv_modify_qp(side->qp, &init,
                       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                           IBV_QP_ACCESS_FLAGS) == 0,
         "ibv_modify_qp to INIT");
    must(ibv_modify_qp(side->qp, &receive,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
                           IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                           IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) ==
             0,
         "ibv_modify_qp to RTR");
    must(ibv_modify_qp(side->qp, &send,
                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                           IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                           IBV_QP_MAX_QP_RD_ATOMIC) == 0,
         "ibv_modify_qp to RTS");
}

/* Wait until both processes have reached this point. */
static void meet(const side_t *side)
{
    char byte = 0;

    must(send(side->talk, &byte, 1, 0) == 1, "send");
    must(recv(side->talk, &byte, 1, 0) == 1, "the other process");
}

/* Write the whole block, in one operation. */
static void write_block(side_t *side, const card_t *theirs)
{
    struct ibv_sge sge = {
        .addr   = side->piece.address,
        .length = (uint32_t)side->piece.length,
        .lkey   = side->piece.lkey,
    };
    struct ibv_send_wr request = {
        .opcode     = IBV_WR_RDMA_WRITE,
        .send_flags = IBV_SEND_SIGNALED,
        .sg_list    = &sge,
        .num_sge    = 1,
        .wr.rdma    = {.remote_addr = theirs->address, .rkey = theirs->rkey},
    };
    struct ibv_send_wr *bad;
    struct ibv_wc       done;
    int                 num;

    must(ibv_post_send(side->qp, &request, &bad) == 0, "ibv_post_send");
    do {
        num = ibv_poll_cq(side->cq, 1, &done);
    } while (num == 0);
    must(num == 1, "ibv_poll_cq");
    must(done.status == IBV_WC_SUCCESS, ibv_wc_status_str(done.status));
}

/* Deregister the pool first, then close the domain, then the device. */
static void close_all(side_t *side)
{
    ucxpool_block_put(side->pool, &side->block);
    must_pool(ucxpool_verbs_deregister(side->verbs));
    ucxpool_destroy(side->pool);
    ibv_destroy_qp(side->qp);
    ibv_destroy_cq(side->cq);
    ibv_dealloc_pd(side->pd);
    ibv_close_device(side->device);
}

static void run(side_t *side, struct ibv_device *device, bool is_writer)
{
    card_t mine = {.qp_number = 0};
    card_t theirs;

    open_device(side, device);
    open_pool(side);
    memset(side->block.address, is_writer ? 'w' : '-', side->block.size);
    exchange_cards(side, &mine, &theirs);
    connect_qp(side, &mine, &theirs);
    meet(side);
    if (is_writer) {
        write_block(side, &theirs);
    }
    meet(side);
    if (!is_writer) {
        const char *bytes = side->block.address;

        for (size_t i = 0; i < side->block.size; i++) {
            must(bytes[i] == 'w', "a byte was not written");
        }
        printf("%s wrote %zu bytes into a block of another process\n",
               ibv_get_device_name(device), side->block.size);
    }
    close_all(side);
}

int main(int argc, char **argv)
{
    struct ibv_device **devices = ibv_get_device_list(NULL);
    struct ibv_device *device = find_device(devices, argc > 1 ? argv[1] : NULL);
    side_t             side   = {.gid_index = argc > 2 ? atoi(argv[2]) : 0};
    int                sockets[2];
    int                status = 0;
    pid_t              child;

    if (device == NULL) {
        fprintf(stderr, "verbs_write: no such RDMA device: ibv_devices lists "
                        "the devices of this machine\n");
        return 77;
    }
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0, "socketpair");
    child = fork(); /* before a pool is created or a device is opened */
    must(child >= 0, "fork");
    side.talk = sockets[child == 0];
    close(sockets[child != 0]);
    run(&side, device, child != 0);
    ibv_free_device_list(devices);
    if (child == 0) {
        return 0;
    }
    must(waitpid(child, &status, 0) == child, "waitpid");
    return (WIFEXITED(status) && (WEXITSTATUS(status) == 0)) ? 0 : 1;
}
