#!/usr/bin/env python3
"""All-to-all between GPUs: scattered pieces through libucxpool, and one
contiguous tensor through NCCL, in turn.

usage: gpu_alltoall.py LIBRARY [--gpus N] [--size BYTES] [--piece BYTES]
                       [--rounds N] [--json FILE]

LIBRARY   libucxpool.so
--gpus    processes, one on each GPU; default: as many as PyTorch sees, 8 at
          most
--size    that each process sends, its own share of it counted; default 1 GiB
--piece   bytes of one of libucxpool's pieces, a multiple of 16; default 4096
--rounds  of each; default 11

Of its bytes each process sends one share to each, itself included. NCCL's
shares are contiguous. libucxpool's are cut into pieces that lie in random
order in the sender's tensor, and go to places in random order in the
receiver's. Its own share a process copies from place to place by one kernel,
through CuPy; by two of PyTorch's where there is no CuPy. All bytes are random,
and every one is compared once.

Prints GB/s that leave a process, by the time of the slowest, medians; and how
many times as fast as NCCL.

Exit status: 0 all bytes are right, 1 not so, 77 no PyTorch, no NCCL, or fewer
than two GPUs.
"""
import argparse
import ctypes
import json
import os
import statistics
import sys
import tempfile
import time

import gpu_torch
from gpu_torch import ChannelParams, RequestParams, TIMEOUT

SEGMENTS = 16               # field: what the segments are is told
STREAM_READY = 2**64 - 1    # nothing to wait for
SEGMENTS_CUDA = 1


class Pool(gpu_torch.Pool):
    """A pool on a GPU, with a channel to each other process."""

    def __init__(self, path, gpu, exchange):
        self.open(path, gpu, COMM_SIZE="1g")
        self.channels = self.connect(exchange(self.address()), gpu)

    def connect(self, addresses, me):
        channels = {}
        for peer, address in enumerate(addresses):
            if peer == me:
                continue
            channel = ctypes.c_void_p()
            params = ChannelParams(ChannelParams.ADDRESS, address,
                                   len(address))
            self.call("channel_create", self.handle, ctypes.byref(params),
                      ctypes.byref(channel))
            channels[peer] = channel
        for channel in channels.values():
            self.call("channel_wait", channel, ctypes.c_uint64(TIMEOUT))
        return channels

    def params(self):
        params = RequestParams(stream=STREAM_READY, timeout_ns=TIMEOUT,
                               segments_kind=SEGMENTS_CUDA)
        params.field_mask = (RequestParams.TIMEOUT | RequestParams.STREAM |
                             SEGMENTS)
        return ctypes.byref(params)

    def send(self, peer, pieces):
        request = ctypes.c_void_p()
        self.call("send_" + pieces.kind, self.channels[peer],
                  *pieces.arguments, ctypes.c_uint64(42), self.params(),
                  ctypes.byref(request))
        return request

    def recv(self, peer, pieces):
        request = ctypes.c_void_p()
        self.call("recv_" + pieces.kind, self.handle, self.channels[peer],
                  *pieces.arguments, ctypes.c_uint64(42),
                  ctypes.c_uint64(2**64 - 1), self.params(),
                  ctypes.byref(request))
        return request


class Pieces:
    """Pieces of a tensor as the library wants them: a list of segments, or
    only addresses where all have one length, in memory that the GPU reads."""

    def __init__(self, kind, tensor, numbers, length):
        import numpy
        import torch
        addresses = (numbers.cpu().numpy().astype(numpy.uint64) *
                     numpy.uint64(length) + numpy.uint64(tensor.data_ptr()))
        count = ctypes.c_size_t(len(addresses))
        self.kind = kind
        if kind == "pieces":
            self.array = torch.from_numpy(addresses.view(numpy.int64))
            self.array = self.array.pin_memory()
            self.arguments = (ctypes.c_void_p(self.array.data_ptr()), count,
                              ctypes.c_size_t(length))
        else:
            self.array = numpy.empty(2 * len(addresses), numpy.uint64)
            self.array[0::2] = addresses
            self.array[1::2] = length
            self.arguments = (ctypes.c_void_p(self.array.ctypes.data), count)


