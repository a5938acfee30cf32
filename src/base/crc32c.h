/*
 * CRC32C (Castagnoli, RFC 3720 section 12.1), by the processor's instruction
 * where there is one, chosen at run time.
 */
#ifndef BASE_CRC32C_H
#define BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* crc is 0 to begin with, or the result for the bytes before. */
uint32_t base_crc32c(uint32_t crc, const void *data, size_t length);

/* Of a record that holds its own checksum, 4 bytes at the offset, which count
 * as 0. */
uint32_t base_crc32c_of_record(const void *record, size_t length,
                               size_t offset);

/* Which implementation runs: "sse4.2", "armv8" or "table". */
const char *base_crc32c_name(void);

#endif
