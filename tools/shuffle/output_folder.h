/*
 * The folder of the partition files: they are written under temporary names,
 * and given their final names only when everything checked out. Until all
 * workers have done that a file has both names, which tell whose it is: no
 * other file is replaced, or removed.
 *
 *     DIR/.part-00003.tmp              written
 *     DIR/.part-00003.tmp, part-00003  committed
 *     DIR/part-00003                   settled
 *
 * Where the file system knows no hard links, it is committed by a rename.
 */
#ifndef SHUFFLE_OUTPUT_FOLDER_H
#define SHUFFLE_OUTPUT_FOLDER_H

#include "tools/shuffle/claim.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Names have five digits. */
#define OUTPUT_MAX_PARTITIONS 100000u

typedef char output_name_t[32];

typedef struct output_folder {
    const char *path;
    int         fd;
    bool        created; /* by this process */
    claim_id_t  id;      /* of the run */
    claim_t     claim;
    bool        is_discarded; /* by output_discard() */
} output_folder_t;

/*
 * Open the folder, or create it, and claim it for the run of that id. It must
 * be empty. Returns -1 with an error.
 */
int output_folder_open(output_folder_t *folder, const char *path,
                       const claim_id_t id);

/* In a process that was forked: hold the claim as one of its own. Returns -1
 * with an error. */
int output_folder_join(output_folder_t *folder);

/* Gives up the claim. After output_discard() the last process of the run
 * removes the folder, if the run has created it. */
void output_folder_close(output_folder_t *folder);

/* Partitions first, first + step, first + 2 step, ... below num. */
typedef struct output_set {
    uint32_t first;
    uint32_t step;
    uint32_t num;
} output_set_t;

/* Give the files of a set their final names, all or none. Returns -1 with a
 * error. */
int output_commit(const output_folder_t *folder, const output_set_t *set);

/* Take these names away again. */
void output_withdraw(const output_folder_t *folder, const output_set_t *set);

/* Every worker has committed: the temporary names go. */
void output_settle(const output_folder_t *folder, const output_set_t *set);

/* Remove the files of a set, which have a temporary name. What is not there is
 * passed over. */
void output_discard(output_folder_t *folder, const output_set_t *set);

/* The name that a partition's file has until it is committed. */
void output_name_temporary(output_name_t name, uint32_t partition);

#endif
