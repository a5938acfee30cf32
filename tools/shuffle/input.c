#include <config.h>

#include "tools/shuffle/input.h"
#include "tools/shuffle/complaint.h"
#include "tools/shuffle/field.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int input_file_check(const char *path, struct stat *status_p)
{
    /* Without O_NONBLOCK, opening a pipe that nobody writes would hang. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0) {
        return complain("cannot open input file '%s': %s", path,
                        strerror(errno));
    }
    if (fstat(fd, status_p) != 0) {
        close(fd);
        return complain("cannot stat input file '%s': %s", path,
                        strerror(errno));
    }
    close(fd);
    if (S_ISDIR(status_p->st_mode)) {
        return complain("'%s' is a directory: name the files in it", path);
    }
    if (!S_ISREG(status_p->st_mode)) {
        return complain("'%s' is not a regular file: several workers read it "
                        "at once, so save its contents to a file first",
                        path);
    }
    return 0;
}

static int input_file_init(input_file_t *file, const char *path, int delimiter)
{
    struct stat status;

    if (input_file_check(path, &status) != 0) {
        return -1;
    }
    file->path      = path;
    file->size      = (uint64_t)status.st_size;
    file->delimiter = delimiter != FIELD_UNKNOWN ? delimiter :
                                                   field_delimiter_guess(path);
    if (file->delimiter == FIELD_UNKNOWN) {
        return complain("the suffix of '%s' does not tell what parts its "
                        "fields: give -d with one character, 'tab' or 'blank'",
                        path);
    }
    return 0;
}

int inputs_init(inputs_t *inputs, char *const *paths, size_t num_paths,
                int delimiter)
{
    inputs->size      = 0;
    inputs->num_files = num_paths;
    inputs->files     = calloc(num_paths, sizeof(*inputs->files));
    if (inputs->files == NULL) {
        return complain("out of memory for the names of %zu files", num_paths);
    }
    for (size_t i = 0; i < num_paths; i++) {
        if (input_file_init(&inputs->files[i], paths[i], delimiter) != 0) {
            inputs_cleanup(inputs);
            return -1;
        }
        inputs->files[i].start = inputs->size;
        inputs->size += inputs->files[i].size;
    }
    return 0;
}

void inputs_cleanup(inputs_t *inputs)
{
    free(inputs->files);
    inputs->files     = NULL;
    inputs->num_files = 0;
}

uint64_t inputs_begin(const inputs_t *inputs, unsigned worker,
                      unsigned num_workers)
{
    return (uint64_t)((unsigned __int128)inputs->size * worker / num_workers);
}
