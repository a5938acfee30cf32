#include "bootstrap/last_word.h"

#include <stdint.h>
#include <sys/socket.h>

void xfer_last_word_say(int fd, xfer_last_word_t word)
{
    uint8_t byte = (uint8_t)word;

    (void)send(fd, &byte, sizeof(byte), MSG_DONTWAIT | MSG_NOSIGNAL);
}
