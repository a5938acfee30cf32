#include <config.h>

#include "common/gnuplot.h"
#include "common/error.h"
#include "common/result_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int gnuplot_check(const char *option)
{
    if (system("gnuplot --version >/dev/null 2>&1") != 0) {
        return tool_error("%s needs gnuplot, which is not on PATH: install it "
                          "(Debian: gnuplot-nox), or leave %s out",
                          option, option);
    }
    return 0;
}

FILE *gnuplot_begin(void)
{
    /* gnuplot inherits this descriptor. */
    int   fd     = memfd_create("gnuplot", 0);
    FILE *script = fd >= 0 ? fdopen(fd, "w") : NULL;

    if (script == NULL) {
        tool_error("no memory for gnuplot's script: %s", strerror(errno));
        if (fd >= 0) {
            close(fd);
        }
    }
    return script;
}

/* Copy the picture to a stream. Returns the number of bytes. */
static size_t gnuplot_copy(FILE *picture, FILE *stream)
{
    char   data[4096];
    size_t length = 0;
    size_t got;

    while ((got = fread(data, 1, sizeof(data), picture)) > 0) {
        fwrite(data, 1, got, stream);
        length += got;
    }
    return length;
}

static int gnuplot_run(FILE *script, const char *path, FILE *stream)
{
    char   command[64];
    FILE  *picture;
    size_t length;

    if ((fflush(script) != 0) || ferror(script)) {
        return tool_error("gnuplot's script cannot be written: %s",
                          strerror(errno));
    }
    /* In other locales gnuplot warns that it cannot write a degree sign. */
    snprintf(command, sizeof(command),
             "LC_ALL=C.UTF-8 exec gnuplot </dev/fd/%d", fileno(script));
    picture = popen(command, "re");
    if (picture == NULL) {
        return tool_error("gnuplot does not start: %s", strerror(errno));
    }
    length = gnuplot_copy(picture, stream);
    return (pclose(picture) == 0) && (length > 0)
               ? 0
               : tool_error("gnuplot could not draw for %s: its own message "
                            "says why",
                            path);
}

int gnuplot_end(FILE *script, const char *path, FILE *stream)
{
    int code = gnuplot_run(script, path, stream);

    fclose(script);
    return code;
}

void gnuplot_terminal(const char *path, unsigned width, unsigned height,
                      FILE *script)
{
    fprintf(script,
            "set terminal %s size %u,%u font \"sans-serif,12\" background "
            "\"white\"\n",
            result_name_ends(path, ".png") ? "png" : "svg", width, height);
}

void gnuplot_quote(const char *text, FILE *script)
{
    fputc('\'', script);
    for (; *text != '\0'; text++) {
        fputc(*text, script);
        if (*text == '\'') {
            fputc('\'', script);
        }
    }
    fputc('\'', script);
}
