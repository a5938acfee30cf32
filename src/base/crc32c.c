#include "base/crc32c.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

/* The bit-reversed polynomial of RFC 3720. */
#define CRC_POLYNOMIAL 0x82f63b78u

/*
 * CRC instructions of the CPU. HW_TARGET allows a function to use them,
 * hw_u8 and hw_u64 process 1 and 8 bytes, and hw_present checks whether the
 * CPU has them.
 */
#if defined(__x86_64__)

#include <nmmintrin.h>

#define HW_TARGET __attribute__((target("sse4.2")))

HW_TARGET static inline uint32_t hw_u8(uint32_t crc, uint8_t data)
{
    return _mm_crc32_u8(crc, data);
}

HW_TARGET static inline uint32_t hw_u64(uint32_t crc, uint64_t data)
{
    return (uint32_t)_mm_crc32_u64(crc, data);
}

static bool hw_present(void)
{
    return __builtin_cpu_supports("sse4.2");
}

#elif defined(__aarch64__) && defined(__linux__)

#include <asm/hwcap.h>
#include <sys/auxv.h>

#if defined(__clang__)
#define HW_TARGET __attribute__((target("crc")))
#else
#define HW_TARGET __attribute__((target("+crc")))
#endif

HW_TARGET static inline uint32_t hw_u8(uint32_t crc, uint8_t data)
{
    uint32_t result;

    __asm__("crc32cb %w0, %w1, %w2" : "=r"(result) : "r"(crc), "r"(data));
    return result;
}

HW_TARGET static inline uint32_t hw_u64(uint32_t crc, uint64_t data)
{
    uint32_t result;

    __asm__("crc32cx %w0, %w1, %x2" : "=r"(result) : "r"(crc), "r"(data));
    return result;
}

static bool hw_present(void)
{
    return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
}

#else

#define HW_TARGET

static inline uint32_t hw_u8(uint32_t crc, uint8_t data)
{
    return crc ^ data;
}

static inline uint32_t hw_u64(uint32_t crc, uint64_t data)
{
    return crc ^ (uint32_t)data;
}

static bool hw_present(void)
{
    return false;
}

#endif

/*
 * The CRC instruction has a latency of three cycles and a throughput of one per
 * cycle, so three parts of the data are processed in parallel:
 *
 *     | lane 0 | lane 1 | lane 2 |        HW_LANE bytes each
 *
 * crc(lanes 0 and 1) = shift(crc(lane 0)) ^ crc(lane 1), where shift is the
 * effect of HW_LANE zero bytes on a checksum. shift is linear, so four table
 * lookups compute it.
 */
#define HW_LANE 1024

typedef uint32_t (*crc_function_t)(uint32_t crc, const uint8_t *data,
                                   size_t length);

static uint32_t       hw_shift_table[4][256];
static uint32_t       crc_table[256];
static crc_function_t crc_function;
static pthread_once_t crc_once = PTHREAD_ONCE_INIT;

static inline uint64_t crc_load(const uint8_t *data)
{
    uint64_t word;

    memcpy(&word, data, sizeof(word));
    return word;
}

static inline uint32_t hw_shift(uint32_t crc)
{
    return hw_shift_table[0][crc & 0xff] ^ hw_shift_table[1][crc >> 8 & 0xff] ^
           hw_shift_table[2][crc >> 16 & 0xff] ^ hw_shift_table[3][crc >> 24];
}

HW_TARGET static uint32_t crc_hw_lanes(uint32_t crc, const uint8_t *data)
{
    uint32_t crc1 = 0, crc2 = 0;

    for (size_t i = 0; i < HW_LANE; i += sizeof(uint64_t)) {
        crc  = hw_u64(crc, crc_load(data + i));
        crc1 = hw_u64(crc1, crc_load(data + HW_LANE + i));
        crc2 = hw_u64(crc2, crc_load(data + 2 * HW_LANE + i));
    }
    return hw_shift(hw_shift(crc) ^ crc1) ^ crc2;
}

HW_TARGET static uint32_t crc_hw(uint32_t crc, const uint8_t *data,
                                 size_t length)
{
    for (; length >= 3 * HW_LANE; length -= 3 * HW_LANE) {
        crc = crc_hw_lanes(crc, data);
        data += 3 * HW_LANE;
    }
    for (; length >= sizeof(uint64_t); length -= sizeof(uint64_t)) {
        crc = hw_u64(crc, crc_load(data));
        data += sizeof(uint64_t);
    }
    for (; length > 0; length--) {
        crc = hw_u8(crc, *data++);
    }
    return crc;
}

/* Build the tables. shift is linear, so its results for single bits are
 * enough. */
HW_TARGET static void crc_hw_init(void)
{
    uint32_t bit;

    for (unsigned i = 0; i < 32; i++) {
        bit = (uint32_t)1 << i;
        for (size_t j = 0; j < HW_LANE; j += sizeof(uint64_t)) {
            bit = hw_u64(bit, 0);
        }
        for (unsigned value = 0; value < 256; value++) {
            if ((value >> (i % 8) & 1) != 0) {
                hw_shift_table[i / 8][value] ^= bit;
            }
        }
    }
}

/* Fill the table with the checksum of each byte. */
static void crc_table_init(void)
{
    uint32_t crc;

    for (uint32_t byte = 0; byte < 256; byte++) {
        crc = byte;
        for (unsigned bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ ((crc & 1) != 0 ? CRC_POLYNOMIAL : 0);
        }
        crc_table[byte] = crc;
    }
}

static uint32_t crc_by_table(uint32_t crc, const uint8_t *data, size_t length)
{
    for (; length > 0; length--) {
        crc = crc >> 8 ^ crc_table[(crc ^ *data++) & 0xff];
    }
    return crc;
}

static void crc_choose(void)
{
    if (hw_present()) {
        crc_hw_init();
        crc_function = crc_hw;
    } else {
        crc_table_init();
        crc_function = crc_by_table;
    }
}

uint32_t base_crc32c(uint32_t crc, const void *data, size_t length)
{
    pthread_once(&crc_once, crc_choose);
    return ~crc_function(~crc, data, length);
}

uint32_t base_crc32c_of_record(const void *record, size_t length, size_t offset)
{
    static const uint8_t zeros[sizeof(uint32_t)];
    const uint8_t       *bytes = record;
    const size_t         rest  = offset + sizeof(zeros);
    uint32_t             crc   = base_crc32c(0, bytes, offset);

    crc = base_crc32c(crc, zeros, sizeof(zeros));
    return base_crc32c(crc, bytes + rest, length - rest);
}
