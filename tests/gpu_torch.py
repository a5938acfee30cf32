#!/usr/bin/env python3
"""PyTorch's tensors through libucxpool: between two processes, each on a GPU.

usage: gpu_torch.py LIBRARY [GPUS]

LIBRARY is libucxpool.so; GPUS is 1 (both processes on GPU 0, the default) or 2.

One message contains pieces of every kind of tensor: from PyTorch's caching
allocator, from an expandable segment (one tensor over many allocations of the
driver, 20 MiB each), managed, pinned and pageable. A kernel writes the sender's
bytes long after the message is posted, in the stream that is passed with the
message. On the other side, a kernel poisons the targets in the same way. The
receiver splits the message differently, and compares every byte of its tensors,
including those between the pieces.

Exit status: 0 all bytes are right, 1 some are wrong, 77 no PyTorch or too few
GPUs.
"""
import ctypes
import multiprocessing
import os
import random
import sys

GUARD = 64                  # bytes at both ends of a tensor that are not sent
MIB = 1 << 20
BIG = 96 * MIB + 5          # in an expandable segment
MANAGED = 16 * MIB + 1
PATTERN = 0x55
TIMEOUT = 60 * 10**9        # nanoseconds, of a request


# --- the library ----------------------------------------------------------

class PoolParams(ctypes.Structure):
    _fields_ = [("field_mask", ctypes.c_uint64), ("config", ctypes.c_void_p),
                ("context", ctypes.c_void_p), ("worker", ctypes.c_void_p),
                ("memory_kind", ctypes.c_int), ("name", ctypes.c_char_p),
                ("device", ctypes.c_int)]
    CONFIG, MEMORY_KIND, DEVICE, CUDA = 1, 8, 32, 1


class ChannelParams(ctypes.Structure):
    _fields_ = [("field_mask", ctypes.c_uint64), ("address", ctypes.c_char_p),
                ("address_length", ctypes.c_size_t), ("ep", ctypes.c_void_p),
                ("name", ctypes.c_char_p), ("user_ptr", ctypes.c_void_p)]
    ADDRESS = 1


class ChannelAttr(ctypes.Structure):
    _fields_ = [("state", ctypes.c_int), ("status", ctypes.c_int),
                ("reason", ctypes.c_char * 352), ("wire", ctypes.c_int),
                ("wire_reason", ctypes.c_char * 352),
                ("name", ctypes.c_char * 32),
                ("user_ptr", ctypes.c_void_p), ("pool", ctypes.c_void_p),
                ("local_address", ctypes.c_char * 80),
                ("remote_address", ctypes.c_char * 80)]


class RequestParams(ctypes.Structure):
    _fields_ = [("field_mask", ctypes.c_uint64), ("callback", ctypes.c_void_p),
                ("callback_arg", ctypes.c_void_p),
                ("metadata", ctypes.c_void_p),
                ("metadata_length", ctypes.c_size_t),
                ("timeout_ns", ctypes.c_uint64), ("stream", ctypes.c_void_p),
                ("segments_kind", ctypes.c_int)]
    TIMEOUT, STREAM = 4, 8


class Segment(ctypes.Structure):
    _fields_ = [("address", ctypes.c_void_p), ("length", ctypes.c_size_t)]


class Data(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("is_source", ctypes.c_int),
                ("at", ctypes.c_void_p), ("count", ctypes.c_size_t),
                ("length", ctypes.c_size_t), ("reserved", ctypes.c_uint64 * 4)]
    SEGMENTS = 1


