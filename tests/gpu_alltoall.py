#!/usr/bin/env python3
"""All-to-all between GPUs: scattered pieces through libucxpool, and one
contiguous tensor through NCCL, in turn.

usage: gpu_alltoall.py LIBRARY [--gpus N] [--size BYTES] [--piece BYTES]
                       [--rounds N] [--json FILE]

LIBRARY   libucxpool.so
--gpus    processes, one on each GPU; default: as many as PyTorch sees, 8 at
          most
--size    bytes that each process sends, including its own share; default 1 GiB
--piece   bytes of one of libucxpool's pieces, a multiple of 16; default 4096
--rounds  number of rounds for each method; default 11

Each process sends an equal share to each process, itself included. NCCL's
shares are contiguous. libucxpool's are split into pieces in random order in the
sender's tensor, with destinations in random order in the receiver's. They are
sent as messages whose blocks the receiver reads or the sender writes
(UCXPOOL_MAP_WAY=push), and as writes to windows of the receivers. A process
copies its own share with one CuPy kernel, or without CuPy with two of
PyTorch's. The arguments of all calls are prepared before. All bytes are random,
and each is compared once.

Prints the GB/s that leave a process, measured on the slowest, as medians; and
the ratio to NCCL.

Exit status: 0 all bytes are right, 1 some are wrong, 77 no PyTorch, no NCCL, or
fewer than two GPUs.
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
from gpu_torch import ChannelParams, Data, RequestParams, TIMEOUT

LONGEST = ctypes.c_uint64(TIMEOUT)
SEGMENTS = 16               # field: the kind of the segments
STREAM_READY = 2**64 - 1    # no stream dependency
SEGMENTS_CUDA = 1
PIECES = 2                  # kind of data
WINDOW_WRITE = 2
BLOB_SIZE = 64
WAY_CUDA = 3

# Name, form of the pieces, and UCXPOOL_MAP_WAY; "" for windows.
WAYS = (("segments", "segments", "pull"), ("pieces", "pieces", "pull"),
        ("segments, pushed", "segments", "push"),
        ("pieces, pushed", "pieces", "push"), ("windows", "pieces", ""))


class Places(ctypes.Structure):
    _fields_ = [("places", ctypes.c_void_p), ("offsets", ctypes.c_void_p),
                ("count", ctypes.c_size_t), ("length", ctypes.c_uint64),
                ("reserved", ctypes.c_uint64 * 2)]


class RemoteAttr(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("reason", ctypes.c_char * 352),
                ("length", ctypes.c_size_t), ("access", ctypes.c_uint),
                ("way", ctypes.c_int), ("way_reason", ctypes.c_char * 352)]


class Failure(RuntimeError):
    def __init__(self, name, status, detail):
        super().__init__(f"ucxpool_{name}: {status}: {detail}")
        self.status = status


class Pool(gpu_torch.Pool):
    """A pool on a GPU, with a channel to each other process."""

    def __init__(self, path, gpu, exchange, map_way):
        self.open(path, gpu, COMM_SIZE="1g", MAP_WAY=map_way)
        self.channels = self.connect(exchange(self.address()), gpu)
        self.request_params = self.params()
        self.release = self.lib.ucxpool_request_release
        self.wait = self.function("request_wait")

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

    def function(self, name):
        """A function of the library, which raises on errors."""
        function = getattr(self.lib, "ucxpool_" + name)

        def checked(status, *_):
            if status != 0:
                raise Failure(name, status,
                              self.lib.ucxpool_error_detail().decode())
            return status

        function.errcheck = checked
        return function

    def send(self, peer, pieces):
        return Post(self.function("send"), self.channels[peer],
                    ctypes.byref(pieces.data), ctypes.c_uint64(42),
                    self.request_params)

    def recv(self, peer, pieces):
        return Post(self.function("recv"), self.handle, self.channels[peer],
                    ctypes.byref(pieces.data), ctypes.c_uint64(42),
                    ctypes.c_uint64(2**64 - 1), self.request_params)

    def write(self, peer, places, pieces):
        return Post(self.function("remote_window_write"), self.remotes[peer],
                    ctypes.byref(places.list), ctypes.byref(pieces.data),
                    self.request_params)

    def finish(self, posts):
        for post in posts:
            self.wait(post.request, LONGEST)
            self.release(post.request)

    def share(self, address, length, exchange):
        """Export memory for the others to write, and import theirs."""
        self.window = ctypes.c_void_p()
        blob = ctypes.create_string_buffer(BLOB_SIZE)
        self.call("window_create", self.handle, ctypes.c_void_p(address),
                  ctypes.c_size_t(length), None, ctypes.byref(self.window))
        self.call("window_export", self.window, WINDOW_WRITE, blob)
        blobs = exchange(blob.raw)
        self.remotes = {peer: self.take(channel, blobs[peer])
                        for peer, channel in self.channels.items()}

    def take(self, channel, blob):
        remote = ctypes.c_void_p()
        self.call("remote_window_import", channel, blob,
                  ctypes.c_size_t(len(blob)), ctypes.byref(remote))
        return remote

    def check_ways(self):
        """Require that the GPU writes directly to the windows."""
        for remote in self.remotes.values():
            attr = RemoteAttr()
            self.lib.ucxpool_remote_window_query(
                remote, ctypes.byref(attr),
                ctypes.c_size_t(ctypes.sizeof(attr)))
            if attr.way != WAY_CUDA:
                raise RuntimeError(f"windows use way {attr.way}: "
                                   f"{attr.way_reason.decode()}")

    def close(self):
        if hasattr(self, "window"):
            for remote in self.remotes.values():
                self.lib.ucxpool_remote_window_release(remote)
            self.lib.ucxpool_window_destroy(self.window)
        self.lib.ucxpool_destroy(self.handle)


class Post:
    """A call that posts a request, with its arguments."""

    def __init__(self, function, *arguments):
        self.request = ctypes.c_void_p()
        self.function = function
        self.arguments = (*arguments, ctypes.byref(self.request))

    def __call__(self):
        self.function(*self.arguments)


class Pieces:
    """Pieces of a tensor in the library's form: a list of segments, or if all
    have one length only their addresses, in memory that the GPU reads."""

    def __init__(self, kind, tensor, numbers, length):
        import numpy
        import torch
        addresses = (numbers.cpu().numpy().astype(numpy.uint64) *
                     numpy.uint64(length) + numpy.uint64(tensor.data_ptr()))
        if kind == "pieces":
            self.array = torch.from_numpy(addresses.view(numpy.int64))
            self.array = self.array.pin_memory()
            self.data = Data(kind=PIECES, at=self.array.data_ptr(),
                             count=len(addresses), length=length)
        else:
            self.array = numpy.empty(2 * len(addresses), numpy.uint64)
            self.array[0::2] = addresses
            self.array[1::2] = length
            self.data = Data(kind=Data.SEGMENTS, count=len(addresses),
                             at=self.array.ctypes.data)


class Offsets:
    """Pieces of a peer's window, in memory that the GPU reads."""

    def __init__(self, numbers, length):
        self.array = (numbers.cpu() * length).pin_memory()
        self.list = Places(offsets=self.array.data_ptr(),
                           count=len(self.array), length=length)


