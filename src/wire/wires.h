/*
 * The wires there are; what a wire can, core/wire.h says.
 */
#ifndef WIRE_WIRES_H
#define WIRE_WIRES_H

#include "core/wire.h"

/* wire_map_gpu: between GPUs. */
extern const core_wire_t wire_map, wire_map_gpu, wire_ucx;

#endif
