/*
 * A stand-in for NVIDIA's management library.
 *
 * The variable NVML_STAND_IN configures it, read at every call:
 *
 *     bar1=268435456,used=4096,driver=580.1,fail=nvmlInit_v2:9
 *
 * bar1    bytes of the window of every GPU (268435456); 0: none
 * used    of these (4096)
 * driver  its version (580.1)
 * links   active NVLinks of every GPU (0)
 * fail    a function, by its symbol, and what all its calls give
 *
 * GPUs are those whose bus id begins with "0000:".
 */
#ifndef NVML_STAND_IN_STAND_IN_H
#define NVML_STAND_IN_STAND_IN_H

#ifdef __cplusplus
extern "C" {
#endif

/* How often it was started and not shut down again. */
int nvml_stand_in_live(void);

#ifdef __cplusplus
}
#endif

#endif
