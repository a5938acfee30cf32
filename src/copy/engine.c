#include <config.h>

#include "copy/engine.h"

void copy_engine_destroy(copy_engine_t *engine)
{
    if (engine != NULL) {
        engine->calls->destroy(engine);
    }
}

void copy_engine_enter(copy_engine_t *engine)
{
    if ((engine != NULL) && (engine->calls->enter != NULL)) {
        engine->calls->enter(engine);
    }
}

void copy_engine_leave(copy_engine_t *engine)
{
    if ((engine != NULL) && (engine->calls->leave != NULL)) {
        engine->calls->leave(engine);
    }
}

void copy_engine_wait(const copy_engine_t *engine)
{
    if (engine->calls->wait != NULL) {
        engine->calls->wait(engine);
    }
}

uint64_t copy_engine_deadline(const copy_engine_t *engine)
{
    return engine->calls->deadline(engine);
}

ucxpool_status_t copy_engine_start(copy_engine_t *engine, copy_job_t *copy,
                                   const copy_work_t *work, uint64_t *covered_p)
{
    return engine->calls->start(engine, copy, work, covered_p);
}

ucxpool_status_t copy_engine_pairs_get(copy_engine_t *engine, copy_job_t *copy,
                                       copy_room_t *room_p)
{
    return engine->calls->pairs_get(engine, copy, room_p);
}

ucxpool_status_t copy_engine_pairs_start(copy_engine_t      *engine,
                                         copy_job_t         *copy,
                                         const copy_table_t *list,
                                         uint64_t size, bool is_to_other)
{
    return engine->calls->pairs_start(engine, copy, list, size, is_to_other);
}

ucxpool_status_t copy_engine_clear_flags(copy_engine_t *engine, void *first,
                                         size_t stride, unsigned num)
{
    return engine->calls->clear_flags(engine, first, stride, num);
}

unsigned copy_engine_progress(copy_engine_t *engine)
{
    return engine->calls->progress(engine);
}

ucxpool_status_t copy_engine_memtypes(const copy_engine_t *engine,
                                      const copy_memory_t *memory,
                                      unsigned            *memtypes_p)
{
    return engine->calls->memtypes(engine, memory, memtypes_p);
}

bool copy_engine_is_even(const copy_engine_t *engine,
                         const copy_memory_t *memory, bool is_declared)
{
    return engine->calls->is_even(engine, memory, is_declared);
}

bool copy_engine_takes_even(const copy_engine_t *engine,
                            const copy_memory_t *memory)
{
    return engine->calls->takes_even(engine, memory);
}

bool copy_engine_reaches_array(const copy_engine_t *engine, const void *array,
                               size_t num, size_t size)
{
    return engine->calls->reaches_array(engine, array, num, size);
}

bool copy_engine_reaches_list(const copy_engine_t *engine,
                              const copy_memory_t *memory)
{
    if (!copy_memory_is_even(memory)) {
        return false;
    }
    return copy_memory_is_pieces(memory)
               ? copy_engine_reaches_array(engine, memory->addresses,
                                           memory->num, sizeof(void *))
               : copy_engine_reaches_array(engine, memory->segments,
                                           memory->num,
                                           sizeof(ucxpool_segment_t));
}

bool copy_engine_shares_device(const copy_engine_t *engine, const void *uuid)
{
    return engine->calls->shares_device(engine, uuid);
}
