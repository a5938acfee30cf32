#!/usr/bin/env python3
"""All-to-all between GPUs, of which one process after the other is killed.

usage: gpu_alltoall_death.py LIBRARY [--gpus N] [--size BYTES] [--rounds N]
                             [--seed N]

LIBRARY   libucxpool.so
--gpus    processes, one on each GPU; default: as many as PyTorch sees, 8 at
          most
--size    that each process sends in a round; default 64 MiB
--rounds  while one is killed; default 60
--seed    of the moments of death; default: random, and printed

In a round each process sends one share to each other one as a message, whose
blocks the receiver lends or the sender's are read, in turn, and writes another
into its window. The last one is killed at a random moment, up to 0.1 s from when
the rounds begin, which may be after their end. What the others have under way
with it has to end, with an error or without; what they have among each other
has to end well. Then they make one round among
themselves, compare every byte, and count their blocks: none may be missing.
So it goes on until two are left.

Exit status: 0 all is right, 1 not so, 77 no PyTorch, or fewer than three GPUs.
"""
import argparse
import ctypes
import multiprocessing
import os
import random
import signal
import sys
import time

import gpu_alltoall
from gpu_torch import TIMEOUT

PIECE = 4096
SECONDS = TIMEOUT / 10**9
BLOCKS = ("send", "recv")
PEER_LOST = -8


class Process:
    """One process's part in it."""

    def __init__(self, torch, rank, options, pipe):
        self.pipe, self.rank, self.torch = pipe, rank, torch
        self.part = gpu_alltoall.AllToAll(torch, rank, options.gpus,
                                          options.size, PIECE)
        self.pools = [gpu_alltoall.Pool(options.library, rank, self.exchange,
                                        way) for way in ("pull", "push")]
        self.living = set(range(options.gpus)) - {rank}
        self.kept = []              # what requests refer to
        target = self.part.target
        self.pools[0].share(target.data_ptr(), target.nbytes, self.exchange)
        self.posts = [self.lay(pool) for pool in self.pools]

    def exchange(self, value):
        """With all that live: also a barrier."""
        self.pipe.send(value)
        return self.pipe.recv()

    def lay(self, pool):
        """The requests of a round, and whom each is for."""
        part, posts = self.part, []
        for kind in ("recv", "send", "write"):
            for peer in part.peers():
                if kind == "write":
                    posts.append((peer, self.write(peer)))
                else:
                    posts.append((peer, self.message(pool, kind, peer)))
        return posts

    def pieces(self, is_source, peer):
        part = self.part
        tensor, numbers = ((part.source, part.sources[self.rank][peer])
                           if is_source else
                           (part.target, part.targets[peer]))
        return gpu_alltoall.Pieces("pieces", tensor, numbers, PIECE)

    def message(self, pool, kind, peer):
        return getattr(pool, kind)(peer, self.keep(
            self.pieces(kind == "send", peer)))

    def write(self, peer):
        places = gpu_alltoall.Offsets(
            self.part.targets_of(peer)[self.rank], PIECE)
        return self.pools[0].write(peer, self.keep(places),
                                   self.keep(self.pieces(True, peer)))

    def keep(self, pieces):
        self.kept.append(pieces)
        return pieces

    def attempt(self, peer, function):
        """Only what has to do with the dead may fail."""
        try:
            function()
            return True
        except gpu_alltoall.Failure as error:
            if (peer in self.living) or (error.status != PEER_LOST):
                raise RuntimeError(f"GPU {self.rank}, of {peer}: {error}; "
                                   f"alive are {self.living}") from error
            return False

    def round(self, number):
        pool = self.pools[number % 2]
        posted = [(peer, post) for peer, post in self.posts[number % 2]
                  if self.attempt(peer, post)]
        for peer, post in posted:
            self.attempt(peer, lambda: pool.wait(post.request,
                                                 gpu_alltoall.LONGEST))
            pool.release(post.request)

    def require_whole(self):
        """No block is missing; those for short messages stay lent."""
        for pool in self.pools:
            pool.call("check", pool.handle)
            for share in BLOCKS:
                total, free = (self.count(pool, f"blocks_{share}_{what}")
                               for what in ("total", "free"))
                until = time.monotonic() + SECONDS
                while total - free > (share == "recv"):
                    if time.monotonic() > until:
                        raise RuntimeError(f"GPU {self.rank}: {free} of "
                                           f"{total} {share} blocks are free")
                    pool.lib.ucxpool_progress(pool.handle)
                    free = self.count(pool, f"blocks_{share}_free")

    def count(self, pool, name):
        value = ctypes.c_uint64()
        pool.call("stats_get", pool.handle, name.encode(),
                  ctypes.byref(value))
        return value.value

    def survive(self, victim, rounds):
        """The victim does the same, until it is killed."""
        self.exchange("ready")
        self.living -= {victim}
        number = 0
        while (number < rounds) or (self.rank == victim):
            self.round(number)
            number += 1
        self.posts = [[(peer, post) for peer, post in posts
                       if peer in self.living] for posts in self.posts]
        self.part.target.fill_(-1)
        self.torch.cuda.synchronize()
        self.exchange("filled")
        self.part.own.copy()
        self.round(victim)
        self.torch.cuda.synchronize()
        self.exchange("through")
        self.part.check(self.living | {self.rank})
        self.require_whole()


