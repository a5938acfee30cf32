#include "caught.h"

#include <check.h>
#include <stdio.h>
#include <unistd.h>

/* While a test runs, stderr is redirected to a file. */
static FILE *caught;
static int   stderr_fd;
static char  text[4096];

void caught_begin(void)
{
    caught    = tmpfile();
    stderr_fd = dup(STDERR_FILENO);
    ck_assert_ptr_nonnull(caught);
    ck_assert_int_ge(dup2(fileno(caught), STDERR_FILENO), 0);
}

void caught_end(void)
{
    dup2(stderr_fd, STDERR_FILENO);
    close(stderr_fd);
    fclose(caught);
}

const char *caught_text(void)
{
    size_t length;

    rewind(caught);
    length       = fread(text, 1, sizeof(text) - 1, caught);
    text[length] = '\0';
    return text;
}
