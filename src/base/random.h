/*
 * Random numbers for keys, nonces and identifiers, which peers cannot predict.
 */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <ucxpool/status.h>

#include <stddef.h>

/* Fill `bytes`. UCXPOOL_ERR_IO: libcrypto cannot generate random numbers. */
ucxpool_status_t base_random(void *bytes, size_t length);

#endif