def work(rank, options, pipe):
    import torch
    torch.cuda.set_device(rank)
    process = Process(torch, rank, options, pipe)
    process.round(0)
    for victim in range(options.gpus - 1, 1, -1):
        process.survive(victim, options.rounds)
    process.exchange("end")
    for pool in process.pools:
        pool.close()


def pass_round(pipes):
    values = [pipe.recv() for pipe in pipes]
    for pipe in pipes:
        pipe.send(values)
    return values


def lead(options, processes, pipes):
    rng = random.Random(options.seed)
    while pass_round(pipes)[0] != "ready":
        pass
    for victim in range(options.gpus - 1, 1, -1):
        time.sleep(rng.uniform(0, 0.1))
        os.kill(processes[victim].pid, signal.SIGKILL)
        pipes = pipes[:victim]
        while pass_round(pipes)[0] not in ("ready", "end"):
            pass
        print(f"GPU {victim} was killed, {victim} went on", flush=True)


def main():
    parser = argparse.ArgumentParser(
        usage=__doc__.split("usage: ")[1].split("\n\n")[0])
    parser.add_argument("library")
    parser.add_argument("--gpus", type=int)
    parser.add_argument("--size", type=int, default=64 << 20)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--seed", type=int,
                        default=random.SystemRandom().randrange(1 << 30))
    options = parser.parse_args()
    try:
        import torch
    except ImportError as error:
        print(f"no PyTorch: {error}")
        sys.exit(77)
    seen = torch.cuda.device_count()
    options.gpus = options.gpus or min(seen, 8)
    if (seen < options.gpus) or (options.gpus < 3):
        print(f"PyTorch sees {seen} GPUs")
        sys.exit(77)
    print(f"seed {options.seed}", flush=True)
    spawn = multiprocessing.get_context("spawn")
    pipes = [spawn.Pipe() for _ in range(options.gpus)]
    processes = [spawn.Process(target=work, args=(rank, options, theirs),
                               daemon=True)
                 for rank, (_, theirs) in enumerate(pipes)]
    for process in processes:
        process.start()
    for _, theirs in pipes:
        theirs.close()
    try:
        lead(options, processes, [ours for ours, _ in pipes])
    except EOFError:                    # one has failed, and said why
        sys.exit(1)
    for process in processes[:2]:
        process.join(SECONDS)
    sys.exit(1 if any(process.exitcode for process in processes[:2]) else 0)


if __name__ == "__main__":
    main()
