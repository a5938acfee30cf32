"""transfers.py [--gpu] [--rounds N] [--sides LIST] [--works PART] [--json FILE]

Two Python processes exchange buffers: through the pool, through UCXX, through
asyncio's streams, and through sockets in asyncio's loop (in turn, with new
processes in each round). Prints a table of medians: the wall time, and the CPU
time of both sides together. Every byte is compared before anything is timed.

The works with UCXX's own calls (send, recv, send_multi, recv_multi) run the
same code on `ucxx` and on `ucxpool.ucxx`. UCXX uses its blocking progress mode
unless UCXPY_PROGRESS_MODE is set.

With --gpu the buffers are CuPy's arrays; on a host with several GPUs each
process has its own.
"""
import argparse
import asyncio
import collections
import importlib
import json
import os
import resource
import socket
import statistics
import struct
import subprocess
import sys
import time

ALL = ("ucxpool", "ucxx", "streams", "sockets")
UCXX_CALLS = ("ucxpool.ucxx", "ucxx")
ON_GPU = ("ucxpool, GPU", "ucxx, GPU")

# Frames of a message, bytes of each, messages sent, is each answered?
Work = collections.namedtuple("Work", "count length num answered sides")

WORKS = {
    "64 B there and back": Work(1, 64, 3000, True, ALL),
    "100 x 1 MiB": Work(100, 1 << 20, 20, False, ALL),
    "10,000 x 4 KiB": Work(10000, 4096, 40, False, ALL),
    "1 kB there and back, by send() and recv()":
        Work(1, 1000, 3000, True, UCXX_CALLS),
    "64 MB, by send() and recv()": Work(1, 64000000, 20, False, UCXX_CALLS),
    "4,096 x 4 KiB, by send_multi() and recv_multi()":
        Work(4096, 4096, 100, False, UCXX_CALLS),
    "1 GB in 100 arrays": Work(100, 10_000_000, 10, False, ON_GPU),
    "10,000 arrays of 64 KiB": Work(10000, 65536, 10, False, ON_GPU),
}


# --- sides ------------------------------------------------------------------
# Each side has serve(handler) -> port and connect(port) -> end. An end has
# send(frames) and recv(lengths) -> frames.

class Host:
    @staticmethod
    def make(length, value):
        return bytes([value]) * length

    as_bytes = bytes


class Gpu:
    @staticmethod
    def make(length, value):
        import cupy
        return cupy.full(length, value, "u1")

    @staticmethod
    def as_bytes(frame):
        import cupy
        return cupy.asarray(frame).get().tobytes()


class Pool(Host):
    class End:
        def __init__(self, channel):
            self.channel = channel

        async def send(self, frames):
            await self.channel.send(frames)

        async def recv(self, lengths):
            return await (await self.channel.recv()).frames()

    device = None

    def __init__(self):
        import ucxpool
        self.pool = ucxpool.Pool(self.device, **json.loads(
            os.environ.get("BENCHMARK_SETTINGS", "{}")))

    async def serve(self, handler):
        self.listener = self.pool.listen(
            "127.0.0.1:0", lambda channel: handler(self.End(channel)))
        return self.listener.port

    async def connect(self, port):
        return self.End(await self.pool.connect(f"127.0.0.1:{port}"))


class PoolOnGpu(Gpu, Pool):
    device = 0

    class End(Pool.End):
        async def recv(self, lengths):
            import cupy
            return await (await self.channel.recv()).frames(
                lambda length: cupy.empty(length, "u1"))


class Ucxx(Host):
    module = "ucxx"

    class End:
        """The length of a single frame is known, and its memory allocated
        before."""

        def __init__(self, endpoint):
            self.endpoint, self.memory = endpoint, {}

        async def send(self, frames):
            if len(frames) == 1:
                await self.endpoint.send(frames[0])
            else:
                await self.endpoint.send_multi(frames)

        async def recv(self, lengths):
            if len(lengths) > 1:
                return await self.endpoint.recv_multi()
            if lengths[0] not in self.memory:
                self.memory[lengths[0]] = bytearray(lengths[0])
            await self.endpoint.recv(self.memory[lengths[0]])
            return [self.memory[lengths[0]]]

    def __init__(self):
        self.ucxx = importlib.import_module(self.module)

    async def serve(self, handler):
        async def accept(endpoint):
            await handler(self.End(endpoint))

        self.listener = self.ucxx.create_listener(accept, 0)
        return self.listener.port

    async def connect(self, port):
        return self.End(await self.ucxx.create_endpoint("127.0.0.1", port))


