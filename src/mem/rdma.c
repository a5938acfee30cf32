#include "mem/rdma.h"

#include <dirent.h>
#include <stddef.h>

bool mem_has_rdma_device(void)
{
    DIR           *folder = opendir("/sys/class/infiniband");
    struct dirent *entry;
    bool           found = false;

    if (folder == NULL) {
        return false;
    }
    while (!found && ((entry = readdir(folder)) != NULL)) {
        found = entry->d_name[0] != '.';
    }
    closedir(folder);
    return found;
}