class OwnShare:
    """The pieces that a process sends to itself. It copies them on
    multiprocessors reserved for that: next to the library's kernels, whose
    stores wait for the link, the copies would be delayed."""

    PART = 5  # of the multiprocessors, a fifth
    THREADS = 1024
    KERNEL = r"""
    #define AT_A_TIME 4

    /* Each piece is copied by one thread per word, or by all threads. */
    extern "C" __global__ void __launch_bounds__(1024, 1) copy_pieces(
        const ulonglong2 *source, ulonglong2 *target, const long long *from,
        const long long *to, long long words, long long count)
    {
        const long long lanes = (words < blockDim.x) ? blockDim.x / words : 1;
        const long long width = blockDim.x / lanes;
        const long long lane  = threadIdx.x / width;
        long long first = (blockIdx.x * lanes + lane) * AT_A_TIME;

        if (lane >= lanes) {
            return;
        }
        for (; first < count; first += gridDim.x * lanes * AT_A_TIME) {
            for (long long i = threadIdx.x % width; i < words; i += width) {
                ulonglong2 word[AT_A_TIME];
    #pragma unroll
                for (int j = 0; j < AT_A_TIME; j++) {
                    if (first + j < count) {
                        word[j] = source[from[first + j] * words + i];
                    }
                }
    #pragma unroll
                for (int j = 0; j < AT_A_TIME; j++) {
                    if (first + j < count) {
                        target[to[first + j] * words + i] = word[j];
                    }
                }
            }
        }
    }
    """

    def __init__(self, torch, source, target, sources, targets):
        self.source, self.target = source, target
        self.sources, self.targets = sources, targets
        try:
            import cupy
        except ImportError:
            self.copy = self.copy_by_index
            return
        device = cupy.cuda.Device(source.device.index)
        device.use()
        self.kernel = cupy.RawKernel(self.KERNEL, "copy_pieces")
        # With all shared memory, no other block fits on the multiprocessor.
        room = device.attributes["MaxSharedMemoryPerBlockOptin"]
        self.kernel.max_dynamic_shared_size_bytes = room
        words = source.shape[1] * source.element_size() // 16
        self.values = [ctypes.c_int64(value) for value in (
            *(tensor.data_ptr() for tensor in (source, target, sources,
                                               targets)),
            words, len(sources))]
        pointers = (ctypes.c_void_p * len(self.values))(
            *map(ctypes.addressof, self.values))
        self.start = ctypes.CDLL("libcuda.so.1").cuLaunchKernel
        blocks = device.attributes["MultiProcessorCount"] // self.PART
        self.launch = (
            ctypes.c_void_p(self.kernel.kernel.ptr),
            blocks, 1, 1, self.THREADS, 1, 1, room,
            ctypes.c_void_p(torch.cuda.current_stream().cuda_stream),
            pointers, None)

    def copy_by_index(self):
        self.target[self.targets] = self.source[self.sources]

    def copy(self):
        status = self.start(*self.launch)
        if status != 0:
            raise RuntimeError(f"cuLaunchKernel: {status}")


