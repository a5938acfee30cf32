/* The launcher by way of PMIx. */
#include <config.h>

#include "tools/shuffle/error.h"
#include "tools/shuffle/launcher.h"

#include <pmix.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define LAUNCHER_CARD_KEY   "ucxpool.shuffle"
#define LAUNCHER_SHARED_KEY "ucxpool.shuffle.shared"
/* Both are bounds for a launcher that does nothing: mpirun sends SIGTERM, and
 * SIGKILL a second later. */
#define LAUNCHER_PATIENCE_MS 3000
#define LAUNCHER_LINGER_MS   2000

bool launcher_is_present(void)
{
    return (getenv("PMIX_RANK") != NULL) || (getenv("PMI_RANK") != NULL);
}

static int launcher_say_error(const char *what, pmix_status_t status)
{
    return say_error("cannot %s the other workers: %s", what,
                     PMIx_Error_string(status));
}

/* Where the launcher does not tell, by the rank: right where the ranks of a
 * host follow each other. */
static unsigned launcher_local_rank(const pmix_proc_t *self)
{
    pmix_value_t *value;
    unsigned      rank;

    if (PMIx_Get(self, PMIX_LOCAL_RANK, NULL, 0, &value) != PMIX_SUCCESS) {
        return self->rank;
    }
    rank = value->data.uint16;
    PMIX_VALUE_RELEASE(value);
    return rank;
}

int launcher_init(launcher_t *launcher)
{
    pmix_proc_t  *self = malloc(sizeof(*self));
    pmix_proc_t   all;
    pmix_value_t *value;
    pmix_status_t status;

    if (self == NULL) {
        return say_error("out of memory");
    }
    if (getenv("PMIX_RANK") == NULL) {
        say_error("the launcher does not speak PMIx: use the mpirun of Open "
                  "MPI, or srun --mpi=pmix");
        goto err_free;
    }
    status = PMIx_Init(self, NULL, 0);
    if (status != PMIX_SUCCESS) {
        launcher_say_error("meet", status);
        goto err_free;
    }
    PMIX_PROC_CONSTRUCT(&all);
    PMIX_LOAD_PROCID(&all, self->nspace, PMIX_RANK_WILDCARD);
    status = PMIx_Get(&all, PMIX_JOB_SIZE, NULL, 0, &value);
    if (status != PMIX_SUCCESS) {
        launcher_say_error("count", status);
        goto err_finalize;
    }
    launcher->rank       = self->rank;
    launcher->num_ranks  = value->data.uint32;
    launcher->local_rank = launcher_local_rank(self);
    launcher->has_shown  = false;
    launcher->inside     = self;
    PMIX_VALUE_RELEASE(value);
    return 0;

err_finalize:
    PMIx_Finalize(NULL, 0);
err_free:
    free(self);
    return -1;
}

/* The data is NULL where a process has none to give. */
static int launcher_put(const char *key, const void *data, size_t length)
{
    pmix_value_t  value;
    pmix_status_t status;

    if (data == NULL) {
        return 0;
    }
    PMIX_VALUE_CONSTRUCT(&value);
    value.type          = PMIX_BYTE_OBJECT;
    value.data.bo.bytes = (char *)data;
    value.data.bo.size  = length;
    status              = PMIx_Put(PMIX_GLOBAL, key, &value);
    if (status == PMIX_SUCCESS) {
        status = PMIx_Commit();
    }
    return status == PMIX_SUCCESS ? 0 : launcher_say_error("tell", status);
}

/* Wait until all have put what they give. */
static int launcher_meet(void)
{
    bool          collect = true;
    pmix_info_t   info;
    pmix_status_t status;

    PMIX_INFO_CONSTRUCT(&info);
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
    status = PMIx_Fence(NULL, 0, &info, 1);
    PMIX_INFO_DESTRUCT(&info);
    return status == PMIX_SUCCESS ? 0 : launcher_say_error("meet", status);
}

static int launcher_get(launcher_t *launcher, unsigned rank, const char *key,
                        void **data_p, size_t *length_p)
{
    const pmix_proc_t *self = launcher->inside;
    pmix_proc_t        peer;
    pmix_value_t      *value;
    pmix_status_t      status;
    int                result = 0;

    PMIX_PROC_CONSTRUCT(&peer);
    PMIX_LOAD_PROCID(&peer, self->nspace, rank);
    status = PMIx_Get(&peer, key, NULL, 0, &value);
    if (status != PMIX_SUCCESS) {
        return launcher_say_error("hear from", status);
    }
    if (value->type != PMIX_BYTE_OBJECT) {
        result = say_error("worker %u shows nothing that can be read", rank);
    } else {
        *length_p = value->data.bo.size;
        *data_p   = malloc(*length_p + 1);
        if (*data_p == NULL) {
            result = say_error("out of memory");
        } else {
            memcpy(*data_p, value->data.bo.bytes, *length_p);
        }
    }
    PMIX_VALUE_RELEASE(value);
    return result;
}

int launcher_share(launcher_t *launcher, char *text, size_t size)
{
    void  *data;
    size_t length;

    if ((launcher_put(LAUNCHER_SHARED_KEY, launcher->rank == 0 ? text : NULL,
                      size) != 0) ||
        (launcher_meet() != 0) ||
        (launcher_get(launcher, 0, LAUNCHER_SHARED_KEY, &data, &length) != 0)) {
        return -1;
    }
    if (length != size) {
        free(data);
        return say_error("worker 0 is of another version");
    }
    memcpy(text, data, size);
    free(data);
    return 0;
}

int launcher_show(launcher_t *launcher, const void *card, size_t length)
{
    if (launcher_put(LAUNCHER_CARD_KEY, card, length) != 0) {
        return -1;
    }
    launcher->has_shown = true;
    return launcher_meet();
}

int launcher_look(launcher_t *launcher, unsigned rank, void **card_p,
                  size_t *length_p)
{
    return launcher_get(launcher, rank, LAUNCHER_CARD_KEY, card_p, length_p);
}

void launcher_abort(const launcher_t *launcher, int status)
{
    if (launcher->has_shown) {
        PMIx_Abort(status, "a worker of ucxpool_shuffle failed", NULL, 0);
        launcher_await(launcher);
        launcher_delay_exit(launcher);
    }
}

void launcher_delay_exit(const launcher_t *launcher)
{
    if (launcher->has_shown) {
        poll(NULL, 0, LAUNCHER_LINGER_MS);
    }
}

/* A signal ends the call. */
void launcher_await(const launcher_t *launcher)
{
    if (launcher->has_shown) {
        poll(NULL, 0, LAUNCHER_PATIENCE_MS);
    }
}

void launcher_cleanup(launcher_t *launcher)
{
    PMIx_Finalize(NULL, 0);
    free(launcher->inside);
}
