#include <config.h>

#include "tools/shuffle/options.h"
#include "tools/shuffle/error.h"
#include "tools/shuffle/input.h"
#include "tools/shuffle/output.h"

#include <ucxpool/version.h>

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPTIONS_MAX_WORKERS 256u
#define OPTIONS_MAX_FIELD   1000000u
#define OPTIONS_MAX_GPU     1023u

enum {
    OPTION_JSON = 256,
    OPTION_HEADER,
    OPTION_MEMCPY,
    OPTION_DEVICE,
    OPTION_DEVICE_MEMORY
};

static const struct option options_long[] = {
    {"workers", required_argument, NULL, 'w'},
    {"partitions", required_argument, NULL, 'p'},
    {"delimiter", required_argument, NULL, 'd'},
    {"field", required_argument, NULL, 'k'},
    {"output", required_argument, NULL, 'o'},
    {"device", required_argument, NULL, OPTION_DEVICE},
    {"device-memory", required_argument, NULL, OPTION_DEVICE_MEMORY},
    {"header", no_argument, NULL, OPTION_HEADER},
    {"json", no_argument, NULL, OPTION_JSON},
    {"memcpy", no_argument, NULL, OPTION_MEMCPY},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {NULL, 0, NULL, 0},
};

static const char options_help[] =
    "usage: ucxpool_shuffle [-w WORKERS] [-p PARTITIONS] [-d DELIMITER]\n"
    "                       [-k FIELD] [--device=cuda[:N]]\n"
    "                       [--header] [--json] -o DIR FILE...\n"
    "\n"
    "Partition the records (lines) of files by a key field. Workers exchange\n"
    "the records through libucxpool; records with equal keys end in the same\n"
    "file DIR/part-NNNNN.\n"
    "\n"
    "  -w, --workers=N      worker processes (default: one per processor)\n"
    "  -p, --partitions=N   partitions (default: as many as workers)\n"
    "  -d, --delimiter=C    what parts the fields: one character, 'tab',\n"
    "                       'blank' for runs of blanks, 'csv' for commas and\n"
    "                       quoted fields (default: by suffix:\n"
    "                       .tbl '|', .csv csv, .tsv .tab tab,\n"
    "                       .passwd .group ':', .txt .log blank)\n"
    "  -k, --field=N        number of the key field, from 1 (default: 1)\n"
    "  -o, --output=DIR     output folder, empty or to be created\n"
    "      --device=cuda    hold the partitions in GPU memory, exchanged from\n"
    "                       GPU to GPU; the workers take the GPUs in turn\n"
    "                       (cuda:N: all take GPU N, counted from 0)\n"
    "      --device-memory=SIZE  hold at most SIZE per worker (default: its\n"
    "                       share of half of what is free)\n"
    "      --header         the first line of each file is a header: no\n"
    "                       record, but the first line of each output\n"
    "      --json           print the summary as JSON\n"
    "      --memcpy         also time a plain copy of the bytes transferred\n"
    "  -h, --help           print this help\n"
    "  -V, --version        print the version\n"
    "\n"
    "Under mpirun or srun (PMIx) each process is one worker, and -w is not\n"
    "given. Settings of the pool: UCXPOOL_*, see ucxpool_info -c.\n"
    "Exit status: 0 done, 1 failed, 2 wrong usage.\n";

/* A number from 1 to `most`. */
static int options_number(const char *name, const char *text, unsigned most,
                          unsigned *number_p)
{
    char         *end;
    unsigned long number;

    errno  = 0;
    number = strtoul(text, &end, 10);
    if ((text[0] < '0') || (text[0] > '9') || (*end != '\0') || (errno != 0) ||
        (number < 1) || (number > most)) {
        return say_error("%s '%s': must be a number from 1 to %u", name, text,
                         most);
    }
    *number_p = (unsigned)number;
    return 0;
}

static int options_delimiter(options_t *options, const char *text)
{
    options->delimiter = field_delimiter_parse(text);
    if (options->delimiter == FIELD_UNKNOWN) {
        return say_error("-d '%s': must be one character, 'tab', 'blank' or "
                         "'csv'",
                         text);
    }
    return 0;
}

