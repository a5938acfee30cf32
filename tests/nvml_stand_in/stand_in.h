/*
 * A stand-in for NVIDIA's management library.
 *
 * The variable NVML_STAND_IN configures it. It is read at every call:
 *
 *     bar1=268435456,used=4096,driver=580.1,fail=nvmlInit_v2:9
 *
 * bar1    BAR1 size of every GPU in bytes (268435456); 0: none
 * used    BAR1 bytes in use (4096)
 * driver  driver version (580.1)
 * fail    a function, by its symbol, and the result of all its calls
 *
 * GPUs are devices whose bus id begins with "0000:".
 */
#ifndef NVML_STAND_IN_STAND_IN_H
#define NVML_STAND_IN_STAND_IN_H

#ifdef __cplusplus
extern "C" {
#endif

/* Number of initializations without a matching shutdown. */
int nvml_stand_in_live(void);

#ifdef __cplusplus
}
#endif

#endif
