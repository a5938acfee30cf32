/*
 * The partition files of one worker: written under temporary names, and given
 * their final names only when everything checked out.
 *
 *     DIR/.part-00003.tmp  ->  DIR/part-00003
 */
#ifndef SHUFFLE_OUTPUT_H
#define SHUFFLE_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Names have five digits. */
#define OUTPUT_MAX_PARTITIONS 100000u

/* The folder. */
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

typedef struct output {
    const output_folder_t *folder;
    output_set_t           set;
    int                   *fds;     /* by slot: (partition - first) / step */
    uint64_t              *lengths; /* bytes written                       */
    uint32_t               num_files;
} output_t;

/* Create the files of a set. Returns -1 with a complaint. */
int output_init(output_t *output, const output_folder_t *folder,
                const output_set_t *set);

/* Append to the file of a partition of the set. */
int output_append(output_t *output, uint32_t partition, const char *data,
                  size_t length);

/* Close the files and check that the system kept every byte. */
int output_finish(output_t *output);

/* Close what is open and release; the files stay. */
void output_cleanup(output_t *output);

#endif