def shuffled(torch, count, seed):
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed))


class AllToAll:
    """One process of the all-to-all."""

    def __init__(self, torch, rank, gpus, size, piece):
        self.torch, self.rank, self.gpus, self.piece = torch, rank, gpus, piece
        self.stream = torch.cuda.current_stream()
        self.share = size // gpus // piece
        count = self.share * gpus
        self.device = torch.device("cuda", rank)
        self.source = self.data(rank, count)
        self.target = torch.empty_like(self.source)
        self.sources = [shuffled(torch, count, r).split(self.share)
                        for r in range(gpus)]
        self.targets = self.targets_of(rank)
        self.own = OwnShare(torch, self.source, self.target,
                            self.sources[rank][rank].to(self.device),
                            self.targets[rank].to(self.device))

    def data(self, rank, count):
        generator = self.torch.Generator(self.device).manual_seed(rank)
        return self.torch.randint(
            -2**62, 2**62, (count, self.piece // 8), device=self.device,
            dtype=self.torch.int64, generator=generator)

    def peers(self):
        """Starts with the next, so that not all send to the same one."""
        return [(self.rank + i) % self.gpus for i in range(1, self.gpus)]

    def targets_of(self, peer):
        """The places in a process's tensor, by sender."""
        return shuffled(self.torch, self.share * self.gpus,
                        100 + peer).split(self.share)

    def prepare(self, pool, kind, is_written):
        """Prepare the requests of a round, once for all rounds."""
        lay = lambda tensor, numbers: Pieces(kind, tensor, numbers, self.piece)
        peers = self.peers()
        self.outgoing = {p: lay(self.source, self.sources[self.rank][p])
                         for p in peers}
        if is_written:
            self.places = {p: Offsets(self.targets_of(p)[self.rank],
                                      self.piece) for p in peers}
            self.posts = [pool.write(p, self.places[p], self.outgoing[p])
                          for p in peers]
            return
        self.incoming = {p: lay(self.target, self.targets[p]) for p in peers}
        self.posts = [pool.recv(p, self.incoming[p]) for p in peers]
        self.posts += [pool.send(p, self.outgoing[p]) for p in peers]

    # Copy the own share first: the library's kernels have a higher priority,
    # and otherwise it would be copied after them.
    def round(self, pool):
        self.own.copy()
        for post in self.posts:
            post()
        pool.finish(self.posts)
        self.stream.synchronize()

    def nccl_round(self):
        self.torch.distributed.all_to_all_single(self.target, self.source)
        self.stream.synchronize()

    def check(self, peers=None):
        """Require that each piece has arrived in its place."""
        for peer in range(self.gpus) if peers is None else peers:
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
    pools = {way: Pool(options.library, rank, exchange, way)
             for way in ("pull", "push")}
    pools["pull"].share(part.target.data_ptr(), part.target.nbytes, exchange)
    times = {name: [] for name in (*(way[0] for way in WAYS), "NCCL")}
    for name, kind, map_way in WAYS:
        pool = pools[map_way or "pull"]
        part.prepare(pool, kind, not map_way)
        part.target.fill_(-1)
        torch.cuda.synchronize()
        distributed.barrier()
        part.round(pool)
        distributed.barrier()
        part.check()
        if not map_way:
            pool.check_ways()
        for number in range(options.rounds + 2):
            times[name].append(measure(torch, lambda: part.round(pool)))
            times["NCCL"].append(measure(torch, part.nccl_round))
    if rank == 0:
        report(options, part.share * options.piece * (options.gpus - 1),
               times)
    distributed.barrier()
    for pool in pools.values():
        pool.close()
    distributed.destroy_process_group()


def report(options, bytes_out, times):
    rates = {way: [bytes_out / t / 1e9 for t in took[2:]]
             for way, took in times.items()}
    medians = {way: statistics.median(rate) for way, rate in rates.items()}
    print(f"{options.gpus} GPUs, {options.size} bytes each, sending "
          f"{bytes_out} to others, in pieces of {options.piece}; NCCL's are "
          "contiguous")
    for way, median in medians.items():
        print(f"  {way:20} {median:7.1f} GB/s "
              f"({min(rates[way]):.1f} to {max(rates[way]):.1f}), "
              f"{median / medians['NCCL']:.2f} of NCCL", flush=True)
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
