#include <config.h>

#include "common/gnuplot.h"
#include "common/error.h"
#include "common/result_file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
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

static void gnuplot_close_pair(const int pair[2])
{
    close(pair[0]);
    close(pair[1]);
}

static _Noreturn void gnuplot_exec(const int script[2], const int picture[2])
{
    if ((dup2(script[0], STDIN_FILENO) >= 0) &&
        (dup2(picture[1], STDOUT_FILENO) >= 0)) {
        /* In other locales it warns that it cannot write a degree sign. */
        execlp("env", "env", "LC_ALL=C.UTF-8", "gnuplot", (char *)NULL);
    }
    _exit(127);
}

int gnuplot_start(gnuplot_t *gnuplot)
{
    int script[2];
    int picture[2];

    signal(SIGPIPE, SIG_IGN);
    if (pipe2(script, O_CLOEXEC) != 0) {
        return -1;
    }
    if (pipe2(picture, O_CLOEXEC) != 0) {
        goto err_close_script;
    }
    gnuplot->script = fdopen(script[1], "w");
    if (gnuplot->script == NULL) {
        goto err_close_picture;
    }
    gnuplot->pid = fork();
    if (gnuplot->pid < 0) {
        fclose(gnuplot->script);
        close(script[0]);
        gnuplot_close_pair(picture);
        return -1;
    }
    if (gnuplot->pid == 0) {
        gnuplot_exec(script, picture);
    }
    gnuplot->picture = picture[0];
    close(script[0]);
    close(picture[1]);
    return 0;

err_close_picture:
    gnuplot_close_pair(picture);
err_close_script:
    gnuplot_close_pair(script);
    return -1;
}

/* Everything that it draws, so that it comes to its end. Returns the number of
 * bytes. */
static size_t gnuplot_copy(const gnuplot_t *gnuplot, FILE *stream)
{
    char    data[4096];
    size_t  length = 0;
    ssize_t got;

    for (;;) {
        got = read(gnuplot->picture, data, sizeof(data));
        if ((got < 0) && (errno == EINTR)) {
            continue;
        }
        if (got <= 0) {
            return length;
        }
        fwrite(data, 1, (size_t)got, stream);
        length += (size_t)got;
    }
}

int gnuplot_finish(gnuplot_t *gnuplot, FILE *stream)
{
    bool   is_whole = fclose(gnuplot->script) == 0;
    size_t length   = gnuplot_copy(gnuplot, stream);
    int    status   = -1;

    close(gnuplot->picture);
    while ((waitpid(gnuplot->pid, &status, 0) < 0) && (errno == EINTR)) {
    }
    return is_whole && (length > 0) && WIFEXITED(status) &&
                   (WEXITSTATUS(status) == 0)
               ? 0
               : -1;
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
