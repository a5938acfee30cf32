/*
 * The folder of the partition files: they are written under temporary names,
 * and given their final names only when everything checked out.
 *
 *     DIR/.part-00003.tmp  ->  DIR/part-00003
 */
#ifndef SHUFFLE_OUTPUT_FOLDER_H
#define SHUFFLE_OUTPUT_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Names have five digits. */
#define OUTPUT_MAX_PARTITIONS 100000u

typedef char output_name_t[32];

typedef struct output_folder {
    const char *path;
    int         fd;
    bool        created; /* by us: to be removed after a failure */
} output_folder_t;

/*
 * Open the folder, or create it. It must be empty. Returns -1 with a
 * complaint.
 */
int  output_folder_open(output_folder_t *folder, const char *path);
void output_folder_close(output_folder_t *folder);

/* Partitions first, first + step, first + 2 step, ... below num. */
typedef struct output_set {
    uint32_t first;
    uint32_t step;
    uint32_t num;
} output_set_t;

/* Give the files of a set their final names. Returns -1 with a complaint. */
int output_commit(const output_folder_t *folder, const output_set_t *set);

/* Remove the files of a set, under both names, and the folder if it was
 * created. What is not there is passed over. */
void output_discard(const output_folder_t *folder, const output_set_t *set);

/* The name that a partition's file has until it is committed. */
void output_name_temporary(output_name_t name, uint32_t partition);

#endif