/* cuda, or cuda:N. */
static int options_device(options_t *options, const char *text)
{
    char         *end    = NULL;
    unsigned long number = 0;

    options->on_gpu = true;
    options->gpu    = -1;
    if (strcmp(text, "cuda") == 0) {
        return 0;
    }
    if (strncmp(text, "cuda:", 5) == 0) {
        errno  = 0;
        number = strtoul(text + 5, &end, 10);
    }
    if ((end == NULL) || (text[5] < '0') || (text[5] > '9') || (*end != '\0') ||
        (errno != 0) || (number > OPTIONS_MAX_GPU)) {
        return say_error("--device '%s': must be cuda, or cuda:N with a number "
                         "from 0 to %u",
                         text, OPTIONS_MAX_GPU);
    }
    options->gpu = (int)number;
    return 0;
}

/* Bytes, with k, m or g behind the number. */
static int options_size(const char *name, const char *text, size_t *size_p)
{
    static const char  units[] = "kmg";
    char              *end;
    const char        *unit;
    unsigned           shift = 0;
    unsigned long long number;

    errno  = 0;
    number = strtoull(text, &end, 10);
    unit   = *end != '\0' ? strchr(units, *end) : NULL;
    if (unit != NULL) {
        shift = 10 * (unsigned)(unit - units + 1);
        end++;
    }
    if ((text[0] < '0') || (text[0] > '9') || (*end != '\0') || (errno != 0) ||
        (number == 0) || (number > SIZE_MAX >> shift)) {
        return say_error("%s '%s': must be a size, as 512m or 4g", name, text);
    }
    *size_p = (size_t)number << shift;
    return 0;
}

/* One option. Returns -1 with an error. */
static int options_take(options_t *options, int option, char **argv)
{
    switch (option) {
    case 'w':
        return options_number("-w", optarg, OPTIONS_MAX_WORKERS,
                              &options->num_workers);
    case 'p':
        return options_number("-p", optarg, OUTPUT_MAX_PARTITIONS,
                              &options->num_partitions);
    case 'k':
        return options_number("-k", optarg, OPTIONS_MAX_FIELD, &options->field);
    case 'd':
        return options_delimiter(options, optarg);
    case 'o':
        options->folder = optarg;
        return 0;
    case OPTION_DEVICE:
        return options_device(options, optarg);
    case OPTION_DEVICE_MEMORY:
        return options_size("--device-memory", optarg, &options->gpu_memory);
    case OPTION_HEADER:
        options->has_header = true;
        return 0;
    case OPTION_JSON:
        options->json = true;
        return 0;
    case OPTION_MEMCPY:
        options->compare_memcpy = true;
        return 0;
    case ':':
        return say_error("option '%s' needs a value", argv[optind - 1]);
    default:
        return say_error("option '%s' is unknown or takes no value",
                         argv[optind - 1]);
    }
}

static int options_check(const options_t *options)
{
    if ((options->folder == NULL) || (options->folder[0] == '\0')) {
        return say_error("name an output folder with -o");
    }
    if ((options->gpu_memory != 0) && !options->on_gpu) {
        return say_error("--device-memory is for use with --device=cuda");
    }
    if (options->num_files == 0) {
        return say_error("name at least one input file");
    }
    return 0;
}

options_outcome_t options_parse(options_t *options, int argc, char **argv)
{
    int option;

    memset(options, 0, sizeof(*options));
    options->delimiter = FIELD_UNKNOWN;
    options->field     = 1;
    while ((option = getopt_long(argc, argv, ":w:p:d:k:o:hV", options_long,
                                 NULL)) != -1) {
        if (option == 'h') {
            fputs(options_help, stdout);
            return OPTIONS_SHOWN;
        }
        if (option == 'V') {
            printf("ucxpool_shuffle (libucxpool) %s\n",
                   ucxpool_version_string());
            return OPTIONS_SHOWN;
        }
        if (options_take(options, option, argv) != 0) {
            return OPTIONS_WRONG;
        }
    }
    options->files     = argv + optind;
    options->num_files = (size_t)(argc - optind);
    return options_check(options) == 0 ? OPTIONS_RUN : OPTIONS_WRONG;
}
