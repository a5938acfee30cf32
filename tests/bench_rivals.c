#include "bench_rivals.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool                    is_quick;
const allocator_kind_t *rivals[RIVALS_MAX];
unsigned                num_rivals;
device_t                device;

static plugin_t plugins[PLUGIN_MAX];
static trace_t *trace; /* for its streams */

void check(bool is_well)
{
    if (!is_well) {
        exit(EXIT_FAILURE);
    }
}

allocator_t *make(const allocator_kind_t *kind, uint64_t capacity)
{
    allocator_t *made = allocator_create(kind, &device, capacity);

    check(made != NULL);
    return made;
}

void *take(allocator_t *from, size_t size, void *stream)
{
    void              *address = NULL;
    allocator_answer_t answer = from->kind->alloc(from, size, stream, &address);

    check(answer != ALLOCATOR_BROKEN);
    return answer == ALLOCATOR_OK ? address : NULL;
}

void give(allocator_t *to, void *address, size_t size, void *stream)
{
    check(to->kind->free(to, address, size, stream) == ALLOCATOR_OK);
}

void print_head(const char *first)
{
    printf("\n| %s |", first);
    for (unsigned k = 0; k < num_rivals; k++) {
        printf(" %s |", rivals[k]->name);
    }
    printf("\n|---|");
    for (unsigned k = 0; k < num_rivals; k++) {
        printf("---|");
    }
    printf("\n");
}

void print_row(const char *first, const cell_t *cells)
{
    printf("| %s |", first);
    for (unsigned k = 0; k < num_rivals; k++) {
        printf(" %s |", cells[k]);
    }
    printf("\n");
    fflush(stdout);
}

const char *in_words(uint64_t ns, cell_t text)
{
    if (ns < 1000) {
        snprintf(text, CELL_SIZE, "%u ns", (unsigned)ns);
    } else if (ns < 1000000) {
        snprintf(text, CELL_SIZE, "%.2f us", (double)ns / 1e3);
    } else {
        snprintf(text, CELL_SIZE, "%.2f ms", (double)ns / 1e6);
    }
    return text;
}

static void parse(int argc, char **argv)
{
    rivals[num_rivals++] = &allocator_heap;
    rivals[num_rivals++] = &allocator_async;
    for (int i = 1; i < argc; i++) {
        plugin_t *plugin = &plugins[num_rivals - 2];

        if (strcmp(argv[i], "--quick") == 0) {
            is_quick = true;
            continue;
        }
        if ((argv[i][0] == '-') || (num_rivals == RIVALS_MAX) ||
            (plugin_name(plugin, argv[i]) != 0)) {
            fputs("usage: bench_heap_cuda [--quick] [[NAME=]PLUGIN.so]...\n",
                  stderr);
            exit(2);
        }
        check(plugin_load(plugin) == 0);
        rivals[num_rivals++] = &plugin->kind;
    }
}

void rivals_open(int argc, char **argv)
{
    parse(argc, argv);
    trace = trace_create("streams");
    for (uint64_t i = 1; i <= 8; i++) {
        trace_stream(trace, i << 8);
    }
    check(device_open(&device, 0, trace) == 0);
}

void rivals_close(void)
{
    device_close(&device);
    trace_destroy(trace);
}