class UcxxNames(Ucxx):
    module = "ucxpool.ucxx"


class UcxxOnGpu(Gpu, Ucxx):
    # The settings of distributed-ucxx.
    UCX = {"MAX_RNDV_RAILS": "1", "RNDV_THRESH": "8192",
           "RNDV_FRAG_MEM_TYPE": "cuda"}

    def __init__(self):
        # UCX recognizes GPU memory only if CUDA was initialized before UCX.
        self.make(1, 0)
        for key, value in self.UCX.items():
            os.environ.setdefault(f"UCX_{key}", value)
        super().__init__()

    class End(Ucxx.End):
        async def send(self, frames):
            await self.endpoint.send_multi(frames)

        async def recv(self, lengths):
            return await self.endpoint.recv_multi()


class Streams(Host):
    class End:
        def __init__(self, reader, writer):
            self.reader, self.writer = reader, writer

        async def send(self, frames):
            self.writer.write(struct.pack(f"<{len(frames)}Q",
                                          *map(len, frames)))
            self.writer.writelines(frames)
            await self.writer.drain()

        async def recv(self, lengths):
            said = struct.unpack(f"<{len(lengths)}Q",
                                 await self.reader.readexactly(
                                     8 * len(lengths)))
            return [await self.reader.readexactly(one) for one in said]

    async def serve(self, handler):
        self.server = await asyncio.start_server(
            lambda *pair: handler(self.End(*pair)), "127.0.0.1", 0)
        return self.server.sockets[0].getsockname()[1]

    async def connect(self, port):
        return self.End(*await asyncio.open_connection("127.0.0.1", port))


