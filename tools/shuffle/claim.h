/*
 * The claim on an output folder: it must be empty, and one run at a time writes
 * there.
 *
 *     DIR/.ucxpool_shuffle.claim    "+ <id of the run> process 17 on alpha"
 *                                    '+': the run created the folder
 *
 * Each process of the run holds a shared lock on this file, so the claim ends
 * with the last of them, in whatever way they end. A file without a lock is
 * what a killed run has left: the next run takes it over.
 *
 * flock(2) may lose a lock while it turns from exclusive to shared; therefore
 * the file is read again after that, and the run that is named in it has it.
 */
#ifndef SHUFFLE_CLAIM_H
#define SHUFFLE_CLAIM_H

#include <stdbool.h>

/* 32 hexadecimal digits. All processes of a run have the same. */
typedef char claim_id_t[33];

typedef struct claim {
    int fd; /* -1: none */
} claim_t;

/* A random one. Returns -1 with an error. */
int claim_id_make(claim_id_t id);

/*
 * Claim the folder for a run, or join the claim that another process of the run
 * has made.
 *
 * folder_fd, path  the folder
 * created          this process created it
 *
 * Returns 0; 1 when the folder was removed meanwhile; -1 with an error.
 */
int claim_take(claim_t *claim, int folder_fd, const char *path,
               const claim_id_t id, bool created);

/*
 * Give the claim up. The last process of the run removes the file.
 *
 * Returns true to the last one of a run that created the folder.
 */
bool claim_drop(claim_t *claim, int folder_fd);

#endif
