/*
 * Packed remote keys of UCX: which memory domains have registered the memory.
 *
 * A key goes to peers with another UCX, so its beginning is a format of the
 * wire; UCX 1.13 to 1.22 write it the same way:
 *
 *     8 bytes   a bit for each memory domain of the context that has it
 *     1 byte    type of the memory
 *     for each bit, from the lowest: 1 byte length, the domain's own key
 *     what may follow (from 1.20 on, where the memory lies)
 */
#ifndef UCX_KEY_H
#define UCX_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Bit i of *domains_p: domain i of the context has registered the memory. False
 * when the bytes are not such a key.
 *
 * num_domains  That the context has.
 */
bool ucx_key_read(const void *key, size_t size, unsigned num_domains,
                  uint64_t *domains_p);

#endif