class Sockets(Host):
    """Joins short frames before it sends them, and receives them as one."""

    class End:
        def __init__(self, sock):
            self.sock, self.loop = sock, asyncio.get_running_loop()

        async def send(self, frames):
            if len(frames) > 1 and len(frames[0]) < 65536:
                frames = [b"".join(frames)]
            for frame in frames:
                await self.loop.sock_sendall(self.sock, frame)

        async def recv(self, lengths):
            if len(lengths) > 1 and lengths[0] < 65536:
                whole = memoryview(await self._recv(sum(lengths)))
                frames, at = [], 0
                for length in lengths:
                    frames.append(whole[at:at + length])
                    at += length
                return frames
            return [await self._recv(length) for length in lengths]

        async def _recv(self, length):
            memory = bytearray(length)
            view = memoryview(memory)
            while len(view) > 0:
                got = await self.loop.sock_recv_into(self.sock, view)
                if got == 0:
                    raise EOFError
                view = view[got:]
            return memory

    async def serve(self, handler):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.setblocking(False)

        async def accept():
            sock, _ = await asyncio.get_running_loop().sock_accept(
                self.listener)
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await handler(self.End(sock))

        self.task = asyncio.create_task(accept())
        return self.listener.getsockname()[1]

    async def connect(self, port):
        sock = socket.socket()
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock,
                                                      ("127.0.0.1", port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self.End(sock)


SIDES = {"ucxpool": Pool, "ucxx": Ucxx, "streams": Streams,
         "sockets": Sockets, "ucxpool.ucxx": UcxxNames,
         "ucxpool, GPU": PoolOnGpu, "ucxx, GPU": UcxxOnGpu}


# --- the two processes ------------------------------------------------------

def processor_time():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def frames_of(side, work):
    count, length = WORKS[work][:2]
    return [SIDES[side].make(length, i % 251) for i in range(count)]


async def server(side, work):
    count, length, num, answered, _ = WORKS[work]
    lengths = [length] * count
    ended = asyncio.get_running_loop().create_future()

    async def handler(end):
        got = await end.recv(lengths)
        if any(SIDES[side].as_bytes(frame) != bytes([i % 251]) * length
               for i, frame in enumerate(got)):
            raise SystemExit(f"{side}: the bytes differ")
        await end.send([SIDES[side].make(1, 0)])
        del got
        begin = processor_time()
        for _ in range(num):
            got = await end.recv(lengths)
            if answered:
                await end.send(got)
        if not answered:
            await end.send([SIDES[side].make(1, 0)])
        used = processor_time() - begin
        await end.recv([1])
        ended.set_result(used)

    one = SIDES[side]()
    print(await one.serve(handler), flush=True)
    print(json.dumps({"processor": await ended}), flush=True)
    os._exit(0)


async def client(side, work, port):
    _, length, num, answered, _ = WORKS[work]
    frames = frames_of(side, work)
    end = await SIDES[side]().connect(int(port))
    await end.send(frames)
    await end.recv([1])
    used, begin = processor_time(), time.perf_counter()
    for _ in range(num):
        await end.send(frames)
        if answered:
            await end.recv([length])
    if not answered:
        await end.recv([1])
    wall = time.perf_counter() - begin
    print(json.dumps({"wall": wall, "processor": processor_time() - used}),
          flush=True)
    await end.send([SIDES[side].make(1, 0)])
    await asyncio.sleep(0.2)
    os._exit(0)


def measure(side, work):
    """Run one round, again if a process fails."""
    for _ in range(3):
        found = one_round(side, work)
        if found is not None:
            return found
        print(f"{side}, {work}: a process failed", file=sys.stderr)
    raise SystemExit(f"{side}, {work}: failed three times")


def gpus():
    """Return the environments of the two processes."""
    if "CUDA_VISIBLE_DEVICES" in os.environ:
        return {}, {}
    import cupy
    last = cupy.cuda.runtime.getDeviceCount() - 1
    return ({"CUDA_VISIBLE_DEVICES": "0"}, {"CUDA_VISIBLE_DEVICES": str(last)})


def one_round(side, work):
    start = [sys.executable, __file__]
    here_has, there_has = (gpus() if WORKS[work].sides is ON_GPU
                           else ({}, {}))
    there = subprocess.Popen([*start, "--serve", side, work],
                             env={**os.environ, **there_has},
                             stdout=subprocess.PIPE, text=True)
    port = there.stdout.readline().strip()
    while not port.isdigit():  # UCX prints warnings on stdout
        port = there.stdout.readline().strip()
    here = subprocess.Popen([*start, "--connect", side, work, port],
                            env={**os.environ, **here_has},
                            stdout=subprocess.PIPE, text=True)
    found = {"wall": 0., "processor": 0.}
    try:
        for process in (here, there):
            said, _ = process.communicate(timeout=60)
            if process.returncode:
                return None
            for key, value in json.loads(said.splitlines()[-1]).items():
                found[key] += value
    except subprocess.TimeoutExpired:
        return None
    finally:
        for process in (here, there):
            process.kill()
            process.wait()
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--sides", default="/".join(SIDES),
                        help="with / between them")
    parser.add_argument("--works",
                        help="run only works with this in their name")
    parser.add_argument("--json")
    parser.add_argument("--serve", nargs=2)
    parser.add_argument("--connect", nargs=3)
    given = parser.parse_args()
    if given.serve:
        asyncio.run(server(*given.serve))
    if given.connect:
        asyncio.run(client(*given.connect))
    os.environ.setdefault("UCXPY_PROGRESS_MODE", "blocking")
    wanted = given.sides.split("/")
    results = {}
    for work in WORKS:
        sides = [one for one in WORKS[work].sides if one in wanted]
        if (not sides or (given.works or "") not in work
                or (WORKS[work].sides is ON_GPU) != given.gpu):
            continue
        for number in range(given.rounds):
            for side in sides[number % len(sides):] + \
                    sides[:number % len(sides)]:
                found = measure(side, work)
                for key, value in found.items():
                    results.setdefault(work, {}).setdefault(
                        side, {}).setdefault(key, []).append(value)
        report(work, results[work])
    if given.json:
        with open(given.json, "w") as file:
            json.dump(results, file, indent=1)


def report(work, found):
    count, length, num, answered, _ = WORKS[work]
    print(f"\n{work}, median of {len(next(iter(found.values()))['wall'])} "
          "rounds")
    for side, values in found.items():
        wall = statistics.median(values["wall"])
        used = statistics.median(values["processor"])
        if answered:
            print(f"  {side:12} {wall / num / 2 * 1e6:8.1f} us one way"
                  f" {used / num / 2 * 1e6:8.1f} us of processor time")
        else:
            amount = count * length * num / 1e9
            print(f"  {side:12} {amount / wall:8.2f} GB/s"
                  f" {used / amount:14.2f} s of processor time a GB")


if __name__ == "__main__":
    main()
