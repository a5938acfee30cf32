/*
 * The copy kernel as PTX text, for cuModuleLoadData(). The driver compiles it
 * for the device at hand.
 */
#ifndef COPY_KERNEL_H
#define COPY_KERNEL_H

#define COPY_KERNEL_NAME "ucxpool_copy"

extern const char copy_kernel_ptx[];

#endif
