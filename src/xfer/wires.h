/*
 * The wires there are; what a wire can, core/wire.h says.
 */
#ifndef XFER_WIRES_H
#define XFER_WIRES_H

#include "core/wire.h"

extern const core_wire_t xfer_wire_map;
extern const core_wire_t xfer_wire_ucx;

#endif