class Pool:
    """A pool on a GPU with one channel, to the process behind the pipe."""

    def __init__(self, path, gpu, wire, pipe):
        self.open(path, gpu, WIRE=wire, COMM_SIZE="256m")
        self.channel = ctypes.c_void_p()
        pipe.send(self.address())
        address = pipe.recv()
        params = ChannelParams(ChannelParams.ADDRESS, address, len(address))
        self.call("channel_create", self.handle, ctypes.byref(params),
                  ctypes.byref(self.channel))
        self.call("channel_wait", self.channel, ctypes.c_uint64(TIMEOUT))

    def open(self, path, gpu, **settings):
        self.lib = ctypes.CDLL(path)
        self.lib.ucxpool_error_detail.restype = ctypes.c_char_p
        self.handle = ctypes.c_void_p()
        config = ctypes.c_void_p()
        self.call("config_read", ctypes.byref(config))
        for key, value in settings.items():
            self.call("config_modify", config, key.encode(), value.encode())
        params = PoolParams(config=config, memory_kind=PoolParams.CUDA,
                            device=gpu)
        params.field_mask = (PoolParams.CONFIG | PoolParams.MEMORY_KIND |
                             PoolParams.DEVICE)
        self.call("create", ctypes.byref(params), ctypes.byref(self.handle))
        self.lib.ucxpool_config_release(config)

    def call(self, name, *arguments):
        status = getattr(self.lib, "ucxpool_" + name)(*arguments)
        if status != 0:
            raise RuntimeError(f"ucxpool_{name}: {status}: " +
                               self.lib.ucxpool_error_detail().decode())

    def address(self):
        address, length = ctypes.c_void_p(), ctypes.c_size_t()
        self.call("address_get", self.handle, ctypes.byref(address),
                  ctypes.byref(length))
        copy = ctypes.string_at(address, length.value)
        self.lib.ucxpool_address_release(address)
        return copy

    def wire(self):
        attr = ChannelAttr()
        self.lib.ucxpool_channel_query(self.channel, ctypes.byref(attr),
                                       ctypes.c_size_t(ctypes.sizeof(attr)))
        return f"{('none', 'map', 'ucx')[attr.wire]}: " \
            f"{attr.wire_reason.decode()}"

    def post(self, is_send, segments, stream):
        request = ctypes.c_void_p()
        params = RequestParams(stream=stream.cuda_stream, timeout_ns=TIMEOUT)
        params.field_mask = RequestParams.TIMEOUT | RequestParams.STREAM
        tag = ctypes.c_uint64(42)
        data = Data(kind=Data.SEGMENTS, count=len(segments),
                    at=ctypes.cast(segments, ctypes.c_void_p))
        if is_send:
            self.call("send", self.channel, ctypes.byref(data), tag,
                      ctypes.byref(params), ctypes.byref(request))
        else:
            self.call("recv", self.handle, self.channel, ctypes.byref(data),
                      tag, ctypes.c_uint64(2**64 - 1),
                      ctypes.byref(params), ctypes.byref(request))
        return request

    def wait(self, request):
        self.call("request_wait", request, ctypes.c_uint64(TIMEOUT))
        self.lib.ucxpool_request_release(request)


# --- memory of all origins --------------------------------------------------

def managed(torch, size):
    """Managed memory as a tensor, which PyTorch treats as host memory."""
    cuda = ctypes.CDLL("libcuda.so.1")
    address = ctypes.c_uint64()
    status = cuda.cuMemAllocManaged(ctypes.byref(address),
                                    ctypes.c_size_t(size), ctypes.c_uint(1))
    if status != 0:
        raise RuntimeError(f"cuMemAllocManaged: {status}")
    array = (ctypes.c_uint8 * size).from_address(address.value)
    return torch.frombuffer(array, dtype=torch.uint8)


def is_expandable(torch, tensor):
    """Is the tensor in an expandable segment?"""
    at = tensor.data_ptr()
    return any(segment["is_expandable"] and
               segment["address"] <= at < segment["address"] +
               segment["total_size"]
               for segment in torch.cuda.memory_snapshot())


def make_tensors(torch, device):
    """Tensors of bytes; the sizes are the same in both processes."""
    def empty(size, **options):
        return torch.empty(size, dtype=torch.uint8, **options)

    tensors = [empty(BIG, device=device)]
    if not is_expandable(torch, tensors[0]):
        raise RuntimeError("PyTorch has no expandable segments")
    # The name depends on the version of PyTorch.
    configure = getattr(torch._C, "_accelerator_setAllocatorSettings", None)
    configure = configure or torch.cuda.memory._set_allocator_settings
    configure("expandable_segments:False")
    rng = random.Random(5)
    for _ in range(200):
        size = rng.choice((1, 100, 4096, 100000, 3000001))
        tensors.append(empty(2 * GUARD + size, device=device))
    tensors.append(managed(torch, MANAGED))
    tensors.append(empty(8 * MIB + 3, pin_memory=True))
    tensors.append(empty(8 * MIB + 7))
    if is_expandable(torch, tensors[1]):
        raise RuntimeError("PyTorch has only expandable segments")
    return tensors


