/*
 * The wires there are; what a wire can, core/wire.h says.
 */
#ifndef WIRE_WIRES_H
#define WIRE_WIRES_H

#include "core/wire.h"

extern const core_wire_t wire_map;
extern const core_wire_t wire_ucx;

#endif
