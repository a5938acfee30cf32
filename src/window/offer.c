/*
 * Messages out of a window, at its owner: which sends lie in one, and which
 * peers pull them from there.
 */
#include "window/window.h"

#include "base/error.h"
#include "copy/engine.h"
#include "core/control.h"
#include "core/wire.h"

#include <stdlib.h>
#include <string.h>

/* --- the table ------------------------------------------------------------ */

static uintptr_t start_of(const ucxpool_window_t *window)
{
    return (uintptr_t)window->address;
}

/* How many begin at an address or before it? */
static size_t num_before(const core_windows_t *windows, uintptr_t address)
{
    size_t low  = 0;
    size_t high = windows->num_table;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (start_of(windows->table[middle]) <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Could a peer that pulls be quicker than blocks? From process to process it is
 * not, and is done only where the sender asks for it. */
static bool is_worth_it(const ucxpool_window_t *window)
{
    const base_config_t *config = &window->pool->config;

    if ((config->window_way == BASE_WINDOW_WAY_MESSAGES) ||
        (config->checksum != BASE_CHECKSUM_NONE)) {
        return false;
    }
    return copy_engine_is_launched(window->pool->engine)
               ? (window->cuda.share.way != 0) || window->is_virtual
               : config->window_way == BASE_WINDOW_WAY_DIRECT;
}

ucxpool_status_t window_offers_begin(ucxpool_window_t *window)
{
    core_windows_t    *windows = &window->pool->windows;
    size_t             size    = windows->num_table * sizeof(*windows->table);
    size_t             at;
    ucxpool_window_t **grown;

    if (!is_worth_it(window)) {
        return UCXPOOL_OK;
    }
    grown = realloc(windows->table, size + sizeof(*grown));
    if (grown == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY, "no memory for a window");
    }
    windows->table = grown;
    at             = num_before(windows, start_of(window));
    memmove(&grown[at + 1], &grown[at],
            (windows->num_table - at) * sizeof(*grown));
    grown[at] = window;
    windows->num_table++;
    return UCXPOOL_OK;
}

void window_offers_stop(ucxpool_window_t *window)
{
    core_windows_t *windows = &window->pool->windows;

    for (size_t i = 0; i < windows->num_table; i++) {
        if (windows->table[i] == window) {
            windows->num_table--;
            memmove(&windows->table[i], &windows->table[i + 1],
                    (windows->num_table - i) * sizeof(*windows->table));
            break;
        }
    }
    if (windows->num_table == 0) {
        free(windows->table);
        windows->table = NULL;
    }
}

/* --- offers --------------------------------------------------------------- */

static void discard(window_offer_t *offer)
{
    base_list_del(&offer->link);
    base_list_del(&offer->window_link);
    free(offer);
}

void window_offers_free(ucxpool_window_t *window)
{
    window_offers_stop(window);
    while (!base_list_is_empty(&window->offers)) {
        discard(base_list_head(&window->offers, window_offer_t, window_link));
    }
}

void window_offers_end(ucxpool_channel_t *channel)
{
    while (!base_list_is_empty(&channel->windows.offers)) {
        discard(base_list_head(&channel->windows.offers, window_offer_t, link));
    }
}

/* The one that was asked for last is found first. */
static window_offer_t *find_offer(ucxpool_channel_t      *channel,
                                  const ucxpool_window_t *window)
{
    window_offer_t *offer;

    base_list_for_each(offer, &channel->windows.offers, window_offer_t, link) {
        if (offer->window == window) {
            base_list_del(&offer->link);
            base_list_add_head(&channel->windows.offers, &offer->link);
            return offer;
        }
    }
    return NULL;
}

static void make_offer(ucxpool_channel_t *channel, ucxpool_window_t *window)
{
    window_offer_t *offer = core_alloc(channel->pool, sizeof(*offer));
    proto_fixed_t  *fixed;

    if (offer == NULL) {
        return; /* the next send may try again */
    }
    *offer = (window_offer_t){.window = window};
    base_list_add_head(&channel->windows.offers, &offer->link);
    base_list_add_head(&window->offers, &offer->window_link);
    fixed = core_control_begin(channel, PROTO_WINDOW_OFFER, 0, CORE_MUST, NULL);
    if (fixed != NULL) {
        fixed->window_offer.window = window->number;
        fixed->window_offer.length = window->length;
        memcpy(fixed->window_offer.key, window->key[UCXPOOL_WINDOW_READ - 1],
               sizeof(fixed->window_offer.key));
        core_control_end(channel);
    }
}

void window_offer_adopted(const window_grant_t *grant)
{
    window_offer_t *offer = find_offer(grant->channel, grant->window);

    if ((offer != NULL) && !grant->is_let_go && !grant->window->is_revoked &&
        (grant->access & UCXPOOL_WINDOW_READ)) {
        offer->grant = grant;
    }
}

void window_offer_closed(const window_grant_t *grant)
{
    window_offer_t *offer = find_offer(grant->channel, grant->window);

    if ((offer != NULL) && (offer->grant == grant)) {
        offer->grant = NULL;
    }
}

unsigned window_offers_adopted(const ucxpool_window_t *window)
{
    const window_offer_t *offer;
    unsigned              num = 0;

    base_list_for_each(offer, &window->offers, const window_offer_t,
                       window_link) {
        num += (offer->grant != NULL) ? 1 : 0;
    }
    return num;
}

/* --- sends ---------------------------------------------------------------- */

/* The window of the first byte, if any is; of several the one that begins
 * last. */
static ucxpool_window_t *find_window(const core_windows_t *windows,
                                     const copy_memory_t  *memory)
{
    size_t first = 0;
    size_t before;

    while ((first < memory->num) && (copy_memory_length(memory, first) == 0)) {
        first++;
    }
    if (first == memory->num) {
        return NULL;
    }
    before = num_before(windows, (uintptr_t)copy_memory_address(memory, first));
    return (before == 0) ? NULL : windows->table[before - 1];
}

static bool lies_within(const ucxpool_window_t *window,
                        const copy_memory_t    *memory)
{
    for (size_t i = 0; i < memory->num; i++) {
        uint64_t length = copy_memory_length(memory, i);
        uint64_t offset =
            (uintptr_t)copy_memory_address(memory, i) - start_of(window);

        if ((length != 0) &&
            ((offset > window->length) || (length > window->length - offset))) {
            return false;
        }
    }
    return true;
}

/* Where blocks are quicker: the list of many pieces goes before the first byte,
 * 6 ns a piece between two H100, while blocks hide theirs behind the copies of
 * others (131,072 x 4 KiB: 302 GB/s, 222 pulled). */
#define FEW_PIECES 1024u
#define LONG_PIECE ((uint64_t)32 << 10)

static bool is_quicker(const ucxpool_request_t *request)
{
    size_t num = request->data.memory.num;

    return (num <= FEW_PIECES) ||
           (request->data.totals.payload_size / num >= LONG_PIECE) ||
           (request->pool->config.window_way == BASE_WINDOW_WAY_DIRECT);
}

/* The first such send offers the window, and goes by blocks, as all do until
 * the peer has adopted it. */
void window_place(ucxpool_request_t *request)
{
    ucxpool_channel_t   *channel = request->channel;
    const copy_memory_t *memory  = &request->data.memory;
    core_place_t        *place   = &request->send.place;
    ucxpool_window_t    *window;
    window_offer_t      *offer;

    if (!channel->wire->is_read || copy_memory_is_ranges(memory) ||
        memory->is_unseen || (memory->num > PROTO_PLACES_MAX) ||
        !is_quicker(request)) {
        return;
    }
    window = find_window(&request->pool->windows, memory);
    if (window == NULL) {
        return;
    }
    offer = find_offer(channel, window);
    if (((offer != NULL) && (offer->grant == NULL)) ||
        !lies_within(window, memory)) {
        return;
    }
    if (offer == NULL) {
        make_offer(channel, window);
        return;
    }
    place->remote  = offer->grant->remote;
    place->address = start_of(window);
    place->length =
        (request->data.num_runs == 1) ? request->data.runs[0].length : 0;
}
