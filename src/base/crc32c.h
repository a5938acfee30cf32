/*
 * CRC32C (Castagnoli, RFC 3720 section 12.1). The functions use the CPU's
 * CRC instructions if a check at run time finds them.
 */
#ifndef BASE_CRC32C_H
#define BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Returns the checksum of `length` more bytes. `crc` is 0 for the first bytes,
 * then the result for the preceding bytes. */
uint32_t base_crc32c(uint32_t crc, const void *data, size_t length);

/* Returns the checksum of a record that stores its own checksum in 4 bytes at
 * `offset`. These bytes are treated as 0. */
uint32_t base_crc32c_of_record(const void *record, size_t length,
                               size_t offset);

#endif
