#include "replay/help.h"

#include <ucxpool/version.h>

#include <stdio.h>

static const char help_text[] =
    "usage: ucxpool_replay [options] LOG.csv\n"
    "       ucxpool_replay [options] -w WORKLOAD\n"
    "\n"
    "Play a log of allocations, as RMM and UCXPOOL_HEAP_LOG write them, or a\n"
    "workload, against the pool's heap and other allocators; tell how long\n"
    "calls take and how much memory is held.\n"
    "\n"
    "  -w, --workload NAME   make the calls instead (--list tells which)\n"
    "  -a, --allocators LIST of heap,cuda,async,bestfit and plugins\n"
    "                        (default: all that the device can have)\n"
    "  -p, --plugin [NAME=]FILE.so\n"
    "                        an allocator of your own, called plugin or NAME;\n"
    "                        again for more\n"
    "  -d, --device host|cuda[:N]\n"
    "                        memory of the host (default) or of GPU N\n"
    "  -c, --capacity SIZE   an allocator may have so much, as 512m, 8g\n"
    "  -m, --min-capacity    find the smallest capacity that suffices\n"
    "      --step PERCENT    of the peak of live bytes: the steps of that\n"
    "                        (default: 1)\n"
    "      --reserve SIZE    the heap takes so much before the first run, or\n"
    "                        N% of what is free\n"
    "  -s, --scale 1/N       divide all sizes by N\n"
    "  -r, --rounds NUM      play NUM times, each timed as a whole (default:\n"
    "                        3)\n"
    "  -t, --threads         play each thread of the log in one of its own\n"
    "      --mark            once more, writing and reading the memory: see\n"
    "                        that no two allocations share any\n"
    "      --write FILE      write the calls as a log, and end\n"
    "      --json[=FILE], --csv[=FILE]\n"
    "                        for programs: to a file, or instead of the text\n"
    "      --picture FILE.svg\n"
    "                        draw what is live and held over time (or .png;\n"
    "                        needs gnuplot)\n"
    "      --list            print workloads and allocators, and end\n"
    "  -h, --help            print this, and end\n"
    "  -V, --version         print the version, and end\n"
    "\n"
    "LOG.csv may be -: the standard input. UCXPOOL_ variables apply to the\n"
    "heap. Exit code: 0 done, 1 something broke, 2 wrong usage. Allocations\n"
    "that fail are a result.\n";

void help_print(void)
{
    fputs(help_text, stdout);
}

void help_print_version(void)
{
    printf("ucxpool_replay (libucxpool) %s\n", ucxpool_version_string());
}