def lay(torch, tensors, data, seed, fill):
    """Split the tensors into segments in random order and fill them with data.
    Returns the segments, and the expected bytes of each tensor."""
    rng = random.Random(seed)
    pieces = []
    for number, tensor in enumerate(tensors):
        at, end = GUARD, tensor.numel() - GUARD
        while at < end:
            length = rng.choice((1, 7, 100, 4096, 4097, 65536, MIB))
            length = min(length, end - at)
            pieces.append((number, at, length))
            at += length
    rng.shuffle(pieces)
    images = [torch.full((t.numel(),), fill, dtype=torch.uint8)
              for t in tensors]
    segments = (Segment * len(pieces))()
    position = 0
    for segment, (number, at, length) in zip(segments, pieces):
        segment.address = tensors[number].data_ptr() + at
        segment.length = length
        images[number][at:at + length] = data[position:position + length]
        position += length
    return segments, images


# --- the two processes ------------------------------------------------------

def write_later(torch, tensors, images, stream):
    """Write host memory at once, and GPU memory by kernels after one that
    waits."""
    staged = []
    for tensor, image in zip(tensors, images):
        if tensor.is_cuda:
            # Use the same kernel: loading another waits for running ones.
            staged.append((tensor, image.to(tensor.device) ^ PATTERN))
        else:
            tensor.copy_(image)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(200_000_000)
        for tensor, source in staged:
            torch.bitwise_xor(source, PATTERN, out=tensor)
    return staged


def transfer(torch, pool, tensors, is_send, seed):
    generator = torch.Generator().manual_seed(seed)
    total = sum(t.numel() - 2 * GUARD for t in tensors)
    data = torch.randint(0, 256, (total,), dtype=torch.uint8,
                         generator=generator)
    segments, images = lay(torch, tensors, data, seed + is_send, 0xfe)
    stream = torch.cuda.Stream()
    first = images
    if not is_send:
        first = [torch.full_like(image, 0xfe) for image in images]
    staged = write_later(torch, tensors, first, stream)
    request = pool.post(is_send, segments, stream)
    was_early = not stream.query()
    pool.wait(request)
    del staged
    if not is_send:
        for number, (tensor, image) in enumerate(zip(tensors, images)):
            if not torch.equal(tensor.cpu(), image):
                raise RuntimeError(f"tensor {number} of {len(tensors)} has "
                                   f"wrong bytes; seed {seed}")
    return len(segments), total, was_early


def work(path, is_send, gpu, seed, pipe):
    import torch
    torch.cuda.set_device(gpu)
    tensors = make_tensors(torch, torch.device("cuda", gpu))
    for wire in ("auto", "ucx"):
        pool = Pool(path, gpu, wire, pipe)
        for message in range(2):
            count, total, was_early = transfer(torch, pool, tensors, is_send,
                                               seed + 2 * message)
            if is_send and not was_early:
                print("the kernels had ended before the message was posted")
        if is_send:
            print(f"{count} segments, {total} bytes: right, over "
                  f"{pool.wire()}", flush=True)
        pipe.send("done")
        pipe.recv()
        pool.lib.ucxpool_destroy(pool.handle)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    num_gpus = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    try:
        import torch
    except ImportError as error:
        print(f"no PyTorch: {error}")
        sys.exit(77)
    if torch.cuda.device_count() < num_gpus:
        print(f"PyTorch sees {torch.cuda.device_count()} GPUs")
        sys.exit(77)
    seed = int.from_bytes(os.urandom(4), "little")
    spawn = multiprocessing.get_context("spawn")
    pipes = spawn.Pipe()
    processes = [spawn.Process(target=work, args=(
        sys.argv[1], side == 0, side % num_gpus, seed, pipes[side]))
        for side in (0, 1)]
    for process in processes:
        process.start()
    for pipe in pipes:
        pipe.close()
    for process in processes:
        process.join(4 * TIMEOUT / 10**9)
    for process in processes:
        process.kill()
        process.join()
    sys.exit(1 if any(process.exitcode for process in processes) else 0)


if __name__ == "__main__":
    main()