class OwnShare:
    """The pieces that a process sends to itself, and how it copies them."""

    KERNEL = r"""
    extern "C" __global__ void copy_pieces(
        const ulonglong2 *source, ulonglong2 *target, const long long *from,
        const long long *to, long long words)
    {
        source += from[blockIdx.x] * words;
        target += to[blockIdx.x] * words;
        for (long long i = threadIdx.x; i < words; i += blockDim.x) {
            target[i] = source[i];
        }
    }
    """

    def __init__(self, torch, source, target, sources, targets):
        self.source, self.target = source, target
        self.sources, self.targets = sources, targets
        self.words = source.shape[1] * source.element_size() // 16
        try:
            import cupy
        except ImportError:
            self.copy = self.copy_by_index
            return
        cupy.cuda.Device(source.device.index).use()
        self.kernel = cupy.RawKernel(self.KERNEL, "copy_pieces")
        self.stream = cupy.cuda.ExternalStream(
            torch.cuda.current_stream().cuda_stream)

    def copy_by_index(self):
        self.target[self.targets] = self.source[self.sources]

    def copy(self):
        addresses = [tensor.data_ptr() for tensor in (
            self.source, self.target, self.sources, self.targets)]
        with self.stream:
            self.kernel((len(self.sources),), (min(256, self.words),),
                        (*addresses, self.words))


def shuffled(torch, count, seed):
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed))


