/*
 * Variables of the environment that are the process's, not a pool's: no keys
 * (base/keys.h). They are named here, and read by the layers above, because
 * whoever reads a configuration warns of names that nobody knows.
 */
#ifndef BASE_VARIABLES_H
#define BASE_VARIABLES_H

/* Libraries and folders to be used in place of those of the system. */
#define BASE_VARIABLE_CUDA_DRIVER   "UCXPOOL_CUDA_DRIVER"
#define BASE_VARIABLE_NVML_LIBRARY  "UCXPOOL_NVML_LIBRARY"
#define BASE_VARIABLE_SYSFS         "UCXPOOL_SYSFS"
#define BASE_VARIABLE_VERBS_LIBRARY "UCXPOOL_VERBS_LIBRARY"

#endif
