/*
 * The wires that exist. core/wire.h describes their functions.
 */
#ifndef WIRE_WIRES_H
#define WIRE_WIRES_H

#include "core/wire.h"

/* wire_map_gpu: the `map` wire between GPUs. */
extern const core_wire_t wire_map, wire_map_gpu, wire_ucx;

#endif