class AllToAll:
    """One process's part in it."""

    def __init__(self, torch, rank, gpus, size, piece):
        self.torch, self.rank, self.gpus, self.piece = torch, rank, gpus, piece
        self.share = size // gpus // piece
        count = self.share * gpus
        self.device = torch.device("cuda", rank)
        self.source = self.data(rank, count)
        self.target = torch.empty_like(self.source)
        self.sources = [shuffled(torch, count, r).split(self.share)
                        for r in range(gpus)]
        self.targets = shuffled(torch, count, 100 + rank).split(self.share)
        self.own = OwnShare(torch, self.source, self.target,
                            self.sources[rank][rank].to(self.device),
                            self.targets[rank].to(self.device))

    def data(self, rank, count):
        generator = self.torch.Generator(self.device).manual_seed(rank)
        return self.torch.randint(
            -2**62, 2**62, (count, self.piece // 8), device=self.device,
            dtype=self.torch.int64, generator=generator)

    def peers(self):
        """From the next one on, so that not all send to one at a time."""
        return [(self.rank + i) % self.gpus for i in range(1, self.gpus)]

    def prepare(self, kind):
        lay = lambda tensor, numbers: Pieces(kind, tensor, numbers, self.piece)
        self.outgoing = {p: lay(self.source, self.sources[self.rank][p])
                         for p in self.peers()}
        self.incoming = {p: lay(self.target, self.targets[p])
                         for p in self.peers()}

    def pool_round(self, pool):
        requests = [pool.recv(p, self.incoming[p]) for p in self.peers()]
        requests += [pool.send(p, self.outgoing[p]) for p in self.peers()]
        self.own.copy()
        for request in requests:
            pool.wait(request)
        self.torch.cuda.synchronize()

    def nccl_round(self):
        self.torch.distributed.all_to_all_single(self.target, self.source)
        self.torch.cuda.synchronize()

    def check(self):
        """Each piece is where it belongs."""
        for peer in range(self.gpus):
            theirs = self.data(peer, self.share * self.gpus)
            sent = self.sources[peer][self.rank].to(self.device)
            here = self.targets[peer].to(self.device)
            if not self.torch.equal(self.target[here], theirs[sent]):
                raise RuntimeError(f"GPU {self.rank} has wrong bytes from "
                                   f"GPU {peer}")


def measure(torch, function):
    """Seconds of the slowest process."""
    distributed = torch.distributed
    distributed.barrier()
    torch.cuda.synchronize()
    start = time.perf_counter()
    function()
    took = torch.tensor([time.perf_counter() - start], device="cuda")
    distributed.all_reduce(took, distributed.ReduceOp.MAX)
    return took.item()


def work(rank, options, folder):
    import torch
    distributed = torch.distributed
    torch.cuda.set_device(rank)
    distributed.init_process_group(
        "nccl", init_method=f"file://{folder}/store", rank=rank,
        world_size=options.gpus, device_id=torch.device("cuda", rank))

    def exchange(address):
        addresses = [None] * options.gpus
        distributed.all_gather_object(addresses, address)
        return addresses

    part = AllToAll(torch, rank, options.gpus, options.size, options.piece)
    pool = Pool(options.library, rank, exchange)
    ways = ["buffers", "pieces"]
    times = {way: [] for way in ways + ["nccl"]}
    for way in ways:
        part.prepare(way)
        part.target.fill_(-1)
        torch.cuda.synchronize()
        distributed.barrier()
        part.pool_round(pool)
        part.check()
        for number in range(options.rounds + 2):
            times[way].append(measure(torch, lambda: part.pool_round(pool)))
            times["nccl"].append(measure(torch, part.nccl_round))
    if rank == 0:
        report(options, part.share * options.piece * (options.gpus - 1),
               times)
    distributed.barrier()
    pool.lib.ucxpool_destroy(pool.handle)
    distributed.destroy_process_group()


def report(options, bytes_out, times):
    rates = {way: [bytes_out / t / 1e9 for t in took[2:]]
             for way, took in times.items()}
    medians = {way: statistics.median(rate) for way, rate in rates.items()}
    print(f"{options.gpus} GPUs, {options.size} bytes each, of which "
          f"{bytes_out} leave")
    for way, name in (("buffers", f"pieces of {options.piece} B, as segments"),
                      ("pieces", f"pieces of {options.piece} B, as pieces"),
                      ("nccl", "NCCL, contiguous")):
        print(f"  {name:36} {medians[way]:7.1f} GB/s "
              f"({min(rates[way]):.1f} to {max(rates[way]):.1f}), "
              f"{medians[way] / medians['nccl']:.2f} of NCCL", flush=True)
    if options.json:
        with open(options.json, "w", encoding="ascii") as file:
            json.dump({"gpus": options.gpus, "size": options.size,
                       "piece": options.piece, "gb_per_s": rates}, file)


def main():
    parser = argparse.ArgumentParser(
        usage=__doc__.split("usage: ")[1].split("\n\n")[0])
    parser.add_argument("library")
    parser.add_argument("--gpus", type=int)
    parser.add_argument("--size", type=int, default=1 << 30)
    parser.add_argument("--piece", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--json")
    options = parser.parse_args()
    if (options.piece < 16) or (options.piece % 16 != 0):
        parser.error(f"--piece {options.piece} is no multiple of 16")
    try:
        import torch
    except ImportError as error:
        print(f"no PyTorch: {error}")
        sys.exit(77)
    seen = torch.cuda.device_count()
    options.gpus = options.gpus or min(seen, 8)
    if (seen < options.gpus) or (options.gpus < 2):
        print(f"PyTorch sees {seen} GPUs")
        sys.exit(77)
    if not torch.distributed.is_nccl_available():
        print("PyTorch has no NCCL")
        sys.exit(77)
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    with tempfile.TemporaryDirectory() as folder:
        try:
            torch.multiprocessing.spawn(work, (options, folder), options.gpus)
        except Exception as error:          # a process's, with its traceback
            print(error)
            sys.exit(1)


if __name__ == "__main__":
    main()
