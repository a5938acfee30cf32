"""transfers.py [--rounds N] [--sides LIST] [--works LIST] [--json FILE]

Two Python processes exchange buffers: through the pool, through UCXX, through
asyncio's streams, and through sockets in asyncio's loop (in turns, each round in
new processes). Prints a table of medians: wall time, and processor time of both
sides together. Every byte is compared before anything is timed.
"""
import argparse
import asyncio
import json
import os
import resource
import socket
import statistics
import struct
import subprocess
import sys
import time

# Name: frames of a message, bytes of each, messages there, is each answered?
WORKS = {
    "64 B there and back": (1, 64, 3000, True),
    "100 x 1 MiB": (100, 1 << 20, 10, False),
    "10,000 x 4 KiB": (10000, 4096, 10, False),
}


# --- sides ------------------------------------------------------------------
# Each has serve(handler) -> port, connect(port) -> end; an end has
# send(frames) and recv(lengths) -> frames.

class Pool:
    class End:
        def __init__(self, channel):
            self.channel = channel

        async def send(self, frames):
            await self.channel.send(frames)

        async def recv(self, lengths):
            return await (await self.channel.recv()).frames()

    def __init__(self):
        import ucxpool
        self.pool = ucxpool.Pool(**json.loads(
            os.environ.get("BENCHMARK_SETTINGS", "{}")))

    async def serve(self, handler):
        self.listener = self.pool.listen(
            "127.0.0.1:0", lambda channel: handler(self.End(channel)))
        return self.listener.port

    async def connect(self, port):
        return self.End(await self.pool.connect(f"127.0.0.1:{port}"))


class Ucxx:
    class End:
        def __init__(self, endpoint):
            self.endpoint = endpoint

        async def send(self, frames):
            await self.endpoint.send_multi(frames)

        async def recv(self, lengths):
            return await self.endpoint.recv_multi()

    def __init__(self):
        import ucxx
        self.ucxx = ucxx

    async def serve(self, handler):
        async def accept(endpoint):
            await handler(self.End(endpoint))

        self.listener = self.ucxx.create_listener(accept, 0)
        return self.listener.port

    async def connect(self, port):
        return self.End(await self.ucxx.create_endpoint("127.0.0.1", port))


class Streams:
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


class Sockets:
    """Short frames are joined first, and received as one."""

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
         "sockets": Sockets}


# --- the two processes ------------------------------------------------------

def processor_time():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def frames_of(work):
    count, length, _, _ = WORKS[work]
    return [bytes([i % 251]) * length for i in range(count)]


async def server(side, work):
    count, length, num, answered = WORKS[work]
    frames, lengths = frames_of(work), [length] * count
    ended = asyncio.get_running_loop().create_future()

    async def handler(end):
        got = await end.recv(lengths)
        if [bytes(one) for one in got] != frames:
            raise SystemExit(f"{side}: the bytes differ")
        await end.send([b"k"])
        del got
        begin = processor_time()
        for _ in range(num):
            got = await end.recv(lengths)
            if answered:
                await end.send(got)
        if not answered:
            await end.send([b"k"])
        used = processor_time() - begin
        await end.recv([1])
        ended.set_result(used)

    one = SIDES[side]()
    print(await one.serve(handler), flush=True)
    print(json.dumps({"processor": await ended}), flush=True)
    os._exit(0)


async def client(side, work, port):
    _, length, num, answered = WORKS[work]
    frames = frames_of(work)
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
    await end.send([b"k"])
    await asyncio.sleep(0.2)
    os._exit(0)


def measure(side, work):
    start = [sys.executable, __file__]
    there = subprocess.Popen([*start, "--serve", side, work],
                             stdout=subprocess.PIPE, text=True)
    port = there.stdout.readline().strip()
    while not port.isdigit():  # UCX warns on stdout
        port = there.stdout.readline().strip()
    here = subprocess.Popen([*start, "--connect", side, work, port],
                            stdout=subprocess.PIPE, text=True)
    found = {"wall": 0., "processor": 0.}
    for process in (here, there):
        said, _ = process.communicate(timeout=120)
        if process.returncode:
            raise SystemExit(f"{side}, {work}: a process failed")
        for key, value in json.loads(said.splitlines()[-1]).items():
            found[key] += value
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--sides", default=",".join(SIDES))
    parser.add_argument("--works", help="a part of their names")
    parser.add_argument("--json")
    parser.add_argument("--serve", nargs=2)
    parser.add_argument("--connect", nargs=3)
    given = parser.parse_args()
    if given.serve:
        asyncio.run(server(*given.serve))
    if given.connect:
        asyncio.run(client(*given.connect))
    sides = given.sides.split(",")
    results = {}
    for work in WORKS:
        if given.works and given.works not in work:
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
    count, length, num, answered = WORKS[work]
    print(f"\n{work}, median of {len(next(iter(found.values()))['wall'])} "
          "rounds")
    for side, values in found.items():
        wall = statistics.median(values["wall"])
        used = statistics.median(values["processor"])
        if answered:
            print(f"  {side:10} {wall / num / 2 * 1e6:8.1f} us one way"
                  f" {used / num / 2 * 1e6:8.1f} us of processor time")
        else:
            amount = count * length * num / 1e9
            print(f"  {side:10} {amount / wall:8.2f} GB/s"
                  f" {used / amount:14.2f} s of processor time a GB")


if __name__ == "__main__":
    main()
