#include <config.h>

#include "tools/shuffle/input.h"
#include "tools/shuffle/error.h"
#include "tools/shuffle/csv.h"
#include "tools/shuffle/field.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file that tells no size is empty, or one of /proc. */
static int input_file_check_size(const char *path, int fd,
                                 const struct stat *status)
{
    char    byte;
    ssize_t got;

    if (!S_ISREG(status->st_mode) || (status->st_size != 0)) {
        return 0;
    }
    got = read(fd, &byte, sizeof(byte));
    if (got < 0) {
        return say_error("cannot read input file '%s': %s", path,
                         strerror(errno));
    }
    return got == 0 ? 0
                    : say_error("'%s' does not tell its size, as files of "
                                "/proc: save its contents to a file first",
                                path);
}

static int input_file_check(const char *path, struct stat *status_p)
{
    /* Without O_NONBLOCK, opening a pipe that nobody writes would hang. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int result;

    if (fd < 0) {
        return say_error("cannot open input file '%s': %s", path,
                         strerror(errno));
    }
    if (fstat(fd, status_p) != 0) {
        close(fd);
        return say_error("cannot stat input file '%s': %s", path,
                         strerror(errno));
    }
    result = input_file_check_size(path, fd, status_p);
    close(fd);
    if (S_ISDIR(status_p->st_mode)) {
        return say_error("'%s' is a directory: name the files in it", path);
    }
    if (!S_ISREG(status_p->st_mode)) {
        return say_error("'%s' is not a regular file: several workers read it "
                         "at once, so save its contents to a file first",
                         path);
    }
    return result;
}

static int input_file_init(input_file_t *file, const char *path, int delimiter)
{
    struct stat status;

    if (input_file_check(path, &status) != 0) {
        return -1;
    }
    file->path = path;
    file->size = (uint64_t)status.st_size;
    file->delimiter =
        delimiter != FIELD_UNKNOWN ? delimiter : field_delimiter_guess(path);
    if (file->delimiter == FIELD_UNKNOWN) {
        return say_error("the suffix of '%s' does not tell what parts its "
                         "fields: give -d with one character, 'tab', 'blank' "
                         "or 'csv'",
                         path);
    }
    return 0;
}

int inputs_init(inputs_t *inputs, char *const *paths, size_t num_paths,
                int delimiter)
{
    memset(inputs, 0, sizeof(*inputs));
    inputs->num_files = num_paths;
    inputs->files     = calloc(num_paths, sizeof(*inputs->files));
    if (inputs->files == NULL) {
        return say_error("out of memory for the names of %zu files", num_paths);
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
    free(inputs->header);
    inputs->header    = NULL;
    inputs->files     = NULL;
    inputs->num_files = 0;
}

uint64_t inputs_begin(const inputs_t *inputs, unsigned worker,
                      unsigned num_workers)
{
    return (uint64_t)((unsigned __int128)inputs->size * worker / num_workers);
}

/* Append one more line of a stream. Returns -1 where there is none. */
static int input_append_line(FILE *stream, char **text, size_t *length)
{
    char   *line = NULL;
    size_t  size = 0;
    ssize_t got  = getline(&line, &size, stream);
    char   *longer;

    /* Room for the newline that the last line may lack. */
    longer = got > 0 ? realloc(*text, *length + (size_t)got + 1) : NULL;
    if (longer != NULL) {
        memcpy(longer + *length, line, (size_t)got);
        *text = longer;
        *length += (size_t)got;
    }
    free(line);
    return longer != NULL ? 0 : -1;
}

/* The first record of a file, to be released by free(); with a newline, which
 * it may lack in the file. NULL with an error. */
static char *input_read_header(const input_file_t *file, size_t *length_p)
{
    FILE       *stream = fopen(file->path, "re");
    char       *text   = NULL;
    size_t      length = 0;
    csv_state_t state  = CSV_START;
    size_t      before;

    do {
        before = length;
        if ((stream == NULL) ||
            (input_append_line(stream, &text, &length) != 0)) {
            say_error("cannot read the header of '%s': %s", file->path,
                      before > 0 ? "a quote is not closed" : strerror(errno));
            free(text);
            text = NULL;
            break;
        }
        state = csv_scan(state, text + before, length - before);
    } while ((file->delimiter == FIELD_CSV) && (state == CSV_QUOTED));
    if (stream != NULL) {
        fclose(stream);
    }
    if ((text != NULL) && (text[length - 1] != '\n')) {
        text[length++] = '\n';
    }
    *length_p = length;
    return text;
}

static int input_take_header(inputs_t *inputs, input_file_t *file)
{
    size_t length;
    char  *line = input_read_header(file, &length);
    bool   is_same;

    if (line == NULL) {
        return -1;
    }
    file->header = length < file->size ? length : file->size;
    if (inputs->header == NULL) {
        inputs->header        = line;
        inputs->header_length = length;
        return 0;
    }
    is_same = (length == inputs->header_length) &&
              (memcmp(line, inputs->header, length) == 0);
    free(line);
    return is_same ? 0
                   : say_error("the header of '%s' is not that of the files "
                               "before: with --header all must have the same",
                               file->path);
}

int inputs_take_header(inputs_t *inputs)
{
    for (size_t i = 0; i < inputs->num_files; i++) {
        if ((inputs->files[i].size > 0) &&
            (input_take_header(inputs, &inputs->files[i]) != 0)) {
            return -1;
        }
    }
    return 0;
}
