/* No launcher: this build has no PMIx. */
#include <config.h>

#include "tools/shuffle/error.h"
#include "tools/shuffle/launcher.h"

#include <stdlib.h>

bool launcher_is_present(void)
{
    return (getenv("PMIX_RANK") != NULL) || (getenv("PMI_RANK") != NULL);
}

int launcher_init(launcher_t *launcher)
{
    return say_error("started by a launcher, but built without PMIx: install "
                     "libpmix-dev and build again, or start it on one host "
                     "with -w");
}

int launcher_share(launcher_t *launcher, char *text, size_t size)
{
    return say_error("built without PMIx");
}

int launcher_show(launcher_t *launcher, const void *card, size_t length)
{
    return say_error("built without PMIx");
}

int launcher_look(launcher_t *launcher, unsigned rank, void **card_p,
                  size_t *length_p)
{
    return say_error("built without PMIx");
}

void launcher_abort(const launcher_t *launcher, int status)
{
}

void launcher_delay_exit(const launcher_t *launcher)
{
}

void launcher_await(const launcher_t *launcher)
{
}

void launcher_cleanup(launcher_t *launcher)
{
}
