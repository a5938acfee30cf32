#!/usr/bin/env python3
"""All-to-all between GPUs, while one process after another is killed.

usage: gpu_alltoall_death.py LIBRARY [--gpus N] [--size BYTES] [--seed N]

LIBRARY   libucxpool.so
--gpus    processes, one on each GPU; default: as many as PyTorch sees, 8 at
          most
--size    bytes that each process sends in a round; default 64 MiB
--seed    seed of the moments of death; default: random, and printed

In each round, each process sends one share to each other process as a message,
and writes another share into its window. The messages alternate between push
and pull. In one of the first rounds the last process posts all its requests and
kills itself at a random moment. The other processes' requests to it, in this
round and in the next four, must end, and with an error at least once for each
method. All other requests must succeed. Then the survivors make one round,
compare every byte, and require that all their blocks are free. This repeats
until two processes are left.

Exit status: 0 success, 1 an error, 77 no PyTorch, or fewer than three GPUs.
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
    """One process of the all-to-all."""

    def __init__(self, torch, rank, options, pipe):
        self.pipe, self.rank, self.torch = pipe, rank, torch
        self.part = gpu_alltoall.AllToAll(torch, rank, options.gpus,
                                          options.size, PIECE)
        self.pools = [gpu_alltoall.Pool(options.library, rank, self.exchange,
                                        way) for way in ("pull", "push")]
        self.living = set(range(options.gpus)) - {rank}
        self.lost = set()           # the pools in which something failed
        self.took = [0, 0]          # seconds of a round, by pool
        self.kept = []              # memory of requests in flight
        target = self.part.target
        self.pools[0].share(target.data_ptr(), target.nbytes, self.exchange)
        self.posts = [self.lay(number) for number in range(len(self.pools))]

    def exchange(self, value):
        """Exchange a value with all live processes: also a barrier."""
        self.pipe.send(value)
        return self.pipe.recv()

    def lay(self, number):
        """The requests of a round, each with its peer and its way: writes, or
        messages of one of the pools."""
        part, posts, pool = self.part, [], self.pools[number]
        for kind in ("recv", "send", "write"):
            for peer in part.peers():
                if kind == "write":
                    posts.append((peer, "write", self.write(peer)))
                else:
                    posts.append((peer, number,
                                  self.message(pool, kind, peer)))
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

    def attempt(self, peer, way, function):
        """Only requests to dead processes may fail."""
        try:
            function()
            return True
        except gpu_alltoall.Failure as error:
            if (peer in self.living) or (error.status != PEER_LOST):
                raise RuntimeError(f"GPU {self.rank}, of {peer}: {error}; "
                                   f"alive are {self.living}") from error
            self.lost.add(way)
            return False

    def round(self, number):
        number %= 2
        pool = self.pools[number]
        start = time.perf_counter()
        posted = [(peer, way, post) for peer, way, post in self.posts[number]
                  if self.attempt(peer, way, post)]
        for peer, way, post in posted:
            self.attempt(peer, way,
                         lambda: pool.wait(post.request,
                                           gpu_alltoall.LONGEST))
            pool.release(post.request)
        self.took[number] = time.perf_counter() - start

    def die(self, number, part):
        """Post a round, and die after this part of its usual time."""
        number %= 2
        pool = self.pools[number]
        until = time.perf_counter() + part * self.took[number]
        for _, _, post in self.posts[number]:
            post()
        while time.perf_counter() < until:
            pool.lib.ucxpool_progress(pool.handle)
        os.kill(os.getpid(), signal.SIGKILL)

    def require_whole(self):
        """Require that all blocks are free, except mailboxes."""
        for pool in self.pools:
            pool.call("check", pool.handle)
            for share in BLOCKS:
                total, free = (self.count(pool, f"blocks_{share}{what}")
                               for what in ("", "_free"))
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

    def survive(self, victim, number, part):
        """Run rounds until the victim dies in this part of this round."""
        self.exchange("ready")
        for i in range(number - 1):
            self.round(i)
        if self.rank == victim:
            self.round(number - 1)
            self.die(number, part)
        # Its last messages of the previous round may have been lost.
        self.living -= {victim}
        self.lost.clear()
        for i in range(number - 1, number + 5):
            self.round(i)
        if self.lost != {0, 1, "write"}:
            raise RuntimeError(f"GPU {self.rank} detected the death of "
                               f"GPU {victim} only by {self.lost}")
        self.posts = [[one for one in posts if one[0] in self.living]
                      for posts in self.posts]
        self.part.target.fill_(-1)
        self.torch.cuda.synchronize()
        self.exchange("filled")
        self.part.own.copy()
        self.round(victim)
        self.torch.cuda.synchronize()
        self.exchange("through")
        self.part.check(self.living | {self.rank})
        self.require_whole()


def moments(options):
    """The victims, with the round and the part of it: the same everywhere."""
    rng = random.Random(options.seed)
    return [(victim, rng.randrange(3, 9), rng.random())
            for victim in range(options.gpus - 1, 1, -1)]


def work(rank, options, pipe):
    import torch
    torch.cuda.set_device(rank)
    process = Process(torch, rank, options, pipe)
    process.round(0)
    for victim, number, part in moments(options):
        process.survive(victim, number, part)
    process.exchange("end")
    for pool in process.pools:
        pool.close()


def pass_round(pipes):
    values = [pipe.recv() for pipe in pipes]
    for pipe in pipes:
        pipe.send(values)
    return values


def lead(options, processes, pipes):
    while pass_round(pipes)[0] != "ready":
        pass
    for victim, number, part in moments(options):
        pipes = pipes[:victim]
        while pass_round(pipes)[0] not in ("ready", "end"):
            pass
        processes[victim].join(SECONDS)
        if processes[victim].exitcode != -signal.SIGKILL:
            raise RuntimeError(f"GPU {victim} was not killed, but exited with "
                               f"{processes[victim].exitcode}")
        print(f"GPU {victim} was killed in round {number}, {part:.2f} of it "
              f"done; {victim} continued", flush=True)


def main():
    parser = argparse.ArgumentParser(
        usage=__doc__.split("usage: ")[1].split("\n\n")[0])
    parser.add_argument("library")
    parser.add_argument("--gpus", type=int)
    parser.add_argument("--size", type=int, default=64 << 20)
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
    except EOFError:                    # a process failed and printed why
        sys.exit(1)
    for process in processes[:2]:
        process.join(SECONDS)
    sys.exit(1 if any(process.exitcode != 0 for process in processes[:2])
             else 0)


if __name__ == "__main__":
    main()
